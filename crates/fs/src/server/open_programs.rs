//! What the loop of a metadata server knows of programs that have files open.

use std::collections::HashMap;

use causeway_bmi::{Addr, ConnectionId, OpId};

/// In the place of a ticket's slot: watches of programs with open files, beside those of locks and of turns to append.
pub(super) const WATCHES_OPENS: u16 = 2;

/// What the loop of a metadata server knows of programs that have files open.
#[derive(Default)]
pub(super) struct Programs {
    pub(super) connections: HashMap<u128, Vec<Connection>>,
    /// Programs whose connections are watched, by the watch's number.
    pub(super) watches: HashMap<u32, u128>,
    pub(super) last_watch: u32,
}

/// A connection of a program.
pub(super) struct Connection {
    pub(super) from: Addr,
    pub(super) connection: ConnectionId,
    pub(super) watch: u32,
    pub(super) receive: OpId,
}
