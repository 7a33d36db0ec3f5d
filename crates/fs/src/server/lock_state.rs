//! State of a metadata server's loop about clients that have locks.

use std::collections::{HashMap, VecDeque};

use causeway_bmi::{Addr, ConnectionId, OpId};
use causeway_wire::fs::{Failure, ReplyBody};

use super::locks::Locks;

/// The value in the place of a ticket's slot that marks watches of clients with locks; watches of append locks have another one.
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

/// The locks of a metadata server's files, and the clients that have them.
#[derive(Default)]
pub(super) struct LockState {
    pub(super) table: Locks,
    pub(super) clients: HashMap<u128, LockClient>,
    /// Clients whose connections are watched, by the watch's number.
    pub(super) watches: HashMap<u32, u128>,
    pub(super) last_watch: u32,
    /// Results of waits that have not been sent yet: client, tag, and result.
    pub(super) news: VecDeque<(u128, u64, Result<ReplyBody, Failure>)>,
}
