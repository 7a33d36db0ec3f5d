//! The position of a process in a communicator.

use crate::abi;

/// The rank of this process and the number of processes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position {
    pub(crate) rank: u32,
    pub(crate) size: u32,
}

impl Position {
    /// This rank, counted from the root as rank 0.
    pub(crate) fn relative_to(self, root: u32) -> u32 {
        (self.rank + self.size - root) % self.size
    }

    /// The rank that corresponds to a relative one.
    pub(crate) fn absolute(self, relative: u32, root: u32) -> u32 {
        (relative + root) % self.size
    }

    pub(crate) fn next(self) -> u32 {
        (self.rank + 1) % self.size
    }

    pub(crate) fn previous(self) -> u32 {
        (self.rank + self.size - 1) % self.size
    }
}

/// This process's position in a communicator of one or two groups.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Positions {
    /// The process's position in the local group.
    pub(crate) local: Position,
    /// The number of processes in the remote group, if there is one.
    pub(crate) remote: Option<u32>,
    /// Whether the local group comes first.
    pub(crate) is_first: bool,
}

impl Positions {
    /// Whether this process is the root that is named so.
    pub(crate) fn is_root(self, root: i32) -> bool {
        match self.remote {
            Some(_) => root == abi::ROOT,
            None => u32::try_from(root) == Ok(self.local.rank),
        }
    }

    /// The rank that this process has among those that it exchanges data with; none if they are another group.
    pub(crate) fn own(self) -> Option<u32> {
        self.remote.is_none().then_some(self.local.rank)
    }

    /// The process's place among those of both groups, and the rotation ([`crate::steps::Steps::rotate`]) with which steps
    /// count ranks there. These ranks are the same on both sides.
    pub(crate) fn all(self) -> (Position, (u32, u32)) {
        let remote = self.remote.unwrap_or(0);
        let size = self.local.size + remote;
        let (before, first) = if self.is_first {
            (0, remote)
        } else {
            (remote, 0)
        };
        let rank = before + self.local.rank;
        (Position { rank, size }, (first, size))
    }

    /// The rotation with which steps count ranks in the local group.
    pub(crate) fn within(self) -> (u32, u32) {
        let remote = self.remote.unwrap_or(0);
        (remote, remote + self.local.size)
    }
}
