//! Cutting the torn end off the engine's journal before the engine opens it.
//!
//! After power loss the end of the journal, which was not synced yet, may hold any mixture of old and
//! new blocks. fjall cuts off an end that is merely short; but where the last batch is whole in length
//! and wrong in content, it refuses to open ("checksum mismatch"), and a length made of garbage
//! makes it allocate as much. So the journal is read here first, batch by batch, and cut behind the
//! last one that is whole. What is cut off is kept beside it, in a file that ends in `.torn`.
//!
//! The layout (fjall 3, `journal/entry.rs`; integers little-endian): a batch is a start, items, an end.
//!
//! | record | bytes |
//! |---|---|
//! | start | `1`, item count (4), sequence number (8) |
//! | item | `2`, type (1), compression (1), keyspace (8), key length (2), value length (4), stored value length (4), key, stored value |
//! | clear | `4`, keyspace (8) |
//! | end | `3`, XXH3-64 of the items as stored (8), `FJL\x03` |

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
const TRAILER: &[u8; 4] = b"FJL\x03";
/// Bytes of an item behind its first one and before the key.
const ITEM_HEAD_BYTES: usize = 1 + 1 + 8 + 2 + 4 + 4;
/// Journals are read in pieces of this size.
const CHUNK_BYTES: usize = 64 << 10;

/// What was cut off.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Torn {
    pub(super) journal: PathBuf,
    /// Where the last whole batch ends.
    pub(super) at: u64,
    /// Bytes behind that, up to the last one that is not zero.
    pub(super) bytes: u64,
    /// Where they are kept.
    pub(super) kept: PathBuf,
}

/// Cuts the torn end off the newest journal in `directory`, if there is one. Fails with
/// [`io::ErrorKind::WouldBlock`] if another process has the store open.
pub(super) fn trim(directory: &Path) -> io::Result<Option<Torn>> {
    let lock = match File::open(directory.join("lock")) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    lock.try_lock().map_err(|error| match error {
        TryLockError::Error(error) => error,
        TryLockError::WouldBlock => io::ErrorKind::WouldBlock.into(),
    })?;
    match newest(directory)? {
        Some(journal) => trim_file(journal),
        None => Ok(None),
    }
}

/// The journal that was written last. Older ones were synced before it was begun.
fn newest(directory: &Path) -> io::Result<Option<PathBuf>> {
    let mut newest = None;
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jnl") {
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            let number: Option<u64> = stem.and_then(|stem| stem.parse().ok());
            newest = newest.max(number.map(|number| (number, path)));
        }
    }
    Ok(newest.map(|(_, path)| path))
}

fn trim_file(journal: PathBuf) -> io::Result<Option<Torn>> {
    let mut file = OpenOptions::new().read(true).write(true).open(&journal)?;
    let len = file.metadata()?.len();
    let at = whole_batches(BufReader::with_capacity(CHUNK_BYTES, &file), len)?;
    let bytes = last_nonzero(&file, at)?;
    if bytes == 0 {
        return Ok(None);
    }
    let mut kept = journal.clone().into_os_string();
    kept.push(format!(".{at}.torn"));
    let kept = PathBuf::from(kept);
    let mut copy = File::create(&kept)?;
    file.seek(SeekFrom::Start(at))?;
    io::copy(&mut (&file).take(bytes), &mut copy)?;
    copy.flush()?;
    copy.sync_all()?;
    file.set_len(at)?;
    file.sync_all()?;
    Ok(Some(Torn {
        journal,
        at,
        bytes,
        kept,
    }))
}

/// Number of bytes behind `start` up to the last one that is not zero. The engine makes journals of
/// 64 MiB in advance, most of which is a hole, and holes are not read.
fn last_nonzero(file: &File, start: u64) -> io::Result<u64> {
    let (mut at, mut last) = (start, start);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        at = match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => return Ok(last - start),
            // Not every file system knows its holes.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => at,
            Err(error) => return Err(error.into()),
        };
        let count = file.read_at(&mut chunk, at)?;
        if count == 0 {
            return Ok(last - start);
        }
        let read = chunk.get(..count).unwrap_or_default();
        if let Some(index) = read.iter().rposition(|byte| *byte != 0) {
            last = at + index as u64 + 1;
        }
        at += count as u64;
    }
}

/// Where the last of the whole batches at the front of a journal ends.
fn whole_batches(input: impl Read, len: u64) -> io::Result<u64> {
    let mut reader = Counted {
        input,
        position: 0,
        len,
    };
    let mut whole = 0;
    loop {
        match batch(&mut reader) {
            Ok(true) => whole = reader.position,
            Ok(false) => return Ok(whole),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(whole),
            Err(error) => return Err(error),
        }
    }
}

/// Reads a batch; whether it is whole.
fn batch(reader: &mut Counted<impl Read>) -> io::Result<bool> {
    let [START, a, b, c, d, ..] = reader.array::<13>()? else {
        return Ok(false);
    };
    let mut hash = Xxh3::new();
    for _ in 0..u32::from_le_bytes([a, b, c, d]) {
        let tag = reader.array::<1>()?;
        hash.update(&tag);
        let body = match tag {
            [ITEM] => {
                let head = reader.array::<ITEM_HEAD_BYTES>()?;
                hash.update(&head);
                let [
                    _,
                    _,
                    _,
                    _,
                    _,
                    _,
                    _,
                    _,
                    _,
                    _,
                    key @ ..,
                    _,
                    _,
                    _,
                    _,
                    v0,
                    v1,
                    v2,
                    v3,
                ] = head;
                let key = u64::from(u16::from_le_bytes(key));
                key + u64::from(u32::from_le_bytes([v0, v1, v2, v3]))
            }
            [CLEAR] => 8,
            _ => return Ok(false),
        };
        reader.hash(body, &mut hash)?;
    }
    let [END, checksum @ .., t0, t1, t2, t3] = reader.array::<13>()? else {
        return Ok(false);
    };
    Ok([t0, t1, t2, t3] == *TRAILER && u64::from_le_bytes(checksum) == hash.digest())
}

/// A reader that knows where it is.
struct Counted<R> {
    input: R,
    position: u64,
    len: u64,
}

impl<R: Read> Counted<R> {
    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.input.read_exact(&mut bytes)?;
        self.position += N as u64;
        Ok(bytes)
    }

    /// Hashes the next `count` bytes.
    fn hash(&mut self, count: u64, hash: &mut Xxh3) -> io::Result<()> {
        if count > self.len.saturating_sub(self.position) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut piece = [0; 4096];
        let mut left = count;
        while left > 0 {
            let size = left.min(piece.len() as u64) as usize;
            let piece = piece.get_mut(..size).unwrap_or_default();
            self.input.read_exact(piece)?;
            hash.update(piece);
            left -= size as u64;
        }
        self.position += count;
        Ok(())
    }
}
