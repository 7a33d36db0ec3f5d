//! Completion queues, errors, flushing, sleeping, as processes and drivers see them.

use causeway_firmware::{
    Breakage, Input, Region, Reliability, Report, SetUpError, Side, ViAttributes, ViId,
};
use causeway_wire::vi::{Control, Segment, status};

use crate::designs::{LEVELS, design, designs, pattern};
use crate::world::{World, host, level};

fn joined(world: &mut World, reliability: Reliability) -> (ViId, ViId) {
    let pair = world.connect(0, 1, level(reliability));
    world.settle();
    pair
}

#[test]
fn a_completion_queue_gathers_both_sides_in_order_and_goes_round() {
    for (name, settings) in designs() {
        let mut world = World::pair(&settings);
        let (queue, place) = world.nodes[1].completion_queue(5);
        let attributes = ViAttributes {
            send_queue: Some(queue),
            receive_queue: Some(queue),
            ..level(Reliability::Unreliable)
        };
        let b = world.nodes[1].create_vi(attributes);
        let a = world.nodes[0].create_vi(level(Reliability::Unreliable));
        world.join((0, a), (1, b));
        world.settle();
        let mut posted = Vec::new();
        for round in 0..7 {
            let into = world.nodes[1].host.span(100);
            posted.push(world.nodes[1].receive(world.now, b, &[into]));
            let from = world.nodes[0].host.span(100);
            world.nodes[0].send(world.now, a, &[from]);
            world.settle();
            let entries = world.nodes[1].host.completions(place, 5);
            // In the second round the mark of the first entries is cleared again.
            let expected = if round < 5 { round + 1 } else { 9 - round };
            assert_eq!(entries.len(), expected, "{name}");
            assert!(entries.iter().all(|entry| entry.receive && entry.vi == b.0));
            if round < 5 {
                let found: Vec<_> = entries.iter().map(|entry| entry.descriptor).collect();
                assert_eq!(found, posted, "{name}");
            }
        }
        let what = "completion queue";
        let destroy = |world: &mut World| world.nodes[1].firmware.destroy_queue(queue);
        assert_eq!(destroy(&mut world), Err(SetUpError::Busy { what }));
        for (at, vi) in [(0, a), (1, b)] {
            let node = &mut world.nodes[at];
            node.firmware.disconnect(vi).expect("the interface exists");
            node.wake();
        }
        world.rest();
        assert_eq!(world.nodes[1].firmware.destroy_vi(b), Ok(()), "{name}");
        assert_eq!(destroy(&mut world), Ok(()), "{name}");
        assert_eq!(destroy(&mut world), Err(SetUpError::Unknown { what }));
    }
}

#[test]
fn a_message_without_a_descriptor_is_dropped() {
    for (name, settings) in designs() {
        let mut world = World::pair(&settings);
        let (a, b) = joined(&mut world, Reliability::Unreliable);
        let from = world.nodes[0].host.with(&pattern(9000, 1));
        let lost = world.nodes[0].send(world.now, a, &[from]);
        world.settle();
        assert_eq!(world.nodes[0].status(lost).bits, status::DONE, "{name}");
        let into = world.nodes[1].host.span(100);
        let received = world.nodes[1].receive(world.now, b, &[into]);
        let from = world.nodes[0].host.with(&pattern(100, 2));
        world.nodes[0].send(world.now, a, &[from]);
        world.settle();
        assert_eq!(world.nodes[1].status(received).length, 100, "{name}");
        assert_eq!(
            world.nodes[1].host.contents(into),
            pattern(100, 2),
            "{name}"
        );
        assert_eq!(world.nodes[1].reports, [], "{name}");
    }
}

