//! A substrate without costs: every message arrives after the same time, and calls take none.
//!
//! The time of a program is then its own work and the layer's; tests of programs and of the machine use it.

use super::machine::Substrate;
use super::process::{Call, CallEffect, CallResult};
use super::world::{PacketId, World};
use crate::am::port::Rank;
use crate::engine::Time;

/// The latency of every message.
pub(super) struct Direct {
    pub(super) latency: Time,
}

impl Substrate for Direct {
    type Event = PacketId;

    fn before(&self, _world: &World<PacketId>, _process: Rank, _call: &Call) -> u64 {
        0
    }

    fn carry_out(
        &mut self,
        world: &mut World<PacketId>,
        process: Rank,
        call: Call,
        _before: u64,
    ) -> CallEffect {
        match call {
            Call::Send { to, message } => {
                world.admit((process, to), message, 0, &[], |world, id| {
                    world.at(world.now() + self.latency, id);
                    CallEffect::Then(0, CallResult::Done)
                })
            }
            Call::Receive => match world.consume(process) {
                Some(packet) => world.hand_over(packet, 0),
                None => CallEffect::Then(0, CallResult::Received(None)),
            },
            Call::Wait(_) | Call::Attach { .. } | Call::Pass => world.simple_call(process, &call),
        }
    }

    fn event(&mut self, world: &mut World<PacketId>, packet: PacketId) {
        world.deliver(packet);
    }
}
