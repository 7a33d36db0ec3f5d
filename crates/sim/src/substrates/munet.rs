//! MU-Net (chapter 3): protected endpoints on a LANai 4, polled by its control program.
//!
//! A message of up to 128 bytes is sent in the send descriptor, which the host writes into the
//! card's memory; a longer one is copied into the pinned send buffer and fetched by DMA. The
//! control program polls the network and every active endpoint one after the other, and waits for
//! each DMA transfer that it starts (§3.2.4.2). A packet that has arrived is stored in the card's
//! memory, and from there, short or long, moved into the endpoint's receive buffer by one DMA
//! transfer; the host finds it by probing a variable on the card.
//!
//! [`anatomy`] measures Table 3.2, [`round_trip`] Table 3.1's row for MU-Net. The table shows 79 µs
//! from the departure of the last of 4096 bytes until they are in the receiver's memory, more than
//! the link takes: so reception is modelled as beginning when the whole packet has arrived, at a
//! rate of its own. The text does not state the reason.

use std::collections::VecDeque;

use super::costs::section;
use super::machine::{Limits, Machine, Outcome, SimError, Substrate};
use super::one_way::{self, OneWay};
use super::poll_loop::{NetworkProcessor, Notice, PollLoop};
use super::process::{Call, CallEffect, CallResult, Clocking, PortCosts, SimPort};
use super::processor::HostTimes;
use super::world::{Journey, PacketId, World, WorldSettings};
use crate::am::AmError;
use crate::am::port::{Message, Rank};
use crate::engine::{MICROSECOND, SECOND, Time, duration_at};
use crate::hardware::{LinkSpec, Network, SwitchSpec, Topology, WhenFull};
use crate::profile::units::Kind;
use crate::profile::{FileError, Section, Source};

section! {
    /// The host and the library.
    Host {
        /// Cycles per second.
        clock: Frequency,
        /// The send call without moving data.
        send_call: Time,
        /// Copying into the send buffer.
        copy: Rate,
        /// Writing data into the card's memory.
        card_write: Rate,
        /// One poll of the receive queue's variable on the card.
        probe: Time,
        /// The receive call without probing and copying.
        receive_call: Time,
        /// Copying out of the receive buffer.
        receive_copy: Rate,
    }
}

section! {
    /// The control program, in cycles of the LANai.
    Lanai {
        /// Cycles per second.
        clock: Frequency,
        /// A poll of the interrupt status register.
        poll_network: Cycles,
        /// A poll of the next descriptor of one endpoint.
        poll_endpoint: Cycles,
        /// The header is made.
        header: Cycles,
        /// The DMA to the network is programmed.
        net_send_setup: Cycles,
        /// The DMA from the network is programmed.
        net_receive_setup: Cycles,
        /// Length and endpoint are read, the DMA to the host is programmed.
        deliver: Cycles,
        /// The endpoint's queue variables.
        update: Cycles,
    }
}

section! {
    /// The card's three DMA engines.
    Engines {
        /// From programming to the first byte, host side.
        startup: Time,
        /// The bus between host and card: neither engine below is faster.
        bus: Rate,
        /// Host memory to card.
        from_host: Rate,
        /// Card to host memory.
        to_host: Rate,
        /// Card to network.
        to_net: Rate,
        /// Network to card.
        from_net: Rate,
    }
}

section! {
    /// Formats and the way between the cards.
    Format {
        /// Data that a descriptor holds.
        descriptor: Size,
        /// Bytes of a packet in addition to its data.
        header: Size,
        /// From card to card.
        switch_latency: Time,
    }
}

/// All parameters of MU-Net.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MuNet {
    /// The host.
    pub host: Host,
    /// The card's program.
    pub card: Lanai,
    /// The card's engines.
    pub dma: Engines,
    /// Formats.
    pub message: Format,
    /// Packets from one process to another that have not been received.
    pub window: u32,
}

impl MuNet {
    /// The table that is shipped.
    pub fn shipped() -> Result<Self, FileError> {
        let text = include_str!("../../profiles/endpoints.toml");
        Self::read("endpoints.toml", text)
    }

