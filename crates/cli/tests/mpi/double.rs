//! Storage that does what a test says.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use causeway_engine::Memory;
use causeway_mpi::io::storage::{Atomic, Extent, PointerStep, Storage};

/// A file without bytes.
#[derive(Debug)]
pub(crate) struct Double {
    described: Vec<u8>,
    notes: Option<Notes>,
}

/// What a file notes of what is written to it, and its pointer: in this process, as the first process alone moves it.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    written: Mutex<Vec<(u64, u64)>>,
    pub(crate) at: AtomicU64,
    /// Steps of the pointer.
    pub(crate) steps: AtomicU64,
    /// The pointer cannot be moved now.
    pub(crate) fails: AtomicBool,
}

impl Double {
    /// A file with this description, to which nothing can be written, and which keeps no pointer.
    pub(crate) fn described(described: Vec<u8>) -> Self {
        Self {
            described,
            notes: None,
        }
    }

    /// A file that notes what is written to it, and keeps a pointer.
    pub(crate) fn noting() -> Self {
        Self {
            described: Vec::new(),
            notes: Some(Notes::default()),
        }
    }

    pub(crate) fn notes(&self) -> Option<&Notes> {
        self.notes.as_ref()
    }
}

impl Notes {
    /// What was written since the last call: offsets and lengths.
    pub(crate) fn take_written(&self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.written.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn unsupported() -> io::Error {
    io::Error::from(io::ErrorKind::Unsupported)
}

impl Storage for Double {
    fn read(&self, _extents: &[Extent], _into: &[Memory]) -> io::Result<u64> {
        Ok(0)
    }

    fn write(&self, extents: &[Extent], _from: &[Memory]) -> io::Result<()> {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let notes = self.notes().ok_or_else(full)?;
        let mut written = notes.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.extend(extents.iter().map(|extent| (extent.offset, extent.len)));
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn resize(&self, _size: u64) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&self, _size: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn small_piece(&self, _writes: bool) -> u64 {
        0
    }

    fn least_fragment(&self) -> u64 {
        1
    }

    fn extents_at_a_time(&self) -> usize {
        1
    }

    fn description(&self) -> Vec<u8> {
        self.described.clone()
    }

    fn apply_description(&self, _description: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn hints(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn has_locks(&self) -> bool {
        false
    }

    fn move_pointer(&self, _number: u64, step: PointerStep) -> io::Result<u64> {
        let notes = self.notes().ok_or_else(unsupported)?;
        notes.steps.fetch_add(1, Ordering::SeqCst);
        if notes.fails.load(Ordering::SeqCst) {
            return Err(io::Error::other("the server is away"));
        }
        Ok(match step {
            PointerStep::Put(at) => {
                notes.at.store(at, Ordering::SeqCst);
                at
            }
            PointerStep::Add(many) => notes.at.fetch_add(many, Ordering::SeqCst),
            PointerStep::Get | PointerStep::End => notes.at.load(Ordering::SeqCst),
        })
    }

    fn check_atomic(&self) -> io::Result<()> {
        Err(unsupported())
    }

    fn atomic(&self, _writes: bool) -> io::Result<Box<dyn Atomic + '_>> {
        Err(unsupported())
    }
}
