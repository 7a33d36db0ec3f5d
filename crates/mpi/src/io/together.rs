//! Access by all processes together (two-phase: del Rosario, Bordawekar and Choudhary, 1993). Where each has many small pieces that lie
//! between those of others, the part of the file that all of them touch is divided among the processes: each collects
//! what others write there, or reads for them what they want of it, in few large pieces.
//!
//! A process collects one window of its part at a time, so memory is bounded however much is transferred. Only bytes that some process
//! writes are written: no locks are needed, and none of what lies in between is read.

use std::ops::Range;

use causeway_engine::Memory;

use crate::abi;
use crate::buffer::{OwnedBuffer, temporary};
use crate::caller::Caller;
use crate::collective::Blocks;
use crate::error::{Error, Result};

use super::agreement::{agree, exchange_numbers, numbers_in};
use super::storage::{Extent, failed};
use super::transfer::Opened;

/// Pieces of this many bytes are transferred by their owners, even if hints ask for collecting.
const LARGE_PIECE: u64 = 16 << 10;
/// The parts of the file that processes collect begin at multiples of this.
const BLOCK: u64 = 4096;
/// Most bytes between two extents that are read along with them though no process wants them.
const GAP: u64 = 4096;

/// One process's access.
pub(crate) struct Access {
    opened: Opened,
    writes: bool,
    /// Where the data begin in the view.
    pub(crate) position: u64,
    /// The data.
    pub(crate) stream: Memory,
    /// What this process touches.
    span: Range<u64>,
}

/// The assignment of extents to collectors.
pub(crate) struct Plan {
    /// What all touch.
    all: Range<u64>,
    /// Bytes that each collects.
    share: u64,
    /// Bytes that each collects at a time.
    window: u64,
    /// How many processes there are.
    size: u32,
    /// How many collect.
    nodes: u32,
    rank: u32,
}

impl Access {
    pub(crate) fn new(opened: Opened, writes: bool, position: u64, stream: Memory) -> Result<Self> {
        let last = position.checked_add(stream.len() as u64);
        let last = last.ok_or_else(|| Error::new(abi::ERR_DISP, "the offset is too large"))?;
        opened.view.check(&(position..last))?;
        let span = match stream.is_empty() {
            true => 0..0,
            false => opened.view.offset_of(position)?..opened.view.offset_of(last - 1)? + 1,
        };
        Ok(Self {
            opened,
            writes,
            position,
            stream,
            span,
        })
    }

    fn end(&self) -> u64 {
        self.position + self.stream.len() as u64
    }

    /// The part of the data that lies in a part of the file.
    fn within(&self, window: &Range<u64>) -> Result<Range<u64>> {
        let view = &self.opened.view;
        let clamp = |position: u64| position.clamp(self.position, self.end());
        let from = clamp(view.data_before(window.start, self.position)?);
        let to = clamp(view.data_before(window.end, self.position)?);
        Ok(from..to.max(from))
    }

    /// Where the first byte of the data lies, from an offset of the file on.
    fn next_from(&self, offset: u64) -> Result<Option<u64>> {
        let view = &self.opened.view;
        let position = view.data_before(offset, self.position)?.max(self.position);
        match position < self.end() {
            true => view.offset_of(position).map(Some),
            false => Ok(None),
        }
    }

    fn part(&self, positions: &Range<u64>) -> Memory {
        let start = (positions.start - self.position) as usize;
        self.stream
            .slice(start..start + (positions.end - positions.start) as usize)
    }
}

impl Plan {
    fn of(spans: &[[i64; 3]], small: u64, (buffer, nodes): (u64, u32), rank: u32) -> Option<Self> {
        let mut touched: Vec<Range<u64>> = spans
            .iter()
            .filter(|[from, to, _]| from < to)
            .map(|[from, to, _]| *from as u64..*to as u64)
            .collect();
        touched.sort_unstable_by_key(|span| span.start);
        let is_mixed = touched.windows(2).any(|pair| pair[1].start < pair[0].end);
        let (total, pieces) = spans
            .iter()
            .fold((0, 0), |(bytes, pieces), [from, to, piece]| {
                let span = (to - from) as u64;
                let many = span.div_ceil((*piece).max(1) as u64);
                (
                    u64::saturating_add(bytes, span),
                    u64::saturating_add(pieces, many),
                )
            });
        if !is_mixed || total / pieces.max(1) >= small {
            return None;
        }
        let start = touched.first()?.start;
        let end = touched.iter().map(|span| span.end).max()?;
        let start = start - start % BLOCK;
        let size = spans.len() as u32;
        let nodes = nodes.clamp(1, size);
        let share = (end - start)
            .div_ceil(u64::from(nodes))
            .next_multiple_of(BLOCK);
        Some(Self {
            all: start..end,
            share,
            window: buffer.next_multiple_of(BLOCK).min(share),
            size,
            nodes,
            rank,
        })
    }

