//! Trust, and senders without a connection, whose datagrams may hold anything.

use std::net::UdpSocket;
use std::time::Duration;

use causeway_wire::datagram::{
    self, Ack, BITMAP_WORDS, COOKIE_BYTES, Datagram, FORMATS, GREETING_BYTES, Greeting, Kind,
    PUBLIC_KEY, Prefix, Segment,
};
use causeway_wire::formats::Formats;
use causeway_wire::tcp::{Auth, Refusal};

mod calling;
mod flood;

use super::*;
use crate::error::{PeerError, TransferError};
use crate::half_open::Source;
use crate::method::{Packet, Token};

#[derive(Default)]
struct Seen {
    packets: Vec<Vec<u8>>,
    up: Vec<Peer>,
    down: Vec<PeerError>,
}

impl Sink for Seen {
    fn packet(&mut self, _: Peer, packet: Packet<'_>) {
        self.packets.push(packet.to_vec(0));
    }
    fn transfer_done(&mut self, _: Peer, _: Token, _: Result<(), TransferError>) {}
    fn peer_up(&mut self, peer: Peer) {
        self.up.push(peer);
    }
    fn peer_down(&mut self, _: Peer, cause: PeerError) {
        self.down.push(cause);
    }
    fn writable(&mut self, _: Peer) {}
}

fn method(key: Option<u8>) -> Udp {
    Udp::new(UdpConfig {
        key: key.map(|byte| [byte; 32].into()),
        max_half_open: 16,
        // A refusal is believed when this is over.
        connect_timeout: Duration::from_secs(2),
        ..UdpConfig::default()
    })
    .unwrap()
}

fn listening(key: Option<u8>) -> (Udp, Address) {
    let mut udp = method(key);
    let address = udp.listen(&"udp://127.0.0.1:0".parse().unwrap()).unwrap();
    (udp, address)
}

/// Polls until `done`; a minute is far more than it takes.
fn until(sides: &mut [(&mut Udp, &mut Seen)], mut done: impl FnMut(&[&Seen]) -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        for (udp, seen) in sides.iter_mut() {
            udp.poll(Instant::now(), *seen);
        }
        let all: Vec<&Seen> = sides.iter().map(|(_, seen)| &**seen).collect();
        if done(&all) {
            return;
        }
        assert!(Instant::now() < patience, "waited in vain");
        std::thread::yield_now();
    }
}

#[test]
fn who_does_not_hold_the_same_key_stays_outside_and_learns_why() {
    for (theirs, ours, why) in [
        (Some(1), None, "demands"),
        (None, Some(1), "has no cluster key"),
        (Some(1), Some(2), "another cluster key"),
    ] {
        let (mut callee, address) = listening(theirs);
        let mut caller = method(ours);
        let peer = caller.connect(Instant::now(), &address).unwrap();
        caller.send(peer, &[b"let me in"]).unwrap();
        let (mut inside, mut outside) = (Seen::default(), Seen::default());
        let sides = &mut [(&mut callee, &mut inside), (&mut caller, &mut outside)];
        until(sides, |seen| !seen[1].down.is_empty());
        let cause = &outside.down[0];
        assert!(matches!(cause, PeerError::Unauthorised(_)), "{cause}");
        assert!(cause.to_string().contains(why), "{cause}");
        assert!(inside.up.is_empty() && inside.packets.is_empty());
    }
}

#[test]
fn without_a_key_only_this_host_is_talked_to() {
    let mut udp = method(None);
    for address in ["udp://192.0.2.1:9", "udp://[2001:db8::1]:9"] {
        let address: Address = address.parse().unwrap();
        for error in [
            udp.connect(Instant::now(), &address).unwrap_err(),
            udp.listen(&address).unwrap_err(),
        ] {
            assert!(error.to_string().contains("cluster key"), "{error}");
        }
    }
    let keyed = method(Some(1)).connect(Instant::now(), &"udp://192.0.2.1:9".parse().unwrap());
    assert!(keyed.is_ok());
}

/// A caller that writes its datagrams by hand, from a socket of its own.
struct RawCaller {
    socket: UdpSocket,
}

