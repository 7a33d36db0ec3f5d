//! Recording events while a world runs.

use std::collections::VecDeque;

use causeway_firmware::Side;

use crate::engine::Time;
use crate::statistics::Statistics;

/// A stage that a message has reached (the rows of Table 5.1, and of fig. 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The doorbell reached the card.
    Rung,
    /// The program noticed it.
    Noticed,
    /// The transfer of the descriptor was programmed.
    DescriptorProgrammed,
    /// The program noticed that the descriptor had arrived.
    DescriptorDown,
    /// The transfer of the data from or to the host was programmed.
    DataProgrammed,
    /// The program noticed that the data had been moved.
    DataMoved,
    /// The frame was passed to the network send engine.
    NetProgrammed,
    /// The program noticed that the frame had left.
    NetDone,
    /// The frame was in the card's memory.
    Deposited,
    /// The program noticed it.
    FrameNoticed,
    /// The transfer of the status was programmed.
    StatusProgrammed,
    /// The program noticed that the status had been written.
    StatusDone,
    /// The status was in the host's memory.
    StatusLanded,
    /// The transfer of the completion queue's entry was programmed.
    EntryProgrammed,
}

impl Stage {
    /// The stage's name in a trace.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rung => "doorbell rung",
            Self::Noticed => "doorbell noticed",
            Self::DescriptorProgrammed => "descriptor DMA programmed",
            Self::DescriptorDown => "descriptor down",
            Self::DataProgrammed => "data DMA programmed",
            Self::DataMoved => "data moved",
            Self::NetProgrammed => "net send programmed",
            Self::NetDone => "net send done",
            Self::Deposited => "frame deposited",
            Self::FrameNoticed => "frame noticed",
            Self::StatusProgrammed => "status DMA programmed",
            Self::StatusDone => "status done",
            Self::StatusLanded => "status landed",
            Self::EntryProgrammed => "completion DMA programmed",
        }
    }
}

/// The time at which a message reached a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The time.
    pub at: Time,
    /// The node.
    pub node: u32,
    /// The virtual interface.
    pub vi: u32,
    /// The work queue of its descriptor.
    pub side: Side,
    /// The program's number of the message; for [`Stage::Rung`] the descriptor's slot in its work queue.
    pub message: u64,
    /// The stage.
    pub stage: Stage,
}

/// A span in which a resource was used, for timelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The node.
    pub node: u32,
    /// The resource.
    pub track: Track,
    /// The purpose.
    pub name: &'static str,
    /// The beginning.
    pub start: Time,
    /// The end.
    pub end: Time,
    /// The message: its sender's node, and its number there.
    pub message: Option<(u32, u64)>,
}

/// A line of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Track {
    /// Doorbells of sends that the card's program has not noticed.
    Doorbell,
    /// A process of the host.
    Process(u32),
    /// One of the card's processors.
    Processor(u8),
    /// Transfers from host memory.
    HostDmaDown,
    /// Transfers to host memory.
    HostDmaUp,
    /// The network send engine.
    NetSend,
    /// The network receive engine.
    NetReceive,
    /// The network between the nodes.
    Wire,
}

/// Sums over a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Time that messages waited in send queues, from their doorbell's ringing to its being noticed.
    pub send_wait: Time,
    /// The number of such messages.
    pub sends_noticed: u64,
    /// Time that the cards' processors worked.
    pub processor_busy: Time,
    /// Turns of the program.
    pub turns: u64,
    /// Frames that left.
    pub frames: u64,
    /// Frames that the network lost.
    pub frames_lost: u64,
    /// How often the program passed an engine more than it holds.
    pub overcommitted: u64,
    /// Completions with an error.
    pub errors: u64,
    /// Silent doorbells polled while nothing else was to be done.
    pub idle_polls: u64,
}

/// The records of a world; which of them are kept is chosen before it runs.
#[derive(Debug, Default)]
pub struct Record {
    /// Sums, always.
    pub sums: Sums,
    /// Marks, if wanted.
    pub marks: Option<Vec<Mark>>,
    /// Slices, if wanted.
    pub slices: Option<Vec<Slice>>,
    /// Distributions of latencies, events over time, and use of resources, if wanted.
    pub statistics: Option<Box<Statistics>>,
}

impl Record {
    /// Also notes each message's stages.
    pub fn keep_marks(&mut self) {
        self.marks.get_or_insert_default();
    }

    /// Also notes the use of resources over time: everything that a timeline needs.
    pub fn keep_slices(&mut self) {
        self.keep_marks();
        self.slices.get_or_insert_default();
    }

    /// Also notes distributions and use from `from` on.
    pub fn keep_statistics(&mut self, from: Time) {
        self.statistics
            .get_or_insert_with(|| Box::new(Statistics::new(from)));
    }

    pub(crate) fn mark(&mut self, mark: Mark) {
        if let Some(marks) = &mut self.marks {
            marks.push(mark);
        }
    }

    pub(crate) fn slice(&mut self, slice: Slice) {
        if let Some(slices) = &mut self.slices {
            slices.push(slice);
        }
    }
}

/// Marks to be set when the program notices an event: those of each engine in the order of the events.
#[derive(Debug, Default)]
pub(crate) struct Unnoticed {
    pub(crate) host: VecDeque<Mark>,
    pub(crate) net_send: VecDeque<Mark>,
    pub(crate) net_receive: VecDeque<Mark>,
}
