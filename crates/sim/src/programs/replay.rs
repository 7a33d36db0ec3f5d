//! Replays a recorded program ([`Trace`]): the computation, sends and receives of each process.
//!
//! Sends never wait for their receivers. A receive waits until the number of messages that the
//! trace states have arrived from its sender, as messages between two processes arrive in the order
//! in which they were sent.

use std::sync::Arc;

use super::Program;
use super::trace::{Action, Trace};
use crate::am::port::{Awaited, Rank, Work};
use crate::am::{ActiveMessages, AmError, Arrival, HandlerId, Handlers};
use crate::substrates::Costs;

/// A trace as a program.
#[derive(Clone, Debug)]
pub struct Replay {
    trace: Arc<Trace>,
    operations_per_us: f64,
}

impl Replay {
    /// A program that replays a trace on hosts of these costs; computing times are multiplied by the factor.
    pub fn new(trace: Trace, costs: &Costs, scale: f64) -> Self {
        let per_us = costs.hardware.host_clock as f64 / 1e6;
        Self {
            trace: Arc::new(trace),
            operations_per_us: scale * per_us / costs.programs.integer.max(1) as f64,
        }
    }
}

/// Messages that have arrived from each process.
#[derive(Debug, Default)]
pub struct Received(Vec<u64>);

const ON_MESSAGE: HandlerId = HandlerId(0);

fn on_message(arrival: &mut Arrival<'_, Received>) -> Result<(), AmError> {
    let from = arrival.word(0)? as usize;
    match arrival.state.0.get_mut(from) {
        Some(count) => *count += 1,
        None => return Err(arrival.refuse("a message of no process")),
    }
    Ok(())
}

impl Program for Replay {
    type State = Received;
    type Output = ();

    fn handlers() -> &'static Handlers<Received> {
        &[on_message]
    }

    fn begin(&self, _rank: Rank, ranks: u32) -> Result<Received, AmError> {
        if ranks != self.trace.ranks() {
            let expected = self.trace.ranks();
            let wrong = format!("the trace has {expected} processes, not {ranks}");
            return Err(AmError::WrongResult(wrong));
        }
        Ok(Received(vec![0; ranks as usize]))
    }

    fn run<A: ActiveMessages<State = Received>>(&self, am: &mut A) -> Result<(), AmError> {
        let rank = am.rank();
        // Messages consist of whole words.
        let region = am.make_region(self.trace.longest.next_multiple_of(8) as usize)?;
        let trace = Arc::clone(&self.trace);
        for event in trace.ranks.get(rank as usize).into_iter().flatten() {
            am.work(Work {
                integer: (event.compute_us * self.operations_per_us) as u64,
                ..Work::default()
            });
            match event.action {
                Action::Send(to, 0) => am.request(to, ON_MESSAGE, &[u64::from(rank)])?,
                Action::Send(to, bytes) => {
                    let span = region.at(0).span(bytes.next_multiple_of(4));
                    am.store(to, span, region.at(0), ON_MESSAGE, u64::from(rank))?;
                }
                Action::Receive(from, wanted) => {
                    let from_peer = Awaited::from(from, "a message of the trace");
                    am.wait_until(from_peer, |state| state.0[from as usize] >= wanted)?;
                }
                Action::Nothing => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::MICROSECOND;
    use crate::substrates::{Combination, Costs, Setup, run};

    const RING: &str = "# a token goes round\n0 send 1 4096 100\n0 recv 2 4096 0\n1 recv 0 4096 0\n1 send 2 4096 50\n\
                        2 recv 1 4096 0 # the last\n2 send 0 4096 50\n\n1 compute - 0 10.5\n";

    fn time_us(text: &str, latency_us: u64, scale: f64) -> u64 {
        let costs = Costs::psnow().expect("the costs are right");
        let trace = Trace::parse(text).expect("it is a trace");
        let combination = Combination::Direct(latency_us * MICROSECOND);
        let setup = Setup::new(combination, costs, trace.ranks());
        let outcome = run(&setup, &Replay::new(trace, &costs, scale)).expect("it runs");
        outcome.ended / MICROSECOND
    }

    #[test]
    fn computing_and_messages_take_their_time() {
        // 100 + 50 + 50 µs, three messages, and what the layer takes of each.
        let (near, far) = (time_us(RING, 10, 1.0), time_us(RING, 110, 1.0));
        assert!((230..290).contains(&near), "{near} µs");
        assert!((295..=305).contains(&(far - near)), "{near}, {far} µs");
        // The 200 µs three times.
        let slow = time_us(RING, 10, 3.0);
        assert!((395..=405).contains(&(slow - near)), "{near}, {slow} µs");
    }

    #[test]
    fn a_receive_waits_for_its_own_message_and_not_for_later_ones() {
        let text = |receives: &str| format!("0 send 1 8 0 1\n0 send 1 8 400 2\n{receives}");
        let in_order = time_us(&text("1 recv 0 8 0 1\n1 recv 0 8 300 2\n"), 10, 1.0);
        let turned = time_us(&text("1 recv 0 8 0 2\n1 recv 0 8 300 1\n"), 10, 1.0);
        // The second message is sent after 400 µs: events before its receive happen meanwhile, events after it do not.
        assert!((410..470).contains(&in_order), "{in_order} µs");
        assert!((710..770).contains(&turned), "{turned} µs");
    }

    #[test]
    fn a_collective_operation_takes_as_many_latencies_as_it_has_rounds() {
        let each = |operation: &str| -> String {
            let lines = (0..8).map(|rank| format!("{rank} {operation}\n"));
            lines.collect()
        };
        for (operation, rounds) in [
            ("barrier - 0 0", 3),
            ("allreduce - 8 0", 3),
            ("bcast 5 8 0", 3),
            ("alltoall - 8 0", 1),
            ("scan - 8 0", 7),
        ] {
            let text = each(operation);
            let (near, far) = (time_us(&text, 0, 1.0), time_us(&text, 1_000, 1.0));
            let found = (far - near + 500) / 1_000;
            assert_eq!(found, rounds, "{operation}: {near}, {far} µs");
        }
    }

    #[test]
    fn a_trace_of_other_processes_is_refused() {
        let costs = Costs::psnow().expect("the costs are right");
        let trace = Trace::parse(RING).expect("it is a trace");
        let program = Replay::new(trace, &costs, 1.0);
        assert!(program.begin(0, 4).is_err());
        assert!(program.begin(0, 3).is_ok());
    }
}
