//! A virtual interface: two work queues, a connection, and the state of both.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use causeway_wire::vi::{FrameHeader, RefuseReason};

use crate::clock::Clock;
use crate::pool::{List, NONE};
use crate::settings::{Limits, MAX_WINDOW};
use crate::setup::{Connection, Reliability, Side, Time, ViAttributes};

/// State of a virtual interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum State {
    /// The slot is free.
    #[default]
    Absent,
    /// Receives can be posted.
    Idle,
    /// Connected; descriptors of both sides are carried out.
    Connected,
    /// An error; all posted descriptors are flushed until the driver disconnects.
    Broken,
    /// Disconnected; becomes idle as soon as everything posted is flushed.
    Closing,
}

/// A posted descriptor that has not been taken up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Posted {
    pub(crate) address: u64,
    pub(crate) handle: u32,
    /// Bytes of it that are in its slot of the shadow queue.
    pub(crate) shadowed: u32,
    /// Stamp, assigned when the doorbell was noticed.
    pub(crate) stamp: Time,
    /// Number of the doorbell.
    pub(crate) message: u64,
}

/// One of the two work queues.
#[derive(Debug, Default)]
pub(crate) struct WorkQueue {
    /// Posted descriptors that have not been taken up.
    pub(crate) posted: VecDeque<Posted>,
    /// How many of these, from the front, have been noticed.
    pub(crate) noticed: usize,
    /// The shadow queue (§4.3.11): a ring of places, of which the front of `posted` has this one.
    pub(crate) shadow: Vec<u8>,
    pub(crate) shadow_front: usize,
    /// Descriptors in progress, in order.
    pub(crate) ops: VecDeque<u32>,
    /// Slots that they take, including those whose completion entry is still being written.
    pub(crate) open: usize,
    /// The status of the first is being written.
    pub(crate) reporting: bool,
    /// A process sleeps until the next completion.
    pub(crate) armed: bool,
}

/// A peer's request to read a span of memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadContext {
    pub(crate) message: u32,
    pub(crate) address: u64,
    pub(crate) handle: u32,
    /// Offset of the span in the data of the whole read.
    pub(crate) base: u32,
    pub(crate) total: u32,
    pub(crate) sent: u32,
    pub(crate) stamp: Time,
}

/// The state of the sending half of a connection.
#[derive(Debug, Default)]
pub(crate) struct Sending {
    /// Operations from the front of the work queue all of whose frames have been made.
    pub(crate) made: usize,
    /// Frames that have been made and not yet been passed to the network engine's queue, in order.
    pub(crate) unsent: List,
    /// Frames in that queue, or sent and not yet acknowledged (reliable levels), in order.
    pub(crate) unacked: List,
    /// All frames, and those of them that are being fetched or sent.
    pub(crate) frames: u32,
    pub(crate) moving: u32,
    pub(crate) next_sequence: u32,
    /// The peer has acknowledged everything before this sequence number.
    pub(crate) acked: u32,
    /// The gap in the peer's acknowledgements that has been filled again.
    pub(crate) filled_gap: Option<u32>,
    /// Messages that take a receive descriptor: how many may be sent, how many were.
    pub(crate) credit: u32,
    pub(crate) spent: u32,
    /// A message waits for credit.
    pub(crate) starved: bool,
    pub(crate) next_message: u32,
    /// Timeouts in a row without progress.
    pub(crate) silent: u32,
    pub(crate) overdue_at: Option<Time>,
    /// RDMA reads whose data has not all arrived, in order.
    pub(crate) reads: VecDeque<u32>,
    /// Their requests without a reply yet.
    pub(crate) requests: u32,
    /// It waits for a card buffer or a frame.
    pub(crate) stalled: bool,
    /// It waits for other best-effort messages.
    pub(crate) queued_best_effort: bool,
}

/// The state of the receiving half.
#[derive(Debug, Default)]
pub(crate) struct Receiving {
    /// The next sequence number.
    pub(crate) expected: u32,
    /// Buffers of frames that arrived ahead of `expected + 1 + i`; only connections with
    /// reliability have room for them.
    pub(crate) held: Box<[u32]>,
    /// Accepted frames whose data is not yet in place: the first, and which after it are.
    pub(crate) unplaced: u32,
    pub(crate) placed: u32,
    /// Accepted frames that wait for those before them or for their descriptor.
    pub(crate) incoming: List,
    /// The message that is being received: its number, and the bytes that have arrived.
    pub(crate) assembling: Option<(u32, u32)>,
    /// Stamp of the message that is coming in.
    pub(crate) stamp: Time,
    /// Of `ops`: the first receive that is not filled yet.
    pub(crate) filled: usize,
    /// Messages that took a receive descriptor and were accepted; receives noticed; receives announced to the peer.
    pub(crate) taken: u32,
    pub(crate) offered: u32,
    pub(crate) told: u32,
    /// RDMA writes whose data is on its way to memory.
    pub(crate) writes_open: u32,
    /// The peer's reads.
    pub(crate) reads: VecDeque<ReadContext>,
    pub(crate) ack_at: Option<Time>,
    /// Frames accepted since the last acknowledgement left.
    pub(crate) unacknowledged: u32,
}