    /// Reads a table.
    pub fn read(file: &str, text: &str) -> Result<Self, FileError> {
        let mut file = Source { file, text }.document()?;
        let host = Host::read(&mut file, "host")?;
        let card = Lanai::read(&mut file, "card")?;
        let dma = Engines::read(&mut file, "dma")?;
        let message = Format::read(&mut file, "message")?;
        let window = file.part("queue", |queue| queue.count("window", 1, 1 << 16))?;
        let speeds = [
            ("host.clock", host.clock),
            ("host.copy", host.copy),
            ("host.card_write", host.card_write),
            ("host.receive_copy", host.receive_copy),
            ("card.clock", card.clock),
            ("dma.from_host", dma.from_host),
            ("dma.to_host", dma.to_host),
            ("dma.to_net", dma.to_net),
            ("dma.from_net", dma.from_net),
        ];
        for (name, rate) in [("from_host", dma.from_host), ("to_host", dma.to_host)] {
            if rate > dma.bus {
                let wrong = format!(
                    "`dma.{name}` moves {rate} B/s, more than `dma.bus`, which moves {} B/s at most",
                    dma.bus
                );
                return Err(file.error(&(0..0), wrong));
            }
        }
        if let Some((name, _)) = speeds.iter().find(|(_, value)| *value == 0) {
            return Err(file.error(&(0..0), format!("`{name}` must be more than 0")));
        }
        file.finish()?;
        Ok(Self {
            host,
            card,
            dma,
            message,
            window: window.value as u32,
        })
    }

    fn lanai(&self, cycles: u64) -> Time {
        duration_at(cycles, self.card.clock)
    }

    /// A time of the host in its cycles, in which processors are charged.
    fn host_cycles(&self, time: Time) -> u64 {
        let cycles = u128::from(time) * u128::from(self.host.clock) / u128::from(SECOND);
        u64::try_from(cycles).unwrap_or(u64::MAX)
    }

    fn is_long(&self, data: u64) -> bool {
        data > self.message.descriptor
    }

    /// The time of the send call.
    fn send_time(&self, data: u64) -> Time {
        let rate = match self.is_long(data) {
            true => self.host.copy,
            false => self.host.card_write,
        };
        self.host.send_call + duration_at(data, rate)
    }

    /// The time of a receive call that finds a message.
    fn receive_time(&self, data: u64) -> Time {
        self.host.receive_call + duration_at(data, self.host.receive_copy)
    }
}

/// The rows of Table 3.2.
pub const ROWS: [&str; 6] = [
    "Detected in send queue",
    "Header sent on network",
    "Data sent on network",
    "Data in SRAM",
    "DMA to host",
    "Message received by host",
];

#[derive(Debug, Clone, Copy)]
enum MuEvent {
    Notice {
        host: u32,
        notice: Notice,
    },
    /// The packet has reached this row of the table.
    StageReached {
        packet: PacketId,
        row: usize,
    },
    /// The packet is at the other card.
    AtReceiver {
        packet: PacketId,
    },
    /// The packet is in the endpoint's receive buffer.
    Delivered {
        packet: PacketId,
    },
    Free {
        host: u32,
        served: u32,
    },
}

struct Card {
    processor: NetworkProcessor,
    arrived: VecDeque<PacketId>,
    /// The send queue of the only endpoint that is used.
    queue: VecDeque<PacketId>,
}

/// MU-Net on two hosts with a process each.
struct Endpoints {
    settings: MuNet,
    cards: Vec<Card>,
}

/// The endpoint that the process uses; the others are only polled.
const USED: usize = 1;

fn data(message: &Message) -> u64 {
    message
        .fragment()
        .map_or(0, |fragment| fragment.bytes.len() as u64)
}

impl Endpoints {
    fn new(settings: MuNet, endpoints: usize) -> Self {
        let [network, endpoint] = [settings.card.poll_network, settings.card.poll_endpoint]
            .map(|one| settings.lanai(one));
        let polls = PollLoop::new(network, endpoint, endpoints.max(1));
        let cards = (0..2).map(|_| Card {
            processor: NetworkProcessor::new(polls.clone()),
            arrived: VecDeque::new(),
            queue: VecDeque::new(),
        });
        Self {
            settings,
            cards: cards.collect(),
        }
    }

    fn wake(&mut self, world: &mut World<MuEvent>, host: u32, source: usize) {
        let now = world.now();
        let card = &mut self.cards[host as usize];
        plan(world, host, card.processor.wake(now, source));
    }

    fn free(&mut self, world: &mut World<MuEvent>, host: u32, served: usize) {
        let now = world.now();
        let card = &mut self.cards[host as usize];
        let (arrived, queue) = (&card.arrived, &card.queue);
        let next = card.processor.free(now, served, |source| match source {
            0 => !arrived.is_empty(),
            USED => !queue.is_empty(),
            _ => false,
        });
        plan(world, host, next);
    }

