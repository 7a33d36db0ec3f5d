//! Peers that a method reaches, and that do not greet.

use causeway_transport::Method;
use causeway_wire::formats::Formats;

use super::fetching::{pass, timed_node};
use super::raw_peer::RawPeer;
use super::*;

#[test]
fn a_send_to_a_peer_that_does_not_greet_fails_in_time() {
    let mut silent = Mem::new(Options::default()).unwrap();
    silent.listen(&"mem://mute".parse().unwrap()).unwrap();
    let (mut node, now_ms) = timed_node("mute-client", Config::default());
    let to = node.bmi.lookup("mem://mute").unwrap();
    let data = memory(1, 8);
    node.send(to, std::slice::from_ref(&data), 1, 1);
    idle(&mut [&mut node]);
    pass(&mut [&mut node], &now_ms, 9_500);
    assert_eq!(node.result(1), None);
    pass(&mut [&mut node], &now_ms, 2000);
    drive(&mut [&mut node], |nodes| nodes[0].result(1).is_some());
    let error = node.result(1).unwrap().as_ref().unwrap_err().to_string();
    assert_eq!(error, "mem://mute: no reply within 10000 ms");
    assert_eq!(data.sharers(), 1);
    // The next operation connects again.
    node.send(to, &[data], 1, 2);
    idle(&mut [&mut node]);
    assert_eq!(node.result(2), None);
}

#[test]
fn callers_that_do_not_introduce_themselves_take_no_memory_and_are_dropped() {
    let (mut node, now_ms) = timed_node("unasked", Config::default());
    let mut silent: Vec<RawPeer> = (0..100).map(|_| RawPeer::new("unasked")).collect();
    for peer in &mut silent {
        // It would have to introduce itself next.
        peer.greet(Formats::OURS.hello(true));
        node.step();
    }
    idle(&mut [&mut node]);
    assert_eq!(node.bmi.conversations.peers.len(), 100);
    assert_eq!(node.bmi.conversations.shared.budget.committed(), 0);
    let mut client = super::node("unasked-client");
    let to = client.bmi.lookup("mem://unasked").unwrap();
    meet(&mut client, &mut node, to);
    pass(&mut [&mut node, &mut client], &now_ms, 8000);
    for peer in &mut silent {
        peer.poll();
        assert_eq!(peer.received.downs, 1);
    }
    assert_eq!(node.bmi.get_info(None).connected, 1);
    assert_eq!(client.bmi.get_info(None).connected, 1);
}

/// While it computes, greetings lie unread.
#[test]
fn a_node_that_was_away_gives_no_peer_up_for_it() {
    let (mut node, now_ms) = timed_node("away", Config::default());
    let mut client = super::node("away-client");
    let to = client.bmi.lookup("mem://away").unwrap();
    client.send_unexpected(to, &memory(1, 8), 1, 1);
    let mut later = RawPeer::new("away");
    later.greet(Formats::OURS.hello(true));
    idle(&mut [&mut node]);
    for _ in 0..3 {
        now_ms.fetch_add(3_600_000, Ordering::Relaxed);
        idle(&mut [&mut node]);
    }
    assert_eq!(node.bmi.conversations.peers.len(), 2);
    drive(&mut [&mut node, &mut client], |nodes| {
        nodes[0].collect_unexpected();
        !nodes[0].unexpected.is_empty()
    });
}

/// The next attempt may be at the same address, and get the same handle.
#[test]
fn giving_up_leaves_the_next_attempt_alone() {
    let mut silent = Mem::new(Options::default()).unwrap();
    silent.listen(&"mem://twice".parse().unwrap()).unwrap();
    let (mut node, now_ms) = timed_node("twice-client", Config::default());
    let to = node.bmi.lookup("mem://twice,mem://twice").unwrap();
    node.send(to, &[memory(1, 8)], 1, 1);
    idle(&mut [&mut node]);
    pass(&mut [&mut node], &now_ms, 12_000);
    assert_eq!(node.result(1), None);
    let peer = node.bmi.number(to).unwrap();
    assert!(node.bmi.connections.link(peer).is_some());
    let mut callers = Callers::default();
    silent.poll(Instant::now(), &mut callers);
    assert_eq!((callers.up, callers.down), (2, 1));
    pass(&mut [&mut node], &now_ms, 12_000);
    assert!(node.result(1).is_some());
}

#[derive(Default)]
struct Callers {
    up: usize,
    down: usize,
}

impl causeway_transport::Sink for Callers {
    fn packet(&mut self, _: causeway_transport::Peer, _: causeway_transport::Packet<'_>) {}
    fn transfer_done(
        &mut self,
        _: causeway_transport::Peer,
        _: causeway_transport::Token,
        _: Result<(), causeway_transport::TransferError>,
    ) {
    }
    fn peer_up(&mut self, _: causeway_transport::Peer) {
        self.up += 1;
    }
    fn peer_down(&mut self, _: causeway_transport::Peer, _: PeerError) {
        self.down += 1;
    }
    fn writable(&mut self, _: causeway_transport::Peer) {}
}

/// A greeting that begins is timed at once: a thread may be about to sleep.
#[test]
fn a_greeting_that_has_just_begun_has_a_deadline() {
    let mut silent = Mem::new(Options::default()).unwrap();
    silent.listen(&"mem://armed".parse().unwrap()).unwrap();
    let (mut node, _now_ms) = timed_node("armed-client", Config::default());
    assert_eq!(node.bmi.conversations.deadline(), None);
    let to = node.bmi.lookup("mem://armed").unwrap();
    node.send(to, &[memory(1, 8)], 1, 1);
    let start = node.bmi.methods.now();
    let deadline = node.bmi.conversations.deadline();
    assert!(deadline.is_some_and(|at| at <= start + Duration::from_secs(1)));
}

/// What is late is the greeting before.
#[test]
fn a_greeting_that_has_just_begun_is_not_given_up_for_another() {
    let mut silent = Mem::new(Options::default()).unwrap();
    silent.listen(&"mem://renewed".parse().unwrap()).unwrap();
    let (mut node, _) = timed_node("renewed-client", Config::default());
    let to = node.bmi.lookup("mem://renewed").unwrap();
    node.send(to, &[memory(1, 8)], 1, 1);
    idle(&mut [&mut node]);
    let peer = node.bmi.number(to).unwrap();
    let all = &mut node.bmi.conversations;
    let mut now = Instant::now();
    while all.shared.work.is_empty() {
        now += Duration::from_millis(100);
        all.expire(now);
    }
    all.open(peer, Default::default());
    while let Some(event) = all.poll_event() {
        assert!(
            !matches!(event, crate::conversations::Event::Silent { .. }),
            "{event:?}"
        );
    }
}
