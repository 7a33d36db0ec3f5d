//! Operations of several processes in one memory, in any order of their steps, against a reference that computes one element after the other.

use std::sync::Arc;

use causeway_engine::Memory;
use proptest::prelude::*;

use super::area::{Area, CAPACITY, DEPTH, len};
use super::call::{self, Function};
use super::failure::Failure;
use super::operation::{Operation, Progress, What};
use super::parts::Parts;
use super::reading::Reading;
use crate::datatype::Basic;
use crate::reduction::{Kernel, Op};

/// An operation of all processes, on so many 64-bit integers of each, or in each part.
#[derive(Debug, Clone, Copy)]
struct Call {
    kind: Kind,
    count: usize,
    root: u32,
    in_place: bool,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Barrier,
    Broadcast,
    Reduce,
    ReduceToAll,
    ReduceByShares,
    ReduceScatter,
    Gather,
    Exchange,
    ReadGather,
    ReadExchange,
    ReadReduce,
    ReadReduceScatter,
}

const KINDS: [Kind; 12] = [
    Kind::Barrier,
    Kind::Broadcast,
    Kind::Reduce,
    Kind::ReduceToAll,
    Kind::ReduceByShares,
    Kind::ReduceScatter,
    Kind::Gather,
    Kind::Exchange,
    Kind::ReadGather,
    Kind::ReadExchange,
    Kind::ReadReduce,
    Kind::ReadReduceScatter,
];

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let counts = prop_oneof![0..9usize, 0..300usize, 900..3000usize];
    let call = (0..KINDS.len(), counts, any::<u32>(), any::<bool>());
    let call = call.prop_map(|(kind, count, root, in_place)| Call {
        kind: KINDS[kind],
        count,
        root,
        in_place,
    });
    prop::collection::vec(call, 1..12)
}

fn value(call: usize, rank: u32, at: usize) -> u64 {
    (call as u64) << 48 | u64::from(rank) << 32 | at as u64
}

fn sum(call: usize, ranks: u32, at: usize) -> u64 {
    let all = (0..ranks).map(|rank| value(call, rank, at));
    all.fold(0, u64::wrapping_add)
}

fn memory(values: impl Iterator<Item = u64>) -> Memory {
    Memory::from_vec(values.flat_map(u64::to_ne_bytes).collect())
}

fn values(memory: &Memory) -> Vec<u64> {
    let bytes = memory.to_vec();
    let words = bytes.chunks_exact(8);
    words
        .map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")))
        .collect()
}

fn kernel() -> Kernel {
    Kernel::of(Op::Sum, Basic::Uint64).expect("integers have sums")
}

/// A process's operation.
struct Doing {
    operation: Operation,
    /// The place of its result, and the expected result.
    into: Memory,
    expected: Vec<u64>,
    /// What it has for the others, and its content.
    operands: Memory,
    before: Vec<u64>,
}