    /// Handles a send descriptor that was found.
    fn send(&mut self, world: &mut World<MuEvent>, host: u32) {
        let Some(id) = self.cards[host as usize].queue.pop_front() else {
            return self.free(world, host, USED);
        };
        let bytes = data(&world.packet(id).message);
        reach(world, id, 0);
        let settings = &self.settings;
        let fetching = match settings.is_long(bytes) {
            true => settings.dma.startup + duration_at(bytes, settings.dma.from_host),
            false => 0,
        };
        let header = world.now() + fetching + settings.lanai(settings.card.header);
        let sent = header
            + settings.lanai(settings.card.net_send_setup)
            + duration_at(bytes + settings.message.header, settings.dma.to_net);
        world.at(header, MuEvent::StageReached { packet: id, row: 1 });
        world.at(sent, MuEvent::StageReached { packet: id, row: 2 });
        let arrives = sent + settings.message.switch_latency;
        world.at(arrives, MuEvent::AtReceiver { packet: id });
        let served = USED as u32;
        world.at(sent, MuEvent::Free { host, served });
        let from = world.packet(id).from;
        world.room(from);
    }

    /// Handles a packet that was found.
    fn receive(&mut self, world: &mut World<MuEvent>, host: u32) {
        let Some(id) = self.cards[host as usize].arrived.pop_front() else {
            return self.free(world, host, 0);
        };
        let bytes = data(&world.packet(id).message);
        let settings = &self.settings;
        let taken = world.now()
            + settings.lanai(settings.card.net_receive_setup)
            + duration_at(bytes + settings.message.header, settings.dma.from_net);
        let moved = taken
            + settings.lanai(settings.card.deliver)
            + settings.dma.startup
            + duration_at(bytes, settings.dma.to_host);
        let status_written = moved + settings.lanai(settings.card.update);
        world.at(taken, MuEvent::StageReached { packet: id, row: 3 });
        world.at(moved, MuEvent::StageReached { packet: id, row: 4 });
        world.at(status_written, MuEvent::Delivered { packet: id });
        world.at(status_written, MuEvent::Free { host, served: 0 });
    }
}

fn plan(world: &mut World<MuEvent>, host: u32, notice: Option<Notice>) {
    if let Some(notice) = notice {
        world.at(notice.at, MuEvent::Notice { host, notice });
    }
}

/// Notes that a packet has reached a row of the table: the time since the row before is a stage.
fn reach(world: &mut World<MuEvent>, id: PacketId, row: usize) {
    let (now, keeps) = (world.now(), world.settings.keeps_journeys);
    let packet = world.packet(id);
    let known: Time = packet.stages.iter().map(|(_, time)| time).sum();
    let time = (now - packet.called).saturating_sub(known);
    if keeps {
        packet.stage(now.saturating_sub(time), ROWS[row], time);
    }
}

impl Substrate for Endpoints {
    type Event = MuEvent;

    fn before(&self, world: &World<MuEvent>, process: Rank, call: &Call) -> u64 {
        let time = match call {
            Call::Send { to, message } if world.has_room(process, *to) => {
                self.settings.send_time(data(message))
            }
            Call::Send { .. } | Call::Receive => self.settings.host.probe,
            Call::Attach { .. } | Call::Wait(_) | Call::Pass => 0,
        };
        self.settings.host_cycles(time)
    }

    fn carry_out(
        &mut self,
        world: &mut World<MuEvent>,
        process: Rank,
        call: Call,
        before: u64,
    ) -> CallEffect {
        match call {
            Call::Send { to, message } => {
                world.admit((process, to), message, before, &[], |world, id| {
                    let host = world.host_of(process);
                    self.cards[host as usize].queue.push_back(id);
                    self.wake(world, host, USED);
                    CallEffect::Then(0, CallResult::Done)
                })
            }
            Call::Receive => {
                let Some(packet) = world.consume(process) else {
                    return CallEffect::Then(0, CallResult::Received(None));
                };
                let time = self.settings.receive_time(data(&packet.message));
                let after = self.settings.host_cycles(time);
                world.hand_over(packet, after)
            }
            Call::Wait(_) | Call::Attach { .. } | Call::Pass => world.simple_call(process, &call),
        }
    }

