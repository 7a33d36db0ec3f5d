//! Buffers between the network and the files, a bounded number of them.

use causeway_bmi::{Addr, Bmi, Memory};

/// Bytes of a buffer: large enough to pay for a transfer, small enough to stay in the cache between
/// the transfer and the file.
pub(super) const BUFFER_BYTES: usize = 256 << 10;
/// Most buffers in use at once.
const MAX_BUFFERS: usize = 64;
/// Idle buffers that are kept.
const KEEP: usize = 16;

/// The server's buffers.
#[derive(Debug, Default)]
pub(super) struct Staging {
    idle: Vec<Memory>,
    used: usize,
}

impl Staging {
    /// Whether a buffer may be had now.
    pub(super) fn may_take(&self) -> bool {
        self.used < MAX_BUFFERS
    }

    /// A buffer, if one may be had now. The error says why none can be made.
    pub(super) fn take(&mut self, bmi: &mut Bmi, addr: Addr) -> Result<Option<Memory>, String> {
        if !self.may_take() {
            return Ok(None);
        }
        let buffer = match self.idle.pop() {
            Some(buffer) => buffer,
            None => bmi
                .memalloc(addr, BUFFER_BYTES)
                .map_err(|error| error.to_string())?,
        };
        self.used += 1;
        Ok(Some(buffer))
    }

    /// Gives a buffer back.
    pub(super) fn give(&mut self, buffer: Memory) {
        self.used -= 1;
        if self.idle.len() < KEEP {
            self.idle.push(buffer);
        }
    }

    /// Whether there is something that [`Staging::shrink`] would free.
    pub(super) fn has_idle(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Frees what is idle.
    pub(super) fn shrink(&mut self) {
        self.idle.clear();
    }
}
