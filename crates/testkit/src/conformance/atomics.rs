//! Remote atomics: results, allowed memory, and atomicity.
//!
//! A method that states none only has to refuse them.

use std::sync::atomic::Ordering;
use std::thread;

use causeway_sys::memory::Memory;
use causeway_transport::{
    Access, Atomic, Method, Operation, Peer, PeerError, SendError, TransferError,
};
use causeway_wire::region::RegionDescriptor;

use super::Factory;
use super::node::{Node, Pair, receive, send};
use crate::patience::Patience;

use Operation::{CompareSwap, FetchAdd};

const WORD: usize = Atomic::BYTES as usize;

/// Zeroed memory of `count` words, aligned.
fn words(count: usize) -> Memory {
    let room = Memory::zeroed((count + 1) * WORD);
    let start = room.as_ptr().align_offset(WORD);
    room.slice(start..start + count * WORD)
}

/// The word of this number in a region.
fn word(region: &RegionDescriptor, at: usize) -> RegionDescriptor {
    region.part((at * WORD) as u64, Atomic::BYTES)
}

fn value(memory: &Memory, at: usize) -> u64 {
    let word = memory.word(at * WORD).expect("an aligned word");
    word.load(Ordering::Acquire)
}

/// Whether the method has none; then it refuses them.
fn has_none<M: Method>(pair: &mut Pair<M>) -> bool {
    if pair.a.method.capabilities().remote_atomics {
        return false;
    }
    let region = pair.b.export(pair.to_a, &words(1), Access::ReadWrite);
    let refused = pair.a.try_atomic(pair.to_b, FetchAdd(1), region);
    assert!(matches!(refused, Err(SendError::Unsupported(_))));
    true
}

/// Does one operation from `a` and waits for its end.
fn run<M: Method>(
    pair: &mut Pair<M>,
    operation: Operation,
    word: RegionDescriptor,
) -> Result<u64, TransferError> {
    let mut patience = Patience::new("an atomic completes");
    let token = pair
        .a
        .try_atomic(pair.to_b, operation, word)
        .expect("there is room");
    loop {
        if let Some((done, result)) = pair.a.seen.atomics.pop_front() {
            assert_eq!(done, token);
            return result;
        }
        pair.step();
        patience.spend();
    }
}

/// Both operations return the old value and change the word, on memory of every kind.
pub fn return_what_was_there<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    if has_none(&mut pair) {
        return;
    }
    let allocated = pair.b.method.allocate(4 * WORD).expect("a page");
    for memory in [words(4), allocated] {
        let region = pair.b.export(pair.to_a, &memory, Access::ReadWrite);
        let target = word(&region, 2);
        assert_eq!(run(&mut pair, FetchAdd(5), target), Ok(0));
        assert_eq!(run(&mut pair, FetchAdd(u64::MAX), target), Ok(5));
        assert_eq!(value(&memory, 2), 4, "it wraps");
        let swap = |expected, new| CompareSwap { expected, new };
        assert_eq!(run(&mut pair, swap(5, 9), target), Ok(4), "another value");
        assert_eq!(value(&memory, 2), 4);
        assert_eq!(run(&mut pair, swap(4, u64::MAX), target), Ok(4));
        assert_eq!(run(&mut pair, FetchAdd(1), target), Ok(u64::MAX));
        assert_eq!(value(&memory, 2), 0);
        for beside in [0, 1, 3] {
            assert_eq!(value(&memory, beside), 0, "the words beside it");
        }
        pair.b.method.revoke(pair.to_a, region.key);
    }
    pair.still_works();
}

