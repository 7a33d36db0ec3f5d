//! Where the printed tables contradict the text, or each other. A contradicted statement cannot
//! hold in any simulation that meets the tables.

use causeway_cosched::Strategy;

use super::printed::{COMPLETION, INDIVIDUAL, mean, name, variation};
use super::{TABLE_6_4, TABLE_6_5, TABLE_6_6, cell, judge_6_4, judge_6_5, judge_6_6, judge_6_7};
use crate::coscheduling::workloads::{Kind, WORKLOADS};
use crate::figures::Verdict;
use crate::figures::table::Cell;

/// A table as if it had been simulated exactly as printed.
fn as_printed(workloads: &[usize]) -> Vec<Cell> {
    let rows = Strategy::THESIS.iter().zip(COMPLETION);
    rows.flat_map(|((_, strategy), times)| {
        workloads.iter().map(move |workload| {
            let time = f64::from(times[workload - 1]);
            cell(
                *strategy,
                &format!("workload-{workload}"),
                Some(time),
                vec![time],
            )
        })
    })
    .collect()
}

/// Table 6.7's means and variations, in the same way.
fn individual_as_printed() -> Vec<Cell> {
    let rows = INDIVIDUAL.iter();
    rows.flat_map(|row| {
        [(3, row.workload_3), (5, row.workload_5)].map(|(workload, times)| {
            let times = times.map(f64::from);
            let values = [("mean", mean(&times)), ("variation", variation(&times))];
            values.map(|(what, value)| {
                let what = format!("workload-{workload}/{what}");
                cell(row.strategy, &what, Some(value), vec![value])
            })
        })
    })
    .flatten()
    .collect()
}

fn failing(verdicts: Vec<Verdict>) -> Vec<String> {
    let failing = verdicts.into_iter().filter(|verdict| !verdict.holds);
    failing.map(|verdict| verdict.claim).collect()
}

#[test]
fn two_claims_of_the_text_are_contradicted_by_the_printed_times() {
    assert_eq!(
        failing(judge_6_4(&as_printed(&TABLE_6_4))),
        [
            "they also take fewer times as long in workload 5 as in 1 (the printed times of SB contradict this)"
        ]
    );
    assert_eq!(
        failing(judge_6_5(&as_printed(&TABLE_6_5))),
        [
            "PB and PBT outperform all other strategies (the printed times of workloads 7 and 8 contradict this)"
        ]
    );
    assert_eq!(
        failing(judge_6_6(&as_printed(&TABLE_6_6))),
        Vec::<String>::new()
    );
    assert_eq!(
        failing(judge_6_7(&individual_as_printed())),
        Vec::<String>::new()
    );
}

/// Whether a workload has all jobs of another one, and more.
fn includes(larger: &[Kind], smaller: &[Kind]) -> bool {
    let count = |jobs: &[Kind], kind: &Kind| jobs.iter().filter(|job| *job == kind).count();
    larger.len() > smaller.len()
        && smaller
            .iter()
            .all(|kind| count(larger, kind) >= count(smaller, kind))
}

/// Strategies with two workloads, of which the first has all jobs of the second and more, and is printed with less than `part` of its
/// time.
fn faster_with_more_jobs(part: f64) -> Vec<(&'static str, usize, usize)> {
    let mut found = Vec::new();
    for ((_, strategy), times) in Strategy::THESIS.iter().zip(COMPLETION) {
        for (larger, jobs) in WORKLOADS.iter().enumerate() {
            for (smaller, of_them) in WORKLOADS.iter().enumerate() {
                let is_faster = f64::from(times[larger]) < part * f64::from(times[smaller]);
                if includes(jobs, of_them) && is_faster {
                    found.push((name(*strategy), larger + 1, smaller + 1));
                }
            }
        }
    }
    found
}

#[test]
fn workloads_that_are_faster_with_more_jobs_exclude_each_other() {
    assert_eq!(
        faster_with_more_jobs(1.0),
        [("LOCAL", 3, 12), ("PB", 3, 12), ("PB-SB", 3, 12)]
    );
    // Times that do not shrink with more jobs cannot be within 15 % of both printed ones.
    assert_eq!(
        faster_with_more_jobs(0.85 / 1.15),
        [("LOCAL", 3, 12), ("PB", 3, 12)]
    );
}
