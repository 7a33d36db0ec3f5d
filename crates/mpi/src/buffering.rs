//! Buffers that programs attach for buffered messages (MPI 5.0 §3.6). The library copies messages elsewhere, and keeps to the
//! buffers' sizes.

use std::collections::BTreeMap;

use crate::abi;
use crate::error::{Error, Result};
use crate::process::{Active, Going, Process};
use crate::status::Status;

/// What a buffer is attached to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// All that has no other.
    Process,
    /// The communicator of this handle.
    Communicator(usize),
}

/// The number that completions of the library's own messages carry.
pub(crate) const NOBODY: u64 = u64::MAX;

impl Owner {
    fn number(self) -> u64 {
        match self {
            Self::Process => 0,
            Self::Communicator(handle) => handle as u64,
        }
    }
}

/// The buffers that are attached, and the messages that are on their way.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// The bytes of each, by owner.
    limits: BTreeMap<Owner, u64>,
    /// Messages by the number of the owner of their buffer.
    pending: BTreeMap<u64, usize>,
}

impl Buffers {
    fn is_empty(&self, owner: Owner) -> bool {
        !self.pending.contains_key(&owner.number())
    }

    pub(crate) fn started(&mut self, number: u64) {
        *self.pending.entry(number).or_default() += 1;
    }

    pub(crate) fn done(&mut self, number: u64) {
        if let Some(many) = self.pending.get_mut(&number) {
            *many -= 1;
            if *many == 0 {
                self.pending.remove(&number);
            }
        }
    }

    pub(crate) fn has_any(&self) -> bool {
        !self.pending.is_empty()
    }
}

impl Process {
    /// Sets how many bytes a buffered message may have, or that there is no buffer.
    pub fn limit_buffered(&mut self, owner: Owner, limit: Option<u64>) {
        match limit {
            Some(limit) => self.buffers.limits.insert(owner, limit),
            None => self.buffers.limits.remove(&owner),
        };
    }

    /// The number of the buffer that a message of so many bytes goes into; an error if it has no room.
    pub(crate) fn buffer_for(&self, communicator: usize, bytes: usize) -> Result<u64> {
        let needed = (bytes as u64).saturating_add(abi::BSEND_OVERHEAD as u64);
        let own = Owner::Communicator(communicator);
        let owner = match self.buffers.limits.contains_key(&own) {
            true => own,
            false => Owner::Process,
        };
        match self.buffers.limits.get(&owner) {
            Some(limit) if needed <= *limit => Ok(owner.number()),
            Some(limit) => {
                let text = format!("{needed} bytes, with the overhead, in a buffer of {limit}");
                Err(Error::new(abi::ERR_BUFFER, text))
            }
            None => Err(Error::new(abi::ERR_BUFFER, "no buffer is attached")),
        }
    }

    /// Whether messages in a buffer are still here.
    pub fn has_buffered(&mut self, owner: Owner) -> bool {
        self.drain();
        !self.buffers.is_empty(owner)
    }

    /// Starts to wait until a buffer is empty.
    pub fn flush_buffer(&self, owner: Owner) -> Active {
        let communicator = match owner {
            Owner::Process => abi::COMM_SELF,
            Owner::Communicator(handle) => handle,
        };
        let mut active = Active::done(Status::empty(), communicator);
        active.state = Going::Flush(owner);
        active
    }

    pub(crate) fn poll_flush(&self, owner: Owner) -> Option<Status> {
        self.buffers.is_empty(owner).then(Status::empty)
    }
}
