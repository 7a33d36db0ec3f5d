//! A position in a list of memory.

use causeway_sys::memory::Memory;

/// A position in a list that is kept elsewhere.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cursor {
    index: usize,
    offset: usize,
}

impl Cursor {
    /// The next span of at most `most` bytes, which stays where it is; `None` at the end of the list.
    pub(super) fn peek(&mut self, list: &[Memory], most: usize) -> Option<Memory> {
        loop {
            let memory = list.get(self.index)?;
            let rest = memory.len().saturating_sub(self.offset);
            if rest > 0 {
                return Some(memory.slice(self.offset..self.offset + rest.min(most)));
            }
            self.index += 1;
            self.offset = 0;
        }
    }

    /// Adds the spans of the next `missing` bytes to `spans`, as far as it then has at most `most`.
    pub(super) fn spans(
        mut self,
        list: &[Memory],
        mut missing: usize,
        most: usize,
        spans: &mut Vec<Memory>,
    ) {
        while missing > 0 && spans.len() < most {
            let Some(span) = self.peek(list, missing) else {
                return;
            };
            self.skip(list, span.len());
            missing -= span.len();
            spans.push(span);
        }
    }

    /// Steps over `count` bytes.
    pub(super) fn skip(&mut self, list: &[Memory], mut count: usize) {
        while let Some(memory) = list.get(self.index).filter(|_| count > 0) {
            let rest = memory.len().saturating_sub(self.offset);
            if count < rest {
                self.offset += count;
                return;
            }
            count -= rest;
            self.index += 1;
            self.offset = 0;
        }
    }

    /// Copies `bytes` to the position and steps over them.
    pub(super) fn write(&mut self, list: &[Memory], mut bytes: &[u8]) {
        while let Some(span) = self.peek(list, bytes.len()).filter(|span| !span.is_empty()) {
            let (now, rest) = bytes.split_at(span.len());
            span.write_at(0, now);
            self.offset += now.len();
            bytes = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_spans_are_stepped_over_and_the_end_is_the_end() {
        let list = [0, 3, 0, 4, 0].map(Memory::zeroed);
        let mut cursor = Cursor::default();
        assert_eq!(cursor.peek(&list, 9).map(|span| span.len()), Some(3));
        cursor.write(&list, b"abcd");
        assert_eq!(cursor.peek(&list, 2).map(|span| span.len()), Some(2));
        cursor.skip(&list, 1);
        cursor.write(&list, b"fg too much");
        assert!(cursor.peek(&list, 1).is_none());
        assert_eq!(list[1].to_vec(), b"abc");
        assert_eq!(list[3].to_vec(), b"d\0fg");
    }
}
