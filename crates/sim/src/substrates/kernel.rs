//! C1: send and receive are system calls (§2.3.1, §2.3.2).
//!
//! On NI1 the processor itself moves all data between memory and the card's FIFOs; on NI2 it
//! programs the card's DMA engine. Either way the device sends one packet at a time. On NI1, the
//! driver queues packets while the device is busy, and sends them when the device signals that it
//! is free; NI2's engine has a chain of programmed transfers. A packet that has arrived interrupts
//! the host, whose handler puts it in the system's queue; the receiving process polls that queue by
//! a system call.
//!
//! NI2's receive side has buffers programmed in advance, so that a packet is in kernel memory when
//! it interrupts; the handler programs the next buffer.

use std::collections::VecDeque;

use super::costs::{Costs, words};
use super::machine::Substrate;
use super::process::{Call, CallEffect, CallResult};
use super::world::{PacketId, World};
use crate::am::port::{Message, Rank};
use crate::engine::Time;

/// The agent that moves data between memory and the card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mover {
    /// NI1: the processor.
    Processor,
    /// NI2: the card's DMA engine.
    Dma,
}

/// Events of packets.
#[derive(Debug, Clone, Copy)]
pub(super) enum KernelEvent {
    /// The first cell of a packet has reached the card.
    Departs { packet: PacketId, pushed: Time },
    /// The device can take another packet.
    DeviceFree { host: u32 },
    /// The handler begins to put a queued packet on the device.
    Requeued { packet: PacketId },
    /// The last cell has arrived.
    Arrives { packet: PacketId },
    /// The handler has put it in the system's queue.
    Queued { packet: PacketId },
}

/// One host's card and its driver.
#[derive(Debug, Default)]
struct Device {
    is_busy: bool,
    waiting: VecDeque<PacketId>,
}

/// The kernel's path.
pub(super) struct KernelPath {
    costs: Costs,
    mover: Mover,
    devices: Vec<Device>,
}

impl KernelPath {
    pub(super) fn new(costs: Costs, mover: Mover, hosts: usize) -> Self {
        Self {
            costs,
            mover,
            devices: (0..hosts).map(|_| Device::default()).collect(),
        }
    }

    /// Cycles of an unsuccessful poll, which a waiting process repeats.
    pub(super) fn poll_cycles(costs: &Costs) -> u64 {
        costs.kernel.system_call + costs.kernel.look + costs.layer.enter_poll
    }

