//! The protection of one connection: the stream of frames travels in records (`docs/formats/tcp.md`), which are
//! encrypted or have tags.
//!
//! Each record leaves as soon as it is sealed, so that the other side opens it while the next one is sealed. Keys of
//! the encryption are replaced after every [`RECORDS_PER_KEY`] records of a direction, which keeps the amount of data
//! under one AES-GCM key far below its limit; keys of tags are safe for all numbers that there are.

use causeway_wire::tcp::{MAX_RECORD_PLAIN, RECORD_HEADER_BYTES, RECORD_TAG_BYTES, record};

use super::handshake::Protection;
use crate::ciphers::Ciphers;
use crate::error::PeerError;
use crate::tags::{TAG_BYTES, TagKeys};

/// Records that one key of the encryption seals: 2 GiB of the longest ones.
const RECORDS_PER_KEY: u64 = 1 << 16;

const MAX_SEALED_BYTES: usize = RECORD_HEADER_BYTES + MAX_RECORD_PLAIN + RECORD_TAG_BYTES;

const _: () = assert!(RECORD_TAG_BYTES == TAG_BYTES);

/// Buffers that all connections of one instance share to seal and open records in.
pub(super) struct RecordBuffers {
    plain: Vec<u8>,
    sealed: Vec<u8>,
}

impl RecordBuffers {
    pub(super) fn new() -> Self {
        Self {
            plain: vec![0; MAX_RECORD_PLAIN + RECORD_TAG_BYTES],
            sealed: vec![0; MAX_SEALED_BYTES],
        }
    }
}

/// See the module's page.
pub(super) struct Records {
    protection: Protection,
    /// Numbers of the next records with tags.
    next_sent: u64,
    next_received: u64,
    /// Sealed bytes that the socket did not accept: at most one record.
    unsent: Vec<u8>,
    /// The beginning of a record whose rest has not arrived.
    partial: Vec<u8>,
}

impl Records {
    pub(super) fn new(protection: Protection) -> Self {
        Self {
            protection,
            next_sent: 0,
            next_received: 0,
            unsent: Vec::new(),
            partial: Vec::new(),
        }
    }

    pub(super) fn protection(&self) -> &Protection {
        &self.protection
    }

    /// Sealed bytes that have not left.
    pub(super) fn unsent(&self) -> &[u8] {
        &self.unsent
    }

    /// `count` of the unsent bytes have left.
    pub(super) fn sent(&mut self, count: usize) {
        self.unsent.drain(..count.min(self.unsent.len()));
        if self.unsent.is_empty() {
            self.unsent = Vec::new();
        }
    }

    /// Keeps the bytes that the socket did not accept.
    pub(super) fn keep_unsent(&mut self, rest: &[u8]) {
        self.unsent.extend_from_slice(rest);
    }

