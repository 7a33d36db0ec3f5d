//! The state that all substrates share: time, hosts, the network, arrived packets, and room.

use std::collections::{BTreeMap, VecDeque};

use super::process::{Call, CallEffect, CallResult};
use super::processor::{Alarm, Clock, Effects, Host, HostTimes, Wakes};
use crate::am::port::{Message, Rank};
use crate::engine::{Engine, Time, duration_at};
use crate::hardware::Network;
use crate::slab::Slab;
use crate::statistics::{Busy, Resource, Statistics};

/// An event.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event<E> {
    /// A processor or a process has to be served.
    Alarm(Wakes),
    /// The receiver has consumed a packet, and its credit returns to the sender.
    Credit { from: Rank, to: Rank },
    /// Checks whether any process can still continue.
    Watch,
    /// An event of the substrate.
    Substrate(E),
}

/// A stage of a packet's journey, and its duration.
pub type Stage = (&'static str, Time);

/// A message in flight.
#[derive(Debug)]
pub(super) struct Packet {
    pub(super) from: Rank,
    pub(super) to: Rank,
    pub(super) message: Message,
    /// When its sender called.
    pub(super) called: Time,
    pub(super) stages: Vec<Stage>,
    /// When each stage began.
    pub(super) begins: Vec<Time>,
    /// The buffer at the receiver that holds its data.
    pub(super) slot: Option<u32>,
}

/// One packet's journey from call to return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journey {
    /// The sender.
    pub from: Rank,
    /// The receiver.
    pub to: Rank,
    /// When the call to send began.
    pub called: Time,
    /// When the call to receive returned.
    pub returned: Time,
    /// The stages in order; the rest of the time is waiting.
    pub stages: Vec<Stage>,
    /// When each stage began.
    pub begins: Vec<Time>,
}

impl Packet {
    /// Adds a stage that begins at `begin`, or when the one before ends.
    pub(super) fn stage(&mut self, begin: Time, name: &'static str, time: Time) {
        let before = self.begins.last().zip(self.stages.last());
        let free = before.map_or(0, |(begin, (_, time))| begin + time);
        self.begins.push(begin.max(free));
        self.stages.push((name, time));
    }
}

/// The index of a packet in [`World`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PacketId(u32);

/// A link's cells (§2.1: the nodes are joined by ATM).
#[derive(Debug, Clone, Copy)]
pub(super) struct Cells {
    /// Bytes of a cell on the wire.
    pub(super) bytes: u64,
    /// The bytes of data in a cell.
    pub(super) payload: u64,
    /// Bytes added to a packet before it is cut into cells.
    pub(super) trailer: u64,
}

impl Cells {
    /// The number of cells for `bytes`.
    pub(super) fn count(self, bytes: u64) -> u64 {
        (bytes + self.trailer).div_ceil(self.payload.max(1))
    }

    /// Bytes on the wire for a packet of `bytes`.
    pub(super) fn on_wire(self, bytes: u64) -> u64 {
        self.count(bytes).saturating_mul(self.bytes)
    }
}

/// Parameters of shared resources.
#[derive(Debug, Clone, Copy)]
pub(super) struct WorldSettings {
    pub(super) ranks: u32,
    pub(super) processes_per_host: u32,
    pub(super) host: HostTimes,
    pub(super) host_clock_hz: u64,
    /// Packets from one process to another that have not been consumed yet.
    pub(super) window: u32,
    /// From consuming a packet to the sender's knowing.
    pub(super) credit_latency: Time,
    pub(super) keeps_journeys: bool,
    pub(super) keeps_statistics: bool,
}

/// Everything outside the processes and the substrate.
pub(super) struct World<E> {
    pub(super) engine: Engine<Event<E>>,
    pub(super) settings: WorldSettings,
    pub(super) clocks: Vec<Clock>,
    pub(super) hosts: Vec<Host>,
    pub(super) network: Network,
    pub(super) inboxes: Vec<VecDeque<Packet>>,
    pub(super) journeys: Vec<Journey>,
    pub(super) statistics: Option<Box<Statistics>>,
    /// How long each host's card and its DMA engine have worked on packets, if statistics are kept.
    cards_busy: Vec<[Time; 2]>,
    /// The packets that events refer to.
    packets: Slab<Packet>,
    in_flight: BTreeMap<(Rank, Rank), u32>,
    /// Processes that were refused for lack of room, and those that have room again.
    refused: Vec<bool>,
    room_came: Vec<bool>,
    alarms: Vec<Alarm>,
}

impl<E: Copy> World<E> {
    pub(super) fn new(settings: WorldSettings, network: Network) -> Self {
        let ranks = settings.ranks as usize;
        let hosts = settings.ranks.div_ceil(settings.processes_per_host.max(1));
        Self {
            engine: Engine::new(),
            settings,
            clocks: vec![Clock::default(); ranks],
            hosts: (0..hosts)
                .map(|index| Host::new(index, settings.host))
                .collect(),
            network,
            statistics: settings
                .keeps_statistics
                .then(|| Box::new(Statistics::new(0))),
            cards_busy: vec![[0; 2]; hosts as usize],
            inboxes: (0..ranks).map(|_| VecDeque::new()).collect(),
            journeys: Vec::new(),
            packets: Slab::default(),
            in_flight: BTreeMap::new(),
            refused: vec![false; ranks],
            room_came: vec![false; ranks],
            alarms: Vec::new(),
        }
    }

