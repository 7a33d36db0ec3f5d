//! Blocks whose lengths only their sender and receiver need to know: gathers, scatters, and exchanges with counts for each process.
//!
//! In one phase, each process that sends publishes a *packet* in its slot, which its receivers read:
//!
//! ```text
//! of a gather: bytes of the sender's block, 8 bytes | the block
//! of a scatter or an exchange: bytes behind this word, 8 bytes | bytes of the block for each rank, 4 bytes each, in whole words | the block for rank 0 | …
//! ```
//!
//! If all behind the first word has up to 40 bytes, it lies beside it, and otherwise from byte 64 of the slot on. All bits of a length are set if there is no room for the block: its sender sends
//! it by a message after the phase, and its receiver, which finds that in the packet, receives it ([`Left`]).

use std::ops::Range;

use causeway_engine::Memory;
use causeway_sys::blocks::{Source, Target, copy_one};

use super::area::{Area, BESIDE, CAPACITY};
use super::parts::{Parts, Places};
use crate::buffer::{OwnedBuffer, check_begin};
use crate::error::Result;

/// The length of a block that its sender sends by a message; the other one is that in a packet of several blocks.
const BY_MESSAGE: u64 = u64::MAX;
const BY_MESSAGE_IN_TABLE: u32 = u32::MAX;
const WORD: usize = size_of::<u64>();

/// Bytes of the lengths in a packet of several blocks.
fn table_len(ranks: u32) -> usize {
    ranks.div_ceil(2) as usize * WORD
}

/// The blocks that are left to messages, by a bit for each rank: those that this process sends to it, and that it receives from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) to: u64,
    pub(crate) from: u64,
}

impl Left {
    /// Every block.
    pub(crate) const ALL: Self = Self {
        to: u64::MAX,
        from: u64::MAX,
    };
    /// None.
    pub(crate) const NONE: Self = Self { to: 0, from: 0 };

    /// Whether a rank is among those of one side; if all are, also one for which there is no bit.
    pub(crate) fn has(side: u64, rank: u32) -> bool {
        side == u64::MAX || side.checked_shr(rank).is_some_and(|bits| bits & 1 == 1)
    }
}

/// One side of an operation: memory with the blocks that a process sends, or with room for those that it receives.
#[derive(Debug)]
pub struct Side {
    memory: Memory,
    parts: Parts,
    /// Where the program wants received blocks, if that is elsewhere, and how many bytes have come of each.
    unpacked: Vec<(OwnedBuffer, usize)>,
}

impl Side {
    /// One block, which is all of the memory.
    pub fn one(memory: Memory) -> Self {
        let parts = Parts::All(memory.len());
        Self::new(memory, parts)
    }

    pub(super) fn new(memory: Memory, parts: Parts) -> Self {
        Self {
            memory,
            parts,
            unpacked: Vec::new(),
        }
    }

    /// The blocks of all ranks, at these places in the memory.
    pub fn at(memory: Memory, places: Places) -> Self {
        Self::new(memory, Parts::Places(places))
    }

    /// The blocks of all ranks in elements that have gaps. `receives`: their data are received and then unpacked; otherwise, they are packed now.
    pub fn with_gaps(blocks: Vec<OwnedBuffer>, receives: bool) -> Result<Self> {
        let mut places = Places::with_capacity(blocks.len());
        let mut end = 0;
        for block in &blocks {
            let start = end;
            end += block.bytes_of_data()? as usize;
            places.push(start..end);
        }
        let memory = crate::buffer::scratch(end)?;
        let mut side = Self::at(memory, places);
        match receives {
            true => side.unpacked = blocks.into_iter().map(|block| (block, 0)).collect(),
            false => {
                for (rank, block) in blocks.iter().enumerate() {
                    block.pack_into(&side.block(rank as u32))?;
                }
            }
        }
        Ok(side)
    }

    /// Packs this process's own block, which is in its place, to be sent from here.
    pub(super) fn fill(&mut self, own: u32) -> Result<()> {
        match self.unpacked.get(own as usize) {
            Some((block, _)) => block.pack_into(&self.block(own)),
            None => Ok(()),
        }
    }

    /// Memory that the blocks are received into, and their places there.
    pub(super) fn places(&self) -> (Memory, Parts) {
        (self.memory.clone(), self.parts.clone())
    }

    /// Puts all received blocks where the program wants them, except one that is in its place.
    pub(super) fn unpack(&self, in_place: Option<u32>) -> Result<()> {
        let all = (0..).zip(&self.unpacked);
        for (rank, (block, _)) in all.filter(|(rank, _)| Some(*rank) != in_place) {
            block.unpack_from(&self.block(rank))?;
        }
        Ok(())
    }

