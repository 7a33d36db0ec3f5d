//! Capabilities that end before their time: what changes permissions, removes a file, or starts a server again leaves no right of before.

use std::time::{Duration, Instant};

use causeway_sys::memory::Memory;
use causeway_wire::fs::formats::FORMATS;
use causeway_wire::fs::{Errno, Operation, Place, ReplyBody, Rights, SetAttributes};
use rustix::process::Signal;

use crate::capabilities::{OTHER, OWNER, here, read, refused, requests, start, store, write};
use crate::faults::{halt, signal};
use crate::liar::{GENEROUS, Liar};

#[test]
fn a_change_of_permissions_ends_capabilities_before_it_is_acknowledged() {
    let fixture = start(|_| {});
    let object = store(&fixture, b"/file", OWNER, 0o666);
    let mut owner = Liar::new(&fixture, 0x1, OWNER);
    let mut other = Liar::new(&fixture, 0x2, OTHER);
    let old = other.capability(object);
    assert!(old.rights.has(Rights::READ.with(Rights::WRITE)));
    // A change whose reply the metadata server remembers, with the mode of now.
    let remembered = Operation::Grow { object, size: 1 };
    assert!(other.change(remembered.clone()).is_ok());
    for server in [1, 2] {
        assert!(other.ask(server, read(object), &old).is_ok());
    }
    owner.set_mode(object, 0o600);
    for server in [1, 2] {
        for (operation, _) in requests(object) {
            let what = format!("{operation:?}");
            let answer = other.ask(server, operation, &old);
            refused(answer, &[Errno::CAPABILITY_ENDED], &what);
        }
    }
    let new = other.capability(object);
    assert_eq!(new.rights, Rights::NONE);
    // Nor does the reply of before bring more.
    other.sequence -= 1;
    let again = other.change(remembered);
    let Ok((ReplyBody::Node(node), Some(again))) = again else {
        panic!("{again:?}");
    };
    assert_eq!((node.attributes.mode, again.rights), (0o666, Rights::NONE));
    // A file's owner goes on, with a new one.
    let own = owner.capability(object);
    assert!(owner.ask(1, read(object), &own).is_ok());
    // And so with a change of the owner.
    let mut root = Liar::new(&fixture, 0x3, 0);
    let set = SetAttributes {
        uid: Some(OTHER),
        ..SetAttributes::default()
    };
    assert!(
        root.change(Operation::SetAttributes { object, set })
            .is_ok()
    );
    refused(
        owner.ask(2, read(object), &own),
        &[Errno::CAPABILITY_ENDED],
        "of an earlier owner",
    );
    assert_eq!(owner.capability(object).rights, Rights::NONE);
}

/// A client that lets a server wait for what it writes does not go on with rights that have ended meanwhile.
#[test]
fn a_write_in_progress_ends_with_its_capability() {
    let fixture = start(|configuration| configuration.timeout = GENEROUS);
    let object = store(&fixture, b"/file", OWNER, 0o666);
    let mut owner = Liar::new(&fixture, 0x1, OWNER);
    let mut slow = Liar::new(&fixture, 0x2, OTHER);
    let shown = slow.capability(object);
    let memory = Memory::zeroed(8 << 20);
    let len = memory.len() as u64;
    let operation = Operation::Write {
        object,
        number: 1,
        repeated: None,
        at_least: 0,
        regions: here(0, len),
        memory: vec![slow.export(1, &memory)],
        inline: vec![],
        turn: 0,
    };
    let (server, target) = slow.servers[1];
    let request = slow.request(target, operation, Some(shown));
    let sent = slow.post(server, &request.to_bytes(FORMATS));
    let begun = Instant::now();
    loop {
        let status = owner.ask_with(1, Operation::StorageStatus, None, |_| {});
        match status {
            Ok((ReplyBody::StorageStatus { busy: 1.., .. }, _)) => break,
            Ok(_) => assert!(begun.elapsed() < GENEROUS, "it never begins"),
            Err(failure) => panic!("{failure:?}"),
        }
    }
    owner.set_mode(object, 0o600);
    refused(
        slow.answer(sent),
        &[Errno::CAPABILITY_ENDED],
        "the rest of a write",
    );
    let own = owner.capability(object);
    let mut end = read(object);
    if let Operation::Read { regions, .. } = &mut end {
        *regions = here(len - 8, 8);
    }
    match owner.ask(1, end, &own) {
        Ok((ReplyBody::Transferred { bytes: 0, .. }, _)) => {}
        other => panic!("{other:?}"),
    }
}

