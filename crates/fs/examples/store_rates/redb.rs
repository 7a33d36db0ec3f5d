//! The store in [redb](https://docs.rs/redb), a copy-on-write B-tree, for comparison.
//!
//! redb has no commit that survives the process but is not synced, so [`Persist::Process`] is a full
//! commit over a file whose `sync_data` does nothing: fast enough to compare, but redb then no longer
//! promises anything after power loss, which the metadata store must.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use causeway_fs::meta::store::{Batch, Pairs, Persist, Store, StoreError, StoreErrorKind, View};
use redb::backends::FileBackend;
use redb::{Database, ReadOnlyTable, ReadableDatabase, StorageBackend, TableDefinition};

const PAIRS: TableDefinition<'static, &'static [u8], &'static [u8]> = TableDefinition::new("pairs");

/// A store in one file of a directory.
pub(crate) struct Redb {
    database: Database,
    skip_sync: Arc<AtomicBool>,
}

impl Redb {
    /// Opens the store in `directory`, or makes one there.
    pub(crate) fn open(directory: &Path) -> Result<Self, StoreError> {
        std::fs::create_dir_all(directory).map_err(|error| wrap("open", error))?;
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(directory.join("metadata.redb"))
            .map_err(|error| wrap("open", error))?;
        let skip_sync = Arc::new(AtomicBool::new(false));
        let backend = MaybeSynced {
            file: FileBackend::new(file).map_err(|error| wrap("open", error))?,
            skip_sync: skip_sync.clone(),
        };
        let database = Database::builder()
            .set_cache_size(48 << 20)
            .create_with_backend(backend)
            .map_err(|error| wrap("open", error))?;
        let transaction = database
            .begin_write()
            .map_err(|error| wrap("open", error))?;
        transaction
            .open_table(PAIRS)
            .map_err(|error| wrap("open", error))?;
        transaction.commit().map_err(|error| wrap("open", error))?;
        Ok(Self {
            database,
            skip_sync,
        })
    }
}

impl Store for Redb {
    fn name(&self) -> &'static str {
        "redb"
    }

    fn snapshot(&self) -> Result<Box<dyn View>, StoreError> {
        let transaction = self
            .database
            .begin_read()
            .map_err(|error| wrap("read", error))?;
        let table = transaction
            .open_table(PAIRS)
            .map_err(|error| wrap("read", error))?;
        Ok(Box::new(RedbView(table)))
    }

    fn commit(&self, batch: &Batch, persist: Persist) -> Result<(), StoreError> {
        let transaction = self
            .database
            .begin_write()
            .map_err(|error| wrap("commit", error))?;
        {
            let mut table = transaction
                .open_table(PAIRS)
                .map_err(|error| wrap("commit", error))?;
            for (key, value) in batch {
                match value {
                    Some(value) => table.insert(key.as_slice(), value.as_slice()),
                    None => table.remove(key.as_slice()),
                }
                .map_err(|error| wrap("commit", error))?;
            }
        }
        self.skip_sync
            .store(persist == Persist::Process, Ordering::Relaxed);
        let result = transaction.commit().map_err(|error| wrap("commit", error));
        self.skip_sync.store(false, Ordering::Relaxed);
        result
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.commit(&Batch::new(), Persist::Power)
    }
}

struct RedbView(ReadOnlyTable<&'static [u8], &'static [u8]>);

impl View for RedbView {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.0.get(key).map_err(|error| wrap("read", error))?;
        Ok(value.map(|value| value.value().to_vec()))
    }

    fn range<'a>(&'a self, start: &[u8], end: &[u8]) -> Pairs<'a> {
        if start >= end {
            return Box::new(std::iter::empty());
        }
        match self.0.range(start..end) {
            Ok(range) => Box::new(range.map(|pair| {
                let (key, value) = pair.map_err(|error| wrap("read", error))?;
                Ok((key.value().to_vec(), value.value().to_vec()))
            })),
            Err(error) => Box::new(std::iter::once(Err(wrap("read", error)))),
        }
    }
}

/// A file that is synced only when asked.
#[derive(Debug)]
struct MaybeSynced {
    file: FileBackend,
    skip_sync: Arc<AtomicBool>,
}

impl StorageBackend for MaybeSynced {
    fn len(&self) -> Result<u64, std::io::Error> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), std::io::Error> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> Result<(), std::io::Error> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> Result<(), std::io::Error> {
        match self.skip_sync.load(Ordering::Relaxed) {
            true => Ok(()),
            false => self.file.sync_data(),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), std::io::Error> {
        self.file.write(offset, data)
    }

    fn close(&self) -> Result<(), std::io::Error> {
        self.file.close()
    }
}

fn wrap(doing: &'static str, error: impl fmt::Display) -> StoreError {
    StoreError {
        store: "redb",
        doing,
        kind: StoreErrorKind::Io,
        message: error.to_string(),
    }
}
