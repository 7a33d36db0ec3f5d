//! Settings and outcome of a simulation of conversations.

/// Settings of a simulation.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// How many nodes exchange messages.
    pub nodes: usize,
    /// How many steps.
    pub steps: usize,
    /// Whether connections break and operations are cancelled.
    pub faults: bool,
    /// Whether the memory of some messages, on either side, is in pieces.
    pub in_pieces: bool,
}

/// Its outcome.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// All packets and completions, in order.
    pub log: Vec<u8>,
    /// Messages that were received.
    pub received: usize,
    /// Messages that were received by a receive that could have had one of several peers.
    pub from_any: usize,
    /// How often two nodes called each other at once, and how often one that had nothing to send disconnected.
    pub crossings: usize,
    /// See there.
    pub partings: usize,
    /// Receives that were offered to their senders, messages that were written into these, and offers that were taken back.
    pub offers: usize,
    /// See there.
    pub written: usize,
    /// See there.
    pub retracted: usize,
    /// Packets that were held for a while.
    pub held: usize,
    /// Parts of messages that were sent.
    pub parts: usize,
}
