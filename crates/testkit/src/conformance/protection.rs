//! Memory that must not be reachable through exports, or not any more.

use std::sync::atomic::{AtomicBool, Ordering};

use causeway_sys::memory::Memory;
use causeway_transport::{Access, Direction, Method, Peer, TransferError};
use causeway_wire::codec::Wire;
use causeway_wire::region::{ObjectSpan, RegionDescriptor};

use super::Factory;
use super::node::{List, Node, Pair, SetOnDrop, receive, run, send};
use crate::patience::Patience;
use crate::random::{Random, seed};

const BOTH: [Direction; 2] = [Direction::Get, Direction::Put];
const LEN: usize = 8192;
const OURS: u8 = 0x11;
const THEIRS: u8 = 0x22;
/// Bytes before and behind every export.
const SECRET: u8 = 0x33;

/// Memory of `b` with an export in its middle.
struct Target {
    whole: Memory,
    region: RegionDescriptor,
}

impl Target {
    fn new<M: Method>(pair: &mut Pair<M>, access: Access) -> Self {
        let whole = Memory::from_vec(vec![SECRET; 3 * LEN]);
        let inner = whole.slice(LEN..2 * LEN);
        inner.write_at(0, &[THEIRS; LEN]);
        let region = pair.b.export(pair.to_a, &inner, access);
        Self { whole, region }
    }

    fn inner(&self) -> Vec<u8> {
        self.whole.slice(LEN..2 * LEN).to_vec()
    }

    /// Checks that nothing beside the export was written.
    fn is_untouched_around(&self) -> bool {
        let whole = self.whole.to_vec();
        is_all(&whole[..LEN], SECRET) && is_all(&whole[2 * LEN..], SECRET)
    }
}

fn is_all(bytes: &[u8], value: u8) -> bool {
    bytes.iter().all(|byte| *byte == value)
}

/// Tries `remote` in both directions: it must be refused, touch nothing that is not exported and
/// deliver no notify packet.
fn must_fail<M: Method>(pair: &mut Pair<M>, remote: &[RegionDescriptor], target: &Target) {
    for direction in BOTH {
        must_fail_going(pair, direction, remote, target);
        // A list may have been done in part before it failed.
        target.whole.write_at(LEN, &[THEIRS; LEN]);
    }
}

fn must_fail_going<M: Method>(
    pair: &mut Pair<M>,
    direction: Direction,
    remote: &[RegionDescriptor],
    target: &Target,
) {
    let total: u64 = remote.iter().map(|part| part.len).sum();
    let ours = Memory::from_vec(vec![OURS; total as usize]);
    let list = List {
        direction,
        local: vec![ours.clone()],
        remote: remote.to_vec(),
        notify: Some(b"must not arrive".to_vec()),
    };
    assert_eq!(
        pair.a_transfers(&list),
        Err(TransferError::Protection),
        "{direction:?} {remote:x?}"
    );
    pair.still_works();
    assert!(!ours.to_vec().contains(&SECRET), "something was read");
    assert!(target.is_untouched_around(), "something was written");
}

/// As [`must_fail`], for descriptors outside of the export: its bytes stay as well.
fn must_fail_whole<M: Method>(pair: &mut Pair<M>, remote: RegionDescriptor, target: &Target) {
    for direction in BOTH {
        must_fail_going(pair, direction, &[remote], target);
        assert!(is_all(&target.inner(), THEIRS), "something was written");
    }
}

/// Zero, a flipped bit anywhere, random keys.
pub fn of_unknown_keys<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let target = Target::new(&mut pair, Access::ReadWrite);
    let mut random = Random::new(seed(6));
    let flipped = (0..64).map(|bit| target.region.key ^ (1 << bit));
    let mut keys: Vec<u64> = flipped.chain([0, u64::MAX]).collect();
    keys.extend((0..20).map(|_| random.next_u64()));
    for key in keys {
        let mut wrong = target.region;
        wrong.key = key;
        must_fail_whole(&mut pair, wrong, &target);
    }
}

/// Once `unexport` has returned, the key is refused, also when the same memory is exported
/// anew.
pub fn of_ended_exports<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let mut stale = Vec::new();
    let mut target_now = Target::new(&mut pair, Access::ReadWrite);
    for _ in 0..50 {
        pair.b.method.revoke(pair.to_a, target_now.region.key);
        // Ending it twice, or ending an unknown export, is harmless.
        pair.b.method.revoke(pair.to_a, target_now.region.key);
        pair.b.method.revoke(pair.to_a, 12345);
        stale.push(target_now.region);
        let memory = target_now.whole.slice(LEN..2 * LEN);
        target_now.region = pair.b.export(pair.to_a, &memory, Access::ReadWrite);
        assert!(
            stale.iter().all(|old| old.key != target_now.region.key),
            "a key is not used again"
        );
    }
    for old in stale {
        must_fail_whole(&mut pair, old, &target_now);
    }
    let ours = Memory::zeroed(LEN);
    let list = List::simple(Direction::Get, &ours, target_now.region);
    assert_eq!(pair.a_transfers(&list), Ok(()), "the newest key opens");
}

