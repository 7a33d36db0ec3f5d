//! Collective operations that move data: broadcast, gather, scatter, allgather, alltoall.

use causeway_engine::Memory;

use super::blocks::Blocks;
use super::place::Place;
use crate::abi;
use crate::buffer::{Buffer, temporary};
use crate::error::{Error, Result};
use crate::process::{Active, Process};
use crate::schedule::Steps;

/// From so many bytes on, a broadcast scatters first: each byte leaves the root once then, and not as often as the tree has
/// branches there.
const LONG_BROADCAST: usize = 128 << 10;

fn check_root(root: i32, place: Place) -> Result<u32> {
    let valid = u32::try_from(root).ok().filter(|root| *root < place.size);
    valid.ok_or_else(|| {
        let text = format!("the root {root} in a communicator of {}", place.size);
        Error::new(abi::ERR_ROOT, text)
    })
}

/// Parts of memory, as equal as multiples of `unit` allow, one for each process.
pub(crate) fn shares(memory: &Memory, unit: usize, blocks: u32) -> Vec<Memory> {
    let units = memory.len() / unit.max(1);
    let blocks = blocks as usize;
    let bound = |at: usize| at * (units / blocks) + at.min(units % blocks);
    let mut all: Vec<Memory> = (0..blocks)
        .map(|at| memory.slice(bound(at) * unit..bound(at + 1) * unit))
        .collect();
    // What is no whole unit goes with the last.
    if let Some(last) = all.last_mut() {
        *last = memory.slice(bound(blocks - 1) * unit..memory.len());
    }
    all
}

impl Process {
    /// Starts a broadcast from the root.
    pub fn broadcast(
        &mut self,
        buffer: Buffer<'_>,
        root: i32,
        communicator: usize,
    ) -> Result<Active> {
        let place = self.place(communicator)?;
        let root = check_root(root, place)?;
        let (memory, unpack) = match place.rank == root {
            true => (buffer.packed()?, None),
            false => buffer.landing()?,
        };
        let mut steps = Steps::default();
        match memory.len() >= LONG_BROADCAST && place.size > 2 {
            true => broadcast_by_scatter(&mut steps, place, root, &memory),
            false => broadcast_by_tree(&mut steps, place, root, &memory),
        }
        let mut active = self.start_steps(communicator, steps)?;
        active.unpack.extend(unpack.map(|unpack| *unpack));
        Ok(active)
    }

    /// Starts a gather to the root, which receives into one block for each rank; `from` is nothing if the root's own block
    /// is in its place already.
    pub fn gather(
        &mut self,
        from: Option<&Blocks>,
        into: Option<&Blocks>,
        root: i32,
        communicator: usize,
    ) -> Result<Active> {
        let place = self.place(communicator)?;
        let root = check_root(root, place)?;
        let mut steps = Steps::default();
        let sides = Self::sides(from, into)?;
        if place.rank == root {
            for (rank, into) in sides.into.iter().enumerate() {
                match (rank as u32 == root, sides.from.first()) {
                    (false, _) => steps.receive(rank as u32, into.clone()),
                    (true, Some(from)) => steps.copy(from, into),
                    (true, None) => {}
                }
            }
        } else if let Some(from) = sides.from.first() {
            steps.send(root, from.clone());
        }
        let mut active = self.start_steps(communicator, steps)?;
        active.unpack = sides.unpack;
        Ok(active)
    }

    /// Starts a scatter from the root, which sends from one block for each rank; `into` is nothing if the root's own
    /// block stays in its place.
    pub fn scatter(
        &mut self,
        from: Option<&Blocks>,
        into: Option<&Blocks>,
        root: i32,
        communicator: usize,
    ) -> Result<Active> {
        let place = self.place(communicator)?;
        let root = check_root(root, place)?;
        let mut steps = Steps::default();
        let sides = Self::sides(from, into)?;
        if place.rank == root {
            for (rank, from) in sides.from.iter().enumerate() {
                match (rank as u32 == root, sides.into.first()) {
                    (false, _) => steps.send(rank as u32, from.clone()),
                    (true, Some(into)) => steps.copy(from, into),
                    (true, None) => {}
                }
            }
        } else if let Some(into) = sides.into.first() {
            steps.receive(root, into.clone());
        }
        let mut active = self.start_steps(communicator, steps)?;
        active.unpack = sides.unpack;
        Ok(active)
    }

