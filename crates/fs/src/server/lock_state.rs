//! What the loop of a metadata server knows of clients that have locks.

use std::collections::{HashMap, VecDeque};

use causeway_bmi::{Addr, ConnectionId, OpId};
use causeway_wire::fs::{Failure, ReplyBody};

use super::locks::Locks;

/// In the place of a ticket's slot: watches of clients with locks, beside those of turns to append.
pub(super) const WATCHES_LOCKS: u16 = 1;

/// A client that has had locks.
pub(super) struct LockClient {
    pub(super) from: Addr,
    pub(super) connection: ConnectionId,
    /// The format of its requests.
    pub(super) format: u8,
    pub(super) watch: u32,
    pub(super) receive: OpId,
}

/// Who has which lock, of a metadata server.
#[derive(Default)]
pub(super) struct LockState {
    pub(super) table: Locks,
    pub(super) clients: HashMap<u128, LockClient>,
    /// Clients whose end is watched, by number.
    pub(super) watches: HashMap<u32, u128>,
    pub(super) last_watch: u32,
    /// What clients that have waited are still to be told: client, tag, and what.
    pub(super) news: VecDeque<(u128, u64, Result<ReplyBody, Failure>)>,
}
