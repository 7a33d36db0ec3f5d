//! Names that are passed on, and what must be forgotten when their leases end.

use super::*;

const ALL: GrantedLease = GrantedLease {
    for_all_users: true,
    ..LEASE
};

fn entry<'a>(name: &'a [u8], target: Option<(ObjectId, Option<CacheStamp>)>) -> PassedEntry<'a> {
    PassedEntry {
        directory: ROOT,
        name,
        target,
        is_locked: true,
        is_made: false,
        is_private: false,
        is_known: false,
        keeps_list: false,
    }
}

/// A cache with a name that the server looks up for all users.
fn shared(now: Instant) -> (LeaseCache, Option<CacheStamp>) {
    let cache = LeaseCache::new(1);
    let asked = cache.ask(now);
    let seen = cache.fill_node(asked, &node(X, 1), &ALL, now);
    assert!(seen.is_some());
    cache.fill_name(asked, (ROOT, b"x"), Some(X), &ALL);
    cache.fill_name(asked, (ROOT, b"none"), None, &ALL);
    (cache, seen)
}

fn times(cache: &LeaseCache, entry: &PassedEntry<'_>, now: Instant) -> EntryTimes {
    let passed = cache.pass_on_entries(std::slice::from_ref(entry), now, |times| times[0]);
    passed.expect("no earlier name of the object is late")
}

const GOOD: Duration = Duration::from_micros(16_000_000 / 16 * 15 / 8 * 7);

#[test]
fn names_are_good_for_as_long_as_their_leases() {
    let now = Instant::now();
    let (cache, seen) = shared(now);
    let all = EntryTimes {
        name: GOOD,
        attributes: GOOD,
    };
    let x = entry(b"x", Some((X, seen)));
    assert_eq!(times(&cache, &x, now), all);
    let missing = EntryTimes {
        name: GOOD,
        attributes: Duration::ZERO,
    };
    assert_eq!(times(&cache, &entry(b"none", None), now), missing);
    let until = now + TIME * 15 / 16;
    let none = EntryTimes::default();
    assert_eq!(times(&cache, &entry(b"none", None), until), none);
    let expected = [
        Passed::Name {
            directory: ROOT,
            name: b"x".to_vec(),
            until,
        },
        Passed::Attributes {
            object: X,
            behind: Some(ROOT),
            until: Some(until),
        },
    ];
    let leases = [Leased::Entry(ROOT, b"x".into()), Leased::Attributes(X)];
    assert_eq!(cache.recall(&leases, now), expected);
    assert_eq!(times(&cache, &x, now), none);
    // What was not passed on need not be forgotten; what was passed on counts as such until it is
    // forgotten.
    assert_eq!(cache.recall(&leases, now), expected);
    cache.forgotten(&expected);
    assert_eq!(cache.recall(&leases[..1], now), []);
}

#[test]
fn names_that_others_would_go_by_wrongly_are_not_good() {
    let now = Instant::now();
    let of_name = |cache: &LeaseCache, entry: &PassedEntry<'_>| times(cache, entry, now).name;
    let (cache, seen) = shared(now);
    let x = entry(b"x", Some((X, seen)));
    // The name refers to something else by now.
    let other = entry(b"x", Some((ObjectId(8), None)));
    assert_eq!(of_name(&cache, &other), Duration::ZERO);
    assert_eq!(of_name(&cache, &entry(b"x", None)), Duration::ZERO);
    assert_eq!(of_name(&cache, &entry(b"other", None)), Duration::ZERO);
    assert_eq!(of_name(&cache, &x), GOOD);
    // The server may reply otherwise to other users.
    let cache = filled(now);
    let none = entry(b"none", None);
    assert_eq!(of_name(&cache, &none), Duration::ZERO);
    let is_private = PassedEntry {
        is_private: true,
        ..none
    };
    assert_eq!(of_name(&cache, &is_private), GOOD);
}

