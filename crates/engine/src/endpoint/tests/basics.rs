use std::cell::{Cell, RefCell};

use super::*;

#[test]
fn small_messages_complete_at_once_and_match_by_tag() {
    for medium in MEDIA {
        let (mut a, mut b, to, from) = pair_over(medium, "small", Config::default());
        idle(&mut [&mut a, &mut b]);
        let posted = a
            .bmi
            .post_send(to, &[memory(1, 8)], 5, a.context, 1)
            .unwrap();
        assert!(matches!(posted, Posted::Complete(done) if done.result == Ok(8) && done.user == 1));
        a.send(to, &[memory(2, 8)], 6, 2);
        a.send(to, &[memory(3, 8)], 5, 3);
        idle(&mut [&mut a, &mut b]);
        let into: Vec<_> = (0..3).map(|_| Memory::zeroed(10)).collect();
        let posted = b.bmi.post_recv(from, &into[..1], 6, b.context, 1).unwrap();
        assert!(matches!(posted, Posted::Complete(done) if done.result == Ok(8)));
        b.recv(from, &into[1..2], 5, 2);
        b.recv(from, &into[2..], 5, 3);
        assert_eq!(into[0].to_vec()[..8], bytes(2, 8));
        assert_eq!(into[1].to_vec()[..8], bytes(1, 8));
        assert_eq!(into[2].to_vec()[..8], bytes(3, 8));
        assert_eq!(b.bmi.get_info(None).early_bytes, 0);
    }
}

#[test]
fn receives_match_first_in_first_out_whatever_the_order_of_tags() {
    for medium in MEDIA {
        let (mut a, mut b, to, from) = pair_over(medium, "orders", Config::default());
        // Parts of one allocation, a list, and one of their own.
        let whole = Memory::zeroed(100);
        let into = |at: usize| whole.slice(10 * at..10 * at + 8);
        let tags = [1, 2, 1, 3, 2, 1, 4];
        let ops: Vec<_> = (0..)
            .zip(tags)
            .map(|(at, tag)| match at {
                4 => {
                    let parts = [into(4).slice(0..3), into(4).slice(3..8)];
                    b.recv(from, &parts, tag, at as u64)
                }
                _ => b.recv(from, &[into(at)], tag, at as u64),
            })
            .collect();
        // In order, then not, then in order among the rest; one is cancelled, one has no room.
        for (seed, tag) in [(0, 1), (1, 3)] {
            a.send(to, &[memory(seed, 8)], tag, 0);
        }
        drive(&mut [&mut a, &mut b], |nodes| nodes[1].done.len() == 2);
        b.bmi.cancel(ops[2]);
        b.recv(from, &[into(7)], 1, 7);
        b.recv(from, &[into(8)], 3, 8);
        for (seed, tag) in [(2, 3), (3, 1), (4, 2), (5, 2), (6, 1)] {
            a.send(to, &[memory(seed, 8)], tag, 0);
        }
        a.send(to, &[memory(7, 9)], 4, 0);
        drive(&mut [&mut a, &mut b], |nodes| nodes[1].done.len() == 9);
        for (receive, seed) in [(0, 0), (3, 1), (8, 2), (5, 3), (1, 4), (4, 5), (7, 6)] {
            assert_eq!(b.result(receive), Some(&Ok(8)), "receive {receive}");
            assert_eq!(into(receive as usize).to_vec(), bytes(seed, 8));
        }
        assert_eq!(b.result(2), Some(&Err(OpError::Cancelled)));
        let too_large = OpError::TooLarge { size: 9, room: 8 };
        assert_eq!(b.result(6), Some(&Err(too_large)));
        assert_eq!(whole.sharers(), 1);
    }
}

