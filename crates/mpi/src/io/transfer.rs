//! Reading and writing by one process.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::abi;
use crate::error::{Error, Result};

use super::file::Hints;
use super::pointer::Shared;
use super::storage::{Atomic, Guarded, Storage, failed};
use super::stream::Stream;
use super::view::View;

/// An open file, as an operation sees it.
#[derive(Debug, Clone)]
pub(crate) struct Opened {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) communicator: usize,
    pub(crate) view: Arc<View>,
    pub(crate) is_atomic: bool,
    pub(crate) shared: Shared,
    pub(crate) format: u8,
    pub(crate) hints: Hints,
}

impl Opened {
    /// Reads or writes the data from a position of the view on. Returns how many bytes were there.
    pub(crate) fn transfer(&self, writes: bool, position: u64, stream: &Stream) -> Result<u64> {
        let end = position.checked_add(stream.len());
        let end = end.ok_or_else(|| Error::new(abi::ERR_DISP, "the offset is too large"))?;
        let parts = position..end;
        if !self.is_atomic {
            let mut plain = Guarded::new(&*self.storage, ());
            return self.transfer_parts(&mut plain, writes, parts, stream);
        }
        let atomic = |error: io::Error| failed("atomic access", &error);
        let mut access = self.atomic(writes).map_err(atomic)?;
        let done = self.transfer_parts(&mut *access, writes, parts, stream)?;
        access.end().map_err(atomic)?;
        Ok(done)
    }

    fn atomic(&self, writes: bool) -> io::Result<Box<dyn Atomic + '_>> {
        match &self.shared {
            Shared::Memory(memory) if !self.storage.has_locks() => {
                let lock = memory.lock(writes)?;
                Ok(Box::new(Guarded::new(&*self.storage, lock)))
            }
            _ => self.storage.atomic(writes),
        }
    }

    fn transfer_parts(
        &self,
        access: &mut dyn Atomic,
        writes: bool,
        Range {
            start: position,
            end,
        }: Range<u64>,
        stream: &Stream,
    ) -> Result<u64> {
        let most = self.storage.extents_at_a_time().max(1);
        let mut extents = Vec::new();
        let mut at = position;
        while at < end {
            extents.clear();
            let next = self.view.extents(at..end, most, &mut extents)?;
            let part = stream.part(at - position..next - position);
            if writes {
                access
                    .write(&extents, &part)
                    .map_err(|error| failed("writing", &error))?;
            } else {
                let found = access
                    .read(&extents, &part)
                    .map_err(|error| failed("reading", &error))?;
                if found < next - at {
                    return Ok(at - position + found);
                }
            }
            at = next;
        }
        Ok(end - position)
    }
}
