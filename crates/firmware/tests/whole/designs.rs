//! Every design of the thesis moves messages: the disciplines, and the options beside them.

use causeway_firmware::{
    Discipline, DmaQueue, Doorbells, Limits, ReceiveDescriptors, Reliability, Settings,
};
use causeway_wire::random::SplitMix64;

use crate::world::{World, level};

/// The designs by name.
pub(crate) fn designs() -> Vec<(&'static str, Settings)> {
    let small = Settings {
        frame_bytes: 4096,
        payload_bytes: 64,
        limits: Limits {
            vis: 16,
            posted_per_queue: 32,
            buffers: 24,
            receive_buffers: 12,
            frames: 32,
            ..Limits::default()
        },
        ..Settings::default()
    };
    let base = small;
    let overlapped = Settings {
        discipline: Discipline::EventDriven,
        receive_descriptors: ReceiveDescriptors::Ahead,
        ..base.clone()
    };
    let queued = Settings {
        host_dma: DmaQueue::Hardware(64),
        net_send: DmaQueue::Hardware(64),
        net_receive: 2,
        ..overlapped.clone()
    };
    let doorbells = Settings {
        doorbells: Doorbells::Queued,
        ..queued.clone()
    };
    let svia = Settings {
        doorbells: Doorbells::Queued,
        ..base.clone()
    };
    let pvia = Settings {
        doorbells: Doorbells::Queued,
        host_dma: DmaQueue::Hardware(16),
        ..overlapped.clone()
    };
    let qosvia = Settings {
        discipline: Discipline::QosAware,
        ..pvia.clone()
    };
    vec![
        (
            "tailgating",
            Settings {
                tailgating: true,
                ..doorbells.clone()
            },
        ),
        (
            "tailgating in software",
            Settings {
                tailgating: true,
                ..overlapped.clone()
            },
        ),
        (
            "doorbells last",
            Settings {
                doorbells_last: true,
                ..pvia.clone()
            },
        ),
        (
            "two processors",
            Settings {
                two_processors: true,
                ..doorbells.clone()
            },
        ),
        (
            "two processors polling",
            Settings {
                two_processors: true,
                ..overlapped.clone()
            },
        ),
        (
            "shadow queues",
            Settings {
                two_processors: true,
                shadow_queues: true,
                ..doorbells.clone()
            },
        ),
        (
            "shadow queues, sequential",
            Settings {
                shadow_queues: true,
                ..base.clone()
            },
        ),
        (
            "QoSVIA with a hardware send queue",
            Settings {
                net_send: DmaQueue::Hardware(16),
                ..qosvia.clone()
            },
        ),
        (
            "QoSVIA in software",
            Settings {
                host_dma: DmaQueue::Software,
                ..qosvia.clone()
            },
        ),
        ("Base", base),
        ("Base+O", overlapped),
        ("Base+O+DMAQ", queued),
        ("Door+O+DMAQ", doorbells.clone()),
        ("SVIA", svia.clone()),
        ("PVIA", pvia.clone()),
        ("QoSVIA", qosvia.clone()),
        ("SVIA cutting through", cutting(svia.clone())),
        ("PVIA cutting through", cutting(pvia.clone())),
        ("QoSVIA cutting through", cutting(qosvia.clone())),
        (
            "tailgating and cutting through",
            Settings {
                tailgating: true,
                two_processors: true,
                ..cutting(doorbells)
            },
        ),
        ("SVIA receiving through", receiving(svia)),
        ("PVIA receiving through", receiving(cutting(pvia))),
        ("QoSVIA receiving through", receiving(qosvia)),
    ]
}

/// The same with cut-through.
fn cutting(settings: Settings) -> Settings {
    Settings {
        cut_through: true,
        ..settings
    }
}

/// The same, processing frames that still come in.
fn receiving(settings: Settings) -> Settings {
    Settings {
        receive_cut_through: true,
        ..settings
    }
}

/// The design of this name.
pub(crate) fn design(name: &str) -> Settings {
    let found = designs().into_iter().find(|(of, _)| *of == name);
    found.expect("a design of that name").1
}

/// Bytes that differ from place to place.
pub(crate) fn pattern(count: u32, seed: u32) -> Vec<u8> {
    (0..count)
        .map(|at| (at.wrapping_mul(31).wrapping_add(seed * 7) >> 2) as u8)
        .collect()
}

pub(crate) const LEVELS: [Reliability; 3] = [
    Reliability::Unreliable,
    Reliability::Delivery,
    Reliability::Reception,
];

