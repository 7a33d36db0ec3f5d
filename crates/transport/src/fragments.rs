//! Lists of fragments: positions in them, checks of transfers, and the memory that a fragment of an
//! export names.

use std::ops::Range;

use causeway_sys::memory::Memory;
use causeway_wire::region::RegionDescriptor;

use crate::error::TransferError;
use crate::method::{Direction, Spans, Transfer};

/// A fragment of a list: local memory, or a region of a peer's.
pub(crate) trait Fragment {
    /// Length in bytes.
    fn bytes(&self) -> u64;
}

impl Fragment for Memory {
    #[inline]
    fn bytes(&self) -> u64 {
        self.len() as u64
    }
}

impl Fragment for RegionDescriptor {
    #[inline]
    fn bytes(&self) -> u64 {
        self.len
    }
}

/// A position in a list that is stored elsewhere. Empty fragments are skipped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cursor {
    fragment: usize,
    offset: u64,
}

impl Cursor {
    /// Advances over the next bytes of one fragment, at most `most`, and returns where they are;
    /// `None` if there are none.
    #[inline]
    pub(crate) fn next<'a, F: Fragment>(
        &mut self,
        list: &'a [F],
        most: u64,
    ) -> Option<(&'a F, Range<u64>)> {
        if most == 0 {
            return None;
        }
        loop {
            let fragment = list.get(self.fragment)?;
            let rest = fragment.bytes() - self.offset;
            if rest > 0 {
                let start = self.offset;
                self.offset += rest.min(most);
                return Some((fragment, start..self.offset));
            }
            self.fragment += 1;
            self.offset = 0;
        }
    }

    /// Advances over the next `bytes`, or as many as there are, fragment by fragment as the result
    /// is iterated.
    #[inline]
    pub(crate) fn parts<'a, F: Fragment>(
        &mut self,
        list: &'a [F],
        mut bytes: u64,
    ) -> impl Iterator<Item = (&'a F, Range<u64>)> {
        std::iter::from_fn(move || {
            let (fragment, range) = self.next(list, bytes)?;
            bytes -= range.end - range.start;
            Some((fragment, range))
        })
    }

    /// Advances over the next bytes of one fragment of memory, at most `most`, and returns where
    /// they are; `None` if there are none.
    #[inline]
    pub fn next_in<'a>(
        &mut self,
        list: &'a [Memory],
        most: usize,
    ) -> Option<(&'a Memory, Range<usize>)> {
        let (memory, range) = self.next(list, most as u64)?;
        Some((memory, range.start as usize..range.end as usize))
    }

    /// The memory of the next `bytes`, or of as many as there are; the position advances as the
    /// result is iterated.
    #[inline]
    pub fn spans(&mut self, list: &[Memory], bytes: u64) -> impl Iterator<Item = Memory> {
        self.parts(list, bytes)
            .map(|(memory, range)| memory.slice(range.start as usize..range.end as usize))
    }

    /// The memory of the next `bytes`, or of as many as there are in `most` fragments; advances
    /// over them.
    #[inline]
    pub fn take_spans(&mut self, list: &[Memory], bytes: u64, most: usize) -> Spans {
        let mut spans = Spans::new();
        for span in self.spans(list, bytes).take(most) {
            spans.push(span);
        }
        spans
    }

    /// Advances over `bytes`, or as many as there are.
    #[inline]
    pub(crate) fn skip<F: Fragment>(&mut self, list: &[F], bytes: u64) {
        self.parts(list, bytes).for_each(drop);
    }

    /// Copies `bytes` to the position, as many as there is room for, and advances over them.
    pub fn write(&mut self, list: &[Memory], mut bytes: &[u8]) {
        while let Some((memory, range)) = self.next_in(list, bytes.len()) {
            let (now, rest) = bytes.split_at(range.len());
            memory.write_at(range.start, now);
            bytes = rest;
        }
    }

    /// Bytes of the next `fragments` fragments.
    fn bytes_of<F: Fragment>(mut self, list: &[F], fragments: usize) -> u64 {
        let next = self.parts(list, u64::MAX).take(fragments);
        next.map(|(_, range)| range.end - range.start).sum()
    }

    /// Whether no bytes follow.
    pub(crate) fn is_at_end<F: Fragment>(mut self, list: &[F]) -> bool {
        self.next(list, 1).is_none()
    }
}

