//! Names and attributes that are passed on to a receiver that caches them itself, which is the kernel, until their leases expire.

use std::collections::HashMap;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use causeway_wire::fs::{Kind, Leased, ObjectId, Place};

use super::{EndPlace, LeaseCache, MAX_CACHED, State};
use crate::client::cached::{CacheStamp, PassedName};
use crate::locks::lock;

/// Most names that are passed on at a time. Each takes up to some 350 bytes.
pub(super) const MAX_PASSED_NAMES: usize = 1 << 16;

/// A name to pass on, with what it refers to.
#[derive(Debug, Clone, Copy)]
pub struct PassedEntry<'a> {
    /// The directory.
    pub directory: ObjectId,
    /// The name in it.
    pub name: &'a [u8],
    /// What the name refers to, and whether its attributes were cached when they were read; `None` if the name does not
    /// exist.
    pub target: Option<(ObjectId, Option<CacheStamp>)>,
    /// The receiver holds the directory's lock until it has processed what is passed on: so attributes of an object that it does not know can be forgotten under the same lock.
    pub is_locked: bool,
    /// The receiver holds this lock because it is making the name.
    pub is_made: bool,
    /// Only the user for whom the name was looked up uses what is passed on.
    pub is_private: bool,
    /// The receiver knows the object, as it has shown by a request, whether its attributes were cached then or not.
    pub is_known: bool,
    /// The receiver may keep something beside the attributes, an access control list, which it drops only when it asks for attributes or is told to forget them. So if there was a time without a
    /// lease on these, they are not good before it has asked.
    pub keeps_list: bool,
}

/// How long the receiver may use a name, and the attributes of the object that it refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EntryTimes {
    /// Of the name.
    pub name: Duration,
    /// Of the attributes.
    pub attributes: Duration,
}

/// Something that was passed on, and that the receiver must forget before its lease ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Passed {
    /// An object's attributes.
    Attributes {
        /// The object.
        object: ObjectId,
        /// The receiver may not have processed them yet: it does so under the lock of this directory.
        behind: Option<ObjectId>,
        /// When they expire in any case; `None` if the receiver has none, as it was given no time.
        until: Option<Instant>,
    },
    /// A name in a directory.
    Name {
        /// The directory.
        directory: ObjectId,
        /// The name.
        name: Vec<u8>,
        /// When it expires in any case.
        until: Instant,
    },
}

/// How the receiver can be told to forget attributes, beside what the cache knows.
#[derive(Debug, Clone, Copy, Default)]
struct Reach {
    /// It knows the object.
    is_known: bool,
    /// It processes them under the lock of this directory.
    behind: Option<ObjectId>,
}

impl LeaseCache {
    /// Passes attributes on that were `seen`, with the time for which the receiver may use them: 0 if their lease has ended since, or if the
    /// receiver does not [know](Self::note_known) the object, and so could not be told when the lease ends. A recall of the lease waits until
    /// `pass` has returned.
    pub(in crate::client) fn pass_on<T>(
        &self,
        object: ObjectId,
        seen: Option<CacheStamp>,
        now: Instant,
        pass: impl FnOnce(Duration) -> T,
    ) -> T {
        let _passing = self.passing.read().unwrap_or_else(PoisonError::into_inner);
        let place = self.place(&Leased::Attributes(object));
        let good = seen.and_then(|seen| {
            lock(&self.state).good_attributes(object, seen, place, Reach::default(), now)
        });
        pass(good.unwrap_or_default())
    }

