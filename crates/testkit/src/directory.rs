//! Temporary directories with names that are short enough for Unix sockets.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tempfile::TempDir;

/// Longest path of a Unix socket on Linux, without the terminating zero.
const MAX_SOCKET_PATH_BYTES: usize = 107;
/// Room that a test's own file names need below the directory.
const NAME_BYTES: usize = 40;

/// A fresh directory, removed with everything in it when dropped. Its name is short enough for the
/// path of a Unix socket inside it, wherever `TMPDIR` points.
///
/// # Panics
/// If no directory can be made.
pub fn fresh() -> TempDir {
    let usual = std::env::temp_dir();
    let place = if usual.as_os_str().len() + NAME_BYTES < MAX_SOCKET_PATH_BYTES {
        usual.as_path()
    } else {
        Path::new("/tmp")
    };
    tempfile::Builder::new()
        .prefix("cw-")
        .tempdir_in(place)
        .unwrap_or_else(|error| panic!("no temporary directory in {}: {error}", place.display()))
}

/// Addresses of shared memory, all different, in a directory of their own. That is made with the first
/// address: a process that is going to be killed needs none.
#[derive(Debug, Default)]
pub struct ShmAddresses {
    directory: OnceLock<TempDir>,
    given: AtomicU64,
}

impl ShmAddresses {
    /// One that was not given before.
    pub fn fresh(&self) -> String {
        let number = self.given.fetch_add(1, Relaxed);
        let directory = self.directory.get_or_init(fresh);
        format!("shm://{}/{number}", directory.path().display())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_directory_is_fresh_and_vanishes() {
        let (one, other) = (super::fresh(), super::fresh());
        assert_ne!(one.path(), other.path());
        let path = one.path().to_owned();
        std::fs::write(path.join("file"), b"x").expect("writable");
        drop(one);
        assert!(!path.exists());
    }
}
