use std::collections::{BTreeMap, VecDeque};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const LONGEST: Duration = Duration::from_secs(5);

/// An event, with numbers of files and clients.
#[derive(Debug, Clone)]
enum Event {
    Wait(u64, u128),
    End(u64),
    /// The client that has the turn of the file is gone.
    Lose(u64),
    /// What this client has a turn for had to wait.
    KeepHeld(u128),
    /// The client that has the turn of the file says that it has appended.
    BeginEnd(u64),
    /// The client that has the turn of the file asks whether it still has it.
    Keep(u64),
    Pass(u64),
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..3u64, 0..5u128).prop_map(|(file, client)| Event::Wait(file, client)),
        2 => (0..3u64).prop_map(Event::End),
        1 => (0..3u64).prop_map(Event::Lose),
        1 => (0..5u128).prop_map(Event::KeepHeld),
        1 => (0..3u64).prop_map(Event::BeginEnd),
        1 => (0..3u64).prop_map(Event::Keep),
        2 => (1..4u64).prop_map(Event::Pass),
    ]
}

/// A file as the model has it: the turn, its client, when it began and whether it is ending; and who waits, without a number while away.
#[derive(Debug, Default, Clone)]
struct Model {
    held: Option<(u64, u128, Instant, bool)>,
    waiting: Vec<(u128, Option<usize>, Instant)>,
}

proptest! {
    /// Turns are given in the order of the requests, one at a time in each file, with ascending numbers, and no waiting
    /// client is forgotten.
    #[test]
    fn turns_are_those_of_a_model(events in vec(any_event(), 1..80)) {
        let mut now = Instant::now();
        let mut turns: Turns<u128, usize> = Turns::new(100, LONGEST, |number| number.is_multiple_of(2));
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
                    let waiting = &mut model.entry(file).or_default().waiting;
                    let is_its = |one: &&mut (u128, Option<usize>, Instant)| {
                        one.0 == client && one.1.is_none() && one.2 + LONGEST > now
                    };
                    match waiting.iter_mut().find(is_its) {
                        Some(place) => *place = (client, Some(number), now),
                        None => waiting.push((client, Some(number), now)),
                    }
                }
                Event::End(file) => {
                    let held = model.entry(file).or_default().held.take();
                    let turn = held.map_or(last + 1, |(turn, ..)| turn);
                    prop_assert_eq!(turns.end(ObjectId(file), turn), held.is_some());
                    prop_assert!(!turns.end(ObjectId(file), turn));
                }
                Event::Lose(file) => {
                    let held = &mut model.entry(file).or_default().held;
                    // Its request to end the turn may still be carried out.
                    let lost = held.take_if(|(.., is_ending)| !*is_ending);
                    let turn = lost.or(*held).map_or(last + 1, |(turn, ..)| turn);
                    prop_assert_eq!(turns.lose(ObjectId(file), turn), lost.is_some());
                }
                Event::KeepHeld(client) => {
                    turns.keep_held(client, now);
                    let file = latest.get(&client).map(|(_, file)| file);
                    let held = file.and_then(|file| model.get_mut(file)?.held.as_mut());
                    if let Some((.., since, _)) = held.filter(|held| held.1 == client) {
                        *since = now;
                    }
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
                Event::Keep(file) => {
                    if let Some((turn, client, since, is_ending)) = &mut model.entry(file).or_default().held {
                        let object = ObjectId(file);
                        prop_assert!(!turns.keep(object, *turn, *client + 1, now));
                        prop_assert!(!turns.keep(object, *turn - 1, *client, now));
                        prop_assert_eq!(turns.keep(object, *turn, *client, now), !*is_ending);
                        if !*is_ending {
                            *since = now;
                        }
                    }
                    prop_assert!(!turns.keep(ObjectId(file), 0, 0, now));
                }
                Event::Pass(seconds) => now += Duration::from_secs(seconds),
            }
            // Of those that ask again, each that has waited for long enough.
            let asks_again = |number: &usize| number.is_multiple_of(2);
            let due = |waiting: &(u128, Option<usize>, Instant)| {
                let asks_again = waiting.1.filter(asks_again);
                asks_again.map(|_| waiting.2 + PATIENCE)
            };
            let waiting = model.values().flat_map(|model| &model.waiting);
            prop_assert_eq!(turns.next_to_ask_again(), waiting.filter_map(due).min());
            let mut sent_away = Vec::new();
            for model in model.values_mut() {
                model.waiting.retain(|one| one.1.is_some() || one.2 + LONGEST > now);
                for one in &mut model.waiting {
                    if due(one).is_some_and(|due| due <= now) {
                        sent_away.extend(one.1.take());
                        one.2 = now;
                    }
                }
            }
            let mut found = turns.take_to_ask_again(now);
            sent_away.sort_unstable();
            found.sort_unstable();
            prop_assert_eq!(found, sent_away);
            let mut overdue = Vec::new();
            for (file, model) in &mut model {
                let object = ObjectId(*file);
                let next = turns.next(object, now);
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
                    turns.wanted(object),
                    wanted.map(|(turn, client, ..)| (turn, client))
                );
                overdue.extend(wanted.and_then(|(turn, _, since, is_ending)| {
                    (!is_ending).then_some((since + LONGEST, object, turn))
                }));
            }
            let of_all = turns.files.values();
            let waiters = || of_all.clone().flat_map(|file| file.waiting.values());
            let (there, away): (Vec<_>, Vec<_>) = waiters().partition(|waiter| waiter.reply.is_some());
            let asking = there.iter().filter(|waiter| waiter.reply.as_ref().is_some_and(asks_again));
            prop_assert_eq!(turns.asking.len(), asking.count());
            prop_assert_eq!(turns.away.len(), away.len());
            prop_assert_eq!(turns.waiting, there.len() + away.len());
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

