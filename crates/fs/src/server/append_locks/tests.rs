use std::collections::{BTreeMap, VecDeque};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const LONGEST: Duration = Duration::from_secs(5);

/// An event, with numbers of files and clients.
#[derive(Debug, Clone)]
enum Event {
    Wait(u64, u128),
    Release(u64),
    /// The client that has the lock of the file is gone.
    Lose(u64),
    /// What this client has a lock for had to wait.
    RenewHeld(u128),
    /// The client that has the lock of the file says that it has appended.
    BeginRelease(u64),
    /// The client that has the lock of the file asks whether it still has it.
    Renew(u64),
    Pass(u64),
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..3u64, 0..5u128).prop_map(|(file, client)| Event::Wait(file, client)),
        2 => (0..3u64).prop_map(Event::Release),
        1 => (0..3u64).prop_map(Event::Lose),
        1 => (0..5u128).prop_map(Event::RenewHeld),
        1 => (0..3u64).prop_map(Event::BeginRelease),
        1 => (0..3u64).prop_map(Event::Renew),
        2 => (1..4u64).prop_map(Event::Pass),
    ]
}

/// A file as the model has it: the lock, its client, since when and whether it is being released; and the clients that wait, without a number while absent.
#[derive(Debug, Default, Clone)]
struct Model {
    held: Option<(u64, u128, Instant, bool)>,
    waiting: Vec<(u128, Option<usize>, Instant)>,
}

