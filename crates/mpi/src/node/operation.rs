//! What a process does in a collective operation in an [area](super::area), phase by phase.

use std::ops::Range;
use std::sync::Arc;

use causeway_engine::Memory;
use causeway_sys::blocks::{Source, Target, copy_one};

use super::area::{Area, CAPACITY, Compared};
use super::call::{Call, SlotsOf};
use super::failure::Failure;
use super::parts::Parts;
use super::reading::{self, Reading, Step};
use super::uneven::{Left, TooLong, Uneven};
use crate::buffer::OwnedBuffer;
use crate::error::Result;
use crate::reduction::Kernel;

/// The operation. All memory is contiguous.
#[derive(Debug)]
pub(crate) enum What {
    /// It is over when all processes have begun it.
    Barrier,
    /// The root's memory is copied to all.
    Broadcast { root: u32, memory: Memory },
    /// The memory of all is combined; the result goes to the root, or to all. Combined in the order of ranks, so that all get the same bits.
    Reduce {
        root: Option<u32>,
        from: Memory,
        into: Memory,
        kernel: Kernel,
    },
    /// The same with a result for all processes: each combines a share of it, and then copies the
    /// shares of the others.
    ReduceByShares {
        from: Memory,
        into: Memory,
        kernel: Kernel,
    },
    /// The memory of all is combined; each process gets a part of the result.
    ReduceScatter {
        from: Memory,
        into: Memory,
        parts: Parts,
        kernel: Kernel,
    },
    /// Each process's memory is copied to all; `from` is `None` if this process's is in its place
    /// already.
    Gather { from: Option<Memory>, into: Memory },
    /// Each process exchanges a part with each other one; `from` is `None` if the parts are
    /// exchanged in place.
    Exchange {
        from: Option<Memory>,
        into: Memory,
        parts: Parts,
    },
    /// The memory of the processes up to this one, or below it, is combined, in the order of ranks.
    Scan {
        from: Memory,
        into: Memory,
        kernel: Kernel,
        is_exclusive: bool,
    },
    /// Blocks whose lengths their senders and receivers know.
    Uneven(Box<Uneven>),
    /// Processes read each other's memory, wherever that lies.
    Reading(Box<Reading>),
    /// Nothing is moved, as that is done by messages then: the call is published, and compared with those that are published already.
    Agreement,
}

/// How far an operation has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    Over,
    /// It waits for other processes.
    Waits,
    /// It can go on at once; other work may come first.
    Moved,
    /// This rank's call does not belong to it.
    Differs(u32),
    /// This rank's memory could not be read by a process that had read it before.
    Unread(u32),
    /// A rank sends a block that is too long.
    TooLong(TooLong),
}

/// An operation in progress.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) area: Arc<Area>,
    pub(crate) call: Call,
    what: What,
    /// Whose slots this process reads.
    sources: SlotsOf,
    /// Its number among the communicator's operations.
    pub(crate) number: u64,
    /// Its phases, and how many of them are over.
    pub(crate) first: u64,
    phases: u64,
    at: u64,
    is_published: bool,
    /// Bytes that a phase moves of a process's memory, or of each part of it.
    step: usize,
    /// Bytes of a slot that phases use.
    width: usize,
    /// Data that are to be put where the program wants them, in the end.
    deliver: Option<(Memory, OwnedBuffer)>,
}

/// An operation whose call was published in the area, and which is done by messages then.
#[derive(Debug, Clone)]
pub(crate) struct Agreed {
    pub(crate) area: Arc<Area>,
    pub(crate) call: Call,
    /// The number and the phase of the operation.
    pub(crate) number: u64,
    pub(crate) first: u64,
    /// The blocks that messages move.
    pub(crate) left: Left,
}

impl Agreed {
    /// Why it fails, if it does: another rank's call is another one, or a process has reported a failure.
    #[cold]
    pub(crate) fn failure(&self) -> Option<Failure> {
        match self.area.find_other_call(self.first, self.call) {
            Some(other) => Some(differs(&self.area, self.first, other)),
            None => (self.area.fails(self.first)).then(|| self.area.failure()),
        }
    }
}

/// The failure that this and another rank's calls in a phase, which both have published, differ.
fn differs(area: &Area, phase: u64, other: u32) -> Failure {
    let mut calls = [area.rank, other].map(|rank| (rank, area.call(rank, phase)));
    calls.sort_by_key(|(rank, _)| *rank);
    Failure::Differs { calls, phase }
}

/// Bytes of pieces of parts without elements: whole lines.
const LINE: usize = 64;

