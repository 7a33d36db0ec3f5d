//! Appending a span's bytes to a vector.

use super::Memory;
use crate::small;

impl Memory {
    /// Appends the span's bytes, from `offset` on, to `into`.
    ///
    /// # Panics
    /// If `offset` is behind the span's end.
    pub fn append_from(&self, offset: usize, into: &mut Vec<u8>) {
        assert!(offset <= self.len());
        let len = self.len() - offset;
        into.reserve(len);
        let room = into.spare_capacity_mut();
        // SAFETY: the bytes from `offset` on are inside the span, and there is room for `len`, exclusively borrowed, so that they
        // do not overlap unless a caller broke `from_raw`'s contract. They are written before they count.
        unsafe {
            small::copy(self.as_ptr().add(offset), room.as_mut_ptr().cast(), len);
            into.set_len(into.len() + len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appended_bytes_follow_those_that_were_there() {
        let memory = Memory::from_vec((1..=200).collect());
        for offset in [0, 1, 100, 136, 184, 192, 199, 200] {
            let mut into = vec![7; 3];
            memory.append_from(offset, &mut into);
            let (before, appended) = into.split_at(3);
            assert_eq!(before, [7; 3]);
            assert!(appended.iter().copied().eq(offset as u8 + 1..=200));
        }
    }
}