#[test]
fn messages_of_all_sizes_arrive_in_every_design() {
    for (name, settings) in designs() {
        for reliability in LEVELS {
            let mut world = World::pair(&settings);
            let (a, b) = world.connect(0, 1, level(reliability));
            world.settle();
            for size in [0, 1, 100, 4096, 4097, 20_000, 65_000] {
                let bytes = pattern(size, size);
                let into = world.nodes[1].host.span(size);
                let received = world.nodes[1].receive(world.now, b, &[into]);
                world.settle();
                let from = world.nodes[0].host.with(&bytes);
                let sent = world.nodes[0].send(world.now, a, &[from]);
                world.rest();
                let status = world.nodes[0].status(sent);
                assert_eq!(
                    (status.bits, status.length),
                    (1, size),
                    "{name} {reliability:?}"
                );
                let status = world.nodes[1].status(received);
                assert_eq!(
                    (status.bits, status.length),
                    (0x1_0001, size),
                    "{name} {reliability:?}"
                );
                assert_eq!(
                    world.nodes[1].host.contents(into),
                    bytes,
                    "{name} {reliability:?}"
                );
            }
            for node in &world.nodes {
                assert_eq!(node.reports, [], "{name} {reliability:?}");
                assert_eq!(node.firmware.ignored_inputs(), 0, "{name} {reliability:?}");
            }
        }
    }
}

#[test]
fn messages_inside_descriptors_arrive_in_every_design() {
    for (name, settings) in designs() {
        for reliability in LEVELS {
            let mut world = World::pair(&settings);
            let (a, b) = world.connect(0, 1, level(reliability));
            for size in [0, 1, 64] {
                let bytes = pattern(size, 3);
                let received = world.nodes[1].receive(world.now, b, &[]);
                world.settle();
                let sent = world.nodes[0].send_inside(world.now, a, &bytes);
                world.rest();
                assert_eq!(world.nodes[0].status(sent).bits, 1, "{name}");
                let status = world.nodes[1].status(received);
                let inside = if size > 0 { 0x10_0000 } else { 0 };
                assert_eq!(
                    (status.bits, status.length),
                    (0x1_0001 | inside, size),
                    "{name}"
                );
                let arrived = world.nodes[1].host.read(received + 32, size as usize);
                assert_eq!(arrived, bytes, "{name}");
            }
        }
    }
}

/// Room that one processor makes is used even if the other has gone idle.
#[test]
fn no_processor_waits_for_an_event_of_the_other() {
    for name in ["two processors", "two processors polling"] {
        let mut settings = design(name);
        settings.limits.frames = 1;
        for seed in 0..40 {
            let mut world = World::pair(&settings);
            world.shuffled = true;
            world.random = SplitMix64::new(seed);
            let pairs = [0, 1].map(|_| world.connect(0, 1, level(Reliability::Delivery)));
            for (_, b) in pairs {
                for _ in 0..2 {
                    let into = world.nodes[1].host.span(100);
                    world.nodes[1].receive(world.now, b, &[into]);
                }
            }
            world.settle();
            let from = world.nodes[0].host.span(100);
            let sent =
                pairs.map(|(a, _)| [(); 2].map(|()| world.nodes[0].send(world.now, a, &[from])));
            // No deadline passes.
            world.settle();
            for descriptor in sent.as_flattened() {
                assert_eq!(world.nodes[0].status(*descriptor).bits, 1, "{name} {seed}");
            }
        }
    }
}

/// Many messages at a time over several connections in both directions, events in random order.
#[test]
fn many_messages_at_a_time_arrive_in_every_design() {
    for (number, (name, settings)) in designs().into_iter().enumerate() {
        for reliability in LEVELS {
            let mut world = World::pair(&settings);
            world.shuffled = true;
            world.random = SplitMix64::new(number as u64 + 5);
            let pairs: Vec<_> = (0..4)
                .map(|_| world.connect(0, 1, level(reliability)))
                .collect();
            world.settle();
            let mut expected = Vec::new();
            for round in 0..6 {
                for &(a, b) in &pairs {
                    for (to, vi) in [(0, a), (1, b)] {
                        let size = (round * 1777) % 9000;
                        let into = world.nodes[to].host.span(size);
                        let received = world.nodes[to].receive(world.now, vi, &[into]);
                        expected.push((to, received, into, pattern(size, round)));
                    }
                }
            }
            world.settle();
            let mut sent = Vec::new();
            for round in 0..6 {
                for &(a, b) in &pairs {
                    for (from, vi) in [(1, b), (0, a)] {
                        let bytes = pattern((round * 1777) % 9000, round);
                        let span = world.nodes[from].host.with(&bytes);
                        sent.push((from, world.nodes[from].send(world.now, vi, &[span])));
                        world.step();
                    }
                }
            }
            world.rest();
            for (from, descriptor) in sent {
                assert_eq!(world.nodes[from].status(descriptor).bits, 1, "{name}");
            }
            for (to, descriptor, into, bytes) in expected {
                assert_eq!(world.nodes[to].status(descriptor).bits, 0x1_0001, "{name}");
                assert_eq!(world.nodes[to].host.contents(into), bytes, "{name}");
            }
        }
    }
}
