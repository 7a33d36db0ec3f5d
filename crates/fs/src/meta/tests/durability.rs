//! Which acknowledgements wait for stable storage.

use std::sync::Mutex;

use super::super::store::{Batch, Persist, View};
use super::*;
use crate::config::Durability;

/// A store that writes down how far each commit had to get.
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

/// What each operation in turn asked of the store.
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
            if let Operation::WriteStuffed {
                object: written, ..
            } = &mut operation
            {
                *written = object;
            }
            seen.lock().expect("not poisoned").clear();
            bench.run(operation).expect("succeeds");
            seen.lock().expect("not poisoned").clone()
        })
        .collect()
}

fn operations() -> Vec<Operation> {
    let write = Operation::WriteStuffed {
        object: ObjectId::ROOT,
        offset: 0,
        data: b"data".to_vec(),
    };
    vec![create("new"), write, Operation::Commit, unlink("new")]
}

#[test]
fn synced_names_wait_for_the_device_and_content_waits_for_fsync() {
    use Persist::{Power, Process};
    assert_eq!(
        persisted(Durability::Synced, operations()),
        [vec![Power], vec![Process], vec![Power], vec![Power]]
    );
}

#[test]
fn relaxed_names_wait_for_the_operating_system_only() {
    use Persist::{Power, Process};
    assert_eq!(
        persisted(Durability::Relaxed, operations()),
        [vec![Process], vec![Process], vec![Power], vec![Process]]
    );
}
