//! Files that lose their last name while programs have them open. The change that removes the name also records that such a file must be
//! removed, so that no part of it is left whichever ends first: the program, or the server.

use causeway_wire::codec::Wire as _;
use causeway_wire::fs::{Caller, Errno, Failure, Kind, ObjectId, Timestamp};
use causeway_wire::store::{COUNTERS_KEY, Counter, Key, OrphanRecord, PROGRAMS_KEY, orphan_key};

use super::change::Change;
use super::fault::{Outcome, fail};
use super::overlay::Overlay;
use super::query::{StoredObject, find_object};
use super::service::Service;
use super::store::{Batch, FreeSpace, Persist, Store, View as _, prefix_end};

impl Change<'_> {
    /// Removes an object that has lost its last name, unless programs have it open.
    pub(super) fn remove_or_keep(&mut self, mut found: StoredObject) -> Outcome<()> {
        let is_file = found.record.kind() == Kind::File;
        if !is_file || self.opens.begin_removal(found.object, self.has_room) {
            return self.remove_object(found);
        }
        let record = OrphanRecord { since: self.now };
        self.state.put(orphan_key(found.object), record.to_bytes());
        found.record.links = 0;
        found.record.parent = ObjectId::ROOT;
        found.record.name.clear();
        found.record.changed = self.now;
        self.put_object(found.object, &found.record);
        Ok(())
    }

    /// Removes an orphan that no program has open any more. Returns whether it was an orphan and is removed.
    fn remove_orphan(&mut self, object: ObjectId) -> Outcome<bool> {
        let key = orphan_key(object);
        if self.state.get(&key)?.is_none() || !self.opens.begin_removal(object, true) {
            return Ok(false);
        }
        self.state.remove(key);
        match find_object(&*self.state, object)? {
            Some(record) if record.links == 0 => {
                self.remove_object(StoredObject { object, record })?;
                Ok(true)
            }
            // A check has given the orphan a name.
            _ => Ok(false),
        }
    }
}

impl Service {
    /// Records, durably, that programs may have files open, or that none has: only in the first case must the next start of the server wait for
    /// their reports.
    pub(crate) fn mark_programs(&mut self, have_files: bool) -> Result<(), Failure> {
        // A store that takes no changes can still be read.
        if self.opens().is_marked() == have_files || self.has_failed() {
            return Ok(());
        }
        let store = self.store()?;
        self.check_room(&*store)?;
        let mark = have_files.then(|| Counter(0).to_bytes());
        let batch = Batch::from([(PROGRAMS_KEY.to_vec(), mark)]);
        self.commit(store, &batch, Persist::Power)?;
        self.opens().set_marked(have_files);
        Ok(())
    }

    /// At most `limit` orphans behind `after`, whether programs have them open or not.
    pub(crate) fn orphans(
        &mut self,
        after: Option<ObjectId>,
        limit: usize,
    ) -> Result<Vec<ObjectId>, Failure> {
        self.recover()?;
        let view = self.store()?.snapshot()?;
        let start = match after {
            Some(object) => [&orphan_key(object)[..], &[0]].concat(),
            None => b"q".to_vec(),
        };
        let mut orphans = Vec::new();
        for pair in view.range(&start, &prefix_end(b"q")).take(limit) {
            if let Ok(Key::Orphan(object)) = Key::parse(&pair?.0) {
                orphans.push(object);
            }
        }
        Ok(orphans)
    }

    /// Removes those of these objects that are orphans and that no program has open. Returns how many were
    /// removed.
    pub(crate) fn remove_orphans(
        &mut self,
        objects: &[ObjectId],
        now: Timestamp,
    ) -> Result<usize, Failure> {
        self.recover()?;
        self.caches().lock().suspend();
        let removed = self.try_remove_orphans(objects, now);
        self.end_caches_batch(Vec::new());
        self.opens().end_batch();
        removed
    }

    /// Fails if the store must not be written to: it would fail, and disturb all that write.
    fn check_room(&self, store: &dyn Store) -> Outcome<()> {
        match store.room(self.settings.reserve_bytes) {
            FreeSpace::Nothing(why) => fail(Errno::ENOSPC, why),
            FreeSpace::Removals(_) | FreeSpace::Enough => Ok(()),
        }
    }

    fn try_remove_orphans(&mut self, objects: &[ObjectId], now: Timestamp) -> Outcome<usize> {
        if objects.is_empty() {
            return Ok(0);
        }
        let store = self.store()?;
        self.check_room(&*store)?;
        let mut state = Overlay::new(store.snapshot()?);
        let before = self.counters;
        let nobody = Caller::default();
        let mut removed = 0;
        for &object in objects {
            state.begin();
            let counters = self.counters;
            let gone = self.with_change(&mut state, &nobody, true, now, |change| {
                change.remove_orphan(object)
            });
            match gone {
                Ok(gone) => removed += usize::from(gone),
                Err(failure) => {
                    state.roll_back();
                    self.counters = counters;
                    tracing::error!(
                        object = object.0,
                        failure.message,
                        "an unlinked file cannot be removed; see `causeway fs fsck`"
                    );
                }
            }
        }
        if self.counters != before {
            state.put(COUNTERS_KEY.to_vec(), self.counters.to_bytes());
        }
        let batch = state.into_changes();
        if batch.is_empty() {
            return Ok(0);
        }
        // If a loss of power undoes the commit, the removal is repeated.
        self.commit(store, &batch, Persist::Process)?;
        Ok(removed)
    }
}
