use causeway_wire::fs::{Attributes, Body, DistributionHint, Kind, Operation, Place, Timestamp};

use super::passing::{EntryTimes, MAX_PASSED_NAMES, Passed, PassedEntry};
use super::*;

mod left;
mod passed;

const TIME: Duration = Duration::from_secs(16);
const LEASE: GrantedLease = GrantedLease {
    time_ms: 16_000,
    of_changes: true,
    for_all_users: false,
    directory: None,
};
const ROOT: ObjectId = ObjectId::ROOT;
const X: ObjectId = ObjectId(7);

fn node(object: ObjectId, mode: u16) -> Node {
    let time = Timestamp::default();
    Node {
        object,
        attributes: Attributes {
            kind: Kind::Directory,
            mode,
            uid: 0,
            gid: 0,
            links: 2,
            size: 0,
            accessed: time,
            modified: time,
            changed: time,
        },
        body: Body::Directory(DistributionHint::default()),
        acl: None,
    }
}

/// A cache with one name, and the object to which it refers.
fn filled(now: Instant) -> LeaseCache {
    let cache = LeaseCache::new(1);
    let asked = cache.ask(now);
    assert!(cache.fill_node(asked, &node(X, 1), &LEASE, now).is_some());
    cache.fill_name(asked, (ROOT, b"x"), Some(X), &LEASE);
    cache.fill_name(asked, (ROOT, b"none"), None, &LEASE);
    cache
}

/// A change that has begun.
fn begin(cache: &LeaseCache, operation: &Operation, now: Instant) -> ChangeScope {
    let mut scope = ChangeScope::of(operation).expect("a change");
    cache.begin_change(&mut scope, now);
    scope
}

fn mode(found: Option<Named>) -> Option<u16> {
    match found? {
        Named::Node(node, _) => Some(node.attributes.mode),
        Named::Nothing => Some(0),
    }
}

#[test]
fn it_is_good_for_less_than_the_lease_from_when_it_was_asked_for() {
    let now = Instant::now();
    let cache = filled(now);
    for (name, expected) in [(&b"x"[..], Some(1)), (b"none", Some(0)), (b"other", None)] {
        assert_eq!(mode(cache.find(ROOT, name, now)), expected);
    }
    let last = now + TIME * 15 / 16;
    assert!(cache.node(X, last - Duration::from_nanos(1)).is_some());
    assert!(cache.node(X, last).is_none());
    assert_eq!(cache.find(ROOT, b"x", last), None);
    assert_eq!(cache.find(ROOT, b"none", last), None);
}

#[test]
fn a_reply_that_a_recall_has_overtaken_is_not_cached() {
    let now = Instant::now();
    let cache = filled(now);
    let asked = cache.ask(now);
    cache.recall(
        &[Leased::Attributes(X), Leased::Entry(ROOT, b"x".into())],
        now,
    );
    assert!(cache.node(X, now).is_none() && cache.find(ROOT, b"x", now).is_none());
    assert_eq!(mode(cache.find(ROOT, b"none", now)), Some(0));
    assert_eq!(cache.fill_node(asked, &node(X, 2), &LEASE, now), None);
    cache.fill_name(asked, (ROOT, b"x"), Some(X), &LEASE);
    assert!(cache.node(X, now).is_none() && cache.find(ROOT, b"x", now).is_none());
    let asked = cache.ask(now);
    assert!(cache.fill_node(asked, &node(X, 3), &LEASE, now).is_some());
    assert!(cache.node(X, now).is_some());
}

#[test]
fn own_changes_end_what_they_may_alter() {
    let now = Instant::now();
    let place = |path: &[u8]| Place::from((ROOT, path));
    let unlink = |path| Operation::Unlink {
        place: place(path),
        expected: None,
    };
    // The object to which the name refers is altered, too, and what was read meanwhile is not
    // cached.
    let cache = filled(now);
    let mut scope = begin(&cache, &unlink(b"x"), now);
    assert!(cache.node(X, now).is_none() && cache.find(ROOT, b"x", now).is_none());
    let asked = cache.ask(now);
    assert!(cache.fill_node(asked, &node(X, 2), &LEASE, now).is_some());
    cache.end_change(&mut scope, None, now);
    assert!(cache.node(X, now).is_none());
    assert_eq!(cache.fill_node(asked, &node(X, 2), &LEASE, now), None);
    assert_eq!(mode(cache.find(ROOT, b"none", now)), Some(0));
    // A name that is not cached may be a further name of any object.
    let cache = filled(now);
    begin(&cache, &unlink(b"y"), now);
    assert!(cache.node(X, now).is_none());
    // Nothing is known of longer paths.
    let cache = filled(now);
    begin(&cache, &unlink(b"y/z"), now);
    assert!(cache.find(ROOT, b"none", now).is_none());
    // Names that were found missing are made.
    let cache = filled(now);
    let make = Operation::MakeDirectory {
        place: place(b"none"),
        mode: 0,
        distribution: None,
    };
    begin(&cache, &make, now);
    assert_eq!(cache.find(ROOT, b"none", now), None);
    assert_eq!(mode(cache.find(ROOT, b"x", now)), Some(1));
    assert!(ChangeScope::of(&Operation::Commit).is_none());
}

