//! The cluster's key: 64 hexadecimal digits in a file that only its owner may read.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Reads and checks a key file; the error is a sentence.
pub(super) fn read(path: &Path) -> Result<[u8; 32], String> {
    let name = path.display();
    let file = std::fs::File::open(path).map_err(|error| {
        format!(
            "the key file {name} cannot be read: {error}; \
             `causeway fs init` makes one, and it must be copied to every node"
        )
    })?;
    let metadata = file
        .metadata()
        .map_err(|error| format!("the key file {name}: {error}"))?;
    if !metadata.is_file() {
        return Err(format!("the key file {name} is not a regular file"));
    }
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(format!(
            "the key file {name} has mode {mode:03o}: others than its owner may use it; \
             `chmod 600 {name}` and consider the key known"
        ));
    }
    let mut text = String::new();
    file.take(4096)
        .read_to_string(&mut text)
        .map_err(|error| format!("the key file {name} cannot be read: {error}"))?;
    decode(text.trim())
        .ok_or_else(|| format!("the key file {name} does not hold exactly 64 hexadecimal digits"))
}

fn decode(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut key = [0; 32];
    for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(key)
}
