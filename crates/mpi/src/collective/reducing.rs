//! Reductions: reduce, allreduce, reduce-scatter, scan, exscan.
//!
//! Operands keep the order of ranks where the operation asks for it: everything here combines neighbouring ranges of ranks
//! only, the lower one as the left operand.

use causeway_engine::Memory;

use super::moving::{ring, shares};
use super::place::Place;
use crate::abi;
use crate::buffer::temporary;
use crate::datatype::Datatype;
use crate::error::{Error, Result};
use crate::operation::{Combine, Operation};
use crate::process::{Active, Process};
use crate::request::OwnedBuffer;
use crate::schedule::Steps;

/// From so many bytes on, an allreduce goes round a ring.
const LONG_ALLREDUCE: usize = 64 << 10;

/// What is reduced.
#[derive(Debug, Clone)]
pub struct Reduction {
    /// The operands here; nothing if they are where the result goes.
    pub from: Option<Memory>,
    /// Where the result goes, of as many bytes.
    pub into: Memory,
    /// Elements.
    pub count: u64,
    pub(crate) what: Combine,
    /// Where the result lies, and where the program wants it, if that is elsewhere.
    deliver: Option<(Memory, Memory)>,
}

/// Elements as functions of the program want them: each its extent behind the one before, from the memory's beginning on.
/// Returns the memory, and the part of it that the hull is, if it is a copy.
fn laid_out(buffer: &OwnedBuffer) -> Result<(Memory, Option<Memory>)> {
    if buffer.datatype.is_contiguous() {
        return Ok((buffer.memory.clone(), None));
    }
    let hull = buffer.datatype.hull(buffer.count)?;
    let step = u64::try_from(buffer.datatype.extent()).ok();
    let all = step.and_then(|step| step.checked_mul(buffer.count));
    let all = all.filter(|all| hull.start >= 0 && hull.end as u64 <= *all).ok_or_else(|| {
        let text = "reductions of datatypes whose elements reach beyond their extent are not supported";
        Error::new(abi::ERR_UNSUPPORTED_OPERATION, text)
    })?;
    let memory = temporary(all as usize)?;
    let part = memory.slice(hull.start as usize..hull.end as usize);
    part.copy_from(&buffer.memory);
    Ok((memory, Some(part)))
}

impl Reduction {
    /// A reduction of `count` elements by one of the standard's operations, or of the program's, given with the handle of
    /// the datatype. Nothing to take operands `from` means that they lie where the result goes; no place `into` which
    /// it goes means that it is for others only.
    pub fn new(
        what: Result<(Operation, usize), usize>,
        datatype: &Datatype,
        from: Option<&OwnedBuffer>,
        into: Option<&OwnedBuffer>,
    ) -> Result<Self> {
        let what = match what {
            Ok((operation, datatype)) => Combine::Program {
                operation,
                datatype,
            },
            Err(operation) => Combine::predefined(operation, datatype)?,
        };
        let count = into.or(from).map_or(0, |buffer| buffer.count);
        let from = from.map(laid_out).transpose()?.map(|(memory, _)| memory);
        let (result, deliver) = match into {
            Some(into) => {
                let (memory, part) = laid_out(into)?;
                (memory, part.map(|part| (part, into.memory.clone())))
            }
            None => {
                let size = from.as_ref().map_or(0, Memory::len);
                (temporary(size)?, None)
            }
        };
        Ok(Self {
            from,
            into: result,
            count,
            what,
            deliver,
        })
    }

    /// The last steps.
    fn deliver(&self, steps: &mut Steps) {
        if let Some((from, into)) = &self.deliver {
            steps.fence();
            steps.copy(from, into);
        }
    }

    fn unit(&self) -> usize {
        self.into.len() / (self.count.max(1) as usize)
    }
}

/// A scan's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan {
    /// With the own operand.
    Inclusive,
    /// Without it.
    Exclusive,
}

impl Process {
    /// Starts a reduction whose result every process gets.
    pub fn allreduce(&mut self, of: &Reduction, communicator: usize) -> Result<Active> {
        let place = self.place(communicator)?;
        let mut steps = Steps::default();
        let is_long = of.into.len() >= LONG_ALLREDUCE && of.count >= u64::from(place.size);
        if is_long && of.what.commutes() && place.size > 1 {
            allreduce_by_ring(&mut steps, place, of)?;
        } else {
            if let Some(from) = &of.from {
                steps.copy(from, &of.into);
            }
            allreduce_by_doubling(&mut steps, place, of)?;
        }
        of.deliver(&mut steps);
        self.start_steps(communicator, steps)
    }

