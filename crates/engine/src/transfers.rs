//! Scheduling of remote-memory transfers: too many at once are slower than few (Yu et al. §5.1).

use std::collections::{HashMap, VecDeque};

use causeway_transport::{Cursor, PartEnd, Progress, Transfer};

/// Transfers that an instance has in progress; the others wait. Where peers that hang have taken all
/// of them, any other peer may still start its [share](Transfers::may_start).
pub(crate) const MAX_ACTIVE: usize = 16;

/// Waiting transfers that are tried at once, between other work.
pub(crate) const MAX_TRIES: usize = 64;

/// Waiting transfers that were cancelled are removed when so many entries have been added since the
/// last time, besides as many as remained then.
const MOST_STALE: usize = 64;

/// Transfers in progress and waiting, the latter as operations by key. Those that are cancelled
/// meanwhile are skipped.
#[derive(Default)]
pub(crate) struct Transfers {
    /// How many transfers methods have accepted and not completed.
    pub(crate) active: usize,
    /// Peers with such transfers.
    busy_peers: usize,
    /// With this many waiting entries, those of cancelled operations are removed.
    purge_at: usize,
    /// Those that could not be started.
    deferred: VecDeque<u64>,
    /// How many of those, from the front, are to be retried since something changed.
    retries: usize,
    /// Those that were not tried yet.
    recent: VecDeque<u64>,
    /// The driver has been notified that there is something to try.
    notified: bool,
    /// Transfers with longer lists than their method accepts, by operation: a part is in progress,
    /// or the next one waits.
    in_parts: HashMap<u64, Progress>,
}

/// What remains when a transfer has been started; see
/// [`Conversations::transfer_started`](crate::Conversations::transfer_started).
#[derive(Debug)]
pub struct Remainder {
    /// Where the operation's memory continues.
    pub(crate) cursor: Cursor,
    /// What remains of the transfer itself.
    pub(crate) rest: Rest,
}

/// What remains of a transfer when a part of it has been started.
#[derive(Debug)]
pub(crate) enum Rest {
    /// Nothing; it was started whole, or this is the last part.
    Nothing,
    /// This is the first part.
    OfFirst(Box<Progress>, PartEnd),
    /// A later part ends here.
    Remainder(PartEnd),
}

impl Transfers {
    /// How many transfers wait.
    pub(crate) fn waiting(&self) -> usize {
        self.deferred.len() + self.recent.len()
    }

    /// Accounts for a transfer that a method has accepted. `of_peer` are those of its peer.
    pub(crate) fn started(&mut self, of_peer: &mut u32) {
        self.active += 1;
        self.busy_peers += usize::from(*of_peer == 0);
        *of_peer += 1;
    }

    /// Accounts for a transfer of a peer that has ended. (The driver reports it, too.)
    pub(crate) fn ended(&mut self, of_peer: &mut u32) {
        assert!(*of_peer > 0, "a transfer that was started");
        *of_peer -= 1;
        self.busy_peers -= usize::from(*of_peer == 0);
    }

    /// A peer's connection is lost: none of its transfers counts any more.
    pub(crate) fn peer_lost(&mut self, of_peer: &mut u32) {
        self.busy_peers -= usize::from(std::mem::take(of_peer) > 0);
    }

    /// Whether a peer with `of_peer` transfers in progress may start another one. If others have
    /// taken all, it may nevertheless start its share of them, and one in any case.
    pub(crate) fn may_start(&self, of_peer: u32) -> bool {
        let others = self.busy_peers - usize::from(of_peer > 0);
        self.active < MAX_ACTIVE || (of_peer as usize) < (MAX_ACTIVE / (others + 1)).max(1)
    }

    /// Removes the entries of operations that do not wait any more, if there may be many.
    pub(crate) fn purge(&mut self, waits: impl Fn(u64) -> bool) {
        if self.waiting() < self.purge_at.max(MOST_STALE) {
            return;
        }
        let front = self.deferred.iter().take(self.retries);
        self.retries = front.filter(|op| waits(**op)).count();
        self.deferred.retain(|op| waits(*op));
        self.recent.retain(|op| waits(*op));
        self.purge_at = 2 * self.waiting() + MOST_STALE;
    }

    /// Adds one. Returns whether to notify the driver.
    #[must_use]
    pub(crate) fn add(&mut self, op: u64) -> bool {
        self.recent.push_back(op);
        !std::mem::replace(&mut self.notified, true)
    }

