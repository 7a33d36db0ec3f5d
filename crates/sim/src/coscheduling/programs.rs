//! The programs of the jobs: scripts of computing, sending, receiving and sleeping, one for each of
//! their processes.

use std::sync::Arc;

use crate::engine::{SECOND, Time};
use crate::workloads::random::Random;

/// Nodes of the platform (§6.2.1).
pub const NODES: usize = 8;

/// A step of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Computes for this time.
    Compute(Time),
    /// Sends this number of bytes to the process on a node.
    Send(u8, u32),
    /// Waits for a message from the process on a node, by the library's receive call.
    Receive(u8),
    /// Waits for a message by a receive that was posted earlier.
    Wait(u8),
    /// Waits for a message within a collective operation.
    Collect(u8),
    /// Blocks for this time, as on a disk.
    Sleep(Time),
}

/// A process's progress through its program.
#[derive(Clone, Debug)]
pub struct Script {
    body: Arc<[Op]>,
    /// The steps that follow once, at the end.
    tail: Arc<[Op]>,
    at: usize,
    repeats: u32,
    /// The thousandths by which a computation may be longer than its step states.
    imbalance: u64,
    random: Random,
}

/// Yields the steps that are left.
impl Iterator for Script {
    type Item = Op;

    fn next(&mut self) -> Option<Op> {
        let part = match self.repeats {
            0 => &self.tail,
            _ => &self.body,
        };
        let op = *part.get(self.at)?;
        self.at += 1;
        if self.repeats > 0 && self.at == self.body.len() {
            self.repeats -= 1;
            self.at = 0;
        }
        Some(match op {
            Op::Compute(time) => {
                let most = time / 1_000 * self.imbalance;
                Op::Compute(time + self.random.below(most.max(1)))
            }
            other => other,
        })
    }
}

/// A program: the steps of each rank, and how often they are repeated.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// The steps of each rank; rank *r* runs on node *r*. A rank without steps does not exist.
    bodies: Vec<Arc<[Op]>>,
    /// Steps of each rank after the last repetition.
    tails: Vec<Arc<[Op]>>,
    repeats: u32,
    imbalance: u64,
}

impl Program {
    /// A program of the caller's.
    pub fn new(name: &str, bodies: Vec<Vec<Op>>, repeats: u32, imbalance: u64) -> Self {
        Self {
            name: name.to_owned(),
            bodies: bodies.into_iter().map(Arc::from).collect(),
            tails: Vec::new(),
            repeats,
            imbalance,
        }
    }

    /// The same program, with steps of each rank at the end.
    pub fn with_tails(mut self, tails: Vec<Vec<Op>>) -> Self {
        self.tails = tails.into_iter().map(Arc::from).collect();
        self
    }

    /// A script of the process on a node, if there is one.
    pub fn script(&self, node: usize, seed: u64) -> Option<Script> {
        let body = self.bodies.get(node).filter(|body| !body.is_empty())?;
        Some(Script {
            body: Arc::clone(body),
            tail: self.tails.get(node).map(Arc::clone).unwrap_or_default(),
            at: 0,
            repeats: self.repeats,
            imbalance: self.imbalance,
            random: Random::new(seed),
        })
    }

    /// The average computing time of a rank, from the beginning to the end.
    pub fn computes(&self) -> Time {
        let of = |op: &Op| match op {
            Op::Compute(time) => time + time / 2_000 * self.imbalance,
            _ => 0,
        };
        let ranks = self.bodies.iter().filter(|body| !body.is_empty());
        let all: Time = ranks.clone().flat_map(|body| body.iter()).map(of).sum();
        all / ranks.count().max(1) as u64 * u64::from(self.repeats)
    }

    /// Messages that the rank which receives the most of them waits for, from the beginning to the end.
    pub fn receives(&self) -> u64 {
        let of = |ops: &[Op]| {
            let waits = |op: &&Op| matches!(op, Op::Receive(_) | Op::Wait(_) | Op::Collect(_));
            ops.iter().filter(waits).count() as u64
        };
        let ranks = self.bodies.iter().enumerate().map(|(rank, body)| {
            let tail = self.tails.get(rank).map_or(0, |tail| of(tail));
            of(body) * u64::from(self.repeats) + tail
        });
        ranks.max().unwrap_or(0)
    }

