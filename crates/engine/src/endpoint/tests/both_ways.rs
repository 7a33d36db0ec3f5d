//! Windows of messages in both directions at once, of sizes around the limits at which a message travels in another way.

use super::*;

/// Messages of a window; far more than a ring has room for.
const WINDOW: usize = 20;
/// Windows, so that costs are known before the last ones.
const ROUNDS: usize = 6;

/// Where whole messages, announced ones and split copies begin or end over shared memory.
fn sizes() -> impl Iterator<Item = usize> {
    let limits = [
        8 << 10,
        14 << 10,
        24 << 10,
        32 << 10,
        48 << 10,
        (64 << 10) - 256,
        64 << 10,
        128 << 10,
    ];
    limits
        .into_iter()
        .flat_map(|limit| [limit - 1, limit, limit + 1])
}

/// The seed of a message's content.
fn seed(sender: usize, round: usize, number: usize) -> usize {
    sender * 1000 + round * WINDOW + number
}

#[test]
fn windows_in_both_directions_arrive_in_order_at_every_size() {
    for medium in MEDIA {
        let (mut client, mut server, to, from) = pair_over(medium, "windows", Config::default());
        for (round, size) in sizes().flat_map(|size| (0..ROUNDS).map(move |round| (round, size))) {
            let into = [0, 1].map(|_| Vec::from_iter((0..WINDOW).map(|_| Memory::zeroed(size))));
            for (node, peer, into) in [(&mut client, to, &into[0]), (&mut server, from, &into[1])] {
                // The last receives are posted after their messages have arrived.
                let early = WINDOW - round.min(3);
                for (number, into) in into.iter().take(early).enumerate() {
                    node.recv(peer, std::slice::from_ref(into), 5, number as u64);
                }
            }
            for (which, (node, peer)) in [(&mut client, to), (&mut server, from)]
                .into_iter()
                .enumerate()
            {
                for number in 0..WINDOW {
                    let data = memory(seed(which, round, number), size);
                    node.send(peer, &[data], 5, (WINDOW + number) as u64);
                }
            }
            idle(&mut [&mut client, &mut server]);
            for (node, peer, into) in [(&mut client, to, &into[0]), (&mut server, from, &into[1])] {
                for (number, into) in into.iter().enumerate().skip(WINDOW - round.min(3)) {
                    node.recv(peer, std::slice::from_ref(into), 5, number as u64);
                }
            }
            drive(&mut [&mut client, &mut server], |nodes| {
                nodes.iter().all(|node| node.done.len() == 2 * WINDOW)
            });
            for (which, (node, into)) in [(&mut client, &into[0]), (&mut server, &into[1])]
                .into_iter()
                .enumerate()
            {
                for (number, into) in into.iter().enumerate() {
                    assert_eq!(node.result(number as u64), Some(&Ok(size as u64)));
                    let sent = bytes(seed(1 - which, round, number), size);
                    assert!(into.to_vec() == sent, "{medium:?} {size} {round} {number}");
                }
                node.done.clear();
            }
        }
    }
}

/// A receive without room for its message fails, and those around it do not.
#[test]
fn a_receive_that_is_too_small_fails_alone_in_both_directions() {
    let size = 40 << 10;
    let (mut client, mut server, to, from) = pair_over(Medium::Shm, "truncated", Config::default());
    for round in 0..ROUNDS {
        let small = 3 + round;
        for (node, peer) in [(&mut client, to), (&mut server, from)] {
            for number in 0..WINDOW {
                let room = if number == small { size - 1 } else { size };
                node.recv(peer, &[Memory::zeroed(room)], 5, number as u64);
            }
        }
        for (node, peer) in [(&mut client, to), (&mut server, from)] {
            for number in 0..WINDOW {
                node.send(peer, &[memory(number, size)], 5, (WINDOW + number) as u64);
            }
        }
        drive(&mut [&mut client, &mut server], |nodes| {
            nodes.iter().all(|node| node.done.len() == 2 * WINDOW)
        });
        for node in [&mut client, &mut server] {
            for number in 0..WINDOW {
                let result = node.result(number as u64).unwrap();
                let is_small = matches!(result, Err(OpError::TooLarge { .. }));
                assert_eq!(is_small, number == small, "{number}: {result:?}");
            }
            node.done.clear();
        }
    }
}

/// All operations of the one that is left end, and the messages that were received are whole.
#[test]
fn a_peer_that_leaves_amid_both_windows_leaves_no_operation_open() {
    let size = 60_000;
    for steps in [0, 1, 2, 5, 9] {
        let (mut client, mut server, to, from) =
            pair_over(Medium::Shm, "leaving", Config::default());
        let into = Vec::from_iter((0..WINDOW).map(|_| Memory::zeroed(size)));
        for (number, into) in into.iter().enumerate() {
            client.recv(to, std::slice::from_ref(into), 5, number as u64);
            server.recv(from, &[Memory::zeroed(size)], 5, number as u64);
        }
        for number in 0..WINDOW {
            client.send(to, &[memory(number, size)], 5, (WINDOW + number) as u64);
            server.send(from, &[memory(number, size)], 5, (WINDOW + number) as u64);
        }
        for _ in 0..steps {
            client.step();
            server.step();
        }
        drop(server);
        drive(&mut [&mut client], |nodes| {
            nodes[0].done.len() == 2 * WINDOW
        });
        for (number, into) in into.iter().enumerate() {
            if client.result(number as u64).unwrap().is_ok() {
                assert!(into.to_vec() == bytes(number, size), "{steps} {number}");
            }
        }
    }
}
