//! Every state of an operation, ended in every way.

use causeway_bmi::{Direction, OpError, Tag};

use super::Medium;
use super::node::{Kind, Node};
use super::puppet::{Stage, played};
use crate::patience::Patience;

/// Large enough that it is under way for some time.
const HUGE: usize = 24 << 20;
/// Above every limit of messages that travel whole.
const LARGE: usize = 1 << 20;
/// Below it.
const SMALL: usize = 4 << 10;

/// Brings operations into a state. Where the peer must not get on with them, it is stopped.
type Arrange<M> = fn(&mut Stage<'_, M>);

/// Something has begun to move.
fn moving(node: &Node) -> bool {
    node.layer.get_info(None).transfers > 0
}

/// The peer accepts no connection: it does not run.
pub fn a_send_that_waits_for_a_connection<M: Medium>(medium: &M, test: &str) {
    in_every_way(medium, test, |stage| {
        stage.child.stop();
        stage.node.send(stage.peer, 1, SMALL);
        stage.node.send(stage.peer, 1, LARGE);
        stage.node.receive(stage.peer, 2, SMALL);
        stage.advance(|_| false);
        assert_eq!(stage.node.pending().len(), 3);
    });
}

/// The peer's memory for messages without a receive is full.
pub fn sends_that_wait_for_credit<M: Medium>(medium: &M, test: &str) {
    in_every_way(medium, test, |stage| {
        stage.still_works(stage.peer);
        stage.child.stop();
        let mut tag: Tag = 0;
        while stage.node.pending().len() < 20 {
            tag += 1;
            assert!(tag < 100_000, "nothing holds the sender back");
            stage.node.send(stage.peer, tag, SMALL);
            let bytes = vec![1; SMALL];
            stage.node.send_unexpected(stage.peer, tag, bytes);
        }
        // One that is announced even though it is unexpected.
        let bytes = vec![2; 60_000];
        stage.node.send_unexpected(stage.peer, tag, bytes);
        stage.advance(|_| false);
    });
}

/// The peer knows of them, and has no receive for them.
pub fn announced_sends<M: Medium>(medium: &M, test: &str) {
    in_every_way(medium, test, |stage| {
        stage.still_works(stage.peer);
        for tag in 1..=3 {
            stage.node.send(stage.peer, tag, LARGE);
        }
        stage.advance(|_| false);
        assert_eq!(stage.node.pending().len(), 3);
        stage.child.stop();
    });
}

/// The peer has its receive, and is stopped while the bytes move.
pub fn a_send_half_done<M: Medium>(medium: &M, test: &str) {
    in_every_way(medium, test, |stage| {
        stage.let_receive(1, HUGE);
        stage.node.send(stage.peer, 1, HUGE);
        stage.advance(moving);
        stage.child.stop();
    });
}

/// Nothing comes for it.
pub fn a_receive_of_nothing<M: Medium>(medium: &M, test: &str) {
    in_every_way(medium, test, |stage| {
        stage.still_works(stage.peer);
        stage.node.receive(stage.peer, 1, LARGE);
        stage.advance(|_| false);
        assert_eq!(stage.node.pending().len(), 1);
    });
}

/// Its message has begun to come.
pub fn a_receive_half_done<M: Medium>(medium: &M, test: &str) {
    in_every_way(medium, test, |stage| {
        stage.let_send(1, HUGE);
        stage.node.receive(stage.peer, 1, HUGE);
        stage.advance(moving);
        stage.child.stop();
    });
}

/// Remote memory is being read.
pub fn a_read_half_done<M: Medium>(medium: &M, test: &str) {
    in_every_way(medium, test, |stage| {
        let region = stage.let_export(1, HUGE);
        stage.node.transfer(stage.peer, Direction::Get, 1, region);
        stage.node.step();
        stage.child.stop();
    });
}

/// Remote memory is being written.
pub fn a_write_half_done<M: Medium>(medium: &M, test: &str) {
    in_every_way(medium, test, |stage| {
        let region = stage.let_export(1, HUGE);
        stage.node.transfer(stage.peer, Direction::Put, 1, region);
        stage.node.step();
        stage.child.stop();
    });
}

/// All the states above at the same time.
pub fn all_of_them_at_once<M: Medium>(medium: &M, test: &str) {
    in_every_way(medium, test, |stage| {
        let read = stage.let_export(1, LARGE);
        let written = stage.let_export(2, LARGE);
        stage.let_receive(3, HUGE);
        stage.let_send(4, HUGE);
        stage.node.transfer(stage.peer, Direction::Get, 1, read);
        stage.node.transfer(stage.peer, Direction::Put, 2, written);
        stage.node.send(stage.peer, 3, HUGE);
        stage.node.receive(stage.peer, 4, HUGE);
        stage.node.send(stage.peer, 5, LARGE);
        stage.node.receive(stage.peer, 6, SMALL);
        for tag in 10..200 {
            stage.node.send(stage.peer, tag, SMALL);
        }
        stage.advance(moving);
        stage.child.stop();
    });
}

fn in_every_way<M: Medium>(medium: &M, test: &str, arrange: Arrange<M>) {
    if played(medium) {
        return;
    }
    let ends = [killed, cancelled, cancelled_and_killed, disconnected];
    for end in ends {
        let mut stage = Stage::new(medium, test);
        arrange(&mut stage);
        end(&mut stage);
    }
}

/// The peer dies: what was not done fails with its name, whatever has nothing to do with it goes on,
/// and its successor at the same address knows nothing of it.
fn killed<M: Medium>(stage: &mut Stage<'_, M>) {
    let (_other, bystander) = stage.bystander();
    let unconcerned = stage.node.receive(bystander, 77, SMALL);
    stage.child.kill();
    fail_by_death(stage, unconcerned);
    assert_eq!(stage.node.pending(), [unconcerned]);
    stage.notice_the_end();
    stage.still_works(bystander);
    stage.restart();
    stage.still_works(stage.peer);
    stage.holds_nothing();
}

fn fail_by_death<M: Medium>(stage: &mut Stage<'_, M>, unconcerned: u64) {
    let mut patience = Patience::new("the operations of a dead peer complete");
    while stage.node.pending() != [unconcerned] {
        stage.node.step();
        patience.spend();
    }
    for operation in stage.node.operations.values() {
        let fine = match &operation.result {
            Some(Err(OpError::Peer { address, .. })) => *address == stage.address,
            // A send may be complete before it arrives; what has arrived whole is there.
            Some(Ok(_)) => operation.succeeded(),
            Some(Err(_)) => false,
            None => true,
        };
        assert!(fine, "{operation:?}");
    }
    memory_is_freed(&mut stage.node);
}

/// The operations are cancelled while the peer hangs; when it goes on, nothing of them is left.
fn cancelled<M: Medium>(stage: &mut Stage<'_, M>) {
    stage.node.cancel_all();
    stage.advance(|node| node.pending().is_empty());
    // Memory of what is already complete belongs to the caller again: the peer does not write there.
    let marked = mark_cancelled(&stage.node);
    stage.child.resume();
    stage.node.complete_all("after a cancel");
    for operation in stage.node.operations.values() {
        let fine =
            matches!(operation.result, Some(Err(OpError::Cancelled))) || operation.succeeded();
        assert!(fine || marked.contains(&operation.tag), "{operation:?}");
    }
    memory_is_freed(&mut stage.node);
    stage.still_works(stage.peer);
    for operation in stage.node.operations.values() {
        if marked.contains(&operation.tag) && operation.kind == Kind::Receive {
            let bytes = operation.memory.to_vec();
            assert!(
                bytes.iter().all(|byte| *byte == MARK),
                "memory was written after its operation was cancelled"
            );
        }
    }
    let info = stage.node.layer.get_info(None);
    assert_eq!((info.operations, info.transfers), (0, 0));
}

/// What cancelled receives' memory is filled with.
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
fn cancelled_and_killed<M: Medium>(stage: &mut Stage<'_, M>) {
    stage.node.cancel_all();
    stage.advance(|node| node.pending().is_empty());
    stage.child.kill();
    stage.node.complete_all("after a cancel and a death");
    memory_is_freed(&mut stage.node);
    stage.notice_the_end();
    stage.restart();
    stage.still_works(stage.peer);
    stage.holds_nothing();
}

/// The connection is dropped while the peer hangs: dropping does not wait for the peer.
fn disconnected<M: Medium>(stage: &mut Stage<'_, M>) {
    stage.node.layer.disconnect(stage.peer);
    stage.node.complete_all("after a disconnection");
    stage.child.resume();
    stage.still_works(stage.peer);
    memory_is_freed(&mut stage.node);
}

/// Memory belongs to the caller alone again, at the latest when the peer is dead or goes on.
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
