//! Receives that are offered to their sender before it sends: writes, crossing messages, cancelling, invalid offers.

use causeway_transport::Transfer;
use causeway_wire::bmi::{self as wire, Body, Header, Kind, Offer, Refusal};
use causeway_wire::formats::Formats;

use super::raw_peer::RawPeer;
use super::*;
use crate::operation::State;

const LARGE: usize = 1 << 20;
const TAG: Tag = 5;

fn slow_pair(name: &str) -> (Node, Node, Addr, Addr) {
    let options = Options {
        max_piece: 4096,
        ..Options::default()
    };
    both_away(pair(name, Config::default(), options))
}

/// Has both nodes offer their receives, as nodes do that rarely poll when messages arrive.
fn both_away((mut a, mut b, to, from): (Node, Node, Addr, Addr)) -> (Node, Node, Addr, Addr) {
    assume_busy(&mut a);
    assume_busy(&mut b);
    (a, b, to, from)
}

/// Whether a receive is offered, and its memory open to the sender.
fn is_offered(node: &Node, op: OpId) -> bool {
    let entry = node.bmi.conversations.shared.ops.get(op.0 as u32);
    entry.is_some_and(|op| op.offered && !op.exports.is_empty())
}

/// Offers of a peer's that this node can use.
fn kept(node: &Node, peer: Addr) -> usize {
    let peer = node.bmi.number(peer).unwrap();
    node.bmi.conversations.peers[peer].kept_offers()
}

fn is_in(node: &Node, op: OpId, is: impl Fn(&State) -> bool) -> bool {
    let entry = node.bmi.conversations.shared.ops.get(op.0 as u32);
    entry.is_some_and(|op| is(&op.state))
}

/// Has a node offer its receives, as a node does that rarely polls when messages arrive.
fn assume_busy(node: &mut Node) {
    node.bmi.conversations.shared.tuning.offers = true;
    node.bmi.conversations.shared.watch.assume_busy();
}

/// Posts a receive at `b`, and lets it be offered to `a`.
fn offer(a: &mut Node, b: &mut Node, from: Addr, into: &Memory, tag: Tag, user: u64) -> OpId {
    assume_busy(b);
    let op = b.recv(from, std::slice::from_ref(into), tag, user);
    drive(&mut [a, b], |nodes| is_offered(nodes[1], op));
    idle(&mut [a, b]);
    op
}

/// Everything is over, the memory is free, and the pair still works.
fn still_works(a: &mut Node, b: &mut Node, to: Addr, from: Addr) {
    let into = Memory::zeroed(LARGE);
    b.recv(from, std::slice::from_ref(&into), 99, 990);
    a.send(to, &[memory(9, LARGE)], 99, 991);
    drive(&mut [a, b], |nodes| {
        nodes[0].result(991).is_some() && nodes[1].result(990).is_some()
    });
    assert_eq!(b.result(990), Some(&Ok(LARGE as u64)));
    assert_eq!(into.to_vec(), bytes(9, LARGE));
    for node in [a, b] {
        let info = node.bmi.get_info(None);
        let left = (info.operations, info.transfers, info.early_bytes);
        assert_eq!(left, (0, 0, 0));
    }
}

