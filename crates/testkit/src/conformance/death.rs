//! Peers in other processes: that they work, and that their death is noticed in every state.
//!
//! Each test takes its own full name: its process runs it again as the peer process.

use std::time::Duration;

use causeway_sys::memory::Memory;
use causeway_transport::{
    Access, Direction, Identity, Method, Peer, PeerError, SendError, TransferError,
};

use super::Factory;
use super::lifecycle::is_absence;
use super::node::{List, Node};
use super::peer_process::{Order, ProcessPair, listening_peer_process, ran_as_peer};
use super::sleep::{Sleeper, asleep_until_down};
use crate::patience::Patience;
use crate::process::Child;
use crate::random::{Random, seed};

/// Causes that may be reported for a death: the kernel closes the descriptors of a dead process.
fn is_death(cause: &PeerError) -> bool {
    matches!(
        cause,
        PeerError::Broken(_) | PeerError::Closed | PeerError::TimedOut(_)
    )
}

/// Kills the peer process and waits until its death is reported.
fn kill<M: Method>(pair: &mut ProcessPair<M>) -> PeerError {
    pair.child.kill();
    let cause = match pair.node.method.capabilities().reports_peer_exit {
        true => pair.node.await_down(pair.peer),
        false => pair.node.find_absent(pair.peer),
    };
    assert!(is_death(&cause), "{cause:?}");
    cause
}

/// After its death the peer is absent: a send to the old handle reports that.
pub fn of_an_idle_peer<F: Factory>(factory: &F, test: &str) {
    if ran_as_peer(factory) {
        return;
    }
    let mut pair = ProcessPair::calling(factory, test);
    if let Some(Identity::Local { pid, .. } | Identity::SocketOf { pid, .. }) =
        pair.node.method.identity(pair.peer)
    {
        assert_eq!(pid, pair.child.pid(), "the kernel names the process");
    }
    kill(&mut pair);
    let cause = pair.node.find_absent(pair.peer);
    assert!(is_absence(&cause), "{cause:?}");
}

/// Packets that arrive are an unbroken front of the stream, and none arrives after the death was reported.
pub fn of_a_peer_that_streams<F: Factory>(factory: &F, test: &str) {
    if ran_as_peer(factory) {
        return;
    }
    for size in [8, 3000] {
        let mut pair = ProcessPair::calling(factory, test);
        pair.order(&Order::Flood(size));
        let mut number = 0_u64;
        let mut take = |node: &mut Node<F::Method>| {
            while let Some((_, packet)) = node.packet() {
                assert_eq!(packet.len(), size as usize);
                assert_eq!(packet[..8], number.to_le_bytes());
                number += 1;
            }
            number
        };
        let mut patience = Patience::new("the stream has begun");
        while take(&mut pair.node) < 3_000 {
            pair.node.step();
            patience.spend();
        }
        pair.child.kill();
        while pair.node.down(pair.peer).is_none() {
            pair.node.step();
            take(&mut pair.node);
            patience.spend();
        }
        for _ in 0..100 {
            pair.node.step();
        }
        assert!(pair.node.packet().is_none(), "nothing after the death");
    }
}

/// The death of a peer whose packets are held back is reported, after the delivery of packets that had arrived.
pub fn of_a_paused_peer<F: Factory>(factory: &F, test: &str) {
    if ran_as_peer(factory) {
        return;
    }
    let mut pair = ProcessPair::calling(factory, test);
    pair.node.method.pause(pair.peer);
    let packet = vec![7; 2000];
    pair.order(&Order::Echo(packet.clone()));
    let mut patience = Patience::new("the packet is there");
    while !pair.node.method.readiness(pair.peer).readable {
        assert!(pair.node.packet().is_none());
        pair.node.step();
        patience.spend();
    }
    kill(&mut pair);
    assert!(pair.node.packet() == Some((pair.peer, packet)));
    assert_eq!(pair.node.packet(), None);
}