impl Operation {
    /// An operation of which nothing was done yet. It takes its phases: all processes begin their operations in the same order.
    #[inline(always)]
    pub(crate) fn new(
        area: Arc<Area>,
        (number, call): (u64, Call),
        (what, deliver): (What, Option<(Memory, OwnedBuffer)>),
    ) -> Self {
        let ranks = area.ranks as usize;
        let whole = |len: usize, unit: usize| {
            let step = len.min(CAPACITY / unit * unit);
            (len, step, step)
        };
        let in_parts = |parts: &Parts, unit: usize| {
            let len = parts.longest(area.ranks);
            let room = CAPACITY / ranks;
            let step = if len <= room { len } else { room / unit * unit };
            (len, step, step * ranks)
        };
        let (len, step, width) = match &what {
            What::Barrier | What::Agreement | What::Uneven(_) => (1, 1, 0),
            What::Reading(_) => (1, 1, reading::WIDTH),
            What::Broadcast { memory, .. } => whole(memory.len(), 1),
            What::Reduce { from, kernel, .. }
            | What::ReduceByShares { from, kernel, .. }
            | What::Scan { from, kernel, .. } => whole(from.len(), kernel.unit()),
            What::Gather { into, .. } => whole(into.len() / ranks, 1),
            What::ReduceScatter { parts, kernel, .. } => in_parts(parts, kernel.unit()),
            What::Exchange { parts, .. } => in_parts(parts, LINE),
        };
        // An operation without data has a phase, too, in which calls are compared.
        let mut phases = len.div_ceil(step.max(1)).max(1) as u64;
        match &what {
            What::ReduceByShares { .. } => phases *= 2,
            What::Reading(reading) => phases = reading.phases(),
            _ => {}
        }
        let first = area.take(phases);
        Self {
            number,
            first,
            sources: call.sources(area.rank),
            area,
            call: call.numbered(number),
            what,
            phases,
            at: 0,
            is_published: false,
            step,
            width,
            deliver,
        }
    }

    /// Advances as far as it can without waiting.
    #[inline]
    pub(crate) fn run(&mut self) -> Progress {
        while self.at < self.phases {
            let phase = self.first + self.at;
            let call = self.call_now();
            if !self.is_published {
                if let Some(before) = Area::before_filling(phase)
                    && !self.area.is_published(SlotsOf::All, before)
                {
                    return Progress::Waits;
                }
                match &mut self.what {
                    What::Uneven(uneven) => uneven.fill(&self.area, phase),
                    _ => self.fill(phase),
                }
                self.area.publish(phase, call);
                self.is_published = true;
            }
            let compared = match self.what {
                // Messages show what is not known yet.
                What::Agreement => self.area.compare_published(self.sources, phase, call),
                _ => self.area.compare(self.sources, phase, call),
            };
            match compared {
                Compared::Same => {}
                Compared::Incomplete => return Progress::Waits,
                Compared::Differs(rank) => return Progress::Differs(rank),
            }
            match &mut self.what {
                What::Reading(reading) => {
                    // They can read while this process does.
                    if self.area.has_sleepers() {
                        return Progress::Moved;
                    }
                    match reading.advance(&self.area, phase, self.at) {
                        Step::Over => {}
                        Step::Moved => return Progress::Moved,
                        Step::Unread(rank) => return Progress::Unread(rank),
                    }
                }
                What::Uneven(uneven) => {
                    if let Err(too_long) = uneven.take(&self.area, phase) {
                        return Progress::TooLong(too_long);
                    }
                }
                _ => self.take(phase),
            }
            self.is_published = false;
            self.at += 1;
        }
        Progress::Over
    }

    /// The call in its present phase.
    #[inline]
    fn call_now(&self) -> Call {
        match self.at {
            0 => self.call,
            _ => self.call.continued(),
        }
    }

    /// Whether a process has reported that it fails, although it is over, and it is one of those for which that counts: only the beginning of one by messages, or one in which
    /// processes read each other's memory. A process that gives such an operation up may change what another one still reads: it reports that before.
    #[inline]
    pub(crate) fn comes_too_late(&self) -> bool {
        match self.what {
            What::Agreement => self.area.fails(self.first),
            What::Reading(_) => self.area.fails_after_reads(self.first + self.phases - 1),
            _ => false,
        }
    }

    /// Whether it is over and nothing is done, as a process could not read another one's memory: it is to be done by messages.
    #[inline]
    pub(crate) fn is_void(&self) -> bool {
        matches!(&self.what, What::Reading(reading) if reading.is_void())
    }

    /// The blocks that messages have to move although it is over.
    #[inline]
    pub(crate) fn left(&self) -> Left {
        match &self.what {
            What::Uneven(uneven) => uneven.left(),
            _ if self.is_void() => Left::ALL,
            _ => Left::NONE,
        }
    }

