//! The program's requirements of the card that it runs on: charges for named steps of work, and transfers of the three
//! DMA engines. The driver implements [`Card`].

use crate::setup::{BufferId, NodeId, QueueId, Side, Time, ViId};

/// The driver's side of the card.
///
/// Calls come only from within [`Firmware::turn`](crate::Firmware::turn). A transfer begins when
/// the turn began plus all time that was charged in it so far.
pub trait Card {
    /// Charges `step` this many times.
    fn charge(&mut self, step: Step, times: u32);

    /// Passes a transfer to an engine. The program never passes an engine more than it may hold:
    /// one transfer, or the entries of its hardware queue ([`Settings`](crate::Settings)). What
    /// `request` borrows is valid during the call only.
    fn start_dma(&mut self, engine: Engine, request: DmaRequest<'_>);

    /// Reports an event to the kernel's driver: an interrupt, at the time charged so far.
    fn report(&mut self, report: Report);
}

/// Declares the steps: their names, and those in snake case by which cost tables spell them.
macro_rules! steps {
    ($($(#[$doc:meta])* $step:ident = $name:literal,)*) => {
        /// The work of the program. Simulated time is charged for these and for hardware only: a
        /// card's cost table has one entry for each. A driver that moves real bytes can ignore
        /// them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Step {
            $($(#[$doc])* $step,)*
        }

        impl Step {
            /// Every step, in the order of their numbers.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$step),*];

            /// The step's name in snake case, as cost tables spell it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$step => $name,)*
                }
            }
        }
    };
}

steps! {
    /// Finds one event in the event loop: the scan of the sources (event-driven disciplines).
    LookRound = "look_round",
    /// Finds the state of a suspended message and resumes it (event-driven disciplines).
    SwitchState = "switch_state",
    /// Reads one doorbell that is polled, rung or not. The driver counts unsuccessful polls while
    /// nothing else is to be done (see [`Turn`](crate::Turn)); they are not charged here.
    PollDoorbell = "poll_doorbell",
    /// Takes a posted descriptor's address from a doorbell (polled or queued by hardware).
    DequeueDoorbell = "dequeue_doorbell",
    /// Computes a VirtualClock stamp (QoS-aware discipline).
    StampVirtualClock = "stamp_virtual_clock",
    /// Takes a control segment out of the shadow queue instead of reading the descriptor.
    ReadShadow = "read_shadow",
    /// Checks a descriptor: format, handles, protection tags, lengths.
    ParseDescriptor = "parse_descriptor",
    /// Looks up one page in the translation table.
    TranslatePage = "translate_page",
    /// Writes the registers of an idle host DMA engine: once per transfer.
    ProgramHostDma = "program_host_dma",
    /// Describes one contiguous piece to the host DMA engine, queued or not.
    ProgramPiece = "program_piece",
    /// The upkeep of putting one piece into the hardware queue of the host DMA engine.
    EnqueueHostHardware = "enqueue_host_hardware",
    /// Appends a transfer to a software queue, its engine being busy.
    EnqueueSoftware = "enqueue_software",
    /// Takes the next transfer from a software queue, after its engine has become free.
    DequeueSoftware = "dequeue_software",
    /// Finds the place of one piece (host) or frame (network) in a queue kept in stamp order.
    InsertByStamp = "insert_by_stamp",
    /// Passes one waiting entry on that search.
    PassQueued = "pass_queued",
    /// Notices that the host DMA engine has finished a transfer.
    CheckHostDma = "check_host_dma",
    /// Builds the header of a frame.
    BuildHeader = "build_header",
    /// Writes the registers of an idle network send engine.
    ProgramNetSend = "program_net_send",
    /// Puts a frame into the hardware queue of the network send engine.
    EnqueueNetHardware = "enqueue_net_hardware",
    /// Notices that the network send engine has finished a frame.
    CheckNetSend = "check_net_send",
    /// Gives a free buffer to the network receive engine.
    ProgramNetReceive = "program_net_receive",
    /// Notices that a frame has arrived.
    CheckNetReceive = "check_net_receive",
    /// Checks a frame's header and finds its virtual interface.
    DemuxFrame = "demux_frame",
    /// Finds the receive descriptor and the place in its segments.
    MatchReceive = "match_receive",
    /// Checks a remote address against region, protection tag and rights (RDMA).
    CheckRemote = "check_remote",
    /// Builds a descriptor's status.
    BuildStatus = "build_status",
    /// Builds an entry of a completion queue.
    BuildCompletion = "build_completion",
    /// Takes a card buffer.
    TakeBuffer = "take_buffer",
    /// Releases a card buffer.
    FreeBuffer = "free_buffer",
    /// Processes an acknowledgement (reliable levels).
    TakeAck = "take_ack",
    /// Decides to send one frame again.
    Retransmit = "retransmit",
    /// Handles a deadline.
    HandleTimer = "handle_timer",
}

/// The card's DMA engines (thesis, fig. 4.2 and 5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Engine {
    /// Between host memory and card: HDMA.
    Host,
    /// From card to wire: NSDMA.
    NetSend,
    /// From wire to card: NRDMA.
    NetReceive,
}

/// Identifies a transfer until its engine reports that it has finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(pub u32);

/// A contiguous span of host memory as the bus addresses it; never crosses a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Bus address of the first byte.
    pub bus: u64,
    /// Length in bytes.
    pub bytes: u32,
}

