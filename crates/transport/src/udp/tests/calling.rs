//! Callers, and attacks of a false callee.

use causeway_wire::tcp::Holder;

use super::core::Environment;
use super::sockets::Sockets;
use super::*;
use crate::method::Identity;

/// Plays a process that takes calls.
struct Callee {
    socket: UdpSocket,
    address: Address,
}

impl Callee {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let address = format!("udp://{}", socket.local_addr().unwrap());
        Self {
            socket,
            address: address.parse().unwrap(),
        }
    }

    /// The next datagram that `caller` sends, and from where.
    fn next(&self, caller: &mut Udp, seen: &mut Seen) -> (Vec<u8>, SocketAddr) {
        let patience = Instant::now() + Duration::from_secs(60);
        loop {
            caller.tick(Instant::now(), seen);
            let mut bytes = vec![0; 70_000];
            if let Ok((count, from)) = self.socket.recv_from(&mut bytes) {
                bytes.truncate(count);
                return (bytes, from);
            }
            assert!(Instant::now() < patience, "the caller is silent");
            std::thread::yield_now();
        }
    }

    /// The next opening: from which caller, under which number, with which greeting.
    fn opening(&self, caller: &mut Udp, seen: &mut Seen) -> (SocketAddr, u64, Greeting) {
        let (bytes, from) = self.next(caller, seen);
        match Datagram::decode(&bytes) {
            Ok(Datagram::Greeting(prefix, greeting)) if prefix.kind == Kind::Open => {
                (from, prefix.from, greeting)
            }
            other => panic!("no opening: {other:?}"),
        }
    }

    /// Gives the caller a cookie; returns the opening that it comes back in.
    fn hand_cookie(
        &self,
        byte: u8,
        caller: (SocketAddr, u64),
        udp: &mut Udp,
        seen: &mut Seen,
    ) -> Greeting {
        let cookie = cookie(byte);
        self.greet(Kind::Cookie, caller, 0, cookie);
        loop {
            let opening = self.opening(udp, seen).2;
            if opening.cookie == cookie.cookie {
                return opening;
            }
        }
    }

    fn greet(&self, kind: Kind, caller: (SocketAddr, u64), number: u64, greeting: Greeting) {
        let prefix = Prefix {
            kind,
            to: caller.1,
            from: number,
        };
        let mut bytes = Vec::new();
        greeting.encode(prefix, &mut bytes);
        self.socket.send_to(&bytes, caller.0).unwrap();
    }
}

/// A caller without a key that has called, from where, and under which number.
fn calling(callee: &Callee, seen: &mut Seen) -> (Udp, Peer, SocketAddr, u64) {
    let mut caller = method(None);
    let peer = caller.connect(Instant::now(), &callee.address).unwrap();
    caller.send(peer, &[b"hello"]).unwrap();
    let (from, number, _) = callee.opening(&mut caller, seen);
    (caller, peer, from, number)
}

fn cookie(byte: u8) -> Greeting {
    Greeting {
        cookie: [byte; COOKIE_BYTES],
        ..Greeting::default()
    }
}

/// The reply of a callee without a key to an opening.
fn acceptance(caller: u64, opening: &Greeting) -> (noise::Seal, Greeting) {
    let call = noise::Call {
        caller,
        cookie: &opening.cookie,
        formats: [opening.formats, FORMATS],
    };
    let (seal, noise) = noise::reply(&PUBLIC_KEY, call, [3; 32], &opening.noise).unwrap();
    let accept = Greeting {
        noise,
        ..Greeting::default()
    };
    (seal, accept)
}

#[test]
fn an_acceptance_without_the_handshake_is_ignored_also_without_a_key() {
    let callee = Callee::new();
    let mut seen = Seen::default();
    let (mut caller, _, from, number) = calling(&callee, &mut seen);
    callee.hand_cookie(1, (from, number), &mut caller, &mut seen);
    callee.greet(Kind::Accept, (from, number), 9, Greeting::default());
    // The caller goes on sending openings.
    let opening = callee.opening(&mut caller, &mut seen).2;
    let (seal, accept) = acceptance(number, &opening);
    callee.greet(Kind::Accept, (from, number), 9, accept);
    let (bytes, _) = loop {
        let next = callee.next(&mut caller, &mut seen);
        if !matches!(Datagram::decode(&next.0), Ok(Datagram::Greeting(..))) {
            break next;
        }
    };
    let Ok(Datagram::Sealed(prefix, nonce, sealed)) = Datagram::decode(&bytes) else {
        panic!("not sealed");
    };
    assert_eq!((prefix.to, prefix.from), (9, number));
    assert!(
        seal.read_message(nonce, sealed, &mut vec![0; 70_000])
            .is_ok()
    );
}

