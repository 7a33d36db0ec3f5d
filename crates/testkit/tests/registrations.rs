//! The engine registers memory where the method needs it, and keeps what it will need again, within bounds.

use std::time::{Duration, Instant};

use causeway_bmi::{Bmi, Config, Memory, Posted};
use causeway_engine::MAX_REGISTRATIONS;
use causeway_sys::memory::with_foreign;
use causeway_testkit::adapter::{Adapter, Tables};
use causeway_testkit::pair;
use causeway_transport::Access;
use causeway_transport::mem::Options;
use causeway_transport::registry::Registry;

/// More than any method sends in a packet.
const LARGE: usize = 100_000;

/// Two sides over methods that move registered memory only.
struct Pair {
    pair: pair::Pair,
    client: Tables,
    server: Tables,
}

fn instance(name: &str) -> (Bmi, Tables) {
    let adapter = Adapter::new(Options::default()).unwrap();
    let tables = adapter.tables();
    let mut registry = Registry::new();
    registry.register(Box::new(adapter));
    let config = Config {
        listen: vec![format!("adapter://{name}")],
        ..Config::default()
    };
    (Bmi::with_methods(config, registry).unwrap(), tables)
}

impl Pair {
    fn new(name: &str) -> Self {
        let (caller, client) = instance(&format!("{name}-client"));
        let (listener, server) = instance(&format!("{name}-server"));
        let pair = pair::Pair::new(caller, listener);
        Self {
            pair,
            client,
            server,
        }
    }

    /// One large message from the client's memory to the server's.
    fn send(&mut self, from: &[Memory], into: &[Memory]) {
        self.pair.receive(into, 1);
        self.pair.send(from, 1);
        self.pair.run(1, 1);
    }

    /// Both wait until they have this number of registrations.
    fn rest(&mut self, client: usize, server: usize) {
        let until = Instant::now() + Duration::from_secs(60);
        let pair = &mut self.pair;
        for (side, tables, left) in [
            (&mut pair.client, &self.client, client),
            (&mut pair.server, &self.server, server),
        ] {
            while tables.len() != left {
                side.bmi.wait(side.context, Duration::from_millis(5));
                assert!(Instant::now() < until, "{} are left", tables.len());
            }
        }
    }
}

fn filled(fill: u8) -> Memory {
    Memory::from_vec(vec![fill; LARGE])
}

#[test]
fn memory_is_registered_once_for_many_messages_and_until_it_is_freed() {
    let mut pair = Pair::new("once");
    let (ours, theirs) = (filled(5), filled(0));
    for round in 0..20 {
        theirs.clear();
        pair.send(std::slice::from_ref(&ours), std::slice::from_ref(&theirs));
        assert_eq!(theirs.to_vec(), ours.to_vec(), "round {round}");
    }
    // Parts of it, in lists, are the same memory.
    let parts = |of: &Memory| [of.slice(50_000..LARGE), of.slice(0..50_000)];
    pair.send(&parts(&ours), &parts(&theirs));
    for tables in [&pair.client, &pair.server] {
        assert_eq!((tables.made(), tables.len()), (1, 1));
    }
    drop(ours);
    pair.rest(0, 1);
    drop(theirs);
    pair.rest(0, 0);
    // The next allocation, at any address, is registered anew.
    pair.send(&[filled(6)], &[filled(0)]);
    assert_eq!(pair.client.made(), 2);
}

#[test]
fn exports_and_transfers_of_callers_share_the_registrations() {
    let mut pair = Pair::new("share");
    let (ours, theirs) = (filled(5), filled(0));
    let mut regions = Vec::new();
    for n in 0..4 {
        let part = theirs.slice(n * 1000..(n + 1) * 1000);
        let region = (pair.pair.server.bmi).export(pair.pair.from, &part, Access::Write);
        regions.push(region.unwrap());
    }
    assert_eq!(pair.server.made(), 1);
    let local = [ours.slice(0..1500), ours.slice(7000..9500)];
    let direction = causeway_transport::Direction::Put;
    let client = &mut pair.pair.client;
    let posted =
        (client.bmi).post_transfer(pair.pair.to, direction, &local, &regions, client.context, 0);
    client.posted(posted);
    pair.pair.run(1, 0);
    assert_eq!(theirs.slice(0..4000).to_vec(), [5; 4000]);
    assert_eq!(pair.client.made(), 1);
}

