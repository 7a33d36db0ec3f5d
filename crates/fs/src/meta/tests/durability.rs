//! Which acknowledgements wait for stable storage.

use std::sync::Mutex;

use super::super::store::{Batch, Persist, View};
use super::*;
use crate::config::Durability;

/// A store that records the durability of each commit.
struct Recorder {
    inner: Arc<Memory>,
    seen: Arc<Mutex<Vec<Persist>>>,
}

impl Store for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }

    fn snapshot(&self) -> Result<Box<dyn View>, StoreError> {
        self.inner.snapshot()
    }

    fn commit(&self, batch: &Batch, persist: Persist) -> Result<(), StoreError> {
        self.seen.lock().expect("not poisoned").push(persist);
        self.inner.commit(batch, persist)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.seen.lock().expect("not poisoned").push(Persist::Power);
        Ok(())
    }
}

/// The durability that each operation in turn requested of the store.
fn persisted(durability: Durability, operations: Vec<Operation>) -> Vec<Vec<Persist>> {
    let mut bench = Bench::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (inner, shared) = (bench.store.clone(), seen.clone());
    let open = move || -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(Recorder {
            inner: inner.clone(),
            seen: shared.clone(),
        }))
    };
    let settings = Settings {
        durability,
        ..Settings::default()
    };
    bench.service = Service::with_opener(Box::new(open), settings).expect("opens");
    let object = bench.node(create("file")).object;
    operations
        .into_iter()
        .map(|mut operation| {
            match &mut operation {
                Operation::WriteStuffed { object: of, .. }
                | Operation::BeginUnstuff { object: of }
                | Operation::FinishUnstuff { object: of }
                | Operation::Append { object: of, .. }
                | Operation::SetAttributes { object: of, .. }
                | Operation::Extend { object: of, .. } => *of = object,
                _ => {}
            }
            seen.lock().expect("not poisoned").clear();
            bench.run(operation).expect("succeeds");
            seen.lock().expect("not poisoned").clone()
        })
        .collect()
}

fn operations() -> Vec<Operation> {
    let object = ObjectId::ROOT;
    let write = Operation::WriteStuffed {
        object,
        offset: 0,
        data: b"data".to_vec(),
    };
    let extend = Operation::Extend {
        object,
        end: 9,
        modified: Timestamp::default(),
        version: 0,
        reached: Vec::new(),
        from: 0,
    };
    vec![
        create("new"),
        write,
        Operation::BeginUnstuff { object },
        Operation::FinishUnstuff { object },
        extend,
        Operation::Commit,
        unlink("new"),
    ]
}

#[test]
fn synced_changes_wait_for_the_device_but_content_and_sizes_wait_for_fsync() {
    use Persist::{Power, Process};
    let expected = [Power, Process, Power, Power, Process, Power, Power];
    assert_eq!(
        persisted(Durability::Synced, operations()),
        expected.map(|persist| vec![persist])
    );
}

#[test]
fn relaxed_changes_wait_for_the_operating_system_unless_datafiles_depend_on_them() {
    use Persist::{Power, Process};
    let expected = [Process, Process, Power, Process, Process, Power, Process];
    assert_eq!(
        persisted(Durability::Relaxed, operations()),
        expected.map(|persist| vec![persist])
    );
}

/// Sets attributes of a file, which has mode 644 and the owner of the caller.
fn set(set: SetAttributes) -> Operation {
    Operation::SetAttributes {
        object: ObjectId::ROOT,
        set,
    }
}

fn set_mode(mode: u16) -> Operation {
    set(SetAttributes {
        mode: Some(mode),
        ..SetAttributes::default()
    })
}

#[test]
fn attributes_wait_for_the_device_only_if_they_take_access_away() {
    use Persist::{Power, Process};
    let append = Operation::Append {
        object: ObjectId::ROOT,
        data: b"more".to_vec(),
    };
    let times = set(SetAttributes {
        accessed: Some(Timestamp::default()),
        modified: Some(Timestamp::default()),
        ..SetAttributes::default()
    });
    let owner = |uid| {
        set(SetAttributes {
            uid: Some(uid),
            gid: Some(0),
            ..SetAttributes::default()
        })
    };
    let steps = [
        (append, Process),
        (times, Process),
        (set_mode(0o664), Process),
        (set_mode(0o640), Power),
        (owner(0), Process),
        (owner(1), Power),
        (set_mode(0o4755), Process),
        // It takes a privilege away.
        (owner(1), Power),
        (set_mode(0o4755), Process),
        (set_mode(0o4755), Power),
    ];
    let (operations, expected): (Vec<_>, Vec<_>) = steps.into_iter().unzip();
    let expected: Vec<_> = expected.into_iter().map(|persist| vec![persist]).collect();
    assert_eq!(persisted(Durability::Synced, operations), expected);
}
