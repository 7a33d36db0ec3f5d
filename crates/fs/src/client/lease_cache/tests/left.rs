//! The state after changes of the program's own is cached, under the leases that come with the
//! replies.

use super::*;

const Y: ObjectId = ObjectId(9);

fn make(name: &[u8]) -> Operation {
    Operation::MakeDirectory {
        place: Place::from((ROOT, name)),
        mode: 0,
        distribution: None,
    }
}

/// The lease with a change that has left the directory with this many links.
fn lease(links: u32) -> GrantedLease {
    let Node { attributes, .. } = node(ROOT, 7);
    GrantedLease {
        directory: Some(Attributes {
            links,
            ..attributes
        }),
        ..LEASE
    }
}

/// A cache that contains the directory, too.
fn with_directory(now: Instant) -> LeaseCache {
    let cache = filled(now);
    let asked = cache.ask(now);
    let seen = cache.fill_node(asked, &node(ROOT, 7), &LEASE, now);
    assert!(seen.is_some());
    cache.note_search(asked, ROOT, (5, 6));
    cache
}

fn end(cache: &LeaseCache, scope: &mut ChangeScope, node: Option<&Node>, now: Instant) {
    let lease = &lease(3);
    cache.end_change(scope, Some(StateAfter { node, lease }), now);
}

fn links(cache: &LeaseCache, now: Instant) -> Option<u32> {
    let (node, _) = cache.node(ROOT, now)?;
    Some(node.attributes.links)
}

#[test]
fn what_was_made_is_cached_with_its_directory() {
    let now = Instant::now();
    let cache = with_directory(now);
    let mut scope = begin(&cache, &make(b"new"), now);
    assert_eq!(links(&cache, now), None);
    end(&cache, &mut scope, Some(&node(Y, 5)), now);
    assert_eq!(mode(cache.find(ROOT, b"new", now)), Some(5));
    assert_eq!(links(&cache, now), Some(3));
    assert!(cache.may_search(ROOT, (5, 6), now));
    let state = lock(&cache.state);
    let units = state.nodes.values().map(|cached| cached.units);
    assert_eq!(state.units, units.sum::<usize>());
}

#[test]
fn without_a_lease_nothing_is_left() {
    let now = Instant::now();
    let cache = with_directory(now);
    let mut scope = begin(&cache, &make(b"new"), now);
    cache.end_change(&mut scope, None, now);
    assert_eq!(cache.find(ROOT, b"new", now), None);
    assert_eq!(links(&cache, now), None);
    // Of the directory, the reply contains only the attributes.
    let cache = filled(now);
    let mut scope = begin(&cache, &make(b"new"), now);
    end(&cache, &mut scope, Some(&node(Y, 5)), now);
    assert_eq!(links(&cache, now), None);
    assert_eq!(mode(cache.find(ROOT, b"new", now)), Some(5));
    // Others may have changed the rest since the lease expired that came with it.
    let cache = with_directory(now);
    let late = now + TIME * 15 / 16;
    let mut scope = begin(&cache, &make(b"new"), late - Duration::from_millis(1));
    end(&cache, &mut scope, Some(&node(Y, 5)), late);
    assert_eq!(links(&cache, late), None);
    assert_eq!(mode(cache.find(ROOT, b"new", late)), Some(5));
}

#[test]
fn what_others_change_meanwhile_is_not_cached() {
    let now = Instant::now();
    let cases = [
        (Leased::Entry(ROOT, b"new".into()), (None, None)),
        (Leased::Attributes(ROOT), (Some(5), None)),
        (Leased::Attributes(Y), (None, Some(3))),
    ];
    for (recalled, expected) in cases {
        let cache = with_directory(now);
        let mut scope = begin(&cache, &make(b"new"), now);
        cache.recall(std::slice::from_ref(&recalled), now);
        end(&cache, &mut scope, Some(&node(Y, 5)), now);
        let found = (mode(cache.find(ROOT, b"new", now)), links(&cache, now));
        assert_eq!(found, expected, "{recalled:?}");
    }
    // Nor what another thread of the program changes, whichever of the two ends first.
    for first in [0, 1] {
        let cache = with_directory(now);
        let mut changes = [
            begin(&cache, &make(b"new"), now),
            begin(&cache, &make(b"new"), now),
        ];
        for index in [first, 1 - first] {
            end(&cache, &mut changes[index], Some(&node(Y, 5)), now);
        }
        assert_eq!(cache.find(ROOT, b"new", now), None);
        assert_eq!(links(&cache, now), None);
    }
}

#[test]
fn names_that_are_exchanged_or_renamed_are_cached() {
    let now = Instant::now();
    let place = |name: &[u8]| Place::from((ROOT, name));
    let with_two = || {
        let cache = with_directory(now);
        let asked = cache.ask(now);
        assert!(cache.fill_node(asked, &node(Y, 2), &LEASE, now).is_some());
        cache.fill_name(asked, (ROOT, b"y"), Some(Y), &LEASE);
        cache
    };
    let target = |cache: &LeaseCache, name: &[u8]| {
        let state = lock(&cache.state);
        state.names.get(&ROOT)?.get(name)?.target
    };
    let cache = with_two();
    let exchange = Operation::Exchange {
        first: place(b"x"),
        second: place(b"y"),
    };
    let mut scope = begin(&cache, &exchange, now);
    end(&cache, &mut scope, None, now);
    assert_eq!(
        (target(&cache, b"x"), target(&cache, b"y")),
        (Some(Y), Some(X))
    );
    let rename = Operation::Rename {
        from: place(b"x"),
        to: place(b"y"),
        no_replace: false,
    };
    let cache = with_two();
    let mut scope = begin(&cache, &rename, now);
    end(&cache, &mut scope, None, now);
    assert_eq!(
        (target(&cache, b"x"), target(&cache, b"y")),
        (None, Some(X))
    );
    assert_eq!(links(&cache, now), Some(3));
    // What the name refers to now is not known if its lease has expired before the change ends.
    let cache = with_two();
    let mut scope = begin(&cache, &rename, now);
    let late = now + TIME * 15 / 16;
    end(&cache, &mut scope, None, late);
    assert_eq!(target(&cache, b"y"), None);
    let unlink = Operation::Unlink {
        place: place(b"x"),
        expected: None,
    };
    let cache = with_two();
    let mut scope = begin(&cache, &unlink, now);
    end(&cache, &mut scope, None, now);
    assert_eq!(cache.find(ROOT, b"x", now), None);
    assert_eq!(links(&cache, now), Some(3));
}

