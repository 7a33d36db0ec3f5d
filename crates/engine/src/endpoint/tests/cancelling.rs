//! Cancelling in each state. Whatever the peer does, memory that a completed operation used is not
//! touched any more.

use causeway_transport::{Access, Registration};
use causeway_wire::bmi::{self as wire, Announcement, Clearance, Header, Kind, Refusal};
use causeway_wire::formats::Formats;

use super::raw_peer::{RawPeer, greets, sent_by};
use super::*;

const LARGE: usize = 1 << 20;

/// A pair whose transfers take many polls, so that operations can be cancelled in the middle.
fn slow_pair(name: &str) -> (Node, Node, Addr, Addr) {
    let options = Options {
        max_piece: 4096,
        ..Options::default()
    };
    pair(name, Config::default(), options)
}

fn cancelled(node: &Node, user: u64) -> bool {
    node.result(user) == Some(&Err(OpError::Cancelled))
}

/// After a cancel the pair still works, and nothing is left behind.
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
        assert_eq!(
            (info.operations, info.transfers, info.early_bytes),
            (0, 0, 0)
        );
    }
}

#[test]
fn a_posted_receive() {
    let (mut a, mut b, to, from) = pair("cancel-posted", Config::default(), Options::default());
    let op = b.recv(from, &[Memory::zeroed(8)], 1, 1);
    b.bmi.cancel(op);
    b.step();
    assert!(cancelled(&b, 1));
    // The message that comes goes to the next receive.
    a.send(to, &[memory(3, 8)], 1, 1);
    idle(&mut [&mut a, &mut b]);
    let into = Memory::zeroed(8);
    b.recv(from, std::slice::from_ref(&into), 1, 2);
    assert_eq!(b.result(2), Some(&Ok(8)));
    assert_eq!(into.to_vec(), bytes(3, 8));
    still_works(&mut a, &mut b, to, from);
}

#[test]
fn a_send_in_the_queue() {
    let mut a = node("cancel-queued-client");
    // No peer replies: the connection is never greeted.
    let mut silent = Mem::new(Options::default()).unwrap();
    causeway_transport::Method::listen(&mut silent, &"mem://cancel-queued".parse().unwrap())
        .unwrap();
    let to = a.bmi.lookup("mem://cancel-queued").unwrap();
    let data = memory(0, 8);
    let op = a.send(to, std::slice::from_ref(&data), 1, 1);
    let unexpected = a.send_unexpected(to, &data, 1, 2);
    idle(&mut [&mut a]);
    assert!(a.done.is_empty());
    a.bmi.cancel(op);
    a.bmi.cancel(unexpected);
    a.step();
    assert!(cancelled(&a, 1) && cancelled(&a, 2));
    assert_eq!(data.sharers(), 1);
}

#[test]
fn an_announced_send() {
    let (mut a, mut b, to, from) = slow_pair("cancel-announced");
    let data = memory(1, LARGE);
    let op = a.send(to, std::slice::from_ref(&data), 1, 1);
    let unexpected = memory(1, 60_000);
    let op2 = a.send_unexpected(to, &unexpected, 1, 2);
    // The second is lost while it is being fetched.
    for _ in 0..3 {
        a.step();
        b.step();
    }
    a.bmi.cancel(op);
    a.bmi.cancel(op2);
    idle(&mut [&mut a, &mut b]);
    assert!(cancelled(&a, 1) && cancelled(&a, 2));
    assert_eq!((data.sharers(), unexpected.sharers()), (1, 1));
    b.collect_unexpected();
    assert!(b.unexpected.is_empty());
    // The receive does not match the cancelled send, and gets the next message.
    let into = Memory::zeroed(8);
    b.recv(from, std::slice::from_ref(&into), 1, 1);
    a.send(to, &[memory(5, 8)], 1, 3);
    idle(&mut [&mut a, &mut b]);
    assert_eq!(b.result(1), Some(&Ok(8)));
    still_works(&mut a, &mut b, to, from);
}

