//! The order of actions of each discipline, against fig. 4.3 and §4.3.6 to §4.3.11.

use causeway_firmware::{
    Direction, Discipline, Engine, Processor, Reliability, SECOND, Settings, Step, Traffic, Turn,
    ViAttributes, ViId,
};

use crate::designs::{design, pattern};
use crate::world::node::Done;
use crate::world::{World, level};

/// One message of this size with completion queues at both ends; the transfers of both cards.
fn transfers_of(settings: &Settings, size: u32, inside: bool) -> [Vec<&'static str>; 2] {
    let mut world = World::pair(settings);
    let queues: Vec<_> = (0..2)
        .map(|at| world.nodes[at].completion_queue(8).0)
        .collect();
    let with = |at: usize| ViAttributes {
        send_queue: Some(queues[at]),
        receive_queue: Some(queues[at]),
        ..level(Reliability::Unreliable)
    };
    let (a, b) = (
        world.nodes[0].create_vi(with(0)),
        world.nodes[1].create_vi(with(1)),
    );
    world.join((0, a), (1, b));
    let into = world.nodes[1].host.span(size);
    world.nodes[1].receive(world.now, b, &[into]);
    world.settle();
    world.nodes[0].card.logs = true;
    world.nodes[1].card.logs = true;
    let bytes = pattern(size, 1);
    if inside {
        world.nodes[0].send_inside(world.now, a, &bytes);
    } else {
        let from = world.nodes[0].host.with(&bytes);
        world.nodes[0].send(world.now, a, &[from]);
    }
    world.rest();
    [0, 1].map(|at| world.nodes[at].started())
}

const SENDING: [&str; 5] = [
    "read send descriptor",
    "read data",
    "transmit",
    "write send status",
    "write completion",
];

#[test]
fn the_baseline_takes_the_stages_of_figure_4_3() {
    let [sending, receiving] = transfers_of(&design("Base"), 4000, false);
    assert_eq!(sending, SENDING);
    assert_eq!(
        receiving,
        [
            "read receive descriptor",
            "write data",
            "write receive status",
            "write completion"
        ]
    );
}

#[test]
fn immediate_messages_skip_the_data_stages() {
    let [sending, receiving] = transfers_of(&design("Base"), 60, true);
    assert_eq!(
        sending,
        [
            "read send descriptor",
            "transmit",
            "write send status",
            "write completion"
        ]
    );
    assert_eq!(
        receiving,
        [
            "read receive descriptor",
            "write receive status",
            "write completion"
        ]
    );
}

#[test]
fn receive_descriptors_that_are_there_are_not_read_again() {
    for name in ["Base+O", "PVIA", "QoSVIA"] {
        let [sending, receiving] = transfers_of(&design(name), 4000, false);
        assert_eq!(sending, SENDING, "{name}");
        assert_eq!(
            receiving,
            ["write data", "write receive status", "write completion"],
            "{name}"
        );
    }
}

#[test]
fn shadow_queues_save_the_descriptors_transfer() {
    let [sending, receiving] = transfers_of(&design("shadow queues"), 4000, false);
    assert_eq!(sending, &SENDING[1..]);
    assert!(!receiving.contains(&"read receive descriptor"));
}

/// Two messages at once on two connections: actions of the sending card, in order.
fn two_at_once(settings: &Settings) -> Vec<Done> {
    let mut world = World::pair(settings);
    let pairs = [0, 1].map(|_| world.connect(0, 1, level(Reliability::Unreliable)));
    world.settle();
    world.nodes[0].card.logs = true;
    for (a, _) in pairs {
        let from = world.nodes[0].host.span(4000);
        world.nodes[0].send(world.now, a, &[from]);
    }
    world.settle();
    std::mem::take(&mut world.nodes[0].card.log)
}

fn names(log: &[Done]) -> Vec<&'static str> {
    let starts = log.iter().filter_map(|done| match done {
        Done::Started(name) => Some(*name),
        _ => None,
    });
    starts.collect()
}

#[test]
fn the_sequential_discipline_waits_for_each_transfer() {
    for name in ["Base", "SVIA"] {
        let log = two_at_once(&design(name));
        let once = &SENDING[..4];
        assert_eq!(names(&log), [once, once].concat(), "{name}");
        let mut running = 0;
        for done in &log {
            match done {
                Done::Started(_) => running += 1,
                Done::Finished(_) => running -= 1,
                Done::Charged(step, _) => assert!(
                    running == 0 || *step != Step::DequeueDoorbell,
                    "{name} polls doorbells while a transfer runs"
                ),
            }
            assert!(running <= 1, "{name}");
        }
    }
}

