//! Large unexpected messages of peers that announce them and do not send them.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use causeway_transport::{Access, Registration};
use causeway_wire::bmi::{self as wire, Announcement, Header, Kind};

use super::raw_peer::RawPeer;
use super::*;

const SIZE: usize = 64 << 10;

/// Announces an unexpected message that only the peer itself can move.
fn announce(peer: &mut RawPeer, node: &mut Node, send: u64) {
    announce_of(peer, node, send, SIZE as u64);
}

fn announce_of(peer: &mut RawPeer, node: &mut Node, send: u64, size: u64) {
    let body = Announcement {
        send,
        size,
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

/// Lets time pass for nodes that are driven meanwhile.
pub(super) fn pass(nodes: &mut [&mut Node], now_ms: &AtomicU64, ms: u64) {
    const STEP_MS: u64 = 100;
    for _ in 0..ms / STEP_MS {
        now_ms.fetch_add(STEP_MS, Ordering::Relaxed);
        // A node that finds time standing still reads the clock seldom.
        idle(nodes);
    }
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

/// Memory for two messages, and the peers that have it do not send: only time helps, and only if others wait.
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
    // No peer waits for the memory.
    pass(&mut [&mut node], &now_ms, 20_000);
    assert_eq!(node.bmi.get_info(None).connected, 2);
    let mut honest = super::node("unmoved-honest");
    let to = honest.bmi.lookup("mem://unmoved").unwrap();
    honest.send_unexpected(to, &memory(3, SIZE), 7, 1);
    idle(&mut [&mut node, &mut honest]);
    pass(&mut [&mut node, &mut honest], &now_ms, 4800);
    assert_eq!(node.bmi.get_info(None).connected, 3);
    // The node computes. What has arrived meanwhile is not looked at.
    now_ms.fetch_add(3_600_000, Ordering::Relaxed);
    idle(&mut [&mut node, &mut honest]);
    pass(&mut [&mut node, &mut honest], &now_ms, 1500);
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

/// A peer's message that the peer exports: this side reads it.
fn exported(peer: &mut RawPeer, memory: &Memory, send: u64) -> Vec<u8> {
    let region = peer
        .method
        .grant(peer.to, memory, Registration::NONE, Access::Read);
    let body = Announcement {
        send,
        size: memory.len() as u64,
        load: 0,
        regions: vec![region.unwrap()].into(),
    };
    wire::encode_announcement(Header::new(Kind::AnnounceUnexpected, 1), &body, Vec::new())
}

/// Its transfers do not start any more: what it announces then would keep its memory for ever.
#[test]
fn nothing_is_fetched_from_a_peer_that_has_left() {
    let config = Config {
        early_memory: 4 * SIZE,
        ..Config::default()
    };
    let mut node = node_with("left", config, Options::default());
    let mut peer = greeted_of_any_format(&mut node, "left");
    peer.send(&Header::new(Kind::Leave, wire::ASKS_TO_LEAVE).encode());
    idle(&mut [&mut node]);
    let data = memory(1, SIZE);
    for send in 1..3 {
        let packet = exported(&mut peer, &data, send);
        peer.send(&packet);
    }
    idle(&mut [&mut node]);
    assert_eq!(node.bmi.conversations.shared.budget.pulled(), 0);
    let mut honest = super::node("left-honest");
    let to = honest.bmi.lookup("mem://left").unwrap();
    honest.send_unexpected(to, &memory(3, SIZE), 7, 1);
    drive(&mut [&mut node, &mut honest], |nodes| {
        nodes[0].collect_unexpected();
        !nodes[0].unexpected.is_empty()
    });
    // If it stays after all, its messages arrive.
    peer.send(&Header::new(Kind::Stay, 0).encode());
    drive(&mut [&mut node], |nodes| {
        nodes[0].collect_unexpected();
        nodes[0].unexpected.len() == 3
    });
}

/// Greets in the newest format, and introduces itself.
fn greeted_of_any_format(node: &mut Node, name: &str) -> RawPeer {
    use causeway_wire::bmi::{InstanceId, Introduction};
    let mut peer = RawPeer::new(name);
    let hello = causeway_wire::formats::Formats::OURS.hello(true);
    peer.greet(hello);
    idle(&mut [node]);
    peer.poll();
    let introduction = Introduction {
        id: InstanceId(1),
        addresses: vec!["mem://nowhere".to_owned()],
    };
    peer.send(&wire::encode_introduction(&introduction, 4096));
    idle(&mut [node]);
    peer.poll();
    let first = Header::decode(
        peer.received.packets[0][..wire::HEADER_BYTES]
            .try_into()
            .unwrap(),
    );
    let theirs = causeway_wire::formats::Formats::of_hello(&first.unwrap())
        .unwrap()
        .0;
    let format = causeway_wire::formats::Formats::OURS
        .common(theirs)
        .unwrap();
    peer.send(&Header::new(Kind::Ready, format.into()).encode());
    idle(&mut [node]);
    assert_eq!(node.bmi.get_info(None).connected, 1);
    peer
}

/// It had announced a message before it left, for which no transfer was started.
#[test]
fn a_fetch_from_a_peer_that_has_left_ends_when_others_have_waited_long_enough() {
    let config = Config {
        early_memory: 2 * SIZE,
        ..Config::default()
    };
    let (mut node, now_ms) = timed_node("left-late", config);
    let mut peer = greeted_of_any_format(&mut node, "left-late");
    let data = memory(1, SIZE);
    let packet = exported(&mut peer, &data, 1);
    peer.send(&packet);
    peer.send(&Header::new(Kind::Leave, wire::ASKS_TO_LEAVE).encode());
    let mut honest = super::node("left-late-honest");
    let to = honest.bmi.lookup("mem://left-late").unwrap();
    idle(&mut [&mut node]);
    honest.send_unexpected(to, &memory(3, SIZE), 7, 1);
    pass(&mut [&mut node, &mut honest], &now_ms, 12_000);
    drive(&mut [&mut node, &mut honest], |nodes| {
        nodes[0].collect_unexpected();
        nodes[0]
            .unexpected
            .iter()
            .any(|message| message.data == bytes(3, SIZE))
    });
}

/// A large message waits for room, and smaller ones are kept out for it. They are fetched as soon as its
/// sender goes away, or withdraws it, whatever else happens.
#[test]
fn peers_that_were_kept_out_are_fetched_from_once_the_one_that_waited_does_not() {
    for withdraws in [false, true] {
        let name = format!("kept-out-{withdraws}");
        let config = Config {
            early_memory: 4 * SIZE,
            unexpected_limit: 2 * SIZE,
            ..Config::default()
        };
        let mut node = node_with(&name, config, Options::default());
        let mut silent = greeted(&mut node, &name);
        announce(&mut silent, &mut node, 1);
        let mut large = greeted(&mut node, &name);
        announce_of(&mut large, &mut node, 1, 2 * SIZE as u64);
        let mut many: Vec<RawPeer> = (0..12).map(|_| greeted(&mut node, &name)).collect();
        for peer in &mut many {
            announce_of(peer, &mut node, 1, 100);
        }
        idle(&mut [&mut node]);
        let begun = |node: &Node| node.bmi.conversations.shared.fetches.begun;
        assert_eq!(begun(&node), 1 + 8);
        match withdraws {
            true => large.send(&Header::new(Kind::Withdraw, 1).encode()),
            false => drop(large),
        }
        idle(&mut [&mut node]);
        assert_eq!(begun(&node), 1 + 12, "{name}");
        assert!(node.bmi.conversations.shared.fetches.short.is_none());
    }
}

/// The same once the large message has room: those before it in the ring are tried once more.
#[test]
fn peers_that_were_kept_out_are_fetched_from_once_the_one_that_waited_has_room() {
    let config = Config {
        early_memory: 4 * SIZE,
        unexpected_limit: 2 * SIZE,
        ..Config::default()
    };
    let mut node = node_with("kept-out-room", config, Options::default());
    let mut silent = greeted(&mut node, "kept-out-room");
    announce(&mut silent, &mut node, 1);
    let mut large = greeted(&mut node, "kept-out-room");
    announce_of(&mut large, &mut node, 1, 2 * SIZE as u64 - 2000);
    let mut many: Vec<RawPeer> = (0..12)
        .map(|_| greeted(&mut node, "kept-out-room"))
        .collect();
    for peer in &mut many {
        announce_of(peer, &mut node, 1, 100);
    }
    idle(&mut [&mut node]);
    let begun = |node: &Node| node.bmi.conversations.shared.fetches.begun;
    assert_eq!(begun(&node), 1 + 8);
    // Those that were kept out are now before it.
    node.bmi
        .conversations
        .shared
        .fetches
        .ring
        .make_contiguous()
        .sort_by_key(|key| std::cmp::Reverse(*key));
    drop(silent);
    idle(&mut [&mut node]);
    assert_eq!(begun(&node), 1 + 12 + 1);
    assert!(node.bmi.conversations.shared.fetches.short.is_none());
}

/// A peer that lets no transfer end keeps no memory for what it announces besides, which could not be transferred.
#[test]
fn nothing_is_fetched_while_its_transfer_could_not_start() {
    let config = Config {
        early_memory: 4 * SIZE,
        ..Config::default()
    };
    let mut node = node_with("no-transfer", config, Options::default());
    let mut peer = greeted(&mut node, "no-transfer");
    let all = &mut node.bmi.conversations;
    let hanging = all.peers.iter_mut().next().unwrap();
    while hanging.may_transfer(&all.shared) {
        all.shared.transfers.started(&mut hanging.transfers);
    }
    let data = memory(1, SIZE);
    let packet = exported(&mut peer, &data, 1);
    peer.send(&packet);
    idle(&mut [&mut node]);
    assert_eq!(node.bmi.conversations.shared.budget.pulled(), 0);
    assert_eq!(node.bmi.conversations.shared.fetches.begun, 0);
    // Others are served meanwhile.
    let mut honest = super::node("no-transfer-honest");
    let to = honest.bmi.lookup("mem://no-transfer").unwrap();
    honest.send_unexpected(to, &memory(3, SIZE), 7, 1);
    drive(&mut [&mut node, &mut honest], |nodes| {
        nodes[0].collect_unexpected();
        !nodes[0].unexpected.is_empty()
    });
    // It is fetched once one of the transfers has ended.
    let all = &mut node.bmi.conversations;
    let hanging = all.peers.iter_mut().next().unwrap();
    all.shared.transfers.ended(&mut hanging.transfers);
    all.shared.transfers.active -= 1;
    all.shared.retry_transfers();
    idle(&mut [&mut node]);
    assert_eq!(node.bmi.conversations.shared.fetches.begun, 2);
}

/// Many peers wait for room: each event tries a bounded number of them, and all are served in the end.
#[test]
fn many_peers_that_wait_for_room_are_served_one_after_the_other() {
    const PEERS: usize = 200;
    let config = Config {
        early_memory: 4 * SIZE,
        ..Config::default()
    };
    let mut node = node_with("many-wait", config, Options::default());
    let mut peers: Vec<RawPeer> = (0..PEERS)
        .map(|_| greeted(&mut node, "many-wait"))
        .collect();
    let data = memory(1, SIZE);
    for (at, peer) in peers.iter_mut().enumerate() {
        let packet = match at {
            // It takes half of the memory that there is for fetches, and lets go of it in the end.
            0 => {
                announce(peer, &mut node, 1);
                continue;
            }
            _ => exported(peer, &data, 1),
        };
        peer.send(&packet);
        node.step();
    }
    for number in 0..PEERS - 1 {
        drive(&mut [&mut node], |nodes| {
            nodes[0].collect_unexpected();
            nodes[0].unexpected.len() > number
        });
    }
    drop(peers);
    idle(&mut [&mut node]);
    assert_eq!(node.bmi.conversations.shared.budget.pulled(), 0);
    assert!(node.bmi.conversations.shared.fetches.short.is_none());
}
