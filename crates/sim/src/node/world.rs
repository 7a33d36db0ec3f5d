//! The loop over events.

mod ahead;
mod observe;
mod receive;
mod windows;

use std::fmt;
use std::rc::Rc;

use causeway_firmware::{BufferId, Engine as DmaEngine, Firmware, Input, Processor, Side};
use causeway_wire::vi::Completion;

use super::card::{self, Begun, CardState, Frame};
use super::events::{Event, Events, Packed};
use super::host::{Armed, Host, Next, Polling, State, Vi};
use super::plan::{BuildError, Plan};
use super::record::{Mark, Record, Slice, Stage, Track};
use super::stops::Stops;
use super::transfer::{HostTransfer, Purpose};
use crate::engine::Time;
use crate::hardware::{Advance, HostCpu, Network, Wake};
use crate::profile::{Profile, Waits};
use crate::slab::Slab;

/// Bytes that ring a doorbell: a descriptor's address and its memory's handle.
const DOORBELL_BYTES: u64 = 8;

struct Node {
    firmware: Firmware,
    card: CardState,
    host: Host,
    cpus: Vec<HostCpu>,
    /// The deadline for which an event is scheduled.
    deadline: Option<Time>,
}

/// From this many nodes on state is fetched [ahead](self::ahead). That of fewer is in the cache anyway.
const MANY_NODES: usize = 16;

/// After this many events the tables are put into huge pages, which takes as long as a million events or two.
const MANY_EVENTS: u64 = 4_000_000;

/// Nodes, their network, and the pending events.
pub struct World {
    profile: Profile,
    events: Events,
    network: Network,
    nodes: Vec<Node>,
    frames: Slab<Frame>,
    polling: Polling,
    read_bytes: Vec<u8>,
    /// Whether the nodes' state is fetched into the cache before it is used.
    fetches_ahead: bool,
    /// After how many events its tables are put into huge pages.
    gathers_after: u64,
    stops: Stops,
    /// The end of the present window, if nodes run [one after the other](self::windows); else 0.
    window_end: Time,
    /// A frame arrives before that.
    came_early: bool,
    /// The records.
    pub record: Record,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All processes have ended.
    Finished,
    /// The time limit was reached.
    TimeUp,
    /// No event is left, but processes wait: for each its node, its number, and what it waits for.
    Deadlock(Vec<String>),
}

/// How many processes a report of a deadlock names.
const MOST_SHOWN: usize = 8;

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finished => f.write_str("finished"),
            Self::TimeUp => f.write_str("it takes more virtual time than is simulated"),
            Self::Deadlock(waits) => {
                let shown = waits.get(..MOST_SHOWN).unwrap_or(waits);
                write!(f, "nothing can happen any more: {}", shown.join("; "))?;
                match waits.len() - shown.len() {
                    0 => Ok(()),
                    more => write!(f, "; and {more} more processes"),
                }
            }
        }
    }
}

impl World {
    /// Builds the world of `plan`.
    pub fn new(plan: Plan) -> Result<Self, BuildError> {
        let settings = plan.settings.clone();
        let (profile, network, built) = plan.build()?;
        let stops = Stops::new(network.outages());
        let mut events = Events::default();
        let costs = Rc::new(card::costs(&profile));
        let mut nodes = Vec::with_capacity(built.len());
        for (number, built) in built.into_iter().enumerate() {
            let node = number as u32;
            for process in 0..built.host.processes.len() as u32 {
                events.at(0, Event::Process { node, process });
            }
            nodes.push(Node {
                card: CardState::new(node, &profile, &costs, &settings, built.host.vis.len()),
                firmware: built.firmware,
                host: built.host,
                cpus: (0..profile.host.processors)
                    .map(|_| HostCpu::new(profile.host.clone()))
                    .collect(),
                deadline: None,
            });
        }
        let polling = Polling {
            poll: profile.library.poll,
            complete: profile.library.complete,
            wake: (profile.library.waits == Waits::Block)
                .then(|| profile.host.interrupt + profile.host.context_switch),
        };
        let mut world = Self {
            profile,
            events,
            network,
            fetches_ahead: nodes.len() >= MANY_NODES,
            gathers_after: match nodes.len() >= MANY_NODES {
                true => MANY_EVENTS,
                false => u64::MAX,
            },
            nodes,
            frames: Slab::default(),
            polling,
            read_bytes: Vec::new(),
            stops,
            window_end: 0,
            came_early: false,
            record: Record::default(),
        };
        // The program begins by giving buffers to the receive engine.
        for node in 0..world.nodes.len() {
            let World { nodes, events, .. } = &mut world;
            nodes[node].card.wake(events, None);
        }
        Ok(world)
    }

