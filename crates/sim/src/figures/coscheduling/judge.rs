//! The text's statements about the tables and figures of chapter 6.

use causeway_cosched::Strategy;

use super::super::common::{Rows, Verdict, Verdicts};
use super::super::table::Cell;
use super::printed::{mean, name};
use crate::coscheduling::workloads::{Kind, WORKLOADS};

/// Times that differ by less are alike ("similar", "equally well").
const ALIKE: f64 = 1.15;
/// Times that differ by less show a "negligible difference": Local's slowdown of 6 % is one (§6.2.2).
const NEGLIGIBLE: f64 = 1.06;
/// What PBT is printed with in workload 6 besides: 112 s, where the fastest has 101.
const PBT_ALONE: f64 = 1.12;
/// Coefficients of variation below this are "relatively low".
const LOW_VARIATION: f64 = 0.25;
/// Completion times within this part of the printed ones count as met.
const NEAR: f64 = 0.15;

/// A table's values by strategy and column.
#[derive(Clone, Copy)]
struct Times<'a>(&'a [Cell]);

impl Times<'_> {
    fn named(&self, strategy: Strategy, what: &str) -> f64 {
        let case = format!("{}/{what}", name(strategy));
        let found = self.0.iter().find(|cell| cell.case == case);
        // Not a number, so that no claim about a missing value holds.
        found.map_or(f64::NAN, |cell| cell.causeway)
    }

    fn at(&self, strategy: Strategy, workload: usize) -> f64 {
        self.named(strategy, &format!("workload-{workload}"))
    }

    /// Strategies with their times, the fastest first.
    fn ranking(&self, workload: usize) -> Vec<(Strategy, f64)> {
        let mut ranking: Vec<(Strategy, f64)> = Strategy::THESIS
            .iter()
            .map(|&(_, strategy)| (strategy, self.at(strategy, workload)))
            .collect();
        ranking.sort_by(|a, b| a.1.total_cmp(&b.1));
        ranking
    }

    /// The place of a strategy among all, from 1.
    fn place(&self, strategy: Strategy, workload: usize) -> usize {
        let ranking = self.ranking(workload);
        let found = ranking.iter().position(|(other, _)| *other == strategy);
        found.unwrap_or(ranking.len()) + 1
    }

    /// Some strategies' times on some workloads, as evidence.
    fn evidence(&self, strategies: &[Strategy], workloads: &[usize]) -> String {
        let evidence: Vec<String> = strategies
            .iter()
            .map(|&strategy| {
                let times: Vec<String> = workloads
                    .iter()
                    .map(|&workload| format!("{:.0}", self.at(strategy, workload)))
                    .collect();
                format!("{} {}", name(strategy), times.join(", "))
            })
            .collect();
        format!("{} s", evidence.join("; "))
    }

    /// Whether the first is faster than the second on each of the workloads.
    fn beats(&self, first: Strategy, second: Strategy, workloads: &[usize]) -> bool {
        workloads
            .iter()
            .all(|&workload| self.at(first, workload) < self.at(second, workload))
    }

    /// By how much a strategy's time rises from one workload to another: the ratio of the two.
    fn rise(&self, strategy: Strategy, (from, to): (usize, usize)) -> f64 {
        self.at(strategy, to) / self.at(strategy, from)
    }

    /// A strategy's slowdown relative to coscheduling, in per cent. Each of a workload's jobs takes 25 s alone (§6.2.1).
    fn slowdown(&self, strategy: Strategy, workload: usize) -> f64 {
        let ideal = 25.0 * WORKLOADS[workload - 1].len() as f64;
        100.0 * (self.at(strategy, workload) / ideal - 1.0)
    }

    fn are_alike(&self, first: Strategy, second: Strategy, workloads: &[usize]) -> bool {
        workloads.iter().all(|&workload| {
            let ratio = self.at(first, workload) / self.at(second, workload);
            (1.0 / ALIKE..=ALIKE).contains(&ratio)
        })
    }
}

use Strategy as S;

const ALL_4: [usize; 5] = [1, 2, 3, 4, 5];

/// Claims on a table, with the times that decide.
struct Claims<'a> {
    times: Times<'a>,
    verdicts: Verdicts,
}

