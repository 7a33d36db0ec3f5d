//! Bytes, silence and numbers that no honest peer sends.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::support::*;
use crate::error::PeerError;
use crate::method::{Access, Method, Registration};
use crate::session::MAIN;
use crate::tcp::handshake::{Handshake, Role};
use crate::tcp::link::LOCAL_AHEAD_BYTES;
use causeway_sys::memory::Memory;
use causeway_wire::tcp::{
    Fragment, GET_WINDOW, HEADER_BYTES, Header, Holder, Kind, MAX_PACKET, MAX_PIECE, PUT_WINDOW,
};
use std::os::fd::AsRawFd;

/// A connection made by hand that has come up without a key.
fn come_up(server: &mut Node, at: &str) -> TcpStream {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_nonblocking(true).unwrap();
    let holder = Holder {
        pid: std::process::id(),
        descriptor: stream.as_raw_fd() as u32,
    };
    let mut handshake = Handshake::new(Role::Initiator, config(None, true, holder));
    stream.write_all(&handshake.take_output()).unwrap();
    let ups = server.seen.ups.len();
    let mut buffer = [0; 1000];
    while server.seen.ups.len() == ups {
        server.poll();
        if let Ok(count) = stream.read(&mut buffer) {
            let _ = handshake.input(&buffer[..count], &mut |_| Ok(()));
            stream.write_all(&handshake.take_output()).unwrap();
        }
    }
    stream
}

/// Whether the server has closed the connection.
fn is_closed(stream: &mut TcpStream) -> bool {
    let mut buffer = [0; 1 << 16];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return false,
            Err(_) => return true,
        }
    }
}

fn still_works(server: &mut Node, address: &crate::address::Address) {
    let mut client = Node::new(server.tcp.config.clone());
    let peer = client.tcp.connect(Instant::now(), address).unwrap();
    client.tcp.send(peer, &[b"still there?"]).unwrap();
    let before = server.seen.packets.len();
    until(&mut [&mut client, server], |nodes| {
        nodes[1].seen.packets.len() > before
    });
    assert_eq!(server.seen.packets.last().unwrap().1, b"still there?");
}

#[test]
fn garbage_instead_of_a_handshake_is_dropped() {
    for config in [plain(), keyed(true)] {
        let mut server = Node::new(config);
        let address = server.listen();
        let mut streams: Vec<TcpStream> = (0..60_u64)
            .map(|seed| {
                let mut stream = TcpStream::connect(address.rest()).unwrap();
                stream.set_nonblocking(true).unwrap();
                let mut bytes = pattern(seed, 100 + 40 * seed as usize);
                if seed % 2 == 0 {
                    bytes[..8].copy_from_slice(b"causeway");
                    bytes[8..10].copy_from_slice(&1_u16.to_le_bytes());
                }
                let _ = stream.write_all(&bytes);
                stream
            })
            .collect();
        until(&mut [&mut server], |nodes| {
            nodes[0].tcp.half_open.len() == 0
        });
        for stream in &mut streams {
            let limit = std::time::Instant::now() + PATIENCE;
            while !is_closed(stream) {
                server.poll();
                assert!(std::time::Instant::now() < limit);
            }
        }
        assert!(server.seen.ups.is_empty());
        assert_eq!(server.tcp.slots.len(), 0, "nothing is kept");
        still_works(&mut server, &address);
    }
}

#[test]
fn a_client_that_sends_too_slowly_is_dropped() {
    let mut config = plain();
    config.connect_timeout = Duration::from_millis(300);
    let mut server = Node::new(config);
    let address = server.listen();
    let mut silent = TcpStream::connect(address.rest()).unwrap();
    let mut slow = TcpStream::connect(address.rest()).unwrap();
    for stream in [&silent, &slow] {
        stream.set_nonblocking(true).unwrap();
    }
    for byte in b"causeway" {
        let _ = slow.write_all(&[*byte]);
        for_a_while(&mut [&mut server], 60);
    }
    until(&mut [&mut server], |nodes| {
        nodes[0].tcp.half_open.len() == 0
    });
    until(&mut [&mut server], |_| {
        is_closed(&mut silent) && is_closed(&mut slow)
    });
    still_works(&mut server, &address);
}

