//! Verifying the engine's journals before the engine opens them.
//!
//! fjall opens a store with what precedes the first batch that it cannot read, and drops the rest without an
//! error; a length made of garbage makes it allocate as much. So the journals are read here first, batch by
//! batch (`batch`). What follows the last whole batch is one of three things:
//! - nothing, or the front of a batch whose write was interrupted, or what power loss has left of
//!   blocks that were never synced: it is cut off, and kept in a file that ends in `.torn`;
//! - damage: a whole batch behind it, or the mark (`mark`), says that it was on stable storage; or no power
//!   was lost, and no interrupted write leaves such a thing. What was acknowledged is lost. The store is
//!   not opened unless the operator accepts that ([`cut`]);
//! - after power loss, and with nothing behind it, a last batch that was synced in the last moments before
//!   (the mark is brought up to date after a tenth of a second) and is damaged since: that cannot be distinguished from
//!   a torn one, and is cut off as such.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use causeway_wire::store::{Key, Mark};

use super::batch::{Parsed, ends_like_a_batch, items, next_whole, parse};
use crate::files::{if_found, sync_directory, sync_name};

/// Journals are searched for their end in pieces of this size, in bytes.
const CHUNK_BYTES: usize = 64 << 10;
/// Most lost records that are listed one by one.
const LISTED_RECORDS: usize = 100;

/// The content of a store's journals.
#[derive(Debug, Default)]
pub(super) struct Journals {
    /// The journals in the order in which they were written.
    pub(super) files: Vec<PathBuf>,
    /// The engine's number of the last whole batch.
    pub(super) last: Option<u64>,
    /// Bytes of whole batches.
    pub(super) bytes: u64,
    /// The end of the newest journal that contains no batch.
    pub(super) torn: Option<Torn>,
    /// The first damage of each journal.
    pub(super) damage: Vec<Damage>,
}

/// The end of a journal that is no batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Torn {
    pub(super) journal: PathBuf,
    /// Where the last whole batch ends.
    pub(super) at: u64,
    /// Bytes behind that, up to the last one that is not zero.
    pub(super) bytes: u64,
}

/// Acknowledged changes that are lost.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Damage {
    pub(super) journal: PathBuf,
    /// Bytes from here…
    pub(super) at: u64,
    /// … to here cannot be read.
    pub(super) until: u64,
    /// The error there.
    pub(super) what: &'static str,
    /// Records that the damaged change seems to have had, in words.
    pub(super) records: Vec<String>,
    /// Whole changes behind the damage.
    pub(super) later: u64,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "{} is damaged at byte {}: {}; {} bytes, up to byte {}, cannot be read, and {} whole changes \
             follow",
            self.journal.display(),
            self.at,
            self.what,
            self.until - self.at,
            self.until,
            self.later
        )?;
        match self.records.as_slice() {
            [] => write!(out, "; its contents are unknown"),
            records => write!(out, "; in there: {}", records.join(", ")),
        }
    }
}

/// Takes the engine's lock for a moment; fails with [`io::ErrorKind::WouldBlock`] if another process has
/// the store open.
pub(super) fn check_unlocked(directory: &Path) -> io::Result<()> {
    let Some(lock) = if_found(File::open(directory.join("lock")))? else {
        return Ok(());
    };
    lock.try_lock().map_err(|error| match error {
        TryLockError::Error(error) => error,
        TryLockError::WouldBlock => io::ErrorKind::WouldBlock.into(),
    })
}

/// Reads all journals in `directory`. `power_lasted` says that no power was lost since they were written,
/// so that all that was written is there, in the order in which it was.
pub(super) fn examine(directory: &Path, power_lasted: bool, mark: &Mark) -> io::Result<Journals> {
    let mut all = Journals {
        files: list(directory)?,
        ..Journals::default()
    };
    let newest = all.files.len().saturating_sub(1);
    for (index, journal) in all.files.clone().into_iter().enumerate() {
        let bytes = read(&journal)?;
        let mut at = 0;
        let end = loop {
            match parse(&bytes, at, all.last) {
                _ if at == bytes.len() => break None,
                Parsed::Whole(batch) => {
                    at = batch.end;
                    all.last = Some(batch.sequence);
                }
                Parsed::Short => break Some((false, "a change is cut off")),
                Parsed::Wrong(what) => break Some((true, what)),
            }
        };
        all.bytes += at as u64;
        let Some((wrong, what)) = end else {
            continue;
        };
        let before = all.last;
        let until = next_whole(&bytes, at, before).map_or(bytes.len(), |(start, _)| start);
        let later = count_whole(&bytes, until, before);
        let rest = bytes.get(at..).unwrap_or_default();
        let certain = index != newest
            || later.synced.max(mark.acknowledged) > before.unwrap_or(mark.flushed)
            || (power_lasted && (wrong || later.count > 0 || ends_like_a_batch(rest)));
        match certain {
            false => {
                all.torn = Some(Torn {
                    journal,
                    at: at as u64,
                    bytes: rest.len() as u64,
                });
            }
            true => {
                all.last = later.last;
                all.damage.push(Damage {
                    journal,
                    at: at as u64,
                    until: until as u64,
                    what,
                    records: describe(&bytes, at),
                    later: later.count,
                });
            }
        }
    }
    Ok(all)
}

/// Whole batches behind a damage.
struct Later {
    count: u64,
    /// The number of the last batch, or of the one before the damage.
    last: Option<u64>,
    /// The commit up to which everything was on stable storage when they were written, by their stamps.
    synced: u64,
}

