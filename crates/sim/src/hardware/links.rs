//! Parameters of links and switches, and outages.

use crate::engine::Time;

/// One of the computers, from 0.
pub type NodeId = usize;

/// A link's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// Bytes per second in each direction.
    pub bytes_per_second: u64,
    /// The latency from one end to the other.
    pub latency: Time,
    /// Bytes of a frame in addition to its sender's: route, checksum, gap.
    pub framing_bytes: u64,
}

/// The handling of a frame when the output's buffer is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Its sender is stopped until there is room.
    Stop,
    /// Its sender needs a credit for it, which takes time to return.
    Credit,
    /// It is lost.
    Drop,
}

impl WhenFull {
    /// The words for these in files.
    pub const WORDS: &'static [(&'static str, Self)] = &[
        ("stop", Self::Stop),
        ("credit", Self::Credit),
        ("drop", Self::Drop),
    ];
}

/// A switch's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchSpec {
    /// From a head's arrival to its departure through an idle output.
    pub latency: Time,
    /// Bytes of each output's buffer.
    pub buffer_bytes: u64,
    /// The handling of frames when it is full.
    pub when_full: WhenFull,
    /// With credits: from a byte's departure from the buffer until its credit is counted, in
    /// addition to the link's latency.
    pub credit_time: Time,
}

/// Which of several paths of equal length a frame takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// Always the same way to the same node.
    #[default]
    Destination,
    /// Always the same way between the same nodes, chosen by a hash of their numbers.
    Pair,
    /// The path whose first link between switches is free first and has not failed, chosen again when no frame of the sender to this
    /// receiver is in flight, so that frames stay in order.
    LeastBusy,
}

impl Routing {
    /// The words for these in files.
    pub const WORDS: &'static [(&'static str, Self)] = &[
        ("destination", Self::Destination),
        ("pair", Self::Pair),
        ("least busy", Self::LeastBusy),
    ];
}

/// The part that fails, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A node's link.
    Node(NodeId),
    /// A switch with all its links.
    Switch(usize),
    /// The cable between two switches that are joined.
    Cable(usize, usize),
}

/// A time in which a part fails. Frames that are on a link then, or would begin on it, are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The part that fails.
    pub what: Broken,
    /// The beginning.
    pub from: Time,
    /// The end.
    pub to: Time,
    /// Whether a node whose link fails stands still meanwhile: neither its card's program nor its processes run.
    pub stops: bool,
}
