//! Epochs: which accesses a process may make now (MPI 5.0 §12.5).

use crate::abi;
use crate::error::{Error, Result};

/// What a process may do with a window now.
#[derive(Debug, Default)]
pub(super) struct Epoch {
    /// Between two fences.
    pub(super) fence: bool,
    /// Those whose memory was opened to this process.
    pub(super) started: Option<Vec<u32>>,
    /// Those that this process's memory is open to.
    pub(super) posted: Option<Vec<u32>>,
    /// The locks that this process has: whether each is exclusive.
    pub(super) locks: Vec<Option<bool>>,
    pub(super) locked: u32,
    /// It has all of them, shared.
    pub(super) locked_all: bool,
}

#[cold]
pub(super) fn wrong(text: impl Into<String>) -> Error {
    Error::new(abi::ERR_RMA_SYNC, text)
}

impl Epoch {
    pub(super) fn new(ranks: u32) -> Self {
        Self {
            locks: vec![None; ranks as usize],
            ..Self::default()
        }
    }

    /// Whether the target's lock is held.
    #[inline(always)]
    pub(super) fn is_locked(&self, rank: u32) -> bool {
        self.locked_all || self.locks[rank as usize].is_some()
    }

    /// The same for a rank that may be none.
    #[inline(always)]
    pub(super) fn is_locked_one(&self, rank: i32) -> bool {
        let lock = usize::try_from(rank)
            .ok()
            .and_then(|rank| self.locks.get(rank));
        lock.is_some_and(|lock| self.locked_all || lock.is_some())
    }

    /// Whether there is any epoch of locks.
    #[inline]
    pub(super) fn is_passive(&self) -> bool {
        self.locked_all || self.locked > 0
    }

    /// Whether a rank's memory may be accessed.
    #[inline(always)]
    pub(super) fn is_open(&self, rank: u32) -> bool {
        self.is_locked(rank) || self.is_active(rank)
    }

    #[inline]
    pub(super) fn check_access(&self, rank: u32, is_request: bool) -> Result<()> {
        let is_open = self.is_locked(rank) || !is_request && self.is_active(rank);
        if is_open {
            return Ok(());
        }
        Err(wrong(match is_request {
            true => format!("requests need the lock of rank {rank}, which is not held"),
            false => format!("there is no epoch for accesses to rank {rank}"),
        }))
    }

    #[inline(never)]
    fn is_active(&self, rank: u32) -> bool {
        let started = self.started.as_ref();
        self.fence || started.is_some_and(|started| started.contains(&rank))
    }

    /// An error unless the lock of a rank, or of all, is held.
    #[inline]
    pub(super) fn check_passive(&self, rank: Option<u32>) -> Result<()> {
        let is_held = rank.map_or(self.is_passive(), |rank| self.is_locked(rank));
        match is_held {
            true => Ok(()),
            false => Err(wrong("no lock is held")),
        }
    }

    /// An error if a lock cannot be taken in this state.
    pub(super) fn check_lock(&self, rank: Option<u32>) -> Result<()> {
        let is_taken = self.locked_all
            || rank.map_or(self.locked > 0, |rank| self.locks[rank as usize].is_some());
        if is_taken {
            return Err(wrong("the lock is held already"));
        }
        match self.started {
            None => Ok(()),
            Some(_) => Err(wrong("an epoch that MPI_Win_start began is not complete")),
        }
    }

    /// An error if any epoch is left to be ended.
    pub(super) fn check_over(&self) -> Result<()> {
        match self.is_passive() || self.started.is_some() || self.posted.is_some() {
            true => Err(wrong("an epoch is not over")),
            false => Ok(()),
        }
    }
}
