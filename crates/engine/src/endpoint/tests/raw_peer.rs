//! A peer without an engine: a method, and packets that a test writes itself.

use causeway_transport::{
    Address, Method, Packet, Peer as Handle, Sink, Token, TransferError as Failed,
};
use causeway_wire::bmi::{self as wire, Body, Header, Kind};
use causeway_wire::formats::Formats;

use super::*;

/// Events that a [`RawPeer`] has received.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// Packets in the order in which they came.
    pub(super) packets: Vec<Vec<u8>>,
    /// Its own transfers that have succeeded.
    pub(super) transfers: usize,
    /// How often its connection has ended.
    pub(super) downs: usize,
}

impl Sink for Received {
    fn packet(&mut self, _: Handle, packet: Packet<'_>) {
        self.packets.push(packet.to_vec(0));
    }
    fn transfer_done(&mut self, _: Handle, _: Token, result: Result<(), Failed>) {
        self.transfers += usize::from(result.is_ok());
    }
    fn peer_up(&mut self, _: Handle) {}
    fn peer_down(&mut self, _: Handle, _: PeerError) {
        self.downs += 1;
    }
    fn writable(&mut self, _: Handle) {}
}

impl Received {
    /// The contents of the packets that have the format's.
    pub(super) fn bodies(&self) -> Vec<Body> {
        let decoded = self.packets.iter().map(|packet| wire::decode(packet));
        decoded
            .filter_map(|packet| packet.ok().map(|(_, body)| body))
            .collect()
    }
}

/// The peer.
pub(super) struct RawPeer {
    pub(super) method: Box<dyn Method>,
    /// The instance under test.
    pub(super) to: Handle,
    pub(super) received: Received,
}

impl RawPeer {
    /// Connects to an instance by `method`.
    pub(super) fn over(mut method: Box<dyn Method>, address: &str) -> Self {
        let address: Address = address.parse().unwrap();
        let to = method.connect(Instant::now(), &address).unwrap();
        Self {
            method,
            to,
            received: Received::default(),
        }
    }

    /// Connects to the instance that listens at `mem://{name}`.
    pub(super) fn new(name: &str) -> Self {
        let mem = Mem::new(Options::default()).unwrap();
        Self::over(Box::new(mem), &format!("mem://{name}"))
    }

    /// Sends a greeting with room for replies.
    pub(super) fn greet(&mut self, mut hello: Header) {
        hello.credit = 1 << 16;
        self.send(&hello.encode());
    }

    /// Sends a greeting of format 1.
    pub(super) fn greet_as_first_format(&mut self) {
        self.greet(Header::new(Kind::Hello, wire::HELLO_WORD));
    }

    pub(super) fn send(&mut self, packet: &[u8]) {
        self.method.send(self.to, &[packet]).unwrap();
    }

    pub(super) fn poll(&mut self) {
        self.method.poll(Instant::now(), &mut self.received);
        self.method.tick(Instant::now(), &mut self.received);
    }
}

/// A raw peer of a node: its name there.
pub(super) fn greets(node: &mut Node, name: &str, formats: Formats) -> (RawPeer, Addr) {
    let mut raw = RawPeer::new(name);
    raw.greet(formats.hello(false));
    drive(&mut [node], |_| {
        raw.poll();
        !raw.received.packets.is_empty()
    });
    raw.send(&Header::new(Kind::Unexpected, 1).encode());
    drive(&mut [node], |nodes| {
        raw.poll();
        nodes[0].collect_unexpected();
        !nodes[0].unexpected.is_empty()
    });
    let from = node.unexpected.pop().unwrap().from;
    (raw, from)
}

/// The announced send of the node's message.
pub(super) fn sent_by(node: &mut Node, raw: &mut RawPeer) -> u64 {
    let mut send = None;
    drive(&mut [node], |_| {
        raw.poll();
        let mut bodies = raw.received.bodies().into_iter();
        send = bodies.find_map(|body| match body {
            Body::Announcement(announcement) => Some(announcement.send),
            _ => None,
        });
        send.is_some()
    });
    send.unwrap()
}
