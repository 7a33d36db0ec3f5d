//! Remote memory: lists of fragments with one completion, notify packets, mapping.

use std::collections::HashMap;
use std::time::Instant;

use causeway_sys::memory::Memory;
use causeway_transport::{Access, Direction, Method, SendError, TransferError};
use causeway_wire::region::RegionDescriptor;

use super::Factory;
use super::node::{List, Node, Pair};
use crate::patience::Patience;
use crate::random::{Random, seed};

const BOTH: [Direction; 2] = [Direction::Get, Direction::Put];

/// Cuts `memory` into at most `most` fragments in order.
fn fragments(memory: &Memory, random: &mut Random, most: usize) -> Vec<Memory> {
    let mut at = 0;
    let cut = |len| {
        let part = memory.slice(at..at + len);
        at += len;
        part
    };
    random
        .cut(memory.len(), most)
        .into_iter()
        .map(cut)
        .collect()
}

/// Cuts `region` into at most `most` descriptors in order.
fn parts(region: &RegionDescriptor, random: &mut Random, most: usize) -> Vec<RegionDescriptor> {
    let mut at = 0;
    let cut = |len| {
        let part = region.part(at, len as u64);
        at += len as u64;
        part
    };
    let lens = random.cut(region.len as usize, most);
    lens.into_iter().map(cut).collect()
}

/// Random bytes of `len`, as memory and as the vector they came from.
fn content(seed: u64, len: usize) -> (Memory, Vec<u8>) {
    let bytes = Random::new(seed).bytes(len);
    (Memory::from_vec(bytes.clone()), bytes)
}

/// Moves `len` bytes each way in one fragment and checks every byte and its neighbours.
fn move_plainly<F: Factory>(pair: &mut Pair<F::Method>, len: usize) {
    const MARGIN: usize = 64;
    for direction in BOTH {
        let (ours, ours_before) = content(1, len + 2 * MARGIN);
        let (theirs, theirs_before) = content(2, len + 2 * MARGIN);
        let inner = theirs.slice(MARGIN..MARGIN + len);
        let region = pair.b.export(pair.to_a, &inner, Access::ReadWrite);
        let local = ours.slice(MARGIN..MARGIN + len);
        let list = List::simple(direction, &local, region);
        assert_eq!(pair.a_transfers(&list), Ok(()), "{direction:?} {len}");
        let (from, mut expected, to) = match direction {
            Direction::Get => (&theirs_before, ours_before.clone(), &ours),
            Direction::Put => (&ours_before, theirs_before.clone(), &theirs),
        };
        expected[MARGIN..MARGIN + len].copy_from_slice(&from[MARGIN..MARGIN + len]);
        assert!(to.to_vec() == expected, "{direction:?} of {len} bytes");
        pair.b.method.revoke(pair.to_a, region.key);
    }
}

/// Every size around powers of two, both directions, nothing beside the range is touched.
pub fn move_every_byte_both_ways<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let piece = pair.a.method.limits().max_piece;
    let mut sizes = vec![
        1, 2, 3, 7, 8, 63, 64, 65, 4095, 4096, 4097, 65_535, 65_536, 65_537,
    ];
    let near = piece.min(4 << 20);
    sizes.extend([near - 1, near, near + 1, 2 * near + 1]);
    for size in sizes {
        move_plainly::<F>(&mut pair, size);
    }
    pair.still_works();
}

