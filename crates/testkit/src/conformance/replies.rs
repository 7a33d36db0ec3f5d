//! Handlers that reply while they are called, from within a poll.

use std::time::{Duration, Instant};

use causeway_sys::memory::Memory;
use causeway_transport::{
    Access, Direction, Method, Outlet, Packet, Peer, PeerError, SendError, Sink, Token,
    TransferError,
};
use causeway_wire::region::RegionDescriptor;

use super::Factory;
use super::node::{List, Node, Pair};
use crate::patience::Patience;

/// A handler of packets.
type Serve = Box<dyn FnMut(Vec<u8>, &mut dyn Outlet)>;

/// A sink with a handler.
struct Server {
    serve: Serve,
    writable: bool,
}

impl Server {
    fn new(serve: impl FnMut(Vec<u8>, &mut dyn Outlet) + 'static) -> Self {
        Self {
            serve: Box::new(serve),
            writable: false,
        }
    }

    /// One poll, and a tick, of the node's method with this sink.
    fn step<M: Method>(&mut self, node: &mut Node<M>) {
        node.method.poll(Instant::now(), self);
        node.method.tick(Instant::now(), self);
    }
}

impl Sink for Server {
    fn packet(&mut self, _: Peer, _: Packet<'_>) {
        panic!("a packet without an outlet");
    }

    fn handle(&mut self, _: Peer, packet: Packet<'_>, outlet: &mut dyn Outlet) {
        (self.serve)(packet.to_vec(0), outlet);
    }

    fn transfer_done(&mut self, _: Peer, _: Token, result: Result<(), TransferError>) {
        assert_eq!(result, Ok(()));
    }

    fn peer_up(&mut self, _: Peer) {}

    fn peer_down(&mut self, _: Peer, cause: PeerError) {
        panic!("the peer went down: {cause}");
    }

    fn writable(&mut self, _: Peer) {
        self.writable = true;
    }
}

/// Each side's handler replies to the other's, so that a packet goes to and fro as long as both poll.
pub fn keep_a_packet_going<F: Factory>(factory: &F) {
    const ROUNDS: u64 = 2000;
    let mut pair = Pair::new(factory);
    let (report, reports) = std::sync::mpsc::channel();
    let mut servers = [0, 1].map(|first| {
        let (report, mut expected) = (report.clone(), first);
        Server::new(move |packet, outlet| {
            assert_eq!(packet, u64::to_le_bytes(expected));
            let next = u64::to_le_bytes(expected + 1);
            let (front, back) = next.split_at(4);
            let sent = outlet.send(&[front, back]);
            assert_eq!(sent, Ok(()), "there is one packet");
            report.send(expected).expect("the test listens");
            expected += 2;
        })
    });
    pair.a_sends(&0_u64.to_le_bytes());
    let mut patience = Patience::new("a packet goes to and fro");
    let mut last = 0;
    while last < ROUNDS {
        let [b, a] = &mut servers;
        a.step(&mut pair.a);
        b.step(&mut pair.b);
        last = reports.try_iter().last().unwrap_or(last);
        patience.spend();
    }
}