#[test]
fn a_message_is_written_into_the_receive_that_was_posted_first() {
    for medium in [Medium::Mem, Medium::Shm] {
        let (mut a, mut b, to, from) =
            both_away(pair_over(medium, "offers-written", Config::default()));
        let mut user = 0;
        for (room, size) in [
            (70_000, 70_000),
            (LARGE, 70_000),
            (LARGE, LARGE),
            (LARGE, LARGE - 1),
        ] {
            for cuts in [1, 3] {
                user += 1;
                let into = Memory::from_vec(vec![0xee; room]);
                offer(&mut a, &mut b, from, &into, TAG, user);
                assert_eq!(kept(&a, to), 1, "{medium:?}");
                let parts: Vec<Memory> = (bytes(1, size).chunks(size.div_ceil(cuts)))
                    .map(|part| Memory::from_vec(part.to_vec()))
                    .collect();
                a.send(to, &parts, TAG, user);
                assert_eq!(kept(&a, to), 0, "{medium:?}");
                // Nothing is announced: the send completes without a packet of the receiver's.
                let start = Instant::now();
                while a.result(user).is_none() {
                    a.step();
                    if medium == Medium::Shm {
                        b.step();
                    }
                    assert!(start.elapsed() < Duration::from_secs(60));
                }
                drive(&mut [&mut a, &mut b], |nodes| {
                    nodes[1].result(user).is_some()
                });
                for node in [&a, &b] {
                    assert_eq!(node.result(user), Some(&Ok(size as u64)), "{medium:?}");
                }
                let got = into.to_vec();
                assert_eq!(got[..size], bytes(1, size), "{medium:?}");
                assert!(got[size..].iter().all(|byte| *byte == 0xee));
                assert_eq!(into.sharers(), 1);
            }
        }
        still_works(&mut a, &mut b, to, from);
    }
}

#[test]
fn synchronous_and_queued_messages_are_written_as_well() {
    let (mut a, mut b, to, from) = slow_pair("offers-queued");
    let into: Vec<Memory> = (0..3).map(|_| Memory::zeroed(LARGE)).collect();
    for (user, into) in into.iter().enumerate() {
        offer(&mut a, &mut b, from, into, TAG + user as u64, user as u64);
    }
    assert_eq!(kept(&a, to), 3);
    // The second and third stand behind the first while that is being written.
    for user in 0..3 {
        a.send(to, &[memory(user, LARGE)], TAG + user as u64, user as u64);
    }
    assert_eq!(kept(&a, to), 2);
    drive(&mut [&mut a, &mut b], |nodes| {
        (0..3).all(|user| nodes[1].result(user).is_some())
    });
    assert_eq!(kept(&a, to), 0);
    for (user, into) in into.iter().enumerate() {
        assert_eq!(into.to_vec(), bytes(user, LARGE));
    }
    // A short synchronous message, which completes only when its receive has matched.
    let short = Memory::zeroed(LARGE);
    offer(&mut a, &mut b, from, &short, TAG, 10);
    let posted = a
        .bmi
        .post_synchronous_send(to, &[memory(3, 10)], TAG, a.context, 10);
    a.note(posted);
    drive(&mut [&mut a, &mut b], |nodes| nodes[1].result(10).is_some());
    assert_eq!(b.result(10), Some(&Ok(10)));
    assert_eq!(short.slice(0..10).to_vec(), bytes(3, 10));
    still_works(&mut a, &mut b, to, from);
}

#[test]
fn only_writable_memory_is_offered() {
    let (mut a, mut b, to, from) = slow_pair("offers-which");
    let pieces = [Memory::zeroed(LARGE), Memory::zeroed(LARGE)];
    let receives = [
        b.recv(from, &[Memory::zeroed(100)], 1, 1),
        b.recv(from, &pieces, 2, 2),
        b.recv(from, &[Memory::zeroed(LARGE)], 3, 3),
        b.recv(from, &[Memory::zeroed(LARGE)], 3, 4),
    ];
    idle(&mut [&mut a, &mut b]);
    // Too small, several fragments, the first of its tag, the second of its tag.
    let offered = receives.map(|op| is_offered(&b, op));
    assert_eq!(offered, [false, false, true, false]);
    assert_eq!(kept(&a, to), 1);
    // No more than a few.
    for tag in 10..30 {
        b.recv(from, &[Memory::zeroed(LARGE)], tag, tag);
        idle(&mut [&mut a, &mut b]);
    }
    assert_eq!(kept(&a, to), wire::MAX_OFFERED);
    for op in receives {
        b.bmi.cancel(op);
    }
    drive(&mut [&mut a, &mut b], |nodes| {
        (1..=4).all(|user| nodes[1].result(user).is_some())
    });
    assert_eq!(kept(&a, to), wire::MAX_OFFERED - 1);
}