/// Packets that will not be read do not keep the death from being noticed.
pub fn of_a_peer_that_does_not_read<F: Factory>(factory: &F, test: &str) {
    if ran_as_peer(factory) {
        return;
    }
    let mut pair = ProcessPair::calling(factory, test);
    pair.order(&Order::Stall);
    let packet = Order::Echo(vec![0; 2000]);
    let bytes = causeway_wire::codec::Wire::to_bytes(&packet);
    let mut refusals = 0;
    while refusals < 100 {
        if !pair.node.try_send(pair.peer, &bytes) {
            refusals += 1;
            pair.node.step();
        }
    }
    kill(&mut pair);
}

/// Writing into its memory; see below.
pub fn in_the_middle_of_transfers_to_it<F: Factory>(factory: &F, test: &str) {
    in_the_middle_of_transfers(factory, test, Direction::Put);
}

/// Reading its memory; see below.
pub fn in_the_middle_of_transfers_from_it<F: Factory>(factory: &F, test: &str) {
    in_the_middle_of_transfers(factory, test, Direction::Get);
}

/// Every transfer completes exactly once before the death is reported (the node checks that);
/// those that succeeded moved their bytes. The peer is stopped first, so that transfers in which
/// it takes part cannot end before its death.
fn in_the_middle_of_transfers<F: Factory>(factory: &F, test: &str, direction: Direction) {
    const LEN: usize = 8 << 20;
    const MOST: usize = 24;
    if ran_as_peer(factory) {
        return;
    }
    for steps_before in [0, 1, 7, 40] {
        let mut pair = ProcessPair::calling(factory, test);
        let region = pair.exported(LEN, 0x55, false);
        let mut started = Vec::new();
        let mut start = |node: &mut Node<F::Method>, peer: Peer| {
            if started.len() < MOST {
                let ours = Memory::from_vec(vec![0xaa; LEN]);
                let list = List::simple(direction, &ours, region).notifying(b"");
                if let Some(token) = node.try_transfer(peer, &list) {
                    started.push((token, ours));
                }
            }
        };
        for _ in 0..steps_before {
            start(&mut pair.node, pair.peer);
            pair.node.step();
        }
        pair.child.stop();
        for _ in 0..20 {
            start(&mut pair.node, pair.peer);
            pair.node.step();
        }
        kill(&mut pair);
        assert_eq!(pair.node.in_progress(), 0);
        assert_eq!(pair.node.seen.done.len(), started.len());
        for (token, result) in pair.node.seen.done.drain(..) {
            let (_, ours) = (started.iter())
                .find(|(started, _)| *started == token)
                .expect("a transfer of this test");
            match result {
                Ok(()) if direction == Direction::Get => {
                    assert!(
                        ours.to_vec() == vec![0x55; LEN],
                        "a success moved every byte"
                    );
                }
                Ok(()) | Err(TransferError::Peer(_) | TransferError::Copy(_)) => {}
                Err(other) => panic!("{other}"),
            }
        }
    }
}

/// A peer that dies while it moves memory of this process: that is reported, the export can be ended, and others
/// go on.
pub fn in_the_middle_of_its_own_transfers<F: Factory>(factory: &F, test: &str) {
    const LEN: usize = 4 << 20;
    if ran_as_peer(factory) {
        return;
    }
    let mut pair = ProcessPair::called(factory, test);
    for direction in [Direction::Put, Direction::Get, Direction::Put] {
        let ours = Memory::zeroed(LEN);
        let region = pair.node.export(pair.peer, &ours, Access::ReadWrite);
        let progress = pair
            .node
            .export(pair.peer, &ours.slice(0..8), Access::ReadWrite);
        pair.order(&Order::Repeat(direction, region));
        // A small write behind the large transfers shows that they are under way.
        pair.order(&Order::Repeat(Direction::Put, progress));
        let mut patience = Patience::new("the peer process writes into exported memory");
        let mut front = [0; 8];
        while front != [0xaa; 8] {
            pair.node.step();
            ours.read_at(0, &mut front);
            patience.spend();
        }
        kill(&mut pair);
        pair.node.method.revoke(pair.peer, region.key);
        pair.node.method.revoke(pair.peer, progress.key);
        pair = ProcessPair::called_at(pair.node, pair.address, test);
        pair.still_works();
    }
}

