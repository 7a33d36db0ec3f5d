//! Traffic of every kind in both directions at once, and the end of the peer at a random moment.

use std::time::{Duration, Instant};

use causeway_bmi::{Direction, OpError};

use super::Medium;
use super::peer_process::{ProcessPair, ran_as_peer};
use crate::random::{Random, seed};

/// Sizes on both sides of every limit.
const SIZES: [usize; 8] = [0, 8, 100, 4096, 9000, 70_000, 300_001, 2 << 20];
/// Deaths in a row.
const ROUNDS: usize = 12;

/// Every posted operation completes once, with the sent bytes or with an error that names the peer.
pub fn of_a_death<M: Medium>(medium: &M, test: &str) {
    at_random_moments(medium, test, false);
}

/// The same, with a successor at the same address each time.
pub fn of_a_restart<M: Medium>(medium: &M, test: &str) {
    at_random_moments(medium, test, true);
}

fn at_random_moments<M: Medium>(medium: &M, test: &str, restart: bool) {
    if ran_as_peer(medium) {
        return;
    }
    let mut random = Random::new(seed(if restart { 11 } else { 12 }));
    let mut pair = ProcessPair::new(medium, test);
    for round in 0..ROUNDS {
        if round > 0 && restart {
            pair.restart();
            pair.still_works(pair.peer);
            pair.holds_nothing();
        } else if round > 0 {
            pair = ProcessPair::new(medium, test);
        }
        traffic(&mut pair, &mut random);
        let moment = Duration::from_micros(random.below(8000) as u64);
        let until = Instant::now() + moment;
        while Instant::now() < until {
            pair.node.step();
        }
        pair.child.kill();
        pair.node.complete_all("after a death");
        for operation in pair.node.operations.values() {
            let fine = match &operation.result {
                Some(Err(OpError::Peer { address, .. })) => *address == pair.address,
                _ => operation.succeeded(),
            };
            assert!(fine, "round {round}: {operation:?}");
            assert_eq!(
                operation.memory.sharers(),
                1,
                "round {round}: {operation:?}"
            );
        }
        pair.node.operations.clear();
    }
}

fn traffic<M: Medium>(pair: &mut ProcessPair<'_, M>, random: &mut Random) {
    for number in 0..24 {
        let size = SIZES[random.below(SIZES.len())];
        let tag = 1000 + number;
        match random.below(6) {
            0 => drop(pair.node.send(pair.peer, tag, size)),
            1 => {
                pair.let_receive(tag, size);
                pair.node.send(pair.peer, tag, size);
            }
            2 => drop(pair.node.receive(pair.peer, tag, size)),
            3 => {
                pair.let_send(tag, size);
                pair.node.receive(pair.peer, tag, size);
            }
            4 => {
                let bytes = vec![3; size.min(60_000)];
                pair.node.send_unexpected(pair.peer, tag, bytes);
            }
            _ => {
                let region = pair.let_export(tag, size.max(1));
                let way = match random.one_in(2) {
                    true => Direction::Get,
                    false => Direction::Put,
                };
                pair.node.transfer(pair.peer, way, tag, region);
            }
        }
    }
}