#[test]
fn peers_that_pull_and_peers_without_offers_get_none() {
    let (mut a, mut b, to, from) = slow_pair("offers-pull");
    let pull = InfoOption::Rendezvous(RendezvousPolicy::Pull);
    b.bmi.set_info(None, pull).unwrap();
    let op = b.recv(from, &[Memory::zeroed(LARGE)], 1, 1);
    idle(&mut [&mut a, &mut b]);
    assert!(!is_offered(&b, op) && kept(&a, to) == 0);
    // A sender that has its messages read does not use an offer.
    let into = Memory::zeroed(LARGE);
    a.recv(to, std::slice::from_ref(&into), 2, 2);
    idle(&mut [&mut a, &mut b]);
    assert_eq!(kept(&b, from), 1);
    let send = b.send(from, &[memory(2, LARGE)], 2, 2);
    assert!(is_in(&b, send, |state| matches!(state, State::Announced)));
    drive(&mut [&mut a, &mut b], |nodes| nodes[0].result(2).is_some());
    assert_eq!(into.to_vec(), bytes(2, LARGE));

    let mut a = node("offers-format-client");
    let mut b = node("offers-format-server");
    b.bmi.conversations.shared.own.formats = Formats {
        lowest: 1,
        highest: 2,
    };
    let to = a.bmi.lookup("mem://offers-format-server").unwrap();
    let from = meet(&mut a, &mut b, to);
    assume_busy(&mut b);
    let op = b.recv(from, &[Memory::zeroed(LARGE)], 1, 1);
    idle(&mut [&mut a, &mut b]);
    assert!(!is_offered(&b, op) && kept(&a, to) == 0);
    still_works_with_receive(&mut a, &mut b, to, from);
}

/// Likewise, with a receive that is left.
fn still_works_with_receive(a: &mut Node, b: &mut Node, to: Addr, from: Addr) {
    a.send(to, &[memory(1, LARGE)], 1, 1);
    drive(&mut [a, b], |nodes| nodes[1].result(1).is_some());
    assert_eq!(b.result(1), Some(&Ok(LARGE as u64)));
    still_works(a, b, to, from);
}

#[test]
fn a_message_that_crosses_the_offer_is_matched_as_usual() {
    for size in [10, LARGE] {
        let (mut a, mut b, to, from) = slow_pair("offers-cross");
        let into = Memory::zeroed(LARGE);
        let op = b.recv(from, std::slice::from_ref(&into), TAG, 1);
        while !is_offered(&b, op) {
            b.step();
        }
        // The offer is on its way.
        a.send(to, &[memory(1, size)], TAG, 1);
        let second = Memory::zeroed(LARGE);
        b.recv(from, std::slice::from_ref(&second), TAG, 2);
        drive(&mut [&mut a, &mut b], |nodes| nodes[1].result(1).is_some());
        assert_eq!(b.result(1), Some(&Ok(size as u64)));
        assert_eq!(into.slice(0..size).to_vec(), bytes(1, size));
        assert_eq!((kept(&a, to), into.sharers()), (0, 1));
        // The next message goes into the next receive.
        a.send(to, &[memory(2, LARGE)], TAG, 2);
        drive(&mut [&mut a, &mut b], |nodes| nodes[1].result(2).is_some());
        assert_eq!(second.to_vec(), bytes(2, LARGE));
        assert_eq!(into.slice(0..size).to_vec(), bytes(1, size));
        still_works(&mut a, &mut b, to, from);
    }
}