    /// As [`LeaseCache::pass_on`], with names and what they refer to. The receiver may use a name for some time only if the name is cached, and its
    /// directory is not changed by both this program and others. Fails, with the moment from which on it does not, if the receiver may still set the time of an earlier name of an object
    /// for one of these names, on which there is no lease.
    pub(in crate::client) fn pass_on_entries<T>(
        &self,
        entries: &[PassedEntry<'_>],
        now: Instant,
        pass: impl FnOnce(&[EntryTimes]) -> T,
    ) -> Result<T, Instant> {
        let _passing = self.passing.read().unwrap_or_else(PoisonError::into_inner);
        let mut state = lock(&self.state);
        let mut times = Vec::with_capacity(entries.len());
        for entry in entries {
            let attributes = entry.target.and_then(|(object, seen)| {
                let place = self.place(&Leased::Attributes(object));
                let is_behind =
                    entry.is_locked && !state.contention.is_contended(entry.directory, now);
                let reach = match entry.keeps_list {
                    true => Reach::default(),
                    false => Reach {
                        is_known: entry.is_known,
                        behind: is_behind.then_some(entry.directory),
                    },
                };
                state.good_attributes(object, seen?, place, reach, now)
            });
            let name = state.good_name(entry, now);
            if name.is_none() {
                state.note_target(entry);
                let late = entry.target.and_then(|(object, _)| state.late.get(&object));
                if let Some(&until) = late.filter(|until| **until > now) {
                    return Err(until);
                }
            }
            times.push(EntryTimes {
                name: name.unwrap_or_default(),
                attributes: attributes.unwrap_or_default(),
            });
        }
        drop(state);
        Ok(pass(&times))
    }

    /// Returns what was passed on too late, and so has to be forgotten; the caller need not wait
    /// for that.
    pub(in crate::client) fn take_back(
        &self,
        entry: &PassedEntry<'_>,
        now: Instant,
    ) -> Vec<Passed> {
        let state = lock(&self.state);
        let name = state.passed_name(entry.directory, entry.name);
        let mut passed = Vec::new();
        passed.extend(name.map(|_| Passed::Name {
            directory: entry.directory,
            name: entry.name.to_vec(),
            until: now,
        }));
        passed.extend(entry.target.map(|(object, _)| Passed::Attributes {
            object,
            behind: state.unsettled.get(&object).copied(),
            until: Some(now),
        }));
        passed
    }

    /// Passes on that a name which was passed on was renamed; the receiver keeps the former name's time for the new one. If there is no lease on the new name
    /// for that long, fails with the end of that time.
    pub(in crate::client) fn pass_on_renamed<T>(
        &self,
        names: &[(Place, Place)],
        now: Instant,
        pass: impl FnOnce() -> T,
    ) -> Result<T, Instant> {
        let _passing = self.passing.read().unwrap_or_else(PoisonError::into_inner);
        let mut state = lock(&self.state);
        let mut moved = Vec::new();
        for (from, to) in names {
            let passed = state.passed_name(from.base, &from.path).copied();
            let Some(passed) = passed.filter(|passed| passed.has_time && passed.until > now) else {
                continue;
            };
            let held = state
                .names
                .get(&to.base)
                .and_then(|names| names.get(&to.path));
            // Others may have changed the name again, so that the lease is on what it refers to now.
            let is_held =
                held.is_some_and(|held| held.until >= passed.until && held.target == passed.target);
            if !is_held {
                return Err(passed.until);
            }
            moved.push((to, passed));
        }
        for (to, passed) in moved {
            if !state.note_passed(to.base, &to.path, passed, now) {
                return Err(passed.until);
            }
        }
        drop(state);
        Ok(pass())
    }

    /// Carries out a recall of leases. Returns what the receiver must forget before the recall is confirmed to the server. Until all of that is
    /// [forgotten](Self::forgotten), names that the receiver still uses may be renamed.
    pub(in crate::client) fn recall(&self, leases: &[Leased], now: Instant) -> Vec<Passed> {
        let _passing = self.passing.write().unwrap_or_else(PoisonError::into_inner);
        let mut state = lock(&self.state);
        state.late.retain(|_, until| *until > now);
        let mut passed = Vec::new();
        for on in leases {
            let is_directory = state.end(self.place(on), on);
            match on {
                Leased::Attributes(object) => {
                    if is_directory || state.contention.knows(*object) {
                        state.contention.note_others(*object, now);
                    }
                    passed.push(Passed::Attributes {
                        object: *object,
                        behind: state.unsettled.get(object).copied(),
                        until: state.passed_on.get(object).copied(),
                    });
                }
                Leased::Entry(directory, name) => {
                    state.evictions += 1;
                    state.contention.note_others(*directory, now);
                    if let Some(known) = state.passed_name(*directory, name).copied() {
                        state.note_late(&known, now);
                        passed.push(Passed::Name {
                            directory: *directory,
                            name: name.clone(),
                            until: known.until,
                        });
                    }
                }
            }
        }
        passed
    }

    /// Notes that the receiver has forgotten what was [recalled](Self::recall).
    pub(in crate::client) fn forgotten(&self, passed: &[Passed]) {
        let mut state = lock(&self.state);
        for passed in passed {
            match passed {
                Passed::Attributes { object, until, .. } => {
                    if until.is_some() && state.passed_on.get(object) == until.as_ref() {
                        state.passed_on.remove(object);
                        state.unsettled.remove(object);
                    }
                }
                Passed::Name {
                    directory,
                    name,
                    until,
                } => state.forget_passed_name(*directory, name, *until),
            }
        }
    }
}

impl State {
    /// For how long the receiver may use a name that is passed on.
    ///
    /// If it holds no lock while it processes the reply, it may do so after it was told to forget the name. That is harmless where it goes by the name no more once it was told, as the kernel does: it removes the
    /// entry from its table, and sets the time of an entry that nobody finds. But the kernel has one entry for each directory, which it moves to the name under which it finds the directory next
    /// ([`State::note_late`]).
    fn good_name(&mut self, entry: &PassedEntry<'_>, now: Instant) -> Option<Duration> {
        if self.contention.is_contended(entry.directory, now) {
            return None;
        }
        let cached = *self.names.get(&entry.directory)?.get(entry.name)?;
        let good = cached.until.saturating_duration_since(now);
        let is_for_user = cached.for_all_users || (entry.is_private && cached.may_be_renamed);
        let is_same = cached.target == entry.target.map(|(object, _)| object);
        if good.is_zero() || !is_for_user || !is_same {
            return None;
        }
        // The kernel counts the time from the arrival of the reply.
        let margin = good / 8;
        let is_movable = !entry.is_locked
            && entry.target.is_none_or(|(object, _)| {
                let known = self.nodes.get(&object);
                known.is_none_or(|known| known.node.attributes.kind == Kind::Directory)
            });
        let passed = PassedName {
            target: cached.target,
            until: cached.until,
            has_time: true,
            late_until: is_movable.then(|| now + margin),
        };
        self.note_passed(entry.directory, entry.name, passed, now)
            .then(|| good - margin)
    }

