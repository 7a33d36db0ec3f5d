//! Fits the values of `profiles/coscheduling.toml` to one half of the entries of Tables 6.4 to 6.6, which a seed chooses, and holds
//! the other half out:
//!
//! ```text
//! cargo run --release -p causeway-sim --example coscheduling_fit -- SEED ROUNDS [SPAN]
//! ```
//!
//! Each round changes some values, or takes another of the profile's words, and keeps that if the fitted half comes closer. A value is for
//! all workloads and strategies. Programs are shortened so that an entry takes about `SPAN` seconds (40) of virtual time.
#![forbid(unsafe_code)]

use std::error::Error;

use causeway_cosched::Strategy;
use causeway_sim::coscheduling::costs::Costs;
use causeway_sim::coscheduling::{Experiment, run, workloads};
use causeway_sim::engine::SECOND;
use causeway_sim::figures::coscheduling::printed;
use causeway_sim::profile::edit;
use causeway_sim::workloads::random::Random;

/// Values that are chosen or fitted: section, key, unit.
const VALUES: [(&str, &str); 14] = [
    ("host.switch", " us"),
    ("host.interrupt", " us"),
    ("host.driver_call", " us"),
    ("host.look", " us"),
    ("host.look_for_newest", " us"),
    ("host.daemon_interval", " ms"),
    ("host.daemon_work", " ms"),
    ("messages.compare", " us"),
    ("messages.sample_work", " us"),
    ("life_low.imbalance", ""),
    ("life_high.imbalance", ""),
    ("mg.imbalance", ""),
    ("lu.imbalance", ""),
    ("strategies.spin", " us"),
];

/// Programs whose iterations may be longer or shorter, of which there are fewer or more then.
const PROGRAMS: [&str; 4] = ["life_low", "life_high", "mg", "lu"];

/// What the text leaves open.
const WORDS: [(&str, &[&str]); 6] = [
    (
        "ts_dptbl.moved",
        &["keeps its own", "keeps its quantum", "changes"],
    ),
    ("ts_dptbl.woken", &["always", "once in a while"]),
    ("messages.waits", &["spin", "give up"]),
    ("messages.collectives", &["spin", "give up"]),
    ("messages.window", &["0", "1", "2", "3"]),
    ("strategies.woken", &["spins", "blocks again"]),
];

/// Entries of a strategy, workloads 1 to 12.
const WORKLOADS: usize = 12;

fn number_of(text: &str, key: &str) -> Option<f64> {
    let found = edit::entries(text)
        .into_iter()
        .find(|entry| entry.key == key)?;
    found.value.split_whitespace().next()?.parse().ok()
}

fn with_number(text: &str, key: &str, value: f64, unit: &str) -> Option<String> {
    let value = match unit {
        "" => format!("{:.0}", value.max(1.0)),
        unit => format!("{value:.3}{unit}"),
    };
    edit::with_value(text, key, &value)
}

/// The text with something else in it.
fn changed(text: &str, random: &mut Random) -> Option<String> {
    let place = random.below((VALUES.len() + PROGRAMS.len() + WORDS.len()) as u64) as usize;
    // Between two thirds and one and a half, most often near one.
    let unit = |random: &mut Random| random.below(1 << 20) as f64 / f64::from(1 << 20);
    let factor = 1.5_f64.powf(unit(random) + unit(random) - 1.0);
    if let Some((key, unit)) = VALUES.get(place) {
        return with_number(text, key, number_of(text, key)? * factor, unit);
    }
    if let Some(program) = PROGRAMS.get(place - VALUES.len()) {
        let key = |name: &str| format!("{program}.{name}");
        let (compute, iterations) = (key("compute"), key("iterations"));
        let longer = with_number(text, &compute, number_of(text, &compute)? * factor, " ms")?;
        return with_number(
            &longer,
            &iterations,
            number_of(text, &iterations)? / factor,
            "",
        );
    }
    let (key, words) = WORDS[place - VALUES.len() - PROGRAMS.len()];
    edit::with_value(text, key, words[random.below(words.len() as u64) as usize])
}

