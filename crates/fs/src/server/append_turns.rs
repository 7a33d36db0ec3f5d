//! What the loop of a metadata server knows of turns to append.

use std::collections::HashMap;
use std::time::Duration;

use causeway_bmi::{Addr, OpId};
use causeway_wire::fs::{ObjectId, Request};

use super::ticket::{ReplyTo, Ticket};
use super::turns::Turns;

/// A client that waits for its turn.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) to: ReplyTo,
    pub(super) request: Request,
}

/// Tells when the client that has a turn is gone.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) object: ObjectId,
    pub(super) turn: u64,
    pub(super) receive: OpId,
}

/// Whose turn it is to append, of a metadata server.
pub(super) struct Appends {
    pub(super) turns: Turns<Addr, Waiting>,
    /// Turns that requests in progress end.
    pub(super) endings: HashMap<Ticket, (ObjectId, u64)>,
    /// Clients whose end others wait for, by number.
    pub(super) watched: HashMap<u32, Watched>,
    pub(super) last_watch: u32,
}

impl Appends {
    /// Turns are numbered above `first`. Where others wait, each takes no longer than this.
    pub(super) fn new(first: u64, longest: Duration) -> Self {
        Self {
            turns: Turns::new(first, longest),
            endings: HashMap::new(),
            watched: HashMap::new(),
            last_watch: 0,
        }
    }
}
