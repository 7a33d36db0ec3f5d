//! Turns lists of regions and memory into requests to I/O servers, and delivers their replies to the
//! memory.
//!
//! A list of file regions and a list of memory fragments are distributed to the servers ([`plan`]), one
//! [`Piece`] each. A piece names few spans of the caller's own fragments where it can, so that bytes
//! travel between those and the server without a copy on this side; a piece of very many spans goes
//! through a bounce buffer instead, and a small one travels inside the messages.

use causeway_bmi::{ConnectionId, Memory};
use causeway_wire::codec::Writer;
use causeway_wire::datafile::{BLOCK_BYTES, Binding};
use causeway_wire::fs::{Errno, ObjectId, Reach, Region, Regions, WantedSums};

use super::call_error::CallError;
use crate::cutter::Cutter;
use crate::data::pieces::Cursor;
use crate::data::sums::{BLOCK, crc, crc_in};
use crate::distribution::{Share, Striping, compact};
use crate::sabotage::{self, Sabotage};

/// Bytes up to which data travels inside the request or the reply: a message of this size still goes
/// eagerly on every method.
pub(crate) const INLINE_BYTES: u64 = 4096;
/// Spans of memory that one request names at most; 41 bytes each.
const MAX_SPANS: usize = 256;
/// Regions that one request holds at most, 16 bytes each; a longer list travels as exported memory.
const MAX_REGIONS_HERE: usize = 256;

/// The direction of an access to a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IoKind {
    /// A read.
    Read,
    /// A write.
    Write,
}

/// Regions of a file, and the memory that goes with them in the same order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IoList<'a> {
    /// The regions.
    pub regions: &'a [Region],
    /// Fragments with the same number of bytes in all.
    pub memory: &'a [Memory],
}

impl IoList<'_> {
    /// Bytes in all.
    pub(crate) fn len(self) -> u64 {
        self.regions.iter().map(|region| region.len).sum()
    }

    /// The byte behind the last one of the regions.
    pub(crate) fn end(self) -> u64 {
        let filled = self.regions.iter().filter(|region| region.len > 0);
        filled
            .map(|region| region.offset + region.len)
            .max()
            .unwrap_or(0)
    }

    /// How many bytes of the regions lie before byte `size`.
    pub(crate) fn len_before(self, size: u64) -> u64 {
        let before = |region: &Region| size.saturating_sub(region.offset).min(region.len);
        self.regions.iter().map(before).sum()
    }
}

/// A span of one of the caller's fragments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// Index of the fragment.
    pub fragment: usize,
    /// First byte inside it.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

/// The work of one server for a read or write.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The datafile.
    pub object: ObjectId,
    /// The length that the datafile must have at least.
    pub at_least: u64,
    /// Its regions as they are described in the request.
    pub regions: Regions,
    /// The encoded regions, if they are too many for the request.
    pub list: Option<Memory>,
    /// The memory that `spans` refer to.
    pub fragments: Vec<Memory>,
    /// The memory that the server reads or writes, in the order of the regions. Empty for small
    /// pieces.
    pub spans: Vec<Span>,
    /// Data of a small write.
    pub inline: Vec<u8>,
    /// The sums of blocks that a read requests.
    pub sums: WantedSums,
    /// The append lock under which a write is sent.
    pub append_lock: Option<AppendLock>,
}

/// An append lock, for a write to one server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AppendLock {
    /// Its number.
    pub number: u64,
    /// The connection with the server before the lock was granted. A server that was restarted since has no record of the locks it had
    /// seen, so the write is not sent on another connection.
    pub connection: ConnectionId,
}

/// A piece, and what is needed to check and deliver its reply.
#[derive(Debug)]
pub(crate) struct Planned {
    /// Position of the server in the file's distribution.
    pub position: usize,
    /// The request, until it is taken for its call.
    pub piece: Option<Piece>,
    /// The datafile regions and their memory.
    pub share: Share,
    /// The memory that has the bytes for now, if they are not in the caller's memory.
    pub bounce: Option<Memory>,
}

