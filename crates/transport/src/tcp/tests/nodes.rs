//! Nodes that prove which they are, and peers that claim to be others than they are.

use std::time::Instant;

use super::support::*;
use crate::address::Address;
use crate::error::PeerError;
use crate::method::{Identity, Method};
use crate::nodes::handshake::NodeProof;
use crate::nodes::tests::{Cluster, NEVER, liar, member, membership};
use crate::nodes::{Authority, CLIENT, Certificate, Member, Membership, Nodes};
use crate::tcp::TcpConfig;
use crate::tcp::handshake::{Handshake, Role};

fn as_node(membership: Membership) -> TcpConfig {
    TcpConfig {
        nodes: Some(Nodes::new(membership)),
        ..keyed(true)
    }
}

/// Has a client send something to what listens at the address that its configuration has for `io3`. Returns why nothing
/// came of it, on the side of the client; the other one must have heard nothing.
fn refused(client: Membership, server: TcpConfig) -> String {
    let mut server = Node::new(server);
    let address = server.listen();
    let mut client = client;
    client.pin(&address.to_string(), "io3").unwrap();
    let mut client = Node::new(as_node(client));
    let peer = client.tcp.connect(Instant::now(), &address).unwrap();
    client.tcp.send(peer, &[b"a secret for io3"]).unwrap();
    until(&mut [&mut client, &mut server], |nodes| {
        !nodes[0].seen.downs.is_empty()
    });
    until(&mut [&mut client, &mut server], |nodes| {
        nodes[1].tcp.half_open.len() == 0
    });
    assert!(server.seen.ups.is_empty() && server.seen.packets.is_empty());
    match client.seen.downs.remove(0).1 {
        PeerError::Unauthorised(reason) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn both_sides_know_the_others_name_and_roles() {
    let cluster = Cluster::new();
    for encrypt in [true, false] {
        let config = |member| TcpConfig {
            encrypt,
            ..as_node(cluster.knowing(member))
        };
        let (client, server, peer) = pair(config(&cluster.client), config(&cluster.server));
        let caller = server.seen.ups[0];
        for (node, peer, other) in [
            (&client, peer, &cluster.server),
            (&server, caller, &cluster.client),
        ] {
            assert_eq!(node.tcp.node(peer).as_ref(), Some(other.certificate()));
            assert_eq!(node.tcp.identity(peer), Some(Identity::Keyed));
            assert!(node.tcp.capabilities().identifies_nodes);
            let report = node.tcp.report(peer).unwrap();
            let fact = report.facts.iter().find(|fact| fact.0 == "peer");
            assert!(fact.unwrap().1.contains(&other.certificate().name));
        }
    }
}

#[test]
fn a_client_s_node_cannot_be_a_server() {
    let cluster = Cluster::new();
    let other = member(&cluster.authority, "desktop", &[CLIENT, "io4"], NEVER);
    let why = refused(
        cluster.knowing(&cluster.client),
        as_node(cluster.knowing(&other)),
    );
    for part in ["desktop", "client, io4", "not io3"] {
        assert!(why.contains(part), "{why}");
    }
    // One that says it can.
    let claim = Certificate {
        roles: vec![CLIENT.to_owned(), "io3".to_owned()],
        ..Certificate::clone(other.certificate())
    };
    let why = refused(
        cluster.knowing(&cluster.client),
        as_node(liar(&other, claim)),
    );
    assert!(why.contains("not as its authority has signed"), "{why}");
    // One that shows the certificate of io3's node, which everybody has seen that has talked to it.
    let copied = Certificate::clone(cluster.server.certificate());
    let why = refused(
        cluster.knowing(&cluster.client),
        as_node(liar(&other, copied)),
    );
    assert!(why.contains("another key"), "{why}");
}

#[test]
fn nodes_of_another_authority_stay_outside_whichever_side_calls() {
    let (cluster, others) = (Cluster::new(), Cluster::new());
    let why = refused(
        cluster.knowing(&cluster.client),
        as_node(others.knowing(&others.server)),
    );
    assert!(why.contains("which is not accepted"), "{why}");
    // A client that accepts everybody is told why it is not accepted itself.
    let open = membership(
        &others.client,
        &[&cluster.authority, &others.authority],
        &[],
    );
    let why = refused(open, as_node(cluster.knowing(&cluster.server)));
    assert!(why.contains("does not accept the authority"), "{why}");
}

#[test]
fn revoked_and_expired_nodes_stay_outside_whichever_side_calls() {
    let cluster = Cluster::new();
    let both = [&cluster.client, &cluster.server];
    let revoking = |member| membership(member, &[&cluster.authority], &both);
    let why = refused(
        revoking(&cluster.client),
        as_node(cluster.knowing(&cluster.server)),
    );
    assert!(why.contains("node3, was revoked"), "{why}");
    let why = refused(
        cluster.knowing(&cluster.client),
        as_node(revoking(&cluster.server)),
    );
    assert!(why.contains("this node's certificate was revoked"), "{why}");
    let late = |role| {
        let member = member(&cluster.authority, "late", &[role], 1000);
        let shown = Certificate::clone(member.certificate());
        liar(&member, shown)
    };
    let why = refused(cluster.knowing(&cluster.client), as_node(late("io3")));
    assert!(why.contains("late, has expired"), "{why}");
    let why = refused(late(CLIENT), as_node(cluster.knowing(&cluster.server)));
    assert!(why.contains("has expired"), "{why}");
}

/// Neither side falls back to the cluster's key, and each is told what to do.
#[test]
fn nodes_and_holders_of_the_key_alone_do_not_talk() {
    let cluster = Cluster::new();
    let why = refused(cluster.knowing(&cluster.client), keyed(true));
    assert!(why.contains("`[nodes]`"), "{why}");
    let mut server = Node::new(as_node(cluster.knowing(&cluster.server)));
    let address = server.listen();
    let mut client = Node::new(keyed(true));
    let peer = client.tcp.connect(Instant::now(), &address).unwrap();
    client.tcp.send(peer, &[b"let me in"]).unwrap();
    until(&mut [&mut client, &mut server], |nodes| {
        !nodes[0].seen.downs.is_empty()
    });
    let why = client.seen.downs[0].1.to_string();
    assert!(why.contains("causeway fs node add"), "{why}");
    assert!(server.seen.ups.is_empty());
    // Nor do nodes without the cluster's key.
    let mut other = as_node(cluster.knowing(&cluster.server));
    other.key = Some([0x43; 32].into());
    let why = refused(cluster.knowing(&cluster.client), other);
    assert!(why.contains("another cluster key"), "{why}");
    let keyless = TcpConfig {
        key: None,
        ..as_node(cluster.knowing(&cluster.server))
    };
    assert!(crate::tcp::Tcp::new(keyless).is_err());
}

/// An attacker between two nodes, and one between holders of the key, who changes what they say about nodes and formats.
#[test]
fn nobody_on_the_way_has_nodes_not_prove_which_they_are() {
    let cluster = Cluster::new();
    let config = |member: Option<&Member>| {
        let mut config = config(Some([0x42; 32]), true, Default::default());
        let proving = |member| NodeProof::called(&Nodes::new(cluster.knowing(member)));
        config.nodes = member.map(proving);
        config
    };
    for with_nodes in [true, false] {
        for (at, bit) in [(20, 2), (8, 2), (23, 2), (8, 3), (0, 0)] {
            let side = |member| with_nodes.then_some(member);
            let mut initiator = Handshake::new(Role::Initiator, config(side(&cluster.client)));
            let mut responder = Handshake::new(Role::Responder, config(side(&cluster.server)));
            let mut came_up = 0;
            let mut change = bit;
            let mut is_over = false;
            while !is_over {
                let mut said = initiator.take_output();
                if let Some(byte) = said.get_mut(at) {
                    *byte ^= std::mem::take(&mut change);
                }
                let heard = responder.input(&said, &mut |_| Ok(()));
                let reply = responder.take_output();
                is_over = reply.is_empty() || heard.is_err();
                came_up += usize::from(heard.is_ok_and(|agreed| agreed.is_some()));
                let heard = initiator.input(&reply, &mut |_| Ok(()));
                is_over |= heard.is_err();
                came_up += usize::from(heard.is_ok_and(|agreed| agreed.is_some()));
            }
            let expected = if bit == 0 { 2 } else { 0 };
            assert_eq!(came_up, expected, "nodes {with_nodes}, byte {at}");
        }
    }
}

/// Two authorities are accepted for a while, and the connections of nodes that both know go on.
#[test]
fn keys_and_authorities_are_rotated_while_connections_stand() {
    let (cluster, new) = (Cluster::new(), Authority::draw().unwrap());
    let server_nodes = Nodes::new(cluster.knowing(&cluster.server));
    let config = TcpConfig {
        nodes: Some(server_nodes.clone()),
        ..keyed(true)
    };
    let (mut client, mut server, peer) = pair(as_node(cluster.knowing(&cluster.client)), config);
    let both = [&cluster.authority, &new];
    let renewed = member(&new, "node3", &["io3"], NEVER);
    server_nodes.replace(membership(&renewed, &both, &[]));
    send(&mut client, peer, b"still here", &mut server);
    until(&mut [&mut client, &mut server], |nodes| {
        !nodes[1].seen.packets.is_empty()
    });
    assert!(server.seen.downs.is_empty() && client.seen.downs.is_empty());
    // New connections are made with the new certificate, which a client of the old authority alone does not take.
    let address = listening_at(&server);
    let calls = |authorities: &[&Authority], of: &Authority| {
        let caller = member(of, "desktop", &[CLIENT], NEVER);
        let mut caller = Node::new(as_node(membership(&caller, authorities, &[])));
        let peer = caller.tcp.connect(Instant::now(), &address).unwrap();
        caller.tcp.send(peer, &[b"hello"]).unwrap();
        (caller, peer)
    };
    for (authorities, of) in [(&both[..], &cluster.authority), (&both[1..], &new)] {
        server.seen.packets.clear();
        let (mut caller, peer) = calls(authorities, of);
        until(&mut [&mut caller, &mut server], |nodes| {
            !nodes[1].seen.packets.is_empty()
        });
        let met = caller.tcp.node(peer).unwrap();
        assert_eq!(met.serial, renewed.certificate().serial);
    }
    let (mut late, _) = calls(&both[..1], &cluster.authority);
    until(&mut [&mut late, &mut server], |nodes| {
        !nodes[0].seen.downs.is_empty()
    });
    assert!(late.seen.downs[0].1.to_string().contains("not accepted"));
    // When the old one is not accepted any more, what stands on it ends.
    let before = server.seen.downs.len();
    server_nodes.replace(membership(&renewed, &[&new], &[]));
    until(&mut [&mut client, &mut server], |nodes| {
        nodes[1].seen.downs.len() > before && !nodes[0].seen.downs.is_empty()
    });
}

fn listening_at(node: &Node) -> Address {
    let listener = node.tcp.listeners.first().unwrap();
    let local = causeway_sys::net::local_address(&listener.socket).unwrap();
    crate::resolve::describe("tcp", local).unwrap()
}

/// Revoking a node ends its connections, with their subflows and what is on the way, and no others.
#[test]
fn the_connections_of_a_revoked_node_end_and_no_others() {
    let cluster = Cluster::new();
    let nodes = Nodes::new(cluster.knowing(&cluster.server));
    let config = TcpConfig {
        nodes: Some(nodes.clone()),
        ..keyed(true)
    };
    let (mut client, mut server, _) = pair(as_node(cluster.knowing(&cluster.client)), config);
    let other = member(&cluster.authority, "desktop", &[CLIENT], NEVER);
    let mut other = Node::new(as_node(cluster.knowing(&other)));
    let address = listening_at(&server);
    let kept = other.tcp.connect(Instant::now(), &address).unwrap();
    other.tcp.send(kept, &[b"hello"]).unwrap();
    until(&mut [&mut other, &mut server], |nodes| {
        !nodes[1].seen.packets.is_empty()
    });
    nodes.replace(membership(
        &cluster.server,
        &[&cluster.authority],
        &[&cluster.client],
    ));
    until(&mut [&mut client, &mut server, &mut other], |nodes| {
        !nodes[0].seen.downs.is_empty() && !nodes[1].seen.downs.is_empty()
    });
    let (ended, cause) = &server.seen.downs[0];
    assert_eq!(*ended, server.seen.ups[0]);
    assert!(cause.to_string().contains("was revoked"), "{cause}");
    assert_eq!(server.tcp.node(*ended), None);
    server.seen.packets.clear();
    send(&mut other, kept, b"still here", &mut server);
    until(&mut [&mut other, &mut server], |nodes| {
        !nodes[1].seen.packets.is_empty()
    });
    assert!(other.seen.downs.is_empty());
}

/// Revoked between the two last messages of its handshake.
#[test]
fn a_node_that_is_revoked_while_it_connects_does_not_come_up() {
    let cluster = Cluster::new();
    let nodes = Nodes::new(cluster.knowing(&cluster.server));
    let mut server = Node::new(TcpConfig {
        nodes: Some(nodes.clone()),
        ..keyed(true)
    });
    let address = server.listen();
    let mut client = Node::new(as_node(cluster.knowing(&cluster.client)));
    let peer = client.tcp.connect(Instant::now(), &address).unwrap();
    client.tcp.send(peer, &[b"quick"]).unwrap();
    // The server has begun its handshake when it is half open.
    until(&mut [&mut client, &mut server], |nodes| {
        nodes[1].tcp.half_open.len() == 1
    });
    nodes.replace(membership(
        &cluster.server,
        &[&cluster.authority],
        &[&cluster.client],
    ));
    until(&mut [&mut client, &mut server], |nodes| {
        !nodes[0].seen.downs.is_empty()
    });
    assert!(server.seen.ups.is_empty() && server.seen.packets.is_empty());
}

/// What is known of the servers' roles is of no use at addresses that it does not name.
#[test]
fn addresses_that_no_role_is_known_of_are_not_called() {
    let cluster = Cluster::new();
    let mut server = Node::new(as_node(cluster.knowing(&cluster.server)));
    let address = server.listen();
    let mut knowing = cluster.knowing(&cluster.client);
    knowing.pin("tcp://127.0.0.1:1", "io3").unwrap();
    let mut client = Node::new(as_node(knowing));
    let peer = client.tcp.connect(Instant::now(), &address).unwrap();
    client.tcp.send(peer, &[b"a secret for io3"]).unwrap();
    until(&mut [&mut client, &mut server], |nodes| {
        !nodes[0].seen.downs.is_empty()
    });
    let why = client.seen.downs[0].1.to_string();
    assert!(why.contains("no role is known"), "{why}");
    assert!(server.seen.ups.is_empty() && server.seen.packets.is_empty());
}

/// A caller says that it listens where a server does: calls for that server would go to it.
#[test]
fn a_client_s_node_does_not_take_a_server_s_place_by_saying_where_it_listens() {
    let cluster = Cluster::new();
    let io4 = member(&cluster.authority, "node4", &["io4"], NEVER);
    for (caller, is_confirmed) in [(&cluster.client, false), (&io4, true)] {
        let mut knowing = cluster.knowing(&cluster.server);
        knowing.pin("tcp://127.0.0.1:7440", "io4").unwrap();
        let (_client, server, _) = pair(as_node(cluster.knowing(caller)), as_node(knowing));
        let caller = server.seen.ups[0];
        let confirmed = |claimed: &str| {
            let claimed = claimed.parse().unwrap();
            server.tcp.confirm_address(caller, &claimed).is_some()
        };
        for spelling in ["127.0.0.1:7440", "0.0.0.0:7440", "127.0.0.1:07440"] {
            let claimed = format!("tcp://{spelling}");
            assert_eq!(confirmed(&claimed), is_confirmed, "{spelling}");
        }
        assert!(confirmed("tcp://127.0.0.1:7441"), "pinned to no role");
    }
}