/// Either a send is recalled, or it is received, whatever the receiver has done by then.
#[test]
fn a_recalled_send_is_received_or_not_and_never_both() {
    let config = Config {
        in_parts: true,
        ..Config::default()
    };
    let options = Options {
        max_piece: 4096,
        ..Options::default()
    };
    for steps in 0..40 {
        for posts_first in [false, true] {
            let name = format!("recall-{steps}-{posts_first}");
            let (mut a, mut b, to, from) = pair(&name, config.clone(), options);
            let into = Memory::zeroed(LARGE);
            if posts_first {
                b.recv(from, std::slice::from_ref(&into), 1, 1);
            }
            let data = memory(1, LARGE);
            let op = a.send(to, std::slice::from_ref(&data), 1, 1);
            for _ in 0..steps {
                a.step();
                b.step();
            }
            a.bmi.recall(op);
            if !posts_first {
                b.recv(from, std::slice::from_ref(&into), 1, 1);
            }
            drive(&mut [&mut a, &mut b], |nodes| nodes[0].result(1).is_some());
            idle(&mut [&mut a, &mut b]);
            match a.result(1) {
                Some(Err(OpError::Cancelled)) => {
                    assert_eq!(b.result(1), None, "{name}");
                    a.send(to, &[memory(2, LARGE)], 1, 2);
                    drive(&mut [&mut a, &mut b], |nodes| nodes[1].result(1).is_some());
                    assert_eq!(into.to_vec(), bytes(2, LARGE), "{name}");
                }
                sent => {
                    assert_eq!(sent, Some(&Ok(LARGE as u64)), "{name}");
                    drive(&mut [&mut a, &mut b], |nodes| nodes[1].result(1).is_some());
                    assert_eq!(into.to_vec(), bytes(1, LARGE), "{name}");
                }
            }
            assert_eq!(data.sharers(), 1);
            still_works(&mut a, &mut b, to, from);
        }
    }
}

/// A peer that is stopped in the middle of a copy holds the memory: the operation completes when it goes on, or
/// when it is given up.
#[test]
fn memory_in_use_by_a_stopped_peer() {
    static STOPPED: AtomicBool = AtomicBool::new(false);
    let options = Options {
        stopped: Some(&STOPPED),
        ..Options::default()
    };
    for disconnects in [false, true] {
        let (mut a, mut b, to, from) = pair("cancel-held", Config::default(), options);
        STOPPED.store(true, Ordering::Relaxed);
        let data = memory(1, LARGE);
        let op = a.send(to, std::slice::from_ref(&data), 1, 1);
        idle(&mut [&mut a, &mut b]);
        a.bmi.cancel(op);
        let until = Instant::now() + Duration::from_millis(120);
        while Instant::now() < until {
            a.step();
            b.step();
        }
        assert_eq!(a.result(1), None, "the memory is not free");
        if disconnects {
            a.bmi.disconnect(to);
            a.step();
            assert!(matches!(a.result(1), Some(Err(OpError::Peer { .. }))));
            continue;
        }
        STOPPED.store(false, Ordering::Relaxed);
        drive(&mut [&mut a, &mut b], |nodes| nodes[0].result(1).is_some());
        assert!(cancelled(&a, 1));
        assert_eq!(data.sharers(), 1);
        still_works(&mut a, &mut b, to, from);
    }
}

#[test]
fn a_send_that_is_being_pulled() {
    let (mut a, mut b, to, from) = slow_pair("cancel-pulled");
    let data = memory(1, LARGE);
    let op = a.send(to, std::slice::from_ref(&data), 1, 1);
    let into = Memory::zeroed(LARGE);
    b.recv(from, std::slice::from_ref(&into), 1, 1);
    while b.bmi.get_info(None).transfers == 0 {
        a.step();
        b.step();
    }
    a.bmi.cancel(op);
    a.step();
    assert!(cancelled(&a, 1));
    assert_eq!(data.sharers(), 1, "the memory cannot be read any more");
    idle(&mut [&mut a, &mut b]);
    assert_eq!(b.result(1), None, "the receive waits for the next message");
    a.send(to, &[memory(2, LARGE)], 1, 2);
    drive(&mut [&mut a, &mut b], |nodes| nodes[1].result(1).is_some());
    assert_eq!(into.to_vec(), bytes(2, LARGE));
    still_works(&mut a, &mut b, to, from);
}

#[test]
fn a_receive_that_is_pulling_completes() {
    let (mut a, mut b, to, from) = slow_pair("cancel-pulling");
    a.send(to, &[memory(1, LARGE)], 1, 1);
    let into = Memory::zeroed(LARGE);
    let op = b.recv(from, std::slice::from_ref(&into), 1, 1);
    while b.bmi.get_info(None).transfers == 0 {
        a.step();
        b.step();
    }
    b.bmi.cancel(op);
    drive(&mut [&mut a, &mut b], |nodes| nodes[1].result(1).is_some());
    assert_eq!(b.result(1), Some(&Ok(LARGE as u64)));
    still_works(&mut a, &mut b, to, from);
}

