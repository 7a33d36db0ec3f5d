//! The queues before the host and network send engines, and what waits in them.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use causeway_wire::vi::FrameHeader;

use crate::pool::{Linked, NONE};
use crate::settings::DmaQueue;
use crate::setup::Time;
use crate::stamped::Stamped;

/// A transfer of the host DMA engine.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HostJob {
    pub(crate) work: HostWork,
    pub(crate) stamp: Time,
    pub(crate) vi: u32,
    pub(crate) message: u64,
    /// The processor that handles its end.
    pub(crate) processor: usize,
    /// The engine holds it.
    pub(crate) running: bool,
}

/// The purpose of a host transfer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum HostWork {
    #[default]
    Nothing,
    ReadDescriptor {
        op: u32,
    },
    ReadData {
        frame: u32,
        /// The descriptor that is read along with the data, or [`NONE`].
        tail: u32,
    },
    WriteData {
        buffer: u32,
    },
    WriteStatus {
        op: u32,
    },
    WriteCompletion {
        op: u32,
        queue: u32,
        entry: u32,
        round: bool,
    },
}

/// A frame of the network send engine: a data frame, or a control frame, made only when the engine takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NetWork {
    Frame(u32),
    /// A control frame of this virtual interface.
    Control(u32),
}

impl NetWork {
    pub(crate) fn token(self) -> u32 {
        match self {
            Self::Frame(frame) => frame << 1,
            Self::Control(vi) => vi << 1 | 1,
        }
    }

    pub(crate) fn of_token(token: u32) -> Self {
        match token & 1 {
            0 => Self::Frame(token >> 1),
            _ => Self::Control(token >> 1),
        }
    }
}

/// The source of a frame's data.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Source {
    #[default]
    Nothing,
    /// The descriptor itself.
    Descriptor,
    /// The operation's segments, from this offset on.
    Segments(u32),
    /// A region that the peer reads.
    Region { address: u64, handle: u32 },
}

/// An outgoing frame.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) vi: u32,
    /// Its operation; [`NONE`] for replies to the peer's reads.
    pub(crate) op: u32,
    pub(crate) header: FrameHeader,
    pub(crate) source: Source,
    pub(crate) bytes: u32,
    /// Its card buffer, or [`NONE`].
    pub(crate) buffer: u32,
    pub(crate) stamp: Time,
    pub(crate) message: u64,
    /// It is the last frame of its message.
    pub(crate) last: bool,
    /// Its data is being read, or waits to be.
    pub(crate) reading: bool,
    /// The transfer that is reading its data, if cut-through is possible; else [`NONE`].
    pub(crate) fill: u32,
    /// It is in the network engine's queue or being sent.
    pub(crate) queued: bool,
    /// It is being sent.
    pub(crate) running: bool,
    /// It is in the list of unacknowledged frames.
    pub(crate) unacked: bool,
    /// The peer has it, but not all frames before it.
    pub(crate) ahead: bool,
    /// It has been sent again since the last timeout.
    pub(crate) resent: bool,
    /// It is no longer to be sent.
    pub(crate) cancelled: bool,
    /// It has been sent, or never will be: it no longer counts in `moving`.
    pub(crate) moved: bool,
    pub(crate) next: u32,
}

impl Default for Frame {
    fn default() -> Self {
        Self {
            vi: NONE,
            op: NONE,
            header: FrameHeader::new(causeway_wire::vi::FrameKind::Ack),
            source: Source::Nothing,
            bytes: 0,
            buffer: NONE,
            stamp: 0,
            message: 0,
            last: false,
            reading: false,
            fill: NONE,
            queued: false,
            running: false,
            unacked: false,
            ahead: false,
            resent: false,
            cancelled: false,
            moved: false,
            next: NONE,
        }
    }
}

impl Frame {
    /// Whether its data is on the card, or arrives fast enough.
    pub(crate) fn may_leave(&self) -> bool {
        !self.reading || self.fill != NONE
    }

    /// Whether it will not be sent, awaits no acknowledgement, and no engine has its buffer.
    pub(crate) fn is_over(&self) -> bool {
        let wanted = !(self.cancelled || self.moved);
        !(wanted || self.reading || self.queued || self.unacked)
    }
}

impl Linked for Frame {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

/// An engine's queue: waiting, present and finished transfers.
#[derive(Debug)]
pub(crate) struct EngineQueue<T> {
    pub(crate) waiting: Stamped<T>,
    /// How many transfers the engine can hold.
    pub(crate) entries: usize,
    pub(crate) hardware: bool,
    pub(crate) busy: usize,
    /// The stamps of the transfers that it holds, in the engine's order; kept only where that is used.
    held: Option<Vec<(Time, T)>>,
    /// Finished transfers that the processors have not noticed.
    pub(crate) finished: [VecDeque<T>; 2],
}

impl<T: Copy + PartialEq> EngineQueue<T> {
    /// `limit` is the largest number of transfers; `followed`: [`EngineQueue::in_service`] is
    /// called.
    pub(crate) fn new(queue: DmaQueue, limit: usize, stamped: bool, followed: bool) -> Self {
        let (entries, hardware) = match queue {
            DmaQueue::Software => (1, false),
            DmaQueue::Hardware(entries) => (entries as usize, true),
        };
        Self {
            waiting: Stamped::new(limit, stamped),
            entries,
            hardware,
            busy: 0,
            held: (followed || (stamped && hardware)).then(|| Vec::with_capacity(entries)),
            finished: [
                VecDeque::with_capacity(limit),
                VecDeque::with_capacity(limit),
            ],
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.busy < self.entries
    }

    /// Passes a transfer to the engine; returns how many of those that it holds come after it.
    pub(crate) fn begin(&mut self, stamp: Time, value: T) -> u32 {
        self.busy += 1;
        let Some(held) = &mut self.held else {
            return 0;
        };
        let passed = held.iter().filter(|(other, _)| *other > stamp).count();
        let behind = held.iter().skip(1).position(|(other, _)| *other > stamp);
        held.insert(behind.map_or(held.len(), |at| at + 1), (stamp, value));
        passed as u32
    }

    /// The transfer in service, if that is tracked. An engine with several channels may serve others at the same time.
    pub(crate) fn in_service(&self) -> Option<T> {
        let first = self.held.as_ref()?.first()?;
        Some(first.1)
    }

    /// The engine has finished a transfer.
    pub(crate) fn end(&mut self, processor: usize, value: T) {
        self.busy -= 1;
        if let Some(held) = &mut self.held
            && let Some(at) = held.iter().position(|(_, other)| *other == value)
        {
            held.remove(at);
        }
        self.finished[processor].push_back(value);
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.busy == 0 && self.finished.iter().all(VecDeque::is_empty)
    }
}
