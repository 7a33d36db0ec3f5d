//! Messages whose memory is in pieces: every kind of memory on either side, over every method; peers that send other parts than
//! were requested.

use causeway_sys::blocks::{Source, Target, copy_one};
use causeway_wire::bmi::{
    self as wire, Announcement, Body, Clearance, FLAG_IN_PARTS, Header, Kind,
};
use causeway_wire::formats::Formats;
use causeway_wire::region::Regions;

use super::raw_peer::{greets, sent_by};
use super::*;
use crate::Pieces;

const TAG: Tag = 5;

/// Every second byte of some memory.
#[derive(Debug)]
struct Alternate(Memory);

impl Pieces for Alternate {
    fn pack(&self, position: u64, mut into: Target<'_>) {
        for at in 0..into.len() {
            let from = 2 * (position as usize + at);
            copy_one(&mut into, at, Source::from(&self.0), from, 1);
        }
    }

    fn unpack(&self, position: u64, from: Source<'_>) {
        for at in 0..from.len() {
            let to = 2 * (position as usize + at);
            copy_one(&mut Target::from(&self.0), to, from, at, 1);
        }
    }
}

fn alternate(memory: &Memory) -> (Box<dyn Pieces>, u64) {
    let bytes = memory.len() as u64 / 2;
    (Box::new(Alternate(memory.clone())), bytes)
}

fn every_second(memory: &Memory) -> Vec<u8> {
    memory.to_vec().into_iter().step_by(2).collect()
}

fn in_parts() -> Config {
    Config {
        in_parts: true,
        ..Config::default()
    }
}

impl Node {
    fn send_pieces(&mut self, to: Addr, memory: &Memory, user: u64) {
        let posted = self
            .bmi
            .post_send_pieces(to, alternate(memory), TAG, self.context, user);
        self.note(posted);
    }

    fn recv_pieces(&mut self, from: Addr, memory: &Memory, user: u64) -> OpId {
        let peer = self.bmi.number(from).unwrap();
        let (pattern, room) = (FromTag { peer, tag: TAG }, alternate(memory));
        let posted = self
            .bmi
            .post_receive_pieces(pattern, room, self.context, user);
        self.note(posted)
    }
}

#[test]
fn either_side_may_be_in_pieces() {
    for medium in MEDIA {
        let (mut a, mut b, to_b, from_a) = pair_over(medium, "pieces", in_parts());
        let mut user = 0;
        for size in [0, 1, 100, 5000, 60_000, 1_000_000] {
            for (sends, receives, is_early) in [
                (true, true, false),
                (true, false, true),
                (false, true, false),
                (false, true, true),
            ] {
                user += 1;
                let (from, plain) = (memory(user as usize, 2 * size), memory(3, size));
                let (into, flat) = (Memory::zeroed(2 * size), Memory::zeroed(size));
                let receive = |b: &mut Node| match receives {
                    true => b.recv_pieces(from_a, &into, user),
                    false => b.recv(from_a, std::slice::from_ref(&flat), TAG, user),
                };
                if !is_early {
                    receive(&mut b);
                }
                match sends {
                    true => a.send_pieces(to_b, &from, user),
                    false => drop(a.send(to_b, std::slice::from_ref(&plain), TAG, user)),
                }
                if is_early {
                    idle(&mut [&mut a, &mut b]);
                    receive(&mut b);
                }
                drive(&mut [&mut a, &mut b], |nodes| {
                    nodes.iter().all(|node| node.result(user).is_some())
                });
                for node in [&a, &b] {
                    assert_eq!(node.result(user), Some(&Ok(size as u64)), "{medium:?}");
                }
                let sent = if sends {
                    every_second(&from)
                } else {
                    plain.to_vec()
                };
                let got = if receives {
                    every_second(&into)
                } else {
                    flat.to_vec()
                };
                assert!(sent == got, "{medium:?}, {size} bytes");
                let between = into.to_vec().into_iter().skip(1).step_by(2);
                assert!(between.into_iter().all(|byte| byte == 0));
            }
        }
    }
}

/// Neither a message that is larger than its receive, nor one that is cancelled before its receive comes, moves anything.
#[test]
fn too_large_and_cancelled_messages_in_pieces_end() {
    let (mut a, mut b, to_b, from_a) = pair("pieces-ends", in_parts(), Options::default());
    let (from, into) = (memory(1, 400_000), Memory::zeroed(2000));
    a.send_pieces(to_b, &from, 1);
    b.recv_pieces(from_a, &into, 1);
    drive(&mut [&mut a, &mut b], |nodes| {
        nodes.iter().all(|node| node.result(1).is_some())
    });
    for node in [&a, &b] {
        let too_large = OpError::TooLarge {
            size: 200_000,
            room: 1000,
        };
        assert_eq!(node.result(1), Some(&Err(too_large)));
    }
    let posted = (a.bmi).post_send_pieces(to_b, alternate(&from), TAG, a.context, 2);
    let op = a.note(posted);
    idle(&mut [&mut a, &mut b]);
    a.bmi.cancel(op);
    idle(&mut [&mut a, &mut b]);
    let op = b.recv_pieces(from_a, &into, 2);
    idle(&mut [&mut a, &mut b]);
    b.bmi.cancel(op);
    drive(&mut [&mut a, &mut b], |nodes| {
        nodes.iter().all(|node| node.result(2).is_some())
    });
    for node in [&a, &b] {
        assert_eq!(node.result(2), Some(&Err(OpError::Cancelled)));
    }
    assert_eq!(into.to_vec(), vec![0; 2000]);
    assert_eq!((a.bmi.doing().operations, b.bmi.doing().operations), (0, 0));
}

