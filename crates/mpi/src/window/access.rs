//! Accesses to windows (MPI 5.0 §12.3).

use std::ops::Range;

use causeway_engine::Memory;
use causeway_sys::blocks::{Source, Target, copy_one};
use causeway_wire::window::Run;

use super::combining::{Runs, Staging, Update, basic_of, operands};
use super::state::{Window, WindowMemory};
use crate::abi;
use crate::buffer::Buffer;
use crate::datatype::{Basic, Datatype, Elements};
use crate::error::{Error, Result};
use crate::process::{Active, Process, State};
use crate::reduction::Op;
use crate::status::Status;

/// The change of the target's elements. (Its first part is a word of its own: one that is written in parts and read whole right afterwards costs
/// a tenth of a small access.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Action {
    /// They are replaced.
    Put,
    /// They are returned.
    Get,
    /// They are combined with those of the origin, atomically, and their old values returned if there is a result.
    Combine(Op),
    /// One element is replaced by the first of the origin's buffer if it equals the one to compare with, atomically, and its old value returned.
    CompareAndSwap,
}

/// An access.
#[derive(Debug)]
pub struct Access<'a> {
    /// The change of the target's elements.
    pub action: Action,
    /// The operands.
    pub origin: Option<Buffer<'a>>,
    /// The element to compare with.
    pub compare: Option<Buffer<'a>>,
    /// The memory for the results.
    pub result: Option<Buffer<'a>>,
    /// The target's rank.
    pub rank: i32,
    /// The position in the target's memory, in its units.
    pub displacement: i64,
    /// The number of elements of the target.
    pub count: u64,
    /// The datatype of the target's elements.
    pub datatype: &'a Datatype,
    /// Whether the program waits for a request.
    pub is_request: bool,
}

/// Elements of a target that are reached directly.
#[derive(Debug, Clone, Copy)]
struct Reached<'a> {
    memory: &'a Memory,
    /// To be added to offsets in the window.
    base: i64,
}

impl Access<'_> {
    /// Bytes of data in the target.
    fn bytes(&self) -> Option<u64> {
        self.count.checked_mul(self.datatype.size())
    }

    /// An error unless both sides have the same number of bytes.
    #[inline]
    fn check(&self) -> Result<()> {
        if !self.datatype.is_committed() {
            return Err(Error::new(abi::ERR_TYPE, "the datatype is not committed"));
        }
        let bytes = self.bytes();
        let matches = |buffer: &Option<Buffer<'_>>| match buffer {
            None => true,
            Some(buffer) => buffer.count.checked_mul(buffer.datatype.size()) == bytes,
        };
        match matches(&self.origin) && matches(&self.result) && matches(&self.compare) {
            true => Ok(()),
            false => Err(Error::new(
                abi::ERR_ARG,
                format!(
                    "origin or result and target differ in size: the target's {} elements have {} bytes each",
                    self.count,
                    self.datatype.size()
                ),
            )),
        }
    }

    /// Whether all its elements, and those of its buffers, lie one behind the other.
    #[inline]
    fn is_simple(&self, act: &Update) -> bool {
        let is_plain = |buffer: &Option<Buffer<'_>>| buffer.is_none_or(|buffer| buffer.is_plain());
        self.datatype.is_contiguous()
            && act.is_dense()
            && is_plain(&self.origin)
            && is_plain(&self.result)
    }

    /// Its effect on elements of predefined types.
    pub(super) fn act(&self) -> Result<Update> {
        match self.action {
            Action::Put => Update::combine(Op::Replace, Basic::Byte),
            Action::Get => Update::combine(Op::NoOp, Basic::Byte),
            Action::Combine(op) => Update::combine(op, self.basic()?),
            Action::CompareAndSwap => Update::compare_and_swap(self.datatype),
        }
    }

    /// The predefined type of all elements, of both sides.
    fn basic(&self) -> Result<Basic> {
        let basic = basic_of(self.datatype)?;
        let is_other = |buffer: &Option<Buffer<'_>>| {
            let buffer = buffer.as_ref().filter(|buffer| buffer.count > 0);
            buffer.is_some_and(|buffer| basic_of(buffer.datatype).ok() != Some(basic))
        };
        if is_other(&self.origin) || is_other(&self.result) {
            let text = "the datatypes have elements of different predefined types";
            return Err(Error::new(abi::ERR_TYPE, text));
        }
        Ok(basic)
    }

    /// The operands, as notices and [`Update::apply`] have them.
    pub(super) fn operands(&self, act: &Update) -> Result<Option<Memory>> {
        let Some(origin) = &self.origin else {
            return Ok(None);
        };
        let new = operands(origin, act.basic)?;
        let Some(compare) = &self.compare else {
            return Ok((act.operands() > 0).then_some(new));
        };
        let mut both = operands(compare, act.basic)?.to_vec();
        both.extend(new.to_vec());
        Ok(Some(Memory::from_vec(both)))
    }

    /// The memory into which results are received.
    pub(super) fn staging(&self, act: &Update) -> Result<Option<Staging>> {
        let staging = |result| Staging::new(result, act.basic);
        self.result.as_ref().map(staging).transpose()
    }
}

