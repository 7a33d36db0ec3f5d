//! Reductions: reduce, allreduce, reduce-scatter, scan, exscan.
//!
//! Operands keep the order of ranks where the operation requires it: all algorithms here combine neighbouring ranges of ranks
//! only, the lower one as the left operand.

use causeway_engine::Memory;

use super::inter::{self, Root};
use super::moving::check_root;
use super::operands::{Reduction, deliver_parts, reduce_by_tree};
use super::position::Position;
use super::spreading::{ring, shares};
use crate::abi;
use crate::buffer::{OwnedBuffer, overlap, scratch};
use crate::checking::Data;
use crate::error::Result;
use crate::process::Process;
use crate::steps::Steps;

/// From so many bytes on, an allreduce uses a ring.
const LONG_ALLREDUCE: usize = 8 << 10;
/// Blocks go round a ring in pieces of so many bytes: each piece is combined while it is in the cache.
const SEGMENT: usize = 256 << 10;

/// A scan's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan {
    /// Each result includes the process's own operand.
    Inclusive,
    /// Each result excludes it.
    Exclusive,
}

impl Process {
    /// A reduction of two operands of this process.
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
        let positions = self.positions(communicator)?;
        let position = positions.local;
        let mut steps = self.steps_on(communicator);
        of.describe(&mut steps, self.checks)?;
        if positions.remote.is_some() {
            inter::allreduce(&mut steps, positions, of)?;
            return Ok(steps);
        }
        let is_long = of.into.len() >= LONG_ALLREDUCE && of.count >= u64::from(position.size);
        if is_long && of.what.commutes() && position.size > 1 {
            of.lay_out(&mut steps);
            allreduce_by_ring(&mut steps, position, of)?;
        } else {
            of.prepare(&mut steps);
            allreduce_by_doubling(&mut steps, position, of)?;
        }
        of.deliver(&mut steps);
        Ok(steps)
    }

    /// A reduction whose result the root gets. On other processes, `into` is scratch memory.
    pub fn reduce(&mut self, of: &Reduction, root: i32, communicator: usize) -> Result<Steps> {
        let positions = self.positions(communicator)?;
        let position = positions.local;
        let mut steps = self.steps_on(communicator);
        of.describe(&mut steps, self.checks)?;
        steps.described.root = root;
        if let Some(remote) = positions.remote {
            inter::reduce(&mut steps, positions, Root::of(root, remote)?, of)?;
            return Ok(steps);
        }
        let root = check_root(root, position.size)?;
        of.lay_out(&mut steps);
        // To keep the order of ranks, the tree's root is rank 0, whichever process gets the result.
        let top = if of.what.commutes() { root } else { 0 };
        reduce_by_tree(&mut steps, position, top, of)?;
        if top != root {
            if position.rank == top {
                steps.send(root, of.into.clone());
            } else if position.rank == root {
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
        let positions = self.positions(communicator)?;
        let position = positions.local;
        let mut steps = self.steps_on(communicator);
        of.describe(&mut steps, self.checks)?;
        if self.checks && positions.remote.is_none() {
            let part = |count: &u64| Data::of(&of.datatype, *count);
            let parts = parts.iter().map(part).collect::<Result<Vec<_>>>()?;
            let own = parts.get(position.rank as usize).copied();
            let others = (0..).zip(parts).filter(|(rank, _)| *rank != position.rank);
            let sent = Vec::from_iter(others);
            let expected = sent.iter().filter_map(|(rank, _)| Some((*rank, own?)));
            let expected = expected.collect();
            steps.exchanges(sent, expected);
        }
        if positions.remote.is_some() {
            inter::reduce_scatter(&mut steps, positions, of, parts, mine)?;
            return Ok(steps);
        }
        if of.what.commutes() {
            of.lay_out(&mut steps);
            let operands = of.from.as_ref().unwrap_or(&of.into);
            let blocks = of.blocks(operands, parts)?;
            // The program's memory for its part may have operands that are still needed.
            let len = blocks[position.rank as usize].len();
            let is_apart = mine.datatype.is_contiguous()
                && mine.memory.len() == len
                && !overlap(operands, &mine.memory);
            let result = match is_apart {
                true => mine.memory.clone(),
                false => scratch(len)?,
            };
            reduce_scatter_by_ring(&mut steps, position, of, &blocks, &result)?;
            if !is_apart {
                of.copy_result(&mut steps, &result, mine)?;
            }
        } else {
            of.lay_out(&mut steps);
            let blocks = of.blocks(&of.into, parts)?;
            reduce_by_tree(&mut steps, position, 0, of)?;
            deliver_parts(&mut steps, position, &blocks);
            of.copy_result(&mut steps, &blocks[position.rank as usize], mine)?;
        }
        Ok(steps)
    }

    /// A reduction over the ranks up to each process's, or before it.
    pub fn scan(&mut self, of: &Reduction, kind: Scan, communicator: usize) -> Result<Steps> {
        let Position { rank, size } = self.position(communicator)?;
        let mut steps = self.steps_on(communicator);
        of.describe(&mut steps, self.checks)?;
        let is_last = rank + 1 == size;
        match kind {
            Scan::Inclusive => {
                of.prepare(&mut steps);
                if rank > 0 {
                    let before = scratch(of.into.len())?;
                    steps.receive(rank - 1, before.clone());
                    steps.fence();
                    steps.combine(&of.what, &before, &of.into, of.count);
                }
                if !is_last {
                    steps.send(rank + 1, of.into.clone());
                }
            }
            Scan::Exclusive => {
                of.lay_out(&mut steps);
                let own = of.from.as_ref().unwrap_or(&of.into);
                let mut total = own.clone();
                if rank > 0 {
                    if !is_last {
                        total = scratch(own.len())?;
                        steps.copy(own, &total);
                    }
                    steps.receive(rank - 1, of.into.clone());
                    steps.fence();
                    if !is_last {
                        steps.combine(&of.what, &of.into, &total, of.count);
                    }
                }
                if !is_last {
                    steps.send(rank + 1, total);
                }
            }
        }
        of.deliver(&mut steps);
        Ok(steps)
    }
}

/// In round k, processes exchange their results with those whose rank differs in bit k. Each process beyond the largest power of two
/// has a neighbour that takes part for it.
fn allreduce_by_doubling(steps: &mut Steps, position: Position, of: &Reduction) -> Result<()> {
    let Position { rank, size } = position;
    let power = 1 << size.ilog2();
    let extra = size - power;
    let own = &of.into;
    let other = scratch(own.len())?;
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
        // The message finds its receive posted: the partner sends at the same time.
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

/// Each block goes round, piece by piece, and every process adds its own operands to it; so it ends at its own process, in `result`, where no
/// operands lie.
fn reduce_scatter_by_ring(
    steps: &mut Steps,
    position: Position,
    of: &Reduction,
    blocks: &[Memory],
    result: &Memory,
) -> Result<()> {
    let Position { rank, size } = position;
    if size == 1 {
        steps.copy(&blocks[0], result);
        return Ok(());
    }
    let unit = of.unit().max(1);
    let longest = blocks.iter().map(Memory::len).max().unwrap_or(0);
    let segment = (SEGMENT / unit).max(1) * unit;
    // A block received in one round is sent in the next.
    let between = if size > 2 { longest.min(segment) } else { 0 };
    let between = [scratch(between)?, scratch(between)?];
    let mut done = 0;
    while done < longest {
        let part = |block: &Memory| {
            let len = block.len();
            block.slice(done.min(len)..(done + segment).min(len))
        };
        let mut going = part(&blocks[position.previous() as usize]);
        for round in 1..size {
            let own = part(&blocks[((rank + 2 * size - round - 1) % size) as usize]);
            let coming = match round + 1 == size {
                true => part(result),
                false => between[(round % 2) as usize].slice(0..own.len()),
            };
            steps.receive(position.previous(), coming.clone());
            steps.send(position.next(), going);
            steps.fence();
            steps.combine(&of.what, &own, &coming, (own.len() / unit) as u64);
            going = coming;
        }
        done += segment;
    }
    Ok(())
}

fn allreduce_by_ring(steps: &mut Steps, position: Position, of: &Reduction) -> Result<()> {
    let operands = of.from.as_ref().unwrap_or(&of.into);
    let operands = shares(operands, of.unit(), position.size);
    let results = shares(&of.into, of.unit(), position.size);
    let own = &results[position.rank as usize];
    if of.from.is_some() {
        reduce_scatter_by_ring(steps, position, of, &operands, own)?;
    } else {
        let apart = scratch(own.len())?;
        reduce_scatter_by_ring(steps, position, of, &operands, &apart)?;
        steps.copy(&apart, own);
    }
    ring(steps, position, &results, own);
    Ok(())
}
