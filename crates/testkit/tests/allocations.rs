//! The usual messages allocate nothing on the heap once they have been sent for a while.
//!
//! A program of its own, since a global allocator counts. Both sides run in one thread, so that what either
//! allocates is counted, over the in-process method, shared memory, TCP and UDP.

use causeway_bmi::{Bmi, Config, Memory};
use causeway_testkit::pair::Pair;
use causeway_transport::mem::{Mem, Options};
use causeway_transport::registry::Registry;

const WARM_UP: u64 = 60;
const COUNTED: u64 = 20;
const WINDOWS: usize = 8;

fn instance(method: &str, name: &str, dir: &tempfile::TempDir) -> Bmi {
    let unique = dir.path().display();
    let listen = match method {
        "mem" => format!("mem://{unique}-{name}"),
        "shm" => format!("shm://{unique}/{name}"),
        _ => format!("{method}://127.0.0.1:0"),
    };
    let config = Config {
        listen: vec![listen],
        // Rows for observers are made several times a second, not for each message.
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
    bmi.unwrap()
}

fn pair(method: &str, dir: &tempfile::TempDir) -> Pair {
    let [client, server] = ["client", "server"].map(|name| instance(method, name, dir));
    Pair::new(client, server)
}

/// One message and its reply, both received where `is_posted` before they come, else afterwards.
fn exchange(pair: &mut Pair, memory: &[Memory; 4], tag: u64, is_posted: bool) {
    let [a, b, c, d] = memory.each_ref().map(std::slice::from_ref);
    let receive = |pair: &mut Pair| {
        pair.receive(b, tag);
        let client = &mut pair.client;
        let posted = client.bmi.post_recv(pair.to, d, tag, client.context, 0);
        client.posted(posted);
    };
    if is_posted {
        receive(pair);
    }
    pair.send(a, tag);
    let server = &mut pair.server;
    let posted = server.bmi.post_send(pair.from, c, tag, server.context, 0);
    server.posted(posted);
    if !is_posted {
        // They arrive before their receives.
        for _ in 0..20 {
            pair.client.step();
            pair.server.step();
        }
        receive(pair);
    }
    pair.run(2, 2);
}

/// The in-process method, for tests, keeps each packet in a buffer of its own.
fn packets(method: &str) -> u64 {
    u64::from(method == "mem")
}

/// The least that `run` allocates of several times: now and then, a few times a second, peers are inspected for
/// observers and for stalls, which is not on the path of messages.
fn least(mut run: impl FnMut()) -> u64 {
    let counts = (0..WINDOWS).map(|_| allocation_counter::measure(&mut run).count_total);
    counts.min().expect("there are some")
}

/// Allocations of one exchange at most, beyond those of `mem`.
fn exchanges_allocate(methods: &[&str], size: usize, is_posted: bool, most: u64) {
    let dir = tempfile::tempdir().unwrap();
    let mut found = Vec::new();
    for method in methods {
        let mut pair = pair(method, &dir);
        let memory = [1, 2, 3, 4].map(|byte| Memory::from_vec(vec![byte; size]));
        let rounds = if size > 1 << 20 { 10 } else { 1 };
        (0..WARM_UP / rounds).for_each(|n| exchange(&mut pair, &memory, n % 7, is_posted));
        let counted = COUNTED / rounds;
        let allocations = least(|| {
            (0..counted).for_each(|n| exchange(&mut pair, &memory, n % 7, is_posted));
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

const METHODS: [&str; 4] = ["mem", "shm", "tcp", "udp"];

#[test]
fn small_messages_into_posted_receives_allocate_nothing() {
    exchanges_allocate(&METHODS, 8, true, 0);
    exchanges_allocate(&METHODS, 1024, true, 0);
}

#[test]
fn small_messages_before_their_receives_allocate_nothing() {
    exchanges_allocate(&METHODS, 8, false, 0);
    exchanges_allocate(&METHODS, 1024, false, 0);
}

/// Over `udp` the bytes of large messages stay in a buffer until they are acknowledged, which is freed then: connections that have sent
/// some need not keep it.
#[test]
fn large_messages_allocate_nothing() {
    let methods = &["mem", "shm", "tcp"];
    for size in [64 << 10, 4 << 20] {
        exchanges_allocate(methods, size, true, 0);
        // A whole message that comes before its receive is kept in a buffer of its own.
        exchanges_allocate(methods, size, false, 2);
    }
}

/// The caller owns the buffer of an unexpected message: one buffer for each message, and no more.
#[test]
fn unexpected_messages_allocate_one_buffer_each() {
    let dir = tempfile::tempdir().unwrap();
    for method in METHODS {
        let mut pair = pair(method, &dir);
        for size in [8, 1024] {
            let data = [Memory::from_vec(vec![5; size])];
            let mut send = |count: u64| {
                for _ in 0..count {
                    pair.send_unexpected(&data, 1);
                    let from = pair.unexpected();
                    pair.server.bmi.release(from);
                    pair.run(1, 0);
                }
            };
            send(WARM_UP);
            let allocations = least(|| send(COUNTED));
            // Lists of pending fetches and grants may grow now and then.
            let most = (1 + 8 * packets(method)) * COUNTED + COUNTED / 10;
            assert!(allocations <= most, "{method}, {size} bytes: {allocations}");
        }
    }
}
