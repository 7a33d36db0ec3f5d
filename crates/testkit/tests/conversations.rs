//! Two hundred simulations of the engine's conversations, each twice: right, and the same bytes.

use causeway_engine::matcher::ByTag;
use causeway_mpi::matching::Mpi;
use causeway_testkit::simulator::conversations::{Patterns, Plan, run};

const SEEDS: u64 = 200;

fn twice<M: Patterns>(plan: Plan) -> [usize; 2] {
    let mut received = [0; 2];
    let (mut crossings, mut partings) = (0, 0);
    let (mut offers, mut written, mut retracted, mut held) = (0, 0, 0, 0);
    for seed in 0..SEEDS {
        let outcome = run::<M>(seed, plan);
        assert_eq!(outcome, run::<M>(seed, plan), "seed {seed}");
        received[0] += outcome.received;
        received[1] += outcome.from_any;
        crossings += outcome.crossings;
        partings += outcome.partings;
        offers += outcome.offers;
        written += outcome.written;
        retracted += outcome.retracted;
        held += outcome.held;
    }
    assert!(offers > 500 && written > 25, "{offers} {written}");
    assert_eq!(retracted > 4, plan.faults, "{retracted}");
    assert!(held > 1000, "{held}");
    assert!(crossings > 50 && partings > 50, "{crossings} {partings}");
    received
}

fn plan(faults: bool) -> Plan {
    Plan {
        nodes: 3,
        steps: 3000,
        faults,
        in_pieces: false,
    }
}

/// With messages in pieces: fewer can be written into receives.
fn every_second_in_pieces(faults: bool) -> [usize; 2] {
    let plan = Plan {
        in_pieces: true,
        ..plan(faults)
    };
    let (mut received, mut parts) = (0, 0);
    for seed in SEEDS..2 * SEEDS {
        let outcome = run::<Mpi>(seed, plan);
        assert_eq!(outcome, run::<Mpi>(seed, plan), "seed {seed}");
        received += outcome.received;
        parts += outcome.parts;
    }
    [received, parts]
}

#[test]
fn every_message_in_pieces_arrives() {
    let [received, parts] = every_second_in_pieces(false);
    assert!(received > 10_000 && parts > 5000, "{received} {parts}");
}

#[test]
fn faults_affect_only_their_operations_with_messages_in_pieces() {
    let [received, parts] = every_second_in_pieces(true);
    assert!(received > 1000 && parts > 500, "{received} {parts}");
}

#[test]
fn every_message_arrives_by_tag() {
    assert!(twice::<ByTag>(plan(false))[0] > 10_000);
}

#[test]
fn every_message_arrives_with_wildcards() {
    let [received, from_any] = twice::<Mpi>(plan(false));
    assert!(received > 10_000 && from_any > 1000);
}

#[test]
fn faults_affect_only_their_operations_by_tag() {
    assert!(twice::<ByTag>(plan(true))[0] > 1000);
}

#[test]
fn faults_affect_only_their_operations_with_wildcards() {
    let [received, from_any] = twice::<Mpi>(plan(true));
    assert!(received > 1000 && from_any > 100);
}
