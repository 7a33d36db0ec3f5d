//! The table against examples of its contract, and against a model that keeps every handle in a list.

use causeway_wire::random::SplitMix64;

use super::*;

fn file(handle: u64, object: u64) -> OpenHandle {
    OpenHandle {
        handle,
        object: ObjectId(object),
    }
}

/// As the server does: the program has a connection, and the opening is in progress until it is carried out.
fn register(
    opens: &Opens,
    session: u128,
    handle: u64,
    object: u64,
    epoch: Option<u64>,
) -> Registered {
    opens.know(session);
    opens.begin(session, handle);
    let registered = opens.register(session, file(handle, object), false, epoch);
    opens.settle([(session, handle)]);
    registered
}

#[track_caller]
fn opens(opens: &Opens, session: u128, handle: u64, object: u64) {
    let epoch = opens.epoch();
    let registered = register(opens, session, handle, object, Some(epoch));
    assert!(matches!(registered, Registered::Done), "{registered:?}");
}

#[test]
fn an_opening_beside_a_removal_learns_of_it() {
    let table = Opens::new(10);
    let seen = table.epoch();
    assert!(table.begin_removal(ObjectId(5), true));
    let late = |object| register(&table, 1, 1, object, Some(seen));
    assert!(matches!(late(5), Registered::Removing));
    // The other object still exists, as the batch is not committed.
    assert!(matches!(late(6), Registered::Done));
    table.end_batch();
    assert!(matches!(
        register(&table, 1, 2, 7, Some(seen)),
        Registered::Outdated
    ));
    opens(&table, 1, 2, 7);
    // After a batch that removes nothing, no opening has to look its file up again.
    let seen = table.epoch();
    assert!(!table.begin_removal(ObjectId(7), true));
    table.end_batch();
    assert_eq!(table.epoch(), seen);
    // The batch's own openings come after its removals.
    assert!(table.begin_removal(ObjectId(8), true));
    assert!(matches!(register(&table, 1, 3, 8, None), Registered::Done));
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
    assert!(!table.has_released() && lock(&table.state).with_files == 1);
    table.end(2);
    assert_eq!(table.take_released(9), [ObjectId(5)]);
    assert!(table.is_empty() && table.begin_removal(ObjectId(5), true));
}

#[test]
fn what_is_replaced_stays_for_one_period_and_a_part_of_another() {
    let table = Opens::new(10);
    // No program can be about to open it.
    table.hold_replaced(ObjectId(5));
    assert!(!table.has_replaced() && !table.take_news());
    assert!(table.begin_removal(ObjectId(5), true));
    table.end_batch();
    table.know(1);
    table.hold_replaced(ObjectId(6));
    assert!(table.take_news() && !table.begin_removal(ObjectId(6), true));
    assert!(table.end_period());
    table.hold_replaced(ObjectId(7));
    assert!(!table.take_news() && !table.begin_removal(ObjectId(7), true));
    assert!(!table.has_released());
    assert!(table.end_period());
    assert_eq!(table.take_released(9), [ObjectId(6)]);
    // A program has opened it in time.
    opens(&table, 1, 1, 7);
    assert!(!table.end_period() && !table.has_replaced() && !table.has_released());
    table.close(1, &[1]);
    assert_eq!(table.take_released(9), [ObjectId(7)]);
    assert_eq!(lock(&table.state).handles, 0);
    // A batch that failed has replaced nothing.
    table.hold_replaced(ObjectId(8));
    assert!(table.take_news() && table.end_period() && !table.end_period());
    assert!(!table.has_released() && lock(&table.state).files.is_empty());
}

#[test]
fn few_replaced_files_stay() {
    let table = Opens::new(10);
    table.know(1);
    for number in 0..MAX_REPLACED as u64 + 2 {
        table.hold_replaced(ObjectId(number));
        assert!(!table.begin_removal(ObjectId(number), true));
    }
    assert!(table.take_news());
    assert_eq!(table.take_released(9), [ObjectId(0), ObjectId(1)]);
    assert_eq!(lock(&table.state).handles, MAX_REPLACED);
}

/// A request may be committed after its program has ended.
#[test]
fn what_is_carried_out_after_the_end_of_a_program_opens_nothing() {
    let table = Opens::new(10);
    table.know(1);
    table.begin(1, 1);
    table.end(1);
    let late = table.register(1, file(1, 5), false, None);
    assert!(matches!(late, Registered::Done));
    table.settle([(1, 1)]);
    assert!(table.is_empty() && table.begin_removal(ObjectId(5), true));
    assert!(lock(&table.state).sessions.is_empty());
}

/// A program gives up an opening, and closes its handle, while the opening waits for its commit.
#[test]
fn a_close_that_overtakes_its_opening_leaves_nothing() {
    let table = Opens::new(10);
    table.know(1);
    // The request was repeated: one of the two copies settles before the other.
    table.begin(1, 1);
    table.begin(1, 1);
    assert!(!table.is_empty());
    table.settle([(1, 1)]);
    table.close(1, &[1]);
    table.register(1, file(1, 5), false, None);
    table.settle([(1, 1)]);
    assert!(table.is_empty() && table.begin_removal(ObjectId(5), true));
    table.end_batch();
    // Another opening, whose first copy fails, succeeds.
    table.begin(1, 2);
    table.begin(1, 2);
    table.settle([(1, 2)]);
    table.register(1, file(2, 6), false, None);
    table.settle([(1, 2)]);
    assert!(!table.begin_removal(ObjectId(6), true));
    table.close(1, &[2]);
    assert!(table.is_empty());
}

#[test]
fn files_that_may_be_open_are_kept_until_programs_have_said() {
    let table = Opens::new(10);
    table.keep_all(true);
    // Programs that have files open may not have reported them yet.
    assert!(!table.is_empty());
    assert!(!table.begin_removal(ObjectId(5), true));
    // On a full disk, only files are kept that were reported open.
    assert!(table.begin_removal(ObjectId(5), false));
    table.end_batch();
    opens(&table, 1, 1, 6);
    table.keep_all(false);
    table.close(1, &[1]);
    // The file may have lost its name before it was reported open.
    assert_eq!(table.take_released(9), [ObjectId(6)]);
}

#[test]
fn there_are_limits_and_errors_say_which() {
    let table = Opens::new(2);
    opens(&table, 1, 1, 5);
    opens(&table, 1, 2, 5);
    let full = |session, handle| match register(&table, session, handle, 5, None) {
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
    for session in 0..MAX_PROGRAMS as u128 {
        opens(&table, session, 1, 5);
    }
    let refused = register(&table, 1 << 60, 1, 5, None);
    assert!(
        matches!(&refused, Registered::Full(why) if why.errno == Errno::ENFILE),
        "{refused:?}"
    );
    // Programs without open files do not count.
    table.close(7, &[1]);
    opens(&table, 1 << 60, 1, 5);
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
            let programs: HashSet<u128> = model.iter().map(|(one, ..)| *one).collect();
            assert_eq!(lock(&table.state).with_files, programs.len());
            for released in table.take_released(99) {
                assert!(model.iter().all(|(_, _, one)| *one != released.0));
            }
        }
    }
}