/// Cookies may overtake each other, and each has a handshake of its own.
#[test]
fn an_acceptance_of_an_earlier_opening_is_valid() {
    let callee = Callee::new();
    let mut seen = Seen::default();
    let (mut caller, _, from, number) = calling(&callee, &mut seen);
    let mut openings = Vec::new();
    for byte in 1..=3 {
        openings.push(callee.hand_cookie(byte, (from, number), &mut caller, &mut seen));
    }
    assert_ne!(openings[0].noise, openings[1].noise);
    let (_, accept) = acceptance(number, &openings[1]);
    callee.greet(Kind::Accept, (from, number), 9, accept);
    loop {
        let (bytes, _) = callee.next(&mut caller, &mut seen);
        match Datagram::decode(&bytes) {
            Ok(Datagram::Greeting(..)) => {}
            Ok(Datagram::Sealed(prefix, ..)) => break assert_eq!(prefix.to, 9),
            other => panic!("{other:?}"),
        }
    }
}

/// The kernel names another user as the peer's owner while `doubts` is set.
struct Kernel<'a> {
    sockets: &'a mut Sockets,
    doubts: bool,
}

impl Environment for Kernel<'_> {
    fn verify(&mut self, at: Remote, holder: Holder) -> Result<Identity, String> {
        match self.doubts {
            true => Err("it belongs to somebody else".to_owned()),
            false => self.sockets.verify(at, holder),
        }
    }

    fn holder(&self, socket: u32) -> Holder {
        self.sockets.holder(socket)
    }

    fn datagram_bytes(&self, remote: Remote) -> usize {
        self.sockets.datagram_bytes(remote)
    }

    fn random(&mut self, into: &mut [u8]) {
        self.sockets.random(into);
    }
}

/// A caller without a key that has sent an opening with a cookie, and the acceptance that answers it.
fn called(callee: &Callee, seen: &mut Seen) -> (Udp, Peer, u64, Greeting) {
    let (mut caller, peer, from, number) = calling(callee, seen);
    let opening = callee.hand_cookie(1, (from, number), &mut caller, seen);
    let (_, accept) = acceptance(number, &opening);
    (caller, peer, number, accept)
}

/// Hands the caller's core an acceptance at `now`.
fn accept(
    caller: &mut Udp,
    callee: &Callee,
    (number, greeting): (u64, Greeting),
    doubts: bool,
    seen: &mut Seen,
) {
    let now = caller.now();
    let Udp { core, io, .. } = caller;
    let remote = Remote {
        socket: 0,
        address: callee.socket.local_addr().unwrap(),
    };
    let prefix = Prefix {
        kind: Kind::Accept,
        to: number,
        from: 9,
    };
    let mut kernel = Kernel {
        sockets: io,
        doubts,
    };
    core.greeting(now, remote, prefix, greeting, &mut kernel, seen);
}

#[test]
fn without_a_key_an_acceptance_from_another_source_does_not_end_the_attempt() {
    let callee = Callee::new();
    let mut seen = Seen::default();
    let (mut caller, peer, number, greeting) = called(&callee, &mut seen);
    for count in 1..=3 {
        accept(&mut caller, &callee, (number, greeting), true, &mut seen);
        let facts = caller.core.facts(peer).unwrap();
        let ignored = format!("{count} replies were not the peer's");
        assert!(facts[1].1.contains(&ignored), "{facts:?}");
    }
    assert!(seen.down.is_empty(), "{:?}", seen.down);
    // The handshake is unchanged: the callee's own acceptance is accepted.
    accept(&mut caller, &callee, (number, greeting), false, &mut seen);
    let facts = caller.core.facts(peer).unwrap();
    assert_eq!(facts[1].1, "up");
    assert!(seen.down.is_empty(), "{:?}", seen.down);
}

#[test]
fn an_attempt_that_heard_only_another_source_reports_that_in_the_end() {
    let callee = Callee::new();
    let mut seen = Seen::default();
    let (mut caller, _, number, greeting) = called(&callee, &mut seen);
    accept(&mut caller, &callee, (number, greeting), true, &mut seen);
    let over = caller.now() + caller.core.config.connect_timeout;
    caller.core.handle_timer(over, &mut seen);
    let [PeerError::Unauthorised(reason)] = &seen.down[..] else {
        panic!("{:?}", seen.down);
    };
    assert!(reason.contains("somebody else"), "{reason}");
}

fn refusal(refusal: Refusal) -> Greeting {
    Greeting {
        refusal,
        ..Greeting::default()
    }
}

