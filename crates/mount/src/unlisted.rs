//! Objects that were seen to have no access control list just now.
//!
//! Before the kernel checks a permission it looks at the object's attributes, and asks for the list right behind that, of each directory
//! on the way. Nearly always there is none, which the reply with the attributes has said. That answers the next question, if it comes soon.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use causeway_wire::fs::{Node, ObjectId};

/// How old what was seen may be. The kernel itself keeps a list from one look at the attributes to the next.
const GOOD_FOR: Duration = Duration::from_millis(5);
/// Most objects that are kept.
const MOST: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Unlisted {
    seen: Mutex<HashMap<ObjectId, Instant>>,
}

impl Unlisted {
    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectId, Instant>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kernel is told of this object.
    pub(crate) fn note(&self, node: &Node, now: Instant) {
        let mut seen = self.lock();
        if node.acl.is_some() {
            seen.remove(&node.object);
            return;
        }
        if seen.len() >= MOST {
            seen.clear();
        }
        seen.insert(node.object, now);
    }

    /// Whether the object was seen without a list just now. Only one question is answered by that.
    pub(crate) fn take(&self, object: ObjectId, now: Instant) -> bool {
        let seen = self.lock().remove(&object);
        seen.is_some_and(|seen| now.saturating_duration_since(seen) <= GOOD_FOR)
    }
}

#[cfg(test)]
mod tests {
    use causeway_wire::fs::{Acl, Attributes, Body, DistributionHint, Kind, Timestamp};

    use super::*;

    #[test]
    fn one_question_is_answered_for_a_short_time_if_there_is_no_list() {
        let attributes = Attributes {
            kind: Kind::Directory,
            mode: 0o755,
            uid: 0,
            gid: 0,
            links: 2,
            size: 0,
            accessed: Timestamp::default(),
            modified: Timestamp::default(),
            changed: Timestamp::default(),
        };
        let node = |object, acl: Option<Acl>| Node {
            object: ObjectId(object),
            attributes,
            body: Body::Directory(DistributionHint::default()),
            acl: acl.map(Box::new),
        };
        let (seen, now) = (Unlisted::default(), Instant::now());
        seen.note(&node(1, None), now);
        assert!(!seen.take(ObjectId(2), now));
        assert!(seen.take(ObjectId(1), now + GOOD_FOR) && !seen.take(ObjectId(1), now));
        seen.note(&node(1, None), now);
        assert!(!seen.take(ObjectId(1), now + GOOD_FOR + Duration::from_millis(1)));
        // It has got one meanwhile.
        seen.note(&node(1, None), now);
        seen.note(&node(1, Some(Acl::of_mode(0o755))), now);
        assert!(!seen.take(ObjectId(1), now));
        for object in 0..=2 * MOST as u64 {
            seen.note(&node(object, None), now);
        }
        assert!(seen.lock().len() <= MOST);
    }
}
