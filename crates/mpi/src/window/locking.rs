//! Locks (MPI 5.0 §12.5.3), of memory in an area and of processes' own.

use causeway_engine::{Awaited, SharedMemoryStep, SharedMemoryWait};
use causeway_wire::window::Notice;

use super::state::WindowMemory;
use crate::error::Result;
use crate::process::{Process, Waited};

impl Process {
    /// Asks for the lock of a rank, or the shared ones of all. Then [`Process::await_lock`].
    pub fn request_lock(
        &mut self,
        handle: usize,
        rank: Option<i32>,
        exclusive: bool,
    ) -> Result<()> {
        let window = self.window(handle)?;
        let rank = rank.map(|rank| window.check_rank(rank)).transpose()?;
        window.epoch.check_lock(rank)?;
        if window.is_direct() {
            return Ok(());
        }
        let (window, all) = (window.number, window.group.size());
        for rank in rank.map_or(0..all, |rank| rank..rank + 1) {
            self.notify_rank(handle, rank, &Notice::Lock { window, exclusive })?;
        }
        Ok(())
    }

    /// Waits for the requested lock of a rank, or those of all.
    #[inline]
    pub fn await_lock(
        &mut self,
        handle: usize,
        rank: Option<i32>,
        exclusive: bool,
    ) -> Result<Waited<()>> {
        if self.try_locks(handle, rank, exclusive)? {
            return Ok(Waited::Done(()));
        }
        self.await_locks(handle, rank, exclusive)
    }

    #[cold]
    fn await_locks(
        &mut self,
        handle: usize,
        rank: Option<i32>,
        exclusive: bool,
    ) -> Result<Waited<()>> {
        if let WindowMemory::Area(_) = self.window(handle)?.place {
            let waited = self.look_for_locks(handle, rank, exclusive);
            match waited {
                Ok(Waited::NotYet(_)) => {}
                Err(_) => {
                    self.give_up_locks(handle, rank)?;
                    return waited;
                }
                Ok(Waited::Done(()) | Waited::Call(_)) => return waited,
            }
        }
        // The holders of a shared lock are not recorded: all ranks are watched.
        let all = Vec::from_iter(0..self.window(handle)?.group.size());
        let done = self.wait_on_window(handle, &all, |process| {
            if process.try_locks(handle, rank, exclusive)? {
                return Ok(Some(()));
            }
            let window = process.window(handle)?;
            if let WindowMemory::Area(area) = &window.place {
                match rank {
                    Some(rank) => area.wait(rank as u32, window.rank),
                    None => (0..window.group.size()).for_each(|of| area.wait(of, window.rank)),
                }
            }
            // It may have become free before that was seen.
            Ok(process.try_locks(handle, rank, exclusive)?.then_some(()))
        });
        self.endpoint.end_notified_wait();
        if done.is_err() {
            self.give_up_locks(handle, rank)?;
        }
        done
    }

    /// Releases those locks of a failed call that it has taken, and those that it has requested as soon as they are granted. Locks of earlier calls stay.
    #[cold]
    fn give_up_locks(&mut self, handle: usize, rank: Option<i32>) -> Result<()> {
        let window = self.window(handle)?;
        let (number, is_direct) = (window.number, window.is_direct());
        for rank in rank.map_or(0..window.group.size(), |rank| rank as u32..rank as u32 + 1) {
            let window = self.window_mut(handle)?;
            let other = &mut window.others[rank as usize];
            if window.epoch.locks[rank as usize].is_some() {
                self.release_lock(handle, rank)?;
            } else if std::mem::take(&mut other.is_granted) {
                self.notify_rank(handle, rank, &Notice::Unlock { window: number })?;
            } else if !is_direct {
                other.given_up += 1;
            }
        }
        // The program may call again until it has them, and others may have to release them first.
        self.progress();
        Ok(())
    }

    /// Tries to take locks that lie in shared memory, as long as that is worth it.
    fn look_for_locks(
        &mut self,
        handle: usize,
        rank: Option<i32>,
        exclusive: bool,
    ) -> Result<Waited<()>> {
        for _ in 0..self.endpoint.first_looks(Awaited::Lock, self.has_threads) {
            std::hint::spin_loop();
            if self.try_locks(handle, rank, exclusive)? {
                self.endpoint.came_at_once(Awaited::Lock);
                return Ok(Waited::Done(()));
            }
        }
        if self.has_threads {
            return Ok(Waited::NotYet(None));
        }
        self.watch_memory(Awaited::Lock, |process| {
            Ok(process.try_locks(handle, rank, exclusive)?.then_some(()))
        })
    }