#[test]
fn on_a_reliable_connection_a_message_waits_for_its_descriptor() {
    for (name, settings) in designs() {
        for reliability in [Reliability::Delivery, Reliability::Reception] {
            let mut world = World::pair(&settings);
            let (a, b) = joined(&mut world, reliability);
            let from = world.nodes[0].host.with(&pattern(9000, 1));
            let sent = world.nodes[0].send(world.now, a, &[from]);
            world.settle();
            let later = world.now + 40 * settings.reliable.timeout;
            world.run(|world| world.now > later);
            assert_eq!(world.nodes[0].status(sent).bits, 0, "{name}");
            let into = world.nodes[1].host.span(9000);
            let received = world.nodes[1].receive(world.now, b, &[into]);
            world.run(|world| world.nodes[0].status(sent).bits != 0);
            world.settle();
            assert_eq!(world.nodes[0].status(sent).bits, status::DONE, "{name}");
            let arrived = world.nodes[1].status(received);
            assert_eq!(arrived.bits, status::DONE | status::RECEIVE, "{name}");
            assert_eq!(
                world.nodes[1].host.contents(into),
                pattern(9000, 1),
                "{name}"
            );
        }
    }
}

#[test]
fn a_message_that_is_too_long_is_an_error_of_the_receive() {
    for (name, settings) in designs() {
        for reliability in LEVELS {
            let mut world = World::pair(&settings);
            let (a, b) = joined(&mut world, reliability);
            let into = world.nodes[1].host.span(10);
            let received = world.nodes[1].receive(world.now, b, &[into]);
            world.settle();
            let from = world.nodes[0].host.span(6000);
            let sent = world.nodes[0].send(world.now, a, &[from]);
            world.rest();
            let arrived = world.nodes[1].status(received);
            assert_eq!(
                arrived.bits,
                status::DONE | status::RECEIVE | status::LENGTH_ERROR,
                "{name}"
            );
            let expected = match reliability {
                Reliability::Unreliable => status::DONE,
                _ => status::DONE | status::REMOTE_DESCRIPTOR_ERROR,
            };
            assert_eq!(world.nodes[0].status(sent).bits, expected, "{name}");
        }
    }
}

/// Posts one bad descriptor and a good one behind it; the bits that the two complete with.
fn bad_send(control: Control, segments: &[Segment]) -> (u32, u32, Vec<Report>) {
    let mut world = World::pair(&design("PVIA"));
    let (a, _) = joined(&mut world, Reliability::Unreliable);
    let node = &mut world.nodes[0];
    let bad = node.host.descriptor(control, segments, &[]);
    node.post(world.now, a, Side::Send, bad);
    let from = node.host.span(10);
    let good = node.send(world.now, a, &[from]);
    world.rest();
    let node = &world.nodes[0];
    (
        node.status(bad).bits,
        node.status(good).bits,
        node.card.reports.clone(),
    )
}

#[test]
fn bad_descriptors_complete_with_their_error_and_break_the_interface() {
    let handle = {
        let world = World::pair(&design("PVIA"));
        world.nodes[0].host.handle
    };
    let segment = |address, handle, bytes| Segment {
        address,
        handle,
        bytes,
    };
    let inside = segment(host::BASE, handle, 100);
    let of = |bits, length| Control {
        bits,
        length,
        ..Control::default()
    };
    let many = vec![inside; 17];
    let cases: [(Control, &[Segment], u32); 9] = [
        (of(3, 0), &[], status::FORMAT_ERROR),
        (of(0x20, 0), &[], status::FORMAT_ERROR),
        (of(0x10, 10), &[inside], status::FORMAT_ERROR),
        (of(0, 1700), &many, status::FORMAT_ERROR),
        (of(1, 0), &[], status::FORMAT_ERROR),
        (of(0, 99), &[inside], status::LENGTH_ERROR),
        (of(0x10, 65), &[], status::LENGTH_ERROR),
        (
            of(0, 100),
            &[segment(host::BASE, handle + 1, 100)],
            status::PROTECTION_ERROR,
        ),
        (
            of(0, 100),
            &[segment(host::BASE - 1, handle, 100)],
            status::PROTECTION_ERROR,
        ),
    ];
    for (control, segments, error) in cases {
        let (bad, good, reports) = bad_send(control, segments);
        assert_eq!(bad, status::DONE | error, "{control:?}");
        assert_eq!(good, status::DONE | status::FLUSHED, "{control:?}");
        assert!(
            matches!(reports[..], [Report::Broken(_, Breakage::Descriptor)]),
            "{control:?}: {reports:?}"
        );
    }
    // RDMA reads need a reliable connection.
    let (bad, ..) = bad_send(of(2, 100), &[inside, inside]);
    assert_eq!(bad, status::DONE | status::FORMAT_ERROR);
}

