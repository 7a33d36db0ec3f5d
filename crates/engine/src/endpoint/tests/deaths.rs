//! A peer that dies, in each state of an operation: exactly the operations concerned fail.

use super::*;

const LARGE: usize = 1 << 20;

fn slow() -> Options {
    Options {
        max_piece: 4096,
        ..Options::default()
    }
}

fn failed_by_peer(node: &Node, user: u64, address: &str) -> bool {
    matches!(
        node.result(user),
        Some(Err(OpError::Peer { address: from, .. })) if from == address
    )
}

#[test]
fn nobody_listens() {
    let mut a = node("death-refused");
    let to = a.bmi.lookup("mem://death-unbound").unwrap();
    let data = memory(0, LARGE);
    let list = std::slice::from_ref(&data);
    a.send(to, list, 1, 1);
    a.send_unexpected(to, &memory(0, 5), 1, 2);
    a.recv(to, &[Memory::zeroed(5)], 1, 3);
    drive(&mut [&mut a], |nodes| nodes[0].done.len() == 3);
    assert!((1..=3).all(|user| failed_by_peer(&a, user, "mem://death-unbound")));
    assert_eq!(data.sharers(), 1);
    // A process listens there: the same handle works.
    let mut late = node("death-unbound");
    a.send_unexpected(to, &memory(7, 5), 1, 4);
    drive(&mut [&mut a, &mut late], |nodes| {
        nodes[1].collect_unexpected();
        nodes[1].unexpected.len() == 1
    });
}

/// Kills the server at several moments of a rendezvous and of everything else at once; a third
/// process does not notice.
#[test]
fn death_in_each_state_fails_exactly_its_operations() {
    for (round, policy) in [RendezvousPolicy::Pull, RendezvousPolicy::Push]
        .into_iter()
        .cycle()
        .take(24)
        .enumerate()
    {
        let name = format!("death-{round}");
        let (mut a, mut b, to, from) = pair(&name, Config::default(), slow());
        let mut other = node(&format!("{name}-other"));
        let to_other = a.bmi.lookup(&format!("mem://{name}-other")).unwrap();
        for node in [&mut a, &mut b] {
            node.bmi
                .set_info(None, InfoOption::Rendezvous(policy))
                .unwrap();
        }
        let data = memory(1, LARGE);
        let into = Memory::zeroed(LARGE);
        // With the server that dies: matched and unmatched messages both ways, transfers.
        a.send(to, std::slice::from_ref(&data), 1, 1);
        a.send(to, std::slice::from_ref(&data), 2, 2);
        a.recv(to, std::slice::from_ref(&into), 3, 3);
        a.recv(to, std::slice::from_ref(&into), 4, 4);
        a.send_unexpected(to, &memory(0, 60_000), 5, 5);
        b.recv(from, &[Memory::zeroed(LARGE)], 1, 1);
        b.send(from, &[memory(1, LARGE)], 3, 3);
        let region = b.bmi.export(from, &memory(0, LARGE), Access::Read).unwrap();
        let posted = a.bmi.post_transfer(
            to,
            Direction::Get,
            &[Memory::zeroed(LARGE)],
            &[region],
            a.context,
            6,
        );
        a.note(posted);
        // With another server: not affected.
        a.recv(to_other, &[Memory::zeroed(8)], 1, 10);
        a.send_unexpected(to_other, &memory(0, 8), 1, 11);
        for _ in 0..round {
            a.step();
            b.step();
            other.step();
        }
        b.fault.as_ref().unwrap().kill();
        let address = format!("mem://{name}-server");
        drive(&mut [&mut a, &mut other], |nodes| {
            (1..=6).all(|user| nodes[0].result(user).is_some())
        });
        assert!(failed_by_peer(&a, 4, &address), "round {round}");
        assert!(failed_by_peer(&a, 2, &address), "round {round}");
        for user in [1, 3, 6] {
            assert!(
                failed_by_peer(&a, user, &address) || a.result(user).unwrap().is_ok(),
                "round {round}, {user}: {:?}",
                a.result(user)
            );
        }
        assert_eq!((data.sharers(), into.sharers()), (1, 1), "round {round}");
        assert_eq!(a.result(10), None);
        drive(&mut [&mut a, &mut other], |nodes| {
            nodes[1].collect_unexpected();
            nodes[1].unexpected.len() == 1
        });
        let back = other.unexpected[0].from;
        other.send(back, &[memory(0, 8)], 1, 1);
        assert_eq!(
            a.result(10),
            None,
            "the other's own connection has another address"
        );
        let info = a.bmi.get_info(Some(to));
        assert_eq!((info.operations, info.connected, info.transfers), (0, 0, 0));
        // A new server listens at the same address.
        drop(b);
        let mut again = node(&format!("{name}-server"));
        a.send_unexpected(to, &memory(3, 100), 7, 20);
        drive(&mut [&mut a, &mut again], |nodes| {
            nodes[1].collect_unexpected();
            nodes[1].unexpected.len() == 1
        });
        assert_eq!(again.unexpected[0].data, bytes(3, 100));
    }
}

