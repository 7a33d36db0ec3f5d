//! Tables 6.4 to 6.7, and figures 6.2 to 6.4. Figure 6.1 is a drawing of software components.
//!
//! Each run of a table is a workload with a strategy, so that runs can be made in parallel.
//! Completion times are means over some seeds, which determine when jobs begin and how unevenly
//! they compute.

pub mod bounds;
#[cfg(test)]
mod contradictions;
mod judge;
pub mod printed;

pub(super) use judge::judge as judge_figure;
pub use judge::{judge_6_4, judge_6_5, judge_6_6, judge_6_7};

use causeway_cosched::Strategy;

use self::printed::{INDIVIDUAL, completion, mean, name, variation};
use super::common::{About, Effort, FigureError, Row};
use super::table::Cell;
use crate::coscheduling::costs::Costs;
use crate::coscheduling::programs::{NODES, Op, Program};
use crate::coscheduling::{Experiment, Outcome, run as simulate, workloads};
use crate::engine::{MICROSECOND, SECOND, Time};

/// Seeds that are averaged.
const SEEDS: u64 = 3;
/// Seconds that each program takes alone (§6.2.1).
pub const ALONE_S: f64 = 25.0;
/// The factor by which programs are shortened for a quick impression; times are then this many
/// times longer than simulated.
const SHORTER: u32 = 4;

/// Workloads of Tables 6.4, 6.5 and 6.6, and of 6.7 with its figures.
const TABLE_6_4: [usize; 5] = [1, 2, 3, 4, 5];
const TABLE_6_5: [usize; 4] = [6, 7, 8, 9];
const TABLE_6_6: [usize; 3] = [10, 11, 12];
const TABLE_6_7: [usize; 2] = [3, 5];

/// Runs of each table.
pub const RUNS_6_4: usize = TABLE_6_4.len() * 10;
/// The same.
pub const RUNS_6_5: usize = TABLE_6_5.len() * 10;
/// The same.
pub const RUNS_6_6: usize = TABLE_6_6.len() * 10;
/// The same.
pub const RUNS_6_7: usize = TABLE_6_7.len() * INDIVIDUAL.len();

/// The figures.
pub const FIGURES: &[About] = &[
    About {
        number: "6.2",
        title: "One-way latency with each strategy",
        x: "bytes of a message",
        y: "one-way latency in µs",
    },
    About {
        number: "6.3",
        title: "Workload 5: each job's part of a processor",
        x: "time in s",
        y: "part of the processor in %",
    },
    About {
        number: "6.4",
        title: "Workload 3: each job's part of a processor",
        x: "time in s",
        y: "part of the processor in %",
    },
];

/// Sizes of figure 6.2, and round trips of each.
const SIZES: [u32; 5] = [4, 64, 256, 1_024, 4_096];
const ROUNDS: u32 = 500;
/// How often the parts of figures 6.3 and 6.4 are sampled until the end of an ideal schedule.
const PROBES: u64 = 20;

/// One run of a figure.
#[derive(Clone, Copy, Debug)]
pub(super) enum Setting {
    /// Messages of a size.
    OneWay(Strategy, u32),
    /// A workload.
    Shares(Strategy, usize, Effort),
}

/// The runs of a figure.
pub(super) fn settings(figure: &str, effort: Effort) -> Vec<Setting> {
    let shares = |workload: usize| {
        let strategies = INDIVIDUAL.iter().map(|row| row.strategy);
        strategies
            .chain([Strategy::FB])
            .map(|strategy| Setting::Shares(strategy, workload, effort))
            .collect()
    };
    match figure {
        "6.2" => Strategy::all()
            .flat_map(|(_, strategy)| SIZES.map(|bytes| Setting::OneWay(strategy, bytes)))
            .collect(),
        "6.3" => shares(5),
        "6.4" => shares(3),
        _ => Vec::new(),
    }
}

