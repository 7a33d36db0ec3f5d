//! Buffers that programs attach for buffered messages (MPI 5.0 §3.6). The library copies messages elsewhere, and keeps to the
//! buffers' sizes.

use std::collections::BTreeMap;

/// The object to which a buffer is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// The process, for all communicators that have no other buffer.
    Process,
    /// The communicator of this handle.
    Communicator(usize),
    /// The session of this handle: all of its communicators that have no buffer of their own.
    Session(usize),
}

/// The number that completions of the library's own messages carry: no attached buffer owns them.
pub(crate) const NO_OWNER: u64 = u64::MAX;

impl Owner {
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Process => 0,
            // Handles of different kinds differ.
            Self::Communicator(handle) | Self::Session(handle) => handle as u64,
        }
    }
}

/// The buffers that are attached, and the messages that are on their way.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// The bytes of each owner's buffer.
    pub(crate) limits: BTreeMap<Owner, u64>,
    /// Messages by the number of the owner of their buffer.
    pending: BTreeMap<u64, usize>,
}

impl Buffers {
    pub(crate) fn is_empty(&self, owner: Owner) -> bool {
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