/// A control frame to be sent: it carries no data.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Control {
    pub(crate) ack: bool,
    pub(crate) gap: bool,
    /// The frame requests an acknowledgement.
    pub(crate) probe: bool,
    pub(crate) refuse: Option<RefuseReason>,
    /// The last refusal, repeated to a peer that has not received it.
    pub(crate) refused: Option<RefuseReason>,
    /// The frame is in the network engine's queue, or being sent.
    pub(crate) queued: bool,
    /// The frame is being sent.
    pub(crate) running: bool,
    pub(crate) stamp: Time,
}

/// A virtual interface.
#[derive(Debug, Default)]
pub(crate) struct Vi {
    pub(crate) state: State,
    pub(crate) attributes: ViAttributes,
    pub(crate) connection: Option<Connection>,
    pub(crate) send: WorkQueue,
    pub(crate) receive: WorkQueue,
    pub(crate) tx: Sending,
    pub(crate) rx: Receiving,
    pub(crate) control: Control,
    /// VirtualClocks of its sent and received messages.
    pub(crate) outgoing: Clock,
    pub(crate) incoming: Clock,
    /// It is queued for the program to serve.
    pub(crate) needs_service: bool,
    /// The refusal that notifies its peer of the closing is still to be sent.
    pub(crate) parting: bool,
    /// More was posted than there was room for.
    pub(crate) overrun: bool,
}

impl Vi {
    /// An idle virtual interface with all the memory that it will need, `shadow_bytes` for each slot of the
    /// shadow queues.
    pub(crate) fn new(attributes: ViAttributes, limits: &Limits, shadow_bytes: usize) -> Self {
        let queue = || WorkQueue {
            shadow: vec![0; limits.posted_per_queue as usize * shadow_bytes],
            posted: VecDeque::with_capacity(limits.posted_per_queue as usize),
            ops: VecDeque::with_capacity(limits.descriptors_per_queue as usize),
            ..WorkQueue::default()
        };
        // Only reliable connections hold frames and have reads. Requests of a peer beyond its limit
        // stop at its window.
        let (held, own_reads, reads) = match attributes.reliability {
            Reliability::Unreliable => (0, 0, 0),
            Reliability::Delivery | Reliability::Reception => (
                MAX_WINDOW as usize,
                limits.descriptors_per_queue as usize,
                (limits.reads + MAX_WINDOW) as usize,
            ),
        };
        Self {
            state: State::Idle,
            attributes,
            send: queue(),
            receive: queue(),
            tx: Sending {
                reads: VecDeque::with_capacity(own_reads),
                ..Sending::default()
            },
            rx: Receiving {
                reads: VecDeque::with_capacity(reads),
                held: vec![NONE; held].into(),
                ..Receiving::default()
            },
            ..Self::default()
        }
    }

    pub(crate) fn queue(&self, side: Side) -> &WorkQueue {
        match side {
            Side::Send => &self.send,
            Side::Receive => &self.receive,
        }
    }

    pub(crate) fn queue_mut(&mut self, side: Side) -> &mut WorkQueue {
        match side {
            Side::Send => &mut self.send,
            Side::Receive => &mut self.receive,
        }
    }

    /// Whether descriptors of this side are carried out rather than flushed.
    pub(crate) fn executes(&self, side: Side) -> bool {
        match self.state {
            State::Connected => true,
            State::Idle => side == Side::Receive,
            State::Absent | State::Broken | State::Closing => false,
        }
    }

    pub(crate) fn is_reliable(&self) -> bool {
        self.attributes.reliability != Reliability::Unreliable
    }

    /// Whether the frame comes from the other end of this connection.
    pub(crate) fn is_from_peer(&self, header: &FrameHeader) -> bool {
        self.connection.is_some_and(|connection| {
            connection.key == header.key
                && connection.node.0 == header.from_node
                && connection.vi.0 == header.from_vi
        })
    }

    /// Frames that were made and have not been acknowledged.
    pub(crate) fn window_used(&self) -> u32 {
        self.tx.next_sequence.wrapping_sub(self.tx.acked)
    }

    /// Whether nothing posted is left, and no frame or transfer of this connection.
    pub(crate) fn is_quiet(&self) -> bool {
        let empty = |queue: &WorkQueue| queue.posted.is_empty() && queue.open == 0;
        empty(&self.send)
            && empty(&self.receive)
            && self.tx.frames == 0
            && self.rx.incoming.is_empty()
            && self.rx.writes_open == 0
            && !self.control.queued
            && !self.tx.stalled
            && !self.tx.queued_best_effort
            && !self.needs_service
    }

    /// Resets the connection's numbers, so that a new one can begin. Receives that were posted
    /// before count as announced.
    pub(crate) fn begin_connection(&mut self, connection: Connection) {
        let reads = core::mem::take(&mut self.tx.reads);
        self.tx = Sending {
            reads,
            ..Sending::default()
        };
        let reads = core::mem::take(&mut self.rx.reads);
        let mut held = core::mem::take(&mut self.rx.held);
        held.fill(NONE);
        self.rx = Receiving {
            reads,
            held,
            offered: (self.receive.noticed + self.receive.ops.len()) as u32,
            ..Receiving::default()
        };
        self.connection = Some(connection);
        self.state = State::Connected;
    }

    /// When this virtual interface has to be served even without an event.
    pub(crate) fn deadline(&self) -> Option<Time> {
        match (self.tx.overdue_at, self.rx.ack_at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}
