//! The checker against histories that are known to be good or bad, and against trying every order.

use super::models::{NameCall, NameReturn, Names, Size, SizeCall, SizeReturn, Standing};
use super::{Event, Model, Verdict, check};
use crate::random::Random;

type NameEvent = Event<NameCall, NameReturn>;

fn event<C, R>(call: C, called: u64, returned: R, at: u64) -> Event<C, R> {
    Event {
        call,
        called,
        returned: Some((returned, at)),
    }
}

fn lost<C, R>(call: C, called: u64) -> Event<C, R> {
    Event {
        call,
        called,
        returned: None,
    }
}

fn is_good<M: Model>(model: &M, events: &[Event<M::Call, M::Return>]) -> bool {
    match check(model, events) {
        Verdict::Linearizable => true,
        Verdict::Violated { .. } => false,
        Verdict::TooLong { states } => panic!("{states} states"),
    }
}

#[test]
fn known_histories_of_sizes() {
    use SizeCall::{Stat, Truncate, Write};
    use SizeReturn::{Done, Is};
    let good = |events: &[_]| is_good(&Size, events);
    assert!(good(&[]));
    assert!(good(&[
        event(Write(5), 1, Done, 2),
        event(Stat, 3, Is(5), 4)
    ]));
    // A read that began after the write had ended must see it.
    assert!(!good(&[
        event(Write(5), 1, Done, 2),
        event(Stat, 3, Is(0), 4)
    ]));
    // While it runs, both are right; but not first new, then old.
    assert!(good(&[
        event(Write(5), 1, Done, 8),
        event(Stat, 2, Is(0), 3),
        event(Stat, 4, Is(5), 5),
    ]));
    assert!(!good(&[
        event(Write(5), 1, Done, 8),
        event(Stat, 2, Is(5), 3),
        event(Stat, 4, Is(0), 5),
    ]));
    // A call that never returned may happen late, or never, but once.
    assert!(good(&[lost(Truncate(7), 1), event(Stat, 2, Is(0), 3)]));
    assert!(good(&[
        lost(Truncate(7), 1),
        event(Stat, 2, Is(0), 3),
        event(Stat, 4, Is(7), 5),
    ]));
    assert!(!good(&[
        lost(Truncate(7), 1),
        event(Stat, 2, Is(7), 3),
        event(Truncate(1), 4, Done, 5),
        event(Stat, 6, Is(7), 7),
    ]));
}

#[test]
fn known_histories_of_names() {
    use NameCall::{Create, Lookup, Rename, Unlink};
    use NameReturn::{Absent, Done, Exists, Object};
    let good = |events: &[_]| is_good(&Names, events);
    assert!(good(&[
        event(Create(1), 1, Object(9), 2),
        event(Rename(1, 2), 3, Done, 4),
        event(Lookup(2), 5, Object(9), 6),
        event(Lookup(1), 7, Absent, 8),
    ]));
    // A create that is carried out twice says that the file exists, though only it has made it.
    assert!(!good(&[
        event(Create(1), 1, Exists, 2),
        event(Lookup(1), 3, Object(9), 4)
    ]));
    // Two creates of one name at the same time: one of them wins.
    assert!(!good(&[
        event(Create(1), 1, Object(9), 4),
        event(Create(1), 2, Object(8), 3)
    ]));
    // A rename is never seen half done: neither both names, nor none.
    assert!(!good(&[
        event(Create(1), 1, Object(9), 2),
        event(Rename(1, 2), 3, Done, 9),
        event(Lookup(2), 4, Object(9), 5),
        event(Lookup(1), 6, Object(9), 7),
    ]));
    assert!(!good(&[
        event(Create(1), 1, Object(9), 2),
        event(Rename(1, 2), 3, Done, 9),
        event(Lookup(1), 4, Absent, 5),
        event(Lookup(2), 6, Absent, 7),
    ]));
    // An acknowledged name that is lost.
    assert!(!good(&[
        event(Create(1), 1, Object(9), 2),
        lost(Unlink(2), 3),
        event(Lookup(1), 4, Absent, 5),
    ]));
    // A create without a result made the object that a look-up finds, and later look-ups find the same object.
    assert!(good(&[
        lost(Create(1), 1),
        event(Lookup(1), 2, Object(9), 3),
        event(Unlink(1), 4, Done, 5),
    ]));
    assert!(!good(&[
        lost(Create(1), 1),
        event(Lookup(1), 2, Object(9), 3),
        event(Lookup(1), 4, Object(8), 5),
    ]));
}