#[test]
fn only_what_can_be_recalled_is_passed_on() {
    let now = Instant::now();
    let cache = filled(now);
    let (_, seen) = cache.node(X, now).expect("it is cached");
    let good = |seen, now| cache.pass_on(X, seen, now, |good| good);
    assert_eq!(good(Some(seen), now), Duration::ZERO);
    cache.note_known(X, true);
    assert_eq!(good(Some(seen), now), TIME * 15 / 16 * 7 / 8);
    assert_eq!(good(Some(seen), now + TIME / 2), TIME * 7 / 16 * 7 / 8);
    assert_eq!(good(None, now), Duration::ZERO);
    assert_eq!(good(Some(seen), now + TIME), Duration::ZERO);
    cache.recall(&[Leased::Attributes(X)], now);
    assert_eq!(good(Some(seen), now), Duration::ZERO);
    // Nor after it was read again: what was seen before is outdated.
    let asked = cache.ask(now);
    let again = cache.fill_node(asked, &node(X, 2), &LEASE, now);
    cache.note_known(X, true);
    assert_eq!(good(Some(seen), now), Duration::ZERO);
    assert_eq!(good(again, now), TIME * 15 / 16 * 7 / 8);
}

#[test]
fn after_a_change_of_unknown_outcome_the_program_is_another_one() {
    let now = Instant::now();
    let cache = filled(now);
    let (_, seen) = cache.node(X, now).expect("it is cached");
    cache.note_known(X, true);
    assert!(!cache.pass_on(X, Some(seen), now, |good| good).is_zero());
    let asked = cache.ask(now);
    assert_eq!(cache.renew_holder_id(2), [X]);
    assert_eq!(cache.holder(), 2);
    assert!(cache.find(ROOT, b"none", now).is_none() && cache.node(X, now).is_none());
    assert_eq!(cache.fill_node(asked, &node(X, 2), &LEASE, now), None);
    let retired = cache.take_retired();
    assert_eq!(
        (retired[0].holder, &retired[0].passed_on[..]),
        (1, &[X][..])
    );
    assert!(cache.take_retired().is_empty());
}

#[test]
fn it_is_bounded() {
    let now = Instant::now();
    let cache = filled(now);
    let asked = cache.ask(now);
    for number in 0..2 * MAX_CACHED as u64 + 7 {
        let object = ObjectId(number + 10);
        assert!(
            cache
                .fill_node(asked, &node(object, 1), &LEASE, now)
                .is_some()
        );
        let name = number.to_le_bytes();
        cache.fill_name(asked, (ObjectId(number % 3), &name), Some(object), &LEASE);
        if number % 4096 == 0 || number % 4096 == 4095 {
            let state = lock(&cache.state);
            let names: usize = state.names.values().map(HashMap::len).sum();
            assert_eq!(names, state.name_count);
            assert!(names <= MAX_CACHED && state.nodes.len() <= MAX_CACHED);
        }
    }
    assert!(
        cache
            .node(ObjectId(2 * MAX_CACHED as u64 + 16), now)
            .is_some()
    );
}

#[test]
fn what_is_large_counts_more() {
    let now = Instant::now();
    let cache = filled(now);
    let asked = cache.ask(now);
    let large = |number: u64| Node {
        body: Body::Link(vec![b'x'; 4096]),
        ..node(ObjectId(number), 1)
    };
    for number in 10..10 + MAX_CACHED as u64 / 8 {
        // Each is asked for twice, and counts once.
        for _ in 0..2 {
            assert!(
                cache
                    .fill_node(asked, &large(number), &LEASE, now)
                    .is_some()
            );
        }
        if number % 512 == 0 {
            let state = lock(&cache.state);
            assert_eq!(
                state.units,
                state.nodes.values().map(|cached| cached.units).sum()
            );
            assert!(state.units <= MAX_CACHED && state.nodes.len() <= MAX_CACHED / 17);
        }
    }
    let last = ObjectId(9 + MAX_CACHED as u64 / 8);
    assert!(cache.node(last, now).is_some());
    cache.recall(&[Leased::Attributes(last)], now);
    let state = lock(&cache.state);
    assert_eq!(state.units, state.nodes.len() * 17);
}

