//! RDMA write and read: lists of fragments at both ends, one completion, protection.

use causeway_firmware::{Breakage, Reliability, Report, Settings, ViAttributes, ViId};
use causeway_wire::random::SplitMix64;
use causeway_wire::vi::{Segment, control, status};

use crate::designs::{LEVELS, designs, pattern};
use crate::world::host::Span;
use crate::world::{World, level};

const WRITE: u16 = 1;
const READ: u16 = 2;

fn joined(settings: &Settings, attributes: ViAttributes) -> (World, ViId, ViId) {
    let mut world = World::pair(settings);
    let (a, b) = world.connect(0, 1, attributes);
    world.settle();
    (world, a, b)
}

/// Spans of these sizes on a node.
fn spans(world: &mut World, at: usize, sizes: &[u32]) -> Vec<Span> {
    let host = &mut world.nodes[at].host;
    sizes
        .iter()
        .map(|&size| {
            let span = host.span(size);
            // Fragments do not adjoin.
            host.span(24);
            span
        })
        .collect()
}

fn segments(world: &World, at: usize, spans: &[Span]) -> Vec<Segment> {
    let host = &world.nodes[at].host;
    spans.iter().map(|&span| host.segment(span)).collect()
}

fn fill(world: &mut World, at: usize, spans: &[Span], bytes: &[u8]) {
    let mut rest = bytes;
    for span in spans {
        let (here, later) = rest.split_at(span.bytes as usize);
        world.nodes[at].host.write(span.address, here);
        rest = later;
    }
}

fn contents(world: &World, at: usize, spans: &[Span]) -> Vec<u8> {
    let host = &world.nodes[at].host;
    spans.iter().flat_map(|&span| host.contents(span)).collect()
}

#[test]
fn lists_are_written_with_one_completion() {
    for (name, settings) in designs() {
        for reliability in LEVELS {
            let (mut world, a, _) = joined(&settings, level(reliability));
            let from = spans(&mut world, 0, &[5000, 1, 0, 9000]);
            let to = spans(&mut world, 1, &[7000, 0, 6000, 1001]);
            let bytes = pattern(14_001, 4);
            fill(&mut world, 0, &from, &bytes);
            let remote = segments(&world, 1, &to);
            let posted = world.nodes[0].rdma(world.now, a, WRITE, &remote, &from);
            world.rest();
            let done = world.nodes[0].status(posted);
            assert_eq!(
                (done.bits, done.length),
                (1, 14_001),
                "{name} {reliability:?}"
            );
            assert_eq!(contents(&world, 1, &to), bytes, "{name} {reliability:?}");
        }
    }
}

#[test]
fn lists_are_read_with_one_completion() {
    for (name, settings) in designs() {
        for reliability in [Reliability::Delivery, Reliability::Reception] {
            let (mut world, a, _) = joined(&settings, level(reliability));
            let to = spans(&mut world, 0, &[5000, 1, 0, 9000, 5999]);
            let from = spans(&mut world, 1, &[7000, 0, 500, 500, 5000, 500, 6500]);
            let bytes = pattern(20_000, 4);
            fill(&mut world, 1, &from, &bytes);
            let remote = segments(&world, 1, &from);
            let posted = world.nodes[0].rdma(world.now, a, READ, &remote, &to);
            world.rest();
            let done = world.nodes[0].status(posted);
            assert_eq!(
                (done.bits, done.length),
                (1, 20_000),
                "{name} {reliability:?}"
            );
            assert_eq!(contents(&world, 0, &to), bytes, "{name} {reliability:?}");
        }
    }
}

#[test]
fn immediate_data_announces_a_write_after_its_last_byte() {
    for (name, settings) in designs() {
        for reliability in LEVELS {
            for seed in 0..8 {
                tell_of_a_write(name, &settings, reliability, seed);
            }
        }
    }
}

fn tell_of_a_write(name: &str, settings: &Settings, reliability: Reliability, seed: u64) {
    let (mut world, a, b) = joined(settings, level(reliability));
    world.nodes[1].concurrent = true;
    world.shuffled = true;
    world.random = SplitMix64::new(seed);
    let received = world.nodes[1].receive(world.now, b, &[]);
    world.settle();
    let from = spans(&mut world, 0, &[30_000]);
    let to = spans(&mut world, 1, &[30_000]);
    let bytes = pattern(30_000, 4);
    fill(&mut world, 0, &from, &bytes);
    let remote = segments(&world, 1, &to);
    let bits = WRITE | control::IMMEDIATE;
    world.nodes[0].rdma(world.now, a, bits, &remote, &from);
    world.run(|world| world.nodes[1].status(received).bits != 0);
    let told = world.nodes[1].status(received);
    assert_eq!(
        told.bits,
        status::DONE | status::REMOTE_RDMA_WRITE | status::IMMEDIATE,
        "{name} {reliability:?}"
    );
    assert_eq!((told.immediate, told.length), (0xfeed, 30_000), "{name}");
    assert_eq!(contents(&world, 1, &to), bytes, "{name} {reliability:?}");
}

