//! The engine registers memory where the method needs it, and keeps what it will need again, within bounds.

use std::time::{Duration, Instant};

use causeway_bmi::{Addr, Bmi, Completion, Config, Context, Memory, Posted};
use causeway_engine::MAX_REGISTRATIONS;
use causeway_sys::memory::lend;
use causeway_testkit::adapter::{Adapter, Tables};
use causeway_transport::Access;
use causeway_transport::mem::Options;
use causeway_transport::registry::Registry;

/// More than any method sends in a packet.
const LARGE: usize = 100_000;

struct Side {
    bmi: Bmi,
    context: Context,
    tables: Tables,
    done: Vec<Completion>,
    completed: usize,
}

impl Side {
    fn new(name: &str) -> Self {
        let adapter = Adapter::new(Options::default()).unwrap();
        let tables = adapter.tables();
        let mut registry = Registry::new();
        registry.register(Box::new(adapter));
        let config = Config {
            listen: vec![format!("adapter://{name}")],
            ..Config::default()
        };
        let mut bmi = Bmi::with_methods(config, registry).unwrap();
        let context = bmi.open_context().unwrap();
        Self {
            bmi,
            context,
            tables,
            done: Vec::new(),
            completed: 0,
        }
    }

    fn posted(&mut self, posted: Result<Posted, causeway_bmi::Error>) {
        if let Posted::Complete(done) = posted.unwrap() {
            done.result.unwrap();
            self.completed += 1;
        }
    }

    fn step(&mut self) {
        let (bmi, done) = (&mut self.bmi, &mut self.done);
        bmi.testcontext(self.context, 64, Duration::ZERO, done)
            .unwrap();
        for done in self.done.drain(..) {
            done.result.unwrap();
            self.completed += 1;
        }
    }
}

struct Pair {
    client: Side,
    server: Side,
    to: Addr,
    from: Addr,
}

impl Pair {
    fn new(name: &str) -> Self {
        let mut client = Side::new(&format!("{name}-client"));
        let mut server = Side::new(&format!("{name}-server"));
        let to = client.bmi.lookup(&server.bmi.listening()[0]).unwrap();
        let hello = Memory::from_vec(vec![1]);
        let posted = client
            .bmi
            .post_sendunexpected(to, &[hello], 0, client.context, 0);
        client.posted(posted);
        let (mut found, until) = (Vec::new(), Instant::now() + Duration::from_secs(60));
        while found.is_empty() {
            client.step();
            server
                .bmi
                .testunexpected(1, Duration::ZERO, &mut found)
                .unwrap();
            assert!(Instant::now() < until, "no message");
        }
        (client.completed, server.completed) = (0, 0);
        let from = found[0].from;
        Self {
            client,
            server,
            to,
            from,
        }
    }

    /// One large message from the client's memory to the server's.
    fn send(&mut self, from: &[Memory], into: &[Memory]) {
        let (client, server) = (&mut self.client, &mut self.server);
        let posted = server.bmi.post_recv(self.from, into, 1, server.context, 0);
        server.posted(posted);
        let posted = client.bmi.post_send(self.to, from, 1, client.context, 0);
        client.posted(posted);
        let until = Instant::now() + Duration::from_secs(60);
        while client.completed == 0 || server.completed == 0 {
            client.step();
            server.step();
            assert!(Instant::now() < until, "the message does not arrive");
        }
        (client.completed, server.completed) = (0, 0);
    }