#[test]
fn every_size_arrives_in_lists_both_ways_by_every_policy() {
    use RendezvousPolicy::{Adaptive, Pull, Push};
    for (policy, medium) in [Adaptive, Pull, Push]
        .into_iter()
        .flat_map(|policy| MEDIA.map(|medium| (policy, medium)))
    {
        let name = format!("sizes-{policy:?}");
        let (mut a, mut b, to, from) = pair_over(medium, &name, Config::default());
        for node in [&mut a, &mut b] {
            let option = InfoOption::Rendezvous(policy);
            node.bmi.set_info(None, option).unwrap();
        }
        let sizes = [0, 1, 8, 8191, 8192, 8193, 20_000, 65_536, 300_001, 2 << 20];
        for (n, &size) in sizes.iter().enumerate() {
            let user = n as u64;
            let cut = size / 3;
            let data = memory(n, size);
            let parts = [
                data.slice(0..cut),
                data.slice(cut..cut),
                data.slice(cut..size),
            ];
            let into = Memory::zeroed(size + 5);
            let rooms = [into.slice(0..size / 2), into.slice(size / 2..size + 5)];
            // Both directions at once; the receive before or after the send.
            let back = Memory::zeroed(size);
            if n % 2 == 0 {
                b.recv(from, &rooms, user, user);
            }
            a.send(to, &parts, user, user);
            b.send(from, std::slice::from_ref(&data), user, user + 100);
            idle(&mut [&mut a, &mut b]);
            if n % 2 == 1 {
                b.recv(from, &rooms, user, user);
            }
            a.recv(to, std::slice::from_ref(&back), user, user + 100);
            drive(&mut [&mut a, &mut b], |nodes| {
                nodes
                    .iter()
                    .all(|node| node.result(user).is_some() && node.result(user + 100).is_some())
            });
            for node in [&a, &b] {
                assert_eq!(
                    node.result(user),
                    Some(&Ok(size as u64)),
                    "{policy:?} {size}"
                );
                assert_eq!(node.result(user + 100), Some(&Ok(size as u64)));
            }
            assert_eq!(into.to_vec()[..size], bytes(n, size));
            assert_eq!(back.to_vec(), bytes(n, size));
            assert_eq!(
                data.sharers(),
                1 + parts.len(),
                "memory is free after completion"
            );
        }
        assert_eq!(a.bmi.get_info(None).operations, 0);
    }
}

#[test]
fn lists_longer_than_a_packet() {
    for (policy, medium) in [RendezvousPolicy::Adaptive, RendezvousPolicy::Push]
        .into_iter()
        .flat_map(|policy| MEDIA.map(|medium| (policy, medium)))
    {
        let name = format!("long-lists-{policy:?}");
        let (mut a, mut b, to, from) = pair_over(medium, &name, Config::default());
        b.bmi
            .set_info(None, InfoOption::Rendezvous(policy))
            .unwrap();
        let data = memory(1, 90_000);
        let into = Memory::zeroed(90_000);
        let parts: Vec<_> = (0..3000).map(|n| data.slice(n * 30..n * 30 + 30)).collect();
        let rooms: Vec<_> = (0..4500).map(|n| into.slice(n * 20..n * 20 + 20)).collect();
        a.send(to, &parts, 1, 1);
        b.recv(from, &rooms, 1, 1);
        // One side short, the other long.
        a.send(to, std::slice::from_ref(&data), 2, 2);
        let whole = Memory::zeroed(90_000);
        let rooms: Vec<_> = (0..1500)
            .map(|n| whole.slice(n * 60..n * 60 + 60))
            .collect();
        b.recv(from, &rooms, 2, 2);
        drive(&mut [&mut a, &mut b], |nodes| {
            nodes.iter().all(|node| node.done.len() == 2)
        });
        assert!(
            a.done
                .iter()
                .chain(&b.done)
                .all(|done| done.result == Ok(90_000))
        );
        assert_eq!(into.to_vec(), bytes(1, 90_000));
        assert_eq!(whole.to_vec(), bytes(1, 90_000));
    }
}

