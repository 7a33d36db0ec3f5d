//! Two instances that call each other have one name and one connection; those of format 1 have two. (The same over every
//! method is in testkit's `messages::pairs`.)

use causeway_wire::bmi::{self as wire, Body, Header, InstanceId, Introduction, Kind};
use causeway_wire::formats::Formats;

use super::raw_peer::RawPeer;
use super::*;

const TAG: Tag = 5;

/// Two that know each other's address and have not called.
fn unconnected(medium: Medium, name: &str) -> (Node, Node, Addr, Addr) {
    let mut a = node_over(medium, &format!("{name}-a"), Config::default());
    let mut b = node_over(medium, &format!("{name}-b"), Config::default());
    let to_b = a.bmi.lookup(&b.bmi.listening()[0]).unwrap();
    let to_a = b.bmi.lookup(&a.bmi.listening()[0]).unwrap();
    (a, b, to_b, to_a)
}

/// Both send to the other and get what the other sends.
fn exchange(a: &mut Node, b: &mut Node, to_b: Addr, to_a: Addr, user: u64) {
    let into = [Memory::zeroed(100), Memory::zeroed(100)];
    for (node, to, into) in [(&mut *a, to_b, &into[0]), (&mut *b, to_a, &into[1])] {
        node.send(to, &[memory(user as usize, 100)], TAG, user);
        node.recv(to, std::slice::from_ref(into), TAG, user + 1);
    }
    let all = [user, user + 1];
    drive(&mut [a, b], |nodes| {
        let done = |node: &&mut Node| all.iter().all(|user| node.result(*user).is_some());
        nodes.iter().all(done)
    });
    for node in [&*a, &*b] {
        for user in all {
            assert_eq!(node.result(user), Some(&Ok(100)), "{user}");
        }
    }
    assert!(
        into.iter()
            .all(|into| into.to_vec() == bytes(user as usize, 100))
    );
}

/// How many connections an instance has.
fn links(node: &Node) -> usize {
    let all = node.bmi.connections.links.iter().flatten();
    all.filter(|link| link.is_some()).count()
}

/// Steps until the connection of a call that was given up is gone.
fn until_links(a: &mut Node, b: &mut Node, count: usize) {
    drive(&mut [a, b], |nodes| {
        nodes.iter().all(|node| links(node) == count)
    });
}

#[test]
fn a_listener_sends_over_the_connection_of_its_caller() {
    for medium in MEDIA {
        let (mut a, mut b, to_b, from_a) = pair_over(medium, "pairs-called", Config::default());
        let address = a.bmi.listening()[0].clone();
        assert_eq!(b.bmi.reverse_lookup(from_a), Some(address.clone()));
        let to_a = b.bmi.lookup(&address).unwrap();
        assert_eq!(to_a, from_a, "{medium:?}: one name");
        exchange(&mut a, &mut b, to_b, to_a, 10);
        assert_eq!((links(&a), links(&b)), (1, 1), "{medium:?}: one connection");
        // A list means the same process, and so does another look-up.
        let list = format!("xyz://elsewhere,{address}");
        assert_eq!(b.bmi.lookup(&list).unwrap(), to_a);
        for _ in 0..2 {
            b.bmi.release(to_a);
        }
        exchange(&mut a, &mut b, to_b, to_a, 20);
    }
}

#[test]
fn crossing_calls_become_one() {
    for medium in MEDIA {
        for round in 0..50 {
            let name = format!("pairs-cross-{round}");
            let (mut a, mut b, to_b, to_a) = unconnected(medium, &name);
            // Messages of all sizes wait for the connection, in one order.
            for n in 0..6 {
                let data = [memory(n, [10, 3000, 200_000][n % 3])];
                a.send(to_b, &data, TAG, n as u64);
                b.send(to_a, &data, TAG, n as u64);
                // Either side may get further ahead before the other polls.
                for _ in 0..round % 4 {
                    a.step();
                }
                for _ in 0..round / 4 % 4 {
                    b.step();
                }
            }
            let into: Vec<Memory> = (0..12).map(|_| Memory::zeroed(200_000)).collect();
            for n in 0..6 {
                let parts = |at: usize| std::slice::from_ref(&into[at]);
                a.recv(to_b, parts(n), TAG, 10 + n as u64);
                b.recv(to_a, parts(6 + n), TAG, 10 + n as u64);
            }
            drive(&mut [&mut a, &mut b], |nodes| {
                nodes.iter().all(|node| node.done.len() == 12)
            });
            for (n, into) in into.iter().enumerate() {
                let len = [10, 3000, 200_000][n % 3];
                assert_eq!(into.slice(0..len).to_vec(), bytes(n % 6, len), "{medium:?}");
            }
            until_links(&mut a, &mut b, 1);
            assert_eq!(a.bmi.conversations.peers.len(), 1);
            assert_eq!(b.bmi.conversations.peers.len(), 1);
            // The connection that was given up counts as none that was lost.
            assert_eq!((a.bmi.losses(), b.bmi.losses()), (0, 0));
        }
    }
}