impl Window {
    /// The hull of the accessed bytes, in bytes from the window's beginning.
    #[inline]
    fn range(&self, rank: u32, access: &Access<'_>) -> Result<Range<i64>> {
        let unit = self.units[rank as usize] as i64;
        let hull = match access.datatype.is_contiguous() {
            true => {
                let end = access.bytes().and_then(|bytes| i64::try_from(bytes).ok());
                end.map(|end| 0..end)
            }
            false => access.datatype.hull(access.count).ok(),
        };
        let offset = access.displacement.checked_mul(unit);
        let range = offset.zip(hull).and_then(|(offset, hull)| {
            Some(offset.checked_add(hull.start)?..offset.checked_add(hull.end)?)
        });
        let size = self.sizes[rank as usize] as i64;
        let is_dynamic = matches!(self.place, WindowMemory::Attached(_));
        match range {
            Some(range) if is_dynamic || range.start >= 0 && range.end <= size => Ok(range),
            Some(range) if range.is_empty() => Ok(range),
            _ => Err(outside(rank, access, size)),
        }
    }

    /// The target's memory, if this process reaches it. An error if there is none in this range.
    #[inline]
    fn reach(&self, rank: u32, range: &Range<i64>) -> Result<Option<Reached<'_>>> {
        match &self.place {
            WindowMemory::Area(area) => Ok(Some(Reached {
                memory: area.memory(),
                base: area.start(rank) as i64,
            })),
            _ if rank != self.rank => Ok(None),
            _ => match self.own(range) {
                // Pieces that were attached one by one are accessed as those of others are.
                Err(_) if self.spans_pieces(range) => Ok(None),
                own => own.map(Some),
            },
        }
    }

    /// Whether a range of this process's own memory begins and ends in different pieces.
    fn spans_pieces(&self, range: &Range<i64>) -> bool {
        let has = |offset: i64| self.locate(offset, 1).is_some();
        matches!(self.place, WindowMemory::Attached(_)) && has(range.start) && has(range.end - 1)
    }

    fn own(&self, range: &Range<i64>) -> Result<Reached<'_>> {
        let len = (range.end - range.start).unsigned_abs();
        match self.locate(range.start, len) {
            Some((memory, at)) => Ok(Reached {
                memory,
                base: (at as i64).wrapping_sub(range.start),
            }),
            None => {
                let text = format!(
                    "no memory is attached at {:#x}..{:#x}",
                    range.start, range.end
                );
                Err(Error::new(abi::ERR_RMA_RANGE, text))
            }
        }
    }

    /// This process's own memory with so many bytes from an offset on, and where in it they begin.
    pub(super) fn locate(&self, offset: i64, len: u64) -> Option<(&Memory, usize)> {
        let inside = |memory: &Memory, at: u64| {
            let end = at.checked_add(len)?;
            (end <= memory.len() as u64).then_some(at as usize)
        };
        match &self.place {
            WindowMemory::Area(_) => None,
            WindowMemory::Own(memory) => {
                let at = inside(memory, u64::try_from(offset).ok()?)?;
                Some((memory, at))
            }
            WindowMemory::Attached(attached) => attached.iter().find_map(|memory| {
                let at = (offset as u64).checked_sub(memory.as_ptr().addr() as u64)?;
                Some((memory, inside(memory, at)?))
            }),
        }
    }
}

