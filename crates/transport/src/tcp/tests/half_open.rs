//! Connections without a proof of the key: they cost other connections next to nothing, for every user.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use causeway_sys::net::Owners;
use causeway_wire::tcp::{HELLO_BYTES, Holder, Refusal, Step, StepKind};
use rustix::process::geteuid;

use super::support::*;
use crate::error::PeerError;
use crate::method::Method;
use crate::tcp::connection_setup::same_user;
use crate::tcp::handshake::{Handshake, Role};
use crate::trust::is_accepted_user;
use crate::trust::test_users::{as_user, users};

/// Connects again and again until `over`, and counts it. At most `most` connections are kept, which in turn send
/// nothing, half of a peer's greeting, and noise; every fourth ends at once.
fn flood(at: &str, most: usize, over: &AtomicBool, made: &AtomicUsize) {
    let mut idle: std::collections::VecDeque<TcpStream> = Default::default();
    while !over.load(Ordering::Relaxed) {
        if let Ok(mut stream) = TcpStream::connect(at) {
            let number = made.fetch_add(1, Ordering::Relaxed);
            let said = match number % 4 {
                0 => Vec::new(),
                1 => half_a_hello(),
                2 => pattern(number as u64, 500),
                _ => continue,
            };
            // The connection may have been refused already.
            let _ = stream.write_all(&said);
            idle.push_back(stream);
        }
        if idle.len() > most {
            idle.pop_front();
        }
    }
}

fn half_a_hello() -> Vec<u8> {
    let holder = Holder {
        pid: std::process::id(),
        descriptor: 3,
    };
    let mut hello = Handshake::new(Role::Initiator, config(None, true, holder)).take_output();
    hello.truncate(hello.len() / 2);
    hello
}

/// Ends floods when it is dropped.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_process_that_ends_in_the_handshake_is_no_stranger() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    let socket = OwnedFd::from(stream);
    let mut owners = Owners::default();
    let holder = Holder {
        pid: std::process::id(),
        descriptor: 0,
    };
    let mut ask = || same_user(&mut owners, &socket, holder);
    assert!(ask().is_ok());
    // The kernel closes the connections of an ended process: their replies may still be on their way.
    drop(other);
    let unverified = ask().unwrap_err();
    assert!(
        matches!(unverified.cause, PeerError::Broken(_)),
        "{unverified:?}"
    );
}

#[test]
fn without_a_key_other_users_are_refused_before_their_greeting() {
    assert!(is_accepted_user(7, 7) && is_accepted_user(0, 0));
    assert!(!is_accepted_user(8, 7) && !is_accepted_user(0, 7) && !is_accepted_user(7, 0));
    let mut server = Node::new(plain());
    let address = server.listen();
    for uid in users() {
        let streams: Vec<TcpStream> = as_user(uid, || {
            (0..100)
                .map(|_| TcpStream::connect(address.rest()).unwrap())
                .collect()
        });
        for_a_while(&mut [&mut server], 50);
        if uid == geteuid().as_raw() {
            assert_eq!(server.tcp.half_open.len(), streams.len());
            drop(streams);
            until(&mut [&mut server], |nodes| {
                nodes[0].tcp.half_open.len() == 0
            });
            continue;
        }
        assert_eq!(server.tcp.slots.len(), 0, "they take no place");
        for mut stream in streams {
            let mut said = Vec::new();
            stream.read_to_end(&mut said).unwrap();
            let (step, _) = Step::decode(&said[HELLO_BYTES..]).unwrap().unwrap();
            let refused = (StepKind::Refuse, Refusal::OtherUser);
            assert_eq!((step.kind, step.refusal), refused);
        }
    }
    assert!(server.seen.ups.is_empty());
}