/// Local and remote lists are cut at different places, with empty fragments among them, over
/// several exports in a random order.
pub fn with_mismatched_fragments<F: Factory>(factory: &F) {
    const EXPORTS: usize = 3;
    let mut pair = Pair::new(factory);
    let longest = pair.a.method.limits().max_list;
    let mut random = Random::new(seed(2));
    for round in 0..60 {
        // One more for the end of each export.
        let most = (1 << random.below(9)).min(longest / EXPORTS - 1);
        let direction = BOTH[random.below(2)];
        let spans: Vec<_> = (0..EXPORTS)
            .map(|_| {
                let len = random.spread(19) + 1;
                let theirs = Memory::from_vec(random.bytes(len));
                let region = pair.b.export(pair.to_a, &theirs, Access::ReadWrite);
                (theirs, region)
            })
            .collect();
        let total = spans.iter().map(|(memory, _)| memory.len()).sum();
        let ours = Memory::from_vec(random.bytes(total));
        let mut remote = Vec::new();
        for (_, region) in &spans {
            remote.extend(parts(region, &mut random, most));
        }
        let list = List {
            direction,
            local: fragments(&ours, &mut random, most),
            remote,
            notify: None,
        };
        let theirs_before: Vec<u8> = spans.iter().flat_map(|(m, _)| m.to_vec()).collect();
        let expected = match direction {
            Direction::Get => theirs_before,
            Direction::Put => ours.to_vec(),
        };
        assert_eq!(pair.a_transfers(&list), Ok(()), "round {round}");
        let theirs_after: Vec<u8> = spans.iter().flat_map(|(m, _)| m.to_vec()).collect();
        assert!(ours.to_vec() == expected, "round {round}, here");
        assert!(theirs_after == expected, "round {round}, there");
        for (_, region) in spans {
            pair.b.method.revoke(pair.to_a, region.key);
        }
    }
}

/// Fragments in an order that is neither ascending nor contiguous, thousands of them, one
/// completion.
pub fn of_thousands_of_fragments<F: Factory>(factory: &F) {
    const BYTES: usize = 32;
    let mut pair = Pair::new(factory);
    let count = pair.a.method.limits().max_list.min(20_000);
    let mut random = Random::new(seed(3));
    let mut order: Vec<usize> = (0..count).collect();
    for index in (1..count).rev() {
        order.swap(index, random.below(index + 1));
    }
    for direction in BOTH {
        let (ours, ours_before) = content(31, count * BYTES);
        let (theirs, theirs_before) = content(32, count * BYTES);
        let region = pair.b.export(pair.to_a, &theirs, Access::ReadWrite);
        let list = List {
            direction,
            local: (0..count)
                .map(|index| ours.slice(index * BYTES..(index + 1) * BYTES))
                .collect(),
            remote: (order.iter())
                .map(|index| region.part((index * BYTES) as u64, BYTES as u64))
                .collect(),
            notify: Some(b"all of them".to_vec()),
        };
        assert_eq!(pair.a_transfers(&list), Ok(()));
        assert_eq!(pair.b_receives().1, b"all of them");
        let (ours, theirs) = (ours.to_vec(), theirs.to_vec());
        for (index, there) in order.iter().enumerate() {
            let (here, there) = (index * BYTES, there * BYTES);
            let expected = match direction {
                Direction::Get => &theirs_before[there..there + BYTES],
                Direction::Put => &ours_before[here..here + BYTES],
            };
            assert_eq!(&ours[here..here + BYTES], expected, "fragment {index} here");
            assert_eq!(
                &theirs[there..there + BYTES],
                expected,
                "fragment {index} there"
            );
        }
        pair.b.method.revoke(pair.to_a, region.key);
    }
    pair.still_works();
}

/// Several MiB in one list, more than any queue or socket buffer holds.
pub fn of_many_megabytes<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    move_plainly::<F>(&mut pair, (24 << 20) + 13);
    pair.still_works();
}