    /// Seals what `fill` puts into the buffer that it is given, and returns the record; no bytes if
    /// there was nothing.
    pub(super) fn seal<'a>(
        &mut self,
        buffers: &'a mut RecordBuffers,
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<&'a [u8], PeerError> {
        let RecordBuffers { plain, sealed } = buffers;
        let Some((prefix, body)) = sealed.split_first_chunk_mut::<RECORD_HEADER_BYTES>() else {
            return Ok(&[]);
        };
        let len = match &mut self.protection {
            Protection::Encrypted(ciphers) => {
                let plain = plain.get_mut(..MAX_RECORD_PLAIN).unwrap_or_default();
                let count = fill(plain);
                encrypt(ciphers, plain.get(..count).unwrap_or_default(), body)?
            }
            Protection::Authenticated(keys) => {
                let count = fill(body.get_mut(..MAX_RECORD_PLAIN).unwrap_or_default());
                add_tag(keys, &mut self.next_sent, body, count)
            }
        };
        if len == 0 {
            return Ok(&[]);
        }
        *prefix = record::encode(len);
        Ok(sealed.get(..RECORD_HEADER_BYTES + len).unwrap_or_default())
    }

    /// The beginning of an incomplete record, which precedes the next bytes that arrive.
    pub(super) fn partial(&self) -> &[u8] {
        &self.partial
    }

    /// Opens the whole records in `bytes`, which begin with [`Records::partial`], gives what was in
    /// them to `take` and keeps the rest.
    pub(super) fn open(
        &mut self,
        mut bytes: &[u8],
        buffers: &mut RecordBuffers,
        mut take: impl FnMut(&[u8]) -> Result<(), PeerError>,
    ) -> Result<(), PeerError> {
        while let Some((prefix, rest)) = bytes.split_first_chunk::<RECORD_HEADER_BYTES>() {
            let len =
                record::decode(*prefix).map_err(|error| PeerError::Protocol(error.to_string()))?;
            let Some((sealed, rest)) = rest.split_at_checked(len) else {
                break;
            };
            let opened = match &mut self.protection {
                Protection::Encrypted(ciphers) => decrypt(ciphers, sealed, &mut buffers.plain),
                Protection::Authenticated(keys) => keys
                    .verified(self.next_received, sealed)
                    .inspect(|_| self.next_received += 1),
            };
            take(opened.ok_or_else(|| {
                PeerError::Protocol("a record was altered on the way".to_owned())
            })?)?;
            bytes = rest;
        }
        self.partial.clear();
        self.partial.extend_from_slice(bytes);
        if self.partial.is_empty() {
            self.partial = Vec::new();
        }
        Ok(())
    }
}

/// Encrypts a record, unless there is nothing in it; returns its length with the tag.
fn encrypt(ciphers: &mut Ciphers, plain: &[u8], body: &mut [u8]) -> Result<usize, PeerError> {
    if plain.is_empty() {
        return Ok(0);
    }
    let len = ciphers
        .encrypt(plain, body)
        .ok_or_else(|| PeerError::Broken("encrypting failed".to_owned()))?;
    if ciphers.next_sent().is_multiple_of(RECORDS_PER_KEY) {
        ciphers.rekey_sent();
    }
    Ok(len)
}

/// Decrypts a record into `plain`; nothing if it was altered.
fn decrypt<'a>(ciphers: &mut Ciphers, sealed: &[u8], plain: &'a mut [u8]) -> Option<&'a [u8]> {
    let count = ciphers.decrypt(sealed, plain)?;
    if ciphers.next_received().is_multiple_of(RECORDS_PER_KEY) {
        ciphers.rekey_received();
    }
    plain.get(..count)
}

