//! Stores that fail, disks that are full.

use std::sync::Mutex;

use super::super::store::{Batch, FreeSpace, Persist, StoreErrorKind, View};
use super::*;

/// Behaviour of the next commits.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Plan {
    Work,
    /// Fail without applying the batch.
    FailBefore,
    /// Fail after applying the batch, as when only the sync failed.
    FailAfter,
    /// Have no room for anything, until the plan is another one.
    Full,
}

/// A store that refuses everything after a failure, until it is opened again.
struct Flaky {
    inner: Arc<Memory>,
    plan: Arc<Mutex<Plan>>,
    broken: Mutex<bool>,
}

fn error() -> StoreError {
    StoreError {
        store: "flaky",
        doing: "commit",
        kind: StoreErrorKind::Full,
        message: "no space".into(),
    }
}

impl Store for Flaky {
    fn name(&self) -> &'static str {
        "flaky"
    }

    fn snapshot(&self) -> Result<Box<dyn View>, StoreError> {
        self.inner.snapshot()
    }

    fn commit(&self, batch: &Batch, persist: Persist) -> Result<(), StoreError> {
        let mut broken = self.broken.lock().expect("not poisoned");
        assert_ne!(
            *self.plan.lock().expect("not poisoned"),
            Plan::Full,
            "a full disk is written to"
        );
        let plan = std::mem::replace(&mut *self.plan.lock().expect("not poisoned"), Plan::Work);
        if *broken || plan == Plan::FailBefore {
            *broken = true;
            return Err(error());
        }
        self.inner.commit(batch, persist)?;
        match plan {
            Plan::FailAfter => {
                *broken = true;
                Err(error())
            }
            _ => Ok(()),
        }
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn room(&self, _: u64) -> FreeSpace {
        match *self.plan.lock().expect("not poisoned") {
            Plan::Full => FreeSpace::Nothing("the disk is full".into()),
            _ => FreeSpace::Enough,
        }
    }
}

fn flaky() -> (Bench, Arc<Mutex<Plan>>) {
    let mut bench = Bench::new();
    let plan = Arc::new(Mutex::new(Plan::Work));
    let (inner, shared) = (bench.store.clone(), plan.clone());
    let open = move || -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(Flaky {
            inner: inner.clone(),
            plan: shared.clone(),
            broken: Mutex::new(false),
        }))
    };
    bench.service = Service::with_opener(Box::new(open), Settings::default()).expect("opens");
    bench.node(create("first"));
    (bench, plan)
}

fn batch(bench: &Bench) -> Vec<Request> {
    [create("/a"), mkdir("/d"), lookup("/a"), unlink("/nothing")]
        .into_iter()
        .enumerate()
        .map(|(slot, operation)| Request {
            slot: slot as u16,
            sequence: 1,
            ..bench.request(operation)
        })
        .collect()
}

#[test]
fn a_failed_commit_is_an_error_and_can_be_requested_again() {
    let (mut bench, plan) = flaky();
    let requests = batch(&bench);
    *plan.lock().expect("not poisoned") = Plan::FailBefore;
    let time = bench.time();
    for reply in bench.service.apply(&requests, time) {
        assert_eq!(
            reply.result.map_err(|failure| failure.errno),
            Err(Errno::ENOSPC)
        );
    }
    assert_eq!(bench.list("/"), ["first"]);
    let replies = bench.service.apply(&requests, time);
    assert!(replies[0].result.is_ok() && replies[1].result.is_ok());
    assert_eq!(bench.list("/"), ["a", "d", "first"]);
    assert_eq!(bench.check(false), [""; 0]);
}

#[test]
fn a_commit_that_failed_too_late_is_found_to_have_happened() {
    let (mut bench, plan) = flaky();
    let requests = batch(&bench);
    *plan.lock().expect("not poisoned") = Plan::FailAfter;
    let time = bench.time();
    let replies = bench.service.apply(&requests, time);
    assert!(
        replies[0].result.is_ok() && replies[1].result.is_ok(),
        "{replies:?}"
    );
    // Requests that changed nothing, or failed, are not remembered.
    assert!(replies[2].result.is_err() && replies[3].result.is_err());
    assert_eq!(bench.list("/"), ["a", "d", "first"]);
    assert_eq!(bench.service.apply(&requests[..2], time), replies[..2]);
    assert_eq!(bench.check(false), [""; 0]);
}