/// While all available users flood the server, a peer gets its reply after a bounded number of polls, new peers
/// come up, and half-open connections stay within their limit.
#[test]
fn any_number_of_unproven_connections_does_not_disturb_peers() {
    for config in [plain(), keyed(true)] {
        let mut config = config;
        config.max_half_open = 64;
        let (mut client, mut server, to) = pair(config.clone(), config.clone());
        let address = client.tcp.address(to).unwrap();
        let back = server.seen.ups[0];
        let (over, made) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            // The floods end with this scope, also on failure.
            let _end = End(&over);
            for uid in users() {
                let (at, over, made) = (address.rest(), &over, &made);
                scope.spawn(move || as_user(uid, || flood(at, 300, over, made)));
            }
            until(&mut [&mut server], |nodes| {
                nodes[0].tcp.half_open.len() > 8 && made.load(Ordering::Relaxed) > 300
            });
            for round in 0..200_u32 {
                client.tcp.send(to, &[&round.to_le_bytes()]).unwrap();
                until(&mut [&mut client], |nodes| {
                    !nodes[0].tcp.slots.get(to).unwrap().session.has_output()
                });
                // The message is in the server's socket buffer: it is found among all others.
                let mut polls = 0;
                while server.seen.packets.is_empty() {
                    server.poll();
                    polls += 1;
                    assert!(polls < 40, "the peer waits for half-open connections");
                }
                server.seen.packets.clear();
                server.tcp.send(back, &[b"answer"]).unwrap();
                until(&mut [&mut client, &mut server], |nodes| {
                    !nodes[0].seen.packets.is_empty()
                });
                client.seen.packets.clear();
                assert!(server.tcp.half_open.len() <= 64);
            }
            for _ in 0..5 {
                let mut other = Node::new(config.clone());
                let to = other.tcp.connect(Instant::now(), &address).unwrap();
                let ups = server.seen.ups.len();
                // Where the kernel's queue is full of the flood's connections, or the flood is of the same user, a peer may have to
                // try again.
                until(&mut [&mut other, &mut server], |nodes| {
                    if nodes[0].tcp.slots.get(to).unwrap().link.is_none() {
                        nodes[0].tcp.send(to, &[b"let me in"]).unwrap();
                    }
                    nodes[1].seen.ups.len() > ups
                });
            }
            over.store(true, Ordering::Relaxed);
        });
        until(&mut [&mut server], |nodes| {
            nodes[0].tcp.half_open.len() == 0
        });
        assert!(client.seen.downs.is_empty(), "{:?}", client.seen.downs);
    }
}

/// Peers that connect while the server computes come up when it polls again, however many they are.
#[test]
fn callers_wait_for_a_server_that_computes() {
    for config in [plain(), keyed(true)] {
        let mut config = config;
        config.connect_timeout = Duration::from_millis(400);
        let mut server = Node::new(config.clone());
        let address = server.listen();
        config.connect_timeout = PATIENCE;
        let mut callers: Vec<Node> = (0..40).map(|_| Node::new(config.clone())).collect();
        for caller in &mut callers {
            let to = caller.tcp.connect(Instant::now(), &address).unwrap();
            caller.tcp.send(to, &[b"here I am"]).unwrap();
        }
        until(&mut [&mut server], |nodes| {
            nodes[0].tcp.half_open.len() == 40
        });
        // Its callers send their greetings, which it does not see.
        let mut nodes: Vec<&mut Node> = callers.iter_mut().collect();
        for_a_while(&mut nodes, 600);
        server.tcp.tick(Instant::now(), &mut server.seen);
        nodes.push(&mut server);
        until(&mut nodes, |nodes| nodes[40].seen.ups.len() == 40);
        assert!(callers.iter().all(|caller| caller.seen.downs.is_empty()));
    }
}

/// More callers from one host than it has processors, some of which compute before they reply, are no flood.
#[test]
fn many_callers_of_one_host_have_the_whole_time() {
    let config = plain();
    let mut server = Node::new(config);
    let address = server.listen();
    let _silent: Vec<TcpStream> = (0..40)
        .map(|_| TcpStream::connect(address.rest()).unwrap())
        .collect();
    for_a_while(&mut [&mut server], 1200);
    assert_eq!(server.tcp.half_open.len(), 40);
}