/// Puts the tag behind the `count` bytes of a record, unless there are none; returns its length with the tag.
fn add_tag(keys: &TagKeys, next: &mut u64, body: &mut [u8], count: usize) -> usize {
    let Some((bytes, behind)) = body.split_at_mut_checked(count) else {
        return 0;
    };
    let Some(room) = behind.first_chunk_mut().filter(|_| !bytes.is_empty()) else {
        return 0;
    };
    *room = keys.tag(*next, bytes);
    *next += 1;
    count + TAG_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ciphers::SessionKeys;
    use crate::tags::tests::finished_handshake;

    /// The two ends of a connection whose records are encrypted, or have tags.
    fn pair(encrypt: bool) -> (Records, Records) {
        let (one, other) = finished_handshake();
        let records = |mut noise: snow::HandshakeState| {
            let keys = SessionKeys::of(&mut noise);
            Records::new(match encrypt {
                true => Protection::Encrypted(Box::new(Ciphers::new(&keys, true).unwrap())),
                false => Protection::Authenticated(Box::new(TagKeys::of(&keys, true))),
            })
        };
        (records(one), records(other))
    }

    #[test]
    fn records_go_on_across_changes_of_the_key_and_altered_ones_are_noticed() {
        for (encrypt, records) in [(true, RECORDS_PER_KEY + 10), (false, 1000)] {
            let (mut one, mut other) = pair(encrypt);
            let mut buffers = RecordBuffers::new();
            let mut opened = 0_u64;
            for number in 0..records {
                let sealed = one.seal(&mut buffers, |into| {
                    into[..8].copy_from_slice(&number.to_le_bytes());
                    8
                });
                let sealed = sealed.unwrap().to_vec();
                // In two parts, cut anywhere.
                let cut = number as usize % sealed.len();
                let mut take = |bytes: &[u8]| {
                    assert_eq!(bytes, opened.to_le_bytes());
                    opened += 1;
                    Ok(())
                };
                other.open(&sealed[..cut], &mut buffers, &mut take).unwrap();
                let whole = [other.partial(), &sealed[cut..]].concat();
                other.open(&whole, &mut buffers, &mut take).unwrap();
            }
            assert_eq!(opened, records);
            let mut sealed = one.seal(&mut buffers, |_| 1).unwrap().to_vec();
            let last = sealed.len() - 1;
            sealed[last] ^= 1;
            let altered = other.open(&sealed, &mut buffers, |_| Ok(()));
            assert!(matches!(altered, Err(PeerError::Protocol(_))));
        }
    }

    /// Attacks on records on the way: each ends the connection, and nothing is delivered but what was sent, in its place.
    #[test]
    fn records_that_are_repeated_left_out_moved_or_sent_back_are_noticed() {
        for encrypt in [true, false] {
            for attack in ["repeated", "left out", "moved", "sent back", "joined"] {
                let (mut one, mut other) = pair(encrypt);
                let mut buffers = RecordBuffers::new();
                let sealed: Vec<Vec<u8>> = (0..3)
                    .map(|number| {
                        let fill = |into: &mut [u8]| {
                            into[..4].fill(number);
                            4
                        };
                        one.seal(&mut buffers, fill).unwrap().to_vec()
                    })
                    .collect();
                let (arrives, good): (Vec<u8>, usize) = match attack {
                    "repeated" => ([&sealed[0][..], &sealed[0]].concat(), 1),
                    "left out" => ([&sealed[0][..], &sealed[2]].concat(), 1),
                    "moved" => ([&sealed[1][..], &sealed[0]].concat(), 0),
                    "sent back" => (sealed[0].clone(), 0),
                    _ => {
                        // One record made of the contents of two.
                        let mut joined = record::encode(2 * 4 + RECORD_TAG_BYTES).to_vec();
                        joined.extend(&sealed[0][RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + 4]);
                        joined.extend(&sealed[1][RECORD_HEADER_BYTES..]);
                        (joined, 0)
                    }
                };
                let to = match attack {
                    "sent back" => &mut one,
                    _ => &mut other,
                };
                let mut taken = Vec::new();
                let outcome = to.open(&arrives, &mut buffers, |bytes| {
                    taken.push(bytes.to_vec());
                    Ok(())
                });
                assert!(outcome.is_err(), "{attack}, encrypted: {encrypt}");
                let expected: Vec<_> = (0..good).map(|number| vec![number as u8; 4]).collect();
                assert_eq!(taken, expected, "{attack}, encrypted: {encrypt}");
            }
        }
    }

    #[test]
    fn the_longest_record_fits_and_what_is_not_sent_is_kept() {
        for encrypt in [true, false] {
            let (mut one, mut other) = pair(encrypt);
            let mut buffers = RecordBuffers::new();
            assert!(one.seal(&mut buffers, |_| 0).unwrap().is_empty());
            let sealed = one.seal(&mut buffers, |into| into.len()).unwrap().to_vec();
            assert_eq!(sealed.len(), MAX_SEALED_BYTES);
            let mut bytes = 0;
            let count = |plain: &[u8]| {
                bytes += plain.len();
                Ok(())
            };
            other.open(&sealed, &mut buffers, count).unwrap();
            assert_eq!(bytes, MAX_RECORD_PLAIN);
            one.keep_unsent(&sealed);
            one.sent(10);
            assert_eq!(one.unsent(), &sealed[10..]);
            one.sent(sealed.len());
            assert!(one.unsent().is_empty());
        }
    }
}
