//! A workload and a collective of one's own on 64 nodes: each process computes, then all learn the sum of their numbers.
#![forbid(unsafe_code)]

use std::error::Error;

use causeway_sim::am::port::{Awaited, Rank, Work};
use causeway_sim::am::{ActiveMessages, AmError, Arrival, HandlerId, Handlers};
use causeway_sim::engine::MICROSECOND;
use causeway_sim::programs::Program;
use causeway_sim::substrates::{Combination, Costs, Setup, run};

/// Rounds of the collective: the sum doubles its reach in each.
const ROUNDS: usize = 6;
#[derive(Clone)]
struct Sum;
/// What has come in each round.
type Parts = [Option<u64>; ROUNDS];

fn on_part(arrival: &mut Arrival<'_, Parts>) -> Result<(), AmError> {
    let (round, part) = (arrival.word(0)? as usize, arrival.word(1)?);
    arrival.state[round] = Some(part);
    Ok(())
}

impl Program for Sum {
    type State = Parts;
    type Output = u64;
    fn handlers() -> &'static Handlers<Parts> {
        &[on_part]
    }
    fn begin(&self, _rank: Rank, _ranks: u32) -> Result<Parts, AmError> {
        Ok(Parts::default())
    }
    fn run<A: ActiveMessages<State = Parts>>(&self, am: &mut A) -> Result<u64, AmError> {
        let mut sum = u64::from(am.rank());
        am.work(Work {
            floating: 10_000,
            ..Work::default()
        });
        for round in 0..ROUNDS {
            let partner = am.rank() ^ (1 << round);
            am.request(partner, HandlerId(0), &[round as u64, sum])?;
            am.wait_until(Awaited::from(partner, "its part of the sum"), |parts| {
                parts[round].is_some()
            })?;
            sum += am.state()[round].unwrap_or(0);
        }
        Ok(sum)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    for combination in Combination::FOUR {
        let outcome = run(&Setup::new(combination, Costs::psnow()?, 64), &Sum)?;
        assert!(
            outcome
                .processes
                .iter()
                .all(|process| process.output == (0..64).sum())
        );
        println!("{}: {} µs", combination.name(), outcome.ended / MICROSECOND);
    }
    Ok(())
}
