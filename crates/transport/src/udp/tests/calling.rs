//! Callers, and what somebody who plays a callee can do to them.

use super::*;

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

    /// The next opening: who calls, under which number, with which greeting.
    fn opening(&self, caller: &mut Udp, seen: &mut Seen) -> (SocketAddr, u64, Greeting) {
        let (bytes, from) = self.next(caller, seen);
        match Datagram::decode(&bytes) {
            Ok(Datagram::Greeting(prefix, greeting)) if prefix.kind == Kind::Open => {
                (from, prefix.from, greeting)
            }
            other => panic!("no opening: {other:?}"),
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

#[test]
fn an_acceptance_without_the_handshake_is_none_also_without_a_key() {
    let callee = Callee::new();
    let mut caller = method(None);
    let mut seen = Seen::default();
    let peer = caller.connect(&callee.address).unwrap();
    caller.send(peer, &[b"for one process only"]).unwrap();
    let (from, number, _) = callee.opening(&mut caller, &mut seen);
    let cookie = Greeting {
        cookie: [1; COOKIE_BYTES],
        ..Greeting::default()
    };
    callee.greet(Kind::Cookie, (from, number), 0, cookie);
    let opening = callee.opening(&mut caller, &mut seen).2;
    assert_eq!(opening.cookie, [1; COOKIE_BYTES]);
    callee.greet(Kind::Accept, (from, number), 9, Greeting::default());
    // It goes on asking.
    let opening = callee.opening(&mut caller, &mut seen).2;
    let answer = noise::answer(&PUBLIC_KEY, number, [3; 32], &opening.noise);
    let (seal, noise) = answer.unwrap();
    let accept = Greeting {
        noise,
        ..Greeting::default()
    };
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
