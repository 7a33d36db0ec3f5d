//! Transfers: lists, order, protection, revocation, death.

use super::support::*;
use crate::error::{PeerError, TransferError};
use crate::method::{Access, Direction, Method, Peer, Registration};
use crate::tcp::{Liveness, TcpConfig};
use causeway_sys::memory::{Memory, with_foreign_read_only};
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

#[test]
fn lists_of_unequal_fragments_move_both_ways_with_one_completion() {
    for config in [plain(), keyed(true), keyed(false)] {
        let (mut client, mut server, peer) = pair(config.clone(), config);
        let back = server.seen.ups[0];
        let theirs = Memory::zeroed(6 * MIB);
        let region = server
            .tcp
            .grant(back, &theirs, Registration::NONE, Access::ReadWrite)
            .unwrap();
        let data = pattern(1, 3 * MIB + 777);
        let ours = Memory::from_vec(data.clone());
        let local = [
            ours.slice(0..1),
            ours.slice(1..1),
            ours.slice(1..MIB),
            ours.slice(MIB..data.len()),
        ];
        let split = 2 * MIB as u64 + 13;
        let remote = [
            region.part(100, 50),
            region.part(1000, 0),
            region.part(2 * MIB as u64, data.len() as u64 - 50 - 7),
            region.part(0, 7),
        ];
        let put = transfer(Direction::Put, &local, &remote, Some(b"put"), 1);
        client.tcp.transfer(peer, put).unwrap();
        until(&mut [&mut client, &mut server], |nodes| {
            !nodes[0].seen.done.is_empty()
        });
        assert_eq!(client.seen.done, [(peer, 1, Ok(()))]);
        assert_eq!(server.seen.packets, [(back, b"put".to_vec())]);
        assert_eq!(theirs.slice(100..150).to_vec(), &data[..50]);
        let end = 2 * MIB + data.len() - 57;
        assert_eq!(
            theirs.slice(2 * MIB..end).to_vec(),
            &data[50..data.len() - 7]
        );
        assert_eq!(theirs.slice(0..7).to_vec(), &data[data.len() - 7..]);

        let into = Memory::zeroed(data.len());
        let local = [
            into.slice(0..split as usize),
            into.slice(split as usize..data.len()),
        ];
        let get = transfer(Direction::Get, &local, &remote, Some(b"got"), 2);
        client.tcp.transfer(peer, get).unwrap();
        until(&mut [&mut client, &mut server], |nodes| {
            nodes[1].seen.packets.len() == 2
        });
        assert_eq!(client.seen.done[1..], [(peer, 2, Ok(()))]);
        assert_eq!(server.seen.packets[1].1, b"got");
        assert!(into.to_vec() == data);
        assert_eq!((ours.sharers(), into.sharers()), (5, 3), "nothing is kept");
    }
}

#[test]
fn lent_memory_is_no_target() {
    let (mut client, mut server, peer) = pair(plain(), plain());
    let back = server.seen.ups[0];
    let far = Memory::from_vec(vec![1; 8192]);
    let region = server
        .tcp
        .grant(back, &far, Registration::NONE, Access::ReadWrite)
        .unwrap();
    with_foreign_read_only(&[9; 8192], |memory| {
        let local = std::slice::from_ref(memory);
        let get = transfer(Direction::Get, local, &[region], Some(b"no"), 1);
        client.tcp.transfer(peer, get).unwrap();
        let put = transfer(Direction::Put, local, &[region], None, 2);
        client.tcp.transfer(peer, put).unwrap();
        until(&mut [&mut client, &mut server], |nodes| {
            nodes[0].seen.done.len() == 2
        });
        let refused = &client.seen.done[0];
        assert!(
            matches!(refused, (_, 1, Err(TransferError::Copy(_)))),
            "{refused:?}"
        );
        assert_eq!(client.seen.done[1], (peer, 2, Ok(())));
        for access in [Access::Write, Access::ReadWrite] {
            assert!(
                client
                    .tcp
                    .grant(peer, memory, Registration::NONE, access)
                    .is_err()
            );
        }
        let read = client
            .tcp
            .grant(peer, memory, Registration::NONE, Access::Read)
            .unwrap();
        client.tcp.revoke(peer, read.key);
    });
    assert_eq!(far.to_vec(), [9; 8192]);
    assert!(server.seen.packets.is_empty());
}

