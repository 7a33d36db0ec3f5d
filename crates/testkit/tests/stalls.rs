//! Stalls between real processes: the log and the rows of the waiting process, as another process sees them.

use std::path::Path;
use std::time::Duration;

use causeway_bmi::{Addr, Bmi, Config, Context, InfoOption, Memory, Posted, RendezvousPolicy, log};
use causeway_testkit::patience::eventually;
use causeway_testkit::process::{self, Child, Part};
use causeway_watch::observer::{ObserveError, Observer};
use causeway_wire::watch::{PeerRow, Row, WaitReason};

const STALL_AFTER: Duration = Duration::from_millis(200);
const MOMENT: Duration = Duration::from_millis(20);
const HELLO: u64 = 1;
const TAG: u64 = 7;
const LARGE: usize = 4 << 20;
/// More bytes than sockets hold.
const HUGE: usize = 64 << 20;

/// A child's instance.
struct Node {
    bmi: Bmi,
    context: Context,
}

impl Node {
    fn new(listen: &[String]) -> Self {
        log::start(&"off/debug".parse().expect("masks")).expect("a child logs");
        let mut bmi = Bmi::new(Config {
            listen: listen.to_vec(),
            stall_after: STALL_AFTER,
            ..Config::default()
        })
        .expect("an instance");
        let policy = InfoOption::Rendezvous(RendezvousPolicy::Push);
        bmi.set_info(None, policy).expect("a policy");
        let context = bmi.open_context().expect("a context");
        Self { bmi, context }
    }

    fn work(&mut self) {
        self.bmi.wait(self.context, MOMENT);
        let mut done = Vec::new();
        self.bmi
            .testcontext(self.context, 64, Duration::ZERO, &mut done)
            .expect("a context");
    }

    /// Works until the parent has made this file.
    fn work_until(&mut self, file: &str) {
        while !Path::new(file).exists() {
            self.work();
        }
    }

    fn send(&mut self, to: Addr, len: usize) {
        let data = [Memory::zeroed(len)];
        let _ = self
            .bmi
            .post_send(to, &data, TAG, self.context, 0)
            .expect("posted");
    }

    fn send_unexpected(&mut self, to: Addr, len: usize) {
        let data = [Memory::zeroed(len)];
        let posted = self
            .bmi
            .post_sendunexpected(to, &data, HELLO, self.context, 0);
        let _ = posted.expect("posted");
    }

    fn recv(&mut self, from: Addr, len: usize) {
        let into = [Memory::zeroed(len)];
        let _: Posted = self
            .bmi
            .post_recv(from, &into, TAG, self.context, 0)
            .expect("posted");
    }
}

/// The peer that the waiter waits for. Arguments: where to listen, what to do, the directory.
fn play_peer(part: &Part) -> ! {
    let [listen, act, dir] = &part.arguments[..] else {
        panic!("three arguments");
    };
    let mut node = Node::new(std::slice::from_ref(listen));
    part.report(&node.bmi.listening()[0]);
    let mut unexpected = Vec::new();
    if act != "never meet" {
        while unexpected.is_empty() {
            node.bmi
                .testunexpected(1, MOMENT, &mut unexpected)
                .expect("unexpected messages can be tested for");
        }
        match act.as_str() {
            "send" => node.send(unexpected[0].from, LARGE),
            "receive" => node.recv(unexpected[0].from, HUGE),
            _ => {}
        }
        // The posted message is on its way.
        (0..10).for_each(|_| node.work());
        part.report("met");
    }
    node.work_until(&format!("{dir}/mend"));
    node.recv(unexpected[0].from, LARGE);
    loop {
        node.work();
    }
}

/// The waiter. Arguments: the peer's address, what to do, the directory.
fn play_waiter(part: &Part) -> ! {
    let [address, act, dir] = &part.arguments[..] else {
        panic!("three arguments");
    };
    let mut node = Node::new(&[]);
    let peer = node.bmi.lookup(address).expect("an address");
    node.send_unexpected(peer, 1);
    node.work_until(&format!("{dir}/go"));
    match act.as_str() {
        "send" => node.send(peer, LARGE),
        "receive" => node.recv(peer, LARGE),
        "send, then rest" => {
            node.send(peer, HUGE);
            part.report("posted");
            // The peer makes progress meanwhile.
            let file = format!("{dir}/resume");
            eventually("the parent goes on", || {
                Path::new(&file).exists().then_some(())
            });
        }
        // Short ones, so that the credit is used up before the room in the ring.
        "flood" => (0..400).for_each(|_| node.send_unexpected(peer, 100)),
        _ => {}
    }
    part.report("posted");
    loop {
        node.work();
    }
}