    /// Notes that the receiver is about to be told to forget a name. If it may not have processed a reply yet that gave the name some time, it may set that time for another name of the object.
    fn note_late(&mut self, known: &PassedName, now: Instant) {
        if let (Some(object), Some(until)) = (known.target, known.late_until)
            && until > now
        {
            let late = self.late.entry(object).or_insert(until);
            *late = until.max(*late);
        }
    }

    /// Notes what a name refers to that is passed on without any time: it may have been passed on
    /// with some before, referring to something else.
    fn note_target(&mut self, entry: &PassedEntry<'_>) {
        let names = self.passed_names.get_mut(&entry.directory);
        if let Some(known) = names.and_then(|names| names.get_mut(entry.name)) {
            known.target = entry.target.map(|(object, _)| object);
            known.has_time &= !entry.is_made;
        }
    }

    fn passed_name(&self, directory: ObjectId, name: &[u8]) -> Option<&PassedName> {
        self.passed_names.get(&directory)?.get(name)
    }

    /// Notes that a name is passed on. Returns whether there is room for it.
    fn note_passed(
        &mut self,
        directory: ObjectId,
        name: &[u8],
        passed: PassedName,
        now: Instant,
    ) -> bool {
        if self.passed_name_count >= MAX_PASSED_NAMES {
            self.passed_names.retain(|_, names| {
                names.retain(|_, passed| passed.until > now);
                !names.is_empty()
            });
            self.passed_name_count = self.passed_names.values().map(HashMap::len).sum();
            if self.passed_name_count >= MAX_PASSED_NAMES {
                return false;
            }
        }
        let names = self.passed_names.entry(directory).or_default();
        match names.get_mut(name) {
            Some(known) => {
                // The receiver uses the earlier time until it has processed the later one.
                known.until = known.until.max(passed.until);
                known.target = passed.target;
                known.has_time = passed.has_time;
                known.late_until = known.late_until.max(passed.late_until);
            }
            None => {
                names.insert(name.to_vec(), passed);
                self.passed_name_count += 1;
            }
        }
        true
    }

    /// Notes that the receiver has forgotten a name that it might have used until this moment.
    fn forget_passed_name(&mut self, directory: ObjectId, name: &[u8], until: Instant) {
        let Some(names) = self.passed_names.get_mut(&directory) else {
            return;
        };
        if names.get(name).is_some_and(|known| known.until == until) {
            names.remove(name);
            self.passed_name_count -= 1;
        }
        if names.is_empty() {
            self.passed_names.remove(&directory);
        }
    }

    /// For how long the receiver may use attributes that are passed on. It may not use them at all if it could not be told to forget them. It
    /// can be told if it knows the object, or if it processes them under the lock of a directory.
    fn good_attributes(
        &mut self,
        object: ObjectId,
        seen: CacheStamp,
        place: EndPlace,
        Reach { is_known, behind }: Reach,
        now: Instant,
    ) -> Option<Duration> {
        if !self.is_current(seen.ends, place) {
            return None;
        }
        let cached = self.nodes.get(&object)?;
        let good = cached.until.saturating_duration_since(now);
        let is_known = is_known || cached.is_known;
        if good.is_zero() || (!is_known && behind.is_none()) {
            return None;
        }
        let until = cached.until;
        if self.passed_on.len() >= MAX_CACHED && !self.passed_on.contains_key(&object) {
            self.passed_on.retain(|_, until| *until > now);
            if self.passed_on.len() >= MAX_CACHED {
                return None;
            }
        }
        self.passed_on.insert(object, until);
        if let Some(behind) = behind.filter(|_| !is_known) {
            self.unsettled.insert(object, behind);
        }
        // The kernel counts the time from the arrival of the reply.
        Some(good - good / 8)
    }
}
