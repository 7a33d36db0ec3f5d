//! Subflows: extra connections with one peer.

use std::net::TcpStream;

use super::support::*;
use crate::error::{PeerError, TransferError};
use crate::method::{Access, Direction, Method, Peer, Registration, Transfer};
use crate::tcp::TcpConfig;
use crate::tcp::handshake::{Handshake, HandshakeConfig, Role};
use crate::tcp::slots::Origin;
use causeway_sys::memory::Memory;
use causeway_sys::net;
use causeway_wire::tcp::{Holder, TICKET_BYTES, Ticket};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::time::Instant;

const LARGE: usize = 3 << 20;

fn with_connections(config: TcpConfig, connections: u8) -> TcpConfig {
    TcpConfig {
        connections,
        ..config
    }
}

/// The established subflows of a node's peer.
fn standing(node: &Node, peer: Peer) -> Vec<Peer> {
    let state = node.tcp.slots.get(peer).unwrap();
    let mut subflows = state.subflows.clone();
    subflows.retain(|&subflow| {
        node.tcp
            .slots
            .get(subflow)
            .is_some_and(|state| state.is_up())
    });
    subflows
}

/// Starts a large transfer from the client and returns both sides' memory.
fn start(
    client: &mut Node,
    server: &mut Node,
    peer: Peer,
    direction: Direction,
    token: u64,
) -> (Memory, Memory) {
    let back = server.seen.ups[0];
    let ours = Memory::from_vec(pattern(token, LARGE));
    let theirs = Memory::from_vec(pattern(token + 1000, LARGE));
    let region = server
        .tcp
        .grant(back, &theirs, Registration::NONE, Access::ReadWrite)
        .unwrap();
    let transfer = Transfer {
        direction,
        local: vec![ours.slice(0..LARGE / 3), ours.slice(LARGE / 3..LARGE)].into(),
        remote: vec![region].into(),
        notify: Some(token.to_le_bytes().to_vec().into()),
        registrations: Vec::new(),
        token,
    };
    client.tcp.transfer(peer, transfer).unwrap();
    (ours, theirs)
}

/// Makes a large transfer, so that subflows are made, and waits for them.
fn met(config: &TcpConfig) -> (Node, Node, Peer) {
    let (mut client, mut server, peer) = pair(config.clone(), config.clone());
    send(&mut client, peer, b"hello", &mut server);
    until(&mut [&mut client, &mut server], |nodes| {
        !nodes[1].seen.packets.is_empty()
    });
    start(&mut client, &mut server, peer, Direction::Put, 7);
    let back = server.seen.ups[0];
    until(&mut [&mut client, &mut server], |nodes| {
        let both = [(0, peer), (1, back)];
        let stands = both.map(|(node, peer)| standing(nodes[node], peer).len() == 2);
        !nodes[0].seen.done.is_empty() && stands == [true; 2]
    });
    client.seen.done.clear();
    server.seen.packets.clear();
    (client, server, peer)
}

#[test]
fn large_transfers_use_them_and_arrive_whole() {
    for config in [plain(), keyed(false), keyed(true)] {
        let (mut client, mut server, peer) = met(&with_connections(config, 3));
        let report = client.tcp.report(peer).unwrap();
        let facts = report.facts.iter();
        let large = facts.clone().find(|fact| fact.0 == "large transfers");
        assert!(large.unwrap().1.contains("2 connections of their own"));
        for round in 0..6 {
            let direction = [Direction::Put, Direction::Get][round as usize % 2];
            let (ours, theirs) = start(&mut client, &mut server, peer, direction, round);
            send(&mut client, peer, b"between", &mut server);
            until(&mut [&mut client, &mut server], |nodes| {
                !nodes[0].seen.done.is_empty() && nodes[1].seen.packets.len() == 2
            });
            assert_eq!(client.seen.done.remove(0).2, Ok(()));
            assert!(ours.to_vec() == theirs.to_vec());
            let kept = match direction {
                Direction::Put => round,
                Direction::Get => round + 1000,
            };
            assert!(ours.to_vec() == pattern(kept, LARGE));
            server.seen.packets.clear();
        }
        assert_eq!(
            server.seen.ups.len(),
            1,
            "subflows are no peers of their own"
        );
        assert!(client.seen.downs.is_empty() && server.seen.downs.is_empty());
    }
}

#[test]
fn the_side_that_was_connected_to_uses_them_too() {
    let (mut client, mut server, peer) = met(&with_connections(plain(), 3));
    let back = server.seen.ups[0];
    let ours = Memory::from_vec(pattern(1, LARGE));
    let region = client
        .tcp
        .grant(peer, &ours, Registration::NONE, Access::ReadWrite)
        .unwrap();
    for (token, direction) in [(1, Direction::Get), (2, Direction::Put)] {
        let theirs = Memory::zeroed(LARGE);
        let transfer = Transfer {
            direction,
            local: vec![theirs.clone()].into(),
            remote: vec![region].into(),
            registrations: Vec::new(),
            notify: None,
            token,
        };
        server.tcp.transfer(back, transfer).unwrap();
        until(&mut [&mut client, &mut server], |nodes| {
            nodes[1].seen.done.len() == token as usize
        });
        assert_eq!(server.seen.done[token as usize - 1].2, Ok(()));
        assert!(ours.to_vec() == theirs.to_vec());
    }
}