/// Distributes a list to a file's servers, whose datafiles are at least as long as
/// `at_least` returns for their positions.
pub(crate) fn plan(
    object: ObjectId,
    striping: &Striping,
    at_least: impl Fn(usize) -> u64,
    list: IoList<'_>,
    kind: IoKind,
) -> Vec<Planned> {
    let shares = striping.split(list.regions).into_iter().enumerate();
    shares
        .filter(|(_, share)| share.len > 0)
        .map(|(position, share)| {
            let at_least = at_least(position);
            plan_share(object, position, at_least, share, list.memory, kind)
        })
        .collect()
}

/// Cuts what is to be read from each server into parts of at most `most` bytes, at the boundaries of blocks where that is one region. Each is
/// read into a place of its own in `buffer`, which has room for all. The first parts of all servers come first.
pub(crate) fn in_parts(planned: Vec<Planned>, buffer: &Memory, most: u64) -> Vec<Planned> {
    let mut buffer = Cutter::new(std::iter::once(buffer.clone()));
    let mut parts = Vec::with_capacity(planned.len());
    for whole in planned {
        match whole.piece {
            Some(piece) if whole.share.len > INLINE_BYTES => {
                parts.extend(parts_of(
                    whole.position,
                    &piece,
                    &whole.share,
                    &mut buffer,
                    most,
                ));
            }
            _ => parts.push((0, whole)),
        }
    }
    parts.sort_by_key(|(at, _)| *at);
    parts.into_iter().map(|(_, part)| part).collect()
}

/// The parts of one server, and how many bytes of it are before each.
fn parts_of(
    position: usize,
    piece: &Piece,
    share: &Share,
    buffer: &mut Cutter<impl Iterator<Item = Memory>>,
    most: u64,
) -> Vec<(u64, Planned)> {
    let mut regions = Cutter::new(share.regions.iter().copied());
    let mut memory = Cutter::new(share.memory.iter().copied());
    let mut parts = Vec::new();
    let mut done = 0;
    while done < share.len {
        let behind_block = match share.regions[..] {
            [one] => (one.offset + done) % BLOCK_BYTES,
            _ => 0,
        };
        let left = share.len - done;
        let len = match left.min(most - behind_block) {
            // Bytes that are carried inside a reply are not read into the buffer.
            len if left - len <= INLINE_BYTES => left,
            len => len,
        };
        let cut = Share {
            regions: regions.take(len),
            memory: memory.take(len),
            len,
        };
        let bounce = buffer.take(len);
        let (described, list) = describe(&cut.regions);
        let part = Piece {
            object: piece.object,
            at_least: piece.at_least,
            regions: described,
            list,
            spans: vec![Span {
                fragment: 0,
                offset: 0,
                len,
            }],
            fragments: bounce.clone(),
            inline: Vec::new(),
            sums: piece.sums,
            append_lock: None,
        };
        let planned = Planned {
            position,
            piece: Some(part),
            share: cut,
            bounce: bounce.into_iter().next(),
        };
        parts.push((done, planned));
        done += len;
    }
    parts
}

/// As [`plan`], for the share of the server at this position.
pub(crate) fn plan_share(
    object: ObjectId,
    position: usize,
    at_least: u64,
    share: Share,
    fragments: &[Memory],
    kind: IoKind,
) -> Planned {
    let (regions, list) = describe(&share.regions);
    let mut spans = spans(&share.memory, fragments);
    let mut piece_fragments = fragments.to_vec();
    let mut inline = Vec::new();
    let mut bounce = None;
    if share.len <= INLINE_BYTES {
        if kind == IoKind::Write {
            inline = gather(&slices(&spans, fragments), share.len);
        }
        spans.clear();
        piece_fragments.clear();
    } else if spans.len() > MAX_SPANS {
        let buffer = match kind {
            IoKind::Write => Memory::from_vec(gather(&slices(&spans, fragments), share.len)),
            IoKind::Read => Memory::zeroed(share.len as usize),
        };
        spans = vec![Span {
            fragment: 0,
            offset: 0,
            len: share.len,
        }];
        piece_fragments = vec![buffer.clone()];
        bounce = Some(buffer);
    }
    let piece = Piece {
        object,
        at_least,
        regions,
        list,
        fragments: piece_fragments,
        spans,
        inline,
        sums: WantedSums::None,
        append_lock: None,
    };
    Planned {
        position,
        piece: Some(piece),
        share,
        bounce,
    }
}

