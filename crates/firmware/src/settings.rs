//! How a card is built and which program it runs: everything that is fixed when it is set up.

use crate::setup::{NodeId, SECOND, Time};

/// Which event the program handles next, and in what order it serves its engines' queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Discipline {
    /// One message after the other in fixed order; the processor spins until each transfer has finished (Base, SVIA).
    #[default]
    Sequential,
    /// Events in the order in which they occur; a queue of transfers per engine, first come, first served (Base+O,
    /// PVIA).
    EventDriven,
    /// As [`EventDriven`](Self::EventDriven), with VirtualClock stamps at the doorbell and both engines' queues in stamp order
    /// (QoSVIA).
    QosAware,
}

/// How doorbells reach the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Doorbells {
    /// Each virtual interface has its own, and the program polls them one after the other.
    #[default]
    Polled,
    /// Hardware merges them into one queue for each processor (§4.3.8).
    Queued,
}

/// Where transfers wait for their engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DmaQueue {
    /// In the program's memory; the engine holds one at a time.
    #[default]
    Software,
    /// The engine itself holds this many (§4.3.7); more wait in software.
    Hardware(u32),
}

/// When receive descriptors are brought to the card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ReceiveDescriptors {
    /// When a message needs one.
    #[default]
    OnArrival,
    /// When they are posted, up to [`Limits::descriptors_per_queue`].
    Ahead,
}

/// How lost frames are sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Retransmission {
    /// Everything from the lost frame on; the receiver keeps no out-of-order frames.
    #[default]
    GoBack,
    /// Only lost frames; the receiver keeps later ones that have arrived.
    Selective,
}

/// The largest window: acknowledgements have this many bits.
pub const MAX_WINDOW: u32 = 32;

/// Everything about a card. `Settings::default()` is the baseline of §4.3.1; the other designs of
/// the thesis differ from it in a field or two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// This node's number in frames.
    pub node: NodeId,
    /// The order in which events are handled and queues are served.
    pub discipline: Discipline,
    /// One processor for everything, or a second for receiving (§4.3.10).
    pub two_processors: bool,
    /// How doorbells are noticed.
    pub doorbells: Doorbells,
    /// Event-driven disciplines: doorbells are noticed only when no engine has finished anything, instead of each
    /// source of events being served in rotation. (The sequential discipline finishes a message first anyway.)
    pub doorbells_last: bool,
    /// Where host transfers wait.
    pub host_dma: DmaQueue,
    /// Where frames to be sent wait (fig. 5.8).
    pub net_send: DmaQueue,
    /// Buffers that the network receive engine holds: 1, or 2 with a hardware queue.
    pub net_receive: u32,
    /// When receive descriptors are read.
    pub receive_descriptors: ReceiveDescriptors,
    /// Reads the next descriptor together with the data of the one before (§4.3.9).
    pub tailgating: bool,
    /// Passes a frame to the network send engine while its data is still being read from host
    /// memory (§7.2), instead of when all of it has been read.
    pub cut_through: bool,
    /// Passes the data of a frame to the host DMA engine while the frame is still arriving from the
    /// network (§7.2), instead of when all of it has arrived. This applies to messages of
    /// connections without reliability that go into a posted receive: data that is acknowledged, or
    /// written to memory that the peer names, has to be complete first.
    pub receive_cut_through: bool,
    /// Takes descriptors from the shadow queue on the card (§4.3.11).
    pub shadow_queues: bool,
    /// Message bytes that a descriptor can carry itself (§4.3.4); at most 1024.
    pub payload_bytes: u32,
    /// Message bytes that a frame can carry: the size of card buffers.
    pub frame_bytes: u32,
    /// Size of the host's pages, a power of two.
    pub page_bytes: u32,
    /// Numbers of everything that the card's memory has room for.
    pub limits: Limits,
    /// The reliable levels.
    pub reliable: Reliable,
    /// What best effort is guaranteed in addition to reserved channels.
    pub best_effort: BestEffort,
    /// The capacity that admission control may reserve.
    pub capacity: Capacity,
}

/// How many of everything the card's memory has room for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Virtual interfaces.
    pub vis: u32,
    /// Descriptors that can be posted to a work queue without having been taken up.
    pub posted_per_queue: u32,
    /// Descriptors of a work queue that are in progress at a time.
    pub descriptors_per_queue: u32,
    /// Data segments of a descriptor.
    pub segments: u32,
    /// Registered regions.
    pub regions: u32,
    /// Pages of all of them.
    pub pages: u32,
    /// Completion queues.
    pub completion_queues: u32,
    /// Card buffers.
    pub buffers: u32,
    /// Card buffers that only receiving may use.
    pub receive_buffers: u32,
    /// Frames on their way out: in the making, queued, or not yet acknowledged.
    pub frames: u32,
    /// Frames of one message that are being fetched or sent at a time (the sequential discipline: one).
    pub frames_per_message: u32,
    /// RDMA reads that a peer may have outstanding on a connection.
    pub reads: u32,
}