    pub(super) fn now(&self) -> Time {
        self.engine.now()
    }

    /// The host on which a process runs.
    pub(super) fn host_of(&self, rank: Rank) -> u32 {
        rank / self.settings.processes_per_host.max(1)
    }

    /// The time of `cycles` of the host's processor.
    pub(super) fn cycles(&self, cycles: u64) -> Time {
        duration_at(cycles, self.settings.host_clock_hz)
    }

    /// Schedules the substrate's `event` at `at`.
    pub(super) fn at(&mut self, at: Time, event: E) {
        self.engine.at(at, Event::Substrate(event));
    }

    /// Interrupts `host` for this many cycles, and schedules `event` for when the handler ends.
    pub(super) fn interrupt(&mut self, host: u32, cycles: u64, event: E) {
        let end = self.steal(host, cycles);
        self.at(end, event);
    }

    /// Takes this many cycles from whatever `host` runs; returns when they have passed.
    pub(super) fn steal(&mut self, host: u32, cycles: u64) -> Time {
        let time = self.cycles(cycles);
        self.with_host(host, |host, effects| host.interrupt(time, effects))
    }

    /// Changes a host's processors and sets the alarms that follow.
    pub(super) fn with_host<T>(
        &mut self,
        host: u32,
        action: impl FnOnce(&mut Host, &mut Effects<'_>) -> T,
    ) -> T {
        let mut effects = Effects {
            now: self.engine.now(),
            clocks: &mut self.clocks,
            alarms: &mut self.alarms,
        };
        let result = action(&mut self.hosts[host as usize], &mut effects);
        for alarm in self.alarms.drain(..) {
            self.engine.at(alarm.at, Event::Alarm(alarm.wakes));
        }
        result
    }

    /// A packet in flight.
    pub(super) fn packet(&mut self, id: PacketId) -> &mut Packet {
        let packet = self.packets.get_mut(id.0);
        packet.expect("nothing happens to a packet after its delivery")
    }

    /// A packet's sender, receiver and bytes.
    pub(super) fn ends(&mut self, id: PacketId) -> (Rank, Rank, usize) {
        let packet = self.packet(id);
        (packet.from, packet.to, packet.message.bytes())
    }

    /// Adds a stage to a packet's journey that begins now, or when the one before ends.
    pub(super) fn stage(&mut self, id: PacketId, name: &'static str, time: Time) {
        let now = self.now();
        if self.settings.keeps_statistics {
            self.use_card(id, name, time);
        }
        if self.settings.keeps_journeys {
            self.packet(id).stage(now, name, time);
        }
    }

    /// Counts a stage of a packet's journey as use of a card, if it is.
    fn use_card(&mut self, id: PacketId, name: &str, time: Time) {
        let (from, to, _) = self.ends(id);
        let which = match name {
            name if name.ends_with("network processor") => 0,
            name if name.contains("DMA") => 1,
            _ => return,
        };
        let host = self.host_of(if name.starts_with("receive") {
            to
        } else {
            from
        });
        self.cards_busy[host as usize][which] += time;
    }

    /// How long each instance of each resource has been in use so far.
    fn busy(&self) -> Busy {
        let mut busy = Busy::default();
        for host in &self.hosts {
            busy[Resource::HostProcessor as usize].push(host.interrupted());
        }
        for (rank, clock) in self.clocks.iter().enumerate() {
            let host = self.host_of(rank as Rank) as usize;
            let used: Time = clock.accounts.iter().sum();
            busy[Resource::HostProcessor as usize][host] += used;
        }
        if self.cards_busy.iter().any(|card| *card != [0; 2]) {
            let cards = self.cards_busy.iter();
            busy[Resource::CardProcessor as usize].extend(cards.clone().map(|card| card[0]));
            busy[Resource::HostDma as usize].extend(cards.map(|card| card[1]));
        }
        busy[Resource::Link as usize] = self.network.links_busy();
        busy
    }

    /// Takes the samples that are due.
    pub(super) fn observe(&mut self) {
        let now = self.now();
        let due = self.statistics.as_ref().map(|of| of.timeline.due());
        if due.is_none_or(|due| due > now) {
            return;
        }
        let busy = self.busy();
        let sums = busy.each_ref().map(|of| (of.len() as u64, of.iter().sum()));
        if let Some(statistics) = &mut self.statistics {
            while statistics.timeline.due() <= now {
                let due = statistics.timeline.due();
                statistics.timeline.sample(due, &sums);
            }
        }
    }

    /// Ends the statistics at the present.
    pub(super) fn take_statistics(&mut self) -> Option<Box<Statistics>> {
        let (now, busy) = (self.now(), self.busy());
        let mut statistics = self.statistics.take()?;
        statistics.busy = busy;
        statistics.observed = now;
        Some(statistics)
    }

    /// Whether `from` may send another packet to `to`.
    pub(super) fn has_room(&self, from: Rank, to: Rank) -> bool {
        self.in_flight.get(&(from, to)).copied().unwrap_or(0) < self.settings.window
    }

    /// Takes room for a packet in the window.
    fn take_room(&mut self, from: Rank, to: Rank) {
        *self.in_flight.entry((from, to)).or_insert(0) += 1;
    }

    /// Notes that `from` was refused, and waits for room. Its message was returned.
    pub(super) fn refuse(&mut self, from: Rank, message: Message) -> CallEffect {
        self.refused[from as usize] = true;
        self.room_came[from as usize] = false;
        CallEffect::Then(0, CallResult::NoRoom(message))
    }

    /// Turns a process's message into a packet and takes its room, unless there is none. The call
    /// began `before` cycles ago; `stages` name the uses of the processor's cycles.
    pub(super) fn admit(
        &mut self,
        (from, to): (Rank, Rank),
        message: Message,
        before: u64,
        stages: &[(&'static str, u64)],
        go_on: impl FnOnce(&mut Self, PacketId) -> CallEffect,
    ) -> CallEffect {
        if !self.has_room(from, to) {
            return self.refuse(from, message);
        }
        self.take_room(from, to);
        let called = self.now().saturating_sub(self.cycles(before));
        let id = PacketId(self.packets.insert(Packet {
            from,
            to,
            message,
            called,
            stages: Vec::new(),
            begins: Vec::new(),
            slot: None,
        }));
        for &(name, cycles) in stages {
            let time = self.cycles(cycles);
            self.stage(id, name, time);
        }
        go_on(self, id)
    }

    /// Completes a call to receive with its packet, after this many cycles.
    pub(super) fn hand_over(&mut self, mut packet: Packet, after: u64) -> CallEffect {
        let returned = self.now() + self.cycles(after);
        self.arrived(&mut packet, returned);
        CallEffect::Then(
            after,
            CallResult::Received(Some((packet.from, packet.message))),
        )
    }

    /// Calls that are the same on every substrate: a wait, unless it is unnecessary, and calls that are carried out at
    /// once.
    pub(super) fn simple_call(&mut self, process: Rank, call: &Call) -> CallEffect {
        match call {
            Call::Wait(_) if !self.need_not_wait(process) => CallEffect::Wait,
            _ => CallEffect::Then(0, CallResult::Done),
        }
    }

    /// Notes that there may be room again for `from`.
    pub(super) fn room(&mut self, from: Rank) {
        if std::mem::take(&mut self.refused[from as usize]) {
            self.room_came[from as usize] = true;
            self.wake(from);
        }
    }

    /// Returns a credit.
    pub(super) fn credit(&mut self, from: Rank, to: Rank) {
        if let Some(count) = self.in_flight.get_mut(&(from, to)) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.in_flight.remove(&(from, to));
            }
        }
        self.room(from);
    }

    /// Makes the packet visible to the receiving process.
    pub(super) fn deliver(&mut self, packet: PacketId) {
        let packet = self.packets.remove(packet.0);
        let packet = packet.expect("a packet is delivered once");
        let to = packet.to;
        self.inboxes[to as usize].push_back(packet);
        self.wake(to);
    }

    fn wake(&mut self, process: Rank) {
        let host = self.host_of(process);
        self.with_host(host, |host, effects| host.wake(process, effects));
    }

    /// Takes the process's next packet; its credit returns to the sender.
    pub(super) fn consume(&mut self, process: Rank) -> Option<Packet> {
        let packet = self.inboxes[process as usize].pop_front()?;
        let credit = Event::Credit {
            from: packet.from,
            to: packet.to,
        };
        self.engine.after(self.settings.credit_latency, credit);
        Some(packet)
    }

    /// Whether a process that is about to wait has a reason not to.
    fn need_not_wait(&mut self, process: Rank) -> bool {
        let has_mail = !self.inboxes[process as usize].is_empty();
        let room_came = std::mem::take(&mut self.room_came[process as usize]);
        has_mail || room_came
    }

    /// Notes that `packet` has been received by a call that returns at `returned`.
    fn arrived(&mut self, packet: &mut Packet, returned: Time) {
        if let Some(statistics) = &mut self.statistics {
            let latency = returned.saturating_sub(packet.called);
            statistics.message(returned, latency, packet.message.bytes() as u64);
        }
        if self.settings.keeps_journeys {
            self.journeys.push(Journey {
                from: packet.from,
                to: packet.to,
                called: packet.called,
                returned,
                stages: std::mem::take(&mut packet.stages),
                begins: std::mem::take(&mut packet.begins),
            });
        }
    }
}