    fn rounds(&self) -> u64 {
        self.share.div_ceil(self.window)
    }

    /// The first round, of `from` and those behind it, in which some process collects data. `next` returns the place of the first byte of the data from a place in the file on.
    fn next_round(
        &self,
        from: u64,
        next: impl Fn(u64) -> Result<Option<u64>>,
    ) -> Result<Option<u64>> {
        let mut first = None;
        for node in 0..self.nodes {
            let part = self.window_of(node, 0).start;
            let here = self.window_of(node, from);
            let end = (part + self.share).min(self.all.end);
            if here.is_empty() {
                continue;
            }
            if let Some(at) = next(here.start)?.filter(|at| *at < end) {
                let round = (at - part) / self.window;
                first = Some(first.map_or(round, |first: u64| first.min(round)));
            }
        }
        Ok(first)
    }

    /// What a process collects in a round.
    fn window_of(&self, node: u32, round: u64) -> Range<u64> {
        if node >= self.nodes {
            return 0..0;
        }
        let part = self.all.start + u64::from(node) * self.share;
        let end = (part + self.share).min(self.all.end);
        let start = (part + round * self.window).min(end);
        start..(start + self.window).min(end)
    }
}

/// Finds out whether collecting is worth while: the same on all processes.
pub(crate) fn plan(caller: &mut impl Caller, access: &Access) -> Result<Option<Plan>> {
    let opened = &access.opened;
    let rank = caller.with(|process| Ok(process.communicator(opened.communicator)?.rank()))?;
    let span = &access.span;
    // The distance of pieces gives their number, without walking over them.
    let piece = match opened.view.mean_piece() {
        u64::MAX => span.end - span.start,
        piece => piece,
    };
    let hints = opened.hints;
    let together = match access.writes {
        true => hints.writes_together,
        false => hints.reads_together,
    };
    let small = match together {
        Some(false) => 0,
        Some(true) => LARGE_PIECE,
        None => opened.storage.small_piece(access.writes),
    };
    let own = [
        span.start,
        span.end,
        piece,
        small,
        hints.buffer,
        hints.nodes.into(),
    ];
    let all = exchange_numbers(caller, opened.communicator, own.map(|number| number as i64))?;
    let [.., small, buffer, nodes] = all[0];
    let spans = Vec::from_iter(all.iter().map(|[from, to, piece, ..]| [*from, *to, *piece]));
    // In atomic mode each locks for itself.
    if small == 0 || opened.is_atomic {
        return Ok(None);
    }
    let shape = (buffer as u64, nodes as u32);
    Ok(Plan::of(&spans, small as u64, shape, rank))
}

/// Exchanges memory, each process with each.
fn exchange(
    caller: &mut impl Caller,
    communicator: usize,
    from: Vec<Memory>,
    into: &[Memory],
) -> Result<()> {
    let blocks =
        |all: &[Memory]| Blocks::Each(all.iter().cloned().map(OwnedBuffer::bytes).collect());
    let (from, into) = (blocks(&from), blocks(into));
    let name = caller.name();
    let active = caller.with(|process| {
        let steps = process.alltoall(Some(&from), &into, communicator)?;
        process.begin_part(steps, name)
    })?;
    caller.wait(active).map(drop)
}

/// What a process wants of a window: its extents, and the memory for their data.
struct Wanted {
    extents: Vec<Extent>,
    data: Memory,
}

