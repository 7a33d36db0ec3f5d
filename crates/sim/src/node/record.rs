//! What is noted while a world runs.

use std::collections::VecDeque;

use causeway_firmware::Side;

use crate::engine::Time;
use crate::statistics::Statistics;

/// What a message has come to (the rows of Table 5.1, and of fig. 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The doorbell reached the card.
    Rung,
    /// The program noticed it.
    Noticed,
    /// The transfer of the descriptor was programmed.
    DescriptorProgrammed,
    /// The program noticed that the descriptor had come.
    DescriptorDown,
    /// The transfer of the data from or to the host was programmed.
    DataProgrammed,
    /// The program noticed that the data had been moved.
    DataMoved,
    /// The frame was given to the network send engine.
    NetProgrammed,
    /// The program noticed that the frame had left.
    NetDone,
    /// The frame lay in the card's memory.
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
    /// Its name in a trace.
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

/// One message has come to one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When.
    pub at: Time,
    /// On which node.
    pub node: u32,
    /// On which virtual interface.
    pub vi: u32,
    /// In which work queue its descriptor is.
    pub side: Side,
    /// The program's number of the message; of [`Stage::Rung`] the descriptor's place in its work queue.
    pub message: u64,
    /// The stage.
    pub stage: Stage,
}

/// A use of a resource, for timelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// On which node.
    pub node: u32,
    /// Of what.
    pub track: Track,
    /// What for.
    pub name: &'static str,
    /// From.
    pub start: Time,
    /// Until.
    pub end: Time,
    /// Which message: its sender's node, and its number there.
    pub message: Option<(u32, u64)>,
}

/// What a timeline has a line for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Track {
    /// Doorbells of sends that the card's program has not noticed yet.
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
    /// The way from node to node.
    Wire,
}

/// Sums over a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Time that messages waited in send queues, from their doorbell's ringing to its being noticed.
    pub send_wait: Time,
    /// How many such messages.
    pub sends_noticed: u64,
    /// Time that the cards' processors worked.
    pub processor_busy: Time,
    /// Turns of the program.
    pub turns: u64,
    /// Frames that left.
    pub frames: u64,
    /// Frames that the network lost.
    pub frames_lost: u64,
    /// Times that the program gave an engine more than it holds.
    pub overcommitted: u64,
    /// Completions with an error.
    pub errors: u64,
    /// Doorbells polled in vain while nothing else was to be done.
    pub idle_polls: u64,
}

/// What is noted while a world runs; how much of it is chosen before.
#[derive(Debug, Default)]
pub struct Record {
    /// Sums, always.
    pub sums: Sums,
    /// Marks, if wanted.
    pub marks: Option<Vec<Mark>>,
    /// Slices, if wanted.
    pub slices: Option<Vec<Slice>>,
    /// How latencies are distributed, what happened when, and how much everything was used, if wanted.
    pub statistics: Option<Box<Statistics>>,
}

impl Record {
    /// Also notes each message's stages.
    pub fn keep_marks(&mut self) {
        self.marks.get_or_insert_default();
    }

    /// Also notes what was used when: everything that a timeline needs.
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

/// Marks that wait for the program to notice what has happened: those of each engine in the order of happening.
#[derive(Debug, Default)]
pub(crate) struct Unnoticed {
    pub(crate) host: VecDeque<Mark>,
    pub(crate) net_send: VecDeque<Mark>,
    pub(crate) net_receive: VecDeque<Mark>,
}