#[test]
fn messages_that_do_not_fit_or_are_short_travel_as_usual() {
    let (mut a, mut b, to, from) = slow_pair("offers-odd");
    let into = Memory::zeroed(100_000);
    offer(&mut a, &mut b, from, &into, TAG, 1);
    a.send(to, &[memory(1, 100_001)], TAG, 1);
    drive(&mut [&mut a, &mut b], |nodes| {
        nodes.iter().all(|node| node.result(1).is_some())
    });
    let too_large = Err(OpError::TooLarge {
        size: 100_001,
        room: 100_000,
    });
    assert_eq!(a.result(1), Some(&too_large));
    assert_eq!(b.result(1), Some(&too_large));
    assert_eq!((into.to_vec(), into.sharers()), (vec![0; 100_000], 1));

    // One receive was in vain: the next is offered, the one behind the next failure is not.
    offer(&mut a, &mut b, from, &into, TAG, 2);
    a.send(to, &[memory(2, 50)], TAG, 2);
    a.send(to, &[Memory::zeroed(0)], TAG + 1, 3);
    drive(&mut [&mut a, &mut b], |nodes| nodes[1].result(2).is_some());
    assert_eq!(b.result(2), Some(&Ok(50)));
    assert_eq!(into.slice(0..50).to_vec(), bytes(2, 50));
    b.recv(from, &[Memory::zeroed(0)], TAG + 1, 3);
    idle(&mut [&mut a, &mut b]);
    assert_eq!((kept(&a, to), into.sharers()), (0, 1));
    still_works(&mut a, &mut b, to, from);
}

#[test]
fn nothing_overtakes_a_message_that_is_being_written() {
    let (mut a, mut b, to, from) = slow_pair("offers-order");
    let into = Memory::zeroed(LARGE);
    offer(&mut a, &mut b, from, &into, TAG, 1);
    a.send(to, &[memory(1, LARGE)], TAG, 1);
    a.step();
    let others = [Memory::zeroed(LARGE), Memory::zeroed(LARGE)];
    for (at, (other, size)) in others.iter().zip([10, LARGE]).enumerate() {
        let user = 2 + at as u64;
        b.recv(from, std::slice::from_ref(other), TAG, user);
        a.send(to, &[memory(2 + at, size)], TAG, user);
    }
    drive(&mut [&mut a, &mut b], |nodes| {
        (1..=3).all(|user| nodes[1].result(user).is_some())
    });
    let sizes = [1, 2, 3].map(|user| b.result(user).unwrap().clone().unwrap() as usize);
    assert_eq!(sizes, [LARGE, 10, LARGE]);
    assert_eq!(into.to_vec(), bytes(1, LARGE));
    assert_eq!(others[0].slice(0..10).to_vec(), bytes(2, 10));
    assert_eq!(others[1].to_vec(), bytes(3, LARGE));
    still_works(&mut a, &mut b, to, from);
}

#[test]
fn a_cancelled_receive_gets_its_message_or_leaves_it_to_the_next() {
    let (mut written, mut left) = (0, 0);
    for steps in 0..600 {
        let (mut a, mut b, to, from) = slow_pair(&format!("offers-cancel-{steps}"));
        let into = Memory::zeroed(LARGE);
        let op = offer(&mut a, &mut b, from, &into, TAG, 1);
        if steps > 0 {
            a.send(to, &[memory(1, LARGE)], TAG, 1);
        }
        for _ in 0..steps {
            a.step();
        }
        b.bmi.cancel(op);
        assert!(is_in(&b, op, |state| matches!(state, State::Retracting)));
        b.bmi.cancel(op);
        drive(&mut [&mut a, &mut b], |nodes| nodes[1].result(1).is_some());
        assert_eq!(into.sharers(), 1);
        match b.result(1).unwrap() {
            Ok(size) => {
                assert_eq!((*size, into.to_vec()), (LARGE as u64, bytes(1, LARGE)));
                written += 1;
            }
            Err(error) => {
                assert_eq!(*error, OpError::Cancelled);
                let next = Memory::zeroed(LARGE);
                b.recv(from, std::slice::from_ref(&next), TAG, 2);
                if steps == 0 {
                    a.send(to, &[memory(1, LARGE)], TAG, 1);
                }
                drive(&mut [&mut a, &mut b], |nodes| nodes[1].result(2).is_some());
                assert_eq!(next.to_vec(), bytes(1, LARGE));
                left += 1;
            }
        }
        still_works(&mut a, &mut b, to, from);
        if written > 3 {
            break;
        }
    }
    assert!(written > 3 && left > 0, "{written} {left}");
}