    /// Whether one of its phases fails, as a process has reported.
    #[cold]
    pub(crate) fn fails(&self) -> bool {
        self.area.fails(self.first + self.phases - 1)
    }

    /// A rank that has published another call in its present phase, also one whose data this process does not need.
    #[cold]
    pub(crate) fn find_other_call(&self) -> Option<u32> {
        let phase = self.first + self.at;
        let is_published = self.is_published;
        is_published.then(|| self.area.find_other_call(phase, self.call_now()))?
    }

    /// The failure that a rank's memory could not be read.
    #[cold]
    pub(crate) fn failure_to_read(&self, rank: u32) -> Failure {
        let phase = self.first;
        Failure::Unread { rank, phase }
    }

    /// The failure that another rank's call is another one.
    #[cold]
    pub(crate) fn failure(&self, other: u32) -> Failure {
        differs(&self.area, self.first + self.at, other)
    }

    /// The failure that a rank sends a block that is too long.
    #[cold]
    pub(crate) fn failure_of_length(&self, of: TooLong) -> Failure {
        let phase = self.first + self.at;
        let call = self.call_now();
        let (own, other) = (call.with_block(of.room), call.with_block(of.sent));
        let mut calls = [(self.area.rank, own), (of.rank, other)];
        calls.sort_by_key(|(rank, _)| *rank);
        Failure::Differs { calls, phase }
    }

    /// What is to be kept of it while these blocks are moved by messages.
    pub(crate) fn agreed(&self, left: Left) -> Agreed {
        Agreed {
            area: Arc::clone(&self.area),
            call: self.call,
            number: self.number,
            first: self.first,
            left,
        }
    }

    /// The condition that it waits for.
    pub(crate) fn awaited(&self) -> (SlotsOf, u64) {
        let phase = self.first + self.at;
        match Area::before_filling(phase) {
            Some(before) if !self.is_published => (SlotsOf::All, before),
            _ => (self.sources, phase),
        }
    }

    /// Puts the results where the program wants them.
    #[inline]
    pub(crate) fn finish(&mut self) -> Result<()> {
        match &mut self.what {
            What::Uneven(uneven) => uneven.finish()?,
            What::Reading(reading) => reading.finish(&self.area)?,
            _ => {}
        }
        match self.deliver.take() {
            None => Ok(()),
            Some((from, into)) => into.unpack_from(&from),
        }
    }

    /// What a phase moves of memory of which it moves one piece.
    #[inline]
    fn piece(&self, len: usize) -> Range<usize> {
        let start = self.at as usize * self.step;
        start..(start + self.step).min(len)
    }

    /// The same where each piece takes two phases.
    fn shared_piece(&self, len: usize) -> Range<usize> {
        let start = (self.at / 2) as usize * self.step;
        start..(start + self.step).min(len)
    }

    /// A rank's share of a piece, in bytes from its beginning.
    fn share(&self, rank: u32, len: usize, unit: usize) -> Range<usize> {
        let (units, ranks) = (len / unit, self.area.ranks as usize);
        let bound = |rank: usize| units * rank / ranks * unit;
        bound(rank as usize)..bound(rank as usize + 1)
    }

    /// Copies into this process's slot, from byte `at` of its payload on.
    #[inline]
    fn put(&self, phase: u64, at: usize, from: &Memory, range: Range<usize>) {
        let area = &*self.area;
        let to = area.payload(area.rank, phase, self.width) + at;
        area.fill(to, from, range);
    }