/// Sends of a handler return that they would block as other sends do, and room is reported.
pub fn are_held_up_as_all_packets<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let limit = pair.b.method.limits().max_packet;
    let (report, reports) = std::sync::mpsc::channel();
    let mut server = Server::new(move |_, outlet| {
        let refused = outlet.send(&[&vec![0; limit], b"1"]);
        let len = limit + 1;
        assert_eq!(refused, Err(SendError::TooLarge { len, limit }));
        let mut accepted = 0_u32;
        let refused = loop {
            match outlet.send(&[&accepted.to_le_bytes(), &[7; 4092]]) {
                Ok(()) => accepted += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(refused, SendError::WouldBlock);
        report.send(accepted).expect("the test listens");
    });
    pair.a_sends(b"as many as there is room for");
    let mut patience = Patience::new("the replies");
    let (mut accepted, mut came) = (u32::MAX, 0);
    while came < accepted || !server.writable {
        server.step(&mut pair.b);
        accepted = reports.try_iter().last().unwrap_or(accepted);
        pair.a.step();
        while let Some((_, packet)) = pair.a.packet() {
            assert_eq!(packet[..4], came.to_le_bytes());
            assert_eq!(packet.len(), 4096);
            came += 1;
        }
        patience.spend();
    }
    assert!(accepted > 0 && came == accepted);
    let mut patience = Patience::with_limit("no further packet", Duration::from_secs(60));
    for _ in 0..100 {
        server.step(&mut pair.b);
        pair.a.step();
        patience.spend();
    }
    assert_eq!(pair.a.packet(), None);
}

/// Bytes that a handler reads have arrived when the call returns so, and the notification follows; a forbidden read is not
/// reported as done, and no notification is sent.
pub fn read_what_their_peers_export<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let (to_b, to_a) = (pair.to_b, pair.to_a);
    for len in [1, 4096, 12_000, 100_000] {
        let bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
        let memory = Memory::from_vec(bytes.clone());
        let open = pair.a.export(to_b, &memory, Access::Read);
        let closed = pair.a.export(to_b, &memory, Access::Read);
        pair.a.method.revoke(to_b, closed.key);
        let elsewhere = RegionDescriptor {
            base: open.base + 1,
            ..open
        };
        let (report, reports) = std::sync::mpsc::channel();
        let mut server = Server::new(move |_, outlet| {
            for forbidden in [closed, elsewhere] {
                let local = Memory::zeroed(len);
                assert!(!outlet.read_now(&local, &forbidden, b"forbidden"));
            }
            let short = Memory::zeroed(len - 1);
            assert!(!outlet.read_now(&short, &open, b"too short"));
            let local = Memory::zeroed(len + 1);
            let is_read = outlet.read_now(&local, &open, b"read");
            report
                .send((is_read, local.to_vec()))
                .expect("the test listens");
        });
        pair.a_sends(b"read it");
        let mut patience = Patience::new("the handler's call");
        let (is_read, read) = loop {
            server.step(&mut pair.b);
            pair.a.step();
            if let Ok(report) = reports.try_recv() {
                break report;
            }
            patience.spend();
        };
        if is_read {
            assert_eq!((&read[..len], read[len]), (&bytes[..], 0));
            assert_eq!(pair.a_receives(), (to_b, b"read".to_vec()));
        }
        pair.a.method.revoke(to_b, open.key);
        // No further packet has arrived, and transfers still work.
        assert_eq!(pair.b.packet(), None);
        let back = pair.b.export(to_a, &memory, Access::Read);
        let list = List::simple(Direction::Get, &Memory::zeroed(len), back);
        assert_eq!(pair.a_transfers(&list), Ok(()));
        pair.b.method.revoke(to_a, back.key);
    }
}

/// The peer cannot use an export that a handler has ended.
pub fn end_exports<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let to_a = pair.to_a;
    let memory = Memory::from_vec(vec![1; 5000]);
    let export = pair.b.export(to_a, &memory, Access::ReadWrite);
    let (report, reports) = std::sync::mpsc::channel();
    let mut server = Server::new(move |_, outlet| {
        assert!(report.send(outlet.revoke_now(export.key)).is_ok());
    });
    pair.a_sends(b"end it");
    let mut patience = Patience::new("the handler's call");
    let is_ended = loop {
        server.step(&mut pair.b);
        if let Ok(is_ended) = reports.try_recv() {
            break is_ended;
        }
        pair.a.step();
        patience.spend();
    };
    if !is_ended {
        pair.b.method.revoke(to_a, export.key);
    }
    for direction in [Direction::Get, Direction::Put] {
        let list = List::simple(direction, &Memory::zeroed(5000), export);
        assert_eq!(pair.a_transfers(&list), Err(TransferError::Protection));
    }
    assert_eq!(memory.to_vec(), [1; 5000]);
}
