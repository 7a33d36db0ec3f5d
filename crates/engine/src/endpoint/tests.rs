//! Whole instances over the in-process method, driven by hand: every test is deterministic.

mod basics;
mod both_ways;
mod cancelling;
mod deaths;
mod fetching;
mod floods;
mod greetings;
mod hostile;
mod lies;
mod lists;
mod messages;
mod model;
mod offers;
mod pairs;
mod parked;
mod pieces;
mod placement;
mod raw_peer;
mod sleeps;
mod unlisted;
mod waits;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use causeway_transport::mem::{Fault, Mem, Options};
use causeway_transport::registry::Registry;

use super::*;
use crate::PeerError;
use crate::matcher::{ByTag, FromTag};

/// An endpoint that matches by peer and tag.
pub(super) type Bmi = Endpoint<ByTag>;

impl Endpoint<ByTag> {
    pub(super) fn post_recv(
        &mut self,
        from: Addr,
        into: &[Memory],
        tag: Tag,
        queue: Queue,
        user: u64,
    ) -> Result<Posted, Error> {
        let peer = self.number(from).ok_or(Error::Stale("address"))?;
        self.post_receive(FromTag { peer, tag }, into, queue, user)
    }

    /// What the instance is doing now, whatever it has sent and received before.
    fn doing(&self) -> Info {
        Info {
            sent: Default::default(),
            received: Default::default(),
            ..self.get_info(None)
        }
    }
}

/// The method that carries the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Medium {
    Mem,
    Shm,
    Tcp,
}

pub(super) const MEDIA: [Medium; 3] = [Medium::Mem, Medium::Shm, Medium::Tcp];

/// One instance under test.
pub(super) struct Node {
    pub(super) bmi: Bmi,
    /// Holds the socket of a shared-memory address.
    _dir: Option<tempfile::TempDir>,
    pub(super) context: Queue,
    pub(super) fault: Option<Fault>,
    pub(super) done: Vec<Completion>,
    pub(super) unexpected: Vec<Unexpected>,
}

pub(super) const NOW: Duration = Duration::ZERO;

pub(super) fn node_with(name: &str, config: Config, options: Options) -> Node {
    let mem = Mem::new(options).unwrap();
    let fault = mem.fault();
    let mut registry = Registry::new();
    registry.register(Box::new(mem));
    let listen = vec![format!("mem://{name}")];
    let mut bmi = Bmi::with_methods(Config { listen, ..config }, registry).unwrap();
    let context = bmi.open_queue().unwrap();
    Node {
        bmi,
        _dir: None,
        context,
        fault: Some(fault),
        done: Vec::new(),
        unexpected: Vec::new(),
    }
}

/// An instance over a real method.
fn node_over(medium: Medium, name: &str, config: Config) -> Node {
    let mut dir = None;
    let listen = match medium {
        Medium::Mem => return node_with(name, config, Options::default()),
        Medium::Tcp => "tcp://127.0.0.1:0".to_owned(),
        Medium::Shm => {
            let made = dir.insert(tempfile::tempdir().unwrap());
            format!("shm://{}", made.path().join("socket").display())
        }
    };
    let listen = vec![listen];
    let mut bmi = Bmi::new(Config { listen, ..config }).unwrap();
    let context = bmi.open_queue().unwrap();
    Node {
        bmi,
        _dir: dir,
        context,
        fault: None,
        done: Vec::new(),
        unexpected: Vec::new(),
    }
}

/// Like [`pair`], over any method.
pub(super) fn pair_over(medium: Medium, name: &str, config: Config) -> (Node, Node, Addr, Addr) {
    let mut client = node_over(medium, &format!("{name}-client"), config.clone());
    let mut server = node_over(medium, &format!("{name}-server"), config);
    let to = client.bmi.lookup(&server.bmi.listening()[0]).unwrap();
    let from = meet(&mut client, &mut server, to);
    (client, server, to, from)
}