fn describe(regions: &[Region]) -> (Regions, Option<Memory>) {
    let compacted = compact(regions.to_vec());
    let list = match &compacted {
        Regions::Here(list) if list.len() > MAX_REGIONS_HERE => Some(encode_list(list)),
        _ => None,
    };
    (compacted, list)
}

/// Translates offsets into all of the memory to spans of its fragments.
fn spans(memory: &[Region], fragments: &[Memory]) -> Vec<Span> {
    let mut starts = Vec::with_capacity(fragments.len());
    let mut end = 0;
    for fragment in fragments {
        starts.push(end);
        end += fragment.len() as u64;
    }
    let mut spans = Vec::with_capacity(memory.len());
    for region in memory {
        let (mut offset, mut left) = (region.offset, region.len);
        // The last fragment that starts at or before the offset and is not empty.
        let mut fragment = starts
            .partition_point(|start| *start <= offset)
            .saturating_sub(1);
        while left > 0 && fragment < fragments.len() {
            let inside = offset - starts[fragment];
            let len = left.min(fragments[fragment].len() as u64 - inside);
            if len > 0 {
                spans.push(Span {
                    fragment,
                    offset: inside,
                    len,
                });
            }
            offset += len;
            left -= len;
            fragment += 1;
        }
    }
    spans
}

/// Encodes a list of regions for [`Regions::There`].
fn encode_list(regions: &[Region]) -> Memory {
    let mut out = Writer::new();
    for region in regions {
        out.u64(region.offset);
        out.u64(region.len);
    }
    Memory::from_vec(out.finish())
}

/// The memory that spans name.
fn slices(spans: &[Span], fragments: &[Memory]) -> Vec<Memory> {
    let slice = |span: &Span| {
        let start = span.offset as usize;
        fragments[span.fragment].slice(start..start + span.len as usize)
    };
    spans.iter().map(slice).collect()
}

/// All `len` bytes of memory.
fn gather(memory: &[Memory], len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    Cursor::new(memory).copy_out(&mut bytes);
    bytes
}

/// Whether the first whole blocks of memory have these sums, as blocks from this number on of the datafile that the sums are bound to.
pub(crate) fn have_sums(memory: &[Memory], first: u64, sums: &[u32], binding: Binding) -> bool {
    let crcs = (first..).zip(block_crcs(memory, sums.len()));
    let found = crcs.map(|(block, crc)| binding.sum(block, crc));
    sabotage::is_on(Sabotage::SkipChecksum) || found.eq(sums.iter().copied())
}

/// The CRC-32Cs of at most `most` whole blocks of memory.
fn block_crcs(memory: &[Memory], most: usize) -> Vec<u32> {
    let len: usize = memory.iter().map(Memory::len).sum();
    let count = most.min(len / BLOCK);
    let mut memory = Cursor::new(memory);
    let mut crcs = Vec::with_capacity(count);
    let mut block = [0; BLOCK];
    while crcs.len() < count {
        let whole = (memory.current_len() / BLOCK).min(count - crcs.len());
        if whole > 0 {
            let blocks = memory.take(whole * BLOCK);
            crcs.extend((0..whole).map(|index| crc_in(&blocks, index * BLOCK)));
        } else {
            memory.copy_out(&mut block);
            crcs.push(crc(&block));
        }
    }
    crcs
}

impl Planned {
    /// How far a write reaches into the datafile.
    pub(crate) fn reach(&self) -> Reach {
        let ends = self.share.regions.iter().map(|r| r.offset + r.len);
        Reach {
            // A distribution has at most 1024 servers.
            position: self.position as u16,
            end: ends.max().unwrap_or(0),
        }
    }

    /// Refuses the report of a read that left out bytes before the datafile's end, or sent a wrong number: old bytes
    /// of the caller's memory would pass for the file's content.
    pub(crate) fn check_read(&self, bytes: u64, inline: usize, size: u64) -> Result<(), CallError> {
        let found = self.share.regions.iter().map(|region| {
            let before_end = size.saturating_sub(region.offset);
            region.len.min(before_end)
        });
        // More bytes than that if the datafile has grown since the server read its size.
        let right = found.sum()..=self.share.len;
        let is_carried = match self.share.len <= INLINE_BYTES {
            true => right.contains(&(inline as u64)),
            false => inline == 0,
        };
        if !right.contains(&bytes) || !is_carried {
            return Err(disagrees("read", bytes, *right.start()));
        }
        Ok(())
    }