fn count_whole(bytes: &[u8], mut at: usize, before: Option<u64>) -> Later {
    let mut later = Later {
        count: 0,
        last: before,
        synced: 0,
    };
    while let Parsed::Whole(batch) = parse(bytes, at, later.last) {
        later.count += 1;
        later.last = Some(batch.sequence);
        later.synced = later.synced.max(batch.synced);
        at = batch.end;
    }
    later
}

/// The records that the damaged batch at `at` seems to have, as far as its structure can be read.
fn describe(bytes: &[u8], at: usize) -> Vec<String> {
    let (mut records, mut more) = (Vec::new(), 0u64);
    let _ = items(bytes, at, |item| {
        let text = match Key::parse(item.key) {
            Ok(Key::Object(object)) => format!("object {}", object.0),
            Ok(Key::Content(object)) => format!("the content of object {}", object.0),
            Ok(Key::Entry(directory, name)) => {
                format!(
                    "name {:?} in directory {}",
                    String::from_utf8_lossy(&name),
                    directory.0
                )
            }
            Ok(Key::Link(object, ..)) => format!("a further name of object {}", object.0),
            Ok(Key::Removal(object)) => format!("the removal of object {}", object.0),
            // Sessions and counts would not help an operator.
            Ok(_) => return,
            Err(_) => "a record whose key cannot be read".to_owned(),
        };
        match records.len() < LISTED_RECORDS {
            true => records.push(text),
            false => more += 1,
        }
    });
    if more > 0 {
        records.push(format!("{more} more"));
    }
    records
}

/// The journals, oldest first.
fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut numbered = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        numbered.extend(number(&path).map(|number| (number, path)));
    }
    numbered.sort();
    Ok(numbered.into_iter().map(|(_, path)| path).collect())
}

/// Whether there are journals.
pub(super) fn any(directory: &Path) -> io::Result<bool> {
    Ok(!list(directory)?.is_empty())
}

/// A journal up to its last byte that is not zero. The engine makes journals of 64 MiB in advance, most of
/// which is a hole, and holes are not read.
fn read(journal: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(journal)?;
    let end = last_nonzero(&file)?;
    let mut bytes = Vec::new();
    file.take(end).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn last_nonzero(file: &File) -> io::Result<u64> {
    let (mut at, mut last) = (0, 0);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        at = match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => break,
            // Not every file system reports holes.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => at,
            Err(error) => return Err(error.into()),
        };
        let count = file.read_at(&mut chunk, at)?;
        if count == 0 {
            break;
        }
        let read = chunk.get(..count).unwrap_or_default();
        if let Some(index) = read.iter().rposition(|byte| *byte != 0) {
            last = at + index as u64 + 1;
        }
        at += count as u64;
    }
    rustix::fs::seek(file, rustix::fs::SeekFrom::Start(0))?;
    Ok(last)
}

/// Cuts a torn end off. Returns where it is kept.
pub(super) fn trim(torn: &Torn) -> io::Result<PathBuf> {
    let file = File::options().read(true).write(true).open(&torn.journal)?;
    let kept = keep(&file, &torn.journal, torn.at, torn.bytes, "torn")?;
    file.set_len(torn.at)?;
    file.sync_all()?;
    Ok(kept)
}

/// Removes a damaged range of bytes from a journal, so that what follows it counts again. Returns where the range is
/// kept.
pub(super) fn cut(damage: &Damage) -> io::Result<PathBuf> {
    let bytes = read(&damage.journal)?;
    let file = File::open(&damage.journal)?;
    let lost = damage.until - damage.at;
    let kept = keep(&file, &damage.journal, damage.at, lost, "lost")?;
    let part = |from: u64, to: u64| bytes.get(from as usize..to as usize).unwrap_or_default();
    let new = damage.journal.with_extension("jnl-new");
    let mut copy = File::create(&new)?;
    copy.write_all(part(0, damage.at))?;
    copy.write_all(part(damage.until, bytes.len() as u64))?;
    copy.sync_all()?;
    std::fs::rename(&new, &damage.journal)?;
    sync_name(&damage.journal)?;
    Ok(kept)
}

/// Copies a range of a journal into a file beside it.
fn keep(file: &File, journal: &Path, at: u64, bytes: u64, why: &str) -> io::Result<PathBuf> {
    let mut name = journal.to_owned().into_os_string();
    name.push(format!(".{at}.{why}"));
    let kept = PathBuf::from(name);
    let mut copy = File::create(&kept)?;
    rustix::fs::seek(file, rustix::fs::SeekFrom::Start(at))?;
    io::copy(&mut file.take(bytes), &mut copy)?;
    copy.sync_all()?;
    sync_name(&kept)?;
    Ok(kept)
}

/// Removes journals whose batches are all in tables, and begins a new one, empty: without any, the engine does
/// not read from its tables which number was the last, and shows nothing of them. An old one is not emptied and used
/// again, as a sync of it may have failed.
pub(super) fn clear(directory: &Path, journals: &Journals) -> io::Result<()> {
    let Some(newest) = journals.files.last() else {
        return Ok(());
    };
    let number = number(newest).unwrap_or_default().saturating_add(1);
    create(directory, number)?;
    for journal in &journals.files {
        std::fs::remove_file(journal)?;
    }
    sync_directory(directory)
}

/// The engine's number of a journal.
fn number(journal: &Path) -> Option<u64> {
    if journal.extension()? != "jnl" {
        return None;
    }
    journal.file_stem()?.to_str()?.parse().ok()
}

/// Makes an empty journal with this number, durably.
pub(super) fn create(directory: &Path, number: u64) -> io::Result<()> {
    File::create_new(directory.join(format!("{number}.jnl")))?.sync_all()?;
    sync_directory(directory)
}
