//! Objects that were just found to have no access control list.
//!
//! Before the kernel checks a permission, it requests the object's attributes, and immediately afterwards its list, for each directory
//! on the path. Nearly always there is none, which the reply with the attributes shows. It also answers the request for the list, if that comes soon.
//!
//! The kernel makes both requests for one thread of a program, one after the other. So an answer counts only for the thread that got it, and
//! for none if the object was seen with a list since the attributes were requested: the kernel may have the mode from that moment, in which the
//! group's digit is the list's mask.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use causeway_wire::fs::ObjectId;

/// How long ago the attributes may have been requested. The kernel itself uses a list from one request of the attributes to the next.
const GOOD_FOR: Duration = Duration::from_millis(5);
/// Most objects of each kind that are kept.
const MOST: usize = 4096;

/// The thread that requests attributes, and the time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    thread: u32,
    at: Instant,
}

impl Asked {
    /// A request by a thread of a program at this moment.
    pub(crate) fn now(thread: u32) -> Self {
        Self {
            thread,
            at: Instant::now(),
        }
    }
}

#[derive(Debug, Default)]
struct Seen {
    /// When attributes were requested that showed no list, by object and thread.
    without: HashMap<(ObjectId, u32), Instant>,
    /// When objects with a list were last seen.
    with: HashMap<ObjectId, Instant>,
    /// Requests until this time do not count.
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

    /// Notes that a thread's request has shown that an object has no list.
    pub(crate) fn note_none(&self, object: ObjectId, asked: Asked) {
        // The kernel has no number for threads that the mount's process cannot see.
        if asked.thread == 0 {
            return;
        }
        let mut seen = self.lock();
        if seen.without.len() >= MOST {
            seen.without.clear();
        }
        seen.without.insert((object, asked.thread), asked.at);
    }

    /// Notes that an object has a list, or gets or loses one.
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

    /// Whether a reply to the thread has just shown that the object has no list. The entry serves for one request only.
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
        // Threads without a number cannot be distinguished.
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
