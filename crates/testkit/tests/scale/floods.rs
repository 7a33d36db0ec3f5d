//! Many senders, each faster than their receiver: its memory stays bounded, nothing is lost, no sender is
//! starved, and it ends.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use causeway_bmi::{Addr, Config, Memory, Posted, Unexpected};
use causeway_testkit::directory;
use causeway_testkit::patience::Patience;
use causeway_testkit::process::{self, Child, Part};

use crate::{NOW, Node};

const SENDERS: usize = 64;
/// Most bytes that the receiver may keep, by its configuration.
const EARLY_BYTES: usize = 4 << 20;
/// The receiver takes this number of messages at a time, and then pauses: one sender alone would be
/// faster.
const BATCH: usize = 16;
const PAUSE: Duration = Duration::from_millis(2);
/// Sends in progress at each sender.
const WINDOW: usize = 32;
/// The sizes of messages, one after the other: with the header's two numbers at least.
const SIZES: [usize; 4] = [16, 700, 6000, 12_000];

const FLOOD: u64 = 1;
/// The sender's last message, with its count.
const LAST: u64 = 2;
/// The message that stops a sender.
const STOP: u64 = 3;

/// Message `number` of `sender`.
fn message(sender: u64, number: u64) -> Vec<u8> {
    let mut bytes = vec![(sender * 31 + number) as u8; SIZES[number as usize % SIZES.len()]];
    bytes[..8].copy_from_slice(&sender.to_le_bytes());
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn number_at(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
    u64::from_le_bytes(word.expect("a message is long enough"))
}

/// Sends as fast as it can until it is told to stop.
fn send(part: &Part) {
    let sender: u64 = part.arguments[1].parse().expect("a number");
    let mut node = Node::new(Config::default());
    let context = node.context;
    let to = node.bmi.lookup(&part.arguments[0]).expect("an address");
    let stop = node
        .bmi
        .post_recv(to, &[Memory::zeroed(0)], STOP, context, STOP);
    assert!(matches!(stop, Ok(Posted::Pending(_))), "{stop:?}");
    let (mut sent, mut pending, mut stopped) = (0, 0, false);
    let mut done = Vec::new();
    let mut patience = Patience::with_limit(
        "the flood ends",
        2 * duration() + causeway_testkit::patience::GENEROUS,
    );
    while !stopped || pending > 0 {
        while !stopped && pending < WINDOW {
            let data = [Memory::from_vec(message(sender, sent))];
            let posted = node
                .bmi
                .post_sendunexpected(to, &data, FLOOD, context, FLOOD);
            sent += 1;
            match posted.expect("posted") {
                Posted::Complete(done) => assert!(done.result.is_ok(), "{done:?}"),
                Posted::Pending(_) => pending += 1,
            }
        }
        let tested = node
            .bmi
            .testcontext(context, WINDOW, Duration::from_millis(100), &mut done);
        tested.expect("a context");
        for done in done.drain(..) {
            assert!(done.result.is_ok(), "{done:?}");
            match done.user {
                STOP => stopped = true,
                _ => pending -= 1,
            }
        }
        patience.spend();
    }
    let last = [Memory::from_vec(sent.to_le_bytes().to_vec())];
    let posted = node.bmi.post_sendunexpected(to, &last, LAST, context, 0);
    if let Posted::Pending(op) = posted.expect("posted") {
        while node
            .bmi
            .test(op, Duration::from_millis(100))
            .expect("an operation")
            .is_none()
        {
            patience.spend();
        }
    }
    part.report("sent");
    // Until the receiver has it, and ends this process.
    loop {
        node.bmi.wait(context, Duration::from_secs(1));
    }
}

/// The receiver's state of one sender.
#[derive(Default)]
struct Received {
    address: Option<Addr>,
    count: u64,
    /// The sender's count of messages, once it has arrived.
    all: Option<u64>,
}

struct Receiver {
    node: Node,
    received: HashMap<Addr, u64>,
    senders: Vec<Received>,
    most_bytes: usize,
}

impl Receiver {
    /// Takes some messages, checks them, and checks the memory.
    fn step(&mut self, messages: &mut Vec<Unexpected>) {
        let tested = self
            .node
            .bmi
            .testunexpected(BATCH, Duration::from_millis(100), messages);
        tested.expect("a test");
        for message in messages.drain(..) {
            self.take(message);
        }
        let bytes = self.node.bmi.get_info(None).early_bytes;
        self.most_bytes = self.most_bytes.max(bytes);
        assert!(bytes <= EARLY_BYTES, "{bytes} bytes are held");
    }

    fn take(&mut self, message: Unexpected) {
        if message.tag == LAST {
            let sender = self.received[&message.from] as usize;
            self.senders[sender].all = Some(number_at(&message.data, 0));
            return self.node.bmi.release(message.from);
        }
        let sender = number_at(&message.data, 0);
        let received = &mut self.senders[sender as usize];
        assert_eq!(
            number_at(&message.data, 8),
            received.count,
            "in order, none lost"
        );
        assert_eq!(message.data, self::message(sender, received.count));
        received.count += 1;
        // The reference of the first message is kept.
        if received.address.is_some() {
            self.node.bmi.release(message.from);
        } else {
            received.address = Some(message.from);
            self.received.insert(message.from, sender);
        }
    }

    fn tell_to_stop(&mut self) {
        for received in &self.senders {
            let to = received
                .address
                .expect("messages of all senders have arrived");
            let posted = self.node.bmi.post_send(to, &[], STOP, self.node.context, 0);
            let _maybe_pending = posted.expect("posted");
        }
    }
}

/// How long the flood lasts: longer in `make flood`.
fn duration() -> Duration {
    let seconds = std::env::var("CAUSEWAY_FLOOD_SECONDS").ok();
    let seconds = seconds.map(|text| text.parse().expect("CAUSEWAY_FLOOD_SECONDS is a number"));
    Duration::from_secs(seconds.unwrap_or(2))
}

/// Memory of this process that is not mapped from files, in bytes.
fn private_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("a file of this process");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    kib.expect("a number") << 10
}

