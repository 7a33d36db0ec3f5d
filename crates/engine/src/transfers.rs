//! Which remote-memory transfers may be in progress: too many at once are slower than few (Yu et al. §5.1).

use std::collections::VecDeque;

/// Transfers that an instance has in progress; the others wait. A peer without any may always start
/// one, so that peers which hang do not stop the rest.
pub(crate) const MAX_ACTIVE: usize = 16;

/// Waiting transfers that are tried in one go, between other work.
pub(crate) const MAX_TRIES: usize = 64;

/// Transfers in progress and waiting, the latter as operations by key. Those that are cancelled meanwhile are skipped.
#[derive(Default)]
pub(crate) struct Transfers {
    /// How many the methods have accepted and not completed.
    pub(crate) active: usize,
    /// Those that could not be started.
    deferred: VecDeque<u64>,
    /// How many of those, from the front, are to be tried again since something changed.
    retries: usize,
    /// Those that were not tried to start yet.
    recent: VecDeque<u64>,
    /// The driver has been told that there is something to try.
    told: bool,
}

impl Transfers {
    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.deferred.len() + self.recent.len()
    }

    /// Adds one. Returns whether the driver is to be told.
    #[must_use]
    pub(crate) fn add(&mut self, op: u64) -> bool {
        self.recent.push_back(op);
        !std::mem::replace(&mut self.told, true)
    }

    /// Every one is to be tried again. Returns whether the driver is to be told.
    #[must_use]
    pub(crate) fn retry(&mut self) -> bool {
        self.retries = self.deferred.len();
        self.retries > 0 && !std::mem::replace(&mut self.told, true)
    }

    /// The driver tries now. It is told again of what comes after this.
    pub(crate) fn begin_tries(&mut self) {
        self.told = false;
    }

    /// The driver has tried many. Returns whether it is to be told of others.
    #[must_use]
    pub(crate) fn pause(&mut self) -> bool {
        let more = self.retries > 0 || !self.recent.is_empty();
        more && !std::mem::replace(&mut self.told, true)
    }

    /// The next one to try, oldest first.
    pub(crate) fn next(&mut self) -> Option<u64> {
        if self.retries > 0 {
            self.retries -= 1;
            if let Some(op) = self.deferred.pop_front() {
                return Some(op);
            }
        }
        self.recent.pop_front()
    }

    /// It could not be started. After all have been tried they stand in their order again.
    pub(crate) fn defer(&mut self, op: u64) {
        self.deferred.push_back(op);
    }
}