    /// The same program with `repeats` over `divisor`.
    pub fn shortened(mut self, divisor: u32) -> Self {
        self.repeats = (self.repeats / divisor.max(1)).max(1);
        self
    }
}

/// A program's parameters (the profile's sections of programs).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grain {
    /// Iterations.
    pub iterations: u32,
    /// Computing time of a rank in each.
    pub compute: Time,
    /// The longest message of an iteration, in bytes.
    pub message: u32,
    /// The thousandths by which computations differ between ranks.
    pub imbalance: u64,
    /// MG's grids on a rank, LU's planes in each sweep, or EP's sums at the end; LIFE has no such parts.
    pub parts: u32,
}

fn rank(number: usize) -> u8 {
    number as u8
}

/// Both sides send, then both receive: a face of each direction, which on two ranks in a dimension are the same neighbour's.
fn exchange(ops: &mut Vec<Op>, partner: usize, bytes: u32) {
    ops.extend([Op::Send(rank(partner), bytes); 2]);
    ops.extend([Op::Wait(rank(partner)); 2]);
}

/// A barrier or a sum over all: with partners at distances 1, 2 and 4.
fn combine(ops: &mut Vec<Op>, me: usize, bytes: u32) {
    for distance in [1, 2, 4] {
        ops.push(Op::Send(rank(me ^ distance), bytes));
        ops.push(Op::Collect(rank(me ^ distance)));
    }
}

/// Bytes of a barrier's message, and of a sum's.
const SMALL: u32 = 8;

/// LIFE: ranks are on a torus of 2 by 4; each computes the next generation, exchanges its
/// sub-matrix's borders with its four neighbours, and meets all others in a barrier. (The text has
/// distinct phases, and a barrier between iterations; it does not state that the barrier follows
/// the exchange.)
pub fn life(name: &str, grain: Grain) -> Program {
    let body = |me: usize| {
        let (row, column) = (me / 4, me % 4);
        let across = [row * 4 + (column + 1) % 4, row * 4 + (column + 3) % 4];
        let other_row = (1 - row) * 4 + column;
        let mut ops = vec![Op::Compute(grain.compute)];
        for to in across {
            ops.push(Op::Send(rank(to), grain.message));
        }
        // Both vertical neighbours are the same rank; a border there is half as long.
        for _ in 0..2 {
            ops.push(Op::Send(rank(other_row), grain.message / 2));
        }
        for from in across.into_iter().chain([other_row, other_row]) {
            ops.push(Op::Receive(rank(from)));
        }
        combine(&mut ops, me, SMALL);
        ops
    };
    let bodies = (0..NODES).map(body).collect();
    Program::new(name, bodies, grain.iterations, grain.imbalance)
}

/// MG: V-cycles over `grain.parts` grids that halve in each dimension. On each grid faces are exchanged in three dimensions, twice on the way
/// down and twice on the way up.
pub fn mg(name: &str, grain: Grain) -> Program {
    let grids = grain.parts;
    // Each grid has an eighth of the points of the one before.
    let points = |grid: u32| 8_u128.pow(grids - 1 - grid);
    let all: u128 = (0..grids).map(points).sum();
    let body = |me: usize| {
        let mut ops = Vec::new();
        let down_and_up = (0..grids).chain((0..grids).rev());
        for grid in down_and_up {
            let work = (u128::from(grain.compute) * points(grid) / all / 2) as Time;
            for _ in 0..2 {
                ops.push(Op::Compute(work / 2));
                for distance in [1, 2, 4] {
                    exchange(
                        &mut ops,
                        me ^ distance,
                        (grain.message >> (2 * grid)).max(16),
                    );
                }
            }
        }
        combine(&mut ops, me, SMALL);
        ops
    };
    let bodies = (0..NODES).map(body).collect();
    Program::new(name, bodies, grain.iterations, grain.imbalance)
}