    /// A rank's block.
    pub(super) fn block(&self, rank: u32) -> Memory {
        self.memory.slice(self.parts.range(rank))
    }

    pub(super) fn len(&self, rank: u32) -> usize {
        self.parts.range(rank).len()
    }

    /// The address of a rank's block, and its length.
    fn whereabouts(&self, rank: u32) -> (usize, usize) {
        let range = self.parts.range(rank);
        (self.memory.as_ptr() as usize + range.start, range.len())
    }

    /// Fails if a rank's block here is where its block of the other side is.
    pub(super) fn check_apart(&self, other: &Self, rank: u32) -> Result<()> {
        check_begin(self.whereabouts(rank), other.whereabouts(rank))
    }
}

/// A block that is longer than its receiver expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong {
    pub(crate) rank: u32,
    pub(crate) sent: u64,
    pub(crate) room: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Each process has one block for its receivers.
    Gather,
    /// Each sender has one block for each process.
    Scatter,
}

/// What a process does in such an operation. `from` is `None` if it sends nothing, or if its own block is in its place already, and so is `into`.
#[derive(Debug)]
pub(crate) struct Uneven {
    kind: Kind,
    /// The only receiver of a gather, or sender of a scatter.
    root: Option<u32>,
    from: Option<Side>,
    into: Option<Side>,
    left: Left,
}

/// Whether a packet has room for a block of this length for each of so many ranks.
pub(super) fn fits(block: u64, ranks: u32) -> bool {
    let room = (CAPACITY - table_len(ranks)) as u64;
    block <= room / u64::from(ranks)
}

/// Where the first word of a rank's packet is.
#[inline]
fn first_word(area: &Area, rank: u32, phase: u64) -> usize {
    area.payload(rank, phase, WORD)
}

/// Where the `len` bytes behind that word are.
#[inline]
fn behind(area: &Area, rank: u32, phase: u64, len: usize) -> usize {
    match len <= BESIDE - WORD {
        true => first_word(area, rank, phase) + WORD,
        false => area.payload(rank, phase, CAPACITY),
    }
}

#[inline]
fn copy(from: (&Memory, Range<usize>), into: (&Memory, usize)) {
    let (from, range) = from;
    let (into, at) = into;
    let from = Source::from(from);
    copy_one(&mut Target::from(into), at, from, range.start, range.len());
}

impl Uneven {
    pub(super) fn new(
        kind: Kind,
        root: Option<u32>,
        from: Option<Side>,
        into: Option<Side>,
    ) -> Box<Self> {
        Box::new(Self {
            kind,
            root,
            from,
            into,
            left: Left::NONE,
        })
    }

    /// What is left to messages once its phase is over.
    #[inline]
    pub(super) fn left(&self) -> Left {
        self.left
    }

    /// Fills this process's slot.
    pub(super) fn fill(&mut self, area: &Area, phase: u64) {
        let is_root = self.root == Some(area.rank);
        match self.kind {
            Kind::Gather if !is_root => self.fill_one(area, phase),
            Kind::Scatter if is_root || self.root.is_none() => self.fill_all(area, phase),
            _ => {}
        }
    }

    fn fill_one(&mut self, area: &Area, phase: u64) {
        let Some(side) = self.from.as_ref().or(self.into.as_ref()) else {
            return;
        };
        let range = side.parts.range(area.rank);
        let len = range.len();
        let first = first_word(area, area.rank, phase);
        if len > CAPACITY {
            area.set_word(first, BY_MESSAGE);
            let all = u64::MAX >> (64 - area.ranks);
            let receivers = self.root.map_or(all, |root| 1 << root);
            self.left.to = receivers & !(1 << area.rank);
            return;
        }
        area.set_word(first, len as u64);
        let to = behind(area, area.rank, phase, len);
        area.fill(to, &side.memory, range);
    }

