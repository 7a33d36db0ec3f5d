//! Inputs and turns: inputs record actions of the hardware as events, turns handle them in the order of the
//! discipline.

use causeway_wire::vi::{FrameHeader, FrameKind, flag};

use crate::card::{Card, Engine, Step};
use crate::doorbells::Bells;
use crate::engines::{HostWork, NetWork};
use crate::host::charge_some;
use crate::input::{Input, Turn};
use crate::pool::NONE;
use crate::settings::{Doorbells, ReceiveDescriptors};
use crate::setup::{Processor, Side, Time};
use crate::state::{Arrival, Firmware};
use crate::vi::{Posted, State};

/// Where events come from. A processor visits the origins in rotation, and handles one event at each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    HostDma,
    NetSend,
    NetReceive,
    Doorbells,
    /// Work that waited for room, and flushing. Either processor handles it, since room that one
    /// processor makes is no event for the other.
    Leftovers,
    Timers,
}

const ORIGINS: [Origin; 6] = [
    Origin::HostDma,
    Origin::NetSend,
    Origin::NetReceive,
    Origin::Doorbells,
    Origin::Leftovers,
    Origin::Timers,
];

/// The rotation where doorbells come last: work in progress is finished before anything new begins.
const DOORBELLS_LAST: [Origin; 6] = [
    Origin::NetReceive,
    Origin::HostDma,
    Origin::NetSend,
    Origin::Leftovers,
    Origin::Timers,
    Origin::Doorbells,
];

fn number(processor: Processor) -> usize {
    match processor {
        Processor::First => 0,
        Processor::Second => 1,
    }
}

impl Firmware {
    /// Records an action of the hardware, at no cost to the card's processors. An invalid input is counted
    /// ([`Firmware::ignored_inputs`]) and ignored.
    pub fn input(&mut self, now: Time, input: Input<'_>) {
        self.now = self.now.max(now);
        let is_accepted = match input {
            Input::Doorbell {
                vi,
                side,
                address,
                handle,
                shadow,
            } => self.ring(vi.0, side, (address, handle), shadow),
            Input::ArmWorkQueue(vi, side) => self.arm_work_queue(vi.0, side),
            Input::ArmCompletionQueue(queue) => match self.queues.get_mut(queue.0 as usize) {
                Some(Some(completions)) => {
                    completions.armed = true;
                    true
                }
                _ => false,
            },
            Input::FrameBegun {
                buffer,
                header,
                bytes,
            } => self.frame_begun(buffer.0, header, bytes),
            Input::FrameBroken { buffer } => self.frame_broken(buffer.0),
            Input::FrameArrived {
                buffer,
                header,
                bytes,
            } => self.frame_arrived(buffer.0, header, bytes),
            Input::DmaFinished {
                engine,
                token,
                bytes,
            } => match engine {
                Engine::Host => self.host_ended(token.0, bytes),
                Engine::NetSend => self.net_ended(NetWork::of_token(token.0)),
                Engine::NetReceive => false,
            },
            Input::Polled(processor, polls) => {
                if let Bells::Polled(bells) = &mut self.bells[number(processor)] {
                    bells.skip(polls);
                }
                true
            }
        };
        self.ignored_inputs += u64::from(!is_accepted);
    }

    fn ring(&mut self, vi: u32, side: Side, posted: (u64, u32), shadow: &[u8]) -> bool {
        let limit = self.settings.limits.posted_per_queue as usize;
        let silent = side == Side::Receive && !self.rings_for_receives();
        let slot_bytes = self.slots.slot_bytes();
        let processor = self.processor_of(side);
        let Some(owner) = self.vis.get_mut(vi as usize) else {
            return false;
        };
        if owner.state == State::Absent {
            return false;
        }
        let queue = owner.queue_mut(side);
        if queue.posted.len() >= limit {
            owner.overrun = true;
            self.request_service(vi);
            return true;
        }
        let place = (queue.shadow_front + queue.posted.len()) % limit;
        let place = place * slot_bytes;
        let mut shadowed = 0;
        if let Some(place) = queue.shadow.get_mut(place..place + slot_bytes) {
            shadowed = shadow.len().min(slot_bytes);
            place[..shadowed].copy_from_slice(&shadow[..shadowed]);
        }
        queue.posted.push_back(Posted {
            address: posted.0,
            handle: posted.1,
            shadowed: shadowed as u32,
            stamp: 0,
            message: 0,
        });
        if silent {
            let works = owner.executes(Side::Receive);
            let announces = owner.state == State::Connected && owner.is_reliable();
            self.notice_silently(vi);
            if !works || announces {
                self.request_service(vi);
            }
        } else {
            self.bells[processor].ring(vi, side);
        }
        true
    }