#[test]
fn memory_in_use_by_a_stopped_writer_is_not_returned() {
    static STOPPED: AtomicBool = AtomicBool::new(false);
    let options = Options {
        stopped: Some(&STOPPED),
        ..Options::default()
    };
    let (mut a, mut b, to, from) = both_away(pair("offers-held", Config::default(), options));
    let into = Memory::zeroed(LARGE);
    let op = offer(&mut a, &mut b, from, &into, TAG, 1);
    STOPPED.store(true, Ordering::Relaxed);
    b.bmi.cancel(op);
    let until = Instant::now() + Duration::from_millis(60);
    while Instant::now() < until {
        a.step();
        b.step();
    }
    assert_eq!(b.result(1), None, "the memory is not free");
    STOPPED.store(false, Ordering::Relaxed);
    drive(&mut [&mut a, &mut b], |nodes| nodes[1].result(1).is_some());
    assert_eq!(b.result(1), Some(&Err(OpError::Cancelled)));
    assert_eq!(into.sharers(), 1);
    still_works(&mut a, &mut b, to, from);
}

#[test]
fn a_cancelled_send_is_written_or_never_was() {
    for steps in [0, 1, 5, 100, 400] {
        let (mut a, mut b, to, from) = slow_pair(&format!("offers-send-{steps}"));
        let into = Memory::zeroed(LARGE);
        offer(&mut a, &mut b, from, &into, TAG, 1);
        let data = memory(1, LARGE);
        let op = a.send(to, std::slice::from_ref(&data), TAG, 1);
        for _ in 0..steps {
            a.step();
        }
        a.bmi.cancel(op);
        drive(&mut [&mut a, &mut b], |nodes| nodes[0].result(1).is_some());
        assert_eq!(data.sharers(), 1);
        if a.result(1).unwrap().is_err() {
            assert_eq!(a.result(1), Some(&Err(OpError::Cancelled)));
            a.send(to, &[memory(1, LARGE)], TAG, 2);
        }
        drive(&mut [&mut a, &mut b], |nodes| nodes[1].result(1).is_some());
        assert_eq!(b.result(1), Some(&Ok(LARGE as u64)), "{steps}");
        assert_eq!((into.to_vec(), into.sharers()), (bytes(1, LARGE), 1));
        still_works(&mut a, &mut b, to, from);
    }
}

#[test]
fn the_death_of_either_side_ends_both_operations() {
    for steps in [0, 1, 3, 50] {
        for receiver_dies in [false, true] {
            let name = format!("offers-death-{steps}-{receiver_dies}");
            let (mut a, mut b, to, from) = slow_pair(&name);
            let into = Memory::zeroed(LARGE);
            offer(&mut a, &mut b, from, &into, TAG, 1);
            let data = memory(1, LARGE);
            a.send(to, std::slice::from_ref(&data), TAG, 1);
            for _ in 0..steps {
                a.step();
            }
            let (dies, stays) = match receiver_dies {
                true => (&mut b, &mut a),
                false => (&mut a, &mut b),
            };
            dies.fault.as_ref().unwrap().kill();
            drive(&mut [stays], |nodes| nodes[0].result(1).is_some());
            let failed = matches!(stays.result(1), Some(Err(OpError::Peer { .. })));
            assert!(failed, "{name}: {:?}", stays.result(1));
            drop((a, b));
            assert_eq!((data.sharers(), into.sharers()), (1, 1));
        }
    }
}

