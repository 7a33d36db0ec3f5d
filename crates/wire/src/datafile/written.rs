//! Which groups of a datafile were written: a block without a sum in one of these is lost, in any other a hole.

use alloc::vec::Vec;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::layout::BLOCK_BYTES;
use super::sums::Binding;
use crate::codec::{Malformed, Reader, Wire, Writer, unknown, within};

/// Offset of the record in the file: in the header's page, after the header's sector.
pub const WRITTEN_OFFSET: u64 = 512;
/// Groups from the first on that have a bit each: 32 GiB of data.
pub const NEAR_GROUPS: u64 = 16 << 10;
/// Most spans of groups behind these.
pub const MAX_FAR_SPANS: usize = 94;

const NEAR_BYTES: usize = (NEAR_GROUPS / 8) as usize;
const SPAN_BYTES: usize = 16;
/// Bytes of the binding and of the number of spans.
const HEAD_BYTES: usize = 16;
const SEED: u64 = 0x7772_6974_7465_6e0a;

const _: () = assert!(
    WRITTEN_OFFSET as usize + HEAD_BYTES + NEAR_BYTES + MAX_FAR_SPANS * SPAN_BYTES + 8
        <= BLOCK_BYTES as usize
);

/// The groups of a datafile that were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenGroups {
    /// The binding of the datafile.
    pub binding: Binding,
    /// First group of each span and the one after its last, ascending, with gaps between spans. At
    /// most [`MAX_FAR_SPANS`] spans reach beyond [`NEAR_GROUPS`].
    pub spans: Vec<(u64, u64)>,
}

impl Wire for WrittenGroups {
    fn encode(&self, out: &mut Writer) {
        let start = out.len();
        let mut near = [0u8; NEAR_BYTES];
        let mut far = Vec::new();
        for &(first, end) in &self.spans {
            for group in first..end.min(NEAR_GROUPS) {
                near[(group / 8) as usize] |= 1 << (group % 8);
            }
            if end > NEAR_GROUPS && far.len() < MAX_FAR_SPANS {
                far.push((first.max(NEAR_GROUPS), end));
            }
        }
        out.u64(self.binding.0);
        out.u64(far.len() as u64);
        out.raw(&near);
        for (first, end) in far {
            out.u64(first);
            out.u64(end);
        }
        let check = xxh3_64_with_seed(out.written(start), SEED);
        out.u64(check);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let whole = input.clone();
        let binding = Binding(input.u64("binding of written groups")?);
        let count = input.u64("spans of written groups")?;
        within(count, MAX_FAR_SPANS as u64, "spans of written groups")?;
        let near = input.take(NEAR_BYTES, "bits of written groups")?;
        let far_bytes = count as usize * SPAN_BYTES;
        let mut far = Reader::new(input.take(far_bytes, "spans of written groups")?);
        let summed = HEAD_BYTES + NEAR_BYTES + far_bytes;
        let summed = whole.clone().take(summed, "written groups")?;
        let check = input.u64("check of written groups")?;
        if xxh3_64_with_seed(summed, SEED) != check {
            return unknown("check of written groups", check);
        }
        let mut spans = near_spans(near);
        let mut least = NEAR_GROUPS;
        for _ in 0..count {
            let first = far.u64("first written group")?;
            let end = far.u64("end of written groups")?;
            if first < least || end <= first {
                return unknown("first written group", first);
            }
            // The next span begins after a gap.
            least = end.saturating_add(1);
            join(&mut spans, first, end);
        }
        Ok(Self { binding, spans })
    }
}

/// The spans of bits that are set.
fn near_spans(bits: &[u8]) -> Vec<(u64, u64)> {
    let mut spans = Vec::new();
    for (start, byte) in (0..).step_by(8).zip(bits) {
        match byte {
            0 => {}
            0xff => join(&mut spans, start, start + 8),
            byte => (0..8)
                .filter(|bit| byte & (1 << bit) != 0)
                .for_each(|bit| join(&mut spans, start + bit, start + bit + 1)),
        }
    }
    spans
}

/// Adds a span that does not begin before the last one's end.
fn join(spans: &mut Vec<(u64, u64)>, first: u64, end: u64) {
    match spans.last_mut() {
        Some(last) if last.1 == first => last.1 = end,
        _ => spans.push((first, end)),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::fs::{Generation, ObjectId};

    fn written(spans: &[(u64, u64)]) -> WrittenGroups {
        WrittenGroups {
            binding: Binding::new(1, Generation(2), ObjectId(3)),
            spans: spans.to_vec(),
        }
    }

    #[test]
    fn written_groups_have_these_bytes() {
        let groups = written(&[
            (0, 1),
            (3, 20),
            (NEAR_GROUPS - 1, NEAR_GROUPS + 2),
            (1 << 40, 1 << 41),
        ]);
        let bytes = groups.to_bytes();
        let mut expected = groups.binding.0.to_le_bytes().to_vec();
        expected.extend([2, 0, 0, 0, 0, 0, 0, 0, 0xf9, 0xff, 0x0f]);
        expected.resize(HEAD_BYTES + NEAR_BYTES - 1, 0);
        expected.push(0x80);
        for value in [NEAR_GROUPS, NEAR_GROUPS + 2, 1 << 40, 1 << 41] {
            expected.extend(value.to_le_bytes());
        }
        assert_eq!(bytes[..bytes.len() - 8], expected);
        assert_eq!(
            bytes[bytes.len() - 8..],
            [101, 216, 129, 238, 151, 214, 234, 252]
        );
        assert_eq!(WrittenGroups::from_bytes(&bytes), Ok(groups));
    }

    #[test]
    fn entries_are_read_back_and_damaged_ones_are_not() {
        for spans in [
            vec![],
            vec![(0, NEAR_GROUPS)],
            vec![(NEAR_GROUPS, NEAR_GROUPS + 1)],
            vec![(7, u64::MAX)],
            (0..NEAR_GROUPS / 2).map(|i| (2 * i, 2 * i + 1)).collect(),
            (0..MAX_FAR_SPANS as u64)
                .map(|i| ((1 << 20) + 9 * i, (1 << 20) + 9 * i + 2))
                .collect(),
        ] {
            let groups = written(&spans);
            let bytes = groups.to_bytes();
            assert_eq!(WrittenGroups::from_bytes(&bytes), Ok(groups));
            for bit in (0..bytes.len() * 8).step_by(61) {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(WrittenGroups::from_bytes(&flipped).is_err(), "bit {bit}");
            }
        }
        // A list that was never written, or was lost, does not read as an empty one.
        assert!(WrittenGroups::from_bytes(&[0; HEAD_BYTES + NEAR_BYTES + 8]).is_err());
    }
}
