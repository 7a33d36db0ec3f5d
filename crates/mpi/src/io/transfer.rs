//! Reading and writing by one process.

use std::sync::Arc;

use causeway_engine::Memory;

use crate::abi;
use crate::error::{Error, Result};

use super::file::Hints;
use super::storage::{Storage, failed};
use super::view::View;

/// An open file, as an operation sees it.
#[derive(Debug, Clone)]
pub(crate) struct Opened {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) communicator: usize,
    pub(crate) view: Arc<View>,
    pub(crate) is_atomic: bool,
    pub(crate) hints: Hints,
}

/// Extents that are handed to the storage at a time.
const EXTENTS: usize = 512;

impl Opened {
    /// Reads or writes the data from a position of the view on. Returns how many bytes were there.
    pub(crate) fn transfer(&self, writes: bool, position: u64, stream: &Memory) -> Result<u64> {
        let end = position.checked_add(stream.len() as u64);
        let end = end.ok_or_else(|| Error::new(abi::ERR_DISP, "the offset is too large"))?;
        let what = match writes {
            true => "writing",
            false => "reading",
        };
        let lock = match self.is_atomic {
            true => Some(self.storage.lock(writes)),
            false => None,
        };
        let _lock = lock
            .transpose()
            .map_err(|error| failed("locking", &error))?;
        let mut extents = Vec::new();
        let mut at = position;
        while at < end {
            extents.clear();
            let next = self.view.extents(at..end, EXTENTS, &mut extents)?;
            let part = stream.slice((at - position) as usize..(next - position) as usize);
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
