//! What every command needs of a file system: its configuration, paths, entries of directories, and
//! remedies for its errors.

use std::path::Path;

use causeway_fs::Error;
use causeway_fs::client::Client;
use causeway_fs::config::{ConfigError, Configuration};
use causeway_wire::fs::{Entry, Errno, ObjectId};

use crate::failure::{Failure, Outcome};
use crate::output::{escaped, printable};

/// Bytes that a command moves between its memory and a file at a time.
pub const PIECE_BYTES: usize = 4 << 20;
/// Entries of a directory that are requested at a time.
const PAGE_ENTRIES: u32 = 1000;

/// Whether a server did not reply, or could not be reached.
fn is_silence(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::ECONNREFUSED | Errno::EHOSTUNREACH | Errno::ETIMEDOUT | Errno::ECONNRESET
    )
}

/// Whether other operations would fail the same way: a server is out of reach, or full.
pub fn is_fatal(errno: Errno) -> bool {
    let is_refused = matches!(
        errno,
        Errno::ENOKEY | Errno::EKEYREJECTED | Errno::WRONG_TARGET | Errno::ENOSPC | Errno::EROFS
    );
    is_refused || is_silence(errno)
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let hint = error.advice().map(str::to_owned);
        // A server's text is escaped like a name: it cannot drive a terminal either.
        let mut why = escaped(&error.message);
        if why.is_empty() {
            why = error.errno.to_string();
        }
        if let Some(server) = &error.server {
            why.push_str(&format!(" (server {server})"));
        }
        Self {
            hint,
            fatal: is_fatal(error.errno),
            no_reply: is_silence(error.errno),
            item: Some(error.subject.clone()),
            ..Self::new(format!("{} {}", error.operation, error.subject), why)
        }
    }
}

/// Reads and checks a configuration file.
pub fn load(file: &Path) -> Outcome<Configuration> {
    Configuration::load(file).map_err(unreadable)
}

/// The failure of a command that cannot use its configuration.
pub fn unreadable(error: ConfigError) -> Failure {
    let place = match error.line {
        0 => error.file.clone(),
        line => format!("{}:{line}", error.file),
    };
    let failure = Failure::usage(format!("reading the configuration {place}"), error.message);
    match error.line {
        0 => failure,
        _ => failure.hint("correct that line, or write a new file with `causeway fs init`"),
    }
}

/// `directory/name`.
pub fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = directory.to_vec();
    if path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// The last component of a path; empty for the root.
pub fn base_name(path: &[u8]) -> &[u8] {
    path.get(last_component(path)).unwrap_or_default()
}

/// The path without its last component; the root is above itself.
pub fn parent_of(path: &[u8]) -> &[u8] {
    match path.get(..last_component(path).start) {
        Some(parent) if !parent.is_empty() => parent,
        _ => b"/",
    }
}

fn last_component(path: &[u8]) -> std::ops::Range<usize> {
    let end = path.iter().rposition(|byte| *byte != b'/');
    let end = end.map_or(0, |last| last + 1);
    let inside = path.get(..end).unwrap_or_default();
    let start = inside.iter().rposition(|byte| *byte == b'/');
    start.map_or(0, |slash| slash + 1)..end
}

/// Whether an error means that a name does not exist.
pub fn is_missing(error: &Error) -> bool {
    error.errno == Errno::ENOENT
}

/// Whether an error means that a name exists already.
pub fn exists_already(error: &Error) -> bool {
    error.errno == Errno::EEXIST
}

/// Whether an error means that an object has been removed: its name may lead to another one.
pub fn is_gone(error: &Error) -> bool {
    error.errno == Errno::ESTALE
}

/// An error of reading the file that has this path.
pub fn reading(path: &[u8], error: Error) -> Failure {
    let gone = is_gone(&error);
    Failure {
        gone,
        ..about(path, error)
    }
}

/// An error about the object at this path, if the server's error identifies it only by number.
pub fn about(path: &[u8], error: Error) -> Failure {
    Failure::from(Error {
        subject: printable(path),
        ..error
    })
}

/// Calls `each` for every entry of the directory at this path, in the order of names. A directory
/// that is removed meanwhile has no more entries.
pub fn each_entry(
    client: &mut Client,
    (directory, path): (ObjectId, &[u8]),
    mut each: impl FnMut(&mut Client, Entry) -> Outcome,
) -> Outcome {
    let mut after = Vec::new();
    loop {
        let (entries, end) = match client.read_directory(directory, &after, PAGE_ENTRIES, true) {
            Err(error) if is_gone(&error) => return Ok(()),
            page => page.map_err(|error| about(path, error))?,
        };
        let Some(last) = entries.last() else {
            return Ok(());
        };
        after = last.name.clone();
        for entry in entries {
            each(client, entry)?;
        }
        if end {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_and_joined() {
        assert_eq!(join(b"/", b"a"), b"/a");
        assert_eq!(join(b"/a", b"b"), b"/a/b");
        assert_eq!(base_name(b"/a/b"), b"b");
        assert_eq!(base_name(b"/a/b//"), b"b");
        assert_eq!(base_name(b"/"), b"");
        assert_eq!(base_name(b""), b"");
        assert_eq!(parent_of(b"/a/b"), b"/a/");
        assert_eq!(parent_of(b"/a/a//"), b"/a/");
        assert_eq!(parent_of(b"/a"), b"/");
        assert_eq!(parent_of(b"/"), b"/");
    }
}
