//! Tables 6.4 to 6.6 with other values than the profile's, as `section.key=value`, beside the printed ones:
//!
//! ```text
//! cargo run --release -p causeway-sim --example coscheduling -- messages.window=4 host.daemon_work="2 ms"
//! ```
//!
//! Each entry is simulated/printed, in seconds, with `=` after those within 15 %; a strategy that the thesis does not have is only simulated.
//! After the table it prints how many entries a factor for each strategy, each workload, or both could meet, chosen with all of them in view. All of it takes half a
//! minute of processor time for each seed. `seeds=N`, `workloads=5,12` and `strategies=SB,PB` choose what is run; `span=120` shortens
//! programs so that an entry takes about 120 s of virtual time. The word `or` begins another model, from the profile's values again; at
//! the end it then prints how many entries are met if each strategy, workload or entry has the model that suits it best. The word `verdicts`
//! prints instead what the text states and whether it holds with the shipped values (with `quick`, in programs that are shortened). The word
//! `bounds` prints what the printed times leave to any model, without a run.
//! With `JOBS` in the environment each run reports its jobs.
#![forbid(unsafe_code)]

use std::error::Error;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use causeway_cosched::Strategy;
use causeway_sim::catalogue::{self, Entry, TaskResult};
use causeway_sim::coscheduling::costs::Costs;
use causeway_sim::coscheduling::{Experiment, run, workloads};
use causeway_sim::engine::SECOND;
use causeway_sim::figures::coscheduling::{bounds, printed};
use causeway_sim::figures::{self, Effort};
use causeway_sim::profile::edit;
use causeway_sim::workloads::random::Random;

const PROFILE: &str = include_str!("../profiles/coscheduling.toml");

/// The runs that are made with each model.
struct Runs {
    seeds: u64,
    workloads: Vec<usize>,
    strategies: Vec<(&'static str, Strategy)>,
    /// The seconds of virtual time that an entry is to take, if programs are shortened.
    span: Option<f64>,
}

/// The longest programs are made this many times shorter.
const SHORTEST: f64 = 40.0;

fn main() -> Result<(), Box<dyn Error>> {
    let mut models = vec![(PROFILE.to_owned(), Vec::new())];
    let mut runs = Runs {
        seeds: 1,
        workloads: (1..=12).collect(),
        strategies: Strategy::all().collect(),
        span: None,
    };
    for arg in std::env::args().skip(1) {
        if ["verdicts", "quick", "bounds"].contains(&arg.as_str()) {
            continue;
        }
        if arg == "or" {
            models.push((PROFILE.to_owned(), Vec::new()));
            continue;
        }
        let Some((key, value)) = arg.split_once('=') else {
            return Err(format!("{arg} is not understood: it should be key=value").into());
        };
        match key {
            "seeds" => runs.seeds = value.parse()?,
            "span" => runs.span = Some(value.parse()?),
            "workloads" => {
                runs.workloads = value.split(',').map(str::parse).collect::<Result<_, _>>()?;
                if let Some(none) = runs.workloads.iter().find(|of| !(1..=12).contains(*of)) {
                    return Err(format!("there is no workload {none}, only 1 to 12").into());
                }
            }
            "strategies" => {
                let named: Vec<&str> = value.split(',').collect();
                let is_known = |name: &&&str| Strategy::all().any(|(known, _)| known == **name);
                if let Some(none) = named.iter().find(|name| !is_known(name)) {
                    return Err(format!("there is no strategy {none}").into());
                }
                runs.strategies.retain(|(name, _)| named.contains(name));
            }
            key => {
                let (text, changes) = models.last_mut().ok_or("no model")?;
                *text = edit::with_value(text, key, value)
                    .ok_or_else(|| format!("the profile has no {key}"))?;
                changes.push(arg);
            }
        }
    }
    if std::env::args().any(|arg| arg == "verdicts") {
        return verdicts();
    }
    if std::env::args().any(|arg| arg == "bounds") {
        print_bounds(&Costs::read("coscheduling.toml", &models[0].0)?);
        return Ok(());
    }
    let mut met = Vec::new();
    for (text, changes) in &models {
        if models.len() > 1 {
            println!("with {}", changes.join(" "));
        }
        met.push(print_table(
            &Costs::read("coscheduling.toml", text)?,
            &runs,
        )?);
    }
    if models.len() > 1 {
        print_met_by_any(&met, &runs);
    }
    Ok(())
}

/// Simulates and prints a model's times. Returns for each strategy and workload whether its entry is met.
fn print_table(costs: &Costs, runs: &Runs) -> Result<Vec<bool>, Box<dyn Error>> {
    let (strategies, chosen) = (&runs.strategies, &runs.workloads);
    let tasks: Vec<(usize, usize)> = (0..strategies.len())
        .flat_map(|s| chosen.iter().map(move |&w| (s, w)))
        .collect();
    let found = Mutex::new(vec![f64::NAN; tasks.len()]);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&(strategy, workload)) = tasks.get(at) else {
                        break;
                    };
                    let time = mean(costs, strategies[strategy].1, workload, runs);
                    if let Ok(mut found) = found.lock() {
                        found[at] = time;
                    }
                }
            });
        }
    });
    let found = found.into_inner()?;
    let (mut are_met, mut all, mut logs) = (Vec::new(), 0, 0.0);
    let mut logarithms = Vec::new();
    for (place, (name, strategy)) in strategies.iter().enumerate() {
        print!("{name:7}");
        for (column, workload) in chosen.iter().enumerate() {
            let time = found[place * chosen.len() + column];
            let printed = printed::completion(*strategy, *workload);
            let is_met = printed.is_some_and(|printed| (time / printed - 1.0).abs() <= 0.15);
            are_met.push(is_met);
            match printed {
                Some(printed) => {
                    all += 1;
                    logs += (time / printed).ln().abs();
                    logarithms.push((place, column, (time / printed).ln()));
                    let mark = if is_met { '=' } else { ' ' };
                    print!(" {time:5.0}/{printed:<4.0}{mark}");
                }
                None => print!(" {time:5.0}      "),
            }
        }
        println!();
    }
    println!(
        "{} of {all} within 15 %, mean |log| {:.3}",
        are_met.iter().filter(|is_met| **is_met).count(),
        logs / f64::from(all.max(1))
    );
    let factors = |free| met_with_factors(&logarithms, strategies.len(), free);
    println!(
        "with the factors that meet the most: {} with one for each strategy, {} for each workload, {} for both",
        factors((true, false)),
        factors((false, true)),
        factors((true, true))
    );
    Ok(are_met)
}

