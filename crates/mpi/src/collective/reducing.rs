//! Reductions: reduce, allreduce, reduce-scatter, scan, exscan.
//!
//! Operands keep the order of ranks where the operation asks for it: everything here combines neighbouring ranges of ranks
//! only, the lower one as the left operand.

use causeway_engine::Memory;

use super::inter::{self, Root};
use super::operands::{Reduction, deliver_parts, reduce_by_tree};
use super::place::Place;
use super::spreading::{ring, shares};
use crate::abi;
use crate::buffer::{OwnedBuffer, temporary};
use crate::error::{Error, Result};
use crate::process::Process;
use crate::steps::Steps;

/// From so many bytes on, an allreduce goes round a ring.
const LONG_ALLREDUCE: usize = 64 << 10;

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