/// The memory of `base..base + len` in an export whose first byte has the address `origin`; `None`
/// if it is not inside.
#[inline]
pub fn exported_part(memory: &Memory, origin: u64, base: u64, len: u64) -> Option<Memory> {
    let start = base.checked_sub(origin)?;
    let end = start.checked_add(len)?;
    (end <= memory.len() as u64).then(|| memory.slice(start as usize..end as usize))
}

impl Transfer {
    /// Bytes of the local list.
    pub(crate) fn local_bytes(&self) -> u64 {
        self.local.iter().map(|span| span.len() as u64).sum()
    }

    /// The error with which a transfer completes that no method can carry out.
    pub(crate) fn mistake(&self) -> Option<TransferError> {
        let local = self.local_bytes();
        let remote = self
            .remote
            .iter()
            .fold(0_u64, |sum, region| sum.saturating_add(region.len));
        if local != remote {
            return Some(TransferError::Length { local, remote });
        }
        let writes = self.direction == Direction::Get;
        (writes && !self.local.iter().all(Memory::is_writable))
            .then(|| TransferError::Copy("the local memory is for reading only".to_owned()))
    }
}

/// Where a part of a transfer ends; see [`Progress::part`].
#[derive(Debug, Clone, Copy)]
pub struct PartEnd {
    local: Cursor,
    remote: Cursor,
    /// No part follows.
    pub is_last: bool,
}

/// A transfer and its progress.
#[derive(Debug)]
pub struct Progress {
    /// The transfer.
    pub transfer: Transfer,
    local: Cursor,
    remote: Cursor,
}

impl Progress {
    /// A transfer that has not begun.
    pub fn new(transfer: Transfer) -> Self {
        Self {
            transfer,
            local: Cursor::default(),
            remote: Cursor::default(),
        }
    }

    /// Advances over the next bytes, at most `most`, that are in one fragment of either list;
    /// `None` at the end of one.
    pub fn next_piece(&mut self, most: u64) -> Option<(Memory, RegionDescriptor)> {
        let Transfer { local, remote, .. } = &self.transfer;
        let (_, there) = { self.remote }.next(remote, most)?;
        let ours = self.local.spans(local, there.end - there.start).next()?;
        let (region, there) = self.remote.next(remote, ours.len() as u64)?;
        Some((ours, region.part(there.start, there.end - there.start)))
    }

    /// The next part of the transfer, with lists of at most `max_list` fragments, and where it
    /// ends. The last part has the notify packet.
    pub fn part(&self, max_list: usize) -> (Transfer, PartEnd) {
        let whole = &self.transfer;
        let count = max_list.max(1);
        let len = self
            .local
            .bytes_of(&whole.local, count)
            .min(self.remote.bytes_of(&whole.remote, count));
        let (mut local, mut remote) = (self.local, self.remote);
        let mut part = Transfer {
            direction: whole.direction,
            local: local.take_spans(&whole.local, len, usize::MAX),
            remote: remote
                .parts(&whole.remote, len)
                .map(|(region, range)| region.part(range.start, range.end - range.start))
                .collect(),
            registrations: Vec::new(),
            notify: None,
            token: whole.token,
        };
        let is_last = local.is_at_end(&whole.local);
        if is_last {
            part.notify = whole.notify.clone();
        }
        let end = PartEnd {
            local,
            remote,
            is_last,
        };
        (part, end)
    }

    /// Advances behind a part.
    pub fn step_behind(&mut self, part: PartEnd) {
        (self.local, self.remote) = (part.local, part.remote);
    }

    /// Whether the position is behind all local bytes.
    pub(crate) fn is_at_end(&self) -> bool {
        self.local.is_at_end(&self.transfer.local)
    }
}

