//! Batches in the engine's journal.
//!
//! The layout (fjall 3, `journal/entry.rs`; integers little-endian): a batch is a start, items, an end.
//!
//! | record | bytes |
//! |---|---|
//! | start | `1`, item count (4), sequence number (8) |
//! | item | `2`, type (1), compression (1), keyspace (8), key length (2), value length (4), stored value length (4), key, stored value |
//! | end | `3`, XXH3-64 of the items as stored (8), `FJL\x03` |
//!
//! The engine's checksum leaves the start out. The count is compared with the items; the sequence number with the
//! commit numbers in the sealed values ([`causeway_wire::store::seal`]).

use causeway_wire::store::{Stamp, unseal};
use xxhash_rust::xxh3::xxh3_64;

use super::fields::{take, take_u8, take_u16, take_u32, take_u64};

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const TRAILER: &[u8; 4] = b"FJL\x03";
/// Types of items: a value, a removed key, and a removed key that was written once.
const VALUE: u8 = 0;
const MAX_TYPE: u8 = 2;
/// Bytes of an item before its key.
const ITEM_HEAD_BYTES: usize = 1 + 1 + 1 + 8 + 2 + 4 + 4;
/// Bytes of a start, and of an end.
const BOUND_BYTES: usize = 13;
/// The engine numbers some of its own steps too, so that a batch's sequence number may be this far above
/// the number that was next when its commit began.
const MAX_AHEAD: u64 = 1 << 16;

/// A whole batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Batch {
    /// The position of its end.
    pub(super) end: usize,
    /// The engine's sequence number.
    pub(super) sequence: u64,
    /// Everything up to this number was on stable storage when it was written, by the stamps of its values.
    pub(super) synced: u64,
}

/// The result of parsing at an offset of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parsed {
    /// A batch, undamaged.
    Whole(Batch),
    /// The front of a batch: the journal ends within it.
    Short,
    /// Something that no interrupted write leaves behind.
    Wrong(&'static str),
}

/// An item, as far as it is readable.
pub(super) struct Item<'a> {
    kind: u8,
    pub(super) key: &'a [u8],
    stored: &'a [u8],
}

/// Reads the items of a batch from its start on, whether or not they are undamaged, until the structure
/// breaks. Returns where the items end, or what is there instead of another item.
pub(super) fn items<'a>(
    bytes: &'a [u8],
    at: usize,
    mut each: impl FnMut(Item<'a>),
) -> Result<(u64, usize), Parsed> {
    let wrong = |what| Err(Parsed::Wrong(what));
    if bytes.get(at).is_some_and(|tag| *tag != START) {
        return wrong("there is no start of a change");
    }
    let start = bytes.get(at..).unwrap_or_default();
    let (count, sequence) = batch_start(start).ok_or(Parsed::Short)?;
    let mut at = at + BOUND_BYTES;
    for _ in 0..count {
        if bytes.get(at).is_some_and(|tag| *tag != ITEM) {
            return wrong("there is something else in place of a record");
        }
        let head = item_head(bytes.get(at..).unwrap_or_default()).ok_or(Parsed::Short)?;
        let kind = head.kind;
        if kind > MAX_TYPE || head.compression != 0 || head.value_len != head.stored_len {
            return wrong("a record's head is damaged");
        }
        let key_at = at + ITEM_HEAD_BYTES;
        let value_at = key_at + usize::from(head.key_len);
        let end = value_at.saturating_add(head.stored_len as usize);
        let (Some(key), Some(stored)) = (bytes.get(key_at..value_at), bytes.get(value_at..end))
        else {
            return Err(Parsed::Short);
        };
        each(Item { kind, key, stored });
        at = end;
    }
    Ok((sequence, at))
}

/// The item count and the sequence number in a start.
fn batch_start(mut bytes: &[u8]) -> Option<(u32, u64)> {
    take_u8(&mut bytes)?;
    Some((take_u32(&mut bytes)?, take_u64(&mut bytes)?))
}

/// An item before its key.
struct ItemHead {
    kind: u8,
    compression: u8,
    key_len: u16,
    value_len: u32,
    stored_len: u32,
}

fn item_head(mut bytes: &[u8]) -> Option<ItemHead> {
    let input = &mut bytes;
    take_u8(input)?;
    let (kind, compression) = (take_u8(input)?, take_u8(input)?);
    let _keyspace = take_u64(input)?;
    Some(ItemHead {
        kind,
        compression,
        key_len: take_u16(input)?,
        value_len: take_u32(input)?,
        stored_len: take_u32(input)?,
    })
}

/// Parses what is at `at`, behind the batch with number `before`. `bytes` end with the last one that is not
/// zero: the rest of a journal was never written.
pub(super) fn parse(bytes: &[u8], at: usize, before: Option<u64>) -> Parsed {
    let wrong = Parsed::Wrong;
    let (sequence, items_end) = match items(bytes, at, |_| ()) {
        Ok(found) => found,
        Err(parsed) => return parsed,
    };
    if bytes.get(items_end).is_some_and(|tag| *tag != END) {
        return wrong("a change has more records than it says");
    }
    let mut end = bytes.get(items_end..).unwrap_or_default();
    take_u8(&mut end);
    let (Some(checksum), Some(trailer)) = (take_u64(&mut end), take::<4>(&mut end)) else {
        return Parsed::Short;
    };
    if trailer != *TRAILER {
        return wrong("a change has no proper end");
    }
    let content = bytes.get(at + BOUND_BYTES..items_end).unwrap_or_default();
    if checksum != xxh3_64(content) {
        return wrong("a change's checksum does not match");
    }
    match stamped(bytes, at, sequence, before) {
        Some(synced) if before.is_none_or(|before| sequence > before) => Parsed::Whole(Batch {
            end: items_end + BOUND_BYTES,
            sequence,
            synced,
        }),
        _ => wrong("a change's number does not match its records"),
    }
}

/// The commit up to which everything was on stable storage, by the values' stamps; `None` if they contradict the batch's number.
fn stamped(bytes: &[u8], at: usize, sequence: u64, before: Option<u64>) -> Option<u64> {
    let fits = |stamp: &Stamp| {
        stamp.commit <= sequence
            && sequence - stamp.commit <= MAX_AHEAD
            && before.is_none_or(|before| stamp.commit > before)
    };
    let mut all = Some(0);
    let _ = items(bytes, at, |item| {
        if item.kind == VALUE {
            let stamp = unseal(item.key, item.stored).map(|(_, stamp)| stamp);
            all = match (all, stamp) {
                (Some(synced), Ok(stamp)) if fits(&stamp) => Some(stamp.synced().max(synced)),
                _ => None,
            };
        }
    });
    all
}

/// Whether bytes end as a batch does.
pub(super) fn ends_like_a_batch(bytes: &[u8]) -> bool {
    bytes.ends_with(TRAILER)
}

/// The next whole batch behind `at` whose number is above `before`, and where it begins.
pub(super) fn next_whole(bytes: &[u8], at: usize, before: Option<u64>) -> Option<(usize, Batch)> {
    (at + 1..bytes.len()).find_map(|at| match (bytes.get(at), parse(bytes, at, before)) {
        (Some(&START), Parsed::Whole(batch)) => Some((at, batch)),
        _ => None,
    })
}