/// Memory that was exported to the peer over a call stays exported, whichever call is accepted first.
#[test]
fn exports_made_before_the_call_is_accepted_stay() {
    for round in 0..8 {
        let (mut a, mut b, to_b, to_a) = unconnected(Medium::Mem, &format!("pairs-pinned-{round}"));
        let memories = [memory(1, 5000), memory(2, 5000)];
        let mut regions = Vec::new();
        let ends = [(&mut a, to_b), (&mut b, to_a)];
        for ((node, to), memory) in ends.into_iter().zip(&memories) {
            let region = node.bmi.export(to, memory, Access::Read).unwrap();
            regions.push(region);
            node.recv(to, &[Memory::zeroed(1)], 77, 77);
        }
        idle(&mut [&mut a, &mut b]);
        // Each reads what the other has exported, over the connection that it was exported over.
        let mut read = 0;
        for (node, region) in [(&mut a, regions[1]), (&mut b, regions[0])] {
            for peer in node.bmi.conversations.peers.indices() {
                let addr = Addr(node.bmi.conversations.peers.key(peer));
                let into = Memory::zeroed(5000);
                let user = 100 + u64::from(peer);
                let posted = node.bmi.post_transfer(
                    addr,
                    Direction::Get,
                    std::slice::from_ref(&into),
                    &[region],
                    node.context,
                    user,
                );
                node.note(posted);
            }
        }
        idle(&mut [&mut a, &mut b]);
        for node in [&a, &b] {
            let of_transfers = node.done.iter().filter(|done| done.user >= 100);
            read += of_transfers.filter(|done| done.result.is_ok()).count();
        }
        assert_eq!(read, 2);
    }
}

#[test]
fn a_peer_that_dies_and_returns_keeps_its_name() {
    for medium in [Medium::Mem, Medium::Tcp, Medium::Shm] {
        for round in 0..10 {
            let (mut a, mut b, to_b, to_a) = unconnected(medium, &format!("pairs-death-{round}"));
            exchange(&mut a, &mut b, to_b, to_a, 10);
            let address = b.bmi.listening()[0].clone();
            a.recv(to_b, &[Memory::zeroed(1)], 77, 1);
            let kept = b._dir.take();
            drop(b);
            drive(&mut [&mut a], |nodes| nodes[0].result(1).is_some());
            assert!(matches!(a.result(1), Some(Err(OpError::Peer { .. }))));
            let listen = vec![address.clone()];
            let mut again = match medium {
                Medium::Mem => node(address.strip_prefix("mem://").unwrap()),
                _ => {
                    let mut bmi = Bmi::new(Config {
                        listen,
                        ..Config::default()
                    })
                    .unwrap();
                    let context = bmi.open_queue().unwrap();
                    Node {
                        bmi,
                        _dir: kept,
                        context,
                        fault: None,
                        done: Vec::new(),
                        unexpected: Vec::new(),
                    }
                }
            };
            let to_a = again.bmi.lookup(&a.bmi.listening()[0]).unwrap();
            // Either side calls first.
            if round % 2 == 0 {
                again.send_unexpected(to_a, &memory(1, 1), TAG, 1);
                drive(&mut [&mut a, &mut again], |nodes| {
                    nodes[0].collect_unexpected();
                    !nodes[0].unexpected.is_empty()
                });
                assert_eq!(a.unexpected.pop().unwrap().from, to_b);
            }
            exchange(&mut a, &mut again, to_b, to_a, 20);
            until_links(&mut a, &mut again, 1);
        }
    }
}

