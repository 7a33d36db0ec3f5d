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
fn synced_changes_wait_for_the_device_but_sizes_wait_for_fsync() {
    use Persist::{Power, Process};
    let expected = [Power, Power, Power, Power, Process, Power, Power];
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
