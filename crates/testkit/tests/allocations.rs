//! The usual messages allocate nothing on the heap once they have been sent for a while.
//!
//! A program of its own, since a global allocator counts. Both sides run in one thread, so that what either
//! allocates is counted, over the in-process method, shared memory and TCP.

use std::time::{Duration, Instant};

use causeway_bmi::{Addr, Bmi, Completion, Config, Context, Memory, Posted, Unexpected};
use causeway_transport::mem::{Mem, Options};
use causeway_transport::registry::Registry;

const WARM_UP: u64 = 60;
const COUNTED: u64 = 20;
const WINDOWS: usize = 8;
const NOW: Duration = Duration::ZERO;

/// One side.
struct Side {
    bmi: Bmi,
    context: Context,
    done: Vec<Completion>,
    unexpected: Vec<Unexpected>,
    completed: u64,
}

impl Side {
    fn new(method: &str, name: &str, dir: &tempfile::TempDir) -> Self {
        let unique = dir.path().display();
        let listen = match method {
            "mem" => format!("mem://{unique}-{name}"),
            "shm" => format!("shm://{unique}/{name}"),
            _ => "tcp://127.0.0.1:0".to_owned(),
        };
        let config = Config {
            listen: vec![listen],
            // What observers are shown is made several times a second, not for each message.
            publish: false,
            ..Config::default()
        };
        let bmi = match method {
            "mem" => {
                let mut registry = Registry::new();
                registry.register(Box::new(Mem::new(Options::default()).unwrap()));
                Bmi::with_methods(config, registry)
            }
            _ => Bmi::new(config),
        };
        let mut bmi = bmi.unwrap();
        let context = bmi.open_context().unwrap();
        Self {
            bmi,
            context,
            done: Vec::with_capacity(64),
            unexpected: Vec::with_capacity(64),
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
        bmi.testcontext(self.context, 64, NOW, done).unwrap();
        for done in self.done.drain(..) {
            done.result.unwrap();
            self.completed += 1;
        }
    }
}

/// Two sides that have met.
struct Pair {
    client: Side,
    server: Side,
    to: Addr,
    from: Addr,
}

impl Pair {
    fn new(method: &str, dir: &tempfile::TempDir) -> Self {
        let mut client = Side::new(method, "client", dir);
        let server = Side::new(method, "server", dir);
        let to = client.bmi.lookup(&server.bmi.listening()[0]).unwrap();
        let hello = Memory::from_vec(vec![1]);
        let posted = client
            .bmi
            .post_sendunexpected(to, &[hello], 0, client.context, 0);
        client.posted(posted);
        let mut pair = Self {
            client,
            server,
            to,
            from: to,
        };
        pair.from = pair.unexpected();
        pair.run(1, 0);
        pair
    }

    /// Progress on both sides until each has completed so many operations since.
    fn run(&mut self, client: u64, server: u64) {
        let until = Instant::now() + Duration::from_secs(60);
        while self.client.completed < client || self.server.completed < server {
            self.client.step();
            self.server.step();
            assert!(Instant::now() < until, "no progress");
        }
        (self.client.completed, self.server.completed) = (0, 0);
    }

    /// Takes the next unexpected message of the server's.
    fn unexpected(&mut self) -> Addr {
        let until = Instant::now() + Duration::from_secs(60);
        let server = &mut self.server;
        while server.unexpected.is_empty() {
            self.client.step();
            let found = &mut server.unexpected;
            server.bmi.testunexpected(1, NOW, found).unwrap();
            assert!(Instant::now() < until, "no message");
        }
        let message = server.unexpected.pop().expect("it is not empty");
        message.from
    }