    /// The present.
    pub fn now(&self) -> Time {
        self.events.latest()
    }

    /// The number of events that were handled.
    pub fn events_handled(&self) -> u64 {
        self.events.handled()
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Handles events until `end`, or until none is left.
    pub fn run(&mut self, end: Time) -> Ended {
        if self.record.statistics.is_some() {
            self.run_observed(end);
            self.close_statistics();
        } else {
            while let Some(event) = self.events.next_by(end) {
                self.handle(event);
                self.gather_after_many();
            }
        }
        self.ended()
    }

    /// Why the run ended.
    fn ended(&self) -> Ended {
        if self.events.pending() > 0 {
            return Ended::TimeUp;
        }
        let mut stuck = Vec::new();
        for (number, node) in self.nodes.iter().enumerate() {
            for (index, process) in node.host.processes.iter().enumerate() {
                let what = match process.state {
                    State::Ended => continue,
                    State::Awaiting { what, since, .. } => {
                        let since = crate::profile::units::show_time(since);
                        let what = node.host.awaited(index, what);
                        format!("waits since {since} for {what}")
                    }
                    State::Overrun => "posted more than its work queue holds".to_owned(),
                    State::Running | State::Ringing { .. } => "has no event".to_owned(),
                };
                stuck.push(format!("process {index} of node {number} {what}"));
            }
        }
        match stuck.is_empty() {
            true => Ended::Finished,
            false => Ended::Deadlock(stuck),
        }
    }

    fn handle(&mut self, event: Packed) {
        match Event::from(event) {
            Event::Turn {
                node,
                processor,
                generation,
            } => self.turn(node, processor, generation),
            Event::Process { node, process } => self.process(node, process),
            Event::Doorbell {
                node,
                vi,
                side,
                slot,
            } => self.doorbell(node, vi, side, slot),
            Event::HostDmaPiece {
                node,
                transfer,
                bytes,
            } => {
                let card = &mut self.nodes[node as usize].card;
                let wake = card.start_piece(self.events.now(), transfer, bytes);
                if let Some(wake) = wake {
                    self.wake_host_dma(node, wake);
                }
                self.send_if_idle(node);
            }
            Event::HostDma { node, channel } => {
                self.host_dma(node, channel as usize);
                self.send_if_idle(node);
            }
            Event::NetSend { node, frame } => {
                let card = &mut self.nodes[node as usize].card;
                card.queue_frame(&self.frames, frame);
                self.send_if_idle(node);
            }
            Event::NetSent { node, token } => self.on_sent(node, token),
            Event::NetReceive { node, buffer } => {
                let card = &mut self.nodes[node as usize].card;
                card.armed.push_back(BufferId(buffer));
                self.receive(node);
            }
            Event::Begun { node, frame } => self.begun(node, frame),
            Event::Followed { node, transfer } => self.followed(node, transfer),
            Event::Arrived { node, frame } => self.arrived(node, frame),
            Event::Received {
                node,
                frame,
                buffer,
            } => self.received(node, frame, buffer),
            Event::Timeout {
                node,
                process,
                wait,
            } => {
                let now = self.events.now();
                if self.nodes[node as usize].host.give_up(process, wait, now) {
                    self.process(node, process);
                }
            }
            Event::Interrupt { node, process } => self.interrupt(node, process),
            Event::Deadline { node } => self.deadline(node),
        }
    }

    /// Wakes the process that has armed this interrupt.
    fn interrupt(&mut self, node: u32, process: u32) {
        let now = self.events.now();
        let place = &mut self.nodes[node as usize];
        if let Some(at) = place.host.woken(process, now, self.polling) {
            let cpu = process as usize % place.cpus.len().max(1);
            place.cpus[cpu].interrupt(now, self.profile.host.context_switch);
            self.events.at(at, Event::Process { node, process });
        } else if place.host.sleeps(process) {
            // The process had found the completion before the interrupt.
            self.arm(node, process);
        }
    }

    fn deadline(&mut self, node: u32) {
        let Self { nodes, events, .. } = self;
        let node = &mut nodes[node as usize];
        if node.deadline.is_some_and(|at| at <= events.now()) {
            node.deadline = None;
            node.card.deadline(events);
        }
    }

    /// Passes an input to the program, and wakes processors.
    fn input(&mut self, node: u32, from: Option<DmaEngine>, input: Input<'_>) {
        let waited = self.nodes[node as usize].card.waits();
        self.wake(node, from);
        let now = self.events.now();
        self.nodes[node as usize].firmware.input(now, input);
        // While it works, what its next turn uses is fetched at the end of the present one.
        if waited {
            self.turn_ahead(node);
        }
    }

    /// Wakes the processors that an input concerns, and reports to the firmware how many doorbells they have polled.
    fn wake(&mut self, node: u32, from: Option<DmaEngine>) {
        let now = self.events.now();
        let Node { firmware, card, .. } = &mut self.nodes[node as usize];
        let polls = card.wake(&mut self.events, from);
        for (processor, polls) in [Processor::First, Processor::Second].into_iter().zip(polls) {
            if polls > 0 {
                self.record.sums.idle_polls += u64::from(polls);
                firmware.input(now, Input::Polled(processor, polls));
            }
        }
    }

    fn turn(&mut self, node: u32, processor: u32, generation: u32) {
        if let Some(to) = self.stops.until(node, self.events.now()) {
            let turn = Event::Turn {
                node,
                processor,
                generation,
            };
            self.events.at(to, turn);
            return;
        }
        let Self {
            nodes,
            events,
            frames,
            record,
            ..
        } = self;
        let Node {
            firmware,
            card,
            host,
            deadline,
            ..
        } = &mut nodes[node as usize];
        if !card.wants_turn(processor, generation) {
            return;
        }
        loop {
            let next = card.turn(firmware, events, frames, record, processor);
            let earlier = firmware
                .deadline()
                .filter(|at| deadline.is_none_or(|known| *at < known));
            if let Some((at, generation)) = next {
                if card.ready.is_empty() && earlier.is_none() && events.goes_on(at) {
                    continue;
                }
                let turn = Event::Turn {
                    node,
                    processor,
                    generation,
                };
                events.at(at, turn);
            }
            for armed in card.ready.drain(..) {
                if let Some(process) = host.process_of(armed) {
                    events.after(0, Event::Interrupt { node, process });
                }
            }
            if let Some(at) = earlier {
                *deadline = Some(at);
                events.at(at, Event::Deadline { node });
            }
            break;
        }
        self.turn_ahead(node);
    }

    fn doorbell(&mut self, node: u32, vi: u32, side: Side, slot: u32) {
        let now = self.events.now();
        self.record.mark(Mark {
            at: now,
            node,
            vi,
            side,
            message: u64::from(slot),
            stage: Stage::Rung,
        });
        self.nodes[node as usize].card.ring(now, vi, side);
        self.wake(node, None);
        let place = &mut self.nodes[node as usize];
        let (address, handle, shadow) = place.host.posted(vi, side, slot);
        let doorbell = Input::Doorbell {
            vi: causeway_firmware::ViId(vi),
            side,
            address,
            handle,
            shadow,
        };
        place.firmware.input(now, doorbell);
    }

    /// Has the host DMA engine continue at a later time: at once, if nothing happens before and no frame waits for its data.
    fn wake_host_dma(&mut self, node: u32, wake: Wake) {
        if !self.nodes[node as usize].card.holds_frames() && self.events.goes_on(wake.at) {
            self.host_dma(node, wake.channel);
        } else {
            let channel = wake.channel as u32;
            self.events.at(wake.at, Event::HostDma { node, channel });
        }
    }

    fn host_dma(&mut self, node: u32, channel: usize) {
        let has_windows = self.has_windows();
        let card = &mut self.nodes[node as usize].card;
        let holds_frames = card.holds_frames();
        let job = loop {
            let now = self.events.now();
            let (bus, memory) = (&mut card.bus, &mut card.memory);
            let Advance { finished, wake } = card.host_dma.advance(now, channel, bus, memory);
            if let Some(Wake { at, channel }) = wake {
                if finished.is_none() && !holds_frames && self.events.goes_on(at) {
                    continue;
                }
                let channel = channel as u32;
                self.events.at(at, Event::HostDma { node, channel });
            }
            match finished {
                Some(job) => break job,
                None => {
                    if !has_windows && card.host_dma.is_ending(channel) {
                        let next = card.host_dma.active(channel);
                        self.jobs_ahead(node, next, 0);
                    }
                    return;
                }
            }
        };
        if has_windows {
            // Its bursts are mostly handled at once: what the one after it needs is fetched meanwhile.
            let next = card.host_dma.waiting(0).map(|next| next.token);
            self.jobs_ahead(node, next, 1);
        }
        let card = &mut self.nodes[node as usize].card;
        let number = job.token as u32;
        if let Some(frame) = card.piece_done(number, job.bytes) {
            self.filled(node, frame);
        }
        let card = &mut self.nodes[node as usize].card;
        let Some(transfer) = card.transfers.get(number) else {
            return;
        };
        if transfer.pieces_left > 0 {
            return;
        }
        let follows = transfer.follows;
        if follows.is_some_and(|buffer| card.coming.iter().any(|coming| coming.buffer == buffer)) {
            card.short.push(number);
        } else if let Some(transfer) = card.transfers.remove(number) {
            self.host_transfer_done(node, &transfer);
        }
    }

    fn host_transfer_done(&mut self, node: u32, transfer: &HostTransfer) {
        let place = &mut self.nodes[node as usize];
        place.card.transfer_finished(DmaEngine::Host);
        self.note_transfer(node, transfer);
        let place = &mut self.nodes[node as usize];
        self.read_bytes.clear();
        let bytes = place.host.bytes_at(transfer.read_at, transfer.read_bytes);
        self.read_bytes.extend_from_slice(bytes);
        if let Some((process, at)) = self.landed(node, transfer) {
            self.events.at(at, Event::Process { node, process });
        }
        let bytes = std::mem::take(&mut self.read_bytes);
        let finished = Input::DmaFinished {
            engine: DmaEngine::Host,
            token: transfer.token,
            bytes: &bytes,
        };
        self.input(node, Some(DmaEngine::Host), finished);
        self.read_bytes = bytes;
    }

    /// Notes the end of a host transfer in the record.
    fn note_transfer(&mut self, node: u32, transfer: &HostTransfer) {
        let now = self.events.now();
        let card = &mut self.nodes[node as usize].card;
        let (stage, track, name) = match transfer.purpose {
            Purpose::ReadDescriptor => {
                (Stage::DescriptorDown, Track::HostDmaDown, "read descriptor")
            }
            Purpose::ReadData => (Stage::DataMoved, Track::HostDmaDown, "read data"),
            Purpose::WriteData => (Stage::DataMoved, Track::HostDmaUp, "write data"),
            Purpose::WriteStatus => (Stage::StatusDone, Track::HostDmaUp, "write status"),
            Purpose::WriteCompletion => (Stage::StatusDone, Track::HostDmaUp, "write completion"),
        };
        if self.record.marks.is_some() && transfer.purpose != Purpose::WriteCompletion {
            let mark = transfer_mark(now, node, transfer, stage);
            card.unnoticed.host.push_back(mark);
        }
        if self.record.slices.is_some() {
            let message = card.message_of(transfer);
            self.record.slice(Slice {
                node,
                track,
                name,
                start: transfer.started,
                end: now,
                message,
            });
        }
    }

    /// Handles data of a host transfer being in host memory: returns the process that continues because of it, and when.
    fn landed(&mut self, node: u32, transfer: &HostTransfer) -> Option<(u32, Time)> {
        let (now, polling) = (self.events.now(), self.polling);
        let host = &mut self.nodes[node as usize].host;
        let written = &transfer.written[..transfer.written_bytes as usize];
        let (vi, side) = (transfer.vi, transfer.side);
        match transfer.purpose {
            Purpose::WriteStatus => {
                let mark = transfer_mark(now, node, transfer, Stage::StatusLanded);
                self.record.mark(mark);
                let found = host.status_landed(now, vi, side, written, polling);
                if self.record.statistics.is_some() {
                    match side {
                        Side::Receive => self.message_received(node, vi, written),
                        Side::Send => self.remote_done(node, vi, written),
                    }
                }
                found
            }
            Purpose::WriteCompletion => {
                let entry = Completion::decode(written).ok()?;
                let side = match entry.receive {
                    true => Side::Receive,
                    false => Side::Send,
                };
                host.entry_landed(now, entry.vi, side, polling)
            }
            _ => None,
        }
    }

    /// Frames may wait although the engine is idle: for data that by now arrives fast enough, or
    /// does not.
    fn send_if_idle(&mut self, node: u32) {
        if self.nodes[node as usize].card.holds_frames() {
            self.send(node);
        }
    }

    /// Handles the last data of a frame that followed its transfer. If the frame has begun, its
    /// last burst can leave now: either the time of a departure without pause is over, or the frame
    /// is late by the difference.
    fn filled(&mut self, node: u32, number: u32) {
        let now = self.events.now();
        let Some(frame) = self.frames.get_mut(number) else {
            return;
        };
        frame.fill = None;
        let Some(begun) = frame.begun else {
            return;
        };
        let burst = u64::from(frame.bytes).min(self.profile.io_bus.burst_bytes);
        let last = now + self.network.leaving_time(node as usize, burst);
        let late = last.saturating_sub(begun.left);
        self.schedule_departure(
            node,
            number,
            Begun {
                left: begun.left + late,
                arrives: begun.arrives.map(|at| at + late),
                ..begun
            },
        );
    }

    /// Sends the first frame in the queue. One whose data is still arriving begins when it will not
    /// run dry, if its data goes on arriving at the host DMA engine's rate.
    fn send(&mut self, node: u32) {
        let now = self.events.now();
        let card = &mut self.nodes[node as usize].card;
        let Some(&number) = card.net_queue.front() else {
            return;
        };
        let Some(frame) = self.frames.get(number).copied() else {
            return;
        };
        let start = now + self.profile.net_dma.send_startup;
        let bytes = frame.header.len() as u64 + u64::from(frame.bytes);
        if let Some(fill) = frame.fill {
            let burst = u64::from(frame.bytes).min(self.profile.io_bus.burst_bytes);
            let time = |bytes| self.network.leaving_time(node as usize, bytes);
            match card.filled_at(now, fill) {
                Some(filled) if filled + time(burst) <= start + time(bytes) => {}
                _ => return,
            }
        }
        card.sending = true;
        let to = frame.to.0 as usize;
        let sent = self.network.send(start, node as usize, to, bytes);
        self.record.sums.frames += 1;
        let begun = Begun {
            start,
            left: sent.left,
            arrives: sent.arrives,
        };
        self.announce(number, begun);
        self.next_frame_ahead(node);
        match (frame.fill, self.frames.get_mut(number)) {
            (Some(_), Some(frame)) => frame.begun = Some(begun),
            _ => self.schedule_departure(node, number, begun),
        }
    }

    /// Fixes when a frame leaves and arrives.
    fn schedule_departure(&mut self, node: u32, number: u32, begun: Begun) {
        let Some(frame) = self.frames.get(number).copied() else {
            return;
        };
        self.record.slice(Slice {
            node,
            track: Track::NetSend,
            name: "send frame",
            start: begun.start,
            end: begun.left,
            message: (frame.message != 0).then_some((node, frame.message)),
        });
        let token = frame.token;
        self.sent_ahead(node, number);
        self.events.at(begun.left, Event::NetSent { node, token });
        if let Some(arrives) = begun.arrives {
            let event = Event::Arrived {
                node: frame.to.0,
                frame: number,
            };
            self.came_early |= arrives < self.window_end;
            self.events.any_at(arrives, event);
        } else if let Some(frame) = self.frames.get_mut(number) {
            frame.lost = true;
            self.record.sums.frames_lost += 1;
        }
    }

    fn on_sent(&mut self, node: u32, token: causeway_firmware::Token) {
        let now = self.events.now();
        let card = &mut self.nodes[node as usize].card;
        card.transfer_finished(DmaEngine::NetSend);
        card.sending = false;
        if let Some(number) = card.net_queue.pop_front()
            && let Some(frame) = self.frames.get(number).copied()
        {
            if self.record.marks.is_some() {
                card.unnoticed.net_send.push_back(Mark {
                    at: now,
                    node,
                    vi: frame.vi,
                    side: Side::Send,
                    message: frame.message,
                    stage: Stage::NetDone,
                });
            }
            // A window may have ended between, in which the receiver has removed it, and another node uses its number.
            if frame.lost && frame.from == node {
                self.frames.remove(number);
            }
        }
        self.send(node);
        let finished = Input::DmaFinished {
            engine: DmaEngine::NetSend,
            token,
            bytes: &[],
        };
        self.input(node, Some(DmaEngine::NetSend), finished);
    }

    /// Begins a process's wait: it sleeps if it is to, and waits no longer than its limit.
    fn wait(&mut self, node: u32, process: u32) {
        let place = &mut self.nodes[node as usize];
        if let Some((at, wait)) = place.host.waits_until(process) {
            let timeout = Event::Timeout {
                node,
                process,
                wait,
            };
            self.events.at(at, timeout);
        }
        if self.polling.wake.is_none() {
            return;
        }
        let cpu = process as usize % place.cpus.len().max(1);
        if let Some(state) = place.host.processes.get_mut(process as usize)
            && matches!(state.state, State::Awaiting { .. })
        {
            let span = place.cpus[cpu].system_call(state.clock, process, 0);
            state.clock = span.end;
        }
        self.arm(node, process);
    }

    /// Arms the interrupts for which a process sleeps.
    fn arm(&mut self, node: u32, process: u32) {
        for armed in self.nodes[node as usize].host.sleep(process) {
            let input = match armed {
                Armed::WorkQueue(vi, side) => {
                    Input::ArmWorkQueue(causeway_firmware::ViId(vi), side)
                }
                Armed::Queue(queue) => Input::ArmCompletionQueue(queue),
            };
            self.input(node, None, input);
        }
    }

    /// Continues a process: rings the doorbell that it was about to ring, or carries out its next step.
    fn process(&mut self, node: u32, process: u32) {
        let now = self.events.now();
        let place = &mut self.nodes[node as usize];
        let cpu = process as usize % place.cpus.len().max(1);
        let access = self.profile.host.card_access;
        let Some(state) = place.host.processes.get_mut(process as usize) else {
            return;
        };
        if let Some(to) = self.stops.until(node, now) {
            state.clock = state.clock.max(to);
            self.events.at(to, Event::Process { node, process });
            return;
        }
        if let State::Ringing { vi, side, slot } = state.state {
            let posted = place.card.bus.programmed_write(now, DOORBELL_BYTES);
            state.clock = posted.accepted.max(now);
            state.state = State::Running;
            let doorbell = Event::Doorbell {
                node,
                vi,
                side,
                slot,
            };
            self.events.at(posted.delivered, doorbell);
            self.rung_ahead(node, vi, side);
        }
        let place = &mut self.nodes[node as usize];
        let next = place.host.step(process, self.polling);
        let state = &mut place.host.processes[process as usize];
        let (work, name) = match next {
            Next::Nothing => {
                self.wait(node, process);
                return;
            }
            Next::At(at) => {
                self.events.at(at, Event::Process { node, process });
                return;
            }
            Next::Compute(time) => (time, "compute"),
            Next::Build { on_card_bytes, .. } => {
                let words = u64::from(on_card_bytes).div_ceil(self.profile.io_bus.width_bytes);
                (self.profile.library.post + access * (1 + words), "post")
            }
        };
        let span = place.cpus[cpu].run(state.clock.max(now), process, work);
        self.record.slice(Slice {
            node,
            track: Track::Process(process),
            name,
            start: span.start,
            end: span.end,
            message: None,
        });
        state.clock = span.end;
        self.events.at(span.end, Event::Process { node, process });
        self.doorbell_ahead(node, process);
    }
}

fn transfer_mark(at: Time, node: u32, transfer: &HostTransfer, stage: Stage) -> Mark {
    Mark {
        at,
        node,
        vi: transfer.vi,
        side: transfer.side,
        message: transfer.message,
        stage,
    }
}
