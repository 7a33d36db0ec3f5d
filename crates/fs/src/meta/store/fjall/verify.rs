//! Verifying the engine's other files before the engine opens them.
//!
//! fjall checks each block that it reads from a table. It does not check the list of tables against the
//! checksum that it keeps of it, removes tables that are not in there, and makes a new store where the list
//! is missing; and it panics over some corruption. So all of that is checked here first.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::fields::{take, take_u8, take_u32, take_u64, take_u128};

/// The beginning of the engine's file `version`.
const VERSION: &[u8] = b"FJL\x03";
/// Bytes of `current`: number and checksum of the list of tables, kind of checksum.
const CURRENT_BYTES: usize = 8 + 16 + 1;
/// A longer list of tables counts as damaged, in bytes: it would name some million tables.
const MAX_LIST_BYTES: u64 = 128 << 20;
/// Bytes of a table in the list: number, kind of checksum, checksum, base of sequence numbers.
const TABLE_BYTES: usize = 8 + 1 + 16 + 8;
/// Bytes at the end of a table: a mark, version, kind of checksum, checksum of the table of contents, its place, its
/// length. The layout is that of sfa 1, `trailer/writer.rs`.
const TRAILER_BYTES: usize = 4 + 1 + 1 + 16 + 8 + 8;
/// A longer table of contents counts as damaged: it names about ten sections.
const MAX_CONTENTS_BYTES: u64 = 1 << 20;
/// The trees that a store consists of: the engine's own and the records.
const TREES: [&str; 2] = ["0", "1"];

/// What is in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DirectoryContents {
    /// No store.
    Nothing,
    /// A store.
    Store,
}

/// A file that differs from what was written, in words, or one that cannot be read.
pub(super) type Fault = (PathBuf, String);

