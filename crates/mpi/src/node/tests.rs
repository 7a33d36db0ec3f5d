//! Operations of several processes in one memory, in any order of their steps, against a reference that computes one element after the other.

use std::ops::Range;
use std::sync::Arc;

use causeway_engine::Memory;
use proptest::prelude::*;

use super::area::{Area, CAPACITY, DEPTH, len};
use super::call::{self, Function};
use super::failure::Failure;
use super::operation::{Operation, Progress, What};
use super::parts::Parts;
use super::reading::Reading;
use super::uneven::{self, Left, Side, TooLong, Uneven};
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
    ReadGatherUneven,
    GatherUneven,
    GatherUnevenToAll,
    ScatterUneven,
    ExchangeUneven,
    Scan,
    ScanExclusive,
}

const KINDS: [Kind; 19] = [
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
    Kind::ReadGatherUneven,
    Kind::GatherUneven,
    Kind::GatherUnevenToAll,
    Kind::ScatterUneven,
    Kind::ExchangeUneven,
    Kind::Scan,
    Kind::ScanExclusive,
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
    left: Left,
}

/// Elements of the block from one rank for another one, in operations on blocks of any lengths; those of a gather depend on the sender only.
fn len_of(call: &Call, from: u32, to: u32) -> usize {
    let divisor = (from + to + call.root) % 4;
    if divisor == 0 {
        0
    } else {
        call.count / divisor as usize
    }
}

/// Places of blocks of so many elements, with a gap before each, in bytes, and the elements of all.
fn places(lens: impl Iterator<Item = usize>) -> (Vec<Range<usize>>, usize) {
    let mut end = 0;
    let places = lens.map(|len| {
        let start = end + 1;
        end = start + len;
        start * 8..end * 8
    });
    (places.collect(), end)
}

/// Whether a block is in the slot of its sender: one that is gathered if a slot has room for it, and otherwise if there is room behind those of lower ranks.
fn is_in_slot(call: &Call, ranks: u32, from: u32, to: u32) -> bool {
    if let Kind::GatherUneven | Kind::GatherUnevenToAll = call.kind {
        return len_of(call, from, 0) * 8 <= CAPACITY;
    }
    if let (Kind::ExchangeUneven, true) = (call.kind, call.in_place) {
        return false;
    }
    let mut room = CAPACITY - ranks.div_ceil(2) as usize * 8;
    let others = (0..=to).filter(|rank| *rank != from);
    let fits = others.map(|rank| {
        let len = len_of(call, from, rank) * 8;
        let fits = len <= room;
        room -= if fits { len } else { 0 };
        fits
    });
    fits.last().unwrap_or(true)
}

