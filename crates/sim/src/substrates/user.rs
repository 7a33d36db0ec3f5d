//! C2 and C3 on NI3: send and receive are library calls, and the card's processor does the rest (§2.3.3, §2.3.4).
//!
//! An endpoint has a send queue in the card's memory, which the host fills by programmed writes,
//! and a receive queue with buffers in host memory, which the card fills by DMA. The network
//! processor polls the network and all send queues one after the other, and processes one packet at
//! a time: it waits for the DMA engine that it has programmed (overlap is the subject of chapter
//! 4).
//!
//! A message that fits into a descriptor is sent in it. Longer data is copied into the pinned
//! communication segment (C2), or fetched from the program's own pages (C3): then the card needs
//! translations of these pages, and of those of the receive queue and the buffers. A page that is
//! not in its TLB costs an interrupt of the host; the packet is set aside meanwhile, and later
//! packets from the same source wait, so that order is kept.

use std::collections::VecDeque;

use super::costs::{Costs, words};
use super::machine::Substrate;
use super::poll_loop::{NetworkProcessor, Notice, PollLoop};
use super::process::{Call, CallEffect, CallResult};
use super::tlb::{Page, Tlb};
use super::world::{Packet, PacketId, World};
use crate::am::port::{Fragment, HEADER_BYTES, Message, Rank};
use crate::engine::Time;

/// The addresses that the card accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Addressing {
    /// C2: those of the pinned segment.
    Pinned,
    /// C3: those of the process.
    Virtual,
}

/// Events of a card.
#[derive(Debug, Clone, Copy)]
pub(super) enum UserEvent {
    /// The network processor notices a source. Void if it has been assigned something else since.
    Notices { host: u32, notice: Notice },
    /// The network processor passes a packet to the network.
    Transmits { packet: PacketId },
    /// A packet is in the card's memory.
    Arrives { packet: PacketId },
    /// A packet is in the endpoint's receive queue.
    Delivered { packet: PacketId },
    /// The network processor is free for the next source.
    Free { host: u32, served: u32 },
    /// The network processor lacks translations and requests them from the host.
    Asks(Missing),
    /// The host has written the translations.
    Translated(Missing),
}

/// Pages of which the card has no translation, and the source that waits for them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Missing {
    host: u32,
    source: u32,
    pages: [Option<Page>; 2],
}

/// A process's address space: pages of the receive queue, of the buffers, of the program's regions.
const QUEUE_PAGE: u64 = 0;
const FIRST_BUFFER_PAGE: u64 = 16;
const FIRST_REGION_PAGE: u64 = 1 << 32;

/// One process's endpoint.
#[derive(Debug, Default)]
struct Endpoint {
    send_queue: VecDeque<PacketId>,
    /// The first page of each region.
    regions: Vec<u64>,
    next_page: u64,
    /// Receive buffers that are free after use, latest last, and the number of buffers used so far.
    free_buffers: Vec<u32>,
    buffers: u32,
}

impl Endpoint {
    /// Takes a buffer: the one that was freed last, because the card has its translation.
    fn take_buffer(&mut self) -> u32 {
        self.free_buffers.pop().unwrap_or_else(|| {
            self.buffers += 1;
            self.buffers - 1
        })
    }
}

/// One host's card.
#[derive(Debug)]
struct Card {
    processor: NetworkProcessor,
    arrived: VecDeque<PacketId>,
    tlb: Tlb,
}

/// The user-level path.
pub(super) struct UserPath {
    costs: Costs,
    addressing: Addressing,
    /// The time to bring a page from disk that the card requests.
    page_in: Time,
    processes_per_host: u32,
    cards: Vec<Card>,
    endpoints: Vec<Endpoint>,
}

impl UserPath {
    pub(super) fn new(
        costs: Costs,
        addressing: Addressing,
        page_in: Time,
        hosts: usize,
        processes_per_host: u32,
        ranks: u32,
    ) -> Self {
        let sources = processes_per_host as usize;
        let (network, endpoint) = (costs.card.poll_network, costs.card.poll_endpoint);
        let polls = PollLoop::new(costs.np(network), costs.np(endpoint), sources);
        let cards = (0..hosts).map(|_| Card {
            processor: NetworkProcessor::new(polls.clone()),
            arrived: VecDeque::new(),
            tlb: Tlb::new(costs.room.tlb_sets, costs.room.tlb_ways),
        });
        Self {
            costs,
            addressing,
            page_in,
            processes_per_host,
            cards: cards.collect(),
            endpoints: (0..ranks).map(|_| Endpoint::default()).collect(),
        }
    }

