//! Windows by their handles, and the memory of those that programs read or change.

use causeway_engine::Memory;

use super::state::{Window, WindowMemory};
use crate::abi;
use crate::error::{Error, Result};
use crate::process::Process;

fn window_is_null() -> Error {
    Error::new(abi::ERR_WIN, "the window is MPI_WIN_NULL")
}

impl Process {
    /// The window of a handle.
    #[inline]
    pub fn window(&self, handle: usize) -> Result<&Window> {
        match handle {
            abi::WIN_NULL => Err(window_is_null()),
            handle => self.windows.table.get(handle),
        }
    }

    /// The window of a handle, to be changed.
    #[inline]
    pub fn window_mut(&mut self, handle: usize) -> Result<&mut Window> {
        match handle {
            abi::WIN_NULL => Err(window_is_null()),
            handle => self.windows.table.get_mut(handle),
        }
    }

    /// The part of the window's memory that belongs to a rank, as this process sees it: its bytes, its unit, and the memory if it can be reached
    /// directly. `MPI_PROC_NULL` means the first rank that has any bytes.
    pub fn shared_part(&self, handle: usize, rank: i32) -> Result<(u64, u64, Option<Memory>)> {
        let window = self.window(handle)?;
        let rank = match rank {
            abi::PROC_NULL => window.sizes.iter().position(|size| *size > 0).unwrap_or(0),
            rank => window.check_rank(rank)? as usize,
        };
        let (size, unit) = (window.sizes[rank], window.units[rank]);
        Ok(match &window.place {
            WindowMemory::Area(area) => (size, unit, Some(area.segment(rank, size))),
            WindowMemory::Own(memory) if rank as u32 == window.rank => {
                (size, unit, Some(memory.clone()))
            }
            WindowMemory::Own(_) => (0, unit, None),
            WindowMemory::Attached(_) => {
                let text = "the memory of a dynamic window is not known to it";
                return Err(Error::new(abi::ERR_RMA_FLAVOR, text));
            }
        })
    }

    /// Adds memory to a dynamic window.
    pub fn attach(&mut self, handle: usize, memory: Memory) -> Result<()> {
        let WindowMemory::Attached(attached) = &mut self.window_mut(handle)?.place else {
            return Err(not_dynamic());
        };
        let (start, len) = (memory.as_ptr().addr(), memory.len());
        let overlaps = |other: &Memory| {
            let theirs = other.as_ptr().addr();
            start < theirs + other.len() && theirs < start + len
        };
        if attached.iter().any(overlaps) {
            let text = "the memory overlaps with memory that is attached already";
            return Err(Error::new(abi::ERR_RMA_ATTACH, text));
        }
        attached.push(memory);
        Ok(())
    }

    /// Takes memory away from a dynamic window, which begins at this address.
    pub fn detach(&mut self, handle: usize, start: usize) -> Result<()> {
        let WindowMemory::Attached(attached) = &mut self.window_mut(handle)?.place else {
            return Err(not_dynamic());
        };
        let at = attached
            .iter()
            .position(|memory| memory.as_ptr().addr() == start);
        let at = at.ok_or_else(|| {
            let text = format!("no memory is attached at {start:#x}");
            Error::new(abi::ERR_RMA_ATTACH, text)
        })?;
        attached.remove(at);
        Ok(())
    }
}

fn not_dynamic() -> Error {
    Error::new(abi::ERR_RMA_FLAVOR, "the window is not dynamic")
}
