//! Where datafiles lie below the store's directory.
//!
//! Object numbers are handed out in ascending order, so directories are named by the number's upper
//! bits: each has at most 4096 datafiles, a listing in the order of numbers needs one directory at
//! a time, and new files are made in directories that are in the cache.

use std::io;
use std::path::{Path, PathBuf};

use causeway_wire::fs::ObjectId;

use crate::files::if_found;

/// Bits of an object number that distinguish datafiles of one directory.
const FILE_BITS: u32 = 12;
/// Bits that distinguish directories below one upper directory.
const DIRECTORY_BITS: u32 = 12;

/// A directory that holds datafiles, by the upper bits of their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Directory(u64);

impl Directory {
    /// The directory of an object.
    pub fn of(object: ObjectId) -> Self {
        Self(object.0 >> FILE_BITS)
    }

    /// Path of the upper directory.
    pub fn upper(self, root: &Path) -> PathBuf {
        root.join(format!("{:010x}", self.0 >> DIRECTORY_BITS))
    }

    /// Path of the directory itself.
    pub fn path(self, root: &Path) -> PathBuf {
        self.upper(root)
            .join(format!("{:03x}", self.0 & ((1 << DIRECTORY_BITS) - 1)))
    }
}

/// Path of an object's datafile.
pub fn path(root: &Path, object: ObjectId) -> PathBuf {
    Directory::of(object)
        .path(root)
        .join(format!("{:016x}", object.0))
}

/// The first `limit` objects behind `after`, in order, and whether nothing follows the last one.
pub fn list(root: &Path, after: ObjectId, limit: usize) -> io::Result<(Vec<ObjectId>, bool)> {
    let from = Directory::of(after);
    let mut found = Vec::new();
    for upper in numbers(root, 10)? {
        if upper < from.0 >> DIRECTORY_BITS {
            continue;
        }
        for lower in numbers(&root.join(format!("{upper:010x}")), 3)? {
            let directory = Directory(upper << DIRECTORY_BITS | lower);
            if directory < from {
                continue;
            }
            let objects = numbers(&directory.path(root), 16)?;
            for object in objects.into_iter().map(ObjectId) {
                if object <= after || Directory::of(object) != directory {
                    continue;
                }
                if found.len() == limit {
                    return Ok((found, false));
                }
                found.push(object);
            }
        }
    }
    Ok((found, true))
}

/// The names in a directory that are `digits` lower-case hexadecimal digits, as sorted numbers. A
/// directory that does not exist is empty.
fn numbers(directory: &Path, digits: usize) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in if_found(std::fs::read_dir(directory))?
        .into_iter()
        .flatten()
    {
        let name = entry?.file_name();
        let number = name
            .to_str()
            .filter(|name| name.len() == digits)
            .and_then(|name| u64::from_str_radix(name, 16).ok());
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}