/// Without the right to read and to write, at no word, outside the export, and after its end, nothing is done.
pub fn of_what_is_not_exported_fail<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    if has_none(&mut pair) {
        return;
    }
    let allocated = pair.b.method.allocate(3 * WORD).expect("a page");
    for memory in [words(3), allocated] {
        let middle = memory.slice(WORD..2 * WORD);
        for access in [Access::Read, Access::Write] {
            let region = pair.b.export(pair.to_a, &middle, access);
            let result = run(&mut pair, FetchAdd(1), region);
            assert_eq!(result, Err(TransferError::Protection), "{access:?}");
        }
        let region = pair.b.export(pair.to_a, &middle, Access::ReadWrite);
        let moved = |by: i64| RegionDescriptor {
            base: region.base.wrapping_add_signed(by),
            ..region
        };
        let key = |key| RegionDescriptor { key, ..region };
        let far = RegionDescriptor {
            base: u64::MAX - 3,
            ..region
        };
        let wrong = [
            moved(8),
            moved(-8),
            moved(1),
            moved(-1),
            far,
            key(0),
            key(region.key ^ 1),
        ];
        for wrong in wrong {
            let result = run(&mut pair, FetchAdd(1), wrong);
            assert_eq!(result, Err(TransferError::Protection), "{wrong:x?}");
        }
        for len in [0, 4, 7, 16, u64::MAX] {
            let wrong = RegionDescriptor { len, ..region };
            let result = run(&mut pair, FetchAdd(1), wrong);
            let error = TransferError::Length {
                local: Atomic::BYTES,
                remote: len,
            };
            assert_eq!(result, Err(error));
        }
        pair.b.method.revoke(pair.to_a, region.key);
        let result = run(&mut pair, FetchAdd(1), region);
        assert_eq!(
            result,
            Err(TransferError::Protection),
            "the export has ended"
        );
        assert!(memory.to_vec().iter().all(|byte| *byte == 0));
    }
    pair.still_works();
}

/// A word that does not lie at a multiple of 8 in the owner's memory is none.
pub fn of_misaligned_words_fail<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    if has_none(&mut pair) {
        return;
    }
    let allocated = pair.b.method.allocate(3 * WORD).expect("a page");
    for memory in [words(3), allocated] {
        let whole = pair.b.export(pair.to_a, &memory, Access::ReadWrite);
        let odd = memory.slice(3..3 + 2 * WORD);
        let odd = pair.b.export(pair.to_a, &odd, Access::ReadWrite);
        for offset in [1, 4, 7] {
            let target = whole.part(offset, Atomic::BYTES);
            let result = run(&mut pair, FetchAdd(1), target);
            assert_eq!(result, Err(TransferError::Misaligned), "at {offset}");
        }
        let result = run(&mut pair, FetchAdd(1), word(&odd, 0));
        assert_eq!(result, Err(TransferError::Misaligned));
        assert!(memory.to_vec().iter().all(|byte| *byte == 0));
        // The word's address in memory counts, not its offset in the export.
        let target = odd.part(5, Atomic::BYTES);
        assert_eq!(run(&mut pair, FetchAdd(1), target), Ok(0));
        assert_eq!(value(&memory, 1), 1);
    }
    pair.still_works();
}

/// More than any window takes, all started as soon as there is room: each completes once, and packets flow beside them.
pub fn in_great_number_complete_each_once<F: Factory>(factory: &F) {
    const COUNT: u64 = 3000;
    let mut pair = Pair::new(factory);
    if has_none(&mut pair) {
        return;
    }
    let memory = words(1);
    let region = pair.b.export(pair.to_a, &memory, Access::ReadWrite);
    let mut patience = Patience::new("many atomics complete");
    let mut old = Vec::new();
    let mut started = 0;
    while old.len() < COUNT as usize {
        while started < COUNT {
            match pair.a.try_atomic(pair.to_b, FetchAdd(1), region) {
                Ok(_) => started += 1,
                Err(SendError::WouldBlock) => break,
                Err(error) => panic!("{error}"),
            }
        }
        pair.step();
        old.extend((pair.a.seen.atomics.drain(..)).map(|(_, result)| result.expect("exported")));
        patience.spend();
    }
    pair.still_works();
    old.sort_unstable();
    assert!(old.into_iter().eq(0..COUNT), "each old value once");
    assert_eq!(value(&memory, 0), COUNT);
}