#[test]
fn memory_of_another_tag_is_out_of_reach() {
    let mut world = World::pair(&design("PVIA"));
    let (a, _) = joined(&mut world, Reliability::Unreliable);
    let foreign = Region {
        base: 0x10_0000,
        bytes: 4096,
        tag: host::TAG + 1,
        rdma_write: true,
        rdma_read: true,
        pages: &[0],
    };
    let node = &mut world.nodes[0];
    let handle = node.firmware.register(foreign).expect("there is room");
    let segment = Segment {
        address: 0x10_0000,
        handle,
        bytes: 8,
    };
    let control = Control {
        length: 8,
        ..Control::default()
    };
    let bad = node.host.descriptor(control, &[segment], &[]);
    node.post(world.now, a, Side::Send, bad);
    world.rest();
    assert_eq!(
        world.nodes[0].status(bad).bits,
        status::DONE | status::PROTECTION_ERROR
    );
}

#[test]
fn unreachable_descriptors_are_reported_once() {
    for (name, settings) in designs() {
        let mut world = World::pair(&settings);
        let (a, _) = joined(&mut world, Reliability::Unreliable);
        let node = &mut world.nodes[0];
        for address in [0, host::BASE.next_multiple_of(64) + 8, u64::MAX - 63] {
            node.post(world.now, a, Side::Send, address);
        }
        world.rest();
        let unreachable = |report: &&Report| matches!(report, Report::Unreachable { .. });
        let reports = &world.nodes[0].card.reports;
        assert_eq!(reports.iter().filter(unreachable).count(), 3, "{name}");
        let broken = Report::Broken(a, Breakage::DescriptorAddress);
        assert!(reports.contains(&broken), "{name}: {reports:?}");
    }
}

#[test]
fn disconnecting_flushes_everything_and_the_interface_can_be_used_again() {
    for (name, settings) in designs() {
        for reliability in LEVELS {
            let mut world = World::pair(&settings);
            world.shuffled = true;
            let (a, b) = joined(&mut world, reliability);
            let mut posted = Vec::new();
            for _ in 0..12 {
                let node = &mut world.nodes[0];
                let span = node.host.span(3000);
                posted.push(node.receive(world.now, a, &[span]));
                posted.push(node.send(world.now, a, &[span]));
                world.step();
            }
            world.nodes[0]
                .firmware
                .disconnect(a)
                .expect("the interface exists");
            world.nodes[0].wake();
            world.rest();
            for descriptor in posted {
                let bits = world.nodes[0].status(descriptor).bits;
                let allowed = status::FLUSHED | status::PARTIAL | status::RECEIVE;
                let without = bits & !allowed;
                assert_eq!(without, status::DONE, "{name} {reliability:?} {bits:x}");
            }
            // The other end has been notified, or finds out when it sends.
            let node = &mut world.nodes[1];
            let span = node.host.span(10);
            let late = node.send(world.now, b, &[span]);
            world.rest();
            assert_ne!(
                world.nodes[1].status(late).bits & status::ERRORS,
                0,
                "{name}"
            );
            world.nodes[1]
                .firmware
                .disconnect(b)
                .expect("the interface exists");
            world.nodes[1].wake();
            world.rest();
            world.join((0, a), (1, b));
            world.settle();
            let into = world.nodes[1].host.span(50);
            let received = world.nodes[1].receive(world.now, b, &[into]);
            world.settle();
            let from = world.nodes[0].host.with(&pattern(50, 9));
            world.nodes[0].send(world.now, a, &[from]);
            world.rest();
            let arrived = world.nodes[1].status(received).bits;
            assert_eq!(arrived, status::DONE | status::RECEIVE, "{name}");
            for (at, vi) in [(0, a), (1, b)] {
                let node = &mut world.nodes[at];
                node.firmware.disconnect(vi).expect("the interface exists");
                node.wake();
            }
            world.rest();
            for (at, vi) in [(0, a), (1, b)] {
                assert_eq!(world.nodes[at].firmware.destroy_vi(vi), Ok(()), "{name}");
            }
        }
    }
}