#[test]
fn a_connection_is_closed_when_neither_needs_it() {
    for medium in MEDIA {
        let (mut a, mut b, to_b, to_a) = unconnected(medium, "pairs-release");
        exchange(&mut a, &mut b, to_b, to_a, 10);
        until_links(&mut a, &mut b, 1);
        for first in [true, false] {
            // The side that has released the address still sends and receives.
            let (to_b, to_a) = {
                let to_b = a.bmi.lookup(&b.bmi.listening()[0]).unwrap();
                let to_a = b.bmi.lookup(&a.bmi.listening()[0]).unwrap();
                (to_b, to_a)
            };
            let (gone, stays, addr, other) = match first {
                true => (&mut a, &mut b, to_b, to_a),
                false => (&mut b, &mut a, to_a, to_b),
            };
            while gone
                .bmi
                .number(addr)
                .is_some_and(|peer| gone.bmi.conversations.peers[peer].refs > 0)
            {
                gone.bmi.release(addr);
            }
            stays.send_unexpected(other, &memory(3, 50), TAG, 50);
            stays.recv(other, &[Memory::zeroed(1)], 77, 51);
            drive(&mut [&mut *gone, &mut *stays], |nodes| {
                nodes[0].collect_unexpected();
                !nodes[0].unexpected.is_empty()
            });
            idle(&mut [&mut *gone, &mut *stays]);
            assert_eq!(stays.result(50), Some(&Ok(50)), "{medium:?}");
            assert_eq!(stays.result(51), None, "{medium:?}: the connection stands");
            let from = gone.unexpected.pop().unwrap().from;
            gone.send(from, &[memory(0, 1)], 77, 52);
            drive(&mut [&mut *gone, &mut *stays], |nodes| {
                nodes[1].result(51).is_some()
            });
            assert_eq!(stays.result(51), Some(&Ok(1)), "{medium:?}");
            gone.bmi.release(from);
            idle(&mut [&mut *gone, &mut *stays]);
            assert_eq!(links(stays), 1);
            a.done.clear();
            b.done.clear();
        }
        let last = a.bmi.lookup(&b.bmi.listening()[0]).unwrap();
        for (node, addr) in [(&mut a, last), (&mut b, to_a)] {
            while node
                .bmi
                .number(addr)
                .is_some_and(|peer| node.bmi.conversations.peers[peer].refs > 0)
            {
                node.bmi.release(addr);
            }
        }
        drive(&mut [&mut a, &mut b], |nodes| {
            nodes
                .iter()
                .all(|node| node.bmi.conversations.peers.is_empty())
        });
        assert_eq!((links(&a), links(&b)), (0, 0), "{medium:?}");
        assert!(a.bmi.connections.by_text.is_empty() && b.bmi.connections.by_text.is_empty());
    }
}

/// Both sides release the address and call again at the same time: every message arrives, in order.
#[test]
fn releasing_and_calling_again_loses_no_message() {
    for medium in MEDIA {
        let (mut a, mut b, to_b, to_a) = unconnected(medium, "pairs-back");
        exchange(&mut a, &mut b, to_b, to_a, 10);
        a.bmi.release(to_b);
        b.bmi.release(to_a);
        let (mut at_a, mut at_b) = (Vec::new(), Vec::new());
        for round in 0..200u64 {
            let to_b = a.bmi.lookup(&b.bmi.listening()[0]).unwrap();
            a.send_unexpected(to_b, &memory(1, 40), round, 1000 + round);
            let to_a = b.bmi.lookup(&a.bmi.listening()[0]).unwrap();
            b.send_unexpected(to_a, &memory(1, 40), round, 1000 + round);
            for _ in 0..round % 5 {
                a.step();
            }
            a.bmi.release(to_b);
            for _ in 0..round % 7 {
                b.step();
            }
            b.bmi.release(to_a);
            for (node, seen) in [(&mut a, &mut at_a), (&mut b, &mut at_b)] {
                node.collect_unexpected();
                for message in std::mem::take(&mut node.unexpected) {
                    seen.push(message.tag);
                    node.bmi.release(message.from);
                }
            }
        }
        drive(&mut [&mut a, &mut b], |nodes| {
            for (node, seen) in nodes.iter_mut().zip([&mut at_a, &mut at_b]) {
                node.collect_unexpected();
                for message in std::mem::take(&mut node.unexpected) {
                    seen.push(message.tag);
                    node.bmi.release(message.from);
                }
            }
            nodes
                .iter()
                .all(|node| node.bmi.conversations.peers.is_empty())
        });
        let all: Vec<u64> = (0..200).collect();
        assert_eq!((at_a, at_b), (all.clone(), all), "{medium:?}");
        for node in [&a, &b] {
            assert!(
                node.done.iter().all(|done| done.result.is_ok()),
                "{medium:?}"
            );
        }
    }
}

