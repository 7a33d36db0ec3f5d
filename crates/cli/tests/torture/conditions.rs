//! Which failures are allowed at the moment.

use causeway_wire::fs::Errno;

use crate::names::Names;
use crate::plan::Spread;

/// What a fault excuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Excuse {
    /// Nothing: clients must not notice.
    Nothing,
    /// Requests to the server fail, and nothing is known of them.
    Away,
    /// The server is there with something wrong, or has refused to start. Nothing is written to it, as all
    /// that it does is undone when the right directory comes back.
    Wrong,
    /// Writing fails for lack of room.
    Full,
    /// The metadata are older than the data, for good: what clients find is old, or they fail.
    Restored,
}

/// The fault that is in force.
pub(crate) struct Conditions {
    pub(crate) excuse: Excuse,
    /// The server concerned, as the configuration counts.
    pub(crate) server: usize,
    /// The fault ends by itself while clients work: patience helps.
    pub(crate) passes: bool,
    /// The server has said that something is lost: it may do without it, now that it is said.
    pub(crate) admitted: bool,
    /// Another state of what clients know: when the older copy was made that a server works with, or before
    /// an older copy was put back. A file's bytes may be those of either.
    pub(crate) older: Option<Vec<Names>>,
}

impl Conditions {
    /// Nothing goes wrong.
    pub(crate) fn no_fault() -> Self {
        Self {
            excuse: Excuse::Nothing,
            server: 0,
            passes: false,
            admitted: false,
            older: None,
        }
    }

    /// Whether the fault concerns the names, or the data of a file that lies there.
    pub(crate) fn concerns(&self, spread: Option<Spread>) -> bool {
        self.excuse != Excuse::Nothing
            && match spread {
                _ if self.server == 0 => true,
                Some(Spread::Both) => true,
                Some(Spread::On(number)) => usize::from(number) + 1 == self.server,
                None => false,
            }
    }

    /// Whether a change may be tried: not if its effect would be undone with the fault.
    pub(crate) fn may_change(&self, spread: Option<Spread>) -> bool {
        self.excuse != Excuse::Wrong || !self.concerns(spread)
    }

    /// Whether clients should be patient.
    pub(crate) fn patient(&self, spread: Option<Spread>) -> bool {
        matches!(self.excuse, Excuse::Nothing | Excuse::Full) || !self.concerns(spread)
    }

    /// Whether this failure is excused.
    pub(crate) fn excuses(&self, spread: Option<Spread>, errno: Errno) -> bool {
        if !self.concerns(spread) {
            return false;
        }
        match self.excuse {
            Excuse::Nothing => false,
            Excuse::Full => errno == Errno::ENOSPC,
            Excuse::Restored => errno != Errno::ENOENT,
            // What is not there cannot be known from a server that is not there.
            Excuse::Away | Excuse::Wrong => !matches!(
                errno,
                Errno::ENOENT | Errno::EEXIST | Errno::ENOTDIR | Errno::EISDIR
            ),
        }
    }

    /// Whether a verb may fail.
    pub(crate) fn excuses_verb(&self, spread: Option<Spread>) -> bool {
        self.concerns(spread)
    }
}
