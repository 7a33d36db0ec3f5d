//! Removed files whose datafiles are still to be removed.

use causeway_wire::codec::Wire;
use causeway_wire::fs::{Failure, ObjectId, Operation};
use causeway_wire::store::{COUNTERS_KEY, Key, RemovalRecord, object_key, removal_key};

use super::Service;
use crate::config::Durability;
use crate::meta::fault::Outcome;
use crate::meta::overlay::Overlay;
use crate::meta::query::find_record;
use crate::meta::store::{Persist, View, prefix_end};

/// A removed file whose datafiles are still to be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// The file.
    pub object: ObjectId,
    /// I/O servers that may hold a datafile of it.
    pub servers: Vec<u16>,
    /// See [`RemovalRecord::writes`].
    pub writes: u32,
}

impl Service {
    /// Whether datafiles of removed files may still exist.
    pub(crate) fn has_removals(&self) -> bool {
        self.counters.removals > 0
    }

    /// At most `limit` removed files behind `after` whose datafiles may still exist. Their removal is durable.
    /// A damaged record is skipped, and logged.
    pub fn removals(
        &mut self,
        after: Option<ObjectId>,
        limit: usize,
    ) -> Result<Vec<Removal>, Failure> {
        self.recover()?;
        let store = self.store()?;
        let view = store.snapshot()?;
        let start = match after {
            Some(object) => [&removal_key(object)[..], &[0]].concat(),
            None => b"r".to_vec(),
        };
        let mut removals = Vec::new();
        for pair in view.range(&start, &prefix_end(b"r")) {
            if removals.len() >= limit {
                break;
            }
            let (key, value) = pair?;
            match (Key::parse(&key), RemovalRecord::from_bytes(&value)) {
                (Ok(Key::Removal(object)), Ok(record)) => removals.push(Removal {
                    object,
                    servers: record.servers,
                    writes: record.writes,
                }),
                _ => tracing::error!(
                    "the record of a removed file under {key:02x?} is damaged: its datafiles stay until a check \
                     with repair (fsck)"
                ),
            }
        }
        // Otherwise power loss could restore a file whose datafiles were removed.
        if !removals.is_empty()
            && self.settings.durability == Durability::Relaxed
            && let Err(error) = store.sync()
        {
            drop((view, store));
            return Err(self.note_failure(error.into()));
        }
        Ok(removals)
    }

    /// Records once more that a removed file's datafiles are to be removed, after a request that shows that one may have
    /// been written since: its sender had the file open.
    pub(super) fn remove_again(
        &mut self,
        state: &mut Overlay,
        operation: &Operation,
    ) -> Outcome<()> {
        let (Operation::Extend { object, .. }
        | Operation::Grow { object, .. }
        | Operation::EndAppend { object, .. }
        | Operation::FinishTruncate { object, .. }
        | Operation::FinishUnstuff { object }) = *operation
        else {
            return Ok(());
        };
        let in_gap = |&(from, to): &(u64, u64)| (from..to).contains(&object.0);
        if object.0 >= self.next_object
            || self.gaps.0.iter().any(in_gap)
            || state.get(&object_key(object))?.is_some()
        {
            return Ok(());
        }
        let key = removal_key(object);
        let known = state.get(&key)?;
        let writes = match known.as_deref().map(RemovalRecord::from_bytes) {
            Some(Ok(record)) => record.writes.wrapping_add(1),
            Some(Err(_)) | None => 0,
        };
        self.counters.removals += u64::from(known.is_none());
        let servers = (0..self.layout().servers.len() as u16).collect();
        state.put(key, RemovalRecord { servers, writes }.to_bytes());
        Ok(())
    }

    /// Records that the datafiles of these objects at these servers were removed.
    pub fn removed(&mut self, done: &[Removal]) -> Result<(), Failure> {
        self.recover()?;
        let store = self.store()?;
        let mut state = Overlay::new(store.snapshot()?);
        let mut counters = self.counters;
        for removal in done {
            let key = removal_key(removal.object);
            let found: Option<RemovalRecord> = find_record(&state, &key, "a removal")?;
            let Some(mut record) = found.filter(|record| record.writes == removal.writes) else {
                continue;
            };
            let before = record.servers.len();
            record
                .servers
                .retain(|server| !removal.servers.contains(server));
            if record.servers.is_empty() {
                state.remove(key);
                counters.removals = counters.removals.saturating_sub(1);
            } else if record.servers.len() < before {
                state.put(key, record.to_bytes());
            }
        }
        if counters != self.counters {
            state.put(COUNTERS_KEY.to_vec(), counters.to_bytes());
        }
        let batch = state.into_changes();
        if batch.is_empty() {
            return Ok(());
        }
        self.commit(store, &batch, Persist::Process)?;
        self.counters = counters;
        Ok(())
    }
}