#[test]
fn posting_more_than_the_queue_holds_breaks_only_that_interface() {
    let settings = design("PVIA");
    let mut world = World::pair(&settings);
    let (a, _) = joined(&mut world, Reliability::Unreliable);
    let (other, _) = joined(&mut world, Reliability::Unreliable);
    let node = &mut world.nodes[0];
    let span = node.host.span(10);
    let posted: Vec<_> = (0..settings.limits.posted_per_queue)
        .map(|_| node.receive(world.now, a, &[span]))
        .collect();
    node.receive(world.now, a, &[span]);
    let sent = node.send(world.now, other, &[span]);
    world.rest();
    let node = &world.nodes[0];
    assert_eq!(node.card.reports, [Report::Broken(a, Breakage::Overrun)]);
    for descriptor in posted {
        assert_eq!(node.status(descriptor).bits, status::DONE | status::FLUSHED);
    }
    assert_eq!(node.status(sent).bits, status::DONE);
}

#[test]
fn memory_in_use_stays_registered() {
    let mut world = World::pair(&design("PVIA"));
    let (_, b) = joined(&mut world, Reliability::Unreliable);
    let node = &mut world.nodes[1];
    let span = node.host.span(100);
    node.receive(world.now, b, &[span]);
    world.settle();
    let node = &mut world.nodes[1];
    let handle = node.host.handle;
    let busy = Err(SetUpError::Busy { what: "region" });
    assert_eq!(node.firmware.deregister(handle), busy);
    node.firmware.disconnect(b).expect("the interface exists");
    node.wake();
    world.rest();
    assert_eq!(world.nodes[1].firmware.deregister(handle), Ok(()));
}

#[test]
fn sleepers_are_woken_once() {
    for (name, settings) in designs() {
        let mut world = World::pair(&settings);
        let (queue, _) = world.nodes[1].completion_queue(8);
        let attributes = ViAttributes {
            receive_queue: Some(queue),
            ..level(Reliability::Unreliable)
        };
        let b = world.nodes[1].create_vi(attributes);
        let a = world.nodes[0].create_vi(level(Reliability::Unreliable));
        world.join((0, a), (1, b));
        let node = &mut world.nodes[1];
        for _ in 0..2 {
            let into = node.host.span(10);
            node.receive(world.now, b, &[into]);
        }
        node.input(world.now, Input::ArmWorkQueue(b, Side::Receive));
        node.input(world.now, Input::ArmCompletionQueue(queue));
        world.settle();
        assert_eq!(world.nodes[1].reports, [], "{name}");
        for _ in 0..2 {
            let from = world.nodes[0].host.span(10);
            world.nodes[0].send(world.now, a, &[from]);
        }
        world.settle();
        let expected = [
            Report::WorkQueueReady(b, Side::Receive),
            Report::CompletionQueueReady(queue),
        ];
        assert_eq!(world.nodes[1].reports, expected, "{name}");
    }
}

#[test]
fn operations_on_unknown_queues_are_counted_and_ignored() {
    let mut world = World::pair(&design("Base"));
    let (a, _) = joined(&mut world, Reliability::Unreliable);
    let node = &mut world.nodes[0];
    node.post(world.now, ViId(9), Side::Send, host::BASE);
    node.post(world.now, ViId(9_999_999), Side::Receive, host::BASE);
    node.input(world.now, Input::ArmWorkQueue(ViId(70), Side::Send));
    node.input(
        world.now,
        Input::ArmCompletionQueue(causeway_firmware::QueueId(5)),
    );
    assert_eq!(node.firmware.ignored_inputs(), 4);
    assert_eq!(
        node.firmware.connect(
            a,
            causeway_firmware::Connection {
                node: causeway_firmware::NodeId(1),
                vi: ViId(0),
                key: 3
            }
        ),
        Err(SetUpError::Busy {
            what: "virtual interface"
        })
    );
}