#[test]
fn with_a_key_a_forged_refusal_does_not_end_the_attempt() {
    let callee = Callee::new();
    let mut caller = Udp::new(UdpConfig {
        key: Some([1; 32].into()),
        connect_timeout: Duration::from_secs(60),
        ..UdpConfig::default()
    })
    .unwrap();
    let mut seen = Seen::default();
    let peer = caller.connect(Instant::now(), &callee.address).unwrap();
    caller.send(peer, &[b"hello"]).unwrap();
    let (from, number, _) = callee.opening(&mut caller, &mut seen);
    callee.greet(Kind::Refuse, (from, number), 0, refusal(Refusal::Full));
    let mut foreign = Vec::new();
    let prefix = Prefix {
        kind: Kind::Refuse,
        to: number,
        from: 0,
    };
    refusal(Refusal::Version).encode(prefix, &mut foreign);
    foreign[1] = 9;
    foreign.truncate(GREETING_BYTES - datagram::CHECK_BYTES);
    datagram::seal_with_check(0, &mut foreign);
    callee.socket.send_to(&foreign, from).unwrap();
    let mut reset = Vec::new();
    datagram::encode_reset(number, 0, &mut reset);
    callee.socket.send_to(&reset, from).unwrap();
    callee.hand_cookie(1, (from, number), &mut caller, &mut seen);
    assert!(seen.down.is_empty(), "{:?}", seen.down);
}

#[test]
fn a_caller_refused_at_one_address_of_a_name_tries_the_next() {
    let (one, other) = (Callee::new(), Callee::new());
    let mut caller = method(None);
    let mut seen = Seen::default();
    let targets: Vec<Remote> = [&one, &other]
        .map(|callee| {
            let address = callee.socket.local_addr().unwrap();
            let socket = caller.outlet(address).unwrap();
            Remote { socket, address }
        })
        .to_vec();
    let peer = caller.core.connect(&one.address, targets).unwrap();
    caller.send(peer, &[b"hello"]).unwrap();
    let (from, number, _) = one.opening(&mut caller, &mut seen);
    one.greet(Kind::Refuse, (from, number), 0, refusal(Refusal::Full));
    let (_, again, _) = other.opening(&mut caller, &mut seen);
    assert_ne!(number, again);
    assert!(seen.down.is_empty(), "{:?}", seen.down);
}

/// Each cookie costs a handshake.
#[test]
fn cookies_are_taken_no_faster_than_openings_are_sent() {
    let callee = Callee::new();
    let mut seen = Seen::default();
    let (mut caller, peer, from, number) = calling(&callee, &mut seen);
    let now = caller.now();
    let Udp { core, io, .. } = &mut caller;
    let remote = Remote {
        socket: 0,
        address: callee.socket.local_addr().unwrap(),
    };
    let prefix = Prefix {
        kind: Kind::Cookie,
        to: number,
        from: 0,
    };
    assert!(core.opening_to(remote, prefix).is_some(), "{from}");
    // While time stands still, only urgent packets are sent.
    let mut sent = 0;
    for byte in 1..=100 {
        let greeting = cookie(byte);
        core.greeting(now, remote, prefix, greeting, io, &mut seen);
        let mut other = greeting;
        other.cookie[0] ^= 0x80;
        core.greeting(now, remote, prefix, other, io, &mut seen);
        while core.poll_transmit(now, &mut Vec::new()).is_some() {
            sent += 1;
        }
    }
    assert_eq!(sent, 4);
    let link = core.peers.get(peer).unwrap().link.as_ref().unwrap();
    let link::Phase::Opening(opening) = &link.phase else {
        panic!("it is still opening");
    };
    assert_eq!(opening.noise.len(), 5, "the last one waits to be sent");
}

#[test]
fn a_callee_of_other_formats_is_named_with_ours() {
    for (lowest, above) in [(4, 0), (1, 3), (6, 2)] {
        let callee = Callee::new();
        let mut seen = Seen::default();
        let (mut caller, _, from, number) = calling(&callee, &mut seen);
        let refusal = Greeting {
            formats: Formats::stated(lowest, above).unwrap(),
            refusal: Refusal::Version,
            ..Greeting::default()
        };
        callee.greet(Kind::Refuse, (from, number), 0, refusal);
        until(&mut [(&mut caller, &mut seen)], |seen| {
            !seen[0].down.is_empty()
        });
        let said = seen.down[0].to_string();
        for part in [&refusal.formats.to_string(), "format 5", "run builds"] {
            assert!(said.contains(part), "{said}");
        }
    }
}
