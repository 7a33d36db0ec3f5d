//! Capabilities that end before their time: no earlier right is left after permissions were changed, a file was removed, or a server was
//! started again.

use std::time::{Duration, Instant};

use causeway_sys::memory::Memory;
use causeway_wire::formats::Formats;
use causeway_wire::fs::formats::{FORMATS, REVOCATIONS};
use causeway_wire::fs::{Errno, ObjectId, Operation, Place, ReplyBody, Rights, SetAttributes};
use rustix::process::Signal;

use crate::capabilities::{OTHER, OWNER, here, read, refused, requests, start, store, write};
use crate::cluster::Fixture;
use crate::faults::{halt, signal};
use crate::liar::{Answer, GENEROUS, Liar};

/// More than a server takes at a time.
const SLOW_BYTES: usize = 8 << 20;

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
    // The repeated reply does not grant more either.
    other.sequence -= 1;
    let again = other.change(remembered);
    let Ok((ReplyBody::Node(node), Some(again))) = again else {
        panic!("{again:?}");
    };
    assert_eq!((node.attributes.mode, again.rights), (0o666, Rights::NONE));
    // A file's owner continues with a new capability.
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

/// Has a client of these formats write to a file and let the server wait for the bytes, until `end` ends its capability. Returns the file, and what the
/// server replies.
fn write_slowly(
    fixture: &Fixture,
    formats: Formats,
    end: impl Fn(ObjectId, &[u8]),
) -> (ObjectId, Answer) {
    let mut asking = Liar::new(fixture, 0x10, OWNER);
    let memory = Memory::zeroed(SLOW_BYTES);
    let begun = Instant::now();
    for number in 0.. {
        let path = format!("/file-{number}").into_bytes();
        let object = store(fixture, &path, OWNER, 0o666);
        let mut slow = Liar::new(fixture, 0x20 + number, OTHER);
        slow.formats = formats;
        let shown = slow.capability(object);
        let operation = Operation::Write {
            object,
            number: 1,
            repeated: None,
            at_least: 0,
            regions: here(0, memory.len() as u64),
            memory: vec![slow.export(1, &memory)],
            inline: vec![],
            append_lock: 0,
        };
        let (server, target) = slow.servers[1];
        let request = slow.request(target, operation, Some(shown));
        let sent = slow.post(server, &request.to_bytes(formats));
        loop {
            let status = asking.ask_with(1, Operation::StorageStatus, None, |_| {});
            match status {
                Ok((ReplyBody::StorageStatus { busy: 1.., .. }, _)) => break,
                Ok(_) => assert!(begun.elapsed() < GENEROUS, "it never begins"),
                Err(failure) => panic!("{failure:?}"),
            }
        }
        end(object, &path);
        match slow.answer(sent) {
            // It was another request that was in progress.
            Err(failure) if failure.errno == Errno::CAPABILITY_ENDED => {
                assert!(begun.elapsed() < GENEROUS, "it never begins in time");
            }
            answer => return (object, answer),
        }
    }
    unreachable!("numbers do not end")
}

/// A client that has made no change yet.
fn changing(fixture: &Fixture, object: ObjectId, uid: u32) -> Liar {
    Liar::new(fixture, u128::from(object.0) << 64, uid)
}

/// A client that lets a server wait for its data does not continue with rights that have ended meanwhile.
#[test]
fn a_write_in_progress_ends_with_its_capability() {
    let fixture = start(|configuration| configuration.timeout = GENEROUS);
    let close = |object, _: &[u8]| changing(&fixture, object, OWNER).set_mode(object, 0o600);
    let (object, answer) = write_slowly(&fixture, FORMATS, close);
    refused(answer, &[Errno::REVOKED], "the rest of a write");
    let mut owner = Liar::new(&fixture, 0x1, OWNER);
    let own = owner.capability(object);
    let mut end = read(object);
    if let Operation::Read { regions, .. } = &mut end {
        *regions = here(SLOW_BYTES as u64 - 8, 8);
    }
    match owner.ask(1, end, &own) {
        Ok((ReplyBody::Transferred { bytes: 0, .. }, _)) => {}
        other => panic!("{other:?}"),
    }
}

/// A client of an earlier format would not say of a write that it sends again that a part of it may be stored.
#[test]
fn a_write_in_progress_of_an_earlier_format_is_carried_out() {
    let fixture = start(|configuration| configuration.timeout = GENEROUS);
    let close = |object, _: &[u8]| changing(&fixture, object, OWNER).set_mode(object, 0o600);
    let formats = Formats {
        highest: REVOCATIONS - 1,
        ..FORMATS
    };
    match write_slowly(&fixture, formats, close) {
        (_, Ok((ReplyBody::Transferred { bytes, .. }, _))) => assert_eq!(bytes, SLOW_BYTES as u64),
        (_, other) => panic!("{other:?}"),
    }
}

#[test]
fn a_write_in_progress_ends_when_its_file_is_removed() {
    let fixture = start(|configuration| configuration.timeout = GENEROUS);
    let remove = |object, path: &[u8]| {
        let mut root = changing(&fixture, object, 0);
        let old = root.capability(object);
        let unlink = Operation::Unlink {
            place: Place::from(path),
            expected: Some(object),
        };
        assert!(root.change(unlink).is_ok());
        // The datafiles are removed soon.
        let begun = Instant::now();
        let has_ended = |answer: Answer| matches!(answer, Err(failure) if failure.errno == Errno::CAPABILITY_ENDED);
        while !has_ended(root.ask(1, write(object), &old)) {
            assert!(begun.elapsed() < GENEROUS, "it is never removed");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let (_, answer) = write_slowly(&fixture, FORMATS, remove);
    refused(answer, &[Errno::REVOKED], "the rest of a write");
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