/// The kernel finds the entry of such a name no more once it was told to forget the name, but moves that of a directory to its next name.
#[test]
fn a_reply_that_is_processed_late_may_give_a_directory_a_time_under_its_next_name() {
    let now = Instant::now();
    let until = now + TIME * 15 / 16;
    let margin = GOOD / 7;
    for kind in [Kind::Directory, Kind::File] {
        let cache = LeaseCache::new(1);
        let asked = cache.ask(now);
        let mut object = node(X, 1);
        object.attributes.kind = kind;
        let seen = cache.fill_node(asked, &object, &ALL, now);
        cache.fill_name(asked, (ROOT, b"x"), Some(X), &ALL);
        let is_not_locked = |name| PassedEntry {
            is_locked: false,
            ..entry(name, Some((X, seen)))
        };
        let x = is_not_locked(b"x");
        let expected = EntryTimes {
            name: GOOD,
            // It could not be told to forget the attributes of an object that it does not know.
            attributes: Duration::ZERO,
        };
        assert_eq!(times(&cache, &x, now), expected);
        let recalled = cache.recall(&[Leased::Entry(ROOT, b"x".into())], now);
        let name = Passed::Name {
            directory: ROOT,
            name: b"x".to_vec(),
            until,
        };
        assert_eq!(recalled, [name]);
        cache.forgotten(&recalled);
        // Another program has renamed it.
        let y = is_not_locked(b"y");
        let pass_on = |now| cache.pass_on_entries(&[entry(b"x", None), y], now, <[_]>::to_vec);
        let none = vec![EntryTimes::default(); 2];
        let expected = match kind {
            Kind::Directory => Err(now + margin),
            _ => Ok(none.clone()),
        };
        assert_eq!(pass_on(now), expected);
        assert_eq!(pass_on(now + margin), Ok(none));
        // By a lease that is good for longer, the new name is recalled, too.
        let asked = cache.ask(now);
        cache.fill_name(asked, (ROOT, b"y"), Some(X), &ALL);
        let passed = pass_on(now).expect("there is a lease on the new name");
        assert_eq!(passed[1].name, GOOD);
    }
}

#[test]
fn attributes_that_are_not_settled_are_behind_a_directory() {
    let now = Instant::now();
    let recall = |cache: &LeaseCache| cache.recall(&[Leased::Attributes(X)], now);
    let behind = |passed: Vec<Passed>| match &passed[..] {
        [Passed::Attributes { behind, .. }] => *behind,
        other => panic!("{other:?}"),
    };
    let (cache, seen) = shared(now);
    times(&cache, &entry(b"x", Some((X, seen))), now);
    assert_eq!(behind(recall(&cache)), Some(ROOT));
    let (cache, seen) = shared(now);
    times(&cache, &entry(b"x", Some((X, seen))), now);
    cache.note_known(X, true);
    assert_eq!(behind(recall(&cache)), None);
    let (cache, seen) = shared(now);
    cache.note_known(X, true);
    times(&cache, &entry(b"x", Some((X, seen))), now);
    assert_eq!(behind(recall(&cache)), None);
}

#[test]
fn names_are_not_passed_on_while_others_change_the_same_directory() {
    let now = Instant::now();
    let (cache, _) = shared(now);
    let none = entry(b"none", None);
    let is_good = |now| !times(&cache, &none, now).name.is_zero();
    let refill = |now| {
        let asked = cache.ask(now);
        cache.fill_name(asked, (ROOT, b"none"), None, &ALL);
    };
    assert!(is_good(now));
    cache.recall(&[Leased::Entry(ROOT, b"other".into())], now);
    assert!(is_good(now), "others alone change it");
    let make = Operation::MakeDirectory {
        place: Place::from((ROOT, &b"new"[..])),
        mode: 0,
        distribution: None,
    };
    begin(&cache, &make, now);
    assert!(!is_good(now));
    let later = now + Duration::from_secs(60);
    refill(later);
    assert!(is_good(later));
    // Any change of a directory is one of its attributes.
    begin(&cache, &make, later);
    assert!(is_good(later));
    cache.recall(&[Leased::Attributes(ROOT)], later);
    assert!(!is_good(later));
}

#[test]
fn what_is_passed_on_too_late_is_taken_back() {
    let now = Instant::now();
    let (cache, seen) = shared(now);
    let x = entry(b"x", Some((X, seen)));
    times(&cache, &x, now);
    let expected = [
        Passed::Name {
            directory: ROOT,
            name: b"x".to_vec(),
            until: now,
        },
        Passed::Attributes {
            object: X,
            behind: Some(ROOT),
            until: Some(now),
        },
    ];
    assert_eq!(cache.take_back(&x, now), expected);
}

#[test]
fn a_name_that_is_renamed_takes_its_time_along() {
    let now = Instant::now();
    let places = |from: &[u8], to: &[u8]| {
        let place = |name: &[u8]| Place::from((ROOT, name));
        [(place(from), place(to))]
    };
    let (cache, seen) = shared(now);
    let renamed = |names: &[(Place, Place)], now| cache.pass_on_renamed(names, now, || ());
    // It was not passed on.
    assert_eq!(renamed(&places(b"x", b"y"), now), Ok(()));
    times(&cache, &entry(b"x", Some((X, seen))), now);
    let until = now + TIME * 15 / 16;
    assert_eq!(renamed(&places(b"x", b"y"), now), Err(until));
    assert_eq!(renamed(&places(b"x", b"y"), until), Ok(()));
    // The new name is under a lease that is good for as long.
    let asked = cache.ask(now);
    cache.fill_name(asked, (ROOT, b"y"), Some(X), &ALL);
    assert_eq!(renamed(&places(b"x", b"y"), now), Ok(()));
    let recalled = cache.recall(&[Leased::Entry(ROOT, b"y".into())], now);
    let expected = Passed::Name {
        directory: ROOT,
        name: b"y".to_vec(),
        until,
    };
    assert_eq!(recalled, [expected]);
}

