//! Collective operations over inter-communicators (MPI 5.0 §6.2.2, §6.2.3): the data of one group go to the other.

use causeway_engine::Memory;

use super::operands::{Reduction, deliver_parts, reduce_by_tree};
use super::position::Positions;
use super::spreading::broadcast_within;
use crate::abi;
use crate::buffer::{Buffer, OwnedBuffer, temporary};
use crate::error::{Error, Result};
use crate::steps::Steps;

/// The relation of a process to the root of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Root {
    /// It is the root (`MPI_ROOT`).
    Here,
    /// The root is in its group (`MPI_PROC_NULL`).
    Beside,
    /// The root has this rank in the other group.
    There(u32),
}

impl Root {
    pub(super) fn of(root: i32, remote: u32) -> Result<Self> {
        match root {
            abi::ROOT => Ok(Self::Here),
            abi::PROC_NULL => Ok(Self::Beside),
            rank => {
                let valid = u32::try_from(rank).ok().filter(|rank| *rank < remote);
                valid.map(Self::There).ok_or_else(|| {
                    let text = format!("the root {rank} where the other group has {remote}");
                    Error::new(abi::ERR_ROOT, text)
                })
            }
        }
    }
}

/// A broadcast from the root to rank 0 of the other group, and from there to the whole group.
pub(super) fn broadcast(
    steps: &mut Steps,
    positions: Positions,
    root: Root,
    buffer: Buffer<'_>,
) -> Result<()> {
    match root {
        Root::Here => {
            let memory = steps.packed(buffer)?;
            steps.send(0, memory);
        }
        Root::Beside => {}
        Root::There(root) => {
            let memory = steps.staging(buffer)?;
            if positions.local.rank == 0 {
                steps.receive(root, memory.clone());
                steps.fence();
            }
            steps.rotate(positions.within());
            broadcast_within(steps, positions.local, 0, &memory);
        }
    }
    Ok(())
}

/// The root receives from all processes of the other group.
pub(super) fn gather(steps: &mut Steps, root: Root, from: &[Memory], into: &[Memory]) {
    match (root, from.first()) {
        (Root::Here, _) => {
            for (rank, into) in into.iter().enumerate() {
                steps.receive(rank as u32, into.clone());
            }
        }
        (Root::There(root), Some(from)) => steps.send(root, from.clone()),
        _ => {}
    }
}

/// The root sends to all processes of the other group.
pub(super) fn scatter(steps: &mut Steps, root: Root, from: &[Memory], into: &[Memory]) {
    match (root, into.first()) {
        (Root::Here, _) => {
            for (rank, from) in from.iter().enumerate() {
                steps.send(rank as u32, from.clone());
            }
        }
        (Root::There(root), Some(into)) => steps.receive(root, into.clone()),
        _ => {}
    }
}

/// Each process exchanges blocks with each one of the other group. `from` has one block for all, or one for each.
pub(super) fn exchange(steps: &mut Steps, positions: Positions, from: &[Memory], into: &[Memory]) {
    for (rank, into) in into.iter().enumerate() {
        steps.receive(rank as u32, into.clone());
    }
    let remote = positions.remote.unwrap_or(0);
    for at in 0..remote {
        // Each process begins with another one, so that not all send to the same one first.
        let to = (at + positions.local.rank) % remote;
        if let Some(from) = from.get(to as usize).or(from.last()) {
            steps.send(to, from.clone());
        }
    }
}

/// Reduces the operands of the local group; rank 0 has the result, in memory that belongs to the library.
fn reduce_within(steps: &mut Steps, positions: Positions, of: &Reduction) -> Result<Memory> {
    let mut scratch = of.clone();
    scratch.into = temporary(of.into.len())?;
    scratch.lay_out(steps);
    steps.rotate(positions.within());
    reduce_by_tree(steps, positions.local, 0, &scratch)?;
    steps.fence();
    steps.rotate((0, 0));
    Ok(scratch.into)
}

/// The two processes of rank 0 exchange the data of their groups.
fn swap(steps: &mut Steps, positions: Positions, ours: Memory, theirs: &Memory) {
    if positions.local.rank == 0 {
        steps.receive(0, theirs.clone());
        steps.send(0, ours);
        steps.fence();
    }
    steps.rotate(positions.within());
}

/// All processes of a group get the result of the other group.
pub(super) fn allreduce(steps: &mut Steps, positions: Positions, of: &Reduction) -> Result<()> {
    let ours = reduce_within(steps, positions, of)?;
    swap(steps, positions, ours, &of.into);
    broadcast_within(steps, positions.local, 0, &of.into);
    of.deliver(steps);
    Ok(())
}

/// The root gets the result of the other group.
pub(super) fn reduce(
    steps: &mut Steps,
    positions: Positions,
    root: Root,
    of: &Reduction,
) -> Result<()> {
    match root {
        Root::Here => {
            steps.receive(0, of.into.clone());
            of.deliver(steps);
        }
        Root::Beside => {}
        Root::There(root) => {
            let ours = reduce_within(steps, positions, of)?;
            if positions.local.rank == 0 {
                steps.send(root, ours);
            }
        }
    }
    Ok(())
}

/// Each process gets a part of the other group's result.
pub(super) fn reduce_scatter(
    steps: &mut Steps,
    positions: Positions,
    of: &Reduction,
    parts: &[u64],
    mine: &OwnedBuffer,
) -> Result<()> {
    let ours = reduce_within(steps, positions, of)?;
    let theirs = temporary(ours.len())?;
    swap(steps, positions, ours, &theirs);
    let blocks = of.blocks(&theirs, parts)?;
    deliver_parts(steps, positions.local, &blocks);
    of.copy_result(steps, &blocks[positions.local.rank as usize], mine)
}