/// Prints how many entries are met if each strategy, each workload or each entry may have the model that suits it best, and those that
/// none meets. Each model has a value for each entry, strategy by strategy.
fn print_met_by_any(met: &[Vec<bool>], runs: &Runs) {
    let (strategies, workloads) = (runs.strategies.len(), runs.workloads.len());
    let most = |entries: &dyn Fn(usize) -> bool| {
        let count = |model: &Vec<bool>| {
            let met = model.iter().enumerate();
            met.filter(|(entry, is_met)| **is_met && entries(*entry))
                .count()
        };
        met.iter().map(count).max().unwrap_or(0)
    };
    let sum = |parts: usize, part_of: &dyn Fn(usize) -> usize| -> usize {
        (0..parts)
            .map(|part| most(&|entry| part_of(entry) == part))
            .sum()
    };
    println!(
        "within 15 % with the model that suits best: {} if each strategy has its own, {} each workload, {} each entry; with none:",
        sum(strategies, &|entry| entry / workloads),
        sum(workloads, &|entry| entry % workloads),
        sum(strategies * workloads, &|entry| entry)
    );
    for (place, (name, strategy)) in runs.strategies.iter().enumerate() {
        let is_met = |column: usize| met.iter().any(|model| model[place * workloads + column]);
        let missed: Vec<String> = (0..workloads)
            .filter(|&column| {
                let printed = printed::completion(*strategy, runs.workloads[column]);
                printed.is_some() && !is_met(column)
            })
            .map(|column| runs.workloads[column].to_string())
            .collect();
        if !missed.is_empty() {
            println!("  {name} {}", missed.join(", "));
        }
    }
}

/// How many entries are met if times are divided by a factor for each strategy, each workload, or both (`free`), chosen with all
/// entries in view. An entry is its strategy, its workload and its logarithm.
///
/// With one kind of factor this is the most that there can be, as each has entries of its own. With both it is the most that a search
/// finds: strategies' and workloads' factors by turns take the values that meet the most, until a round meets no more, from many
/// beginnings.
fn met_with_factors(
    entries: &[(usize, usize, f64)],
    strategies: usize,
    free: (bool, bool),
) -> usize {
    let mut random = Random::new(1);
    let workloads = entries.iter().map(|entry| entry.1 + 1).max().unwrap_or(0);
    let (mut of_strategy, mut of_workload) = (vec![0.0; strategies], vec![0.0; workloads]);
    let mut most = 0;
    let beginnings = match free {
        (true, true) => 4_000,
        _ => 1,
    };
    for _ in 0..beginnings {
        of_strategy.fill(0.0);
        for factor in &mut of_workload {
            *factor = match free {
                (true, true) => random.below(1_200) as f64 / 1e3 - 0.6,
                _ => 0.0,
            };
        }
        let mut before = None;
        loop {
            let mut met = 0;
            if free.0 {
                met = 0;
                for (strategy, factor) in of_strategy.iter_mut().enumerate() {
                    let own = entries.iter().filter(|entry| entry.0 == strategy);
                    let left = own.map(|entry| entry.2 - of_workload[entry.1]);
                    met += best_factor(&left.collect::<Vec<_>>(), factor);
                }
            }
            if free.1 {
                met = 0;
                for (workload, factor) in of_workload.iter_mut().enumerate() {
                    let own = entries.iter().filter(|entry| entry.1 == workload);
                    let left = own.map(|entry| entry.2 - of_strategy[entry.0]);
                    met += best_factor(&left.collect::<Vec<_>>(), factor);
                }
            }
            most = most.max(met);
            if before >= Some(met) {
                break;
            }
            before = Some(met);
        }
    }
    most
}