    /// Refuses the report of a write of a wrong number of bytes.
    pub(crate) fn check_written(&self, bytes: u64) -> Result<(), CallError> {
        match bytes == self.share.len {
            true => Ok(()),
            false => Err(disagrees("written", bytes, self.share.len)),
        }
    }

    /// Whether the bytes that a read has fetched into their present memory match the sums of its first blocks, and come
    /// from the right place of the datafile that the sums are bound to.
    pub(crate) fn matches(&self, fragments: &[Memory], sums: &[u32], binding: Binding) -> bool {
        if sums.is_empty() {
            return true;
        }
        let memory = match &self.bounce {
            Some(bounce) => vec![bounce.clone()],
            None => self.share.memory_in(fragments),
        };
        let first = self.share.regions.first().map_or(0, |r| r.offset) / BLOCK_BYTES;
        have_sums(&memory, first, sums, binding)
    }

    /// Copies the bytes of a read into the caller's memory, and zeroes the part behind the datafile's end.
    /// `inline` and `size` are the reply's.
    ///
    /// Returns whether any byte lay behind the datafile's end.
    pub(crate) fn deliver(&self, fragments: &[Memory], inline: &[u8], size: u64) -> bool {
        let is_inline = self.share.len <= INLINE_BYTES;
        let mut regions = self.share.regions.iter();
        let is_cut = regions.any(|region| region.offset + region.len > size);
        if !is_inline && self.bounce.is_none() && !is_cut {
            return false;
        }
        let memory = self.share.memory_in(fragments);
        if is_inline {
            Cursor::new(&memory).copy_in(inline);
        } else if let Some(bounce) = &self.bounce {
            let mut from = Cursor::new(std::slice::from_ref(bounce));
            for span in &memory {
                span.copy_from(&from.take(span.len()));
            }
        }
        if is_cut {
            let mut memory = Cursor::new(&memory);
            for region in &self.share.regions {
                let inside = size.saturating_sub(region.offset).min(region.len);
                memory.skip(inside);
                memory.clear(region.len - inside);
            }
        }
        is_cut
    }
}

impl Share {
    /// The caller's memory, in the order of the regions.
    pub(crate) fn memory_in(&self, fragments: &[Memory]) -> Vec<Memory> {
        slices(&spans(&self.memory, fragments), fragments)
    }
}

fn disagrees(done: &str, bytes: u64, expected: u64) -> CallError {
    let message = format!(
        "an I/O server reports {bytes} bytes {done}, where {expected} are right, or sent others than it reports; see \
         its log"
    );
    CallError::local(Errno::EPROTO, message)
}

#[cfg(test)]
mod tests {
    use causeway_wire::fs::{Distribution, Generation};

    use super::*;

    fn fragments(lens: &[usize]) -> Vec<Memory> {
        lens.iter()
            .map(|len| Memory::from_vec(vec![7; *len]))
            .collect()
    }

    /// The piece of the only server of a file.
    fn one_piece(regions: &[Region], fragments: &[Memory], kind: IoKind) -> Planned {
        let distribution = Distribution {
            strip_size: 4096,
            servers: vec![0],
        };
        let striping = Striping::new(&distribution).expect("a distribution");
        let memory = fragments;
        let list = IoList { regions, memory };
        let mut planned = plan(ObjectId(9), &striping, |_| 0, list, kind);
        planned.pop().expect("one piece")
    }

    #[test]
    fn spans_cross_fragments_and_skip_empty_ones() {
        let fragments = fragments(&[3, 0, 5, 2]);
        let all = [Region { offset: 1, len: 8 }];
        let expected = [(0, 1, 2), (2, 0, 5), (3, 0, 1)].map(|(fragment, offset, len)| Span {
            fragment,
            offset,
            len,
        });
        assert_eq!(spans(&all, &fragments), expected);
        let at_border = [Region { offset: 3, len: 1 }];
        assert_eq!(
            spans(&at_border, &fragments),
            [Span {
                fragment: 2,
                offset: 0,
                len: 1
            }]
        );
    }