#[cold]
fn outside(rank: u32, access: &Access<'_>, size: i64) -> Error {
    let text = format!(
        "{} elements at the displacement {} are not inside the {size} bytes of rank {rank}",
        access.count, access.displacement
    );
    Error::new(abi::ERR_RMA_RANGE, text)
}

impl Process {
    /// Starts an access to a window, whose request the program waits for.
    pub fn access_with_request(&mut self, handle: usize, access: &Access<'_>) -> Result<Active> {
        // Its errors are the window's.
        let mut active = Active::done(Status::empty(), handle);
        if let Some(operation) = self.access(handle, access)? {
            active.state = State::Window(operation);
        }
        Ok(active)
    }

    /// Starts an access to a window. Returns its number if it has a request, and is not done already.
    #[inline]
    pub fn access(&mut self, handle: usize, access: &Access<'_>) -> Result<Option<u64>> {
        let window = self.window(handle)?;
        if access.rank == abi::PROC_NULL {
            return Ok(None);
        }
        let rank = window.check_rank(access.rank)?;
        window.epoch.check_access(rank, access.is_request)?;
        access.check()?;
        let range = window.range(rank, access)?;
        if range.is_empty() {
            return Ok(None);
        }
        match &access.action {
            Action::Put => {}
            Action::Get => self.windows.order_loads(),
            _ => self.windows.order_held_loads(),
        }
        self.windows.has_changed |= access.action != Action::Get;
        let window = self.window(handle)?;
        let Some(reached) = window.reach(rank, &range)? else {
            return self.access_by_notice(handle, rank, access);
        };
        match &access.action {
            Action::Put => put(&reached, &range, access)?,
            Action::Get => get(&reached, &range, access)?,
            _ => self.combine(handle, (rank, range), access)?,
        }
        Ok(None)
    }

    /// Combines elements of memory that this process reaches.
    fn combine(
        &mut self,
        handle: usize,
        (rank, range): (u32, Range<i64>),
        access: &Access<'_>,
    ) -> Result<()> {
        // A process that has combined elements is likely to combine the next ones by the same
        // operation: what was computed for it is kept.
        let again = match (&access.action, &self.windows.latest) {
            (Action::Combine(op), Some(act)) => act.is(*op, access.basic()?),
            _ => false,
        };
        if !again {
            self.windows.latest = Some(access.act()?);
        }
        let Some(act) = self.windows.latest else {
            return Ok(());
        };
        if access.is_simple(&act) {
            let buffers = [access.origin, access.compare, access.result];
            let operands = buffers.map(|buffer| buffer.map(|buffer| buffer.memory));
            let mut work = Work::new(handle, rank, act, operands);
            let run = Run {
                offset: range.start,
                count: access.bytes().unwrap_or(0) / act.unit() as u64,
            };
            return self.combine_run(&mut work, run);
        }
        let data = access.origin.as_ref();
        let data = data.map(|origin| operands(origin, act.basic)).transpose()?;
        let staging = access.staging(&act)?;
        let into = staging.as_ref().map(|staging| &staging.memory);
        let compare = access.compare.map(|compare| compare.memory);
        let mut work = Work::new(handle, rank, act, [data.as_ref(), compare, into]);
        let offset = range.start - access.datatype.hull(access.count)?.start;
        let mut all = Runs::new(access.datatype, access.count, offset, act.basic)?;
        let mut runs = Vec::new();
        while all.next < all.total {
            runs.clear();
            all.take(RUNS, u64::MAX, &mut runs)?;
            for run in &runs {
                self.combine_run(&mut work, *run)?;
            }
        }
        staging.map_or(Ok(()), |staging| staging.finish())
    }