pub(super) fn node(name: &str) -> Node {
    node_with(name, Config::default(), Options::default())
}

pub(super) fn bytes(seed: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|n| (n * 7 + seed * 13 + n / 251) as u8)
        .collect()
}

pub(super) fn memory(seed: usize, len: usize) -> Memory {
    Memory::from_vec(bytes(seed, len))
}

impl Node {
    /// Makes progress once and collects what has completed.
    pub(super) fn step(&mut self) {
        self.bmi
            .test_queue(self.context, usize::MAX, NOW, &mut self.done)
            .unwrap();
    }

    pub(super) fn collect_unexpected(&mut self) {
        self.bmi
            .testunexpected(usize::MAX, NOW, &mut self.unexpected)
            .unwrap();
    }

    /// Notes a post's answer, whether it is complete or not.
    pub(super) fn note(&mut self, posted: Result<Posted, Error>) -> OpId {
        match posted.unwrap() {
            Posted::Complete(done) => {
                let op = done.op;
                self.done.push(done);
                op
            }
            Posted::Pending(op) => op,
        }
    }

    pub(super) fn send(&mut self, to: Addr, data: &[Memory], tag: Tag, user: u64) -> OpId {
        let posted = self.bmi.post_send(to, data, tag, self.context, user);
        self.note(posted)
    }

    pub(super) fn recv(&mut self, from: Addr, into: &[Memory], tag: Tag, user: u64) -> OpId {
        let posted = self.bmi.post_recv(from, into, tag, self.context, user);
        self.note(posted)
    }

    pub(super) fn send_unexpected(&mut self, to: Addr, data: &Memory, tag: Tag, user: u64) -> OpId {
        let data = std::slice::from_ref(data);
        let posted = self
            .bmi
            .post_sendunexpected(to, data, tag, self.context, user);
        self.note(posted)
    }

    /// The result of the operation that was posted with this number, if it is done.
    pub(super) fn result(&self, user: u64) -> Option<&Result<u64, OpError>> {
        let mut all = self.done.iter().filter(|done| done.user == user);
        let found = all.next();
        assert!(all.next().is_none(), "{user} completed twice");
        found.map(|done| &done.result)
    }
}

/// Steps all nodes until `until`, or fails.
pub(super) fn drive(nodes: &mut [&mut Node], mut until: impl FnMut(&mut [&mut Node]) -> bool) {
    let start = std::time::Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        for node in nodes.iter_mut() {
            node.step();
        }
        if until(nodes) {
            return;
        }
    }
    let infos: Vec<_> = nodes.iter().map(|node| node.bmi.get_info(None)).collect();
    panic!("no end in sight: {infos:#?}");
}

/// Steps all nodes for a while.
pub(super) fn idle(nodes: &mut [&mut Node]) {
    for _ in 0..200 {
        for node in nodes.iter_mut() {
            node.step();
        }
    }
}

/// A client and a server that know each other: the client's address of the server, and the
/// server's of the client.
pub(super) fn pair(name: &str, config: Config, options: Options) -> (Node, Node, Addr, Addr) {
    let server = format!("{name}-server");
    let mut client = node_with(&format!("{name}-client"), config.clone(), options);
    let mut server_node = node_with(&server, config, options);
    let to = client.bmi.lookup(&format!("mem://{server}")).unwrap();
    let from = meet(&mut client, &mut server_node, to);
    (client, server_node, to, from)
}

/// Lets a server get to know a client; returns the client's address there.
pub(super) fn meet(client: &mut Node, server: &mut Node, to: Addr) -> Addr {
    const HELLO: Tag = 0xfeed;
    client.send_unexpected(to, &memory(0, 1), HELLO, u64::MAX);
    drive(&mut [client, server], |nodes| {
        nodes[1].collect_unexpected();
        !nodes[1].unexpected.is_empty() && nodes[0].result(u64::MAX).is_some()
    });
    client.done.clear();
    server.unexpected.pop().unwrap().from
}