#[test]
fn many_small_fragments_are_one_transfer() {
    let (mut client, mut server, peer) = pair(plain(), plain());
    let back = server.seen.ups[0];
    let count = 20_000;
    let theirs = Memory::zeroed(count * 64);
    let region = server
        .tcp
        .grant(back, &theirs, Registration::NONE, Access::ReadWrite)
        .unwrap();
    let data = pattern(3, count * 32);
    let ours = Memory::from_vec(data.clone());
    let remote: Vec<_> = (0..count as u64)
        .map(|at| region.part(at * 64, 32))
        .collect();
    let put = transfer(Direction::Put, &[ours], &remote, None, 1);
    client.tcp.transfer(peer, put).unwrap();
    let into = Memory::zeroed(data.len());
    until(&mut [&mut client, &mut server], |nodes| {
        nodes[0].seen.done.len() == 1
    });
    let get = transfer(
        Direction::Get,
        std::slice::from_ref(&into),
        &remote,
        None,
        2,
    );
    client.tcp.transfer(peer, get).unwrap();
    until(&mut [&mut client, &mut server], |nodes| {
        nodes[0].seen.done.len() == 2
    });
    assert!(client.seen.done.iter().all(|(_, _, result)| result.is_ok()));
    assert!(into.to_vec() == data);
}

#[test]
fn empty_and_unequal_lists_complete_too() {
    let (mut client, mut server, peer) = pair(plain(), plain());
    for (token, direction) in [(1, Direction::Put), (2, Direction::Get)] {
        let empty = transfer(direction, &[], &[], Some(b"empty"), token);
        client.tcp.transfer(peer, empty).unwrap();
        let unequal = transfer(
            direction,
            &[Memory::zeroed(3)],
            &[],
            Some(b"no"),
            token + 10,
        );
        client.tcp.transfer(peer, unequal).unwrap();
    }
    until(&mut [&mut client, &mut server], |nodes| {
        nodes[0].seen.done.len() == 4 && nodes[1].seen.packets.len() == 2
    });
    client.seen.done.sort_by_key(|(_, token, _)| *token);
    let unequal = Err(TransferError::Length {
        local: 3,
        remote: 0,
    });
    let results: Vec<_> = client.seen.done.iter().map(|done| done.2.clone()).collect();
    assert_eq!(results, [Ok(()), Ok(()), unequal.clone(), unequal]);
}

#[test]
fn access_beyond_an_export_is_refused_and_the_connection_lives() {
    let (mut client, mut server, peer) = pair(plain(), plain());
    let mut other = Node::new(plain());
    let address = client.tcp.address(peer).unwrap();
    let other_peer = other.tcp.connect(Instant::now(), &address).unwrap();
    other.tcp.send(other_peer, &[b"first"]).unwrap();
    until(&mut [&mut other, &mut server], |nodes| {
        nodes[1].seen.ups.len() == 2
    });
    let (back, back_other) = (server.seen.ups[0], server.seen.ups[1]);
    server.seen.packets.clear();
    let theirs = Memory::zeroed(1000);
    let export = |server: &mut Node, to, access| {
        server
            .tcp
            .grant(to, &theirs, Registration::NONE, access)
            .unwrap()
    };
    let all = export(&mut server, back, Access::ReadWrite);
    let read = export(&mut server, back, Access::Read);
    let write = export(&mut server, back, Access::Write);
    let foreign = export(&mut server, back_other, Access::ReadWrite);
    let ended = export(&mut server, back, Access::ReadWrite);
    server.tcp.revoke(back, ended.key);
    let mut beyond = all;
    beyond.base += 1;
    let mut far = all;
    far.base = u64::MAX - 10;
    let mut unknown = all;
    unknown.key ^= 1;
    let both = [beyond, far, foreign, ended, unknown];
    let attempts = both
        .iter()
        .flat_map(|region| [(Direction::Put, *region), (Direction::Get, *region)])
        .chain([(Direction::Put, read), (Direction::Get, write)]);
    let mut token = 0;
    for (direction, region) in attempts {
        token += 1;
        let local = [Memory::from_vec(vec![9; 1000])];
        let bad = transfer(direction, &local, &[region], Some(b"never"), token);
        client.tcp.transfer(peer, bad).unwrap();
    }
    until(&mut [&mut client, &mut server], |nodes| {
        nodes[0].seen.done.len() == token as usize
    });
    for (_, token, result) in &client.seen.done {
        assert_eq!(*result, Err(TransferError::Protection), "attempt {token}");
    }
    assert_eq!(theirs.to_vec(), vec![0; 1000]);
    let good = transfer(
        Direction::Put,
        &[Memory::from_vec(vec![9; 1000])],
        &[all],
        None,
        99,
    );
    client.tcp.transfer(peer, good).unwrap();
    until(&mut [&mut client, &mut server], |nodes| {
        nodes[0].seen.done.last().is_some_and(|done| done.1 == 99)
    });
    assert_eq!(client.seen.done.last().unwrap().2, Ok(()));
    assert_eq!(theirs.to_vec(), vec![9; 1000]);
    assert!(
        server.seen.packets.is_empty(),
        "a refused put sends no notification"
    );
}

