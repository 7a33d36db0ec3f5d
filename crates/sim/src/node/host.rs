//! Processes of a host, and the library through which they use the card.
//!
//! A process is a state machine that returns its next step ([`Process::next`]). It has a clock of
//! its own, which runs ahead of the present while the process computes; only what is visible
//! outside (the doorbell's crossing the bus) is an event. Its polls are not simulated one by one:
//! when a completion is in memory, the poll that finds it is computed.

use std::collections::VecDeque;

use causeway_firmware::{QueueId, Side};
use causeway_wire::vi::{
    CONTROL_BYTES, Control, Operation, SEGMENT_BYTES, STATUS_BYTES, STATUS_OFFSET, Segment, Status,
    control, status,
};

use super::events::side_index;
use super::vi_plan::{Queues, ViPlan};
use crate::engine::Time;

/// Address of the first byte of descriptors and completion queues; the memory from there on is
/// simulated.
pub(crate) const DESCRIPTORS_AT: u64 = 1 << 20;

/// A program of a host, as a state machine.
pub trait Process {
    /// Returns the next step. `now` is the process's time; `completed` is the completion that it waited for, if it waited.
    fn next(&mut self, now: Time, completed: Option<Completed>) -> Action;

    /// Called for a completion at the moment it is in memory, whether or not the process waits for it.
    fn landed(&mut self, now: Time, completed: Completed) {
        let _ = (now, completed);
    }
}

/// The next step of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Posts a descriptor for a message of this many bytes, and rings the doorbell.
    Post {
        /// Which of the process's virtual interfaces.
        vi: u32,
        /// Which work queue.
        side: Side,
        /// Bytes of the message, or of the buffer for one.
        bytes: u32,
    },
    /// Writes to the peer's memory, or reads it, and rings the doorbell of sends.
    Remote {
        /// Which of the process's virtual interfaces.
        vi: u32,
        /// [`Operation::RdmaWrite`] or [`Operation::RdmaRead`].
        operation: Operation,
        /// How many bytes.
        bytes: u32,
    },
    /// Waits for a completion.
    Await(Await),
    /// Computes.
    Compute(Time),
    /// Sleeps.
    SleepUntil(Time),
    /// Ends.
    End,
}

/// The events for which a process polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Await {
    /// The next descriptor of this work queue.
    One(u32, Side),
    /// The next receive of any of its virtual interfaces; it polls their descriptors one after the other.
    AnyReceive,
    /// The next entry of its completion queue.
    Queue,
    /// The next entry of its completion queue, but no longer than until then: the process then continues without a completion.
    QueueUntil(Time),
}

impl Await {
    /// Whether it waits for the completion queue.
    fn is_queue(self) -> bool {
        matches!(self, Self::Queue | Self::QueueUntil(_))
    }
}

/// A completed descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Which of the process's virtual interfaces.
    pub vi: u32,
    /// Which work queue.
    pub side: Side,
    /// Bytes of the message.
    pub bytes: u32,
    /// The sender's immediate data: the number of its message on this virtual interface.
    pub immediate: u32,
    /// Whether it failed.
    pub failed: bool,
}

impl Completed {
    /// Decodes a descriptor's status.
    fn new(local: u32, side: Side, bytes: &[u8]) -> Self {
        let completion = Status::decode(bytes).unwrap_or_default();
        Self {
            vi: local,
            side,
            bytes: completion.length,
            immediate: completion.immediate,
            failed: completion.bits & status::ERRORS != 0 || completion.bits & status::DONE == 0,
        }
    }
}

/// One work queue as its process sees it.
#[derive(Debug)]
struct WorkQueue {
    /// The position of its descriptors.
    at: u64,
    posted: u32,
    landed: u32,
    taken: u32,
}

impl WorkQueue {
    /// Whether a completion is in memory and has not been consumed.
    fn has_completions(&self) -> bool {
        self.landed != self.taken
    }

    /// The position in the host's memory of the status of the descriptor in `slot`.
    fn status_at(&self, slot: u32, stride: u64) -> usize {
        (self.at + u64::from(slot) * stride - DESCRIPTORS_AT) as usize + STATUS_OFFSET
    }
}

/// A virtual interface as its process sees it.
#[derive(Debug)]
pub(crate) struct Vi {
    process: u32,
    /// Its number among the process's.
    local: u32,
    depth: u32,
    queued: [bool; 2],
    /// Whether the process ignores completions of this side.
    counted: [bool; 2],
    sides: [WorkQueue; 2],
    /// The node at the other end, and its virtual interface.
    pub(crate) peer: Option<(u32, u32)>,
    /// When each message was posted that has not been received, if statistics are kept, and the
    /// number of the first.
    posted_at: VecDeque<(Time, Remote)>,
    first_posted: u32,
}

