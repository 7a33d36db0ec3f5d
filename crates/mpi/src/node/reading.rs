//! Long operations in which processes read each other's memory (cross-memory attach), by themselves and without messages.
//!
//! The area only has addresses: in the first phase, each process publishes where its data lie, and reads what it needs of the others', beginning with the rank behind it, so
//! that not all read from the same one first. A reduction is divided: each process reads the operands of its share from all, in the order of ranks and in pieces that stay in the
//! cache, combines them, and publishes where the result lies; in the second phase, it reads the other shares. In the last phase nothing is read: when all have published it, none reads the others' memory
//! any more. A process that gives the operation up may change its memory earlier; it reports the failure before, and the others check for that after their last read.
//!
//! A process that cannot read another one's memory (other namespaces, a filter of system calls) publishes that in the next phase. As all see it, all do the operation by messages
//! then, and later ones as well. The program's operands are still there: what is combined in their place is kept apart until all have read them.

use std::ops::Range;

use causeway_engine::Memory;
use causeway_sys::blocks::{Source, Target, copy_one};

use super::area::Area;
use super::parts::Parts;
use super::uneven::Side;
use crate::buffer::{overlap, scratch};
use crate::error;
use crate::reduction::Kernel;

/// Bytes of payload: an address, and 1 + the rank whose memory this process could not read, or 0.
pub(super) const WIDTH: usize = 16;
/// Operands are read and combined in pieces of so many bytes.
const PIECE: usize = if cfg!(test) { 1 << 10 } else { 64 << 10 };
/// After so many bytes, a process makes progress on its other operations.
const AT_ONCE: usize = if cfg!(test) { 10_000 } else { 1 << 20 };

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Reading {
    what: What,
    /// What the other processes read in the first phase.
    offered: Memory,
    /// The place of the result.
    into: Memory,
    /// How far it has got in the present phase: the distance of the rank that it reads from, 0 before it begins, and the bytes that it has read from it; or the bytes that it has
    /// combined.
    distance: u32,
    done: usize,
    /// A rank whose memory could not be read.
    unread: Option<u32>,
    is_void: bool,
    /// Where the program wants the result, if it has gaps there.
    delivered: Option<Side>,
}

#[derive(Debug)]
enum What {
    /// Each process's block is copied to all, to its place here.
    Gather { from: Option<Memory>, parts: Parts },
    /// Each process reads its part of each other's memory; the others' parts of `into` are their parts.
    Exchange { in_place: bool, part: usize },
    /// The memory of all is combined, and each process gets a part, or all processes get all.
    Reduce(Combining),
}

#[derive(Debug)]
struct Combining {
    kernel: Kernel,
    parts: Parts,
    /// This process's part of the result: in its place, or apart.
    own: Memory,
    /// Where it is to be copied to.
    place: Option<Memory>,
    /// Memory for pieces of others' operands.
    between: Memory,
    /// All processes get all parts.
    is_for_all: bool,
}

/// How far a phase has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Over,
    /// It can go on at once; other work may come first.
    Moved,
    /// A process could not read this rank's memory, and operands are no longer in their places.
    Unread(u32),
}

/// The units of all parts, as equally divided as possible.
fn shares(len: usize, ranks: u32, unit: usize) -> Parts {
    let (units, ranks) = (len / unit, ranks as usize);
    let bounds = (1..=ranks).map(|rank| units * rank / ranks * unit);
    Parts::Bounds(bounds.collect())
}

impl Reading {
    fn new(what: What, offered: Memory, into: Memory) -> Box<Self> {
        Box::new(Self {
            what,
            offered,
            into,
            distance: 0,
            done: 0,
            unread: None,
            is_void: false,
            delivered: None,
        })
    }

    /// Each process's block, from `from` or its place in `into`, is copied to all.
    pub(super) fn gather(
        area: &Area,
        from: Option<Memory>,
        into: Memory,
    ) -> error::Result<Box<Self>> {
        let parts = Parts::Even(into.len() / area.ranks as usize);
        Ok(Self::gather_parts(area.rank, from, into, parts))
    }

    fn gather_parts(rank: u32, from: Option<Memory>, into: Memory, parts: Parts) -> Box<Self> {
        let own = || into.slice(parts.range(rank));
        let offered = from.clone().unwrap_or_else(own);
        Self::new(What::Gather { from, parts }, offered, into)
    }

    /// The same with blocks of any lengths.
    pub(super) fn gather_uneven(rank: u32, from: Option<Memory>, into: Side) -> Box<Self> {
        let (memory, parts) = into.places();
        let mut reading = Self::gather_parts(rank, from, memory, parts);
        reading.delivered = Some(into);
        reading
    }