    /// Combines the elements of one run: those that begin in one block after the other, if a stripe has to be held.
    fn combine_run(&mut self, work: &mut Work<'_>, mut run: Run) -> Result<()> {
        let unit = work.act.unit();
        while run.count > 0 {
            let window = self.window(work.handle)?;
            let len = run.count.saturating_mul(unit as u64);
            let end = i64::try_from(len)
                .ok()
                .and_then(|len| run.offset.checked_add(len));
            let range = run.offset..end.unwrap_or(i64::MAX);
            let reached = window.reach(work.rank, &range)?;
            let Some(Reached { memory, base }) = reached else {
                return Err(Error::new(abi::ERR_WIN, "the window has changed"));
            };
            let at = (run.offset + base) as usize;
            if memory.len() < at || (memory.len() - at) as u64 / (unit as u64) < run.count {
                let text = "the last pair's gap is outside of the window's memory";
                return Err(Error::new(abi::ERR_RMA_RANGE, text));
            }
            let WindowMemory::Area(area) = &window.place else {
                work.apply(memory, at, run.count as usize);
                return Ok(());
            };
            let (stripe, end) = area.stripe(work.rank, at);
            if !stripe.try_hold(window.rank) {
                self.await_stripe(work.handle, work.rank, at)?;
                continue;
            }
            let count = ((end - at).div_ceil(unit) as u64).min(run.count);
            work.apply(memory, at, count as usize);
            stripe.release();
            run.offset += count as i64 * unit as i64;
            run.count -= count;
        }
        Ok(())
    }
}

/// Runs that are described together.
const RUNS: usize = 1024;

/// Elements that are being combined.
struct Work<'a> {
    handle: usize,
    rank: u32,
    act: Update,
    data: Source<'a>,
    compare: Source<'a>,
    into: Option<&'a Memory>,
    /// Elements that are done.
    done: usize,
}

impl<'a> Work<'a> {
    /// Work with operands, the element to compare with, and the place of results.
    #[inline]
    fn new(handle: usize, rank: u32, act: Update, operands: [Option<&'a Memory>; 3]) -> Self {
        let [data, compare, into] = operands;
        let source =
            |memory: Option<&'a Memory>| memory.map_or(Source::from(&[][..]), Source::from);
        Self {
            handle,
            rank,
            act,
            data: source(data),
            compare: source(compare),
            into,
            done: 0,
        }
    }

    #[inline]
    fn apply(&mut self, memory: &Memory, at: usize, count: usize) {
        let unit = self.act.unit();
        let (from, len) = (self.done * unit, count * unit);
        let data = match self.act.operands() {
            0 => self.data,
            _ => self.data.part(from, len),
        };
        let mut into = self.into.map(Target::from);
        let fetched = into.as_mut().map(|into| into.part(from, len));
        self.act
            .apply(memory, at, count, (data, self.compare), fetched);
        self.done += count;
    }
}

#[inline]
fn put(reached: &Reached<'_>, range: &Range<i64>, access: &Access<'_>) -> Result<()> {
    let Some(origin) = &access.origin else {
        return Ok(());
    };
    let at = (range.start + reached.base) as usize;
    let len = (range.end - range.start) as usize;
    if origin.is_plain() && access.datatype.is_contiguous() {
        let mut memory = Target::from(reached.memory);
        copy_one(&mut memory, at, Source::from(origin.memory), 0, len);
        return Ok(());
    }
    let (mine, theirs) = both_sides(origin, access)?;
    let mut memory = Target::from(reached.memory);
    mine.copy_to(
        Source::from(origin.memory),
        &theirs,
        &mut memory.part(at, len),
    )?;
    Ok(())
}

#[inline]
fn get(reached: &Reached<'_>, range: &Range<i64>, access: &Access<'_>) -> Result<()> {
    let Some(result) = &access.result else {
        return Ok(());
    };
    let at = (range.start + reached.base) as usize;
    let len = (range.end - range.start) as usize;
    if result.is_plain() && access.datatype.is_contiguous() {
        let mut memory = Target::from(result.memory);
        copy_one(&mut memory, 0, Source::from(reached.memory), at, len);
        return Ok(());
    }
    let (mine, theirs) = both_sides(result, access)?;
    theirs.copy_to(
        Source::from(reached.memory).part(at, len),
        &mine,
        &mut Target::from(result.memory),
    )?;
    Ok(())
}

fn both_sides(buffer: &Buffer<'_>, access: &Access<'_>) -> Result<(Elements, Elements)> {
    Ok((
        Elements::new(buffer.datatype.clone(), buffer.count)?,
        Elements::new(access.datatype.clone(), access.count)?,
    ))
}