    /// Takes the locks that are free. Returns whether all are held.
    #[inline]
    fn try_locks(&mut self, handle: usize, rank: Option<i32>, exclusive: bool) -> Result<bool> {
        let window = self.window_mut(handle)?;
        let all = window.group.size();
        let ranks = match rank {
            Some(rank) => rank as u32..rank as u32 + 1,
            None => 0..all,
        };
        for rank in ranks {
            if window.epoch.locks[rank as usize].is_some() {
                continue;
            }
            let is_held = match &window.place {
                WindowMemory::Area(area) => area.try_lock(rank, window.rank, exclusive).is_ok(),
                _ => window.others[rank as usize].is_granted,
            };
            if !is_held {
                return Ok(false);
            }
            window.epoch.locks[rank as usize] = Some(exclusive);
            window.epoch.locked += 1;
        }
        if rank.is_none() {
            window.epoch.locked_all = true;
        }
        Ok(true)
    }

    /// Releases the lock of a rank, or those of all, after a flush. The caller has called [`Process::check_unlock`].
    pub fn unlock(&mut self, handle: usize, rank: Option<i32>) -> Result<()> {
        match rank {
            Some(rank) => self.release_lock(handle, rank as u32),
            None => {
                self.window_mut(handle)?.epoch.locked_all = false;
                self.release_locks(handle)
            }
        }
    }

    /// An error unless this process holds the locks that [`Process::unlock`] would release.
    pub fn check_unlock(&self, handle: usize, rank: Option<i32>) -> Result<()> {
        let window = self.window(handle)?;
        let is_wrong = match rank {
            Some(rank) => {
                let rank = window.check_rank(rank)? as usize;
                window.epoch.locked_all || window.epoch.locks[rank].is_none()
            }
            None => !window.epoch.locked_all,
        };
        match is_wrong {
            true => {
                let text = "the lock was not taken by the call that belongs to this one";
                Err(crate::error::Error::new(crate::abi::ERR_RMA_SYNC, text))
            }
            false => Ok(()),
        }
    }

    fn release_locks(&mut self, handle: usize) -> Result<()> {
        for rank in 0..self.window(handle)?.group.size() {
            self.release_lock(handle, rank)?;
        }
        Ok(())
    }

    fn release_lock(&mut self, handle: usize, rank: u32) -> Result<()> {
        let window = self.window_mut(handle)?;
        let Some(exclusive) = window.epoch.locks[rank as usize].take() else {
            return Ok(());
        };
        window.epoch.locked -= 1;
        window.others[rank as usize].is_granted = false;
        let number = window.number;
        let WindowMemory::Area(area) = &window.place else {
            return self.notify_rank(handle, rank, &Notice::Unlock { window: number });
        };
        for waiting in area.unlock(rank, exclusive) {
            self.notify_rank(handle, waiting, &Notice::Free { window: number })?;
        }
        Ok(())
    }

    /// Waits until no other process holds the stripe of a byte of the area. An error if the holder is lost.
    #[cold]
    pub(super) fn await_stripe(&mut self, handle: usize, rank: u32, at: usize) -> Result<()> {
        for _ in 0..self.endpoint.first_looks(Awaited::ShortLock, false) {
            if self.stripe_holder(handle, rank, at)?.is_none() {
                self.endpoint.came_at_once(Awaited::ShortLock);
                return Ok(());
            }
            std::hint::spin_loop();
        }
        let mut wait = self.endpoint.begin_shared_memory_wait(Awaited::ShortLock);
        let waited = self.watch_stripe(handle, (rank, at), &mut wait);
        self.endpoint.end_shared_memory_wait(&wait);
        waited
    }

    fn watch_stripe(
        &mut self,
        handle: usize,
        (rank, at): (u32, usize),
        wait: &mut SharedMemoryWait,
    ) -> Result<()> {
        loop {
            match self.endpoint.continue_shared_memory_wait(wait) {
                SharedMemoryStep::Look(looks) => {
                    for _ in 0..looks {
                        if self.stripe_holder(handle, rank, at)?.is_none() {
                            return Ok(());
                        }
                        std::hint::spin_loop();
                    }
                }
                SharedMemoryStep::Progress | SharedMemoryStep::Park => {
                    let Some(holder) = self.stripe_holder(handle, rank, at)? else {
                        return Ok(());
                    };
                    self.watch_ranks(handle, &[holder]);
                    self.progress();
                    self.check_members(handle)?;
                }
            }
        }
    }

    fn stripe_holder(&self, handle: usize, rank: u32, at: usize) -> Result<Option<u32>> {
        Ok(match &self.window(handle)?.place {
            WindowMemory::Area(area) => area.stripe(rank, at).0.holder(),
            _ => None,
        })
    }
}