/// Before the start, behind the end, across both, and sums that overflow.
pub fn of_ranges<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let target = Target::new(&mut pair, Access::ReadWrite);
    let base = target.region.base;
    let len = LEN as u64;
    let ranges = [
        (base.wrapping_sub(1), 1),
        (base.wrapping_sub(1), len),
        (base.wrapping_sub(1), len + 1),
        (base.wrapping_sub(len), len),
        (base, len + 1),
        (base + 1, len),
        (base + len - 1, 2),
        (base + len, 1),
        (base.wrapping_sub(len), 3 * len),
        (0, 1),
        (1, len),
        (u64::MAX, 1),
        (u64::MAX - len + 1, len),
        (u64::MAX - 10, 100),
    ];
    for (base, len) in ranges {
        let mut wrong = target.region;
        (wrong.base, wrong.len) = (base, len);
        must_fail(&mut pair, &[wrong], &target);
    }
    // A length that no local list could have meets the length check or the protection check,
    // never memory.
    let mut wrong = target.region;
    wrong.len = u64::MAX;
    let list = List::simple(Direction::Put, &Memory::zeroed(LEN), wrong);
    assert!(pair.a_transfers(&list).is_err());
    pair.still_works();
    assert!(target.is_untouched_around());
}

/// Reading memory that may only be written, and the other way round; alone and behind a good fragment.
pub fn of_access<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let read_only = Target::new(&mut pair, Access::Read);
    must_fail_going(&mut pair, Direction::Put, &[read_only.region], &read_only);
    let write_only = Target::new(&mut pair, Access::Write);
    must_fail_going(&mut pair, Direction::Get, &[write_only.region], &write_only);
    // Allowed accesses work.
    let ours = Memory::zeroed(LEN);
    let get = List::simple(Direction::Get, &ours, read_only.region);
    assert_eq!(pair.a_transfers(&get), Ok(()));
    assert!(is_all(&ours.to_vec(), THEIRS));
    let mine = Memory::from_vec(vec![OURS; LEN]);
    let put = List::simple(Direction::Put, &mine, write_only.region);
    assert_eq!(pair.a_transfers(&put), Ok(()));
    assert!(is_all(&write_only.inner(), OURS));
    // A bad fragment behind a good one fails the whole list.
    let good = Target::new(&mut pair, Access::ReadWrite);
    let both = Memory::from_vec(vec![OURS; 2 * LEN]);
    let list = List {
        direction: Direction::Put,
        local: vec![both],
        remote: vec![good.region, read_only.region],
        notify: Some(b"must not arrive".to_vec()),
    };
    assert_eq!(pair.a_transfers(&list), Err(TransferError::Protection));
    pair.still_works();
    assert!(is_all(&read_only.inner(), THEIRS));
}

/// An export for one peer is closed to every other, even one that knows the descriptor.
pub fn of_other_peers_exports<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let target = Target::new(&mut pair, Access::ReadWrite);
    let mut thief = Node::new(factory.method());
    let to_b = thief.connect(&pair.address);
    send(&mut thief, to_b, &mut pair.b, b"hello");
    receive(&mut pair.b, &mut thief);
    for direction in BOTH {
        let ours = Memory::from_vec(vec![OURS; LEN]);
        let list = List::simple(direction, &ours, target.region).notifying(b"must not arrive");
        let result = run(&mut thief, to_b, &mut pair.b, &list);
        // Where the key is the only protection, this process, which has it, may have access.
        let may_pass = !pair.b.method.capabilities().per_peer_protection;
        let (read, written) = match (&result, direction) {
            (Ok(()), Direction::Get) if may_pass => (THEIRS, THEIRS),
            (Ok(()), Direction::Put) if may_pass => (OURS, OURS),
            _ => {
                assert_eq!(result, Err(TransferError::Protection), "{direction:?}");
                (OURS, THEIRS)
            }
        };
        assert!(is_all(&ours.to_vec(), read), "{direction:?}");
        assert!(is_all(&target.inner(), written), "{direction:?}");
    }
    pair.still_works();
    assert!(target.is_untouched_around());
}

