//! The table against what is said of it, and against a model that keeps every handle in a list.

use causeway_wire::random::SplitMix64;

use super::*;

fn file(handle: u64, object: u64) -> OpenHandle {
    OpenHandle {
        handle,
        object: ObjectId(object),
    }
}

#[track_caller]
fn opens(opens: &Opens, session: u128, handle: u64, object: u64) {
    let epoch = opens.epoch();
    let registered = opens.register(session, file(handle, object), false, Some(epoch));
    assert!(matches!(registered, Registered::Done), "{registered:?}");
}

#[test]
fn an_opening_beside_a_removal_learns_of_it() {
    let table = Opens::new(10);
    let seen = table.epoch();
    assert!(table.begin_removal(ObjectId(5), true));
    let late = |object| table.register(1, file(1, object), false, Some(seen));
    assert!(matches!(late(5), Registered::Removing));
    // Another object is there still, as the batch is not committed.
    assert!(matches!(late(6), Registered::Done));
    table.end_batch();
    assert!(matches!(
        table.register(1, file(2, 7), false, Some(seen)),
        Registered::Outdated
    ));
    opens(&table, 1, 2, 7);
    // A batch that removes nothing makes nobody look again.
    let seen = table.epoch();
    assert!(!table.begin_removal(ObjectId(7), true));
    table.end_batch();
    assert_eq!(table.epoch(), seen);
    // The batch's own openings come behind what it removes.
    assert!(table.begin_removal(ObjectId(8), true));
    assert!(matches!(
        table.register(1, file(3, 8), false, None),
        Registered::Done
    ));
}

#[test]
fn what_lost_its_name_while_it_was_open_is_released_with_the_last_handle() {
    let table = Opens::new(10);
    opens(&table, 1, 1, 5);
    opens(&table, 2, 1, 5);
    opens(&table, 2, 2, 6);
    // A repeated opening is the same one.
    opens(&table, 1, 1, 5);
    assert!(!table.begin_removal(ObjectId(5), true));
    table.close(1, &[1, 1, 99]);
    table.close(3, &[1]);
    assert!(!table.has_released() && table.is_idle(1));
    table.end(2);
    assert_eq!(table.take_released(9), [ObjectId(5)]);
    assert!(table.is_empty() && table.begin_removal(ObjectId(5), true));
}

#[test]
fn files_that_may_be_open_are_kept_until_programs_have_said() {
    let table = Opens::new(10);
    table.keep_all(true);
    assert!(!table.begin_removal(ObjectId(5), true));
    // On a full disk, only what is known to be open.
    assert!(table.begin_removal(ObjectId(5), false));
    table.end_batch();
    opens(&table, 1, 1, 6);
    table.keep_all(false);
    table.close(1, &[1]);
    // It may have lost its name before it was known to be open.
    assert_eq!(table.take_released(9), [ObjectId(6)]);
}

#[test]
fn there_are_limits_and_errors_say_which() {
    let table = Opens::new(2);
    opens(&table, 1, 1, 5);
    opens(&table, 1, 2, 5);
    let full = |session, handle| match table.register(session, file(handle, 5), false, None) {
        Registered::Full(why) => (why.errno, why.message),
        other => panic!("{other:?}"),
    };
    let (errno, text) = full(1, 3);
    assert_eq!(errno, Errno::EMFILE);
    assert!(
        text.contains("2 files") && text.contains("`open_files`"),
        "{text}"
    );
    for session in 2..=16 {
        opens(&table, session, 1, 5);
        opens(&table, session, 2, 5);
    }
    let (errno, text) = full(17, 1);
    assert_eq!(errno, Errno::ENFILE);
    assert!(
        text.contains("32 files") && text.contains("`open_files`"),
        "{text}"
    );
    table.close(1, &[2]);
    opens(&table, 17, 1, 5);
    let table = Opens::new(1000);
    for session in 0..MAX_SESSIONS as u128 {
        opens(&table, session, 1, 5);
    }
    let refused = table.register(1 << 60, file(1, 5), false, None);
    assert!(
        matches!(&refused, Registered::Full(why) if why.errno == Errno::ENFILE),
        "{refused:?}"
    );
}

#[test]
fn the_table_agrees_with_a_list_of_handles() {
    for seed in 0..50 {
        let mut random = SplitMix64::new(seed);
        let mut below = |most: u64| random.below(most);
        let table = Opens::new(1 << 20);
        let mut model: Vec<(u128, u64, u64)> = Vec::new();
        for handle in 0..400 {
            let (session, object) = (u128::from(below(4)), below(6));
            match below(10) {
                0..5 => {
                    opens(&table, session, handle, object);
                    model.push((session, handle, object));
                }
                5..8 => {
                    let open = model.iter().position(|(one, ..)| *one == session);
                    if let Some(place) = open {
                        let (_, handle, _) = model.remove(place);
                        table.close(session, &[handle]);
                    }
                }
                8 => {
                    model.retain(|(one, ..)| *one != session);
                    table.end(session);
                }
                _ => {
                    let is_open = model.iter().any(|(_, _, one)| *one == object);
                    assert_eq!(table.begin_removal(ObjectId(object), true), !is_open);
                    table.end_batch();
                }
            }
            assert_eq!(table.is_empty(), model.is_empty());
            assert_eq!(lock(&table.state).handles, model.len());
            for released in table.take_released(99) {
                assert!(model.iter().all(|(_, _, one)| *one != released.0));
            }
        }
    }
}