/// A killed listener, which leaves its address behind, is replaced at the same address; the same
/// handle reaches its successor.
pub fn of_the_listener_then_restart<F: Factory>(factory: &F, test: &str) {
    if ran_as_peer(factory) {
        return;
    }
    let mut pair = ProcessPair::calling(factory, test);
    for round in 0..4 {
        if round % 2 == 1 {
            // On its way when it dies.
            pair.order(&Order::Flood(100));
        }
        kill(&mut pair);
        let (child, address) = listening_peer_process(test, &pair.address);
        assert_eq!(address, pair.address);
        pair.child = child;
        pair.node.seen.packets.clear();
        pair.still_works();
        let region = pair.exported(10_000, round, false);
        let ours = Memory::zeroed(10_000);
        transfer(&mut pair, &List::simple(Direction::Get, &ours, region)).expect("readable");
        assert!(ours.to_vec() == vec![round; 10_000]);
    }
}

/// The handle of a killed caller stays unusable.
pub fn of_the_caller<F: Factory>(factory: &F, test: &str) {
    if ran_as_peer(factory) {
        return;
    }
    let mut pair = ProcessPair::called(factory, test);
    kill(&mut pair);
    let refused = pair.node.method.send(pair.peer, &[b"x"]);
    assert!(matches!(refused, Err(SendError::Gone(_))), "{refused:?}");
    let dead = pair.peer;
    pair = ProcessPair::called_at(pair.node, pair.address, test);
    assert_ne!(pair.peer, dead);
    pair.still_works();
}

/// The death of a peer ends the node's sleep, whichever side had connected.
pub fn while_asleep<F: Factory>(factory: &F, test: &str) {
    if ran_as_peer(factory) {
        return;
    }
    for mut pair in ProcessPair::each_way(factory, test) {
        pair.node.fall_asleep();
        pair.child.kill();
        asleep_until_down(&mut pair.node, pair.peer);
    }
}

/// A peer that dies while it sleeps, with packets that it has not received.
pub fn of_a_sleeper<F: Factory>(factory: &F, test: &str) {
    if ran_as_peer(factory) {
        return;
    }
    let mut pair = ProcessPair::calling(factory, test);
    // Long enough for it to fall asleep for good.
    std::thread::sleep(Duration::from_millis(50));
    pair.child.stop();
    for _ in 0..10 {
        pair.order(&Order::Echo(b"wake up".to_vec()));
        pair.node.step();
    }
    kill(&mut pair);
    assert!(pair.node.packet().is_none(), "it never replied");
}

/// The process behind a handle dies before the first packet.
pub fn before_anything_was_sent<F: Factory>(factory: &F, test: &str) {
    if ran_as_peer(factory) {
        return;
    }
    let (mut child, address) = listening_peer_process(test, &factory.address());
    let mut node = Node::new(factory.method());
    let peer = node.connect(&address);
    node.step();
    child.kill();
    let cause = node.find_absent(peer);
    assert!(is_absence(&cause), "{cause:?}");
}

/// The death of one peer affects no other peer, not even transfers in progress.
pub fn of_one_leaves_the_others_alone<F: Factory>(factory: &F, test: &str) {
    const LEN: usize = 16 << 20;
    if ran_as_peer(factory) {
        return;
    }
    let one = ProcessPair::calling(factory, test);
    let ProcessPair {
        node,
        peer: first,
        child: mut victim,
        ..
    } = one;
    let mut pair = ProcessPair::call_from(node, factory, test);
    let region = pair.exported(LEN, 0x33, false);
    let ours = Memory::zeroed(LEN);
    let list = List::simple(Direction::Get, &ours, region);
    let token = pair.node.try_transfer(pair.peer, &list).expect("room");
    victim.kill();
    let mut patience = Patience::new("the other peer's transfer completes");
    while pair.node.seen.done.is_empty() {
        pair.node.step();
        patience.spend();
    }
    assert_eq!(pair.node.seen.done.pop_front(), Some((token, Ok(()))));
    assert!(ours.to_vec() == vec![0x33; LEN]);
    assert!(is_death(&pair.node.await_down(first)));
    pair.still_works();
}

