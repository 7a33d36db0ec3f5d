//! The method over real sockets. What holds for every method is in `causeway-testkit`'s conformance
//! suite; here is what is particular to TCP.

mod half_open;
mod hostile;
mod nodes;
mod remote_memory;
mod subflows;
mod support;
mod targets;
mod trust;
mod users;

use support::*;

use super::*;
use crate::error::PeerError;

#[test]
fn packets_arrive_in_order_and_answers_come_back() {
    let (mut client, mut server, peer) = pair(plain(), plain());
    for number in 0..2000_u32 {
        send(&mut client, peer, &number.to_le_bytes(), &mut server);
    }
    until(&mut [&mut client, &mut server], |nodes| {
        nodes[1].seen.packets.len() == 2000
    });
    let numbers: Vec<u32> = server.seen.packet_numbers();
    assert_eq!(numbers, (0..2000).collect::<Vec<_>>());
    let back = server.seen.packets[0].0;
    assert_eq!(server.seen.ups, [back]);
    send(&mut server, back, b"answer", &mut client);
    until(&mut [&mut client, &mut server], |nodes| {
        !nodes[0].seen.packets.is_empty()
    });
    assert_eq!(client.seen.packets[0], (peer, b"answer".to_vec()));
}

#[test]
fn packets_of_every_length_and_many_parts_arrive_whole() {
    for config in [plain(), keyed(true), keyed(false)] {
        let (mut client, mut server, peer) = pair(config.clone(), config);
        let lengths = [0, 1, 31, 32, 33, 4096, 20_000, MAX_PACKET - 1, MAX_PACKET];
        for len in lengths {
            let bytes = pattern(len as u64, len);
            let parts: Vec<&[u8]> = bytes.chunks((len / 100).max(1)).collect();
            loop {
                match client.tcp.send(peer, &parts) {
                    Ok(()) => break,
                    Err(SendError::WouldBlock) => {
                        client.poll();
                        server.poll();
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }
        until(&mut [&mut client, &mut server], |nodes| {
            nodes[1].seen.packets.len() == lengths.len()
        });
        for (len, (_, bytes)) in lengths.iter().zip(&server.seen.packets) {
            assert_eq!(*bytes, pattern(*len as u64, *len));
        }
        assert_eq!(
            client.tcp.send(peer, &[&vec![0; MAX_PACKET + 1]]),
            Err(SendError::TooLarge {
                len: MAX_PACKET + 1,
                limit: MAX_PACKET
            })
        );
    }
}

#[test]
fn a_process_sends_to_itself_in_one_poll_loop() {
    let mut node = Node::new(plain());
    let address = node.listen();
    let peer = node.tcp.connect(Instant::now(), &address).unwrap();
    assert_eq!(
        node.tcp.connect(Instant::now(), &address).unwrap(),
        peer,
        "same handle"
    );
    node.tcp.send(peer, &[b"me"]).unwrap();
    until(&mut [&mut node], |nodes| !nodes[0].seen.packets.is_empty());
    let (back, bytes) = node.seen.packets[0].clone();
    assert_ne!(back, peer);
    assert_eq!(bytes, b"me");
    node.tcp.send(back, &[b"too"]).unwrap();
    until(&mut [&mut node], |nodes| nodes[0].seen.packets.len() == 2);
    assert_eq!(node.seen.packets[1], (peer, b"too".to_vec()));
}

#[test]
fn a_peer_that_stops_reading_blocks_only_its_own_packets() {
    let (mut client, mut server, peer) = pair(plain(), plain());
    let mut other = Node::new(plain());
    let other_address = other.listen();
    let other_peer = client.tcp.connect(Instant::now(), &other_address).unwrap();
    let packet = vec![7; 60_000];
    let mut accepted = 0;
    let mut polls_in_vain = 0;
    // The kernel still takes some after it has refused: it acknowledges late.
    while polls_in_vain < 200 {
        match client.tcp.send(peer, &[&packet]) {
            Ok(()) => accepted += 1,
            Err(SendError::WouldBlock) if client.poll() => polls_in_vain = 0,
            Err(SendError::WouldBlock) => {
                polls_in_vain += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => panic!("{error}"),
        }
        assert!(accepted < 10_000, "nothing holds the sender back");
    }
    client.seen.writables.clear();
    send(&mut client, other_peer, b"unhindered", &mut other);
    until(&mut [&mut client, &mut other], |nodes| {
        !nodes[1].seen.packets.is_empty()
    });
    assert!(client.seen.writables.is_empty());
    until(&mut [&mut client, &mut server], |nodes| {
        nodes[1].seen.packets.len() == accepted && !nodes[0].seen.writables.is_empty()
    });
    assert_eq!(client.seen.writables, [peer]);
    assert!(client.tcp.send(peer, &[&packet]).is_ok());
}

#[test]
fn packets_before_a_graceful_end_are_delivered() {
    for drops_everything in [true, false] {
        let (mut client, mut server, peer) = pair(plain(), plain());
        for number in 0..30_u32 {
            let mut packet = vec![0; 50_000];
            packet[..4].copy_from_slice(&number.to_le_bytes());
            while client.tcp.send(peer, &[&packet]) == Err(SendError::WouldBlock) {
                client.poll();
            }
        }
        if drops_everything {
            let reader = std::thread::spawn(move || {
                until(&mut [&mut server], |nodes| !nodes[0].seen.downs.is_empty());
                server
            });
            drop(client);
            server = reader.join().unwrap();
        } else {
            client
                .tcp
                .disconnect(Instant::now(), peer, &mut client.seen);
            assert!(client.seen.downs.is_empty(), "no report of our own deed");
            until(&mut [&mut client, &mut server], |nodes| {
                !nodes[1].seen.downs.is_empty()
            });
        }
        assert_eq!(
            server.seen.packet_numbers(),
            (0..30).collect::<Vec<_>>(),
            "all at once: {drops_everything}"
        );
        assert_eq!(server.seen.downs[0].1, PeerError::Closed);
    }
}

#[test]
fn nobody_listening_is_reported_and_a_later_listener_is_found() {
    let mut server = Node::new(plain());
    let address = server.listen();
    drop(server);
    let mut client = Node::new(plain());
    let peer = client.tcp.connect(Instant::now(), &address).unwrap();
    client.tcp.send(peer, &[b"lost"]).unwrap();
    until(&mut [&mut client], |nodes| !nodes[0].seen.downs.is_empty());
    assert!(
        matches!(client.seen.downs[0], (p, PeerError::Refused(_)) if p == peer),
        "{:?}",
        client.seen.downs
    );
    let mut server = Node::new(plain());
    server.tcp.listen(&address).unwrap();
    client.tcp.send(peer, &[b"found"]).unwrap();
    until(&mut [&mut client, &mut server], |nodes| {
        !nodes[1].seen.packets.is_empty()
    });
    assert_eq!(server.seen.packets[0].1, b"found");
}

#[test]
fn who_is_silent_is_read_less_often_and_soon_again_once_it_speaks() {
    use super::progress::{POLLS_PER_LUKEWARM, YIELD_AFTER_MISSES};
    let mut server = Node::new(plain());
    let address = server.listen();
    let mut clients = [Node::new(plain()), Node::new(plain())];
    let mut peers = Vec::new();
    for client in &mut clients {
        peers.push(client.tcp.connect(Instant::now(), &address).unwrap());
    }
    let all_speak = |server: &mut Node, clients: &mut [Node; 2]| {
        for (client, peer) in clients.iter_mut().zip(&peers) {
            send(client, *peer, b"hello", server);
            let before = server.seen.packets.len();
            until(&mut [client, server], |nodes| {
                nodes[1].seen.packets.len() > before
            });
        }
    };
    all_speak(&mut server, &mut clients);
    let silent = server.seen.packets[0].0;
    let misses = |server: &Node| server.tcp.slots.get(silent).unwrap().misses;
    // Where the second has taken its time, the first may be about to be left to epoll.
    while server.tcp.polled.len() < 2 || misses(&server) > 1000 {
        all_speak(&mut server, &mut clients);
    }
    while misses(&server) < YIELD_AFTER_MISSES {
        server.poll();
    }
    let before = misses(&server);
    for _ in 0..10 * POLLS_PER_LUKEWARM {
        server.poll();
    }
    assert_eq!(misses(&server), before + 10);
    let [client, _] = &mut clients;
    let seen = server.seen.packets.len();
    send(client, peers[0], b"again", &mut server);
    until(&mut [client, &mut server], |nodes| {
        nodes[1].seen.packets.len() > seen
    });
    assert_eq!((server.seen.packets[seen].0, misses(&server)), (silent, 0));
}

#[test]
fn a_restarted_listener_is_a_new_incarnation_of_the_same_handle() {
    let (client, mut server, peer) = pair(plain(), plain());
    let mut client = client;
    let address = client.tcp.address(peer).unwrap();
    let region = client
        .tcp
        .grant(
            peer,
            &Memory::zeroed(10),
            Registration::NONE,
            Access::ReadWrite,
        )
        .unwrap();
    for round in 0..3 {
        send(&mut client, peer, b"hello", &mut server);
        until(&mut [&mut client, &mut server], |nodes| {
            !nodes[1].seen.packets.is_empty()
        });
        drop(server);
        until(&mut [&mut client], |nodes| {
            nodes[0].seen.downs.len() == round + 1
        });
        assert_eq!(client.seen.downs[round], (peer, PeerError::Closed));
        server = Node::new(plain());
        server.tcp.listen(&address).unwrap();
    }
    client.tcp.revoke(peer, region.key);
}

#[test]
fn sleeping_ends_when_something_comes() {
    let (mut client, mut server, peer) = pair(plain(), plain());
    // A connection that was quiet for long is left to epoll.
    for _ in 0..10_000 {
        server.poll();
    }
    assert!(server.tcp.arm(Instant::now()));
    assert!(!server.readable(), "nothing is there yet");
    server.tcp.disarm();
    assert!(server.tcp.arm(Instant::now()));
    send(&mut client, peer, b"wake", &mut Node::new(plain()));
    let sleeper = std::thread::spawn(move || {
        let limit = Instant::now() + PATIENCE;
        while !server.readable() {
            assert!(Instant::now() < limit, "nothing woke the sleeper");
        }
        server.tcp.disarm();
        server.poll();
        assert_eq!(server.seen.packets.len(), 1);
    });
    while !sleeper.is_finished() {
        client.poll();
    }
    sleeper.join().unwrap();
}

#[test]
fn limits_count_the_time_that_the_caller_gives() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address: Address = format!("tcp://{}", silent.local_addr().unwrap())
        .parse()
        .unwrap();
    let mut node = Node::new(plain());
    let start = Instant::now();
    let peer = node.tcp.connect(start, &address).unwrap();
    node.tcp.send(peer, &[b"hello"]).unwrap();
    let limit = node.tcp.config.connect_timeout;
    assert_eq!(node.tcp.deadline(), Some(start + limit));
    let almost = start + limit - Duration::from_millis(1);
    node.tcp.tick(almost, &mut node.seen);
    node.tcp.poll(almost, &mut node.seen);
    assert!(node.seen.downs.is_empty(), "{:?}", node.seen.downs);
    node.tcp.tick(start + limit, &mut node.seen);
    let limit_ms = limit.as_millis() as u64;
    assert_eq!(node.seen.downs, [(peer, PeerError::TimedOut(limit_ms))]);
    // Time that goes backwards stands still: the next attempt begins at the latest time.
    node.tcp.set_time(start);
    node.tcp.send(peer, &[b"hello again"]).unwrap();
    assert_eq!(node.tcp.deadline(), Some(start + 2 * limit));
}
