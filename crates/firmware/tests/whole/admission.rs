//! Admission control at both ends, with counter-offers.

use causeway_firmware::{
    Capacity, Direction, Refusal, Reliability, Resource, SECOND, SetUpError, Settings, Traffic,
};

use crate::designs::design;
use crate::world::{Node, World, level};

const MB: u64 = 1_000_000;

fn constant(rate: u64) -> Traffic {
    Traffic::Constant {
        rate,
        message_bytes: 4000,
    }
}

/// A card whose processor does 25,000 messages a second, host DMA 200 MB/s, network 400 MB/s.
fn card() -> Settings {
    Settings {
        capacity: Capacity {
            send_message: SECOND / 50_000,
            send_frame: SECOND / 50_000,
            receive_message: SECOND / 50_000,
            receive_frame: SECOND / 50_000,
            host_rate: 200 * MB,
            host_message: 0,
            host_frame: 0,
            net_rate: 400 * MB,
            net_frame: 0,
            reservable_permille: 900,
        },
        ..design("QoSVIA")
    }
}

fn refusal(result: Result<(), SetUpError>) -> Refusal {
    match result {
        Err(SetUpError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

fn reserve(node: &mut Node, direction: Direction, traffic: Traffic) -> Result<(), SetUpError> {
    let vi = node.create_vi(level(Reliability::Unreliable));
    node.firmware.reserve(vi, direction, traffic)
}

#[test]
fn a_refusal_names_the_missing_resource_and_offers_a_rate_that_fits() {
    let mut node = Node::new(card());
    // 4000 bytes: 40 us of the processor, so 22,500 messages or 90 MB/s can be reserved.
    let refused = refusal(reserve(&mut node, Direction::Outgoing, constant(120 * MB)));
    assert_eq!(refused.resource, Resource::SendProcessor);
    assert!((89 * MB..=90 * MB).contains(&refused.offer), "{refused:?}");
    assert_eq!(
        reserve(&mut node, Direction::Outgoing, constant(refused.offer)),
        Ok(())
    );
    let refused = refusal(reserve(&mut node, Direction::Outgoing, constant(MB)));
    assert!(refused.offer < MB / 100, "{refused:?}");
    // One processor does both.
    let refused = refusal(reserve(&mut node, Direction::Incoming, constant(MB)));
    assert_eq!(refused.resource, Resource::SendProcessor);
}

#[test]
fn a_second_processor_receives() {
    let settings = Settings {
        two_processors: true,
        ..card()
    };
    let mut node = Node::new(settings);
    for direction in [Direction::Outgoing, Direction::Incoming] {
        assert_eq!(reserve(&mut node, direction, constant(80 * MB)), Ok(()));
    }
    let refused = refusal(reserve(&mut node, Direction::Incoming, constant(40 * MB)));
    assert_eq!(refused.resource, Resource::ReceiveProcessor);
    assert!((9 * MB..=10 * MB).contains(&refused.offer), "{refused:?}");
}

#[test]
fn the_host_dma_engine_is_shared_by_both_ways() {
    let mut settings = card();
    settings.capacity.send_message = 0;
    settings.capacity.send_frame = 0;
    settings.capacity.receive_message = 0;
    settings.capacity.receive_frame = 0;
    let mut node = Node::new(settings);
    assert_eq!(
        reserve(&mut node, Direction::Outgoing, constant(100 * MB)),
        Ok(())
    );
    let refused = refusal(reserve(&mut node, Direction::Incoming, constant(100 * MB)));
    assert_eq!(refused.resource, Resource::HostDma);
    assert!((79 * MB..=80 * MB).contains(&refused.offer), "{refused:?}");
}

#[test]
fn both_ends_have_to_agree() {
    let roomy = card();
    let mut narrow = card();
    narrow.capacity.net_rate = 20 * MB;
    let mut world = World::new(&[roomy, narrow]);
    let (a, b) = world.connect(0, 1, level(Reliability::Unreliable));
    let asked = constant(50 * MB);
    assert_eq!(
        world.nodes[0]
            .firmware
            .reserve(a, Direction::Outgoing, asked),
        Ok(())
    );
    let refused = refusal(
        world.nodes[1]
            .firmware
            .reserve(b, Direction::Incoming, asked),
    );
    assert_eq!(refused.resource, Resource::NetReceive);
    assert_eq!(
        world.nodes[0].firmware.release(a, Direction::Outgoing),
        Ok(())
    );
    let offer = constant(refused.offer);
    assert_eq!(
        world.nodes[0]
            .firmware
            .reserve(a, Direction::Outgoing, offer),
        Ok(())
    );
    assert_eq!(
        world.nodes[1]
            .firmware
            .reserve(b, Direction::Incoming, offer),
        Ok(())
    );
    let gone = Err(SetUpError::Unknown {
        what: "reservation",
    });
    assert_eq!(
        world.nodes[1].firmware.release(b, Direction::Outgoing),
        gone
    );
}

#[test]
fn variable_traffic_needs_a_rate_between_its_mean_and_its_peak() {
    let variable = |burst_bytes, delay| Traffic::Variable {
        mean: 4 * MB,
        peak: 40 * MB,
        burst_bytes,
        message_bytes: 4000,
        delay,
    };
    assert_eq!(variable(0, SECOND).effective_rate(), 4 * MB);
    assert_eq!(variable(100_000, 0).effective_rate(), 40 * MB);
    // A burst of 360 kB lasts 10 ms at the peak; all of its 400 kB may take 20 ms.
    assert_eq!(variable(360_000, SECOND / 100).effective_rate(), 20 * MB);
    assert_eq!(variable(1000, SECOND).effective_rate(), 4 * MB);
}

#[test]
fn an_offer_for_variable_traffic_fits_when_it_is_scaled() {
    let of = |mean: u64| Traffic::Variable {
        mean,
        peak: 10 * mean,
        burst_bytes: mean / 10,
        message_bytes: 4000,
        delay: SECOND / 1000,
    };
    let mut node = Node::new(card());
    let refused = refusal(reserve(&mut node, Direction::Outgoing, of(20 * MB)));
    assert!(refused.offer > MB && refused.offer < 20 * MB, "{refused:?}");
    assert_eq!(
        reserve(&mut node, Direction::Outgoing, of(refused.offer)),
        Ok(())
    );
}

#[test]
fn traffic_that_contradicts_itself_is_refused() {
    let mut node = Node::new(card());
    let vi = node.create_vi(level(Reliability::Unreliable));
    let backwards = Traffic::Variable {
        mean: 2,
        peak: 1,
        burst_bytes: 0,
        message_bytes: 1,
        delay: 0,
    };
    for traffic in [constant(0), backwards] {
        let result = node.firmware.reserve(vi, Direction::Outgoing, traffic);
        assert!(
            matches!(result, Err(SetUpError::Invalid { .. })),
            "{result:?}"
        );
    }
    assert_eq!(
        node.firmware.reserve(vi, Direction::Outgoing, constant(MB)),
        Ok(())
    );
    let twice = node.firmware.reserve(vi, Direction::Outgoing, constant(MB));
    assert!(matches!(twice, Err(SetUpError::Invalid { .. })));
    assert_eq!(node.firmware.destroy_vi(vi), Ok(()));
    assert_eq!(
        reserve(&mut node, Direction::Outgoing, constant(90 * MB)),
        Ok(())
    );
}
