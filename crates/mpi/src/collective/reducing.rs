//! Reductions: reduce, allreduce, reduce-scatter, scan, exscan.
//!
//! Operands keep the order of ranks where the operation asks for it: everything here combines neighbouring ranges of ranks
//! only, the lower one as the left operand.

use causeway_engine::Memory;

use super::inter::{self, Root};
use super::moving::{ring, shares};
use super::place::Place;
use crate::abi;
use crate::buffer::{OwnedBuffer, temporary};
use crate::datatype::Datatype;
use crate::error::{Error, Result};
use crate::operation::{Combine, Operation};
use crate::process::Process;
use crate::steps::Steps;

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
    /// What is to be copied first: operands that do not lie as functions of the program want them, from and to.
    laid_out: Vec<(Memory, Memory)>,
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
        let mut copies = Vec::new();
        let mut lay_out = |buffer: &OwnedBuffer| {
            let (memory, part) = laid_out(buffer)?;
            copies.extend(part.clone().map(|part| (buffer.memory.clone(), part)));
            Ok::<_, Error>((memory, part))
        };
        let from = from.map(&mut lay_out).transpose()?;
        let from = from.map(|(memory, _)| memory);
        let (result, deliver) = match into {
            Some(into) => {
                let (memory, part) = lay_out(into)?;
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
            laid_out: copies,
            deliver,
        })
    }

    /// The first steps: the operands of this process are where the result goes.
    pub(super) fn prepare(&self, steps: &mut Steps) {
        self.lay_out(steps);
        if let Some(from) = &self.from {
            steps.copy(from, &self.into);
        }
    }

    fn lay_out(&self, steps: &mut Steps) {
        for (from, into) in &self.laid_out {
            steps.copy(from, into);
        }
    }

    /// What the call is compared by with those of others.
    fn describe(&self, steps: &mut Steps) {
        steps.described.operation = self.what.number();
        steps.described.bytes = self.into.len() as u64;
    }

    /// The elements of each process, in memory that has those of all.
    pub(super) fn blocks(&self, memory: &Memory, parts: &[u64]) -> Result<Vec<Memory>> {
        let unit = self.unit() as u64;
        let mut at = 0;
        let block = |part: &u64| {
            let end = part.checked_mul(unit).and_then(|len| len.checked_add(at));
            let end = end.filter(|end| *end <= memory.len() as u64)?;
            Some(memory.slice(std::mem::replace(&mut at, end) as usize..end as usize))
        };
        let blocks: Option<Vec<_>> = parts.iter().map(block).collect();
        blocks.ok_or_else(|| Error::new(abi::ERR_COUNT, "the parts are more than the whole"))
    }

    /// Gives the program its part of a result.
    pub(super) fn hand_over(
        &self,
        steps: &mut Steps,
        block: &Memory,
        mine: &OwnedBuffer,
    ) -> Result<()> {
        match laid_out(mine)?.1 {
            None => steps.copy(block, &mine.memory),
            Some(_) => {
                let hull = mine.datatype.hull(mine.count)?;
                let block = block.slice(hull.start as usize..hull.end as usize);
                steps.copy(&block, &mine.memory);
            }
        }
        Ok(())
    }

    /// The last steps.
    pub(super) fn deliver(&self, steps: &mut Steps) {
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
    /// A reduction of what this process has in two places.
    pub fn reduce_local(of: &Reduction) -> Steps {
        let mut steps = Steps::on(abi::COMM_SELF);
        of.lay_out(&mut steps);
        if let Some(from) = &of.from {
            steps.combine(&of.what, from, &of.into, of.count);
        }
        of.deliver(&mut steps);
        steps
    }

    /// A reduction whose result every process gets.
    pub fn allreduce(&mut self, of: &Reduction, communicator: usize) -> Result<Steps> {
        let sites = self.sites(communicator)?;
        let place = sites.local;
        let mut steps = Steps::on(communicator);
        of.describe(&mut steps);
        if sites.remote.is_some() {
            inter::allreduce(&mut steps, sites, of)?;
            return Ok(steps);
        }
        of.prepare(&mut steps);
        let is_long = of.into.len() >= LONG_ALLREDUCE && of.count >= u64::from(place.size);
        match is_long && of.what.commutes() && place.size > 1 {
            true => allreduce_by_ring(&mut steps, place, of)?,
            false => allreduce_by_doubling(&mut steps, place, of)?,
        }
        of.deliver(&mut steps);
        Ok(steps)
    }

    /// A reduction whose result the root gets. `into` of others than the root is scratch memory.
    pub fn reduce(&mut self, of: &Reduction, root: i32, communicator: usize) -> Result<Steps> {
        let sites = self.sites(communicator)?;
        let place = sites.local;
        let mut steps = Steps::on(communicator);
        of.describe(&mut steps);
        steps.described.root = root;
        if let Some(remote) = sites.remote {
            inter::reduce(&mut steps, sites, Root::of(root, remote)?, of)?;
            return Ok(steps);
        }
        let valid = u32::try_from(root).ok().filter(|root| *root < place.size);
        let root = valid.ok_or_else(|| {
            let text = format!("the root {root} in a communicator of {}", place.size);
            Error::new(abi::ERR_ROOT, text)
        })?;
        of.prepare(&mut steps);
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
        Ok(steps)
    }

    /// A reduction of which each process gets a part: `parts` has the elements of each, and `mine` is where this
    /// process's go. `of` has no place for the result.
    pub fn reduce_scatter(
        &mut self,
        of: &Reduction,
        parts: &[u64],
        mine: &OwnedBuffer,
        communicator: usize,
    ) -> Result<Steps> {
        let sites = self.sites(communicator)?;
        let place = sites.local;
        let mut steps = Steps::on(communicator);
        of.describe(&mut steps);
        if sites.remote.is_some() {
            inter::reduce_scatter(&mut steps, sites, of, parts, mine)?;
            return Ok(steps);
        }
        of.prepare(&mut steps);
        let blocks = of.blocks(&of.into, parts)?;
        if of.what.commutes() {
            reduce_scatter_by_ring(&mut steps, place, of, &blocks)?;
        } else {
            reduce_by_tree(&mut steps, place, 0, of)?;
            deliver_parts(&mut steps, place, &blocks);
        }
        of.hand_over(&mut steps, &blocks[place.rank as usize], mine)?;
        Ok(steps)
    }

    /// A reduction over the ranks up to each, or those before it.
    pub fn scan(&mut self, of: &Reduction, kind: Scan, communicator: usize) -> Result<Steps> {
        let Place { rank, size } = self.place(communicator)?;
        let mut steps = Steps::on(communicator);
        of.describe(&mut steps);
        of.lay_out(&mut steps);
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
        Ok(steps)
    }
}