/// No fragments, and fragments without bytes, complete with success, and notify.
pub fn of_nothing_complete<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let theirs = Memory::from_vec(vec![5; 100]);
    let region = pair.b.export(pair.to_a, &theirs, Access::ReadWrite);
    let ours = Memory::zeroed(100);
    for direction in BOTH {
        let nothing = List {
            direction,
            local: Vec::new(),
            remote: Vec::new(),
            notify: None,
        };
        assert_eq!(pair.a_transfers(&nothing), Ok(()));
        let hollow = List {
            direction,
            local: vec![ours.slice(10..10), ours.slice(100..100)],
            remote: vec![region.part(0, 0), region.part(50, 0), region.part(100, 0)],
            notify: Some(b"hollow".to_vec()),
        };
        assert_eq!(pair.a_transfers(&hollow), Ok(()));
        assert_eq!(pair.b_receives().1, b"hollow");
        assert_eq!(pair.a_transfers(&nothing.notifying(b"")), Ok(()));
        assert_eq!(pair.b_receives().1, b"");
    }
    // An export of no bytes is nevertheless an export.
    let empty = pair
        .b
        .export(pair.to_a, &Memory::zeroed(0), Access::ReadWrite);
    let list = List::simple(Direction::Get, &ours.slice(0..0), empty);
    assert_eq!(pair.a_transfers(&list), Ok(()));
    assert_eq!(ours.to_vec(), vec![0; 100]);
    assert_eq!(theirs.to_vec(), vec![5; 100]);
}

/// Lists of different lengths fail before a byte moves.
pub fn of_unequal_lengths_fail<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let theirs = Memory::from_vec(vec![5; 100]);
    let region = pair.b.export(pair.to_a, &theirs, Access::ReadWrite);
    let ours = Memory::from_vec(vec![1; 101]);
    for direction in BOTH {
        for len in [0, 99, 101] {
            let list = List::simple(direction, &ours.slice(0..len), region).notifying(b"never");
            let mismatch = TransferError::Length {
                local: len as u64,
                remote: 100,
            };
            assert_eq!(
                pair.a_transfers(&list),
                Err(mismatch),
                "{direction:?} {len}"
            );
        }
        // Lengths whose sum overflows are equal to no length.
        let mut huge = region;
        huge.len = u64::MAX;
        let mut list = List::simple(direction, &ours, huge);
        list.remote.push(huge);
        assert!(pair.a_transfers(&list).is_err());
    }
    pair.still_works();
    assert_eq!(ours.to_vec(), vec![1; 101]);
    assert_eq!(theirs.to_vec(), vec![5; 100]);
}

/// The side that was connected to may start transfers as well.
pub fn started_by_the_accepting_side<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    for len in [1, 100, 5000, 3 << 20] {
        for direction in BOTH {
            let (theirs, _) = content(7, len);
            let (ours, _) = content(8, len);
            let region = pair.a.export(pair.to_b, &theirs, Access::ReadWrite);
            let expected = match direction {
                Direction::Get => theirs.to_vec(),
                Direction::Put => ours.to_vec(),
            };
            let list = List::simple(direction, &ours, region).notifying(b"landed");
            assert_eq!(pair.b_transfers(&list), Ok(()));
            assert_eq!(pair.a_receives(), (pair.to_b, b"landed".to_vec()));
            assert!(ours.to_vec() == expected && theirs.to_vec() == expected);
            pair.a.method.revoke(pair.to_b, region.key);
        }
    }
}

/// When the notify packet of a transfer is seen, its last byte has landed; packets that were sent
/// before the transfer started come before it, those sent after it completed come after it.
pub fn notify_after_the_bytes_and_in_order<F: Factory>(factory: &F) {
    const ROUNDS: u64 = 300;
    let mut pair = Pair::new(factory);
    let mut random = Random::new(seed(4));
    let theirs = Memory::zeroed(1 << 20);
    let region = pair.b.export(pair.to_a, &theirs, Access::ReadWrite);
    for round in 1..=ROUNDS {
        let len = 8 + random.spread(20);
        let direction = BOTH[random.below(2)];
        let mut bytes = random.bytes(len);
        bytes[len - 8..].copy_from_slice(&round.to_le_bytes());
        let ours = Memory::from_vec(bytes.clone());
        let list = List::simple(direction, &ours, region.part(0, len as u64))
            .notifying(&round.to_le_bytes());
        let mut patience = Patience::new("a transfer, its notify packet and a later packet");
        pair.a_sends(b"before");
        while pair.a.try_transfer(pair.to_b, &list).is_none() {
            pair.step();
            patience.spend();
        }
        let mut checked = direction == Direction::Get;
        while pair.a.seen.done.is_empty() || !checked {
            pair.step();
            if !checked && pair.b.seen.packets.len() == 2 {
                let there = theirs.slice(0..len).to_vec();
                assert!(
                    there == bytes,
                    "the bytes were there before the notify packet"
                );
                checked = true;
            }
            patience.spend();
        }
        assert_eq!(
            pair.a.seen.done.pop_front().map(|(_, result)| result),
            Some(Ok(()))
        );
        pair.a_sends(b"after");
        assert_eq!(pair.b_receives().1, b"before");
        let (_, notify) = pair.b_receives();
        assert_eq!(notify, round.to_le_bytes(), "the notify packet is next");
        assert_eq!(pair.b_receives().1, b"after");
    }
}

