//! The table of locks against a model that has the state of every byte of a few small files, and searches circles of waits by brute force.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const BYTES: usize = 10;
pub(super) const OWNERS: usize = 5;
pub(super) const FILES: usize = 2;

/// A request, or the end of a wait or of a client. Requests for whole files leave `part` out of account.
#[derive(Debug, Clone)]
pub(super) enum Event {
    Lock {
        owner: usize,
        file: usize,
        exclusive: bool,
        part: (usize, usize),
        waits: bool,
    },
    Unlock(usize, usize, (usize, usize)),
    Cancel(usize),
    Forget(u128),
}

fn any_part() -> impl Strategy<Value = (usize, usize)> {
    (0..BYTES, 0..BYTES).prop_map(|(one, other)| (one.min(other), one.max(other)))
}

pub(super) fn any_event() -> impl Strategy<Value = Event> {
    let lock = (0..OWNERS, 0..FILES, any::<bool>(), any_part(), 0..3u8);
    let lock = lock.prop_map(|(owner, file, exclusive, part, waits)| Event::Lock {
        owner,
        file,
        exclusive,
        part,
        waits: waits > 0,
    });
    prop_oneof![
        12 => lock,
        5 => (0..OWNERS, 0..FILES, any_part()).prop_map(|(owner, file, part)| Event::Unlock(owner, file, part)),
        1 => (0..OWNERS).prop_map(Event::Cancel),
        1 => (0..2u128).prop_map(Event::Forget),
    ]
}

/// Two clients share the owners.
pub(super) fn owner(index: usize) -> Owner {
    Owner {
        client: index as u128 % 2,
        number: index as u64 / 2,
    }
}

fn range((first, last): (usize, usize)) -> LockRange {
    LockRange {
        first: first as u64,
        last: last as u64,
    }
}

#[derive(Debug, Clone, Copy)]
struct Wait {
    tag: u64,
    owner: usize,
    file: usize,
    exclusive: bool,
    part: (usize, usize),
}

/// Whether each byte is locked, and whether exclusively.
type Bytes = [Option<bool>; BYTES];

#[derive(Debug, Default)]
struct Model {
    held: [[Bytes; OWNERS]; FILES],
    waits: Vec<Wait>,
}

impl Model {
    /// The owners of conflicting locks.
    fn in_the_way(&self, wait: &Wait) -> Vec<usize> {
        let (first, last) = wait.part;
        let blocks = |other: &usize| {
            let bytes = &self.held[wait.file][*other][first..=last];
            let mut locked = bytes.iter().flatten();
            *other != wait.owner && locked.any(|exclusive| *exclusive || wait.exclusive)
        };
        (0..OWNERS).filter(blocks).collect()
    }

    fn set(&mut self, wait: &Wait, to: Option<bool>) {
        self.held[wait.file][wait.owner][wait.part.0..=wait.part.1].fill(to);
    }

    /// Whether the owner waits for itself, through other owners.
    fn is_deadlock(&self, start: usize) -> bool {
        let mut reached = [false; OWNERS];
        for _ in 0..OWNERS {
            for wait in &self.waits {
                if wait.owner == start || reached[wait.owner] {
                    for other in self.in_the_way(wait) {
                        reached[other] = true;
                    }
                }
            }
        }
        reached[start]
    }

    fn excludes(one: &Wait, other: &Wait) -> bool {
        one.file == other.file
            && one.owner != other.owner
            && (one.exclusive || other.exclusive)
            && range(one.part).overlaps(range(other.part))
    }

    /// Takes over what the table has granted; checks that no lock conflicts with it.
    fn granted(&mut self, locks: &mut Locks) -> Result<(), TestCaseError> {
        for (client, tag) in locks.take_granted() {
            let place = self.waits.iter().position(|wait| wait.tag == tag);
            let wait = self.waits.remove(place.expect("it waits"));
            prop_assert_eq!(owner(wait.owner).client, client);
            let in_the_way = self.in_the_way(&wait);
            prop_assert!(in_the_way.is_empty(), "{:?} beside {:?}", wait, in_the_way);
            self.set(&wait, Some(wait.exclusive));
        }
        Ok(())
    }