fn seconds(time: Time) -> f64 {
    time as f64 / SECOND as f64
}

/// Runs one of a figure.
pub(super) fn run(setting: Setting) -> Result<Vec<Row>, FigureError> {
    let costs = Costs::shipped()?;
    match setting {
        Setting::OneWay(strategy, bytes) => one_way(&costs, strategy, bytes),
        Setting::Shares(strategy, workload, effort) => shares(&costs, strategy, workload, effort),
    }
}

fn one_way(costs: &Costs, strategy: Strategy, bytes: u32) -> Result<Vec<Row>, FigureError> {
    let mut costs = costs.clone();
    // The two begin at once; the time that one waits for the other is not latency.
    costs.host.process_skew = 1;
    // Nor is a daemon's work, which falls into few of so short runs.
    costs.host.daemon_work = 0;
    let mut bodies = vec![Vec::new(); NODES];
    bodies[0] = vec![Op::Send(1, bytes), Op::Receive(1)];
    bodies[1] = vec![Op::Receive(0), Op::Send(0, bytes)];
    let job = Program::new("ping", bodies, ROUNDS, 0);
    let found = simulate(&Experiment {
        costs: &costs,
        settings: costs.settings(strategy),
        jobs: &[job],
        seed: 1,
        probe: None,
    })?;
    let each = found.completion() as f64 / f64::from(2 * ROUNDS);
    Ok(vec![Row {
        series: format!("{} latency", name(strategy)),
        x: f64::from(bytes),
        value: each / MICROSECOND as f64,
    }])
}

fn shares(
    costs: &Costs,
    strategy: Strategy,
    workload: usize,
    effort: Effort,
) -> Result<Vec<Row>, FigureError> {
    let jobs = workloads::jobs(workload, &costs.grains);
    let shorter = shorter(effort);
    // As long in shortened programs, so that as many turns fit into an interval.
    let probe = 25 * SECOND * jobs.len() as u64 / PROBES;
    let outcome = outcome(costs, strategy, workload, shorter, (1, Some(probe)))?;
    let parts = outcome.shares.iter().flat_map(|(at, parts)| {
        let job = |(place, part): (usize, &f64)| Row {
            series: format!(
                "{} {} {}",
                name(strategy),
                workloads::WORKLOADS[workload - 1][place].name(),
                place + 1
            ),
            x: seconds(*at) * f64::from(shorter),
            value: 100.0 * part,
        };
        parts.iter().enumerate().map(job)
    });
    Ok(parts.collect())
}

/// By how much programs are shortened, and times longer than simulated ones.
fn shorter(effort: Effort) -> u32 {
    match effort {
        Effort::Quick => SHORTER,
        Effort::Full => 1,
    }
}

/// The result of a workload with a seed, and the times at which shares are noted.
fn outcome(
    costs: &Costs,
    strategy: Strategy,
    workload: usize,
    shorter: u32,
    (seed, probe): (u64, Option<Time>),
) -> Result<Outcome, FigureError> {
    let jobs = workloads::jobs(workload, &costs.grains);
    let jobs: Vec<Program> = jobs.into_iter().map(|job| job.shortened(shorter)).collect();
    Ok(simulate(&Experiment {
        costs,
        settings: costs.settings(strategy),
        jobs: &jobs,
        seed,
        probe,
    })?)
}

/// The outcomes of some seeds.
fn outcomes(
    strategy: Strategy,
    workload: usize,
    effort: Effort,
) -> Result<Vec<Outcome>, FigureError> {
    let costs = Costs::shipped()?;
    let seeds = match effort {
        Effort::Quick => 1,
        Effort::Full => SEEDS,
    };
    let shorter = shorter(effort);
    (1..=seeds)
        .map(|seed| outcome(&costs, strategy, workload, shorter, (seed, None)))
        .collect()
}