/// Rank 0 has all blocks, and sends each to its process.
pub(super) fn deliver_parts(steps: &mut Steps, place: Place, blocks: &[Memory]) {
    if place.rank == 0 {
        for rank in 1..place.size {
            steps.send(rank, blocks[rank as usize].clone());
        }
    } else {
        steps.receive(0, blocks[place.rank as usize].clone());
    }
    steps.fence();
}

/// Each process combines what it has with what those that differ in one bit have, lowest bit first.
pub(super) fn reduce_by_tree(
    steps: &mut Steps,
    place: Place,
    root: u32,
    of: &Reduction,
) -> Result<()> {
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
        if partner < number {
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

/// Each block goes round, and every process adds its own operands to it; so it ends at its own process.
fn reduce_scatter_by_ring(
    steps: &mut Steps,
    place: Place,
    of: &Reduction,
    blocks: &[Memory],
) -> Result<()> {
    let Place { rank, size } = place;
    let unit = of.unit().max(1);
    let longest = blocks.iter().map(Memory::len).max().unwrap_or(0);
    let coming = temporary(longest)?;
    for round in 1..size {
        let going = &blocks[((rank + size - round) % size) as usize];
        let next = &blocks[((rank + 2 * size - round - 1) % size) as usize];
        let coming = coming.slice(0..next.len());
        steps.receive(place.previous(), coming.clone());
        steps.send(place.next(), going.clone());
        steps.fence();
        steps.combine(&of.what, &coming, next, (next.len() / unit) as u64);
    }
    Ok(())
}

fn allreduce_by_ring(steps: &mut Steps, place: Place, of: &Reduction) -> Result<()> {
    let blocks = shares(&of.into, of.unit(), place.size);
    reduce_scatter_by_ring(steps, place, of, &blocks)?;
    ring(steps, place, &blocks);
    Ok(())
}
