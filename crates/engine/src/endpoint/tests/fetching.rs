//! Large unexpected messages of peers that announce them and do not send them.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use causeway_wire::bmi::{self as wire, Announcement, Header, Kind};

use super::raw_peer::RawPeer;
use super::*;

const SIZE: usize = 64 << 10;

/// Announces an unexpected message that only the peer itself can move.
fn announce(peer: &mut RawPeer, node: &mut Node, send: u64) {
    let body = Announcement {
        send,
        size: SIZE as u64,
        load: 0,
        regions: Vec::new().into(),
    };
    let header = Header::new(Kind::AnnounceUnexpected, 1);
    peer.send(&wire::encode_announcement(header, &body, Vec::new()));
    node.step();
    peer.poll();
}

fn greeted(node: &mut Node, name: &str) -> RawPeer {
    let mut peer = RawPeer::new(name);
    peer.greet_as_first_format();
    idle(&mut [node]);
    peer.poll();
    peer
}

/// A node whose clock shows as many milliseconds as the counter.
pub(super) fn timed_node(name: &str, config: Config) -> (Node, Arc<AtomicU64>) {
    let passed = Arc::new(AtomicU64::new(0));
    let shown = passed.clone();
    let start = Instant::now();
    let clock = Clock::new(move || start + Duration::from_millis(shown.load(Ordering::Relaxed)));
    let config = Config { clock, ..config };
    (node_with(name, config, Options::default()), passed)
}

#[test]
fn peers_that_never_send_what_they_announce_leave_others_a_part_of_the_memory() {
    const MESSAGES: u64 = 6;
    let mut node = node("unsent");
    let mut peers: Vec<RawPeer> = (0..8).map(|_| greeted(&mut node, "unsent")).collect();
    // There is memory for 256 messages; half of it is for the first message of each peer.
    for send in 0..28 {
        for peer in &mut peers {
            announce(peer, &mut node, send);
        }
    }
    assert_eq!(node.bmi.get_info(None).connected, 8);
    let mut honest = super::node("unsent-honest");
    let to = honest.bmi.lookup("mem://unsent").unwrap();
    for n in 0..MESSAGES {
        honest.send_unexpected(to, &memory(n as usize, SIZE), n, n);
    }
    // The node takes none of them meanwhile.
    drive(&mut [&mut node, &mut honest], |nodes| {
        (0..MESSAGES).all(|n| nodes[1].result(n) == Some(&Ok(SIZE as u64)))
    });
    node.collect_unexpected();
    let came = node.unexpected.iter().enumerate();
    assert!(came.clone().count() == MESSAGES as usize);
    came.for_each(|(n, message)| assert_eq!(message.data, bytes(n, SIZE)));
}

#[test]
fn a_message_without_room_does_not_keep_smaller_ones_of_others_from_arriving() {
    let config = Config {
        early_memory: 4 * SIZE,
        unexpected_limit: 2 * SIZE,
        ..Config::default()
    };
    let mut node = node_with("passed", config.clone(), Options::default());
    let mut silent = greeted(&mut node, "passed");
    announce(&mut silent, &mut node, 1);
    let mut senders: Vec<Node> = Vec::new();
    for size in [SIZE + 1, SIZE - 1] {
        let name = format!("passed-{size}");
        let mut sender = node_with(&name, config.clone(), Options::default());
        let to = sender.bmi.lookup("mem://passed").unwrap();
        sender.send_unexpected(to, &memory(1, size), 7, 1);
        idle(&mut [&mut node, &mut sender]);
        senders.push(sender);
    }
    let [large, small] = &mut senders[..] else {
        unreachable!("two senders");
    };
    drive(&mut [&mut node, large, small], |nodes| {
        nodes[0].collect_unexpected();
        !nodes[0].unexpected.is_empty()
    });
    assert_eq!(node.unexpected[0].data.len(), SIZE - 1);
    // Once there is room, the large one arrives, too.
    drop(silent);
    drive(&mut [&mut node, large], |nodes| {
        nodes[0].collect_unexpected();
        nodes[0].unexpected.len() == 2
    });
}

/// Memory for two messages, and whoever has it does not send: only time helps, and only if others wait.
#[test]
fn a_fetch_that_does_not_move_ends_when_others_have_waited_long_enough() {
    let config = Config {
        early_memory: 4 * SIZE,
        ..Config::default()
    };
    let (mut node, now_ms) = timed_node("unmoved", config);
    let mut peers: Vec<RawPeer> = (0..2).map(|_| greeted(&mut node, "unmoved")).collect();
    for peer in &mut peers {
        announce(peer, &mut node, 1);
    }
    // Nobody waits for the memory.
    now_ms.store(3_600_000, Ordering::Relaxed);
    idle(&mut [&mut node]);
    assert_eq!(node.bmi.get_info(None).connected, 2);
    let mut honest = super::node("unmoved-honest");
    let to = honest.bmi.lookup("mem://unmoved").unwrap();
    honest.send_unexpected(to, &memory(3, SIZE), 7, 1);
    for passed_ms in [100, 4800] {
        idle(&mut [&mut node, &mut honest]);
        assert_eq!(node.bmi.get_info(None).connected, 3);
        now_ms.fetch_add(passed_ms, Ordering::Relaxed);
    }
    idle(&mut [&mut node, &mut honest]);
    assert_eq!(node.bmi.get_info(None).connected, 3);
    now_ms.fetch_add(300, Ordering::Relaxed);
    drive(&mut [&mut node, &mut honest], |nodes| {
        nodes[0].collect_unexpected();
        !nodes[0].unexpected.is_empty()
    });
    assert_eq!(node.unexpected[0].data, bytes(3, SIZE));
    assert_eq!(node.bmi.get_info(None).connected, 1);
    for peer in &mut peers {
        peer.poll();
        assert_eq!(peer.received.downs, 1);
    }
}
