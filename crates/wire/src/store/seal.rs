//! What the store's engine keeps beside the records: a seal on each value, and a mark beside the journal.

use alloc::vec::Vec;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::codec::{Malformed, Reader, Wire, Writer};

/// Bytes that [`seal`] adds to a value.
pub const SEAL_BYTES: usize = 8 + 4;

/// A value as the engine keeps it: the value, the number of the commit that wrote it, and a checksum over
/// both and the key.
pub fn seal(key: &[u8], value: &[u8], commit: u64) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(value.len() + SEAL_BYTES);
    sealed.extend_from_slice(value);
    sealed.extend_from_slice(&commit.to_le_bytes());
    let checksum = seal_checksum(key, &sealed);
    sealed.extend_from_slice(&checksum.to_le_bytes());
    sealed
}

/// The value that `sealed` holds under `key`, and the number of the commit that wrote it.
pub fn unseal<'a>(key: &[u8], sealed: &'a [u8]) -> Result<(&'a [u8], u64), Malformed> {
    const FIELD: &str = "sealed value";
    let truncated = Malformed::Truncated { field: FIELD };
    let Some((content, checksum)) = sealed.split_last_chunk::<4>() else {
        return Err(truncated);
    };
    let Some((value, commit)) = content.split_last_chunk::<8>() else {
        return Err(truncated);
    };
    let checksum = u32::from_le_bytes(*checksum);
    match checksum == seal_checksum(key, content) {
        true => Ok((value, u64::from_le_bytes(*commit))),
        false => Err(Malformed::Unknown {
            field: "checksum of a sealed value",
            value: checksum.into(),
        }),
    }
}

/// The key is part of the checksum, so that a value under another key is noticed too.
fn seal_checksum(key: &[u8], content: &[u8]) -> u32 {
    xxh3_64_with_seed(content, xxh3_64(key)) as u32
}

/// Bytes of an encoded [`Mark`].
pub const MARK_BYTES: usize = 64;
/// First bytes of an encoded [`Mark`]; the last one is the format's number.
const MARK_MAGIC: u64 = u64::from_le_bytes(*b"CWmark\0\x01");

/// What is known of the journal beside it: with this, an end that power loss may have torn is told from
/// acknowledged changes that are damaged.
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
        let unknown = |field, value| Err(Malformed::Unknown { field, value });
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
