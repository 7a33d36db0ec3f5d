//! Tags: each shows that the bytes before it were sent by the other side, are unaltered and arrive in
//! order. Tags do not hide the bytes.
//!
//! For connections between holders of the cluster's key where neither side wants encryption. The keys are derived from the
//! same Noise exchange as those of the encryption, one for each direction, so a tag is valid for one connection, one direction
//! and one number. Bytes that an attacker alters, repeats, leaves out, reorders or sends back are detected, as an altered
//! record of an encrypted connection is.
//!
//! Tags are AEGIS-128L's where both processors have instructions for AES, else BLAKE3's; `docs/tcp-engine.md` has what the candidates
//! cost.

use aegis::aegis128l::Aegis128LMac;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::ciphers::SessionKeys;

/// Bytes of a tag; as many as an encrypted record has in the same place.
pub(crate) const TAG_BYTES: usize = 16;

/// The contexts from which keys of tags are derived. No other use of the exchange's keys has these
/// contexts.
const AEGIS_CONTEXT: &str = "causeway transport 2026 tags of records, AEGIS-128L";
const BLAKE_CONTEXT: &str = "causeway transport 2026 tags of records, BLAKE3";

/// The keys of a connection, one for each direction.
pub struct TagKeys {
    /// For what this side sends.
    ours: TagKey,
    /// For what the other side sends.
    theirs: TagKey,
}

impl TagKeys {
    /// Derives them from the keys of a finished handshake; `fast_aes` if both processors have instructions for
    /// AES.
    pub(crate) fn of(keys: &SessionKeys, fast_aes: bool) -> Self {
        Self {
            ours: TagKey::of(&keys.ours, fast_aes),
            theirs: TagKey::of(&keys.theirs, fast_aes),
        }
    }

    /// The tag of bytes that this side sends under a number that it has not used before.
    pub(crate) fn tag(&self, number: u64, bytes: &[u8]) -> [u8; TAG_BYTES] {
        self.ours.tag(number, bytes)
    }

    /// Returns the bytes without the tag behind them if the tag shows that the other side has sent them under this
    /// number, otherwise `None`.
    pub(crate) fn verified<'a>(&self, number: u64, tagged: &'a [u8]) -> Option<&'a [u8]> {
        let (bytes, tag) = tagged.split_last_chunk::<TAG_BYTES>()?;
        let expected = self.theirs.tag(number, bytes);
        bool::from(expected.ct_eq(tag)).then_some(bytes)
    }
}

impl std::fmt::Debug for TagKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TagKeys(secret)")
    }
}

/// The key of one direction.
enum TagKey {
    Aegis(Zeroizing<[u8; 16]>),
    Blake(Zeroizing<[u8; 32]>),
}

impl TagKey {
    fn of(split: &[u8; 32], fast_aes: bool) -> Self {
        let derive = |context| Zeroizing::new(blake3::derive_key(context, split));
        match fast_aes {
            true => {
                let mut key = Zeroizing::new([0; 16]);
                key.copy_from_slice(&derive(AEGIS_CONTEXT)[..16]);
                Self::Aegis(key)
            }
            false => Self::Blake(derive(BLAKE_CONTEXT)),
        }
    }

    fn tag(&self, number: u64, bytes: &[u8]) -> [u8; TAG_BYTES] {
        match self {
            Self::Aegis(key) => {
                let mut nonce = [0; 16];
                nonce[..8].copy_from_slice(&number.to_le_bytes());
                let mut mac = Aegis128LMac::<TAG_BYTES>::new_with_nonce(key, &nonce);
                mac.update(bytes);
                mac.finalize()
            }
            Self::Blake(key) => {
                let mut hasher = blake3::Hasher::new_keyed(key);
                hasher.update(bytes);
                hasher.update(&number.to_le_bytes());
                let mut tag = [0; TAG_BYTES];
                hasher.finalize_xof().fill(&mut tag);
                tag
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The two sides of a finished handshake, the caller's first.
    pub(crate) fn finished_handshake() -> (snow::HandshakeState, snow::HandshakeState) {
        finished_handshake_with("Noise_NNpsk0_25519_AESGCM_BLAKE2s")
    }

    /// The same of this protocol.
    pub(crate) fn finished_handshake_with(
        protocol: &str,
    ) -> (snow::HandshakeState, snow::HandshakeState) {
        let build = || {
            snow::Builder::new(protocol.parse().unwrap())
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
        (one, other)
    }

    fn pair(fast_aes: bool) -> (TagKeys, TagKeys) {
        let (mut one, mut other) = finished_handshake();
        let keys = |side| TagKeys::of(&SessionKeys::of(side), fast_aes);
        (keys(&mut one), keys(&mut other))
    }

    fn tagged(keys: &TagKeys, number: u64, bytes: &[u8]) -> Vec<u8> {
        [bytes, &keys.tag(number, bytes)].concat()
    }

    #[test]
    fn a_tag_fits_one_connection_direction_number_and_content() {
        for fast_aes in [true, false] {
            let (one, other) = pair(fast_aes);
            for len in [0, 1, 63, 64, 1024, 32 * 1024] {
                let bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
                let sent = tagged(&one, 3, &bytes);
                assert_eq!(other.verified(3, &sent), Some(&bytes[..]));
                for number in [4, 3 << 32, u64::MAX] {
                    assert_eq!(other.verified(number, &sent), None, "another number");
                }
                assert_eq!(one.verified(3, &sent), None, "sent back");
                let (_, stranger) = pair(fast_aes);
                assert_eq!(stranger.verified(3, &sent), None, "another connection");
                for at in [0, sent.len() / 2, sent.len() - 1] {
                    let mut altered = sent.clone();
                    altered[at] ^= 1;
                    assert_eq!(other.verified(3, &altered), None, "byte {at} of {len}");
                }
                assert_eq!(other.verified(3, &sent[1..]), None, "cut off in front");
            }
            assert_eq!(other.verified(0, &[0; TAG_BYTES - 1]), None);
        }
    }

    #[test]
    fn bytes_and_number_do_not_run_into_each_other() {
        let (one, other) = pair(false);
        let sent = tagged(&one, 5, &[1; 8]);
        let mut longer = vec![1; 8];
        longer.extend(5_u64.to_le_bytes());
        longer.extend(&sent[8..]);
        for number in [0, 5, u64::from_le_bytes([1; 8])] {
            assert_eq!(other.verified(number, &longer), None);
        }
    }

    #[test]
    fn tags_have_their_golden_bytes() {
        let number = 0x0807_0605_0403_0201;
        for (fast_aes, golden) in [(true, AEGIS_GOLDEN), (false, BLAKE_GOLDEN)] {
            let key = TagKey::of(&[0x42; 32], fast_aes);
            assert_eq!(u128::from_be_bytes(key.tag(number, b"causeway")), golden);
        }
    }

    const AEGIS_GOLDEN: u128 = 0x6aa5_ff6c_0856_bd56_e97e_6b6d_c217_3428;
    const BLAKE_GOLDEN: u128 = 0xf880_b4c9_fa41_72ed_d427_5b39_2b91_e4bb;
}
