//! Locks of whole files against a model of `flock` on Linux.

use proptest::collection::vec;
use proptest::prelude::*;

use super::tests::{Event, FILES, OWNERS, any_event, of, owner};
use super::*;

fn key(file: usize) -> Key {
    (ObjectId(file as u64), LockFamily::Whole)
}

#[derive(Debug, Clone, Copy)]
struct Wait {
    tag: u64,
    owner: usize,
    file: usize,
    exclusive: bool,
}

#[derive(Debug, Default)]
struct Model {
    /// Whether each owner has a lock on each file, and whether exclusively.
    held: [[Option<bool>; OWNERS]; FILES],
    waits: Vec<Wait>,
}

impl Model {
    /// Whether the lock of another owner conflicts.
    fn is_taken(&self, wait: &Wait) -> bool {
        let others = self.held[wait.file].iter().enumerate();
        let mut others = others.filter(|(other, _)| *other != wait.owner);
        others.any(|(_, held)| held.is_some_and(|exclusive| exclusive || wait.exclusive))
    }

    fn waits(&self, index: usize) -> bool {
        self.waits.iter().any(|wait| wait.owner == index)
    }

    /// Whether the wait is for the lock of this owner.
    fn is_for(&self, wait: &Wait, other: usize) -> bool {
        let held = self.held[wait.file][other];
        other != wait.owner && held.is_some_and(|exclusive| exclusive || wait.exclusive)
    }

    /// Owners that are part of a circle of waits, or wait for one that is.
    fn stuck(&self) -> [bool; OWNERS] {
        let mut stuck: [bool; OWNERS] = std::array::from_fn(|index| self.waits(index));
        for _ in 0..OWNERS {
            for wait in &self.waits {
                stuck[wait.owner] &=
                    (0..OWNERS).any(|other| stuck[other] && self.is_for(wait, other));
            }
        }
        stuck
    }

    /// Whether a waiting owner gets its lock once the owners that do not wait release theirs.
    fn goes_on(&self) -> bool {
        let stuck = self.stuck();
        self.waits.iter().any(|wait| !stuck[wait.owner])
    }

    /// Takes over what the table has granted; checks that no lock conflicts with it.
    fn granted(&mut self, locks: &mut Locks) -> Result<(), TestCaseError> {
        for (client, tag) in locks.take_granted() {
            let place = self.waits.iter().position(|wait| wait.tag == tag);
            let wait = self.waits.remove(place.expect("it waits"));
            prop_assert_eq!(owner(wait.owner).client, client);
            prop_assert!(!self.is_taken(&wait), "{:?} is granted in {:?}", wait, self);
            self.held[wait.file][wait.owner] = Some(wait.exclusive);
        }
        Ok(())
    }

