use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const LONGEST: Duration = Duration::from_secs(5);

/// An event, with numbers of files and clients.
#[derive(Debug, Clone)]
enum Event {
    Wait(u64, u128),
    End(u64),
    /// The client that has the turn of the file reports that it has appended.
    BeginEnd(u64),
    Pass(u64),
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..3u64, 0..5u128).prop_map(|(file, client)| Event::Wait(file, client)),
        2 => (0..3u64).prop_map(Event::End),
        1 => (0..3u64).prop_map(Event::BeginEnd),
        2 => (1..4u64).prop_map(Event::Pass),
    ]
}

/// A file in the model: the turn, its client, when it began and whether it is ending; and the clients that wait.
#[derive(Debug, Default, Clone)]
struct Model {
    held: Option<(u64, u128, Instant, bool)>,
    waiting: Vec<(u128, usize)>,
}

proptest! {
    /// Turns are given in the order of the requests, one at a time in each file, with ascending numbers, and no waiting
    /// client is forgotten.
    #[test]
    fn turns_are_those_of_a_model(events in vec(any_event(), 1..80)) {
        let mut now = Instant::now();
        let mut turns: Turns<u128, usize> = Turns::new(100, LONGEST);
        let mut model: BTreeMap<u64, Model> = BTreeMap::new();
        let mut latest: BTreeMap<u128, (u64, u64)> = BTreeMap::new();
        let mut last = 100;
        for (number, event) in events.into_iter().enumerate() {
            match event {
                Event::Wait(file, client) => {
                    let given_up = turns.wait(ObjectId(file), (client, client), number, now);
                    // A client has one turn at a time: the latest that it was given.
                    let expected = latest.get(&client).copied().filter(|&(turn, file)| {
                        let held = model.get(&file).and_then(|model| model.held);
                        held.is_some_and(|(held, _, _, is_ending)| held == turn && !is_ending)
                    });
                    let expected = expected.map(|(_, file)| file);
                    if let Some(model) = expected.and_then(|file: u64| model.get_mut(&file)) {
                        model.held = None;
                    }
                    prop_assert_eq!(given_up, Ok(expected.map(ObjectId)));
                    model.entry(file).or_default().waiting.push((client, number));
                }
                Event::End(file) => {
                    let held = model.entry(file).or_default().held.take();
                    let turn = held.map_or(last + 1, |(turn, ..)| turn);
                    prop_assert_eq!(turns.end(ObjectId(file), turn), held.is_some());
                    prop_assert!(!turns.end(ObjectId(file), turn));
                }
                Event::BeginEnd(file) => {
                    if let Some((turn, client, _, is_ending)) = &mut model.entry(file).or_default().held {
                        prop_assert!(!turns.begin_end(ObjectId(file), *turn, *client + 1));
                        prop_assert!(!turns.begin_end(ObjectId(file), *turn - 1, *client));
                        let is_first = !*is_ending;
                        prop_assert_eq!(turns.begin_end(ObjectId(file), *turn, *client), is_first);
                        *is_ending = true;
                    }
                    prop_assert!(!turns.begin_end(ObjectId(file), 0, 0));
                }
                Event::Pass(seconds) => now += Duration::from_secs(seconds),
            }
            let mut overdue = Vec::new();
            for (file, model) in &mut model {
                let object = ObjectId(*file);
                let next = turns.next(object, now);
                if model.held.is_none() && !model.waiting.is_empty() {
                    let (client, number) = model.waiting.remove(0);
                    last += 1;
                    prop_assert_eq!(next, Some((last, number)));
                    model.held = Some((last, client, now, false));
                    latest.insert(client, (last, *file));
                } else {
                    prop_assert_eq!(next, None);
                }
                let wanted = model.held.filter(|_| !model.waiting.is_empty());
                prop_assert_eq!(
                    turns.wanted(object),
                    wanted.map(|(turn, client, ..)| (turn, client))
                );
                overdue.extend(wanted.and_then(|(turn, _, since, is_ending)| {
                    (!is_ending).then_some((since + LONGEST, object, turn))
                }));
            }
            let due = overdue.iter().map(|(due, ..)| *due).min();
            prop_assert_eq!(turns.next_due(), due);
            overdue.retain(|(due, ..)| *due <= now);
            let mut found = turns.overdue(now);
            found.sort_unstable();
            let expected: Vec<_> = overdue.iter().map(|(_, object, turn)| (*object, *turn)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}

#[test]
fn there_is_an_end_to_what_is_remembered() {
    let now = Instant::now();
    let mut turns: Turns<u128, u64> = Turns::new(0, LONGEST);
    // Each client takes a turn, and never ends it.
    let begin = |turns: &mut Turns<u128, u64>, number: u64, now| {
        let client = u128::from(number);
        let waits = turns.wait(ObjectId(number), (client, client), number, now);
        turns.next(ObjectId(number), now);
        waits.is_ok()
    };
    for number in 0..MAX_FILES as u64 {
        assert!(begin(&mut turns, number, now));
    }
    assert!(!begin(&mut turns, 1 << 40, now));
    // They are forgotten once their time is over.
    assert!(begin(&mut turns, 1 << 40, now + LONGEST));
    assert_eq!((turns.files.len(), turns.held.len()), (1, 1));
    for number in 0..MAX_WAITING as u64 {
        let client = u128::from(number) << 64;
        assert!(
            turns
                .wait(ObjectId(1 << 40), (client, client), number, now)
                .is_ok()
        );
    }
    let refused = turns.wait(ObjectId(1 << 40), (7, 7), 7, now + LONGEST);
    assert_eq!(refused, Err(7));
}

/// A client that cannot wait keeps the turn that it has: the next client would not get that.
#[test]
fn a_client_that_is_turned_away_keeps_its_turn() {
    let now = Instant::now();
    let mut turns: Turns<(), ()> = Turns::new(0, LONGEST);
    let held = ObjectId(0);
    for client in 0..MAX_WAITING as u128 + 1 {
        assert_eq!(turns.wait(held, (client, ()), (), now), Ok(None));
        let is_first = client == 0;
        assert_eq!(turns.next(held, now).is_some(), is_first);
    }
    assert_eq!(turns.wait(ObjectId(1), (0, ()), (), now), Err(()));
    assert_eq!(turns.wanted(held), Some((1, ())));
    assert!(turns.end(held, 1));
    assert_eq!(turns.wait(ObjectId(1), (0, ()), (), now), Err(()));
    assert_eq!(turns.next(held, now), Some((2, ())));
    assert_eq!(turns.wait(ObjectId(1), (1, ()), (), now), Ok(Some(held)));
}