impl Claims<'_> {
    /// Adds a claim, with these strategies' times on these workloads as evidence.
    fn add(&mut self, claim: &str, holds: bool, strategies: &[Strategy], workloads: &[usize]) {
        let evidence = self.times.evidence(strategies, workloads);
        self.verdicts.add(claim, holds, evidence);
    }
}

/// Holds Table 6.4 against its text.
pub fn judge_6_4(cells: &[Cell]) -> Vec<Verdict> {
    let mut claims = Claims {
        times: Times(cells),
        verdicts: Verdicts::default(),
    };
    near(&mut claims.verdicts, cells);
    immediate_6_4(&mut claims);
    periodic_6_4(&mut claims);
    claims.verdicts.0
}

/// Claims about Local, SB, SY and the DCS strategies.
fn immediate_6_4(claims: &mut Claims<'_>) {
    let times = claims.times;
    let mut claim = |text: &str, holds: bool, strategies: &[Strategy], workloads: &[usize]| {
        claims.add(text, holds, strategies, workloads);
    };
    let local = S::LOCAL;
    claim(
        "the slowdown of Local increases steeply as the workload becomes more communication intensive",
        ALL_4.is_sorted_by(|&a, &b| times.at(local, a) < times.at(local, b))
            && times.at(local, 5) > 10.0 * times.at(local, 1),
        &[local],
        &ALL_4,
    );
    claim(
        "the slowdown of Local is 80 % with workload 1 (within 15 % of that, as printed times)",
        (times.slowdown(local, 1) - 80.0).abs() <= NEAR * 80.0,
        &[local],
        &[1],
    );
    let three = [S::SB, S::DCS, S::DCS_SB];
    let with_local = [local, S::SB, S::DCS, S::DCS_SB];
    let added = |strategy| times.slowdown(strategy, 5) - times.slowdown(strategy, 1);
    claim(
        "SB, DCS and DCS-SB increase less steeply than Local (their slowdowns of workloads 1 and 5 differ by less)",
        three.iter().all(|&strategy| added(strategy) < added(local)),
        &with_local,
        &[1, 5],
    );
    let rise = |strategy| times.rise(strategy, (1, 5));
    claim(
        "they also take fewer times as long in workload 5 as in 1 (the printed times of SB contradict this)",
        three.iter().all(|&strategy| rise(strategy) < rise(local)),
        &with_local,
        &[1, 5],
    );
    claim(
        "SB does better than DCS and DCS-SB for workloads with lower communication",
        times.beats(S::SB, S::DCS, &[1, 2]) && times.beats(S::SB, S::DCS_SB, &[1, 2]),
        &three,
        &[1, 2],
    );
    claim(
        "SB does worse than DCS and DCS-SB at higher communication intensities",
        times.beats(S::DCS, S::SB, &[3, 4, 5]) && times.beats(S::DCS_SB, S::SB, &[3, 4, 5]),
        &three,
        &[3, 4, 5],
    );
    claim(
        "DCS-SB performs even better than DCS",
        times.beats(S::DCS_SB, S::DCS, &ALL_4),
        &[S::DCS_SB, S::DCS],
        &ALL_4,
    );
    claim(
        "SY does not perform as well as SB",
        times.beats(S::SB, S::SY, &ALL_4),
        &[S::SB, S::SY],
        &ALL_4,
    );
    claim(
        "DCS-SY performs quite similar to DCS, with a small improvement for higher communication intensities",
        times.are_alike(S::DCS_SY, S::DCS, &ALL_4) && times.beats(S::DCS_SY, S::DCS, &[5]),
        &[S::DCS_SY, S::DCS],
        &ALL_4,
    );
}

