//! Makes the exported functions from their list: each converts its arguments and calls what implements it.

#[path = "abi/table.rs"]
mod table;

use std::fmt::Write;
use std::path::Path;

use table::{Function, Param};

/// The Rust type of a parameter.
fn rust_type(param: &Param, large: bool) -> String {
    let c = param.c_type(large);
    let (constant, bare) = match c.strip_prefix("const ") {
        Some(rest) => (true, rest),
        None => (false, c.as_str()),
    };
    let stars = bare.matches('*').count() + param.array.matches("[]").count();
    let base = bare.trim_end_matches(['*', ' ']);
    let mut ty = match base {
        "void" => "c_void".to_owned(),
        "char" => "c_char".to_owned(),
        "int" | "MPI_T_cb_safety" | "MPI_T_source_order" => "c_int".to_owned(),
        "MPI_Offset" | "MPI_Count" | "MPI_Aint" => "i64".to_owned(),
        "MPI_Status" => "Status".to_owned(),
        function if function.ends_with("_function") || function.ends_with("_function_c") => {
            return "Callback".to_owned();
        }
        _ => "Handle".to_owned(),
    };
    if param.array.contains("[3]") {
        ty = format!("[{ty}; 3]");
    }
    for star in 0..stars {
        // Only what is pointed to directly is constant.
        let how = if constant && star == 0 {
            "const"
        } else {
            "mut"
        };
        ty = format!("*{how} {ty}");
    }
    ty
}

/// How a parameter is handed on.
fn argument(param: &Param, large: bool) -> String {
    let name = identifier(&param.name);
    let points = param.ty.contains('*') || param.array.contains('[');
    match param.word() {
        None | Some(("EXTENT", ..)) => name,
        Some(_) if !points => format!("i64::from({name})"),
        Some(_) => {
            let size = if large { "Large" } else { "Small" };
            let kind = if param.ty.contains("const") {
                "Numbers"
            } else {
                "NumbersOut"
            };
            format!("{kind}::{size}({name})")
        }
    }
}

fn identifier(name: &str) -> String {
    match name {
        "type" | "fn" | "in" | "ref" => format!("{name}_"),
        _ => name.to_owned(),
    }
}

/// The object whose error handler is called.
fn object(function: &Function) -> String {
    let mut params = function.params.iter();
    let file = function.params.iter().find(|param| param.ty == "MPI_File");
    match (function.name.as_str(), file) {
        (name, _) if name.starts_with("T_") => return "Object::Tool".to_owned(),
        // What concerns no open file goes to the error handler of none (MPI 5.0 §14.7).
        ("File_open" | "File_delete" | "Register_datarep" | "Register_datarep_c", _) => {
            return "Object::File(causeway_mpi::abi::FILE_NULL)".to_owned();
        }
        ("File_close", _) => return "Object::File(unsafe { fh.read() })".to_owned(),
        (_, Some(file)) => return format!("Object::File({})", file.name),
        _ => {}
    }
    let communicator = params.find(|param| param.ty == "MPI_Comm" && param.array.is_empty());
    let mut params = function.params.iter();
    let session = params.find(|param| param.ty == "MPI_Session");
    let mut params = function.params.iter();
    let window = params.find(|param| param.ty == "MPI_Win");
    match (communicator, session, window) {
        (Some(param), _, _) => format!("Object::Communicator({})", identifier(&param.name)),
        (_, Some(param), _) => format!("Object::Session({})", identifier(&param.name)),
        (_, _, Some(param)) => format!("Object::Window({})", identifier(&param.name)),
        (None, None, None) => "Object::None".to_owned(),
    }
}

fn write_function(code: &mut String, function: &Function, name: &str, large: bool) {
    let params = function.params.iter().filter(|param| param.ty != "...");
    let typed = params
        .clone()
        .map(|param| format!("{}: {}", identifier(&param.name), rust_type(param, large)));
    let typed = Vec::from_iter(typed).join(", ");
    let names = Vec::from_iter(params.clone().map(|param| identifier(&param.name))).join(", ");
    let result = match function.result.as_str() {
        "int" => "c_int",
        "double" => "f64",
        "MPI_Aint" => "i64",
        _ => "Handle",
    };
    let arguments = Vec::from_iter(params.map(|param| argument(param, large))).join(", ");
    let body = match &function.module {
        None => {
            format!(
                "{{ {} }} call(\"{name}\", {}, || Err(unsupported()))",
                if names.is_empty() {
                    String::new()
                } else {
                    format!("let _ = ({names},);")
                },
                object(function)
            )
        }
        Some(module) => {
            let direct = module.strip_prefix('=');
            let module = direct.unwrap_or(module);
            let (module, arguments) = match module.strip_suffix('!') {
                Some(module) => (module, format!("{arguments}, {large}")),
                None => (module, arguments),
            };
            let target = format!(
                "crate::{}::{}({arguments})",
                module,
                function.name.to_lowercase()
            );
            match direct {
                // SAFETY comments stand here once for all of them: see `exports`.
                Some(_) => format!("unsafe {{ {target} }}"),
                None => format!(
                    "call(\"{name}\", {}, || unsafe {{ {target} }})",
                    object(function)
                ),
            }
        }
    };
    let _ = writeln!(
        code,
        "#[unsafe(no_mangle)]\npub(crate) unsafe extern \"C\" fn P{name}({typed}) -> {result} {{ {body} }}\n\
         #[unsafe(no_mangle)]\npub(crate) unsafe extern \"C\" fn {name}({typed}) -> {result} {{ unsafe {{ P{name}({names}) }} }}"
    );
}

fn main() {
    for path in ["abi/functions.txt", "abi/table.rs", "build.rs"] {
        println!("cargo:rerun-if-changed={path}");
    }
    let list = std::fs::read_to_string("abi/functions.txt").expect("abi/functions.txt");
    let functions = table::read(&list);
    let mut code = String::new();
    let mut map = String::from("MPI_ABI_1 {\n    global:\n");
    for function in &functions {
        for (name, large) in function.names() {
            write_function(&mut code, function, &name, large);
            let _ = writeln!(map, "        {name};\n        P{name};");
        }
    }
    map.push_str("    local:\n        *;\n};\n");
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    std::fs::write(Path::new(&out).join("functions.rs"), code).expect("OUT_DIR");
    std::fs::write(Path::new(&out).join("mpi_abi.map"), map).expect("OUT_DIR");
}
