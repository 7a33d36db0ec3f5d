//! One conformance suite for every metadata store.

use std::path::Path;
use std::sync::Arc;

use causeway_fs::meta::store::fjall::Fjall;
use causeway_fs::meta::store::memory::Memory;
use causeway_fs::meta::store::{Batch, Persist, Store, StoreErrorKind, View, prefix_end};
use proptest::prelude::*;

#[path = "../examples/store_rates/redb.rs"]
mod redb;

type Open = fn(&Path) -> Arc<dyn Store>;

fn fjall(directory: &Path) -> Arc<dyn Store> {
    Arc::new(Fjall::open(directory).expect("opens"))
}

fn redb(directory: &Path) -> Arc<dyn Store> {
    Arc::new(redb::Redb::open(directory).expect("opens"))
}

fn memory(_: &Path) -> Arc<dyn Store> {
    Arc::new(Memory::new())
}

const DURABLE: [Open; 2] = [fjall, redb];
const ALL: [Open; 3] = [fjall, redb, memory];

fn each(stores: &[Open], test: impl Fn(Open, &Path)) {
    for open in stores {
        let directory = tempfile::tempdir().expect("a temporary directory");
        test(*open, directory.path());
    }
}

fn put(pairs: &[(&str, &str)]) -> Batch {
    pairs
        .iter()
        .map(|(key, value)| (key.as_bytes().to_vec(), Some(value.as_bytes().to_vec())))
        .collect()
}

fn all(view: &dyn View, start: &str, end: &str) -> Vec<String> {
    let pairs = view.range(start.as_bytes(), end.as_bytes());
    pairs
        .map(|pair| {
            let (key, value) = pair.expect("reads");
            format!(
                "{}={}",
                String::from_utf8_lossy(&key),
                String::from_utf8_lossy(&value)
            )
        })
        .collect()
}

#[test]
fn batches_change_what_later_views_see() {
    each(&ALL, |open, directory| {
        let store = open(directory);
        let before = store.snapshot().expect("reads");
        store
            .commit(
                &put(&[("b", "2"), ("a", "1"), ("c", "3")]),
                Persist::Process,
            )
            .expect("commits");
        let between = store.snapshot().expect("reads");
        let mut batch = put(&[("c", "4"), ("d", "")]);
        batch.insert(b"a".to_vec(), None);
        batch.insert(b"missing".to_vec(), None);
        store.commit(&batch, Persist::Power).expect("commits");
        let after = store.snapshot().expect("reads");
        let name = store.name();
        assert_eq!(all(&*before, "", "z"), [""; 0], "{name}");
        assert_eq!(all(&*between, "", "z"), ["a=1", "b=2", "c=3"], "{name}");
        assert_eq!(all(&*after, "", "z"), ["b=2", "c=4", "d="], "{name}");
        assert_eq!(between.get(b"a").expect("reads"), Some(b"1".to_vec()));
        assert_eq!(after.get(b"a").expect("reads"), None);
        assert_eq!(after.get(b"d").expect("reads"), Some(Vec::new()));
    });
}

#[test]
fn ranges_are_ordered_and_half_open() {
    each(&ALL, |open, directory| {
        let store = open(directory);
        let keys: [&[u8]; 6] = [b"a", b"a\0", b"a\xff", b"a\xff\xff", b"b", b"\xff"];
        let batch = keys
            .iter()
            .rev()
            .map(|key| (key.to_vec(), Some(key.to_vec())))
            .collect();
        store.commit(&batch, Persist::Process).expect("commits");
        let view = store.snapshot().expect("reads");
        let range = |start: &[u8], end: &[u8]| -> Vec<Vec<u8>> {
            view.range(start, end)
                .map(|pair| pair.expect("reads").0)
                .collect()
        };
        assert_eq!(
            range(b"a", &prefix_end(b"a")),
            keys[..4],
            "{}",
            store.name()
        );
        assert_eq!(range(b"a\0", b"b"), keys[1..4]);
        assert_eq!(range(b"b", b"b"), [b""; 0]);
        assert_eq!(range(b"b", b"a"), [b""; 0]);
    });
}

#[test]
fn commits_survive_closing() {
    each(&DURABLE, |open, directory| {
        for round in 0..4u8 {
            let store = open(directory);
            let view = store.snapshot().expect("reads");
            for earlier in 0..round {
                assert_eq!(
                    view.get(&[earlier]).expect("reads"),
                    Some(vec![earlier; 100])
                );
            }
            let persist = if round % 2 == 0 {
                Persist::Process
            } else {
                Persist::Power
            };
            let batch = Batch::from([(vec![round], Some(vec![round; 100]))]);
            store.commit(&batch, persist).expect("commits");
            store.sync().expect("syncs");
        }
    });
}

#[test]
fn views_are_used_in_other_threads_while_batches_come() {
    each(&ALL, |open, directory| {
        let store = open(directory);
        let pairs = |round: u32| -> Batch {
            (0..20u8)
                .map(|key| (vec![key], Some(round.to_le_bytes().to_vec())))
                .collect()
        };
        store.commit(&pairs(0), Persist::Process).expect("commits");
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let view = store.snapshot().expect("reads");
                        let values: Vec<_> = view
                            .range(&[0], &[20])
                            .map(|pair| pair.expect("reads").1)
                            .collect();
                        assert_eq!(values.len(), 20);
                        assert!(
                            values.iter().all(|value| *value == values[0]),
                            "a torn batch"
                        );
                    }
                });
            }
            for round in 1..200 {
                store
                    .commit(&pairs(round), Persist::Process)
                    .expect("commits");
            }
        });
    });
}