#[test]
fn ending_an_export_stops_a_transfer_in_the_middle() {
    for direction in [Direction::Put, Direction::Get] {
        let (mut client, mut server, peer) = pair(plain(), plain());
        let back = server.seen.ups[0];
        let len = 64 * MIB;
        let theirs = Memory::from_vec(vec![1; len]);
        let region = server
            .tcp
            .grant(back, &theirs, Registration::NONE, Access::ReadWrite)
            .unwrap();
        let ours = Memory::from_vec(vec![2; len]);
        let long = transfer(
            direction,
            std::slice::from_ref(&ours),
            &[region],
            Some(b"no"),
            1,
        );
        client.tcp.transfer(peer, long).unwrap();
        for _ in 0..20 {
            client.poll();
            server.poll();
        }
        assert!(client.seen.done.is_empty(), "too fast for this test");
        server.tcp.revoke(back, region.key);
        assert_eq!(theirs.sharers(), 1, "nothing may touch it any more");
        theirs.clear();
        until(&mut [&mut client, &mut server], |nodes| {
            !nodes[0].seen.done.is_empty()
        });
        assert_eq!(client.seen.done[0].2, Err(TransferError::Protection));
        assert!(theirs.to_vec().iter().all(|&byte| byte == 0));
        assert!(server.seen.packets.is_empty());
        send(&mut client, peer, b"alive", &mut server);
        until(&mut [&mut client, &mut server], |nodes| {
            !nodes[1].seen.packets.is_empty()
        });
    }
}

#[test]
fn a_packet_overtakes_megabytes_and_the_notify_comes_behind_its_data() {
    let (mut client, mut server, peer) = pair(plain(), plain());
    let back = server.seen.ups[0];
    let len = 128 * MIB;
    let theirs = Memory::zeroed(len);
    let region = server
        .tcp
        .grant(back, &theirs, Registration::NONE, Access::Write)
        .unwrap();
    let ours = Memory::from_vec(vec![7; len]);
    let long = transfer(
        Direction::Put,
        &[ours],
        &[region],
        Some(b"data is there"),
        1,
    );
    client.tcp.transfer(peer, long).unwrap();
    for _ in 0..10 {
        client.poll();
        server.poll();
    }
    client.tcp.send(peer, &[b"quick"]).unwrap();
    until(&mut [&mut client, &mut server], |nodes| {
        !nodes[1].seen.packets.is_empty()
    });
    assert_eq!(server.seen.packets[0].1, b"quick");
    assert_eq!(
        theirs.slice(len - 1..len).to_vec(),
        [0],
        "data is still on its way"
    );
    until(&mut [&mut client, &mut server], |nodes| {
        nodes[1].seen.packets.len() == 2
    });
    assert_eq!(server.seen.packets[1].1, b"data is there");
    assert!(theirs.to_vec().iter().all(|&byte| byte == 7));
}