    #[test]
    fn bytes_behind_the_datafiles_end_become_zero() {
        let regions = [
            Region { offset: 0, len: 4 },
            Region {
                offset: 100,
                len: 6,
            },
            Region { offset: 10, len: 2 },
        ];
        let fragments = fragments(&[5, 7]);
        let planned = one_piece(&regions, &fragments, IoKind::Read);
        // The datafile ends at 103: the last three bytes of the second region are missing.
        let inline: Vec<u8> = (1..=12).collect();
        assert!(planned.deliver(&fragments, &inline, 103));
        let bytes: Vec<u8> = fragments.iter().flat_map(Memory::to_vec).collect();
        assert_eq!(bytes, [1, 2, 3, 4, 5, 6, 7, 0, 0, 0, 11, 12]);
        assert!(!planned.deliver(&fragments, &inline, 106));
    }

    #[test]
    fn reports_of_other_numbers_of_bytes_are_refused() {
        let piece = |len: u64| {
            let region = Region { offset: 10, len };
            let fragments = fragments(&[len as usize]);
            one_piece(&[region], &fragments, IoKind::Read)
        };
        let small = piece(100);
        for (bytes, carried, size) in [
            (100, 100, 110),
            (50, 50, 60),
            (50, 100, 60),
            (0, 0, 10),
            (0, 0, 3),
            // The datafile has grown meanwhile.
            (100, 100, 60),
        ] {
            assert!(small.check_read(bytes, carried, size).is_ok());
        }
        for (bytes, carried, size) in [
            (100, 99, 110),
            (100, 0, 110),
            (100, 101, 110),
            (99, 100, 110),
            (101, 100, 60),
            (0, 0, 110),
            (u64::MAX, 100, u64::MAX),
        ] {
            assert!(small.check_read(bytes, carried, size).is_err());
        }
        let large = piece(1 << 20);
        assert!(large.check_read(1 << 20, 0, u64::MAX).is_ok());
        assert!(large.check_read(90, 0, 100).is_ok());
        assert!(large.check_read(90, 90, 100).is_err());
        assert!(large.check_read(1 << 20, 0, 100).is_ok());
        assert!(large.check_read(89, 0, 100).is_err());
        assert!(large.check_read((1 << 20) + 1, 0, 100).is_err());
        assert!(large.check_written(1 << 20).is_ok() && large.check_written(5).is_err());
    }

    #[test]
    fn blocks_are_summed_wherever_spans_end() {
        let bytes: Vec<u8> = (0..5 * BLOCK + 100).map(|at| (at / 7) as u8).collect();
        let wanted: Vec<u32> = bytes.chunks_exact(BLOCK).map(crc).collect();
        for cuts in [
            vec![],
            vec![0, BLOCK, BLOCK, 3 * BLOCK],
            vec![1, 2, BLOCK + 1, 2 * BLOCK - 1, 4 * BLOCK + 50],
            vec![5 * BLOCK],
        ] {
            let mut spans = Vec::new();
            let mut from = 0;
            for to in cuts.into_iter().chain([bytes.len()]) {
                spans.push(Memory::from_vec(bytes[from..to].to_vec()));
                from = to;
            }
            assert_eq!(block_crcs(&spans, usize::MAX), wanted);
            assert_eq!(block_crcs(&spans, 2), wanted[..2]);
        }
    }

    #[test]
    fn blocks_of_another_place_do_not_match() {
        let region = Region {
            offset: 3 * BLOCK_BYTES,
            len: 2 * BLOCK_BYTES,
        };
        let fragments = fragments(&[2 * BLOCK]);
        let planned = one_piece(&[region], &fragments, IoKind::Read);
        let binding =
            |generation, object| Binding::new(1, Generation(generation), ObjectId(object));
        let ours = binding(2, 9);
        let crc = crc(&[7; BLOCK]);
        let sums =
            |binding: Binding, first: u64| [0, 1].map(|index| binding.sum(first + index, crc));
        assert!(planned.matches(&fragments, &sums(ours, 3), ours));
        for (sent, first) in [(ours, 2), (ours, 4), (binding(3, 9), 3), (binding(2, 8), 3)] {
            assert!(!planned.matches(&fragments, &sums(sent, first), ours));
        }
    }

