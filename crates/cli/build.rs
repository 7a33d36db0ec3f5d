//! Passes a number that identifies the simulator's source to the program, which is built with it.

use std::path::{Path, PathBuf};

/// Everything from which the simulator is built, and which therefore determines its results.
const SIMULATOR: [&str; 6] = [
    "../sim/src",
    "../sim/profiles",
    "../firmware/src",
    "../cosched/src",
    "../wire/src",
    "../../Cargo.lock",
];

/// All files below `path`, in the order of their names.
fn files(path: &Path, found: &mut Vec<PathBuf>) {
    match std::fs::read_dir(path) {
        Err(_) => found.push(path.to_owned()),
        Ok(entries) => {
            let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            paths.sort();
            for path in &paths {
                files(path, found);
            }
        }
    }
}

/// A number that changes with the simulator's source (FNV-1a, 64 bit).
fn simulator() -> u64 {
    let mut paths = Vec::new();
    for path in SIMULATOR {
        println!("cargo:rerun-if-changed={path}");
        files(Path::new(path), &mut paths);
    }
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        let length = (bytes.len() as u64).to_le_bytes();
        for byte in length.iter().chain(bytes) {
            digest = (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for path in paths {
        add(path.to_string_lossy().as_bytes());
        add(&std::fs::read(&path).unwrap_or_default());
    }
    digest
}

fn main() {
    println!("cargo:rustc-env=CAUSEWAY_SIMULATOR={:016x}", simulator());
    println!("cargo:rerun-if-changed=build.rs");
}
