//! Peers that are not what they seem: other users, users without a number, processes that start another program, and processes without
//! the cluster's key.

use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;

use causeway_sys::memfd;
use causeway_sys::memory::Memory;
use causeway_sys::socket::{Accepted, Received, RecordListener, RecordSocket};
use causeway_wire::codec::Wire;
use causeway_wire::region::RegionDescriptor;
use causeway_wire::shm::{
    Challenge, FLAG_KEYED, FORMATS, Hello, MAX_RECORD_BYTES, PROOF_BYTES, PairLayout, ProcessInfo,
    Proof, Record, Welcome, doorbell,
};

use super::death::Victim;
use super::*;
use crate::method::{Direction, Transfer};
use crate::shm::pair::Attach;
use crate::trust::test_users::{as_user, users};

/// Outcome of a call; the listener must report no event.
fn refused(client: &mut Host, server: &mut Host, address: &Address) -> String {
    let peer = client.shm.connect(Instant::now(), address).unwrap();
    let _ = client.shm.send(peer, &[b"let me in"]);
    both(client, server, "the client is turned away", |client, _| {
        !client.log.down.is_empty()
    });
    assert!(server.log.up.is_empty() && server.log.packets.is_empty());
    reason(client)
}

fn reason(client: &mut Host) -> String {
    match client.log.down.pop() {
        Some((_, PeerError::Unauthorised(reason))) => reason,
        other => panic!("{other:?}"),
    }
}

/// A place where every user may listen.
fn open_place() -> (tempfile::TempDir, Address) {
    let (folder, address) = place();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    (folder, address)
}

fn hello(flags: u8) -> Hello {
    let layout = PairLayout::new(16 << 10, 128).unwrap();
    Hello {
        formats: FORMATS,
        flags,
        ring_bytes: layout.ring_bytes as u32,
        region_slots: layout.region_slots as u32,
        nonce: 1,
        process: ProcessInfo {
            incarnation: 1,
            doorbell_bit: 0,
            probe_address: 0,
            probe_value: 0,
        },
    }
}

fn say(socket: &RecordSocket, hello: Hello) {
    let layout = PairLayout::new(16 << 10, 128).unwrap();
    let pair = memfd::create_fixed("test-pair", layout.len()).unwrap();
    let bell = memfd::create_fixed("test-bell", doorbell::BYTES).unwrap();
    let record = Record::Hello(hello).to_bytes();
    socket.send(&record, &[pair.as_fd(), bell.as_fd()]).unwrap();
}

/// The next record on a socket, which a process of this test is to send.
fn next(socket: &RecordSocket, host: &mut Host) -> Record {
    let mut buffer = [0; MAX_RECORD_BYTES];
    let mut found = None;
    host.until("a record is there", |_| {
        match socket.receive(&mut buffer) {
            Ok(Received::Record(len, _)) => {
                found = Some(Record::from_bytes(&buffer[..len]).unwrap())
            }
            Ok(Received::Nothing) => {}
            other => panic!("{other:?}"),
        }
        found.is_some()
    });
    found.unwrap()
}

/// Root connects to no other user's process, and no other user's process accepts root: another user could choose where root writes.
#[test]
fn memory_is_shared_within_one_user_only() {
    let me = rustix::process::geteuid().as_raw();
    let Some(other) = users().into_iter().find(|&user| user != me) else {
        eprintln!("left out: only root can be two users");
        return;
    };
    let (_folder, address) = open_place();
    let mut client = Host::new(ShmConfig::default());
    let mut server = as_user(other, || Host::listening(ShmConfig::default(), &address));
    let said = refused(&mut client, &mut server, &address);
    assert!(
        said.contains(&format!("a process of user {other}")),
        "{said}"
    );
    // A root process that connects nevertheless.
    let socket = RecordSocket::connect(Path::new(address.rest())).unwrap();
    let Record::Refused { reason: said, .. } = next(&socket, &mut server) else {
        panic!("root is accepted");
    };
    assert!(said.contains(&format!("user {me} may not")), "{said}");
    drop(server);
    // The other way round, from the user's own code.
    let (_folder, address) = open_place();
    let mut server = Host::listening(ShmConfig::default(), &address);
    std::fs::set_permissions(address.rest(), std::fs::Permissions::from_mode(0o666)).unwrap();
    let mut client = as_user(other, || Host::new(ShmConfig::default()));
    let peer = client.shm.connect(Instant::now(), &address).unwrap();
    as_user(other, || {
        let _ = client.shm.send(peer, &[b"let me in"]);
    });
    both(
        &mut client,
        &mut server,
        "it is turned away",
        |client, _| !client.log.down.is_empty(),
    );
    let said = reason(&mut client);
    assert!(said.contains(&format!("a process of user {me}")), "{said}");
}

/// In a user namespace where our user has no number, all users outside of it seem to be the same user as ours.
#[test]
fn two_unmapped_users_do_not_count_as_the_same_user() {
    let (_folder, address) = open_place();
    let mut command = Victim::command("echo", &address);
    // SAFETY: only system calls between `fork` and `exec`.
    unsafe {
        command.pre_exec(|| {
            Ok(rustix::thread::unshare_unsafe(
                rustix::thread::UnshareFlags::NEWUSER,
            )?)
        })
    };
    let Ok(child) = command.spawn() else {
        eprintln!("left out: there are no user namespaces here");
        return;
    };
    let _server = Victim::of(child);
    let mut client = Host::new(ShmConfig::default());
    let peer = client.shm.connect(Instant::now(), &address).unwrap();
    client.shm.send(peer, &[b"let me in"]).unwrap();
    client.until("it is turned away", |client| !client.log.down.is_empty());
    let said = reason(&mut client);
    assert!(said.contains("no number in this user namespace"), "{said}");
}