    /// Whether doorbells of receive queues are served at all. A program that polls doorbells and reads receive descriptors
    /// when a message arrives notices the descriptors then instead.
    pub(crate) fn rings_for_receives(&self) -> bool {
        self.settings.receive_descriptors == ReceiveDescriptors::Ahead
            || self.settings.doorbells == Doorbells::Queued
    }

    fn arm_work_queue(&mut self, vi: u32, side: Side) -> bool {
        let owner = self.vis.get_mut(vi as usize);
        let Some(owner) = owner.filter(|owner| owner.state != State::Absent) else {
            return false;
        };
        owner.queue_mut(side).armed = true;
        true
    }

    /// Handles the header of a frame whose rest is still arriving: queues what can begin before it is complete.
    fn frame_begun(&mut self, buffer: u32, header: &[u8], bytes: u32) -> bool {
        let settings = &self.settings;
        let Some(arrival) = self.arrivals.0.get_mut(buffer as usize) else {
            return false;
        };
        if !settings.receive_cut_through || !arrival.awaited || arrival.begun {
            return false;
        }
        let decoded = FrameHeader::decode(header).ok().filter(|header| {
            let is_plain = !header.has(flag::SEQUENCED) && !header.has(flag::PAYLOAD);
            header.kind == FrameKind::Send
                && is_plain
                && (1..=settings.frame_bytes).contains(&bytes)
        });
        if decoded.is_some() {
            arrival.begun = true;
            arrival.header = decoded;
            arrival.bytes = bytes;
            self.arrived.push_back(buffer);
        }
        true
    }

    /// Notes that the network receive engine has finished with a buffer. Returns the frame in it, unless the buffer was no
    /// longer wanted, and is free now.
    fn end_receive(&mut self, buffer: u32) -> Option<&mut Arrival> {
        self.receiving -= 1;
        let arrival = &mut self.arrivals[buffer];
        if arrival.unwanted {
            *arrival = Arrival::default();
            self.buffers.release(buffer);
            return None;
        }
        arrival.awaited = false;
        Some(arrival)
    }

    fn is_awaited(&self, buffer: u32) -> bool {
        let arrival = self.arrivals.0.get(buffer as usize);
        arrival.is_some_and(|arrival| arrival.awaited)
    }

    fn frame_arrived(&mut self, buffer: u32, header: &[u8], bytes: u32) -> bool {
        if !self.is_awaited(buffer) {
            return false;
        }
        let most = self.settings.frame_bytes;
        if let Some(arrival) = self.end_receive(buffer)
            && !arrival.begun
        {
            arrival.header = match bytes <= most {
                true => FrameHeader::decode(header).ok(),
                false => None,
            };
            arrival.bytes = bytes;
            self.arrived.push_back(buffer);
        }
        true
    }

    fn frame_broken(&mut self, buffer: u32) -> bool {
        if !self.is_awaited(buffer) {
            return false;
        }
        if let Some(arrival) = self.end_receive(buffer) {
            arrival.broken = true;
            if !arrival.begun {
                self.arrived.push_back(buffer);
            }
        }
        true
    }

    fn host_ended(&mut self, job: u32, bytes: &[u8]) -> bool {
        let Some(ended) = self.host_jobs.get_mut(job) else {
            return false;
        };
        if !core::mem::take(&mut ended.running) {
            return false;
        }
        let processor = ended.processor;
        if let HostWork::ReadData { frame, .. } = ended.work {
            self.frames[frame].fill = NONE;
        }
        let op = match ended.work {
            HostWork::ReadDescriptor { op } => op,
            HostWork::ReadData { tail, .. } => tail,
            _ => NONE,
        };
        if op != NONE {
            let left = self.ops[op].left_to_fetch();
            let bytes = &bytes[..bytes.len().min(left)];
            let filled = self.slots.fill(op, self.ops[op].fetched, bytes);
            self.ops[op].fetched += filled;
        }
        self.host.end(processor, job);
        true
    }

