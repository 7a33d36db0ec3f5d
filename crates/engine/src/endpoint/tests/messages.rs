//! Messages that wait for their receives: probed, taken, sent synchronously.

use super::*;
use crate::Takes;
use crate::types::DirectReceive;

const TAG: Tag = 9;

#[test]
fn probes_find_what_receives_get() {
    for medium in MEDIA {
        let (mut a, mut b, to, from) = pair_over(medium, "probed", Config::default());
        let pattern = FromTag {
            peer: b.bmi.number(from).expect("the address was looked up"),
            tag: TAG,
        };
        assert_eq!(b.bmi.probe(pattern), None);
        let before = b.bmi.event_count();
        for (user, len) in [(1, 3), (2, 200_000)] {
            a.send(to, &[memory(len, len)], TAG, user);
        }
        drive(&mut [&mut a, &mut b], |nodes| {
            nodes[1].bmi.event_count() >= before + 2
        });
        for len in [3, 200_000] {
            let envelope = b.bmi.probe(pattern).expect("the message has arrived");
            assert_eq!((envelope.tag, envelope.size), (TAG, len as u64));
            assert_eq!(b.bmi.probe(pattern), Some(envelope), "it stays");
            let into = Memory::zeroed(len);
            b.recv(from, std::slice::from_ref(&into), TAG, 7);
            drive(&mut [&mut a, &mut b], |nodes| !nodes[1].done.is_empty());
            b.done.clear();
            assert_eq!(into.to_vec(), memory(len, len).to_vec());
        }
    }
}

#[test]
fn a_message_taken_by_a_probe_matches_no_other_receive() {
    for medium in MEDIA {
        let (mut a, mut b, to, from) = pair_over(medium, "taken", Config::default());
        let pattern = FromTag {
            peer: b.bmi.number(from).expect("the address was looked up"),
            tag: TAG,
        };
        let before = b.bmi.event_count();
        let lens = [100_000, 5, 6];
        for len in lens {
            a.send(to, &[memory(len, len)], TAG, 0);
        }
        drive(&mut [&mut a, &mut b], |nodes| {
            nodes[1].bmi.event_count() >= before + 3
        });
        let taken = lens.map(|len| {
            let (taken, envelope) = b
                .bmi
                .take_message(pattern)
                .expect("three messages have arrived");
            assert_eq!(envelope.size, len as u64);
            taken
        });
        assert_eq!(b.bmi.take_message(pattern), None);
        // In another order than they arrived in.
        for at in [2, 0, 1] {
            let into = Memory::zeroed(lens[at]);
            let memory_of = std::slice::from_ref(&into);
            let queue = b.context;
            let posted = b.bmi.receive_taken(taken[at], pattern, memory_of, queue, 0);
            if let Posted::Pending(_) = posted.expect("it is accepted") {
                drive(&mut [&mut a, &mut b], |nodes| !nodes[1].done.is_empty());
                b.done.clear();
            }
            assert_eq!(into.to_vec(), memory(lens[at], lens[at]).to_vec());
            let again = b.bmi.receive_taken(taken[at], pattern, memory_of, queue, 0);
            let again = again.expect("it is accepted");
            assert!(
                matches!(again, Posted::Complete(done) if done.result == Err(OpError::Withdrawn)),
                "a message is received once"
            );
        }
    }
}

#[test]
fn synchronous_sends_wait_for_their_receives() {
    for medium in MEDIA {
        let (mut a, mut b, to, from) = pair_over(medium, "synchronous", Config::default());
        for len in [0, 5, 100_000] {
            let queue = a.context;
            let before = b.bmi.event_count();
            let posted = (a.bmi).post_synchronous_send(to, &[memory(len, len)], TAG, queue, 3);
            assert!(matches!(posted, Ok(Posted::Pending(_))), "{len}");
            drive(&mut [&mut a, &mut b], |nodes| {
                nodes[1].bmi.event_count() != before
            });
            for _ in 0..20 {
                a.step();
                b.step();
            }
            assert!(a.done.is_empty(), "{len}: no receive was posted");
            let into = Memory::zeroed(len);
            b.recv(from, std::slice::from_ref(&into), TAG, 4);
            drive(&mut [&mut a, &mut b], |nodes| {
                nodes.iter().all(|node| !node.done.is_empty())
            });
            assert_eq!(into.to_vec(), memory(len, len).to_vec());
            a.done.clear();
            b.done.clear();
        }
    }
}

#[test]
fn unexpected_messages_are_news() {
    for medium in MEDIA {
        let (mut a, mut b, to, _) = pair_over(medium, "unexpected-news", Config::default());
        for len in [0, 3, 50_000] {
            let before = b.bmi.event_count();
            a.send_unexpected(to, &memory(len, len), TAG, 1);
            drive(&mut [&mut a, &mut b], |nodes| {
                nodes[1].bmi.event_count() != before
            });
        }
    }
}

