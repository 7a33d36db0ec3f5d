//! How much memory a cluster takes: it grows with nodes and interfaces, and with nothing else, so that 4,096 nodes fit.

use allocation_counter::measure;
use causeway_sim::engine::MILLISECOND;
use causeway_sim::profile::Profile;
use causeway_sim::workloads::design::Design;
use causeway_sim::workloads::quality::{self, Experiment, Flow, Shape};
use causeway_sim::workloads::scaling::{self, Extent, Kind, Load, Order, Peers};

/// Most memory of a node: then 4,096 of them take an eighth of 8 GiB at most.
const BYTES_PER_NODE: u64 = (1 << 30) / 4_096;

fn profile(name: &str) -> Profile {
    Profile::shipped(name).unwrap_or_else(|error| panic!("{error}"))
}

/// The most bytes that were in use at a time, for each node.
fn per_node(nodes: usize, run: impl FnOnce()) -> u64 {
    measure(run).bytes_max / nodes as u64
}

/// Four processes on each node, each with an interface to one process of another.
fn exchange(nodes: usize) -> u64 {
    let load = Load {
        nodes,
        peers: Peers::Some(1),
        kind: Kind::Active(4),
        order: Order::default(),
        bytes: 4_096,
        burst: 1,
        completion_queue: false,
        rounds: 2,
        extent: Extent::Whole,
        seed: 1,
    };
    let settings = Design::DoorODmaq2Cpu.settings();
    let via = profile("via");
    per_node(nodes, || {
        let found = scaling::run(&via, &settings, &load);
        let found = found.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(found.messages, 8 * nodes as u64);
    })
}

/// All nodes send to one.
fn star(nodes: usize) -> u64 {
    let flow = Flow::Constant {
        rate: 100_000,
        message_bytes: 1_024,
    };
    let experiment = Experiment {
        shape: Shape::ManyToOne(nodes - 1),
        channels: vec![flow; nodes - 1],
        trace: None,
        warm_up: 0,
        measured: 20 * MILLISECOND,
        resolution: 0,
        admission: false,
        data_offset: 64,
        seed: 1,
    };
    let settings = Design::QosVia.roomy(16);
    let qos = profile("qos");
    per_node(nodes, || {
        let found = quality::run(&qos, &settings, &experiment);
        let found = found.unwrap_or_else(|error| panic!("{error}"));
        assert!(found.iter().any(|channel| channel.received > 0));
    })
}

#[test]
fn a_node_with_four_processes_takes_the_same_memory_in_every_cluster() {
    let (few, many) = (exchange(16), exchange(256));
    assert!(many < BYTES_PER_NODE, "{many} bytes for each node");
    assert!(many < few + few / 10, "{few} bytes of 16, {many} of 256");
}

#[test]
fn a_star_takes_no_more_memory_for_each_node_when_it_grows() {
    let (few, many) = (star(65), star(257));
    assert!(many < few + few / 10, "{few} bytes of 65, {many} of 257");
}