#[test]
fn a_failed_reclaim_is_requested_again() {
    let (mut bench, plan) = flaky();
    let object = bench.stat("first").object;
    bench.node(Operation::BeginUnstuff { object });
    bench.done(unlink("first"));
    let gone = bench.service.removals(None, 9).expect("lists");
    *plan.lock().expect("not poisoned") = Plan::FailBefore;
    assert!(bench.service.removed(&gone).is_err());
    assert_eq!(bench.service.removals(None, 9).expect("lists").len(), 1);
    bench.service.removed(&gone).expect("forgets");
    assert_eq!(bench.service.removals(None, 9).expect("lists").len(), 0);
}

#[test]
fn a_store_that_cannot_be_opened_again_returns_errors_until_it_can() {
    let mut bench = Bench::new();
    let works = Arc::new(Mutex::new(true));
    let (inner, switch) = (bench.store.clone(), works.clone());
    let plan = Arc::new(Mutex::new(Plan::Work));
    let shared = plan.clone();
    let open = move || -> Result<Arc<dyn Store>, StoreError> {
        match *switch.lock().expect("not poisoned") {
            true => Ok(Arc::new(Flaky {
                inner: inner.clone(),
                plan: shared.clone(),
                broken: Mutex::new(false),
            })),
            false => Err(error()),
        }
    };
    bench.service = Service::with_opener(Box::new(open), Settings::default()).expect("opens");
    let reader = bench.service.reader();
    bench.node(create("first"));
    *works.lock().expect("not poisoned") = false;
    *plan.lock().expect("not poisoned") = Plan::FailBefore;
    assert_eq!(bench.errno(create("f")), Errno::ENOSPC);
    assert_eq!(bench.errno(create("f")), Errno::ENOSPC);
    let reply = reader
        .answer(&bench.request(lookup("/")))
        .expect("a read-only request");
    assert!(reply.result.is_err());
    *works.lock().expect("not poisoned") = true;
    bench.node(create("f"));
    let reply = reader
        .answer(&bench.request(lookup("/f")))
        .expect("a read-only request");
    assert!(reply.result.is_ok());
}

#[test]
fn a_full_disk_refuses_changes_that_need_space_and_accepts_those_that_free_it() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut bench = Bench::new();
    let open = |reserve_bytes| {
        let settings = Settings {
            reserve_bytes,
            ..Settings::default()
        };
        Service::open(directory.path(), settings).expect("opens")
    };
    bench.service = open(0);
    bench.node(create("f"));
    bench.service = {
        drop(std::mem::replace(&mut bench.service, Bench::new().service));
        open(u64::MAX)
    };
    let failure = bench.run(create("g")).expect_err("there is no space");
    assert_eq!(failure.errno, Errno::ENOSPC);
    assert!(failure.message.contains("reserve"), "{}", failure.message);
    assert!(bench.run(lookup("f")).is_ok());
    bench.done(unlink("f"));
}

/// A commit that fails would have the store opened again, and all clients' syncs fail.
#[test]
fn a_disk_without_room_is_not_written_to_because_of_open_files() {
    let (mut bench, plan) = flaky();
    let file = bench.opened(1, 1, lookup("/first")).expect("opens");
    bench.done(unlink("/first"));
    bench.service.opens().close(1, &[1]);
    *plan.lock().expect("not poisoned") = Plan::Full;
    let errno = |failure: Failure| failure.errno;
    let marked = bench.service.mark_programs(true);
    assert_eq!(marked.map_err(errno), Err(Errno::ENOSPC));
    let time = bench.time();
    let removed = bench.service.remove_orphans(&[file.object], time);
    assert_eq!(removed.map_err(errno), Err(Errno::ENOSPC));
    *plan.lock().expect("not poisoned") = Plan::Work;
    assert_eq!(bench.service.remove_orphans(&[file.object], time), Ok(1));
    bench.service.mark_programs(true).expect("marks");
}