#[test]
fn the_event_driven_discipline_overlaps_messages() {
    for name in ["Base+O", "PVIA", "QoSVIA"] {
        let started = names(&two_at_once(&design(name)));
        let at = |name: &str, which: usize| {
            let mut found = started.iter().enumerate().filter(|(_, of)| **of == name);
            found.nth(which).expect("it happened").0
        };
        assert!(
            at("read send descriptor", 1) < at("transmit", 0),
            "{name}: {started:?}"
        );
        assert!(at("read data", 1) < at("write send status", 1), "{name}");
    }
}

#[test]
fn a_sequential_card_ignores_frames_while_it_waits() {
    let mut world = World::pair(&design("Base"));
    let (a, b) = world.connect(0, 1, level(Reliability::Unreliable));
    world.settle();
    let from = world.nodes[0].host.span(4000);
    world.nodes[0].send(world.now, a, &[from]);
    let back = world.nodes[1].host.span(4000);
    world.nodes[1].send(world.now, b, &[back]);
    let node = &mut world.nodes[0];
    let mut turn = node.turn(1, Processor::First);
    while turn != Turn::Waiting(Engine::Host) {
        if let Turn::Polling { ahead } = turn {
            node.polled(1, Processor::First, ahead);
        }
        turn = node.turn(1, Processor::First);
    }
    node.card.logs = true;
    assert_eq!(node.turn(2, Processor::First), Turn::Waiting(Engine::Host));
    assert_eq!(node.card.log, [], "it only spins");
}

/// The steps of a message's way out, from doorbell to status.
fn steps_of(name: &str, size: u32) -> Vec<(Step, u32)> {
    let mut world = World::pair(&design(name));
    let (a, _) = world.connect(0, 1, level(Reliability::Unreliable));
    world.settle();
    world.nodes[0].card.logs = true;
    let from = world.nodes[0].host.span(size);
    world.nodes[0].send(world.now, a, &[from]);
    world.settle();
    let log = std::mem::take(&mut world.nodes[0].card.log);
    let steps = log.into_iter().filter_map(|done| match done {
        Done::Charged(step, times) => Some((step, times)),
        _ => None,
    });
    steps.collect()
}

#[test]
fn sequential_steps() {
    use Step::*;
    let expected = [
        (DequeueDoorbell, 1),
        (TranslatePage, 1),
        (ProgramPiece, 1),
        (ProgramHostDma, 1),
        (CheckHostDma, 1),
        (ParseDescriptor, 1),
        (TakeBuffer, 1),
        (TranslatePage, 1),
        (ProgramPiece, 1),
        (ProgramHostDma, 1),
        (CheckHostDma, 1),
        (BuildHeader, 1),
        (ProgramNetSend, 1),
        (CheckNetSend, 1),
        (FreeBuffer, 1),
        (BuildStatus, 1),
        (TranslatePage, 1),
        (ProgramPiece, 1),
        (ProgramHostDma, 1),
        (CheckHostDma, 1),
    ];
    assert_eq!(steps_of("SVIA", 1000), expected);
}

#[test]
fn event_driven_steps() {
    use Step::*;
    let queued = [
        (TranslatePage, 1),
        (ProgramPiece, 1),
        (EnqueueHostHardware, 1),
    ];
    let noticed = [(LookRound, 1), (CheckHostDma, 1), (SwitchState, 1)];
    let expected = [
        &[(LookRound, 1), (DequeueDoorbell, 1)][..],
        &queued,
        &noticed,
        &[(ParseDescriptor, 1), (TakeBuffer, 1)],
        &queued,
        &noticed,
        &[(BuildHeader, 1), (ProgramNetSend, 1)],
        &[(LookRound, 1), (CheckNetSend, 1), (SwitchState, 1)],
        &[(FreeBuffer, 1), (BuildStatus, 1)],
        &queued,
        &noticed,
    ]
    .concat();
    assert_eq!(steps_of("PVIA", 1000), expected);
}

#[test]
fn the_qos_aware_discipline_adds_stamps_and_insertions() {
    let count = |name: &str, step: Step| {
        let steps = steps_of(name, 10_000);
        let of_it = steps.iter().filter(|(of, _)| *of == step);
        of_it.map(|(_, times)| times).sum::<u32>()
    };
    for step in [Step::StampVirtualClock, Step::InsertByStamp] {
        assert_eq!(count("PVIA", step), 0, "{step:?}");
        assert!(count("QoSVIA", step) > 0, "{step:?}");
    }
    let pieces = count("QoSVIA", Step::EnqueueHostHardware);
    assert!(pieces >= 5, "a descriptor, three pages or more, a status");
    assert_eq!(count("PVIA", Step::EnqueueHostHardware), pieces);
    assert_eq!(count("Base+O", Step::EnqueueHostHardware), 0);
    assert!(count("Base+O", Step::EnqueueSoftware) > 0);
}

