//! The ciphers of a connection, from the keys of a finished handshake.
//!
//! Implements Noise's transport messages (revision 34, sections 5.1 and 4.2) from the keys alone, so that a process can use a
//! connection whose handshake was made by an agent, which hands over nothing but the keys.

use causeway_wire::agent::KEY_BYTES;
use snow::params::CipherChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver, FallbackResolver, RingResolver};
use snow::types::Cipher;
use zeroize::Zeroizing;

/// Bytes that encryption adds.
const TAG_BYTES: usize = 16;

/// Longest transport message, by Noise's definition.
const MAX_MESSAGE_BYTES: usize = 65_535;

/// The two keys of a connection, as one side has them.
pub(crate) struct SessionKeys {
    /// For what this side sends.
    pub(crate) ours: Zeroizing<[u8; KEY_BYTES]>,
    /// For what the other side sends.
    pub(crate) theirs: Zeroizing<[u8; KEY_BYTES]>,
}

impl SessionKeys {
    /// The keys that a finished handshake has derived.
    pub(crate) fn of(noise: &mut snow::HandshakeState) -> Self {
        let (from_initiator, from_responder) = noise.dangerously_get_raw_split();
        let [initiator, responder] = [from_initiator, from_responder].map(Zeroizing::new);
        match noise.is_initiator() {
            true => Self {
                ours: initiator,
                theirs: responder,
            },
            false => Self {
                ours: responder,
                theirs: initiator,
            },
        }
    }
}

impl std::fmt::Debug for SessionKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionKeys(secret)")
    }
}

/// One direction: a cipher with its key, and the number of its next message.
struct Direction {
    cipher: Box<dyn Cipher>,
    next: u64,
}

impl Direction {
    fn new(key: &[u8; KEY_BYTES], fast_aes: bool) -> Option<Self> {
        let choice = match fast_aes {
            true => CipherChoice::AESGCM,
            false => CipherChoice::ChaChaPoly,
        };
        // The same resolvers, in the same order, that the library's own builder uses.
        let resolver = FallbackResolver::new(Box::new(RingResolver), Box::new(DefaultResolver));
        let mut cipher = resolver.resolve_cipher(&choice)?;
        cipher.set(key);
        Some(Self { cipher, next: 0 })
    }

    /// The number of the next message; `None` if only the largest number is left, which Noise
    /// reserves for making new keys.
    fn number(&self) -> Option<u64> {
        (self.next != u64::MAX).then_some(self.next)
    }
}

/// See the module's page.
pub struct Ciphers {
    ours: Direction,
    theirs: Direction,
}

impl Ciphers {
    /// Ciphers with these keys, before any message in either direction; `fast_aes` chooses the cipher. `None` if the library does
    /// not have that cipher, which never happens.
    pub(crate) fn new(keys: &SessionKeys, fast_aes: bool) -> Option<Self> {
        Some(Self {
            ours: Direction::new(&keys.ours, fast_aes)?,
            theirs: Direction::new(&keys.theirs, fast_aes)?,
        })
    }

    /// Encrypts the next message of this side, and returns its length; `None` if there is no room for it.
    pub(crate) fn encrypt(&mut self, plain: &[u8], sealed: &mut [u8]) -> Option<usize> {
        let len = plain.len() + TAG_BYTES;
        if len > MAX_MESSAGE_BYTES || len > sealed.len() {
            return None;
        }
        let number = self.ours.number()?;
        let len = self.ours.cipher.encrypt(number, &[], plain, sealed);
        self.ours.next += 1;
        Some(len)
    }

    /// Decrypts the next message of the other side, and returns its length; `None` if `sealed` is not that message,
    /// unaltered.
    pub(crate) fn decrypt(&mut self, sealed: &[u8], plain: &mut [u8]) -> Option<usize> {
        let len = sealed.len().checked_sub(TAG_BYTES)?;
        if sealed.len() > MAX_MESSAGE_BYTES || len > plain.len() {
            return None;
        }
        let number = self.theirs.number()?;
        let opened = self.theirs.cipher.decrypt(number, &[], sealed, plain);
        let len = opened.ok()?;
        self.theirs.next += 1;
        Some(len)
    }

    /// The number of this side's next message.
    pub(crate) fn next_sent(&self) -> u64 {
        self.ours.next
    }

    /// The number of the other side's next message.
    pub(crate) fn next_received(&self) -> u64 {
        self.theirs.next
    }

    /// Gives this side's messages another key.
    pub(crate) fn rekey_sent(&mut self) {
        self.ours.cipher.rekey();
    }

    /// Gives the other side's messages another key.
    pub(crate) fn rekey_received(&mut self) {
        self.theirs.cipher.rekey();
    }
}

impl std::fmt::Debug for Ciphers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ciphers(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tags::tests::finished_handshake_with;

    /// Noise's own transport state and these ciphers understand each other, in both directions, also after changes of keys: builds
    /// before this module use the former.
    #[test]
    fn they_are_those_of_noise() {
        for (fast_aes, protocol) in [
            (true, "Noise_NNpsk0_25519_AESGCM_BLAKE2s"),
            (false, "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s"),
        ] {
            for initiates in [true, false] {
                let (one, other) = finished_handshake_with(protocol);
                let (mut own, theirs) = match initiates {
                    true => (one, other),
                    false => (other, one),
                };
                let mut ciphers = Ciphers::new(&SessionKeys::of(&mut own), fast_aes).unwrap();
                let mut noise = theirs.into_transport_mode().unwrap();
                let (mut sealed, mut plain) = ([0; 100], [0; 100]);
                for round in 0..4_u8 {
                    let len = ciphers.encrypt(&[round; 5], &mut sealed).unwrap();
                    let len = noise.read_message(&sealed[..len], &mut plain).unwrap();
                    assert_eq!(plain[..len], [round; 5]);
                    let len = noise.write_message(&[round; 7], &mut sealed).unwrap();
                    let len = ciphers.decrypt(&sealed[..len], &mut plain).unwrap();
                    assert_eq!(plain[..len], [round; 7]);
                    let numbers = (ciphers.next_sent(), ciphers.next_received());
                    assert_eq!(numbers, (noise.receiving_nonce(), noise.sending_nonce()));
                    if round == 1 {
                        ciphers.rekey_sent();
                        noise.rekey_incoming();
                        ciphers.rekey_received();
                        noise.rekey_outgoing();
                    }
                }
                // Again the same record, and one that has no room.
                assert!(ciphers.decrypt(&sealed[..23], &mut plain).is_none());
                assert!(ciphers.encrypt(&[0; 10], &mut sealed[..25]).is_none());
                assert!(ciphers.decrypt(&[0; 15], &mut plain).is_none());
            }
        }
    }
}