/// A transfer for an engine.
#[derive(Debug, Clone, Copy)]
pub struct DmaRequest<'a> {
    /// Returned in [`Input::DmaFinished`](crate::Input::DmaFinished). [`Engine::NetReceive`]
    /// reports by [`Input::FrameArrived`](crate::Input::FrameArrived) instead.
    pub token: Token,
    /// Place in a hardware queue: behind everything with the same or a smaller stamp, but never
    /// before the transfer in service. Always 0 unless the discipline is QoS-aware.
    pub stamp: Time,
    /// The virtual interface that the transfer is for; used by traces.
    pub vi: ViId,
    /// Which message: the number of its doorbell on this card, in the order they were noticed; an
    /// arriving frame has the number of the receive descriptor that it fills, or 0. For traces.
    pub message: u64,
    /// The memory to move.
    pub transfer: Transfer<'a>,
}

/// A transfer. [`Transfer::engine`] returns the engine that does it.
#[derive(Debug, Clone, Copy)]
pub enum Transfer<'a> {
    /// Reads a descriptor, or the rest of a long one; finishes with its bytes.
    ReadDescriptor {
        /// Which work queue it was posted to.
        side: Side,
        /// The pieces of its memory.
        pieces: &'a [Piece],
    },
    /// Reads a frame's data into the front of a card buffer.
    ReadData {
        /// The memory of the data.
        pieces: &'a [Piece],
        /// The card buffer.
        into: BufferId,
        /// The virtual interface's next descriptor, read in the same transfer (tailgating, §4.3.9);
        /// empty if there is none, otherwise the transfer finishes with its bytes.
        tail: &'a [Piece],
    },
    /// Writes a frame's data from the front of a card buffer.
    WriteData {
        /// The memory to write to.
        pieces: &'a [Piece],
        /// The card buffer.
        from: BufferId,
        /// The network receive engine still fills the buffer
        /// ([`Settings::receive_cut_through`](crate::Settings::receive_cut_through)). The host engine does not pass the bytes that
        /// have arrived, so that it ends after the frame has arrived, whole or broken. The flag is fixed when the
        /// transfer is handed over.
        follows: bool,
    },
    /// Writes a descriptor's completion: [`wire::vi`](causeway_wire::vi)'s `Status`.
    WriteStatus {
        /// Which work queue it was posted to.
        side: Side,
        /// The memory for immediate data, length and status, followed by the payload.
        pieces: &'a [Piece],
        /// Immediate data, length and status as bytes.
        status: &'a [u8],
        /// For a message that was sent in descriptors: this many bytes from the start of the buffer
        /// are written after the status. They must be visible to the host before the status is.
        payload: Option<(BufferId, u32)>,
    },
    /// Writes an entry of a completion queue.
    WriteCompletion {
        /// The completion queue.
        queue: QueueId,
        /// The memory of the entry.
        pieces: &'a [Piece],
        /// The entry as bytes.
        entry: &'a [u8],
    },
    /// Sends a frame.
    Transmit {
        /// The node to send to.
        to: NodeId,
        /// The frame's header as bytes.
        header: &'a [u8],
        /// The part after the header.
        body: Body<'a>,
        /// The host engine's transfer that is filling the body's buffer, if it has not finished
        /// ([`Settings::cut_through`](crate::Settings::cut_through)). The network engine does not pass the bytes that
        /// have arrived, so that it finishes the frame after that transfer. The value is fixed when the frame is handed
        /// over; the transfer may have finished when the engine starts the frame.
        follows: Option<Token>,
    },
    /// Lets the next frame from the wire be received into a buffer.
    Receive {
        /// The card buffer.
        into: BufferId,
    },
}

