//! Nodes that run one after the other do what they do when all events are handled in the order of time.

use super::*;
use crate::node::world::Ended;
use crate::workloads::design::Design;

/// A small cluster with messages of `bytes`.
fn load(nodes: usize, bytes: u32) -> Load {
    Load {
        nodes,
        peers: Peers::All,
        kind: Kind::Active(24),
        order: Order::default(),
        bytes,
        burst: 1,
        completion_queue: false,
        rounds: 2,
        extent: Extent::Whole,
        seed: 1,
    }
}

/// Runs `load` in both ways, and compares all that is known about either.
fn compare(load: &Load, design: Design) {
    let via = Profile::shipped("via").unwrap_or_else(|error| panic!("{error}"));
    let settings = design.settings();
    let run = |windows: bool| {
        let (mut world, sum, _) = build(&via, &settings, load).expect("a world");
        let ended = match windows {
            true => world.run_by_windows(LONGEST, shortest_frame(load, &settings)),
            false => Some(world.run(LONGEST)),
        };
        assert_eq!(ended, Some(Ended::Finished), "{load:?}");
        assert_eq!(world.has_windows(), windows, "{load:?}");
        let outcome = outcome(&world, &sum.borrow()).expect("messages");
        let sums = format!("{:?}", world.record.sums);
        (outcome, sums, world.network().links_busy())
    };
    assert_eq!(run(true), run(false), "{load:?} with {}", design.name());
}

#[test]
fn all_designs_do_the_same_in_windows() {
    for design in [
        Design::Base,
        Design::BaseO,
        Design::BaseODmaq,
        Design::DoorODmaq,
        Design::DoorODmaq2Cpu,
    ] {
        compare(&load(16, 4_096), design);
    }
}

#[test]
fn all_loads_do_the_same_in_windows() {
    let usual = load(16, 4_096);
    let some = Peers::Some(3);
    for load in [
        load(22, 1_024),
        // More than a frame.
        load(16, 40_000),
        Load {
            peers: some,
            kind: Kind::OneOfAll,
            rounds: 9,
            ..usual.clone()
        },
        Load {
            burst: 3,
            completion_queue: true,
            ..usual.clone()
        },
        Load {
            peers: some,
            nodes: 32,
            rounds: 12,
            seed: 3,
            ..usual
        },
    ] {
        compare(&load, Design::BaseODmaq);
    }
}

/// A frame that comes sooner than it may is noticed, and the run is not used.
#[test]
fn shorter_frames_than_promised_are_noticed() {
    let via = Profile::shipped("via").unwrap_or_else(|error| panic!("{error}"));
    let settings = Design::BaseODmaq.settings();
    let (mut world, ..) = build(&via, &settings, &load(16, 64)).expect("a world");
    assert_eq!(world.run_by_windows(LONGEST, 65_536), None);
}