impl RawCaller {
    fn calling(address: &Address) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(address.rest()).unwrap();
        let most = Duration::from_millis(20);
        socket.set_read_timeout(Some(most)).unwrap();
        Self { socket }
    }

    fn open(&self, number: u64, greeting: Greeting) {
        let prefix = Prefix {
            kind: Kind::Open,
            to: 0,
            from: number,
        };
        let mut bytes = Vec::new();
        greeting.encode(prefix, &mut bytes);
        self.socket.send(&bytes).unwrap();
    }

    /// Sends a segment, in the clear if there is no seal.
    fn segment(
        &self,
        (to, from): (u64, u64),
        number: u64,
        segment: &Segment<'_>,
        seal: Option<&noise::Seal>,
    ) {
        let kind = seal.map_or(Kind::Plain, |_| Kind::Sealed);
        let mut bytes = Vec::new();
        datagram::begin_segment(Prefix { kind, to, from }, number, &mut bytes);
        let mut body = Vec::new();
        segment.encode_head(&mut body);
        body.extend_from_slice(segment.data);
        match seal {
            Some(seal) => {
                let mut sealed = vec![0; body.len() + datagram::TAG_BYTES];
                seal.write_message(number, &body, &mut sealed).unwrap();
                bytes.extend(sealed);
            }
            None => {
                bytes.extend(body);
                datagram::seal_with_check(0, &mut bytes);
            }
        }
        self.socket.send(&bytes).unwrap();
    }

    /// What comes back while `udp` works on it.
    fn answer(&self, udp: &mut Udp, seen: &mut Seen) -> Option<Vec<u8>> {
        for _ in 0..10 {
            udp.tick(Instant::now(), seen);
            let mut bytes = vec![0; 70_000];
            if let Ok(count) = self.socket.recv(&mut bytes) {
                bytes.truncate(count);
                return Some(bytes);
            }
        }
        None
    }

    /// Gets as far as an acceptance; returns the callee's number and the connection's seal.
    fn let_in(&self, number: u64, udp: &mut Udp, seen: &mut Seen) -> (u64, noise::Seal) {
        self.let_in_with(FORMATS, number, udp, seen)
    }

    /// The same as a build that speaks these formats.
    fn let_in_with(
        &self,
        formats: Formats,
        number: u64,
        udp: &mut Udp,
        seen: &mut Seen,
    ) -> (u64, noise::Seal) {
        let before = udp.core.half_open.len();
        self.open(
            number,
            Greeting {
                formats,
                ..Greeting::default()
            },
        );
        let bytes = self.answer(udp, seen).expect("a cookie");
        assert!(bytes.len() <= GREETING_BYTES, "no more than was sent");
        let Ok(Datagram::Greeting(prefix, greeting)) = Datagram::decode(&bytes) else {
            panic!("no greeting");
        };
        assert_eq!((prefix.kind, prefix.to), (Kind::Cookie, number));
        assert_eq!(udp.core.half_open.len(), before, "nothing is kept");
        let (mut begun, opening) = opening(formats, number, greeting.cookie);
        self.open(number, opening);
        let bytes = self.answer(udp, seen).expect("an acceptance");
        let Ok(Datagram::Greeting(prefix, greeting)) = Datagram::decode(&bytes) else {
            panic!("no greeting");
        };
        assert_eq!((prefix.kind, prefix.to), (Kind::Accept, number));
        assert!(noise::accepts_reply(&mut begun, &greeting.noise));
        (prefix.from, noise::finish(begun).unwrap())
    }
}

/// The opening of a caller without a key that has a cookie.
fn opening(formats: Formats, number: u64, cookie: [u8; COOKIE_BYTES]) -> (noise::Begun, Greeting) {
    let call = noise::Call {
        caller: number,
        cookie: &cookie,
        formats: [formats, FORMATS],
    };
    let (begun, noise) = noise::call(&PUBLIC_KEY, call, [number as u8; 32]).unwrap();
    let greeting = Greeting {
        formats,
        cookie,
        noise,
        ..Greeting::default()
    };
    (begun, greeting)
}

const DATA: Segment<'static> = Segment {
    wants_ack: true,
    ack: None,
    offset: 0,
    data: b"x",
};

#[test]
fn a_connection_that_means_nothing_is_disowned_and_calls_to_callers_are_not_taken() {
    let (mut udp, address) = listening(None);
    let mut seen = Seen::default();
    let raw = RawCaller::calling(&address);
    raw.segment((77, 88), 0, &DATA, None);
    let reset = raw.answer(&mut udp, &mut seen).expect("a reset");
    let expected = Prefix {
        kind: Kind::Reset,
        to: 88,
        from: 77,
    };
    assert_eq!(Datagram::decode(&reset), Ok(Datagram::Reset(expected)));
    // The socket from which others are called takes no calls.
    let mut caller = method(None);
    let unanswering = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target: Address = format!("udp://{}", unanswering.local_addr().unwrap())
        .parse()
        .unwrap();
    let peer = caller.connect(Instant::now(), &target).unwrap();
    caller.send(peer, &[b"hello"]).unwrap();
    let (_, outlet) = unanswering.recv_from(&mut [0; 200]).unwrap();
    let raw = RawCaller::calling(&format!("udp://{outlet}").parse().unwrap());
    raw.open(99, Greeting::default());
    let reset = loop {
        let bytes = raw.answer(&mut caller, &mut seen).expect("a reset");
        if let Ok(Datagram::Reset(prefix)) = Datagram::decode(&bytes) {
            break prefix;
        }
    };
    assert_eq!((reset.to, reset.from), (99, 0));
}