/// Callers that are killed at random moments, also while they connect, leave the listener in
/// order.
pub fn of_many_in_a_row<F: Factory>(factory: &F, test: &str) {
    const CALLERS: usize = 30;
    if ran_as_peer(factory) {
        return;
    }
    let (mut node, address) = Node::listening(factory);
    let mut random = Random::new(seed(8));
    let mut callers = Vec::new();
    for _ in 0..CALLERS {
        callers.push(Child::spawn(test, "call", &[&address.to_string()]));
        for _ in 0..random.below(2_000) {
            node.step();
        }
        if callers.len() > 2 {
            callers.swap_remove(random.below(callers.len())).kill();
        }
    }
    drop(callers);
    // All of them are dead: every one that came up goes down, also those that were still waiting
    // to be accepted.
    let mut patience = Patience::new("the callers that died are reported down");
    let mut quiet = 0;
    while quiet < 20 {
        let busy = node.step() || node.callers() > 0;
        quiet = if busy { 0 } else { quiet + 1 };
        std::thread::sleep(Duration::from_millis(2));
        patience.spend();
    }
    node.seen.packets.clear();
    node.seen.events.clear();
    let mut pair = ProcessPair::called_at(node, address, test);
    pair.still_works();
}

/// A peer that ends in an orderly way is reported as such, after its last packet.
pub fn by_exit_is_an_orderly_end<F: Factory>(factory: &F, test: &str) {
    if ran_as_peer(factory) {
        return;
    }
    for mut pair in ProcessPair::each_way(factory, test) {
        pair.order(&Order::Exit);
        let cause = pair.node.await_down(pair.peer);
        assert_eq!(cause, PeerError::Closed);
        assert!(pair.child.finish().success());
    }
}

/// Everything works between processes as it does within one.
pub fn packets_and_transfers_between_processes<F: Factory>(factory: &F, test: &str) {
    if ran_as_peer(factory) {
        return;
    }
    for mut pair in ProcessPair::each_way(factory, test) {
        let largest = pair.node.method.limits().max_packet - 5;
        let mut random = Random::new(seed(9));
        for _ in 0..300 {
            let len = random.spread(14).min(largest);
            let bytes = random.bytes(len);
            pair.order(&Order::Echo(bytes.clone()));
            assert!(pair.receive() == bytes, "an echo of {len} bytes");
        }
        for len in [1, 1000, 100_000, 9 << 20] {
            // Memory of the peer process, read and written from here.
            let region = pair.exported(len, 0x66, false);
            let ours = Memory::zeroed(len);
            let get = List::simple(Direction::Get, &ours, region);
            transfer(&mut pair, &get).expect("readable");
            assert!(ours.to_vec() == vec![0x66; len]);
            let put = List::simple(Direction::Put, &Memory::from_vec(vec![0x77; len]), region);
            transfer(&mut pair, &put).expect("writable");
            pair.order(&Order::Peek(len as u64 - 1, 1));
            assert_eq!(pair.receive(), [0x77]);
            // Memory of this process, read and written by the peer process.
            let ours = Memory::from_vec(vec![0x11; len]);
            let region = pair.node.export(pair.peer, &ours, Access::ReadWrite);
            pair.order(&Order::Transfer(Direction::Get, region, 0));
            let mut replies = [pair.receive(), pair.receive()];
            replies.sort();
            assert_eq!(replies, [vec![0x11], b"landed".to_vec()]);
            pair.order(&Order::Transfer(Direction::Put, region, 0x22));
            let mut replies = [pair.receive(), pair.receive()];
            replies.sort();
            assert_eq!(replies, [vec![0x22], b"landed".to_vec()]);
            assert!(ours.to_vec() == vec![0x22; len]);
            pair.node.method.revoke(pair.peer, region.key);
        }
        pair.still_works();
    }
}