/// A cell of a table of chapter 6: the mean of these values.
fn cell(strategy: Strategy, what: &str, paper: Option<f64>, values: Vec<f64>) -> Cell {
    Cell {
        case: format!("{}/{what}", name(strategy)),
        size_bytes: 0,
        paper,
        causeway: mean(&values),
        values,
    }
}

fn completion_cell(
    workloads: &[usize],
    part: usize,
    effort: Effort,
) -> Result<Vec<Cell>, FigureError> {
    let workload = workloads[part % workloads.len()];
    let (_, strategy) = Strategy::THESIS[part / workloads.len()];
    let times: Vec<f64> = outcomes(strategy, workload, effort)?
        .iter()
        .map(|outcome| seconds(outcome.completion()) * f64::from(shorter(effort)))
        .collect();
    let what = format!("workload-{workload}");
    let paper = completion(strategy, workload);
    Ok(vec![cell(strategy, &what, paper, times)])
}

/// A run of Table 6.4.
pub fn table_6_4(part: usize, effort: Effort) -> Result<Vec<Cell>, FigureError> {
    completion_cell(&TABLE_6_4, part, effort)
}

/// A run of Table 6.5.
pub fn table_6_5(part: usize, effort: Effort) -> Result<Vec<Cell>, FigureError> {
    completion_cell(&TABLE_6_5, part, effort)
}

/// A run of Table 6.6.
pub fn table_6_6(part: usize, effort: Effort) -> Result<Vec<Cell>, FigureError> {
    completion_cell(&TABLE_6_6, part, effort)
}

/// A run of Table 6.7: the individual times, their mean and their coefficient of variation.
///
/// The text does not identify the individual jobs of one kind; both sides are sorted within each
/// kind.
pub fn table_6_7(part: usize, effort: Effort) -> Result<Vec<Cell>, FigureError> {
    let workload = TABLE_6_7[part % TABLE_6_7.len()];
    let row = &INDIVIDUAL[part / TABLE_6_7.len()];
    let printed = match workload {
        3 => row.workload_3,
        _ => row.workload_5,
    };
    let found = outcomes(row.strategy, workload, effort)?;
    // Each job's times, seed by seed.
    let mut times = vec![Vec::new(); 4];
    for outcome in &found {
        // Jobs that communicate much come last in workload 3, and first in the table.
        let mut each: Vec<f64> = outcome
            .jobs
            .iter()
            .rev()
            .map(|job| seconds(job.ended - job.began) * f64::from(shorter(effort)))
            .collect();
        sort_kinds(&mut each, workload);
        for (job, time) in times.iter_mut().zip(each) {
            job.push(time);
        }
    }
    let mut paper = printed.map(f64::from);
    sort_kinds(&mut paper, workload);
    let means: Vec<f64> = times.iter().map(|job| mean(job)).collect();
    let of_seed = |seed: usize| -> f64 {
        let jobs: Vec<f64> = times.iter().map(|job| job[seed]).collect();
        mean(&jobs)
    };
    let summed = [
        (
            "mean",
            mean(&paper),
            (0..found.len()).map(of_seed).collect(),
        ),
        ("variation", variation(&paper), vec![variation(&means)]),
    ];
    let mut cells: Vec<Cell> = times
        .into_iter()
        .zip(paper)
        .enumerate()
        .map(|(place, (time, printed))| {
            let what = format!("workload-{workload}/job-{}", place + 1);
            cell(row.strategy, &what, Some(printed), time)
        })
        .collect();
    cells.extend(summed.map(|(what, paper, values)| {
        let what = format!("workload-{workload}/{what}");
        cell(row.strategy, &what, Some(paper), values)
    }));
    Ok(cells)
}

/// Sorts the times of jobs of a kind.
fn sort_kinds(times: &mut [f64], workload: usize) {
    let kinds = if workload == 3 { 2 } else { 4 };
    for kind in times.chunks_mut(kinds) {
        kind.sort_by(f64::total_cmp);
    }
}