#[test]
fn a_receive_that_is_being_pushed_into() {
    for late in [false, true] {
        let (mut a, mut b, to, from) = slow_pair(&format!("cancel-cleared-{late}"));
        let policy = InfoOption::Rendezvous(RendezvousPolicy::Push);
        b.bmi.set_info(None, policy).unwrap();
        a.send(to, &[memory(1, LARGE)], 1, 1);
        let into = Memory::zeroed(LARGE);
        let op = b.recv(from, std::slice::from_ref(&into), 1, 1);
        for _ in 0..5 {
            b.step();
            if late {
                a.step();
            }
        }
        assert_eq!(a.bmi.get_info(None).transfers > 0, late);
        b.bmi.cancel(op);
        b.step();
        assert!(cancelled(&b, 1));
        assert_eq!(into.sharers(), 1, "the memory cannot be written any more");
        let before = into.to_vec();
        drive(&mut [&mut a, &mut b], |nodes| nodes[0].result(1).is_some());
        assert_eq!(into.to_vec(), before);
        assert_eq!(a.result(1), Some(&Err(OpError::Withdrawn)));
        b.bmi
            .set_info(None, InfoOption::Rendezvous(RendezvousPolicy::Adaptive))
            .unwrap();
        still_works(&mut a, &mut b, to, from);
    }
}

/// The end of the export may be noticed before the notice of the cancel comes.
#[test]
fn a_receive_whose_notice_comes_after_the_end_of_its_export() {
    let options = Options {
        max_piece: 4096,
        queue_packets: 8,
        ..Options::default()
    };
    let (mut a, mut b, to, from) = pair("cancel-notice", Config::default(), options);
    let policy = InfoOption::Rendezvous(RendezvousPolicy::Push);
    b.bmi.set_info(None, policy).unwrap();
    a.send(to, &[memory(1, LARGE)], 1, 1);
    let into = Memory::zeroed(LARGE);
    let op = b.recv(from, std::slice::from_ref(&into), 1, 1);
    while a.bmi.get_info(None).transfers == 0 {
        b.step();
        a.step();
    }
    for user in 100..120 {
        b.send(from, &[memory(user as usize, 8)], user, user);
    }
    b.step();
    b.bmi.cancel(op);
    drive(&mut [&mut a], |nodes| nodes[0].result(1).is_some());
    assert_eq!(a.result(1), Some(&Err(OpError::Withdrawn)));
    idle(&mut [&mut a, &mut b]);
    assert!(cancelled(&b, 1));
    for user in 100..120 {
        a.recv(to, &[Memory::zeroed(8)], user, user);
    }
    drive(&mut [&mut a, &mut b], |nodes| {
        (100..120).all(|user| nodes[0].result(user) == Some(&Ok(8)))
    });
    b.bmi
        .set_info(None, InfoOption::Rendezvous(RendezvousPolicy::Adaptive))
        .unwrap();
    still_works(&mut a, &mut b, to, from);
}

/// The notice may come while the sender still writes one of several parts, and be known before it has written it.
#[test]
fn a_receive_whose_notice_comes_before_the_end_of_a_part() {
    const NAME: &str = "cancel-part";
    const PART: usize = 10_000;
    let mut node = node(NAME);
    let (mut raw, to) = greets(&mut node, NAME, Formats::OURS);
    let data = memory(1, 2 * PART);
    node.send(to, std::slice::from_ref(&data), 1, 1);
    let send = sent_by(&mut node, &mut raw);
    let into = Memory::zeroed(PART);
    let region = (raw.method).grant(raw.to, &into, Registration::NONE, Access::Write);
    let clearance = Clearance {
        receive: 1,
        offset: 0,
        len: PART as u64,
        regions: std::iter::once(region.unwrap()).collect(),
    };
    let header = Header::new(Kind::ClearToSend, send);
    raw.send(&wire::encode_clearance(header, &clearance, Vec::new()));
    node.step();
    assert_eq!(node.bmi.get_info(None).transfers, 1);
    let header = Header::new(Kind::Refuse, send);
    raw.send(&wire::encode_refusal(
        header,
        Refusal::Cancelled,
        Vec::new(),
    ));
    idle(&mut [&mut node]);
    assert_eq!(into.to_vec(), bytes(1, PART));
    assert_eq!(node.result(1), Some(&Err(OpError::Withdrawn)));
    assert_eq!(data.sharers(), 1);
}

