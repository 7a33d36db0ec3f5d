//! Directories that both this program and others change.
//!
//! Names in them are not passed on to the kernel. The kernel forgets a name under the lock of the name's directory, which it also holds while a program of
//! this host changes that directory. Such a change may wait until another host's kernel has forgotten a name there, while a change on that host waits for
//! this one's kernel.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use causeway_wire::fs::ObjectId;

/// For how long a change is considered recent.
const COUNTS: Duration = Duration::from_secs(60);
/// Most directories that are remembered.
const MAX_DIRECTORIES: usize = 1 << 12;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Contention {
    directories: HashMap<ObjectId, Changes>,
}

/// When a directory was changed last.
#[derive(Debug, Default, Clone, Copy)]
struct Changes {
    own: Option<Instant>,
    others: Option<Instant>,
}

impl Changes {
    fn counts(at: Option<Instant>, now: Instant) -> bool {
        at.is_some_and(|at| now < at + COUNTS)
    }
}

impl Contention {
    /// Notes that this program changes a directory.
    pub(super) fn note_own(&mut self, directory: ObjectId, now: Instant) {
        self.changes(directory, now).own = Some(now);
    }

    /// Notes that another program changes a directory.
    pub(super) fn note_others(&mut self, directory: ObjectId, now: Instant) {
        self.changes(directory, now).others = Some(now);
    }

    /// Whether this program or another one has changed the object, as a directory, lately, as far
    /// as is remembered.
    pub(super) fn knows(&self, object: ObjectId) -> bool {
        self.directories.contains_key(&object)
    }

    /// Whether both this program and another one change the directory.
    pub(super) fn is_contended(&self, directory: ObjectId, now: Instant) -> bool {
        let changes = self.directories.get(&directory);
        changes.is_some_and(|changes| {
            Changes::counts(changes.own, now) && Changes::counts(changes.others, now)
        })
    }

    fn changes(&mut self, directory: ObjectId, now: Instant) -> &mut Changes {
        if self.directories.len() >= MAX_DIRECTORIES && !self.directories.contains_key(&directory) {
            self.directories.retain(|_, changes| {
                Changes::counts(changes.own, now) || Changes::counts(changes.others, now)
            });
            if self.directories.len() >= MAX_DIRECTORIES {
                // A directory that is no longer remembered costs at most one wait for the time of a
                // name.
                self.directories.clear();
            }
        }
        self.directories.entry(directory).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_contended_for_a_while_after_both_have_changed_it() {
        let now = Instant::now();
        let (one, other) = (ObjectId(5), ObjectId(6));
        let mut contention = Contention::default();
        contention.note_own(one, now);
        contention.note_others(other, now);
        assert!(!contention.is_contended(one, now) && !contention.is_contended(other, now));
        contention.note_others(one, now + COUNTS / 2);
        assert!(contention.is_contended(one, now + COUNTS / 2));
        assert!(!contention.is_contended(one, now + COUNTS));
        contention.note_own(one, now + COUNTS);
        assert!(contention.is_contended(one, now + COUNTS));
    }

    #[test]
    fn it_is_bounded() {
        let now = Instant::now();
        let mut contention = Contention::default();
        for number in 0..3 * MAX_DIRECTORIES as u64 {
            contention.note_own(ObjectId(number), now);
            contention.note_others(ObjectId(number), now);
            assert!(contention.is_contended(ObjectId(number), now));
            assert!(contention.directories.len() <= MAX_DIRECTORIES);
        }
    }
}