    /// Both wait, until they have come to as many registrations.
    fn rest(&mut self, client: usize, server: usize) {
        let until = Instant::now() + Duration::from_secs(60);
        for (side, left) in [(&mut self.client, client), (&mut self.server, server)] {
            while side.tables.len() != left {
                side.bmi.wait(side.context, Duration::from_millis(5));
                assert!(Instant::now() < until, "{} are left", side.tables.len());
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
    for side in [&pair.client, &pair.server] {
        assert_eq!((side.tables.made(), side.tables.len()), (1, 1));
    }
    drop(ours);
    pair.rest(0, 1);
    drop(theirs);
    pair.rest(0, 0);
    // What is allocated next, wherever it lies, is registered anew.
    pair.send(&[filled(6)], &[filled(0)]);
    assert_eq!(pair.client.tables.made(), 2);
}

#[test]
fn exports_and_transfers_of_callers_share_the_registrations() {
    let mut pair = Pair::new("share");
    let (ours, theirs) = (filled(5), filled(0));
    let mut regions = Vec::new();
    for n in 0..4 {
        let part = theirs.slice(n * 1000..(n + 1) * 1000);
        let region = pair.server.bmi.export(pair.from, &part, Access::Write);
        regions.push(region.unwrap());
    }
    assert_eq!(pair.server.tables.made(), 1);
    let client = &mut pair.client;
    let local = [ours.slice(0..1500), ours.slice(7000..9500)];
    let direction = causeway_transport::Direction::Put;
    let (to, context) = (pair.to, client.context);
    let posted = client
        .bmi
        .post_transfer(to, direction, &local, &regions, context, 0);
    client.posted(posted);
    let until = Instant::now() + Duration::from_secs(60);
    while client.completed == 0 {
        client.step();
        assert!(Instant::now() < until, "the transfer does not complete");
    }
    assert_eq!(theirs.slice(0..4000).to_vec(), [5; 4000]);
    assert_eq!(client.tables.made(), 1);
}

#[test]
fn as_many_registrations_are_kept_as_there_may_be() {
    let mut pair = Pair::new("bound");
    let theirs = filled(0);
    let many = MAX_REGISTRATIONS + 20;
    let ours: Vec<_> = (0..many).map(|n| filled(n as u8)).collect();
    for memory in &ours {
        pair.send(std::slice::from_ref(memory), std::slice::from_ref(&theirs));
        assert_eq!(theirs.to_vec(), memory.to_vec());
        assert!(pair.client.tables.len() <= MAX_REGISTRATIONS);
    }
    assert_eq!(pair.client.tables.len(), MAX_REGISTRATIONS);
    assert_eq!(pair.client.tables.made(), many as u64);
    // The latest is still there, the first is not.
    pair.send(&ours[many - 1..], std::slice::from_ref(&theirs));
    assert_eq!(pair.client.tables.made(), many as u64);
    pair.send(&ours[..1], std::slice::from_ref(&theirs));
    assert_eq!(pair.client.tables.made(), many as u64 + 1);
    // One list of more than are kept is moved all the same.
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
    assert!(pair.client.tables.len() <= MAX_REGISTRATIONS);
}

#[test]
fn foreign_memory_is_registered_for_each_use() {
    let mut pair = Pair::new("foreign");
    let mut bytes = vec![7; LARGE];
    let theirs = filled(0);
    for round in 1..=3 {
        lend(&mut bytes, |ours| {
            pair.send(std::slice::from_ref(ours), std::slice::from_ref(&theirs));
        });
        assert_eq!(theirs.to_vec(), [7; LARGE]);
        assert_eq!(pair.client.tables.made(), round);
        assert!(
            pair.client.tables.is_empty(),
            "nothing tells when it is freed"
        );
    }
}

#[test]
fn a_full_adapter_gives_up_what_is_only_kept() {
    let mut pair = Pair::new("full");
    pair.client.tables.limit(3);
    let theirs = filled(0);
    let ours: Vec<_> = (0..10).map(filled).collect();
    for memory in &ours {
        pair.send(std::slice::from_ref(memory), std::slice::from_ref(&theirs));
        assert_eq!(theirs.to_vec(), memory.to_vec());
    }
    assert_eq!(pair.client.tables.made(), 10);
    // What does not fit at all fails, with the reason, and what was registered for it is given up or kept.
    let region = pair.server.bmi.export(pair.from, &theirs, Access::Write);
    let part = region.unwrap().part(0, 500);
    let local: Vec<_> = ours
        .iter()
        .take(5)
        .map(|memory| memory.slice(0..100))
        .collect();
    let direction = causeway_transport::Direction::Put;
    let (to, context) = (pair.to, pair.client.context);
    let posted = pair
        .client
        .bmi
        .post_transfer(to, direction, &local, &[part], context, 0);
    let mut done = Vec::new();
    if let Posted::Complete(completion) = posted.unwrap() {
        done.push(completion);
    }
    let until = Instant::now() + Duration::from_secs(60);
    while done.is_empty() {
        let bmi = &mut pair.client.bmi;
        bmi.testcontext(context, 1, Duration::ZERO, &mut done)
            .unwrap();
        pair.server.step();
        assert!(Instant::now() < until, "the transfer does not complete");
    }
    let error = done[0]
        .result
        .as_ref()
        .expect_err("there is no room")
        .to_string();
    assert!(error.contains("the adapter's table is full"), "{error}");
    assert!(pair.client.tables.len() <= 3);
    pair.send(&ours[..1], &[theirs]);
}