fn play(part: &Part) -> ! {
    match part.role.as_str() {
        "peer" => play_peer(part),
        _ => play_waiter(part),
    }
}

/// Two processes, of which one waits for the other.
struct Pair {
    peer: Child,
    waiter: Child,
    dir: tempfile::TempDir,
}

impl Pair {
    /// `stop`: the peer is stopped before the other one begins to wait for it.
    fn new(test: &str, scheme: &str, peer_acts: &str, waiter_acts: &str, stop: bool) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let place = dir.path().to_str().expect("a plain path");
        let listen = match scheme {
            "shm" => format!("shm://{place}/socket"),
            _ => "tcp://127.0.0.1:0".to_owned(),
        };
        let peer = Child::spawn(test, "peer", &[&listen, peer_acts, place]);
        let address = peer.next_line();
        if peer_acts == "never meet" {
            peer.stop();
        }
        let waiter = Child::spawn(test, "waiter", &[&address, waiter_acts, place]);
        if peer_acts != "never meet" {
            assert_eq!(peer.next_line(), "met");
            if stop {
                peer.stop();
            }
        }
        let pair = Self { peer, waiter, dir };
        pair.tell("go");
        assert_eq!(pair.waiter.next_line(), "posted");
        pair
    }

    /// Makes a file that the children wait for.
    fn tell(&self, what: &str) {
        std::fs::write(self.dir.path().join(what), b"").expect("a file");
    }

    fn page(&self) -> Observer {
        let pid = self.waiter.pid().cast_unsigned();
        Observer::new(pid).expect("the waiter can be observed")
    }

    /// Waits until a stall was reported twice; returns the published row and the first log message.
    fn stall(&self) -> (PeerRow, String) {
        let page = self.page();
        let row = eventually("the stall is reported twice", || {
            rows(&page).into_iter().find(|row| row.reports >= 2)
        });
        assert!(row.stalled);
        let lines = lines(&page);
        let reports: Vec<_> = lines.iter().filter(|l| l.starts_with("stalled ")).collect();
        assert!(reports.len() >= 2, "{lines:#?}");
        (row, reports[0].clone())
    }
}

fn rows(page: &Observer) -> Vec<PeerRow> {
    let rows = page.rows().into_iter().filter_map(|row| match row {
        Row::Peer(row) => Some(row),
        Row::Instance(_) => None,
    });
    rows.collect()
}

fn lines(page: &Observer) -> Vec<String> {
    let events = page.events(usize::MAX).into_iter();
    let reports = events.filter(|(_, event)| event.target == "engine.stall");
    reports.map(|(_, event)| event.text).collect()
}

#[test]
fn a_send_whose_receive_is_never_posted() {
    if let Some(part) = process::part() {
        play(&part);
    }
    for scheme in ["shm", "tcp"] {
        let test = "a_send_whose_receive_is_never_posted";
        let pair = Pair::new(test, scheme, "idle", "send", false);
        let (row, line) = pair.stall();
        let waiting = row.waiting.expect("an operation waits");
        assert_eq!((waiting.why, waiting.tag), (WaitReason::Receive, TAG));
        assert!(line.contains("send of 4.0 MiB, tag 7, to "), "{line}");
        assert!(line.contains("has not posted the receive"), "{line}");
        assert!(
            line.contains("queued: 1 sends, 0 receives; credit "),
            "{line}"
        );
        if scheme == "shm" {
            assert_eq!(row.pid, pair.peer.pid().cast_unsigned());
            assert!(line.contains(&format!("(pid {}, ", row.pid)), "{line}");
        }
        // The operation moves again, and that is reported once.
        pair.tell("mend");
        let page = pair.page();
        let end = eventually("the end of the stall is reported", || {
            let lines = lines(&page);
            lines
                .into_iter()
                .find(|line| line.starts_with("no longer stalled"))
        });
        // The send may still be in flight: it moves, which is what was missing.
        assert!(
            end.contains("(connected)") && end.contains("in flight: "),
            "{end}"
        );
        eventually("the send ends", || {
            rows(&page)
                .iter()
                .all(|row| !row.stalled && row.sent_large.number == 1)
                .then_some(())
        });
        let ends = lines(&page);
        let ends = ends.iter().filter(|l| l.starts_with("no longer stalled"));
        assert_eq!(ends.count(), 1);
    }
}

