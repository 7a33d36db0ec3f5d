//! A method of another crate: registered by its scheme, it is built, ranked and found as those that this build brings.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use causeway_sys::memory::Memory;
use causeway_transport::mem::{Mem, Options};
use causeway_transport::registry::{Constructors, Settings};
use causeway_transport::{
    Access, Address, Atomic, Capabilities, Error, Identity, Limits, Method, Packet, Peer,
    PeerError, PeerReport, SendError, Sink, Token, Transfer, TransferError,
};
use causeway_wire::region::RegionDescriptor;

/// `mem` under a scheme of its own, cheaper than `tcp` and dearer than `shm`.
struct Foreign(Mem);

/// The same address for the method underneath.
fn inner(address: &Address) -> Result<Address, Error> {
    format!("mem://{}", address.rest()).parse()
}

fn outer(address: &Address) -> Result<Address, Error> {
    format!("foreign://{}", address.rest()).parse()
}

impl Method for Foreign {
    fn scheme(&self) -> &'static str {
        "foreign"
    }
    fn rank(&self) -> u8 {
        45
    }
    fn limits(&self) -> Limits {
        self.0.limits()
    }
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }
    fn listen(&mut self, address: &Address) -> Result<Address, Error> {
        outer(&self.0.listen(&inner(address)?)?)
    }
    fn connect(&mut self, now: Instant, address: &Address) -> Result<Peer, Error> {
        self.0.connect(now, &inner(address)?)
    }
    fn set_time(&mut self, now: Instant) {
        self.0.set_time(now);
    }
    fn address(&self, peer: Peer) -> Option<Address> {
        outer(&self.0.address(peer)?).ok()
    }
    fn identity(&self, peer: Peer) -> Option<Identity> {
        self.0.identity(peer)
    }
    fn send(&mut self, peer: Peer, parts: &[&[u8]]) -> Result<(), SendError> {
        self.0.send(peer, parts)
    }
    fn export(
        &mut self,
        peer: Peer,
        memory: &Memory,
        access: Access,
    ) -> Result<RegionDescriptor, Error> {
        self.0.export(peer, memory, access)
    }
    fn unexport(&mut self, peer: Peer, key: u64) {
        self.0.unexport(peer, key);
    }
    fn transfer(&mut self, peer: Peer, transfer: Transfer) -> Result<(), SendError> {
        self.0.transfer(peer, transfer)
    }
    fn atomic(&mut self, peer: Peer, atomic: Atomic) -> Result<(), SendError> {
        self.0.atomic(peer, atomic)
    }
    fn map(&mut self, peer: Peer, region: &RegionDescriptor) -> Option<Memory> {
        self.0.map(peer, region)
    }
    fn allocate(&mut self, len: usize) -> Result<Memory, Error> {
        self.0.allocate(len)
    }
    fn poll(&mut self, now: Instant, sink: &mut dyn Sink) -> bool {
        self.0.poll(now, sink)
    }
    fn tick(&mut self, now: Instant, sink: &mut dyn Sink) {
        self.0.tick(now, sink);
    }
    fn arm(&mut self, now: Instant) -> bool {
        self.0.arm(now)
    }
    fn disarm(&mut self) {
        self.0.disarm();
    }
    fn pollable(&self) -> BorrowedFd<'_> {
        self.0.pollable()
    }
    fn deadline(&self) -> Option<Instant> {
        self.0.deadline()
    }
    fn disconnect(&mut self, now: Instant, peer: Peer, sink: &mut dyn Sink) {
        self.0.disconnect(now, peer, sink);
    }
    fn report(&self, peer: Peer) -> Option<PeerReport> {
        self.0.report(peer)
    }
}

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
        encrypt: false,
        connect_timeout: Duration::from_secs(5),
        tcp_connections: 0,
    }
}

#[test]
fn a_method_of_another_crate_is_built_ranked_and_found() {
    let mut constructors = Constructors::builtin();
    constructors.add(
        "foreign",
        Box::new(|_| Ok(Box::new(Foreign(Mem::new(Options::default())?)))),
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
    assert_eq!(schemes, ["shm", "foreign", "tcp", "udp"]);
    assert_eq!(
        registry.unavailable(),
        [("broken", "no such card".to_owned())]
    );
    let found = registry
        .candidates("tcp://h:1,foreign://x")
        .expect("both are known");
    let order: Vec<_> = found
        .usable
        .iter()
        .map(|one| one.address.to_string())
        .collect();
    assert_eq!(order, ["foreign://x", "tcp://h:1"]);
}

#[test]
fn it_carries_packets_as_any_other() {
    let mut constructors = Constructors::new();
    let make = || Foreign(Mem::new(Options::default()).expect("an eventfd"));
    constructors.add("foreign", Box::new(move |_| Ok(Box::new(make()))));
    let build = || {
        let registry = constructors.build(&settings()).expect("it works");
        registry.into_methods().pop().expect("one method")
    };
    let (mut server, mut client) = (build(), build());
    let address = "foreign://packets".parse().expect("well-formed");
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
