//! How many events the simulator handles in a second of one core, for scenarios of chapter 4 with 508 interfaces in use on a node:
//!
//! ```text
//! cargo run --release -p causeway-sim --example speed -- [nodes [rounds [design]]]
//! ```
//!
//! One node represents a cluster of 128 if `nodes` is 1, the default; with any other number the whole cluster of that size is
//! simulated. What counts is processor time, not time that others had the core, and the best of several runs, as a neighbour on
//! the other half of the core or in the caches makes each event slower.
#![forbid(unsafe_code)]

use std::error::Error;
use std::time::{Duration, Instant};

use causeway_sim::engine::MILLISECOND;
use causeway_sim::profile::Profile;
use causeway_sim::workloads::design::Design;
use causeway_sim::workloads::scaling::{self, Extent, Kind, Load, Order, Peers};

/// The designs of chapter 4.
const DESIGNS: [Design; 5] = [
    Design::Base,
    Design::BaseO,
    Design::BaseODmaq,
    Design::DoorODmaq,
    Design::DoorODmaq2Cpu,
];

/// Interfaces of a node, all of which are used: four processes in a cluster of 128 nodes.
const INTERFACES: usize = 508;

/// Runs of each scenario.
const RUNS: usize = 9;

/// The processor time of this thread, if the system reports it.
fn processor_time() -> Option<Duration> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds = told.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let nodes: usize = args.next().map_or(Ok(1), |arg| arg.parse())?;
    let rounds = args.next().map_or(Ok(200), |arg| arg.parse())?;
    let chosen = args.next();
    let via = Profile::shipped("via")?;
    for design in DESIGNS {
        if chosen.as_deref().is_some_and(|name| name != design.name()) {
            continue;
        }
        let load = Load {
            nodes: if nodes == 1 { 128 } else { nodes },
            peers: Peers::All,
            kind: Kind::Active(INTERFACES),
            order: Order::default(),
            bytes: 4_096,
            burst: 1,
            completion_queue: false,
            rounds,
            extent: match nodes {
                1 => Extent::Representative,
                _ => Extent::Whole,
            },
            seed: 1,
        };
        let (mut best, mut last) = (f64::INFINITY, None);
        for _ in 0..RUNS {
            let (begun, had) = (Instant::now(), processor_time());
            let outcome = scaling::run(&via, &design.settings(), &load)?;
            let took = match (had, processor_time()) {
                (Some(had), Some(has)) => has.saturating_sub(had),
                _ => begun.elapsed(),
            };
            best = best.min(took.as_secs_f64());
            last = Some(outcome);
        }
        let Some(outcome) = last else {
            continue;
        };
        println!(
            "{:18} {} events, {:.1} million and {:.2} ms of virtual time each second",
            design.name(),
            outcome.events,
            outcome.events as f64 / best / 1e6,
            outcome.simulated as f64 / best / MILLISECOND as f64,
        );
    }
    Ok(())
}