#[test]
fn a_receive_for_which_nothing_comes() {
    if let Some(part) = process::part() {
        play(&part);
    }
    for scheme in ["shm", "tcp"] {
        let pair = Pair::new(
            "a_receive_for_which_nothing_comes",
            scheme,
            "idle",
            "receive",
            false,
        );
        let (row, line) = pair.stall();
        assert_eq!(
            row.waiting.map(|waiting| waiting.why),
            Some(WaitReason::Message)
        );
        assert!(
            line.contains("receive of up to 4.0 MiB, tag 7, from "),
            "{line}"
        );
        assert!(line.contains("no message has come"), "{line}");
    }
}

#[test]
fn a_flood_for_which_a_stopped_process_gives_no_credit() {
    if let Some(part) = process::part() {
        play(&part);
    }
    let test = "a_flood_for_which_a_stopped_process_gives_no_credit";
    let pair = Pair::new(test, "shm", "idle", "flood", true);
    let (row, line) = pair.stall();
    assert_eq!(
        row.waiting.map(|waiting| waiting.why),
        Some(WaitReason::Credit)
    );
    assert!(row.unexpected_sends > 0 && row.credit < 164, "{row:?}");
    assert!(line.contains("waits for credit"), "{line}");
    assert!(line.contains(", stopped)"), "{line}");
}

#[test]
fn a_message_that_a_stopped_process_does_not_write() {
    if let Some(part) = process::part() {
        play(&part);
    }
    let test = "a_message_that_a_stopped_process_does_not_write";
    let pair = Pair::new(test, "shm", "send", "receive", true);
    let (row, line) = pair.stall();
    assert_eq!(
        row.waiting.map(|waiting| waiting.why),
        Some(WaitReason::Write)
    );
    assert!(
        line.contains("does not write it (0 B of 4.0 MiB moved)"),
        "{line}"
    );
}

#[test]
fn a_transfer_to_a_stopped_process() {
    if let Some(part) = process::part() {
        play(&part);
    }
    let test = "a_transfer_to_a_stopped_process";
    let pair = Pair::new(test, "tcp", "receive", "send, then rest", false);
    let peer = Observer::new(pair.peer.pid().cast_unsigned()).expect("the peer shows itself");
    eventually("the peer is ready to be written to", || {
        let rows = rows(&peer).into_iter();
        let mut reasons = rows.filter_map(|row| row.waiting.map(|waiting| waiting.why));
        reasons.any(|why| why == WaitReason::Write).then_some(())
    });
    pair.peer.stop();
    pair.tell("resume");
    let (row, line) = pair.stall();
    assert_eq!(
        row.waiting.map(|waiting| waiting.why),
        Some(WaitReason::Transfer)
    );
    let expected = "a transfer makes no progress (0 B of 64.0 MiB moved)";
    assert!(line.contains(expected), "{line}");
    // It goes on as soon as the other process does.
    pair.peer.resume();
    let page = pair.page();
    eventually("the transfer ends", || {
        let moved = |row: &PeerRow| !row.stalled && row.sent_large.number == 1;
        rows(&page).iter().any(moved).then_some(())
    });
}

#[test]
fn a_connection_that_a_stopped_process_does_not_accept() {
    if let Some(part) = process::part() {
        play(&part);
    }
    let test = "a_connection_that_a_stopped_process_does_not_accept";
    let pair = Pair::new(test, "shm", "never meet", "nothing", true);
    let (row, line) = pair.stall();
    assert_eq!(
        row.waiting.map(|waiting| waiting.why),
        Some(WaitReason::Connection)
    );
    assert!(line.contains("not connected yet"), "{line}");
}

#[test]
fn a_stopped_process_can_be_observed_and_an_ended_one_leaves_no_page() {
    if let Some(part) = process::part() {
        play(&part);
    }
    let test = "a_stopped_process_can_be_observed_and_an_ended_one_leaves_no_page";
    let mut pair = Pair::new(test, "shm", "idle", "send", false);
    pair.stall();
    pair.waiter.stop();
    let (row, line) = pair.stall();
    assert!(row.waiting.is_some() && line.starts_with("stalled "));
    let page = pair.page();
    let asked = page
        .request_masks("off,engine=error/trace")
        .expect("a request can be left");
    assert!(page.is_there() && !page.has_applied(asked));
    pair.waiter.resume();
    eventually("the request is applied", || {
        page.has_applied(asked).then_some(())
    });
    assert_eq!(page.masks(), "off,engine=error/trace");
    let pid = pair.waiter.pid().cast_unsigned();
    pair.waiter.kill();
    assert!(!page.is_there());
    assert!(matches!(
        Observer::new(pid),
        Err(ObserveError::NoProcess(_))
    ));
}