    /// Checks that the table has the model's locks, and that every wait has a reason.
    fn check(&self, locks: &Locks) -> Result<(), TestCaseError> {
        for (file, held) in self.held.iter().enumerate() {
            let known = locks.files.get(&key(file));
            for (index, held) in held.iter().enumerate() {
                let all = known.map_or(&[][..], |known| &known.held);
                let own = all.iter().filter(|held| held.owner == owner(index));
                let own: Vec<bool> = own.map(|held| held.exclusive).collect();
                prop_assert_eq!(own, Vec::from_iter(*held));
            }
        }
        prop_assert_eq!(locks.waits.len(), self.waits.len());
        for wait in &self.waits {
            prop_assert!(self.is_taken(wait), "{:?} waits for nothing", wait);
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn locks_of_whole_files_are_those_of_flock(events in vec(any_event(), 1..120)) {
        let (mut locks, mut model, mut tag) = (Locks::default(), Model::default(), 0);
        for event in events {
            match event {
                Event::Lock { owner: index, file, exclusive, waits, part: _ } => {
                    if model.waits(index) {
                        continue;
                    }
                    tag += 1;
                    let wait = Wait { tag, owner: index, file, exclusive };
                    let lock = whole(file, owner(index).number, exclusive);
                    let taken = model.is_taken(&wait);
                    if taken {
                        // The owner had a shared lock at most, which is released first.
                        model.held[file][index] = None;
                    }
                    match locks.lock(owner(index), &lock, waits.then_some(tag)) {
                        Outcome::Granted => {
                            prop_assert!(!taken);
                            model.held[file][index] = Some(exclusive);
                        }
                        Outcome::Waits => {
                            prop_assert!(waits && taken);
                            model.waits.push(wait);
                        }
                        Outcome::Taken(_) => prop_assert!(!waits && taken),
                        other => prop_assert!(false, "{other:?}"),
                    }
                }
                Event::Unlock(index, file, _) => {
                    model.held[file][index] = None;
                    prop_assert_eq!(locks.unlock(owner(index), key(file), LockRange::ALL), Ok(()));
                }
                Event::Cancel(index) => {
                    let place = model.waits.iter().position(|wait| wait.owner == index);
                    if let Some(place) = place {
                        let wait = model.waits.remove(place);
                        prop_assert!(locks.cancel(owner(index).client, wait.tag));
                    }
                }
                Event::Forget(client) => {
                    model.waits.retain(|wait| owner(wait.owner).client != client);
                    for held in &mut model.held {
                        for (index, held) in held.iter_mut().enumerate() {
                            if owner(index).client == client {
                                *held = None;
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
        // The owners that do not wait release everything. Owners that then still wait do so in a circle, until a signal interrupts one.
        while !model.waits.is_empty() {
            let (before, goes_on) = (model.waits.len(), model.goes_on());
            for index in (0..OWNERS).filter(|index| !model.waits(*index)).collect::<Vec<_>>() {
                for file in 0..FILES {
                    prop_assert_eq!(locks.unlock(owner(index), key(file), LockRange::ALL), Ok(()));
                    model.held[file][index] = None;
                }
            }
            model.granted(&mut locks)?;
            model.check(&locks)?;
            prop_assert!(!goes_on || model.waits.len() < before, "they wait in vain: {:?}", model);
            if model.waits.len() == before {
                let wait = model.waits.remove(0);
                prop_assert!(locks.cancel(owner(wait.owner).client, wait.tag));
                model.granted(&mut locks)?;
                model.check(&locks)?;
            }
        }
    }
}

fn whole(file: usize, owner: u64, exclusive: bool) -> Lock {
    Lock {
        object: ObjectId(file as u64),
        family: LockFamily::Whole,
        owner,
        exclusive,
        range: LockRange::ALL,
        pid: 0,
    }
}

#[test]
fn of_two_that_share_a_file_and_both_want_it_alone_one_gets_it_and_then_the_other() {
    let mut locks = Locks::default();
    let (shared, alone) = (whole(1, 0, false), whole(1, 0, true));
    for client in [1, 2] {
        assert_eq!(locks.lock(of(client), &shared, None), Outcome::Granted);
    }
    assert_eq!(locks.lock(of(1), &alone, Some(1)), Outcome::Waits);
    assert_eq!(locks.lock(of(2), &alone, Some(1)), Outcome::Granted);
    // An owner gets from an exclusive lock to a shared one in one step, also while others wait.
    assert_eq!(locks.lock(of(2), &shared, None), Outcome::Granted);
    assert_eq!(locks.unlock(of(2), key(1), LockRange::ALL), Ok(()));
    assert_eq!(locks.take_granted(), [(1, 1)]);
    // An owner that does not get the exclusive lock has lost its shared one, too.
    assert_eq!(locks.lock(of(1), &shared, None), Outcome::Granted);
    assert_eq!(locks.lock(of(2), &shared, None), Outcome::Granted);
    assert!(matches!(locks.lock(of(2), &alone, None), Outcome::Taken(_)));
    assert_eq!(locks.lock(of(1), &alone, None), Outcome::Granted);
}

#[test]
fn a_circle_of_whole_files_lasts_until_one_gives_up() {
    let mut locks = Locks::default();
    for client in [1, 2] {
        let own = whole(client as usize, 0, true);
        assert_eq!(locks.lock(of(client), &own, None), Outcome::Granted);
    }
    assert_eq!(
        locks.lock(of(1), &whole(2, 0, true), Some(7)),
        Outcome::Waits
    );
    assert_eq!(
        locks.lock(of(2), &whole(1, 0, true), Some(8)),
        Outcome::Waits
    );
    assert!(locks.cancel(1, 7));
    assert_eq!(locks.unlock(of(1), key(1), LockRange::ALL), Ok(()));
    assert_eq!(locks.take_granted(), [(2, 8)]);
}

fn part(file: usize, owner: u64) -> Lock {
    Lock {
        family: LockFamily::Record,
        range: LockRange { first: 0, last: 9 },
        ..whole(file, owner, true)
    }
}

fn part_key(file: usize) -> Key {
    (ObjectId(file as u64), LockFamily::Record)
}

/// Waits for whole files count for nothing where deadlocks between ranges are looked for, and a search that comes to one ends.
#[test]
fn a_circle_with_a_range_and_a_whole_file_lasts_until_one_gives_up() {
    for first_is_whole in [true, false] {
        let mut locks = Locks::default();
        assert_eq!(locks.lock(of(1), &part(1, 0), None), Outcome::Granted);
        assert_eq!(
            locks.lock(of(2), &whole(2, 0, true), None),
            Outcome::Granted
        );
        let mut wait = |client: u128| {
            let wanted = match client {
                1 => whole(2, 0, true),
                _ => part(1, 0),
            };
            assert_eq!(locks.lock(of(client), &wanted, Some(7)), Outcome::Waits);
        };
        match first_is_whole {
            true => [1, 2].map(&mut wait),
            false => [2, 1].map(&mut wait),
        };
        // A third one that waits for a range of the circle is no part of it.
        assert_eq!(locks.lock(of(3), &part(1, 0), Some(9)), Outcome::Waits);
        assert!(locks.cancel(1, 7));
        assert_eq!(locks.unlock(of(1), part_key(1), LockRange::ALL), Ok(()));
        assert_eq!(locks.take_granted(), [(2, 7)]);
        assert_eq!(locks.unlock(of(2), part_key(1), LockRange::ALL), Ok(()));
        assert_eq!(locks.take_granted(), [(3, 9)]);
    }
}

/// An owner may wait in several threads. A deadlock is found by any of these waits, and each ends by itself.
#[test]
fn an_owner_that_waits_in_several_threads_waits_for_all_of_it() {
    let mut locks = Locks::default();
    for client in [1, 2, 3] {
        let own = part(client as usize, 0);
        assert_eq!(locks.lock(of(client), &own, None), Outcome::Granted);
    }
    assert_eq!(
        locks.lock(of(2), &whole(4, 0, true), None),
        Outcome::Granted
    );
    // For a whole file, and for two ranges.
    for (tag, wanted) in [(1, whole(4, 0, true)), (2, part(2, 0)), (3, part(3, 0))] {
        assert_eq!(locks.lock(of(1), &wanted, Some(tag)), Outcome::Waits);
    }
    for client in [2, 3] {
        let refused = locks.lock(of(client), &part(1, 0), Some(4));
        assert_eq!(refused, Outcome::Deadlock);
    }
    assert!(locks.cancel(1, 3));
    // Only by the second one now.
    assert_eq!(locks.lock(of(3), &part(1, 0), Some(4)), Outcome::Waits);
    assert_eq!(locks.lock(of(2), &part(1, 0), Some(4)), Outcome::Deadlock);
    assert_eq!(locks.unlock(of(2), key(4), LockRange::ALL), Ok(()));
    assert_eq!(locks.take_granted(), [(1, 1)]);
    assert_eq!(locks.unlock(of(2), part_key(2), LockRange::ALL), Ok(()));
    assert_eq!(locks.take_granted(), [(1, 2)]);
    assert_eq!(locks.unlock(of(1), part_key(1), LockRange::ALL), Ok(()));
    assert_eq!(locks.take_granted(), [(3, 4)]);
}

#[test]
fn shared_locks_of_a_whole_file_are_given_also_while_an_exclusive_one_is_waited_for() {
    let mut locks = Locks::default();
    let of = |number| Owner { client: 1, number };
    assert_eq!(
        locks.lock(of(1), &whole(1, 1, false), None),
        Outcome::Granted
    );
    assert_eq!(
        locks.lock(of(2), &whole(1, 2, true), Some(7)),
        Outcome::Waits
    );
    // The child of a program that waits for its child.
    assert_eq!(
        locks.lock(of(3), &whole(1, 3, false), Some(8)),
        Outcome::Granted
    );
    assert_eq!(
        locks.lock(of(4), &whole(1, 4, false), None),
        Outcome::Granted
    );
    for number in [1, 3, 4] {
        assert_eq!(locks.take_granted(), []);
        assert_eq!(locks.unlock(of(number), key(1), LockRange::ALL), Ok(()));
    }
    assert_eq!(locks.take_granted(), [(1, 7)]);
}

#[test]
fn clients_of_earlier_formats_keep_what_they_share_and_are_told_of_deadlocks() {
    let mut locks = Locks::default();
    let (shared, alone) = (whole(1, 0, false), whole(1, 0, true));
    for client in [1, 2] {
        let granted = locks.lock_by_earlier_rules(of(client), &shared, None);
        assert_eq!(granted, Outcome::Granted);
    }
    let taken = locks.lock_by_earlier_rules(of(1), &alone, None);
    assert!(matches!(taken, Outcome::Taken(_)));
    // The client still shares the file.
    assert!(matches!(locks.lock(of(3), &alone, None), Outcome::Taken(_)));
    let waits = locks.lock_by_earlier_rules(of(1), &alone, Some(1));
    assert_eq!(waits, Outcome::Waits);
    let refused = locks.lock_by_earlier_rules(of(2), &alone, Some(1));
    assert_eq!(refused, Outcome::Deadlock);
    assert_eq!(locks.unlock(of(2), key(1), LockRange::ALL), Ok(()));
    assert_eq!(locks.take_granted(), [(1, 1)]);
}