#[test]
fn both_sides_are_told_of_a_message_that_is_too_large() {
    for medium in MEDIA {
        let (mut a, mut b, to, from) = pair_over(medium, "toolarge", Config::default());
        for (user, size) in [(1, 100), (2, 100_000)] {
            a.send(to, &[memory(0, size)], user, user);
            b.recv(from, &[Memory::zeroed(10)], user, user);
            drive(&mut [&mut a, &mut b], |nodes| {
                nodes.iter().all(|node| node.result(user).is_some())
            });
            let size = size as u64;
            let error = Err(OpError::TooLarge { size, room: 10 });
            assert_eq!(b.result(user), Some(&error));
            if user == 2 {
                assert_eq!(a.result(user), Some(&error));
            }
        }
    }
}

#[test]
fn unexpected_messages_of_every_size_in_order() {
    for medium in MEDIA {
        let config = Config {
            early_memory: 200_000,
            ..Config::default()
        };
        let (mut a, mut b, to, _) = pair_over(medium, "unexpected", config);
        let sizes = [
            1,
            0,
            9_000,
            64 << 10,
            5,
            8_000,
            30_000,
            7,
            64 << 10,
            64 << 10,
            3,
        ];
        for (n, &size) in sizes.iter().enumerate() {
            a.send_unexpected(to, &memory(n, size), n as u64, n as u64);
        }
        let too_large = a
            .bmi
            .post_sendunexpected(to, &[memory(0, 70_000)], 0, a.context, 0);
        assert!(matches!(
            too_large,
            Err(Error::UnexpectedTooLarge { size: 70_000, .. })
        ));
        drive(&mut [&mut a, &mut b], |nodes| {
            nodes[1].collect_unexpected();
            assert!(nodes[1].bmi.get_info(None).early_bytes <= 200_000);
            nodes[1].unexpected.len() == sizes.len()
        });
        idle(&mut [&mut a, &mut b]);
        for (n, &size) in sizes.iter().enumerate() {
            assert_eq!(b.unexpected[n].tag, n as u64);
            assert_eq!(b.unexpected[n].data, bytes(n, size));
            assert_eq!(a.result(n as u64), Some(&Ok(size as u64)));
        }
        assert_eq!(b.bmi.get_info(None).early_bytes, 0);
    }
}

#[test]
fn a_process_sends_to_itself() {
    let mut a = node("self");
    let me = a.bmi.lookup("mem://self").unwrap();
    for (n, size) in [0usize, 8, 50_000].into_iter().enumerate() {
        let user = n as u64;
        let into = Memory::zeroed(size);
        a.send(me, &[memory(n, size)], user, user);
        a.recv(me, std::slice::from_ref(&into), user, user + 10);
        drive(&mut [&mut a], |nodes| {
            nodes[0].result(user).is_some() && nodes[0].result(user + 10).is_some()
        });
        assert_eq!(into.to_vec(), bytes(n, size));
    }
    a.send_unexpected(me, &memory(9, 20_000), 9, 50);
    drive(&mut [&mut a], |nodes| {
        nodes[0].collect_unexpected();
        nodes[0].unexpected.len() == 1 && nodes[0].result(50).is_some()
    });
    assert_eq!(a.unexpected[0].from, me);
    assert_eq!(a.unexpected[0].data, bytes(9, 20_000));
}

#[test]
fn user_transfers_and_mapping() {
    for medium in MEDIA {
        let (mut a, mut b, to, from) = pair_over(medium, "transfers", Config::default());
        let theirs = memory(4, 1000);
        let region = b.bmi.export(from, &theirs, Access::Read).unwrap();
        let into = Memory::zeroed(1000);
        let get = |a: &mut Node, b: &mut Node, remote: &[RegionDescriptor], direction, user| {
            let local = std::slice::from_ref(&into);
            let posted = a
                .bmi
                .post_transfer(to, direction, local, remote, a.context, user);
            a.note(posted);
            drive(&mut [a, b], |nodes| nodes[0].result(user).is_some());
            a.result(user).cloned().unwrap()
        };
        assert_eq!(get(&mut a, &mut b, &[region], Direction::Get, 1), Ok(1000));
        assert_eq!(into.to_vec(), bytes(4, 1000));
        let refused = Err(OpError::Transfer(TransferError::Protection));
        assert_eq!(get(&mut a, &mut b, &[region], Direction::Put, 2), refused);
        let length = get(&mut a, &mut b, &[], Direction::Get, 3);
        assert!(matches!(
            length,
            Err(OpError::Transfer(TransferError::Length { .. }))
        ));
        if medium == Medium::Mem {
            assert_eq!(a.bmi.map(to, &region).unwrap().to_vec(), bytes(4, 1000));
        }
        b.bmi.unexport(from, &region);
        assert_eq!(get(&mut a, &mut b, &[region], Direction::Get, 4), refused);
        assert_eq!(a.bmi.memalloc(to, 123).unwrap().len(), 123);
    }
}

