use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const FILE: ObjectId = ObjectId(3);

fn from(client: u128, connection: u32, number: u64) -> Sender<u32> {
    Sender {
        client,
        connection,
        user: client as u32,
        number,
    }
}

#[derive(Debug, Clone)]
enum Event {
    /// A client's next step of a pointer.
    Step(u128, u64, PointerStep),
    /// The client's last one, sent again by another connection.
    Again(u128),
}

fn any_event() -> impl Strategy<Value = Event> {
    let step = prop_oneof![
        2 => (0..100u64).prop_map(PointerStep::Put),
        6 => (0..100u64).prop_map(PointerStep::Add),
        1 => Just(PointerStep::Add(u64::MAX)),
        2 => Just(PointerStep::Get),
        1 => Just(PointerStep::End),
    ];
    prop_oneof![
        4 => (0..4u128, 0..3u64, step).prop_map(|(client, pointer, step)| Event::Step(client, pointer, step)),
        2 => (0..4u128).prop_map(Event::Again),
    ]
}

proptest! {
    /// Each step is done once, however often it comes, and no two clients are given the same units.
    #[test]
    fn pointers_are_those_of_a_model(events in vec(any_event(), 1..120)) {
        let mut pointers = Pointers::<u32>::default();
        let mut model: BTreeMap<u64, u64> = BTreeMap::new();
        let mut last: BTreeMap<u128, (u64, u64, PointerStep, Result<u64, Refused>)> = BTreeMap::new();
        let mut connection = 0;
        for event in events {
            let (client, key, number, step, expected) = match event {
                Event::Step(client, key, step) => {
                    let number = last.get(&client).map_or(1, |(_, number, ..)| number + 1);
                    let at = model.get(&key).copied();
                    let expected = match (at, step) {
                        (_, PointerStep::Put(to)) => {
                            model.insert(key, to);
                            Ok(to)
                        }
                        (None, PointerStep::End) => Ok(0),
                        (None, _) => Err(Refused::Unknown),
                        (Some(at), PointerStep::Add(many)) => match at.checked_add(many).filter(|to| *to <= i64::MAX as u64) {
                            Some(next) => {
                                model.insert(key, next);
                                Ok(at)
                            }
                            None => Err(Refused::TooFar),
                        },
                        (Some(at), PointerStep::Get) => Ok(at),
                        (Some(at), PointerStep::End) => {
                            model.remove(&key);
                            Ok(at)
                        }
                    };
                    (client, key, number, step, expected)
                }
                Event::Again(client) => {
                    // What has failed has changed nothing, and an end is not remembered.
                    let Some((key, number, step, Ok(expected))) = last.get(&client).copied() else {
                        continue;
                    };
                    if step == PointerStep::End || !model.contains_key(&key) {
                        continue;
                    }
                    // Another client has ended it since, and one has made it anew.
                    if !pointers.pointers[&(FILE, key)].shares.contains_key(&client) {
                        continue;
                    }
                    connection += 1;
                    (client, key, number, step, Ok(expected))
                }
            };
            let sender = Sender { user: 1, ..from(client, connection, number) };
            let found = pointers.step((FILE, key), sender, step, |_| true);
            prop_assert_eq!(found, expected, "{:?}", step);
            last.insert(client, (key, number, step, expected));
            let known: BTreeMap<u64, u64> =
                pointers.pointers.iter().map(|((_, key), pointer)| (*key, pointer.at)).collect();
            prop_assert_eq!(&known, &model);
            let shares: usize = pointers.pointers.values().map(|pointer| pointer.shares.len()).sum();
            prop_assert_eq!(pointers.shares, shares);
            prop_assert_eq!(pointers.connections.0.values().sum::<usize>(), shares);
            prop_assert_eq!(pointers.users.0.values().sum::<usize>(), shares);
            prop_assert_eq!(pointers.made.0.values().sum::<usize>(), model.len());
        }
    }
}

#[test]
fn an_earlier_step_that_comes_late_is_not_done() {
    let mut pointers = Pointers::default();
    let key = (FILE, 7);
    let mut step = |number, step| pointers.step(key, from(1, 1, number), step, |_| true);
    assert_eq!(step(1, PointerStep::Put(10)), Ok(10));
    assert_eq!(step(2, PointerStep::Add(5)), Ok(10));
    assert_eq!(step(1, PointerStep::Put(10)), Err(Refused::Stale));
    assert_eq!(step(3, PointerStep::Get), Ok(15));
}