/// Otherwise each removal would cause the next one to empty the cache.
#[test]
fn names_that_are_looked_up_while_another_is_removed_that_was_not_cached_are_cached() {
    let now = Instant::now();
    let unlink = |path: &[u8]| Operation::Unlink {
        place: Place::from((ROOT, path)),
        expected: None,
    };
    let cache = filled(now);
    let asked = cache.ask(now);
    begin(&cache, &unlink(b"unknown"), now);
    assert_eq!(cache.fill_node(asked, &node(X, 2), &LEASE, now), None);
    cache.fill_name(asked, (ROOT, b"x"), Some(X), &LEASE);
    let mut known = begin(&cache, &unlink(b"x"), now);
    let asked = cache.ask(now);
    let other = ObjectId(8);
    assert!(
        cache
            .fill_node(asked, &node(other, 1), &LEASE, now)
            .is_some()
    );
    cache.end_change(&mut known, None, now);
    assert!(cache.node(other, now).is_some());
    // Nothing is known of names that have changed, in whatever way.
    let asked = cache.ask(now);
    cache.renew_holder_id(2);
    cache.fill_name(asked, (ROOT, b"x"), Some(X), &LEASE);
    assert_eq!(cache.find(ROOT, b"x", now), None);
    let asked = cache.ask(now);
    assert!(
        cache
            .fill_node(asked, &node(other, 1), &LEASE, now)
            .is_some()
    );
    begin(&cache, &unlink(b"x"), now);
    assert!(cache.node(other, now).is_none());
}

#[test]
fn own_changes_end_what_was_passed_on() {
    let now = Instant::now();
    let set = Operation::SetXattr {
        object: X,
        name: b"user.x".to_vec(),
        value: Vec::new(),
        mode: causeway_wire::fs::SetXattrMode::Any,
    };
    let unlink = |path: &[u8]| Operation::Unlink {
        place: Place::from((ROOT, path)),
        expected: None,
    };
    for (operation, ends) in [
        (set, true),
        (unlink(b"x"), true),
        (unlink(b"y"), true),
        (unlink(b"none"), false),
    ] {
        let cache = filled(now);
        let pass_on = || {
            cache.note_known(X, true);
            let (_, seen) = cache.node(X, now).expect("it is cached");
            assert!(!cache.pass_on(X, Some(seen), now, |good| good).is_zero());
        };
        pass_on();
        let mut scope = begin(&cache, &operation, now);
        let expected: &[ObjectId] = if ends { &[X] } else { &[] };
        // The object was read and passed on while the change was made.
        let asked = cache.ask(now);
        assert!(cache.fill_node(asked, &node(X, 2), &LEASE, now).is_some());
        pass_on();
        assert_eq!(
            cache.end_change(&mut scope, None, now),
            expected,
            "{operation:?}"
        );
        assert_eq!(cache.node(X, now).is_none(), ends);
    }
}

#[test]
fn what_a_name_has_come_to_stand_for_during_a_change_is_old_too() {
    let now = Instant::now();
    let cache = filled(now);
    let other = ObjectId(8);
    let unlink = Operation::Unlink {
        place: Place::from((ROOT, &b"x"[..])),
        expected: None,
    };
    for is_renamed in [false, true] {
        let asked = cache.ask(now);
        cache.fill_name(asked, (ROOT, b"x"), Some(X), &LEASE);
        let mut scope = begin(&cache, &unlink, now);
        if is_renamed {
            cache.recall(&[Leased::Entry(ROOT, b"x".into())], now);
        }
        let asked = cache.ask(now);
        assert!(
            cache
                .fill_node(asked, &node(other, 1), &LEASE, now)
                .is_some()
        );
        cache.end_change(&mut scope, None, now);
        assert_eq!(cache.node(other, now).is_none(), is_renamed);
    }
}