#[test]
fn a_send_that_is_cancelled_before_the_receiver_polls_is_not_fetched() {
    let (mut a, mut b, to, from) = slow_pair("cancel-unseen");
    let pull = InfoOption::Rendezvous(RendezvousPolicy::Pull);
    b.bmi.set_info(None, pull).unwrap();
    let into = Memory::zeroed(LARGE);
    b.recv(from, std::slice::from_ref(&into), 1, 1);
    b.step();
    let data = memory(1, LARGE);
    let op = a.send(to, std::slice::from_ref(&data), 1, 1);
    a.step();
    a.bmi.cancel(op);
    a.send(to, &[memory(2, LARGE)], 1, 2);
    a.step();
    b.step();
    // Only the second is: two transfers of one receive would write into the same memory.
    assert_eq!(b.bmi.conversations.shared.transfers.active, 1);
    drive(&mut [&mut a, &mut b], |nodes| {
        nodes[0].result(2).is_some() && nodes[1].result(1).is_some()
    });
    assert!(cancelled(&a, 1));
    assert_eq!(b.result(1), Some(&Ok(LARGE as u64)));
    assert_eq!(into.to_vec(), bytes(2, LARGE));
    idle(&mut [&mut a, &mut b]);
    assert_eq!((data.sharers(), into.sharers()), (1, 1));
    assert_eq!(b.bmi.conversations.shared.transfers.active, 0);
    still_works(&mut a, &mut b, to, from);
}

#[test]
fn a_send_that_was_cleared_but_not_begun() {
    let (mut a, mut b, to, from) = slow_pair("cancel-topush");
    let policy = InfoOption::Rendezvous(RendezvousPolicy::Push);
    b.bmi.set_info(None, policy).unwrap();
    // Transfers of the user fill the throttle.
    let region = b.bmi.export(from, &memory(0, LARGE), Access::Read).unwrap();
    let mut moves = Vec::new();
    for user in 100..120 {
        let local = [Memory::zeroed(LARGE)];
        let posted = a
            .bmi
            .post_transfer(to, Direction::Get, &local, &[region], a.context, user);
        moves.push(a.note(posted));
    }
    let data = memory(1, LARGE);
    let op = a.send(to, std::slice::from_ref(&data), 1, 1);
    let into = Memory::zeroed(LARGE);
    b.recv(from, std::slice::from_ref(&into), 1, 1);
    for _ in 0..5 {
        b.step();
        a.step();
    }
    a.bmi.cancel(op);
    // A waiting transfer is cancelled at once, a started one completes.
    a.bmi.cancel(moves[19]);
    a.bmi.cancel(moves[0]);
    a.step();
    assert!(cancelled(&a, 1) && cancelled(&a, 119) && !cancelled(&a, 100));
    assert_eq!(data.sharers(), 1);
    drive(&mut [&mut a, &mut b], |nodes| nodes[0].done.len() == 21);
    assert_eq!(a.result(100), Some(&Ok(LARGE as u64)));
    assert_eq!(b.result(1), None);
    a.send(to, &[memory(4, 100)], 1, 2);
    drive(&mut [&mut a, &mut b], |nodes| nodes[1].result(1).is_some());
    assert_eq!(b.result(1), Some(&Ok(100)));
    b.bmi
        .set_info(None, InfoOption::Rendezvous(RendezvousPolicy::Adaptive))
        .unwrap();
    still_works(&mut a, &mut b, to, from);
}

#[test]
fn a_matched_receive_that_waits_gives_its_message_back() {
    let (mut a, mut b, to, from) = slow_pair("cancel-matched");
    let pull = InfoOption::Rendezvous(RendezvousPolicy::Pull);
    b.bmi.set_info(None, pull).unwrap();
    let region = a.bmi.export(to, &memory(0, LARGE), Access::Read).unwrap();
    for user in 100..120 {
        let local = [Memory::zeroed(LARGE)];
        let posted = b
            .bmi
            .post_transfer(from, Direction::Get, &local, &[region], b.context, user);
        b.note(posted);
    }
    a.send(to, &[memory(1, LARGE)], 1, 1);
    a.send(to, &[memory(2, LARGE)], 1, 2);
    let op = b.recv(from, &[Memory::zeroed(LARGE)], 1, 1);
    for _ in 0..5 {
        a.step();
        b.step();
    }
    b.bmi.cancel(op);
    b.step();
    assert!(cancelled(&b, 1));
    // In the order in which they were sent.
    for user in [2, 3] {
        let into = Memory::zeroed(LARGE);
        b.recv(from, std::slice::from_ref(&into), 1, user);
        drive(&mut [&mut a, &mut b], |nodes| {
            nodes[1].result(user).is_some()
        });
        assert_eq!(into.to_vec(), bytes(user as usize - 1, LARGE));
    }
    drive(&mut [&mut a, &mut b], |nodes| nodes[1].done.len() == 23);
    still_works(&mut a, &mut b, to, from);
}