/// Claims about the strategies that boost periodically.
fn periodic_6_4(claims: &mut Claims<'_>) {
    let times = claims.times;
    let mut claim = |text: &str, holds: bool, strategies: &[Strategy], workloads: &[usize]| {
        claims.add(text, holds, strategies, workloads);
    };
    claim(
        "PB-SY performs better than many schemes for several configurations (it is among the best five on three workloads)",
        ALL_4
            .iter()
            .filter(|&&workload| times.place(S::PB_SY, workload) <= 5)
            .count()
            >= 3,
        &[S::PB_SY],
        &ALL_4,
    );
    claim(
        "PB outperforms almost all other schemes across all workloads (it is among the best two)",
        ALL_4
            .iter()
            .all(|&workload| times.place(S::PB, workload) <= 2),
        &Strategy::THESIS.map(|(_, strategy)| strategy),
        &ALL_4,
    );
    let rise_to_4 = |strategy| times.rise(strategy, (1, 4));
    claim(
        "PB's rate of increase of slowdown from workload 1 to workload 4 is much lower than that of the other schemes (but PBT)",
        Strategy::THESIS
            .iter()
            .filter(|(_, other)| ![S::PB, S::PBT].contains(other))
            .all(|&(_, other)| rise_to_4(S::PB) < rise_to_4(other)),
        &Strategy::THESIS.map(|(_, strategy)| strategy),
        &[1, 4],
    );
    claim(
        "adding SB to PB does not seem to help significantly",
        ALL_4
            .iter()
            .all(|&workload| times.at(S::PB_SB, workload) * ALIKE > times.at(S::PB, workload)),
        &[S::PB_SB, S::PB],
        &ALL_4,
    );
    claim(
        "PBT performs worse than PB for all but the highest communication workload",
        times.beats(S::PB, S::PBT, &[1, 2, 3, 4]) && times.beats(S::PBT, S::PB, &[5]),
        &[S::PBT, S::PB],
        &ALL_4,
    );
}

/// Holds Table 6.5 against its text.
pub fn judge_6_5(cells: &[Cell]) -> Vec<Verdict> {
    let times = Times(cells);
    let every = Strategy::THESIS.map(|(_, strategy)| strategy);
    let mut verdicts = Verdicts::default();
    near(&mut verdicts, cells);
    let ranking = times.ranking(6);
    let best = ranking.first().map_or(f64::NAN, |(_, time)| *time);
    let is_near = |(strategy, time): &(Strategy, f64)| match *strategy {
        S::PBT => *time <= best * PBT_ALONE,
        _ => *time <= best * NEGLIGIBLE,
    };
    verdicts.add(
        "for workload 6 there is negligible difference between the schemes (6 %; PBT, which is printed with more, 12 %)",
        ranking.iter().all(is_near),
        times.evidence(&every, &[6]),
    );
    let slowdown = times.slowdown(S::LOCAL, 6);
    verdicts.add(
        "Local's slowdown is around 6 % there (3 to 9 %)",
        (3.0..=9.0).contains(&slowdown),
        format!("{slowdown:.1} %"),
    );
    let best_two = |workload: usize| {
        let both = times.at(S::PB, workload).max(times.at(S::PBT, workload));
        every
            .iter()
            .filter(|other| ![S::PB, S::PBT].contains(other))
            .all(|&other| both < times.at(other, workload))
    };
    verdicts.add(
        "PB and PBT outperform all other strategies (the printed times of workloads 7 and 8 contradict this)",
        best_two(7) && best_two(8) && best_two(9),
        times.evidence(&every, &[7, 8, 9]),
    );
    verdicts.add(
        "PB and PBT outperform all other strategies with the highest communication, workload 9",
        best_two(9),
        times.evidence(&every, &[9]),
    );
    let rise = |strategy: Strategy| times.rise(strategy, (6, 9));
    let rises = every.map(|strategy| format!("{} {:.1}", name(strategy), rise(strategy)));
    verdicts.add(
        "PB and PBT outperform all others in controlling the rate of increase with communication (from workload 6 to 9)",
        every
            .iter()
            .filter(|other| ![S::PB, S::PBT].contains(other))
            .all(|&other| rise(S::PB).max(rise(S::PBT)) < rise(other)),
        format!("workload 9 by workload 6: {}", rises.join(", ")),
    );
    let next = [S::DCS_SB, S::DCS, S::PB_SY];
    verdicts.add(
        "of the others DCS-SB and DCS come next, with PB-SY close behind",
        [7, 8, 9].iter().all(|&workload| {
            next.iter().all(|&strategy| {
                [S::LOCAL, S::SB, S::PB_SB, S::SY]
                    .iter()
                    .all(|&other| times.at(strategy, workload) < times.at(other, workload))
            })
        }),
        times.evidence(&every, &[7, 8, 9]),
    );
    verdicts.add(
        "SB does not do as well at higher communication workloads",
        times.beats(S::DCS, S::SB, &[7, 8, 9]),
        times.evidence(&[S::SB, S::DCS], &[7, 8, 9]),
    );
    verdicts.0
}