#[test]
fn after_a_time_without_a_lease_an_object_is_to_be_asked_for_again() {
    let now = Instant::now();
    let cache = filled(now);
    cache.note_known(X, true);
    let mut later = now;
    for (step, is_known) in [(TIME / 2, true), (TIME, false)] {
        later += step;
        let asked = cache.ask(later);
        let seen = cache.fill_node(asked, &node(X, 1), &LEASE, later);
        assert_eq!(
            cache.pass_on(X, seen, later, |good| !good.is_zero()),
            is_known
        );
    }
}

#[test]
fn a_directory_is_searched_only_for_whom_the_server_has_searched_it() {
    let now = Instant::now();
    let cache = LeaseCache::new(1);
    let (root, user) = ((0, 0), (1000, 100));
    let fill = |mode| {
        let asked = cache.ask(now);
        assert!(
            cache
                .fill_node(asked, &node(X, mode), &LEASE, now)
                .is_some()
        );
        asked
    };
    let asked = cache.ask(now);
    cache.note_search(asked, X, user);
    assert!(
        !cache.may_search(X, user, now),
        "its attributes are not cached"
    );
    let asked = fill(1);
    cache.note_search(asked, X, user);
    assert!(cache.may_search(X, user, now));
    assert!(!cache.may_search(X, root, now) && !cache.may_search(X, (1000, 0), now));
    assert!(!cache.may_search(X, user, now + TIME));
    // The mode may have changed since: only the server's next reply shows it, not one from before
    // the recall.
    cache.recall(&[Leased::Attributes(X)], now);
    assert!(!cache.may_search(X, user, now));
    let later = fill(2);
    cache.note_search(asked, X, user);
    assert!(!cache.may_search(X, user, now));
    cache.note_search(later, X, user);
    assert!(cache.may_search(X, user, now));
    // A look-up that was permitted under an earlier lease, which has expired since, proves nothing.
    let renewed = now + TIME;
    let fresh = cache.ask(renewed);
    assert!(
        cache
            .fill_node(fresh, &node(X, 3), &LEASE, renewed)
            .is_some()
    );
    cache.note_search(later, X, user);
    assert!(!cache.may_search(X, user, renewed));
    fill(2);
    cache.note_search(later, X, user);
    for uid in 2000..2000 + 2 * MAX_SEARCHERS as u32 {
        cache.note_search(later, X, (uid, 100));
    }
    assert!(cache.may_search(X, user, now) && !cache.may_search(X, (2031, 100), now));
}

#[test]
fn content_that_is_kept_is_of_leases_without_a_gap() {
    let now = Instant::now();
    let refill = |cache: &LeaseCache, now| {
        let asked = cache.ask(now);
        assert!(cache.fill_node(asked, &node(X, 1), &LEASE, now).is_some());
    };
    let set = Operation::RemoveXattr {
        object: X,
        name: b"user.x".to_vec(),
    };
    type End = (&'static str, bool, fn(&LeaseCache, &Operation) -> Duration);
    let ends: [End; 5] = [
        ("it is renewed", true, |_, _| TIME / 2),
        ("it has expired", false, |_, _| TIME),
        ("it is recalled", false, |cache, _| {
            cache.recall(&[Leased::Attributes(X)], Instant::now());
            Duration::ZERO
        }),
        ("a change of its own", false, |cache, set| {
            begin(cache, set, Instant::now());
            Duration::ZERO
        }),
        ("the program is another one", false, |cache, _| {
            cache.renew_holder_id(2);
            Duration::ZERO
        }),
    ];
    for (what, lasts, end) in ends {
        let cache = filled(now);
        let (era, has_content) = cache.content(X, now).expect("it is cached");
        assert!(!has_content);
        let later = now + end(&cache, &set);
        refill(&cache, later);
        // All earlier content is dropped only now.
        cache.note_content(X, era);
        let (_, has_content) = cache.content(X, later).expect("it is cached");
        assert_eq!(has_content, lasts, "{what}");
        refill(&cache, later);
        let kept = cache.content(X, later).map(|(_, has_content)| has_content);
        assert_eq!(kept, Some(lasts), "{what}");
        assert_eq!(cache.content(X, later + TIME), None);
    }
    // The clock has stood still while the lease expired, and another program has made a change.
    let cache = filled(now);
    let (era, _) = cache.content(X, now).expect("it is cached");
    cache.note_content(X, era);
    let mut changed = node(X, 1);
    changed.attributes.changed.seconds = 1;
    assert!(
        cache
            .fill_node(cache.ask(now), &changed, &LEASE, now)
            .is_some()
    );
    let (next, has_content) = cache.content(X, now).expect("it is cached");
    assert!(next != era && !has_content);
}