/// As many transfers as the method takes, of all sizes, in progress at once; each completes once.
pub fn many_at_once_complete_each_once<F: Factory>(factory: &F) {
    const TRANSFERS: usize = 400;
    let mut pair = Pair::new(factory);
    let mut random = Random::new(seed(5));
    let theirs = Memory::from_vec(random.bytes(1 << 20));
    let region = pair.b.export(pair.to_a, &theirs, Access::Read);
    let mut waiting = HashMap::new();
    let mut patience = Patience::new("many transfers complete");
    let (mut started, mut completed) = (0, 0);
    while completed < TRANSFERS {
        while started < TRANSFERS {
            let len = random.spread(18);
            let offset = random.below(theirs.len() - len);
            let ours = Memory::zeroed(len);
            let remote = region.part(offset as u64, len as u64);
            let list = List::simple(Direction::Get, &ours, remote);
            let Some(token) = pair.a.try_transfer(pair.to_b, &list) else {
                break;
            };
            waiting.insert(token, (ours, offset));
            started += 1;
        }
        pair.step();
        while let Some((token, result)) = pair.a.seen.done.pop_front() {
            assert_eq!(result, Ok(()));
            let (ours, offset) = waiting.remove(&token).expect("its own token");
            let expected = theirs.slice(offset..offset + ours.len()).to_vec();
            assert!(ours.to_vec() == expected, "transfer {token}");
            completed += 1;
        }
        patience.spend();
    }
    pair.settle();
    assert_eq!(pair.a.in_progress(), 0);
    assert!(pair.a.seen.done.is_empty());
}

/// Remote memory of the own process.
pub fn to_oneself<F: Factory>(factory: &F) {
    let (mut node, address) = Node::listening(factory);
    let me = node.connect(&address);
    let mut patience = Patience::new("a process reaches its own memory");
    while !node.try_send(me, b"hello") {
        node.step();
        patience.spend();
    }
    let from = loop {
        if let Some((peer, _)) = node.packet() {
            break peer;
        }
        node.step();
        patience.spend();
    };
    for direction in BOTH {
        let (theirs, _) = content(9, 2 << 20);
        let (ours, _) = content(10, 2 << 20);
        let region = node.export(from, &theirs, Access::ReadWrite);
        let expected = match direction {
            Direction::Get => theirs.to_vec(),
            Direction::Put => ours.to_vec(),
        };
        let list = List::simple(direction, &ours, region).notifying(b"mine");
        while node.try_transfer(me, &list).is_none() {
            node.step();
            patience.spend();
        }
        while node.seen.done.is_empty() || node.seen.packets.is_empty() {
            node.step();
            patience.spend();
        }
        assert_eq!(
            node.seen.done.pop_front().map(|(_, result)| result),
            Some(Ok(()))
        );
        assert_eq!(node.packet(), Some((from, b"mine".to_vec())));
        assert!(ours.to_vec() == expected && theirs.to_vec() == expected);
        node.method.revoke(from, region.key);
    }
}

