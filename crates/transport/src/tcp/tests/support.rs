//! Nodes that record the events of their sink, and bounded waiting.

use std::time::{Duration, Instant};

use causeway_sys::memory::Memory;
use causeway_wire::region::RegionDescriptor;
use causeway_wire::tcp::{FORMATS, Header, Holder, Kind};

use crate::address::Address;
use crate::error::{PeerError, SendError, TransferError};
use crate::method::{Direction, Method, Packet, Peer, Sink, Token, Transfer};
use crate::tcp::handshake::{HandshakeConfig, has_fast_aes};
use crate::tcp::{Tcp, TcpConfig};

/// Far longer than any wait here takes on an idle machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn plain() -> TcpConfig {
    TcpConfig::default()
}

pub(super) fn keyed(encrypt: bool) -> TcpConfig {
    TcpConfig {
        key: Some([0x42; 32].into()),
        encrypt,
        ..TcpConfig::default()
    }
}

/// For handshakes made by hand.
pub(super) fn config(key: Option<[u8; 32]>, encrypt: bool, holder: Holder) -> HandshakeConfig {
    HandshakeConfig {
        key: key.map(Into::into),
        encrypt,
        holder_or_nonce: holder,
        fast_aes: has_fast_aes(),
        connections: 1,
        ticket: None,
        formats: FORMATS,
        nodes: None,
        agent: None,
    }
}

#[derive(Default)]
pub(super) struct Seen {
    pub(super) packets: Vec<(Peer, Vec<u8>)>,
    pub(super) done: Vec<(Peer, Token, Result<(), TransferError>)>,
    pub(super) ups: Vec<Peer>,
    pub(super) downs: Vec<(Peer, PeerError)>,
    pub(super) writables: Vec<Peer>,
}

impl Seen {
    /// The numbers in the first four bytes of all packets.
    pub(super) fn packet_numbers(&self) -> Vec<u32> {
        let number = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().unwrap());
        self.packets
            .iter()
            .map(|(_, bytes)| number(bytes))
            .collect()
    }
}

impl Sink for Seen {
    fn packet(&mut self, peer: Peer, packet: Packet<'_>) {
        self.packets.push((peer, packet.to_vec(0)));
    }
    fn transfer_done(&mut self, peer: Peer, token: Token, result: Result<(), TransferError>) {
        assert!(
            self.downs.iter().all(|(down, _)| *down != peer) || self.ups.is_empty(),
            "a transfer completes after its peer is down"
        );
        self.done.push((peer, token, result));
    }
    fn peer_up(&mut self, peer: Peer) {
        self.ups.push(peer);
    }
    fn peer_down(&mut self, peer: Peer, cause: PeerError) {
        self.downs.push((peer, cause));
    }
    fn writable(&mut self, peer: Peer) {
        self.writables.push(peer);
    }
}

pub(super) struct Node {
    pub(super) tcp: Tcp,
    pub(super) seen: Seen,
}

impl Node {
    pub(super) fn new(config: TcpConfig) -> Self {
        Self {
            tcp: Tcp::new(config).unwrap(),
            seen: Seen::default(),
        }
    }

    pub(super) fn listen(&mut self) -> Address {
        self.tcp
            .listen(&"tcp://127.0.0.1:0".parse().unwrap())
            .unwrap()
    }

    pub(super) fn poll(&mut self) -> bool {
        self.tcp.tick(Instant::now(), &mut self.seen);
        self.tcp.poll(Instant::now(), &mut self.seen)
    }

    /// Sleeps a moment at most; returns whether the descriptor is readable.
    pub(super) fn readable(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let descriptor = self.tcp.pollable();
        let wait = Timespec {
            tv_sec: 0,
            tv_nsec: 10_000_000,
        };
        poll(
            &mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)],
            Some(&wait),
        )
        .unwrap()
            == 1
    }
}

/// Polls all nodes until `done`.
pub(super) fn until(nodes: &mut [&mut Node], mut done: impl FnMut(&mut [&mut Node]) -> bool) {
    let limit = Instant::now() + PATIENCE;
    while !done(nodes) {
        let mut any = false;
        for node in nodes.iter_mut() {
            any |= node.poll();
        }
        if !any {
            std::thread::yield_now();
        }
        assert!(Instant::now() < limit, "the event does not arrive");
    }
}

/// Polls all nodes for a while, and a least number of times, as other programs may use the processor all the while.
pub(super) fn for_a_while(nodes: &mut [&mut Node], millis: u64) {
    const ROUNDS: u32 = 50;
    let end = Instant::now() + Duration::from_millis(millis);
    let mut rounds = 0;
    while rounds < ROUNDS || Instant::now() < end {
        rounds += 1;
        for node in nodes.iter_mut() {
            node.poll();
        }
    }
}

/// Sends, polling both sides while there is no room.
pub(super) fn send(from: &mut Node, to: Peer, bytes: &[u8], other: &mut Node) {
    loop {
        match from.tcp.send(to, &[bytes]) {
            Ok(()) => return,
            Err(SendError::WouldBlock) => {
                from.poll();
                other.poll();
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// A client, a server, and the server as the client's peer; the connection stands.
pub(super) fn pair(client: TcpConfig, server: TcpConfig) -> (Node, Node, Peer) {
    let (mut client, mut server) = (Node::new(client), Node::new(server));
    let address = server.listen();
    let peer = client.tcp.connect(Instant::now(), &address).unwrap();
    client.tcp.send(peer, &[b"first"]).unwrap();
    until(&mut [&mut client, &mut server], |nodes| {
        !nodes[1].seen.packets.is_empty()
    });
    server.seen.packets.clear();
    (client, server, peer)
}

/// A packet's frame as it travels unencrypted.
pub(super) fn packet_frame(bytes: &[u8]) -> Vec<u8> {
    let header = Header::new(Kind::Packet, bytes.len()).encode();
    [&header[..], bytes].concat()
}

/// Bytes that differ from place to place and seed to seed.
pub(super) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    causeway_wire::random::SplitMix64::new(seed).bytes(len)
}

pub(super) fn transfer(
    direction: Direction,
    local: &[Memory],
    remote: &[RegionDescriptor],
    notify: Option<&[u8]>,
    token: Token,
) -> Transfer {
    Transfer {
        direction,
        local: local.to_vec().into(),
        remote: remote.to_vec().into(),
        notify: notify.map(<[u8]>::to_vec).map(Into::into),
        registrations: Vec::new(),
        token,
    }
}