/// Constants of the reliable levels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reliable {
    /// Which frames are sent again.
    pub retransmission: Retransmission,
    /// Frames that may be unacknowledged on a connection; at most [`MAX_WINDOW`].
    pub window: u32,
    /// An acknowledgement is overdue after this.
    pub timeout: Time,
    /// This many timeouts in a row without progress break the connection.
    pub retries: u32,
    /// How long an acknowledgement that the peer does not wait for may be held back for a frame to carry it.
    pub ack_delay: Time,
}

/// The guaranteed share of best effort in the QoS-aware discipline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BestEffort {
    /// Bytes per second for best effort, however much is reserved. 0 is the thesis's discipline:
    /// best effort gets only what reserved channels leave.
    pub rate: u64,
    /// The message size, in bytes, by which a best-effort doorbell is stamped before its descriptor is read.
    pub message_bytes: u32,
    /// Best-effort messages that are in progress at a time, which bounds how far their clock runs
    /// ahead while reserved channels are silent; the rest wait in the order of their doorbells.
    pub in_progress: u32,
}

/// The capacity of a card, for admission control. A message of n bytes and f frames takes
/// `*_message + f * *_frame` of a processor, and of an engine n bytes at its rate plus its constants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capacity {
    /// Processor time to send a message.
    pub send_message: Time,
    /// Processor time for each frame sent.
    pub send_frame: Time,
    /// Processor time to receive a message.
    pub receive_message: Time,
    /// Processor time for each frame received.
    pub receive_frame: Time,
    /// Host DMA: bytes per second.
    pub host_rate: u64,
    /// Host DMA: additional time for each message (descriptor, status, completion).
    pub host_message: Time,
    /// Host DMA: additional time for each frame.
    pub host_frame: Time,
    /// Wire and network engines: bytes per second, each way.
    pub net_rate: u64,
    /// Network engines: additional time for each frame.
    pub net_frame: Time,
    /// Share of every resource that may be reserved, in thousandths.
    pub reservable_permille: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            node: NodeId(0),
            discipline: Discipline::Sequential,
            two_processors: false,
            doorbells: Doorbells::Polled,
            doorbells_last: false,
            host_dma: DmaQueue::Software,
            net_send: DmaQueue::Software,
            net_receive: 1,
            receive_descriptors: ReceiveDescriptors::OnArrival,
            tailgating: false,
            cut_through: false,
            receive_cut_through: false,
            shadow_queues: false,
            payload_bytes: 0,
            frame_bytes: 16 * 1024,
            page_bytes: 4096,
            limits: Limits::default(),
            reliable: Reliable::default(),
            best_effort: BestEffort::default(),
            capacity: Capacity::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            vis: 64,
            posted_per_queue: 64,
            descriptors_per_queue: 8,
            segments: 16,
            regions: 256,
            pages: 65_536,
            completion_queues: 64,
            buffers: 64,
            receive_buffers: 16,
            frames: 128,
            frames_per_message: 4,
            reads: 4,
        }
    }
}

impl Default for Reliable {
    fn default() -> Self {
        Self {
            retransmission: Retransmission::GoBack,
            window: 16,
            timeout: SECOND / 1000,
            retries: 8,
            ack_delay: SECOND / 20_000,
        }
    }
}

impl Default for BestEffort {
    fn default() -> Self {
        Self {
            rate: 1_000_000,
            message_bytes: 4096,
            in_progress: 8,
        }
    }
}

/// A Myrinet card with a LANai 7 on a 66 MHz, 64 bit PCI bus that runs the QoS-aware program, derived from Table 5.1:
///
/// - Of a message of up to 4 KiB the processor has 9 µs to begin the descriptor's transfer, 11 to 17 for its check and the
///   data's transfer, 5 for the frame, 4 or 5 for the status, 4 for its end: 38 µs. A receiver has 12 to 17 µs from the frame to
///   the data's transfer, 5 and 4 for the status, and outside the table's critical path the 13 µs and the doorbell of
///   the descriptor that it reads ahead: 44 µs. What depends on the length is taken into each frame.
/// - Data goes down in 16 KiB / 126 µs = 130 MB/s; besides, descriptor and status take the bus 2 µs each.
///
/// The simulated card saturates there: a test of the simulator compares admitted traffic with carried traffic.
impl Default for Capacity {
    fn default() -> Self {
        Self {
            send_message: 29_000_000,
            send_frame: 9_000_000,
            receive_message: 34_000_000,
            receive_frame: 10_000_000,
            host_rate: 130_000_000,
            host_message: 4_000_000,
            host_frame: 1_000_000,
            net_rate: 160_000_000,
            net_frame: 1_000_000,
            reservable_permille: 900,
        }
    }
}

/// Settings that no card can have: the wrong field, and its allowed values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{field} must be {allowed}")]
pub struct SettingsError {
    /// The field.
    pub field: &'static str,
    /// The values that it may have.
    pub allowed: &'static str,
}

/// A condition that must hold, the field that it is about, and the values that it may have.
type Rule = (bool, &'static str, &'static str);