    /// The stages of the send call until the packet reaches the device, in cycles.
    fn send_stages(&self, message: &Message) -> [(&'static str, u64); 5] {
        let kernel = &self.costs.kernel;
        let words = words(message.bytes());
        [
            ("send call", kernel.system_call),
            (
                "send: buffers and copy",
                kernel.send_buffers + words * self.costs.copy_word(),
            ),
            ("send: checksum", words * kernel.checksum_word),
            ("send: driver and ATM", kernel.send_driver),
            (
                "send: program DMA",
                match self.mover {
                    Mover::Processor => 0,
                    Mover::Dma => kernel.program_dma,
                },
            ),
        ]
    }

    /// Processor cycles of moving a packet to the device.
    fn launch_cycles(&self, bytes: usize) -> u64 {
        match self.mover {
            Mover::Processor => self.costs.fifo(bytes),
            Mover::Dma => 0,
        }
    }

    /// The stages of the handler that takes a packet from the device.
    fn receive_stages(&self, bytes: usize) -> [(&'static str, u64); 4] {
        let kernel = &self.costs.kernel;
        let (name, moving) = match self.mover {
            Mover::Processor => ("receive: FIFO to memory", self.costs.fifo(bytes)),
            Mover::Dma => ("receive: program DMA", kernel.program_dma),
        };
        [
            ("receive: interrupt", kernel.interrupt),
            (name, moving),
            ("receive: driver and ATM", kernel.receive_driver),
            ("receive: queue", kernel.receive_queue),
        ]
    }

    /// The stages of the receive call after it has found a packet.
    fn return_stages(&self, bytes: usize) -> [(&'static str, u64); 3] {
        let kernel = &self.costs.kernel;
        let words = words(bytes);
        [
            ("receive: dequeue", kernel.receive_dequeue),
            ("receive: checksum", words * kernel.checksum_word),
            ("receive: copy", words * self.costs.copy_word()),
        ]
    }

    /// When, after launching has begun, the first cell can leave, and when the last byte is at the card.
    fn launch_times(&self, world: &World<KernelEvent>, bytes: usize) -> (Time, Time) {
        let first = self.costs.hardware.cell_payload.min(bytes as u64);
        match self.mover {
            Mover::Processor => {
                let time = |bytes| world.cycles(self.costs.fifo(bytes));
                (time(first as usize), time(bytes))
            }
            Mover::Dma => (self.costs.dma(first), self.costs.dma(bytes as u64)),
        }
    }

    /// Puts a packet on the free device; the processor begins its part now.
    fn launch(&mut self, world: &mut World<KernelEvent>, host: u32, packet: PacketId) {
        self.devices[host as usize].is_busy = true;
        let (_, _, bytes) = world.ends(packet);
        let (first, all) = self.launch_times(world, bytes);
        let pushed = world.now() + all;
        world.stage(
            packet,
            match self.mover {
                Mover::Processor => "send: memory to FIFO",
                Mover::Dma => "send: DMA",
            },
            all,
        );
        world.at(world.now() + first, KernelEvent::Departs { packet, pushed });
    }

    fn depart(&mut self, world: &mut World<KernelEvent>, id: PacketId, pushed: Time) {
        let (from, to, bytes) = world.ends(id);
        let (source, target) = (world.host_of(from), world.host_of(to));
        let on_wire = self.costs.cells().on_wire(bytes as u64);
        let now = world.now();
        let sent = world
            .network
            .send(now, source as usize, target as usize, on_wire);
        // The last cell cannot leave before its last byte is at the card.
        let last = pushed + self.costs.cell_time();
        let left = sent.left.max(last);
        let arrives = sent
            .arrives
            .unwrap_or(left)
            .max(last + self.costs.hardware.propagation);
        world.stage(id, "wire", arrives.saturating_sub(pushed));
        world.at(left, KernelEvent::DeviceFree { host: source });
        world.at(arrives, KernelEvent::Arrives { packet: id });
    }

    /// Handles the device's becoming free: the next packet is put on it, on NI1 by an interrupt.
    fn device_free(&mut self, world: &mut World<KernelEvent>, host: u32) {
        let device = &mut self.devices[host as usize];
        match device.waiting.pop_front() {
            None => device.is_busy = false,
            Some(packet) => match self.mover {
                Mover::Processor => {
                    let cycles = self.costs.kernel.interrupt;
                    world.interrupt(host, cycles, KernelEvent::Requeued { packet });
                }
                // The transfer has been programmed already.
                Mover::Dma => self.launch(world, host, packet),
            },
        }
    }

    fn send(
        &mut self,
        world: &mut World<KernelEvent>,
        process: Rank,
        to: Rank,
        message: Message,
        before: u64,
    ) -> CallEffect {
        let bytes = message.bytes();
        let stages = self.send_stages(&message);
        world.admit((process, to), message, before, &stages, |world, id| {
            let host = world.host_of(process);
            let device = &mut self.devices[host as usize];
            if device.is_busy {
                device.waiting.push_back(id);
                return CallEffect::Then(0, CallResult::Done);
            }
            self.launch(world, host, id);
            CallEffect::Then(self.launch_cycles(bytes), CallResult::Done)
        })
    }

    fn receive(
        &mut self,
        world: &mut World<KernelEvent>,
        process: Rank,
        before: u64,
    ) -> CallEffect {
        let Some(mut packet) = world.consume(process) else {
            return CallEffect::Then(0, CallResult::Received(None));
        };
        let stages = self.return_stages(packet.message.bytes());
        let after = stages.iter().map(|(_, cycles)| cycles).sum();
        if world.settings.keeps_journeys {
            let calling = world.cycles(before);
            packet.stage(world.now().saturating_sub(calling), "receive call", calling);
            for (name, cycles) in stages {
                packet.stage(world.now(), name, world.cycles(cycles));
            }
        }
        world.hand_over(packet, after)
    }
}

impl Substrate for KernelPath {
    type Event = KernelEvent;

    fn before(&self, world: &World<KernelEvent>, process: Rank, call: &Call) -> u64 {
        let kernel = &self.costs.kernel;
        match call {
            Call::Send { to, message } if world.has_room(process, *to) => self
                .send_stages(message)
                .iter()
                .map(|(_, cycles)| cycles)
                .sum(),
            // The remaining room is in a page that the kernel shares with the library.
            Call::Send { .. } => self.costs.library.look,
            Call::Receive => kernel.system_call + kernel.look,
            Call::Attach { .. } | Call::Wait(_) | Call::Pass => 0,
        }
    }

    fn carry_out(
        &mut self,
        world: &mut World<KernelEvent>,
        process: Rank,
        call: Call,
        before: u64,
    ) -> CallEffect {
        match call {
            Call::Send { to, message } => self.send(world, process, to, message, before),
            Call::Receive => self.receive(world, process, before),
            Call::Wait(_) | Call::Attach { .. } | Call::Pass => world.simple_call(process, &call),
        }
    }

    fn event(&mut self, world: &mut World<KernelEvent>, event: KernelEvent) {
        match event {
            KernelEvent::Departs { packet, pushed } => self.depart(world, packet, pushed),
            KernelEvent::DeviceFree { host } => self.device_free(world, host),
            KernelEvent::Requeued { packet } => {
                let (from, _, bytes) = world.ends(packet);
                let host = world.host_of(from);
                self.launch(world, host, packet);
                world.steal(host, self.launch_cycles(bytes));
            }
            KernelEvent::Arrives { packet } => {
                let (_, to, bytes) = world.ends(packet);
                let stages = self.receive_stages(bytes);
                for (name, cycles) in stages {
                    let time = world.cycles(cycles);
                    world.stage(packet, name, time);
                }
                let cycles = stages.iter().map(|(_, cycles)| cycles).sum();
                let host = world.host_of(to);
                world.interrupt(host, cycles, KernelEvent::Queued { packet });
            }
            KernelEvent::Queued { packet } => world.deliver(packet),
        }
    }
}
