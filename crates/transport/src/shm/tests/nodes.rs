//! Processes that prove over shared memory which nodes they are, and those that claim to be others.

use std::path::Path;

use causeway_sys::mapping::Mapping;
use causeway_sys::memfd;
use causeway_sys::socket::{Received, RecordListener, RecordSocket};
use causeway_wire::codec::Wire;
use causeway_wire::shm::{
    FLAG_NODES, FORMATS, MAX_RECORD_BYTES, PairLayout, ProcessInfo, Record, SlotKind, Welcome,
    doorbell,
};

use super::*;
use crate::method::{Access, Registration};
use crate::nodes::tests::{Cluster, NEVER, liar, member, membership};
use crate::nodes::{CLIENT, Certificate, Member, Membership, Nodes};
use crate::shm::handshake::HalfOpen;
use crate::shm::pair::Pair;

fn as_node(membership: Membership) -> ShmConfig {
    ShmConfig {
        key: Some([1; 32].into()),
        nodes: Some(Nodes::new(membership)),
        ..ShmConfig::default()
    }
}

fn keyed() -> ShmConfig {
    ShmConfig {
        key: Some([1; 32].into()),
        ..ShmConfig::default()
    }
}

/// Sends as soon as there is room, which there is when the other side has proven itself.
fn send(host: &mut Host, peer: Peer, bytes: &[u8], other: &mut Host) {
    both(host, other, "there is room", |host, _| {
        host.shm.send(peer, &[bytes]).is_ok()
    });
}