/// LU: ranks are on a grid of 2 by 4. A sweep passes one of `grain.parts` planes after the other from corner to
/// corner, with a small message to the neighbour below and one to the right; then one back.
pub fn lu(name: &str, grain: Grain) -> Program {
    let body = |me: usize| {
        let (row, column) = (me / 4, me % 4);
        let below = (row == 0).then_some(me + 4);
        let above = (row == 1).then(|| me - 4);
        let right = (column < 3).then(|| me + 1);
        let left = (column > 0).then(|| me - 1);
        let mut ops = Vec::new();
        for (from, to) in [
            ([above, left], [below, right]),
            ([below, right], [above, left]),
        ] {
            for _ in 0..grain.parts {
                for from in from.into_iter().flatten() {
                    ops.push(Op::Receive(rank(from)));
                }
                ops.push(Op::Compute(grain.compute / (2 * Time::from(grain.parts))));
                for to in to.into_iter().flatten() {
                    ops.push(Op::Send(rank(to), grain.message));
                }
            }
        }
        ops
    };
    let bodies = (0..NODES).map(body).collect();
    Program::new(name, bodies, grain.iterations, grain.imbalance)
}

/// EP: long computing, then `grain.parts` sums over all.
pub fn ep(name: &str, grain: Grain) -> Program {
    let sums = |me: usize| {
        let mut ops = Vec::new();
        for _ in 0..grain.parts {
            combine(&mut ops, me, grain.message);
        }
        ops
    };
    let bodies = vec![vec![Op::Compute(grain.compute)]; NODES];
    Program::new(name, bodies, grain.iterations, grain.imbalance)
        .with_tails((0..NODES).map(sums).collect())
}

/// A sequential job: computes on one node, and sends nothing.
pub fn sequential(name: &str, node: usize, time: Time) -> Program {
    on_one_node(
        name,
        node,
        vec![Op::Compute(SECOND / 100)],
        time / (SECOND / 100),
    )
}

/// A job on one node that waits for a device most of the time.
pub fn disk_bound(name: &str, node: usize, compute: Time, sleep: Time, times: u64) -> Program {
    on_one_node(
        name,
        node,
        vec![Op::Compute(compute), Op::Sleep(sleep)],
        times,
    )
}

fn on_one_node(name: &str, node: usize, ops: Vec<Op>, times: u64) -> Program {
    let mut bodies = vec![Vec::new(); NODES];
    bodies[node] = ops;
    Program::new(name, bodies, u32::try_from(times).unwrap_or(u32::MAX), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether each message that is sent is received, and no more.
    fn is_closed(program: &Program) -> bool {
        let mut balance = [[0_i64; NODES]; NODES];
        for (me, body) in program.bodies.iter().enumerate() {
            let tail = program.tails.get(me).map_or(&[][..], |tail| tail);
            for op in body.iter().chain(tail) {
                match *op {
                    Op::Send(to, _) => balance[me][usize::from(to)] += 1,
                    Op::Receive(from) | Op::Wait(from) | Op::Collect(from) => {
                        balance[usize::from(from)][me] -= 1;
                    }
                    Op::Compute(_) | Op::Sleep(_) => {}
                }
            }
        }
        balance.iter().flatten().all(|&count| count == 0)
    }

    #[test]
    fn every_message_is_received() {
        let grain = Grain {
            iterations: 2,
            compute: SECOND,
            message: 4_096,
            imbalance: 10,
            parts: 4,
        };
        for program in [life, mg, lu, ep].map(|make| make("p", grain)) {
            assert!(is_closed(&program));
        }
    }

    #[test]
    fn a_script_repeats_its_body_and_ends() {
        let program = sequential("s", 3, SECOND / 10);
        assert!(program.script(0, 1).is_none());
        let mut script = program.script(3, 1).expect("it is there");
        let ops: Vec<Op> = script.by_ref().collect();
        assert_eq!(ops, vec![Op::Compute(SECOND / 100); 10]);
        assert_eq!(script.next(), None);
        let program = program.with_tails(vec![vec![Op::Sleep(1)]; NODES]);
        let script = program.script(3, 1).expect("it is there");
        assert_eq!(script.last(), Some(Op::Sleep(1)));
    }
}