/// Most messages of an interface whose posting times are remembered: a lost one may never be received.
const MOST_REMEMBERED: usize = 1 << 14;

/// The bytes of an RDMA; `None` for a message.
type Remote = Option<u32>;

impl Vi {
    /// Remembers when a message was posted.
    fn remember(&mut self, at: Time, remote: Remote) {
        if self.posted_at.len() == MOST_REMEMBERED {
            self.posted_at.pop_front();
            self.first_posted += 1;
        }
        self.posted_at.push_back((at, remote));
    }

    /// When the earliest remembered message was posted, and its bytes, if it is an RDMA.
    pub(crate) fn next_remote(&mut self) -> Option<(Time, u32)> {
        let &(at, remote) = self.posted_at.front()?;
        let bytes = remote?;
        self.posted_at.pop_front();
        self.first_posted += 1;
        Some((at, bytes))
    }

    /// When the message of this number was posted. Earlier ones will not be received any more.
    pub(crate) fn posted_at(&mut self, number: u32) -> Option<Time> {
        let ahead = number.checked_sub(self.first_posted)? as usize;
        let (at, _) = *self.posted_at.get(ahead)?;
        self.posted_at.drain(..=ahead);
        self.first_posted = number + 1;
        Some(at)
    }
}

impl Vi {
    pub(crate) fn new(plan: &ViPlan, at: [u64; 2], local: u32) -> Self {
        Self {
            process: plan.process as u32,
            local,
            depth: plan.depth,
            queued: [plan.queues == Queues::Both, plan.queues != Queues::None],
            counted: [plan.sends_counted, false],
            sides: at.map(|at| WorkQueue {
                at,
                posted: 0,
                landed: 0,
                taken: 0,
            }),
            peer: None,
            posted_at: VecDeque::new(),
            first_posted: 0,
        }
    }
}

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It continues with an event.
    Running,
    /// It has built a descriptor and is about to ring the doorbell.
    Ringing { vi: u32, side: Side, slot: u32 },
    /// It polls, from this time on; `from` is the interface that it polls first.
    Awaiting { what: Await, since: Time, from: u32 },
    /// It has ended.
    Ended,
    /// It posted more than its work queue holds.
    Overrun,
}

pub(crate) struct ProcessState {
    pub(crate) program: Box<dyn Process>,
    pub(crate) state: State,
    /// Its own clock.
    pub(crate) clock: Time,
    /// When its next event was scheduled.
    pub(crate) scheduled: Time,
    /// Its virtual interfaces.
    pub(crate) vis: Vec<u32>,
    /// Its completion queue.
    pub(crate) queue: Option<QueueId>,
    /// Entries that are in memory: interface and side.
    entries: VecDeque<(u32, Side)>,
    /// The completion that it waited for, for the next call.
    found: Option<Completed>,
    /// The interface at which polling of all interfaces continues.
    scan: u32,
    /// How long it has polled.
    pub(crate) polled: Time,
    /// The number of the present wait.
    pub(crate) waits: u32,
    /// It sleeps until the card wakes it.
    pub(crate) sleeps: bool,
}

impl ProcessState {
    pub(crate) fn new(program: Box<dyn Process>) -> Self {
        Self {
            program,
            state: State::Running,
            clock: 0,
            scheduled: 0,
            vis: Vec::new(),
            queue: None,
            entries: VecDeque::new(),
            found: None,
            scan: 0,
            polled: 0,
            waits: 0,
            sleeps: false,
        }
    }
}

impl Host {
    /// The event for which `process` waits, as text.
    pub(crate) fn awaited(&self, process: usize, what: Await) -> String {
        let peer = |vi: u32| {
            let mine = self.processes.get(process);
            let vi = mine.and_then(|mine| mine.vis.get(vi as usize));
            let peer = vi.and_then(|&vi| self.vis.get(vi as usize)?.peer);
            peer.map_or_else(String::new, |(peer, _)| format!(" node {peer}"))
        };
        match what {
            Await::One(vi, Side::Receive) => {
                format!("a message from{} on its interface {vi}", peer(vi))
            }
            Await::One(vi, Side::Send) => {
                format!("its message to{} on its interface {vi} to leave", peer(vi))
            }
            Await::AnyReceive => "a message on any of its interfaces".to_owned(),
            Await::Queue | Await::QueueUntil(_) => "an entry of its completion queue".to_owned(),
        }
    }
}

