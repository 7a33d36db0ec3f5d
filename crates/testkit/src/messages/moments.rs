//! Traffic of every kind in both directions at once, and the end of the peer at a random moment.

use std::time::{Duration, Instant};

use causeway_bmi::{Direction, OpError};

use super::Medium;
use super::puppet::{Stage, played};
use crate::random::{Random, seed};

/// Sizes on both sides of every limit.
const SIZES: [usize; 8] = [0, 8, 100, 4096, 9000, 70_000, 300_001, 2 << 20];
/// Deaths in a row.
const ROUNDS: usize = 12;

/// Everything that was posted completes once, with what was sent or with the peer's name.
pub fn of_a_death<M: Medium>(medium: &M, test: &str) {
    at_random_moments(medium, test, false);
}

/// The same, with a successor at the same address each time.
pub fn of_a_restart<M: Medium>(medium: &M, test: &str) {
    at_random_moments(medium, test, true);
}

fn at_random_moments<M: Medium>(medium: &M, test: &str, restart: bool) {
    if played(medium) {
        return;
    }
    let mut random = Random::new(seed(if restart { 11 } else { 12 }));
    let mut stage = Stage::new(medium, test);
    for round in 0..ROUNDS {
        if round > 0 && restart {
            stage.restart();
            stage.still_works(stage.peer);
            stage.holds_nothing();
        } else if round > 0 {
            stage = Stage::new(medium, test);
        }
        traffic(&mut stage, &mut random);
        let moment = Duration::from_micros(random.below(8000) as u64);
        let until = Instant::now() + moment;
        while Instant::now() < until {
            stage.node.step();
        }
        stage.child.kill();
        stage.node.complete_all("after a death");
        for operation in stage.node.operations.values() {
            let fine = match &operation.result {
                Some(Err(OpError::Peer { address, .. })) => *address == stage.address,
                _ => operation.succeeded(),
            };
            assert!(fine, "round {round}: {operation:?}");
            assert_eq!(
                operation.memory.sharers(),
                1,
                "round {round}: {operation:?}"
            );
        }
        stage.node.operations.clear();
    }
}

fn traffic<M: Medium>(stage: &mut Stage<'_, M>, random: &mut Random) {
    for number in 0..24 {
        let size = SIZES[random.below(SIZES.len())];
        let tag = 1000 + number;
        match random.below(6) {
            0 => drop(stage.node.send(stage.peer, tag, size)),
            1 => {
                stage.let_receive(tag, size);
                stage.node.send(stage.peer, tag, size);
            }
            2 => drop(stage.node.receive(stage.peer, tag, size)),
            3 => {
                stage.let_send(tag, size);
                stage.node.receive(stage.peer, tag, size);
            }
            4 => {
                let bytes = vec![3; size.min(60_000)];
                stage.node.send_unexpected(stage.peer, tag, bytes);
            }
            _ => {
                let region = stage.let_export(tag, size.max(1));
                let way = match random.one_in(2) {
                    true => Direction::Get,
                    false => Direction::Put,
                };
                stage.node.transfer(stage.peer, way, tag, region);
            }
        }
    }
}
