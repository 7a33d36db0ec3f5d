//! Thousands of simulated networks. `CAUSEWAY_SEEDS` says how many, `CAUSEWAY_SEED` runs just one.

use std::panic::catch_unwind;

use causeway_testkit::simulator::sabotage::Sabotage;
use causeway_testkit::simulator::{Outcome, messages, methods, streams};

/// Seeds of an ordinary run, of which each kind of network has its share.
const SEEDS: u64 = 10_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs `run` for every seed of those that are asked for, in percent, on all cores.
fn every_seed(test: &str, percent: u64, run: fn(u64) -> Outcome) {
    let only = number("CAUSEWAY_SEED");
    let count = number("CAUSEWAY_SEEDS").unwrap_or(SEEDS) * percent / 100;
    let seeds: Vec<u64> = only.map_or_else(|| (1..=count).collect(), |seed| vec![seed]);
    let next = std::sync::atomic::AtomicUsize::new(0);
    let sums = std::sync::Mutex::new([0; 3]);
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(&seed) = seeds.get(at) else { return };
                    let Ok(outcome) = catch_unwind(|| run(seed)) else {
                        panic!("seed {seed} failed; run it again: make simulate SEED={seed}");
                    };
                    let mut sums = sums.lock().expect("no panic in between");
                    for (sum, more) in
                        sums.iter_mut()
                            .zip([outcome.datagrams, outcome.packets, outcome.transfers])
                    {
                        *sum += more;
                    }
                }
            });
        }
    });
    let [datagrams, packets, transfers] = sums.into_inner().expect("no panic");
    println!(
        "{test}: {} seeds, {datagrams} datagrams, {packets} packets, {transfers} transfers",
        seeds.len()
    );
    assert!(only.is_some() || packets > 0, "something must have arrived");
}

#[test]
fn methods_keep_their_promises_in_every_network() {
    every_seed("methods", 50, |seed| methods::run(seed, None));
}

#[test]
fn message_layers_keep_their_promises_in_every_network() {
    every_seed("messages", 20, messages::run);
}

#[test]
fn sessions_keep_their_promises_on_every_stream() {
    every_seed("streams", 30, streams::run);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 1..=30 {
        let one = methods::run(seed, None);
        assert!(one.datagrams > 0);
        assert!(one == methods::run(seed, None), "seed {seed}");
        assert!(messages::run(seed) == messages::run(seed), "seed {seed}");
        assert!(streams::run(seed) == streams::run(seed), "seed {seed}");
    }
}

/// A checker that never complains proves nothing.
#[test]
fn mistakes_on_purpose_are_noticed() {
    for sabotage in [
        Sabotage::AcknowledgeEverything,
        Sabotage::DeliverTwice,
        Sabotage::IgnoreChecksum,
    ] {
        let noticed =
            (1..=20).any(|seed| catch_unwind(|| methods::run(seed, Some(sabotage))).is_err());
        assert!(noticed, "{sabotage:?}");
    }
}
