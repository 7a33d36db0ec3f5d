//! What was changed in a file and not synced, as the file's next fsync has to know of it.

use causeway_wire::fs::Reach;

use super::verifiers::Verifier;

/// The changes of a file that no fsync has made durable.
#[derive(Debug, Clone, Default)]
pub struct Unsynced {
    /// Where they were made. There are few servers, so they are found one after the other.
    at: Vec<ChangedAt>,
    pub(super) written: Option<Written>,
}

/// What is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Changed {
    Content,
    Attributes,
}

/// Changes at a server.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChangedAt {
    /// Its index in the configuration.
    pub(super) server: usize,
    /// Its verifier before the first of them.
    pub(super) before: Verifier,
    pub(super) what: Changed,
    /// One of them was acknowledged. Before that the verifier may be older than any of them.
    is_done: bool,
}

impl Unsynced {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    /// Where changes were made.
    pub(super) fn at(&self) -> &[ChangedAt] {
        &self.at
    }

    /// Adds changes of the same file that were recorded elsewhere, before these or after.
    pub fn add(&mut self, other: Self) {
        for changed in other.at {
            // Of several verifiers of a server, all but one are of the past for good: the next fsync finds a loss, whichever is asked first.
            let is_known = |known: &ChangedAt| {
                (known.server, known.what) == (changed.server, changed.what)
                    && known.before == changed.before
            };
            match self.at.iter_mut().find(|known| is_known(known)) {
                Some(known) => known.is_done |= changed.is_done,
                None => self.at.push(changed),
            }
        }
        self.written = match (self.written.take(), other.written) {
            (Some(one), Some(two)) => Some(one.with(two)),
            (one, two) => one.or(two),
        };
    }

    /// The changes at a server.
    pub(super) fn of(&self, server: usize) -> impl Iterator<Item = &ChangedAt> {
        self.at
            .iter()
            .filter(move |changed| changed.server == server)
    }

    /// Notes a change at a server, before it is made. Only the first one's verifier matters.
    pub(super) fn note(&mut self, server: usize, before: Verifier, what: Changed) {
        let is_same = |known: &ChangedAt| (known.server, known.what) == (server, what);
        if !self.at.iter().any(is_same) {
            self.at.push(ChangedAt {
                server,
                before,
                what,
                is_done: false,
            });
        }
    }

    /// Whether no change of this kind at a server was acknowledged yet.
    pub(super) fn is_first(&self, server: usize, what: Changed) -> bool {
        let is_open =
            |known: &ChangedAt| (known.server, known.what, known.is_done) == (server, what, false);
        self.at.iter().any(is_open)
    }

    /// Notes that a change was acknowledged, under the verifier `found` if that is known. If it is of a later boot, it replaces that of the first change.
    pub(super) fn note_done(&mut self, server: usize, found: Option<Verifier>, what: Changed) {
        for changed in &mut self.at {
            if (changed.server, changed.what, changed.is_done) != (server, what, false) {
                continue;
            }
            changed.is_done = true;
            if let Some(found) = found
                && found.is_whole_boot_after(&changed.before)
            {
                changed.before = found;
            }
        }
    }
}

/// The bytes that a handle has written since its last fsync.
#[derive(Debug, Clone)]
pub(super) struct Written {
    /// The byte behind the last one written.
    pub(super) end: u64,
    /// The last truncation before these writes.
    pub(super) version: Version,
    /// How far each datafile was written.
    pub(super) reached: Vec<Reach>,
    /// All bytes from here to `end` were written.
    pub(super) from: u64,
}

impl Written {
    /// Adds a write of all bytes from `from` to `end`.
    pub(super) fn note(&mut self, (from, end): (u64, u64), reached: &[Reach]) {
        self.from = match from <= self.end && self.from <= end {
            true => self.from.min(from),
            false => self.from.max(from),
        };
        self.end = self.end.max(end);
        for reach in reached {
            let mut known = self.reached.iter_mut();
            match known.find(|known| known.position == reach.position) {
                Some(known) => known.end = known.end.max(reach.end),
                None => self.reached.push(*reach),
            }
        }
    }

    /// Both of these: writes before the last truncation do not matter.
    pub(super) fn with(self, other: Self) -> Self {
        if self.version != other.version {
            return match self.version.0 < other.version.0 {
                true => other,
                false => self,
            };
        }
        let mut both = self;
        both.note((other.from, other.end), &other.reached);
        both
    }
}

/// The last truncation of a striped file, and one that is still to be completed.
pub(super) type Version = (u64, Option<u64>);

#[cfg(test)]
mod tests {
    use causeway_wire::fs::Target;

    use super::*;
    use crate::client::link::Known;

    fn verifier(boot: u128) -> Verifier {
        Verifier::of(&Known {
            target: Target::default(),
            boot,
            failed_syncs: 0,
        })
    }

    fn written(version: u64, (from, end): (u64, u64), position: u16) -> Unsynced {
        let reach = Reach { position, end };
        Unsynced {
            written: Some(Written {
                end,
                version: (version, None),
                reached: vec![reach],
                from,
            }),
            ..Unsynced::default()
        }
    }

    #[test]
    fn records_of_the_same_file_are_united_whichever_is_the_earlier_one() {
        let one = || written(1, (0, 10), 0);
        let two = || written(1, (10, 30), 1);
        for (mut first, second) in [(one(), two()), (two(), one())] {
            first.add(second);
            let written = first.written.unwrap();
            assert_eq!((written.from, written.end), (0, 30));
            assert_eq!(written.reached.len(), 2);
        }
        // The file was truncated in between.
        let later = || written(2, (0, 5), 0);
        for (mut first, second) in [(one(), later()), (later(), one())] {
            first.add(second);
            assert_eq!(first.written.unwrap().end, 5);
        }
        for boots in [[1, 2], [2, 1]] {
            let mut first = Unsynced::default();
            first.note(3, verifier(boots[0]), Changed::Content);
            let mut second = Unsynced::default();
            second.note(3, verifier(boots[1]), Changed::Content);
            first.add(second);
            let lost = |changed: &ChangedAt| changed.before.loss(&verifier(2)).is_some();
            assert!(first.at().iter().any(lost));
        }
    }
}