#[test]
fn half_open_connections_are_few_and_end() {
    let (mut udp, address) = listening(None);
    let mut seen = Seen::default();
    let callers: Vec<_> = (0..8).map(|_| RawCaller::calling(&address)).collect();
    for (number, raw) in callers.iter().enumerate() {
        raw.let_in(number as u64 + 1, &mut udp, &mut seen);
    }
    let late = RawCaller::calling(&address);
    // Whether there is a place is a question of the time: the core is told one.
    let from = Remote {
        socket: 0,
        address: late.socket.local_addr().unwrap(),
    };
    let prefix = Prefix {
        kind: Kind::Open,
        to: 0,
        from: 9,
    };
    let source = Source::User(rustix::process::geteuid().as_raw());
    let first = |core: &core::Core| core.half_open.to_evict(source).unwrap().0.since;
    let oldest = first(&udp.core);
    let cookie = udp.core.cookies.make(from.address, 9, oldest);
    let (_, greeting) = opening(FORMATS, 9, cookie);
    let almost = oldest + Duration::from_millis(999);
    for (now, is_accepted) in [(almost, false), (oldest + Duration::from_secs(1), true)] {
        let Udp { core, io, .. } = &mut udp;
        core.greeting(now, from, prefix, greeting, io, &mut seen);
        assert_eq!(core.by_caller.contains_key(&(from, 9)), is_accepted);
        assert_eq!((core.half_open.len(), core.peers.len()), (8, 8));
        assert_ne!(first(core) == oldest, is_accepted, "the oldest goes");
    }
    let later = udp.now() + 2 * udp.core.config.connect_timeout;
    udp.core.handle_timer(later, &mut seen);
    assert_eq!((udp.core.half_open.len(), udp.core.peers.len()), (0, 0));
    assert!(
        seen.up.is_empty() && seen.down.is_empty(),
        "no event was reported"
    );
}

#[test]
fn a_peer_that_breaks_the_protocol_is_dropped() {
    let ack = Ack {
        delay_us: 0,
        largest: 0,
        bitmap: [0; BITMAP_WORDS],
        received: 0,
        limit: 0,
    };
    let with_ack = |ack| Segment {
        ack: Some(ack),
        ..DATA
    };
    let nonsense = [0xff; 64];
    let wrongs = [
        with_ack(Ack { largest: 50, ..ack }),
        with_ack(Ack { received: 1, ..ack }),
        Segment {
            offset: 1 << 40,
            ..DATA
        },
        Segment {
            data: &nonsense,
            ..DATA
        },
    ];
    for (round, wrong) in wrongs.iter().enumerate() {
        let (mut udp, address) = listening(None);
        let mut seen = Seen::default();
        let raw = RawCaller::calling(&address);
        let number = 5 + round as u64;
        let (theirs, seal) = raw.let_in(number, &mut udp, &mut seen);
        raw.segment((theirs, number), 0, &DATA, Some(&seal));
        // Whatever answers that comes first.
        raw.answer(&mut udp, &mut seen);
        assert_eq!(seen.up.len(), 1);
        raw.segment((theirs, number), 1, wrong, Some(&seal));
        until(&mut [(&mut udp, &mut seen)], |seen| {
            !seen[0].down.is_empty()
        });
        let cause = &seen.down[0];
        assert!(matches!(cause, PeerError::Protocol(_)), "{round}: {cause}");
    }
}