/// The part of a frame after its header.
#[derive(Debug, Clone, Copy)]
pub enum Body<'a> {
    /// Bytes that came inside the descriptor; may be empty.
    Inline(&'a [u8]),
    /// This many bytes from the front of a card buffer.
    Buffer(BufferId, u32),
}

impl Body<'_> {
    /// Length in bytes.
    pub fn bytes(&self) -> u32 {
        match self {
            Self::Inline(bytes) => bytes.len() as u32,
            Self::Buffer(_, bytes) => *bytes,
        }
    }
}

impl Transfer<'_> {
    /// The engine that carries out this transfer.
    pub fn engine(&self) -> Engine {
        match self {
            Self::Transmit { .. } => Engine::NetSend,
            Self::Receive { .. } => Engine::NetReceive,
            _ => Engine::Host,
        }
    }

    /// Bytes that cross the host's bus or the wire; 0 for [`Transfer::Receive`].
    pub fn bytes(&self) -> u32 {
        let sum = |pieces: &[Piece]| pieces.iter().map(|piece| piece.bytes).sum::<u32>();
        match self {
            Self::ReadDescriptor { pieces, .. }
            | Self::WriteData { pieces, .. }
            | Self::WriteStatus { pieces, .. }
            | Self::WriteCompletion { pieces, .. } => sum(pieces),
            Self::ReadData { pieces, tail, .. } => sum(pieces) + sum(tail),
            Self::Transmit { header, body, .. } => header.len() as u32 + body.bytes(),
            Self::Receive { .. } => 0,
        }
    }
}

/// A report to the kernel's driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// A process armed a work queue, and a descriptor of it has completed.
    WorkQueueReady(ViId, Side),
    /// A process armed a completion queue, and an entry has been written.
    CompletionQueueReady(QueueId),
    /// A virtual interface is in the error state; everything posted is being flushed.
    Broken(ViId, Breakage),
    /// A posted descriptor is where the card cannot access it, and can never be completed.
    Unreachable {
        /// The virtual interface.
        vi: ViId,
        /// The work queue.
        side: Side,
        /// The address that was posted.
        address: u64,
    },
}

/// Why a virtual interface broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Breakage {
    /// More descriptors were posted than the work queue holds.
    Overrun,
    /// A descriptor was refused: wrong format, segments outside registered memory, wrong tag.
    Descriptor,
    /// A posted address is outside registered memory, is not aligned, or has another tag.
    DescriptorAddress,
    /// The peer acknowledged nothing in time, after all retries.
    Silence,
    /// The peer refused an access to its memory.
    Remote,
    /// The peer's frames were malformed, or broke the protocol.
    Protocol,
    /// The peer reports that its end broke.
    Peer,
}
