//! Recovery of a store that has failed.

use causeway_wire::fs::{Failure, Reply, Request};

use super::{Outcome, Service, fail};

impl Service {
    /// After a failed commit: opens the store again and determines which requests were carried out. Their changes
    /// are on stable storage then.
    pub(super) fn replies_after_failure(
        &mut self,
        requests: &[Request],
        failure: Failure,
    ) -> Vec<Reply> {
        let failure = self.note_failure(failure);
        let view = match self.has_failed {
            true => None,
            false => self.store().and_then(|store| Ok(store.snapshot()?)).ok(),
        };
        let reply = |request: &Request| {
            let stored = view
                .as_deref()
                .and_then(|view| self.sessions.stored_reply(view, request));
            stored.unwrap_or_else(|| Reply {
                result: Err(failure.clone()),
            })
        };
        requests.iter().map(reply).collect()
    }

    /// Records that the store has failed, and recovers it if that is possible now. Returns the failure.
    pub(super) fn note_failure(&mut self, failure: Failure) -> Failure {
        tracing::error!(%failure.message, "the metadata store failed; opening it again");
        self.has_failed = true;
        self.note_failed_sync(&failure);
        if let Err(failure) = self.recover() {
            tracing::error!(%failure.message, "the metadata store takes no changes");
        }
        failure
    }

    /// Raises the count that clients compare: changes that wait for an fsync may be lost, even if the store has them
    /// now.
    pub(super) fn note_failed_sync(&self, failure: &Failure) {
        if let Some(counter) = &self.failed_syncs {
            counter.note("the metadata", &failure.message);
        }
    }

    /// Opens a store again that has failed. Nothing is appended to its journal any more: what can still be
    /// read is written into new tables, and only once these are synced does a new journal begin, and is anything
    /// acknowledged by what it shows. Until that succeeds, changes are refused; as long
    /// as the disk takes nothing at all, the failed store is kept to be read.
    pub(in crate::meta) fn recover(&mut self) -> Outcome<()> {
        if !self.has_failed {
            return Ok(());
        }
        let recovered = match self.store() {
            Ok(store) => store.probe().map_err(Failure::from),
            Err(_) => Ok(()),
        };
        let recovered = recovered.and_then(|()| self.reopen());
        self.has_failed = recovered.is_err();
        recovered.or_else(|cause| {
            fail(
                cause.errno,
                format!(
                    "changes are refused since the metadata's disk has failed, until it takes them again (look \
                     into the log of its host, and replace it or make room on it): {}",
                    cause.message
                ),
            )
        })
    }
}
