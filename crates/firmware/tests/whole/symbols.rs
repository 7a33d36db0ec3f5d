//! The program runs where there is no operating system: its compiled library and that of `wire` need
//! nothing but `core`, `alloc` and the symbols that every compiler provides.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Symbols that compiled code may need beside Rust's own `core` and `alloc`.
const ALLOWED: &[&str] = &[
    "memcpy",
    "memmove",
    "memset",
    "memcmp",
    "bcmp",
    "strlen",
    "_Unwind_Resume",
    "rust_eh_personality",
    "_GLOBAL_OFFSET_TABLE_",
];

/// The libraries that are checked.
const LIBRARIES: [&str; 3] = ["libcauseway_firmware", "libcauseway_wire", "libsmallvec"];

/// Whether a library for bare machines may leave this symbol to others.
fn is_allowed(symbol: &str) -> bool {
    let rust = symbol.starts_with("_R") || symbol.starts_with("_ZN");
    // Both manglings spell a crate's name behind its length.
    let of_std = ["_3std", "3std9", "_ZN3std", "3std2", "3std3"];
    match rust {
        true => !of_std.iter().any(|mark| symbol.contains(mark)),
        false => {
            ALLOWED.contains(&symbol)
                // Arithmetic on wide integers, by compiler-builtins.
                || symbol.starts_with("__") && symbol.ends_with("ti3")
                || symbol.starts_with("anon.")
        }
    }
}

/// Builds the library as for a bare machine, in a build of its own, so that features of other rooms do not change how
/// its dependencies are compiled. Returns what cargo says it has made of the program and of what it is linked with: the
/// directory may hold libraries of earlier builds as well.
fn build() -> Vec<PathBuf> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bare");
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--lib", "--locked", "--offline"])
        .args(["--message-format", "json"])
        .args(["--package", "causeway-firmware"])
        .args(["--config", "profile.dev.opt-level=3"])
        .arg("--target-dir")
        .arg(&target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the library builds: {errors}");
    let messages = String::from_utf8_lossy(&output.stdout);
    let words = messages.split('"').map(Path::new);
    let libraries = words.filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        LIBRARIES.iter().any(|of| name.starts_with(of)) && name.ends_with(".rlib")
    });
    let mut libraries: Vec<_> = libraries.map(Path::to_owned).collect();
    libraries.sort();
    libraries.dedup();
    libraries
}

/// Symbols that the libraries leave to others.
fn undefined(libraries: &[PathBuf]) -> Vec<String> {
    let output = Command::new("nm")
        .args(["--undefined-only", "--format=just-symbols"])
        .args(libraries)
        .output()
        .expect("nm of the binutils, which come with every linker, runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let symbols = text.lines().map(str::trim);
    symbols
        .filter(|line| !line.is_empty() && !line.ends_with(':'))
        .map(str::to_owned)
        .collect()
}

#[test]
fn no_symbol_of_an_operating_system_is_needed() {
    let libraries = build();
    assert_eq!(libraries.len(), LIBRARIES.len(), "{libraries:?}");
    let symbols = undefined(&libraries);
    assert!(symbols.len() > 20, "nm lists the symbols: {symbols:?}");
    let refused: Vec<_> = symbols
        .iter()
        .filter(|symbol| !is_allowed(symbol))
        .collect();
    assert!(refused.is_empty(), "{refused:?}");
}

/// The check itself works.
#[test]
fn symbols_of_an_operating_system_are_found() {
    for symbol in [
        "write",
        "malloc",
        "pthread_create",
        "clock_gettime",
        "_ZN3std2io5stdio6_print17h0123456789abcdefE",
        "_RNvNtNtCsabc_3std2io5stdio6__print",
    ] {
        assert!(!is_allowed(symbol), "{symbol}");
    }
    for symbol in [
        "memcpy",
        "__udivti3",
        "_ZN4core9panicking5panic17h0123456789abcdefE",
    ] {
        assert!(is_allowed(symbol), "{symbol}");
    }
}
