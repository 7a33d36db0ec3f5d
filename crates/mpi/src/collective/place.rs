//! Where a process stands among those of a communicator.

/// The rank of this process and the number of processes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) rank: u32,
    pub(crate) size: u32,
}

impl Place {
    /// This rank, where the root is rank 0.
    pub(crate) fn relative_to(self, root: u32) -> u32 {
        (self.rank + self.size - root) % self.size
    }

    /// The rank of a relative one.
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
