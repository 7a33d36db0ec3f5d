//! Collective operations that move data: broadcast, gather, scatter, allgather, alltoall.

use causeway_engine::Memory;
use causeway_wire::contact::BROADCASTS_BY_ROOT;

use super::blocks::Blocks;
use super::comparing::{of_ranks, of_root};
use super::inter::{self, Root};
use super::position::Position;
use super::spreading::{broadcast_by_root, broadcast_within, is_sent_by_root, ring};
use crate::abi;
use crate::buffer::{Buffer, scratch};
use crate::checking::Data;
use crate::error::{Error, Result};
use crate::node::uneven::Left;
use crate::process::Process;
use crate::steps::Steps;

/// The root of an operation in a group of so many.
pub(crate) fn check_root(root: i32, size: u32) -> Result<u32> {
    let valid = u32::try_from(root).ok().filter(|root| *root < size);
    valid.ok_or_else(|| {
        let text = format!("the root {root} in a communicator of {size}");
        Error::new(abi::ERR_ROOT, text)
    })
}

/// Fails if the call is in place, which is not possible over an inter-communicator.
fn check_not_in_place(from: Option<&Blocks>) -> Result<()> {
    match from {
        Some(_) => Ok(()),
        None => Err(Error::new(
            abi::ERR_BUFFER,
            "MPI_IN_PLACE is not allowed over inter-communicators",
        )),
    }
}

/// Copies the block that a process sends to itself, which has to be as long as the one that it receives.
fn copy_own(steps: &mut Steps, from: &Memory, into: &Memory) -> Result<()> {
    check_equal(from.len(), into.len())?;
    steps.copy(from, into);
    Ok(())
}

/// Fails unless a process sends itself as many bytes as it receives.
pub(crate) fn check_equal(sent: usize, received: usize) -> Result<()> {
    if sent == received {
        return Ok(());
    }
    let text = format!("{sent} bytes are sent where {received} are received");
    Err(Error::new(abi::ERR_TRUNCATE, text))
}

/// The two sides of an operation, as steps use them.
struct Sides {
    from: Vec<Memory>,
    into: Vec<Memory>,
}

impl Sides {
    fn new(steps: &mut Steps, from: Option<&Blocks>, into: Option<&Blocks>) -> Result<Self> {
        Self::of_some(steps, from, into, |_| true)
    }

    /// The same where only the blocks of these ranks are received: the memory of others stays as it is.
    fn of_some(
        steps: &mut Steps,
        from: Option<&Blocks>,
        into: Option<&Blocks>,
        is_received: impl Fn(u32) -> bool,
    ) -> Result<Self> {
        let from = from.map(|from| from.packed(steps)).transpose()?;
        let into = into
            .map(|into| into.staging(steps, is_received))
            .transpose()?;
        Ok(Self {
            from: from.unwrap_or_default(),
            into: into.unwrap_or_default(),
        })
    }
}

impl Process {
    /// A broadcast from the root.
    pub fn broadcast(
        &mut self,
        buffer: Buffer<'_>,
        root: i32,
        communicator: usize,
    ) -> Result<Steps> {
        let positions = self.positions(communicator)?;
        let mut steps = self.steps_on(communicator).exact();
        steps.described.root = root;
        if self.checks && root != abi::PROC_NULL {
            steps.described.data = Some(Data::of(buffer.datatype, buffer.count)?);
        }
        if let Some(remote) = positions.remote {
            inter::broadcast(&mut steps, positions, Root::of(root, remote)?, buffer)?;
            return Ok(steps);
        }
        let position = positions.local;
        let root = check_root(root, position.size)?;
        steps.described.bytes = buffer.bytes()?;
        let memory = match position.rank == root {
            true => steps.packed(buffer)?,
            false => steps.staging(buffer)?,
        };
        if is_sent_by_root(memory.len(), position.size) && self.may_send_by_root(communicator)? {
            broadcast_by_root(&mut steps, position, root, &memory);
        } else {
            broadcast_within(&mut steps, position, root, &memory);
        }
        Ok(steps)
    }

    /// Whether the processes of a communicator are on one host, and all of them support broadcasts in which the
    /// root sends to each.
    fn may_send_by_root(&self, communicator: usize) -> Result<bool> {
        let group = self.communicator(communicator)?.group();
        let all_know = self.process_table.all_speak(group, BROADCASTS_BY_ROOT);
        Ok(all_know && !self.are_on_several_hosts(group))
    }

    /// A gather to the root, which receives into one block for each rank; `from` is nothing if the root's own block
    /// is in its place already.
    pub fn gather(
        &mut self,
        from: Option<&Blocks>,
        into: Option<&Blocks>,
        root: i32,
        communicator: usize,
    ) -> Result<Steps> {
        let positions = self.positions(communicator)?;
        let mut steps = self.steps_on(communicator);
        steps.described.root = root;
        if self.checks {
            let (sent, expected) = match positions.is_root(root) {
                true => (Vec::new(), of_ranks(into, positions.own())?),
                false => (of_root(from, root)?, Vec::new()),
            };
            steps.exchanges(sent, expected);
        }
        let left = self.blocks_by_messages(communicator);
        let is_in_place = |rank: u32| from.is_none() && i64::from(rank) == i64::from(root);
        let is_received = |rank| Left::has(left.from, rank) && !is_in_place(rank);
        let sides = Sides::of_some(&mut steps, from, into, is_received)?;
        if let Some(remote) = positions.remote {
            let root = Root::of(root, remote)?;
            inter::gather(&mut steps, root, &sides.from, &sides.into);
            return Ok(steps);
        }
        let position = positions.local;
        let root = check_root(root, position.size)?;
        if position.rank == root {
            let all = (0..position.size).zip(&sides.into);
            for (rank, into) in all.filter(|(rank, _)| Left::has(left.from, *rank)) {
                match (rank == root, sides.from.first()) {
                    (false, _) => steps.receive(rank, into.clone()),
                    (true, Some(from)) => copy_own(&mut steps, from, into)?,
                    (true, None) => {}
                }
            }
        } else if let Some(from) = sides.from.first() {
            steps.send(root, from.clone());
        }
        Ok(steps)
    }