/// Sends each collector the extents that lie in its window. Returns those of all in this process's window.
fn exchange_extents(
    caller: &mut impl Caller,
    communicator: usize,
    own: &[Vec<Extent>],
) -> Result<Vec<Wanted>> {
    let count =
        |extents: &Vec<Extent>| Memory::from_vec((extents.len() as i64).to_ne_bytes().into());
    let counts: Vec<Memory> = own.iter().map(|_| temporary(8)).collect::<Result<_>>()?;
    exchange(
        caller,
        communicator,
        own.iter().map(count).collect(),
        &counts,
    )?;
    let lists: Vec<Memory> = counts
        .iter()
        .map(|count| {
            let [[many]] = numbers_in::<1>(&count.to_vec())[..] else {
                return temporary(0);
            };
            temporary(many as usize * 16)
        })
        .collect::<Result<_>>()?;
    let list = |extents: &Vec<Extent>| {
        let numbers = extents
            .iter()
            .flat_map(|extent| [extent.offset, extent.len]);
        Memory::from_vec(numbers.flat_map(u64::to_ne_bytes).collect())
    };
    exchange(caller, communicator, own.iter().map(list).collect(), &lists)?;
    lists
        .iter()
        .map(|list| {
            let extents: Vec<Extent> = numbers_in(&list.to_vec())
                .into_iter()
                .map(|[offset, len]: [i64; 2]| Extent {
                    offset: offset as u64,
                    len: len as u64,
                })
                .collect();
            let bytes: u64 = extents.iter().map(|extent| extent.len).sum();
            let data = temporary(bytes as usize)?;
            Ok(Wanted { extents, data })
        })
        .collect()
}

/// The extents of all, as few as possible: those with gaps of at most `gap` bytes between them are one.
fn runs(wanted: &[Wanted], gap: u64) -> Vec<Extent> {
    let mut all: Vec<Extent> = wanted
        .iter()
        .flat_map(|one| one.extents.iter().copied())
        .collect();
    all.sort_unstable();
    let mut runs: Vec<Extent> = Vec::new();
    for extent in all {
        match runs.last_mut() {
            Some(last) if extent.offset <= last.end() + gap => {
                last.len = last.len.max(extent.end() - last.offset);
            }
            _ => runs.push(extent),
        }
    }
    runs
}

/// Copies between the window and what processes want of it.
fn spread(wanted: &[Wanted], window: &Memory, start: u64, into_window: bool) {
    for one in wanted {
        let mut at = 0;
        for extent in &one.extents {
            let len = extent.len as usize;
            let from = (extent.offset - start) as usize;
            let (here, there) = (window.slice(from..from + len), one.data.slice(at..at + len));
            match into_window {
                true => here.copy_from(&there),
                false => there.copy_from(&here),
            }
            at += len;
        }
    }
}

/// Reads or writes as planned. Returns how many bytes of this process's data were read or written.
pub(crate) fn carry_out(caller: &mut impl Caller, access: &Access, plan: &Plan) -> Result<u64> {
    let opened = &access.opened;
    let mut done = Ok(());
    let window = temporary(plan.window as usize);
    let window = agree(caller, opened.communicator, window)?;
    let mut from = 0;
    while let Some(round) = next_round(caller, access, plan, from)? {
        one_round(caller, access, plan, round, &window, &mut done)?;
        from = round + 1;
    }
    agree(caller, opened.communicator, done)?;
    if access.writes {
        return Ok(access.stream.len() as u64);
    }
    let size = opened.storage.size();
    let size = size.map_err(|error| failed("asking for the size", &error));
    let there = size.and_then(|size| access.within(&(0..size)));
    let there = agree(caller, opened.communicator, there)?;
    Ok(there.end - there.start)
}

/// The first round, of `from` and those behind it, in which processes have data: what they access may be far apart.
fn next_round(
    caller: &mut impl Caller,
    access: &Access,
    plan: &Plan,
    from: u64,
) -> Result<Option<u64>> {
    if from >= plan.rounds() {
        return Ok(None);
    }
    if plan.rounds() == 1 {
        return Ok(Some(0));
    }
    let own = plan.next_round(from, |offset| access.next_from(offset));
    // An error comes again in the round itself.
    let own = own.unwrap_or(Some(from));
    let own = own.map_or(i64::MAX, |round| round as i64);
    let all = exchange_numbers(caller, access.opened.communicator, [own])?;
    let first = all.iter().map(|[round]| *round).min();
    Ok(first
        .filter(|round| *round < i64::MAX)
        .map(|round| round as u64))
}

/// Has the storage do something unless it has failed before: a server that is gone costs its whole time-out each time that it is
/// called.
fn unless_failed(done: &mut Result<()>, what: &str, call: impl FnOnce() -> std::io::Result<()>) {
    if done.is_ok() {
        *done = call().map_err(|error| failed(what, &error));
    }
}