#[test]
fn a_client_that_vanishes_is_reclaimed() {
    let mut server = node("vanish-server");
    for round in 0..50 {
        let mut client = node("vanish-client");
        let to = client.bmi.lookup("mem://vanish-server").unwrap();
        let from = meet(&mut client, &mut server, to);
        client.send(to, &[memory(0, 100)], 1, 1);
        client.send(to, &[memory(0, LARGE)], 2, 2);
        server.recv(from, &[Memory::zeroed(8)], 9, 9);
        idle(&mut [&mut client, &mut server]);
        if round % 2 == 0 {
            client.fault.as_ref().unwrap().kill();
        }
        drop(client);
        drive(&mut [&mut server], |nodes| nodes[0].result(9).is_some());
        // What had arrived whole is still delivered, everything else fails at once.
        let whole = server.recv(from, &[Memory::zeroed(100)], 1, 10);
        assert_eq!(server.result(10), Some(&Ok(100)), "{whole:?}");
        server.recv(from, &[Memory::zeroed(100)], 2, 11);
        server.send(from, &[memory(0, 1)], 2, 12);
        for user in [9, 11, 12] {
            let result = server.result(user);
            assert!(
                matches!(result, Some(Err(OpError::Peer { .. }))),
                "{result:?}"
            );
        }
        server.done.clear();
        server.bmi.release(from);
        assert_eq!(server.bmi.reverse_lookup(from), None);
        assert_eq!(server.bmi.doing(), Info::default());
    }
}

#[test]
fn the_last_messages_of_a_client_are_received() {
    let mut server = node("words-server");
    let mut client = node("words-client");
    let to = client.bmi.lookup("mem://words-server").unwrap();
    meet(&mut client, &mut server, to);
    for n in 0..5 {
        client.send_unexpected(to, &memory(n, 10), n as u64, n as u64);
    }
    drop(client);
    idle(&mut [&mut server]);
    server.collect_unexpected();
    let tags: Vec<_> = server.unexpected.iter().map(|m| m.tag).collect();
    assert_eq!(tags, [0, 1, 2, 3, 4]);
}

#[test]
fn releasing_disconnects_once_nothing_is_in_flight() {
    let (mut a, mut b, to, from) = pair("release", Config::default(), Options::default());
    a.send(to, &[memory(1, LARGE)], 1, 1);
    a.bmi.release(to);
    idle(&mut [&mut a, &mut b]);
    assert_eq!(a.bmi.get_info(None).connected, 1);
    b.recv(from, &[Memory::zeroed(LARGE)], 1, 1);
    drive(&mut [&mut a, &mut b], |nodes| nodes[0].result(1).is_some());
    assert_eq!(a.result(1), Some(&Ok(LARGE as u64)));
    idle(&mut [&mut a, &mut b]);
    assert_eq!(a.bmi.get_info(None).connected, 0);
    assert_eq!(b.bmi.get_info(None).connected, 0);
}

#[test]
fn disconnecting_does_not_wait_for_a_peer_that_hangs() {
    let (mut a, mut b, to, _) = pair("hung", Config::default(), slow());
    let data = memory(1, LARGE);
    a.send(to, std::slice::from_ref(&data), 1, 1);
    a.recv(to, std::slice::from_ref(&data), 2, 2);
    // The peer makes no more progress.
    a.step();
    a.bmi.disconnect(to);
    a.step();
    for user in [1, 2] {
        let cause = PeerError::Disconnected;
        let address = "mem://hung-server".to_owned();
        let error = OpError::Peer { address, cause };
        assert_eq!(a.result(user), Some(&Err(error)));
    }
    assert_eq!(data.sharers(), 1);
    a.send_unexpected(to, &memory(1, 5), 1, 3);
    drive(&mut [&mut a, &mut b], |nodes| {
        nodes[1].collect_unexpected();
        nodes[1].unexpected.len() == 1
    });
}

/// A method's table of peers does not grow with peers that have disconnected, not even while
/// their addresses are still held.
#[test]
fn clients_that_left_take_no_places() {
    let places = |server: &Node| server.bmi.connections.links.iter().map(Vec::len).max();
    for medium in MEDIA {
        let mut server = node_over(medium, "places-server", Config::default());
        let address = server.bmi.listening()[0].clone();
        for round in 0..60 {
            let name = format!("places-{round}");
            let mut client = node_over(medium, &name, Config::default());
            let to = client.bmi.lookup(&address).unwrap();
            let from = meet(&mut client, &mut server, to);
            drop(client);
            drive(&mut [&mut server], |nodes| {
                nodes[0].bmi.get_info(None).connected == 0
            });
            assert!(server.bmi.identity(from).is_none());
            if round % 2 == 0 {
                server.bmi.release(from);
            }
        }
        assert!(
            places(&server) <= Some(8),
            "{medium:?}: {:?}",
            places(&server)
        );
    }
}

#[test]
fn a_server_with_few_places_serves_any_number_of_clients_in_turn() {
    use causeway_transport::tcp::{Tcp, TcpConfig};
    let mut registry = Registry::new();
    let config = TcpConfig {
        max_peers: 4,
        ..TcpConfig::default()
    };
    registry.register(Box::new(Tcp::new(config).unwrap()));
    let listen = vec!["tcp://127.0.0.1:0".to_owned()];
    let config = Config {
        listen,
        ..Config::default()
    };
    let mut bmi = Bmi::with_methods(config, registry).unwrap();
    let context = bmi.open_queue().unwrap();
    let mut server = Node {
        bmi,
        _dir: None,
        context,
        fault: None,
        done: Vec::new(),
        unexpected: Vec::new(),
    };
    let address = server.bmi.listening()[0].clone();
    for _ in 0..200 {
        let mut client = node_over(Medium::Tcp, "", Config::default());
        let to = client.bmi.lookup(&address).unwrap();
        meet(&mut client, &mut server, to);
        drop(client);
        drive(&mut [&mut server], |nodes| {
            nodes[0].bmi.get_info(None).connected == 0
        });
    }
}