#[test]
fn contexts_are_separate() {
    let (mut a, mut b, to, from) = pair("contexts", Config::default(), Options::default());
    let other = b.bmi.open_queue().unwrap();
    b.recv(from, &[Memory::zeroed(8)], 1, 1);
    let posted = b.bmi.post_recv(from, &[Memory::zeroed(8)], 2, other, 2);
    b.note(posted);
    a.send(to, &[memory(0, 8)], 2, 2);
    a.send(to, &[memory(0, 8)], 1, 1);
    idle(&mut [&mut a, &mut b]);
    assert_eq!(b.done.len(), 1);
    let mut out = Vec::new();
    b.bmi.test_queue(other, 9, NOW, &mut out).unwrap();
    assert_eq!((out.len(), out[0].user), (1, 2));
    let posted = b.bmi.post_recv(from, &[Memory::zeroed(8)], 3, other, 3);
    let op = b.note(posted);
    // A transfer that has begun when its context is closed completes.
    a.send(to, &[memory(0, 1 << 20)], 4, 4);
    let posted = b
        .bmi
        .post_recv(from, &[Memory::zeroed(1 << 20)], 4, other, 4);
    let moving = b.note(posted);
    while b.bmi.get_info(None).transfers == 0 {
        a.step();
        b.step();
    }
    b.bmi.close_queue(other);
    assert_eq!(b.bmi.get_info(None).operations, 1);
    while let Ok(done) = b.bmi.test(moving, Duration::from_millis(10)) {
        assert_eq!(done, None);
    }
    assert!(matches!(
        b.bmi.test(op, NOW),
        Err(Error::Stale("operation"))
    ));
    assert!(b.bmi.test_queue(other, 9, NOW, &mut out).is_err());
    assert_eq!(b.bmi.get_info(None).operations, 0);
}

#[test]
fn testing_one_or_some() {
    let (mut a, mut b, to, from) = pair("some", Config::default(), Options::default());
    let into = Memory::zeroed(8);
    let list = std::slice::from_ref(&into);
    let ops: Vec<_> = (0..3).map(|n| b.recv(from, list, n, n)).collect();
    a.send(to, &[memory(0, 8)], 1, 1);
    a.send(to, &[memory(0, 8)], 2, 2);
    let mut out = Vec::new();
    assert_eq!(b.bmi.testsome(&ops, NOW, &mut out).unwrap(), 2);
    assert_eq!(out.iter().map(|done| done.user).collect::<Vec<_>>(), [1, 2]);
    assert!(
        b.bmi.testsome(&ops, NOW, &mut out).is_err(),
        "stale ones are named"
    );
    assert_eq!(b.bmi.test(ops[0], NOW).unwrap(), None);
    assert!(b.bmi.test(ops[1], NOW).is_err());
    let slept = std::time::Instant::now();
    assert_eq!(b.bmi.test(ops[0], Duration::from_millis(20)).unwrap(), None);
    assert!(slept.elapsed() >= Duration::from_millis(20));
}

#[test]
fn a_sleeper_wakes_for_messages_and_for_wakers() {
    for medium in MEDIA {
        let (mut a, mut b, to, from) = pair_over(medium, "sleeper", Config::default());
        let op = b.recv(from, &[Memory::zeroed(8)], 1, 1);
        let waker = b.bmi.waker();
        let long = Duration::from_secs(60);
        let thread = std::thread::spawn(move || {
            let done = b.bmi.test(op, long).unwrap();
            (done, b)
        });
        std::thread::sleep(Duration::from_millis(30));
        a.send(to, &[memory(0, 8)], 1, 1);
        a.step();
        let (done, mut b) = thread.join().unwrap();
        assert_eq!(done.expect("woken in time").result, Ok(8), "{medium:?}");

        let thread = std::thread::spawn(move || b.bmi.wait(b.context, long));
        std::thread::sleep(Duration::from_millis(30));
        waker.wake();
        assert!(!thread.join().unwrap());
    }
}

