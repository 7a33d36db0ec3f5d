//! The other process: it carries out orders that arrive as unexpected messages, and checks the messages that it receives.

use std::time::{Duration, Instant};

use causeway_bmi::{Access, Addr, Memory, RegionDescriptor, Tag};
use causeway_wire::codec::Wire;

use super::Medium;
use super::node::{Node, UNOBSERVED, content};
use crate::patience::Patience;
use crate::process::{self, Child, Part};

/// Tags of orders.
const RECEIVE: Tag = 1 << 60;
const SEND: Tag = RECEIVE + 1;
const EXPORT: Tag = RECEIVE + 2;
const ECHO: Tag = RECEIVE + 3;
const BACKLOG: Tag = RECEIVE + 4;
/// Tag of replies.
const REPLY: Tag = RECEIVE + 100;
/// Bytes of an encoded region, at most.
const REGION_BYTES: usize = 256;

/// Runs as the peer process if this process was started as one; it never returns then.
pub(super) fn ran_as_peer(medium: &impl Medium) -> bool {
    match process::part() {
        Some(part) => serve(medium, &part),
        None => false,
    }
}

fn serve(medium: &impl Medium, part: &Part) -> ! {
    let mut node = Node::new(medium.layer(part.arguments.first().map(String::as_str)));
    part.report(&node.layer.listening().join(","));
    let mut exported = Vec::new();
    loop {
        // The test says when it has waited for too long.
        node.wait(Duration::MAX);
        for order in std::mem::take(&mut node.unexpected) {
            carry_out(&mut node, order.from, order.tag, &order.data, &mut exported);
        }
        // What was received is compared, and then forgotten.
        node.operations
            .retain(|_, operation| operation.result.is_none() || !operation.succeeded());
    }
}

fn carry_out(node: &mut Node, from: Addr, order: Tag, words: &[u8], exported: &mut Vec<Memory>) {
    let word = |index: usize| {
        let bytes = words[8 * index..8 * index + 8].try_into();
        u64::from_le_bytes(bytes.expect("eight bytes"))
    };
    // Anything else is a message of the traffic, which needs no reply.
    match order {
        RECEIVE => drop(node.receive(from, word(0), word(1) as usize)),
        SEND => drop(node.send(from, word(0), word(1) as usize)),
        EXPORT => {
            let memory = Memory::from_vec(content(word(0), word(1) as usize));
            let region = node.layer.export(from, &memory, Access::ReadWrite);
            exported.push(memory);
            let mut bytes = region.expect("it can be exported").to_bytes();
            bytes.resize(REGION_BYTES, 0);
            reply(node, from, &bytes);
        }
        ECHO => reply(node, from, words),
        BACKLOG => {
            let info = node.layer.get_info(None);
            let waiting = info.early_bytes + info.unexpected_waiting + info.operations;
            reply(node, from, &(waiting as u64).to_le_bytes());
        }
        _ => assert!(order < RECEIVE, "an unknown order: {order:#x}"),
    }
}

fn reply(node: &mut Node, to: Addr, bytes: &[u8]) {
    let memory = Memory::from_vec(bytes.to_vec());
    let list = std::slice::from_ref(&memory);
    let posted = node
        .layer
        .post_send(to, list, REPLY, node.context, UNOBSERVED);
    // The other process may be gone by now.
    drop(posted);
}

/// The two processes, in the process that gives the orders.
pub(super) struct ProcessPair<'a, M: Medium> {
    medium: &'a M,
    test: &'a str,
    pub(super) node: Node,
    pub(super) child: Child,
    pub(super) address: String,
    pub(super) peer: Addr,
}

impl<'a, M: Medium> ProcessPair<'a, M> {
    /// Starts the peer process; nothing has been exchanged with it yet.
    pub(super) fn new(medium: &'a M, test: &'a str) -> Self {
        let child = Child::spawn(test, "peer", &[&medium.address()]);
        let address = child.next_line();
        let mut node = Node::new(medium.layer(None));
        let peer = node.layer.lookup(&address).expect("a well-formed address");
        Self {
            medium,
            test,
            node,
            child,
            address,
            peer,
        }
    }

    /// A peer process that starts anew at the same address, after the last one's end.
    pub(super) fn restart(&mut self) {
        self.child = Child::spawn(self.test, "peer", &[&self.address]);
        assert_eq!(self.child.next_line(), self.address);
    }

    /// A second pair of processes, that has nothing to do with this one but this node.
    pub(super) fn bystander(&mut self) -> (Child, Addr) {
        let child = Child::spawn(self.test, "peer", &[&self.medium.address()]);
        let address = child.next_line();
        let peer = self.node.layer.lookup(&address);
        (child, peer.expect("a well-formed address"))
    }

    #[track_caller]
    fn order(&mut self, to: Addr, order: Tag, words: &[u64]) {
        let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let sent = self.node.send_unexpected(to, order, bytes);
        self.node.succeed(sent);
    }

    #[track_caller]
    fn ask(&mut self, to: Addr, order: Tag, words: &[u64], size: usize) -> Vec<u8> {
        let reply = self.node.receive(to, REPLY, size);
        self.order(to, order, words);
        self.node.succeed(reply).to_vec()
    }

    /// Tells the peer process to receive a message.
    pub(super) fn let_receive(&mut self, tag: Tag, size: usize) {
        self.order(self.peer, RECEIVE, &[tag, size as u64]);
    }

    /// Tells the peer process to send a message.
    pub(super) fn let_send(&mut self, tag: Tag, size: usize) {
        self.order(self.peer, SEND, &[tag, size as u64]);
    }

    /// Memory of the peer process with the content of `tag`.
    pub(super) fn let_export(&mut self, tag: Tag, size: usize) -> RegionDescriptor {
        let bytes = self.ask(self.peer, EXPORT, &[tag, size as u64], REGION_BYTES);
        let mut reader = causeway_wire::codec::Reader::new(&bytes);
        RegionDescriptor::decode(&mut reader).expect("the peer process's own encoding")
    }

    /// Waits until the end of the peer process is known: an operation posted before that is one of those that
    /// die with it.
    pub(super) fn notice_the_end(&mut self) {
        let mut patience = Patience::new("the end of the peer is noticed");
        let unconnected =
            |(what, state): &(&str, String)| *what == "connection" && state == "not connected";
        while !(self.node.layer.report(self.peer))
            .is_some_and(|report| report.facts.iter().any(unconnected))
        {
            self.node.step();
            patience.spend();
        }
    }

    /// The peer replies.
    #[track_caller]
    pub(super) fn still_works(&mut self, peer: Addr) {
        assert_eq!(self.ask(peer, ECHO, &[7, 8, 9], 24)[8], 8);
    }

    /// The peer process has no message left that was sent before.
    pub(super) fn holds_nothing(&mut self) {
        let bytes = self.ask(self.peer, BACKLOG, &[], 8);
        assert_eq!(bytes, [0; 8], "a new process has old messages");
    }

    /// Makes progress until `until`, or long enough for posted operations to advance.
    pub(super) fn advance(&mut self, until: impl Fn(&Node) -> bool) {
        const WHILE: Duration = Duration::from_millis(60);
        let begun = Instant::now();
        while begun.elapsed() < WHILE {
            self.node.step();
            if until(&self.node) {
                return;
            }
        }
    }
}