    /// Starts an allgather round a ring; `from` is nothing if the own block is in its place already.
    pub fn allgather(
        &mut self,
        from: Option<&Blocks>,
        into: &Blocks,
        communicator: usize,
    ) -> Result<Active> {
        let place = self.place(communicator)?;
        let mut sides = Self::sides(from, Some(into))?;
        let mut steps = Steps::default();
        let own = place.rank as usize;
        if from.is_none()
            && let Blocks::Each(each) = into
        {
            // What is in its place there has to be in its place here, too.
            sides.into[own] = each[own].as_buffer().packed()?;
        }
        if let (Some(from), Some(into)) = (sides.from.first(), sides.into.get(own)) {
            steps.copy(from, into);
        }
        ring(&mut steps, place, &sides.into);
        let mut active = self.start_steps(communicator, steps)?;
        active.unpack = sides.unpack;
        Ok(active)
    }

    /// Starts an exchange of blocks, each process with each; `from` is nothing if the blocks are exchanged in place.
    pub fn alltoall(
        &mut self,
        from: Option<&Blocks>,
        into: &Blocks,
        communicator: usize,
    ) -> Result<Active> {
        let place = self.place(communicator)?;
        let Place { rank, size } = place;
        let mut sides = Self::sides(from, Some(into))?;
        let mut steps = Steps::default();
        if from.is_none() {
            let packed = into.packed()?;
            for block in &packed {
                let copy = temporary(block.len())?;
                copy.copy_from(block);
                sides.from.push(copy);
            }
        }
        // Each begins with its neighbour, so that not all send to the same one first.
        for distance in 1..size {
            let source = (rank + size - distance) % size;
            steps.receive(source, sides.into[source as usize].clone());
        }
        for distance in 1..size {
            let to = (rank + distance) % size;
            steps.send(to, sides.from[to as usize].clone());
        }
        steps.copy(&sides.from[rank as usize], &sides.into[rank as usize]);
        let mut active = self.start_steps(communicator, steps)?;
        active.unpack = sides.unpack;
        Ok(active)
    }
}

/// Each receives from the one whose number differs in its lowest set bit, then sends to those below that bit.
fn broadcast_by_tree(steps: &mut Steps, place: Place, root: u32, memory: &Memory) {
    let relative = place.relative_to(root);
    let mut mask = 1;
    while mask < place.size && relative & mask == 0 {
        mask *= 2;
    }
    if relative != 0 {
        steps.receive(place.absolute(relative - mask, root), memory.clone());
        steps.fence();
    }
    mask /= 2;
    while mask > 0 {
        if relative + mask < place.size {
            steps.send(place.absolute(relative + mask, root), memory.clone());
        }
        mask /= 2;
    }
}

/// The root's memory is scattered along the same tree, and then gathered round a ring (van de Geijn).
fn broadcast_by_scatter(steps: &mut Steps, place: Place, root: u32, memory: &Memory) {
    const LINE: usize = 64;
    let relative = place.relative_to(root);
    let shares = shares(memory, LINE, place.size);
    let start = |block: u32| match shares.get(block as usize) {
        Some(share) => share.as_ptr() as usize - memory.as_ptr() as usize,
        None => memory.len(),
    };
    let part = |from: u32, to: u32| memory.slice(start(from)..start(to.min(place.size)));
    let mut mask = 1;
    while mask < place.size && relative & mask == 0 {
        mask *= 2;
    }
    if relative != 0 {
        steps.receive(
            place.absolute(relative - mask, root),
            part(relative, relative + mask),
        );
        steps.fence();
    }
    mask /= 2;
    while mask > 0 {
        if relative + mask < place.size {
            let to = place.absolute(relative + mask, root);
            steps.send(to, part(relative + mask, relative + 2 * mask));
        }
        mask /= 2;
    }
    let by_rank = (0..place.size).map(|rank| {
        let relative = (rank + place.size - root) % place.size;
        shares[relative as usize].clone()
    });
    steps.fence();
    ring(steps, place, &Vec::from_iter(by_rank));
}

/// Each has its own block, and gets the others from the one before it.
pub(crate) fn ring(steps: &mut Steps, place: Place, blocks: &[Memory]) {
    let Place { rank, size } = place;
    for round in 0..size.saturating_sub(1) {
        let mine = (rank + size - round) % size;
        let theirs = (rank + size - round - 1) % size;
        steps.receive(place.previous(), blocks[theirs as usize].clone());
        steps.send(place.next(), blocks[mine as usize].clone());
        steps.fence();
    }
}
