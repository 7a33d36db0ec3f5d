//! A disk that fails to sync, and reports it once: compared with a model that loses what was not synced.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use super::super::store::{Batch, Pairs, Persist, StoreErrorKind, View};
use super::*;
use crate::config::Durability;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A disk with a journal, behaving as kernels do: a failed sync is reported once. The pages that it was to write are
/// read from memory as before, are never written again, and hide everything behind them once the memory is lost.
#[derive(Default)]
struct Disk {
    tables: Map,
    journal: Vec<(Batch, Stage)>,
    is_suspect: bool,
    syncs: u64,
    /// The syncs that fail, and how.
    fails: Option<(std::ops::Range<u64>, StoreErrorKind)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Written,
    Dropped,
    Synced,
}

impl Disk {
    fn sync(&mut self) -> Result<(), StoreError> {
        self.syncs += 1;
        match &self.fails {
            Some((when, kind)) if when.contains(&self.syncs) => Err(StoreError {
                store: "disk",
                doing: "sync",
                kind: *kind,
                message: "injected".into(),
            }),
            _ => Ok(()),
        }
    }

    fn sync_journal(&mut self) -> Result<(), StoreError> {
        let outcome = self.sync();
        let stage = match outcome {
            Ok(()) => Stage::Synced,
            Err(_) => Stage::Dropped,
        };
        for (_, at) in &mut self.journal {
            if *at == Stage::Written {
                *at = stage;
            }
        }
        self.is_suspect |= outcome.is_err();
        outcome
    }

    /// The content that is read.
    fn seen(&self) -> Map {
        let mut map = self.tables.clone();
        for (batch, _) in &self.journal {
            apply(&mut map, batch);
        }
        map
    }

    /// The content that is left when memory is lost.
    fn lose_power(&self) -> Map {
        let mut map = self.tables.clone();
        let synced = |(_, stage): &&(Batch, Stage)| *stage == Stage::Synced;
        for (batch, _) in self.journal.iter().take_while(synced) {
            apply(&mut map, batch);
        }
        map
    }
}

fn apply(map: &mut Map, batch: &Batch) {
    for (key, value) in batch {
        match value {
            Some(value) => map.insert(key.clone(), value.clone()),
            None => map.remove(key),
        };
    }
}

/// A store on such a disk. It accepts changes also after a failed sync: the service must not pass it any.
struct OnDisk {
    disk: Arc<Mutex<Disk>>,
    written_out: Mutex<bool>,
}

impl OnDisk {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().expect("not poisoned")
    }
}

impl Store for OnDisk {
    fn name(&self) -> &'static str {
        "disk"
    }

    fn snapshot(&self) -> Result<Box<dyn View>, StoreError> {
        Ok(Box::new(Seen(self.disk().seen())))
    }

    fn commit(&self, batch: &Batch, persist: Persist) -> Result<(), StoreError> {
        let mut disk = self.disk();
        disk.journal.push((batch.clone(), Stage::Written));
        match persist {
            Persist::Process => Ok(()),
            Persist::Power => disk.sync_journal(),
        }
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.disk().sync_journal()
    }

    fn is_suspect(&self) -> bool {
        self.disk().is_suspect
    }

    fn probe(&self) -> Result<(), StoreError> {
        self.disk().sync()
    }

    fn write_out(&self) -> Result<(), StoreError> {
        let mut disk = self.disk();
        disk.sync()?;
        disk.tables = disk.seen();
        *self.written_out.lock().expect("not poisoned") = true;
        Ok(())
    }
}

impl Drop for OnDisk {
    fn drop(&mut self) {
        // The next opening finds that the journal is not needed.
        if *self.written_out.lock().expect("not poisoned") {
            let mut disk = self.disk();
            disk.journal.clear();
            disk.is_suspect = false;
        }
    }
}

struct Seen(Map);

impl View for Seen {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.get(key).cloned())
    }

    fn range<'a>(&'a self, start: &[u8], end: &[u8]) -> Pairs<'a> {
        let range = self.0.range(start.to_vec()..end.to_vec());
        Box::new(range.map(|(key, value)| Ok((key.clone(), value.clone()))))
    }
}

fn open(disk: &Arc<Mutex<Disk>>, durability: Durability) -> Result<Service, Failure> {
    let disk = Arc::clone(disk);
    let open = move || -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(OnDisk {
            disk: Arc::clone(&disk),
            written_out: Mutex::new(false),
        }))
    };
    let settings = Settings {
        durability,
        ..Settings::default()
    };
    Service::with_opener(Box::new(open), settings)
}

/// Names that certainly exist, and names that may exist.
#[derive(Default)]
struct Known {
    there: std::collections::BTreeSet<String>,
    open: std::collections::BTreeSet<String>,
}

