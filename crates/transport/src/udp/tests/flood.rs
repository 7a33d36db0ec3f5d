//! Introductions in any number, from forged sources or users without rights: their cost for honest
//! peers. Time and network are the test's.

use causeway_wire::tcp::Holder;

use super::core::{Core, Environment, MAX_REPLIES, MAX_REPLIES_PER_HOST};
use super::*;
use crate::method::Identity;

/// A host where the third byte of an address is its user, and user 9 has no rights.
#[derive(Default)]
struct Host {
    random: u64,
    verified: usize,
    drawn: usize,
    /// Whether there is no handshake, as in simulated networks.
    in_the_clear: bool,
}

const NO_RIGHTS: u8 = 9;

impl Environment for Host {
    fn verify(&mut self, remote: Remote, _: Holder) -> Result<Identity, String> {
        self.verified += 1;
        let IpAddr::V4(address) = remote.address.ip() else {
            return Err("not a host of this test".to_owned());
        };
        let user = address.octets()[2];
        let (pid, uid, gid) = (1, user.into(), 0);
        match user {
            NO_RIGHTS => Err("it belongs to a user without rights".to_owned()),
            _ => Ok(Identity::SocketOf { pid, uid, gid }),
        }
    }

    fn holder(&self, _: u32) -> Holder {
        Holder::default()
    }

    fn datagram_bytes(&self, _: Remote) -> usize {
        1200
    }

    fn random(&mut self, into: &mut [u8]) {
        self.drawn += 1;
        for chunk in into.chunks_mut(8) {
            self.random += 1;
            chunk.copy_from_slice(&self.random.to_le_bytes()[..chunk.len()]);
        }
    }

    fn is_in_the_clear(&self) -> bool {
        self.in_the_clear
    }
}

/// The `n`-th address of a user.
fn address(user: u8, n: u32) -> Remote {
    let [_, _, high, low] = n.to_be_bytes();
    let address = SocketAddr::from(([127, high, user, low], 1000 + (n >> 16) as u16));
    Remote { socket: 0, address }
}

struct Server {
    core: Core,
    host: Host,
    seen: Seen,
    now: Time,
}

impl Server {
    fn new(config: UdpConfig, in_the_clear: bool) -> Self {
        let mut core = Core::new(config, [1; 32]);
        core.take_calls(0);
        let host = Host {
            in_the_clear,
            ..Host::default()
        };
        Self {
            core,
            host,
            seen: Seen::default(),
            now: Time::from_secs(100),
        }
    }

    /// An opening from `from` under the number `caller`, with its address's cookie if `has_asked`.
    fn open(&mut self, from: Remote, caller: u64, has_asked: bool) {
        let prefix = Prefix {
            kind: Kind::Open,
            to: 0,
            from: caller,
        };
        let mut greeting = Greeting::default();
        if has_asked {
            let cookie = self.core.cookies.make(from.address, caller, self.now);
            greeting.cookie = cookie;
            if !self.host.in_the_clear {
                greeting.noise = opening(FORMATS, caller, cookie).1.noise;
            }
        }
        let (host, seen) = (&mut self.host, &mut self.seen);
        self.core
            .greeting(self.now, from, prefix, greeting, host, seen);
    }

    /// Destination of the next datagram.
    fn transmit(&mut self) -> Option<Remote> {
        self.core.poll_transmit(self.now, &mut Vec::new())
    }

    /// An honest caller comes up, which costs it no more than its two messages.
    fn let_in(&mut self, from: Remote, caller: u64) -> Peer {
        self.open(from, caller, true);
        let peer = self.core.by_caller.get(&(from, caller));
        let peer = *peer.expect("there is a place for an honest caller");
        let link = self.core.peers.get(peer).unwrap().link.as_ref();
        let prefix = Prefix {
            kind: Kind::Plain,
            to: link.unwrap().ours,
            from: caller,
        };
        let mut bytes = Vec::new();
        datagram::begin_segment(prefix, 0, &mut bytes);
        let first = Segment { data: b"", ..DATA };
        first.encode_head(&mut bytes);
        datagram::seal_with_check(0, &mut bytes);
        let (host, seen) = (&mut self.host, &mut self.seen);
        self.core
            .handle_datagram(self.now, from, &bytes, host, seen);
        assert_eq!(self.seen.up.last(), Some(&peer), "it is up");
        peer
    }
}