    fn net_ended(&mut self, work: NetWork) -> bool {
        let place = match work {
            NetWork::Frame(frame) => {
                let frame = self.frames.get_mut(frame);
                frame.map(|frame| &mut frame.running)
            }
            NetWork::Control(vi) => {
                let vi = self.vis.get_mut(vi as usize);
                vi.map(|vi| &mut vi.control.running)
            }
        };
        let Some(running) = place else {
            return false;
        };
        if !core::mem::take(running) {
            return false;
        }
        self.net.end(0, work);
        true
    }

    /// Lets a processor continue at `now`: it handles one event, if there is one.
    pub fn turn(&mut self, now: Time, processor: Processor, card: &mut impl Card) -> Turn {
        self.now = self.now.max(now);
        let processor = number(processor);
        if processor == 1 && !self.settings.two_processors {
            return Turn::Idle;
        }
        if self.is_sequential()
            && let Some(turn) = self.continue_message(card)
        {
            return turn;
        }
        // Either processor may have freed a buffer, which is no event for the other.
        self.arm_receives(card);
        let (origins, start) = match self.settings.doorbells_last {
            true => (DOORBELLS_LAST, 0),
            false => (ORIGINS, self.rotation[processor]),
        };
        for step in 0..ORIGINS.len() {
            let at = (start + step) % ORIGINS.len();
            if self.handle(origins[at], processor, card) {
                self.rotation[processor] = (at + 1) % ORIGINS.len();
                return Turn::Worked;
            }
        }
        match &self.bells[processor] {
            Bells::Polled(bells) => match bells.ahead() {
                Some(ahead) => Turn::Polling { ahead },
                None => Turn::Idle,
            },
            Bells::Queued(_) => Turn::Idle,
        }
    }

    /// The sequential discipline: while a transfer runs nothing else is served, and when it has finished
    /// its message continues.
    fn continue_message(&mut self, card: &mut impl Card) -> Option<Turn> {
        if self.host.is_silent() && self.net.is_silent() {
            return None;
        }
        if self.handle(Origin::HostDma, 0, card) || self.handle(Origin::NetSend, 0, card) {
            return Some(Turn::Worked);
        }
        Some(Turn::Waiting(match self.host.busy {
            0 => Engine::NetSend,
            _ => Engine::Host,
        }))
    }

    /// Handles one event of this origin, if there is one.
    fn handle(&mut self, origin: Origin, processor: usize, card: &mut impl Card) -> bool {
        let receives = self.processor_of(Side::Receive) == processor;
        let sends = processor == 0;
        match origin {
            Origin::HostDma => match self.host.finished[processor].pop_front() {
                Some(job) => {
                    self.charge_source_scan(card);
                    self.host_finished(job, card);
                    true
                }
                None => false,
            },
            Origin::NetSend => match self.net.finished[processor].pop_front() {
                Some(work) => {
                    self.charge_source_scan(card);
                    self.net_finished(work, card);
                    true
                }
                None => false,
            },
            Origin::NetReceive => {
                let has = receives && !self.arrived.is_empty();
                if has {
                    self.charge_source_scan(card);
                    self.arrival(card);
                }
                has
            }
            Origin::Doorbells => self.handle_doorbell(processor, card),
            Origin::Leftovers => self.handle_leftover(card),
            Origin::Timers => match self.timers.due(self.now).filter(|_| sends) {
                Some(vi) => {
                    self.charge_source_scan(card);
                    self.timer(vi, card);
                    true
                }
                None => false,
            },
        }
    }

    fn charge_source_scan(&self, card: &mut impl Card) {
        let rounds = u32::from(!self.is_sequential());
        charge_some(Step::LookRound, rounds, card);
    }

    /// Takes a doorbell out of the queue, or polls one.
    fn handle_doorbell(&mut self, processor: usize, card: &mut impl Card) -> bool {
        let rung = match &mut self.bells[processor] {
            Bells::Queued(queue) => queue.pop_front(),
            Bells::Polled(bells) if bells.is_empty() => None,
            Bells::Polled(bells) => {
                card.charge(Step::PollDoorbell, 1);
                bells.poll()
            }
        };
        let Some((vi, side)) = rung else {
            return false;
        };
        self.charge_source_scan(card);
        self.doorbell(vi, side, card);
        true
    }

    fn handle_leftover(&mut self, card: &mut impl Card) -> bool {
        if !self.service_queue.is_empty() {
            self.charge_source_scan(card);
            self.service_next(card);
        } else if self.may_resume() {
            self.charge_source_scan(card);
            self.resume(card);
        } else if self.may_admit_best_effort() {
            self.charge_source_scan(card);
            self.admit_best_effort(card);
        } else {
            return false;
        }
        true
    }
}