/// Holds Table 6.6 against its text.
pub fn judge_6_6(cells: &[Cell]) -> Vec<Verdict> {
    let times = Times(cells);
    let every = Strategy::THESIS.map(|(_, strategy)| strategy);
    let mut verdicts = Verdicts::default();
    near(&mut verdicts, cells);
    let ranking = times.ranking(10);
    let best = ranking.first().map_or(f64::NAN, |(_, time)| *time);
    let alike = ranking.iter().filter(|(_, time)| *time <= best * ALIKE);
    verdicts.add(
        "at low communication many schemes perform equally well (five within 15 % of the best)",
        alike.count() >= 5,
        times.evidence(&every, &[10]),
    );
    verdicts.add(
        "PB does the best for workload 11",
        times.place(S::PB, 11) == 1,
        times.evidence(&every, &[11]),
    );
    verdicts.add(
        "PB schemes do well for higher communication (for workloads 11 and 12 PB is among the best three, PBT among four)",
        [11, 12].iter().all(|&workload| {
            times.place(S::PB, workload) <= 3 && times.place(S::PBT, workload) <= 4
        }),
        times.evidence(&every, &[11, 12]),
    );
    verdicts.add(
        "PB-SY and DCS-SY are reasonable choices for workload 12 (at most a third of Local)",
        [S::PB_SY, S::DCS_SY]
            .iter()
            .all(|&strategy| times.at(strategy, 12) * 3.0 <= times.at(S::LOCAL, 12)),
        times.evidence(&[S::PB_SY, S::DCS_SY, S::LOCAL], &[12]),
    );
    verdicts.0
}

/// Holds Table 6.7 against its text.
pub fn judge_6_7(cells: &[Cell]) -> Vec<Verdict> {
    let times = Times(cells);
    let strategies = [S::SB, S::DCS, S::PB, S::PBT, S::PB_SY];
    let value = |strategy, workload: usize, what: &str| {
        times.named(strategy, &format!("workload-{workload}/{what}"))
    };
    let describe = |workload: usize, what: &str| {
        let evidence: Vec<String> = strategies
            .iter()
            .map(|&strategy| format!("{} {:.2}", name(strategy), value(strategy, workload, what)))
            .collect();
        evidence.join(", ")
    };
    let mut verdicts = Verdicts::default();
    near(&mut verdicts, cells);
    let variation = |strategy, workload| value(strategy, workload, "variation");
    verdicts.add(
        "workload 5: the four schemes other than PBT have a relatively low coefficient of variation (below PBT's and 0.25)",
        strategies
            .iter()
            .filter(|&&strategy| strategy != S::PBT)
            .all(|&strategy| variation(strategy, 5) < variation(S::PBT, 5).min(LOW_VARIATION)),
        describe(5, "variation"),
    );
    verdicts.add(
        "workload 5: of these PB has a low mean completion time as well",
        [S::SB, S::DCS, S::PB_SY]
            .iter()
            .all(|&other| value(S::PB, 5, "mean") < value(other, 5, "mean")),
        describe(5, "mean"),
    );
    verdicts.add(
        "workload 3: PB, PBT and PB-SY are reasonable in mean and coefficient of variation (both below SB's)",
        [S::PB, S::PBT, S::PB_SY].iter().all(|&strategy| {
            value(strategy, 3, "mean") < value(S::SB, 3, "mean")
                && variation(strategy, 3) < variation(S::SB, 3)
        }),
        format!("{}; {}", describe(3, "mean"), describe(3, "variation")),
    );
    verdicts.0
}