fn begin(area: &Arc<Area>, at: usize, call: Call) -> Doing {
    let (rank, ranks, count) = (area.rank, area.ranks, call.count);
    let root = call.root % ranks;
    let own = |many: usize| memory((0..many).map(|place| value(at, rank, place)));
    let nothing = |many: usize| memory((0..many).map(|_| 7));
    let sums = |from: usize, many: usize| {
        Vec::from_iter((from..from + many).map(|place| sum(at, ranks, place)))
    };
    let sides = |many: usize| {
        let from = own(many);
        let into = match call.in_place {
            true => from.clone(),
            false => nothing(many),
        };
        (from, into)
    };
    let all = count * ranks as usize;
    let (what, into, expected, operands) = match call.kind {
        Kind::Barrier => (What::Barrier, nothing(0), Vec::new(), nothing(0)),
        Kind::Broadcast => {
            let memory = match rank == root {
                true => own(count),
                false => nothing(count),
            };
            let what = What::Broadcast {
                root,
                memory: memory.clone(),
            };
            let expected = (0..count).map(|place| value(at, root, place));
            (what, memory, expected.collect(), nothing(0))
        }
        Kind::Reduce | Kind::ReduceToAll => {
            let to = matches!(call.kind, Kind::Reduce).then_some(root);
            let (from, into) = sides(count);
            let expected = match to.is_none_or(|to| to == rank) {
                true => sums(0, count),
                false => values(&into),
            };
            let what = What::Reduce {
                root: to,
                from,
                into: into.clone(),
                kernel: kernel(),
            };
            (what, into, expected, nothing(0))
        }
        Kind::ReduceByShares | Kind::ReadReduce => {
            let (from, into) = sides(count);
            let (operands, kernel) = (from.clone(), kernel());
            let what = match call.kind {
                Kind::ReadReduce => {
                    let reading = Reading::reduce(area, from, into.clone(), kernel);
                    What::Reading(reading.expect("memory"))
                }
                _ => What::ReduceByShares {
                    from,
                    into: into.clone(),
                    kernel,
                },
            };
            (what, into, sums(0, count), operands)
        }
        Kind::ReduceScatter | Kind::ReadReduceScatter => {
            let lens = Vec::from_iter((0..ranks as usize).map(|rank| match call.root % 2 {
                0 => count,
                _ => count / (rank + 1),
            }));
            let before = lens[..rank as usize].iter().sum::<usize>();
            let mine = lens[rank as usize];
            let from = own(lens.iter().sum());
            let into = match call.in_place {
                true => from.slice(0..mine * 8),
                false => nothing(mine),
            };
            let mut end = 0;
            let bounds = lens.iter().map(|len| {
                end += len * 8;
                end
            });
            let parts = match call.root % 2 {
                0 => Parts::Even(count * 8),
                _ => Parts::Bounds(bounds.collect()),
            };
            let (operands, kernel) = (from.clone(), kernel());
            let what = match call.kind {
                Kind::ReadReduceScatter => {
                    let reading = Reading::reduce_scatter(area, from, into.clone(), parts, kernel);
                    What::Reading(reading.expect("memory"))
                }
                _ => What::ReduceScatter {
                    from,
                    into: into.clone(),
                    parts,
                    kernel,
                },
            };
            (what, into, sums(before, mine), operands)
        }
        Kind::Gather | Kind::ReadGather => {
            let into = nothing(all);
            let start = rank as usize * count * 8;
            let block = own(count);
            let from = match call.in_place {
                true => {
                    into.slice(start..start + count * 8).copy_from(&block);
                    None
                }
                false => Some(block),
            };
            let expected = (0..all).map(|place| {
                let rank = (place / count.max(1)) as u32;
                value(at, rank, place % count.max(1))
            });
            let own = into.slice(start..start + count * 8);
            let operands = from.clone().unwrap_or(own);
            let to = into.clone();
            let what = match call.kind {
                Kind::ReadGather => {
                    let reading = Reading::gather(area, from, to);
                    What::Reading(reading.expect("memory"))
                }
                _ => What::Gather { from, into: to },
            };
            (what, into, expected.collect(), operands)
        }
        Kind::Exchange | Kind::ReadExchange => {
            let (from, into) = sides(all);
            let operands = from.clone();
            let expected = (0..all).map(|place| {
                let from = (place / count.max(1)) as u32;
                value(at, from, rank as usize * count + place % count.max(1))
            });
            let expected = expected.collect();
            let from = (!call.in_place).then_some(from);
            let to = into.clone();
            let what = match call.kind {
                Kind::ReadExchange => {
                    let reading = Reading::exchange(area, from, to);
                    What::Reading(reading.expect("memory"))
                }
                _ => What::Exchange {
                    from,
                    into: to,
                    parts: Parts::Even(count * 8),
                },
            };
            (what, into, expected, operands)
        }
    };
    let function = match call.kind {
        Kind::Barrier => Function::Barrier,
        Kind::Broadcast => Function::Bcast,
        Kind::Reduce => Function::Reduce,
        Kind::ReduceToAll | Kind::ReduceByShares | Kind::ReadReduce => Function::Allreduce,
        Kind::ReduceScatter | Kind::ReadReduceScatter => Function::ReduceScatter,
        Kind::Gather | Kind::ReadGather => Function::Allgather,
        Kind::Exchange | Kind::ReadExchange => Function::Alltoall,
    };
    let called = call::Call::new(function, count as u64).with_root(root);
    let operation = Operation::new(Arc::clone(area), (at as u64, called), (what, None));
    Doing {
        operation,
        into,
        expected,
        before: values(&operands),
        operands,
    }
}

/// A process: its present operation, and its position in the calls.
struct Walker {
    area: Arc<Area>,
    at: usize,
    doing: Option<Doing>,
    /// A process's memory cannot be read.
    is_void: bool,
}

impl Walker {
    /// Advances its present call. Returns whether it made progress.
    fn step(&mut self, calls: &[Call]) -> bool {
        let Some(call) = calls.get(self.at) else {
            return false;
        };
        let area = &self.area;
        let doing = self
            .doing
            .get_or_insert_with(|| begin(area, self.at, *call));
        loop {
            match doing.operation.run() {
                Progress::Over => break,
                Progress::Waits => return false,
                Progress::Moved => {}
                other => panic!("{other:?}"),
            }
        }
        let done = self.doing.take().expect("it was just there");
        match done.operation.is_void() {
            true => {
                assert!(self.is_void);
                assert_eq!(
                    values(&done.operands),
                    done.before,
                    "call {}: {call:?}",
                    self.at
                );
            }
            false => assert_eq!(
                values(&done.into),
                done.expected,
                "call {}: {call:?}",
                self.at
            ),
        }
        self.at += 1;
        true
    }
}