#[test]
fn transfers_of_a_dead_peer_complete_before_it_is_reported_down() {
    for direction in [Direction::Put, Direction::Get] {
        let (mut client, mut server, peer) = pair(plain(), plain());
        let back = server.seen.ups[0];
        let len = 64 * MIB;
        let theirs = Memory::zeroed(len);
        let region = server
            .tcp
            .grant(back, &theirs, Registration::NONE, Access::ReadWrite)
            .unwrap();
        let ours = Memory::zeroed(len);
        for token in 0..100 {
            let long = transfer(
                direction,
                std::slice::from_ref(&ours),
                &[region],
                None,
                token,
            );
            client.tcp.transfer(peer, long).unwrap();
        }
        for _ in 0..10 {
            client.poll();
            server.poll();
        }
        let finished = client.seen.done.len();
        drop(server);
        until(&mut [&mut client], |nodes| !nodes[0].seen.downs.is_empty());
        let mut tokens: Vec<_> = client.seen.done.iter().map(|done| done.1).collect();
        tokens.sort_unstable();
        assert_eq!(tokens, (0..100).collect::<Vec<_>>(), "each exactly once");
        for (_, _, result) in &client.seen.done[finished..] {
            assert!(matches!(result, Err(TransferError::Peer(_))), "{result:?}");
        }
        assert_eq!(ours.sharers(), 1, "nothing is kept");
    }
}

#[test]
fn disconnecting_ends_transfers_without_a_report_of_the_peer() {
    let (mut client, mut server, peer) = pair(plain(), plain());
    let back = server.seen.ups[0];
    let theirs = Memory::zeroed(64 * MIB);
    let region = server
        .tcp
        .grant(back, &theirs, Registration::NONE, Access::ReadWrite)
        .unwrap();
    let ours = Memory::zeroed(64 * MIB);
    for (token, direction) in [(1, Direction::Put), (2, Direction::Get)] {
        let long = transfer(
            direction,
            std::slice::from_ref(&ours),
            &[region],
            Some(b"no"),
            token,
        );
        client.tcp.transfer(peer, long).unwrap();
    }
    for _ in 0..10 {
        client.poll();
        server.poll();
    }
    client
        .tcp
        .disconnect(Instant::now(), peer, &mut client.seen);
    assert_eq!(ours.sharers(), 1);
    assert_eq!(client.seen.done.len(), 2);
    for (_, _, result) in &client.seen.done {
        assert_eq!(*result, Err(TransferError::Peer(PeerError::Disconnected)));
    }
    assert!(client.tcp.send(peer, &[b"x"]).is_err());
    until(&mut [&mut client, &mut server], |nodes| {
        !nodes[1].seen.downs.is_empty()
    });
    assert_eq!(server.seen.downs[0].1, PeerError::Closed);
    assert!(server.seen.packets.is_empty());
}

#[test]
fn a_silent_peer_with_unfinished_transfers_is_given_up() {
    let mut config = plain();
    config.liveness_timeout = Duration::from_millis(300);
    let (mut client, mut server, peer) = pair(config, plain());
    let back = server.seen.ups[0];
    let theirs = Memory::zeroed(100);
    let region = server
        .tcp
        .grant(back, &theirs, Registration::NONE, Access::Read)
        .unwrap();
    // Silence alone is no fault.
    for_a_while(&mut [&mut client], 700);
    assert!(client.seen.downs.is_empty());
    let get = transfer(Direction::Get, &[Memory::zeroed(100)], &[region], None, 5);
    client.tcp.transfer(peer, get).unwrap();
    assert!(
        client
            .tcp
            .deadline()
            .is_some_and(|at| at < Instant::now() + PATIENCE)
    );
    until(&mut [&mut client], |nodes| !nodes[0].seen.downs.is_empty());
    assert_eq!(client.seen.downs[0].1, PeerError::TimedOut(300));
    assert_eq!(client.seen.done.len(), 1);
}

