//! All of the program's state, and the small steps that its parts share.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

use causeway_wire::vi::FrameHeader;

use crate::admission::Admission;
use crate::buffers::{Buffers, Use};
use crate::card::{Card, DmaRequest, Engine, Piece, Report, Step, Token, Transfer};
use crate::clock::SharedClock;
use crate::descriptor::{Op, Slots};
use crate::doorbells::Bells;
use crate::engines::{EngineQueue, Frame, HostJob, NetWork};
use crate::memory::Memory;
use crate::pool::{Linked, NONE, Pool};
use crate::settings::{Discipline, Settings, SettingsError};
use crate::setup::{BufferId, QueueId, Side, Time, ViId};
use crate::stamped::Stamped;
use crate::timers::Timers;
use crate::vi::{State, Vi};

/// The program and all its state.
#[derive(Debug)]
pub struct Firmware {
    pub(crate) settings: Settings,
    pub(crate) now: Time,
    pub(crate) memory: Memory,
    pub(crate) vis: Vec<Vi>,
    pub(crate) queues: Vec<Option<Completions>>,
    pub(crate) ops: Pool<Op>,
    pub(crate) slots: Slots,
    pub(crate) frames: Pool<Frame>,
    pub(crate) buffers: Buffers,
    pub(crate) arrivals: Arrivals,

    pub(crate) host_jobs: Pool<HostJob>,
    pub(crate) host: EngineQueue<u32>,
    pub(crate) net: EngineQueue<NetWork>,
    /// Buffers that the network receive engine holds.
    pub(crate) receiving: u32,
    /// Buffers that hold frames which arrived ahead of others.
    pub(crate) held: u32,
    /// Frames that have arrived and have not been handled.
    pub(crate) arrived: VecDeque<u32>,

    pub(crate) bells: [Bells; 2],
    /// Virtual interfaces with frames to make that wait for a card buffer or a frame.
    pub(crate) stalled: Stamped<u32>,
    /// Virtual interfaces with something to flush or to announce.
    pub(crate) service_queue: VecDeque<u32>,
    /// Virtual interfaces with a best-effort message that waits until others end.
    pub(crate) best_effort: VecDeque<u32>,
    pub(crate) best_effort_open: u32,
    pub(crate) shared_outgoing: SharedClock,
    pub(crate) shared_incoming: SharedClock,
    pub(crate) timers: Timers,
    pub(crate) admission: Admission,

    /// Where each processor continues its rotation over the sources of events.
    pub(crate) rotation: [usize; 2],
    pub(crate) messages: u64,
    pub(crate) ignored_inputs: u64,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) tail_pieces: Vec<Piece>,
}

/// A completion queue.
#[derive(Debug)]
pub(crate) struct Completions {
    pub(crate) address: u64,
    pub(crate) handle: u32,
    pub(crate) tag: u32,
    pub(crate) entries: u32,
    pub(crate) next: u32,
    pub(crate) round: bool,
    /// Work queues that use it.
    pub(crate) users: u32,
    pub(crate) armed: bool,
}

/// The destination of an arrived frame's data.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Destination {
    #[default]
    Undecided,
    /// To an operation's segments, from this offset on.
    Segments { op: u32, offset: u32 },
    /// To a region that the peer writes to.
    Region { address: u64, handle: u32 },
}

/// A frame that has arrived in a buffer.
#[derive(Debug)]
pub(crate) struct Arrival {
    /// The network receive engine holds the buffer.
    pub(crate) awaited: bool,
    /// The program was notified of the frame when its header had arrived.
    pub(crate) begun: bool,
    /// The program has finished with the frame, whose rest is still arriving.
    pub(crate) unwanted: bool,
    /// The frame did not arrive completely.
    pub(crate) broken: bool,
    pub(crate) header: Option<FrameHeader>,
    pub(crate) bytes: u32,
    pub(crate) vi: u32,
    pub(crate) stamp: Time,
    pub(crate) destination: Destination,
    /// The receive that this frame of an RDMA write completes, or [`NONE`].
    pub(crate) told: u32,
    pub(crate) next: u32,
}

impl Default for Arrival {
    fn default() -> Self {
        Self {
            awaited: false,
            begun: false,
            unwanted: false,
            broken: false,
            header: None,
            bytes: 0,
            vi: NONE,
            stamp: 0,
            destination: Destination::Undecided,
            told: NONE,
            next: NONE,
        }
    }
}

impl Linked for Arrival {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

/// The frame in each buffer, up to the last that has ever been used for receiving.
#[derive(Debug)]
pub(crate) struct Arrivals(pub(crate) Vec<Arrival>);

impl Arrivals {
    /// Makes room for the frame in a buffer; the memory was allocated at set-up.
    fn begin(&mut self, buffer: u32) {
        while self.0.len() <= buffer as usize {
            self.0.push(Arrival::default());
        }
        self.0[buffer as usize].awaited = true;
    }
}

impl Index<u32> for Arrivals {
    type Output = Arrival;

