//! Settings that no card can have.

use causeway_firmware::{DmaQueue, Firmware, Settings};

use crate::designs::{design, designs};

type Spoil = fn(&mut Settings);

#[test]
fn designs_of_the_thesis_are_possible() {
    assert_eq!(Settings::default().check(), Ok(()));
    for (name, settings) in designs() {
        assert_eq!(settings.check(), Ok(()), "{name}");
    }
}

#[test]
fn invalid_settings_are_refused_by_name() {
    let cases: [(&str, Spoil); 22] = [
        ("host_dma", |s| s.host_dma = DmaQueue::Hardware(0)),
        ("net_send", |s| s.net_send = DmaQueue::Hardware(5000)),
        ("net_receive", |s| s.net_receive = 0),
        ("payload_bytes", |s| s.payload_bytes = 1025),
        ("payload_bytes", |s| {
            s.payload_bytes = 200;
            s.frame_bytes = 100;
        }),
        ("frame_bytes", |s| s.frame_bytes = 2 << 20),
        ("page_bytes", |s| s.page_bytes = 1000),
        ("limits.vis", |s| s.limits.vis = 0),
        ("limits.posted_per_queue", |s| s.limits.posted_per_queue = 0),
        ("limits.posted_per_queue", |s| {
            s.limits.vis = 60_000;
            s.limits.posted_per_queue = 60_000;
        }),
        ("limits.descriptors_per_queue", |s| {
            s.limits.descriptors_per_queue = 0
        }),
        ("limits.descriptors_per_queue", |s| {
            s.limits.vis = 65_536;
            s.limits.descriptors_per_queue = 1024;
        }),
        ("limits.segments", |s| s.limits.segments = 0),
        ("limits.regions", |s| s.limits.regions = 0),
        ("limits.completion_queues", |s| {
            s.limits.completion_queues = 70_000
        }),
        ("limits.receive_buffers", |s| {
            s.limits.receive_buffers = s.limits.buffers
        }),
        ("limits.frames", |s| s.limits.frames = 0),
        ("limits.frames_per_message", |s| {
            s.limits.frames_per_message = 0
        }),
        ("limits.reads", |s| s.limits.reads = 0),
        ("reliable.window", |s| s.reliable.window = 33),
        ("reliable.timeout", |s| s.reliable.timeout = 0),
        ("capacity.reservable_permille", |s| {
            s.capacity.reservable_permille = 1001
        }),
    ];
    for (field, spoil) in cases {
        let mut settings = design("PVIA");
        spoil(&mut settings);
        let error = Firmware::new(settings).expect_err(field);
        assert_eq!(error.field, field);
        assert!(error.to_string().starts_with(field), "{error}");
    }
}

#[test]
fn the_sequential_discipline_has_no_queues() {
    let cases: [(&str, Spoil); 3] = [
        ("host_dma and net_send", |s| {
            s.host_dma = DmaQueue::Hardware(4)
        }),
        ("two_processors", |s| s.two_processors = true),
        ("tailgating", |s| s.tailgating = true),
    ];
    for (field, spoil) in cases {
        let mut settings = design("Base");
        spoil(&mut settings);
        assert_eq!(settings.check().err().map(|error| error.field), Some(field));
    }
}