#[test]
fn a_name_that_others_have_changed_again_does_not_take_a_time_along() {
    let now = Instant::now();
    let (cache, seen) = shared(now);
    times(&cache, &entry(b"x", Some((X, seen))), now);
    let place = |name: &[u8]| Place::from((ROOT, name));
    let names = [(place(b"x"), place(b"y"))];
    let until = now + TIME * 15 / 16;
    for target in [Some(ObjectId(8)), None] {
        let asked = cache.ask(now);
        cache.fill_name(asked, (ROOT, b"y"), target, &ALL);
        assert_eq!(cache.pass_on_renamed(&names, now, || ()), Err(until));
    }
}

/// The kernel keeps the former name's time for the new name, as long as it has not forgotten the
/// former one.
#[test]
fn a_name_that_is_being_recalled_takes_its_time_along() {
    let now = Instant::now();
    let (cache, seen) = shared(now);
    times(&cache, &entry(b"x", Some((X, seen))), now);
    let recalled = cache.recall(&[Leased::Entry(ROOT, b"x".into())], now);
    let place = |name: &[u8]| Place::from((ROOT, name));
    let names = [(place(b"x"), place(b"y"))];
    let until = now + TIME * 15 / 16;
    assert_eq!(cache.pass_on_renamed(&names, now, || ()), Err(until));
    cache.forgotten(&recalled);
    assert_eq!(cache.pass_on_renamed(&names, now, || ()), Ok(()));
}

/// The kernel has processed the last reply before it renames anything there.
#[test]
fn a_name_that_was_made_without_a_lease_has_no_time() {
    let now = Instant::now();
    let (cache, _) = shared(now);
    times(&cache, &entry(b"none", None), now);
    cache.recall(&[Leased::Entry(ROOT, b"none".into())], now);
    let place = |name: &[u8]| Place::from((ROOT, name));
    let names = [(place(b"none"), place(b"y"))];
    let until = now + TIME * 15 / 16;
    let looked_up_again = entry(b"none", Some((X, None)));
    let made = PassedEntry {
        is_made: true,
        ..looked_up_again
    };
    assert!(times(&cache, &looked_up_again, now).name.is_zero());
    assert_eq!(cache.pass_on_renamed(&names, now, || ()), Err(until));
    assert!(times(&cache, &made, now).name.is_zero());
    assert_eq!(cache.pass_on_renamed(&names, now, || ()), Ok(()));
}

/// With a server that grants no leases with renames, each rename would have to wait for the end of the
/// former name's time.
#[test]
fn names_are_passed_on_by_leases_of_servers_that_give_some_with_renames() {
    let now = Instant::now();
    let cache = LeaseCache::new(1);
    let asked = cache.ask(now);
    let earlier = GrantedLease {
        of_changes: false,
        ..LEASE
    };
    let is_private = PassedEntry {
        is_private: true,
        ..entry(b"none", None)
    };
    cache.fill_name(asked, (ROOT, b"none"), None, &earlier);
    assert_eq!(times(&cache, &is_private, now), EntryTimes::default());
    cache.fill_name(asked, (ROOT, b"none"), None, &LEASE);
    assert_eq!(times(&cache, &is_private, now).name, GOOD);
}

#[test]
fn names_that_are_passed_on_are_bounded() {
    let now = Instant::now();
    let cache = LeaseCache::new(1);
    let pass_on = |number: u64, now| {
        let name = number.to_le_bytes();
        let asked = cache.ask(now);
        cache.fill_name(asked, (ROOT, &name), None, &ALL);
        !times(&cache, &entry(&name, None), now).name.is_zero()
    };
    for number in 0..MAX_PASSED_NAMES as u64 {
        assert!(pass_on(number, now));
    }
    assert!(!pass_on(u64::MAX, now));
    assert!(pass_on(u64::MAX, now + TIME));
    assert_eq!(lock(&cache.state).passed_name_count, 1);
}

#[test]
fn another_holder_knows_until_when_names_are_good() {
    let now = Instant::now();
    let (cache, _) = shared(now);
    times(&cache, &entry(b"none", None), now);
    cache.renew_holder_id(2);
    let retired = cache.take_retired();
    assert_eq!(retired[0].unforgotten_until, Some(now + TIME * 15 / 16));
    cache.renew_holder_id(3);
    assert_eq!(cache.take_retired()[0].unforgotten_until, None);
}