/// How many printed values are met.
fn near(verdicts: &mut Verdicts, cells: &[Cell]) {
    let printed = cells.iter().filter(|cell| cell.paper.is_some());
    let met = printed
        .clone()
        .filter(|cell| {
            let paper = cell.paper.unwrap_or(f64::NAN);
            (cell.causeway - paper).abs() <= NEAR * paper
        })
        .count();
    let all = printed.count();
    verdicts.add(
        "three quarters of the printed values are met within 15 %",
        4 * met >= 3 * all && all > 0,
        format!("{met} of {all}"),
    );
}

/// Holds figures 6.2 to 6.4 against their text.
pub(in super::super) fn judge(number: &str, rows: Rows<'_>) -> Vec<Verdict> {
    let mut verdicts = Verdicts::default();
    match number {
        "6.2" => latencies(&mut verdicts, rows),
        "6.3" => homogeneous(&mut verdicts, rows),
        "6.4" => heterogeneous(&mut verdicts, rows),
        _ => {}
    }
    verdicts.0
}

/// A round trip of longer messages is longer than the spin time: such a ping-pong blocks on every message.
const WITHIN_SPIN_TIME: f64 = 1_024.0;

fn latencies(verdicts: &mut Verdicts, rows: Rows<'_>) {
    let local = rows.series("LOCAL latency");
    let mut all = Vec::new();
    for (name, _) in Strategy::all() {
        let series = rows.series(&format!("{name} latency"));
        for ((bytes, value), (_, local)) in series.into_iter().zip(&local) {
            all.push((value / local, name, bytes));
        }
    }
    let most = |is_long: bool| {
        all.iter()
            .filter(|(_, _, bytes)| (*bytes > WITHIN_SPIN_TIME) == is_long)
            .copied()
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .unwrap_or((f64::NAN, "", 0.0))
    };
    let describe = |(ratio, name, bytes): (f64, &str, f64)| {
        format!(
            "{:.1} % more with {name} at {bytes} B",
            100.0 * (ratio - 1.0)
        )
    };
    verdicts.add(
        "the one-way latency is not significantly impacted by any strategy (by less than a tenth, where a round trip is \
         shorter than the spin time)",
        most(false).0 < 1.1,
        format!("{}; of longer messages {}", describe(most(false)), describe(most(true))),
    );
}

/// Each job's parts of the first node's processor in the intervals in which all jobs are there, in the order of the series' names;
/// the first interval is left out, as jobs do not begin at once.
fn parts(rows: Rows<'_>, strategy: Strategy) -> Vec<(&str, Vec<f64>)> {
    let prefix = format!("{} ", name(strategy));
    let mut series: Vec<&str> = rows
        .0
        .iter()
        .filter(|row| row.series.starts_with(&prefix))
        .map(|row| row.series.as_str())
        .collect();
    series.sort_unstable();
    series.dedup();
    let jobs = series.into_iter().map(|name| (name, rows.series(name)));
    let jobs: Vec<(&str, Vec<(f64, f64)>)> = jobs.collect();
    // A job is there until its last part that is more than none.
    let there = |(_, job): &(&str, Vec<(f64, f64)>)| job.iter().rposition(|(_, part)| *part > 0.0);
    let until = jobs.iter().filter_map(there).min().unwrap_or(0);
    let within = |job: Vec<(f64, f64)>| {
        let parts = job.into_iter().map(|(_, part)| part);
        parts.take(until).skip(1).collect()
    };
    jobs.into_iter()
        .map(|(name, job)| (name, within(job)))
        .collect()
}

/// How unevenly a processor is shared while all jobs are there: the mean over intervals of the largest part less the smallest,
/// in per cent of the processor.
fn unevenness(rows: Rows<'_>, strategy: Strategy) -> f64 {
    let jobs = parts(rows, strategy);
    let intervals = jobs.first().map_or(0, |(_, parts)| parts.len());
    let spreads: Vec<f64> = (0..intervals)
        .map(|interval| {
            let parts = jobs.iter().map(|(_, parts)| parts[interval]);
            parts.clone().fold(0.0, f64::max) - parts.fold(100.0, f64::min)
        })
        .collect();
    match spreads.is_empty() {
        // Not a number, so that no claim holds for it.
        true => f64::NAN,
        false => mean(&spreads),
    }
}

