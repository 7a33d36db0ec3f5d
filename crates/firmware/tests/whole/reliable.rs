//! Promises of the reliable levels, and retransmission of lost frames.

use causeway_firmware::{Breakage, Reliability, Report, Retransmission, Settings, Step};
use causeway_wire::vi::{FrameHeader, FrameKind, flag, status};

use crate::designs::{design, designs, pattern};
use crate::world::node::Done;
use crate::world::{Faults, World, level};

/// Sends a message of ten frames, of which the wire loses the third once; how many frames were sent
/// again.
fn sent_again(retransmission: Retransmission) -> u32 {
    let mut settings = design("PVIA");
    settings.reliable.retransmission = retransmission;
    let mut world = World::pair(&settings);
    let (a, b) = world.connect(0, 1, level(Reliability::Delivery));
    let into = world.nodes[1].host.span(40_000);
    let received = world.nodes[1].receive(world.now, b, &[into]);
    world.settle();
    world.nodes[0].card.logs = true;
    let bytes = pattern(40_000, 1);
    let from = world.nodes[0].host.with(&bytes);
    let sent = world.nodes[0].send(world.now, a, &[from]);
    let mut lost = false;
    loop {
        world.wire.retain(|frame| {
            let header = FrameHeader::decode(&frame.header).expect("a frame");
            let third = header.offset == 2 * 4096 && frame.to == 1;
            !third || std::mem::replace(&mut lost, true)
        });
        if !world.step() {
            break;
        }
    }
    world.rest();
    assert!(lost);
    assert_eq!(world.nodes[0].status(sent).bits, status::DONE);
    assert_eq!(world.nodes[1].status(received).length, 40_000);
    assert_eq!(world.nodes[1].host.contents(into), bytes);
    let log = &world.nodes[0].card.log;
    let again = log.iter().filter_map(|done| match done {
        Done::Charged(Step::Retransmit, times) => Some(times),
        _ => None,
    });
    again.sum()
}

#[test]
fn selective_retransmission_sends_only_lost_frames() {
    assert_eq!(sent_again(Retransmission::Selective), 1);
    assert!(sent_again(Retransmission::GoBack) > 1);
}

#[test]
fn a_silent_peer_breaks_the_connection_after_the_retries() {
    for (name, settings) in designs() {
        let mut world = World::pair(&settings);
        let (a, b) = world.connect(0, 1, level(Reliability::Delivery));
        let into = world.nodes[1].host.span(10);
        world.nodes[1].receive(world.now, b, &[into]);
        world.settle();
        world.faults = Faults {
            lost: 100,
            ..Faults::default()
        };
        let from = world.nodes[0].host.span(10);
        let first = world.nodes[0].send(world.now, a, &[from]);
        let second = world.nodes[0].send(world.now, a, &[from]);
        let began = world.now;
        world.rest();
        let bits = |descriptor| world.nodes[0].status(descriptor).bits;
        assert_eq!(
            bits(first),
            status::DONE | status::TRANSPORT_ERROR,
            "{name}"
        );
        assert_eq!(bits(second), status::DONE | status::FLUSHED, "{name}");
        assert_eq!(
            world.nodes[0].reports,
            [Report::Broken(a, Breakage::Silence)],
            "{name}"
        );
        let least = settings.reliable.timeout * u64::from(settings.reliable.retries);
        assert!(
            world.now - began > least,
            "{name}: it was asked again and again"
        );
    }
}

/// Processes one event, but none of the second node's host DMA engine; false if there is none.
fn step_without_host_dma(world: &mut World) -> bool {
    let held = std::mem::take(&mut world.nodes[1].card.running[0]);
    let stepped = world.step();
    let running = &mut world.nodes[1].card.running[0];
    let started = std::mem::replace(running, held);
    running.extend(started);
    stepped
}

/// Whether a send of 4 KB completes before its data is in the peer's memory. If `replies`, the peer sends
/// something meanwhile, which takes acknowledgements along.
fn completes_early(settings: &Settings, reliability: Reliability, replies: bool) -> bool {
    let mut world = World::pair(settings);
    let (a, b) = world.connect(0, 1, level(reliability));
    let into = world.nodes[1].host.span(4000);
    world.nodes[1].receive(world.now, b, &[into]);
    let reply = world.nodes[0].receive(world.now, a, &[]);
    world.settle();
    let from = world.nodes[0].host.with(&pattern(4000, 1));
    let sent = world.nodes[0].send(world.now, a, &[from]);
    while step_without_host_dma(&mut world) {}
    if replies {
        world.nodes[1].send_inside(world.now, b, &[1]);
        while step_without_host_dma(&mut world) {}
        assert_ne!(world.nodes[0].status(reply).bits, 0, "the reply has come");
    }
    let early = world.nodes[0].status(sent).bits == status::DONE;
    assert_ne!(world.nodes[1].host.contents(into), pattern(4000, 1));
    world.rest();
    assert_eq!(world.nodes[0].status(sent).bits, status::DONE);
    assert_eq!(world.nodes[1].host.contents(into), pattern(4000, 1));
    early
}

#[test]
fn levels_differ_in_when_a_send_completes() {
    for name in ["PVIA", "QoSVIA", "two processors"] {
        let early = |reliability| completes_early(&design(name), reliability, false);
        assert!(early(Reliability::Unreliable), "{name}");
        assert!(early(Reliability::Delivery), "{name}");
        assert!(!early(Reliability::Reception), "{name}");
    }
}

#[test]
fn acknowledgements_that_ride_along_wait_for_memory_too() {
    // With shadow queues a message inside its descriptor needs no host DMA to be sent.
    let early = |reliability| completes_early(&design("shadow queues"), reliability, true);
    assert!(early(Reliability::Delivery));
    assert!(!early(Reliability::Reception));
}

#[test]
fn a_message_is_acknowledged_once_and_data_takes_acknowledgements_along() {
    let mut settings = design("PVIA");
    settings.reliable.window = 32;
    let mut world = World::pair(&settings);
    let (a, b) = world.connect(0, 1, level(Reliability::Delivery));
    for (at, vi) in [(0, a), (1, b)] {
        let span = world.nodes[at].host.span(40_000);
        world.nodes[at].receive(world.now, vi, &[span]);
    }
    world.settle();
    for (at, vi) in [(0, a), (1, b)] {
        let span = world.nodes[at].host.span(40_000);
        world.nodes[at].send(world.now, vi, &[span]);
    }
    let (mut alone, mut data) = (0, 0);
    loop {
        for frame in std::mem::take(&mut world.wire) {
            let header = FrameHeader::decode(&frame.header).expect("a frame");
            match header.kind {
                FrameKind::Ack => alone += 1,
                _ => data += 1,
            }
            assert!(header.has(flag::ACK));
            world.nodes[frame.to as usize].inbox.push_back(frame);
        }
        if !world.step() {
            break;
        }
    }
    assert_eq!(data, 20);
    assert!(alone <= 2, "{alone}");
}
