//! Locks of whole files against a model of `flock` on Linux.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const OWNERS: usize = 5;
const FILES: usize = 2;

#[derive(Debug, Clone)]
enum Event {
    Lock {
        owner: usize,
        file: usize,
        exclusive: bool,
        waits: bool,
    },
    Unlock(usize, usize),
    Interrupt(usize),
    Forget(u128),
}

fn any_event() -> impl Strategy<Value = Event> {
    let lock = (0..OWNERS, 0..FILES, any::<bool>(), 0..3u8);
    let lock = lock.prop_map(|(owner, file, exclusive, waits)| Event::Lock {
        owner,
        file,
        exclusive,
        waits: waits > 0,
    });
    prop_oneof![
        12 => lock,
        4 => (0..OWNERS, 0..FILES).prop_map(|(owner, file)| Event::Unlock(owner, file)),
        2 => (0..OWNERS).prop_map(Event::Interrupt),
        1 => (0..2u128).prop_map(Event::Forget),
    ]
}

/// Two clients share the owners.
fn owner(index: usize) -> Owner {
    Owner {
        client: index as u128 % 2,
        number: index as u64 / 2,
    }
}

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
    /// Whether the lock of another owner is in the way.
    fn is_taken(&self, wait: &Wait) -> bool {
        let others = self.held[wait.file].iter().enumerate();
        let mut others = others.filter(|(other, _)| *other != wait.owner);
        others.any(|(_, held)| held.is_some_and(|exclusive| exclusive || wait.exclusive))
    }

    /// Whether one that does not have the file yet has to wait for those that have come before.
    fn is_behind(&self, wait: &Wait, place: usize) -> bool {
        let excludes = |other: &Wait| {
            other.file == wait.file
                && other.owner != wait.owner
                && (other.exclusive || wait.exclusive)
        };
        self.held[wait.file][wait.owner].is_none() && self.waits[..place].iter().any(excludes)
    }

    fn waits(&self, index: usize) -> bool {
        self.waits.iter().any(|wait| wait.owner == index)
    }

    /// Whether the wait, which has this place in the queue, is for the lock of this owner or, `in_order`, for an earlier wait of it.
    fn is_for(&self, place: usize, other: usize, in_order: bool) -> bool {
        let wait = &self.waits[place];
        let blocks = |held: bool| held || wait.exclusive;
        let held = self.held[wait.file][other];
        let mut earlier = self.waits[..place].iter();
        let is_earlier = |earlier: &Wait| {
            earlier.owner == other && earlier.file == wait.file && blocks(earlier.exclusive)
        };
        other != wait.owner && (held.is_some_and(blocks) || in_order && earlier.any(is_earlier))
    }

    /// Owners that are part of a circle of locks, or wait for one that is.
    fn stuck(&self) -> [bool; OWNERS] {
        let mut stuck: [bool; OWNERS] = std::array::from_fn(|index| self.waits(index));
        for _ in 0..OWNERS {
            for (place, wait) in self.waits.iter().enumerate() {
                stuck[wait.owner] &=
                    (0..OWNERS).any(|other| stuck[other] && self.is_for(place, other, false));
            }
        }
        for _ in 0..OWNERS {
            for (place, wait) in self.waits.iter().enumerate() {
                stuck[wait.owner] |=
                    (0..OWNERS).any(|other| stuck[other] && self.is_for(place, other, true));
            }
        }
        stuck
    }

    /// Whether one that waits gets what it waits for once those that do not wait are done.
    fn goes_on(&self) -> bool {
        let stuck = self.stuck();
        self.waits.iter().any(|wait| !stuck[wait.owner])
    }

    /// Takes over what the table has granted, all of which must be free.
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

    /// The table has what the model has, and nobody waits in vain.
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
        for (place, wait) in self.waits.iter().enumerate() {
            let has_reason = self.is_taken(wait) || self.is_behind(wait, place);
            prop_assert!(has_reason, "{:?} waits for nothing", wait);
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
                Event::Lock { owner: index, file, exclusive, waits } => {
                    if model.waits(index) {
                        continue;
                    }
                    tag += 1;
                    let wait = Wait { tag, owner: index, file, exclusive };
                    let lock = whole(file, owner(index).number, exclusive);
                    let taken = model.is_taken(&wait);
                    if taken {
                        // It had a shared one at most, which goes first.
                        model.held[file][index] = None;
                    }
                    let is_free = !taken && !model.is_behind(&wait, model.waits.len());
                    match locks.lock(owner(index), &lock, waits.then_some(tag)) {
                        Outcome::Granted => {
                            // To wait for those that only wait for this owner would be in vain.
                            prop_assert!(is_free || waits && !taken);
                            model.held[file][index] = Some(exclusive);
                        }
                        Outcome::Waits => {
                            prop_assert!(waits && !is_free);
                            model.waits.push(wait);
                        }
                        Outcome::Taken(_) => prop_assert!(!waits && !is_free),
                        other => prop_assert!(false, "{other:?}"),
                    }
                }
                Event::Unlock(index, file) => {
                    model.held[file][index] = None;
                    prop_assert_eq!(locks.unlock(owner(index), key(file), LockRange::ALL), Ok(()));
                }
                Event::Interrupt(index) => {
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
        // Those that do not wait give everything back. Who then still waits does so in a circle, until a signal comes.
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
    let of = |client| Owner { client, number: 0 };
    for client in [1, 2] {
        assert_eq!(locks.lock(of(client), &shared, None), Outcome::Granted);
    }
    assert_eq!(locks.lock(of(1), &alone, Some(1)), Outcome::Waits);
    assert_eq!(locks.lock(of(2), &alone, Some(1)), Outcome::Granted);
    // Back to a shared one in one step, whoever waits.
    assert_eq!(locks.lock(of(2), &shared, None), Outcome::Granted);
    assert_eq!(locks.unlock(of(2), key(1), LockRange::ALL), Ok(()));
    assert_eq!(locks.take_granted(), [(1, 1)]);
    // One that does not get it has lost what it had, too.
    assert_eq!(locks.lock(of(1), &shared, None), Outcome::Granted);
    assert_eq!(locks.lock(of(2), &shared, None), Outcome::Granted);
    assert!(matches!(locks.lock(of(2), &alone, None), Outcome::Taken(_)));
    assert_eq!(locks.lock(of(1), &alone, None), Outcome::Granted);
}

#[test]
fn a_circle_of_whole_files_lasts_until_one_gives_up() {
    let mut locks = Locks::default();
    let of = |client| Owner { client, number: 0 };
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
