//! Card buffers: one recycle pool for sending and receiving, with a count of owners for each, so that
//! a frame may be queued more than once (sent again, forwarded to several) and its buffer is free when the
//! last owner releases it. The buffer freed last is used next: it is the likeliest to be in a cache.

use alloc::vec;
use alloc::vec::Vec;

use crate::settings::Limits;

/// The use of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Sending,
    Receiving,
}

/// The card's buffers and their owners.
#[derive(Debug)]
pub(crate) struct Buffers {
    recycle: Vec<u32>,
    owners: Vec<u16>,
    uses: Vec<Use>,
    /// How many more buffers sending may take, so that receiving never waits for sending.
    sending_left: u32,
}

impl Buffers {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            recycle: (0..limits.buffers).rev().collect(),
            owners: vec![0; limits.buffers as usize],
            uses: vec![Use::Receiving; limits.buffers as usize],
            sending_left: limits.buffers - limits.receive_buffers,
        }
    }

    pub(crate) fn has_for_sending(&self) -> bool {
        self.sending_left > 0 && !self.recycle.is_empty()
    }

    /// Takes a buffer, with one owner.
    pub(crate) fn take(&mut self, purpose: Use) -> Option<u32> {
        if purpose == Use::Sending && !self.has_for_sending() {
            return None;
        }
        let buffer = self.recycle.pop()?;
        if purpose == Use::Sending {
            self.sending_left -= 1;
        }
        self.owners[buffer as usize] = 1;
        self.uses[buffer as usize] = purpose;
        Some(buffer)
    }

    /// Adds an owner.
    pub(crate) fn share(&mut self, buffer: u32) {
        self.owners[buffer as usize] += 1;
    }

    /// Removes an owner; the last one's buffer is free.
    pub(crate) fn release(&mut self, buffer: u32) {
        let owners = &mut self.owners[buffer as usize];
        assert!(*owners > 0, "buffer {buffer} has no owner");
        *owners -= 1;
        if *owners == 0 {
            if self.uses[buffer as usize] == Use::Sending {
                self.sending_left += 1;
            }
            self.recycle.push(buffer);
        }
    }
}
