//! Capabilities that have ended before their time, as an I/O server remembers them.
//!
//! Each capability has a version, and so has each end of an object's capabilities: capabilities whose version is not higher
//! have ended. An end is forgotten once every capability that it concerns has expired anyway. A server that has just started, or that has dropped
//! ends because it keeps a bounded number, does not know all ends: it treats all capabilities that were given out before as ended, and
//! clients renew them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use causeway_wire::fs::ObjectId;

/// Most objects whose ends are kept, in each of two generations.
const MOST: usize = 1 << 16;

/// The ends of capabilities.
#[derive(Debug)]
pub(super) struct Ended {
    /// For how long an end must be remembered.
    lifetime: Duration,
    /// All capabilities of this version or an earlier one have ended.
    floor: u64,
    recent: HashMap<ObjectId, u64>,
    /// The ends that were noted before `since`.
    older: HashMap<ObjectId, u64>,
    since: Instant,
}

impl Ended {
    /// Starts with all capabilities ended whose versions are at most `floor`.
    pub(super) fn new(lifetime: Duration, floor: u64, now: Instant) -> Self {
        Self {
            lifetime,
            floor,
            recent: HashMap::new(),
            older: HashMap::new(),
            since: now,
        }
    }

    /// Ends the object's capabilities up to this version; those of all objects for object 0. `newest` is above all versions that were ever seen.
    pub(super) fn end(&mut self, object: ObjectId, version: u64, newest: u64, now: Instant) {
        if object == ObjectId(0) {
            self.floor = self.floor.max(version);
            return;
        }
        let age = now.saturating_duration_since(self.since);
        if age >= self.lifetime {
            self.older = std::mem::take(&mut self.recent);
            if age >= 2 * self.lifetime {
                self.older.clear();
            }
            self.since = now;
        }
        if self.recent.len() >= MOST {
            self.floor = self.floor.max(newest);
            self.recent.clear();
            self.older.clear();
        }
        let known = self.recent.entry(object).or_default();
        *known = version.max(*known);
    }

    /// Whether the object's capabilities of this version have ended.
    pub(super) fn has_ended(&self, object: ObjectId, version: u64) -> bool {
        let ended = |ends: &HashMap<ObjectId, u64>| {
            !ends.is_empty() && ends.get(&object).is_some_and(|end| *end >= version)
        };
        version <= self.floor || ended(&self.recent) || ended(&self.older)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(60);

    #[test]
    fn ends_are_kept_as_long_as_they_matter() {
        let start = Instant::now();
        let mut ended = Ended::new(LIFETIME, 100, start);
        let [one, two] = [ObjectId(1), ObjectId(2)];
        assert!(ended.has_ended(one, 100) && !ended.has_ended(one, 101));
        ended.end(one, 200, 300, start);
        ended.end(one, 150, 300, start);
        assert!(ended.has_ended(one, 200) && !ended.has_ended(one, 201));
        assert!(!ended.has_ended(two, 150));
        // Remembered for as long as a capability of version 200 may be good, whatever else ends.
        ended.end(two, 210, 300, start + LIFETIME);
        assert!(ended.has_ended(one, 200));
        ended.end(two, 220, 300, start + 2 * LIFETIME);
        assert!(!ended.has_ended(one, 200) && ended.has_ended(two, 210));
        ended.end(two, 230, 300, start + 5 * LIFETIME);
        assert!(ended.has_ended(two, 230) && ended.older.is_empty());
        let len = ended.recent.len();
        ended.end(ObjectId(0), 250, 300, start + 5 * LIFETIME);
        assert!(ended.has_ended(one, 250) && !ended.has_ended(two, 251));
        assert_eq!(ended.recent.len(), len);
    }

    #[test]
    fn more_ends_than_are_kept_end_all() {
        let start = Instant::now();
        let mut ended = Ended::new(LIFETIME, 100, start);
        for object in 1..=MOST as u64 {
            ended.end(ObjectId(object), 200, 300, start);
        }
        assert!(!ended.has_ended(ObjectId(MOST as u64 + 1), 250));
        ended.end(ObjectId(MOST as u64 + 1), 200, 300, start);
        assert!(ended.has_ended(ObjectId(7), 300) && !ended.has_ended(ObjectId(7), 301));
        assert_eq!(ended.recent.len(), 1);
    }
}