    /// Bytes of a rank's slot.
    #[inline]
    fn slot(&self, rank: u32, phase: u64, at: usize, len: usize) -> Source<'_> {
        let start = self.area.payload(rank, phase, self.width) + at;
        Source::from(self.area.memory()).part(start, len)
    }

    /// Copies out of a rank's slot, from byte `at` of its payload on.
    #[inline]
    fn get(&self, (rank, phase, at): (u32, u64, usize), into: &Memory, range: Range<usize>) {
        let from = self.slot(rank, phase, at, range.len());
        copy_one(&mut Target::from(into), range.start, from, 0, range.len());
    }

    /// Combines bytes of all slots.
    #[inline]
    fn combine(&self, phase: u64, at: usize, kernel: &Kernel, into: &Memory, range: Range<usize>) {
        self.combine_first(self.area.ranks, (phase, at), kernel, into, range);
    }

    /// Combines bytes of the slots of so many ranks; there is at least one.
    #[inline]
    fn combine_first(
        &self,
        ranks: u32,
        (phase, at): (u64, usize),
        kernel: &Kernel,
        into: &Memory,
        range: Range<usize>,
    ) {
        let count = range.len() / kernel.unit();
        self.get((0, phase, at), into, range.clone());
        for rank in 1..ranks {
            let from = self.slot(rank, phase, at, range.len());
            let mut into = Target::from(into);
            kernel.apply(from, &mut into.part(range.start, range.len()), count);
        }
    }

    #[inline]
    fn fill(&self, phase: u64) {
        let own = self.area.rank;
        match &self.what {
            What::Barrier | What::Agreement | What::Uneven(_) => {}
            What::Reading(reading) => reading.fill(&self.area, phase, self.at),
            What::Broadcast { root, memory } => {
                if *root == own {
                    self.put(phase, 0, memory, self.piece(memory.len()));
                }
            }
            What::Reduce { from, .. } | What::Scan { from, .. } => {
                self.put(phase, 0, from, self.piece(from.len()))
            }
            What::ReduceByShares { from, into, kernel } => {
                let piece = self.shared_piece(from.len());
                if self.at.is_multiple_of(2) {
                    self.put(phase, 0, from, piece);
                } else {
                    let share = self.share(own, piece.len(), kernel.unit());
                    let range = piece.start + share.start..piece.start + share.end;
                    self.put(phase, share.start, into, range);
                }
            }
            What::Gather { from, into } => {
                let block = into.len() / self.area.ranks as usize;
                let piece = self.piece(block);
                match from {
                    Some(from) => self.put(phase, 0, from, piece),
                    None => {
                        let start = own as usize * block;
                        self.put(phase, 0, into, start + piece.start..start + piece.end);
                    }
                }
            }
            What::ReduceScatter { from, parts, .. } => self.put_parts(phase, from, parts),
            What::Exchange { from, into, parts } => {
                self.put_parts(phase, from.as_ref().unwrap_or(into), parts);
            }
        }
    }

    fn put_parts(&self, phase: u64, from: &Memory, parts: &Parts) {
        if let (Parts::Even(_), 1) = (parts, self.phases) {
            return self.put(phase, 0, from, 0..self.width);
        }
        let done = self.at as usize * self.step;
        for rank in 0..self.area.ranks {
            let piece = parts.piece(rank, done, self.step);
            self.put(phase, rank as usize * self.step, from, piece);
        }
    }

    #[inline]
    fn take(&self, phase: u64) {
        let own = self.area.rank;
        match &self.what {
            What::Barrier | What::Agreement | What::Reading(_) | What::Uneven(_) => {}
            What::Broadcast { root, memory } => {
                if *root != own {
                    self.get((*root, phase, 0), memory, self.piece(memory.len()));
                }
            }
            What::Reduce {
                root,
                from,
                into,
                kernel,
            } => {
                if root.is_none_or(|root| root == own) {
                    self.combine(phase, 0, kernel, into, self.piece(from.len()));
                }
            }
            What::Scan {
                from,
                into,
                kernel,
                is_exclusive,
            } => {
                let ranks = own + u32::from(!is_exclusive);
                if ranks > 0 {
                    let piece = self.piece(from.len());
                    self.combine_first(ranks, (phase, 0), kernel, into, piece);
                }
            }
            What::ReduceByShares { from, into, kernel } => {
                self.take_shares(phase, from.len(), into, kernel);
            }
            What::Gather { from, into } => {
                let block = into.len() / self.area.ranks as usize;
                let piece = self.piece(block);
                let others = (0..self.area.ranks).filter(|rank| from.is_some() || *rank != own);
                for rank in others {
                    let start = rank as usize * block;
                    let range = start + piece.start..start + piece.end;
                    self.get((rank, phase, 0), into, range);
                }
            }
            What::ReduceScatter {
                into,
                parts,
                kernel,
                ..
            } => {
                let done = self.at as usize * self.step;
                let piece = parts.piece(own, done, self.step);
                let range = done..done + piece.len();
                if !range.is_empty() {
                    self.combine(phase, own as usize * self.step, kernel, into, range);
                }
            }
            What::Exchange { into, parts, .. } => {
                let done = self.at as usize * self.step;
                for rank in 0..self.area.ranks {
                    let piece = parts.piece(rank, done, self.step);
                    self.get((rank, phase, own as usize * self.step), into, piece);
                }
            }
        }
    }

    fn take_shares(&self, phase: u64, len: usize, into: &Memory, kernel: &Kernel) {
        let (own, unit) = (self.area.rank, kernel.unit());
        let piece = self.shared_piece(len);
        let of = |rank: u32| {
            let share = self.share(rank, piece.len(), unit);
            (
                share.start,
                piece.start + share.start..piece.start + share.end,
            )
        };
        if self.at.is_multiple_of(2) {
            let (at, range) = of(own);
            return self.combine(phase, at, kernel, into, range);
        }
        for rank in (0..self.area.ranks).filter(|rank| *rank != own) {
            let (at, range) = of(rank);
            self.get((rank, phase, at), into, range);
        }
    }
}