/// Calls, states this address as its own, and goes on if the other side accepts.
fn introduced(name: &str, node: &mut Node, id: InstanceId, address: &str) -> RawPeer {
    let mut raw = RawPeer::new(name);
    raw.greet(Formats::OURS.hello(true));
    let introduction = Introduction {
        id,
        addresses: vec![address.to_owned()],
    };
    raw.send(&wire::encode_introduction(&introduction, 4096));
    idle(&mut [node]);
    raw.poll();
    let mut bodies = raw.received.bodies().into_iter();
    if bodies.any(|body| matches!(body, Body::Introduction(_))) {
        raw.send(&Header::new(Kind::Ready, Formats::OURS.highest.into()).encode());
        idle(&mut [node]);
    }
    raw
}

fn unexpected(tag: Tag, bytes: &[u8]) -> Vec<u8> {
    [&Header::new(Kind::Unexpected, tag).encode(), bytes].concat()
}

/// A caller that states another peer's address gets a name of its own, and the peer keeps its name.
#[test]
fn a_caller_cannot_take_the_name_of_another_peer() {
    for (round, when) in ["before", "while", "after"].into_iter().enumerate() {
        let (mut a, mut b, ..) = unconnected(Medium::Mem, &format!("pairs-liar-{round}"));
        let (of_a, of_b) = (a.bmi.listening()[0].clone(), b.bmi.listening()[0].clone());
        let id = b.bmi.conversations.shared.own.introduction.id;
        let name = of_a.strip_prefix("mem://").unwrap().to_owned();
        let (to_b, to_a) = (a.bmi.lookup(&of_b).unwrap(), b.bmi.lookup(&of_a).unwrap());
        if when == "after" {
            exchange(&mut a, &mut b, to_b, to_a, 30);
        }
        if when == "while" {
            a.recv(to_b, &[Memory::zeroed(1)], 77, 77);
            a.step();
        }
        let mut liar = introduced(&name, &mut a, id, &of_b);
        liar.send(&unexpected(6, b"lies"));
        drive(&mut [&mut a], |nodes| {
            nodes[0].collect_unexpected();
            !nodes[0].unexpected.is_empty()
        });
        let from = a.unexpected.pop().unwrap().from;
        assert_ne!(from, to_b, "{when}");
        assert_ne!(a.bmi.reverse_lookup(from), Some(of_b.clone()), "{when}");
        exchange(&mut a, &mut b, to_b, to_a, 10);
        let again = a.bmi.lookup(&of_b).unwrap();
        assert_eq!(again, to_b, "{when}");
        liar.poll();
        assert!(
            !liar
                .received
                .packets
                .iter()
                .any(|packet| packet.len() > 100),
            "{when}"
        );
    }
}