/// An operation that the peer has to refuse: its status, and the reports of both cards.
fn refused(
    settings: &Settings,
    bits: u16,
    attributes: ViAttributes,
    spoil: impl Fn(&mut Segment),
) -> (u32, Vec<Report>, Vec<Report>) {
    let (mut world, a, _) = joined(settings, attributes);
    let from = spans(&mut world, 0, &[100]);
    let to = spans(&mut world, 1, &[100]);
    let mut remote = segments(&world, 1, &to);
    spoil(&mut remote[0]);
    let posted = world.nodes[0].rdma(world.now, a, bits, &remote, &from);
    world.rest();
    assert_eq!(contents(&world, 1, &to), vec![0; 100], "nothing is touched");
    let reports = |at: usize| world.nodes[at].card.reports.clone();
    (world.nodes[0].status(posted).bits, reports(0), reports(1))
}

#[test]
fn forbidden_accesses_are_refused_and_reported_at_both_ends() {
    for (name, settings) in designs() {
        let all = level(Reliability::Delivery);
        let no_write = ViAttributes {
            rdma_write: false,
            ..all
        };
        let no_read = ViAttributes {
            rdma_read: false,
            ..all
        };
        let beyond = |segment: &mut Segment| segment.address += 1 << 22;
        let handle = |segment: &mut Segment| segment.handle ^= 1 << 20;
        let fine = |_: &mut Segment| ();
        let outcomes = [
            refused(&settings, WRITE, all, beyond),
            refused(&settings, WRITE, all, handle),
            refused(&settings, WRITE, no_write, fine),
            refused(&settings, READ, all, beyond),
            refused(&settings, READ, all, handle),
            refused(&settings, READ, no_read, fine),
        ];
        for (bits, here, there) in outcomes {
            assert_eq!(bits, status::DONE | status::RDMA_PROTECTION_ERROR, "{name}");
            for reports in [here, there] {
                assert!(
                    matches!(reports[..], [Report::Broken(_, Breakage::Remote)]),
                    "{name}: {reports:?}"
                );
            }
        }
    }
}

#[test]
fn a_forbidden_write_without_reliability_is_dropped() {
    for (name, settings) in designs() {
        let attributes = ViAttributes {
            rdma_write: false,
            ..level(Reliability::Unreliable)
        };
        let (bits, here, there) = refused(&settings, WRITE, attributes, |_| ());
        assert_eq!(bits, status::DONE, "{name}");
        assert_eq!((here, there), (vec![], vec![]), "{name}");
    }
}

#[test]
fn a_fence_waits_for_reads() {
    for (name, settings) in designs() {
        let (mut world, a, b) = joined(&settings, level(Reliability::Delivery));
        let into = world.nodes[1].host.span(100);
        world.nodes[1].receive(world.now, b, &[into]);
        world.settle();
        // The read and the following send use the same memory.
        let local = spans(&mut world, 0, &[9000]);
        let from = spans(&mut world, 1, &[9000]);
        let bytes = pattern(9000, 8);
        fill(&mut world, 1, &from, &bytes);
        let remote = segments(&world, 1, &from);
        world.nodes[0].rdma(world.now, a, READ, &remote, &local);
        let tail = Span {
            address: local[0].address + 8900,
            bytes: 100,
        };
        let segment = world.nodes[0].host.segment(tail);
        let control = causeway_wire::vi::Control {
            bits: control::FENCE,
            length: 100,
            ..Default::default()
        };
        let node = &mut world.nodes[0];
        let fenced = node.host.descriptor(control, &[segment], &[]);
        node.post(world.now, a, causeway_firmware::Side::Send, fenced);
        world.rest();
        assert_eq!(world.nodes[0].status(fenced).bits, status::DONE, "{name}");
        assert_eq!(world.nodes[1].host.contents(into), &bytes[8900..], "{name}");
    }
}

#[test]
fn both_ends_read_and_send_at_once() {
    for (name, settings) in designs() {
        let (mut world, a, b) = joined(&settings, level(Reliability::Reception));
        world.shuffled = true;
        let mut posted = Vec::new();
        for (at, vi) in [(0, a), (1, b)] {
            for round in 0..6 {
                let to = spans(&mut world, at, &[6000]);
                let from = spans(&mut world, 1 - at, &[3000, 3000]);
                let bytes = pattern(6000, round);
                fill(&mut world, 1 - at, &from, &bytes);
                let remote = segments(&world, 1 - at, &from);
                let into = world.nodes[1 - at].host.span(500);
                let peer = [b, a][at];
                world.nodes[1 - at].receive(world.now, peer, &[into]);
                let read = world.nodes[at].rdma(world.now, vi, READ, &remote, &to);
                let out = world.nodes[at].host.span(500);
                let sent = world.nodes[at].send(world.now, vi, &[out]);
                posted.push((at, read, sent, to, bytes));
            }
        }
        world.rest();
        for (at, read, sent, to, bytes) in posted {
            assert_eq!(world.nodes[at].status(read).bits, status::DONE, "{name}");
            assert_eq!(world.nodes[at].status(sent).bits, status::DONE, "{name}");
            assert_eq!(contents(&world, at, &to), bytes, "{name}");
        }
    }
}
