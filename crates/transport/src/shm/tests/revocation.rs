//! Exports end with their connection, also if the peer does not know yet.

use causeway_sys::memory::Memory;
use causeway_wire::region::RegionDescriptor;

use super::*;
use crate::method::{Access, Direction, Registration, Transfer};
use crate::shm::AttachPolicy;
use crate::shm::pair::Pair;

const LEN: usize = 100_000;

fn pair(host: &mut Host, peer: Peer) -> &mut Pair {
    host.shm.peers.get_mut(peer).unwrap().pair().unwrap()
}

/// The client's accesses to `region` after `end`, of which it has not been notified.
fn put_after(end: impl Fn(Host, Peer) -> Option<Host>) {
    for attach in [AttachPolicy::Auto, AttachPolicy::Off] {
        let mut met = meet(ShmConfig {
            attach,
            ..ShmConfig::default()
        });
        let far = Memory::zeroed(LEN);
        let export = |met: &mut ConnectedPair| {
            let (shm, client) = (&mut met.server.shm, met.to_client);
            shm.grant(client, &far, Registration::NONE, Access::ReadWrite)
                .unwrap()
        };
        let regions: Vec<RegionDescriptor> = (0..3).map(|_| export(&mut met)).collect();
        met.server.shm.revoke(met.to_client, regions[0].key);
        let _server = end(met.server, met.to_client);
        assert_eq!(far.sharers(), 1, "nothing holds the memory any more");
        for (token, region) in regions.into_iter().enumerate() {
            let transfer = Transfer {
                direction: Direction::Put,
                local: vec![Memory::from_vec(vec![0xEE; LEN])].into(),
                remote: vec![region].into(),
                registrations: Vec::new(),
                notify: None,
                token: token as Token,
            };
            met.client.shm.transfer(met.to_server, transfer).unwrap();
        }
        met.client
            .until("all are refused", |client| client.log.done.len() == 3);
        for (_, result) in &met.client.log.done {
            assert!(
                matches!(
                    result,
                    Err(TransferError::Protection | TransferError::Peer(_))
                ),
                "{result:?}"
            );
        }
        assert!(far.to_vec().iter().all(|&byte| byte == 0));
    }
}

#[test]
fn a_disconnected_peer_reaches_no_memory() {
    put_after(|mut server, peer| {
        server.shm.disconnect(Instant::now(), peer, &mut server.log);
        Some(server)
    });
}

#[test]
fn a_peer_that_was_given_up_reaches_no_memory() {
    put_after(|mut server, peer| {
        server
            .shm
            .fail(peer, PeerError::Protocol("a test".to_owned()));
        server.poll();
        assert!(matches!(server.log.down[..], [(_, PeerError::Protocol(_))]));
        Some(server)
    });
}

#[test]
fn peers_of_a_dropped_instance_reach_no_memory() {
    put_after(|server, _| {
        drop(server);
        None
    });
}

/// Memory that a peer goes on writing is kept until the peer stops; other memory is not,
/// and the owner waits in vain for the peer once only.
#[test]
fn memory_in_a_copy_that_does_not_end_is_kept_until_it_does() {
    let mut met = meet(ShmConfig::default());
    let memories: Vec<Memory> = (0..20).map(|_| Memory::zeroed(64)).collect();
    let (server, to_client) = (&mut met.server, met.to_client);
    let keys: Vec<u64> = memories
        .iter()
        .map(|memory| {
            server
                .shm
                .grant(to_client, memory, Registration::NONE, Access::Write)
        })
        .map(|region| region.unwrap().key)
        .collect();
    let kept = || -> Vec<usize> {
        let held = |at: &usize| memories[*at].sharers() == 2;
        (0..memories.len()).filter(held).collect()
    };
    let ended = |upto: usize| kept().into_iter().filter(move |at| *at < upto);
    let client = pair(&mut met.client, met.to_server);
    client.imports.announce(&keys[..1]);
    server.shm.revoke(to_client, keys[1]);
    assert!(!pair(server, to_client).copy_wait_timed_out);
    server.shm.revoke(to_client, keys[0]);
    assert!(pair(server, to_client).copy_wait_timed_out);
    server.tick();
    assert!(ended(2).eq([0]));
    client.imports.release(&keys[..1]);
    server.tick();
    assert!(ended(2).eq([]), "it goes on");
    client.imports.announce(&keys[..8]);
    for key in &keys[2..6] {
        server.shm.revoke(to_client, *key);
        assert!(pair(server, to_client).copy_wait_timed_out);
    }
    assert!(ended(6).eq([2, 3, 4, 5]), "one that copies under many");
    client.imports.release(&keys[..8]);
    client.imports.announce(&keys[10..11]);
    server
        .shm
        .disconnect(Instant::now(), to_client, &mut server.log);
    assert_eq!(kept(), [2, 3, 4, 5, 10]);
    server.tick();
    assert_eq!(kept(), [10]);
    client.imports.release(&keys[10..11]);
    server.tick();
    assert_eq!(kept(), [0usize; 0]);
}

