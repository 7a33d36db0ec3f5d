//! Files that were closed a short time ago, or whose attributes were set, with changes that no fsync has made durable; directories whose attributes were set.
//! If one is opened again and then synced, the fsync must fail if a server has lost these changes with its power meanwhile.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use causeway_fs::client::Unsynced;
use causeway_wire::fs::ObjectId;

/// How long a file is remembered. Servers, and the kernels of their hosts, write what nobody syncs to their disks within a minute. Who syncs a file later
/// than this shall not be told of a restart that has lost nothing.
const KEPT: Duration = Duration::from_secs(600);
/// Most files that are remembered: the latest.
const MOST: usize = 65_536;
/// Most closings and changes of attributes that are remembered: a file is often closed and then given its times.
const MOST_CHANGES: usize = 4 * MOST;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct UnsyncedFiles {
    /// With the number under which each was closed or changed last.
    files: HashMap<ObjectId, (u64, Unsynced)>,
    /// In the order of these changes. Those that were opened again, or closed again later, are still in it.
    order: VecDeque<(u64, ObjectId, Instant)>,
    last: u64,
}

impl UnsyncedFiles {
    /// Remembers a file that is closed now, or whose attributes were changed now.
    pub(crate) fn keep(&mut self, object: ObjectId, unsynced: Unsynced, now: Instant) {
        self.forget_old(now);
        self.last += 1;
        let (number, kept) = self.files.entry(object).or_default();
        *number = self.last;
        kept.add(unsynced);
        self.order.push_back((self.last, object, now));
        while self.files.len() > MOST || self.order.len() > MOST_CHANGES {
            self.forget_oldest();
        }
    }

    /// What a file that is opened now has to know of.
    pub(crate) fn take(&mut self, object: ObjectId, now: Instant) -> Option<Unsynced> {
        self.forget_old(now);
        self.files.remove(&object).map(|(_, unsynced)| unsynced)
    }

    fn forget_old(&mut self, now: Instant) {
        let is_old = |closed: Instant| now.saturating_duration_since(closed) > KEPT;
        while self.order.front().is_some_and(|oldest| is_old(oldest.2)) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((number, object, _)) = self.order.pop_front() else {
            return;
        };
        if self.files.get(&object).is_some_and(|kept| kept.0 == number) {
            self.files.remove(&object);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ObjectId = ObjectId(1);

    fn unsynced() -> Unsynced {
        Unsynced::default()
    }

    #[test]
    fn a_file_is_remembered_until_it_is_opened_or_old() {
        let mut files = UnsyncedFiles::default();
        let begun = Instant::now();
        files.keep(ONE, unsynced(), begun);
        assert!(files.take(ObjectId(2), begun).is_none());
        assert!(files.take(ONE, begun + KEPT).is_some());
        assert!(files.take(ONE, begun + KEPT).is_none());
        // The first closing is too long ago, the second one is not.
        files.keep(ONE, unsynced(), begun);
        files.keep(ONE, unsynced(), begun + KEPT);
        assert!(files.take(ONE, begun + KEPT + KEPT).is_some());
        let mut files = UnsyncedFiles::default();
        files.keep(ONE, unsynced(), begun);
        let late = begun + KEPT + Duration::from_secs(1);
        assert!(files.take(ONE, late).is_none());
        assert!(files.order.is_empty());
    }

    #[test]
    fn no_more_than_a_bounded_number_is_remembered() {
        let mut files = UnsyncedFiles::default();
        let now = Instant::now();
        for number in 0..=MOST as u64 {
            files.keep(ObjectId(number), unsynced(), now);
        }
        assert_eq!((files.files.len(), files.order.len()), (MOST, MOST));
        assert!(files.take(ObjectId(0), now).is_none());
        assert!(files.take(ObjectId(MOST as u64), now).is_some());
        for _ in 0..=MOST_CHANGES {
            files.keep(ONE, unsynced(), now);
        }
        assert_eq!((files.files.len(), files.order.len()), (1, MOST_CHANGES));
    }
}