#[test]
fn a_slow_peer_that_replies_to_probes_is_not_given_up() {
    let mut config = plain();
    config.liveness_timeout = Duration::from_millis(600);
    let (mut client, mut server, peer) = pair(config, plain());
    let back = server.seen.ups[0];
    let theirs = Memory::zeroed(64 * MIB);
    let region = server
        .tcp
        .grant(back, &theirs, Registration::NONE, Access::Write)
        .unwrap();
    let put = transfer(
        Direction::Put,
        &[Memory::zeroed(64 * MIB)],
        &[region],
        None,
        5,
    );
    client.tcp.transfer(peer, put).unwrap();
    // The server reads a little now and then.
    let limit = Instant::now() + PATIENCE;
    while client.seen.done.is_empty() {
        for_a_while(&mut [&mut client], 40);
        for _ in 0..4 {
            server.poll();
        }
        assert!(Instant::now() < limit);
        assert!(client.seen.downs.is_empty(), "{:?}", client.seen.downs);
    }
    assert_eq!(client.seen.done[0].2, Ok(()));
}

/// Puts this many MiB to a peer that does not poll for several times the silence that ends a connection.
fn put_while_the_peer_computes(mib: usize) {
    let mut config = plain();
    config.liveness_timeout = Duration::from_millis(300);
    config.liveness = Liveness::Host;
    let (mut client, mut server, peer) = pair(config.clone(), config);
    let back = server.seen.ups[0];
    let theirs = Memory::zeroed(mib * MIB);
    let region = server
        .tcp
        .grant(back, &theirs, Registration::NONE, Access::Write)
        .unwrap();
    let ours = Memory::zeroed(mib * MIB);
    let put = transfer(Direction::Put, &[ours], &[region], None, 5);
    client.tcp.transfer(peer, put).unwrap();
    for_a_while(&mut [&mut client], 1500);
    assert!(client.seen.downs.is_empty(), "{:?}", client.seen.downs);
    assert!(client.seen.done.is_empty());
    until(&mut [&mut client, &mut server], |nodes| {
        !nodes[0].seen.done.is_empty()
    });
    assert_eq!(client.seen.done[0].2, Ok(()));
}

#[test]
fn a_peer_that_computes_is_not_given_up_where_only_its_host_has_to_reply() {
    put_while_the_peer_computes(1);
}

#[test]
fn nor_one_whose_socket_is_full_all_the_while() {
    put_while_the_peer_computes(64);
}

/// Has the client ask for some of the server's memory, which is returned.
fn begin_get(client: &mut Node, server: &mut Node, peer: Peer) -> Memory {
    let back = server.seen.ups[0];
    let theirs = Memory::zeroed(100);
    let region = server
        .tcp
        .grant(back, &theirs, Registration::NONE, Access::Read)
        .unwrap();
    let get = transfer(Direction::Get, &[Memory::zeroed(100)], &[region], None, 5);
    client.tcp.transfer(peer, get).unwrap();
    client.poll();
    theirs
}

#[test]
fn what_arrives_while_this_side_computes_is_found_before_its_peer_is_given_up() {
    let mut config = plain();
    config.liveness_timeout = Duration::from_millis(300);
    let (mut client, mut server, peer) = pair(config, plain());
    let _theirs = begin_get(&mut client, &mut server, peer);
    for_a_while(&mut [&mut server], 1000);
    // The connection is not read before the time is looked at.
    client.tcp.tick(Instant::now(), &mut client.seen);
    until(&mut [&mut client], |nodes| !nodes[0].seen.done.is_empty());
    assert_eq!(client.seen.done[0].2, Ok(()));
    assert!(client.seen.downs.is_empty(), "{:?}", client.seen.downs);
}

/// Sets the loopback interface of this thread's network up, or down: then everything that is sent is lost.
fn set_loopback(up: bool) -> bool {
    let how = if up { "up" } else { "down" };
    let ip = std::process::Command::new("ip")
        .args(["link", "set", "lo", how])
        .status();
    ip.is_ok_and(|status| status.success())
}

/// Runs this in a network of its own, if this user may make one.
fn in_own_network(run: impl FnOnce() + Send + 'static) {
    let in_own_network = std::thread::spawn(|| {
        // SAFETY: the thread shares no network with another one that relies on it, and ends with this closure.
        let own = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) };
        match own.is_ok() && set_loopback(true) {
            true => run(),
            false => {
                eprintln!(
                    "left out: this user makes no network of its own here, or there is no ip"
                );
            }
        }
    });
    in_own_network.join().unwrap();
}