    /// Checks that the table has the model's locks, in as few parts as possible, and that every wait has a reason.
    fn check(&self, locks: &Locks) -> Result<(), TestCaseError> {
        let mut count = 0;
        for file in 0..FILES {
            let key = (ObjectId(file as u64), LockFamily::Record);
            let known = locks.files.get(&key);
            for index in 0..OWNERS {
                let mut bytes: Bytes = Default::default();
                let held = known.map_or(&[][..], |known| &known.held);
                let own: Vec<&Held> = held
                    .iter()
                    .filter(|held| held.owner == owner(index))
                    .collect();
                for held in &own {
                    for byte in held.range.first..=held.range.last {
                        prop_assert_eq!(bytes[byte as usize], None);
                        bytes[byte as usize] = Some(held.exclusive);
                    }
                }
                prop_assert_eq!(bytes, self.held[file][index]);
                let begins = |byte: &usize| {
                    let before = byte.checked_sub(1).and_then(|before| bytes[before]);
                    bytes[*byte].is_some() && before != bytes[*byte]
                };
                prop_assert_eq!(own.len(), (0..BYTES).filter(begins).count());
                count += own.len();
            }
        }
        prop_assert_eq!(locks.count, count + self.waits.len());
        prop_assert_eq!(locks.waits.len(), self.waits.len());
        for (place, wait) in self.waits.iter().enumerate() {
            let mut earlier = self.waits[..place].iter();
            let has_reason = !self.in_the_way(wait).is_empty()
                || earlier.any(|earlier| Self::excludes(earlier, wait));
            prop_assert!(has_reason, "{:?} waits for nothing", wait);
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn locks_are_those_of_a_model_that_knows_every_byte(events in vec(any_event(), 1..120)) {
        let (mut locks, mut model, mut tag) = (Locks::default(), Model::default(), 0);
        for event in events {
            match event {
                Event::Lock { owner: index, file, exclusive, part, waits } => {
                    // An owner that waits is a thread that does nothing else.
                    if model.waits.iter().any(|wait| wait.owner == index) {
                        continue;
                    }
                    tag += 1;
                    let wait = Wait { tag, owner: index, file, exclusive, part };
                    let lock = Lock {
                        object: ObjectId(file as u64),
                        family: LockFamily::Record,
                        owner: owner(index).number,
                        exclusive,
                        range: range(part),
                        pid: index as u32,
                    };
                    let is_free = model.in_the_way(&wait).is_empty();
                    prop_assert_eq!(locks.test(owner(index), &lock).is_none(), is_free);
                    match locks.lock(owner(index), &lock, waits.then_some(tag)) {
                        Outcome::Granted => {
                            prop_assert!(is_free);
                            model.set(&wait, Some(exclusive));
                        }
                        Outcome::Waits => {
                            model.waits.push(wait);
                            prop_assert!(!model.is_deadlock(index));
                        }
                        Outcome::Taken(_) => {
                            let mut queue = model.waits.iter();
                            let is_behind = queue.any(|other| Model::excludes(other, &wait));
                            prop_assert!(!waits && (!is_free || is_behind));
                        }
                        Outcome::Deadlock => {
                            model.waits.push(wait);
                            prop_assert!(model.is_deadlock(index));
                            model.waits.pop();
                        }
                        other @ (Outcome::Full(_) | Outcome::TagInUse) => {
                            prop_assert!(false, "{other:?}");
                        }
                    }
                }
                Event::Unlock(index, file, part) => {
                    let wait = Wait { tag: 0, owner: index, file, exclusive: false, part };
                    let key = (ObjectId(file as u64), LockFamily::Record);
                    model.set(&wait, None);
                    prop_assert_eq!(locks.unlock(owner(index), key, range(part)), Ok(()));
                }
                Event::Cancel(index) => {
                    let place = model.waits.iter().position(|wait| wait.owner == index);
                    if let Some(place) = place {
                        let wait = model.waits.remove(place);
                        prop_assert!(locks.cancel(owner(index).client, wait.tag));
                        prop_assert!(!locks.cancel(owner(index).client, wait.tag));
                    }
                }
                Event::Forget(client) => {
                    model.waits.retain(|wait| owner(wait.owner).client != client);
                    for file in &mut model.held {
                        for (index, bytes) in file.iter_mut().enumerate() {
                            if owner(index).client == client {
                                *bytes = Default::default();
                            }
                        }
                    }
                    locks.forget(client);
                    prop_assert!(locks.is_idle(client));
                }
            }
            model.granted(&mut locks)?;
            model.check(&locks)?;
        }
        // Once the owners that do not wait release everything, the others get what they wait for, one after the other.
        while !model.waits.is_empty() {
            let before = model.waits.len();
            for index in 0..OWNERS {
                if model.waits.iter().any(|wait| wait.owner == index) {
                    continue;
                }
                for file in 0..FILES {
                    let key = (ObjectId(file as u64), LockFamily::Record);
                    prop_assert_eq!(locks.unlock(owner(index), key, LockRange::ALL), Ok(()));
                    model.held[file][index] = Default::default();
                }
            }
            model.granted(&mut locks)?;
            model.check(&locks)?;
            prop_assert!(model.waits.len() < before, "they wait for each other: {:?}", model);
        }
    }
}

fn lock(owner: u64, exclusive: bool, first: u64, last: u64) -> Lock {
    Lock {
        object: ObjectId(1),
        family: LockFamily::Record,
        owner,
        exclusive,
        range: LockRange { first, last },
        pid: 0,
    }
}

pub(super) fn of(client: u128) -> Owner {
    Owner { client, number: 0 }
}

#[test]
fn an_exclusive_lock_is_not_kept_out_by_a_stream_of_shared_ones() {
    let mut locks = Locks::default();
    let shared = lock(0, false, 0, 9);
    assert_eq!(locks.lock(of(1), &shared, None), Outcome::Granted);
    assert_eq!(
        locks.lock(of(2), &lock(0, true, 0, 9), Some(1)),
        Outcome::Waits
    );
    assert_eq!(locks.lock(of(3), &shared, Some(1)), Outcome::Waits);
    // A lock of another range does not wait.
    assert_eq!(
        locks.lock(of(3), &lock(0, true, 10, 10), None),
        Outcome::Granted
    );
    // An owner that has a part goes ahead, though another one waits for it.
    assert_eq!(
        locks.lock(of(1), &lock(0, false, 5, 9), None),
        Outcome::Granted
    );
    let key = (ObjectId(1), LockFamily::Record);
    assert_eq!(locks.unlock(of(1), key, LockRange::ALL), Ok(()));
    assert_eq!(locks.take_granted(), [(2, 1)]);
    locks.forget(2);
    assert_eq!(locks.take_granted(), [(3, 1)]);
}

#[test]
fn a_circle_through_the_queue_alone_is_no_deadlock() {
    let mut locks = Locks::default();
    let elsewhere = Lock {
        object: ObjectId(2),
        ..lock(0, true, 0, 0)
    };
    // Client 1 has the other file; 3 shares this one, and waits for 1.
    assert_eq!(locks.lock(of(1), &elsewhere, None), Outcome::Granted);
    assert_eq!(
        locks.lock(of(3), &lock(0, false, 0, 9), None),
        Outcome::Granted
    );
    assert_eq!(
        locks.lock(of(2), &lock(0, true, 0, 9), Some(1)),
        Outcome::Waits
    );
    assert_eq!(locks.lock(of(3), &elsewhere, Some(1)), Outcome::Waits);
    // Behind client 2 it would wait for itself.
    assert_eq!(
        locks.lock(of(1), &lock(0, false, 0, 9), Some(1)),
        Outcome::Granted
    );
    // For a lock that conflicts with a held one, it would.
    assert_eq!(
        locks.lock(of(1), &lock(0, true, 0, 9), Some(2)),
        Outcome::Deadlock
    );
}

#[test]
fn those_that_a_long_chain_of_waits_lets_go_on_are_looked_at_a_part_at_a_time() {
    const OWNERS: u128 = 1000;
    let mut locks = Locks::default();
    let byte = |owner: u128| lock(0, true, owner as u64, owner as u64);
    for owner in 0..=OWNERS {
        assert_eq!(locks.lock(of(owner), &byte(owner), None), Outcome::Granted);
    }
    // Each owner waits for the locks of all owners after it, and releases its own exclusive lock once it has got the
    // lock for which it waits.
    for owner in 0..OWNERS {
        let rest = lock(0, false, owner as u64, OWNERS as u64);
        assert_eq!(locks.lock(of(owner), &rest, Some(1)), Outcome::Waits);
    }
    let key = (ObjectId(1), LockFamily::Record);
    assert_eq!(locks.unlock(of(OWNERS), key, LockRange::ALL), Ok(()));
    let mut granted = locks.take_granted();
    assert!(locks.has_left() && granted.len() < OWNERS as usize / 10);
    // Other requests are not granted in between.
    assert!(matches!(
        locks.lock(of(OWNERS), &byte(1), None),
        Outcome::Taken(_)
    ));
    while locks.has_left() {
        locks.go_on();
        granted.extend(locks.take_granted());
    }
    let expected: Vec<(u128, u64)> = (0..OWNERS).rev().map(|owner| (owner, 1)).collect();
    assert_eq!(granted, expected);
}

/// A client that waits twice under one tag could not distinguish the ends of the two waits.
#[test]
fn a_tag_in_use_is_refused_and_changes_nothing() {
    for family in [LockFamily::Record, LockFamily::Whole] {
        let of_file = |object, exclusive| Lock {
            object: ObjectId(object),
            family,
            ..lock(0, exclusive, 0, u64::MAX)
        };
        let mut locks = Locks::default();
        for (owner, held) in [
            (of(1), of_file(1, true)),
            (of(1), of_file(2, false)),
            (of(2), of_file(2, false)),
        ] {
            assert_eq!(locks.lock(owner, &held, None), Outcome::Granted);
        }
        assert_eq!(
            locks.lock(of(2), &of_file(1, true), Some(7)),
            Outcome::Waits
        );
        let before = format!("{locks:?}");
        // The owner shares the lock of file 2, which a request for an exclusive one would cost it. File 3 is free.
        for refused in [of_file(1, true), of_file(2, true), of_file(3, true)] {
            assert_eq!(
                locks.lock(of(2), &refused, Some(7)),
                Outcome::TagInUse,
                "{refused:?}"
            );
        }
        // HashMaps of few entries that were not changed are printed in the same order.
        assert_eq!(format!("{locks:?}"), before);
        let exclusive = locks.test(of(3), &of_file(2, true));
        assert!(exclusive.is_some_and(|holder| !holder.exclusive));
        // Another client's tags are its own, and the tag is free again when the wait has ended.
        assert_eq!(
            locks.lock(of(3), &of_file(1, true), Some(7)),
            Outcome::Waits
        );
        assert!(locks.cancel(2, 7));
        assert_eq!(
            locks.lock(of(2), &of_file(1, true), Some(7)),
            Outcome::Waits
        );
    }
}

/// A request that would have to wait behind too many others costs its owner no shared lock.
#[test]
fn a_full_queue_leaves_the_lock_that_was_to_be_converted() {
    let file = |exclusive| Lock {
        family: LockFamily::Whole,
        ..lock(0, exclusive, 0, u64::MAX)
    };
    let mut locks = Locks::default();
    for owner in [of(1), of(2)] {
        assert_eq!(locks.lock(owner, &file(false), None), Outcome::Granted);
    }
    let waiting = (3..).take_while(|&client| {
        let outcome = locks.lock(of(client), &file(true), Some(7));
        outcome == Outcome::Waits
    });
    assert_eq!(waiting.count(), MAX_WAITING);
    let outcome = locks.lock(of(2), &file(true), Some(7));
    assert!(matches!(outcome, Outcome::Full(_)), "{outcome:?}");
    // Its lock is still in the way of the others.
    locks.forget(1);
    assert!(locks.take_granted().is_empty());
    locks.forget(2);
    assert_eq!(locks.take_granted(), [(3, 7)]);
}

#[test]
fn locks_beyond_the_limits_are_refused_and_change_nothing() {
    let mut locks = Locks::default();
    let key = (ObjectId(1), LockFamily::Record);
    let mut made = 0;
    let mut refused = None;
    while refused.is_none() && made < 2 * MAX_OF_CLIENT {
        match locks.lock(
            of(1),
            &lock(0, true, 2 * made as u64, 2 * made as u64),
            None,
        ) {
            Outcome::Granted => made += 1,
            other => refused = Some(other),
        }
    }
    assert!(matches!(refused, Some(Outcome::Full(_))), "{refused:?}");
    assert_eq!(made, MAX_OF_FILE - 1);
    // A release that would split a lock is refused as well; this makes room for a lock that can be split.
    assert_eq!(
        locks.unlock(of(1), key, LockRange { first: 0, last: 3 }),
        Ok(())
    );
    assert_eq!(
        locks.lock(of(1), &lock(0, true, 0, 3), None),
        Outcome::Granted
    );
    // The lock of byte 4 was joined with this one.
    assert_eq!(locks.count, MAX_OF_FILE - 3);
    let apart = lock(0, true, 1 << 50, 1 << 50);
    assert_eq!(locks.lock(of(1), &apart, None), Outcome::Granted);
    assert_eq!(
        locks.lock(of(1), &lock(0, true, 1 << 40, 1 << 41), None),
        Outcome::Granted
    );
    let middle = LockRange {
        first: (1 << 40) + 5,
        last: (1 << 40) + 5,
    };
    assert!(locks.unlock(of(1), key, middle).is_err());
    assert_eq!(locks.unlock(of(1), key, LockRange::ALL), Ok(()));
    assert!(locks.is_idle(1) && locks.count == 0 && locks.files.is_empty());
}
