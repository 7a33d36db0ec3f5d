//! Handlers: the functions that messages run.

use super::interface::AmError;
use super::memory::{Memory, Span};
use super::port::{Arguments, HandlerId, Rank, Work};

/// A handler: an ordinary function on the process's state. It must not wait.
pub type Handler<S> = fn(&mut Arrival<'_, S>) -> Result<(), AmError>;

/// The table of handlers, the same at all processes.
pub type Handlers<S> = [Handler<S>];

/// A message that has arrived, as its handler gets it.
pub struct Arrival<'a, S> {
    /// The state that handlers change.
    pub state: &'a mut S,
    /// The process's regions.
    pub memory: &'a mut Memory,
    /// The sender.
    pub source: Rank,
    /// The words of the message.
    pub words: &'a [u64],
    /// The memory that was written, for a store or a get.
    pub landed: Option<Span>,
    pub(super) handler: HandlerId,
    pub(super) may_reply: bool,
    pub(super) reply: Option<(HandlerId, Arguments)>,
    pub(super) work: Work,
}

impl<S> Arrival<'_, S> {
    /// Replies to a request or a store, once (`am_reply`).
    pub fn reply(&mut self, handler: HandlerId, words: &[u64]) -> Result<(), AmError> {
        if !self.may_reply || self.reply.is_some() {
            return Err(AmError::SecondReply(self.handler.0));
        }
        let arguments = Arguments::new(words).ok_or(AmError::TooManyWords(words.len()))?;
        self.reply = Some((handler, arguments));
        Ok(())
    }

    /// Charges work that the handler has done.
    pub fn work(&mut self, work: Work) {
        self.work = self.work.plus(work);
    }

    /// The word at `index`.
    pub fn word(&self, index: usize) -> Result<u64, AmError> {
        self.words
            .get(index)
            .copied()
            .ok_or_else(|| self.refuse("too few words"))
    }

    /// The memory that was written, or an error if the message brought no data.
    pub fn landing(&self) -> Result<Span, AmError> {
        self.landed
            .ok_or_else(|| self.refuse("the handler needs data, and the message brought none"))
    }

    /// The error of a handler that refuses a message.
    pub fn refuse(&self, why: &'static str) -> AmError {
        AmError::Refused {
            source_rank: self.source,
            handler: self.handler.0,
            why,
        }
    }
}
