//! How memory is spread from one process to all, and blocks of each process to all.

use causeway_engine::Memory;

use super::position::Position;
use crate::steps::Steps;

/// From so many bytes on, a broadcast scatters first: each byte leaves the root once then, and not as often as the tree has
/// branches there.
const LONG_BROADCAST: usize = 128 << 10;

/// From so many bytes on, all processes of one host receive a broadcast from the root: each copies from the root's memory by itself, and
/// no receiver waits for another one, which may not have a processor at that time.
const BROADCAST_FROM_ROOT: usize = 256 << 10;

/// The most processes that receive from the root, which announces its memory to each of them.
const MOST_FROM_ROOT: u32 = 64;

/// Parts of memory, as equal as multiples of `unit` allow, one for each process.
pub(crate) fn shares(memory: &Memory, unit: usize, blocks: u32) -> Vec<Memory> {
    let units = memory.len() / unit.max(1);
    let blocks = blocks as usize;
    let bound = |at: usize| at * (units / blocks) + at.min(units % blocks);
    let mut all: Vec<Memory> = (0..blocks)
        .map(|at| memory.slice(bound(at) * unit..bound(at + 1) * unit))
        .collect();
    // A part of a unit goes with the last whole one.
    if let Some(last) = all.last_mut() {
        *last = memory.slice(bound(blocks - 1) * unit..memory.len());
    }
    all
}

/// Whether a broadcast of so many bytes is sent to each process by the root, if all are on one host.
pub(crate) fn is_sent_by_root(bytes: usize, processes: u32) -> bool {
    bytes >= BROADCAST_FROM_ROOT && (3..=MOST_FROM_ROOT).contains(&processes)
}

/// Broadcasts memory from the root to each of the others.
pub(crate) fn broadcast_by_root(steps: &mut Steps, position: Position, root: u32, memory: &Memory) {
    if position.rank != root {
        return steps.receive(root, memory.clone());
    }
    for relative in 1..position.size {
        steps.send(position.absolute(relative, root), memory.clone());
    }
}

/// Broadcasts memory among the processes of one group.
pub(crate) fn broadcast_within(steps: &mut Steps, position: Position, root: u32, memory: &Memory) {
    match memory.len() >= LONG_BROADCAST && position.size > 2 {
        true => broadcast_by_scatter(steps, position, root, memory),
        false => broadcast_by_tree(steps, position, root, memory),
    }
}

/// Each process receives from the one whose relative rank differs in its lowest set bit, then sends to those that differ in a lower bit.
pub(crate) fn broadcast_by_tree(steps: &mut Steps, position: Position, root: u32, memory: &Memory) {
    let relative = position.relative_to(root);
    let mut mask = 1;
    while mask < position.size && relative & mask == 0 {
        mask *= 2;
    }
    if relative != 0 {
        steps.receive(position.absolute(relative - mask, root), memory.clone());
        steps.fence();
    }
    mask /= 2;
    while mask > 0 {
        if relative + mask < position.size {
            steps.send(position.absolute(relative + mask, root), memory.clone());
        }
        mask /= 2;
    }
}

/// The root's memory is scattered along the same tree, and then gathered round a ring (van de Geijn).
fn broadcast_by_scatter(steps: &mut Steps, position: Position, root: u32, memory: &Memory) {
    const LINE: usize = 64;
    let relative = position.relative_to(root);
    let shares = shares(memory, LINE, position.size);
    let start = |block: u32| match shares.get(block as usize) {
        Some(share) => share.as_ptr() as usize - memory.as_ptr() as usize,
        None => memory.len(),
    };
    let part = |from: u32, to: u32| memory.slice(start(from)..start(to.min(position.size)));
    let mut mask = 1;
    while mask < position.size && relative & mask == 0 {
        mask *= 2;
    }
    if relative != 0 {
        steps.receive(
            position.absolute(relative - mask, root),
            part(relative, relative + mask),
        );
        steps.fence();
    }
    mask /= 2;
    while mask > 0 {
        if relative + mask < position.size {
            let to = position.absolute(relative + mask, root);
            steps.send(to, part(relative + mask, relative + 2 * mask));
        }
        mask /= 2;
    }
    let by_rank = (0..position.size).map(|rank| {
        let relative = (rank + position.size - root) % position.size;
        shares[relative as usize].clone()
    });
    steps.fence();
    let by_rank = Vec::from_iter(by_rank);
    ring(steps, position, &by_rank, &by_rank[position.rank as usize]);
}

/// Each process has its own block, in its place or elsewhere, and gets the others from the process before it.
pub(crate) fn ring(steps: &mut Steps, position: Position, blocks: &[Memory], own: &Memory) {
    let Position { rank, size } = position;
    let mut going = own;
    for round in 0..size.saturating_sub(1) {
        let theirs = (rank + size - round - 1) % size;
        steps.receive(position.previous(), blocks[theirs as usize].clone());
        steps.send(position.next(), going.clone());
        steps.fence();
        going = &blocks[theirs as usize];
    }
}
