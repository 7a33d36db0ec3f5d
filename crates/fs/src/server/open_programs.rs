//! State of a metadata server's loop about programs that have files open.

use std::collections::HashMap;

use causeway_bmi::{Addr, ConnectionId, OpId};

/// The value in the place of a ticket's slot that marks watches of programs with open files; watches of file locks and of append locks have others.
pub(super) const WATCHES_OPENS: u16 = 2;

/// Programs that have files open, and their watched connections.
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