    /// An unsuccessful poll.
    pub(super) fn poll_cycles(costs: &Costs) -> u64 {
        costs.library.look + costs.layer.enter_poll
    }

    /// The fragment that the card must fetch from host memory, if the message does not travel in its descriptor.
    fn fetched<'m>(&self, message: &'m Message) -> Option<&'m Fragment> {
        let fits = message.bytes() as u64 <= self.costs.library.descriptor;
        match self.addressing {
            Addressing::Pinned if fits => None,
            Addressing::Pinned | Addressing::Virtual => message.fragment(),
        }
    }

    /// Whether the message needs a buffer at its receiver.
    fn needs_buffer(&self, message: &Message) -> bool {
        message.bytes() as u64 > self.costs.library.descriptor
    }

    /// The library's part of a send, in cycles.
    fn send_stages(&self, message: &Message) -> [(&'static str, u64); 3] {
        let (copied, written) = match (self.fetched(message), self.addressing) {
            (None, _) => (0, words(message.bytes())),
            (Some(fragment), Addressing::Pinned) => (
                words(fragment.bytes.len()),
                self.costs.library.bare_descriptor / 4,
            ),
            (Some(_), Addressing::Virtual) => (0, self.costs.library.bare_descriptor / 4),
        };
        [
            ("send: library", self.costs.library.send),
            ("send: copy to segment", copied * self.costs.copy_word()),
            (
                "send: descriptor to card",
                written * self.costs.hardware.ni_access,
            ),
        ]
    }

    /// The pages that the card needs to send the message.
    fn pages_to_send(&self, process: Rank, message: &Message) -> [Option<Page>; 2] {
        let fragment = match self.addressing {
            Addressing::Pinned => None,
            Addressing::Virtual => self.fetched(message),
        };
        let Some(fragment) = fragment else {
            return [None; 2];
        };
        let regions = &self.endpoints[process as usize].regions;
        let base = regions.get(fragment.from.region.0 as usize);
        let base = base.copied().unwrap_or(FIRST_REGION_PAGE);
        let page = self.costs.hardware.page;
        let end = fragment.from.offset + (fragment.bytes.len() as u64).saturating_sub(1);
        let first = base + fragment.from.offset / page;
        let last = base + end / page;
        let of = |number| Some(Page { process, number });
        [of(first), (last != first).then(|| of(last)).flatten()]
    }

    /// The pages that the card needs to deliver a packet.
    fn pages_to_deliver(&self, packet: &Packet) -> [Option<Page>; 2] {
        if self.addressing == Addressing::Pinned {
            return [None; 2];
        }
        let of = |number| Page {
            process: packet.to,
            number,
        };
        let buffer = packet
            .slot
            .map(|slot| of(FIRST_BUFFER_PAGE + u64::from(slot)));
        [Some(of(QUEUE_PAGE)), buffer]
    }

    /// The endpoint's index among the card's sources.
    fn source_of(&self, process: Rank) -> usize {
        (process % self.processes_per_host.max(1)) as usize + 1
    }

    fn process_of(&self, host: u32, source: usize) -> Option<Rank> {
        let local = u32::try_from(source.checked_sub(1)?).ok()?;
        Some(host * self.processes_per_host.max(1) + local)
    }

    /// Notes that the card has something to do at `source`.
    fn wake(&mut self, world: &mut World<UserEvent>, host: u32, source: usize) {
        let now = world.now();
        let card = &mut self.cards[host as usize];
        plan(world, host, card.processor.wake(now, source));
    }

    /// Ends the service of a source: the card polls for the next.
    fn free(&mut self, world: &mut World<UserEvent>, host: u32, served: usize) {
        let now = world.now();
        let first = host * self.processes_per_host.max(1);
        let card = &mut self.cards[host as usize];
        let (arrived, endpoints) = (&card.arrived, &self.endpoints);
        let next = card
            .processor
            .free(now, served, |source| match source.checked_sub(1) {
                None => !arrived.is_empty(),
                Some(local) => endpoints
                    .get(first as usize + local)
                    .is_some_and(|endpoint| !endpoint.send_queue.is_empty()),
            });
        plan(world, host, next);
    }

    /// Serves `source`, which the network processor has noticed.
    fn serve(&mut self, world: &mut World<UserEvent>, host: u32, source: usize) {
        match self.process_of(host, source) {
            None => self.serve_network(world, host),
            Some(process) => self.serve_endpoint(world, host, process, source),
        }
    }

    /// Looks up the pages. If one is missing, puts the source aside and interrupts the host.
    fn translates(
        &mut self,
        world: &mut World<UserEvent>,
        host: u32,
        source: usize,
        pages: [Option<Page>; 2],
        before: u64,
    ) -> bool {
        let card = &mut self.cards[host as usize];
        let pages = pages.map(|page| page.filter(|&page| !card.tlb.finds(page)));
        if pages == [None; 2] {
            return true;
        }
        card.processor.park(source, true);
        let source = source as u32;
        let at = world.now() + self.costs.np(before + self.costs.card.miss);
        let missing = Missing {
            host,
            source,
            pages,
        };
        world.at(at, UserEvent::Asks(missing));
        let served = source;
        world.at(at, UserEvent::Free { host, served });
        false
    }

    /// Cycles to look up pages.
    fn lookup_cycles(&self, pages: &[Option<Page>; 2]) -> u64 {
        self.costs.card.lookup * pages.iter().flatten().count() as u64
    }

    fn serve_endpoint(
        &mut self,
        world: &mut World<UserEvent>,
        host: u32,
        process: Rank,
        source: usize,
    ) {
        let endpoint = &self.endpoints[process as usize];
        let Some(id) = endpoint.send_queue.front().copied() else {
            return self.free(world, host, source);
        };
        let packet = world.packet(id);
        let pages = self.pages_to_send(process, &packet.message);
        let fetched = self.fetched(&packet.message).map(|one| one.bytes.len());
        let mut cycles = self.costs.card.send + self.lookup_cycles(&pages);
        if !self.translates(world, host, source, pages, cycles) {
            return;
        }
        self.endpoints[process as usize].send_queue.pop_front();
        let mut dma = 0;
        if let Some(bytes) = fetched {
            cycles += self.costs.card.program_dma;
            dma = self.costs.dma(bytes as u64);
            world.stage(id, "send: DMA from host", dma);
        }
        cycles += self.costs.card.transmit;
        let working = self.costs.np(cycles);
        world.stage(id, "send: network processor", working);
        let at = world.now() + working + dma;
        world.at(at, UserEvent::Transmits { packet: id });
        world.at(
            at + self.costs.np(self.costs.card.send_cleanup),
            UserEvent::Free {
                host,
                served: source as u32,
            },
        );
        world.room(process);
    }

    fn serve_network(&mut self, world: &mut World<UserEvent>, host: u32) {
        let Some(id) = self.cards[host as usize].arrived.front().copied() else {
            return self.free(world, host, 0);
        };
        let packet = world.packet(id);
        if packet.slot.is_none() && self.needs_buffer(&packet.message) {
            packet.slot = Some(self.endpoints[packet.to as usize].take_buffer());
        }
        let pages = self.pages_to_deliver(packet);
        let bytes = packet.message.bytes() as u64;
        let moved = match packet.slot {
            None => bytes,
            Some(_) => bytes + self.costs.library.bare_descriptor,
        };
        let card = &self.costs.card;
        let cycles = card.demultiplex + self.lookup_cycles(&pages);
        let rest = card.program_dma + card.enqueue;
        if !self.translates(world, host, 0, pages, cycles) {
            return;
        }
        self.cards[host as usize].arrived.pop_front();
        let (working, dma) = (self.costs.np(cycles + rest), self.costs.dma(moved));
        world.stage(id, "receive: network processor", working);
        world.stage(id, "receive: DMA to host", dma);
        let at = world.now() + working + dma;
        world.at(at, UserEvent::Delivered { packet: id });
        world.at(at, UserEvent::Free { host, served: 0 });
    }

    fn transmit(&mut self, world: &mut World<UserEvent>, id: PacketId) {
        let (from, to, bytes) = world.ends(id);
        let (source, target) = (world.host_of(from), world.host_of(to));
        let on_wire = self.costs.cells().on_wire(bytes as u64);
        let now = world.now();
        let sent = world
            .network
            .send(now, source as usize, target as usize, on_wire);
        let arrives = sent.arrives.unwrap_or(sent.left);
        world.stage(id, "wire", arrives - now);
        world.at(arrives, UserEvent::Arrives { packet: id });
    }

    /// Requests the host to look up missing pages, and to load those that are paged out.
    fn ask(&mut self, world: &mut World<UserEvent>, missing: Missing) {
        let pages = missing.pages.iter().flatten().count() as u64;
        let library = &self.costs.library;
        let cycles = library.miss_interrupt + pages * library.miss_page;
        let looked_up = world.steal(missing.host, cycles);
        world.at(looked_up + self.page_in, UserEvent::Translated(missing));
    }

    fn send(
        &mut self,
        world: &mut World<UserEvent>,
        process: Rank,
        to: Rank,
        message: Message,
        before: u64,
    ) -> CallEffect {
        let endpoint = &self.endpoints[process as usize];
        if endpoint.send_queue.len() >= self.costs.room.send_queue as usize {
            return world.refuse(process, message);
        }
        let stages = self.send_stages(&message);
        world.admit((process, to), message, before, &stages, |world, id| {
            self.endpoints[process as usize].send_queue.push_back(id);
            let (host, source) = (world.host_of(process), self.source_of(process));
            self.wake(world, host, source);
            CallEffect::Then(0, CallResult::Done)
        })
    }

    fn receive(&mut self, world: &mut World<UserEvent>, process: Rank) -> CallEffect {
        let Some(mut packet) = world.consume(process) else {
            return CallEffect::Then(0, CallResult::Received(None));
        };
        if let Some(slot) = packet.slot.take() {
            self.endpoints[process as usize].free_buffers.push(slot);
        }
        let fetched = match self.needs_buffer(&packet.message) {
            true => HEADER_BYTES,
            false => packet.message.bytes(),
        };
        let reading = words(fetched) * self.costs.hardware.memory_access;
        let after = self.costs.library.receive + reading;
        if world.settings.keeps_journeys {
            let time = world.cycles(after);
            packet.stage(world.now(), "receive: library", time);
        }
        world.hand_over(packet, after)
    }

    /// Assigns the region's pages addresses of their own.
    fn attach(&mut self, process: Rank, bytes: usize) {
        let page = self.costs.hardware.page;
        let endpoint = &mut self.endpoints[process as usize];
        endpoint
            .regions
            .push(FIRST_REGION_PAGE + endpoint.next_page);
        endpoint.next_page += (bytes as u64).div_ceil(page) + 1;
    }
}