    /// The transfer to be started, if it is the only new one, and no deferred one waits.
    pub(crate) fn only(&self) -> Option<u64> {
        let is_only = self.recent.len() == 1 && self.deferred.is_empty();
        self.recent.front().copied().filter(|_| is_only)
    }

    /// Removes the only one: the driver has done it, and need not be notified of it.
    pub(crate) fn take_only(&mut self) -> Option<u64> {
        self.notified = false;
        self.recent.pop_front()
    }

    /// Has every waiting transfer retried. Returns whether to notify the driver.
    #[must_use]
    pub(crate) fn retry(&mut self) -> bool {
        self.retries = self.deferred.len();
        self.retries > 0 && !std::mem::replace(&mut self.notified, true)
    }

    /// The driver begins to try transfers. It is notified again of those that are added later.
    pub(crate) fn begin_tries(&mut self) {
        self.notified = false;
    }

    /// The driver has tried many. Returns whether to notify it of the remaining ones.
    #[must_use]
    pub(crate) fn pause(&mut self) -> bool {
        let more = self.retries > 0 || !self.recent.is_empty();
        more && !std::mem::replace(&mut self.notified, true)
    }

    /// The next transfer to try, oldest first.
    pub(crate) fn next(&mut self) -> Option<u64> {
        if self.retries > 0 {
            self.retries -= 1;
            if let Some(op) = self.deferred.pop_front() {
                return Some(op);
            }
        }
        self.recent.pop_front()
    }

    /// Splits a transfer whose lists are too long: returns the first part.
    pub(crate) fn first_part(transfer: Transfer, max_list: usize) -> (Transfer, Rest) {
        if transfer.longest_list() <= max_list {
            return (transfer, Rest::Nothing);
        }
        let whole = Progress::new(transfer);
        let (part, end) = whole.part(max_list);
        (part, Rest::OfFirst(Box::new(whole), end))
    }

    /// The next part of a transfer that was split, if the operation has one that is to be started.
    pub(crate) fn next_part(&self, op: u64, max_list: usize) -> Option<(Transfer, Rest)> {
        let (part, end) = self.in_parts.get(&op)?.part(max_list);
        Some((part, Rest::Remainder(end)))
    }

    /// Notes that a part was started.
    pub(crate) fn part_started(&mut self, op: u64, rest: Rest) {
        let (mut whole, end) = match rest {
            Rest::Nothing => return,
            Rest::OfFirst(whole, end) => (*whole, end),
            Rest::Remainder(end) => match self.in_parts.remove(&op) {
                Some(whole) => (whole, end),
                None => return,
            },
        };
        if !end.is_last {
            whole.step_behind(end);
            self.in_parts.insert(op, whole);
        }
    }

    /// Whether a part of the operation's transfer has yet to be started.
    pub(crate) fn is_cut(&self, op: u64) -> bool {
        !self.in_parts.is_empty() && self.in_parts.contains_key(&op)
    }

    /// Forgets the remaining parts of the operation's transfer.
    pub(crate) fn forget_parts(&mut self, op: u64) {
        if !self.in_parts.is_empty() {
            self.in_parts.remove(&op);
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.in_parts.is_empty()
    }

    /// Defers a transfer that could not be started. After all have been tried they are in their
    /// order again.
    pub(crate) fn defer(&mut self, op: u64) {
        self.deferred.push_back(op);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancelled_transfers_take_bounded_memory() {
        let mut all = Transfers::default();
        for op in 0..10 {
            all.defer(op);
        }
        for op in 10..10_000 {
            all.purge(|op| op < 10);
            let _ = all.add(op);
            if op % 3 == 0
                && let Some(op) = all.take_only()
            {
                all.defer(op);
            }
            assert!(all.waiting() <= 20 + MOST_STALE, "{} wait", all.waiting());
        }
        assert!(all.retry());
        let tried: Vec<u64> = std::iter::from_fn(|| all.next()).take(10).collect();
        assert_eq!(tried, (0..10).collect::<Vec<u64>>());
    }

    #[test]
    fn a_peer_that_holds_all_slots_leaves_others_their_shares() {
        let mut all = Transfers::default();
        let mut peers = [0; 4];
        for of_peer in &mut peers {
            while all.may_start(*of_peer) {
                all.started(of_peer);
            }
        }
        assert_eq!(peers, [16, 8, 5, 4]);
        all.peer_lost(&mut peers[0]);
        all.peer_lost(&mut peers[0]);
        all.ended(&mut peers[3]);
        assert_eq!((peers, all.busy_peers), ([0, 8, 5, 3], 3));
    }
}
