//! Fences, post and start, flushes: when accesses may begin, and when they are done (MPI 5.0 §12.5).

use std::sync::atomic::Ordering::AcqRel;
use std::sync::atomic::fence;

use causeway_wire::window::Notice;

use super::epoch::wrong;
use super::state::{Flavor, Window};
use crate::abi;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::process::{Active, Process, Waited};

impl Window {
    /// The ranks of a group's processes.
    fn ranks_of(&self, group: &Group) -> Result<Vec<u32>> {
        let rank = |member: &u32| {
            self.group.rank_of(*member).ok_or_else(|| {
                let text = "the group has processes that the window does not have";
                Error::new(abi::ERR_GROUP, text)
            })
        };
        group.members().iter().map(rank).collect()
    }
}

impl Window {
    /// Orders accesses to memory that is reached directly with all later ones, but for changes with later loads: the next access that loads does
    /// that ([`Windows::order_loads`](super::state::Windows)), so that a flush behind a short put takes no full fence. Returns whether progress is to be
    /// made: a process that waits for others by looking at memory again and again does its part for them, too.
    #[inline]
    fn order(&mut self) -> bool {
        // Programs load from and store into a shared window without any call, and may rely on more.
        if self.flavor == Flavor::Shared {
            causeway_sys::membarrier::full();
        } else {
            fence(AcqRel);
        }
        self.flushes = self.flushes.wrapping_add(1);
        self.flushes.is_multiple_of(FLUSHES)
    }
}

impl Process {
    /// Starts the barrier of a fence: the accesses that this process has begun are done.
    pub fn fence(&mut self, handle: usize, assertion: i32) -> Result<Active> {
        let window = self.window_mut(handle)?;
        window.epoch.check_over()?;
        window.epoch.fence = assertion & abi::MODE_NOSUCCEED == 0;
        let communicator = window.communicator;
        let steps = self.barrier(communicator)?;
        self.begin(steps.called("MPI_Win_fence"))
    }

    /// Waits for a collective operation of a window. A death is an error for all, also for those that wait for one that lives.
    pub fn wait_for_all(&mut self, handle: usize, active: &mut Active) -> Result<Waited<()>> {
        let done = self.wait_until_ready(|process| {
            process.handle_notices();
            let done = process.poll(active)?.map(|_| ());
            match done {
                None => process.take_error(handle).map(|()| None),
                done => Ok(done),
            }
        });
        if done.is_err() {
            self.notify_broken(handle)?;
        }
        done
    }

    /// Opens this process's memory to a group's.
    pub fn post(&mut self, handle: usize, group: &Group) -> Result<()> {
        let window = self.window_mut(handle)?;
        if window.epoch.posted.is_some() {
            return Err(wrong("the window is open already"));
        }
        let ranks = window.ranks_of(group)?;
        window.epoch.posted = Some(ranks.clone());
        let number = window.number;
        for rank in ranks {
            self.notify_rank(handle, rank, &Notice::Posted { window: number })?;
        }
        Ok(())
    }

    /// Begins accesses to a group's memory, as soon as all have opened theirs.
    pub fn start_epoch(&mut self, handle: usize, group: &Group) -> Result<Waited<()>> {
        let window = self.window(handle)?;
        if window.epoch.started.is_some() {
            return Err(wrong("an epoch was started already"));
        }
        if window.epoch.is_passive() {
            return Err(wrong("a lock is held"));
        }
        let ranks = window.ranks_of(group)?;
        self.wait_on_window(handle, &ranks.clone(), |process| {
            let window = process.window_mut(handle)?;
            let has_posted = |rank: &u32| window.others[*rank as usize].posted > 0;
            if !ranks.iter().all(has_posted) {
                return Ok(None);
            }
            for rank in &ranks {
                window.others[*rank as usize].posted -= 1;
            }
            window.epoch.started = Some(ranks.clone());
            Ok(Some(()))
        })
    }

    /// Ends the accesses that [`Process::start_epoch`] began, behind a flush of all.
    pub fn complete(&mut self, handle: usize) -> Result<()> {
        let window = self.window_mut(handle)?;
        let Some(started) = window.epoch.started.take() else {
            return Err(wrong("MPI_Win_start was not called"));
        };
        let number = window.number;
        for rank in started {
            self.notify_rank(handle, rank, &Notice::Completed { window: number })?;
        }
        Ok(())
    }

