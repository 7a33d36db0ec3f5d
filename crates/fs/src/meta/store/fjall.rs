//! The store in [fjall](https://docs.rs/fjall): a log-structured merge tree with one journal, so that
//! a batch of any size costs one append and at most one `fdatasync`.

use std::path::Path;

use fjall::{
    CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot,
    config::{BlockSizePolicy, CompressionPolicy},
};

mod journal;

use crate::sabotage::{self, Sabotage};

use super::{Batch, Pair, Pairs, Persist, Store, StoreError, StoreErrorKind, View};

const NAME: &str = "fjall";
/// Memory for blocks read from tables.
const CACHE_BYTES: u64 = 32 << 20;
/// A table in memory is written out at this size.
const MEMTABLE_BYTES: u64 = 16 << 20;
/// The journal, which is replayed when the store is opened, is kept below about this size.
const JOURNAL_BYTES: u64 = 128 << 20;
/// The engine's own threads: one writes tables out while the other merges them.
const WORKERS: usize = 2;

/// A store in a directory.
pub struct Fjall {
    database: Database,
    pairs: Keyspace,
}

impl Fjall {
    /// Opens the store in `directory`, or makes one there.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        let torn = journal::trim(directory).map_err(|error| wrap_trim(directory, &error))?;
        if let Some(journal::Torn {
            journal,
            at,
            bytes,
            kept,
        }) = torn
        {
            tracing::warn!(
                "{}: the last {bytes} bytes, behind {at}, are no whole change (as after power loss); \
                 they are kept in {}",
                journal.display(),
                kept.display()
            );
        }
        let database = Database::builder(directory)
            .journal_compression(CompressionType::None)
            .cache_size(CACHE_BYTES)
            .max_journaling_size(JOURNAL_BYTES)
            .worker_threads(WORKERS)
            .open()
            .map_err(|error| wrap("open", error))?;
        let pairs = database
            .keyspace("metadata", || {
                KeyspaceCreateOptions::default()
                    .max_memtable_size(MEMTABLE_BYTES)
                    .data_block_size_policy(BlockSizePolicy::all(4 << 10))
                    .data_block_compression_policy(CompressionPolicy::disabled())
            })
            .map_err(|error| wrap("open", error))?;
        Ok(Self { database, pairs })
    }
}

impl Store for Fjall {
    fn name(&self) -> &'static str {
        NAME
    }

    fn snapshot(&self) -> Result<Box<dyn View>, StoreError> {
        Ok(Box::new(FjallView {
            snapshot: self.database.snapshot(),
            pairs: self.pairs.clone(),
        }))
    }

    fn commit(&self, batch: &Batch, persist: Persist) -> Result<(), StoreError> {
        let mut changes = self.database.batch().durability(Some(mode(persist)));
        for (key, value) in batch {
            match value {
                Some(value) => changes.insert(&self.pairs, key.as_slice(), value.as_slice()),
                None => changes.remove(&self.pairs, key.as_slice()),
            }
        }
        changes.commit().map_err(|error| wrap("commit", error))
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.database
            .persist(mode(Persist::Power))
            .map_err(|error| wrap("sync", error))
    }
}

struct FjallView {
    snapshot: Snapshot,
    pairs: Keyspace,
}

impl View for FjallView {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.snapshot.get(&self.pairs, key);
        value
            .map(|value| value.map(|value| value.to_vec()))
            .map_err(|error| wrap("read", error))
    }

    fn range<'a>(&'a self, start: &[u8], end: &[u8]) -> Pairs<'a> {
        if start >= end {
            return Box::new(std::iter::empty());
        }
        let range = self.snapshot.range(&self.pairs, start..end);
        Box::new(range.map(|pair| -> Result<Pair, StoreError> {
            let (key, value) = pair.into_inner().map_err(|error| wrap("read", error))?;
            Ok((key.to_vec(), value.to_vec()))
        }))
    }
}

fn mode(persist: Persist) -> PersistMode {
    match persist {
        _ if sabotage::is_on(Sabotage::DropCommit) => PersistMode::Buffer,
        Persist::Process => PersistMode::Buffer,
        Persist::Power => PersistMode::SyncData,
    }
}

fn wrap_trim(directory: &Path, error: &std::io::Error) -> StoreError {
    let kind = match error.kind() {
        std::io::ErrorKind::WouldBlock => StoreErrorKind::Locked,
        std::io::ErrorKind::StorageFull => StoreErrorKind::Full,
        _ => StoreErrorKind::Io,
    };
    let message = match kind {
        StoreErrorKind::Locked => format!("{} is open already", directory.display()),
        _ => format!("{}: {error}", directory.display()),
    };
    StoreError {
        store: NAME,
        doing: "open",
        kind,
        message,
    }
}

fn wrap(doing: &'static str, error: fjall::Error) -> StoreError {
    let kind = match &error {
        fjall::Error::Io(error) if error.kind() == std::io::ErrorKind::StorageFull => {
            StoreErrorKind::Full
        }
        fjall::Error::Locked => StoreErrorKind::Locked,
        fjall::Error::JournalRecovery(_)
        | fjall::Error::InvalidTrailer
        | fjall::Error::InvalidTag(_)
        | fjall::Error::InvalidVersion(_)
        | fjall::Error::Decompress(_)
        | fjall::Error::Unrecoverable => StoreErrorKind::Corrupt,
        _ => StoreErrorKind::Io,
    };
    let message = match error {
        fjall::Error::Io(error) => error.to_string(),
        fjall::Error::Poisoned => "an earlier write failed; restart the server".into(),
        error => error.to_string(),
    };
    StoreError {
        store: NAME,
        doing,
        kind,
        message,
    }
}
