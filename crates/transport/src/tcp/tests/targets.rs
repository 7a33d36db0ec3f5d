//! Peers with several addresses.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Instant;

use super::support::*;
use crate::address::Address;
use crate::method::Method;

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