/// An I/O server that does not reply holds a change of permissions up for a while only. It is told when it replies again, also of what has
/// changed while it was not asked.
#[test]
fn a_server_that_did_not_reply_is_told_of_changed_permissions_later() {
    let fixture = start(|configuration| {
        configuration.access.tell_timeout = Duration::from_millis(500);
        // Nothing expires meanwhile.
        configuration.access.capability_lifetime = Duration::from_secs(24 * 3600);
    });
    let objects = [b"/one" as &[u8], b"/two"].map(|path| store(&fixture, path, OWNER, 0o666));
    let mut owner = Liar::new(&fixture, 0x1, OWNER);
    let mut other = Liar::new(&fixture, 0x2, OTHER);
    let old = objects.map(|object| other.capability(object));
    for (object, old) in objects.iter().zip(&old) {
        assert!(other.ask(1, read(*object), old).is_ok());
    }
    let stopped = fixture.cluster.pid(1).unwrap();
    halt(stopped);
    for object in objects {
        owner.set_mode(object, 0o600);
    }
    signal(stopped, Signal::CONT);
    let begun = Instant::now();
    for (object, old) in objects.iter().zip(&old) {
        while other.ask(1, read(*object), old).is_ok() {
            assert!(begun.elapsed() < GENEROUS, "it is never told");
            std::thread::sleep(Duration::from_millis(5));
        }
        refused(
            other.ask(1, read(*object), old),
            &[Errno::CAPABILITY_ENDED],
            "told later",
        );
    }
}

#[test]
fn a_removed_files_capabilities_end_and_its_datafiles_stay_gone() {
    let fixture = start(|_| {});
    let object = store(&fixture, b"/file", OWNER, 0o600);
    let mut owner = Liar::new(&fixture, 0x1, OWNER);
    let old = owner.capability(object);
    let mut root = Liar::new(&fixture, 0x2, 0);
    let unlink = Operation::Unlink {
        place: Place::from(b"/file" as &[u8]),
        expected: Some(object),
    };
    assert!(root.change(unlink).is_ok());
    // The datafiles are removed soon, and the capabilities end with that.
    let begun = Instant::now();
    for server in [1, 2] {
        while owner.ask(server, write(object), &old).is_ok() {
            assert!(begun.elapsed() < GENEROUS);
            std::thread::sleep(Duration::from_millis(5));
        }
        refused(
            owner.ask(server, write(object), &old),
            &[Errno::CAPABILITY_ENDED],
            "of a removed file",
        );
    }
    let Ok((_, Some(operates))) = root.metadata(Operation::Authorize) else {
        panic!("root is an operator");
    };
    let check = Operation::CheckData {
        datafiles: vec![(object, 1)],
    };
    match root.ask(1, check, &operates) {
        Ok((ReplyBody::Faults(faults), _)) => assert_eq!(faults.len(), 1, "it is absent"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_server_that_starts_trusts_no_capability_of_before() {
    let mut fixture = start(|_| {});
    let object = store(&fixture, b"/file", OWNER, 0o600);
    let mut owner = Liar::new(&fixture, 0x1, OWNER);
    let old = owner.capability(object);
    fixture.cluster.kill(1).unwrap();
    fixture.cluster.restart(1).unwrap();
    let mut owner = Liar::new(&fixture, 0x1, OWNER);
    refused(
        owner.ask(1, read(object), &old),
        &[Errno::CAPABILITY_ENDED],
        "what ended before is not known",
    );
    let new = owner.capability(object);
    assert!(owner.ask(1, read(object), &new).is_ok());
}
