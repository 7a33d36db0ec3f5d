//! Frames whose data goes to host memory while they still come in (`Settings::receive_cut_through`).

use causeway_firmware::{Reliability, Settings, ViId};
use causeway_wire::vi::status;

use crate::designs::{LEVELS, design, pattern};
use crate::world::host::Span;
use crate::world::{Faults, World, level};

const NAMES: [&str; 3] = [
    "SVIA receiving through",
    "PVIA receiving through",
    "QoSVIA receiving through",
];

/// Two cards, and a message of this number of bytes, of which the first frame has begun to arrive and waits in
/// the host DMA engine for its data; the descriptors of the send and the receive, and where the message goes.
fn coming_in(settings: &Settings, bytes: u32) -> (World, [ViId; 2], [u64; 2], Span) {
    let mut world = World::pair(settings);
    let (a, b) = world.connect(0, 1, level(Reliability::Unreliable));
    let into = world.nodes[1].host.span(bytes);
    let received = world.nodes[1].receive(world.now, b, &[into]);
    world.settle();
    let from = world.nodes[0].host.with(&pattern(bytes, 1));
    let sent = world.nodes[0].send(world.now, a, &[from]);
    step_until(&mut world, |world| world.nodes[1].may_begin_frame());
    let now = world.now;
    world.nodes[1].begin_frame(now);
    for _ in 0..100 {
        if world.nodes[1].waits_for_frame() {
            return (world, [a, b], [sent, received], into);
        }
        // Everything but the rest of the frame.
        world.turn_of(1);
        world.finish_host(1);
    }
    panic!("the frame's data is never handed over");
}

fn step_until(world: &mut World, done: impl Fn(&World) -> bool) {
    while !done(world) {
        assert!(world.step(), "nothing happens any more");
    }
}

#[test]
fn data_is_handed_over_before_the_frame_is_here_and_lands_after_it() {
    for name in NAMES {
        let (mut world, _, [sent, received], into) = coming_in(&design(name), 200);
        assert_eq!(world.nodes[1].status(received).bits, 0, "{name}");
        world.rest();
        assert_eq!(world.nodes[0].status(sent).bits, 1, "{name}");
        assert_eq!(world.nodes[1].status(received).length, 200, "{name}");
        assert_eq!(world.nodes[1].host.contents(into), pattern(200, 1));
    }
}

/// An acknowledged frame has to be whole, and so has one with its data in the descriptor.
#[test]
fn a_frame_that_must_be_whole_is_processed_when_it_is() {
    for name in NAMES {
        for reliability in LEVELS {
            let mut world = World::pair(&design(name));
            let (a, b) = world.connect(0, 1, level(reliability));
            let into = world.nodes[1].host.span(4000);
            world.nodes[1].receive(world.now, b, &[into]);
            world.settle();
            match reliability {
                Reliability::Unreliable => world.nodes[0].send_inside(world.now, a, &[1; 8]),
                _ => {
                    let from = world.nodes[0].host.with(&pattern(4000, 1));
                    world.nodes[0].send(world.now, a, &[from])
                }
            };
            while world.step() {
                assert!(!world.nodes[1].waits_for_frame(), "{name}");
            }
        }
    }
}

/// A message of one frame that breaks fails its receive; the next one goes into the next.
#[test]
fn a_broken_frame_fails_the_receive_that_it_fills() {
    for name in NAMES {
        let (mut world, [a, b], [_, received], _) = coming_in(&design(name), 200);
        let into = world.nodes[1].host.span(200);
        let next = world.nodes[1].receive(world.now, b, &[into]);
        let now = world.now;
        world.nodes[1].break_frame(now);
        world.rest();
        let failed = world.nodes[1].status(received);
        assert_eq!(
            failed.bits & status::ERRORS,
            status::TRANSPORT_ERROR,
            "{name}"
        );
        assert_eq!(failed.length, 0, "{name}");
        let from = world.nodes[0].host.with(&pattern(200, 2));
        world.nodes[0].send(world.now, a, &[from]);
        world.rest();
        assert_eq!(world.nodes[1].status(next).length, 200, "{name}");
        assert_eq!(world.nodes[1].host.contents(into), pattern(200, 2));
    }
}

/// If frames of the message are still to come, these are dropped, and the receive stays for the next message.
#[test]
fn after_a_broken_frame_the_rest_of_its_message_is_dropped() {
    for name in NAMES {
        let mut settings = design(name);
        settings.frame_bytes = 256;
        let (mut world, [a, _], [_, received], into) = coming_in(&settings, 700);
        let now = world.now;
        world.nodes[1].break_frame(now);
        world.rest();
        assert_eq!(world.nodes[1].status(received).bits, 0, "{name}");
        let from = world.nodes[0].host.with(&pattern(700, 2));
        world.nodes[0].send(world.now, a, &[from]);
        world.rest();
        assert_eq!(world.nodes[1].status(received).length, 700, "{name}");
        assert_eq!(world.nodes[1].host.contents(into), pattern(700, 2));
    }
}

/// The connection ends, or frames break by chance: no buffer is lost, and none is given away while a frame comes into it.
#[test]
fn no_buffer_is_lost_when_a_frame_breaks_or_its_connection_ends() {
    for name in NAMES {
        let mut settings = design(name);
        settings.limits.receive_buffers = settings.net_receive + 1;
        settings.limits.buffers = settings.limits.receive_buffers + 2;
        let (mut world, [a, b], _, _) = coming_in(&settings, 200);
        assert_eq!(world.nodes[1].firmware.disconnect(b), Ok(()), "{name}");
        assert_eq!(world.nodes[0].firmware.disconnect(a), Ok(()), "{name}");
        world.nodes[0].wake();
        world.nodes[1].wake();
        world.rest();
        world.faults = Faults {
            broken: 30,
            ..Faults::default()
        };
        world.shuffled = true;
        for round in 0..40 {
            let (a, b) = world.connect(0, 1, level(Reliability::Unreliable));
            if round == 30 {
                world.faults = Faults::default();
            }
            let into = world.nodes[1].host.span(20_000);
            let received = world.nodes[1].receive(world.now, b, &[into]);
            world.settle();
            let from = world.nodes[0].host.with(&pattern(20_000, round));
            world.nodes[0].send(world.now, a, &[from]);
            world.rest();
            if round >= 30 {
                assert_eq!(world.nodes[1].status(received).length, 20_000, "{name}");
                assert_eq!(world.nodes[1].host.contents(into), pattern(20_000, round));
            }
            for (at, vi) in [(0, a), (1, b)] {
                assert_eq!(world.nodes[at].firmware.disconnect(vi), Ok(()), "{name}");
                world.nodes[at].wake();
            }
            world.rest();
            for (at, vi) in [(0, a), (1, b)] {
                assert_eq!(world.nodes[at].firmware.destroy_vi(vi), Ok(()), "{name}");
            }
        }
    }
}
