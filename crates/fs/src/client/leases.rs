//! Leases of a program on names and attributes, by which it caches them.
//!
//! The program's clients request leases with what they read, and fill the cache ([`super::lease_cache`]); [`super::leased`] has these calls. A
//! thread with a connection of its own waits for recalls ([`super::lease_thread`]).

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use causeway_bmi::Waker;
use causeway_wire::fs::{Node, ObjectId, Place};

use super::cached::{CacheStamp, Era, Named};
use super::change_scope::{ChangeScope, StateAfter};
use super::lease_cache::LeaseCache;
use super::lease_cache::passing::{EntryTimes, Passed, PassedEntry};
use super::numbers::random_number;
use crate::locks::lock;
use crate::threads::JoinOnDrop;

/// A function that is called with what was passed on ([`Leases::pass_on`], [`Leases::pass_on_entries`]) when
/// the leases on it end.
pub(super) type Recalled = Arc<dyn Fn(&[Passed]) + Send + Sync>;

/// The leases of a program, which its threads share.
pub struct Leases {
    cache: Arc<LeaseCache>,
    waker: Waker,
    recalled: Recalled,
    thread: Mutex<Option<JoinOnDrop>>,
}

impl Leases {
    /// Makes leases whose recalls are received by a thread that is woken by `waker`; see
    /// [`Leases::start`].
    pub(super) fn new(
        cache: Arc<LeaseCache>,
        waker: Waker,
        recalled: Recalled,
        thread: JoinOnDrop,
    ) -> Self {
        Self {
            cache,
            waker,
            recalled,
            thread: Mutex::new(Some(thread)),
        }
    }

    pub(super) fn cache(&self) -> &LeaseCache {
        &self.cache
    }

    /// What a name in a directory refers to, if that is cached, and if the server has looked up names there for this user and group while
    /// the directory's attributes were under the present lease: for other users it may refuse to.
    pub fn find(&self, directory: ObjectId, name: &[u8], by: (u32, u32)) -> Option<Named> {
        let now = Instant::now();
        let may_search = self.cache.may_search(directory, by, now);
        may_search.then(|| self.cache.find(directory, name, now))?
    }

    /// An object, if it is cached.
    pub fn node(&self, object: ObjectId) -> Option<(Node, CacheStamp)> {
        self.cache.node(object, Instant::now())
    }

    /// The present era of an object that is cached, and whether all content that the caller keeps was read in it, as the caller has
    /// [noted](Self::note_content). Such content is the object's present content, except for writes by others that have not
    /// returned yet.
    pub fn content(&self, object: ObjectId) -> Option<(Era, bool)> {
        self.cache.content(object, Instant::now())
    }

    /// Notes that content has been dropped that was kept before this era was [seen](Self::content).
    pub fn note_content(&self, object: ObjectId, era: Era) {
        self.cache.note_content(object, era);
    }

    /// Notes whether the kernel knows this object: only attributes of an object that it knows can
    /// be recalled.
    pub fn note_known(&self, object: ObjectId, is_known: bool) {
        self.cache.note_known(object, is_known);
    }

    /// Passes attributes on that were `seen`, with the time for which the kernel may use them: 0 if their lease has ended since, or if the
    /// kernel does not [know](Self::note_known) the object. A recall waits until `pass` has returned.
    pub fn pass_on<T>(
        &self,
        object: ObjectId,
        seen: Option<CacheStamp>,
        pass: impl FnOnce(Duration) -> T,
    ) -> T {
        let begun = Instant::now();
        let mut given = Duration::ZERO;
        let passed = self.cache.pass_on(object, seen, begun, |time| {
            given = time;
            pass(time)
        });
        // The program was stopped meanwhile: the kernel began to count the time too late.
        if is_late(given, begun.elapsed()) {
            self.report_outdated(&[object]);
        }
        passed
    }

    /// As [`Leases::pass_on`], with names and what they refer to. If there is no lease on one of the names, and the kernel may still give it the time of a former name of its object, fails with the
    /// end of that, as for [renamed names](Self::pass_on_renamed).
    pub fn pass_on_entries<T>(
        &self,
        entries: &[PassedEntry<'_>],
        pass: impl FnOnce(&[EntryTimes]) -> T,
    ) -> Result<T, Instant> {
        let begun = Instant::now();
        let mut given = Vec::new();
        let passed = self.cache.pass_on_entries(entries, begun, |times| {
            given = times.to_vec();
            pass(times)
        })?;
        let gone = begun.elapsed();
        let is_late =
            |times: &EntryTimes| is_late(times.name, gone) || is_late(times.attributes, gone);
        let late = entries.iter().zip(&given);
        let late = late.filter(|(_, times)| is_late(times));
        let mut late = late.map(|(entry, _)| entry).peekable();
        if late.peek().is_some() {
            let now = Instant::now();
            let outdated = late.flat_map(|entry| self.cache.take_back(entry, now));
            (self.recalled)(&outdated.collect::<Vec<_>>());
        }
        Ok(passed)
    }

    /// Passes on that the first name of each pair, which was passed on, was renamed to the second. If there is no lease on a new name that lasts as long as
    /// the former name's time, fails with the end of that time.
    pub fn pass_on_renamed<T>(
        &self,
        names: &[(Place, Place)],
        pass: impl FnOnce() -> T,
    ) -> Result<T, Instant> {
        self.cache.pass_on_renamed(names, Instant::now(), pass)
    }

    /// Reports that outdated attributes of these objects were passed on.
    fn report_outdated(&self, objects: &[ObjectId]) {
        if !objects.is_empty() {
            let until = Instant::now();
            let attributes = |object: &ObjectId| Passed::Attributes {
                object: *object,
                behind: None,
                until: Some(until),
            };
            (self.recalled)(&objects.iter().map(attributes).collect::<Vec<_>>());
        }
    }

    /// Ends all leases: from now on the program caches nothing. Returns once the server knows that,
    /// or does not reply.
    pub fn end(&self) {
        self.cache.stop();
        self.waker.wake();
        // Dropping the value joins the thread.
        let thread = lock(&self.thread).take();
        drop(thread);
    }

    /// Notes that changes of the program's own begin, for which the server sends it no recalls.
    pub(super) fn begin_changes(&self, scopes: &mut [ChangeScope]) {
        let now = Instant::now();
        for scope in scopes {
            self.cache.begin_change(scope, now);
        }
    }

    /// Notes that a change of the program's own has ended.
    pub(super) fn end_change(&self, scope: &mut ChangeScope, left: Option<StateAfter<'_>>) {
        let passed_on = self.cache.end_change(scope, left, Instant::now());
        self.report_outdated(&passed_on);
    }

    /// Notes a change of the program's own of which it is not known whether it is carried out.
    pub(super) fn note_unknown_change(&self) {
        // Without a random number, the next number does as well: no other program has it.
        let holder = random_number().unwrap_or_else(|_| self.cache.holder().wrapping_add(1));
        let passed_on = self.cache.renew_holder_id(holder);
        self.report_outdated(&passed_on);
        self.waker.wake();
    }
}

/// Whether passing attributes on with the time `given` took so long that the kernel would use them
/// for too long.
fn is_late(given: Duration, gone: Duration) -> bool {
    !given.is_zero() && gone > given / 16
}

impl Drop for Leases {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_that_come_late_are_recalled() {
        let given = Duration::from_secs(16);
        assert!(!is_late(given, Duration::from_secs(1)));
        assert!(is_late(
            given,
            Duration::from_secs(1) + Duration::from_nanos(1)
        ));
        assert!(!is_late(Duration::ZERO, given));
    }
}