/// Transfers between memory of the method's and ordinary memory, on either side or both, of odd sizes from odd
/// places, in progress at once: every byte arrives and none beside them changes.
pub fn of_allocated_memory_on_either_side<F: Factory>(factory: &F) {
    const MARGIN: usize = 4096;
    let mut pair = Pair::new(factory);
    let mut random = Random::new(seed(12));
    let mut running = HashMap::new();
    for (round, len) in [1, 5000, 24_577, 65_535, 300_001, 1_048_579, 4_200_003]
        .into_iter()
        .enumerate()
    {
        for (direction, here, there) in [
            (Direction::Get, true, true),
            (Direction::Put, true, true),
            (Direction::Get, true, false),
            (Direction::Put, true, false),
            (Direction::Get, false, true),
            (Direction::Put, false, true),
        ] {
            let start = 1 + random.below(MARGIN - 1);
            let mut memory = |node: &mut Node<F::Method>, allocated, start: usize| {
                let bytes = random.bytes(start + len + MARGIN);
                let memory = if allocated {
                    let memory = node.method.allocate(bytes.len()).expect("some memory");
                    memory.write_at(0, &bytes);
                    memory
                } else {
                    Memory::from_vec(bytes.clone())
                };
                (memory, bytes)
            };
            let (ours, ours_before) = memory(&mut pair.a, here, start);
            let (theirs, theirs_before) = memory(&mut pair.b, there, round);
            let exported = theirs.slice(round..round + len);
            let region = pair.b.export(pair.to_a, &exported, Access::ReadWrite);
            let list = List::simple(direction, &ours.slice(start..start + len), region);
            let mut patience = Patience::new("the transfer is taken");
            let token = loop {
                if let Some(token) = pair.a.try_transfer(pair.to_b, &list) {
                    break token;
                }
                pair.step();
                patience.spend();
            };
            let (mut ours_after, mut theirs_after) = (ours_before.clone(), theirs_before.clone());
            match direction {
                Direction::Get => ours_after[start..start + len]
                    .copy_from_slice(&theirs_before[round..round + len]),
                Direction::Put => theirs_after[round..round + len]
                    .copy_from_slice(&ours_before[start..start + len]),
            }
            running.insert(token, (ours, ours_after, theirs, theirs_after, region.key));
        }
    }
    let mut patience = Patience::new("all transfers complete");
    while !running.is_empty() {
        pair.step();
        while let Some((token, result)) = pair.a.seen.done.pop_front() {
            assert_eq!(result, Ok(()));
            let (ours, ours_after, theirs, theirs_after, key) =
                running.remove(&token).expect("its own token");
            assert!(ours.to_vec() == ours_after, "transfer {token}, here");
            assert!(theirs.to_vec() == theirs_after, "transfer {token}, there");
            pair.b.method.revoke(pair.to_a, key);
        }
        patience.spend();
    }
    pair.still_works();
}