/// The logarithm of simulated over printed, for each entry.
fn logarithms(costs: &Costs, span: f64) -> Vec<f64> {
    let entry = |strategy: Strategy, workload: usize| {
        let printed = printed::completion(strategy, workload).unwrap_or(f64::NAN);
        let shorter = (printed / span).clamp(1.0, 40.0) as u32;
        let mut costs = costs.clone();
        costs.host.job_skew = (costs.host.job_skew / u64::from(shorter)).max(1);
        let jobs: Vec<_> = workloads::jobs(workload, &costs.grains)
            .into_iter()
            .map(|job| job.shortened(shorter))
            .collect();
        let experiment = Experiment {
            costs: &costs,
            settings: costs.settings(strategy),
            jobs: &jobs,
            seed: 1,
            probe: None,
        };
        let took = run(&experiment).map_or(f64::INFINITY, |outcome| {
            outcome.completion() as f64 / SECOND as f64 * f64::from(shorter)
        });
        (took / printed).ln()
    };
    let entries = Strategy::THESIS
        .iter()
        .flat_map(|&(_, strategy)| (1..=WORKLOADS).map(move |workload| (strategy, workload)));
    entries
        .map(|(strategy, workload)| entry(strategy, workload))
        .collect()
}

/// How far entries are off: the mean of their logarithms' sizes, none counted as more than 2; and how many are within 15 %.
fn apart(logarithms: &[f64], chosen: &[bool], which: bool) -> (f64, usize) {
    let of = || {
        let pairs = logarithms.iter().zip(chosen);
        pairs.filter(|(_, is)| **is == which).map(|(log, _)| *log)
    };
    let sum: f64 = of().map(|log| log.abs().min(2.0)).sum();
    let met = of().filter(|log| (log.exp() - 1.0).abs() <= 0.15).count();
    (sum / of().count().max(1) as f64, met)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let seed = args.next().map_or(Ok(1), |arg| arg.parse())?;
    let rounds: u32 = args.next().map_or(Ok(100), |arg| arg.parse())?;
    let span: f64 = args.next().map_or(Ok(40.0), |arg| arg.parse())?;
    let mut random = Random::new(seed);
    let entries = Strategy::THESIS.len() * WORKLOADS;
    let fitted: Vec<bool> = (0..entries).map(|_| random.below(2) == 0).collect();
    let mut text = include_str!("../profiles/coscheduling.toml").to_owned();
    let mut found = logarithms(&Costs::read("coscheduling.toml", &text)?, span);
    for round in 0..=rounds {
        let mut other = text.clone();
        for _ in 0..=random.below(3) {
            other = changed(&other, &mut random).unwrap_or(other);
        }
        // What the profile's reader refuses is not tried.
        let costs = Costs::read("coscheduling.toml", &other).ok();
        let costs = costs.filter(|_| round > 0);
        if let Some(costs) = &costs {
            let tried = logarithms(costs, span);
            if apart(&tried, &fitted, true).0 >= apart(&found, &fitted, true).0 {
                continue;
            }
            (found, text) = (tried, other);
        }
        let (near, met) = apart(&found, &fitted, true);
        let (held_near, held_met) = apart(&found, &fitted, false);
        println!(
            "{round}: fitted {met} within 15 %, mean |log| {near:.3}; held out {held_met} of {}, {held_near:.3}",
            fitted.iter().filter(|is| !**is).count()
        );
    }
    let shipped = edit::entries(include_str!("../profiles/coscheduling.toml"));
    for (shipped, entry) in shipped.iter().zip(edit::entries(&text)) {
        if shipped.value != entry.value {
            println!("{} = {} ({})", entry.key, entry.value, shipped.value);
        }
    }
    Ok(())
}
