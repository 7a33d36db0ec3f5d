//! Replies that look like lies, and that honest servers send.

use super::*;

#[test]
fn errors_of_a_servers_disk_come_through() {
    let stand = Stand::new("Read", |_| None);
    let mut client = stand.client(PATIENT);
    for errno in [Errno::EIO, Errno(74), Errno(117), Errno(133)] {
        stand.set_lie(Box::new(move |_| Response::Fail(errno)));
        let error = read(&mut client).unwrap_err();
        assert_eq!(error.errno, errno, "{error}");
        assert_eq!(error.system_number(), errno.0, "{error}");
    }
}

/// As servers of formats before 14 do whose datafiles are removed while they list them.
#[test]
fn a_batch_of_which_all_was_removed_is_asked_for_again() {
    let stand = Stand::new("ListData", |_| None);
    let mut client = stand.client(PATIENT);
    let replies = Arc::clone(&stand.replies);
    stand.set_lie(Box::new(move |_| match replies.load(Ordering::SeqCst) {
        1..4 => Response::Reply(ReplyBody::Datafiles {
            datafiles: Vec::new(),
            end: false,
        }),
        _ => Response::Honest,
    }));
    let orphans = client.orphans(0, ObjectId(1)).unwrap();
    assert_eq!((orphans.datafiles, orphans.next), (1, None));
}

/// A check of the metadata finds that, and repairs it.
#[test]
fn an_entry_that_says_another_kind_than_its_object_is_of_the_objects_kind() {
    let stand = Stand::new("ReadDirectory", |_| None);
    stand.set_lie(Box::new(|honest| {
        let mut reply = honest.clone();
        entries_in(&mut reply)[1].kind = Kind::Fifo;
        Response::Reply(reply)
    }));
    let mut client = stand.client(PATIENT);
    let listed = client.read_directory(ObjectId::ROOT, b"", 3, true);
    let entries = listed.unwrap().0;
    assert_eq!(entries[1], entry(b"f", FILE));
}
