//! Peers that send invalid packets are dropped with a protocol error; nothing else happens.

use causeway_transport::{
    Address, Method, Packet, Peer as Handle, Sink, Token, TransferError as Failed,
};
use causeway_wire::bmi::{self as wire, Announcement, Clearance, Header, Kind, Refusal};
use causeway_wire::random::SplitMix64;

use super::raw_peer::RawPeer;
use super::*;

/// Whether the node drops a peer that sends this packet after the greeting.
fn is_dropped(node: &mut Node, name: &str, packets: &[Vec<u8>]) -> bool {
    let mut raw = RawPeer::new(name);
    raw.greet_as_first_format();
    idle(&mut [node]);
    raw.poll();
    for packet in packets {
        raw.send(packet);
    }
    idle(&mut [node]);
    raw.poll();
    let dropped = raw.received.downs > 0;
    drop(raw);
    idle(&mut [node]);
    dropped
}

fn header(kind: Kind, word: u64) -> Vec<u8> {
    Header::new(kind, word).encode().to_vec()
}

#[test]
fn an_invalid_packet_is_a_protocol_error() {
    let name = "hostile";
    let mut node = node(name);
    let announcement = |send, size| {
        let body = Announcement {
            send,
            size,
            load: 0,
            regions: Vec::new().into(),
        };
        wire::encode_announcement(Header::new(Kind::Announce, 1), &body, Vec::new())
    };
    let clearance = wire::encode_clearance(
        Header::new(Kind::ClearToSend, 1),
        &Clearance {
            receive: 1,
            offset: 0,
            len: 0,
            regions: Vec::new().into(),
        },
        Vec::new(),
    );
    let mut unknown = header(Kind::Eager, 1);
    unknown[0] = 99;
    let mut flags = header(Kind::Eager, 1);
    flags[1] = 0x80;
    let mut credit = header(Kind::Credit, 1);
    credit[4..8].fill(0xff);
    let mut long_hello = header(Kind::Withdraw, 1);
    long_hello.push(1);
    let cases: Vec<(&str, Vec<Vec<u8>>)> = vec![
        ("empty", vec![vec![]]),
        ("short", vec![vec![2; 15]]),
        ("unknown kind", vec![unknown]),
        ("unknown flags", vec![flags]),
        (
            "second greeting",
            vec![header(Kind::Hello, wire::HELLO_WORD)],
        ),
        ("too much credit", vec![credit.clone(), credit]),
        (
            "more than granted",
            vec![[header(Kind::Eager, 1), vec![0; 16_000]].concat(); 20],
        ),
        ("no body", vec![header(Kind::Announce, 1)]),
        ("trailing bytes", vec![long_hello]),
        (
            "too many announcements",
            (0..300).map(|n| announcement(n, 1 << 20)).collect(),
        ),
        (
            "returns what it has not",
            vec![header(Kind::Return, 1 << 40)],
        ),
    ];
    for (what, packets) in cases {
        // The queue underneath is shorter than the longest case.
        let dropped = if packets.len() > 200 {
            let mut raw = RawPeer::new(name);
            raw.greet_as_first_format();
            idle(&mut [&mut node]);
            raw.poll();
            for packet in packets {
                raw.send(&packet);
                node.step();
            }
            idle(&mut [&mut node]);
            raw.poll();
            raw.received.downs > 0
        } else {
            is_dropped(&mut node, name, &packets)
        };
        assert!(dropped, "{what}");
    }
    // Stale or unknown operations may be left over from a cancel: they are ignored.
    for packet in [
        header(Kind::Read, 12345),
        header(Kind::Written, u64::MAX),
        header(Kind::Withdraw, 0),
        clearance,
        wire::encode_refusal(Header::new(Kind::Refuse, 77), Refusal::Failed, Vec::new()),
        header(Kind::Reclaim, 0),
    ] {
        assert!(!is_dropped(&mut node, name, &[packet]));
    }
    idle(&mut [&mut node]);
    assert_eq!(node.bmi.doing(), Info::default());
}

#[test]
fn before_the_greeting() {
    let name = "ungreeted";
    let mut node = node(name);
    for first in [
        header(Kind::Eager, 1),
        header(Kind::Hello, wire::HELLO_WORD + (200 << 32)),
        header(Kind::Hello, wire::HELLO_WORD + (1 << 40)),
        [header(Kind::Hello, wire::HELLO_WORD), vec![0]].concat(),
    ] {
        let mut raw = RawPeer::new(name);
        raw.send(&first);
        idle(&mut [&mut node]);
        raw.poll();
        assert_eq!(raw.received.downs, 1);
    }
    idle(&mut [&mut node]);
    assert_eq!(node.bmi.doing(), Info::default());
}

