//! Buffers that programs attach for buffered messages (MPI 5.0 §3.6). The library copies messages elsewhere, and keeps to the
//! buffers' sizes.

use std::collections::BTreeMap;

use causeway_engine::types::OpId;

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
/// The same of messages that need not be received: their receivers may have gone on without.
pub(crate) const OPTIONAL: u64 = u64::MAX - 1;

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
    pending: BTreeMap<u64, Pending>,
    /// The bytes of those in attached buffers, with the overhead, by their operation.
    sizes: BTreeMap<OpId, u64>,
}

/// The messages of one owner that are on their way.
#[derive(Debug, Default)]
struct Pending {
    many: usize,
    /// Bytes that they use of the buffer.
    bytes: u64,
}

impl Buffers {
    pub(crate) fn is_empty(&self, owner: Owner) -> bool {
        !self.pending.contains_key(&owner.number())
    }

    /// Bytes of a buffer that messages on their way use.
    pub(crate) fn used(&self, owner: Owner) -> u64 {
        let pending = self.pending.get(&owner.number());
        pending.map_or(0, |pending| pending.bytes)
    }

    /// A message is on its way that uses so many bytes of a buffer.
    pub(crate) fn started(&mut self, op: OpId, number: u64, bytes: u64) {
        let pending = self.pending.entry(number).or_default();
        pending.many += 1;
        if bytes > 0 {
            pending.bytes += bytes;
            self.sizes.insert(op, bytes);
        }
    }

    pub(crate) fn done(&mut self, op: OpId, number: u64) {
        let bytes = self.sizes.remove(&op).unwrap_or(0);
        if let Some(pending) = self.pending.get_mut(&number) {
            pending.many -= 1;
            pending.bytes -= bytes;
            if pending.many == 0 {
                self.pending.remove(&number);
            }
        }
    }

    pub(crate) fn has_any(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Messages on their way that need not be received.
    pub(crate) fn optional(&self) -> usize {
        self.pending
            .get(&OPTIONAL)
            .map_or(0, |pending| pending.many)
    }

    /// Whether messages are on their way that have to be received.
    pub(crate) fn has_awaited(&self) -> bool {
        self.pending.keys().any(|number| *number != OPTIONAL)
    }
}