#[cfg(test)]
mod tests {
    use causeway_wire::random::SplitMix64;

    use super::*;
    use crate::method::NotifyPacket;

    fn zeroed(lens: &[usize]) -> Vec<Memory> {
        lens.iter().map(|len| Memory::zeroed(*len)).collect()
    }

    #[test]
    fn empty_fragments_are_stepped_over_and_the_end_is_the_end() {
        let list = zeroed(&[0, 3, 0, 4, 0]);
        let mut cursor = Cursor::default();
        assert!(cursor.next(&list, 0).is_none());
        assert_eq!({ cursor }.next(&list, 9).unwrap().1, 0..3);
        cursor.write(&list, b"abcd");
        assert_eq!({ cursor }.next(&list, 2).unwrap().1, 1..3);
        cursor.skip(&list, 1);
        assert!(!cursor.is_at_end(&list));
        cursor.write(&list, b"fg too much");
        assert!(cursor.is_at_end(&list));
        assert_eq!(list[1].to_vec(), b"abc");
        assert_eq!(list[3].to_vec(), b"d\0fg");
    }

    #[test]
    fn parts_have_short_lists_and_make_the_whole() {
        let mut random = SplitMix64::new(3);
        for _ in 0..200 {
            let cut = |random: &mut SplitMix64| -> Vec<usize> {
                let mut lens = vec![0];
                while lens.iter().sum::<usize>() < 100 {
                    let left = 100 - lens.iter().sum::<usize>();
                    lens.push((random.below(30) as usize).min(left));
                }
                lens
            };
            let region = |(at, len): (usize, &usize)| RegionDescriptor {
                key: at as u64,
                base: 1000 * at as u64,
                len: *len as u64,
                object: None,
            };
            let mut progress = Progress::new(Transfer {
                direction: Direction::Put,
                local: zeroed(&cut(&mut random)).into_iter().collect(),
                remote: cut(&mut random).iter().enumerate().map(region).collect(),
                registrations: Vec::new(),
                notify: Some(NotifyPacket::from_slice(b"end")),
                token: 7,
            });
            let max_list = 1 + random.below(6) as usize;
            let (mut here, mut there) = (Vec::new(), Vec::new());
            loop {
                let (part, end) = progress.part(max_list);
                assert!(part.longest_list() <= max_list && part.local_bytes() > 0);
                assert_eq!((part.mistake(), part.token), (None, 7));
                assert_eq!(part.notify.is_some(), end.is_last);
                for span in &part.local {
                    here.extend((0..span.len()).map(|at| span.slice(at..at + 1)));
                }
                for region in &part.remote {
                    there.extend((0..region.len).map(|at| (region.key, region.base + at)));
                }
                progress.step_behind(end);
                if end.is_last {
                    break;
                }
            }
            let whole = &progress.transfer;
            let expected: Vec<_> = whole
                .remote
                .iter()
                .flat_map(|region| (0..region.len).map(|at| (region.key, region.base + at)))
                .collect();
            assert_eq!(there, expected);
            assert_eq!(here.len(), 100);
            for (at, span) in here.iter().enumerate() {
                span.write_at(0, &[at as u8]);
            }
            let bytes: Vec<u8> = whole.local.iter().flat_map(Memory::to_vec).collect();
            assert_eq!(bytes, (0..100).collect::<Vec<u8>>(), "in order");
        }
    }

    #[test]
    fn every_byte_comes_once() {
        let list = zeroed(&[10, 0, 20, 30, 0]);
        let mut cursor = Cursor::default();
        let mut lens = Vec::new();
        for (bytes, most) in [(9, 9), (3, 9), (40, 1), (40, 1), (0, 3), (100, 3)] {
            let parts = cursor.spans(&list, bytes).take(most);
            lens.push(parts.map(|part| part.len()).collect::<Vec<_>>());
        }
        assert_eq!(lens, [&[9][..], &[1, 2], &[18], &[30], &[], &[]]);
        assert_eq!(Cursor::default().spans(&list, u64::MAX).count(), 3);
    }
}