/// A process that comes to hold the port of a peer that is gone knows both numbers of the connection.
#[test]
fn without_a_key_the_numbers_of_a_connection_are_not_enough_to_take_it_over() {
    let (mut udp, address) = listening(None);
    let mut seen = Seen::default();
    let raw = RawCaller::calling(&address);
    let (theirs, seal) = raw.let_in(5, &mut udp, &mut seen);
    raw.segment((theirs, 5), 0, &DATA, Some(&seal));
    let bytes = raw.answer(&mut udp, &mut seen).expect("a segment");
    let read = Datagram::decode(&bytes);
    assert!(matches!(read, Ok(Datagram::Sealed(..))), "{read:?}");
    // What would end the connection, if it were taken for the peer's.
    let nonsense = Segment {
        data: &[0xff; 64],
        ..DATA
    };
    let other = RawCaller::calling(&address);
    let (_, other_seal) = other.let_in(6, &mut udp, &mut seen);
    raw.segment((theirs, 5), 1, &nonsense, None);
    raw.segment((theirs, 5), 1, &nonsense, Some(&other_seal));
    for _ in 0..10 {
        udp.tick(Instant::now(), &mut seen);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(seen.down.is_empty(), "{:?}", seen.down);
    raw.segment((theirs, 5), 1, &nonsense, Some(&seal));
    until(&mut [(&mut udp, &mut seen)], |seen| {
        !seen[0].down.is_empty()
    });
}

#[test]
fn openings_of_another_kind_are_refused_with_the_reason() {
    let (mut udp, address) = listening(None);
    let mut seen = Seen::default();
    let raw = RawCaller::calling(&address);
    let auth = Auth::ClusterKey;
    raw.open(
        1,
        Greeting {
            auth,
            ..Greeting::default()
        },
    );
    let bytes = raw.answer(&mut udp, &mut seen).expect("a refusal");
    let read = Datagram::decode(&bytes);
    assert!(matches!(read, Ok(Datagram::Greeting(prefix, greeting))
            if prefix.kind == Kind::Refuse && greeting.refusal == Refusal::NoKey));
}

/// An opening that states these formats, whatever they are.
fn stating(number: u64, lowest: u8, above: u8) -> Vec<u8> {
    let prefix = Prefix {
        kind: Kind::Open,
        to: 0,
        from: number,
    };
    let mut bytes = Vec::new();
    Greeting::default().encode(prefix, &mut bytes);
    (bytes[1], bytes[datagram::PREFIX_BYTES + 2]) = (lowest, above);
    bytes.truncate(GREETING_BYTES - datagram::CHECK_BYTES);
    datagram::seal_with_check(0, &mut bytes);
    bytes
}

/// Builds of format 4 and before sent the same, and nothing above.
#[test]
fn openings_of_other_formats_are_refused_with_ours_and_nonsense_is_dropped() {
    let (mut udp, address) = listening(None);
    let mut seen = Seen::default();
    let raw = RawCaller::calling(&address);
    for (lowest, above) in [(4, 0), (1, 3), (6, 0), (6, 249)] {
        raw.socket.send(&stating(2, lowest, above)).unwrap();
        let bytes = raw.answer(&mut udp, &mut seen).expect("a refusal");
        let Ok(Datagram::Greeting(prefix, greeting)) = Datagram::decode(&bytes) else {
            panic!("no greeting");
        };
        assert_eq!((prefix.kind, prefix.to), (Kind::Refuse, 2));
        assert_eq!(greeting.refusal, Refusal::Version);
        assert_eq!(greeting.formats, FORMATS);
    }
    for (lowest, above) in [(0, 0), (0, 9), (6, 250)] {
        raw.socket.send(&stating(2, lowest, above)).unwrap();
        let answer = raw.answer(&mut udp, &mut seen);
        assert_eq!(answer, None, "{lowest} {above}");
    }
}

#[test]
fn callers_that_speak_further_formats_are_let_in_and_what_they_state_cannot_be_altered() {
    let (mut udp, address) = listening(None);
    let mut seen = Seen::default();
    for (number, lowest, above) in [(1, 4, 1), (2, 5, 2), (3, 1, 200)] {
        let raw = RawCaller::calling(&address);
        let formats = Formats::stated(lowest, above).unwrap();
        let (theirs, seal) = raw.let_in_with(formats, number, &mut udp, &mut seen);
        raw.segment((theirs, number), 0, &DATA, Some(&seal));
        until(&mut [(&mut udp, &mut seen)], |seen| {
            seen[0].up.len() == number as usize
        });
    }
    let raw = RawCaller::calling(&address);
    raw.open(9, Greeting::default());
    let bytes = raw.answer(&mut udp, &mut seen).expect("a cookie");
    let Ok(Datagram::Greeting(_, greeting)) = Datagram::decode(&bytes) else {
        panic!("no greeting");
    };
    let further = Formats::stated(5, 1).unwrap();
    let (_, mut altered) = opening(further, 9, greeting.cookie);
    altered.formats = FORMATS;
    raw.open(9, altered);
    assert_eq!(raw.answer(&mut udp, &mut seen), None);
}