#[test]
fn the_error_names_the_peer_and_the_violation() {
    let mut node = node("names");
    let mut server = Mem::new(Options::default()).unwrap();
    let address: Address = "mem://names-hostile".parse().unwrap();
    server.listen(&address).unwrap();
    let to = node.bmi.lookup("mem://names-hostile").unwrap();
    node.recv(to, &[Memory::zeroed(8)], 1, 1);
    struct Caller(Option<Handle>);
    impl Sink for Caller {
        fn packet(&mut self, _: Handle, _: Packet<'_>) {}
        fn transfer_done(&mut self, _: Handle, _: Token, _: Result<(), Failed>) {}
        fn peer_up(&mut self, peer: Handle) {
            self.0 = Some(peer);
        }
        fn peer_down(&mut self, _: Handle, _: PeerError) {}
        fn writable(&mut self, _: Handle) {}
    }
    let mut caller = Caller(None);
    server.poll(Instant::now(), &mut caller);
    server
        .send(caller.0.unwrap(), &[b"GET / HTTP/1.1\r\n\r\n"])
        .unwrap();
    drive(&mut [&mut node], |nodes| nodes[0].result(1).is_some());
    let error = node.result(1).unwrap().as_ref().unwrap_err().to_string();
    assert!(
        error.contains("mem://names-hostile") && error.contains("protocol"),
        "{error}"
    );
}

#[test]
fn random_and_flipped_packets_never_panic() {
    let name = "random";
    let mut node = node(name);
    let mut random = SplitMix64::new(7);
    // A peer that behaves, beside them.
    let mut good = super::node("random-good");
    let to = good.bmi.lookup("mem://random").unwrap();
    let from = meet(&mut good, &mut node, to);
    for round in 0..300u64 {
        let mut raw = RawPeer::new(name);
        raw.greet_as_first_format();
        node.step();
        for _ in 0..50 {
            let mut packet = header(Kind::Eager, random.below(4));
            packet[0] = random.below(19) as u8;
            // Credit is mostly valid.
            packet[4..8].copy_from_slice(&(random.below(300) as u32).to_le_bytes());
            let more = random.below(80) as usize;
            packet.extend(random.bytes(more));
            if random.below(3) == 0 {
                let at = random.below(packet.len() as u64) as usize;
                packet[at] ^= 1 << random.below(8);
            }
            packet.truncate(packet.len() - random.below(3) as usize);
            raw.send(&packet);
            node.step();
        }
        if round % 10 == 0 {
            let into = Memory::zeroed(8);
            node.recv(from, std::slice::from_ref(&into), 3, round);
            good.send(to, &[memory(1, 8)], 3, round);
            drive(&mut [&mut node, &mut good], |nodes| {
                nodes[0].result(round).is_some()
            });
            assert_eq!(into.to_vec(), bytes(1, 8));
        }
        node.collect_unexpected();
        for message in std::mem::take(&mut node.unexpected) {
            node.bmi.release(message.from);
        }
    }
    idle(&mut [&mut node]);
    node.collect_unexpected();
    for message in std::mem::take(&mut node.unexpected) {
        node.bmi.release(message.from);
    }
    idle(&mut [&mut node]);
    let info = node.bmi.get_info(None);
    assert_eq!(
        (info.connected, info.early_bytes, info.operations),
        (1, 0, 0)
    );
}

#[test]
fn a_peer_that_sends_requests_without_reading_is_dropped() {
    let name = "deaf";
    let mut node = node_with(
        name,
        Config::default(),
        Options {
            queue_packets: 8,
            ..Options::default()
        },
    );
    let mut raw = RawPeer::new(name);
    raw.greet_as_first_format();
    idle(&mut [&mut node]);
    let body = Announcement {
        send: 5,
        size: 1 << 40,
        load: 0,
        regions: Vec::new().into(),
    };
    let packet =
        wire::encode_announcement(Header::new(Kind::AnnounceUnexpected, 1), &body, Vec::new());
    // Each request is refused, and the peer never reads the refusals.
    for _ in 0..6000 {
        raw.send(&packet);
        node.step();
    }
    idle(&mut [&mut node]);
    assert_eq!(node.bmi.get_info(None).connected, 0);
}

/// Long lists of memory are not kept for messages that no receive has asked for; the message arrives all
/// the same.
#[test]
fn unmatched_announcements_are_kept_small() {
    let (mut a, mut b, to, from) = pair("slim", Config::default(), Options::default());
    let pull = InfoOption::Rendezvous(RendezvousPolicy::Pull);
    b.bmi.set_info(None, pull).unwrap();
    let list = |n: usize| -> Vec<Memory> { (0..n).map(|m| memory(m, 1000)).collect() };
    let lens = [9, 50, 300, 8, 20];
    for (n, len) in lens.into_iter().enumerate() {
        a.send(to, &list(len), n as u64, n as u64);
    }
    let unexpected = list(60);
    let posted = a.bmi.post_sendunexpected(to, &unexpected, 1, a.context, 10);
    a.note(posted);
    idle(&mut [&mut a, &mut b]);
    let mut announced = 0;
    for index in b.bmi.conversations.shared.early.indices() {
        if let crate::shared::EarlyBody::Announced(incoming) =
            &b.bmi.conversations.shared.early[index].body
        {
            announced += 1;
            let capacity = incoming.announcement.regions.capacity();
            assert!(capacity <= 16, "{capacity} regions are kept");
        }
    }
    assert!(announced >= 3);
    for (n, len) in lens.into_iter().enumerate() {
        let into = Memory::zeroed(len * 1000);
        b.recv(from, std::slice::from_ref(&into), n as u64, n as u64);
        drive(&mut [&mut a, &mut b], |nodes| {
            nodes[1].result(n as u64).is_some()
        });
        assert_eq!(b.result(n as u64), Some(&Ok(len as u64 * 1000)));
        let sent: Vec<_> = list(len).iter().flat_map(Memory::to_vec).collect();
        assert!(into.to_vec() == sent);
    }
    drive(&mut [&mut a, &mut b], |nodes| {
        nodes[1].collect_unexpected();
        !nodes[1].unexpected.is_empty() && nodes[0].result(10).is_some()
    });
    assert_eq!(b.unexpected[0].data.len(), 60_000);
}
