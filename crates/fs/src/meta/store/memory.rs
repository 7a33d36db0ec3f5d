//! The reference store: a sorted map behind a lock. Nothing survives the process.

use std::sync::{Arc, Mutex};

use super::{Batch, Pairs, Persist, Store, StoreError, View, range_of};
use crate::locks::lock;

type Map = std::collections::BTreeMap<Vec<u8>, Vec<u8>>;

/// A store in memory, for tests.
#[derive(Debug, Default)]
pub struct Memory {
    map: Mutex<Arc<Map>>,
}

impl Memory {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Store for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn snapshot(&self) -> Result<Box<dyn View>, StoreError> {
        let map = lock(&self.map);
        Ok(Box::new(MemoryView(map.clone())))
    }

    fn commit(&self, batch: &Batch, _: Persist) -> Result<(), StoreError> {
        let mut map = lock(&self.map);
        let map = Arc::make_mut(&mut map);
        for (key, value) in batch {
            match value {
                Some(value) => map.insert(key.clone(), value.clone()),
                None => map.remove(key),
            };
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

struct MemoryView(Arc<Map>);

impl View for MemoryView {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.get(key).cloned())
    }

    fn range<'a>(&'a self, start: &[u8], end: &[u8]) -> Pairs<'a> {
        Box::new(range_of(&self.0, start, end).map(|(key, value)| Ok((key.clone(), value.clone()))))
    }
}
