//! A model of the whole: real servers, real clients, real faults, and every read compared with what it may return.
//!
//! A run is drawn from its seed ([`plan`]): phases in which several clients work, two with the library
//! ([`library`]) and one with the command ([`command`]), while servers are killed, stopped, full, or started on
//! directories that are not theirs or not as they were ([`world`]). Reads return bytes that were written
//! ([`content`]) to files that there are ([`names`]), or an error that the fault of the moment excuses
//! ([`conditions`]). Three more clients of the library overwrite each other in a file each block of which is a
//! linearizable register, and give up and go on where storage stalls ([`registers`]). After each phase all is well again, and everything that was ever acknowledged must be there.
//!
//! `CAUSEWAY_SEED=n` runs one seed, `CAUSEWAY_SEEDS=n` that many (`make torture`). How threads and processes are
//! scheduled is not drawn from the seed: a failure that needs a certain order may need several tries.
#![forbid(unsafe_code)]

mod command;
mod conditions;
mod content;
mod library;
mod names;
mod plan;
mod registers;
mod run;
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use causeway_fs::sabotage::Sabotage;
use plan::{Damage, Fault, Plan};
use run::{Violation, run};

/// Seeds that every test run takes.
const USUAL_SEEDS: u64 = 12;
/// Seeds in which a sabotage must show.
const SABOTAGE_SEEDS: u64 = 40;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs seeds on all processors, as far as the first that fails.
fn run_seeds(
    first: u64,
    count: u64,
    only: Option<fn(&Fault) -> bool>,
    sabotage: Option<Sabotage>,
) -> Option<(u64, Box<Violation>)> {
    let next = AtomicU64::new(0);
    let failed: Mutex<Option<(u64, Box<Violation>)>> = Mutex::new(None);
    let started = Instant::now();
    // Runs wait more than they compute.
    let threads = std::thread::available_parallelism().map_or(2, |number| number.get()) * 2;
    std::thread::scope(|scope| {
        for _ in 0..threads.min(count as usize) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count || failed.lock().unwrap().is_some() {
                        return;
                    }
                    let seed = first + index;
                    let plan = Plan::new(seed, only);
                    let outcome = run(seed, &plan, sabotage.map(Sabotage::name));
                    if let Err(violation) = outcome {
                        failed.lock().unwrap().get_or_insert((seed, violation));
                    }
                    if count >= 100 && (index + 1).is_multiple_of(50) {
                        eprintln!("{} of {count} seeds, {:?}", index + 1, started.elapsed());
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap()
}

#[test]
fn reads_return_what_was_written_or_an_error() {
    let first = number("CAUSEWAY_SEED");
    let count = match first {
        Some(_) => 1,
        None => number("CAUSEWAY_SEEDS").unwrap_or(USUAL_SEEDS),
    };
    let first = first.unwrap_or(1);
    if let Some((seed, violation)) = run_seeds(first, count, None, None) {
        for line in &violation.trace {
            eprintln!("{line}");
        }
        panic!(
            "seed {seed}: {} (CAUSEWAY_SEED={seed} runs it again)",
            violation.what
        );
    }
}

/// Whether a fault is one of those that show a weakness.
type IsFault = fn(&Fault) -> bool;

/// Each weakness that is built in on purpose shows within some seeds.
#[test]
fn weaknesses_are_noticed() {
    let flips = |fault: &Fault| is_damage(fault, Damage::Flipped);
    let strangers = |fault: &Fault| is_damage(fault, Damage::Foreign);
    let losses =
        |fault: &Fault| is_damage(fault, Damage::Shortened) || is_damage(fault, Damage::Deleted);
    let stalls = |fault: &Fault| matches!(fault, Fault::Frozen { .. });
    let cases: [(Sabotage, IsFault); 5] = [
        (Sabotage::SkipChecksum, flips),
        (Sabotage::AcceptDirectory, strangers),
        (Sabotage::IgnoreLength, losses),
        (Sabotage::StaleWrites, stalls),
        (Sabotage::BlindScrub, flips),
    ];
    for (sabotage, only) in cases {
        let found = run_seeds(1, SABOTAGE_SEEDS, Some(only), Some(sabotage));
        let (seed, violation) = found.unwrap_or_else(|| {
            panic!(
                "{} shows in none of {SABOTAGE_SEEDS} seeds",
                sabotage.name()
            )
        });
        eprintln!("{}: seed {seed}: {}", sabotage.name(), violation.what);
    }
}

/// Whether a fault is this damage to an I/O server.
fn is_damage(fault: &Fault, damage: Damage) -> bool {
    matches!(fault, Fault::Wrong { server: 1.., how } if *how == damage)
}
