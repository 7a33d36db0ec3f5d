//! Reading and writing by one process.

use std::io;
use std::sync::Arc;

use crate::abi;
use crate::error::{Error, Result};

use super::file::Hints;
use super::pointer::SharedPointer;
use super::storage::{Lock, Storage, failed};
use super::stream::Stream;
use super::view::View;

/// An open file, as an operation sees it.
#[derive(Debug, Clone)]
pub(crate) struct Opened {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) communicator: usize,
    pub(crate) view: Arc<View>,
    pub(crate) is_atomic: bool,
    /// What the processes lock where the storage has no locks.
    pub(crate) shared: Option<SharedPointer>,
    pub(crate) hints: Hints,
}

impl Opened {
    fn lock(&self, exclusive: bool) -> io::Result<Box<dyn Lock + '_>> {
        match &self.shared {
            Some(shared) if !self.storage.has_locks() => shared.lock(exclusive),
            _ => self.storage.lock(exclusive),
        }
    }

    /// Reads or writes the data from a position of the view on. Returns how many bytes were there.
    pub(crate) fn transfer(&self, writes: bool, position: u64, stream: &Stream) -> Result<u64> {
        let end = position.checked_add(stream.len());
        let end = end.ok_or_else(|| Error::new(abi::ERR_DISP, "the offset is too large"))?;
        let what = match writes {
            true => "writing",
            false => "reading",
        };
        let lock = match self.is_atomic {
            true => Some(self.lock(writes)),
            false => None,
        };
        let _lock = lock
            .transpose()
            .map_err(|error| failed("locking", &error))?;
        let most = self.storage.extents_at_a_time().max(1);
        let mut extents = Vec::new();
        let mut at = position;
        while at < end {
            extents.clear();
            let next = self.view.extents(at..end, most, &mut extents)?;
            let part = stream.part(at - position..next - position);
            if writes {
                self.storage
                    .write(&extents, &part)
                    .map_err(|error| failed(what, &error))?;
            } else {
                let found = self
                    .storage
                    .read(&extents, &part)
                    .map_err(|error| failed(what, &error))?;
                if found < next - at {
                    return Ok(at - position + found);
                }
            }
            at = next;
        }
        Ok(end - position)
    }
}