    fn fill_all(&mut self, area: &Area, phase: u64) {
        let table = table_len(area.ranks);
        let mut room = CAPACITY - table;
        let mut is_in = 0_u64;
        // Blocks that are exchanged in place could be overwritten before they are sent by messages.
        if let Some(from) = &self.from {
            for rank in (0..area.ranks).filter(|rank| *rank != area.rank) {
                let len = from.len(rank);
                if len <= room {
                    room -= len;
                    is_in |= 1 << rank;
                }
            }
        }
        let all = u64::MAX >> (64 - area.ranks);
        self.left.to = all & !is_in & !(1 << area.rank);
        let len = CAPACITY - room;
        area.set_word(first_word(area, area.rank, phase), len as u64);
        let start = behind(area, area.rank, phase, len);
        let mut at = start + table;
        let mut both = 0;
        for rank in 0..area.ranks {
            let length = match (&self.from, is_in >> rank & 1) {
                (Some(from), 1) => {
                    let range = from.parts.range(rank);
                    let len = range.len();
                    area.fill(at, &from.memory, range);
                    at += len;
                    len as u32
                }
                _ if rank == area.rank => 0,
                _ => BY_MESSAGE_IN_TABLE,
            };
            both |= u64::from(length) << (rank % 2 * 32);
            if rank % 2 == 1 || rank + 1 == area.ranks {
                area.set_word(start + rank as usize / 2 * WORD, both);
                both = 0;
            }
        }
    }

    /// Takes what this process needs from the slots of the others.
    pub(super) fn take(&mut self, area: &Area, phase: u64) -> std::result::Result<(), TooLong> {
        let own = area.rank;
        let Some(mut into) = self.into.take() else {
            return Ok(());
        };
        let ranks = match (self.kind, self.root) {
            (Kind::Scatter, Some(root)) => root..root + 1,
            _ => 0..area.ranks,
        };
        for rank in ranks.filter(|rank| *rank != own) {
            let place = match self.kind {
                Kind::Gather => into.parts.range(rank),
                Kind::Scatter if self.root.is_some() => into.parts.range(own),
                Kind::Scatter => into.parts.range(rank),
            };
            let found = match self.kind {
                Kind::Gather => Self::find_one(area, rank, phase),
                Kind::Scatter => Self::find_own(area, rank, phase),
            };
            let Some((at, len)) = found else {
                self.left.from |= 1 << rank;
                continue;
            };
            if len as usize > place.len() || len as usize > CAPACITY {
                return Err(TooLong {
                    rank,
                    sent: len,
                    room: place.len() as u64,
                });
            }
            let len = len as usize;
            copy((area.memory(), at..at + len), (&into.memory, place.start));
            if let Some((_, came)) = into.unpacked.get_mut(rank as usize) {
                *came = len;
            }
        }
        // What a process sends itself has the length that it receives.
        let has_own = self.kind == Kind::Gather || self.root.is_none_or(|root| root == own);
        if let (true, Some(from)) = (has_own, &self.from) {
            let place = into.parts.range(own);
            let range = from.parts.range(own);
            let range = range.start..range.start + range.len().min(place.len());
            if let Some((_, came)) = into.unpacked.get_mut(own as usize) {
                *came = range.len();
            }
            copy((&from.memory, range), (&into.memory, place.start));
        }
        self.into = Some(into);
        Ok(())
    }

    /// Where a rank's only block is, and its length; `None` if it comes by a message.
    #[inline]
    fn find_one(area: &Area, rank: u32, phase: u64) -> Option<(usize, u64)> {
        let len = area.payload_word(first_word(area, rank, phase));
        let at = behind(area, rank, phase, len.min(CAPACITY as u64) as usize);
        (len != BY_MESSAGE).then_some((at, len))
    }

    /// The same of a rank's block for this process.
    fn find_own(area: &Area, rank: u32, phase: u64) -> Option<(usize, u64)> {
        let len = area.payload_word(first_word(area, rank, phase));
        let start = behind(area, rank, phase, len.min(CAPACITY as u64) as usize);
        let length = |of: u32| {
            let both = area.payload_word(start + of as usize / 2 * WORD);
            (both >> (of % 2 * 32)) as u32
        };
        let own = length(area.rank);
        if own == BY_MESSAGE_IN_TABLE {
            return None;
        }
        let lengths = (0..area.rank)
            .map(length)
            .filter(|len| *len != BY_MESSAGE_IN_TABLE);
        let before = lengths.fold(0_u64, |sum, len| sum + u64::from(len));
        let at = table_len(area.ranks) as u64 + before;
        // A packet whose lengths are more than it has is refused as if the block were too long.
        let is_inside = at + u64::from(own) <= CAPACITY as u64;
        let own = if is_inside { u64::from(own) } else { u64::MAX };
        Some((start + at as usize, own))
    }

    /// Puts received blocks where the program wants them, except those that come by messages.
    pub(super) fn finish(&mut self) -> Result<()> {
        let Some(into) = &self.into else {
            return Ok(());
        };
        for (rank, (block, came)) in into.unpacked.iter().enumerate() {
            if *came > 0 {
                block.unpack_from(&into.block(rank as u32).slice(0..*came))?;
            }
        }
        Ok(())
    }
}