/// The mean part and the least one of any interval, over all jobs of a kind.
fn mean_and_least(rows: Rows<'_>, strategy: Strategy, kind: &str) -> (f64, f64) {
    let jobs = parts(rows, strategy);
    let jobs = jobs.iter().filter(|(name, _)| name.contains(kind));
    let all: Vec<f64> = jobs.flat_map(|(_, parts)| parts).copied().collect();
    match all.is_empty() {
        true => (f64::NAN, f64::NAN),
        false => (
            mean(&all),
            all.iter().copied().fold(f64::INFINITY, f64::min),
        ),
    }
}

/// Half of one of four jobs' fair part: parts that differ by less are "reasonably equal".
const REASONABLY_EQUAL: f64 = 12.5;
/// A job that never has less than this is not starved.
const STARVED: f64 = 2.5;

fn homogeneous(verdicts: &mut Verdicts, rows: Rows<'_>) {
    let others = [S::SB, S::DCS, S::PB, S::PB_SY];
    let evidence = uneven(rows, &[S::SB, S::DCS, S::PB, S::PBT, S::PB_SY]);
    verdicts.add(
        "the periodic utilizations are imbalanced for PBT compared to the four other schemes",
        others
            .iter()
            .all(|&other| unevenness(rows, other) < unevenness(rows, S::PBT)),
        evidence.clone(),
    );
    verdicts.add(
        "PB has a reasonably equal split of the processor between the current jobs (parts differ by at most half of a fair one on average)",
        unevenness(rows, S::PB) <= REASONABLY_EQUAL,
        evidence,
    );
    ours(verdicts, rows);
}

fn heterogeneous(verdicts: &mut Verdicts, rows: Rows<'_>) {
    let of = |strategy| unevenness(rows, strategy);
    let evidence = uneven(rows, &[S::SB, S::DCS, S::PB_SY, S::PB, S::PBT]);
    verdicts.add(
        "SB and DCS give an equal share of the CPU to the current jobs; PB-SY comes next; PB and PBT are unfair",
        of(S::SB).max(of(S::DCS)) < of(S::PB_SY) && of(S::PB_SY) < of(S::PB).min(of(S::PBT)),
        evidence,
    );
    let [low, high] =
        [Kind::LifeLow, Kind::LifeHigh].map(|kind| mean_and_least(rows, S::PB_SY, kind.name()));
    let least = low.1.min(high.1);
    let evidence = format!(
        "with much communication {:.0} % on average, with little {:.0} %; at least {least:.1} %",
        high.0, low.0
    );
    verdicts.add(
        "PB-SY does not totally starve out a process (each has a tenth of a fair part in each interval)",
        least >= STARVED,
        evidence.clone(),
    );
    verdicts.add(
        "but it favours jobs that communicate more",
        high.0 > low.0,
        evidence,
    );
    ours(verdicts, rows);
}

/// Verdicts on the strategy of our own, on which the thesis has no statement.
fn ours(verdicts: &mut Verdicts, rows: Rows<'_>) {
    let jobs = parts(rows, S::FB);
    let means: Vec<f64> = jobs.iter().map(|(_, parts)| mean(parts)).collect();
    let fair = mean(&means);
    verdicts.add(
        "FB, which is ours, gives each job its part of the processor (within a tenth of an equal one)",
        !means.is_empty()
            && means
                .iter()
                .all(|part| (0.9 * fair..=1.1 * fair).contains(part)),
        format!("{means:.1?} %"),
    );
    verdicts.add(
        "FB has a reasonably equal split within intervals, too (parts differ by at most half of a fair one on average)",
        unevenness(rows, S::FB) <= REASONABLY_EQUAL,
        uneven(rows, &[S::FB]),
    );
}

fn uneven(rows: Rows<'_>, strategies: &[Strategy]) -> String {
    let evidence: Vec<String> = strategies
        .iter()
        .map(|&strategy| format!("{} {:.0} %", name(strategy), unevenness(rows, strategy)))
        .collect();
    format!("largest part less the smallest: {}", evidence.join(", "))
}
