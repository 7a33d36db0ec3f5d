//! Bounded memory under floods, fairness among senders, and no deadlock when credit runs out.

use causeway_transport::Packet;
use causeway_wire::bmi::{FLAG_STARVED, Header, Kind};

use super::*;
use crate::shared::Work;

const EARLY: usize = 256 << 10;

fn small_memory() -> Config {
    Config {
        early_memory: EARLY,
        ..Config::default()
    }
}

#[test]
fn a_flood_from_many_senders_is_bounded_and_fair() {
    const SENDERS: usize = 40;
    const EACH: usize = 60;
    let mut server = node_with("flood-server", small_memory(), Options::default());
    let mut senders: Vec<Node> = (0..SENDERS).map(|n| node(&format!("flood-{n}"))).collect();
    for (n, sender) in senders.iter_mut().enumerate() {
        let to = sender.bmi.lookup("mem://flood-server").unwrap();
        for m in 0..EACH {
            let size = [3, 900, 5000, 20_000][(n + m) % 4];
            let tag = (n * EACH + m) as u64;
            sender.send_unexpected(to, &memory(m, size), tag, m as u64);
        }
    }
    let mut next = [0; SENDERS];
    let mut peak = 0;
    let mut rounds = 0;
    while next.iter().sum::<usize>() < SENDERS * EACH {
        for sender in &mut senders {
            sender.step();
        }
        server.step();
        peak = peak.max(server.bmi.get_info(None).early_bytes);
        rounds += 1;
        assert!(rounds < 100_000, "stuck at {next:?}");
        // A slow receiver: two messages at a time.
        server
            .bmi
            .testunexpected(2, NOW, &mut server.unexpected)
            .unwrap();
        for message in server.unexpected.drain(..) {
            let (n, m) = (message.tag as usize / EACH, message.tag as usize % EACH);
            assert_eq!(m, next[n], "in order from each sender");
            assert_eq!(message.data, bytes(m, [3, 900, 5000, 20_000][(n + m) % 4]));
            next[n] += 1;
        }
        let (least, most) = (next.iter().min().unwrap(), next.iter().max().unwrap());
        assert!(most - least <= EACH / 2, "unfair: {next:?}");
    }
    assert!(peak <= EARLY, "{peak} bytes held");
    assert!(peak > EARLY / 8);
    for sender in &mut senders {
        sender.step();
        assert_eq!(sender.done.len(), EACH);
        assert!(sender.done.iter().all(|done| done.result.is_ok()));
    }
    assert_eq!(server.bmi.get_info(None).early_bytes, 0);
}

#[test]
fn thousands_of_peers_share_the_memory() {
    const PEERS: usize = 600;
    let mut server = node_with("crowd-server", small_memory(), Options::default());
    let mut peers: Vec<Node> = (0..PEERS).map(|n| node(&format!("crowd-{n}"))).collect();
    for (n, peer) in peers.iter_mut().enumerate() {
        let to = peer.bmi.lookup("mem://crowd-server").unwrap();
        for m in 0..3 {
            peer.send_unexpected(to, &memory(m, 2000), n as u64, m as u64);
        }
    }
    let mut taken = 0;
    for _ in 0..20_000 {
        for peer in &mut peers {
            peer.step();
        }
        server.step();
        assert!(server.bmi.get_info(None).early_bytes <= EARLY);
        server.unexpected.clear();
        taken += server
            .bmi
            .testunexpected(50, NOW, &mut server.unexpected)
            .unwrap();
        if taken == 3 * PEERS {
            return;
        }
    }
    panic!("{taken} messages of {}", 3 * PEERS);
}

#[test]
fn both_send_large_messages_first() {
    let (mut a, mut b, to, from) = pair("bothfirst", Config::default(), Options::default());
    let into: Vec<_> = (0..40).map(|_| Memory::zeroed(100_000)).collect();
    for n in 0..20 {
        a.send(to, &[memory(n, 100_000)], n as u64, n as u64);
        b.send(from, &[memory(n + 20, 100_000)], n as u64, n as u64);
    }
    for n in (0..20).rev() {
        let tag = n as u64;
        a.recv(to, &into[n..=n], tag, 100 + tag);
        b.recv(from, &into[20 + n..=20 + n], tag, 100 + tag);
    }
    drive(&mut [&mut a, &mut b], |nodes| {
        nodes.iter().all(|node| node.done.len() == 40)
    });
    for n in 0..20 {
        assert_eq!(into[n].to_vec(), bytes(n + 20, 100_000));
        assert_eq!(into[n + 20].to_vec(), bytes(n, 100_000));
    }
}

#[test]
fn expected_messages_flow_when_the_credit_is_used_up() {
    let (mut a, mut b, to, from) = pair("exhausted", small_memory(), Options::default());
    // No receive takes these.
    for n in 0..200 {
        a.send_unexpected(to, &memory(n, 2000), 0, n as u64);
    }
    idle(&mut [&mut a, &mut b]);
    assert!(a.bmi.get_info(None).operations > 0, "some wait");
    for n in 0..100 {
        let into = Memory::zeroed(3000);
        a.send(to, &[memory(n, 3000)], 7, 1000 + n as u64);
        b.recv(from, std::slice::from_ref(&into), 7, n as u64);
        drive(&mut [&mut a, &mut b], |nodes| {
            nodes[1].result(n as u64).is_some()
        });
        assert_eq!(into.to_vec(), bytes(n, 3000));
        b.done.clear();
    }
    drive(&mut [&mut a, &mut b], |nodes| {
        nodes[1].collect_unexpected();
        nodes[1].unexpected.len() == 200
    });
}