/// All processes of a node and their memory.
pub(crate) struct Host {
    /// Descriptors and completion queues, from [`DESCRIPTORS_AT`].
    pub(crate) memory: Vec<u8>,
    pub(crate) vis: Vec<Vi>,
    pub(crate) processes: Vec<ProcessState>,
    pub(crate) stride: u64,
    /// Handle of the descriptors' memory.
    pub(crate) descriptors: u32,
    /// Address and handle of messages' data.
    pub(crate) data: (u64, u32),
    pub(crate) payload_bytes: u32,
    pub(crate) shadow_queues: bool,
    /// Whether posting times of messages are remembered.
    pub(crate) remembers: bool,
}

/// A queue that the card is to raise an interrupt for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Armed {
    /// One side of an interface.
    WorkQueue(u32, Side),
    /// A completion queue.
    Queue(QueueId),
}

/// The operation bits of RDMA in descriptors.
const REMOTE_WRITE: u16 = 1;
const REMOTE_READ: u16 = 2;

/// The costs of polling.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Polling {
    pub(crate) poll: Time,
    pub(crate) complete: Time,
    /// For processes that sleep instead: from the interrupt until they continue.
    pub(crate) wake: Option<Time>,
}

/// The result of [`Host::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The process continues at this time of its own clock.
    At(Time),
    /// It built a descriptor of which this many bytes are written to the card; the doorbell is rung when its clock is reached.
    Build { side: Side, on_card_bytes: u32 },
    /// It computes.
    Compute(Time),
    /// It waits for a completion, or has ended.
    Nothing,
}

impl Host {
    pub(crate) fn bytes_at(&self, address: u64, bytes: u32) -> &[u8] {
        let start = address.saturating_sub(DESCRIPTORS_AT) as usize;
        self.memory
            .get(start..start.saturating_add(bytes as usize))
            .unwrap_or_default()
    }

    /// Carries out the next step of a process.
    pub(crate) fn step(&mut self, process: u32, polling: Polling) -> Next {
        let Some(state) = self.processes.get_mut(process as usize) else {
            return Next::Nothing;
        };
        let found = state.found.take();
        match state.program.next(state.clock, found) {
            Action::Post { vi, side, bytes } => {
                self.build(process, vi, (side, Operation::Send), bytes)
            }
            Action::Remote {
                vi,
                operation,
                bytes,
            } => self.build(process, vi, (Side::Send, operation), bytes),
            Action::Compute(time) => Next::Compute(time),
            Action::SleepUntil(time) => {
                state.clock = state.clock.max(time);
                Next::At(state.clock)
            }
            Action::End => {
                state.state = State::Ended;
                Next::Nothing
            }
            Action::Await(what) => {
                state.state = State::Awaiting {
                    what,
                    since: state.clock,
                    from: state.scan,
                };
                let since = state.clock;
                state.waits = state.waits.wrapping_add(1);
                state.sleeps = false;
                match self.find(process, since, polling) {
                    Some(at) => Next::At(at),
                    None => Next::Nothing,
                }
            }
        }
    }

    /// Builds a descriptor for a message.
    fn build(
        &mut self,
        process: u32,
        local: u32,
        (side, operation): (Side, Operation),
        bytes: u32,
    ) -> Next {
        let state = &mut self.processes[process as usize];
        let Some(&vi) = state.vis.get(local as usize) else {
            state.state = State::Overrun;
            return Next::Nothing;
        };
        let there = &mut self.vis[vi as usize];
        let queue = &mut there.sides[side_index(side)];
        if queue.posted - queue.taken >= there.depth {
            state.state = State::Overrun;
            return Next::Nothing;
        }
        let slot = queue.posted % there.depth;
        let number = queue.posted;
        // A receive names a buffer nevertheless: it is not known which message will arrive.
        let is_remote = operation != Operation::Send;
        let inside = side == Side::Send && !is_remote && bytes <= self.payload_bytes;
        let mut bits = match operation {
            Operation::Send => control::IMMEDIATE,
            Operation::RdmaWrite => REMOTE_WRITE,
            Operation::RdmaRead => REMOTE_READ,
        };
        if inside {
            bits |= control::PAYLOAD;
        }
        let control = Control {
            segments: u16::from(!inside) + u16::from(is_remote),
            remote_segments: u32::from(is_remote),
            bits,
            immediate: number,
            length: bytes,
            ..Control::default()
        };
        let segment = Segment {
            address: self.data.0,
            handle: self.data.1,
            bytes,
        };
        let at = (queue.at + u64::from(slot) * self.stride - DESCRIPTORS_AT) as usize;
        queue.posted += 1;
        if self.remembers && side == Side::Send {
            there.remember(state.clock, is_remote.then_some(bytes));
        }
        state.state = State::Ringing { vi, side, slot };
        // All nodes are set up alike: the peer's memory has the same address and handle as the own.
        let segments = 1 + usize::from(is_remote);
        let body = match inside {
            true => bytes as usize,
            false => segments * SEGMENT_BYTES,
        };
        let (head, rest) = self.memory[at..].split_at_mut(CONTROL_BYTES);
        head.copy_from_slice(&control.to_bytes());
        if !inside {
            for place in rest.chunks_exact_mut(SEGMENT_BYTES).take(segments) {
                place.copy_from_slice(&segment.to_bytes());
            }
        }
        Next::Build {
            side,
            on_card_bytes: match self.shadow_queues {
                true => (CONTROL_BYTES + body) as u32,
                false => 0,
            },
        }
    }