    /// A scatter from the root, which sends from one block for each rank; `into` is `None` if the root's own
    /// block stays in its place.
    pub fn scatter(
        &mut self,
        from: Option<&Blocks>,
        into: Option<&Blocks>,
        root: i32,
        communicator: usize,
    ) -> Result<Steps> {
        let positions = self.positions(communicator)?;
        let mut steps = self.steps_on(communicator);
        steps.described.root = root;
        if self.checks {
            let (sent, expected) = match positions.is_root(root) {
                true => (of_ranks(from, positions.own())?, Vec::new()),
                false => (Vec::new(), of_root(into, root)?),
            };
            steps.exchanges(sent, expected);
        }
        let sides = Sides::new(&mut steps, from, into)?;
        if let Some(remote) = positions.remote {
            let root = Root::of(root, remote)?;
            inter::scatter(&mut steps, root, &sides.from, &sides.into);
            return Ok(steps);
        }
        let position = positions.local;
        let root = check_root(root, position.size)?;
        if position.rank == root {
            let left = self.blocks_by_messages(communicator);
            let all = (0..position.size).zip(&sides.from);
            for (rank, from) in all.filter(|(rank, _)| Left::has(left.to, *rank)) {
                match (rank == root, sides.into.first()) {
                    (false, _) => steps.send(rank, from.clone()),
                    (true, Some(into)) => copy_own(&mut steps, from, into)?,
                    (true, None) => {}
                }
            }
        } else if let Some(into) = sides.into.first() {
            steps.receive(root, into.clone());
        }
        Ok(steps)
    }

    /// An allgather round a ring; `from` is `None` if the own block is in its place already.
    pub fn allgather(
        &mut self,
        from: Option<&Blocks>,
        into: &Blocks,
        communicator: usize,
    ) -> Result<Steps> {
        let positions = self.positions(communicator)?;
        let mut steps = self.steps_on(communicator);
        if self.checks {
            let expected = of_ranks(Some(into), positions.own())?;
            let own = match from {
                Some(from) => from.data()?.first().copied(),
                None => into.data()?.get(positions.local.rank as usize).copied(),
            };
            let sent = expected.iter().filter_map(|(rank, _)| Some((*rank, own?)));
            steps.exchanges(sent.collect(), expected);
        }
        let sides = Sides::new(&mut steps, from, Some(into))?;
        if positions.remote.is_some() {
            check_not_in_place(from)?;
            inter::exchange(&mut steps, positions, &sides.from, &sides.into);
            return Ok(steps);
        }
        let position = positions.local;
        steps.described.bytes = into.bytes()?;
        let own = position.rank as usize;
        if from.is_none()
            && let Blocks::Each(each) = into
        {
            // A part that lies in place at the root has to lie in place here, too.
            let packed = steps.packed(each[own].as_buffer())?;
            if packed.as_ptr() != sides.into[own].as_ptr() {
                steps.copy(&packed, &sides.into[own]);
            }
        }
        // Bytes that were just written are slower to read for other processes than older ones.
        let first = sides.from.first().unwrap_or(&sides.into[own]);
        ring(&mut steps, position, &sides.into, first);
        if let Some(from) = sides.from.first() {
            copy_own(&mut steps, from, &sides.into[own])?;
        }
        Ok(steps)
    }

    /// An exchange of blocks, each process with each; `from` is `None` if the blocks are exchanged in place.
    pub fn alltoall(
        &mut self,
        from: Option<&Blocks>,
        into: &Blocks,
        communicator: usize,
    ) -> Result<Steps> {
        let positions = self.positions(communicator)?;
        if let Some(from) = from {
            from.check_apart(into)?;
        }
        let mut steps = self.steps_on(communicator);
        if self.checks {
            let expected = of_ranks(Some(into), positions.own())?;
            steps.exchanges(of_ranks(from.or(Some(into)), positions.own())?, expected);
        }
        let left = self.blocks_by_messages(communicator);
        let mut sides = Sides::of_some(&mut steps, from, Some(into), |rank| {
            Left::has(left.from, rank)
        })?;
        if positions.remote.is_some() {
            check_not_in_place(from)?;
            inter::exchange(&mut steps, positions, &sides.from, &sides.into);
            return Ok(steps);
        }
        let Position { rank, size } = positions.local;
        if from.is_none() {
            for block in into.packed(&mut steps)? {
                let copy = scratch(block.len())?;
                steps.copy(&block, &copy);
                sides.from.push(copy);
            }
        }
        // Each process begins with its neighbour, so that not all send to the same one first.
        for distance in 1..size {
            let source = (rank + size - distance) % size;
            if Left::has(left.from, source) {
                steps.receive(source, sides.into[source as usize].clone());
            }
        }
        for distance in 1..size {
            let to = (rank + distance) % size;
            if Left::has(left.to, to) {
                steps.send(to, sides.from[to as usize].clone());
            }
        }
        let own = rank as usize;
        if left == Left::ALL {
            copy_own(&mut steps, &sides.from[own], &sides.into[own])?;
        }
        Ok(steps)
    }
}