#[test]
fn half_open_connections_do_not_lock_others_out() {
    let mut config = plain();
    config.max_half_open = 8;
    let mut server = Node::new(config);
    let address = server.listen();
    let idle: Vec<TcpStream> = (0..20)
        .map(|_| TcpStream::connect(address.rest()).unwrap())
        .collect();
    for_a_while(&mut [&mut server], 50);
    assert_eq!(
        server.tcp.half_open.len(),
        4,
        "one source has half of the places"
    );
    still_works(&mut server, &address);
    assert!(server.tcp.half_open.len() <= 4);
    drop(idle);
}

/// Sends `bytes` on a connection that has come up and returns how the server saw it end.
fn after_handshake(bytes: &[u8]) -> PeerError {
    let mut server = Node::new(plain());
    let address = server.listen();
    let mut stream = come_up(&mut server, address.rest());
    let peer = server.seen.ups[0];
    let memory = Memory::zeroed(100);
    server
        .tcp
        .grant(peer, &memory, Registration::NONE, Access::ReadWrite)
        .unwrap();
    let mut rest = bytes;
    until(&mut [&mut server], |nodes| {
        if let Ok(count) = stream.write(rest) {
            rest = &rest[count..];
        }
        if rest.is_empty() {
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
        !nodes[0].seen.downs.is_empty()
    });
    assert_eq!(memory.sharers(), 1, "exports end with the peer");
    assert_eq!(memory.to_vec(), [0; 100]);
    still_works(&mut server, &address);
    server.seen.downs.remove(0).1
}

fn assert_protocol(bytes: &[u8]) {
    let cause = after_handshake(bytes);
    assert!(matches!(cause, PeerError::Protocol(_)), "{cause:?}");
}

#[test]
fn frames_that_break_the_protocol_end_the_connection() {
    let mut oversize = Header::new(Kind::Packet, 0).encode();
    oversize[4..8].copy_from_slice(&(MAX_PACKET as u32 + 1).to_le_bytes());
    assert_protocol(&oversize);
    let mut huge = Header::new(Kind::Put, MAX_PIECE).encode();
    huge[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_protocol(&huge);
    assert_protocol(&[0xff; HEADER_BYTES]);
    assert_protocol(&[0; HEADER_BYTES]);
    assert_protocol(&Header::new(Kind::PutDone, 0).with_id(1).encode());
    assert_protocol(&Header::new(Kind::GetDone, 0).with_id(1).encode());
    assert_protocol(&Header::new(Kind::GetData, 5).with_id(1).encode());
    let mut empty_get = Header::new(Kind::Get, 24).with_id(1).encode().to_vec();
    empty_get.extend([0; 24]);
    assert_protocol(&empty_get);
    let puts: Vec<u8> = (0..=PUT_WINDOW as u64)
        .flat_map(|id| Header::new(Kind::Put, 0).with_id(id).encode())
        .collect();
    assert_protocol(&puts);
}

#[test]
fn truncated_frames_end_as_a_broken_connection() {
    let mut bytes = packet_frame(&[7; 500]);
    for len in [
        1,
        HEADER_BYTES - 1,
        HEADER_BYTES,
        HEADER_BYTES + 1,
        bytes.len() - 1,
    ] {
        let cause = after_handshake(&bytes[..len]);
        assert!(matches!(cause, PeerError::Broken(_)), "{len}: {cause:?}");
    }
    bytes.extend(Header::new(Kind::Put, MAX_PIECE).with_id(1).encode());
    bytes.extend([1; 5000]);
    let cause = after_handshake(&bytes);
    assert!(matches!(cause, PeerError::Broken(_)), "{cause:?}");
}

#[test]
fn flipped_bits_never_harm_other_peers() {
    let mut honest = packet_frame(b"one");
    honest.extend(Header::new(Kind::Put, 100).with_id(1).encode());
    honest.extend([3; 100]);
    honest.extend(Header::new(Kind::PutEnd, 0).with_id(1).encode());
    honest.extend(Header::new(Kind::Probe, 0).encode());
    for seed in 0..40_u64 {
        let mut bytes = honest.clone();
        let noise = pattern(seed, 9);
        for chunk in noise.chunks(3) {
            let at = usize::from(u16::from_le_bytes([chunk[0], chunk[1]])) % bytes.len();
            bytes[at] ^= 1 << (chunk[2] % 8);
        }
        after_handshake(&bytes);
    }
}

#[test]
fn a_peer_that_requests_and_never_reads_cannot_make_us_queue_without_bound() {
    let mut server = Node::new(plain());
    let address = server.listen();
    let mut stream = come_up(&mut server, address.rest());
    let peer = server.seen.ups[0];
    let memory = Memory::zeroed(1 << 20);
    let region = server
        .tcp
        .grant(peer, &memory, Registration::NONE, Access::ReadWrite)
        .unwrap();
    let list = Fragment {
        key: region.key,
        base: region.base,
        len: region.len,
    }
    .encode();
    let get = |id| [&Header::new(Kind::Get, 24).with_id(id).encode()[..], &list].concat();
    for id in 0..GET_WINDOW as u64 {
        stream.write_all(&get(id)).unwrap();
    }
    for_a_while(&mut [&mut server], 100);
    assert!(server.seen.downs.is_empty(), "the window is allowed");
    let session = &server.tcp.slots.get(peer).unwrap().session;
    assert!(session.outbox(MAIN).committed() <= LOCAL_AHEAD_BYTES + MAX_PIECE);
    // Confirmed puts and probes count as well.
    let flood: Vec<u8> = (0..100_000_u64)
        .flat_map(|id| {
            let end = Header::new(Kind::PutEnd, 0).with_id(id).encode();
            [end, Header::new(Kind::Probe, 0).encode()].concat()
        })
        .collect();
    let mut rest = &flood[..];
    until(&mut [&mut server], |nodes| {
        if let Ok(count) = stream.write(rest) {
            rest = &rest[count..];
        }
        !nodes[0].seen.downs.is_empty()
    });
    assert!(matches!(&server.seen.downs[0].1, PeerError::Protocol(_)));
}

#[test]
fn a_thousand_clients_come_and_vanish() {
    let mut server = Node::new(plain());
    let address = server.listen();
    for round in 0..20 {
        let streams: Vec<TcpStream> = (0..50)
            .map(|index| match (round + index) % 3 {
                0 => come_up(&mut server, address.rest()),
                1 => {
                    let mut stream = TcpStream::connect(address.rest()).unwrap();
                    let _ = stream.write_all(b"causeway");
                    stream
                }
                _ => TcpStream::connect(address.rest()).unwrap(),
            })
            .collect();
        drop(streams);
        server.poll();
    }
    until(&mut [&mut server], |nodes| {
        let node = &nodes[0];
        node.tcp.half_open.len() == 0 && node.seen.downs.len() == node.seen.ups.len()
    });
    assert!(server.seen.ups.len() > 300);
    for peer in std::mem::take(&mut server.seen.ups) {
        server
            .tcp
            .disconnect(Instant::now(), peer, &mut server.seen);
    }
    assert_eq!(server.tcp.slots.len(), 0);
    assert!(server.tcp.polled.is_empty());
    still_works(&mut server, &address);
}

#[test]
fn idle_connections_are_small() {
    let (mut server, mut client) = (Node::new(plain()), Node::new(plain()));
    let address = server.listen();
    let streams: Vec<TcpStream> = (0..100)
        .map(|_| come_up(&mut server, address.rest()))
        .collect();
    let peer = client.tcp.connect(Instant::now(), &address).unwrap();
    client.tcp.send(peer, &[&[1; MAX_PACKET]]).unwrap();
    until(&mut [&mut server, &mut client], |nodes| {
        !nodes[0].seen.packets.is_empty()
    });
    for_a_while(&mut [&mut server, &mut client], 20);
    for &peer in &server.seen.ups {
        let state = server.tcp.slots.get(peer).unwrap();
        assert!(state.session.owned_bytes() <= 8 * 1024);
    }
    assert!(size_of::<crate::tcp::slots::PeerState>() <= 2048);
    drop(streams);
}
