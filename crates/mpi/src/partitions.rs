//! State of a partitioned message.

use std::ops::Range;

use causeway_engine::Memory;
use causeway_engine::types::OpId;

use crate::abi;
use crate::buffer::OwnedBuffer;
use crate::communicator::Peer;
use crate::error::Error;
use crate::status::Status;

/// A partitioned message, which is sent or received again and again.
#[derive(Debug)]
pub(crate) struct Partitioned {
    pub(crate) is_send: bool,
    pub(crate) rank: i32,
    pub(crate) tag: i32,
    pub(crate) communicator: usize,
    /// `None` for `MPI_PROC_NULL`.
    pub(crate) peer: Option<Peer>,
    /// Own partitions, and all of their data in one piece.
    pub(crate) parts: Vec<OwnedBuffer>,
    pub(crate) stream: Memory,
    /// Whether the stream is memory other than the program's.
    pub(crate) is_copied: bool,
    pub(crate) description: Memory,
    /// The receive of the sender's description.
    pub(crate) description_send: Option<OpId>,
    /// The tag of the first message and the bytes of each, once they are known.
    pub(crate) messages: Option<(u32, u64)>,
    /// Operations in progress, by message.
    pub(crate) pending: Vec<(OpId, usize)>,
    /// Sender: partitions that are ready. Receiver: messages that have arrived.
    pub(crate) marked: Vec<bool>,
    pub(crate) error: Option<Error>,
    /// The tag of the first message and the number of messages of a send that does not fit the receive.
    pub(crate) refused: Option<(u32, u32)>,
    pub(crate) is_started: bool,
    /// The request was freed: the message is released when it is done.
    pub(crate) is_orphan: bool,
}

impl Partitioned {
    /// The bytes of a partition in the stream.
    pub(crate) fn bytes_of(&self, part: usize) -> Range<usize> {
        let size = self.stream.len() / self.parts.len().max(1);
        part * size..(part + 1) * size
    }

    pub(crate) fn is_done(&self) -> bool {
        self.error.is_some()
            || (self.messages.is_some() && self.pending.is_empty() && self.is_marked())
    }

    pub(crate) fn is_marked(&self) -> bool {
        self.marked.iter().all(|marked| *marked)
    }

    /// Whether all messages with bytes of a partition have arrived; for a partition without bytes, whether all messages have.
    pub(crate) fn has_arrived(&self, part: usize) -> bool {
        let Some((_, size)) = self.messages else {
            return false;
        };
        if self.stream.is_empty() {
            return self.is_marked();
        }
        let bytes = self.bytes_of(part);
        let size = (size as usize).max(1);
        let messages = bytes.start / size..bytes.end.div_ceil(size);
        let marked = self.marked.get(messages);
        marked.is_some_and(|all| all.iter().all(|marked| *marked))
    }

    /// Reads the sender's description into a receive.
    pub(crate) fn read_description(&mut self) {
        let description = self.description.to_vec();
        let four = |at: usize| {
            description[at..at + 4]
                .try_into()
                .map_or(0, u32::from_ne_bytes)
        };
        let size = description[8..16].try_into().map_or(0, u64::from_ne_bytes);
        let (first, many) = (four(0), four(4));
        let total = size.checked_mul(many.into());
        if total != Some(self.stream.len() as u64) {
            let text = format!(
                "the sender has {many} partitions of {size} bytes, the receiver {} bytes in all",
                self.stream.len()
            );
            let status = Status::of_message(self.rank, self.tag, self.stream.len() as u64);
            self.error = Some(Error::new(abi::ERR_TRUNCATE, text).with_status(status));
            self.refused = Some((first, many));
            return;
        }
        let mut marked = Vec::new();
        if marked.try_reserve_exact(many as usize).is_err() {
            let text = format!("{many} partitions of the sender");
            self.error = Some(Error::new(abi::ERR_NO_MEM, text));
            self.refused = Some((first, many));
            return;
        }
        marked.resize(many as usize, false);
        self.messages = Some((first, size));
        self.marked = marked;
    }
}
