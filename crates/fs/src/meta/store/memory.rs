//! The reference store: a sorted map behind a lock. Nothing survives the process.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Batch, Pairs, Persist, Store, StoreError, View};

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
        let map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Box::new(MemoryView(map.clone())))
    }

    fn commit(&self, batch: &Batch, _: Persist) -> Result<(), StoreError> {
        let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
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
        if start >= end {
            return Box::new(std::iter::empty());
        }
        let range = self.0.range::<[u8], _>((
            std::ops::Bound::Included(start),
            std::ops::Bound::Excluded(end),
        ));
        Box::new(range.map(|(key, value)| Ok((key.clone(), value.clone()))))
    }
}