proptest! {
    /// Clients that ask again when they are sent away get their turns in the order in which they asked first, however long turns last.
    #[test]
    fn a_client_that_asks_again_is_not_overtaken(
        lengths in vec(0..3 * LONGEST.as_millis() as u64, 1..60),
        clients in 2..9usize,
    ) {
        let object = ObjectId(1);
        let mut now = Instant::now();
        let mut turns: Turns<u128, u128> = Turns::new(0, LONGEST, |_| true);
        // Those that wait, in order: a client that has had its turn asks for the next one.
        let mut line: VecDeque<u128> = (0..clients as u128).collect();
        for client in &line {
            prop_assert!(turns.wait(object, (*client, *client), *client, now).is_ok());
        }
        for length in lengths {
            let (turn, client) = turns.next(object, now).expect("clients wait");
            prop_assert_eq!(Some(client), line.pop_front());
            let ends = now + Duration::from_millis(length);
            while let Some(due) = turns.next_to_ask_again().filter(|due| *due <= ends) {
                now = due;
                // They may come back in any order.
                for client in turns.take_to_ask_again(now).into_iter().rev() {
                    prop_assert!(turns.wait(object, (client, client), client, now).is_ok());
                }
            }
            now = ends;
            prop_assert!(turns.end(object, turn));
            prop_assert!(turns.wait(object, (client, client), client, now).is_ok());
            line.push_back(client);
        }
    }
}

/// The turn does not wait for a client that is away, which keeps its place for others' longest turn, and no longer.
#[test]
fn a_place_is_kept_for_a_time() {
    let mut now = Instant::now();
    let mut turns: Turns<(), u128> = Turns::new(0, LONGEST, |client| *client != 3);
    let object = ObjectId(1);
    let ask = |turns: &mut Turns<(), u128>, client: u128, now| {
        turns.wait(object, (client, ()), client, now)
    };
    for client in 0..5 {
        assert_eq!(ask(&mut turns, client, now), Ok(None));
    }
    assert_eq!(turns.next(object, now), Some((1, 0)));
    now += PATIENCE;
    assert_eq!(turns.take_to_ask_again(now), [1, 2, 4]);
    assert!(turns.end(object, 1));
    assert_eq!(turns.next(object, now), Some((2, 3)));
    // No connected client waits for its end.
    assert_eq!((turns.wanted(object), turns.next_due()), (None, None));
    assert_eq!(ask(&mut turns, 4, now), Ok(None));
    assert_eq!(ask(&mut turns, 5, now), Ok(None));
    assert_eq!(ask(&mut turns, 2, now), Ok(None));
    assert!(turns.end(object, 2));
    assert_eq!(turns.next(object, now), Some((3, 2)));
    now += LONGEST;
    assert_eq!(ask(&mut turns, 1, now), Ok(None));
    let mut order = Vec::new();
    for turn in 3..6 {
        assert!(turns.end(object, turn));
        order.extend(turns.next(object, now).map(|(_, client)| client));
    }
    assert_eq!(order, [4, 5, 1]);
    assert!(turns.end(object, 6));
    assert_eq!(turns.take_to_ask_again(now), []);
    assert_eq!((turns.waiting, turns.files.len()), (0, 0));
}

#[test]
fn a_turn_that_its_client_has_ended_is_known_until_it_ends_another_one() {
    let mut turns: Turns<(), ()> = Turns::new(0, LONGEST, |_| true);
    turns.note_own_end(5, 1);
    assert!(turns.has_ended(5, 1));
    assert!(!turns.has_ended(5, 2) && !turns.has_ended(6, 1) && !turns.has_ended(0, 3));
    turns.note_own_end(6, 2);
    turns.note_own_end(7, 1);
    assert!(!turns.has_ended(5, 1) && turns.has_ended(6, 2) && turns.has_ended(7, 1));
    // Those that ended first are forgotten first.
    for client in 0..MAX_ENDED as u64 - 1 {
        turns.note_own_end(10 + client, 100 + u128::from(client));
    }
    assert!(!turns.has_ended(6, 2) && turns.has_ended(7, 1));
    let ended = &turns.ended;
    assert_eq!(
        (ended.of_clients.len(), ended.in_order.len()),
        (MAX_ENDED, MAX_ENDED)
    );
}

#[test]
fn there_is_an_end_to_what_is_remembered() {
    let now = Instant::now();
    let mut turns: Turns<u128, u64> = Turns::new(0, LONGEST, |_| true);
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
    // Those that were sent away and do not ask again lose their places.
    let now = now + LONGEST;
    assert_eq!(turns.take_to_ask_again(now).len(), MAX_WAITING);
    let ask = |turns: &mut Turns<u128, u64>, now| turns.wait(ObjectId(5), (7, 7), 7, now);
    assert_eq!(ask(&mut turns, now), Err(7));
    assert_eq!(ask(&mut turns, now + LONGEST), Ok(None));
    assert_eq!(turns.waiting, 1);
}

/// A client that cannot wait keeps the turn that it has: the next client would not get that.
#[test]
fn a_client_that_is_turned_away_keeps_its_turn() {
    let now = Instant::now();
    let mut turns: Turns<(), ()> = Turns::new(0, LONGEST, |_| true);
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
