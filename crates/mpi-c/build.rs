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
        ("File_close", _) => return "Object::File(unsafe { read_or_null(fh) })".to_owned(),
        // What makes a first object has an argument for the handler of its errors.
        ("Session_init" | "Comm_create_from_group" | "Intercomm_create_from_groups", _) => {
            return "Object::Handler(errhandler)".to_owned();
        }
        // A handle that is set to null when the object is freed.
        ("Comm_free" | "Comm_disconnect", _) => {
            return "Object::Communicator(unsafe { read_or_null(comm) })".to_owned();
        }
        ("Win_free", _) => return "Object::Window(unsafe { read_or_null(win) })".to_owned(),
        ("Session_finalize", _) => {
            return "Object::Session(unsafe { read_or_null(session) })".to_owned();
        }
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

/// Refuses null where the function reads or writes one value. The standard allows it for statuses and the arguments of `main`; lengths
/// of texts are left out if a program does not want them.
fn checks(function: &Function) -> String {
    let is_value = |param: &&Param| {
        let base = param.ty.strip_suffix('*').map(str::trim);
        let other = ["void", "char", "MPI_Status"];
        // Functions may be none.
        let is_function = rust_type(param, false) == "Callback";
        param.array.is_empty()
            && !is_function
            && !["argc", "resultlen"].contains(&param.name.as_str())
            && base.is_some_and(|base| {
                !base.contains(['*', ' '])
                    && !other.contains(&base)
                    && !function.name.starts_with("T_")
            })
    };
    let values = function.params.iter().filter(is_value);
    let checked = values.map(|param| {
        format!(
            "not_null({}, \"{}\")?; ",
            identifier(&param.name),
            param.name
        )
    });
    String::from_iter(checked)
}

/// Whether a launcher is shown the calls of a function: those that communicate, or wait.
fn is_observed(function: &Function) -> bool {
    const MODULES: [&str; 10] = [
        "point",
        "request",
        "collective",
        "neighbours",
        "access",
        "partitioned",
        "window",
        "file",
        "file_access",
        "graphs",
    ];
    const OTHERS: [&str; 14] = [
        "Comm_dup",
        "Comm_idup",
        "Comm_split",
        "Comm_create",
        "Comm_free",
        "Comm_spawn",
        "Comm_accept",
        "Comm_connect",
        "Comm_disconnect",
        "Comm_join",
        "Intercomm_",
        "Cart_create",
        "Finalize",
        "Buffer_",
    ];
    const LOCAL: [&str; 6] = ["_get", "Get_", "_set", "Status_", "_count", "_test_inter"];
    let name = function.name.as_str();
    let module = function.module.trim_end_matches('!');
    // These move data all the same.
    let moves = name.starts_with("Get_accumulate") || name.starts_with("Rget");
    let local = !moves && LOCAL.iter().any(|part| name.contains(part));
    let listed = MODULES.contains(&module) || OTHERS.iter().any(|front| name.starts_with(front));
    function.result == "int" && !module.starts_with('=') && listed && !local
}

/// The record of a call for observers: its name, its number in the list, and the arguments that name its peer.
fn observed_call(function: &Function, name: &str, number: usize, large: bool) -> String {
    let plain = |param: &&Param| param.array.is_empty() && !param.ty.contains('*');
    let find = |names: &[&str]| {
        names.iter().find_map(|name| {
            let found = function.params.iter().filter(plain);
            let mut found = found.filter(|param| param.name == *name);
            found.next()
        })
    };
    let number_of =
        |names: &[&str]| find(names).map_or("NONE".to_owned(), |param| identifier(&param.name));
    let peer = number_of(&["source", "dest", "target_rank", "root", "rank"]);
    let tag = number_of(&["recvtag", "tag", "sendtag"]);
    let mut handles = function.params.iter().filter(plain);
    let object =
        handles.find(|param| ["MPI_Comm", "MPI_Win", "MPI_File"].contains(&param.ty.as_str()));
    let object = object.map_or("0".to_owned(), |param| identifier(&param.name));
    let counted = find(&["sendcount", "origin_count", "count", "recvcount"]);
    let datatype = find(&["sendtype", "origin_datatype", "datatype", "recvtype"]);
    let (count, datatype) = match (counted, datatype) {
        (Some(count), Some(datatype)) if count.c_type(large) != "MPI_Datatype" => (
            format!("i64::from({})", identifier(&count.name)),
            identifier(&datatype.name),
        ),
        _ => ("0".to_owned(), "0".to_owned()),
    };
    format!(
        "Call {{ name: \"{name}\", function: {number}, peer: {peer}, tag: {tag}, object: {object}, \
         count: {count}, datatype: {datatype} }}"
    )
}

fn write_function(
    code: &mut String,
    (function, number): (&Function, usize),
    name: &str,
    large: bool,
) {
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
    let direct = function.module.strip_prefix('=');
    let module = direct.unwrap_or(&function.module);
    let (module, arguments) = match module.strip_suffix('!') {
        Some(module) => (module, format!("{arguments}, {large}")),
        None => (module, arguments),
    };
    let target = format!(
        "crate::{}::{}({arguments})",
        module,
        function.name.to_lowercase()
    );
    let checks = checks(function);
    let body = match direct {
        // SAFETY comments stand here once for all of them: see `exports`.
        Some(_) => format!("unsafe {{ {target} }}"),
        None if is_observed(function) => format!(
            "let call_ = || {}; let began = begin(call_()); \
             let result = call(\"{name}\", {}, || {{ {checks}unsafe {{ {target} }} }}); end(began, call_); result",
            observed_call(function, name, number, large),
            object(function)
        ),
        None => format!(
            "call(\"{name}\", {}, || {{ {checks}unsafe {{ {target} }} }})",
            object(function)
        ),
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
    let mut number = 0;
    for function in &functions {
        for (name, large) in function.names() {
            write_function(&mut code, (function, number), &name, large);
            number += 1;
            let _ = writeln!(map, "        {name};\n        P{name};");
        }
    }
    let _ = writeln!(
        code,
        "/// Of the list that the numbers of functions belong to.\npub(crate) const LIST: u64 = {};",
        table::fingerprint(&list)
    );
    map.push_str("    local:\n        *;\n};\n");
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    std::fs::write(Path::new(&out).join("functions.rs"), code).expect("OUT_DIR");
    std::fs::write(Path::new(&out).join("mpi_abi.map"), map).expect("OUT_DIR");
}
