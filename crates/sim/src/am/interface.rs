//! The interface of programs.

use super::memory::{Memory, Place, Region, Span};
use super::port::{Awaited, HandlerId, Rank, Stop, Work};

/// Why a call failed. All but [`AmError::Stopped`] are mistakes of the program, here or at the
/// process that sent the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AmError {
    /// Messages are no longer carried.
    #[error("the carrier of messages has ended")]
    Stopped,
    /// There is no such process.
    #[error("there is no process {0}: ranks are counted from 0, and there are {1} of them")]
    NoProcess(Rank, u32),
    /// Too many words.
    #[error("{0} words do not fit in a message: at most {max} do", max = super::port::ARGUMENTS)]
    TooManyWords(usize),
    /// The table has no such handler.
    #[error("process {source_rank} names handler {handler}, but the table has only {handlers}")]
    NoHandler {
        /// The message's sender.
        source_rank: Rank,
        /// The handler that it named.
        handler: u16,
        /// The number of handlers in the table.
        handlers: usize,
    },
    /// Memory that does not exist.
    #[error(
        "process {rank} names {bytes} bytes at {offset} of region {region}, which process {owner} \
         does not have"
    )]
    NoMemory {
        /// The process that named it.
        rank: Rank,
        /// The process whose memory is named.
        owner: Rank,
        /// The region.
        region: u32,
        /// The offset in bytes.
        offset: u64,
        /// The number of bytes.
        bytes: u64,
    },
    /// A handler replied twice, or to a reply.
    #[error("handler {0} replied twice, or to a reply")]
    SecondReply(u16),
    /// A handler refused a message.
    #[error("handler {handler} refused what process {source_rank} sent: {why}")]
    Refused {
        /// The sender.
        source_rank: Rank,
        /// The handler.
        handler: u16,
        /// Its reason.
        why: &'static str,
    },
    /// A program's own result is wrong.
    #[error("the result is wrong: {0}")]
    WrongResult(String),
}

impl From<Stop> for AmError {
    fn from(_: Stop) -> Self {
        Self::Stopped
    }
}

/// Active Messages for one process, with handlers that work on a `State`.
///
/// Handlers run only in [`poll`](Self::poll), which every call that must wait makes too.
pub trait ActiveMessages {
    /// The state that handlers change.
    type State;

    /// This process's rank (`am_my_proc`).
    fn rank(&self) -> Rank;

    /// The number of processes (`am_procs`).
    fn ranks(&self) -> u32;

    /// The state that handlers change.
    fn state(&mut self) -> &mut Self::State;

    /// Makes a region of zeros that other processes may store to and get from.
    fn make_region(&mut self, bytes: usize) -> Result<Region, AmError>;

    /// The regions.
    fn memory(&self) -> &Memory;

    /// The regions, for writing.
    fn memory_mut(&mut self) -> &mut Memory;

    /// Runs `handler` at `to` with `words` (`am_request`).
    fn request(&mut self, to: Rank, handler: HandlerId, words: &[u64]) -> Result<(), AmError>;

    /// Writes `from` to `into` at `to` and then runs `handler` there with `word` and the memory written
    /// (`am_store`). On return `from` may be changed again.
    fn store(
        &mut self,
        to: Rank,
        from: Span,
        into: Place,
        handler: HandlerId,
        word: u64,
    ) -> Result<(), AmError>;

    /// Reads `source` at `from` to `into` here and then runs `handler` here with `word` and the
    /// memory written (`am_get`). Returns at once.
    fn get(
        &mut self,
        from: Rank,
        source: Span,
        into: Place,
        handler: HandlerId,
        word: u64,
    ) -> Result<(), AmError>;

    /// Handles messages that have arrived; returns their number (`am_poll`).
    fn poll(&mut self) -> Result<usize, AmError>;

    /// Polls until `done`.
    fn wait_until(
        &mut self,
        awaited: Awaited,
        done: impl FnMut(&mut Self::State) -> bool,
    ) -> Result<(), AmError>;

    /// Charges work that the program has done since the last call.
    fn work(&mut self, work: Work);
}
