//! The encryption of one connection: the stream of frames as records (`docs/formats/tcp.md`).
//!
//! Each record leaves as soon as it is sealed, so that the other side opens it while the next one is
//! sealed. Keys are replaced after every [`RECORDS_PER_KEY`] records of a direction, which keeps what
//! one AES-GCM key has sealed far below what it is good for.

use causeway_wire::tcp::{MAX_RECORD_PLAIN, RECORD_HEADER_BYTES, RECORD_TAG_BYTES, record};

use crate::error::PeerError;

/// Records that one key seals: 2 GiB of the longest ones.
const RECORDS_PER_KEY: u64 = 1 << 16;

const MAX_SEALED_BYTES: usize = RECORD_HEADER_BYTES + MAX_RECORD_PLAIN + RECORD_TAG_BYTES;

/// Room that all connections of one instance share to seal and open records in.
pub(super) struct Room {
    plain: Vec<u8>,
    sealed: Vec<u8>,
}

impl Room {
    pub(super) fn new() -> Self {
        Self {
            plain: vec![0; MAX_RECORD_PLAIN + RECORD_TAG_BYTES],
            sealed: vec![0; MAX_SEALED_BYTES],
        }
    }
}

/// See the module's page.
pub(super) struct Cipher {
    noise: Box<snow::TransportState>,
    /// Sealed bytes that the socket did not take: at most one record.
    unsent: Vec<u8>,
    /// The beginning of a record whose rest has not come.
    partial: Vec<u8>,
}

impl Cipher {
    pub(super) fn new(noise: Box<snow::TransportState>) -> Self {
        Self {
            noise,
            unsent: Vec::new(),
            partial: Vec::new(),
        }
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

    /// Keeps what the socket did not take.
    pub(super) fn keep_unsent(&mut self, rest: &[u8]) {
        self.unsent.extend_from_slice(rest);
    }

    /// Seals what `fill` puts into the room that it is given, and returns the record; no bytes if
    /// there was nothing.
    pub(super) fn seal<'a>(
        &mut self,
        room: &'a mut Room,
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<&'a [u8], PeerError> {
        let plain = room.plain.get_mut(..MAX_RECORD_PLAIN).unwrap_or_default();
        let count = fill(plain);
        let plain = plain.get(..count).unwrap_or_default();
        let out = room.sealed.split_first_chunk_mut::<RECORD_HEADER_BYTES>();
        let Some((prefix, body)) = out.filter(|_| !plain.is_empty()) else {
            return Ok(&[]);
        };
        let len = self
            .noise
            .write_message(plain, body)
            .map_err(|error| PeerError::Broken(format!("encrypting failed: {error}")))?;
        if self.noise.sending_nonce().is_multiple_of(RECORDS_PER_KEY) {
            self.noise.rekey_outgoing();
        }
        *prefix = record::encode(len);
        Ok(room
            .sealed
            .get(..RECORD_HEADER_BYTES + len)
            .unwrap_or_default())
    }

    /// The beginning of a record, which goes before the next bytes that come.
    pub(super) fn partial(&self) -> &[u8] {
        &self.partial
    }

    /// Opens the whole records in `bytes`, which begin with [`Cipher::partial`], gives what was in
    /// them to `take` and keeps the rest.
    pub(super) fn open(
        &mut self,
        mut bytes: &[u8],
        room: &mut Room,
        mut take: impl FnMut(&[u8]) -> Result<(), PeerError>,
    ) -> Result<(), PeerError> {
        while let Some((prefix, rest)) = bytes.split_first_chunk::<RECORD_HEADER_BYTES>() {
            let len =
                record::decode(*prefix).map_err(|error| PeerError::Protocol(error.to_string()))?;
            let Some((sealed, rest)) = rest.split_at_checked(len) else {
                break;
            };
            let count = self
                .noise
                .read_message(sealed, &mut room.plain)
                .map_err(|_| PeerError::Protocol("a record was altered on the way".to_owned()))?;
            if self.noise.receiving_nonce().is_multiple_of(RECORDS_PER_KEY) {
                self.noise.rekey_incoming();
            }
            take(room.plain.get(..count).unwrap_or_default())?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Cipher, Cipher) {
        let build = || {
            snow::Builder::new("Noise_NNpsk0_25519_AESGCM_BLAKE2s".parse().unwrap())
                .psk(0, &[7; 32])
                .unwrap()
        };
        let mut one = build().build_initiator().unwrap();
        let mut other = build().build_responder().unwrap();
        let (mut message, mut empty) = ([0; 128], [0; 128]);
        let len = one.write_message(&[], &mut message).unwrap();
        other.read_message(&message[..len], &mut empty).unwrap();
        let len = other.write_message(&[], &mut message).unwrap();
        one.read_message(&message[..len], &mut empty).unwrap();
        let cipher = |noise: snow::HandshakeState| {
            Cipher::new(Box::new(noise.into_transport_mode().unwrap()))
        };
        (cipher(one), cipher(other))
    }

    #[test]
    fn records_go_on_across_changes_of_the_key_and_altered_ones_are_noticed() {
        let (mut one, mut other) = pair();
        let mut room = Room::new();
        let mut opened = 0_u64;
        for number in 0..RECORDS_PER_KEY + 10 {
            let sealed = one.seal(&mut room, |into| {
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
            other.open(&sealed[..cut], &mut room, &mut take).unwrap();
            let whole = [other.partial(), &sealed[cut..]].concat();
            other.open(&whole, &mut room, &mut take).unwrap();
        }
        assert_eq!(opened, RECORDS_PER_KEY + 10);
        let mut sealed = one.seal(&mut room, |_| 1).unwrap().to_vec();
        let last = sealed.len() - 1;
        sealed[last] ^= 1;
        let altered = other.open(&sealed, &mut room, |_| Ok(()));
        assert!(matches!(altered, Err(PeerError::Protocol(_))));
    }

    #[test]
    fn the_longest_record_fits_and_what_is_not_sent_is_kept() {
        let (mut one, mut other) = pair();
        let mut room = Room::new();
        assert!(one.seal(&mut room, |_| 0).unwrap().is_empty());
        let sealed = one.seal(&mut room, |into| into.len()).unwrap().to_vec();
        assert_eq!(sealed.len(), MAX_SEALED_BYTES);
        let mut bytes = 0;
        let count = |plain: &[u8]| {
            bytes += plain.len();
            Ok(())
        };
        other.open(&sealed, &mut room, count).unwrap();
        assert_eq!(bytes, MAX_RECORD_PLAIN);
        one.keep_unsent(&sealed);
        one.sent(10);
        assert_eq!(one.unsent(), &sealed[10..]);
        one.sent(sealed.len());
        assert!(one.unsent().is_empty());
    }
}
