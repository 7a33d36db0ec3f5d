//! Replays a recorded program: what each process computed, sent and received.
//!
//! A trace is text, one event a line, with five fields between blanks:
//!
//! ```text
//! # rank operation peer bytes compute_us
//! 0 send 1 4096 120.5
//! 1 recv 0 4096 0
//! 1 compute - 0 300
//! ```
//!
//! `compute_us` is what the process computes before the operation, in microseconds of the simulated host; `compute` does nothing
//! else, and has no peer. Each process's events happen in the order of their lines; lines of different
//! processes may be mixed. The n-th message that a process sends to another is the n-th that this one receives from it, whatever
//! their tags were. What follows `#` is a comment.

use std::sync::Arc;

use super::Program;
use crate::am::port::{Awaited, Rank, Work};
use crate::am::{ActiveMessages, AmError, Arrival, HandlerId, Handlers};
use crate::substrates::Costs;

/// Most processes of a trace.
pub const MOST_RANKS: u32 = 4_096;
/// Longest message of a trace, in bytes.
pub const LONGEST_MESSAGE: u64 = 64 << 20;
/// Longest time between two operations, in microseconds.
const LONGEST_COMPUTE_US: f64 = 1e9;

/// What a process does after it has computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Send(Rank, u64),
    Receive(Rank),
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Event {
    compute_us: f64,
    operation: Operation,
}

/// A recorded program: the events of each process.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    ranks: Vec<Vec<Event>>,
    longest: u64,
}

/// Why a text is no trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A line cannot be read.
    #[error("line {line} of the trace: {why}")]
    Line {
        /// Which, from 1.
        line: usize,
        /// What is wrong, and what is expected.
        why: String,
    },
    /// Messages are sent without being received, or the other way round.
    #[error(
        "process {to} receives {received} messages from process {from}, which sends it {sent}; both must be as many"
    )]
    Unmatched {
        /// The sender.
        from: Rank,
        /// The receiver.
        to: Rank,
        /// Messages that are sent.
        sent: usize,
        /// Messages that are received.
        received: usize,
    },
    /// There is nothing in it.
    #[error("the trace has no events")]
    Empty,
}

impl Trace {
    /// Reads a trace.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut ranks: Vec<Vec<Event>> = Vec::new();
        let mut messages: Vec<(usize, Rank, Rank, u64, bool)> = Vec::new();
        for (place, line) in text.lines().enumerate() {
            let line_number = place + 1;
            let wrong = |why: String| TraceError::Line {
                line: line_number,
                why,
            };
            let fields: Vec<&str> = line
                .split('#')
                .next()
                .unwrap_or_default()
                .split_whitespace()
                .collect();
            if fields.is_empty() {
                continue;
            }
            let (rank, event, bytes) = read_event(&fields).map_err(wrong)?;
            let index = rank as usize;
            if ranks.len() <= index {
                ranks.resize(index + 1, Vec::new());
            }
            ranks[index].push(event);
            match event.operation {
                Operation::Send(to, _) => messages.push((line_number, rank, to, bytes, true)),
                Operation::Receive(from) => messages.push((line_number, from, rank, bytes, false)),
                Operation::Nothing => {}
            }
        }
        if ranks.is_empty() {
            return Err(TraceError::Empty);
        }
        check(&mut messages)?;
        let longest = messages.iter().map(|message| message.3).max();
        Ok(Self {
            ranks,
            longest: longest.unwrap_or(0),
        })
    }

    /// How many processes it has.
    pub fn ranks(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// A program that replays it on hosts of these costs.
    pub fn program(self, costs: &Costs) -> Replay {
        let per_us = costs.hardware.host_clock as f64 / 1e6;
        Replay {
            trace: Arc::new(self),
            operations_per_us: per_us / costs.programs.integer.max(1) as f64,
        }
    }
}

fn read_event(fields: &[&str]) -> Result<(Rank, Event, u64), String> {
    let [rank, operation, peer, bytes, compute] = fields else {
        return Err(format!(
            "there are {} fields; \"rank operation peer bytes compute_us\" is expected",
            fields.len()
        ));
    };
    let process = |text: &str| match text.parse::<u32>() {
        Ok(rank) if rank < MOST_RANKS => Ok(rank),
        _ => Err(format!(
            "`{text}` is no process: 0 to {} are",
            MOST_RANKS - 1
        )),
    };
    let rank = process(rank)?;
    let bytes = match bytes.parse::<u64>() {
        Ok(bytes) if bytes <= LONGEST_MESSAGE => bytes,
        _ => return Err(format!("`{bytes}` is no size: 0 to {LONGEST_MESSAGE} are")),
    };
    let compute_us = match compute.parse::<f64>() {
        Ok(time) if (0.0..=LONGEST_COMPUTE_US).contains(&time) => time,
        _ => {
            return Err(format!(
                "`{compute}` is no time: 0 to {LONGEST_COMPUTE_US} µs are"
            ));
        }
    };
    let other = || match process(peer)? {
        other if other == rank => Err(format!("process {rank} is its own peer")),
        other => Ok(other),
    };
    let operation = match *operation {
        "send" => Operation::Send(other()?, bytes),
        "recv" => Operation::Receive(other()?),
        "compute" if *peer == "-" && bytes == 0 => Operation::Nothing,
        "compute" => return Err("`compute` has the peer `-` and 0 bytes".to_owned()),
        word => {
            return Err(format!(
                "`{word}` is no operation: send, recv and compute are"
            ));
        }
    };
    let event = Event {
        compute_us,
        operation,
    };
    Ok((rank, event, bytes))
}