/// The receiver may find the memory closed before the cancel arrives: the queue has no room for that packet.
#[test]
fn a_send_that_is_being_pulled_and_cannot_be_withdrawn_at_once() {
    let options = Options {
        max_piece: 4096,
        queue_packets: 8,
        ..Options::default()
    };
    let (mut a, mut b, to, from) = pair("cancel-unheard", Config::default(), options);
    let op = a.send(to, &[memory(1, LARGE)], 1, 1);
    let into = Memory::zeroed(LARGE);
    b.recv(from, std::slice::from_ref(&into), 1, 1);
    while b.bmi.get_info(None).transfers == 0 {
        a.step();
        b.step();
    }
    for n in 0..20 {
        a.send(to, &[memory(n, 8)], 7, 100 + n as u64);
    }
    a.bmi.cancel(op);
    a.step();
    assert!(cancelled(&a, 1));
    idle(&mut [&mut b]);
    assert_eq!(b.bmi.get_info(None).transfers, 0, "it can read no further");
    idle(&mut [&mut a, &mut b]);
    assert_eq!(b.result(1), None, "the receive waits for the next message");
    a.send(to, &[memory(2, LARGE)], 1, 2);
    drive(&mut [&mut a, &mut b], |nodes| nodes[1].result(1).is_some());
    assert_eq!(b.result(1), Some(&Ok(LARGE as u64)));
    assert_eq!(into.to_vec(), bytes(2, LARGE));
    for n in 0..20 {
        b.recv(from, &[Memory::zeroed(8)], 7, 200 + n);
    }
    still_works(&mut a, &mut b, to, from);
}

/// However many messages a peer has announced, to withdraw one, or one that is not there, takes few steps.
#[test]
fn withdrawing_one_of_many_messages_looks_at_few() {
    const MESSAGES: u64 = 2000;
    let config = Config {
        announced_limit: 10_000,
        ..Config::default()
    };
    let mut b = node_with("many", config, Options::default());
    let mut peer = RawPeer::new("many");
    peer.greet_as_first_format();
    idle(&mut [&mut b]);
    for send in 0..MESSAGES {
        let body = Announcement {
            send,
            size: LARGE as u64,
            load: 0,
            regions: Vec::new().into(),
        };
        let header = Header::new(Kind::Announce, send);
        peer.send(&wire::encode_announcement(header, &body, Vec::new()));
        b.step();
    }
    let from = b.bmi.conversations.peers.indices()[0];
    let mut withdraw = |b: &mut Node, send| {
        let before = crate::conversation::withdrawing::LOOKS.get();
        peer.send(&Header::new(Kind::Withdraw, send).encode());
        b.step();
        let waiting = b.bmi.conversations.shared.early.len();
        (
            waiting,
            crate::conversation::withdrawing::LOOKS.get() - before,
        )
    };
    assert_eq!(withdraw(&mut b, 5).0, 1999);
    // The messages behind the first ones are listed once.
    assert_eq!(withdraw(&mut b, 7000).0, 1999);
    for n in 0..500 {
        let (waiting, looks) = withdraw(&mut b, 1900 - n);
        assert_eq!(waiting as u64, 1998 - n);
        assert!(looks <= 128, "{looks}");
        let (_, looks) = withdraw(&mut b, 5000 + n);
        assert!(looks <= 128, "{looks}");
    }
    // Those that have found receives are found as well.
    let addr = b.bmi.conversations.peers.key(from);
    for send in 10..200 {
        b.recv(Addr(addr), &[Memory::zeroed(LARGE)], send, send);
    }
    withdraw(&mut b, 150);
    let matched = |b: &Node| {
        let all = &b.bmi.conversations;
        let ops = all.shared.ops.indices().into_iter();
        ops.filter(|op| {
            matches!(
                all.shared.ops[*op].state,
                crate::operation::State::Cleared { .. }
            )
        })
        .count()
    };
    idle(&mut [&mut b]);
    assert_eq!(matched(&b), 189);
}
