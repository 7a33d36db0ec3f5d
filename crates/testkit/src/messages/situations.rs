//! Every state of an operation, ended in every way.

use causeway_bmi::{Direction, OpError, Tag};

use super::Medium;
use super::node::{Kind, Node};
use super::peer_process::{ProcessPair, ran_as_peer};
use crate::patience::Patience;

/// Large enough that it is under way for some time.
const HUGE: usize = 24 << 20;
/// Above every limit of messages that travel whole.
const LARGE: usize = 1 << 20;
/// Below it.
const SMALL: usize = 4 << 10;

/// Brings operations into a state. Where the peer must not advance them, it is stopped.
type Arrange<M> = fn(&mut ProcessPair<'_, M>);

/// Something has begun to move.
fn moving(node: &Node) -> bool {
    node.layer.get_info(None).transfers > 0
}

/// The peer accepts no connection: it does not run.
pub fn a_send_that_waits_for_a_connection<M: Medium>(medium: &M, test: &str) {
    in_every_way(medium, test, |pair| {
        pair.child.stop();
        pair.node.send(pair.peer, 1, SMALL);
        pair.node.send(pair.peer, 1, LARGE);
        pair.node.receive(pair.peer, 2, SMALL);
        pair.advance(|_| false);
        assert_eq!(pair.node.pending().len(), 3);
    });
}

/// The peer's memory for messages without a receive is full.
pub fn sends_that_wait_for_credit<M: Medium>(medium: &M, test: &str) {
    in_every_way(medium, test, |pair| {
        pair.still_works(pair.peer);
        pair.child.stop();
        let mut tag: Tag = 0;
        while pair.node.pending().len() < 20 {
            tag += 1;
            assert!(tag < 100_000, "nothing holds the sender back");
            pair.node.send(pair.peer, tag, SMALL);
            let bytes = vec![1; SMALL];
            pair.node.send_unexpected(pair.peer, tag, bytes);
        }
        // One that is announced even though it is unexpected.
        let bytes = vec![2; 60_000];
        pair.node.send_unexpected(pair.peer, tag, bytes);
        pair.advance(|_| false);
    });
}

/// Their announcements have arrived at the peer, which has no receive for them.
pub fn announced_sends<M: Medium>(medium: &M, test: &str) {
    in_every_way(medium, test, |pair| {
        pair.still_works(pair.peer);
        for tag in 1..=3 {
            pair.node.send(pair.peer, tag, LARGE);
        }
        pair.advance(|_| false);
        assert_eq!(pair.node.pending().len(), 3);
        pair.child.stop();
    });
}

/// The peer has its receive, and is stopped while the bytes move.
pub fn a_send_half_done<M: Medium>(medium: &M, test: &str) {
    in_every_way(medium, test, |pair| {
        pair.let_receive(1, HUGE);
        pair.node.send(pair.peer, 1, HUGE);
        pair.advance(moving);
        pair.child.stop();
    });
}

/// A receive without a message.
pub fn a_receive_of_nothing<M: Medium>(medium: &M, test: &str) {
    in_every_way(medium, test, |pair| {
        pair.still_works(pair.peer);
        pair.node.receive(pair.peer, 1, LARGE);
        pair.advance(|_| false);
        assert_eq!(pair.node.pending().len(), 1);
    });
}

/// Its message has begun to come.
pub fn a_receive_half_done<M: Medium>(medium: &M, test: &str) {
    in_every_way(medium, test, |pair| {
        pair.let_send(1, HUGE);
        pair.node.receive(pair.peer, 1, HUGE);
        pair.advance(moving);
        pair.child.stop();
    });
}

/// Remote memory is being read.
pub fn a_read_half_done<M: Medium>(medium: &M, test: &str) {
    in_every_way(medium, test, |pair| {
        let region = pair.let_export(1, HUGE);
        pair.node.transfer(pair.peer, Direction::Get, 1, region);
        pair.node.step();
        pair.child.stop();
    });
}

/// Remote memory is being written.
pub fn a_write_half_done<M: Medium>(medium: &M, test: &str) {
    in_every_way(medium, test, |pair| {
        let region = pair.let_export(1, HUGE);
        pair.node.transfer(pair.peer, Direction::Put, 1, region);
        pair.node.step();
        pair.child.stop();
    });
}

/// All the states above at the same time.
pub fn all_of_them_at_once<M: Medium>(medium: &M, test: &str) {
    in_every_way(medium, test, |pair| {
        let read = pair.let_export(1, LARGE);
        let written = pair.let_export(2, LARGE);
        pair.let_receive(3, HUGE);
        pair.let_send(4, HUGE);
        pair.node.transfer(pair.peer, Direction::Get, 1, read);
        pair.node.transfer(pair.peer, Direction::Put, 2, written);
        pair.node.send(pair.peer, 3, HUGE);
        pair.node.receive(pair.peer, 4, HUGE);
        pair.node.send(pair.peer, 5, LARGE);
        pair.node.receive(pair.peer, 6, SMALL);
        for tag in 10..200 {
            pair.node.send(pair.peer, tag, SMALL);
        }
        pair.advance(moving);
        pair.child.stop();
    });
}

fn in_every_way<M: Medium>(medium: &M, test: &str, arrange: Arrange<M>) {
    if ran_as_peer(medium) {
        return;
    }
    let ends = [killed, cancelled, cancelled_and_killed, disconnected];
    for end in ends {
        let mut pair = ProcessPair::new(medium, test);
        arrange(&mut pair);
        end(&mut pair);
    }
}

/// The peer dies: its unfinished operations fail with its name, operations with other peers go on,
/// and its successor at the same address has no state of it.
fn killed<M: Medium>(pair: &mut ProcessPair<'_, M>) {
    let (_other, bystander) = pair.bystander();
    let unconcerned = pair.node.receive(bystander, 77, SMALL);
    pair.child.kill();
    fail_by_death(pair, unconcerned);
    assert_eq!(pair.node.pending(), [unconcerned]);
    pair.notice_the_end();
    pair.still_works(bystander);
    pair.restart();
    pair.still_works(pair.peer);
    pair.holds_nothing();
}

fn fail_by_death<M: Medium>(pair: &mut ProcessPair<'_, M>, unconcerned: u64) {
    let mut patience = Patience::new("the operations of a dead peer complete");
    while pair.node.pending() != [unconcerned] {
        pair.node.step();
        patience.spend();
    }
    for operation in pair.node.operations.values() {
        let fine = match &operation.result {
            Some(Err(OpError::Peer { address, .. })) => *address == pair.address,
            // A send may complete before the message arrives; a message that has arrived whole is received.
            Some(Ok(_)) => operation.succeeded(),
            Some(Err(_)) => false,
            None => true,
        };
        assert!(fine, "{operation:?}");
    }
    memory_is_freed(&mut pair.node);
}

/// The operations are cancelled while the peer hangs; when it goes on, no trace of them is left.
fn cancelled<M: Medium>(pair: &mut ProcessPair<'_, M>) {
    pair.node.cancel_all();
    pair.advance(|node| node.pending().is_empty());
    // Memory of what is already complete belongs to the caller again: the peer does not write there.
    let marked = mark_cancelled(&pair.node);
    pair.child.resume();
    pair.node.complete_all("after a cancel");
    for operation in pair.node.operations.values() {
        let fine =
            matches!(operation.result, Some(Err(OpError::Cancelled))) || operation.succeeded();
        assert!(fine || marked.contains(&operation.tag), "{operation:?}");
    }
    memory_is_freed(&mut pair.node);
    pair.still_works(pair.peer);
    for operation in pair.node.operations.values() {
        if marked.contains(&operation.tag) && operation.kind == Kind::Receive {
            let bytes = operation.memory.to_vec();
            assert!(
                bytes.iter().all(|byte| *byte == MARK),
                "memory was written after its operation was cancelled"
            );
        }
    }
    let info = pair.node.layer.get_info(None);
    assert_eq!((info.operations, info.transfers), (0, 0));
}

/// Filler of cancelled receives' memory.
const MARK: u8 = 0xe5;

/// Fills the memory of cancelled receives; returns their tags.
fn mark_cancelled(node: &Node) -> Vec<Tag> {
    let cancelled = node.operations.values().filter(|operation| {
        matches!(operation.result, Some(Err(OpError::Cancelled))) && operation.kind == Kind::Receive
    });
    cancelled
        .map(|operation| {
            let filled = vec![MARK; operation.memory.len()];
            operation.memory.write_at(0, &filled);
            operation.tag
        })
        .collect()
}

/// The operations are cancelled while the peer hangs, and then it dies.
fn cancelled_and_killed<M: Medium>(pair: &mut ProcessPair<'_, M>) {
    pair.node.cancel_all();
    pair.advance(|node| node.pending().is_empty());
    pair.child.kill();
    pair.node.complete_all("after a cancel and a death");
    memory_is_freed(&mut pair.node);
    pair.notice_the_end();
    pair.restart();
    pair.still_works(pair.peer);
    pair.holds_nothing();
}

/// The connection is dropped while the peer hangs: dropping does not wait for the peer.
fn disconnected<M: Medium>(pair: &mut ProcessPair<'_, M>) {
    pair.node.layer.disconnect(pair.peer);
    pair.node.complete_all("after a disconnection");
    pair.child.resume();
    pair.still_works(pair.peer);
    memory_is_freed(&mut pair.node);
}

/// Memory belongs to the caller alone again, at the latest when the peer is dead or resumes.
fn memory_is_freed(node: &mut Node) {
    let mut patience = Patience::new("the memory of completed operations is freed");
    let held = |node: &Node| {
        let mut operations = node.operations.values();
        operations.any(|operation| operation.result.is_some() && operation.memory.sharers() > 1)
    };
    while held(node) {
        node.step();
        patience.spend();
    }
}
