//! The turns to append that an I/O server has seen, so that a write of an earlier turn does not follow one of a later turn.
//!
//! The metadata server gives one client at a time the turn to append to a file, and gives it to the next one when the
//! client dies or takes too long. Writes that such a client had sent may arrive only then: they would overwrite what the next client has
//! appended. So a datafile takes no write of a turn after one of a later turn. A write that arrives before is no harm: the next
//! turns begin at the same end of the file, and overwrite it, since its bytes never counted as part of the file.

use std::collections::{HashMap, VecDeque};

use causeway_wire::fs::ObjectId;

/// Most files whose latest turn is remembered.
const MAX_FILES: usize = 1 << 14;

/// The latest turn of each file that was written in turns.
#[derive(Debug, Default)]
pub(super) struct TurnsSeen {
    latest: HashMap<ObjectId, u64>,
    /// Every change of `latest`, in order.
    changes: VecDeque<(ObjectId, u64)>,
    /// For files whose latest turn is not remembered, turns below this one are refused: turns are numbered over all files, so these
    /// are old.
    floor: u64,
}

impl TurnsSeen {
    /// Whether a write of this turn may be carried out.
    pub(super) fn admit(&mut self, object: ObjectId, turn: u64) -> bool {
        let latest = self.latest.get(&object).copied();
        if turn < latest.unwrap_or(self.floor) {
            return false;
        }
        if latest != Some(turn) {
            self.latest.insert(object, turn);
            self.changes.push_back((object, turn));
        }
        while self.changes.len() > MAX_FILES {
            let Some((object, turn)) = self.changes.pop_front() else {
                break;
            };
            if self.latest.get(&object) == Some(&turn) {
                self.latest.remove(&object);
                self.floor = self.floor.max(turn);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_turn_comes_after_a_later_one() {
        let mut seen = TurnsSeen::default();
        let [one, other] = [1, 2].map(ObjectId);
        for (object, turn, expected) in [
            (one, 5, true),
            (one, 5, true),
            (other, 4, true),
            (one, 4, false),
            (one, 7, true),
            (one, 6, false),
            (other, 5, true),
        ] {
            assert_eq!(seen.admit(object, turn), expected, "{object:?} {turn}");
        }
    }

    /// A write to a file whose turns were forgotten is refused if its turn is old.
    #[test]
    fn a_turn_of_a_forgotten_file_is_refused_if_it_is_old() {
        let mut seen = TurnsSeen::default();
        let count = 2 * MAX_FILES as u64;
        for turn in 1..=count {
            assert!(seen.admit(ObjectId(turn), turn));
        }
        assert_eq!(seen.latest.len(), MAX_FILES);
        assert!(seen.changes.len() <= MAX_FILES);
        assert!(!seen.admit(ObjectId(1), 1));
        assert!(!seen.admit(ObjectId(1), count / 2 - 1));
        assert!(seen.admit(ObjectId(1), count + 1));
        // A single file that changes all the time takes no more memory.
        for turn in count + 2..3 * count {
            assert!(seen.admit(ObjectId(9), turn));
        }
        assert!(seen.changes.len() <= MAX_FILES && seen.latest.len() <= MAX_FILES);
        assert!(!seen.admit(ObjectId(9), 3 * count - 2));
    }
}