/// Odd introductions end the connection, and nothing else.
#[test]
fn hostile_introductions() {
    let name = "pairs-hostile";
    let mut node = node(name);
    let introduction = |addresses: &[&str]| {
        let introduction = Introduction {
            id: InstanceId(7),
            addresses: addresses.iter().map(|text| (*text).to_owned()).collect(),
        };
        wire::encode_introduction(&introduction, 4096)
    };
    let hello = Formats::OURS.hello(true).encode().to_vec();
    let silent = Formats::OURS.hello(false).encode().to_vec();
    let bare = |kind, word| Header::new(kind, word).encode().to_vec();
    let mut cut = introduction(&["mem://x"]);
    cut.pop();
    let ready = bare(Kind::Ready, Formats::OURS.highest.into());
    let mine = introduction(&["mem://unbound"]);
    let cases: Vec<(&str, Vec<Vec<u8>>)> = vec![
        ("cut", vec![hello.clone(), cut]),
        ("a message first", vec![hello.clone(), unexpected(1, b"x")]),
        ("ready first", vec![hello.clone(), ready.clone()]),
        ("twice", vec![hello.clone(), mine.clone(), mine.clone()]),
        (
            "does not wait",
            vec![hello.clone(), mine.clone(), unexpected(1, b"x")],
        ),
        (
            "ready twice",
            vec![hello.clone(), mine.clone(), ready.clone(), ready.clone()],
        ),
        (
            "another format",
            vec![hello.clone(), mine.clone(), bare(Kind::Ready, 1)],
        ),
        ("stays unasked", vec![silent.clone(), bare(Kind::Stay, 0)]),
        ("again when up", vec![silent.clone(), mine.clone()]),
        (
            "agrees unasked",
            vec![silent.clone(), bare(Kind::Leave, wire::AGREES_TO_LEAVE)],
        ),
        (
            "of format 1",
            vec![bare(Kind::Hello, wire::HELLO_WORD), bare(Kind::Leave, 0)],
        ),
    ];
    for (what, packets) in cases {
        let mut raw = RawPeer::new(name);
        for packet in packets {
            raw.send(&packet);
            idle(&mut [&mut node]);
        }
        raw.poll();
        assert!(raw.received.downs > 0, "{what}");
    }
    // Invalid addresses, and those of other processes, name no peer.
    let odd = introduction(&[
        "mem",
        "tcp://127.0.0.1:7",
        "mem://pairs-hostile",
        "shm:///tmp/x",
    ]);
    let mut raw = RawPeer::new(name);
    for packet in [hello, odd, ready, unexpected(1, b"x")] {
        raw.send(&packet);
        idle(&mut [&mut node]);
    }
    node.collect_unexpected();
    let from = node.unexpected.pop().unwrap().from;
    let named = node.bmi.reverse_lookup(from).unwrap();
    assert!(named.starts_with("mem://caller-"), "{named}");
    node.bmi.release(from);
    drop(raw);
    idle(&mut [&mut node]);
    assert_eq!(node.bmi.doing(), Info::default());
}

/// What builds of format 1 sent and expected: they refuse a first packet of another length or with another word, and
/// look at nothing else in it but the credit.
#[test]
fn a_peer_of_format_1_is_understood() {
    const GREETING: &[u8; 16] = b"\x01\0\0\0\0\x80\0\0CWBM\x01\0\0\0";
    let mut node = node("pairs-old");
    let mut raw = RawPeer::new("pairs-old");
    raw.send(GREETING);
    // The sender needs credit first.
    idle(&mut [&mut node]);
    raw.send(&unexpected(3, b"old"));
    drive(&mut [&mut node], |nodes| {
        nodes[0].collect_unexpected();
        !nodes[0].unexpected.is_empty()
    });
    let message = node.unexpected.pop().unwrap();
    assert_eq!((message.tag, &message.data[..]), (3, &b"old"[..]));
    node.send(message.from, &[memory(1, 20)], 4, 1);
    idle(&mut [&mut node]);
    raw.poll();
    let [greeting, reply] = &raw.received.packets[..] else {
        panic!("{:?}", raw.received.packets);
    };
    assert_eq!(greeting.len(), GREETING.len());
    assert_eq!((greeting[0], &greeting[8..]), (GREETING[0], &GREETING[8..]));
    assert_eq!(reply[..1], [2]);
    assert_eq!(reply[16..], bytes(1, 20));
}