    /// Starts a reduction whose result the root gets. `into` of others than the root is scratch memory.
    pub fn reduce(&mut self, of: &Reduction, root: i32, communicator: usize) -> Result<Active> {
        let place = self.place(communicator)?;
        let valid = u32::try_from(root).ok().filter(|root| *root < place.size);
        let root = valid.ok_or_else(|| {
            let text = format!("the root {root} in a communicator of {}", place.size);
            Error::new(abi::ERR_ROOT, text)
        })?;
        let mut steps = Steps::default();
        if let Some(from) = &of.from {
            steps.copy(from, &of.into);
        }
        // In the order of ranks, the tree's root is rank 0, wherever the result goes.
        let top = if of.what.commutes() { root } else { 0 };
        reduce_by_tree(&mut steps, place, top, of)?;
        if top != root {
            if place.rank == top {
                steps.send(root, of.into.clone());
            } else if place.rank == root {
                steps.receive(top, of.into.clone());
            }
        }
        of.deliver(&mut steps);
        self.start_steps(communicator, steps)
    }

    /// Starts a reduction of which each process gets a part: `parts` has the elements of each, and `mine` is where this
    /// process's go. `of` has no place for the result.
    pub fn reduce_scatter(
        &mut self,
        of: &Reduction,
        parts: &[u64],
        mine: &OwnedBuffer,
        communicator: usize,
    ) -> Result<Active> {
        let place = self.place(communicator)?;
        let mut steps = Steps::default();
        let (result, part) = laid_out(mine)?;
        let operands = of.from.as_ref().unwrap_or(&of.into);
        if of.what.commutes() {
            // Where the result goes, operands may lie that are still needed.
            let apart = match overlap(operands, &result) {
                true => temporary(result.len())?,
                false => result.clone(),
            };
            reduce_scatter_by_ring(&mut steps, place, of, &blocks(operands, of, parts), &apart)?;
            if apart.as_ptr() != result.as_ptr() {
                steps.copy(&apart, &result);
            }
        } else {
            if let Some(from) = &of.from {
                steps.copy(from, &of.into);
            }
            let blocks = blocks(&of.into, of, parts);
            reduce_by_tree(&mut steps, place, 0, of)?;
            if place.rank == 0 {
                for rank in 1..place.size {
                    steps.send(rank, blocks[rank as usize].clone());
                }
            } else {
                steps.receive(0, blocks[place.rank as usize].clone());
            }
            steps.fence();
            steps.copy(&blocks[place.rank as usize], &result);
        }
        if let Some(part) = part {
            steps.fence();
            steps.copy(&part, &mine.memory);
        }
        self.start_steps(communicator, steps)
    }

    /// Starts a reduction over the ranks up to each, or those before it.
    pub fn scan(&mut self, of: &Reduction, kind: Scan, communicator: usize) -> Result<Active> {
        let Place { rank, size } = self.place(communicator)?;
        let mut steps = Steps::default();
        let total = temporary(of.into.len())?;
        steps.copy(of.from.as_ref().unwrap_or(&of.into), &total);
        if rank > 0 {
            let before = temporary(of.into.len())?;
            steps.receive(rank - 1, before.clone());
            steps.fence();
            steps.combine(&of.what, &before, &total, of.count);
            if kind == Scan::Exclusive {
                steps.copy(&before, &of.into);
            }
        }
        if rank + 1 < size {
            steps.send(rank + 1, total.clone());
        }
        if kind == Scan::Inclusive {
            steps.copy(&total, &of.into);
        }
        of.deliver(&mut steps);
        self.start_steps(communicator, steps)
    }
}

/// Each process's block of elements; `parts` has how many.
fn blocks(memory: &Memory, of: &Reduction, parts: &[u64]) -> Vec<Memory> {
    let unit = of.unit();
    let mut at = 0;
    let blocks = parts.iter().map(|part| {
        let len = *part as usize * unit;
        at += len;
        memory.slice(at - len..at)
    });
    blocks.collect()
}

fn overlap(one: &Memory, other: &Memory) -> bool {
    let range = |memory: &Memory| {
        let start = memory.as_ptr().addr();
        (start, start + memory.len())
    };
    let ((start, end), (other_start, other_end)) = (range(one), range(other));
    start < other_end && other_start < end
}