/// Progress that never pauses does not keep a call from being heard: each time the waiting instance has
/// polled, another message is on its way, so that nothing but the call can end the wait.
#[test]
fn a_waker_is_heard_while_messages_keep_coming() {
    const LOOKS: usize = 20_000;
    const CALL_AT: usize = 1_000;
    for medium in MEDIA {
        // A pause of the scheduler's does not end the spin.
        let config = Config {
            spin: Duration::from_secs(20),
            ..Config::default()
        };
        let (a, mut b, to, from) = pair_over(medium, "busy", config);
        let others = b.bmi.open_queue().unwrap();
        let into = [Memory::zeroed(8)];
        for _ in 0..LOOKS {
            let _ = b.bmi.post_recv(from, &into, 1, others, 0).unwrap();
        }
        let waker = b.bmi.waker();
        let (a, looks) = (RefCell::new(a), Cell::new(0));
        let gave_up = b.bmi.wait_until(Duration::from_secs(60), |_| {
            let mut a = a.borrow_mut();
            a.send(to, &[memory(0, 8)], 1, 1);
            a.step();
            a.done.clear();
            looks.set(looks.get() + 1);
            if looks.get() == CALL_AT {
                waker.wake();
            }
            looks.get() == LOOKS
        });
        assert!(!gave_up, "{medium:?}: the call was not heard");
        assert!(looks.get() >= CALL_AT, "{medium:?}: it ended uncalled");
    }
}

#[test]
fn callers_choose_how_many_tcp_connections_there_are() {
    for (tcp_connections, through) in [(1, "the one connection"), (3, "2 connections")] {
        let config = Config {
            tcp_connections,
            ..Config::default()
        };
        let (mut a, mut b, to, from) = pair_over(Medium::Tcp, "connections", config);
        let data = memory(1, 3 << 20);
        let into = Memory::zeroed(3 << 20);
        b.recv(from, std::slice::from_ref(&into), 1, 1);
        a.send(to, std::slice::from_ref(&data), 1, 1);
        drive(&mut [&mut a, &mut b], |nodes| {
            let report = nodes[0].bmi.report(to).unwrap();
            let mut facts = report.facts.iter();
            let large = facts.find(|(name, _)| *name == "large transfers");
            nodes[1].result(1).is_some() && large.is_some_and(|(_, text)| text.contains(through))
        });
        assert_eq!(b.result(1), Some(&Ok(3 << 20)));
        assert!(into.to_vec() == data.to_vec());
    }
}

#[test]
fn stale_handles_are_refused() {
    let mut a = node("stale");
    let to = a.bmi.lookup("mem://unbound").unwrap();
    assert_eq!(a.bmi.lookup("mem://unbound").unwrap(), to);
    assert_eq!(a.bmi.reverse_lookup(to).unwrap(), "mem://unbound");
    a.bmi.release(to);
    assert!(a.bmi.reverse_lookup(to).is_some());
    a.bmi.release(to);
    assert_eq!(a.bmi.reverse_lookup(to), None);
    let posted = a.bmi.post_send(to, &[], 0, a.context, 0);
    assert!(matches!(posted, Err(Error::Stale("address"))));
    assert!(a.bmi.lookup("nonsense").is_err());
    assert!(a.bmi.lookup("xyz://host").is_err());
    a.bmi.release(to);
    a.bmi.retain(to);
    a.bmi.cancel(OpId(77));
}