/// Processes are checked again in each tick of the kernel's clock.
fn wait_for_a_tick() {
    let tick = || rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    let now = tick();
    while tick() == now {
        std::hint::spin_loop();
    }
}

/// A peer that keeps the connection and starts another program in the same process: its memory must not be written.
#[test]
fn memory_of_a_process_is_not_written_after_it_starts_another_program() {
    let (_folder, address) = place();
    let mut host = Host::listening(ShmConfig::default(), &address);
    let mut changeling = Victim::start("changeling", &address);
    host.until("a region is there", |host| !host.log.packets.is_empty());
    let (peer, region) = host.log.packets.pop_front().unwrap();
    let region = RegionDescriptor::from_bytes(&region).unwrap();
    let put = |host: &mut Host| {
        let transfer = Transfer {
            direction: Direction::Put,
            local: vec![Memory::zeroed(region.len as usize)].into(),
            remote: vec![RegionDescriptor {
                object: None,
                ..region
            }]
            .into(),
            notify: None,
            registrations: Vec::new(),
            token: 0,
        };
        host.shm.transfer(peer, transfer).unwrap();
    };
    put(&mut host);
    host.until("it is written", |host| {
        host.log.done.pop() == Some((0, Ok(())))
    });
    host.shm.send(peer, &[b"go on"]).unwrap();
    changeling.wait_until_ready();
    wait_for_a_tick();
    put(&mut host);
    let is_refused = |host: &mut Host| {
        let pair = host.shm.peers.get_mut(peer).and_then(|entry| entry.pair());
        let attach = pair.map(|pair| &pair.attach);
        matches!(attach, Some(Attach::Refused(why)) if why.contains("another program"))
    };
    host.until("the process is not reached into", is_refused);
    assert!(host.log.down.is_empty(), "no other event reports it");
    assert!(host.log.done.is_empty());
}

fn keyed(byte: u8) -> ShmConfig {
    ShmConfig {
        key: Some([byte; 32].into()),
        ..ShmConfig::default()
    }
}

#[test]
fn other_keys_and_missing_keys_are_refused_with_the_reason() {
    for (client, server, why) in [
        (keyed(1), keyed(2), "another cluster key"),
        (keyed(1), ShmConfig::default(), "has no cluster key"),
        (ShmConfig::default(), keyed(1), "demands the cluster's key"),
    ] {
        let (_folder, address) = place();
        let mut server = Host::listening(server, &address);
        let said = refused(&mut Host::new(client), &mut server, &address);
        assert!(said.contains(why), "{said}");
        server.until("the caller has left", |server| {
            server.shm.half_open.is_empty()
        });
    }
    meet(keyed(1));
}

/// A caller that has a flag but no key: guessed proofs, the listener's own proof sent back, and no proof at all.
#[test]
fn a_caller_that_does_not_hold_the_key_is_not_welcomed() {
    let (_folder, address) = place();
    let mut host = Host::listening(keyed(1), &address);
    for lie in 0..3 {
        let socket = RecordSocket::connect(Path::new(address.rest())).unwrap();
        say(&socket, hello(FLAG_KEYED));
        let Record::Challenge(challenge) = next(&socket, &mut host) else {
            panic!("it is believed without a proof");
        };
        let record = match lie {
            0 => Record::Proof(Proof([0; PROOF_BYTES])),
            1 => Record::Proof(challenge.proof),
            _ => Record::Hello(hello(0)),
        };
        socket.send(&record.to_bytes(), &[]).unwrap();
        let answer = next(&socket, &mut host);
        assert!(matches!(answer, Record::Refused { .. }), "{answer:?}");
    }
    assert!(host.log.up.is_empty() && host.shm.half_open.is_empty());
}

/// A listener of our own user that is no server: it welcomes without a proof, or with one that it was sent.
#[test]
fn a_listener_that_does_not_hold_the_key_is_not_talked_to() {
    let (_folder, address) = place();
    for lie in [
        Record::Welcome(Welcome {
            formats: FORMATS,
            flags: 0,
            process: hello(0).process,
        }),
        Record::Challenge(Challenge {
            nonce: 1,
            proof: Proof([7; PROOF_BYTES]),
        }),
    ] {
        let mut listener = RecordListener::bind(Path::new(address.rest())).unwrap();
        let mut client = Host::new(keyed(1));
        let peer = client.shm.connect(Instant::now(), &address).unwrap();
        client.shm.send(peer, &[b"hello"]).unwrap();
        let Ok(Accepted::Connection(socket)) = listener.accept(&[]) else {
            panic!("it calls when it sends");
        };
        let Record::Hello(said) = next(&socket, &mut client) else {
            panic!("a caller greets first");
        };
        assert_eq!(said.flags & FLAG_KEYED, FLAG_KEYED);
        let bell = memfd::create_fixed("test-bell", doorbell::BYTES).unwrap();
        socket.send(&lie.to_bytes(), &[bell.as_fd()]).unwrap();
        client.until("it ends the connection", |client| {
            !client.log.down.is_empty()
        });
        let said = reason(&mut client);
        assert!(said.contains("key"), "{said}");
    }
}
