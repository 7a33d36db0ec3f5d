//! Processes of a host, and the library through which they use the card.
//!
//! A process is a state machine that answers what to do next ([`Process::next`]). It has a clock of its own,
//! which runs ahead of the present while the process computes; only what others can see (the doorbell's
//! crossing the bus) is an event. While it polls, nothing is simulated: when a completion lands in memory,
//! it is computed which poll finds it.

use std::collections::VecDeque;

use causeway_firmware::{QueueId, Side};
use causeway_wire::vi::{Control, STATUS_BYTES, STATUS_OFFSET, Segment, Status, control, status};

use super::plan::{DESCRIPTORS_AT, ViPlan};
use super::side_index;
use crate::engine::Time;

/// A program of a host, as a state machine.
pub trait Process {
    /// What to do next. `now` is the process's time; `completed` is what it waited for, if it did.
    fn next(&mut self, now: Time, completed: Option<Completed>) -> Do;

    /// Hears of a completion at the moment it is in memory, whether or not anybody waits for it.
    fn landed(&mut self, now: Time, completed: Completed) {
        let _ = (now, completed);
    }
}

/// What a process does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Do {
    /// Posts a descriptor for a message of so many bytes, and rings the doorbell.
    Post {
        /// Which of the process's virtual interfaces.
        vi: u32,
        /// Which work queue.
        side: Side,
        /// Bytes of the message, or of the buffer for one.
        bytes: u32,
    },
    /// Polls until something is complete.
    Await(Await),
    /// Computes.
    Compute(Time),
    /// Sleeps.
    SleepUntil(Time),
    /// Is over.
    End,
}

/// What a process polls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Await {
    /// The next descriptor of this work queue.
    One(u32, Side),
    /// The next receive of any of its virtual interfaces, whose descriptors it looks at in turn.
    AnyReceive,
    /// The next entry of its completion queue.
    Queue,
}

/// A descriptor that is complete.
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
    /// What the bytes of a descriptor's status say.
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
    /// Where its descriptors are.
    at: u64,
    posted: u32,
    landed: u32,
    taken: u32,
}

impl WorkQueue {
    /// Whether something has landed and not been taken.
    fn has_completions(&self) -> bool {
        self.landed != self.taken
    }

    /// Where in the host's memory the status of its descriptor in `slot` is.
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
    /// Nobody waits for completions of this side.
    counted: [bool; 2],
    sides: [WorkQueue; 2],
    /// The node at the other end.
    pub(crate) peer: Option<u32>,
}

impl Vi {
    pub(crate) fn new(plan: &ViPlan, at: [u64; 2], local: u32) -> Self {
        use super::plan::Queues;
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
        }
    }
}

/// What a process is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// An event will let it go on.
    Running,
    /// It has built a descriptor and is about to ring.
    Ringing { vi: u32, side: Side, slot: u32 },
    /// It polls, from this time on; `from` is the interface that the first poll looks at.
    Awaiting { what: Await, since: Time, from: u32 },
    /// It is over.
    Ended,
    /// It posted more than its work queue holds.
    Overrun,
}

pub(crate) struct ProcessState {
    pub(crate) program: Box<dyn Process>,
    pub(crate) state: State,
    /// Its own clock.
    pub(crate) clock: Time,
    /// Its virtual interfaces.
    pub(crate) vis: Vec<u32>,
    /// Its completion queue.
    pub(crate) queue: Option<QueueId>,
    /// Entries that are in memory: interface and side.
    entries: VecDeque<(u32, Side)>,
    /// What it waited for and has found, for the next call.
    found: Option<Completed>,
    /// Where polling of all interfaces goes on.
    scan: u32,
}

impl ProcessState {
    pub(crate) fn new(program: Box<dyn Process>) -> Self {
        Self {
            program,
            state: State::Running,
            clock: 0,
            vis: Vec::new(),
            queue: None,
            entries: VecDeque::new(),
            found: None,
            scan: 0,
        }
    }
}

impl Host {
    /// What `process` waits for, in words.
    pub(crate) fn awaited(&self, process: usize, what: Await) -> String {
        let peer = |vi: u32| {
            let mine = self.processes.get(process);
            let vi = mine.and_then(|mine| mine.vis.get(vi as usize));
            let peer = vi.and_then(|&vi| self.vis.get(vi as usize)?.peer);
            peer.map_or_else(String::new, |peer| format!(" node {peer}"))
        };
        match what {
            Await::One(vi, Side::Receive) => {
                format!("a message from{} on its interface {vi}", peer(vi))
            }
            Await::One(vi, Side::Send) => {
                format!("its message to{} on its interface {vi} to leave", peer(vi))
            }
            Await::AnyReceive => "a message on any of its interfaces".to_owned(),
            Await::Queue => "an entry of its completion queue".to_owned(),
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
}

/// What polling costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Polling {
    pub(crate) poll: Time,
    pub(crate) complete: Time,
}

/// What [`Host::go_on`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It goes on at this time of its own clock.
    At(Time),
    /// It built a descriptor that so many bytes are written to the card for; the doorbell is rung when its clock has come.
    Build { side: Side, on_card_bytes: u32 },
    /// It computes.
    Compute(Time),
    /// It waits for a completion, or is over.
    Nothing,
}