/// Sets a logarithm of a factor to the one that brings the most of these logarithms within 15 %. Returns their number.
fn best_factor(logarithms: &[f64], factor: &mut f64) -> usize {
    let (low, high) = (0.85_f64.ln() - 1e-12, 1.15_f64.ln() + 1e-12);
    let mut most = 0;
    // Where most intervals overlap, one of them begins.
    for candidate in logarithms.iter().map(|logarithm| logarithm - high) {
        let met = |logarithm: &&f64| (low..=high).contains(&(*logarithm - candidate));
        let met = logarithms.iter().filter(met).count();
        if met > most {
            (most, *factor) = (met, candidate);
        }
    }
    most
}

/// Prints between which times each entry's has to be, if all entries of its strategy are met, and what spinning alone explains.
fn print_bounds(costs: &Costs) {
    println!(
        "least and most seconds, workloads 1 to 12, if work is conserved, more work takes no less time, and all entries are met (! where that is impossible):"
    );
    let mut all = 0;
    for row in bounds::rows() {
        let columns = row.limits.iter().map(|(least, most)| {
            let mark = if least > most { '!' } else { ' ' };
            format!("{least:5.0}-{most:<4.0}{mark}")
        });
        let columns: Vec<String> = columns.collect();
        println!("{:7}{} {}", row.strategy, columns.concat(), row.most);
        all += row.most;
    }
    println!("{all} of 120 can be met together");
    println!("if each wait blocked, all nodes together would be busy for less than the run takes:");
    for of in bounds::slower_than_blocking(costs) {
        println!(
            "{:7} workload {}: {:.0} s busy, {:.0} s printed; {:.2} times as many messages would be needed",
            of.strategy, of.workload, of.most, of.printed, of.messages
        );
    }
}

/// What the text states of Tables 6.4 to 6.7 and figures 6.2 to 6.4.
fn verdicts() -> Result<(), Box<dyn Error>> {
    let effort = match std::env::args().any(|arg| arg == "quick") {
        true => Effort::Quick,
        false => Effort::Full,
    };
    for entry in catalogue::all() {
        if !entry.number().starts_with('6') {
            continue;
        }
        let tasks = entry.tasks(effort)?;
        let found = Mutex::new(tasks.iter().map(|_| None).collect::<Vec<_>>());
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while let Some((at, task)) = {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        tasks.get(at).map(|task| (at, task))
                    } {
                        let result = task.run();
                        if let Ok(mut found) = found.lock() {
                            found[at] = Some(result);
                        }
                    }
                });
            }
        });
        let (mut rows, mut cells) = (Vec::new(), Vec::new());
        for result in found.into_inner()?.into_iter().flatten() {
            match result? {
                TaskResult::Rows(found) => rows.extend(found),
                TaskResult::Cells(found) => cells.extend(found),
            }
        }
        let verdicts = match &entry {
            Entry::Figure(about) => figures::judge(about.number, &rows),
            Entry::Table(table) => table.judge(&cells),
        };
        println!("{} {}", entry.kind(), entry.number());
        for verdict in verdicts {
            println!(
                "  {}  {}: {}",
                verdict.holds,
                verdict.claim,
                verdict.full_evidence()
            );
        }
    }
    Ok(())
}

fn mean(costs: &Costs, strategy: Strategy, workload: usize, runs: &Runs) -> f64 {
    let mut costs = costs.clone();
    let printed = printed::completion(strategy, workload);
    let shorter = match (printed, runs.span) {
        (Some(printed), Some(span)) => (printed / span).clamp(1.0, SHORTEST) as u32,
        _ => 1,
    };
    costs.host.job_skew = (costs.host.job_skew / u64::from(shorter)).max(1);
    let jobs: Vec<_> = workloads::jobs(workload, &costs.grains)
        .into_iter()
        .map(|job| job.shortened(shorter))
        .collect();
    let sum: f64 = (1..=runs.seeds)
        .map(|seed| {
            let experiment = Experiment {
                costs: &costs,
                settings: costs.settings(strategy),
                jobs: &jobs,
                seed,
                probe: None,
            };
            run(&experiment).map_or(f64::NAN, |outcome| {
                if std::env::var("JOBS").is_ok() {
                    for job in &outcome.jobs {
                        eprintln!(
                            "{} {workload} ended {:.1} cpu {:.1} spun {:.1}",
                            strategy.name().unwrap_or(""),
                            job.ended as f64 / SECOND as f64,
                            job.cpu as f64 / SECOND as f64 / 8.0,
                            job.spun as f64 / SECOND as f64 / 8.0
                        );
                    }
                    eprintln!("{:?}", outcome.counts);
                }
                outcome.completion() as f64 / SECOND as f64
            })
        })
        .sum();
    sum / runs.seeds as f64 * f64::from(shorter)
}