/// Memory that the method allocated: zeroed, of the requested size, usable for transfers; where the
/// peer can map it, both see each other's writes; where not, the report names the reason.
pub fn of_allocated_memory_and_mapping<F: Factory>(factory: &F) {
    const LEN: usize = 300_000;
    let mut pair = Pair::new(factory);
    let theirs = pair.b.method.allocate(LEN).expect("300 kB");
    assert_eq!(theirs.len(), LEN);
    assert!(theirs.to_vec() == vec![0; LEN], "fresh memory is zero");
    let bytes = Random::new(11).bytes(LEN);
    theirs.write_at(0, &bytes);
    let region = pair.b.export(pair.to_a, &theirs, Access::ReadWrite);
    let ours = pair.a.method.allocate(LEN).expect("300 kB");
    let list = List::simple(Direction::Get, &ours, region);
    assert_eq!(pair.a_transfers(&list), Ok(()));
    assert!(ours.to_vec() == bytes);
    // A slice of allocated memory is mapped at its own offset.
    let slice = theirs.slice(100_001..100_101);
    let inner = pair.b.export(pair.to_a, &slice, Access::ReadWrite);
    let list = List::simple(Direction::Put, &Memory::from_vec(vec![9; 100]), inner);
    assert_eq!(pair.a_transfers(&list), Ok(()));
    let mut expected = bytes.clone();
    expected[100_001..100_101].fill(9);
    assert!(theirs.to_vec() == expected);

    let mut patience = Patience::new("mapping is decided");
    let mapped = loop {
        // A method may need a moment to fetch the memory that it maps.
        let mapped = pair.a.method.map(pair.to_b, &region);
        if mapped.is_some() || patience.left() < crate::patience::GENEROUS.mul_f64(0.99) {
            break mapped;
        }
        pair.step();
        patience.spend();
    };
    let maps = pair.a.method.capabilities().maps_memory;
    assert_eq!(mapped.is_some(), maps, "as the method states");
    if let Some(mapped) = mapped {
        assert!(mapped.to_vec() == expected, "a mapping shows what is there");
        mapped.write_at(5, b"from afar");
        let mut near = [0; 9];
        theirs.read_at(5, &mut near);
        assert_eq!(&near, b"from afar");
        theirs.write_at(50, b"from near");
        mapped.read_at(50, &mut near);
        assert_eq!(&near, b"from near");
        let inner = pair.a.method.map(pair.to_b, &inner).expect("as the whole");
        assert_eq!(inner.to_vec(), vec![9; 100]);
    } else {
        let report = pair.a.method.report(pair.to_b).expect("a report on a peer");
        assert!(!report.facts.is_empty(), "the reason is on record");
    }
    // Ordinary memory is in no object; where it can be mapped nevertheless, the mapping has the same bytes.
    let plain = pair.b.export(
        pair.to_a,
        &Memory::from_vec(vec![7; 100]),
        Access::ReadWrite,
    );
    assert!(plain.object.is_none());
    if let Some(mapped) = pair.a.method.map(pair.to_b, &plain) {
        assert_eq!(mapped.to_vec(), vec![7; 100]);
    }
    // Zero bytes can be allocated, and an absurd amount is refused, not fatal.
    assert_eq!(pair.a.method.allocate(0).expect("nothing").len(), 0);
    assert!(pair.a.method.allocate(usize::MAX / 2).is_err());
    pair.still_works();
}

/// A notify packet above the limit is refused as a packet would be, before anything moves.
pub fn with_a_notify_too_large<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let limit = pair.a.method.limits().max_packet;
    let theirs = Memory::zeroed(100);
    let region = pair.b.export(pair.to_a, &theirs, Access::Write);
    let ours = Memory::from_vec(vec![1; 100]);
    let list = List::simple(Direction::Put, &ours, region);
    let too_large = list.clone().notifying(&vec![3; limit + 1]);
    assert_eq!(
        pair.a.offer(pair.to_b, &too_large),
        Err(SendError::TooLarge {
            len: limit + 1,
            limit
        })
    );
    pair.settle();
    assert_eq!(theirs.to_vec(), vec![0; 100]);
    let largest = list.notifying(&vec![3; limit]);
    assert_eq!(pair.a_transfers(&largest), Ok(()));
    assert!(pair.b_receives().1 == vec![3; limit]);
    assert_eq!(theirs.to_vec(), vec![1; 100]);
}