#[test]
fn a_side_that_allows_one_connection_decides() {
    let (mut client, mut server, peer) =
        pair(with_connections(plain(), 4), with_connections(plain(), 1));
    send(&mut client, peer, b"hello", &mut server);
    until(&mut [&mut client, &mut server], |nodes| {
        !nodes[1].seen.packets.is_empty()
    });
    start(&mut client, &mut server, peer, Direction::Put, 7);
    until(&mut [&mut client, &mut server], |nodes| {
        !nodes[0].seen.done.is_empty()
    });
    assert!(client.tcp.slots.get(peer).unwrap().subflows.is_empty());
}

#[test]
fn the_end_of_one_subflow_is_the_end_of_the_peer() {
    for victim in 0..2 {
        let config = TcpConfig {
            linger_timeout: std::time::Duration::from_millis(200),
            ..with_connections(keyed(true), 3)
        };
        let (mut client, mut server, peer) = met(&config);
        let back = server.seen.ups[0];
        start(&mut client, &mut server, peer, Direction::Get, 9);
        let subflow = standing(&client, peer)[victim];
        let link = client
            .tcp
            .slots
            .get(subflow)
            .unwrap()
            .link
            .as_ref()
            .unwrap();
        net::shut_writing(&link.socket).unwrap();
        until(&mut [&mut client, &mut server], |nodes| {
            nodes.iter().all(|node| !node.seen.downs.is_empty())
        });
        assert!(matches!(server.seen.downs[0], (of, PeerError::Broken(_)) if of == back));
        assert_eq!(client.seen.done.len(), 1);
        let broken = |result: &Result<(), TransferError>| {
            matches!(result, Ok(()) | Err(TransferError::Peer(_)))
        };
        assert!(broken(&client.seen.done[0].2));
        // The old incarnation has no subflow left, and a new one comes up with subflows of its own.
        assert_eq!(client.tcp.slots.len(), 1);
        client.seen.done.clear();
        server.seen.packets.clear();
        send(&mut client, peer, b"again", &mut server);
        until(&mut [&mut client, &mut server], |nodes| {
            !nodes[1].seen.packets.is_empty()
        });
        server.seen.ups.remove(0);
        start(&mut client, &mut server, peer, Direction::Put, 11);
        until(&mut [&mut client, &mut server], |nodes| {
            !nodes[0].seen.done.is_empty() && standing(nodes[0], peer).len() == 2
        });
        assert_eq!(client.seen.done[0].2, Ok(()));
    }
}

#[test]
fn packets_before_a_graceful_end_are_delivered_though_subflows_close_first() {
    let (mut client, mut server, peer) = met(&with_connections(plain(), 3));
    for number in 0..30_u32 {
        let mut packet = vec![0; 50_000];
        packet[..4].copy_from_slice(&number.to_le_bytes());
        while client.tcp.send(peer, &[&packet]).is_err() {
            client.poll();
        }
    }
    client
        .tcp
        .disconnect(Instant::now(), peer, &mut client.seen);
    until(&mut [&mut client, &mut server], |nodes| {
        !nodes[1].seen.downs.is_empty()
    });
    assert_eq!(server.seen.packet_numbers(), (0..30).collect::<Vec<_>>());
    assert_eq!(server.seen.downs[0].1, PeerError::Closed);
}

#[test]
fn an_unknown_ticket_opens_no_subflow() {
    let (mut client, mut server, _) = met(&with_connections(plain(), 3));
    let address = match &client.tcp.slots.iter_mut().next().unwrap().origin {
        Origin::Connected(targets) => targets.current().unwrap(),
        _ => panic!("the peer comes first"),
    };
    let slots = server.tcp.slots.len();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nonblocking(true).unwrap();
    let holder = Holder {
        pid: std::process::id(),
        descriptor: stream.as_raw_fd() as u32,
    };
    let mut handshake = Handshake::new(
        Role::Initiator,
        HandshakeConfig {
            ticket: Some(Ticket([9; TICKET_BYTES])),
            connections: 3,
            ..config(None, false, holder)
        },
    );
    stream.write_all(&handshake.take_output()).unwrap();
    let mut buffer = [0; 1000];
    until(&mut [&mut server], |_| match stream.read(&mut buffer) {
        Ok(0) => true,
        Ok(count) => {
            let _ = handshake.input(&buffer[..count], &mut |_| Ok(()));
            stream.write_all(&handshake.take_output()).unwrap();
            false
        }
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    });
    assert_eq!(server.tcp.slots.len(), slots);
    assert_eq!(server.tcp.half_open.len(), 0);
    assert!(server.seen.downs.is_empty(), "its peers are not concerned");
}
