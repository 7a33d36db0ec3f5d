//! Header, lists, library and the standard ABI agree.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "../abi/header.rs"]
mod header;
#[path = "../abi/table.rs"]
mod table;

/// Directory of another library's `mpi_abi.h`, to compare with.
const OTHER: &str = "CAUSEWAY_MPI_ABI_INCLUDE";

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn the_header_is_that_of_the_lists() {
    let written = std::fs::read_to_string(here("include/mpi.h")).expect("the header");
    let made = header::write();
    assert!(
        written == made,
        "make it anew: cargo run -p causeway-mpi-c --example header >crates/mpi-c/include/mpi.h"
    );
}

/// A C file of assertions about the ABI: values of all constants, layouts, and types of all functions.
fn assertions() -> String {
    let mut code = String::from("#include <stddef.h>\n");
    let list = std::fs::read_to_string(here("../mpi/abi/constants.txt")).expect("the list");
    let mut kind = "";
    for line in list
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if let Some(section) = line.strip_prefix('[') {
            kind = section.trim_end_matches(']');
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let (name, value) = (words[0], words[words.len() - 1]);
        let check = match kind.split(' ').next() {
            _ if words.get(1) == Some(&"=") => format!("MPI_{name} == MPI_{value}"),
            Some("handle" | "pointer") => format!("(intptr_t)MPI_{name} == {value}"),
            _ => format!("MPI_{name} == {value}"),
        };
        code += &format!("_Static_assert({check}, \"{name}\");\n");
    }
    for (what, value) in [
        ("sizeof(MPI_Status)", 32),
        ("offsetof(MPI_Status, MPI_SOURCE)", 0),
        ("offsetof(MPI_Status, MPI_TAG)", 4),
        ("offsetof(MPI_Status, MPI_ERROR)", 8),
        ("sizeof(MPI_Aint)", 8),
        ("sizeof(MPI_Count)", 8),
        ("sizeof(MPI_Offset)", 8),
        ("MPI_VERSION", 5),
        ("MPI_ABI_VERSION", 1),
    ] {
        code += &format!("_Static_assert({what} == {value}, \"{what}\");\n");
    }
    for function in table::read(include_str!("../abi/functions.txt")) {
        for (name, large) in function.names() {
            let params = function.params.iter().map(|param| param.declaration(large));
            let params = Vec::from_iter(params).join(", ");
            let params = if params.is_empty() { "void" } else { &params };
            // A second declaration of another type is an error.
            code += &format!("{} {name}({params});\n", function.result);
        }
    }
    code
}

fn compiles(include: &Path, header: &str) {
    let scratch = tempfile::tempdir().expect("a directory");
    let file = scratch.path().join("abi.c");
    std::fs::write(&file, format!("#include <{header}>\n{}", assertions())).expect("a file");
    let output = Command::new("cc")
        .args(["-std=c11", "-fsyntax-only", "-I"])
        .arg(include)
        .arg(&file)
        .output()
        .expect("a C compiler");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", include.display());
}

#[test]
fn values_layouts_and_types_are_those_of_the_abi() {
    compiles(&here("include"), "mpi.h");
    if let Some(other) = std::env::var_os(OTHER) {
        compiles(Path::new(&other), "mpi_abi.h");
    }
}

#[test]
fn lists_of_other_functions_have_other_fingerprints() {
    let list = include_str!("../abi/functions.txt");
    let fingerprint = table::fingerprint(list);
    assert_eq!(
        table::fingerprint(&format!("# A comment.\n{list}")),
        fingerprint
    );
    assert_ne!(
        table::fingerprint(&format!("{list}\nstart Another()")),
        fingerprint
    );
}

#[test]
fn functions_are_listed_once_and_none_is_missing() {
    let functions = table::read(include_str!("../abi/functions.txt"));
    let names: BTreeSet<&str> = functions
        .iter()
        .map(|function| function.name.as_str())
        .collect();
    assert_eq!(names.len(), functions.len());
    let missing = functions.iter().filter(|function| function.module == "-");
    let missing: Vec<&str> = missing.map(|function| function.name.as_str()).collect();
    assert!(missing.is_empty(), "not implemented: {missing:?}");
}