/// An operation on blocks of any lengths: what this process does, the place of its result, the expected result, and what is left to messages.
fn begin_uneven(area: &Area, at: usize, call: &Call) -> (What, Memory, Vec<u64>, Left) {
    let (rank, ranks) = (area.rank, area.ranks);
    let (kind, has_root) = match call.kind {
        Kind::GatherUneven => (uneven::Kind::Gather, true),
        Kind::GatherUnevenToAll => (uneven::Kind::Gather, false),
        Kind::ScatterUneven => (uneven::Kind::Scatter, true),
        _ => (uneven::Kind::Scatter, false),
    };
    let gathers = kind == uneven::Kind::Gather;
    let root = has_root.then_some(call.root % ranks);
    let in_place = call.in_place && root.is_none_or(|root| root == rank);
    let moves = |from: u32, to: u32| {
        let end = if gathers { to } else { from };
        root.is_none_or(|root| root == end)
    };
    // The block that one sends to all in a gather is the one for rank 0.
    let block = |from: u32, to: u32| {
        let to = if gathers { 0 } else { to };
        let len = if moves(from, to) || gathers {
            len_of(call, from, to)
        } else {
            0
        };
        Vec::from_iter((0..len).map(|place| value(at, from * 64 + to, place)))
    };
    let mut left = Left::NONE;
    let received = (0..ranks).map(|from| {
        if moves(from, rank) {
            block(from, rank).len()
        } else {
            0
        }
    });
    let (into_places, len) = places(received);
    let (mut before, mut result) = (vec![7; len], vec![7; len]);
    for from in (0..ranks).filter(|from| moves(*from, rank)) {
        let Range { start, end } = into_places[from as usize];
        let place = start / 8..end / 8;
        let own = from == rank;
        if own && in_place && gathers {
            before[place.clone()].copy_from_slice(&block(from, rank));
        }
        if own && (gathers || !in_place) || !own && is_in_slot(call, ranks, from, rank) {
            result[place].copy_from_slice(&block(from, rank));
        } else if !own {
            left.from |= 1 << from;
        }
    }
    for to in (0..ranks).filter(|to| *to != rank && moves(rank, *to)) {
        if !is_in_slot(call, ranks, rank, to) {
            left.to |= 1 << to;
        }
    }
    let from = match gathers {
        true => (!in_place).then(|| Side::one(memory(block(rank, 0).into_iter()))),
        false => {
            let (places, len) = places((0..ranks).map(|to| block(rank, to).len()));
            let mut all = vec![9; len];
            for (to, place) in (0..ranks).zip(&places) {
                all[place.start / 8..place.end / 8].copy_from_slice(&block(rank, to));
            }
            let sends = (0..ranks).any(|to| moves(rank, to)) && (has_root || !in_place);
            sends.then(|| Side::at(memory(all.into_iter()), places))
        }
    };
    let into = memory(before.into_iter());
    let receives = (0..ranks).any(|from| moves(from, rank)) && (gathers || !has_root || !in_place);
    let side = receives.then(|| match root {
        Some(root) if !gathers => Side::one(into.slice(into_places[root as usize].clone())),
        _ => Side::at(into.clone(), into_places),
    });
    let what = What::Uneven(Uneven::new(kind, root, from, side));
    (what, into, result, left)
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
    let mut left = Left::NONE;
    let (what, into, expected, operands) = match call.kind {
        Kind::GatherUneven
        | Kind::GatherUnevenToAll
        | Kind::ScatterUneven
        | Kind::ExchangeUneven => {
            let (what, into, expected, rest) = begin_uneven(area, at, &call);
            left = rest;
            (what, into, expected, nothing(0))
        }
        Kind::ReadGatherUneven => {
            let lens = (0..ranks).map(|from| len_of(&call, from, 0));
            let (places, len) = places(lens);
            let mut expected = vec![7; len];
            for (from, place) in (0..ranks).zip(&places) {
                let words = &mut expected[place.start / 8..place.end / 8];
                let values = (0..).map(|place| value(at, from, place));
                words
                    .iter_mut()
                    .zip(values)
                    .for_each(|(word, value)| *word = value);
            }
            let place = places[rank as usize].clone();
            let (into, block) = (nothing(len), own(place.len() / 8));
            if call.in_place {
                into.slice(place.clone()).copy_from(&block);
            }
            let operands = match call.in_place {
                true => into.slice(place),
                false => block.clone(),
            };
            let side = Side::at(into.clone(), places);
            let from = (!call.in_place).then_some(block);
            let reading = Reading::gather_uneven(rank, from, side);
            (What::Reading(reading), into, expected, operands)
        }
        Kind::Scan | Kind::ScanExclusive => {
            let is_exclusive = matches!(call.kind, Kind::ScanExclusive);
            let (from, into) = sides(count);
            let summed = rank + u32::from(!is_exclusive);
            let expected = match summed {
                0 => values(&into),
                _ => Vec::from_iter((0..count).map(|place| sum(at, summed, place))),
            };
            let what = What::Scan {
                from,
                into: into.clone(),
                kernel: kernel(),
                is_exclusive,
            };
            (what, into, expected, nothing(0))
        }
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
        Kind::GatherUneven => Function::Gatherv,
        Kind::GatherUnevenToAll | Kind::ReadGatherUneven => Function::Allgatherv,
        Kind::ScatterUneven => Function::Scatterv,
        Kind::ExchangeUneven => Function::Alltoallv,
        Kind::Scan => Function::Scan,
        Kind::ScanExclusive => Function::Exscan,
    };
    let called = call::Call::new(function, count as u64).with_root(root);
    let operation = Operation::new(Arc::clone(area), (at as u64, called), (what, None));
    Doing {
        operation,
        into,
        expected,
        before: values(&operands),
        operands,
        left,
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
            false => {
                let found = (values(&done.into), done.operation.left());
                let expected = (done.expected, done.left);
                assert_eq!(found, expected, "call {}: {call:?}", self.at);
            }
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
        (operation.agreed(Left::ALL), operation)
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

/// What is received is never longer than the memory for it, and both lengths are in the error.
#[test]
fn a_block_that_is_too_long_is_refused() {
    let memory = Memory::zeroed(len(2));
    let area = |rank| Arc::new(Area::new(memory.clone(), rank, 2));
    let call = call::Call::new(Function::Gatherv, 0).with_root(1);
    let begin = |rank, from, into| {
        let uneven = Uneven::new(uneven::Kind::Gather, Some(1), from, into);
        Operation::new(area(rank), (0, call), (What::Uneven(uneven), None))
    };
    let mut sending = begin(0, Some(Side::one(memory_of(100))), None);
    assert_eq!(sending.run(), Progress::Over);
    let received = Memory::zeroed(120);
    let into = Side::at(received.clone(), vec![0..99, 110..120]);
    let mut receiving = begin(1, Some(Side::one(memory_of(10))), Some(into));
    let too_long = TooLong {
        rank: 0,
        sent: 100,
        room: 99,
    };
    assert_eq!(receiving.run(), Progress::TooLong(too_long));
    assert_eq!(received.to_vec(), vec![0; 120]);
    let Failure::Differs { calls, .. } = receiving.failure_of_length(too_long) else {
        panic!("{:?}", receiving.failure_of_length(too_long));
    };
    let texts = calls.map(|(_, call)| call.in_words());
    assert_eq!(texts[0], "MPI_Gatherv (root 1, a block of 100 bytes)");
    assert_eq!(texts[1], "MPI_Gatherv (root 1, a block of 99 bytes)");
    assert_eq!(calls[0].1.class(calls[1].1), crate::abi::ERR_TRUNCATE);
}

/// A process that writes anything into its slot has nothing read that is not in it.
#[test]
fn lengths_of_blocks_are_not_trusted() {
    let (ranks, call) = (3, call::Call::new(Function::Alltoallv, 0));
    let words = [
        0,
        1,
        40,
        41,
        8192,
        8193,
        u64::MAX - 1,
        u64::MAX,
        1 << 32,
        u64::from(u32::MAX),
    ];
    for (first, second) in words
        .iter()
        .flat_map(|one| words.map(|other| (*one, other)))
    {
        for kind in [uneven::Kind::Gather, uneven::Kind::Scatter] {
            let memory = Memory::zeroed(len(ranks));
            let area = |rank| Arc::new(Area::new(memory.clone(), rank, ranks));
            let (own, liar) = (area(2), [area(0), area(1)]);
            for area in &liar {
                for offset in [8, 64 - 16, 64 - 8] {
                    area.set_word(area.payload(area.rank, 0, 0) + offset, second);
                }
                area.set_word(area.payload(area.rank, 0, 0), first);
                area.publish(0, call.numbered(0));
            }
            let into = Side::at(Memory::zeroed(3 * CAPACITY), vec![0..CAPACITY; 3]);
            let uneven = Uneven::new(kind, None, None, Some(into));
            let mut operation = Operation::new(own, (0, call), (What::Uneven(uneven), None));
            assert!(matches!(
                operation.run(),
                Progress::Over | Progress::TooLong(_)
            ));
        }
    }
}