impl Host {
    pub(crate) fn bytes_at(&self, address: u64, bytes: u32) -> &[u8] {
        let start = address.saturating_sub(DESCRIPTORS_AT) as usize;
        self.memory
            .get(start..start.saturating_add(bytes as usize))
            .unwrap_or_default()
    }

    /// Lets a process go on: asks its program what to do, and does it.
    pub(crate) fn go_on(&mut self, process: u32, polling: Polling) -> Next {
        let Some(state) = self.processes.get_mut(process as usize) else {
            return Next::Nothing;
        };
        let found = state.found.take();
        match state.program.next(state.clock, found) {
            Do::Post { vi, side, bytes } => self.build(process, vi, side, bytes),
            Do::Compute(time) => Next::Compute(time),
            Do::SleepUntil(time) => {
                state.clock = state.clock.max(time);
                Next::At(state.clock)
            }
            Do::End => {
                state.state = State::Ended;
                Next::Nothing
            }
            Do::Await(what) => {
                state.state = State::Awaiting {
                    what,
                    since: state.clock,
                    from: state.scan,
                };
                let since = state.clock;
                match self.find(process, since, polling) {
                    Some(at) => Next::At(at),
                    None => Next::Nothing,
                }
            }
        }
    }

    /// Builds a descriptor for a message.
    fn build(&mut self, process: u32, local: u32, side: Side, bytes: u32) -> Next {
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
        // A receive names a buffer all the same: it does not know yet what will come.
        let inside = side == Side::Send && bytes <= self.payload_bytes;
        let mut bits = control::IMMEDIATE;
        if inside {
            bits |= control::PAYLOAD;
        }
        let control = Control {
            segments: u16::from(!inside),
            bits,
            immediate: queue.posted,
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
        state.state = State::Ringing { vi, side, slot };
        let control = control.to_bytes();
        let segment = segment.to_bytes();
        let body = if inside {
            bytes as usize
        } else {
            segment.len()
        };
        if let Some(place) = self.memory.get_mut(at..at + control.len() + segment.len()) {
            place[..control.len()].copy_from_slice(&control);
            if !inside {
                place[control.len()..].copy_from_slice(&segment);
            }
        }
        let on_card = control.len() + body;
        Next::Build {
            side,
            on_card_bytes: if self.shadow_queues {
                on_card as u32
            } else {
                0
            },
        }
    }

    /// Address of a posted descriptor, its memory's handle, and the bytes that a shadow queue gets.
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

    /// A status is in memory. Answers when its process finds it, if it polls for it.
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
                Await::Queue => false,
            },
            _ => false,
        };
        if counted || !(waits && looks_at_descriptors) {
            return None;
        }
        self.find(process, now, polling).map(|at| (process, at))
    }

    /// An entry of a completion queue is in memory. Answers when its process finds it, if it polls.
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
            State::Awaiting {
                what: Await::Queue, ..
            } => self.find(process, now, polling).map(|at| (process, at)),
            _ => None,
        }
    }

    /// Whether what a process polls for is there by `now`; then takes it and answers when the process goes on.
    fn find(&mut self, process: u32, now: Time, polling: Polling) -> Option<Time> {
        let state = self.processes.get_mut(process as usize)?;
        let State::Awaiting { what, since, from } = state.state else {
            return None;
        };
        // The polls before the one that finds it, and which interface that one looks at.
        let round = now.saturating_sub(since).div_ceil(polling.poll.max(1));
        let (polls, vi, side) = match what {
            Await::One(local, side) => {
                let vi = *state.vis.get(local as usize)?;
                (round, vi, side)
            }
            Await::Queue => {
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
        // What was written of it stays until the place is posted again.
        let at = queue.status_at(queue.taken % there.depth, self.stride);
        let status = self.memory.get(at..at + STATUS_BYTES).unwrap_or_default();
        queue.taken += 1;
        state.found = Some(Completed::new(there.local, side, status));
        state.state = State::Running;
        state.clock = since + (polls + 1) * polling.poll + polling.complete;
        Some(state.clock)
    }
}