/// A history of names: either of one real object, so that it is good, or with one result altered, so that
/// it may be bad.
fn random_history(random: &mut Random, count: usize, altered: bool) -> Vec<NameEvent> {
    let mut state = Names.start();
    let mut events = Vec::new();
    let mut next_object = 1;
    for number in 0..count as u64 {
        let (one, other) = (random.below(3) as u8, random.below(3) as u8);
        let call = match random.below(5) {
            0 | 1 => NameCall::Create(one),
            2 => NameCall::Lookup(one),
            3 => NameCall::Unlink(one),
            _ => NameCall::Rename(one, other),
        };
        next_object += 1;
        let standing = state.get(&one).copied();
        let returned = match (call, standing) {
            (NameCall::Create(_), Some(_)) => NameReturn::Exists,
            (NameCall::Create(_), None) => NameReturn::Object(next_object),
            (_, None) => NameReturn::Absent,
            (NameCall::Lookup(_), Some(Standing::Object(object))) => NameReturn::Object(object),
            _ => NameReturn::Done,
        };
        let after = Names.step(&state, &call, Some(&returned));
        state = after.into_iter().next().expect("a real object does this");
        // Each takes effect at its hundred; calls and returns overlap with those of neighbours.
        let moment = (number + 5) * 100 + number % 7;
        let called = moment - random.below(400) as u64;
        let end = moment + 1 + random.below(400) as u64;
        let is_lost = random.one_in(8);
        events.push(Event {
            call,
            called: called * 1000 + number,
            returned: (!is_lost).then_some((returned, end * 1000 + 500 + number)),
        });
    }
    if altered {
        let victim = random.below(count);
        if let Some((returned, _)) = &mut events[victim].returned {
            *returned = match *returned {
                NameReturn::Absent => NameReturn::Object(1),
                NameReturn::Object(_) => NameReturn::Absent,
                NameReturn::Exists => NameReturn::Object(next_object + 1),
                NameReturn::Done => NameReturn::Absent,
            };
        }
    }
    events
}

/// Tries every order, with every subset of the calls that never returned.
fn by_force(events: &[NameEvent], done: &mut Vec<usize>, state: &<Names as Model>::State) -> bool {
    let open: Vec<usize> = (0..events.len()).filter(|i| !done.contains(i)).collect();
    if open.iter().all(|&index| events[index].returned.is_none()) {
        return true;
    }
    for &index in &open {
        let must_wait = open
            .iter()
            .any(|&other| other != index && events[other].end() < events[index].called);
        if must_wait {
            continue;
        }
        let returned = events[index].returned.as_ref().map(|(r, _)| r);
        for after in Names.step(state, &events[index].call, returned) {
            done.push(index);
            let found = by_force(events, done, &after);
            done.pop();
            if found {
                return true;
            }
        }
    }
    false
}

#[test]
fn histories_of_a_real_object_are_good() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let count = 1 + random.below(60);
        let events = random_history(&mut random, count, false);
        assert!(is_good(&Names, &events), "seed {seed}: {events:?}");
    }
}

#[test]
fn the_search_agrees_with_trying_every_order() {
    let mut bad = 0;
    for seed in 0..2000 {
        let mut random = Random::new(seed);
        let count = 1 + random.below(7);
        let events = random_history(&mut random, count, true);
        let expected = by_force(&events, &mut Vec::new(), &Names.start());
        bad += usize::from(!expected);
        assert_eq!(
            is_good(&Names, &events),
            expected,
            "seed {seed}: {events:?}"
        );
    }
    assert!((200..1900).contains(&bad), "{bad} of 2000 are bad");
}