    /// Puts the result where the program wants it.
    pub(super) fn finish(&mut self, area: &Area) -> error::Result<()> {
        match &self.delivered {
            Some(side) if !self.is_void => {
                let is_in_place = matches!(self.what, What::Gather { from: None, .. });
                side.unpack(is_in_place.then_some(area.rank))
            }
            _ => Ok(()),
        }
    }

    /// Equal parts are exchanged, in place if there is no `from`.
    pub(super) fn exchange(
        area: &Area,
        from: Option<Memory>,
        into: Memory,
    ) -> error::Result<Box<Self>> {
        let in_place = from.is_none();
        let offered = match from {
            Some(from) => from,
            None => {
                let copy = scratch(into.len())?;
                copy.copy_from(&into);
                copy
            }
        };
        let part = into.len() / area.ranks as usize;
        Ok(Self::new(What::Exchange { in_place, part }, offered, into))
    }

    /// The memory of all is combined for all.
    pub(super) fn reduce(
        area: &Area,
        from: Memory,
        into: Memory,
        kernel: Kernel,
    ) -> error::Result<Box<Self>> {
        let parts = shares(from.len(), area.ranks, kernel.unit());
        let place = into.slice(parts.range(area.rank));
        Self::combining((from, into), (parts, place), kernel, true)
    }

    /// The same, of which each process gets a part.
    pub(super) fn reduce_scatter(
        area: &Area,
        from: Memory,
        into: Memory,
        parts: Parts,
        kernel: Kernel,
    ) -> error::Result<Box<Self>> {
        let place = into.slice(0..parts.range(area.rank).len());
        Self::combining((from, into), (parts, place), kernel, false)
    }

    fn combining(
        (from, into): (Memory, Memory),
        (parts, place): (Parts, Memory),
        kernel: Kernel,
        is_for_all: bool,
    ) -> error::Result<Box<Self>> {
        let is_apart = overlap(&from, &place);
        let own = match is_apart {
            true => scratch(place.len())?,
            false => place.clone(),
        };
        let between = scratch(piece_of(&kernel).min(own.len()))?;
        let combining = Combining {
            kernel,
            parts,
            own,
            place: is_apart.then_some(place),
            between,
            is_for_all,
        };
        Ok(Self::new(What::Reduce(combining), from, into))
    }

    pub(super) fn phases(&self) -> u64 {
        match &self.what {
            What::Reduce(combining) if combining.is_for_all => 3,
            _ => 2,
        }
    }

    /// Whether a process could not read another one's memory: all do the operation by messages.
    pub(super) fn is_void(&self) -> bool {
        self.is_void
    }

    /// Fills this process's slot of a phase, the `at`th of the operation.
    #[inline(never)]
    pub(super) fn fill(&self, area: &Area, phase: u64, at: u64) {
        let address = match (&self.what, at) {
            (_, 0) => self.offered.as_ptr(),
            (What::Reduce(combining), 1) => combining.own.as_ptr(),
            _ => std::ptr::null_mut(),
        };
        let unread = self.unread.map_or(0, |rank| u64::from(rank) + 1);
        area.set_payload_words(phase, [address.addr() as u64, unread]);
    }

    /// Does a part of what is to be done in a phase, which all have published.
    #[inline(never)]
    pub(super) fn advance(&mut self, area: &Area, phase: u64, at: u64) -> Step {
        if self.distance == 0 {
            if at > 0
                && !self.is_void
                && let Some(rank) = area.unread(phase)
            {
                if at > 1 {
                    return Step::Unread(rank);
                }
                self.make_void();
            }
            self.begin_phase(at);
        }
        let step = match (&self.what, at) {
            _ if self.is_void => Ok(Step::Over),
            (What::Reduce(_), 0) => self.combine(area, phase),
            (What::Reduce(combining), 1) if combining.is_for_all => self.read(area, phase),
            (_, 0) => self.read(area, phase),
            _ => Ok(Step::Over),
        };
        let step = step.unwrap_or_else(|rank| {
            self.unread = Some(rank);
            Step::Over
        });
        if step == Step::Over {
            if at == 0 {
                self.copy_own(area);
            }
            (self.distance, self.done) = (0, 0);
        }
        step
    }

    #[cold]
    fn make_void(&mut self) {
        self.is_void = true;
        if let What::Exchange { in_place: true, .. } = self.what {
            self.into.copy_from(&self.offered);
        }
    }

