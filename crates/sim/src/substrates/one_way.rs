//! A message's journey from the call to send to the return of the call to receive (figures 2.1 to 2.5): ping-pong with the substrate's
//! own send and receive, without Active Messages.

use super::{Combination, Costs, Journey, Setup, SimError, SimPort, run_on_ports};
use crate::am::port::{Arguments, Awaited, Fragment, Kind, Message, Port, Work};
use crate::am::{AmError, HandlerId, Region};
use crate::engine::Time;

/// Data of the message that figures 2.1, 2.2, 2.4 and 2.5 follow: a short one, and it fits in two cells.
pub const SHORT_BYTES: usize = 32;

/// The number of round trips.
const ITERATIONS: u32 = 64;

/// The average one-way time, and its stages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OneWay {
    /// From call to return.
    pub total: Time,
    /// The stages in order. The last is the rest: waiting for the next poll, at either end.
    pub stages: Vec<(&'static str, Time)>,
}

/// A message with data that is not read.
fn message(bytes: usize) -> Message {
    let place = Region(0).at(0);
    Message {
        kind: Kind::Store(Fragment {
            from: place,
            into: place,
            landed: None,
            bytes: vec![0; bytes],
        }),
        handler: HandlerId(0),
        arguments: Arguments::default(),
    }
}

fn send(port: &mut SimPort<'_>, to: u32, bytes: usize) -> Result<(), AmError> {
    match port.send(to, message(bytes))? {
        None => Ok(()),
        Some(_) => Err(AmError::WrongResult("no room for one message".into())),
    }
}

fn receive(port: &mut SimPort<'_>, from: u32) -> Result<(), AmError> {
    while port.receive()?.is_none() {
        port.wait(Awaited::from(from, "a message"))?;
    }
    Ok(())
}

/// Process 0 sends, process 1 sends back, this many times. Before each send, the processor computes for a while that grows by
/// `pause` operations, so that nothing stays in step.
pub(super) fn ping_pong(
    mut port: SimPort<'_>,
    rank: u32,
    bytes: usize,
    iterations: u32,
    pause: u64,
) -> Result<(), AmError> {
    port.attach(Region(0), bytes)?;
    let other = 1 - rank.min(1);
    for iteration in 0..iterations {
        if rank > 0 {
            receive(&mut port, other)?;
        }
        port.work(Work {
            integer: u64::from(iteration) * pause,
            ..Work::default()
        });
        send(&mut port, other, bytes)?;
        if rank == 0 {
            receive(&mut port, other)?;
        }
    }
    Ok(())
}

/// The journeys of the messages of a short ping-pong with `bytes` of data, for a timeline.
pub fn ways(
    combination: Combination,
    costs: Costs,
    bytes: usize,
) -> Result<Vec<Journey>, SimError> {
    journeys(&pair(combination, costs), bytes, 8)
}

/// The journeys of all messages of a ping-pong with `bytes` of data.
fn journeys(setup: &Setup, bytes: usize, iterations: u32) -> Result<Vec<Journey>, SimError> {
    let outcome = run_on_ports(setup, |rank| {
        move |port: SimPort<'_>| ping_pong(port, rank, bytes, iterations, 0)
    })?;
    Ok(outcome.journeys)
}

fn pair(combination: Combination, costs: Costs) -> Setup {
    Setup {
        keeps_journeys: true,
        ..Setup::new(combination, costs, 2)
    }
}

/// The average of several journeys.
pub fn average(journeys: &[Journey]) -> OneWay {
    let count = (journeys.len() as u64).max(1);
    let mut stages: Vec<(&'static str, Time)> = Vec::new();
    let mut total = 0;
    for journey in journeys {
        total += journey.returned - journey.called;
        for &(name, time) in &journey.stages {
            match stages.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += time,
                None => stages.push((name, time)),
            }
        }
    }
    let total = total / count;
    for (_, time) in &mut stages {
        *time /= count;
    }
    let known: Time = stages.iter().map(|(_, time)| time).sum();
    stages.push(("waiting for polls", total.saturating_sub(known)));
    OneWay { total, stages }
}

/// The one-way time of a message with `bytes` of data once all caches are filled.
pub fn warm(combination: Combination, costs: Costs, bytes: usize) -> Result<OneWay, SimError> {
    let journeys = journeys(&pair(combination, costs), bytes, ITERATIONS)?;
    Ok(average(journeys.get(2..).unwrap_or(&[])))
}

/// The one-way time of the very first message, when TLBs are empty.
pub fn cold(combination: Combination, costs: Costs, bytes: usize) -> Result<OneWay, SimError> {
    first(&pair(combination, costs), bytes)
}

/// The one-way time of the very first message, when the pages have also been paged out.
pub fn paged_out(combination: Combination, costs: Costs, bytes: usize) -> Result<OneWay, SimError> {
    let setup = Setup {
        pages_are_out: true,
        ..pair(combination, costs)
    };
    first(&setup, bytes)
}

fn first(setup: &Setup, bytes: usize) -> Result<OneWay, SimError> {
    let journeys = journeys(setup, bytes, 1)?;
    Ok(average(journeys.get(..1).unwrap_or(&[])))
}

/// There and back with `bytes` of data, once everything has been used before.
pub fn round_trip(combination: Combination, costs: Costs, bytes: usize) -> Result<Time, SimError> {
    Ok(2 * warm(combination, costs, bytes)?.total)
}
