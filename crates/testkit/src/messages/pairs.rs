//! Two instances that know each other's addresses: one connection, one name for each and one order, whichever of them
//! connects first.

use causeway_bmi::{Addr, Tag};

use super::Medium;
use super::node::{Node, content};
use crate::patience::Patience;
use crate::process;
use crate::random::Random;

/// How often two call each other at once.
const CROSSINGS: u64 = 60;
/// Messages of each of the two in one round, all under one tag.
const MESSAGES: usize = 12;
/// Below and above the limit of messages that travel whole.
const SIZES: [usize; 3] = [10, 2000, 300_000];
const TAG: Tag = 9;

/// Two instances, and the name that each has for the other.
struct Pair {
    nodes: [Node; 2],
    peers: [Addr; 2],
    patience: Patience,
}

impl Pair {
    fn new<M: Medium>(medium: &M, what: &str) -> Self {
        let start = || Node::new(medium.layer(Some(&medium.address())));
        let mut nodes = [start(), start()];
        let addresses = nodes
            .each_ref()
            .map(|node| node.layer.listening().join(","));
        let [a, b] = &mut nodes;
        let peers = [
            a.layer.lookup(&addresses[1]).expect("well-formed"),
            b.layer.lookup(&addresses[0]).expect("well-formed"),
        ];
        Self {
            nodes,
            peers,
            patience: Patience::new(what.to_owned()),
        }
    }

    fn addresses(&self) -> [String; 2] {
        let nodes = self.nodes.each_ref();
        nodes.map(|node| node.layer.listening().join(","))
    }

    /// Records the tags of unexpected messages that have arrived, and releases their senders.
    fn release(&mut self, tags: &mut [Vec<Tag>; 2]) {
        for (node, tags) in self.nodes.iter_mut().zip(tags) {
            for message in node.unexpected.drain(..) {
                tags.push(message.tag);
                node.layer.release(message.from);
            }
        }
    }

    /// Both end at once: one that waits for the other's last packets would wait in vain.
    fn end(self) {
        let [a, b] = self.nodes;
        std::thread::scope(|scope| {
            scope.spawn(|| drop(a));
            drop(b);
        });
    }

    fn step_until(&mut self, until: impl Fn(&[Node; 2]) -> bool) {
        while !until(&self.nodes) {
            self.nodes.iter_mut().for_each(Node::step);
            self.patience.spend();
        }
    }

    /// One node sends to the other and posts its receives.
    fn post(&mut self, node: usize, size: usize, round: u64) {
        let (own, peer) = (&mut self.nodes[node], self.peers[node]);
        // Both make the same content of the same tag and size, so the sizes show the order.
        own.send(peer, TAG + round, size);
        own.receive(peer, TAG + round, SIZES[2] + MESSAGES);
    }

    /// All messages have arrived, in order, over one connection.
    fn check(&mut self, sizes: &[Vec<usize>; 2], round: u64) {
        self.step_until(|nodes| nodes.iter().all(|node| node.pending().is_empty()));
        for (node, sent) in self.nodes.iter().zip([&sizes[1], &sizes[0]]) {
            let mut received: Vec<_> = node.operations.iter().collect();
            received.sort_by_key(|(number, _)| **number);
            let mut sent = sent.iter();
            for (_, operation) in received {
                let result = operation.result.clone().expect("it has completed");
                let bytes = result.expect("nothing went wrong") as usize;
                if operation.memory.len() == SIZES[2] + MESSAGES {
                    assert_eq!(Some(&bytes), sent.next(), "out of order");
                    let got = operation.memory.slice(0..bytes).to_vec();
                    assert!(got == content(TAG + round, bytes), "other bytes");
                }
            }
        }
        self.nodes
            .iter_mut()
            .for_each(|node| node.operations.clear());
        self.step_until(|nodes| nodes.iter().all(|node| connections(node) == 1));
    }
}

fn connections(node: &Node) -> usize {
    node.layer.get_info(None).connected
}

/// The side that was called finds the caller under its address.
pub fn a_caller_is_known_by_its_address<M: Medium>(medium: &M, _test: &str) {
    let mut pair = Pair::new(medium, "a caller is known");
    let first = pair.peers[0];
    pair.nodes[0].send_unexpected(first, TAG, vec![1; 10]);
    pair.step_until(|nodes| !nodes[1].unexpected.is_empty());
    let from = pair.nodes[1].unexpected[0].from;
    assert_eq!(from, pair.peers[1], "one name");
    pair.nodes[1].send_unexpected(from, TAG, vec![2; 10]);
    pair.step_until(|nodes| !nodes[0].unexpected.is_empty());
    assert_eq!(pair.nodes[0].unexpected[0].from, pair.peers[0], "one name");
    assert_eq!(pair.nodes.each_ref().map(connections), [1, 1]);
    pair.end();
}