/// Every sender must get at least half of what all get on average.
fn check_fairness(senders: &[Received]) {
    let all: u64 = senders.iter().map(|received| received.count).sum();
    let least = senders
        .iter()
        .map(|received| received.count)
        .min()
        .unwrap_or(0);
    let mean = all / SENDERS as u64;
    println!("{all} messages, {mean} of each sender on average, {least} of the slowest");
    let counts: Vec<u64> = senders.iter().map(|received| received.count).collect();
    assert!(least >= mean / 2, "unfair: {counts:?}");
}

fn flood(test: &str, address: impl FnOnce(&std::path::Path) -> String) {
    if let Some(part) = process::part() {
        return send(&part);
    }
    let folder = directory::fresh();
    let node = Node::new(Config {
        listen: vec![address(folder.path())],
        early_memory: EARLY_BYTES,
        ..Config::default()
    });
    let address = node.bmi.listening().remove(0);
    let mut receiver = Receiver {
        node,
        received: HashMap::new(),
        senders: Vec::new(),
        most_bytes: 0,
    };
    receiver.senders.resize_with(SENDERS, Received::default);
    let children: Vec<Child> = (0..SENDERS)
        .map(|sender| Child::spawn(test, "sender", &[&address, &sender.to_string()]))
        .collect();
    let mut messages = Vec::new();
    let mut patience = Patience::new("messages of all senders arrive");
    while receiver.senders.iter().any(|received| received.count == 0) {
        receiver.step(&mut messages);
        patience.spend();
    }
    // From here on all senders are connected.
    let before: Vec<u64> = receiver
        .senders
        .iter()
        .map(|received| received.count)
        .collect();
    let (resident, since) = (private_bytes(), Instant::now());
    let mut most_resident = 0;
    while since.elapsed() < duration() {
        receiver.step(&mut messages);
        most_resident = most_resident.max(private_bytes());
        std::thread::sleep(PAUSE);
    }
    let during = before
        .iter()
        .zip(&receiver.senders)
        .map(|(before, received)| Received {
            count: received.count - before,
            ..Received::default()
        });
    check_fairness(&during.collect::<Vec<_>>());
    println!("at most {} bytes held", receiver.most_bytes);
    // The configured limit, and as much again for the allocator's overhead.
    let grown = most_resident.saturating_sub(resident);
    assert!(grown <= 2 * EARLY_BYTES, "{grown} bytes more than before");

    receiver.tell_to_stop();
    let mut patience = Patience::new("each sender states its count, and as many messages arrive");
    while receiver
        .senders
        .iter()
        .any(|received| received.all != Some(received.count))
    {
        receiver.step(&mut messages);
        receiver
            .node
            .bmi
            .testcontext(receiver.node.context, 64, NOW, &mut Vec::new())
            .expect("a context");
        patience.spend();
    }
    for child in &children {
        assert_eq!(child.next_line(), "sent");
    }
    assert_eq!(receiver.node.bmi.get_info(None).early_bytes, 0);
}

#[test]
fn many_senders_over_shm() {
    flood("floods::many_senders_over_shm", |folder| {
        format!("shm://{}", folder.join("s").display())
    });
}

#[test]
fn many_senders_over_tcp() {
    flood("floods::many_senders_over_tcp", |_| {
        "tcp://127.0.0.1:0".to_owned()
    });
}