/// Where memory can be mapped, both processes see each other's writes; the mapping outlives the
/// process that made the memory.
pub fn mapping_between_processes<F: Factory>(factory: &F, test: &str) {
    const LEN: usize = 100_000;
    if ran_as_peer(factory) {
        return;
    }
    let mut pair = ProcessPair::calling(factory, test);
    let region = pair.exported(LEN, 0x12, true);
    let ours = Memory::zeroed(LEN);
    transfer(&mut pair, &List::simple(Direction::Get, &ours, region)).expect("readable");
    assert!(ours.to_vec() == vec![0x12; LEN]);
    let mapped = pair.node.method.map(pair.peer, &region);
    let maps = pair.node.method.capabilities().maps_memory;
    assert_eq!(mapped.is_some(), maps, "as the method states");
    let Some(mapped) = mapped else {
        let report = pair.node.method.report(pair.peer).expect("a report");
        assert!(!report.facts.is_empty(), "the reason is on record");
        return;
    };
    assert!(mapped.to_vec() == vec![0x12; LEN]);
    mapped.write_at(77_777, b"ours");
    pair.order(&Order::Peek(77_777, 4));
    assert_eq!(pair.receive(), b"ours");
    pair.order(&Order::Poke(5, 0x99));
    assert_eq!(pair.receive(), [0x99]);
    let mut byte = [0];
    mapped.read_at(5, &mut byte);
    assert_eq!(byte, [0x99]);
    kill(&mut pair);
    mapped.read_at(5, &mut byte);
    assert_eq!(byte, [0x99], "mapped memory does not vanish under its user");
}

/// Thousands of rounds between two processes in which either may fall asleep at any moment.
pub fn no_wake_up_is_lost_between_processes<F: Factory>(factory: &F, test: &str) {
    const ROUNDS: u64 = 5_000;
    if ran_as_peer(factory) {
        return;
    }
    let mut pair = ProcessPair::calling(factory, test);
    let mut sleeper = Sleeper::new(seed(10));
    for round in 0..ROUNDS {
        pair.order(&Order::Echo(round.to_le_bytes().to_vec()));
        let reply = sleeper.next_packet(&mut pair.node);
        assert_eq!(reply, round.to_le_bytes());
    }
    sleeper.check();
}

/// A peer that is stopped (by a debugger, by job control) holds up no other peer, and continues when it
/// is resumed.
pub fn a_stopped_peer_blocks_no_other<F: Factory>(factory: &F, test: &str) {
    const LEN: usize = 4 << 20;
    if ran_as_peer(factory) {
        return;
    }
    let stopped = ProcessPair::calling(factory, test);
    let mut stopped_stage = stopped;
    let region = stopped_stage.exported(LEN, 1, false);
    stopped_stage.child.stop();
    let ProcessPair {
        node,
        peer,
        child,
        address,
    } = stopped_stage;
    let mut other = ProcessPair::call_from(node, factory, test);
    let ours = Memory::zeroed(LEN);
    let get = List::simple(Direction::Get, &ours, region);
    other.node.try_transfer(peer, &get).expect("room");
    let echo = causeway_wire::codec::Wire::to_bytes(&Order::Echo(b"late".to_vec()));
    let mut sent = 0;
    for _ in 0..100 {
        sent += usize::from(other.node.try_send(peer, &echo));
        other.node.step();
    }
    let export = other
        .node
        .export(peer, &Memory::zeroed(100), Access::ReadWrite);
    other.node.method.revoke(peer, export.key);
    for _ in 0..10 {
        other.still_works();
    }
    child.resume();
    let ProcessPair {
        node,
        child: _other,
        ..
    } = other;
    let mut pair = ProcessPair {
        node,
        peer,
        child,
        address,
    };
    for _ in 0..sent {
        assert_eq!(pair.receive(), b"late");
    }
    let mut patience = Patience::new("the transfer with the resumed peer completes");
    while pair.node.seen.done.is_empty() {
        pair.node.step();
        patience.spend();
    }
    assert_eq!(
        pair.node.seen.done.pop_front().map(|(_, result)| result),
        Some(Ok(()))
    );
    assert!(ours.to_vec() == vec![1; LEN]);
    pair.still_works();
}

/// Runs a transfer with the peer process to its completion.
fn transfer<M: Method>(pair: &mut ProcessPair<M>, list: &List) -> Result<(), TransferError> {
    let mut patience = Patience::new("a transfer with the peer process completes");
    let token = loop {
        if let Some(token) = pair.node.try_transfer(pair.peer, list) {
            break token;
        }
        pair.node.step();
        patience.spend();
    };
    loop {
        if let Some((done, result)) = pair.node.seen.done.pop_front() {
            assert_eq!(done, token);
            return result;
        }
        pair.node.step();
        patience.spend();
    }
}