/// The peer is notified of the end of a connection whose socket is still polled, and its own end, or that
/// of its copies, frees the memory.
#[test]
fn memory_is_kept_until_the_peer_is_gone() {
    if !has_own_process("shm::tests::revocation::memory_is_kept_until_the_peer_is_gone") {
        return;
    }
    for dies in [false, true] {
        let mut met = meet(ShmConfig::default());
        let memory = Memory::zeroed(64);
        let (server, to_client) = (&mut met.server, met.to_client);
        let region = server
            .shm
            .grant(to_client, &memory, Registration::NONE, Access::ReadWrite);
        let client = pair(&mut met.client, met.to_server);
        client.imports.announce(&[region.unwrap().key]);
        server
            .shm
            .disconnect(Instant::now(), to_client, &mut server.log);
        server.tick();
        assert_eq!(memory.sharers(), 2);
        if !dies {
            let client = &mut met.client;
            client.until("it hears", |client| !client.log.down.is_empty());
            assert!(matches!(client.log.down[..], [(_, PeerError::Closed)]));
        }
        // Dead or not, it has closed the socket: it cannot be in the middle of a copy.
        let _client = (!dies).then_some(met.client);
        server.tick();
        assert_eq!(memory.sharers(), 1, "dies: {dies}");
    }
}

/// An owner that does not wait is notified when it may use the memory.
#[test]
fn an_owner_that_does_not_wait_for_revocation_is_told_of_its_end() {
    let mut met = meet(ShmConfig::default());
    let memory = Memory::zeroed(64);
    let (server, to_client) = (&mut met.server, met.to_client);
    let export = |server: &mut Host| {
        let region = server
            .shm
            .grant(to_client, &memory, Registration::NONE, Access::Write);
        region.unwrap().key
    };
    let (key, other) = (export(server), export(server));
    let client = pair(&mut met.client, met.to_server);
    client.imports.announce(&[key]);
    assert!(server.shm.try_revoke(to_client, other));
    assert!(!server.shm.try_revoke(to_client, key));
    assert!(!client.imports.is_open(key));
    server.tick();
    assert!(!server.shm.try_revoke(to_client, key));
    assert!(
        server.shm.deadline().is_some(),
        "it does not sleep for long"
    );
    client.imports.release(&[key]);
    server.tick();
    assert!(server.shm.try_revoke(to_client, key));
    assert_eq!(memory.sharers(), 1);
    assert!(server.shm.deadline().is_none());
}

/// The owner does not wait for a peer that can only read, also if that states that it is copying.
#[test]
fn memory_that_is_read_is_free_at_once() {
    let mut met = meet(ShmConfig::default());
    let memories: Vec<Memory> = (0..3).map(|_| Memory::zeroed(64)).collect();
    let (server, to_client) = (&mut met.server, met.to_client);
    let keys: Vec<u64> = memories
        .iter()
        .map(|memory| {
            server
                .shm
                .grant(to_client, memory, Registration::NONE, Access::Read)
        })
        .map(|region| region.unwrap().key)
        .collect();
    let client = pair(&mut met.client, met.to_server);
    client.imports.announce(&keys);
    server.shm.revoke(to_client, keys[0]);
    assert_eq!(memories[0].sharers(), 1);
    server
        .shm
        .disconnect(Instant::now(), to_client, &mut server.log);
    assert!(memories.iter().all(|memory| memory.sharers() == 1));
}

/// A peer that has closed its socket cannot be in the middle of a copy any more.
#[test]
fn a_dead_peer_is_not_waited_for() {
    if !has_own_process("shm::tests::revocation::a_dead_peer_is_not_waited_for") {
        return;
    }
    let mut met = meet(ShmConfig::default());
    let memory = Memory::zeroed(64);
    let (server, to_client) = (&mut met.server, met.to_client);
    let region = server
        .shm
        .grant(to_client, &memory, Registration::NONE, Access::Write)
        .unwrap();
    let client = pair(&mut met.client, met.to_server);
    client.imports.announce(&[region.key]);
    drop(met.client);
    server.until("its end is seen", |server| !server.log.down.is_empty());
    assert_eq!(memory.sharers(), 1);
}

/// An instance that ends waits for all copy_wait_timed_out peers at once, not for one after the other: the memory of all
/// is kept.
#[test]
fn stuck_peers_of_a_dropped_instance_are_given_up_together() {
    let (_folder, address) = place();
    let mut server = Host::listening(ShmConfig::default(), &address);
    let mut clients: Vec<(Host, Peer)> = (0..4)
        .map(|_| {
            let mut client = Host::new(ShmConfig::default());
            let to_server = client.shm.connect(Instant::now(), &address).unwrap();
            client.shm.send(to_server, &[b"hello"]).unwrap();
            both(&mut client, &mut server, "they meet", |client, _| {
                is_up(client, to_server)
            });
            (client, to_server)
        })
        .collect();
    let memories: Vec<Memory> = (0..4).map(|_| Memory::zeroed(64)).collect();
    let peers = server.log.up.clone();
    for ((memory, to_client), (client, to_server)) in memories.iter().zip(peers).zip(&mut clients) {
        let region = server
            .shm
            .grant(to_client, memory, Registration::NONE, Access::Write);
        pair(client, *to_server)
            .imports
            .announce(&[region.unwrap().key]);
    }
    drop(server);
    for memory in &memories {
        assert_eq!(memory.sharers(), 2, "given up");
    }
}