#[test]
fn registrations_are_kept_up_to_the_limit() {
    let mut pair = Pair::new("bound");
    let theirs = filled(0);
    let many = MAX_REGISTRATIONS + 20;
    let ours: Vec<_> = (0..many).map(|n| filled(n as u8)).collect();
    for memory in &ours {
        pair.send(std::slice::from_ref(memory), std::slice::from_ref(&theirs));
        assert_eq!(theirs.to_vec(), memory.to_vec());
        assert!(pair.client.len() <= MAX_REGISTRATIONS);
    }
    assert_eq!(pair.client.len(), MAX_REGISTRATIONS);
    assert_eq!(pair.client.made(), many as u64);
    // The latest registration is still kept, the first is not.
    pair.send(&ours[many - 1..], std::slice::from_ref(&theirs));
    assert_eq!(pair.client.made(), many as u64);
    pair.send(&ours[..1], std::slice::from_ref(&theirs));
    assert_eq!(pair.client.made(), many as u64 + 1);
    // A list of more pieces of memory than registrations are kept is moved as well.
    let parts: Vec<_> = ours.iter().map(|memory| memory.slice(0..300)).collect();
    pair.send(&parts, &[theirs.slice(0..300 * many)]);
    let expected = (0..many).flat_map(|n| [n as u8; 300]);
    assert!(
        theirs
            .slice(0..300 * many)
            .to_vec()
            .into_iter()
            .eq(expected)
    );
    assert!(pair.client.len() <= MAX_REGISTRATIONS);
}

#[test]
fn foreign_memory_is_registered_for_each_use() {
    let mut pair = Pair::new("foreign");
    let mut bytes = vec![7; LARGE];
    let theirs = filled(0);
    for round in 1..=3 {
        with_foreign(&mut bytes, |ours| {
            pair.send(std::slice::from_ref(ours), std::slice::from_ref(&theirs));
        });
        assert_eq!(theirs.to_vec(), [7; LARGE]);
        assert_eq!(pair.client.made(), round);
        assert!(pair.client.is_empty(), "no event reports when it is freed");
    }
}

#[test]
fn a_full_adapter_evicts_cached_registrations() {
    let mut pair = Pair::new("full");
    pair.client.limit(3);
    let theirs = filled(0);
    let ours: Vec<_> = (0..10).map(filled).collect();
    for memory in &ours {
        pair.send(std::slice::from_ref(memory), std::slice::from_ref(&theirs));
        assert_eq!(theirs.to_vec(), memory.to_vec());
    }
    assert_eq!(pair.client.made(), 10);
    // A list that does not fit at all fails with the reason, and its registrations are ended or kept.
    let region = (pair.pair.server.bmi).export(pair.pair.from, &theirs, Access::Write);
    let part = region.unwrap().part(0, 500);
    let local: Vec<_> = ours
        .iter()
        .take(5)
        .map(|memory| memory.slice(0..100))
        .collect();
    let direction = causeway_transport::Direction::Put;
    let (to, context) = (pair.pair.to, pair.pair.client.context);
    let bmi = &mut pair.pair.client.bmi;
    let posted = bmi.post_transfer(to, direction, &local, &[part], context, 0);
    let mut done = Vec::new();
    if let Posted::Complete(completion) = posted.unwrap() {
        done.push(completion);
    }
    let until = Instant::now() + Duration::from_secs(60);
    while done.is_empty() {
        let bmi = &mut pair.pair.client.bmi;
        bmi.testcontext(context, 1, Duration::ZERO, &mut done)
            .unwrap();
        pair.pair.server.step();
        assert!(Instant::now() < until, "the transfer does not complete");
    }
    let error = done[0]
        .result
        .as_ref()
        .expect_err("there is no room")
        .to_string();
    assert!(error.contains("the adapter's table is full"), "{error}");
    assert!(pair.client.len() <= 3);
    pair.send(&ours[..1], &[theirs]);
}