#[test]
fn a_store_is_opened_once() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let _store = fjall(directory.path());
    let error = Fjall::open(directory.path()).err().expect("is refused");
    assert_eq!(error.kind, StoreErrorKind::Locked);
    assert!(error.to_string().contains("already running"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Random batches and ranges against the store in memory.
    #[test]
    fn agrees_with_the_reference(
        batches in prop::collection::vec(
            prop::collection::btree_map(
                prop::collection::vec(0..4u8, 0..4).prop_map(|mut key| { key.insert(0, b'k'); key }),
                prop::option::of(prop::collection::vec(any::<u8>(), 0..50)),
                0..12,
            ),
            1..30,
        ),
        bounds in prop::collection::vec(
            (prop::collection::vec(0..4u8, 0..4), prop::collection::vec(0..4u8, 0..4)), 1..6),
    ) {
        for open in DURABLE {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let reference = Memory::new();
            let mut store = open(directory.path());
            for (number, batch) in batches.iter().enumerate() {
                store.commit(batch, Persist::Process).expect("commits");
                reference.commit(batch, Persist::Process).expect("commits");
                if number % 4 == 3 {
                    store.reclaim().expect("space is freed");
                }
                if number % 8 == 7 {
                    drop(store);
                    store = open(directory.path());
                }
                let (view, expected) =
                    (store.snapshot().expect("reads"), reference.snapshot().expect("reads"));
                for (start, end) in &bounds {
                    let key = |bytes: &[u8]| [b"k", bytes].concat();
                    let read = |view: &dyn View| -> Vec<_> {
                        view.range(&key(start), &key(end)).map(|pair| pair.expect("reads")).collect()
                    };
                    prop_assert_eq!(read(&*view), read(&*expected));
                    prop_assert_eq!(view.get(&key(start)), expected.get(&key(start)));
                }
            }
        }
    }
}

/// Merging tables forgets removals, and with the last of them the highest numbers of changes. Later commits
/// must not be taken for changes that are in tables already.
#[test]
fn nothing_is_lost_behind_removals_that_were_forgotten() {
    each(&DURABLE, |open, directory| {
        for round in 0..5u8 {
            let store = open(directory);
            let put = Batch::from([(vec![b'k', round], Some(vec![round; 10]))]);
            store.commit(&put, Persist::Power).expect("commits");
            for number in 0..50u8 {
                let key = vec![b'r', number];
                let put = Batch::from([(key.clone(), Some(vec![0; 10]))]);
                store.commit(&put, Persist::Process).expect("commits");
                let remove = Batch::from([(key, None)]);
                store.commit(&remove, Persist::Process).expect("commits");
            }
            store.sync().expect("syncs");
            store.reclaim().expect("space is freed");
            drop(store);
            let store = open(directory);
            let put = Batch::from([(vec![b'l', round], Some(vec![round; 10]))]);
            store.commit(&put, Persist::Power).expect("commits");
            drop(store);
            let store = open(directory);
            let view = store.snapshot().expect("reads");
            let kept = view.range(b"a", b"z").count();
            assert_eq!(kept, 2 * (usize::from(round) + 1), "{}", store.name());
        }
    });
}

#[test]
fn views_keep_their_state_while_space_is_given_back() {
    each(&ALL, |open, directory| {
        let store = open(directory);
        let put = |value: u8| -> Batch {
            (0..200u8)
                .map(|key| (vec![b'k', key], Some(vec![value; 100])))
                .collect()
        };
        store.commit(&put(1), Persist::Process).expect("commits");
        store.reclaim().expect("space is freed");
        let view = store.snapshot().expect("reads");
        let mut changes = put(2);
        changes.insert(vec![b'k', 0], None);
        store.commit(&changes, Persist::Process).expect("commits");
        std::thread::scope(|scope| {
            // This waits for the view, whose state it would have to keep otherwise.
            let freeing = scope.spawn(|| store.reclaim().expect("space is freed"));
            for _ in 0..20 {
                let values: Vec<_> = view
                    .range(b"k", b"l")
                    .map(|pair| pair.expect("reads").1)
                    .collect();
                assert!(values == vec![vec![1; 100]; 200], "{}", store.name());
            }
            drop(view);
            freeing.join().expect("ends");
        });
        let view = store.snapshot().expect("reads");
        assert_eq!(view.get(&[b'k', 0]).expect("reads"), None);
        assert_eq!(view.range(b"k", b"l").count(), 199);
    });
}

/// More than fits into memory tables and one journal, so that the engine writes tables and merges.
#[test]
fn many_batches_are_all_there() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let key = |number: u32| number.wrapping_mul(0x9e37_79b9).to_be_bytes().to_vec();
    const COUNT: u32 = 60_000;
    {
        let store = fjall(directory.path());
        for start in (0..COUNT).step_by(100) {
            let batch = (start..start + 100)
                .map(|number| (key(number), Some(vec![number as u8; 1000])))
                .collect();
            store.commit(&batch, Persist::Process).expect("commits");
        }
        for start in (0..COUNT).step_by(200) {
            let batch = (start..start + 100)
                .map(|number| (key(number), None))
                .collect();
            store.commit(&batch, Persist::Process).expect("commits");
        }
    }
    let store = fjall(directory.path());
    let view = store.snapshot().expect("reads");
    for number in 0..COUNT {
        let expected = (number % 200 >= 100).then(|| vec![number as u8; 1000]);
        assert_eq!(view.get(&key(number)).expect("reads"), expected, "{number}");
    }
}