/// Checks what is in `directory`; tables are read whole up to `budget` bytes of them. With `written`,
/// something was acknowledged, so that all parts of a store must be there.
pub(super) fn check(
    directory: &Path,
    written: bool,
    budget: u64,
) -> Result<DirectoryContents, Fault> {
    let version = directory.join("version");
    let keyspaces = directory.join("keyspaces");
    match std::fs::read(&version) {
        Ok(found) if found.starts_with(VERSION) => {}
        Ok(_) => return Err((version, "it is damaged, or of another engine".to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return match written || keyspaces.exists() {
                true => Err((version, "it is missing".to_owned())),
                false => Ok(DirectoryContents::Nothing),
            };
        }
        Err(error) => return Err((version, error.to_string())),
    }
    for entry in
        std::fs::read_dir(&keyspaces).map_err(|error| (keyspaces.clone(), error.to_string()))?
    {
        let entry = entry.map_err(|error| (keyspaces.clone(), error.to_string()))?;
        let known = TREES.iter().any(|tree| entry.file_name() == *tree);
        if !known && entry.path().is_dir() {
            return Err((entry.path(), "it is no part of a store".to_owned()));
        }
    }
    let mut budget = budget;
    for tree in TREES {
        let tree = keyspaces.join(tree);
        let current = tree.join("current");
        match current.exists() {
            true => check_tree(&tree, &mut budget)?,
            false if written => return Err((current, "it is missing".to_owned())),
            false => {}
        }
    }
    Ok(DirectoryContents::Store)
}

/// Checks a tree's list of tables, and its tables.
fn check_tree(tree: &Path, budget: &mut u64) -> Result<(), Fault> {
    let fault = |path: &Path, what: &str| (path.to_owned(), what.to_owned());
    let current = tree.join("current");
    let bytes = std::fs::read(&current).map_err(|error| fault(&current, &error.to_string()))?;
    let bytes: [u8; CURRENT_BYTES] = bytes
        .try_into()
        .map_err(|_| fault(&current, "it has another length than it was written with"))?;
    let mut input = bytes.as_slice();
    let (number, checksum) = (take_u64(&mut input), take_u128(&mut input));
    let (Some(number), Some(checksum), [0]) = (number, checksum, input) else {
        return Err(fault(&current, "it is damaged"));
    };
    let list = tree.join(format!("v{number}"));
    let unreadable = |error: io::Error| {
        let why = format!("{error} ({} names it)", current.display());
        fault(&list, &why)
    };
    if std::fs::metadata(&list).map_err(unreadable)?.len() > MAX_LIST_BYTES {
        return Err(fault(
            &list,
            "it is damaged: no list of tables is that long",
        ));
    }
    let content = std::fs::read(&list).map_err(unreadable)?;
    if xxh3_128(&content) != checksum {
        let why = format!(
            "it or {} is damaged: the checksum does not match",
            current.display()
        );
        return Err(fault(&list, &why));
    }
    let tables = tables(&list, &content).ok_or_else(|| fault(&list, "it makes no sense"))?;
    for (number, checksum) in tables {
        let table = tree.join("tables").join(number.to_string());
        let unreadable = |error: io::Error| fault(&table, &error.to_string());
        let len = std::fs::metadata(&table).map_err(unreadable)?.len();
        let Some(left) = budget.checked_sub(len) else {
            if !has_sound_contents(&table).map_err(unreadable)? {
                return Err(fault(
                    &table,
                    "it is damaged: its table of contents is not as it was written",
                ));
            }
            continue;
        };
        *budget = left;
        if hash(&table).map_err(unreadable)? != checksum {
            return Err(fault(&table, "it is damaged: the checksum does not match"));
        }
    }
    Ok(())
}

/// The tables of a list, with their checksums. The layout is that of lsm-tree 3, `version/recovery.rs`.
fn tables(list: &Path, content: &[u8]) -> Option<Vec<(u64, u128)>> {
    let archive = sfa::Reader::new(list).ok()?;
    let section = archive.toc().section(b"tables")?;
    let (start, len) = (section.pos() as usize, section.len() as usize);
    let mut input = content.get(start..start.checked_add(len)?)?;
    let mut tables = Vec::new();
    for _ in 0..take_u8(&mut input)? {
        for _ in 0..take_u8(&mut input)? {
            let count = take_u32(&mut input)? as usize;
            if count > input.len() / TABLE_BYTES {
                return None;
            }
            for _ in 0..count {
                let number = take_u64(&mut input)?;
                let kind = take_u8(&mut input)?;
                let checksum = take_u128(&mut input)?;
                take_u64(&mut input)?;
                if kind != 0 {
                    return None;
                }
                tables.push((number, checksum));
            }
        }
    }
    input.is_empty().then_some(tables)
}

/// Whether the table of contents of a table is as it was written. The engine allocates memory for as many sections as
/// that claims before it compares the checksum, and a process that cannot have so much memory ends.
fn has_sound_contents(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
    let Some(end) = file.metadata()?.len().checked_sub(TRAILER_BYTES as u64) else {
        return Ok(false);
    };
    let mut trailer = [0; TRAILER_BYTES];
    file.read_exact_at(&mut trailer, end)?;
    let mut input = trailer.as_slice();
    let _mark_and_kinds: Option<[u8; 6]> = take(&mut input);
    let (checksum, start) = (take_u128(&mut input), take_u64(&mut input));
    let (Some(checksum), Some(start)) = (checksum, start) else {
        return Ok(false);
    };
    let Some(len) = end
        .checked_sub(start)
        .filter(|len| *len <= MAX_CONTENTS_BYTES)
    else {
        return Ok(false);
    };
    let mut contents = vec![0; len as usize];
    file.read_exact_at(&mut contents, start)?;
    Ok(xxh3_128(&contents) == checksum)
}

fn hash(path: &Path) -> io::Result<u128> {
    let mut file = File::open(path)?;
    let (mut hash, mut chunk) = (Xxh3::new(), vec![0; 256 << 10]);
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(hash.digest128()),
            count => hash.update(chunk.get(..count).unwrap_or_default()),
        }
    }
}
