//! Additions to the records of the store engine: a seal on each value, and a mark beside the
//! journal.

use alloc::vec::Vec;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::codec::{Malformed, Reader, Wire, Writer, unknown};

/// Bytes that [`seal`] adds to a value.
pub const SEAL_BYTES: usize = 8 + 4 + 4;

/// The commit that wrote a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The commit's number. Numbers grow, with gaps.
    pub commit: u64,
    /// The distance to the last commit that was on stable storage, with all before it, when this
    /// one began; the largest number also means more.
    pub unsynced: u32,
}

impl Stamp {
    /// The stamp of a commit that began when all up to `synced` were on stable storage.
    pub fn new(commit: u64, synced: u64) -> Self {
        let unsynced = u32::try_from(commit.saturating_sub(synced)).unwrap_or(u32::MAX);
        Self { commit, unsynced }
    }

    /// The last commit that is known to have been on stable storage, with all commits before it.
    pub fn synced(&self) -> u64 {
        self.commit.saturating_sub(self.unsynced.into())
    }
}

/// A value as the engine stores it: the value, the stamp, and a checksum over both and the key.
pub fn seal(key: &[u8], value: &[u8], stamp: Stamp) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(value.len() + SEAL_BYTES);
    sealed.extend_from_slice(value);
    sealed.extend_from_slice(&stamp.commit.to_le_bytes());
    sealed.extend_from_slice(&stamp.unsynced.to_le_bytes());
    let checksum = seal_checksum(key, &sealed);
    sealed.extend_from_slice(&checksum.to_le_bytes());
    sealed
}

/// The value that `sealed` holds under `key`, and its stamp.
pub fn unseal<'a>(key: &[u8], sealed: &'a [u8]) -> Result<(&'a [u8], Stamp), Malformed> {
    let parts = sealed
        .split_last_chunk::<4>()
        .and_then(|(content, checksum)| {
            let (rest, unsynced) = content.split_last_chunk::<4>()?;
            let (value, commit) = rest.split_last_chunk::<8>()?;
            Some((content, value, commit, unsynced, checksum))
        });
    let Some((content, value, commit, unsynced, checksum)) = parts else {
        return Err(Malformed::Truncated {
            field: "sealed value",
        });
    };
    let stamp = Stamp {
        commit: u64::from_le_bytes(*commit),
        unsynced: u32::from_le_bytes(*unsynced),
    };
    let checksum = u32::from_le_bytes(*checksum);
    match checksum == seal_checksum(key, content) {
        true => Ok((value, stamp)),
        false => unknown("checksum of a sealed value", checksum),
    }
}

/// The checksum covers the key, so that a value under another key is detected too.
fn seal_checksum(key: &[u8], content: &[u8]) -> u32 {
    xxh3_64_with_seed(content, xxh3_64(key)) as u32
}

/// Bytes of an encoded [`Mark`].
pub const MARK_BYTES: usize = 64;
/// First bytes of an encoded [`Mark`]; the last one is the format's number.
const MARK_MAGIC: u64 = u64::from_le_bytes(*b"CWmark\0\x01");

/// The synced state of the journal beside it. It distinguishes an end of the journal that power
/// loss may have torn from damage to acknowledged changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    /// Identity of the host's boot in which the store was last opened.
    pub boot: u128,
    /// Commits up to this number are on stable storage.
    pub acknowledged: u64,
    /// Commits up to this number are in tables: the journal is not needed for them.
    pub flushed: u64,
}

impl Wire for Mark {
    fn encode(&self, out: &mut Writer) {
        let mut body = Writer::new();
        body.u64(MARK_MAGIC);
        body.u128(self.boot);
        body.u64(self.acknowledged);
        body.u64(self.flushed);
        body.u128(0);
        let body = body.finish();
        out.raw(&body);
        out.u64(xxh3_64(&body));
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let body = input.take(MARK_BYTES - 8, "mark")?;
        let checksum = input.u64("checksum of the mark")?;
        if checksum != xxh3_64(body) {
            return unknown("checksum of the mark", checksum);
        }
        let mut body = Reader::new(body);
        let magic = body.u64("magic of the mark")?;
        if magic != MARK_MAGIC {
            return unknown("magic of the mark", magic);
        }
        let mark = Self {
            boot: body.u128("boot")?,
            acknowledged: body.u64("acknowledged")?,
            flushed: body.u64("flushed")?,
        };
        match body.u128("padding of the mark")? {
            0 => Ok(mark),
            value => unknown("padding of the mark", value as u64),
        }
    }
}