/// Schedules the network processor's notice.
fn plan(world: &mut World<UserEvent>, host: u32, notice: Option<Notice>) {
    if let Some(notice) = notice {
        world.at(notice.at, UserEvent::Notices { host, notice });
    }
}

impl Substrate for UserPath {
    type Event = UserEvent;

    fn before(&self, world: &World<UserEvent>, process: Rank, call: &Call) -> u64 {
        match call {
            Call::Send { to, message } if world.has_room(process, *to) => self
                .send_stages(message)
                .iter()
                .map(|(_, cycles)| cycles)
                .sum(),
            Call::Send { .. } | Call::Receive => self.costs.library.look,
            Call::Attach { .. } | Call::Wait(_) | Call::Pass => 0,
        }
    }

    fn carry_out(
        &mut self,
        world: &mut World<UserEvent>,
        process: Rank,
        call: Call,
        before: u64,
    ) -> CallEffect {
        match call {
            Call::Send { to, message } => self.send(world, process, to, message, before),
            Call::Receive => self.receive(world, process),
            Call::Attach { bytes } => {
                self.attach(process, bytes);
                CallEffect::Then(0, CallResult::Done)
            }
            Call::Wait(_) | Call::Pass => world.simple_call(process, &call),
        }
    }

    fn tlb_misses(&self) -> u64 {
        self.cards.iter().map(|card| card.tlb.misses()).sum()
    }

    fn event(&mut self, world: &mut World<UserEvent>, event: UserEvent) {
        match event {
            UserEvent::Notices { host, notice } => {
                let processor = &mut self.cards[host as usize].processor;
                if processor.begins(notice.generation) {
                    self.serve(world, host, notice.source);
                }
            }
            UserEvent::Transmits { packet } => self.transmit(world, packet),
            UserEvent::Arrives { packet } => {
                let to = world.packet(packet).to;
                let host = world.host_of(to);
                self.cards[host as usize].arrived.push_back(packet);
                self.wake(world, host, 0);
            }
            UserEvent::Delivered { packet } => world.deliver(packet),
            UserEvent::Free { host, served } => self.free(world, host, served as usize),
            UserEvent::Asks(missing) => self.ask(world, missing),
            UserEvent::Translated(Missing {
                host,
                source,
                pages,
            }) => {
                let card = &mut self.cards[host as usize];
                for page in pages.into_iter().flatten() {
                    card.tlb.fill(page);
                }
                card.processor.park(source as usize, false);
                self.wake(world, host, source as usize);
            }
        }
    }
}