/// Counts and offers belong to one connection.
#[test]
fn another_connection_begins_anew() {
    let (mut a, mut b, to, from) = slow_pair("offers-again");
    let into = Memory::zeroed(LARGE);
    for user in 0..3 {
        a.send(to, &[memory(0, 10)], TAG, 10 + user);
        b.recv(from, &[Memory::zeroed(10)], TAG, 10 + user);
    }
    offer(&mut a, &mut b, from, &into, TAG, 1);
    assert_eq!(kept(&a, to), 1);
    a.bmi.disconnect(to);
    drive(&mut [&mut a, &mut b], |nodes| nodes[1].result(1).is_some());
    assert_eq!((kept(&a, to), into.sharers()), (0, 1));
    b.bmi.release(from);
    let from = meet(&mut a, &mut b, to);
    offer(&mut a, &mut b, from, &into, TAG, 2);
    assert_eq!(kept(&a, to), 1);
    a.send(to, &[memory(4, LARGE)], TAG, 2);
    drive(&mut [&mut a, &mut b], |nodes| nodes[1].result(2).is_some());
    assert_eq!(into.to_vec(), bytes(4, LARGE));
    still_works(&mut a, &mut b, to, from);
}

/// Where messages are short, or the sender is ahead, fewer and fewer receives are offered; where offers are used, all are.
#[test]
fn offers_are_made_where_they_are_used() {
    let (mut a, mut b, to, from) = slow_pair("offers-adapt");
    let into = Memory::zeroed(20_000);
    let offers_for = |a: &mut Node, b: &mut Node, size: usize| {
        let mut offers = 0;
        for user in 0..400 {
            assume_busy(b);
            let op = b.recv(from, std::slice::from_ref(&into), TAG, user);
            b.step();
            offers += usize::from(is_offered(b, op));
            a.send(to, &[memory(1, size)], TAG, user);
            drive(&mut [a, b], |nodes| {
                nodes.iter().all(|node| node.result(user).is_some())
            });
            a.done.clear();
            b.done.clear();
        }
        offers
    };
    // The sender has not polled yet when it sends the first message.
    assert!(offers_for(&mut a, &mut b, 20_000) >= 390);
    let in_vain = offers_for(&mut a, &mut b, 50);
    assert!((1..=24).contains(&in_vain), "{in_vain}");
    // Once offers are used again, all receives are offered again.
    assert!((0..10).any(|_| offers_for(&mut a, &mut b, 20_000) >= 390));
}

/// A receive that is posted when its message has arrived, or together with it, is not offered.
#[test]
fn late_receives_are_not_offered() {
    let (mut a, mut b, to, from) = slow_pair("offers-late");
    let into = Memory::zeroed(LARGE);
    for user in 0..20 {
        a.send(to, &[memory(1, LARGE)], TAG, user);
        if user % 2 == 0 {
            b.step();
        }
        assume_busy(&mut b);
        b.recv(from, std::slice::from_ref(&into), TAG, user);
        drive(&mut [&mut a, &mut b], |nodes| {
            assert_eq!(kept(nodes[0], to), 0);
            nodes.iter().all(|node| node.result(user).is_some())
        });
    }
    let peer = b.bmi.number(from).unwrap();
    assert_eq!(b.bmi.conversations.peers[peer].offer_penalty(), 0);
}

impl RawPeer {
    /// Greets a node as a raw peer. Returns the peer's address there.
    fn greets(node: &mut Node, name: &str, formats: Formats) -> (Self, Addr) {
        assume_busy(node);
        let mut this = Self::new(name);
        this.greet(formats.hello(false));
        drive(&mut [node], |_| {
            this.poll();
            !this.received.packets.is_empty()
        });
        this.send(&Header::new(Kind::Unexpected, 1).encode());
        drive(&mut [node], |nodes| {
            nodes[0].collect_unexpected();
            !nodes[0].unexpected.is_empty()
        });
        (this, node.unexpected.pop().unwrap().from)
    }

