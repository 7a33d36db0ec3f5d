//! Whether a communicator has an area.

use std::sync::Arc;

use super::area::Area;
use super::call::Call;
use super::failure::Failure;
use super::operation::Agreed;

/// A communicator's area, or why it has none. An area lives as long as a reference to it.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    /// It was used so often.
    Used(u32),
    /// Its processes cannot have one.
    Never,
    /// It has one.
    Ready(Ready),
}

/// A communicator's area, and what this process has done there.
#[derive(Debug, Clone)]
pub(crate) struct Ready {
    pub(crate) area: Arc<Area>,
    /// The operation that this process goes on with by messages.
    pub(crate) agreed: Option<Agreed>,
    /// The latest call that was refused because of its arguments.
    pub(crate) refusal: Option<Refusal>,
}

/// A call that this process has not begun, because of its arguments. For the other processes it is as if it had not been called.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refusal {
    pub(crate) call: Call,
    /// The error's class.
    pub(crate) class: i32,
    /// The phase with which it would have begun.
    pub(crate) phase: u64,
    /// The others have begun it, as was found later: it counts as an operation.
    pub(crate) is_counted: bool,
}

impl Refusal {
    /// The failure that it is for those that have begun it.
    pub(crate) fn failure(&self, rank: u32) -> Failure {
        Failure::Refused {
            rank,
            call: self.call,
            class: self.class,
            phase: self.phase,
        }
    }
}

impl Ready {
    pub(crate) fn new(area: Arc<Area>) -> Self {
        Self {
            area,
            agreed: None,
            refusal: None,
        }
    }
}

impl Node {
    /// Takes the operation that was agreed on, if it is the one of this number.
    #[inline]
    pub(crate) fn take_agreed(&mut self, number: u64) -> Option<Agreed> {
        match self {
            Self::Ready(ready) => ready.agreed.take().filter(|agreed| agreed.number == number),
            Self::Used(_) | Self::Never => None,
        }
    }
}

impl Default for Node {
    fn default() -> Self {
        Self::Used(0)
    }
}
