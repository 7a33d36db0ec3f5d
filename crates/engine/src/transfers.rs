//! Which remote-memory transfers may be in progress: too many at once are slower than few (Yu et al. §5.1).

use std::collections::{HashMap, VecDeque};

use causeway_transport::{Cursor, PartEnd, Progress, Transfer};

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
    /// Those with longer lists than their method takes, by operation: a part is in progress, or the next one waits.
    in_parts: HashMap<u64, Progress>,
}

/// What is left when a transfer has been started; see [`Conversations::transfer_started`](crate::Conversations::transfer_started).
#[derive(Debug)]
pub struct Behind {
    /// Where the operation's memory goes on.
    pub(crate) cursor: Cursor,
    /// What is left of the transfer itself.
    pub(crate) rest: Rest,
}

/// What is left of a transfer when a part of it has been started.
#[derive(Debug)]
pub(crate) enum Rest {
    /// Nothing; it was started whole, or this is the last part.
    Nothing,
    /// This is the first part.
    OfFirst(Box<Progress>, PartEnd),
    /// A later part ends here.
    Behind(PartEnd),
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

    /// The one that is to be started, if it is the only one, and none waits.
    pub(crate) fn only(&self) -> Option<u64> {
        let is_only = self.recent.len() == 1 && self.deferred.is_empty();
        self.recent.front().copied().filter(|_| is_only)
    }

    /// The driver has done the only one, and needs not be told of it any more.
    pub(crate) fn take_only(&mut self) -> Option<u64> {
        self.told = false;
        self.recent.pop_front()
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

    /// Cuts a transfer whose lists are too long: returns the first part.
    pub(crate) fn first_part(transfer: Transfer, max_list: usize) -> (Transfer, Rest) {
        if transfer.longest_list() <= max_list {
            return (transfer, Rest::Nothing);
        }
        let whole = Progress::new(transfer);
        let (part, end) = whole.part(max_list);
        (part, Rest::OfFirst(Box::new(whole), end))
    }

    /// The next part of one that was cut, if the operation has one that is to be started.
    pub(crate) fn next_part(&self, op: u64, max_list: usize) -> Option<(Transfer, Rest)> {
        let (part, end) = self.in_parts.get(&op)?.part(max_list);
        Some((part, Rest::Behind(end)))
    }

    /// A part was started.
    pub(crate) fn part_started(&mut self, op: u64, rest: Rest) {
        let (mut whole, end) = match rest {
            Rest::Nothing => return,
            Rest::OfFirst(whole, end) => (*whole, end),
            Rest::Behind(end) => match self.in_parts.remove(&op) {
                Some(whole) => (whole, end),
                None => return,
            },
        };
        if !end.is_last {
            whole.step_behind(end);
            self.in_parts.insert(op, whole);
        }
    }

    /// Whether a part of the operation's transfer is left to be started.
    pub(crate) fn is_cut(&self, op: u64) -> bool {
        !self.in_parts.is_empty() && self.in_parts.contains_key(&op)
    }

    /// Nothing more of the operation's transfer is to be started.
    pub(crate) fn forget_parts(&mut self, op: u64) {
        if !self.in_parts.is_empty() {
            self.in_parts.remove(&op);
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.in_parts.is_empty()
    }

    /// It could not be started. After all have been tried they stand in their order again.
    pub(crate) fn defer(&mut self, op: u64) {
        self.deferred.push_back(op);
    }
}
