//! A workload and a collective of one's own on 64 nodes: each process computes, then all learn the sum of their numbers.
#![forbid(unsafe_code)]
use causeway_sim::am::port::{Awaited, Rank, Work};
use causeway_sim::am::{ActiveMessages, AmError, Arrival, HandlerId, Handlers};
use causeway_sim::engine::MICROSECOND;
use causeway_sim::programs::Program;
use causeway_sim::substrates::{Combination, Costs, Setup, run};

#[derive(Clone)]
struct Sum;
/// What has come in each round: the sum doubles its reach in each of six.
type Parts = [Option<u64>; 6];
fn on_part(arrival: &mut Arrival<'_, Parts>) -> Result<(), AmError> {
    arrival.state[arrival.word(0)? as usize] = Some(arrival.word(1)?);
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
        for round in 0..6 {
            let partner = am.rank() ^ (1 << round);
            am.request(partner, HandlerId(0), &[round as u64, sum])?;
            let awaited = Awaited::from(partner, "its part of the sum");
            am.wait_until(awaited, |parts| parts[round].is_some())?;
            sum += am.state()[round].unwrap_or(0);
        }
        Ok(sum)
    }
}
fn main() -> Result<(), Box<dyn std::error::Error>> {
    for combination in Combination::FOUR {
        let outcome = run(&Setup::new(combination, Costs::psnow()?, 64), &Sum)?;
        let mut sums = outcome.processes.iter().map(|process| process.output);
        assert!(sums.all(|sum| sum == (0..64).sum()));
        println!("{}: {} µs", combination.name(), outcome.ended / MICROSECOND);
    }
    Ok(())
}