/// Processes that share an area; the memory of the `hidden` one cannot be read.
fn walkers(ranks: u32, hidden: u32) -> Vec<Walker> {
    let memory = Memory::zeroed(len(ranks));
    let walker = |rank| {
        let area = Area::new(memory.clone(), rank, ranks);
        if rank != hidden {
            area.allow_reading();
        }
        Walker {
            area: Arc::new(area),
            at: 0,
            doing: None,
            is_void: hidden < ranks,
        }
    };
    (0..ranks).map(walker).collect()
}

/// There are fewer elements than processes: those without a share read nothing before the result.
#[test]
fn processes_without_a_share_find_that_memory_cannot_be_read_before_operands_change() {
    let calls = [Kind::ReadReduce, Kind::ReadReduceScatter].map(|kind| Call {
        kind,
        count: 1,
        root: 0,
        in_place: false,
    });
    for hidden in 0..4 {
        let mut all = walkers(4, hidden);
        for _ in 0..100 {
            for walker in &mut all {
                walker.step(&calls);
            }
        }
        assert!(all.iter().all(|walker| walker.at == calls.len()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn results_are_right_in_every_order(ranks in 1..9u32, calls in calls(), order in prop::collection::vec(any::<u32>(), 64), hidden in 0..12u32) {
        let mut all = walkers(ranks, hidden);
        for rank in order.iter().map(|rank| rank % ranks) {
            all[rank as usize].step(&calls);
        }
        // In every state the remaining steps can be done.
        while all.iter().any(|walker| walker.at < calls.len()) {
            let before = all.iter().map(|walker| walker.at).sum::<usize>();
            for _ in 0..=2 * calls.iter().map(|call| call.count * 8 * ranks as usize / 64 + 2).sum::<usize>() {
                let mut got_on = false;
                for walker in &mut all {
                    got_on |= walker.step(&calls);
                }
                if got_on {
                    break;
                }
            }
            prop_assert!(all.iter().map(|walker| walker.at).sum::<usize>() > before, "no process makes progress");
        }
    }
}

#[test]
fn a_root_is_ahead_of_others_by_its_slots_at_most() {
    let memory = Memory::zeroed(len(2));
    let area = |rank| Arc::new(Area::new(memory.clone(), rank, 2));
    let (root, other) = (area(0), area(1));
    let pieces = 2 * DEPTH as usize;
    let sent = memory_of(pieces * CAPACITY);
    let received = Memory::zeroed(pieces * CAPACITY);
    let mut sending = broadcast(&root, &sent);
    let mut receiving = broadcast(&other, &received);
    let mut rounds = 0;
    while receiving.run() != Progress::Over {
        sending.run();
        rounds += 1;
        assert!(rounds < 100);
    }
    assert!(rounds > 1);
    assert_eq!(received.to_vec(), sent.to_vec());
}

/// A broadcast of rank 0.
fn broadcast(area: &Arc<Area>, memory: &Memory) -> Operation {
    let what = What::Broadcast {
        root: 0,
        memory: memory.clone(),
    };
    let call = call::Call::new(Function::Bcast, memory.len() as u64);
    Operation::new(Arc::clone(area), (0, call), (what, None))
}

fn memory_of(len: usize) -> Memory {
    Memory::from_vec((0..len).map(|at| (at / 7) as u8).collect())
}

#[test]
fn nothing_is_read_of_a_rank_that_calls_with_another_length() {
    let memory = Memory::zeroed(len(2));
    let area = |rank| Arc::new(Area::new(memory.clone(), rank, 2));
    let (root, other) = (area(0), area(1));
    assert_eq!(broadcast(&root, &memory_of(100)).run(), Progress::Over);
    let received = Memory::zeroed(3 * CAPACITY);
    let mut receiving = broadcast(&other, &received);
    assert_eq!(receiving.run(), Progress::Differs(0));
    assert_eq!(received.to_vec(), vec![0; 3 * CAPACITY]);
    let Failure::Differs { calls, phase: 0 } = receiving.failure(0) else {
        panic!("{:?}", receiving.failure(0));
    };
    assert_eq!(calls.map(|(rank, _)| rank), [0, 1]);
}

#[test]
fn operations_before_a_failure_are_done() {
    let memory = Memory::zeroed(len(3));
    let area = |rank| Arc::new(Area::new(memory.clone(), rank, 3));
    let all = Vec::from_iter((0..3).map(area));
    let begin = |rank: usize, number: u64, what: What| {
        let call = call::Call::new(Function::Barrier, 0);
        Operation::new(Arc::clone(&all[rank]), (number, call), (what, None))
    };
    let agreement = begin(0, 0, What::Agreement);
    let mut barrier = begin(0, 1, What::Barrier);
    assert_eq!(barrier.run(), Progress::Waits);
    let calls = [1, 2].map(|rank| (rank, call::Call::new(Function::Bcast, 8)));
    all[2].report(&Failure::Differs { calls, phase: 2 }, 2);
    assert!(!agreement.comes_too_late() && !barrier.fails());
    assert!(all[0].is_too_late());
    for rank in [1, 2] {
        begin(rank, 0, What::Agreement).run();
        begin(rank, 1, What::Barrier).run();
    }
    assert_eq!(barrier.run(), Progress::Over);
    assert!(begin(0, 2, What::Agreement).comes_too_late());
}

/// A process that gives an operation up changes its memory before another one has read it.
#[test]
fn bytes_of_a_process_that_has_given_up_are_no_result() {
    let memory = Memory::zeroed(len(3));
    let all = [0, 1, 2].map(|rank| {
        let area = Area::new(memory.clone(), rank, 3);
        area.allow_reading();
        Arc::new(area)
    });
    // Longer than what is read at once.
    let blocks = [0_u8, 1, 2].map(|rank| Memory::from_vec(vec![rank; 20_000]));
    let mut operations = [0, 1, 2].map(|rank| {
        let area = &all[rank];
        let into = Memory::zeroed(60_000);
        let reading = Reading::gather(area, Some(blocks[rank].clone()), into);
        let what = What::Reading(reading.expect("memory"));
        let call = call::Call::new(Function::Allgather, 20_000);
        Operation::new(Arc::clone(area), (0, call), (what, None))
    });
    let published = operations.each_mut().map(|operation| operation.run());
    assert_eq!(
        published,
        [Progress::Waits, Progress::Waits, Progress::Moved]
    );
    // It has read a part of one block.
    assert_eq!(operations[1].run(), Progress::Moved);
    for rank in [0, 2] {
        while operations[rank].run() == Progress::Moved {}
        assert_eq!(operations[rank].run(), Progress::Waits);
    }
    assert!(!operations[1].comes_too_late());
    all[0].report(&Failure::Lost(2), 0);
    while operations[1].run() == Progress::Moved {}
    assert_eq!(operations[1].run(), Progress::Over);
    assert!(operations[1].comes_too_late());
}

#[test]
fn operations_by_messages_do_not_wait_for_the_calls_of_others_and_see_them_later() {
    let memory = Memory::zeroed(len(2));
    let all = [0, 1].map(|rank| Arc::new(Area::new(memory.clone(), rank, 2)));
    let begin = |rank: usize, bytes| {
        let call = call::Call::new(Function::Allreduce, bytes).by_messages();
        let operation = Operation::new(Arc::clone(&all[rank]), (0, call), (What::Agreement, None));
        (operation.agreed(), operation)
    };
    let (agreed, mut operation) = begin(0, 1 << 20);
    assert_eq!(operation.run(), Progress::Over);
    assert_eq!(agreed.failure(), None);
    let (_, mut other) = begin(1, 1 << 21);
    assert_eq!(other.run(), Progress::Differs(0));
    let Some(Failure::Differs { calls, phase: 0 }) = agreed.failure() else {
        panic!("{:?}", agreed.failure());
    };
    assert_eq!(calls.map(|(rank, _)| rank), [0, 1]);
}

#[test]
fn calls_that_are_earlier_or_later_in_the_order_of_all_operations_are_others() {
    let memory = Memory::zeroed(len(2));
    let area = |rank| Arc::new(Area::new(memory.clone(), rank, 2));
    let begin = |area: Arc<Area>, number| {
        let call = call::Call::new(Function::Barrier, 0);
        Operation::new(area, (number, call), (What::Barrier, None))
    };
    // Rank 1 has begun an operation by messages before.
    let (mut one, mut other) = (begin(area(0), 4), begin(area(1), 5));
    assert_eq!(one.run(), Progress::Waits);
    assert_eq!(other.run(), Progress::Differs(0));
    assert_eq!(one.run(), Progress::Differs(1));
    assert_eq!(one.find_other_call(), Some(1));
}
