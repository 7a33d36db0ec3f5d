//! State that the store and its datafiles share.

use std::collections::HashMap;
use std::fmt::Display;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use causeway_wire::datafile::{Algorithm, Header, State, Trust};
use causeway_wire::fs::{Incarnation, ObjectId};

use super::history::History;
use super::room::SpaceBudget;
use super::types::Owner;
use crate::failed_syncs::FailureCount;
use crate::locks::lock;

/// Most datafiles that are remembered to be marked clean; others stay marked dirty until they are written
/// again, which only makes later verdicts after a crash less exact.
const MAX_DIRTY: usize = 1 << 16;

/// State that the store and its datafiles share.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) owner: Owner,
    pub(super) synced: bool,
    pub(super) checksums: bool,
    /// Whether the store is in memory: nothing waits for a device, and nothing survives a loss of power.
    pub(super) in_memory: bool,
    /// This run of the server.
    pub(super) run: u64,
    pub(super) boot: Mutex<u128>,
    /// The metadata's incarnation, once it is known.
    pub(super) incarnation: AtomicU64,
    pub(super) failed_syncs: FailureCount,
    pub(super) history: History,
    pub(super) room: SpaceBudget,
    /// Datafiles that were marked dirty, and how often each had been written when it was last checked.
    pub(super) dirty: Mutex<HashMap<ObjectId, Idle>>,
}

/// How long a dirty datafile has been idle.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Idle {
    pub(super) writes: u64,
    pub(super) checks: u32,
}

impl Common {
    pub(super) fn boot(&self) -> u128 {
        *lock(&self.boot)
    }

    pub(super) fn incarnation(&self) -> Incarnation {
        Incarnation(self.incarnation.load(Ordering::Relaxed))
    }

    /// Records a failed sync, before a later one that succeeds is reported to a client.
    pub(super) fn note_failed_sync(
        &self,
        synced: io::Result<()>,
        what: impl Display,
    ) -> io::Result<()> {
        if let Err(error) = &synced {
            self.failed_syncs.note(what, error);
        }
        synced
    }

    /// Whether a sync has failed since the host was booted: then later syncs prove nothing about what was written
    /// before.
    pub(super) fn is_suspect(&self) -> bool {
        self.failed_syncs.has_failed()
    }

    pub(super) fn note_dirty(&self, object: ObjectId) {
        let mut dirty = lock(&self.dirty);
        if dirty.len() < MAX_DIRTY {
            dirty.insert(object, Idle::default());
        }
    }

    pub(super) fn new_header(&self, object: ObjectId) -> Header {
        Header {
            object,
            file_system: self.owner.file_system,
            generation: self.owner.generation,
            incarnation: self.incarnation(),
            version: 0,
            size: 0,
            algorithm: match self.checksums {
                true => Algorithm::Crc32c,
                false => Algorithm::None,
            },
            // The datafile was never clean, so no device can hold a clean header.
            state: State::Dirty,
            trust: Trust::Latest,
            boot: self.boot(),
            run: self.run,
        }
    }
}
