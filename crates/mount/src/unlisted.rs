//! Objects that were seen to have no access control list just now.
//!
//! Before the kernel checks a permission it looks at the object's attributes, and asks for the list right behind that, of each directory
//! on the way. Nearly always there is none, which the reply with the attributes has said. That answers the next question, if it comes soon.
//!
//! The kernel asks both in one thread of a program, one after the other. So an answer counts for the thread that has got the attributes, and
//! for nobody if an object was seen with a list since they were asked for: the kernel may have that one's mode by then, of which the
//! group's digit is the list's mask.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use causeway_wire::fs::ObjectId;

/// How long ago the attributes may have been asked for. The kernel itself keeps a list from one look at the attributes to the next.
const GOOD_FOR: Duration = Duration::from_millis(5);
/// Most objects of each kind that are kept.
const MOST: usize = 4096;

/// Who asks for attributes, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    thread: u32,
    at: Instant,
}

impl Asked {
    /// A thread of a program asks now.
    pub(crate) fn now(thread: u32) -> Self {
        Self {
            thread,
            at: Instant::now(),
        }
    }
}

#[derive(Debug, Default)]
struct Seen {
    /// When attributes were asked for that said that there is no list, by object and thread.
    without: HashMap<(ObjectId, u32), Instant>,
    /// When objects were seen last that have a list.
    with: HashMap<ObjectId, Instant>,
    /// What was asked for until then does not count.
    forgotten: Option<Instant>,
}

#[derive(Debug, Default)]
pub(crate) struct Unlisted {
    seen: Mutex<Seen>,
}

impl Unlisted {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread is told that an object has no list.
    pub(crate) fn note_none(&self, object: ObjectId, asked: Asked) {
        // The kernel numbers no threads that the mount's process cannot see.
        if asked.thread == 0 {
            return;
        }
        let mut seen = self.lock();
        if seen.without.len() >= MOST {
            seen.without.clear();
        }
        seen.without.insert((object, asked.thread), asked.at);
    }

    /// An object has a list, or gets or loses one.
    pub(crate) fn note_list(&self, object: ObjectId, now: Instant) {
        let mut seen = self.lock();
        if seen.with.len() >= MOST {
            let counts = |at: &Instant| now.saturating_duration_since(*at) <= GOOD_FOR;
            seen.with.retain(|_, at| counts(at));
        }
        if seen.with.len() >= MOST {
            seen.with.clear();
            seen.forgotten = Some(now);
        }
        let last = seen.with.entry(object).or_insert(now);
        *last = now.max(*last);
    }

    /// Whether the thread was told just now that the object has no list. Only one question is answered by that.
    pub(crate) fn take(&self, object: ObjectId, asks: Asked) -> bool {
        let mut seen = self.lock();
        let Some(at) = seen.without.remove(&(object, asks.thread)) else {
            return false;
        };
        let is_since = |since: Option<&Instant>| since.is_none_or(|since| *since < at);
        asks.at.saturating_duration_since(at) <= GOOD_FOR
            && is_since(seen.with.get(&object))
            && is_since(seen.forgotten.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: ObjectId = ObjectId(1);

    #[test]
    fn one_question_of_the_same_thread_is_answered_for_a_short_time() {
        let (seen, at) = (Unlisted::default(), Instant::now());
        let by = |thread, at| Asked { thread, at };
        seen.note_none(OBJECT, by(7, at));
        assert!(!seen.take(ObjectId(2), by(7, at)) && !seen.take(OBJECT, by(8, at)));
        assert!(seen.take(OBJECT, by(7, at + GOOD_FOR)) && !seen.take(OBJECT, by(7, at)));
        seen.note_none(OBJECT, by(7, at));
        let late = at + GOOD_FOR + Duration::from_millis(1);
        assert!(!seen.take(OBJECT, by(7, late)));
        // Threads without a number are not told apart.
        seen.note_none(OBJECT, by(0, at));
        assert!(!seen.take(OBJECT, by(0, at)));
    }

    #[test]
    fn a_list_that_was_seen_since_counts_also_if_the_older_answer_comes_later() {
        let (seen, at) = (Unlisted::default(), Instant::now());
        let by = |thread, at| Asked { thread, at };
        let later = at + Duration::from_millis(1);
        for list_first in [false, true] {
            if list_first {
                seen.note_list(OBJECT, later);
            }
            seen.note_none(OBJECT, by(7, at));
            if !list_first {
                seen.note_list(OBJECT, later);
            }
            assert!(!seen.take(OBJECT, by(7, later)));
        }
        let last = later + Duration::from_millis(1);
        seen.note_none(OBJECT, by(7, last));
        assert!(seen.take(OBJECT, by(7, last)));
    }

    #[test]
    fn a_bounded_number_of_objects_is_kept_and_none_is_taken_for_unlisted_by_that() {
        let (seen, at) = (Unlisted::default(), Instant::now());
        seen.note_none(OBJECT, Asked { thread: 7, at });
        for object in 1..=2 * MOST as u64 {
            seen.note_list(ObjectId(object), at);
        }
        assert!(seen.lock().with.len() <= MOST);
        assert!(!seen.take(OBJECT, Asked { thread: 7, at }));
        for object in 0..=2 * MOST as u64 {
            seen.note_none(ObjectId(object), Asked { thread: 7, at });
        }
        assert!(seen.lock().without.len() <= MOST);
    }
}