/// Whether each message is sent and received once, and is as long as is expected.
fn check(messages: &mut [(usize, Rank, Rank, u64, bool)]) -> Result<(), TraceError> {
    // Stable, so that the messages of a pair stay in their order.
    messages.sort_by_key(|&(_, from, to, ..)| (from, to));
    for pair in messages.chunk_by(|a, b| (a.1, a.2) == (b.1, b.2)) {
        let sent: Vec<_> = pair.iter().filter(|message| message.4).collect();
        let received: Vec<_> = pair.iter().filter(|message| !message.4).collect();
        let (_, from, to, ..) = pair[0];
        if sent.len() != received.len() {
            let (sent, received) = (sent.len(), received.len());
            return Err(TraceError::Unmatched {
                from,
                to,
                sent,
                received,
            });
        }
        let unlike = sent
            .iter()
            .zip(&received)
            .find(|(sent, received)| sent.3 != received.3);
        if let Some((sent, received)) = unlike {
            return Err(TraceError::Line {
                line: received.0,
                why: format!(
                    "process {to} receives {} bytes from process {from}; line {} sends {}",
                    received.3, sent.0, sent.3
                ),
            });
        }
    }
    Ok(())
}

/// A trace as a program.
#[derive(Clone, Debug)]
pub struct Replay {
    trace: Arc<Trace>,
    operations_per_us: f64,
}

/// Messages that have come from each process.
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
        // Whole words, as messages carry them.
        let region = am.make_region(self.trace.longest.next_multiple_of(8) as usize)?;
        let mut taken = vec![0; am.ranks() as usize];
        let trace = Arc::clone(&self.trace);
        for event in trace.ranks.get(rank as usize).into_iter().flatten() {
            am.work(Work {
                integer: (event.compute_us * self.operations_per_us) as u64,
                ..Work::default()
            });
            match event.operation {
                Operation::Send(to, 0) => am.request(to, ON_MESSAGE, &[u64::from(rank)])?,
                Operation::Send(to, bytes) => {
                    let span = region.at(0).span(bytes.next_multiple_of(4));
                    am.store(to, span, region.at(0), ON_MESSAGE, u64::from(rank))?;
                }
                Operation::Receive(from) => {
                    let taken = &mut taken[from as usize];
                    *taken += 1;
                    let wanted = *taken;
                    let from_peer = Awaited::from(from, "a message of the trace");
                    am.wait_until(from_peer, |state| state.0[from as usize] >= wanted)?;
                }
                Operation::Nothing => {}
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

    fn time_us(text: &str, latency_us: u64) -> u64 {
        let costs = Costs::psnow().expect("the costs are right");
        let trace = Trace::parse(text).expect("it is a trace");
        let combination = Combination::Direct(latency_us * MICROSECOND);
        let setup = Setup::new(combination, costs, trace.ranks());
        let outcome = run(&setup, &trace.program(&costs)).expect("it runs");
        outcome.ended / MICROSECOND
    }

    #[test]
    fn computing_and_messages_take_their_time() {
        // 100 + 50 + 50 µs, three messages, and what the layer takes of each.
        let (near, far) = (time_us(RING, 10), time_us(RING, 110));
        assert!((230..290).contains(&near), "{near} µs");
        assert!((295..=305).contains(&(far - near)), "{near}, {far} µs");
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_line() {
        let wrong = |text: &str| Trace::parse(text).expect_err("it is wrong").to_string();
        assert!(wrong("0 send 1 8\n").contains("line 1"), "fields");
        assert!(wrong("\n0 put 1 8 0\n").contains("line 2"), "operation");
        assert!(wrong("0 send 0 8 0\n").contains("its own peer"));
        assert!(wrong("0 send 9999 8 0\n").contains("no process"));
        assert!(wrong("0 send 1 -8 0\n").contains("no size"));
        assert!(wrong("0 send 1 8 NaN\n").contains("no time"));
        assert!(wrong("0 compute 1 0 5\n").contains("`-`"));
        assert!(wrong("0 send 1 8 0\n").contains("receives 0 messages"));
        assert!(wrong("0 send 1 8 0\n1 recv 0 9 0\n").contains("line 2"));
        assert!(wrong("# nothing\n").contains("no events"));
    }

    #[test]
    fn a_trace_of_other_processes_is_refused() {
        let costs = Costs::psnow().expect("the costs are right");
        let program = Trace::parse(RING).expect("it is a trace").program(&costs);
        assert!(program.begin(0, 4).is_err());
        assert!(program.begin(0, 3).is_ok());
    }
}