    #[test]
    fn parts_cover_what_is_read_once_and_each_has_its_own_place_in_the_buffer() {
        let distribution = Distribution {
            strip_size: 65536,
            servers: vec![0, 1, 2],
        };
        let striping = Striping::new(&distribution).expect("a distribution");
        const MOST: u64 = 32 << 10;
        let two = [(70_000, 100_000), (300_000, 90_000)];
        for regions in [
            &[(0, 400_000)][..],
            &[(4095, 300_001)],
            &two,
            &[(5, 12_000)],
        ] {
            let regions = regions.iter().map(|&(offset, len)| Region { offset, len });
            let regions: Vec<Region> = regions.collect();
            let len = regions.iter().map(|region| region.len).sum::<u64>() as usize;
            let memory = fragments(&[len / 3, len - len / 3]);
            let list = IoList {
                regions: &regions,
                memory: &memory,
            };
            let whole = plan(ObjectId(9), &striping, |_| 0, list, IoKind::Read);
            let wanted: Vec<Share> = whole.iter().map(|planned| planned.share.clone()).collect();
            let buffer = Memory::zeroed(len);
            let parts = in_parts(whole, &buffer, MOST);
            let mut places = Vec::new();
            for (position, wanted) in striping.split(&regions).iter().enumerate() {
                let of_server = parts.iter().filter(|part| part.position == position);
                let mut found = Share::default();
                for part in of_server {
                    let sum = |list: &[Region]| list.iter().map(|region| region.len).sum::<u64>();
                    let share = &part.share;
                    assert_eq!(sum(&share.regions), share.len);
                    assert_eq!(sum(&share.memory), share.len);
                    assert!(share.len <= MOST + INLINE_BYTES);
                    found.len += share.len;
                    for (all, of_part) in [
                        (&mut found.regions, &share.regions),
                        (&mut found.memory, &share.memory),
                    ] {
                        of_part
                            .iter()
                            .for_each(|region| crate::distribution::join(all, *region));
                    }
                    let piece = part.piece.as_ref().expect("it was not taken");
                    let Some(bounce) = &part.bounce else {
                        assert!(share.len <= INLINE_BYTES && piece.spans.is_empty());
                        continue;
                    };
                    assert_eq!(bounce.len() as u64, share.len);
                    assert_eq!(piece.spans[0].len, share.len);
                    assert_eq!(piece.fragments[0].as_ptr(), bounce.as_ptr());
                    places.push((bounce.as_ptr().addr(), bounce.len()));
                    if regions.len() == 1 && found.len < wanted.len {
                        let last = share.regions.last().expect("a region");
                        assert_eq!((last.offset + last.len) % BLOCK_BYTES, 0);
                    }
                    // Each part is checked by itself.
                    assert!(part.check_read(share.len, 0, u64::MAX).is_ok());
                    assert!(part.check_read(share.len - 1, 0, u64::MAX).is_err());
                    assert!(part.check_read(share.len + 1, 0, u64::MAX).is_err());
                }
                assert_eq!(found, *wanted);
            }
            assert_eq!(wanted.len(), {
                let mut positions: Vec<_> = parts.iter().map(|part| part.position).collect();
                positions.sort_unstable();
                positions.dedup();
                positions.len()
            });
            places.sort_unstable();
            let inside = buffer.as_ptr().addr()..=buffer.as_ptr().addr() + buffer.len();
            assert!(places.iter().all(|(at, len)| inside.contains(&(at + len))));
            assert!(places.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0));
        }
    }

    #[test]
    fn a_piece_of_very_many_spans_bounces() {
        let fragments = fragments(&vec![16; 1000]);
        let regions = [Region {
            offset: 0,
            len: 16_000,
        }];
        let planned = one_piece(&regions, &fragments, IoKind::Write);
        assert_eq!(planned.piece.map(|piece| piece.spans.len()), Some(1));
        assert_eq!(
            planned.bounce.as_ref().map(Memory::to_vec),
            Some(vec![7; 16_000])
        );
    }
}