fn announced(size: u64, flags: u8) -> Vec<u8> {
    let mut header = Header::new(Kind::Announce, TAG);
    header.flags = flags;
    let announcement = Announcement {
        send: 7,
        size,
        load: 0,
        regions: Regions::new(),
    };
    wire::encode_announcement(header, &announcement, Vec::new())
}

fn part(receive: u64, len: usize) -> Vec<u8> {
    let mut packet = Header::new(Kind::Part, receive).encode().to_vec();
    packet.resize(packet.len() + len, 0x11);
    packet
}

#[test]
fn parts_that_were_not_requested_end_the_connection() {
    const SIZE: u64 = 1000;
    // Lengths of parts, and whether they are a message of that size.
    let cases: [(&[usize], bool); 5] = [
        (&[1000], true),
        (&[1, 998, 1], true),
        (&[1001], false),
        (&[0], false),
        (&[600, 401], false),
    ];
    for (number, (lens, is_right)) in cases.into_iter().enumerate() {
        let name = format!("pieces-nonsense-{number}");
        let mut node = node_with(&name, in_parts(), Options::default());
        let (mut raw, from) = greets(&mut node, &name, Formats::IN_PARTS);
        let into = Memory::zeroed(2 * SIZE as usize);
        node.recv_pieces(from, &into, 1);
        raw.send(&announced(SIZE, FLAG_IN_PARTS));
        let mut cleared = None;
        drive(&mut [&mut node], |_| {
            raw.poll();
            let bodies = raw.received.bodies().into_iter();
            cleared = bodies.rev().find_map(|body| match body {
                Body::Clearance(clearance) => Some(clearance),
                _ => None,
            });
            cleared.is_some()
        });
        let cleared = cleared.unwrap();
        assert_eq!((cleared.offset, cleared.len), (0, SIZE));
        assert!(cleared.regions.is_empty());
        for len in lens {
            raw.send(&part(cleared.receive, *len));
        }
        drive(&mut [&mut node], |nodes| nodes[0].result(1).is_some());
        idle(&mut [&mut node]);
        raw.poll();
        assert_eq!(node.result(1).unwrap().is_ok(), is_right, "{lens:?}");
        assert_eq!(raw.received.downs > 0, !is_right, "{lens:?}");
    }
}

fn clears(send: u64, len: u64) -> Vec<u8> {
    let clearance = Clearance {
        receive: 1,
        offset: 0,
        len,
        regions: Regions::new(),
    };
    wire::encode_clearance(Header::new(Kind::ClearToSend, send), &clearance, Vec::new())
}

#[test]
fn parts_begin_where_no_word_is_divided() {
    const NAME: &str = "pieces-words";
    for size in [200_001, 1_000_003] {
        let mut node = node_with(NAME, in_parts(), Options::default());
        let (mut raw, from) = greets(&mut node, NAME, Formats::IN_PARTS);
        node.send_pieces(from, &memory(1, 2 * size), 1);
        let send = sent_by(&mut node, &mut raw);
        raw.send(&clears(send, size as u64));
        let mut lens = Vec::new();
        drive(&mut [&mut node], |_| {
            raw.poll();
            let packets = raw.received.packets.iter();
            let parts = packets.filter(|packet| {
                wire::decode(packet).is_ok_and(|(header, _)| header.kind == Kind::Part)
            });
            lens = parts.map(|part| part.len() - wire::HEADER_BYTES).collect();
            lens.iter().sum::<usize>() >= size
        });
        assert_eq!(lens.iter().sum::<usize>(), size);
        assert!(lens.len() > 2, "{lens:?}");
        let (_, others) = lens.split_last().unwrap();
        assert!(others.iter().all(|len| len.is_multiple_of(64)), "{lens:?}");
    }
}

#[test]
fn other_invalid_parts_end_the_connection() {
    // A message in parts, which the format of the connection does not have; a clearance of a part of a message.
    for (what, config, formats) in [
        ("old", Config::default(), Formats::OURS),
        ("half", in_parts(), Formats::IN_PARTS),
        ("all", in_parts(), Formats::IN_PARTS),
    ] {
        let name = format!("pieces-odd-{what}");
        let mut node = node_with(&name, config, Options::default());
        let (mut raw, from) = greets(&mut node, &name, formats);
        if what == "old" {
            raw.send(&announced(1000, FLAG_IN_PARTS));
        } else {
            node.send_pieces(from, &memory(1, 2000), 1);
            let send = sent_by(&mut node, &mut raw);
            let len = if what == "half" { 500 } else { 1000 };
            raw.send(&clears(send, len));
        }
        idle(&mut [&mut node]);
        raw.poll();
        assert_eq!(raw.received.downs > 0, what != "all", "{what}");
    }
}
