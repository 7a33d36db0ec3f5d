//! No substrate at all: every message arrives after the same time, and calls cost nothing.
//!
//! What a program takes here is its own work and the layer's; tests of programs and of the machine use it.

use super::machine::{Substrate, Taken};
use super::process::{Answer, Call};
use super::world::{Packet, PacketId, World};
use crate::am::port::Rank;
use crate::engine::Time;

/// The latency of everything.
pub(super) struct Direct {
    pub(super) latency: Time,
}

impl Substrate for Direct {
    type Event = PacketId;

    fn before(&self, _world: &World<PacketId>, _process: Rank, _call: &Call) -> u64 {
        0
    }

    fn take(
        &mut self,
        world: &mut World<PacketId>,
        process: Rank,
        call: Call,
        _before: u64,
    ) -> Taken {
        match call {
            Call::Send { to, message } if !world.has_room(process, to) => {
                world.refuse(process);
                Taken::Then(0, Answer::NoRoom(message))
            }
            Call::Send { to, message } => {
                world.take_room(process, to);
                let called = world.now();
                let id = world.keep(Packet {
                    from: process,
                    to,
                    message,
                    called,
                    stages: Vec::new(),
                    begins: Vec::new(),
                    slot: None,
                });
                world.at(called + self.latency, id);
                Taken::Then(0, Answer::Done)
            }
            Call::Receive => {
                let received = world.consume(process).map(|mut packet| {
                    let now = world.now();
                    world.arrived(&mut packet, now);
                    (packet.from, packet.message)
                });
                Taken::Then(0, Answer::Received(received))
            }
            Call::Wait(_) if !world.need_not_wait(process) => Taken::Wait,
            Call::Wait(_) | Call::Attach { .. } | Call::Pass => Taken::Then(0, Answer::Done),
        }
    }

    fn event(&mut self, world: &mut World<PacketId>, packet: PacketId) {
        if let Some(packet) = world.take_packet(packet) {
            world.deliver(packet);
        }
    }
}