#[test]
fn the_load_decides_which_side_copies() {
    let (mut a, mut b, to, from) = pair("adaptive", Config::default(), Options::default());
    // The receiver is busy, the sender is not: the sender pushes.
    a.bmi.set_info(None, InfoOption::Server(false)).unwrap();
    let theirs = memory(1, 4 << 20);
    let region = a.bmi.export(to, &theirs, Access::Read).unwrap();
    for user in 0..8 {
        let local = [Memory::zeroed(4 << 20)];
        let posted = b
            .bmi
            .post_transfer(from, Direction::Get, &local, &[region], b.context, user);
        b.note(posted);
    }
    assert_eq!(b.bmi.get_info(None).transfers, 8);
    let into = Memory::zeroed(30_000);
    b.recv(from, std::slice::from_ref(&into), 5, 50);
    a.send(to, &[memory(5, 30_000)], 5, 50);
    let mut pushed = false;
    drive(&mut [&mut a, &mut b], |nodes| {
        pushed |= nodes[0].bmi.get_info(None).transfers > 0;
        nodes.iter().all(|node| node.result(50).is_some())
    });
    assert!(pushed);
    assert_eq!(into.to_vec(), bytes(5, 30_000));
    drive(&mut [&mut b], |nodes| nodes[0].done.len() == 9);
}

#[test]
fn one_stream_does_not_make_a_receiver_busy_where_both_sides_copy() {
    let config = Config::default();
    let (mut a, mut b, to, from) = pair_over(Medium::Shm, "one-stream", config);
    let into: Vec<Memory> = (0..40).map(|_| Memory::zeroed(100_000)).collect();
    for (user, memory) in into.iter().enumerate() {
        b.recv(from, std::slice::from_ref(memory), 5, user as u64);
    }
    for user in 0..40 {
        a.send(to, &[memory(user, 100_000)], 5, user as u64);
    }
    let mut pushed = false;
    drive(&mut [&mut a, &mut b], |nodes| {
        pushed |= nodes[0].bmi.get_info(None).transfers > 0;
        nodes.iter().all(|node| node.done.len() == 40)
    });
    assert!(!pushed, "the receiver starts all of them");
    for (user, memory) in into.iter().enumerate() {
        assert_eq!(memory.to_vec(), bytes(user, 100_000), "message {user}");
    }
}

#[test]
fn falls_back_to_the_next_address_and_says_why() {
    let mut server = node("fallback-server");
    let mut a = node("fallback-client");
    let list = "mem://fallback-unbound,mem://fallback-server";
    let to = a.bmi.lookup(list).unwrap();
    a.send(to, &[memory(0, 8)], 1, 1);
    drive(&mut [&mut a, &mut server], |nodes| {
        nodes[0].result(1).is_some()
    });
    assert_eq!(a.result(1), Some(&Ok(8)));
    let report = a.bmi.report(to).unwrap();
    let passed = report.facts.iter().find(|(what, _)| *what == "passed over");
    assert!(passed.unwrap().1.contains("nothing listens"), "{report:?}");
    assert!(a.bmi.identity(to).is_some());
}

#[test]
fn memory_can_be_exported_before_the_connection_stands() {
    for medium in MEDIA {
        let mut server = node_over(medium, "early-export-server", Config::default());
        let mut a = node_over(medium, "early-export-client", Config::default());
        let to = a.bmi.lookup(&server.bmi.listening()[0]).unwrap();
        let theirs = memory(3, 100_000);
        let region = a.bmi.export(to, &theirs, Access::ReadWrite).unwrap();
        a.send_unexpected(to, &memory(0, 1), 0, 1);
        drive(&mut [&mut a, &mut server], |nodes| {
            nodes[1].collect_unexpected();
            nodes[1].unexpected.len() == 1
        });
        let from = server.unexpected[0].from;
        let local = [Memory::zeroed(100_000)];
        let posted =
            server
                .bmi
                .post_transfer(from, Direction::Get, &local, &[region], server.context, 1);
        server.note(posted);
        drive(&mut [&mut a, &mut server], |nodes| {
            nodes[1].result(1).is_some()
        });
        assert_eq!(server.result(1), Some(&Ok(100_000)), "{medium:?}");
        assert_eq!(local[0].to_vec(), bytes(3, 100_000));
    }
}

