//! By default admission control admits as much as the calibrated card of the QoS study carries.

use causeway_firmware::{Direction, Firmware, SetUpError, Traffic, ViAttributes};
use causeway_sim::engine::MILLISECOND;
use causeway_sim::profile::Profile;
use causeway_sim::workloads::design::Design;
use causeway_sim::workloads::quality::{self, Experiment, Flow, Shape};

/// Bytes per second of each channel.
const RATE: u64 = 2_000_000;

/// How many channels of messages of this number of bytes a card admits.
fn admitted(direction: Direction, message_bytes: u32) -> usize {
    let mut settings = Design::QosVia.roomy(4);
    settings.limits.vis = 256;
    let mut card = Firmware::new(settings).unwrap_or_else(|error| panic!("{error}"));
    let traffic = Traffic::Constant {
        rate: RATE,
        message_bytes,
    };
    for channels in 0.. {
        let vi = card
            .create_vi(ViAttributes::default())
            .unwrap_or_else(|error| panic!("{error}"));
        match card.reserve(vi, direction, traffic) {
            Ok(()) => {}
            Err(SetUpError::Refused(_)) => return channels,
            Err(error) => panic!("{error}"),
        }
    }
    0
}

/// The percentage of messages of this number of channels that are not received.
fn missing(shape: Shape, channels: usize, message_bytes: u32) -> u64 {
    let profile = Profile::shipped("qos").unwrap_or_else(|error| panic!("{error}"));
    let flow = Flow::Constant {
        rate: RATE,
        message_bytes,
    };
    let experiment = Experiment {
        shape,
        channels: vec![flow; channels],
        trace: None,
        warm_up: 10 * MILLISECOND,
        measured: 60 * MILLISECOND,
        resolution: 0,
        admission: false,
        data_offset: 64,
        seed: 1,
    };
    let outcomes = quality::run(&profile, &Design::QosVia.roomy(16), &experiment);
    let outcomes = outcomes.unwrap_or_else(|error| panic!("{error}"));
    let injected: u64 = outcomes.iter().map(|channel| channel.injected).sum();
    let received: u64 = outcomes.iter().map(|channel| channel.received).sum();
    100 * injected.saturating_sub(received) / injected
}

#[test]
fn admitted_traffic_is_carried_and_a_third_more_is_not() {
    for (direction, shape) in [
        (Direction::Outgoing, Shape::OneToMany(4)),
        (Direction::Incoming, Shape::ManyToOne(4)),
    ] {
        for bytes in [1_024, 4_096, 8_192] {
            let channels = admitted(direction, bytes);
            let missing = |channels| missing(shape, channels, bytes);
            assert!(
                missing(channels) <= 1,
                "{direction:?}: {channels} channels of {bytes} bytes were admitted, and {} % is missing",
                missing(channels)
            );
            // Shorter messages cross fewer pages than the constants have room for.
            let more = channels + channels / 3;
            assert!(
                bytes < 4_096 || missing(more) > 1,
                "{direction:?}: {channels} channels of {bytes} bytes were admitted, and {more} are carried"
            );
        }
    }
}