/// One window of each collector's. `done` is what the storage has done so far: processes go on to exchange when theirs has
/// failed, for others must not wait for them.
fn one_round(
    caller: &mut impl Caller,
    access: &Access,
    plan: &Plan,
    round: u64,
    window: &Memory,
    done: &mut Result<()>,
) -> Result<()> {
    let opened = &access.opened;
    let (mut extents, mut parts) = (Vec::new(), Vec::new());
    for node in 0..plan.size {
        let positions = access.within(&plan.window_of(node, round))?;
        let mut own = Vec::new();
        opened
            .view
            .extents(positions.clone(), usize::MAX, &mut own)?;
        extents.push(own);
        parts.push(access.part(&positions));
    }
    let wanted = exchange_extents(caller, opened.communicator, &extents)?;
    let theirs: Vec<Memory> = wanted.iter().map(|one| one.data.clone()).collect();
    let start = plan.window_of(plan.rank, round).start;
    let parts_of = |runs: &[Extent]| -> Vec<Memory> {
        let part = |run: &Extent| {
            let from = (run.offset - start) as usize;
            window.slice(from..from + run.len as usize)
        };
        runs.iter().map(part).collect()
    };
    if access.writes {
        exchange(caller, opened.communicator, parts, &theirs)?;
        spread(&wanted, window, start, true);
        let runs = runs(&wanted, 0);
        unless_failed(done, "writing", || {
            opened.storage.write(&runs, &parts_of(&runs))
        });
        return Ok(());
    }
    let runs = runs(&wanted, GAP);
    unless_failed(done, "reading", || {
        opened.storage.read(&runs, &parts_of(&runs)).map(drop)
    });
    spread(&wanted, window, start, false);
    exchange(caller, opened.communicator, theirs, &parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_collected_once() {
        let spans = [[5000, 90_000, 8], [5008, 90_008, 8], [0, 0, 1]];
        let plan = Plan::of(&spans, LARGE_PIECE, (8192, 3), 0).expect("small pieces that mix");
        let mut next = plan.all.start;
        assert!(next <= 5000);
        for node in 0..plan.size {
            for round in 0..plan.rounds() {
                let window = plan.window_of(node, round);
                if !window.is_empty() {
                    assert_eq!(window.start, next);
                    next = window.end;
                }
            }
        }
        assert_eq!(next, 90_008);
    }

    #[test]
    fn rounds_without_data_are_left_out() {
        let far = 1 << 50;
        let spans = [[0, 3 * far + 8, 8], [8, 3 * far + 16, 8]];
        let plan = Plan::of(&spans, LARGE_PIECE, (1 << 20, 2), 0).expect("small pieces that mix");
        let data = [0, far as u64, 3 * far as u64];
        let next = |from: u64| Ok(data.into_iter().find(|at| *at >= from));
        let mut from = 0;
        let mut found = Vec::new();
        while let Some(round) = plan.next_round(from, next).expect("all have a place") {
            found.extend((0..plan.size).map(|node| plan.window_of(node, round)));
            from = round + 1;
        }
        assert!(found.len() <= 2 * data.len(), "{}", found.len());
        for at in data {
            assert!(found.iter().any(|window| window.contains(&at)), "{at}");
        }
    }

    #[test]
    fn separate_or_large_pieces_are_not_collected() {
        let large = 1 << 20;
        let of = |spans: &[[i64; 3]]| Plan::of(spans, LARGE_PIECE, (1 << 20, 2), 0);
        assert!(of(&[[0, 800, 8], [800, 1600, 8]]).is_none());
        let spans = [[0, 2 * large, 65_536], [65_536, 2 * large + 65_536, 65_536]];
        assert!(of(&spans).is_none());
        assert!(of(&[[0, 0, 1], [0, 0, 1]]).is_none());
    }

    #[test]
    fn storage_that_has_failed_is_not_called_again() {
        let mut done = Ok(());
        let mut calls = 0;
        for round in 0..4 {
            unless_failed(&mut done, "writing", || {
                calls += 1;
                match round {
                    0 => Ok(()),
                    _ => Err(std::io::ErrorKind::TimedOut.into()),
                }
            });
        }
        assert_eq!(calls, 2);
        let error = done.expect_err("a call has failed");
        assert!(error.text().starts_with("writing: "), "{}", error.text());
    }

    #[test]
    fn adjacent_runs_are_joined() {
        let wanted = |extents: &[(u64, u64)]| Wanted {
            extents: extents
                .iter()
                .map(|(offset, len)| Extent {
                    offset: *offset,
                    len: *len,
                })
                .collect(),
            data: Memory::zeroed(0),
        };
        let all = [wanted(&[(0, 4), (8, 4)]), wanted(&[(4, 4), (20, 2)])];
        let ends: Vec<_> = runs(&all, 0)
            .iter()
            .map(|run| (run.offset, run.len))
            .collect();
        assert_eq!(ends, [(0, 12), (20, 2)]);
        assert_eq!(runs(&all, 8).len(), 1);
    }
}