    fn event(&mut self, world: &mut World<MuEvent>, event: MuEvent) {
        match event {
            MuEvent::Notice { host, notice } => {
                let processor = &mut self.cards[host as usize].processor;
                let is_current = processor.begins(notice.generation);
                match (is_current, notice.source) {
                    (false, _) => {}
                    (true, 0) => self.receive(world, host),
                    (true, _) => self.send(world, host),
                }
            }
            MuEvent::StageReached { packet, row } => reach(world, packet, row),
            MuEvent::AtReceiver { packet } => {
                let to = world.packet(packet).to;
                let host = world.host_of(to);
                self.cards[host as usize].arrived.push_back(packet);
                self.wake(world, host, 0);
            }
            MuEvent::Delivered { packet } => world.deliver(packet),
            MuEvent::Free { host, served } => self.free(world, host, served as usize),
        }
    }
}

/// Runs two processes on bare ports of MU-Net, each with `endpoints` active endpoints on its card, of which it uses one.
pub fn run_pair<R, P>(
    settings: MuNet,
    endpoints: usize,
    program: impl FnMut(Rank) -> P,
) -> Result<Outcome<R>, SimError>
where
    R: 'static,
    P: for<'y> FnOnce(SimPort<'y>) -> Result<R, AmError> + 'static,
{
    let world = WorldSettings {
        ranks: 2,
        processes_per_host: 1,
        host: HostTimes {
            processors: 1,
            context_switch: 0,
            quantum: SECOND,
            poll: settings.host.probe,
        },
        host_clock_hz: settings.host.clock,
        window: settings.window,
        credit_latency: MICROSECOND,
        keeps_statistics: false,
        keeps_journeys: true,
    };
    // Between the cards there are only their own engines and the switch's latency.
    let link = LinkSpec {
        bytes_per_second: settings.dma.to_net,
        latency: 0,
        framing_bytes: 0,
    };
    let switch = SwitchSpec {
        latency: 0,
        buffer_bytes: 0,
        when_full: WhenFull::Stop,
        credit_time: 0,
    };
    let star = Topology::star(2).map_err(|error| SimError::Settings(error.to_string()))?;
    let costs = PortCosts {
        clocking: Clocking::Counted,
        floating: 1,
        integer: 1,
        cached: 1,
        memory: 1,
        compose: 0,
        enter_poll: 0,
        dispatch: 0,
        land_word: 0,
        fragment_bytes: 1 << 16,
        page_bytes: 1 << 16,
        longest_silence: settings.host.clock,
    };
    let limits = Limits {
        patience: SECOND,
        longest: 1_000 * SECOND,
        stack_bytes: 64 << 10,
    };
    let world = World::new(world, Network::new(link, switch, star));
    let endpoints = Endpoints::new(settings, endpoints);
    Machine::new(world, endpoints, costs, limits, program)?.run()
}

/// Round trips that are averaged.
const ITERATIONS: u32 = 200;

/// The journeys of a ping-pong's messages with `bytes` of data.
pub fn ways(
    settings: MuNet,
    bytes: usize,
    endpoints: usize,
    iterations: u32,
) -> Result<Vec<Journey>, SimError> {
    let outcome = run_pair(settings, endpoints, |rank| {
        // Pauses that share no factor with the programs' rounds.
        move |port: SimPort<'_>| one_way::ping_pong(port, rank, bytes, iterations, 37)
    })?;
    Ok(outcome.journeys)
}

/// The one-way time of a message with `bytes` of data, averaged over the positions of the cards' programs in their rounds.
pub fn one_way(settings: MuNet, bytes: usize, endpoints: usize) -> Result<OneWay, SimError> {
    Ok(one_way::average(&ways(
        settings, bytes, endpoints, ITERATIONS,
    )?))
}

/// One column of Table 3.2: cumulative times of [`ROWS`].
pub fn anatomy(settings: MuNet, bytes: usize, endpoints: usize) -> Result<[Time; 6], SimError> {
    let OneWay { total, stages } = one_way(settings, bytes, endpoints)?;
    let mut sum = 0;
    let mut rows = [total; 6];
    for (row, name) in rows.iter_mut().zip(ROWS).take(5) {
        sum += stages
            .iter()
            .find(|(stage, _)| *stage == name)
            .map_or(0, |(_, time)| *time);
        *row = sum;
    }
    Ok(rows)
}

/// The round-trip time, as in Table 3.1.
pub fn round_trip(settings: MuNet, bytes: usize) -> Result<Time, SimError> {
    Ok(2 * one_way(settings, bytes, 1)?.total)
}