fn first_broken(rules: &[Rule]) -> Result<(), SettingsError> {
    match rules.iter().find(|(holds, ..)| !holds) {
        Some(&(_, field, allowed)) => Err(SettingsError { field, allowed }),
        None => Ok(()),
    }
}

impl Settings {
    /// Checks that a card can have these settings.
    pub fn check(&self) -> Result<(), SettingsError> {
        self.check_engines()?;
        self.check_limits()?;
        self.check_constants()
    }

    fn check_engines(&self) -> Result<(), SettingsError> {
        let sequential = self.discipline == Discipline::Sequential;
        let hardware = |queue: DmaQueue| matches!(queue, DmaQueue::Hardware(_));
        let length = |queue: DmaQueue| match queue {
            DmaQueue::Software => 1,
            DmaQueue::Hardware(entries) => entries,
        };
        first_broken(&[
            (
                !(sequential && (hardware(self.host_dma) || hardware(self.net_send))),
                "host_dma and net_send",
                "software queues with the sequential discipline, which never uses one",
            ),
            (
                !(sequential && self.two_processors),
                "two_processors",
                "false with the sequential discipline",
            ),
            (
                !(sequential && self.tailgating),
                "tailgating",
                "false with the sequential discipline, which has no next descriptor yet",
            ),
            (
                (1..=4096).contains(&length(self.host_dma)),
                "host_dma",
                "a queue of 1 to 4096 entries",
            ),
            (
                (1..=4096).contains(&length(self.net_send)),
                "net_send",
                "a queue of 1 to 4096 entries",
            ),
            (
                (1..=64).contains(&self.net_receive),
                "net_receive",
                "1 to 64",
            ),
            (
                self.payload_bytes <= 1024 && self.payload_bytes <= self.frame_bytes,
                "payload_bytes",
                "at most 1024 and at most frame_bytes",
            ),
            (
                (64..=1 << 20).contains(&self.frame_bytes),
                "frame_bytes",
                "64 to 1048576",
            ),
            (
                self.page_bytes.is_power_of_two() && (512..=1 << 30).contains(&self.page_bytes),
                "page_bytes",
                "a power of two from 512 to 1073741824",
            ),
        ])
    }

    fn check_limits(&self) -> Result<(), SettingsError> {
        let limits = &self.limits;
        let in_progress = 2 * u64::from(limits.vis) * u64::from(limits.descriptors_per_queue);
        let posted = 2 * u64::from(limits.vis) * u64::from(limits.posted_per_queue);
        let descriptor_bytes = 64 + u64::from(self.payload_bytes) + 16 * u64::from(limits.segments);
        first_broken(&[
            (
                (1..=65_536).contains(&limits.vis),
                "limits.vis",
                "1 to 65536",
            ),
            (
                (1..=65_536).contains(&limits.posted_per_queue),
                "limits.posted_per_queue",
                "1 to 65536",
            ),
            (
                (1..=1024).contains(&limits.descriptors_per_queue),
                "limits.descriptors_per_queue",
                "1 to 1024",
            ),
            (
                in_progress <= 1 << 20 && in_progress.saturating_mul(descriptor_bytes) <= 1 << 30,
                "limits.descriptors_per_queue",
                "so few that there are at most 2^20 on the card, in 2^30 bytes",
            ),
            (
                posted <= 1 << 24,
                "limits.posted_per_queue",
                "so few that at most 2^24 can be posted to the card",
            ),
            (
                (1..=256).contains(&limits.segments),
                "limits.segments",
                "1 to 256",
            ),
            (
                (1..=1 << 20).contains(&limits.regions),
                "limits.regions",
                "1 to 1048576",
            ),
            (
                limits.completion_queues <= 65_536,
                "limits.completion_queues",
                "at most 65536",
            ),
            (
                limits.buffers <= 1 << 20
                    && limits.receive_buffers > self.net_receive
                    && limits.receive_buffers < limits.buffers,
                "limits.receive_buffers",
                "more than net_receive and less than limits.buffers (at most 1048576)",
            ),
            (
                (1..=1 << 20).contains(&limits.frames),
                "limits.frames",
                "1 to 1048576",
            ),
            (
                limits.frames_per_message >= 1,
                "limits.frames_per_message",
                "at least 1",
            ),
            (
                (1..=256).contains(&limits.reads),
                "limits.reads",
                "1 to 256",
            ),
        ])
    }

    fn check_constants(&self) -> Result<(), SettingsError> {
        first_broken(&[
            (
                (1..=MAX_WINDOW).contains(&self.reliable.window),
                "reliable.window",
                "1 to 32",
            ),
            (self.reliable.timeout > 0, "reliable.timeout", "more than 0"),
            (
                self.best_effort.message_bytes > 0 && self.best_effort.in_progress > 0,
                "best_effort.message_bytes and best_effort.in_progress",
                "more than 0",
            ),
            (
                self.capacity.host_rate > 0 && self.capacity.net_rate > 0,
                "capacity.host_rate and capacity.net_rate",
                "more than 0",
            ),
            (
                self.capacity.reservable_permille <= 1000,
                "capacity.reservable_permille",
                "at most 1000",
            ),
        ])
    }
}