/// Both call at once, and one gets ahead of the other by chance.
pub fn calls_that_cross_become_one<M: Medium>(medium: &M, _test: &str) {
    let mut random = Random::new(11);
    for round in 0..CROSSINGS {
        let mut pair = Pair::new(medium, "all messages come");
        let mut sizes = [Vec::new(), Vec::new()];
        while sizes.iter().any(|sizes| sizes.len() < MESSAGES) {
            let node = random.below(2);
            let at = sizes[node].len();
            if at < MESSAGES && random.one_in(2) {
                let size = SIZES[random.below(3)] + at;
                sizes[node].push(size);
                pair.post(node, size, round);
            }
            for _ in 0..random.below(4) {
                pair.nodes[random.below(2)].step();
            }
        }
        pair.check(&sizes, round);
        pair.end();
    }
}

/// Two nodes that call and release each other again and again lose no message.
pub fn releasing_and_calling_again_loses_nothing<M: Medium>(medium: &M, _test: &str) {
    const ROUNDS: u64 = 100;
    let mut random = Random::new(12);
    let mut pair = Pair::new(medium, "all unexpected messages come");
    let addresses = pair.addresses();
    let peers = pair.peers;
    for (node, peer) in pair.nodes.iter_mut().zip(peers) {
        node.layer.release(peer);
    }
    let mut tags = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        for own in 0..2 {
            let node = &mut pair.nodes[own];
            let peer = node.layer.lookup(&addresses[1 - own]);
            let peer = peer.expect("well-formed");
            node.send_unexpected(peer, round, vec![own as u8; 30]);
            node.layer.release(peer);
            for _ in 0..random.below(8) {
                pair.nodes[random.below(2)].step();
            }
        }
        pair.release(&mut tags);
    }
    while tags.iter().any(|tags| tags.len() < ROUNDS as usize) {
        pair.nodes.iter_mut().for_each(Node::step);
        pair.release(&mut tags);
        pair.patience.spend();
    }
    pair.step_until(|nodes| nodes.iter().all(|node| connections(node) == 0));
    let all: Vec<Tag> = (0..ROUNDS).collect();
    assert_eq!(tags, [all.clone(), all]);
    for node in &pair.nodes {
        let mut operations = node.operations.values();
        let failed = operations.find(|operation| !operation.succeeded());
        assert!(failed.is_none(), "{failed:?}");
    }
    pair.end();
}

/// One of the two instances ends, and another begins at its address: the peer keeps its name, and whichever of the
/// two connects first, there is one connection, which is not mistaken for the former one.
pub fn one_that_returns_keeps_its_name<M: Medium>(medium: &M, _test: &str) {
    for round in 0..6 {
        let mut pair = Pair::new(medium, "one that returns is found again");
        let mut sizes = [Vec::new(), Vec::new()];
        for (node, sizes) in sizes.iter_mut().enumerate() {
            sizes.push(SIZES[node]);
            pair.post(node, SIZES[node], round);
        }
        pair.check(&sizes, round);
        let [own, address] = pair.addresses();
        let before = pair.nodes[0].layer.connection(pair.peers[0]);
        assert!(before.is_some(), "they are connected");
        let [mut stays, gone] = pair.nodes;
        std::thread::scope(|scope| {
            let ends = scope.spawn(|| drop(gone));
            while !ends.is_finished() {
                stays.step();
            }
        });
        process::await_starts();
        let mut nodes = [stays, Node::new(medium.layer(Some(&address)))];
        let mut patience = Patience::new("the end is noticed");
        while connections(&nodes[0]) > 0 {
            nodes[0].step();
            patience.spend();
        }
        assert_eq!(nodes[0].layer.connection(pair.peers[0]), None);
        let to = nodes[1].layer.lookup(&own).expect("well-formed");
        let mut pair = Pair {
            nodes,
            peers: [pair.peers[0], to],
            patience: Patience::new("all messages come"),
        };
        for node in [round as usize % 2, 1 - round as usize % 2] {
            pair.post(node, SIZES[node], round);
            for _ in 0..3 * round {
                pair.nodes[node].step();
            }
        }
        pair.check(&sizes, round);
        let now = pair.nodes[0].layer.connection(pair.peers[0]);
        assert!(now.is_some(), "they are connected");
        assert_ne!(now, before, "another connection");
        pair.end();
    }
}
