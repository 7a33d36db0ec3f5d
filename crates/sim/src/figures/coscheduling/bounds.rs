//! What the printed times leave to any model: bounds that hold whatever schedules the processes.
//!
//! - *Work is conserved*: a workload takes at least as long as its jobs alone, one after the other, as each has a process on each node.
//! - *More work takes no less time*: a workload that has jobs more than another one, or jobs that communicate more, takes at least as long. No
//!   law says so; it is what one expects of a model.
//! - *Somebody is at work*: if a process that waits gives up its processor after a limited spin, then some node is busy, or a message is
//!   on its way, at each moment. So a run takes at most as long as all nodes together are busy.

use super::printed::COMPLETION;
use super::{ALONE_S, Strategy};
use crate::coscheduling::costs::Costs;
use crate::coscheduling::programs::NODES;
use crate::coscheduling::workloads::{self, Kind, WORKLOADS};
use crate::engine::SECOND;

/// How far a simulated time may be from the printed one.
pub const TOLERANCE: f64 = 0.15;

/// Whether a job takes as long alone as another one, and is the same or communicates less: LIFE with 3.5 % instead of 12 %, or EP, which hardly
/// communicates.
fn communicates_less(one: Kind, other: Kind) -> bool {
    one == other || one == Kind::Ep || (one, other) == (Kind::LifeLow, Kind::LifeHigh)
}

/// Whether each job of a workload has a counterpart of its own in another one that communicates at least as much.
fn is_part_of(smaller: &[Kind], larger: &[Kind]) -> bool {
    let Some((first, rest)) = smaller.split_first() else {
        return true;
    };
    larger.iter().enumerate().any(|(place, counterpart)| {
        let others: Vec<Kind> = [&larger[..place], &larger[place + 1..]].concat();
        communicates_less(*first, *counterpart) && is_part_of(rest, &others)
    })
}

/// Seconds that a workload's jobs take alone, one after the other.
fn alone(jobs: &[Kind]) -> f64 {
    ALONE_S * jobs.len() as f64
}

/// The times of a strategy, in seconds, between which each workload's has to be, if the entries that are `chosen` are all met: work is
/// conserved, and more work takes no less time.
fn limits(times: &[u16; 12], chosen: impl Fn(usize) -> bool) -> [(f64, f64); 12] {
    std::array::from_fn(|workload| {
        let jobs = WORKLOADS[workload];
        let (mut least, mut most) = (alone(jobs), f64::INFINITY);
        for (other, &time) in times.iter().enumerate().filter(|(other, _)| chosen(*other)) {
            if is_part_of(WORKLOADS[other], jobs) {
                least = least.max((1.0 - TOLERANCE) * f64::from(time));
            }
            if is_part_of(jobs, WORKLOADS[other]) {
                most = most.min((1.0 + TOLERANCE) * f64::from(time));
            }
        }
        (least, most)
    })
}

/// The printed times of a strategy, between which limits each has to be if all entries of the strategy are met, and how many can be met
/// at most.
pub struct Row {
    /// The strategy's name.
    pub strategy: &'static str,
    /// Seconds, workloads 1 to 12.
    pub printed: [u16; 12],
    /// The least and the most. If the first is larger, not all entries can be met.
    pub limits: [(f64, f64); 12],
    /// How many of the entries can be met together.
    pub most: u32,
}

/// The rows of Tables 6.4 to 6.6.
pub fn rows() -> impl Iterator<Item = Row> {
    let rows = Strategy::THESIS.into_iter().zip(COMPLETION);
    rows.map(|((strategy, _), printed)| Row {
        strategy,
        printed,
        limits: limits(&printed, |_| true),
        most: most_that_can_be_met(&printed),
    })
}

/// How many entries of a strategy can be met together. Such times exist for those that are chosen if no limit is crossed: a workload then takes the least.
fn most_that_can_be_met(times: &[u16; 12]) -> u32 {
    let is_possible = |chosen: u32| {
        let has = |workload: usize| chosen >> workload & 1 == 1;
        let limits = limits(times, has);
        let mut of_chosen = limits.iter().enumerate().filter(|(place, _)| has(*place));
        of_chosen.all(|(_, (least, most))| least <= most)
    };
    let possible = (0_u32..1 << WORKLOADS.len()).filter(|&chosen| is_possible(chosen));
    possible.map(u32::count_ones).max().unwrap_or(0)
}

/// An entry of a strategy that blocks, if each wait for a message gave up after its spin and slept.
pub struct Blocking {
    /// The strategy's name.
    pub strategy: &'static str,
    /// The workload, from 1.
    pub workload: usize,
    /// The printed time, in seconds.
    pub printed: f64,
    /// All nodes together are busy for at most this long, in seconds, so that the run takes no longer.
    pub most: f64,
    /// How many times as many messages the programs would need for the printed time, less 15 %.
    pub messages: f64,
}

/// The entries of the strategies that block whose printed time is more than 15 % above what all nodes together would be busy for if each wait
/// blocked.
///
/// For each message a process spins at most twice: until it blocks, and when it has been woken until the message is there or it blocks
/// again, which takes another message. Time alone includes all waits for messages on their way.
pub fn slower_than_blocking(costs: &Costs) -> Vec<Blocking> {
    let host = costs.host;
    let wait = 2 * (costs.times.spin + host.switch) + host.driver_call + host.interrupt;
    let nodes = NODES as f64;
    let mut found = Vec::new();
    for ((strategy, how), times) in Strategy::THESIS.into_iter().zip(COMPLETION) {
        if how.waiting != causeway_cosched::Waiting::Block {
            continue;
        }
        for (place, printed) in times.into_iter().map(f64::from).enumerate() {
            let jobs = workloads::jobs(place + 1, &costs.grains);
            let received: u64 = jobs.iter().map(|job| job.receives()).sum();
            let waits = (received * wait) as f64 / SECOND as f64;
            let alone = alone(WORKLOADS[place]);
            let least = (1.0 - TOLERANCE) * printed;
            let most = nodes * (alone + waits);
            if least > most {
                found.push(Blocking {
                    strategy,
                    workload: place + 1,
                    printed,
                    most,
                    messages: (least / nodes - alone) / waits,
                });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_quarters_of_the_entries_are_not_excluded_by_one_another() {
        let most: Vec<u32> = rows().map(|row| row.most).collect();
        // LOCAL and PB have one each, 3 or 12, that cannot be met if the others are.
        assert_eq!(most, [11, 12, 12, 12, 11, 12, 12, 12, 12, 12]);
        assert_eq!(most.iter().sum::<u32>(), 118);
    }

    #[test]
    fn limits_are_crossed_only_where_entries_exclude_each_other() {
        for row in rows() {
            let crossed = row.limits.iter().any(|(least, most)| least > most);
            assert_eq!(crossed, row.most < 12, "{}", row.strategy);
            for (printed, (least, _)) in row.printed.into_iter().zip(row.limits) {
                assert!(f64::from(printed) >= 25.0 * 2.0 && least >= 50.0);
            }
        }
    }

    #[test]
    fn spin_block_is_slower_than_it_could_be_if_every_wait_blocked() {
        let costs = Costs::shipped().expect("the profile is right");
        let found = slower_than_blocking(&costs);
        let entries: Vec<_> = found.iter().map(|of| (of.strategy, of.workload)).collect();
        assert_eq!(entries, [("SB", 4), ("SB", 5), ("PB-SB", 5)]);
        assert!(
            found
                .iter()
                .all(|of| of.messages > 1.0 && of.most < of.printed)
        );
    }
}
