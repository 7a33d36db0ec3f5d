//! Clients that lie in requests that need no capability: leases, append locks, file locks and shared pointers.

use causeway_wire::fs::{
    Errno, Lock, LockFamily, LockRange, ObjectId, Operation, PointerStep, ReplyBody, Request,
};

use crate::capabilities::{OTHER, OWNER, start, store};
use crate::liar::{Answer, Liar};

/// More than the programs that may hold leases at one time.
const MANY_HOLDERS: u128 = 5000;

fn errno(answer: Answer) -> Errno {
    answer.unwrap_err().errno
}

fn hold(liar: &mut Liar, holder: u128, ended: u64) -> Answer {
    liar.metadata(Operation::HoldLeases {
        holder,
        recalls: 7,
        ended,
    })
}

fn end(liar: &mut Liar, holder: u128) -> Answer {
    liar.metadata(Operation::EndLeases { holder })
}

/// Whether the program `holder` is given a lease on the attributes of `/`, which it asks for by this connection.
fn is_leased(liar: &mut Liar, holder: u128) -> bool {
    let operation = Operation::GetNode {
        object: ObjectId::ROOT,
        content: false,
    };
    let lie = |request: &mut Request| request.holder = Some(holder);
    liar.leased_with(operation, lie)
}

/// A client that claims to be one new program after the other takes no other program's place, and one that makes false statements
/// about recalls harms only itself.
#[test]
fn a_client_that_lies_about_leases_takes_none_from_others() {
    let fixture = start(|_| {});
    let mut honest = Liar::new(&fixture, 0x1, OWNER);
    let mut liar = Liar::new(&fixture, 0x2, OTHER);
    assert!(
        !is_leased(&mut honest, 1),
        "it has not said that it waits for recalls"
    );
    hold(&mut honest, 1, 0).unwrap();
    assert!(is_leased(&mut honest, 1));
    for holder in 2..2 + MANY_HOLDERS {
        hold(&mut liar, holder, 0).unwrap();
    }
    assert!(is_leased(&mut honest, 1));
    assert!(!is_leased(&mut liar, 2), "it has come as another one since");
    // Recalls that were never sent, and ends of leases that no program has.
    hold(&mut liar, 3, u64::MAX).unwrap();
    for holder in [0, 4, u128::MAX] {
        end(&mut liar, holder).unwrap();
    }
    assert!(is_leased(&mut honest, 1));
    // A third one finds room.
    let mut third = Liar::new(&fixture, 0x3, OTHER);
    hold(&mut third, u128::MAX, 0).unwrap();
    assert!(is_leased(&mut third, u128::MAX));
    // I/O servers lease nothing.
    for operation in [
        Operation::HoldLeases {
            holder: 1,
            recalls: 7,
            ended: 0,
        },
        Operation::EndLeases { holder: 1 },
    ] {
        assert!(liar.ask_with(1, operation, None, |_| {}).is_err());
    }
    // Changes are made as before.
    let object = store(&fixture, b"/file", OWNER, 0o600);
    honest.set_mode(object, 0o644);
    fixture.cluster.stop().unwrap();
}

#[test]
fn shared_pointers_take_a_right_to_their_file_and_steps_are_done_once() {
    let fixture = start(|_| {});
    let object = store(&fixture, b"/file", OWNER, 0o600);
    let mut owner = Liar::new(&fixture, 0x1, OWNER);
    let mut other = Liar::new(&fixture, 0x2, OTHER);
    let step = |liar: &mut Liar, object, pointer, number, step| {
        liar.metadata(Operation::MovePointer {
            object,
            pointer,
            number,
            step,
        })
    };
    let at = |answer: Answer| match answer {
        Ok((ReplyBody::Pointer(at), _)) => at,
        other => panic!("{other:?}"),
    };
    let put = PointerStep::Put(5);
    assert_eq!(errno(step(&mut other, object, 1, 1, put)), Errno::EACCES);
    assert_eq!(
        errno(step(&mut other, object, 1, 2, PointerStep::Add(1))),
        Errno::POINTER_LOST,
        "a refused step has made nothing"
    );
    let missing = ObjectId(u64::MAX);
    assert!(step(&mut other, missing, 1, 3, put).is_err());
    assert_eq!(
        errno(step(&mut owner, ObjectId::ROOT, 1, 1, put)),
        Errno::EINVAL
    );
    assert_eq!(at(step(&mut owner, object, 1, 2, put)), 5);
    // A step that is sent again, an earlier step, and a step that leads too far.
    for _ in 0..2 {
        let add = PointerStep::Add(3);
        assert_eq!(at(step(&mut owner, object, 1, 3, add)), 5);
    }
    assert_eq!(
        errno(step(&mut owner, object, 1, 2, PointerStep::Get)),
        Errno::STALE_SEQUENCE
    );
    assert_eq!(
        errno(step(&mut owner, object, 1, 4, PointerStep::Add(u64::MAX))),
        Errno::EOVERFLOW
    );
    // A user without rights cannot move, read or end another user's pointer, even by its number.
    for (number, lie) in [
        (5, put),
        (6, PointerStep::Add(1)),
        (7, PointerStep::Get),
        (8, PointerStep::End),
    ] {
        assert_eq!(
            errno(step(&mut other, object, 1, number, lie)),
            Errno::POINTER_LOST
        );
    }
    assert_eq!(at(step(&mut owner, object, 1, 9, PointerStep::Get)), 8);
    // I/O servers have none.
    let get = Operation::MovePointer {
        object,
        pointer: 1,
        number: 10,
        step: PointerStep::Get,
    };
    assert!(owner.ask_with(1, get, None, |_| {}).is_err());
    fixture.cluster.stop().unwrap();
}

/// A client that waits for two locks under one tag is refused the second one, and keeps the locks that it has.
#[test]
fn a_client_that_waits_twice_under_one_tag_is_refused_and_loses_no_lock() {
    let fixture = start(|_| {});
    let taken = store(&fixture, b"/taken", OWNER, 0o600);
    let shared = store(&fixture, b"/shared", OWNER, 0o600);
    let mut one = Liar::new(&fixture, 0x1, OWNER);
    let mut other = Liar::new(&fixture, 0x2, OWNER);
    let whole = |object, exclusive| Lock {
        object,
        family: LockFamily::Whole,
        owner: 1,
        exclusive,
        range: LockRange::ALL,
        pid: 1,
    };
    let lock = |liar: &mut Liar, object, exclusive, wait| {
        let lock = whole(object, exclusive);
        liar.metadata(Operation::Lock { lock, wait })
    };
    let done = |answer: Answer| assert!(matches!(answer, Ok((ReplyBody::Done, _))), "{answer:?}");
    done(lock(&mut one, taken, true, 0));
    done(lock(&mut one, shared, false, 0));
    done(lock(&mut other, shared, false, 0));
    let waits = lock(&mut other, taken, true, 77);
    assert!(matches!(waits, Ok((ReplyBody::LockWaits, _))), "{waits:?}");
    for object in [taken, shared] {
        let refused = lock(&mut other, object, true, 77).unwrap_err();
        assert_eq!(refused.errno, Errno::EINVAL);
        assert!(refused.message.contains("tag 77"), "{refused:?}");
    }
    done(one.metadata(Operation::Unlock {
        object: shared,
        family: LockFamily::Whole,
        owner: 1,
        range: LockRange::ALL,
    }));
    // Only the other client's shared lock is in the way now.
    assert_eq!(errno(lock(&mut one, shared, true, 0)), Errno::EAGAIN);
    fixture.cluster.stop().unwrap();
}