    /// The bytes of an interface's next descriptor; none of one that does not exist.
    pub(crate) fn next_slot(&self, vi: u32, side: Side) -> &[u8] {
        let Some(there) = self.vis.get(vi as usize) else {
            return &[];
        };
        let queue = &there.sides[side_index(side)];
        let slot = queue.posted % there.depth;
        self.bytes_at(queue.at + u64::from(slot) * self.stride, self.stride as u32)
    }

    /// Where an interface's next status will be written; nowhere for one that does not exist.
    pub(crate) fn next_status(&self, vi: u32, side: Side) -> &[u8] {
        let Some(there) = self.vis.get(vi as usize) else {
            return &[];
        };
        let queue = &there.sides[side_index(side)];
        let at = queue.status_at(queue.landed % there.depth, self.stride);
        self.memory.get(at..at + STATUS_BYTES).unwrap_or_default()
    }

    /// Address of a posted descriptor, its memory's handle, and the bytes for the shadow queue.
    pub(crate) fn posted(&self, vi: u32, side: Side, slot: u32) -> (u64, u32, &[u8]) {
        let queue = &self.vis[vi as usize].sides[side_index(side)];
        let address = queue.at + u64::from(slot) * self.stride;
        let shadow = if self.shadow_queues {
            self.bytes_at(address, self.stride as u32)
        } else {
            &[]
        };
        (address, self.descriptors, shadow)
    }

    /// Notes that a status is in memory. Returns when its process finds it, if it polls for it.
    pub(crate) fn status_landed(
        &mut self,
        now: Time,
        vi: u32,
        side: Side,
        bytes: &[u8],
        polling: Polling,
    ) -> Option<(u32, Time)> {
        let there = self.vis.get_mut(vi as usize)?;
        let queue = &mut there.sides[side_index(side)];
        let at = queue.status_at(queue.landed % there.depth, self.stride);
        if let Some(place) = self.memory.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        queue.landed += 1;
        let completed = Completed::new(there.local, side, bytes);
        let counted = there.counted[side_index(side)];
        queue.taken += u32::from(counted);
        let process = there.process;
        let looks_at_descriptors = !there.queued[side_index(side)];
        let state = self.processes.get_mut(process as usize)?;
        state.program.landed(now, completed);
        let waits = match state.state {
            State::Awaiting { what, .. } => match what {
                Await::One(local, wanted) => local == completed.vi && wanted == side,
                Await::AnyReceive => side == Side::Receive,
                Await::Queue | Await::QueueUntil(_) => false,
            },
            _ => false,
        };
        if counted || state.sleeps || !(waits && looks_at_descriptors) {
            return None;
        }
        self.find(process, now, polling).map(|at| (process, at))
    }

    /// Notes that an entry of a completion queue is in memory. Returns when its process finds it, if it polls.
    pub(crate) fn entry_landed(
        &mut self,
        now: Time,
        vi: u32,
        side: Side,
        polling: Polling,
    ) -> Option<(u32, Time)> {
        let process = self.vis.get(vi as usize)?.process;
        let state = self.processes.get_mut(process as usize)?;
        state.entries.push_back((vi, side));
        match state.state {
            State::Awaiting { what, .. } if what.is_queue() && !state.sleeps => {
                self.find(process, now, polling).map(|at| (process, at))
            }
            _ => None,
        }
    }