/// Has a client send something to what listens where its configuration has `io3`. Returns why nothing came of it; the listener
/// must have heard nothing.
fn refused(mut client: Membership, server: ShmConfig) -> String {
    let (_folder, address) = place();
    client.pin(&address.to_string(), "io3").unwrap();
    let mut server = Host::listening(server, &address);
    let mut client = Host::new(as_node(client));
    let peer = client.shm.connect(Instant::now(), &address).unwrap();
    let sent = client.shm.send(peer, &[b"a secret for io3"]);
    assert_eq!(sent, Err(crate::SendError::WouldBlock));
    both(&mut client, &mut server, "it is refused", |client, _| {
        !client.log.down.is_empty()
    });
    server.until("the caller has left", |server| {
        server.shm.half_open.is_empty()
    });
    assert!(server.log.up.is_empty() && server.log.packets.is_empty());
    match client.log.down.pop() {
        Some((_, PeerError::Unauthorised(reason))) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn both_sides_know_the_others_name_and_roles() {
    let cluster = Cluster::new();
    let (_folder, address) = place();
    let mut knowing = cluster.knowing(&cluster.client);
    knowing.pin(&address.to_string(), "io3").unwrap();
    let mut server = Host::listening(as_node(cluster.knowing(&cluster.server)), &address);
    let mut client = Host::new(as_node(knowing));
    let peer = client.shm.connect(Instant::now(), &address).unwrap();
    assert!(client.shm.send(peer, &[b"too early"]).is_err());
    both(&mut client, &mut server, "there is room", |client, _| {
        client.log.writable == [peer]
    });
    send(&mut client, peer, b"hello", &mut server);
    both(&mut client, &mut server, "it is there", |_, server| {
        !server.log.packets.is_empty()
    });
    let (caller, packet) = server.log.packets.pop_front().unwrap();
    assert_eq!(packet, b"hello");
    assert_eq!(
        server.shm.node(caller).as_ref(),
        Some(cluster.client.certificate())
    );
    assert_eq!(
        client.shm.node(peer).as_ref(),
        Some(cluster.server.certificate())
    );
    assert!(client.shm.capabilities().identifies_nodes);
    // Calls for a server do not go to a client that says that it listens there.
    let claimed = address.clone();
    assert!(
        server.shm.confirm_address(caller, &claimed).is_some(),
        "pinned to no role"
    );
    let mut pinned = cluster.knowing(&cluster.server);
    pinned.pin(&address.to_string(), "io3").unwrap();
    server.shm.config.nodes.as_ref().unwrap().replace(pinned);
    assert!(server.shm.confirm_address(caller, &claimed).is_none());
}

#[test]
fn each_claim_that_is_not_true_is_refused() {
    let (cluster, others) = (Cluster::new(), Cluster::new());
    let desktop = member(&cluster.authority, "desktop", &[CLIENT], NEVER);
    let more = Certificate {
        roles: vec![CLIENT.to_owned(), "io3".to_owned()],
        ..Certificate::clone(desktop.certificate())
    };
    let late = member(&cluster.authority, "late", &["io3"], 1000);
    let honest = |member: &Member| liar(member, Certificate::clone(member.certificate()));
    let copied = Certificate::clone(cluster.server.certificate());
    for (server, why) in [
        (
            cluster.knowing(&desktop),
            "has the roles client, and not io3",
        ),
        (liar(&desktop, more), "not as its authority has signed"),
        (liar(&desktop, copied), "that of another key"),
        (others.knowing(&others.server), "which is not accepted"),
        (honest(&late), "has expired"),
    ] {
        let said = refused(cluster.knowing(&cluster.client), as_node(server));
        assert!(said.contains(why), "{said}");
    }
    let revoked = |of: &Member, revoked| membership(of, &[&cluster.authority], &[revoked]);
    let said = refused(
        revoked(&cluster.client, &cluster.server),
        as_node(cluster.knowing(&cluster.server)),
    );
    assert!(said.contains("was revoked"), "{said}");
    let said = refused(
        cluster.knowing(&cluster.client),
        as_node(revoked(&cluster.server, &cluster.client)),
    );
    assert!(
        said.contains("says of this one") && said.contains("was revoked"),
        "{said}"
    );
}

#[test]
fn nodes_and_holders_of_the_key_alone_do_not_talk() {
    let cluster = Cluster::new();
    let said = refused(cluster.knowing(&cluster.client), keyed());
    assert!(said.contains("`[nodes]`"), "{said}");
    let other = ShmConfig {
        key: Some([2; 32].into()),
        ..as_node(cluster.knowing(&cluster.server))
    };
    let said = refused(cluster.knowing(&cluster.client), other);
    assert!(said.contains("another cluster key"), "{said}");
    let (_folder, address) = place();
    let mut server = Host::listening(as_node(cluster.knowing(&cluster.server)), &address);
    let mut client = Host::new(keyed());
    let peer = client.shm.connect(Instant::now(), &address).unwrap();
    let _ = client.shm.send(peer, &[b"let me in"]);
    both(&mut client, &mut server, "it is refused", |client, _| {
        !client.log.down.is_empty()
    });
    let said = client.log.down[0].1.to_string();
    assert!(said.contains("causeway fs node add"), "{said}");
    assert!(server.log.up.is_empty() && server.log.packets.is_empty());
    let keyless = ShmConfig {
        key: None,
        ..as_node(cluster.knowing(&cluster.server))
    };
    assert!(Shm::new(keyless).is_err());
}

#[test]
fn the_connections_of_a_revoked_node_end_and_no_others() {
    let cluster = Cluster::new();
    let (_folder, address) = place();
    let nodes = Nodes::new(cluster.knowing(&cluster.server));
    let config = ShmConfig {
        nodes: Some(nodes.clone()),
        ..keyed()
    };
    let mut server = Host::listening(config, &address);
    let desktop = member(&cluster.authority, "desktop", &[CLIENT], NEVER);
    let mut clients = [&cluster.client, &desktop].map(|member| {
        let mut client = Host::new(as_node(cluster.knowing(member)));
        let peer = client.shm.connect(Instant::now(), &address).unwrap();
        send(&mut client, peer, b"hello", &mut server);
        (client, peer)
    });
    server.until("both are there", |server| server.log.packets.len() == 2);
    let [(ended, ending), (kept, peer)] = &mut clients;
    ended.shm.send(*ending, &[b"too late"]).unwrap();
    nodes.replace(membership(
        &cluster.server,
        &[&cluster.authority],
        &[&cluster.client],
    ));
    both(ended, &mut server, "it has ended", |ended, server| {
        !ended.log.down.is_empty() && !server.log.down.is_empty()
    });
    let why = server.log.down[0].1.to_string();
    assert!(why.contains("laptop, was revoked"), "{why}");
    send(kept, *peer, b"still here", &mut server);
    server.until("the other one is", |server| server.log.packets.len() == 3);
    let said = server.log.packets.iter().map(|(_, packet)| &packet[..]);
    assert!(said.eq([&b"hello"[..], b"hello", b"still here"]));
    assert!(kept.log.down.is_empty());
    assert_eq!(server.log.down.len(), 1);
}

/// Revoked when the listener has read the greeting, on either side: both have begun with what they knew before.
#[test]
fn a_node_that_is_revoked_while_it_connects_does_not_come_up() {
    let cluster = Cluster::new();
    for late in 0..2 {
        let (_folder, address) = place();
        let members = [&cluster.client, &cluster.server];
        let nodes = members.map(|member| Nodes::new(cluster.knowing(member)));
        let configs = nodes.each_ref().map(|nodes| ShmConfig {
            nodes: Some(nodes.clone()),
            ..keyed()
        });
        let [calling, called] = configs;
        let mut server = Host::listening(called, &address);
        let mut client = Host::new(calling);
        let peer = client.shm.connect(Instant::now(), &address).unwrap();
        assert!(client.shm.send(peer, &[b"quick"]).is_err());
        both(&mut client, &mut server, "it has greeted", |_, server| {
            let half_open = server.shm.half_open.first();
            half_open.is_some_and(HalfOpen::has_greeted)
        });
        nodes[late].replace(membership(
            members[late],
            &[&cluster.authority],
            &[members[1 - late]],
        ));
        both(&mut client, &mut server, "it is refused", |client, _| {
            !client.log.down.is_empty()
        });
        let why = client.log.down[0].1.to_string();
        assert!(why.contains("was revoked"), "{why}");
        assert!(client.log.writable.is_empty());
        assert!(server.log.packets.is_empty());
        if late == 1 {
            assert!(server.log.up.is_empty());
        }
    }
}

/// A role is asked for however the address was written, and what no role is known of is not called.
#[test]
fn roles_are_asked_for_at_addresses_in_all_their_spellings() {
    let cluster = Cluster::new();
    let desktop = member(&cluster.authority, "desktop", &[CLIENT], NEVER);
    for (pinned, why) in [
        ("/socket", "has the roles client, and not io3"),
        ("//./socket", "has the roles client, and not io3"),
        ("/another", "the role of the node at"),
    ] {
        let (folder, address) = place();
        let mut knowing = cluster.knowing(&cluster.client);
        let pinned = format!("shm://{}{pinned}", folder.path().display());
        knowing.pin(&pinned, "io3").unwrap();
        let mut server = Host::listening(as_node(cluster.knowing(&desktop)), &address);
        let mut client = Host::new(as_node(knowing));
        let peer = client.shm.connect(Instant::now(), &address).unwrap();
        assert!(client.shm.send(peer, &[b"a secret for io3"]).is_err());
        both(&mut client, &mut server, "it is refused", |client, _| {
            !client.log.down.is_empty()
        });
        let said = client.log.down[0].1.to_string();
        assert!(said.contains(why), "{said}");
    }
}

/// Memory that peers may map is exported as soon as a call has begun: its file is not sent in the middle of the proofs.
#[test]
fn memory_that_is_exported_before_a_call_is_answered_does_not_disturb_it() {
    let cluster = Cluster::new();
    for [caller, called] in [
        [keyed(), keyed()],
        [&cluster.client, &cluster.server].map(|member| as_node(cluster.knowing(member))),
    ] {
        let (_folder, address) = place();
        let mut server = Host::listening(called, &address);
        let mut client = Host::new(caller);
        let memory = client.shm.allocate(1 << 16).unwrap();
        let peer = client.shm.connect(Instant::now(), &address).unwrap();
        let region = client
            .shm
            .grant(peer, &memory, Registration::NONE, Access::Read)
            .unwrap();
        assert_eq!(region.object, None, "it is not there yet");
        send(&mut client, peer, b"hello", &mut server);
        both(&mut client, &mut server, "it is there", |_, server| {
            !server.log.packets.is_empty()
        });
        assert!(client.log.down.is_empty());
    }
}

/// A listener of our own user that proves nothing, and puts a packet into the ring that it was given.
#[test]
fn what_an_unproven_listener_puts_into_the_ring_is_not_taken() {
    let cluster = Cluster::new();
    for config in [keyed(), as_node(cluster.knowing(&cluster.client))] {
        let (_folder, address) = place();
        let has_nodes = config.nodes.is_some();
        let mut listener = RecordListener::bind(Path::new(address.rest())).unwrap();
        let mut client = Host::new(config);
        let peer = client.shm.connect(Instant::now(), &address).unwrap();
        assert_eq!(client.shm.send(peer, &[b"hello"]).is_err(), has_nodes);
        let Ok(causeway_sys::socket::Accepted::Connection(socket)) = listener.accept(&[]) else {
            panic!("it calls when it sends");
        };
        let mut buffer = [0; MAX_RECORD_BYTES];
        let Ok(Received::Record(len, files)) = socket.receive(&mut buffer) else {
            panic!("a caller greets first");
        };
        let Ok(Record::Hello(hello)) = Record::from_bytes(&buffer[..len]) else {
            panic!("a caller greets first");
        };
        assert_eq!(hello.flags & FLAG_NODES != 0, has_nodes);
        let layout =
            PairLayout::new(hello.ring_bytes as usize, hello.region_slots as usize).unwrap();
        let mapping = Mapping::new(&files[0], layout.len()).unwrap();
        let mut lying = Pair::new(mapping, layout, 1, client.shm.own, Instant::now());
        let forged: &[&[u8]] = &[b"I am io3"];
        assert!(lying.publish(SlotKind::Packet, &forged, 8));
        for _ in 0..1000 {
            client.poll();
        }
        assert!(client.log.packets.is_empty());
        if has_nodes {
            // Nor has it been given anything.
            assert!(!lying.consumer.is_ready(), "the client has sent");
        }
        welcome(&socket);
        client.until("it is given up", |client| !client.log.down.is_empty());
        assert!(client.log.packets.is_empty());
    }
}

fn welcome(socket: &RecordSocket) {
    let bell = memfd::create_fixed("test-bell", doorbell::BYTES).unwrap();
    let record = Record::Welcome(Welcome {
        formats: FORMATS,
        flags: 0,
        process: ProcessInfo {
            incarnation: 1,
            doorbell_bit: 0,
            probe_address: 0,
            probe_value: 0,
        },
    });
    let files = [std::os::fd::AsFd::as_fd(&bell)];
    socket.send(&record.to_bytes(), &files).unwrap();
}
