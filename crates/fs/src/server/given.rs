//! Of which objects a metadata server has given capabilities out that may still be good.
//!
//! Only of these must I/O servers be told when permissions change: most changes of permissions concern files that nobody has open.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use causeway_wire::fs::ObjectId;

/// Objects that are kept, in each of two generations.
const MOST: usize = 1 << 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Given {
    lifetime: Duration,
    /// Until then any object may be one: what was given out is not known of all.
    any_until: Option<Instant>,
    recent: HashSet<ObjectId>,
    /// Those from before `since`.
    older: HashSet<ObjectId>,
    since: Instant,
}

impl Given {
    /// Of a server that starts: an earlier run may have given some out.
    pub(super) fn new(lifetime: Duration, now: Instant) -> Self {
        Self {
            lifetime,
            any_until: Some(now + lifetime),
            recent: HashSet::new(),
            older: HashSet::new(),
            since: now,
        }
    }

    /// A capability of the object is given out.
    pub(super) fn note(&mut self, object: ObjectId, now: Instant) {
        self.pass(now);
        if self.recent.len() >= MOST {
            self.any_until = Some(now + self.lifetime);
            self.recent.clear();
            self.older.clear();
        }
        self.recent.insert(object);
    }

    /// Whether one of the object's may be good.
    pub(super) fn may_have(&mut self, object: ObjectId, now: Instant) -> bool {
        self.pass(now);
        self.any_until.is_some() || self.recent.contains(&object) || self.older.contains(&object)
    }

    fn pass(&mut self, now: Instant) {
        self.any_until = self.any_until.filter(|until| *until > now);
        let age = now.saturating_duration_since(self.since);
        if age < self.lifetime {
            return;
        }
        self.older = std::mem::take(&mut self.recent);
        if age >= 2 * self.lifetime {
            self.older.clear();
        }
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_known_as_long_as_their_capabilities_are_good() {
        let lifetime = Duration::from_secs(60);
        let start = Instant::now();
        let mut given = Given::new(lifetime, start);
        let [one, two] = [ObjectId(1), ObjectId(2)];
        assert!(given.may_have(two, start), "of an earlier run");
        let later = start + lifetime;
        given.note(one, later - Duration::from_secs(1));
        assert!(!given.may_have(two, later) && given.may_have(one, later));
        assert!(given.may_have(one, later + lifetime - Duration::from_secs(2)));
        assert!(!given.may_have(one, later + 2 * lifetime));
        // More than are kept: any may be one.
        for object in 0..=MOST as u64 {
            given.note(ObjectId(object + 10), later + 2 * lifetime);
        }
        assert!(given.may_have(two, later + 2 * lifetime));
        assert!(!given.may_have(two, later + 3 * lifetime));
    }
}