/// A list of more fragments than the method states is refused, before anything moves; the longest is not.
pub fn too_long_are_refused<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let limit = pair.a.method.limits().max_list;
    assert!(limit >= 1);
    if limit > 100_000 {
        return; // what no test can reach needs no refusal
    }
    let theirs = Memory::zeroed(limit + 1);
    let region = pair.b.export(pair.to_a, &theirs, Access::Write);
    let ours = Memory::from_vec(vec![1; limit + 1]);
    let bytes = |count: usize| {
        let spans = (0..count).map(|at| ours.slice(at..at + 1)).collect();
        (spans, vec![region.part(0, count as u64)])
    };
    let list = |(local, remote)| List {
        local,
        remote,
        ..List::simple(Direction::Put, &ours, region)
    };
    assert_eq!(
        pair.a.offer(pair.to_b, &list(bytes(limit + 1))),
        Err(SendError::ListTooLong {
            len: limit + 1,
            limit
        })
    );
    pair.settle();
    assert_eq!(theirs.to_vec(), vec![0; limit + 1]);
    assert_eq!(pair.a_transfers(&list(bytes(limit))), Ok(()));
    assert_eq!(theirs.to_vec()[..limit], vec![1; limit]);
}

/// Both sides read and write large memory of each other at the same time.
pub fn both_ways_between_two_peers_at_once<F: Factory>(factory: &F) {
    const LEN: usize = 4 << 20;
    let mut pair = Pair::new(factory);
    let (of_a, a_bytes) = content(21, LEN);
    let (of_b, b_bytes) = content(22, LEN);
    let in_a = pair.a.export(pair.to_b, &of_a, Access::Read);
    let in_b = pair.b.export(pair.to_a, &of_b, Access::Read);
    let (space_a, space_b) = (Memory::zeroed(LEN), Memory::zeroed(LEN));
    let to_a = pair.a.export(pair.to_b, &space_a, Access::Write);
    let to_b = pair.b.export(pair.to_a, &space_b, Access::Write);
    let (got_a, got_b) = (Memory::zeroed(LEN), Memory::zeroed(LEN));
    let mut a_todo = vec![
        List::simple(Direction::Get, &got_a, in_b),
        List::simple(Direction::Put, &of_a, to_b),
    ];
    let mut b_todo = vec![
        List::simple(Direction::Get, &got_b, in_a),
        List::simple(Direction::Put, &of_b, to_a),
    ];
    let mut patience = Patience::new("four large transfers cross");
    while pair.a.seen.done.len() + pair.b.seen.done.len() < 4 {
        a_todo.retain(|list| pair.a.try_transfer(pair.to_b, list).is_none());
        b_todo.retain(|list| pair.b.try_transfer(pair.to_a, list).is_none());
        pair.step();
        patience.spend();
    }
    let results = pair.a.seen.done.iter().chain(&pair.b.seen.done);
    assert!(results.into_iter().all(|(_, result)| result.is_ok()));
    assert!(got_a.to_vec() == b_bytes && space_a.to_vec() == b_bytes);
    assert!(got_b.to_vec() == a_bytes && space_b.to_vec() == a_bytes);
}

/// Bytes that were written at once have arrived when the call returns so, and the notification follows, in the order of packets;
/// a forbidden write is not reported as done, changes nothing, and no notification is sent.
pub fn written_at_once<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let (to_b, to_a) = (pair.to_b, pair.to_a);
    for len in [1, 4096, 16_384, 100_000] {
        let (ours, bytes) = content(len as u64, len);
        let theirs = Memory::zeroed(len);
        let mut exported = |access| pair.b.export(to_a, &theirs, access);
        let (open, readable, closed) = (
            exported(Access::Write),
            exported(Access::Read),
            exported(Access::Write),
        );
        pair.b.method.revoke(to_a, closed.key);
        let elsewhere = RegionDescriptor {
            base: open.base + 1,
            ..open
        };
        let a = &mut pair.a.method;
        for forbidden in [readable, closed, elsewhere] {
            assert!(!a.write_now(to_b, &ours, &forbidden, b"forbidden"));
        }
        let short = ours.slice(0..len - 1);
        assert!(!a.write_now(to_b, &short, &open, b"too short"));
        assert!(theirs.to_vec().iter().all(|byte| *byte == 0));
        pair.a_sends(b"before");
        let is_written = (pair.a.method).write_now(to_b, &ours, &open, b"written");
        pair.a_sends(b"behind");
        assert_eq!(pair.b_receives(), (to_a, b"before".to_vec()));
        if is_written {
            assert_eq!(pair.b_receives(), (to_a, b"written".to_vec()));
            assert!(theirs.to_vec() == bytes);
        }
        assert_eq!(pair.b_receives(), (to_a, b"behind".to_vec()));
        for key in [open.key, readable.key] {
            pair.b.method.revoke(to_a, key);
        }
        assert!(!(pair.a.method).write_now(to_b, &ours, &open, b"late"));
    }
    pair.still_works();
}