/// One client: adds one to word 0 with fetch-and-add, and to word 1 with compare-and-swap, `rounds` times.
fn client<M: Method>(mut node: Node<M>, to: Peer, region: RegionDescriptor, rounds: u64) {
    let mut patience = Patience::new("a client adds its share");
    let mut run = |operation, at| {
        node.try_atomic(to, operation, word(&region, at))
            .expect("one at a time has room");
        loop {
            if let Some((_, result)) = node.seen.atomics.pop_front() {
                return result.expect("exported");
            }
            if !node.step() {
                thread::yield_now();
            }
            patience.spend();
        }
    };
    let mut expected = 0;
    for _ in 0..rounds {
        run(FetchAdd(1), 0);
        loop {
            let new = expected + 1;
            let found = run(CompareSwap { expected, new }, 1);
            if found == expected {
                expected = new;
                break;
            }
            expected = found;
        }
    }
}

/// Several clients add to the same words at once, and so does the owner, with atomic accesses of its own: the sums are
/// exact.
pub fn of_several_clients_and_the_owner_add_up<F: Factory>(factory: &F)
where
    F::Method: Send,
{
    const CLIENTS: u64 = 3;
    const ROUNDS: u64 = 200;
    let mut pair = Pair::new(factory);
    if has_none(&mut pair) {
        return;
    }
    let allocated = pair.b.method.allocate(2 * WORD).expect("a page");
    for memory in [words(2), allocated] {
        let (mut owner, address) = Node::listening(factory);
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let mut node = Node::new(factory.method());
            let to = node.connect(&address);
            send(&mut node, to, &mut owner, b"hello");
            let (from, _) = receive(&mut owner, &mut node);
            let region = owner.export(from, &memory, Access::ReadWrite);
            clients.push((node, to, region));
        }
        let mut own = [0, 0];
        thread::scope(|scope| {
            let clients: Vec<_> = (clients.into_iter())
                .map(|(node, to, region)| scope.spawn(move || client(node, to, region, ROUNDS)))
                .collect();
            while clients.iter().any(|client| !client.is_finished()) {
                // The owner adds to the second word for a bounded time: otherwise a comparing client would always find another value.
                let compared = own[0] % 16 == 0 && own[1] < 200;
                for (at, own) in own[..=usize::from(compared)].iter_mut().enumerate() {
                    let word = memory.word(at * WORD).expect("an aligned word");
                    word.fetch_add(1, Ordering::AcqRel);
                    *own += 1;
                }
                if !owner.step() {
                    thread::yield_now();
                }
            }
            for client in clients {
                client.join().expect("a client adds its share");
            }
        });
        for (at, own) in own.into_iter().enumerate() {
            assert_eq!(value(&memory, at), CLIENTS * ROUNDS + own, "word {at}");
        }
    }
}

/// When the peer ends, or is dropped, pending atomics complete with an error: each once, and before the peer is reported down.
pub fn of_a_lost_peer_complete<F: Factory>(factory: &F) {
    const COUNT: usize = 40;
    for departs in [true, false] {
        let mut pair = Pair::new(factory);
        if has_none(&mut pair) {
            return;
        }
        let region = pair.b.export(pair.to_a, &words(1), Access::ReadWrite);
        for _ in 0..COUNT {
            let started = pair.a.try_atomic(pair.to_b, FetchAdd(1), region);
            started.expect("so many are taken");
        }
        let Pair { mut a, b, to_b, .. } = pair;
        if departs {
            drop(b);
            // The sink checks that all have completed by then.
            a.await_down(to_b);
        } else {
            a.disconnect(to_b);
        }
        let results: Vec<_> = a.seen.atomics.drain(..).collect();
        assert_eq!(results.len(), COUNT);
        for (_, result) in results {
            match result {
                Ok(_) | Err(TransferError::Protection) if departs => {}
                Err(TransferError::Peer(cause)) => {
                    assert_eq!(cause == PeerError::Disconnected, !departs, "{cause}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
