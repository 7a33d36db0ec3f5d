//! Operations that are in no list of completions, and the ways by which a receive leaves the short path.

use super::*;

const TAG: Tag = 5;
const ALONE: Queue = Queue::UNLISTED;

/// Posts a receive that is in no list. Returns its operation unless it is complete.
fn receive(node: &mut Node, from: Addr, into: &[Memory], user: u64) -> Result<OpId, u64> {
    let posted = node.bmi.post_recv(from, into, TAG, ALONE, user);
    match posted.expect("it is accepted") {
        Posted::Pending(op) => Ok(op),
        Posted::Complete(done) => {
            assert_eq!(done.user, user);
            Err(done.result.expect("the message fits"))
        }
    }
}

/// Drives both until an operation of the second is done, and returns its outcome.
fn outcome(a: &mut Node, b: &mut Node, op: OpId) -> Completion {
    drive(&mut [a, b], |nodes| nodes[1].bmi.is_done(op));
    let done = b.bmi.test(op, NOW).expect("it exists");
    assert!(b.bmi.test(op, NOW).is_err(), "it is taken once");
    done.expect("it is done")
}

#[test]
fn each_is_tested_by_its_handle_in_any_order() {
    for medium in MEDIA {
        let (mut a, mut b, to, from) = pair_over(medium, "unlisted", Config::default());
        let into: Vec<_> = (0..20).map(|_| Memory::zeroed(8)).collect();
        let post = |(n, into): (usize, &Memory)| {
            let into = std::slice::from_ref(into);
            // Some beside them are listed.
            match n % 4 {
                3 => b.recv(from, into, TAG, n as u64),
                _ => receive(&mut b, from, into, n as u64).expect("it waits"),
            }
        };
        let ops: Vec<_> = into.iter().enumerate().map(post).collect();
        for n in 0..into.len() {
            a.send(to, &[memory(n, 8)], TAG, n as u64);
        }
        drive(&mut [&mut a, &mut b], |nodes| nodes[1].bmi.is_done(ops[18]));
        for n in (0..into.len()).rev().filter(|n| n % 4 != 3) {
            let done = match n % 2 {
                0 => b.bmi.take_moved(ops[n]),
                _ => b.bmi.take(ops[n]).unwrap().and_then(|done| {
                    assert_eq!(done.user, n as u64);
                    done.result.ok()
                }),
            };
            assert_eq!((done, b.bmi.envelope().size), (Some(8), 8), "{n}");
            assert!(b.bmi.is_done(ops[n]) && b.bmi.take(ops[n]).is_err());
        }
        drive(&mut [&mut a, &mut b], |nodes| nodes[1].done.len() == 5);
        for (n, into) in into.iter().enumerate() {
            assert_eq!(into.to_vec(), bytes(n, 8));
        }
        assert_eq!(b.bmi.get_info(None).operations, 0);
    }
}

#[test]
fn what_is_unusual_takes_the_general_path() {
    for medium in MEDIA {
        let (mut a, mut b, to, from) = pair_over(medium, "unusual", Config::default());
        // Too little room.
        let op = receive(&mut b, from, &[Memory::zeroed(4)], 1).unwrap();
        a.send(to, &[memory(1, 8)], TAG, 1);
        let done = outcome(&mut a, &mut b, op);
        assert_eq!(done.result, Err(OpError::TooLarge { size: 8, room: 4 }));
        // Several fragments.
        let two = [Memory::zeroed(3), Memory::zeroed(5)];
        let op = receive(&mut b, from, &two, 2).unwrap();
        a.send(to, &[memory(2, 8)], TAG, 2);
        assert_eq!(outcome(&mut a, &mut b, op).result, Ok(8));
        assert_eq!([two[0].to_vec(), two[1].to_vec()].concat(), bytes(2, 8));
        // A message that has to be announced, and one that has no bytes.
        let large = Memory::zeroed(1 << 20);
        for len in [1 << 20, 0] {
            let op = receive(&mut b, from, std::slice::from_ref(&large), 3).unwrap();
            a.send(to, &[memory(3, len)], TAG, 3);
            assert_eq!(outcome(&mut a, &mut b, op).result, Ok(len as u64));
        }
        assert_eq!(large.to_vec(), bytes(3, 1 << 20));
        // A message that has come before; those behind it keep their order.
        let before = b.bmi.event_count();
        for n in [4, 5] {
            a.send(to, &[memory(n, 8)], TAG, n as u64);
        }
        drive(&mut [&mut a, &mut b], |nodes| {
            nodes[1].bmi.event_count() >= before + 2
        });
        for n in [4, 5] {
            let into = Memory::zeroed(8);
            let posted = receive(&mut b, from, std::slice::from_ref(&into), n);
            assert_eq!((posted, into.to_vec()), (Err(8), bytes(n as usize, 8)));
        }
        // One that is cancelled; the message goes to the next.
        let into = [Memory::zeroed(8), Memory::zeroed(8)];
        let first = receive(&mut b, from, &into[..1], 6).unwrap();
        let second = receive(&mut b, from, &into[1..], 7).unwrap();
        b.bmi.cancel(first);
        let done = outcome(&mut a, &mut b, first);
        assert_eq!(done.result, Err(OpError::Cancelled));
        a.send(to, &[memory(7, 8)], TAG, 7);
        assert_eq!(outcome(&mut a, &mut b, second).result, Ok(8));
        assert_eq!(
            [into[0].to_vec(), into[1].to_vec()],
            [vec![0; 8], bytes(7, 8)]
        );
        // The sender is lost.
        let op = receive(&mut b, from, &into[..1], 8).unwrap();
        drop(a);
        drive(&mut [&mut b], |nodes| nodes[0].bmi.is_done(op));
        let done = b.bmi.test(op, NOW).unwrap().unwrap();
        assert!(matches!(done.result, Err(OpError::Peer { .. })), "{done:?}");
        let posted = b.bmi.post_recv(from, &into[..1], TAG, ALONE, 9);
        let refused = matches!(&posted, Ok(Posted::Complete(done)) if done.result.is_err());
        assert!(
            refused || matches!(posted, Err(Error::Stale(_))),
            "{posted:?}"
        );
        assert_eq!(b.bmi.get_info(None).operations, 0);
    }
}

#[test]
fn there_is_no_list_to_test_and_no_number_stands_for_it() {
    let (_client, mut b, _, from) = pair("unlisted-list", Config::default(), Options::default());
    let mut done = Vec::new();
    let tested = b.bmi.test_queue(ALONE, usize::MAX, NOW, &mut done);
    assert!(matches!(tested, Err(Error::Stale("context"))), "{tested:?}");
    assert!(!b.bmi.wait(ALONE, NOW));
    b.bmi.close_queue(ALONE);
    let op = receive(&mut b, from, &[Memory::zeroed(8)], 1).unwrap();
    assert!(!b.bmi.is_done(op));
    let number = Queue::from_raw(ALONE.to_raw());
    let posted = b.bmi.post_recv(from, &[Memory::zeroed(8)], TAG, number, 2);
    assert!(matches!(posted, Err(Error::Stale(_))), "{posted:?}");
}