#[test]
fn more_sends_than_may_be_announced() {
    let (mut a, mut b, to, from) = pair("announced", small_memory(), Options::default());
    const COUNT: usize = 1000;
    for n in 0..COUNT {
        a.send(to, &[memory(n, 9000)], n as u64 % 3, n as u64);
    }
    idle(&mut [&mut a, &mut b]);
    let into: Vec<_> = (0..COUNT).map(|_| Memory::zeroed(9000)).collect();
    for n in 0..COUNT {
        b.recv(from, &into[n..=n], n as u64 % 3, n as u64);
    }
    drive(&mut [&mut a, &mut b], |nodes| {
        nodes.iter().all(|node| node.done.len() == COUNT)
    });
    for (n, into) in into.iter().enumerate() {
        assert_eq!(into.to_vec(), bytes(n, 9000));
    }
}

#[test]
fn tiny_queues_of_the_method_only_slow_transfers_down() {
    let options = Options {
        queue_packets: 1,
        max_packet: 4352,
        ..Options::default()
    };
    let (mut a, mut b, to, from) = pair("tiny", Config::default(), options);
    let into: Vec<_> = (0..300).map(|_| Memory::zeroed(8000)).collect();
    for n in 0..300 {
        let size = [8, 4000, 8000][n % 3];
        a.send(to, &[memory(n, size)], 1, n as u64);
        b.send(from, &[memory(n, size)], 1, n as u64);
        b.recv(from, &into[n..=n], 1, 1000 + n as u64);
        a.recv(to, &[Memory::zeroed(8000)], 1, 1000 + n as u64);
    }
    drive(&mut [&mut a, &mut b], |nodes| {
        nodes.iter().all(|node| node.done.len() == 600)
    });
    for (n, into) in into.iter().enumerate() {
        let size = [8, 4000, 8000][n % 3];
        assert_eq!(into.to_vec()[..size], bytes(n, size));
    }
}

#[test]
fn a_request_passes_the_data_that_was_sent_before_it() {
    for early_memory in [0, 40_000, 1 << 20] {
        let config = Config {
            early_memory,
            ..Config::default()
        };
        let name = format!("behind-{early_memory}");
        let (mut a, mut b, to, from) = pair(&name, config, Options::default());
        for n in 0..300 {
            a.send(to, &[memory(n, 1500)], n as u64, n as u64);
        }
        for size in [8000, 10] {
            a.send_unexpected(to, &memory(1, size), 0, 1000 + size as u64);
        }
        // The receiver posts its receive when the request has arrived.
        drive(&mut [&mut a, &mut b], |nodes| {
            nodes[1].collect_unexpected();
            nodes[1].unexpected.len() == 2
        });
        let into: Vec<_> = (0..300).map(|_| Memory::zeroed(1500)).collect();
        for n in 0..300 {
            b.recv(from, &into[n..=n], n as u64, n as u64);
        }
        drive(&mut [&mut a, &mut b], |nodes| {
            nodes[0].done.len() == 302 && nodes[1].done.len() == 300
        });
        for (n, into) in into.iter().enumerate() {
            assert_eq!(into.to_vec(), bytes(n, 1500));
        }
    }
}

#[test]
fn announcements_beyond_what_the_method_takes_wait_and_keep_their_order() {
    const MESSAGES: usize = 12;
    const SIZE: usize = 40_000;
    let few = Options {
        queue_packets: 3,
        ..Options::default()
    };
    let (mut client, mut server, to, from) = pair("announcements", Config::default(), few);
    // All are posted before the server polls: the queue is full after some.
    for n in 0..MESSAGES {
        client.send(to, &[memory(n, SIZE)], 1, n as u64);
    }
    let into: Vec<Memory> = (0..MESSAGES).map(|_| Memory::zeroed(SIZE)).collect();
    for (n, into) in into.iter().enumerate() {
        server.recv(from, std::slice::from_ref(into), 1, n as u64);
    }
    drive(&mut [&mut client, &mut server], |nodes| {
        nodes.iter().all(|node| node.done.len() == MESSAGES)
    });
    for (n, into) in into.iter().enumerate() {
        assert_eq!(client.result(n as u64), Some(&Ok(SIZE as u64)));
        assert_eq!(server.result(n as u64), Some(&Ok(SIZE as u64)));
        assert_eq!(into.to_vec(), bytes(n, SIZE), "message {n}");
    }
}

/// Packets that cost a peer nothing: it reports that it needs window, over and over.
#[test]
fn a_peer_that_always_needs_window_gets_no_more_than_others_have() {
    let (mut a, mut b, to, from) = pair("starved", small_memory(), Options::default());
    let mut other = node("starved-other");
    let server = other.bmi.lookup("mem://starved-server").unwrap();
    let numbers = [from, meet(&mut other, &mut b, server)].map(|peer| b.bmi.number(peer));
    let [good, other] = numbers.map(Option::unwrap);
    for n in 0..200 {
        a.send_unexpected(to, &memory(n, 2000), 0, n as u64);
        a.step();
        b.step();
    }
    let window = |b: &Node, peer: u32| b.bmi.conversations.peers[peer].grant.window();
    let grown = window(&b, good);
    assert!(grown >= 64 << 10, "it has grown: {grown}");
    let mut header = Header::new(Kind::Credit, 0);
    header.flags = FLAG_STARVED;
    let packet = header.encode();
    for _ in 0..100 {
        for _ in 0..10 {
            let packet = Packet::private(&packet);
            b.bmi.conversations.handle_packet(other, packet);
        }
        let work = &b.bmi.conversations.shared.work;
        let shrinks = |work: &&Work| matches!(work, Work::Shrink);
        assert!(work.iter().filter(shrinks).count() <= 1);
        a.step();
        b.step();
    }
    let (good, other) = (window(&b, good), window(&b, other));
    assert!(2 * good > other && good > 40 << 10, "{good} and {other}");
}