/// A program that has made a directory knows all names in it, for as long as nobody else changes it.
#[test]
fn all_names_in_a_new_directory_are_known() {
    let now = Instant::now();
    let place = |name: &[u8]| Place::from((Y, name));
    let made = || {
        let cache = with_directory(now);
        let mut scope = begin(&cache, &make(b"new"), now);
        end(&cache, &mut scope, Some(&node(Y, 5)), now);
        cache
    };
    let make_inside = |cache: &LeaseCache, name: &[u8], object: ObjectId| {
        let operation = Operation::SymbolicLink {
            place: place(name),
            target: b"t".to_vec(),
        };
        let mut scope = begin(cache, &operation, now);
        assert_eq!(cache.find(Y, b"missing", now), None, "it is changing");
        let found = node(object, 4);
        end(cache, &mut scope, Some(&found), now);
    };
    let cache = made();
    let is_known = |cache: &LeaseCache| cache.find(Y, b"missing", now) == Some(Named::Nothing);
    assert!(is_known(&cache));
    assert_eq!(cache.find(ROOT, b"missing", now), None);
    let end_of_time = now + TIME * 15 / 16;
    assert_eq!(cache.find(Y, b"missing", end_of_time), None);
    make_inside(&cache, b"one", ObjectId(20));
    make_inside(&cache, b"two", ObjectId(21));
    assert!(is_known(&cache));
    assert_eq!(mode(cache.find(Y, b"one", now)), Some(4));
    let rename = Operation::Rename {
        from: place(b"one"),
        to: place(b"three"),
        no_replace: false,
    };
    let mut scope = begin(&cache, &rename, now);
    end(&cache, &mut scope, None, now);
    assert_eq!(cache.find(Y, b"one", now), Some(Named::Nothing));
    let unlink = Operation::Unlink {
        place: place(b"two"),
        expected: None,
    };
    let mut scope = begin(&cache, &unlink, now);
    end(&cache, &mut scope, None, now);
    assert_eq!(cache.find(Y, b"two", now), Some(Named::Nothing));
    assert!(cache.find(Y, b"three", now) != Some(Named::Nothing));
    // Attributes that are read again under the same lease change nothing; those of a changed directory do.
    let refill = |changed: i64| {
        let asked = cache.ask(now);
        let mut again = node(Y, 5);
        again.attributes.changed.seconds = changed;
        assert!(cache.fill_node(asked, &again, &LEASE, now).is_some());
    };
    refill(node(ROOT, 7).attributes.changed.seconds);
    assert!(is_known(&cache));
    refill(1);
    assert!(!is_known(&cache));
    // Changes by others, and changes that are not known completely, end it.
    for on in [Leased::Attributes(Y), Leased::Entry(Y, b"other".into())] {
        let cache = made();
        cache.recall(&[on], now);
        assert!(!is_known(&cache));
    }
    let cache = made();
    let mut scope = begin(&cache, &rename, now);
    end(&cache, &mut scope, None, now);
    assert!(!is_known(&cache), "what was renamed is not known");
    let cache = made();
    let mut scope = begin(&cache, &unlink, now);
    cache.end_change(&mut scope, None, now);
    assert!(!is_known(&cache), "whether it is gone is not known");
    // That a name is missing follows from the directory's attributes: if these change, it may have been made, and be another name of any object.
    let cache = made();
    make_inside(&cache, b"one", ObjectId(20));
    let mut scope = begin(&cache, &rename, now);
    cache.recall(&[Leased::Attributes(Y)], now);
    let asked = cache.ask(now);
    assert!(cache.fill_node(asked, &node(X, 1), &LEASE, now).is_some());
    end(&cache, &mut scope, None, now);
    assert!(cache.node(X, now).is_none());
    // Names that are dropped to make room for others, also for the one that is being made.
    let fill = |cache: &LeaseCache| {
        let asked = cache.ask(now);
        for number in 0..MAX_CACHED as u64 {
            let name = number.to_le_bytes();
            cache.fill_name(asked, (ObjectId(3), &name), None, &LEASE);
        }
    };
    let cache = made();
    make_inside(&cache, b"one", ObjectId(20));
    fill(&cache);
    assert!(!is_known(&cache));
    let cache = LeaseCache::new(1);
    fill(&cache);
    let mut scope = begin(&cache, &make(b"new"), now);
    end(&cache, &mut scope, Some(&node(Y, 5)), now);
    assert!(is_known(&cache), "it is made after that");
    let cache = made();
    make_inside(&cache, b"one", ObjectId(20));
    let mut scope = begin(&cache, &rename, now);
    fill(&cache);
    end(&cache, &mut scope, None, now);
    assert!(!is_known(&cache));
}