#[test]
fn losses_are_news_and_name_the_peer() {
    let (mut a, b, to, _) = pair_over(Medium::Shm, "lost", Config::default());
    let before = a.bmi.event_count();
    assert_eq!((a.bmi.losses(), a.bmi.loss(to)), (0, None));
    drop(b);
    assert!(a.bmi.wait_for_event(before, Duration::from_secs(60)));
    assert_eq!(a.bmi.losses(), 1);
    assert!(a.bmi.loss(to).is_some());
}

#[test]
fn a_message_leaves_before_its_send_is_complete() {
    const MESSAGES: usize = 20;
    for medium in MEDIA {
        let (mut a, mut b, to, from) = pair_over(medium, "leaves", Config::default());
        // So few that they need no credit but what the first window has.
        for round in 0..8 {
            for n in 0..MESSAGES {
                a.send(to, &[memory(n, 8)], n as Tag, n as u64);
            }
            // One send waits for all acknowledgements, if it waits for any.
            let pending = MESSAGES - a.done.len();
            assert!(pending <= usize::from(medium == Medium::Tcp), "{pending}");
            match round % 2 {
                0 => drive(&mut [&mut a], |nodes| nodes[0].done.len() == MESSAGES),
                _ => a.bmi.flush(),
            }
            // The sender makes no progress from now on.
            for n in 0..MESSAGES {
                b.recv(from, &[Memory::zeroed(8)], n as Tag, n as u64);
            }
            drive(&mut [&mut b], |nodes| nodes[0].done.len() == MESSAGES);
            drive(&mut [&mut a], |nodes| nodes[0].done.len() == MESSAGES);
            a.done.clear();
            b.done.clear();
        }
    }
}

#[test]
fn a_send_that_is_held_ends_with_its_peer() {
    let (mut a, mut b, to, _) = pair_over(Medium::Tcp, "held", Config::default());
    idle(&mut [&mut a, &mut b]);
    let posted: Vec<_> = (0..3)
        .map(|n| a.bmi.post_send(to, &[memory(n, 8)], 1, a.context, 0))
        .collect();
    let [
        Ok(Posted::Complete(_)),
        Ok(Posted::Pending(op)),
        Ok(Posted::Complete(_)),
    ] = posted[..]
    else {
        panic!("the second and third stand behind the first: {posted:?}");
    };
    // A message that has left the caller's memory cannot be cancelled, and is lost with the connection.
    a.bmi.cancel(op);
    a.bmi.disconnect(to);
    idle(&mut [&mut a, &mut b]);
    assert!(
        matches!(&a.done[..], [done] if matches!(done.result, Err(OpError::Peer { .. }))),
        "{:?}",
        a.done
    );
}

#[test]
fn few_messages_are_held_that_a_receive_does_not_wait_for_while_a_peer_has_its_turn() {
    const MESSAGES: usize = 20;
    let mut server = node_over(Medium::Shm, "turns-server", Config::default());
    let mut clients = [(); 2].map(|()| node_over(Medium::Shm, "turns", Config::default()));
    let froms = clients.each_mut().map(|client| {
        let to = client.bmi.lookup(&server.bmi.listening()[0]).unwrap();
        (to, meet(client, &mut server, to))
    });
    let patterns = froms.map(|(_, from)| FromTag {
        peer: server.bmi.number(from).expect("it has called"),
        tag: TAG,
    });
    for n in 0..MESSAGES {
        for (client, (to, _)) in clients.iter_mut().zip(froms) {
            client.send(to, &[memory(n, 8)], TAG, n as u64);
        }
    }
    // One of the two is not that of the peer whose ring comes first.
    for ((_, from), pattern) in froms.into_iter().zip(patterns) {
        // So large that a receive is posted, beside which messages are held.
        let into = Memory::zeroed(32 << 10);
        let asked = (server.context, 0);
        let came = server
            .bmi
            .receive_directly(pattern, &into, asked, Takes::OneInTurn);
        match came {
            DirectReceive::Whole(bytes) => assert_eq!(bytes, 8),
            DirectReceive::Unusual => {
                server.recv(from, std::slice::from_ref(&into), TAG, 0);
                assert_eq!(server.done.drain(..).count(), 1, "it is held");
            }
            DirectReceive::Waits(_) => panic!("no peer is lost"),
        }
        assert_eq!(into.to_vec()[..8], bytes(0, 8));
    }
    let mut held = 0;
    for pattern in patterns {
        held += std::iter::from_fn(|| server.bmi.take_message(pattern)).count();
    }
    assert!(held <= 2, "{held} messages were taken for later");
}
