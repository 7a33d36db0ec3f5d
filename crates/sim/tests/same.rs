//! The same input gives the same bytes, and one node represents a cluster of equal nodes.

use causeway_sim::engine::MILLISECOND;
use causeway_sim::figures::{self, Effort};
use causeway_sim::hardware::Topology;
use causeway_sim::node::{Action, Await, Completed, Ended, Plan, Process, Queues, ViPlan, World};
use causeway_sim::profile::Profile;
use causeway_sim::trace;
use causeway_sim::workloads::design::Design;
use causeway_sim::workloads::scaling::{self, Extent, Kind, Load, Order, Peers};

use causeway_firmware::Side;

#[test]
fn a_figure_runs_twice_to_the_same_bytes() {
    for number in ["4.12", "5.2"] {
        let [once, again] = [(); 2].map(|()| {
            let rows =
                figures::rows(number, Effort::Quick).unwrap_or_else(|error| panic!("{error}"));
            format!("{rows:?} {:?}", figures::judge(number, &rows))
        });
        assert!(once == again, "figure {number} differs from run to run");
    }
}

#[test]
fn one_node_stands_for_all() {
    let profile = Profile::shipped("via").unwrap_or_else(|error| panic!("{error}"));
    for (design, bytes, peers) in [
        (Design::Base, 128, Peers::All),
        (Design::BaseO, 4_096, Peers::All),
        (Design::DoorODmaq2Cpu, 128, Peers::All),
        (Design::Base, 128, Peers::Some(3)),
        (Design::DoorODmaq2Cpu, 4_096, Peers::Some(2)),
        (Design::BaseO, 128, Peers::Some(1)),
    ] {
        let load = |extent| Load {
            nodes: 8,
            peers,
            kind: Kind::Active(12),
            order: Order::default(),
            bytes,
            burst: 1,
            completion_queue: false,
            rounds: 20,
            extent,
            seed: 1,
        };
        let run = |extent| {
            scaling::run(&profile, &design.settings(), &load(extent))
                .unwrap_or_else(|error| panic!("{error}"))
        };
        let (one, all) = (run(Extent::Representative), run(Extent::Whole));
        assert_eq!(all.messages, 8 * one.messages);
        let apart = one.latency.abs_diff(all.latency) * 100 / all.latency;
        assert!(
            apart <= 2,
            "{}: {} ps alone, {} ps among all",
            design.name(),
            one.latency,
            all.latency
        );
    }
}

/// Runs steps in order.
struct Script(std::vec::IntoIter<Action>);

impl Process for Script {
    fn next(&mut self, _: u64, _: Option<Completed>) -> Action {
        self.0.next().unwrap_or(Action::End)
    }
}

/// Sends one message, or receives one.
fn once(side: Side) -> Script {
    let bytes = 4_096;
    let post = Action::Post { vi: 0, side, bytes };
    let mut script = vec![post, Action::Await(Await::One(0, side))];
    if side == Side::Send {
        script.insert(0, Action::SleepUntil(MILLISECOND));
    }
    Script(script.into_iter())
}

/// Two nodes; `sender` says whether the first really sends.
fn two_nodes(sender: bool) -> World {
    let profile = Profile::shipped("qos").unwrap_or_else(|error| panic!("{error}"));
    let topology = Topology::star(2).expect("two nodes");
    let mut plan = Plan::new(profile, Design::Pvia.roomy(4), topology);
    for node in 0..2 {
        let side = match sender && node == 0 {
            true => Side::Send,
            false => Side::Receive,
        };
        plan.process(node, once(side));
        plan.vi(ViPlan::new(node, 0, 4, Queues::None));
    }
    plan.connections.push((0, 1));
    World::new(plan).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_timeline_follows_a_message_from_doorbell_to_completion() {
    let traced = || {
        let mut world = two_nodes(true);
        world.record.keep_slices();
        assert_eq!(world.run(u64::MAX), Ended::Finished);
        let mut bytes = Vec::new();
        trace::write(&world.record, &mut bytes).expect("memory takes it");
        bytes
    };
    let bytes = traced();
    assert_eq!(bytes, traced());
    let timeline: serde_json::Value = serde_json::from_slice(&bytes).expect("it is JSON");
    let events = timeline["traceEvents"]
        .as_array()
        .expect("a list of events");
    let steps: Vec<(&str, u64)> = events
        .iter()
        .filter(|event| event["cat"] == "message")
        .map(|event| {
            let kind = event["ph"].as_str().expect("a kind");
            (kind, event["pid"].as_u64().expect("a node"))
        })
        .collect();
    assert_eq!(steps.first(), Some(&("s", 0)), "it begins at the sender");
    assert!(steps.contains(&("t", 1)), "it goes on at the receiver");
    let named = |name: &str, node: u64| {
        events
            .iter()
            .any(|event| event["name"] == name && event["pid"] == node)
    };
    for (name, node) in [
        ("doorbell rung", 0),
        ("read descriptor", 0),
        ("read data", 0),
        ("send frame", 0),
        ("frame in", 1),
        ("write data", 1),
        ("write status", 1),
    ] {
        assert!(named(name, node), "{name} on node {node}");
    }
}

#[test]
fn a_program_that_waits_forever_is_reported() {
    let mut world = two_nodes(false);
    let Ended::Deadlock(who) = world.run(u64::MAX) else {
        panic!("no process sends");
    };
    assert_eq!(who.len(), 2);
    assert!(
        who[0].contains("process 0 of node 0 waits since")
            && who[0].contains("for a message from node 1 on its interface 0"),
        "{}",
        who[0]
    );
}
