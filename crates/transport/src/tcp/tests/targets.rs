//! Peers with several addresses.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::support::*;
use crate::address::Address;
use crate::error::PeerError;
use crate::method::Method;
use crate::tcp::TcpConfig;

/// A listener whose queue is full, so that the kernel drops further callers' packets.
fn silent_listener() -> (Vec<OwnedFd>, Address) {
    let listener = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::STREAM,
        None,
    )
    .unwrap();
    let at: SocketAddr = "127.0.0.1:0".parse().unwrap();
    rustix::net::bind(&listener, &at).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let at = causeway_sys::net::local_address(&listener).unwrap();
    let callers = (0..4).map(|_| causeway_sys::net::connect(&at).unwrap());
    let mut kept: Vec<OwnedFd> = callers.collect();
    kept.push(listener);
    (kept, format!("tcp://{at}").parse().unwrap())
}

#[test]
fn an_address_that_does_not_reply_does_not_delay_the_others() {
    let (_kept, silent) = silent_listener();
    let mut server = Node::new(plain());
    let address = server.listen();
    let mut config = plain();
    config.connect_timeout = PATIENCE;
    let mut client = Node::new(config);
    // The kernel alone would repeat its packets to the first address for two minutes.
    let peer = client.tcp.connect(Instant::now(), &silent).unwrap();
    assert!(client.tcp.also_at(peer, &address));
    client.tcp.send(peer, &[b"hello"]).unwrap();
    until(&mut [&mut client, &mut server], |nodes| {
        !nodes[1].seen.packets.is_empty()
    });
    assert!(client.seen.downs.is_empty(), "{:?}", client.seen.downs);
    assert_eq!(server.seen.packets[0].1, b"hello");
}

/// Another program listens at the first address: it breaks the handshake off.
#[test]
fn an_address_at_which_another_program_listens_gives_way() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let first = format!("tcp://{}", other.local_addr().unwrap());
    let mut server = Node::new(plain());
    let address = server.listen();
    let mut client = Node::new(plain());
    let peer = client
        .tcp
        .connect(Instant::now(), &first.parse().unwrap())
        .unwrap();
    assert!(client.tcp.also_at(peer, &address));
    client.tcp.send(peer, &[b"hello"]).unwrap();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        stream
            .write_all(b"220 mail ready, and many more bytes than a handshake has ")
            .unwrap();
    });
    until(&mut [&mut client, &mut server], |nodes| {
        !nodes[1].seen.packets.is_empty()
    });
    answering.join().unwrap();
    assert!(client.seen.downs.is_empty(), "{:?}", client.seen.downs);
}

/// If it is the only address, that is an error.
#[test]
fn a_program_that_is_none_of_ours_is_an_error() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let first = format!("tcp://{}", other.local_addr().unwrap());
    let mut client = Node::new(plain());
    let peer = client
        .tcp
        .connect(Instant::now(), &first.parse().unwrap())
        .unwrap();
    client.tcp.send(peer, &[b"hello"]).unwrap();
    let (stream, _) = other.accept().unwrap();
    drop(stream);
    until(&mut [&mut client], |nodes| !nodes[0].seen.downs.is_empty());
}

/// Where the peer's process has refused this one, that is the reason that its user needs, also if another address does not reply, or nothing listens
/// there; and the address that has refused is not tried again and again meanwhile.
#[test]
fn the_reason_of_a_peer_that_refuses_is_reported() {
    let (_kept, silent) = silent_listener();
    let nobody = {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("tcp://{}", other.local_addr().unwrap())
    };
    for other in [silent, nobody.parse().unwrap()] {
        let mut server = Node::new(keyed(false));
        let address = server.listen();
        let mut client = Node::new(TcpConfig {
            key: Some([0x43; 32].into()),
            connect_timeout: Duration::from_secs(1),
            ..plain()
        });
        let peer = client.tcp.connect(Instant::now(), &address).unwrap();
        assert!(client.tcp.also_at(peer, &other));
        client.tcp.send(peer, &[b"hello"]).unwrap();
        until(&mut [&mut client, &mut server], |nodes| {
            !nodes[0].seen.downs.is_empty()
        });
        let cause = &client.seen.downs[0].1;
        assert!(matches!(cause, PeerError::Unauthorised(_)), "{cause:?}");
    }
}