    /// Fails unless there is an epoch for [`Process::complete`] to end.
    pub fn check_started(&self, handle: usize) -> Result<()> {
        match self.window(handle)?.epoch.started {
            Some(_) => Ok(()),
            None => Err(wrong("MPI_Win_start was not called")),
        }
    }

    /// Closes this process's memory if all that it was opened to have completed their accesses.
    fn try_close(&mut self, handle: usize) -> Result<Option<()>> {
        let window = self.window_mut(handle)?;
        let Some(posted) = &window.epoch.posted else {
            return Err(wrong("MPI_Win_post was not called"));
        };
        let has_completed = |rank: &u32| window.others[*rank as usize].completed > 0;
        if !posted.iter().all(has_completed) {
            return Ok(None);
        }
        for rank in posted {
            window.others[*rank as usize].completed -= 1;
        }
        window.epoch.posted = None;
        Ok(Some(()))
    }

    /// Waits until this process's memory is closed.
    pub fn close(&mut self, handle: usize) -> Result<Waited<()>> {
        let posted = self.window(handle)?.epoch.posted.clone();
        self.wait_on_window(handle, &posted.unwrap_or_default(), |process| {
            process.try_close(handle)
        })
    }

    /// Whether this process's memory is closed now.
    pub fn test_closed(&mut self, handle: usize) -> Result<Waited<Option<()>>> {
        self.look(|process| {
            process.handle_notices();
            let closed = process.try_close(handle)?;
            if closed.is_none() {
                process.check_members(handle)?;
            }
            Ok(closed)
        })
    }

    /// Does a flush at once if it is allowed and has nothing to wait for. Returns whether it was
    /// done.
    #[inline(always)]
    pub fn flush_now(&mut self, handle: usize, rank: Option<i32>) -> bool {
        let Some(window) = self.windows.table.find_mut(handle) else {
            return false;
        };
        let is_allowed = match rank {
            Some(rank) => window.epoch.is_locked_one(rank),
            None => window.epoch.is_passive(),
        };
        let is_now = is_allowed && window.is_direct();
        if is_now && window.order() {
            self.progress();
        }
        is_now
    }

    /// Waits until the accesses that this process has begun are done at their targets: at one rank, or at all.
    #[inline]
    pub fn flush(&mut self, handle: usize, rank: Option<i32>) -> Result<Waited<()>> {
        let window = self.window_mut(handle)?;
        let rank = rank.map(|rank| window.check_rank(rank)).transpose()?;
        let is_direct = window.is_direct();
        // Also where there is nothing to wait for: a process may flush its own accesses until another one's are seen.
        if window.order() {
            self.progress();
        }
        if is_direct {
            return Ok(Waited::Done(()));
        }
        self.flush_notices(handle, rank)
    }

    #[cold]
    fn flush_notices(&mut self, handle: usize, rank: Option<u32>) -> Result<Waited<()>> {
        self.wait_until_ready(|process| {
            process.take_error(handle)?;
            match process.is_flushed(handle, rank)? {
                true => process.take_error(handle).map(Some),
                false => process.check_members(handle).map(|()| None),
            }
        })
    }

    /// Fails unless a lock of a rank, or of any, is held, as flushes of programs require.
    #[inline]
    pub fn check_flush(&self, handle: usize, rank: Option<i32>) -> Result<()> {
        let window = self.window(handle)?;
        let rank = rank.map(|rank| window.check_rank(rank)).transpose()?;
        window.epoch.check_passive(rank)
    }

    /// Orders this process's own loads and stores with those of others (MPI 5.0 §12.5.4).
    pub fn synchronize(&mut self, handle: usize) -> Result<()> {
        self.window(handle)?;
        causeway_sys::membarrier::full();
        self.progress();
        Ok(())
    }

    /// Takes the error of accesses since the last call.
    pub(super) fn take_error(&mut self, handle: usize) -> Result<()> {
        self.window_mut(handle)?.error.take().map_or(Ok(()), Err)
    }
}

/// Of this many flushes in memory that is reached directly, one makes progress with messages.
const FLUSHES: u32 = 64;
