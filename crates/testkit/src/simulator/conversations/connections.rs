//! The connections of the simulated nodes, and the packets that their methods hold for a while.

use std::collections::VecDeque;

/// A connection: the end of the node that has made it, then the other one.
pub(super) struct Connection {
    pub(super) ends: [End; 2],
}

pub(super) struct End {
    pub(super) node: usize,
    /// None until the node that is called notices.
    pub(super) peer: Option<u32>,
    /// Packets that it has sent and that have not arrived.
    pub(super) sent: VecDeque<Vec<u8>>,
    /// Packets behind these that its method holds.
    pub(super) held: VecDeque<Vec<u8>>,
    /// It has closed the connection: the other end notices behind the last packet.
    pub(super) closed: bool,
}

impl End {
    pub(super) fn flush(&mut self) {
        self.sent.append(&mut self.held);
    }
}