/// Each process combines what it has with what those that differ in one bit have, lowest bit first.
fn reduce_by_tree(steps: &mut Steps, place: Place, root: u32, of: &Reduction) -> Result<()> {
    let relative = place.relative_to(root);
    let mut own = of.into.clone();
    let mut mask = 1;
    while mask < place.size {
        if relative & mask != 0 {
            steps.fence();
            steps.send(place.absolute(relative - mask, root), own);
            steps.fence();
            return Ok(());
        }
        if relative + mask < place.size {
            let other = temporary(own.len())?;
            steps.receive(place.absolute(relative + mask, root), other.clone());
            steps.fence();
            // The own range of ranks is the lower one.
            steps.combine(&of.what, &own, &other, of.count);
            own = other;
        }
        mask *= 2;
    }
    if own.as_ptr() != of.into.as_ptr() {
        steps.copy(&own, &of.into);
    }
    Ok(())
}

/// In round k, processes exchange what they have with those whose number differs in bit k. Those that are too many for a power of
/// two have a neighbour stand in for them.
fn allreduce_by_doubling(steps: &mut Steps, place: Place, of: &Reduction) -> Result<()> {
    let Place { rank, size } = place;
    let power = 1 << size.ilog2();
    let extra = size - power;
    let own = &of.into;
    let other = temporary(own.len())?;
    let stands_for = |number: u32| {
        if number < extra {
            2 * number + 1
        } else {
            number + extra
        }
    };
    let number = if rank >= 2 * extra {
        rank - extra
    } else if rank % 2 == 0 {
        steps.send(rank + 1, own.clone());
        steps.fence();
        steps.receive(rank + 1, own.clone());
        steps.fence();
        return Ok(());
    } else {
        steps.receive(rank - 1, other.clone());
        steps.fence();
        steps.combine(&of.what, &other, own, of.count);
        rank / 2
    };
    let mut mask = 1;
    while mask < power {
        let partner = number ^ mask;
        let there = stands_for(partner);
        // What comes finds its receive: the partner sends at the same time.
        steps.receive(there, other.clone());
        steps.send(there, own.clone());
        steps.fence();
        if partner < number || of.what.commutes() {
            steps.combine(&of.what, &other, own, of.count);
        } else {
            steps.combine(&of.what, own, &other, of.count);
            steps.copy(&other, own);
        }
        mask *= 2;
    }
    if rank < 2 * extra {
        steps.send(rank - 1, own.clone());
        steps.fence();
    }
    Ok(())
}

/// Each block goes round, and every process adds its own operands to it; so it ends at its own process, in `result`, where no
/// operands lie.
fn reduce_scatter_by_ring(
    steps: &mut Steps,
    place: Place,
    of: &Reduction,
    blocks: &[Memory],
    result: &Memory,
) -> Result<()> {
    let Place { rank, size } = place;
    if size == 1 {
        steps.copy(&blocks[0], result);
        return Ok(());
    }
    let unit = of.unit().max(1);
    let between = blocks.iter().map(Memory::len).max().filter(|_| size > 2);
    let between = between.unwrap_or(0);
    // What has come in one round goes on in the next.
    let scratch = [temporary(between)?, temporary(between)?];
    let mut going = blocks[place.previous() as usize].clone();
    for round in 1..size {
        let own = &blocks[((rank + 2 * size - round - 1) % size) as usize];
        let coming = match round + 1 == size {
            true => result.clone(),
            false => scratch[(round % 2) as usize].slice(0..own.len()),
        };
        steps.receive(place.previous(), coming.clone());
        steps.send(place.next(), going);
        steps.fence();
        steps.combine(&of.what, own, &coming, (own.len() / unit) as u64);
        going = coming;
    }
    Ok(())
}

fn allreduce_by_ring(steps: &mut Steps, place: Place, of: &Reduction) -> Result<()> {
    let operands = of.from.as_ref().unwrap_or(&of.into);
    let operands = shares(operands, of.unit(), place.size);
    let results = shares(&of.into, of.unit(), place.size);
    let own = &results[place.rank as usize];
    if of.from.is_some() {
        reduce_scatter_by_ring(steps, place, of, &operands, own)?;
    } else {
        let apart = temporary(own.len())?;
        reduce_scatter_by_ring(steps, place, of, &operands, &apart)?;
        steps.copy(&apart, own);
    }
    ring(steps, place, &results);
    Ok(())
}
