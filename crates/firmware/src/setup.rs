//! Objects that the kernel's driver and the processes' library set up: names, virtual interfaces, regions,
//! completion queues, connections, classes of channels.

/// Virtual time, in picoseconds since a moment of the driver's choice; never goes back.
pub type Time = u64;

/// A second.
pub const SECOND: Time = 1_000_000_000_000;

/// A node of the network, as frames name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// A virtual interface of this card: below [`Limits::vis`](crate::Limits::vis). Numbers of destroyed
/// ones are reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ViId(pub u32);

/// A completion queue of this card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueId(pub u32);

/// A buffer in card memory, owned by the driver, assigned by the program: below
/// [`Limits::buffers`](crate::Limits::buffers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u32);

/// A processor of the card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Processor {
    /// The only processor, or the one that sends.
    First,
    /// The processor that receives (§4.3.10).
    Second,
}

/// The two work queues of a virtual interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// Sends, RDMA writes, RDMA reads.
    Send,
    /// Receives.
    Receive,
}

/// The guarantee of a connection (VIPL's reliability levels).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Reliability {
    /// A send completes when the frame has been sent. A message that is lost, or finds no descriptor, is gone.
    #[default]
    Unreliable,
    /// A send completes when the message has reached the peer's card; each arrives once, in order.
    Delivery,
    /// A send completes when the message lies in the peer's memory.
    Reception,
}

/// Attributes of a new virtual interface.
#[derive(Debug, Clone, Copy, Default)]
pub struct ViAttributes {
    /// Memory that its descriptors name must carry this tag.
    pub tag: u32,
    /// Level of the connections that it can have.
    pub reliability: Reliability,
    /// The peer may write to memory that allows it.
    pub rdma_write: bool,
    /// The peer may read memory that allows it.
    pub rdma_read: bool,
    /// The completion queue that completions of sends are also written to.
    pub send_queue: Option<QueueId>,
    /// The completion queue that completions of receives are also written to.
    pub receive_queue: Option<QueueId>,
}

/// The other end of a connection, as the two kernels' drivers agreed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// The peer's node.
    pub node: NodeId,
    /// The peer's virtual interface.
    pub vi: ViId,
    /// The same number at both ends, and a different one for each connection between the two:
    /// frames of an earlier connection are not taken for frames of this one.
    pub key: u32,
}

/// Registered memory.
#[derive(Debug, Clone, Copy)]
pub struct Region<'a> {
    /// Virtual address of the first byte.
    pub base: u64,
    /// Length in bytes, not 0.
    pub bytes: u64,
    /// Only virtual interfaces with this tag may use it.
    pub tag: u32,
    /// Peers may write to it.
    pub rdma_write: bool,
    /// Peers may read it.
    pub rdma_read: bool,
    /// Bus address of each page from the one that holds `base` to the one that holds the last byte.
    pub pages: &'a [u64],
}

/// A completion queue: a ring of 16-byte entries ([`wire::vi`](causeway_wire::vi)'s `Completion`)
/// in registered memory, zeroed by its owner. The card never writes outside of it. The owner, which
/// knows how many descriptors were posted, has to make sure that no entry is overwritten before it
/// is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompletionQueue {
    /// Virtual address of the first entry, aligned to 16 bytes.
    pub address: u64,
    /// Handle of the memory.
    pub handle: u32,
    /// Protection tag of the owner.
    pub tag: u32,
    /// Number of entries.
    pub entries: u32,
}

/// Which end of a channel a reservation is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// This card sends the channel's messages.
    Outgoing,
    /// This card receives them.
    Incoming,
}

/// The traffic of a channel (thesis, chapter 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// Constant bit rate: messages of `message_bytes` that make `rate` bytes per second.
    Constant {
        /// Bytes per second.
        rate: u64,
        /// Bytes of a message.
        message_bytes: u32,
    },
    /// Variable bit rate, bounded by a mean, a peak and the burst that may be sent at the peak.
    Variable {
        /// Mean, in bytes per second.
        mean: u64,
        /// Peak, in bytes per second.
        peak: u64,
        /// Bytes that may be sent above the mean.
        burst_bytes: u64,
        /// Bytes of a message.
        message_bytes: u32,
        /// How long a message may be delayed by others of its burst.
        delay: Time,
    },
}

/// A resource that admission control guards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resource {
    /// The processor that sends.
    SendProcessor,
    /// The processor that receives; with one processor, the same one.
    ReceiveProcessor,
    /// The host DMA engine.
    HostDma,
    /// The network send engine.
    NetSend,
    /// The network receive engine.
    NetReceive,
}

/// A reservation that was not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{resource:?} has no room for it; the largest rate that fits is {offer} bytes per second")]
pub struct Refusal {
    /// The resource of which too little is left.
    pub resource: Resource,
    /// The counter-offer: the largest rate (of [`Traffic::Variable`]: the largest mean, peak and burst
    /// scaled with it) that would fit, in bytes per second; 0 if nothing does.
    pub offer: u64,
}

/// Why something could not be set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SetUpError {
    /// The card holds no more of these.
    #[error("the card has no room for another {what}")]
    Full {
        /// What there is no room for.
        what: &'static str,
    },
    /// There is no object of that number.
    #[error("there is no {what} of that number")]
    Unknown {
        /// The kind of object that was named.
        what: &'static str,
    },
    /// The object is still in use; try again when posted descriptors have completed.
    #[error("the {what} is still in use")]
    Busy {
        /// The kind of object that is in use.
        what: &'static str,
    },
    /// The request contradicts itself or the card.
    #[error("{what}")]
    Invalid {
        /// What is wrong.
        what: &'static str,
    },
    /// Admission control refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
}