/// Only pointers that no connected client uses make room for others.
#[test]
fn there_is_an_end_to_what_is_remembered() {
    let mut pointers = Pointers::default();
    let gone = BTreeSet::from([1, 2, 3]);
    let mut put = |connection: u32, key: u64| {
        let sender = Sender {
            // Each of 8 users has an eighth.
            user: (key % 8) as u32,
            ..from(u128::from(connection), connection, key + 1)
        };
        let is_alive = |connection| !gone.contains(&connection);
        pointers.step((FILE, key), sender, PointerStep::Put(key), is_alive)
    };
    let of_connection = MAX_OF_CONNECTION as u64;
    // The pointers of four connections, of which one still exists, fill the table.
    for connection in 1..=4 {
        for number in 0..of_connection {
            let key = u64::from(connection) * of_connection + number;
            assert_eq!(put(connection, key), Ok(key));
        }
    }
    assert!(matches!(put(4, 0), Err(Refused::Full(text)) if text.contains("this client")));
    assert_eq!(put(5, 0), Ok(0));
    assert_eq!(pointers.pointers.len(), MAX_OF_CONNECTION + 1);
    let known = |key| pointers.has((FILE, key));
    assert!(known(4 * of_connection) && !known(of_connection) && known(0));
    // A client whose pointer was forgotten gets an error that says so.
    let late = pointers.step(
        (FILE, of_connection),
        from(1, 9, 1 << 40),
        PointerStep::Add(1),
        |_| true,
    );
    assert_eq!(late, Err(Refused::Unknown));
}

/// A table that is full of pointers in use is not searched for each request that it refuses.
#[test]
fn refusals_are_cheap() {
    let mut pointers = Pointers::default();
    for key in 0..MAX_POINTERS as u64 {
        let sender = from(u128::from(key), key as u32, 1);
        let made = pointers.step((FILE, key), sender, PointerStep::Put(0), |_| true);
        assert_eq!(made, Ok(0));
    }
    let looks = std::cell::Cell::new(0);
    let is_alive = |_| {
        looks.set(looks.get() + 1);
        true
    };
    for _ in 0..REQUESTS_BETWEEN {
        let refused = pointers.step(
            (FILE, 1 << 40),
            from(1 << 40, 1 << 30, 1),
            PointerStep::Put(0),
            is_alive,
        );
        assert!(matches!(refused, Err(Refused::Full(_))), "{refused:?}");
    }
    assert_eq!(looks.get(), MAX_POINTERS);
}

/// A user that has its share of them, by however many connections, leaves room for others.
#[test]
fn one_user_cannot_take_all_pointers() {
    let mut pointers = Pointers::default();
    let put = |pointers: &mut Pointers<u32>, user: u32, client: u32, key: u64| {
        let sender = Sender {
            user,
            ..from(u128::from(client), client, 1)
        };
        pointers.step((FILE, key), sender, PointerStep::Put(0), |_| true)
    };
    for key in 0..MAX_POINTERS_OF_USER as u64 {
        assert_eq!(put(&mut pointers, 7, key as u32, key), Ok(0));
    }
    let is_refused = |result| matches!(result, Err(Refused::Full(text)) if text.contains("user"));
    assert!(is_refused(put(&mut pointers, 7, 1 << 20, 1 << 40)));
    assert_eq!(put(&mut pointers, 8, 1 << 20, 1 << 40), Ok(0));
    // Nor all clients of one.
    let clients = MAX_SHARES_OF_USER - MAX_POINTERS_OF_USER;
    for client in 0..clients as u32 {
        assert_eq!(put(&mut pointers, 7, (1 << 21) + client, 0), Ok(0));
    }
    assert!(is_refused(put(&mut pointers, 7, 1 << 22, 0)));
    assert_eq!(put(&mut pointers, 8, 1 << 22, 1 << 40), Ok(0));
    // What ends makes room.
    let sender = Sender {
        user: 7,
        ..from(3, 3, 2)
    };
    assert_eq!(
        pointers.step((FILE, 3), sender, PointerStep::End, |_| true),
        Ok(0)
    );
    assert_eq!(put(&mut pointers, 7, 1 << 22, 9 << 40), Ok(0));
}

/// A pointer is its maker's user's: another user can neither move nor end it, nor learn that it exists.
#[test]
fn another_user_does_not_reach_a_pointer() {
    let mut pointers = Pointers::default();
    let key = (FILE, 7);
    let sender = |user, client, number| Sender {
        user,
        ..from(client, client as u32, number)
    };
    let mut step = |sender, step| pointers.step(key, sender, step, |_| true);
    assert_eq!(step(sender(5, 1, 1), PointerStep::Put(10)), Ok(10));
    for (number, lie) in [
        PointerStep::Put(1),
        PointerStep::Add(1),
        PointerStep::Get,
        PointerStep::End,
    ]
    .into_iter()
    .enumerate()
    {
        let other = sender(6, 2, number as u64 + 1);
        assert_eq!(step(other, lie), Err(Refused::Unknown), "{lie:?}");
        // Nor by the number of its maker's client.
        let other = sender(6, 1, number as u64 + 1);
        assert_eq!(step(other, lie), Err(Refused::Unknown), "{lie:?}");
    }
    assert_eq!(step(sender(5, 3, 1), PointerStep::Add(1)), Ok(10));
}