/// What a build that spoke formats 1 to 2 sent as a caller that can be called, or one of formats 1 to 3, byte by byte; and the same
/// with formats that no build speaks yet.
#[test]
fn peers_of_formats_2_and_3_and_of_later_ones_are_understood() {
    for (lowest, highest, format) in [(1, 2, 2), (2, 2, 2), (1, 3, 3), (3, 3, 3), (3, 9, 3)] {
        let name = format!("pairs-of-{lowest}-{highest}");
        let mut node = node(&name);
        let mut raw = RawPeer::new(&name);
        let stated = match highest {
            only if only == lowest => 0,
            highest => highest,
        };
        raw.send(&[
            1, 0, stated, 1, 0, 0x80, 0, 0, b'C', b'W', b'B', b'M', lowest, 0, 0, 0,
        ]);
        idle(&mut [&mut node]);
        // An instance with the number 5 and the address mem://x.
        raw.send(
            b"\x0e\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x07\0mem://x",
        );
        idle(&mut [&mut node]);
        raw.send(&[15, 0, 0, 0, 0, 0, 0, 0, format, 0, 0, 0, 0, 0, 0, 0]);
        raw.send(b"\x03\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0old");
        drive(&mut [&mut node], |nodes| {
            nodes[0].collect_unexpected();
            !nodes[0].unexpected.is_empty()
        });
        let message = node.unexpected.pop().unwrap();
        assert_eq!((message.tag, &message.data[..]), (8, &b"old"[..]));
        node.send(message.from, &[memory(1, 20)], 4, 1);
        idle(&mut [&mut node]);
        raw.poll();
        let [greeting, introduction, reply] = &raw.received.packets[..] else {
            panic!("{lowest} to {highest}: {:?}", raw.received.packets);
        };
        assert_eq!((greeting.len(), &greeting[..4]), (16, &[1, 0, 3, 1][..]));
        assert_eq!(greeting[8..], *b"CWBM\x01\0\0\0");
        assert_eq!((introduction[0], introduction[8]), (14, 1));
        assert_eq!(introduction[34..], *node.bmi.listening()[0].as_bytes());
        assert_eq!(reply[..2], [2, 0]);
        assert_eq!(reply[8..16], [4, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(reply[16..], bytes(1, 20));
    }
}

/// No format, a highest below the lowest, and a greeting of another protocol.
#[test]
fn greetings_that_state_no_formats_end_the_connection() {
    for greeting in [
        b"\x01\0\0\0\0\x80\0\0CWBM\0\0\0\0",
        b"\x01\0\x02\0\0\x80\0\0CWBM\x03\0\0\0",
        b"\x01\0\x03\x02\0\x80\0\0CWBM\x01\0\0\0",
        b"\x01\0\x03\0\0\x80\0\0CWBX\x01\0\0\0",
    ] {
        let mut node = node("pairs-nonsense");
        let mut raw = RawPeer::new("pairs-nonsense");
        raw.send(greeting);
        idle(&mut [&mut node]);
        raw.poll();
        assert!(raw.received.downs > 0, "{greeting:?}");
        assert_eq!(node.bmi.doing(), Info::default());
    }
}

fn speaks(node: &mut Node, lowest: u8, highest: u8) {
    node.bmi.conversations.shared.own.formats = Formats { lowest, highest };
}

#[test]
fn with_format_1_each_has_a_connection_of_its_own() {
    for medium in MEDIA {
        let (mut a, mut b, to_b, to_a) = unconnected(medium, "pairs-format-1");
        speaks(&mut b, 1, 1);
        for (node, to) in [(&mut a, to_b), (&mut b, to_a)] {
            node.send_unexpected(to, &memory(1, 30), TAG, 1);
        }
        drive(&mut [&mut a, &mut b], |nodes| {
            nodes.iter_mut().for_each(|node| node.collect_unexpected());
            nodes.iter().all(|node| !node.unexpected.is_empty())
        });
        assert_eq!((links(&a), links(&b)), (2, 2), "{medium:?}");
        assert_ne!(a.unexpected[0].from, to_b);
        assert_ne!(b.unexpected[0].from, to_a);
        a.bmi.release(to_b);
        assert_eq!(links(&a), 1, "{medium:?}: at once");
    }
}

#[test]
fn without_a_common_format_both_sides_name_both_ranges() {
    for medium in MEDIA {
        for (theirs, text) in [((4, 9), "formats 4 to 9"), ((4, 4), "format 4")] {
            let (mut a, mut b, to_b, to_a) = unconnected(medium, "pairs-formats");
            speaks(&mut b, theirs.0, theirs.1);
            for first in [true, false] {
                let (caller, called, to) = match first {
                    true => (&mut a, &mut b, to_b),
                    false => (&mut b, &mut a, to_a),
                };
                caller.send(to, &[memory(1, 30)], TAG, 1);
                drive(&mut [&mut *caller, &mut *called], |nodes| {
                    nodes[0].result(1).is_some()
                });
                let error = caller.result(1).unwrap().as_ref().unwrap_err().to_string();
                assert!(error.contains("formats 1 to 3"), "{medium:?}: {error}");
                assert!(error.contains(text), "{medium:?}: {error}");
                assert!(error.contains("run builds"), "{medium:?}: {error}");
            }
        }
    }
}