/// A descriptor with a forged object or offset reaches nothing but the region itself.
pub fn of_objects<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let whole = pair.b.method.allocate(3 * LEN).expect("24 KiB");
    whole.write_at(0, &vec![THEIRS; 3 * LEN]);
    let memory = whole.slice(LEN..2 * LEN);
    let region = pair.b.export(pair.to_a, &memory, Access::ReadWrite);
    let span = region.object.unwrap_or(ObjectSpan {
        object: 1,
        offset: 0,
    });
    let len = LEN as u64;
    let forgeries = [
        (span.object, span.offset.wrapping_sub(len)),
        (span.object, span.offset + len),
        (span.object, span.offset + 1),
        (span.object, 1 << 40),
        (span.object, u64::MAX),
        (span.object, u64::MAX - len + 1),
        (span.object + 1, span.offset),
        (span.object.wrapping_sub(1), span.offset),
        (u64::MAX, span.offset),
    ];
    for (object, offset) in forgeries {
        let mut forged = region;
        forged.object = Some(ObjectSpan { object, offset });
        for direction in BOTH {
            let ours = Memory::from_vec(vec![OURS; LEN]);
            // A method may use, check or ignore the object.
            let _ = pair.a_transfers(&List::simple(direction, &ours, forged));
            pair.still_works();
            let around = [whole.slice(0..LEN), whole.slice(2 * LEN..3 * LEN)];
            for part in around {
                assert!(is_all(&part.to_vec(), THEIRS), "{object} {offset:x}");
            }
            memory.write_at(0, &vec![THEIRS; LEN]);
        }
        // A peer that may map a part of an object has the whole object's file: a forged span may show
        // another part of it, but nothing outside.
        if let Some(mapped) = pair.a.method.map(pair.to_b, &forged) {
            assert!(is_all(&mapped.to_vec(), THEIRS), "{object} {offset:x}");
        }
    }
}

/// A list that fails in its last fragment delivers no notify packet, also if all others were good.
pub fn failed_transfers_do_not_notify<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let target = Target::new(&mut pair, Access::ReadWrite);
    let mut bad = target.region;
    bad.key ^= 1;
    bad.len = 1;
    for direction in BOTH {
        let mut list = List::simple(direction, &Memory::zeroed(20 * LEN + 1), target.region);
        list.remote = vec![target.region; 20];
        list.remote.push(bad);
        let list = list.notifying(b"must not arrive");
        assert_eq!(pair.a_transfers(&list), Err(TransferError::Protection));
        pair.still_works();
    }
}

/// While a peer in another thread writes without pause, the memory does not change from the moment
/// that `unexport` returns.
pub fn holds_the_moment_an_export_ends<F: Factory>(factory: &F)
where
    F::Method: Send,
{
    const ROUNDS: usize = 25;
    const SPAN: usize = 256 << 10;
    let Pair {
        mut a,
        mut b,
        to_b,
        to_a,
        ..
    } = Pair::new(factory);
    let finished = AtomicBool::new(false);
    let finished = &finished;
    std::thread::scope(|scope| {
        let _end = SetOnDrop(finished);
        scope.spawn(move || write_until_refused(&mut a, to_b, SPAN, finished));
        let mut patience = Patience::new("writes reach the memory between exports");
        for round in 0..ROUNDS {
            let memory = Memory::zeroed(SPAN);
            let region = b.export(to_a, &memory, Access::Write);
            while !b.try_send(to_a, &region.to_bytes()) {
                b.step();
                patience.spend();
            }
            // Let some writes through, a different number in each round.
            let (mut last, mut seen) = (0, 0);
            while seen <= round {
                b.step();
                let mut byte = [0];
                memory.read_at(SPAN - 1, &mut byte);
                seen += usize::from(byte[0] != last);
                last = byte[0];
                patience.spend();
            }
            b.method.revoke(to_a, region.key);
            let frozen = memory.to_vec();
            while b.packet().is_none() {
                b.step();
                patience.spend();
            }
            assert!(
                memory.to_vec() == frozen,
                "round {round}: bytes arrived after unexport had returned"
            );
        }
    });
}

/// Takes each descriptor that arrives and writes through it, several transfers at a time; sends
/// a packet once it is refused and nothing is in progress any more.
fn write_until_refused<M: Method>(
    node: &mut Node<M>,
    peer: Peer,
    span: usize,
    finished: &AtomicBool,
) {
    let mut region: Option<RegionDescriptor> = None;
    let mut refused = false;
    let mut fill = 0_u8;
    let mut patience = Patience::new("the writer is refused");
    while !finished.load(Ordering::Acquire) {
        patience.spend();
        node.step();
        if let Some((_, packet)) = node.packet() {
            region = Some(RegionDescriptor::from_bytes(&packet).expect("a descriptor"));
        }
        if let Some(region) = region
            && node.in_progress() < 4
        {
            fill = fill.wrapping_add(1);
            let ours = Memory::from_vec(vec![fill; span]);
            node.try_transfer(peer, &List::simple(Direction::Put, &ours, region));
        }
        while let Some((_, result)) = node.seen.done.pop_front() {
            if let Err(error) = result {
                assert_eq!(error, TransferError::Protection);
                region = None;
                refused = true;
            }
        }
        if refused && node.in_progress() == 0 && node.try_send(peer, b"refused") {
            refused = false;
        }
    }
}
