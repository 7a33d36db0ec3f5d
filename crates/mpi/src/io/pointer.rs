//! The pointer that all processes of an open file share (MPI 5.0 §14.4.4). It counts elementary types.
//!
//! Among processes of one host it is a word of memory, so that no process has to serve it, and nothing is left behind by processes that are
//! killed. Among processes of several hosts the file's storage keeps it, if the storage can: the end of one process then does not affect
//! the others.
//!
//! The memory is a file of its own kind, which these processes can lock: for files in storage that has no locks.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_engine::Memory;
use causeway_sys::memfd;

use crate::abi;
use crate::error::{Error, Result};
use crate::process_table;

use super::posix::lock_file;
use super::storage::{PointerStep, Storage, failed as storage_failed};

/// See the module's page.
#[derive(Debug, Clone)]
pub(crate) struct SharedPointer {
    memory: Memory,
    /// Opened by each process for itself: locks belong to the open file.
    file: Arc<File>,
    /// One thread of this process at a time has the lock.
    turn: Arc<Mutex<()>>,
}

/// The lock, until this is dropped. It goes with the process, too, if that is killed.
pub(crate) struct Locked<'a> {
    file: &'a File,
    _turn: MutexGuard<'a, ()>,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // It fails only for descriptors that are none.
        let _ = self.file.unlock();
    }
}

/// Offset of the number that distinguishes this memory from others, bytes.
const MARK: usize = 8;
const BYTES: usize = 16;

fn failed(error: &io::Error) -> Error {
    let text = format!("the memory of the shared file pointer: {error}");
    Error::new(abi::ERR_OTHER, text)
}

impl SharedPointer {
    fn of(file: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            memory: Memory::map_import(&file, BYTES)?,
            file: Arc::new(File::from(file)),
            turn: Arc::default(),
        })
    }

    /// Makes one at a position.
    pub(crate) fn make(at: u64) -> Result<Self> {
        let made = memfd::create_fixed("causeway-file-pointer", BYTES).and_then(Self::of);
        let made = made.map_err(|error| failed(&error))?;
        made.word(MARK)?
            .store(process_table::number()?, Ordering::SeqCst);
        made.set(at)?;
        Ok(made)
    }

    /// The numbers by which other processes of this host find it, as long as this process keeps it: the process, its
    /// descriptor, and the mark.
    pub(crate) fn name(&self) -> Result<[i64; 3]> {
        let mark = self.word(MARK)?.load(Ordering::SeqCst);
        let descriptor = self.file.as_raw_fd().into();
        Ok([std::process::id().into(), descriptor, mark as i64])
    }

    /// Opens the pointer of another process of this host. In another namespace of processes, the same numbers may name another
    /// pointer, which has another mark.
    pub(crate) fn find([process, descriptor, mark]: [i64; 3]) -> Result<Self> {
        let find = || {
            let path = PathBuf::from(format!("/proc/{process}/fd/{descriptor}"));
            let file = memfd::Foreign::find(&path)?.open(true)?;
            match memfd::checked_len(&file)? {
                len if len == BYTES as u64 => Self::of(file),
                len => Err(io::Error::other(format!("it has {len} bytes"))),
            }
        };
        let found = find().map_err(|error| failed(&error))?;
        match found.word(MARK)?.load(Ordering::SeqCst) == mark as u64 {
            true => Ok(found),
            false => Err(failed(&io::Error::other("it is another file's"))),
        }
    }

    /// Locks the file among the processes that have this pointer: against all other locks if `exclusive`, else against those.
    pub(crate) fn lock(&self, exclusive: bool) -> io::Result<Locked<'_>> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        lock_file(&self.file, exclusive)?;
        Ok(Locked {
            file: &self.file,
            _turn: turn,
        })
    }

    fn word(&self, offset: usize) -> Result<&AtomicU64> {
        let word = self.memory.word(offset);
        word.ok_or_else(|| Error::new(abi::ERR_INTERN, "the shared file pointer is no word"))
    }

    /// Its position.
    pub(crate) fn get(&self) -> Result<u64> {
        Ok(self.word(0)?.load(Ordering::SeqCst))
    }

    /// Puts it somewhere.
    pub(crate) fn set(&self, value: u64) -> Result<()> {
        self.word(0)?.store(value, Ordering::SeqCst);
        Ok(())
    }

    /// Moves it on, unless that leads beyond what an `MPI_Offset` holds; returns where it stood.
    pub(crate) fn add(&self, many: u64) -> Result<u64> {
        let next = |at: u64| {
            let next = at.checked_add(many)?;
            i64::try_from(next).is_ok().then_some(next)
        };
        let moved = self
            .word(0)?
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        moved.map_err(|at| {
            let text = format!("the shared file pointer would move from {at} by {many}");
            Error::new(abi::ERR_DISP, text)
        })
    }
}

/// Where a file's shared pointer is.
#[derive(Debug, Clone)]
pub(crate) enum Shared {
    /// In memory that all processes have.
    Memory(SharedPointer),
    /// With the file's storage, which knows it by a number.
    Stored(Arc<dyn Storage>, u64),
    /// Nowhere, for this reason.
    Nowhere(Error),
}

impl Shared {
    fn step(&self, step: PointerStep) -> Result<u64> {
        match self {
            Self::Memory(memory) => match step {
                PointerStep::Put(at) => memory.set(at).map(|()| at),
                PointerStep::Add(many) => memory.add(many),
                PointerStep::Get | PointerStep::End => memory.get(),
            },
            Self::Stored(storage, number) => {
                let done = storage.move_pointer(*number, step);
                done.map_err(|error| storage_failed("the shared file pointer", &error))
            }
            Self::Nowhere(error) => Err(error.clone()),
        }
    }

    /// Its position.
    pub(crate) fn get(&self) -> Result<u64> {
        self.step(PointerStep::Get)
    }

    /// Puts it somewhere.
    pub(crate) fn set(&self, at: u64) -> Result<()> {
        self.step(PointerStep::Put(at)).map(drop)
    }

    /// Moves it on; returns where it stood.
    pub(crate) fn add(&self, many: u64) -> Result<u64> {
        self.step(PointerStep::Add(many))
    }

    /// No process needs it any more.
    pub(crate) fn end(&self) -> Result<()> {
        match self {
            Self::Stored(..) => self.step(PointerStep::End).map(drop),
            Self::Memory(_) | Self::Nowhere(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_with_another_mark_is_not_taken_for_it() {
        let made = SharedPointer::make(5).expect("memory");
        let name = made.name().expect("a name");
        let found = SharedPointer::find(name).expect("the memory exists");
        assert_eq!(found.add(2).expect("it moves"), 5);
        assert_eq!(made.get().expect("it has moved"), 7);
        assert!(found.add(i64::MAX as u64).is_err() && found.add(u64::MAX).is_err());
        assert_eq!(made.get().expect("it has not moved"), 7);
        let [process, descriptor, mark] = name;
        assert!(SharedPointer::find([process, descriptor, mark ^ 1]).is_err());
        let other = SharedPointer::make(0).expect("memory");
        assert_ne!(other.name().expect("a name")[2], mark);
    }
}
