//! The tree that the demonstration stores: an existing one, or one that is generated.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use causeway_command::failure::{Doing, Failure, Outcome};
use causeway_command::output::printable;
use causeway_wire::random::SplitMix64;
use serde::{Deserialize, Serialize};

/// A path's bytes in JSON: text where that is possible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Name {
    Text(String),
    Bytes(Vec<u8>),
}

impl Name {
    /// Wraps bytes.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Bytes(bytes.to_owned()),
        }
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// A file or symbolic link of the tree.
#[derive(Debug, Clone)]
pub(crate) struct Leaf {
    /// The path below the top.
    pub(crate) path: Vec<u8>,
    /// The content's size in bytes.
    pub(crate) size: u64,
    /// Whether it is a symbolic link.
    pub(crate) link: bool,
}

/// A directory of the tree.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    /// The path below the top; empty for the top itself.
    pub(crate) path: Vec<u8>,
    /// Permission bits.
    pub(crate) mode: u16,
}

/// Everything below a directory.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// The directory.
    pub(crate) top: PathBuf,
    /// Files and links.
    pub(crate) leaves: Vec<Leaf>,
    /// Directories, each before its entries.
    pub(crate) directories: Vec<Directory>,
    /// Bytes of all files.
    pub(crate) bytes: u64,
    /// Special files that were left out.
    pub(crate) skipped: u64,
}

impl Tree {
    /// The path of the file or link of this number, for people.
    pub(crate) fn shown(&self, number: usize) -> String {
        let leaf = self.leaves.get(number);
        leaf.map_or_else(String::new, |leaf| printable(&leaf.path))
    }
}

/// Lists a tree.
pub(crate) fn scan(top: &Path) -> Outcome<Tree> {
    let mut tree = Tree {
        top: top.to_owned(),
        ..Tree::default()
    };
    let metadata = std::fs::metadata(top).doing(|| format!("reading {}", top.display()))?;
    if !metadata.is_dir() {
        let what = format!("reading {}", top.display());
        return Err(
            Failure::usage(what, "the tree is not a directory").hint("give --tree a directory")
        );
    }
    let mut waiting = vec![(top.to_owned(), Vec::new(), metadata)];
    while let Some((local, path, metadata)) = waiting.pop() {
        tree.directories.push(Directory {
            path: path.clone(),
            mode: u16::try_from(metadata.permissions().mode() & 0o7777).unwrap_or(0o755),
        });
        let reading = || format!("reading {}", local.display());
        for entry in std::fs::read_dir(&local).doing(reading)? {
            let entry = entry.doing(reading)?;
            let metadata = entry
                .metadata()
                .doing(|| format!("reading {}", entry.path().display()))?;
            let mut below = path.clone();
            if !below.is_empty() {
                below.push(b'/');
            }
            below.extend_from_slice(entry.file_name().as_bytes());
            if metadata.is_dir() {
                waiting.push((entry.path(), below, metadata));
            } else if metadata.is_file() || metadata.is_symlink() {
                tree.bytes += metadata.size();
                tree.leaves.push(Leaf {
                    path: below,
                    size: metadata.size(),
                    link: metadata.is_symlink(),
                });
            } else {
                tree.skipped += 1;
            }
        }
    }
    // The order of a directory's entries differs from file system to file system.
    tree.leaves.sort_by(|one, other| one.path.cmp(&other.path));
    tree.directories
        .sort_by(|one, other| one.path.cmp(&other.path));
    Ok(tree)
}

/// The Rust toolchain's own tree, if there is a toolchain.
pub(crate) fn sysroot() -> Option<PathBuf> {
    let output = Command::new("rustc")
        .args(["--print", "sysroot"])
        .output()
        .ok()?;
    if !output.status.success() {
        return None;
    }
    let text = String::from_utf8(output.stdout).ok()?;
    Some(PathBuf::from(text.trim())).filter(|path| path.is_dir())
}

/// The number of files in a generated tree.
const MADE_UP_FILES: u64 = 4000;

/// Fills `top` with files of realistic sizes: many small ones, few large ones. The result is the same
/// every time.
pub(crate) fn make_up(top: &Path) -> Outcome {
    let mut random = SplitMix64::new(1);
    for index in 0..MADE_UP_FILES {
        let directory = top
            .join(format!("part-{:02}", index / 100))
            .join(format!("set-{}", index % 5));
        std::fs::create_dir_all(&directory).doing(|| format!("making {}", directory.display()))?;
        // Sizes are spread evenly over powers of two: 64 bytes to 8 MiB, large ones rarely.
        let limit = if index % 40 == 0 { 17 } else { 11 };
        let size = (64_u64 << random.below(limit)) + random.below(64);
        let content = random.bytes(usize::try_from(size).unwrap_or(0));
        let file = directory.join(format!("file-{index:05}"));
        std::fs::write(&file, content).doing(|| format!("writing {}", file.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_seen_whole() {
        let top = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(top.path().join("a/b")).unwrap();
        std::fs::write(top.path().join("a/b/file"), b"12345").unwrap();
        std::fs::write(top.path().join("z"), b"1").unwrap();
        std::os::unix::fs::symlink("z", top.path().join("link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(top.path().join("socket")).unwrap();
        let tree = scan(top.path()).unwrap();
        let paths: Vec<&[u8]> = tree
            .leaves
            .iter()
            .map(|leaf| leaf.path.as_slice())
            .collect();
        assert_eq!(paths, [&b"a/b/file"[..], b"link", b"z"]);
        let directories: Vec<&[u8]> = tree
            .directories
            .iter()
            .map(|directory| directory.path.as_slice())
            .collect();
        assert_eq!(directories, [&b""[..], b"a", b"a/b"]);
        assert_eq!((tree.bytes, tree.skipped), (7, 1));
        assert!(scan(&top.path().join("z")).is_err());
    }

    #[test]
    fn names_keep_their_bytes() {
        for bytes in [&b"plain"[..], b"\xff\xfe", "\u{e9}".as_bytes()] {
            let json = serde_json::to_string(&Name::new(bytes)).unwrap();
            assert_eq!(serde_json::from_str::<Name>(&json).unwrap().bytes(), bytes);
        }
    }
}
