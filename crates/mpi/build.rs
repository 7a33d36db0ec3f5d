//! Makes the constants of the ABI from their list.

use std::fmt::Write;
use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=abi/constants.txt");
    println!("cargo:rerun-if-changed=build.rs");
    let list = std::fs::read_to_string("abi/constants.txt").expect("abi/constants.txt");
    let mut code = String::new();
    let mut kind = "";
    for line in list.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(section) = line.strip_prefix('[') {
            kind = section.trim_end_matches(']');
            continue;
        }
        let mut words = line.split_whitespace();
        let (name, value) = (words.next().expect("a name"), words.next_back());
        let value = value.expect("a value");
        // The pair types' names begin with a digit.
        let name = match name.starts_with(char::is_numeric) {
            true => format!("PAIR_{name}"),
            false => name.to_owned(),
        };
        let ty = match kind.split(' ').next() {
            Some("handle" | "pointer") => "usize",
            _ => "i32",
        };
        writeln!(
            code,
            "#[doc = \"`MPI_{name}`\"]\npub const {name}: {ty} = {value};"
        )
        .expect("a string has room");
    }
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    std::fs::write(Path::new(&out).join("constants.rs"), code).expect("OUT_DIR");
}