/// Peers have to show that their hosts are there within 600 ms.
fn watching_hosts() -> TcpConfig {
    let mut config = plain();
    config.liveness_timeout = Duration::from_millis(600);
    config.liveness = Liveness::Host;
    config
}

fn is_given_up(client: &mut Node) {
    assert!(client.seen.downs.is_empty(), "{:?}", client.seen.downs);
    until(&mut [client], |nodes| !nodes[0].seen.downs.is_empty());
    let cause = &client.seen.downs[0].1;
    assert!(
        matches!(cause, PeerError::TimedOut(600) | PeerError::Broken(_)),
        "{cause:?}"
    );
}

/// A peer whose host stops replying is given up, whether this side waits for a reply, or for room in the peer's socket.
#[test]
fn a_host_that_vanishes_is_given_up() {
    in_own_network(|| {
        for mib in [1, 64] {
            let (mut client, mut server, peer) = pair(watching_hosts(), watching_hosts());
            let back = server.seen.ups[0];
            let theirs = Memory::zeroed(mib * MIB);
            let region = server
                .tcp
                .grant(back, &theirs, Registration::NONE, Access::Write)
                .unwrap();
            let ours = Memory::zeroed(mib * MIB);
            let put = transfer(Direction::Put, &[ours], &[region], None, 5);
            client.tcp.transfer(peer, put).unwrap();
            // Of the large one, the socket is full from now on.
            for_a_while(&mut [&mut client], 300);
            assert!(client.seen.downs.is_empty(), "{:?}", client.seen.downs);
            assert!(set_loopback(false));
            is_given_up(&mut client);
            assert!(set_loopback(true));
        }
    });
}

/// Nothing replies to a packet but its receiver's host.
#[test]
fn a_host_that_vanishes_with_a_packet_on_its_way_is_given_up() {
    in_own_network(|| {
        for packets in [1, 1000] {
            let (mut client, _server, peer) = pair(watching_hosts(), watching_hosts());
            assert!(set_loopback(false));
            for _ in 0..packets {
                client.tcp.send(peer, &[b"hello"]).unwrap();
            }
            is_given_up(&mut client);
            assert!(set_loopback(true));
        }
    });
}

/// What was sent just now is not acknowledged yet, and nothing was to be before.
#[test]
fn a_process_that_returns_and_sends_does_not_give_its_peer_up() {
    let (mut client, mut server, peer) = pair(watching_hosts(), watching_hosts());
    let back = server.seen.ups[0];
    let _theirs = begin_get(&mut client, &mut server, peer);
    for _ in 0..4 {
        // Both compute.
        std::thread::sleep(Duration::from_millis(700));
        // Its kernel acknowledges what comes after a while.
        let theirs = server.tcp.slots.get(back).unwrap().link.as_ref().unwrap();
        rustix::net::sockopt::set_tcp_quickack(&theirs.socket, false).unwrap();
        client.tcp.set_time(Instant::now());
        client.tcp.send(peer, &[b"hello"]).unwrap();
        client.tcp.tick(Instant::now(), &mut client.seen);
        assert!(client.seen.downs.is_empty(), "{:?}", client.seen.downs);
    }
    until(&mut [&mut client, &mut server], |nodes| {
        !nodes[0].seen.done.is_empty() && nodes[1].seen.packets.len() == 4
    });
    assert!(client.seen.downs.is_empty(), "{:?}", client.seen.downs);
}

/// A probe must not wait for this process's next poll, after which it looks at the time again.
#[test]
fn a_probe_leaves_when_it_is_due() {
    let mut config = plain();
    config.liveness_timeout = Duration::from_millis(300);
    let (mut client, mut server, peer) = pair(config, plain());
    let _theirs = begin_get(&mut client, &mut server, peer);
    std::thread::sleep(Duration::from_millis(150));
    client.tcp.tick(Instant::now(), &mut client.seen);
    let state = client.tcp.slots.get(peer).unwrap();
    let link = state.link.as_ref().unwrap();
    assert!(link.probed && link.has_sent_all(&state.session));
}