    fn begin_phase(&mut self, at: u64) {
        self.distance = 1;
        if at == 1
            && !self.is_void
            && let What::Reduce(combining) = &self.what
            && let Some(place) = &combining.place
        {
            place.copy_from(&combining.own);
        }
    }

    /// What this process has for itself. It is copied after others' memory has been read: bytes that were just read are slower to read for other processes.
    fn copy_own(&self, area: &Area) {
        let (from, place) = match &self.what {
            What::Gather {
                from: Some(from),
                parts,
            } => (from.clone(), parts.range(area.rank)),
            What::Exchange { in_place, part } if !*in_place => {
                let place = Parts::Even(*part).range(area.rank);
                (self.offered.slice(place.clone()), place)
            }
            _ => return,
        };
        self.into.slice(place).copy_from(&from);
    }

    /// Reads the blocks of the others. If that fails, returns whose memory could not be read.
    fn read(&mut self, area: &Area, phase: u64) -> Result<Step, u32> {
        let mut left = AT_ONCE;
        while self.distance < area.ranks {
            if left == 0 {
                return Ok(Step::Moved);
            }
            let rank = (area.rank + self.distance) % area.ranks;
            let (offset, block) = match &self.what {
                What::Gather { parts, .. } => (0, parts.range(rank)),
                What::Exchange { part, .. } => {
                    let parts = Parts::Even(*part);
                    (parts.range(area.rank).start, parts.range(rank))
                }
                What::Reduce(combining) => (0, combining.parts.range(rank)),
            };
            let start = block.start + self.done;
            let piece = start..block.end.min(start + left);
            left -= piece.len();
            let offset = offset + self.done;
            self.done += piece.len();
            if piece.end == block.end {
                self.distance += 1;
                self.done = 0;
            }
            area.read((rank, phase, offset), &self.into, piece)
                .ok_or(rank)?;
        }
        Ok(Step::Over)
    }

    /// Reads others' operands of this process's part, and combines them with its own.
    fn combine(&mut self, area: &Area, phase: u64) -> Result<Step, u32> {
        let What::Reduce(combining) = &self.what else {
            return Ok(Step::Over);
        };
        let (len, step) = (combining.own.len(), piece_of(&combining.kernel));
        if len == 0 {
            // Whose memory cannot be read is found in this phase also by processes without a share, which read results in the next one.
            let mut others = (0..area.ranks).filter(|rank| *rank != area.rank);
            let unread = others.find(|rank| {
                let nothing = area.read((*rank, phase, 0), &self.offered, 0..0);
                nothing.is_none()
            });
            return unread.map_or(Ok(Step::Over), Err);
        }
        let mut left = AT_ONCE;
        while self.done < len {
            if left == 0 {
                return Ok(Step::Moved);
            }
            let piece = self.done..len.min(self.done + step);
            left = left.saturating_sub(piece.len() * area.ranks as usize);
            self.done = piece.end;
            combining.combine(area, phase, &self.offered, piece)?;
        }
        Ok(Step::Over)
    }
}

impl Combining {
    /// Combines a piece of this process's part: the lower rank's operand is on the left, except that one that is this process's own and the lowest changes places with the next.
    fn combine(
        &self,
        area: &Area,
        phase: u64,
        offered: &Memory,
        piece: Range<usize>,
    ) -> Result<(), u32> {
        let offset = self.parts.range(area.rank).start + piece.start;
        let count = piece.len() / self.kernel.unit();
        let own = Source::from(offered).part(offset, piece.len());
        let mut others = (0..area.ranks).filter(|rank| *rank != area.rank);
        let Some(first) = others.next() else {
            copy_one(
                &mut Target::from(&self.own),
                piece.start,
                own,
                0,
                piece.len(),
            );
            return Ok(());
        };
        area.read((first, phase, offset), &self.own, piece.clone())
            .ok_or(first)?;
        for rank in (0..area.ranks).filter(|rank| *rank != first) {
            let from = match rank == area.rank {
                true => own,
                false => {
                    area.read((rank, phase, offset), &self.between, 0..piece.len())
                        .ok_or(rank)?;
                    Source::from(&self.between).part(0, piece.len())
                }
            };
            let mut into = Target::from(&self.own);
            let mut into = into.part(piece.start, piece.len());
            self.kernel.apply(from, &mut into, count);
        }
        Ok(())
    }
}

/// Bytes of a piece of operands: whole ones.
fn piece_of(kernel: &Kernel) -> usize {
    (PIECE / kernel.unit()).max(1) * kernel.unit()
}