    /// The offer of a node for a receive that it has posted.
    fn offer(&mut self, node: &mut Node) -> Offer {
        let mut found = None;
        drive(&mut [node], |_| {
            self.poll();
            found = self
                .received
                .bodies()
                .into_iter()
                .find_map(|body| match body {
                    Body::Offer(offer) => Some(offer),
                    _ => None,
                });
            found.is_some()
        });
        found.unwrap()
    }

    fn write(&mut self, node: &mut Node, offer: Offer, size: usize) {
        let transfer = Transfer {
            direction: Direction::Put,
            local: vec![memory(6, size)].into(),
            remote: vec![offer.region.part(0, size as u64)].into(),
            registrations: Vec::new(),
            notify: None,
            token: 1,
        };
        self.method.transfer(self.to, transfer).unwrap();
        for _ in 0..50 {
            self.poll();
            node.step();
        }
    }
}

#[test]
fn false_reports_about_offers_are_protocol_errors() {
    const ROOM: usize = 50_000;
    type Lie = fn(&mut RawPeer, &mut Node, Offer);
    let complete: fn(&mut RawPeer, u64, u64) = |raw, receive, size| {
        raw.send(&wire::send_complete(receive, size));
    };
    let lies: [(&str, Lie); 5] = [
        ("never offered", |raw, _, offer| {
            raw.send(&wire::send_complete(offer.receive + 1, 1));
        }),
        ("nothing there", |raw, _, _| {
            raw.send(&wire::send_complete(u64::MAX, 1));
        }),
        ("longer than offered", |raw, _, offer| {
            raw.send(&wire::send_complete(offer.receive, ROOM as u64 + 1));
        }),
        ("twice", |raw, node, offer| {
            raw.write(node, offer, ROOM);
            for _ in 0..2 {
                raw.send(&wire::send_complete(offer.receive, ROOM as u64));
            }
        }),
        ("after another message", |raw, node, offer| {
            let message = Header::new(Kind::Eager, TAG).encode();
            raw.send(&message);
            idle(&mut [node]);
            raw.send(&wire::send_complete(offer.receive, 1));
        }),
    ];
    for (what, lie) in lies {
        let name = format!("offers-lies-{}", what.replace(' ', "-"));
        let mut node = node(&name);
        let (mut raw, from) = RawPeer::greets(&mut node, &name, Formats::OURS);
        let into = Memory::zeroed(ROOM);
        node.recv(from, std::slice::from_ref(&into), TAG, 1);
        // It waits for the same peer, and is not offered: it is the second of its tag.
        let other = node.recv(from, std::slice::from_ref(&into), TAG, 2);
        let offer = raw.offer(&mut node);
        assert_ne!(other.0, offer.receive);
        lie(&mut raw, &mut node, offer);
        drive(&mut [&mut node], |_| {
            raw.poll();
            raw.received.downs > 0
        });
        let first = node.result(1).unwrap();
        let expected = match what {
            "twice" => matches!(first, Ok(size) if *size == ROOM as u64),
            "after another message" => *first == Ok(0),
            _ => matches!(first, Err(OpError::Peer { .. })),
        };
        assert!(expected, "{what}: {first:?}");
        assert!(matches!(node.result(2), Some(Err(OpError::Peer { .. }))));
        assert_eq!(into.sharers(), 1, "{what}");
    }
    // A correct report is accepted.
    let mut node = node("offers-truth");
    let (mut raw, from) = RawPeer::greets(&mut node, "offers-truth", Formats::OURS);
    let into = Memory::zeroed(ROOM);
    node.recv(from, std::slice::from_ref(&into), TAG, 1);
    let offer = raw.offer(&mut node);
    raw.write(&mut node, offer, 10_000);
    complete(&mut raw, offer.receive, 10_000);
    drive(&mut [&mut node], |nodes| nodes[0].result(1).is_some());
    assert_eq!(node.result(1), Some(&Ok(10_000)));
    assert_eq!(into.slice(0..10_000).to_vec(), bytes(6, 10_000));
    // The memory is not exported any more.
    raw.write(&mut node, offer, 20);
    assert_eq!(into.slice(0..20).to_vec(), bytes(6, 10_000)[..20]);
}