#[test]
fn software_queues_cost_only_while_the_engine_is_busy() {
    use Step::*;
    let steps = steps_of("Base+O", 1000);
    for step in [EnqueueSoftware, DequeueSoftware, EnqueueHostHardware] {
        assert!(!steps.iter().any(|(of, _)| *of == step), "{step:?}");
    }
}

#[test]
fn a_descriptor_comes_along_with_the_data_before_it() {
    for name in ["tailgating", "tailgating in software"] {
        let mut world = World::pair(&design(name));
        let (a, _) = world.connect(0, 1, level(Reliability::Unreliable));
        world.settle();
        world.nodes[0].card.logs = true;
        for _ in 0..3 {
            let from = world.nodes[0].host.span(1000);
            world.nodes[0].send(world.now, a, &[from]);
        }
        world.settle();
        let started = world.nodes[0].started();
        let count = |name: &str| started.iter().filter(|of| **of == name).count();
        assert_eq!(count("read send descriptor"), 1, "{name}: {started:?}");
        assert_eq!(count("read data and descriptor"), 2, "{name}");
        assert_eq!(count("read data"), 1, "{name}");
        assert_eq!(count("write send status"), 3, "{name}");
    }
}

#[test]
fn two_processors_share_the_work() {
    let mut world = World::pair(&design("two processors"));
    let (a, b) = world.connect(0, 1, level(Reliability::Unreliable));
    let into = world.nodes[1].host.span(100);
    world.settle();
    world.nodes[1].receive(world.now, b, &[into]);
    let node = &mut world.nodes[1];
    assert_eq!(
        node.turn(1, Processor::First),
        Turn::Idle,
        "receives are not its concern"
    );
    assert_eq!(node.turn(1, Processor::Second), Turn::Worked);
    let from = world.nodes[0].host.span(100);
    world.nodes[0].send(world.now, a, &[from]);
    let node = &mut world.nodes[0];
    assert_eq!(
        node.turn(1, Processor::Second),
        Turn::Idle,
        "sends are not its concern"
    );
    assert_eq!(node.turn(1, Processor::First), Turn::Worked);
}

#[test]
fn silent_doorbells_are_polled_in_bulk() {
    let mut settings = design("Base");
    settings.limits.vis = 508;
    let mut world = World::pair(&settings);
    let vis: Vec<ViId> = (0..508)
        .map(|_| world.connect(0, 1, level(Reliability::Unreliable)).0)
        .collect();
    world.settle();
    let from = world.nodes[0].host.span(1000);
    // The cursor is somewhere; two doorbells 100 apart show how many lie between.
    for at in [100, 200] {
        world.nodes[0].send(world.now, vis[at], &[from]);
    }
    let node = &mut world.nodes[0];
    let mut distances = Vec::new();
    let mut turn = node.turn(1, Processor::First);
    for step in 2..100 {
        if let Turn::Polling { ahead } = turn {
            distances.push(ahead);
            node.polled(step, Processor::First, ahead);
        }
        if let Turn::Waiting(engine) = turn {
            node.finish(step, engine);
        }
        turn = node.turn(step, Processor::First);
    }
    assert_eq!(distances.len(), 2);
    // A round polls one doorbell itself before it returns how many are ahead.
    assert!((97..=99).contains(&distances[1]), "{distances:?}");
}

#[test]
fn a_reserved_channel_overtakes_best_effort_in_the_queues() {
    let reserved_first = |settings: &Settings| {
        let mut world = World::pair(settings);
        let pairs = [0, 1].map(|_| world.connect(0, 1, level(Reliability::Unreliable)));
        let [(plain, _), (reserved, _)] = pairs;
        let traffic = Traffic::Constant {
            rate: 20_000_000,
            message_bytes: 2000,
        };
        let node = &mut world.nodes[0];
        node.firmware
            .reserve(reserved, Direction::Outgoing, traffic)
            .expect("the reservation fits");
        world.settle();
        world.nodes[0].card.logs = true;
        let from = world.nodes[0].host.span(2000);
        for vi in [plain, plain, plain, plain, reserved] {
            world.nodes[0].send(SECOND, vi, &[from]);
        }
        world.now = SECOND;
        let mut order = Vec::new();
        while world.step() {
            for frame in world.wire.drain(..) {
                let header = causeway_wire::vi::FrameHeader::decode(&frame.header);
                order.push(header.expect("a frame").from_vi == reserved.0);
            }
        }
        order
    };
    let fair = reserved_first(&Settings {
        discipline: Discipline::EventDriven,
        ..design("QoSVIA in software")
    });
    assert_eq!(fair, [false, false, false, false, true]);
    let aware = reserved_first(&design("QoSVIA in software"));
    assert!(!aware[4], "{aware:?}");
}
