//! Content that can be checked: every byte of a large file follows from its position, at almost no cost
//! while writing.
//!
//! A piece is filled once; before each write only the first eight bytes of every page are stamped
//! with their position in the file, so that a misplaced, stale or torn piece is detected.

use causeway_command::remote::PIECE_BYTES;
use causeway_wire::random;

/// Bytes between stamps.
pub(crate) const PAGE: usize = 4096;

/// The content of benchmark files.
pub(crate) struct Content;

impl Content {
    /// Fills `bytes` as they lie in the file from `offset` on.
    pub(crate) fn fill(offset: u64, bytes: &mut [u8]) {
        for (at, chunk) in bytes.chunks_mut(8).enumerate() {
            let word = random::nth((at * 8 % PIECE_BYTES) as u64, 0).to_le_bytes();
            if let Some(from) = word.get(..chunk.len()) {
                chunk.copy_from_slice(from);
            }
        }
        for (at, stamp) in Self::stamps(offset, bytes.len()) {
            if let Some(place) = bytes.get_mut(at..at + stamp.len()) {
                place.copy_from_slice(&stamp);
            }
        }
    }

    /// The stamps of a piece of `len` bytes that lies at `offset`, each with its position in the piece.
    pub(crate) fn stamps(offset: u64, len: usize) -> impl Iterator<Item = (usize, [u8; 8])> {
        (0..len)
            .step_by(PAGE)
            .filter(move |at| at + 8 <= len)
            .map(move |at| {
                let place = offset + at as u64;
                (
                    at,
                    random::nth(place ^ 0x5eed_cafe_0000_0001, 0).to_le_bytes(),
                )
            })
    }

    /// The position in the file of the first byte that differs from what [`Content::fill`] makes.
    pub(crate) fn first_difference(offset: u64, bytes: &[u8]) -> Option<u64> {
        let mut wanted = vec![0; bytes.len()];
        Self::fill(offset, &mut wanted);
        if wanted == bytes {
            return None;
        }
        let at = wanted
            .iter()
            .zip(bytes)
            .position(|(one, other)| one != other)?;
        Some(offset + at as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_or_a_piece_at_the_wrong_place_shows() {
        let mut bytes = vec![0; 3 * PAGE + 100];
        Content::fill(8192, &mut bytes);
        assert_eq!(Content::first_difference(8192, &bytes), None);
        assert_eq!(Content::first_difference(12_288, &bytes), Some(12_288));
        bytes[5000] ^= 1;
        assert_eq!(Content::first_difference(8192, &bytes), Some(8192 + 5000));
    }

    #[test]
    fn stamps_alone_move_a_piece_to_another_place() {
        let mut bytes = vec![0; 2 * PAGE];
        Content::fill(0, &mut bytes);
        for (at, stamp) in Content::stamps(PAGE as u64 * 7, bytes.len()) {
            bytes[at..at + 8].copy_from_slice(&stamp);
        }
        assert_eq!(Content::first_difference(PAGE as u64 * 7, &bytes), None);
    }

    #[test]
    fn short_content_works() {
        for len in 0..20 {
            let mut bytes = vec![0; len];
            Content::fill(3, &mut bytes);
            assert_eq!(Content::first_difference(3, &bytes), None);
        }
    }
}