    /// If the completion for which a process polls is in memory by `now`, consumes it and returns
    /// when the process continues.
    fn find(&mut self, process: u32, now: Time, polling: Polling) -> Option<Time> {
        let state = self.processes.get_mut(process as usize)?;
        let State::Awaiting { what, since, from } = state.state else {
            return None;
        };
        // The polls before the one that finds it, and the interface that is polled then.
        let round = now.saturating_sub(since).div_ceil(polling.poll.max(1));
        let (polls, vi, side) = match what {
            Await::One(local, side) => {
                let vi = *state.vis.get(local as usize)?;
                (round, vi, side)
            }
            Await::Queue | Await::QueueUntil(_) => {
                let (vi, side) = state.entries.pop_front()?;
                (round, vi, side)
            }
            Await::AnyReceive => {
                let count = state.vis.len() as u64;
                let next = (u64::from(from) + round) % count.max(1);
                let ahead = (0..count).find(|ahead| {
                    let local = ((next + ahead) % count) as usize;
                    let vi = state.vis[local] as usize;
                    self.vis[vi].sides[1].has_completions()
                })?;
                let local = (next + ahead) % count;
                state.scan = ((local + 1) % count) as u32;
                (round + ahead, state.vis[local as usize], Side::Receive)
            }
        };
        let there = self.vis.get_mut(vi as usize)?;
        let queue = &mut there.sides[side_index(side)];
        if !queue.has_completions() {
            return None;
        }
        // The contents of the slot stay until the slot is posted again.
        let at = queue.status_at(queue.taken % there.depth, self.stride);
        let status = self.memory.get(at..at + STATUS_BYTES).unwrap_or_default();
        queue.taken += 1;
        state.found = Some(Completed::new(there.local, side, status));
        state.state = State::Running;
        let found = match (state.sleeps, polling.wake) {
            (true, Some(wake)) => now + wake,
            _ => {
                state.polled += (polls + 1) * polling.poll;
                since + (polls + 1) * polling.poll
            }
        };
        state.sleeps = false;
        state.clock = found + polling.complete;
        Some(state.clock)
    }

    /// When a waiting process stops waiting, if its wait has a limit.
    pub(crate) fn waits_until(&self, process: u32) -> Option<(Time, u32)> {
        let state = self.processes.get(process as usize)?;
        match state.state {
            State::Awaiting {
                what: Await::QueueUntil(at),
                ..
            } => Some((at.max(state.clock), state.waits)),
            _ => None,
        }
    }

    /// Ends a process's wait, if it is the one of this number; returns whether it did.
    pub(crate) fn give_up(&mut self, process: u32, wait: u32, now: Time) -> bool {
        let Some(state) = self.processes.get_mut(process as usize) else {
            return false;
        };
        let State::Awaiting { since, .. } = state.state else {
            return false;
        };
        if state.waits != wait {
            return false;
        }
        if !state.sleeps {
            state.polled += now.saturating_sub(since);
        }
        state.sleeps = false;
        state.state = State::Running;
        state.clock = state.clock.max(now);
        true
    }

    /// Puts a waiting process to sleep: returns what to arm on the card.
    pub(crate) fn sleep(&mut self, process: u32) -> Vec<Armed> {
        let Some(state) = self.processes.get_mut(process as usize) else {
            return Vec::new();
        };
        let State::Awaiting { what, .. } = state.state else {
            return Vec::new();
        };
        state.sleeps = true;
        match what {
            Await::One(local, side) => {
                let vi = state.vis.get(local as usize);
                vi.map(|vi| Armed::WorkQueue(*vi, side))
                    .into_iter()
                    .collect()
            }
            Await::AnyReceive => {
                let vis = state.vis.iter();
                vis.map(|vi| Armed::WorkQueue(*vi, Side::Receive)).collect()
            }
            Await::Queue | Await::QueueUntil(_) => {
                state.queue.map(Armed::Queue).into_iter().collect()
            }
        }
    }

    /// Whether a process sleeps until the card wakes it.
    pub(crate) fn sleeps(&self, process: u32) -> bool {
        let state = self.processes.get(process as usize);
        state.is_some_and(|state| state.sleeps)
    }

    /// Wakes a process on behalf of the card. Returns when it continues, if the awaited completion
    /// is there.
    pub(crate) fn woken(&mut self, process: u32, now: Time, polling: Polling) -> Option<Time> {
        let state = self.processes.get(process as usize)?;
        match state.sleeps {
            true => self.find(process, now, polling),
            false => None,
        }
    }

    /// The process that a report of the card is about.
    pub(crate) fn process_of(&self, armed: Armed) -> Option<u32> {
        match armed {
            Armed::WorkQueue(vi, _) => self.vis.get(vi as usize).map(|vi| vi.process),
            Armed::Queue(queue) => {
                let mut processes = self.processes.iter();
                let found = processes.position(|process| process.queue == Some(queue));
                found.map(|process| process as u32)
            }
        }
    }
}