proptest! {
    /// Locks are granted in the order of the requests, one at a time in each file, with ascending numbers, and no waiting
    /// client is forgotten.
    #[test]
    fn append_locks_are_those_of_a_model(events in vec(any_event(), 1..80)) {
        let mut now = Instant::now();
        let mut locks: AppendLocks<u128, usize> = AppendLocks::new(100, LONGEST, |number| number.is_multiple_of(2));
        let mut model: BTreeMap<u64, Model> = BTreeMap::new();
        let mut latest: BTreeMap<u128, (u64, u64)> = BTreeMap::new();
        let mut last = 100;
        for (number, event) in events.into_iter().enumerate() {
            match event {
                Event::Wait(file, client) => {
                    let given_up = locks.wait(ObjectId(file), (client, client), number, now);
                    // A client has one lock at a time: the latest that it was granted.
                    let expected = latest.get(&client).copied().filter(|&(lock, file)| {
                        let held = model.get(&file).and_then(|model| model.held);
                        held.is_some_and(|(held, _, _, is_releasing)| held == lock && !is_releasing)
                    });
                    let expected = expected.map(|(_, file)| file);
                    if let Some(model) = expected.and_then(|file: u64| model.get_mut(&file)) {
                        model.held = None;
                    }
                    prop_assert_eq!(given_up, Ok(expected.map(ObjectId)));
                    let waiting = &mut model.entry(file).or_default().waiting;
                    let is_its = |one: &&mut (u128, Option<usize>, Instant)| {
                        one.0 == client && one.1.is_none() && one.2 + LONGEST > now
                    };
                    match waiting.iter_mut().find(is_its) {
                        Some(place) => *place = (client, Some(number), now),
                        None => waiting.push((client, Some(number), now)),
                    }
                }
                Event::Release(file) => {
                    let held = model.entry(file).or_default().held.take();
                    let lock = held.map_or(last + 1, |(lock, ..)| lock);
                    prop_assert_eq!(locks.release(ObjectId(file), lock), held.is_some());
                    prop_assert!(!locks.release(ObjectId(file), lock));
                }
                Event::Lose(file) => {
                    let held = &mut model.entry(file).or_default().held;
                    // Its request to release the lock may still be carried out.
                    let lost = held.take_if(|(.., is_releasing)| !*is_releasing);
                    let lock = lost.or(*held).map_or(last + 1, |(lock, ..)| lock);
                    prop_assert_eq!(locks.release_lost(ObjectId(file), lock), lost.is_some());
                }
                Event::RenewHeld(client) => {
                    locks.renew_held(client, now);
                    let file = latest.get(&client).map(|(_, file)| file);
                    let held = file.and_then(|file| model.get_mut(file)?.held.as_mut());
                    if let Some((.., since, _)) = held.filter(|held| held.1 == client) {
                        *since = now;
                    }
                }
                Event::BeginRelease(file) => {
                    if let Some((lock, client, _, is_releasing)) = &mut model.entry(file).or_default().held {
                        prop_assert!(!locks.begin_release(ObjectId(file), *lock, *client + 1));
                        prop_assert!(!locks.begin_release(ObjectId(file), *lock - 1, *client));
                        let is_first = !*is_releasing;
                        prop_assert_eq!(locks.begin_release(ObjectId(file), *lock, *client), is_first);
                        *is_releasing = true;
                    }
                    prop_assert!(!locks.begin_release(ObjectId(file), 0, 0));
                }
                Event::Renew(file) => {
                    if let Some((lock, client, since, is_releasing)) = &mut model.entry(file).or_default().held {
                        let object = ObjectId(file);
                        prop_assert!(!locks.renew(object, *lock, *client + 1, now));
                        prop_assert!(!locks.renew(object, *lock - 1, *client, now));
                        prop_assert_eq!(locks.renew(object, *lock, *client, now), !*is_releasing);
                        if !*is_releasing {
                            *since = now;
                        }
                    }
                    prop_assert!(!locks.renew(ObjectId(file), 0, 0, now));
                }
                Event::Pass(seconds) => now += Duration::from_secs(seconds),
            }
            // Of those that may retry, each that has waited for long enough.
            let may_retry = |number: &usize| number.is_multiple_of(2);
            let due = |waiting: &(u128, Option<usize>, Instant)| {
                let may_retry = waiting.1.filter(may_retry);
                may_retry.map(|_| waiting.2 + PATIENCE)
            };
            let waiting = model.values().flat_map(|model| &model.waiting);
            prop_assert_eq!(locks.next_timeout(), waiting.filter_map(due).min());
            let mut timed_out = Vec::new();
            for model in model.values_mut() {
                model.waiting.retain(|one| one.1.is_some() || one.2 + LONGEST > now);
                for one in &mut model.waiting {
                    if due(one).is_some_and(|due| due <= now) {
                        timed_out.extend(one.1.take());
                        one.2 = now;
                    }
                }
            }
            let mut found = locks.take_timed_out(now);
            timed_out.sort_unstable();
            found.sort_unstable();
            prop_assert_eq!(found, timed_out);
            let mut overdue = Vec::new();
            for (file, model) in &mut model {
                let object = ObjectId(*file);
                let next = locks.grant_next(object, now);
                let first = model.waiting.iter().position(|one| one.1.is_some());
                if let (None, Some(first)) = (model.held, first) {
                    let (client, number, _) = model.waiting.remove(first);
                    last += 1;
                    prop_assert_eq!(next, number.map(|number| (last, number)));
                    model.held = Some((last, client, now, false));
                    latest.insert(client, (last, *file));
                } else {
                    prop_assert_eq!(next, None);
                }
                let wanted = model.held.filter(|_| model.waiting.iter().any(|one| one.1.is_some()));
                prop_assert_eq!(
                    locks.wanted(object),
                    wanted.map(|(lock, client, ..)| (lock, client))
                );
                overdue.extend(wanted.and_then(|(lock, _, since, is_releasing)| {
                    (!is_releasing).then_some((since + LONGEST, object, lock))
                }));
            }
            let of_all = locks.files.values();
            let waiters = || of_all.clone().flat_map(|file| file.waiting.values());
            let (present, absent): (Vec<_>, Vec<_>) = waiters().partition(|waiter| waiter.reply.is_some());
            let timeouts = present.iter().filter(|waiter| waiter.reply.as_ref().is_some_and(may_retry));
            prop_assert_eq!(locks.timeouts.len(), timeouts.count());
            prop_assert_eq!(locks.absent.len(), absent.len());
            prop_assert_eq!(locks.waiting, present.len() + absent.len());
            let due = overdue.iter().map(|(due, ..)| *due).min();
            prop_assert_eq!(locks.next_due(), due);
            overdue.retain(|(due, ..)| *due <= now);
            let mut found = locks.overdue(now);
            found.sort_unstable();
            let expected: Vec<_> = overdue.iter().map(|(_, object, lock)| (*object, *lock)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}

proptest! {
    /// Clients that retry when they are told to get the lock in the order of their first requests, however long others have it.
    #[test]
    fn a_client_that_asks_again_is_not_overtaken(
        lengths in vec(0..3 * LONGEST.as_millis() as u64, 1..60),
        clients in 2..9usize,
    ) {
        let object = ObjectId(1);
        let mut now = Instant::now();
        let mut locks: AppendLocks<u128, u128> = AppendLocks::new(0, LONGEST, |_| true);
        // Those that wait, in order: a client that has had the lock requests it again.
        let mut line: VecDeque<u128> = (0..clients as u128).collect();
        for client in &line {
            prop_assert!(locks.wait(object, (*client, *client), *client, now).is_ok());
        }
        for length in lengths {
            let (lock, client) = locks.grant_next(object, now).expect("clients wait");
            prop_assert_eq!(Some(client), line.pop_front());
            let ends = now + Duration::from_millis(length);
            while let Some(due) = locks.next_timeout().filter(|due| *due <= ends) {
                now = due;
                // They may come back in any order.
                for client in locks.take_timed_out(now).into_iter().rev() {
                    prop_assert!(locks.wait(object, (client, client), client, now).is_ok());
                }
            }
            now = ends;
            prop_assert!(locks.release(object, lock));
            prop_assert!(locks.wait(object, (client, client), client, now).is_ok());
            line.push_back(client);
        }
    }
}

/// The lock is not kept for a client that is absent, which keeps its place for as long as others may have the lock, and no longer.
#[test]
fn a_place_is_kept_for_a_time() {
    let mut now = Instant::now();
    let mut locks: AppendLocks<(), u128> = AppendLocks::new(0, LONGEST, |client| *client != 3);
    let object = ObjectId(1);
    let ask = |locks: &mut AppendLocks<(), u128>, client: u128, now| {
        locks.wait(object, (client, ()), client, now)
    };
    for client in 0..5 {
        assert_eq!(ask(&mut locks, client, now), Ok(None));
    }
    assert_eq!(locks.grant_next(object, now), Some((1, 0)));
    now += PATIENCE;
    assert_eq!(locks.take_timed_out(now), [1, 2, 4]);
    assert!(locks.release(object, 1));
    assert_eq!(locks.grant_next(object, now), Some((2, 3)));
    // No connected client waits for its end.
    assert_eq!((locks.wanted(object), locks.next_due()), (None, None));
    assert_eq!(ask(&mut locks, 4, now), Ok(None));
    assert_eq!(ask(&mut locks, 5, now), Ok(None));
    assert_eq!(ask(&mut locks, 2, now), Ok(None));
    assert!(locks.release(object, 2));
    assert_eq!(locks.grant_next(object, now), Some((3, 2)));
    now += LONGEST;
    assert_eq!(ask(&mut locks, 1, now), Ok(None));
    let mut order = Vec::new();
    for lock in 3..6 {
        assert!(locks.release(object, lock));
        order.extend(locks.grant_next(object, now).map(|(_, client)| client));
    }
    assert_eq!(order, [4, 5, 1]);
    assert!(locks.release(object, 6));
    assert_eq!(locks.take_timed_out(now), []);
    assert_eq!((locks.waiting, locks.files.len()), (0, 0));
}

#[test]
fn an_append_lock_that_its_client_has_released_is_known_until_it_releases_another_one() {
    let mut locks: AppendLocks<(), ()> = AppendLocks::new(0, LONGEST, |_| true);
    locks.note_released(5, 1);
    assert!(locks.was_released(5, 1));
    assert!(!locks.was_released(5, 2) && !locks.was_released(6, 1) && !locks.was_released(0, 3));
    locks.note_released(6, 2);
    locks.note_released(7, 1);
    assert!(!locks.was_released(5, 1) && locks.was_released(6, 2) && locks.was_released(7, 1));
    // Those that ended first are forgotten first.
    for client in 0..MAX_RELEASED as u64 - 1 {
        locks.note_released(10 + client, 100 + u128::from(client));
    }
    assert!(!locks.was_released(6, 2) && locks.was_released(7, 1));
    let released = &locks.released;
    assert_eq!(
        (released.of_clients.len(), released.in_order.len()),
        (MAX_RELEASED, MAX_RELEASED)
    );
}

#[test]
fn there_is_an_end_to_what_is_remembered() {
    let now = Instant::now();
    let mut locks: AppendLocks<u128, u64> = AppendLocks::new(0, LONGEST, |_| true);
    // Each client takes a lock, and never releases it.
    let begin = |locks: &mut AppendLocks<u128, u64>, number: u64, now| {
        let client = u128::from(number);
        let waits = locks.wait(ObjectId(number), (client, client), number, now);
        locks.grant_next(ObjectId(number), now);
        waits.is_ok()
    };
    for number in 0..MAX_FILES as u64 {
        assert!(begin(&mut locks, number, now));
    }
    assert!(!begin(&mut locks, 1 << 40, now));
    // They are forgotten once their time is over.
    assert!(begin(&mut locks, 1 << 40, now + LONGEST));
    assert_eq!((locks.files.len(), locks.held.len()), (1, 1));
    for number in 0..MAX_WAITING as u64 {
        let client = u128::from(number) << 64;
        assert!(
            locks
                .wait(ObjectId(1 << 40), (client, client), number, now)
                .is_ok()
        );
    }
    let refused = locks.wait(ObjectId(1 << 40), (7, 7), 7, now + LONGEST);
    assert_eq!(refused, Err(7));
    // Those that were told to retry and do not lose their places.
    let now = now + LONGEST;
    assert_eq!(locks.take_timed_out(now).len(), MAX_WAITING);
    let ask = |locks: &mut AppendLocks<u128, u64>, now| locks.wait(ObjectId(5), (7, 7), 7, now);
    assert_eq!(ask(&mut locks, now), Err(7));
    assert_eq!(ask(&mut locks, now + LONGEST), Ok(None));
    assert_eq!(locks.waiting, 1);
}

/// A client that cannot wait keeps the lock that it has: the next client would not get that.
#[test]
fn a_client_that_is_turned_away_keeps_its_append_lock() {
    let now = Instant::now();
    let mut locks: AppendLocks<(), ()> = AppendLocks::new(0, LONGEST, |_| true);
    let held = ObjectId(0);
    for client in 0..MAX_WAITING as u128 + 1 {
        assert_eq!(locks.wait(held, (client, ()), (), now), Ok(None));
        let is_first = client == 0;
        assert_eq!(locks.grant_next(held, now).is_some(), is_first);
    }
    assert_eq!(locks.wait(ObjectId(1), (0, ()), (), now), Err(()));
    assert_eq!(locks.wanted(held), Some((1, ())));
    assert!(locks.release(held, 1));
    assert_eq!(locks.wait(ObjectId(1), (0, ()), (), now), Err(()));
    assert_eq!(locks.grant_next(held, now), Some((2, ())));
    assert_eq!(locks.wait(ObjectId(1), (1, ()), (), now), Ok(Some(held)));
}
