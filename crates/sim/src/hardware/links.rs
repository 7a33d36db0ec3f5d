//! What links and switches are like, and when they are out of order.

use crate::engine::Time;

/// One of the computers, from 0.
pub type NodeId = usize;

/// What a link is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// Bytes per second in each direction.
    pub bytes_per_second: u64,
    /// From one end to the other.
    pub latency: Time,
    /// Bytes that a frame takes besides what its sender gives: route, checksum, gap.
    pub framing_bytes: u64,
}

/// What becomes of a frame that finds the output's buffer full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Its sender is stopped until there is room.
    Stop,
    /// Its sender has to have a credit for it, which takes time to come back.
    Credit,
    /// It is lost.
    Drop,
}

impl WhenFull {
    /// How files say it.
    pub const WORDS: &'static [(&'static str, Self)] = &[
        ("stop", Self::Stop),
        ("credit", Self::Credit),
        ("drop", Self::Drop),
    ];
}

/// What a switch is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchSpec {
    /// From a head's arrival to its leaving through an idle output.
    pub latency: Time,
    /// Bytes that one output's buffer holds.
    pub buffer_bytes: u64,
    /// What happens when it is full.
    pub when_full: WhenFull,
    /// With credits: from a byte's leaving the buffer to its credit's being counted, besides the link's latency.
    pub credit_time: Time,
}

/// Which of several ways of equal length a frame takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// Always the same one to the same node.
    #[default]
    Destination,
    /// Always the same one from the same node to the same node, chosen by their numbers' hash.
    Pair,
    /// The one whose first link is free first, chosen anew when nothing of the sender's to this receiver is under way, so that
    /// frames stay in order.
    LeastBusy,
}

impl Routing {
    /// How files say it.
    pub const WORDS: &'static [(&'static str, Self)] = &[
        ("destination", Self::Destination),
        ("pair", Self::Pair),
        ("least busy", Self::LeastBusy),
    ];
}

/// What is out of order in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A node's link.
    Node(NodeId),
    /// A switch with all its links.
    Switch(usize),
    /// The cable between two switches that are joined.
    Cable(usize, usize),
}

/// A time in which something is out of order. What is on a link then, or would begin on it, is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// What.
    pub what: Broken,
    /// From.
    pub from: Time,
    /// Until.
    pub to: Time,
}