#[test]
fn invalid_packets_about_offers_are_protocol_errors() {
    let offer = |receive| {
        let offer = Offer {
            receive,
            seen: 0,
            region: causeway_wire::region::RegionDescriptor {
                key: receive,
                base: 0,
                len: 1 << 20,
                object: None,
            },
        };
        wire::encode_offer(
            Header::new(Kind::ReadyToReceive, receive),
            &offer,
            Vec::new(),
        )
    };
    let two = Formats {
        lowest: 1,
        highest: 2,
    };
    let header = |kind| Header::new(kind, 1).encode().to_vec();
    let cases: [(&str, Formats, Vec<Vec<u8>>, bool); 6] = [
        ("few", Formats::OURS, (0..4).map(offer).collect(), false),
        ("many", Formats::OURS, (0..5).map(offer).collect(), true),
        ("old", two, vec![offer(1)], true),
        (
            "old-complete",
            two,
            vec![wire::send_complete(1, 1).to_vec()],
            true,
        ),
        ("old-retract", two, vec![header(Kind::Retract)], true),
        (
            "cut",
            Formats::OURS,
            vec![header(Kind::ReadyToReceive)],
            true,
        ),
    ];
    for (what, formats, packets, is_dropped) in cases {
        let name = format!("offers-nonsense-{what}");
        let mut node = node(&name);
        let (mut raw, _) = RawPeer::greets(&mut node, &name, formats);
        for packet in packets {
            raw.send(&packet);
        }
        idle(&mut [&mut node]);
        raw.poll();
        assert_eq!(raw.received.downs > 0, is_dropped, "{what}");
    }
}

/// A withdrawn offer is not used, and the withdrawal is confirmed.
#[test]
fn a_withdrawn_offer_is_not_used() {
    let mut node = node("offers-retract");
    let (mut raw, from) = RawPeer::greets(&mut node, "offers-retract", Formats::OURS);
    let memory_there = Memory::zeroed(LARGE);
    let region = raw
        .method
        .grant(
            raw.to,
            &memory_there,
            causeway_transport::Registration::NONE,
            Access::Write,
        )
        .unwrap();
    let offer = Offer {
        receive: 77,
        seen: 0,
        region,
    };
    let packet = wire::encode_offer(Header::new(Kind::ReadyToReceive, TAG), &offer, Vec::new());
    raw.send(&packet);
    idle(&mut [&mut node]);
    assert_eq!(kept(&node, from), 1);
    for receive in [77, 78] {
        raw.send(&Header::new(Kind::Retract, receive).encode());
    }
    idle(&mut [&mut node]);
    assert_eq!(kept(&node, from), 0);
    node.send(from, &[memory(1, LARGE)], TAG, 1);
    idle(&mut [&mut node]);
    raw.poll();
    let said = raw.received.packets.iter();
    let said: Vec<_> = said
        .filter_map(|packet| wire::decode(packet).ok())
        .collect();
    let refused = said.iter().filter(|(header, body)| {
        [77, 78].contains(&header.word) && *body == Body::Refusal(Refusal::Cancelled)
    });
    assert_eq!(refused.count(), 2);
    assert!(said.iter().any(|(header, _)| header.kind == Kind::Announce));
    assert_eq!(memory_there.to_vec(), vec![0; LARGE]);
}