#[test]
fn openings_from_forged_sources_are_not_kept() {
    let mut server = Server::new(UdpConfig::default(), true);
    for n in 0..100_000 {
        server.open(address(7, n), 1 + u64::from(n), false);
    }
    assert_eq!(
        (server.core.peers.len(), server.core.half_open.len()),
        (0, 0)
    );
    assert_eq!(server.core.replies.len(), MAX_REPLIES);
    assert_eq!((server.host.verified, server.host.drawn), (0, 0));
    assert!(server.core.owned_bytes() < 64 << 10);
    server.let_in(address(1, 0), 5);
}

#[test]
fn one_host_leaves_others_some_of_the_replies() {
    let mut server = Server::new(UdpConfig::default(), true);
    let (loud, calm) = (address(7, 1), address(1, 2));
    for n in 1..10_000 {
        server.open(loud, n, false);
    }
    server.open(calm, 5, false);
    let to: Vec<Remote> = std::iter::from_fn(|| server.transmit()).collect();
    assert_eq!(to.len(), MAX_REPLIES_PER_HOST + 1);
    assert_eq!(to.last(), Some(&calm));
}

/// Handshakes are expensive: for processes of users without rights only the owner of the socket is looked up.
#[test]
fn without_rights_there_is_no_handshake() {
    let mut server = Server::new(UdpConfig::default(), false);
    for n in 0..100 {
        server.open(address(NO_RIGHTS, n), 1 + u64::from(n), true);
    }
    assert_eq!((server.host.verified, server.host.drawn), (100, 0));
    assert_eq!(server.core.peers.len(), 0);
    server.open(address(1, 0), 5, true);
    assert_eq!(
        server.core.half_open.len(),
        1,
        "the handshake is the real one"
    );
}

#[test]
fn a_source_of_half_open_connections_takes_no_place_of_others() {
    let config = UdpConfig {
        max_half_open: 32,
        max_peers: 5,
        ..UdpConfig::default()
    };
    let mut server = Server::new(config, true);
    // Their replies are never read: they stay half open. They are no peers yet, and take no peer's place.
    for user in [7, 8] {
        for n in 0..1000 {
            server.open(address(user, n), 1 + u64::from(n), true);
            assert!(server.core.half_open.len() <= 32);
        }
    }
    assert_eq!(server.core.half_open.len(), 32, "half each");
    // At once, at the same instant; and their own source still waits for its turn.
    for n in 0..4 {
        server.let_in(address(1, n), 1 + u64::from(n));
    }
    assert_eq!(server.seen.up.len(), 4);
    assert!(server.seen.down.is_empty());
    // A new connection of one source replaces only old ones of that source.
    for n in 0..1000 {
        server.open(address(7, 5000 + n), 1, true);
    }
    let late = (address(7, 9000), 1);
    for (wait, is_accepted) in [(Duration::ZERO, false), (Duration::from_secs(1), true)] {
        server.now += wait;
        server.open(late.0, late.1, true);
        assert_eq!(server.core.by_caller.contains_key(&late), is_accepted);
    }
}

#[test]
fn replies_to_strangers_leave_peers_half_of_what_is_sent() {
    let mut server = Server::new(UdpConfig::default(), true);
    let honest = address(1, 0);
    let peer = server.let_in(honest, 5);
    while server.transmit().is_some() {}
    for _ in 0..16 {
        let (now, host) = (server.now, &mut server.host);
        let packet = [7; 1000];
        server.core.send(now, peer, &[&packet], host).unwrap();
    }
    let mut sent = Vec::new();
    for n in 0..16 {
        // More of them come than leave.
        for more in 0..8 {
            server.open(address(7, n * 8 + more), 1, false);
        }
        sent.extend(server.transmit());
        sent.extend(server.transmit());
    }
    let to_peer = sent.iter().filter(|&&to| to == honest).count();
    assert!(to_peer >= 8, "{to_peer} of {}", sent.len());
    assert!(
        to_peer <= 16 && sent.len() == 32,
        "callers without a connection get replies, too"
    );
}