/// Memory is read and written while its owner does not poll exactly where the method states that.
pub fn reach_an_owner_that_does_not_poll<F: Factory>(factory: &F) {
    const LEN: usize = 100_000;
    /// Polls of the other side alone, after which a transfer that needs the owner has not gone on.
    const POLLS: usize = 1000;
    let mut pair = Pair::new(factory);
    for direction in [Direction::Get, Direction::Put] {
        let (ours, our_bytes) = content(1, LEN);
        let (theirs, their_bytes) = content(2, LEN);
        let region = pair.b.export(pair.to_a, &theirs, Access::ReadWrite);
        let list = List::simple(direction, &ours, region);
        let token = pair
            .a
            .try_transfer(pair.to_b, &list)
            .expect("there is room");
        if pair.a.method.capabilities().one_sided {
            let mut patience = Patience::new("a one-sided transfer completes");
            while pair.a.seen.done.is_empty() {
                pair.a.step();
                patience.spend();
            }
        } else {
            for _ in 0..POLLS {
                pair.a.step();
            }
            assert!(
                pair.a.seen.done.is_empty(),
                "{direction:?}: it is one-sided"
            );
            pair.step_until("a transfer completes", |pair| !pair.a.seen.done.is_empty());
        }
        assert_eq!(pair.a.seen.done.pop_front(), Some((token, Ok(()))));
        let moved = match direction {
            Direction::Get => their_bytes,
            Direction::Put => our_bytes,
        };
        assert!(
            ours.to_vec() == moved && theirs.to_vec() == moved,
            "{direction:?}"
        );
    }
    pair.still_works();
}

/// A method that does not state that it needs the exact time works with an old reading of the clock; one that states it measures
/// round trips.
pub fn need_the_exact_time_where_stated<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let (_, bytes) = content(3, 100);
    if pair.a.method.capabilities().exact_time {
        pair.a_sends(&bytes);
        assert_eq!(pair.b_receives(), (pair.to_a, bytes));
        pair.step_until("a round trip is measured", |pair| {
            let report = pair.a.method.report(pair.to_b).expect("a report");
            report.facts.iter().any(|(name, _)| *name == "round trip")
        });
        return;
    }
    let before = Instant::now();
    let theirs = Memory::zeroed(bytes.len());
    let region = pair.b.export(pair.to_a, &theirs, Access::ReadWrite);
    let put = List::simple(Direction::Put, &Memory::from_vec(bytes.clone()), region);
    for _ in 0..64 {
        let mut patience = Patience::new("packet and transfer end with time standing still");
        while !pair.a.try_send(pair.to_b, &bytes) {
            pair.a.method.poll(before, &mut pair.a.seen);
            pair.b.method.poll(before, &mut pair.b.seen);
            patience.spend();
        }
        let token = pair.a.try_transfer(pair.to_b, &put).expect("there is room");
        while pair.a.seen.done.is_empty() || pair.b.seen.packets.is_empty() {
            pair.a.method.poll(before, &mut pair.a.seen);
            pair.b.method.poll(before, &mut pair.b.seen);
            patience.spend();
        }
        assert_eq!(pair.a.seen.done.pop_front(), Some((token, Ok(()))));
        assert_eq!(pair.b.packet(), Some((pair.to_a, bytes.clone())));
    }
    assert!(theirs.to_vec() == bytes);
}
