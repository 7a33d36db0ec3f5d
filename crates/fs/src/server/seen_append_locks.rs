//! The append locks that an I/O server has seen, so that a write under an earlier lock does not follow one under a later lock. (Literature calls the
//! numbers of such locks fencing tokens.)
//!
//! The metadata server grants one client at a time the append lock of a file, and grants it to the next one when the
//! client dies or takes too long. Writes that such a client had sent may arrive only then: they would overwrite what the next client has
//! appended. So a datafile takes no write under a lock after one under a later lock. A write that arrives before is no harm: the next
//! clients append at the same end of the file, and overwrite it, since its bytes never counted as part of the file.

use std::collections::{HashMap, VecDeque};

use causeway_wire::fs::ObjectId;

/// Most files whose latest lock is remembered.
const MAX_FILES: usize = 1 << 14;

/// The latest lock of each file that was written under append locks.
#[derive(Debug, Default)]
pub(super) struct SeenAppendLocks {
    latest: HashMap<ObjectId, u64>,
    /// Every change of `latest`, in order.
    changes: VecDeque<(ObjectId, u64)>,
    /// For files whose latest lock is not remembered, locks below this one are refused: locks are numbered over all files, so these
    /// are old.
    floor: u64,
}

impl SeenAppendLocks {
    /// Whether a write under this lock may be carried out.
    pub(super) fn admit(&mut self, object: ObjectId, lock: u64) -> bool {
        let latest = self.latest.get(&object).copied();
        if lock < latest.unwrap_or(self.floor) {
            return false;
        }
        if latest != Some(lock) {
            self.latest.insert(object, lock);
            self.changes.push_back((object, lock));
        }
        while self.changes.len() > MAX_FILES {
            let Some((object, lock)) = self.changes.pop_front() else {
                break;
            };
            if self.latest.get(&object) == Some(&lock) {
                self.latest.remove(&object);
                self.floor = self.floor.max(lock);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_lock_comes_after_a_later_one() {
        let mut seen = SeenAppendLocks::default();
        let [one, other] = [1, 2].map(ObjectId);
        for (object, lock, expected) in [
            (one, 5, true),
            (one, 5, true),
            (other, 4, true),
            (one, 4, false),
            (one, 7, true),
            (one, 6, false),
            (other, 5, true),
        ] {
            assert_eq!(seen.admit(object, lock), expected, "{object:?} {lock}");
        }
    }

    /// A write to a file whose locks were forgotten is refused if its lock is old.
    #[test]
    fn a_turn_of_a_forgotten_file_is_refused_if_it_is_old() {
        let mut seen = SeenAppendLocks::default();
        let count = 2 * MAX_FILES as u64;
        for lock in 1..=count {
            assert!(seen.admit(ObjectId(lock), lock));
        }
        assert_eq!(seen.latest.len(), MAX_FILES);
        assert!(seen.changes.len() <= MAX_FILES);
        assert!(!seen.admit(ObjectId(1), 1));
        assert!(!seen.admit(ObjectId(1), count / 2 - 1));
        assert!(seen.admit(ObjectId(1), count + 1));
        // A single file that changes all the time takes no more memory.
        for lock in count + 2..3 * count {
            assert!(seen.admit(ObjectId(9), lock));
        }
        assert!(seen.changes.len() <= MAX_FILES && seen.latest.len() <= MAX_FILES);
        assert!(!seen.admit(ObjectId(9), 3 * count - 2));
    }
}