/// Creates and removes files, in batches, and repeats failed operations if `repeats` is set.
fn work(bench: &mut Bench, durability: Durability, repeats: bool) -> Known {
    let mut known = Known::default();
    let mut sequence = 0;
    for round in 0..8 {
        let mut names = vec![(format!("a{round}"), true), (format!("b{round}"), true)];
        if round > 1 {
            names.push((format!("a{}", round - 2), false));
        }
        let mut requests = Vec::new();
        for (slot, (name, exists)) in names.iter().enumerate() {
            sequence += 1;
            let operation = match exists {
                true => create(name),
                false => unlink(name),
            };
            requests.push(Request {
                slot: slot as u16,
                sequence,
                ..bench.request(operation)
            });
        }
        if durability == Durability::Relaxed {
            requests.push(bench.request(Operation::Commit));
        }
        let now = bench.time();
        let mut replies = bench.service.apply(&requests, now);
        if repeats {
            replies = bench.service.apply(&requests, now);
        }
        let committed = durability == Durability::Synced
            || replies.last().is_some_and(|reply| reply.result.is_ok());
        for ((name, exists), reply) in names.into_iter().zip(replies) {
            let is_known = reply.result.is_ok() && committed;
            known.open.remove(&name);
            match (is_known, exists) {
                (true, true) => drop(known.there.insert(name)),
                (true, false) => drop(known.there.remove(&name)),
                (false, _) => {
                    known.there.remove(&name);
                    known.open.insert(name);
                }
            }
        }
    }
    known
}

fn check(bench: &mut Bench, known: &Known, what: &str) {
    let found: std::collections::BTreeSet<String> = bench.list("/").into_iter().collect();
    for name in &known.there {
        assert!(found.contains(name), "{what}: {name} is lost: {found:?}");
    }
    for name in &found {
        let is_allowed = known.there.contains(name) || known.open.contains(name);
        assert!(is_allowed, "{what}: {name} is back");
    }
    assert_eq!(bench.check(false), [""; 0], "{what}");
}

/// One sync after the other fails, once or several times: nothing that was acknowledged is lost with the
/// power.
#[test]
fn nothing_acknowledged_is_lost_whichever_sync_fails() {
    for durability in [Durability::Synced, Durability::Relaxed] {
        for kind in [StoreErrorKind::Io, StoreErrorKind::Full] {
            for (first, count) in (2..12).flat_map(|first| [(first, 1), (first, 2), (first, 5)]) {
                for repeats in [false, true] {
                    let what =
                        format!("{durability:?}, {kind:?}, syncs {first} and {count}, {repeats}");
                    let disk = Arc::new(Mutex::new(Disk::default()));
                    let mut bench = Bench::new();
                    bench.service = open(&disk, durability).expect("opens");
                    disk.lock().expect("not poisoned").fails = Some((first..first + count, kind));
                    let known = work(&mut bench, durability, repeats);
                    disk.lock().expect("not poisoned").fails = None;
                    let tables = disk.lock().expect("not poisoned").lose_power();
                    check(&mut bench, &known, &what);
                    if repeats && count == 1 && durability == Durability::Synced {
                        assert!(known.open.is_empty(), "{what}: {:?}", known.open);
                    }
                    let left = Arc::new(Mutex::new(Disk {
                        tables,
                        ..Disk::default()
                    }));
                    bench.service = open(&left, durability).expect("opens");
                    check(&mut bench, &known, &format!("{what}, after loss of power"));
                }
            }
        }
    }
}

/// While the disk accepts no writes, changes are refused with the reason and reads succeed; then changes succeed again.
#[test]
fn a_disk_that_keeps_failing_is_read_and_not_written() {
    let disk = Arc::new(Mutex::new(Disk::default()));
    let mut bench = Bench::new();
    bench.service = open(&disk, Durability::Synced).expect("opens");
    bench.node(create("before"));
    disk.lock().expect("not poisoned").fails = Some((0..u64::MAX, StoreErrorKind::Io));
    for _ in 0..3 {
        let failure = bench.run(create("f")).expect_err("is refused");
        assert_eq!(failure.errno, Errno::EIO);
        let reader = bench.service.reader();
        let request = bench.request(lookup("/before"));
        let reply = reader.answer(&request).expect("a read-only request");
        assert!(reply.result.is_ok(), "{reply:?}");
    }
    let refused = bench.run(create("f")).expect_err("is refused").message;
    assert!(refused.contains("changes are refused"), "{refused}");
    assert!(bench.service.removed(&[]).is_err());
    disk.lock().expect("not poisoned").fails = None;
    bench.node(create("g"));
    assert!(bench.list("/").contains(&"before".to_owned()));
    assert!(!disk.lock().expect("not poisoned").is_suspect);
}