    /// One message and its reply, both received where `is_posted` before they come, else afterwards.
    fn exchange(&mut self, memory: &[Memory; 4], tag: u64, is_posted: bool) {
        let [a, b, c, d] = memory.each_ref().map(std::slice::from_ref);
        let (client, server) = (&mut self.client, &mut self.server);
        if is_posted {
            let posted = server.bmi.post_recv(self.from, b, tag, server.context, 0);
            server.posted(posted);
            let posted = client.bmi.post_recv(self.to, d, tag, client.context, 0);
            client.posted(posted);
        }
        let posted = client.bmi.post_send(self.to, a, tag, client.context, 0);
        client.posted(posted);
        let posted = server.bmi.post_send(self.from, c, tag, server.context, 0);
        server.posted(posted);
        if !is_posted {
            // They arrive before their receives.
            for _ in 0..20 {
                self.client.step();
                self.server.step();
            }
            let (client, server) = (&mut self.client, &mut self.server);
            let posted = server.bmi.post_recv(self.from, b, tag, server.context, 0);
            server.posted(posted);
            let posted = client.bmi.post_recv(self.to, d, tag, client.context, 0);
            client.posted(posted);
        }
        self.run(2, 2);
    }
}

/// The in-process method, for tests, keeps each packet in a buffer of its own.
fn packets(method: &str) -> u64 {
    u64::from(method == "mem")
}

/// The least that `run` allocates of several times: now and then, a few times a second, peers are looked at for
/// observers and for stalls, which is not on the path of messages.
fn least(mut run: impl FnMut()) -> u64 {
    let counts = (0..WINDOWS).map(|_| allocation_counter::measure(&mut run).count_total);
    counts.min().expect("there are some")
}

/// Allocations of one exchange at most, beyond those of `mem`.
fn exchanges_allocate(size: usize, is_posted: bool, most: u64) {
    let dir = tempfile::tempdir().unwrap();
    let mut found = Vec::new();
    for method in METHODS {
        let mut pair = Pair::new(method, &dir);
        let memory = [1, 2, 3, 4].map(|byte| Memory::from_vec(vec![byte; size]));
        let rounds = if size > 1 << 20 { 10 } else { 1 };
        (0..WARM_UP / rounds).for_each(|n| pair.exchange(&memory, n % 7, is_posted));
        let counted = COUNTED / rounds;
        let allocations = least(|| {
            (0..counted).for_each(|n| pair.exchange(&memory, n % 7, is_posted));
        });
        // One packet there, one back, and credit for them.
        if allocations > (most + 8 * packets(method)) * counted {
            found.push(format!(
                "{method}: {allocations} in {counted} exchanges of {size} bytes"
            ));
        }
    }
    assert!(found.is_empty(), "{}", found.join("; "));
}

const METHODS: [&str; 3] = ["mem", "shm", "tcp"];

#[test]
fn small_messages_into_posted_receives_allocate_nothing() {
    exchanges_allocate(8, true, 0);
    exchanges_allocate(1024, true, 0);
}

#[test]
fn small_messages_before_their_receives_allocate_nothing() {
    exchanges_allocate(8, false, 0);
    exchanges_allocate(1024, false, 0);
}

#[test]
fn large_messages_allocate_nothing() {
    for size in [64 << 10, 4 << 20] {
        exchanges_allocate(size, true, 0);
        // A whole message that comes before its receive is kept in a buffer of its own.
        exchanges_allocate(size, false, 2);
    }
}

/// What is given to the caller of an unexpected message is its own: one buffer for each message, and no more.
#[test]
fn unexpected_messages_allocate_what_their_receiver_keeps() {
    let dir = tempfile::tempdir().unwrap();
    for method in METHODS {
        let mut pair = Pair::new(method, &dir);
        for size in [8, 1024] {
            let data = [Memory::from_vec(vec![5; size])];
            let mut send = |count: u64| {
                for _ in 0..count {
                    let client = &mut pair.client;
                    let (bmi, context) = (&mut client.bmi, client.context);
                    let posted = bmi.post_sendunexpected(pair.to, &data, 1, context, 0);
                    client.posted(posted);
                    let from = pair.unexpected();
                    pair.server.bmi.release(from);
                    pair.run(1, 0);
                }
            };
            send(WARM_UP);
            let allocations = least(|| send(COUNTED));
            // Lists of what is to be fetched and granted may grow now and then.
            let most = (1 + 8 * packets(method)) * COUNTED + COUNTED / 10;
            assert!(allocations <= most, "{method}, {size} bytes: {allocations}");
        }
    }
}
