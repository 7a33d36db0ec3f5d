//! Frames that leave while their data still comes from host memory (`Settings::cut_through`).

use causeway_firmware::{Engine, Reliability, Settings, ViId};

use crate::designs::{LEVELS, design, pattern};
use crate::world::node::Done;
use crate::world::{World, level};

const NAMES: [&str; 3] = [
    "SVIA cutting through",
    "PVIA cutting through",
    "QoSVIA cutting through",
];

/// Two cards, and a message of one frame whose data is being read; its descriptors.
fn being_read(settings: &Settings, reliability: Reliability) -> (World, [ViId; 2], [u64; 2]) {
    let mut world = World::pair(settings);
    let (a, b) = world.connect(0, 1, level(reliability));
    let into = world.nodes[1].host.span(4000);
    let received = world.nodes[1].receive(world.now, b, &[into]);
    world.settle();
    world.nodes[0].card.logs = true;
    let from = world.nodes[0].host.with(&pattern(4000, 1));
    let sent = world.nodes[0].send(world.now, a, &[from]);
    while !world.nodes[0].send_waits() {
        assert!(world.step(), "the frame is never handed over");
    }
    (world, [a, b], [sent, received])
}

fn place(log: &[Done], of: &Done, after: usize) -> usize {
    let found = log.iter().skip(after).position(|done| done == of);
    after + found.unwrap_or_else(|| panic!("{of:?} is not in {log:?}"))
}

#[test]
fn a_frame_is_passed_on_when_its_data_begins_to_arrive() {
    for name in NAMES {
        let (mut world, _, [sent, received]) = being_read(&design(name), Reliability::Unreliable);
        world.rest();
        let log = std::mem::take(&mut world.nodes[0].card.log);
        let begun = place(&log, &Done::Started("read data"), 0);
        let handed = place(&log, &Done::Started("transmit"), begun);
        let filled = place(&log, &Done::Finished(Engine::Host), begun);
        let left = place(&log, &Done::Finished(Engine::NetSend), begun);
        assert!(begun < handed && handed < filled && filled < left, "{name}");
        assert_eq!(world.nodes[0].status(sent).bits, 1, "{name}");
        assert_eq!(world.nodes[1].status(received).length, 4000, "{name}");
    }
}

#[test]
fn without_the_option_a_frame_waits_for_its_data() {
    for name in ["SVIA", "PVIA", "QoSVIA"] {
        let mut world = World::pair(&design(name));
        let (a, _) = world.connect(0, 1, level(Reliability::Unreliable));
        world.settle();
        let from = world.nodes[0].host.span(20_000);
        world.nodes[0].send(world.now, a, &[from]);
        while world.step() {
            assert!(!world.nodes[0].send_waits(), "{name}");
        }
    }
}

/// Of several frames that one engine has in its queue only the one in service is followed.
#[test]
fn only_the_frame_in_service_is_followed() {
    let settings = design("QoSVIA cutting through");
    let mut world = World::pair(&settings);
    let (a, _) = world.connect(0, 1, level(Reliability::Unreliable));
    world.settle();
    let from = world.nodes[0].host.span(16_000);
    world.nodes[0].send(world.now, a, &[from]);
    let mut followed = 0;
    let mut most = 0;
    while world.step() {
        let node = &world.nodes[0];
        most = most.max(node.running[0].len());
        if let Some(token) = node.followed() {
            assert_eq!(node.running[0].front().map(|of| of.token), Some(token));
            followed += 1;
        }
    }
    assert!(most > 1 && followed > 0, "{most} {followed}");
}

/// The connection ends while a frame follows its data: both transfers end, and only then the frame and its buffer
/// are free again.
#[test]
fn a_connection_that_ends_between_loses_no_buffer() {
    for name in NAMES {
        for reliability in LEVELS {
            for round in 0..3 {
                let mut settings = design(name);
                settings.limits.frames = 2;
                settings.limits.buffers = settings.limits.receive_buffers + 1;
                let (mut world, [a, b], [sent, _]) = being_read(&settings, reliability);
                let ends = if round == 1 { (1, b) } else { (0, a) };
                let disconnected = world.nodes[ends.0].firmware.disconnect(ends.1);
                assert_eq!(disconnected, Ok(()), "{name}");
                world.nodes[ends.0].wake();
                if round == 2 {
                    // Even if the engine does not wait as it must, no buffer of others is filled.
                    world.nodes[0].finish(world.now, Engine::NetSend);
                }
                world.rest();
                assert_ne!(world.nodes[0].status(sent).bits, 0, "{name}");
                let (a, b) = world.connect(0, 1, level(reliability));
                let into = world.nodes[1].host.span(20_000);
                let received = world.nodes[1].receive(world.now, b, &[into]);
                world.settle();
                let from = world.nodes[0].host.with(&pattern(20_000, 2));
                let sent = world.nodes[0].send(world.now, a, &[from]);
                world.rest();
                assert_eq!(world.nodes[0].status(sent).bits, 1, "{name}");
                assert_eq!(world.nodes[1].status(received).length, 20_000, "{name}");
                assert_eq!(world.nodes[1].host.contents(into), pattern(20_000, 2));
            }
        }
    }
}