    fn index(&self, buffer: u32) -> &Arrival {
        &self.0[buffer as usize]
    }
}

impl IndexMut<u32> for Arrivals {
    fn index_mut(&mut self, buffer: u32) -> &mut Arrival {
        &mut self.0[buffer as usize]
    }
}

impl Firmware {
    /// A card with nothing set up. Allocates all the memory that the data path will ever use, apart
    /// from what set-up calls allocate.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        settings.check()?;
        let limits = &settings.limits;
        let vis = limits.vis as usize;
        let ops = vis * 2 * limits.descriptors_per_queue as usize;
        let (frames, buffers) = (limits.frames as usize, limits.buffers as usize);
        // Each descriptor, each outgoing and each incoming frame waits for one host transfer at most.
        let jobs = ops + frames + buffers;
        let stamped = settings.discipline == Discipline::QosAware;
        let posted = vis * 2 * limits.posted_per_queue as usize;
        let pieces = 2 * limits.segments as usize
            + (settings.frame_bytes / settings.page_bytes) as usize
            + 8;
        let bells = || Bells::new(settings.doorbells, vis, posted);
        let second = match settings.two_processors {
            true => bells(),
            false => Bells::new(settings.doorbells, 0, 0),
        };
        Ok(Self {
            now: 0,
            memory: Memory::new(&settings),
            vis: (0..vis).map(|_| Vi::default()).collect(),
            queues: Vec::new(),
            ops: Pool::new(ops),
            slots: Slots::new(ops, &settings),
            frames: Pool::new(frames),
            buffers: Buffers::new(limits),
            arrivals: Arrivals(Vec::with_capacity(buffers)),
            host_jobs: Pool::new(jobs),
            host: EngineQueue::new(settings.host_dma, jobs, stamped, settings.cut_through),
            net: EngineQueue::new(settings.net_send, frames + vis, stamped, false),
            receiving: 0,
            held: 0,
            arrived: VecDeque::with_capacity(buffers),
            bells: [bells(), second],
            stalled: Stamped::new(vis, stamped),
            service_queue: VecDeque::with_capacity(vis),
            best_effort: VecDeque::with_capacity(vis),
            best_effort_open: 0,
            shared_outgoing: SharedClock::new(&settings.best_effort),
            shared_incoming: SharedClock::new(&settings.best_effort),
            timers: Timers::new(vis),
            admission: Admission::default(),
            rotation: [0; 2],
            messages: 0,
            ignored_inputs: 0,
            pieces: Vec::with_capacity(pieces),
            tail_pieces: Vec::with_capacity(pieces),
            settings,
        })
    }

    /// The settings that the card was made with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The number of inputs that made no sense, such as doorbells of no virtual interface or the end of transfers that were not in
    /// progress. They were ignored.
    pub fn ignored_inputs(&self) -> u64 {
        self.ignored_inputs
    }

    /// When the next turn is due even without an event: acknowledgements become overdue then.
    pub fn deadline(&self) -> Option<Time> {
        self.timers.earliest()
    }

    pub(crate) fn vi(&self, vi: u32) -> &Vi {
        &self.vis[vi as usize]
    }

    pub(crate) fn vi_mut(&mut self, vi: u32) -> &mut Vi {
        &mut self.vis[vi as usize]
    }

    pub(crate) fn is_sequential(&self) -> bool {
        self.settings.discipline == Discipline::Sequential
    }

    pub(crate) fn is_qos_aware(&self) -> bool {
        self.settings.discipline == Discipline::QosAware
    }

    /// The processor that serves this side.
    pub(crate) fn processor_of(&self, side: Side) -> usize {
        usize::from(self.settings.two_processors && side == Side::Receive)
    }

    /// Queues a virtual interface for the program to serve.
    pub(crate) fn request_service(&mut self, vi: u32) {
        if !core::mem::replace(&mut self.vi_mut(vi).needs_service, true) {
            self.service_queue.push_back(vi);
        }
    }

    /// Sets the timer to the virtual interface's earliest deadline.
    pub(crate) fn set_timer(&mut self, vi: u32) {
        let deadline = self.vi(vi).deadline();
        self.timers.set(vi, deadline);
    }

    /// Frees the buffer of an arrived frame; if the rest of the frame is still arriving, once that is over.
    pub(crate) fn free_arrival(&mut self, buffer: u32, card: &mut impl Card) {
        let awaited = self.arrivals[buffer].awaited;
        self.arrivals[buffer] = Arrival {
            awaited,
            begun: awaited,
            unwanted: awaited,
            ..Arrival::default()
        };
        if !awaited {
            self.buffers.release(buffer);
        }
        card.charge(Step::FreeBuffer, 1);
    }

    /// Passes the network receive engine as many free buffers as it holds.
    pub(crate) fn arm_receives(&mut self, card: &mut impl Card) {
        while self.receiving < self.settings.net_receive {
            let Some(buffer) = self.buffers.take(Use::Receiving) else {
                return;
            };
            card.charge(Step::TakeBuffer, 1);
            card.charge(Step::ProgramNetReceive, 1);
            self.arrivals.begin(buffer);
            self.receiving += 1;
            let request = DmaRequest {
                token: Token(buffer),
                stamp: 0,
                vi: ViId(NONE),
                message: 0,
                transfer: Transfer::Receive {
                    into: BufferId(buffer),
                },
            };
            card.start_dma(Engine::NetReceive, request);
        }
    }

    /// Wakes the process that sleeps until this work queue completes a descriptor.
    pub(crate) fn wake_work_queue(&mut self, vi: u32, side: Side, card: &mut impl Card) {
        if core::mem::take(&mut self.vi_mut(vi).queue_mut(side).armed) {
            card.report(Report::WorkQueueReady(ViId(vi), side));
        }
    }

    /// Wakes the process that sleeps until this completion queue has an entry.
    pub(crate) fn wake_queue(&mut self, queue: u32, card: &mut impl Card) {
        if let Some(Some(completions)) = self.queues.get_mut(queue as usize)
            && core::mem::take(&mut completions.armed)
        {
            card.report(Report::CompletionQueueReady(QueueId(queue)));
        }
    }

    /// Makes a closing virtual interface idle once nothing that was posted is left.
    pub(crate) fn finish_closing(&mut self, vi: u32) {
        let vi = self.vi_mut(vi);
        if vi.state == State::Closing && vi.is_quiet() {
            vi.state = State::Idle;
        }
    }
}
