//! A method of another crate: once it is registered by its scheme, it is built, ranked and found like the methods of
//! this build.

use std::time::{Duration, Instant};

use causeway_testkit::adapter::Adapter;
use causeway_transport::mem::Options;
use causeway_transport::registry::{Constructors, Settings};
use causeway_transport::{Error, Packet, Peer, PeerError, Sink, Token, TransferError};

#[derive(Default)]
struct Seen(Vec<Vec<u8>>);

impl Sink for Seen {
    fn packet(&mut self, _: Peer, packet: Packet<'_>) {
        self.0.push(packet.to_vec(0));
    }
    fn transfer_done(&mut self, _: Peer, _: Token, _: Result<(), TransferError>) {}
    fn peer_up(&mut self, _: Peer) {}
    fn peer_down(&mut self, _: Peer, _: PeerError) {}
    fn writable(&mut self, _: Peer) {}
}

fn settings() -> Settings {
    Settings {
        key: None,
        nodes: None,
        agent: None,
        encrypt: false,
        connect_timeout: Duration::from_secs(5),
        liveness: Default::default(),
        tcp_connections: 0,
    }
}

#[test]
fn a_method_of_another_crate_is_built_ranked_and_found() {
    let mut constructors = Constructors::builtin();
    constructors.add(
        "adapter",
        Box::new(|_| Ok(Box::new(Adapter::new(Options::default())?))),
    );
    constructors.add(
        "broken",
        Box::new(|_| Err(Error::Unsupported("no such card"))),
    );
    let registry = constructors.build(&settings()).expect("methods");
    let schemes: Vec<_> = registry
        .methods()
        .iter()
        .map(|method| method.scheme())
        .collect();
    assert_eq!(schemes, ["shm", "adapter", "tcp", "udp"]);
    assert_eq!(
        registry.unavailable(),
        [("broken", "no such card".to_owned())]
    );
    let found = registry
        .candidates("tcp://h:1,adapter://x")
        .expect("both are known");
    let order: Vec<_> = found
        .usable
        .iter()
        .map(|one| one.address.to_string())
        .collect();
    assert_eq!(order, ["adapter://x", "tcp://h:1"]);
}

#[test]
fn a_method_of_another_crate_carries_packets() {
    let mut constructors = Constructors::new();
    let make = || Adapter::new(Options::default()).expect("an eventfd");
    constructors.add("adapter", Box::new(move |_| Ok(Box::new(make()))));
    let build = || {
        let registry = constructors.build(&settings()).expect("it works");
        registry.into_methods().pop().expect("one method")
    };
    let (mut server, mut client) = (build(), build());
    let address = "adapter://packets".parse().expect("well-formed");
    assert_eq!(server.listen(&address).expect("free"), address);
    let now = Instant::now();
    let peer = client.connect(now, &address).expect("well-formed");
    assert_eq!(client.address(peer), Some(address));
    client.send(peer, &[b"hel", b"lo"]).expect("room");
    let mut seen = Seen::default();
    server.poll(now, &mut seen);
    assert_eq!(seen.0, [b"hello"]);
}

#[test]
fn where_nothing_can_be_built_the_first_reason_is_returned() {
    let mut constructors = Constructors::new();
    constructors.add("first", Box::new(|_| Err(Error::Unsupported("no card"))));
    constructors.add("second", Box::new(|_| Err(Error::Unsupported("no driver"))));
    let Err(error) = constructors.build(&settings()) else {
        panic!("there is nothing to build");
    };
    assert_eq!(error.to_string(), "no card");
    // A later constructor takes the place of an earlier one.
    constructors.add("first", Box::new(|_| Err(Error::Unsupported("no slot"))));
    let error = constructors
        .build(&settings())
        .err()
        .expect("still nothing");
    assert_eq!(error.to_string(), "no driver");
}