#[test]
fn memory_for_reading_only_is_no_target() {
    let (mut a, mut b, to, from) = pair("read-only", Config::default(), Options::default());
    let region = b
        .bmi
        .export(from, &Memory::zeroed(8), Access::ReadWrite)
        .unwrap();
    let own = memory(1, 8);
    let lent = own.read_only();
    let list = [Memory::zeroed(1).slice(0..0), lent.clone()];
    let refused = a.bmi.post_recv(to, &list, 1, a.context, 1);
    assert!(matches!(refused, Err(Error::ReadOnly)), "{refused:?}");
    let (bmi, context) = (&mut a.bmi, a.context);
    let refused = bmi.post_transfer(to, Direction::Get, &list, &[region], context, 2);
    assert!(matches!(refused, Err(Error::ReadOnly)), "{refused:?}");
    for access in [Access::Write, Access::ReadWrite] {
        let refused = a.bmi.export(to, &lent, access);
        assert!(matches!(refused, Err(Error::ReadOnly)), "{refused:?}");
    }
    let read = a.bmi.export(to, &lent, Access::Read).unwrap();
    a.bmi.unexport(to, &read);
    // It may be sent from.
    let (bmi, context) = (&mut a.bmi, a.context);
    let posted = bmi.post_transfer(to, Direction::Put, &list, &[region], context, 3);
    a.note(posted);
    a.send(to, &list, 1, 4);
    let into = Memory::zeroed(8);
    b.recv(from, std::slice::from_ref(&into), 1, 1);
    drive(&mut [&mut a, &mut b], |nodes| {
        nodes[0].done.len() == 2 && nodes[1].result(1).is_some()
    });
    assert!(a.done.iter().all(|done| done.result == Ok(8)));
    assert_eq!(into.to_vec(), own.to_vec());
}

/// Any number of transfers that cannot start do not keep those behind them from starting.
#[test]
fn transfers_to_a_silent_peer_do_not_hold_up_others() {
    let (mut a, mut b, to, from) = pair("behind", Config::default(), Options::default());
    let mut silent = Mem::new(Options::default()).unwrap();
    let address = "mem://behind-silent".parse().unwrap();
    causeway_transport::Method::listen(&mut silent, &address).unwrap();
    let silent = a.bmi.lookup("mem://behind-silent").unwrap();
    let region = b
        .bmi
        .export(from, &memory(5, 100_000), Access::Read)
        .unwrap();
    let post = |a: &mut Node, peer, user| {
        let into = [Memory::zeroed(100_000)];
        let (get, context) = (Direction::Get, a.context);
        let posted = a
            .bmi
            .post_transfer(peer, get, &into, &[region], context, user);
        a.note(posted);
        into[0].clone()
    };
    for user in 0..1000 {
        post(&mut a, silent, user);
    }
    // More than are started at once.
    let into: Vec<_> = (1000..1100).map(|user| post(&mut a, to, user)).collect();
    // Messages are moved by transfers, too.
    b.send(from, &[memory(6, 100_000)], 1, 1);
    let message = Memory::zeroed(100_000);
    a.recv(to, std::slice::from_ref(&message), 1, 2000);
    drive(&mut [&mut a, &mut b], |nodes| nodes[0].done.len() == 101);
    assert!(a.done.iter().all(|done| done.user >= 1000));
    assert!(a.done.iter().all(|done| done.result == Ok(100_000)));
    assert!(into.iter().all(|into| into.to_vec() == bytes(5, 100_000)));
    assert_eq!(message.to_vec(), bytes(6, 100_000));
    // No other event makes the endpoint retry the waiting transfers.
    let push = InfoOption::Rendezvous(RendezvousPolicy::Push);
    b.bmi.set_info(None, push).unwrap();
    b.recv(from, std::slice::from_ref(&message), 2, 2);
    a.send(to, &[memory(7, 100_000)], 2, 2001);
    drive(&mut [&mut a, &mut b], |nodes| nodes[1].result(2).is_some());
    assert_eq!(message.to_vec(), bytes(7, 100_000));
}
