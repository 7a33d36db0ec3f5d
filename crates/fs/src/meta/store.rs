//! An ordered key-value store as the metadata service needs it, independent of the engine behind it.
//!
//! A [`Store`] holds one ordered space of byte strings. It changes only by [`Batch`]es, each of which
//! happens entirely or not at all, also across a crash, and in the order of the commits: after a
//! crash the store holds the effect of all batches up to some point and of none behind it. A
//! [`View`] is the state between two batches, for as long as it is held.
//!
//! [`fjall`] is the engine in use (`docs/metadata-engine.md` has the reasons); [`memory`] is the reference
//! that tests compare with.

use std::collections::{BTreeMap, btree_map};
use std::fmt;
use std::ops::Bound;

pub mod fjall;
pub mod memory;

/// How far a commit must get before it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Persist {
    /// Handed to the operating system: survives the death of this process.
    Process,
    /// On stable storage: survives power loss. So does then every earlier commit.
    Power,
}

/// For which changes a store has room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FreeSpace {
    /// For all changes.
    Enough,
    /// Only for changes that free space; the reason, in words.
    Removals(String),
    /// Not even for those; the reason, in words.
    Nothing(String),
}

/// Space that a store may free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Garbage {
    /// An estimate in bytes.
    pub bytes: u64,
    /// The number of bytes from which on freeing is worthwhile.
    pub worthwhile_bytes: u64,
}

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// An ordered walk.
pub type Pairs<'a> = Box<dyn Iterator<Item = Result<Pair, StoreError>> + 'a>;

/// The interface of engines.
pub trait Store: Send + Sync {
    /// The engine's name, for messages.
    fn name(&self) -> &'static str;

    /// The state as of now, unchanged by later commits.
    fn snapshot(&self) -> Result<Box<dyn View>, StoreError>;

    /// Applies a batch atomically. After an error nothing is known of the batch, and the store takes no
    /// further commits, until it has been opened again.
    fn commit(&self, batch: &Batch, persist: Persist) -> Result<(), StoreError>;

    /// Makes all earlier commits survive power loss. An error concerns all of them, as with [`Store::commit`].
    fn sync(&self) -> Result<(), StoreError>;

    /// How much room there is for changes, `reserve` bytes at least being kept free.
    fn room(&self, reserve: u64) -> FreeSpace {
        let _ = reserve;
        FreeSpace::Enough
    }

    /// Whether the store should be written out and opened again, to free space.
    fn is_outgrown(&self) -> bool {
        false
    }

    /// Whether what the store shows may be in memory only: an earlier sync of its journal has failed, so that
    /// nothing is known of what the disk holds. Such a store can be read, but takes no changes until it was
    /// written out and opened again.
    fn is_suspect(&self) -> bool {
        false
    }

    /// Whether the disk takes what is written to it, and syncs it. A store whose commit has failed is closed
    /// and opened again only when that is so: until then it can still be read.
    fn probe(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Brings everything into the form that takes least space when the store is opened again. It is on stable
    /// storage afterwards, even if the journal's syncs had failed.
    fn write_out(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Whether there are views that were not dropped yet.
    fn is_viewed(&self) -> bool {
        false
    }

    /// What [`Store::reclaim`] may free.
    fn garbage(&self) -> Garbage {
        Garbage {
            bytes: 0,
            worthwhile_bytes: u64::MAX,
        }
    }

    /// Frees what removed and replaced records take, as far as that is possible with a bounded amount of work.
    /// Returns whether opening the store again frees more. The caller must not hold a view.
    fn reclaim(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Bytes of a batch for which there is always room while there is room at all.
    fn max_batch_bytes(&self) -> u64 {
        u64::MAX
    }
}

/// A state of a store.
pub trait View: Send {
    /// The value of `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Pairs with `start <= key < end`, in the order of keys.
    fn range<'a>(&'a self, start: &[u8], end: &[u8]) -> Pairs<'a>;
}

/// Changes that happen together: for each key its new value, or `None` to remove it.
pub type Batch = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// The items of a map with `start <= key < end`.
pub(super) fn range_of<'a, V>(
    map: &'a BTreeMap<Vec<u8>, V>,
    start: &[u8],
    end: &[u8],
) -> btree_map::Range<'a, Vec<u8>, V> {
    map.range::<[u8], _>((Bound::Included(start), Bound::Excluded(end.max(start))))
}

/// Why a store failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct StoreError {
    /// The engine.
    pub store: &'static str,
    /// What it was doing, such as `commit`.
    pub doing: &'static str,
    /// The kind of failure.
    pub kind: StoreErrorKind,
    /// The engine's message.
    pub message: String,
}

/// Kinds of failures that callers distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// The disk is full.
    Full,
    /// The disk is too small for a store, or has too little room for one.
    TooSmall,
    /// Another process has the store open.
    Locked,
    /// Stored bytes are not those that were written.
    Corrupt,
    /// Acknowledged changes are lost or damaged; the rest can be used.
    Lost,
    /// There is no store.
    Missing,
    /// Anything else.
    Io,
}

impl fmt::Display for StoreError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            store,
            doing,
            message,
            ..
        } = self;
        write!(out, "metadata store ({store}), {doing}: {message}")?;
        match self.kind {
            StoreErrorKind::Full => write!(out, "; free some space, then restart the server"),
            StoreErrorKind::Locked => write!(out, "; is the server already running?"),
            StoreErrorKind::Corrupt => {
                write!(out, "; restore the directory from a backup or another copy")
            }
            StoreErrorKind::Lost => write!(
                out,
                "; restore the directory from a backup, or give up what is lost: `causeway fs serve \
                 --accept-loss`, then `causeway fs fsck`"
            ),
            StoreErrorKind::TooSmall => write!(out, "; choose a directory on another disk"),
            StoreErrorKind::Missing | StoreErrorKind::Io => Ok(()),
        }
    }
}

/// The smallest key behind all keys that start with `prefix`. Prefixes here start with a letter, so
/// there always is one.
pub fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    end
}
