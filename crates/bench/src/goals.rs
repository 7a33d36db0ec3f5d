//! Goals, and whether they were reached: ratios within a run, their medians, the verdict; of one size, of every size,
//! and of the mean of all sizes.

use causeway_report::page::Page;
use causeway_report::plots::size_name;
use causeway_report::rows::Row;
use causeway_report::table::Table;
use causeway_report::units::figure_text;

use crate::outcome::{Benchmark, Verdict};
use crate::participants::{LIMIT, OURS};
use crate::parts::findings::{Findings, Series};

/// The figure that one of Causeway is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Against {
    /// The best of the peers in this case.
    BestPeer(String),
    /// In this case, the figure of the peer that is best in another case: (this case, the other case).
    PeerBestAt(String, String),
    /// A limit of the machine.
    Limit(String),
    /// Another case of Causeway, with its name.
    Ourselves(String, &'static str),
    /// Nothing: the figure is a ratio already.
    Nothing,
}

/// A bound of a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

use Bound::{AtLeast, AtMost};

impl Bound {
    fn holds(self, ratio: f64) -> bool {
        match self {
            Self::AtMost(bound) => ratio <= bound,
            Self::AtLeast(bound) => ratio >= bound,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtMost(bound) => format!("≤ {bound}"),
            Self::AtLeast(bound) => format!("≥ {bound}"),
        }
    }
}

/// The sizes that a goal covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// One size.
    Size(u64),
    /// Every measured size from this one on: the worst decides.
    Every(u64),
    /// The geometric mean of the ratios of all measured sizes from this one on.
    Mean(u64),
}

/// Something to be reached.
#[derive(Debug, Clone)]
pub(crate) struct Goal {
    what: String,
    case: String,
    over: Over,
    against: Against,
    bound: Bound,
}

impl Goal {
    /// The goal that a figure of Causeway is this many times that of the best peer in the same
    /// case.
    pub(crate) fn new(
        what: impl Into<String>,
        case: impl Into<String>,
        size: u64,
        bound: Bound,
    ) -> Self {
        Self::over(what, case, Over::Size(size), bound)
    }

    /// The same goal for other sizes than one.
    pub(crate) fn over(
        what: impl Into<String>,
        case: impl Into<String>,
        over: Over,
        bound: Bound,
    ) -> Self {
        let case = case.into();
        Self {
            what: what.into(),
            against: Against::BestPeer(case.clone()),
            case,
            over,
            bound,
        }
    }

    /// The same goal, compared with something else.
    pub(crate) fn against(self, against: Against) -> Self {
        Self { against, ..self }
    }
}

/// The verdict on every goal whose figures were measured.
pub(crate) fn verdicts(findings: &Findings, goals: &[Goal]) -> Vec<Verdict> {
    let reached = goals.iter().filter_map(|goal| verdict(findings, goal));
    reached.collect()
}

fn verdict(findings: &Findings, goal: &Goal) -> Option<Verdict> {
    match goal.over {
        Over::Size(size) => verdict_of_size(findings, goal, size),
        Over::Every(from) => {
            let sizes = sizes(findings, goal, from);
            let verdicts = sizes.iter().filter_map(|size| {
                let verdict = verdict_of_size(findings, goal, *size)?;
                Some((*size, verdict))
            });
            let worse = |a: &(u64, Verdict), b: &(u64, Verdict)| {
                let order = a.1.ratio.total_cmp(&b.1.ratio);
                match goal.bound {
                    AtMost(_) => order,
                    AtLeast(_) => order.reverse(),
                }
            };
            let (size, worst) = verdicts.max_by(worse)?;
            let count = sizes.len();
            (count > 1).then(|| Verdict {
                goal: format!(
                    "{}: worst of {count}, {}",
                    goal.what,
                    size_name(size as f64)
                ),
                ..worst
            })
        }
        Over::Mean(from) => verdict_of_mean(findings, goal, from),
    }
}

/// The sizes from this one on that have a figure of Causeway and one to compare it with.
fn sizes(findings: &Findings, goal: &Goal, from: u64) -> Vec<u64> {
    let ours = findings.by_size(&goal.case, OURS).into_iter();
    ours.map(|series| series.size)
        .filter(|size| *size >= from && other(findings, goal, *size).is_some())
        .collect()
}

/// The figure that Causeway's figure of this size is compared with; `Some(None)` if the goal compares with none, `None` if it is missing.
fn other<'a>(findings: &'a Findings, goal: &Goal, size: u64) -> Option<Option<&'a Series>> {
    Some(match &goal.against {
        Against::BestPeer(case) => Some(best_peer(findings, case, size, goal.bound)?),
        Against::PeerBestAt(case, other) => {
            let best = best_peer(findings, other, size, goal.bound)?;
            Some(findings.series(case, &best.participant, size)?)
        }
        Against::Limit(case) => Some(findings.series(case, LIMIT, size)?),
        Against::Ourselves(case, _) => Some(findings.series(case, OURS, size)?),
        Against::Nothing => None,
    })
}

fn verdict_of_size(findings: &Findings, goal: &Goal, size: u64) -> Option<Verdict> {
    let ours = findings.series(&goal.case, OURS, size)?;
    let other = other(findings, goal, size)?;
    let ratios: Vec<f64> = match other {
        Some(other) => ours.over(other),
        None => ours.values(),
    };
    let text = |series: &Series| figure_text(series.metric, series.median());
    Some(Verdict {
        ours: text(ours),
        other: other.map(text).unwrap_or_default(),
        participant: other
            .map(|other| other.participant.clone())
            .unwrap_or_default(),
        ..judged(goal, &ratios)?
    })
}

/// The geometric mean over sizes, of each run that has them all: its ratio to the best peer of each size.
fn verdict_of_mean(findings: &Findings, goal: &Goal, from: u64) -> Option<Verdict> {
    let sizes = sizes(findings, goal, from);
    let by_size: Vec<Vec<(u32, f64)>> = sizes
        .iter()
        .filter_map(|size| {
            let ours = findings.series(&goal.case, OURS, *size)?;
            Some(ours.over_by_run(other(findings, goal, *size)??))
        })
        .collect();
    let runs = by_size.first()?.iter().map(|(run, _)| *run);
    let means: Vec<f64> = runs
        .filter_map(|run| {
            let of_run = |ratios: &Vec<(u32, f64)>| {
                ratios
                    .iter()
                    .find(|(number, _)| *number == run)
                    .map(|(_, ratio)| *ratio)
            };
            let ratios: Option<Vec<f64>> = by_size.iter().map(of_run).collect();
            Some(geometric_mean(&ratios?))
        })
        .collect();
    let all = format!("{} sizes", sizes.len());
    (sizes.len() > 1).then_some(())?;
    Some(Verdict {
        goal: format!("{}: geometric mean", goal.what),
        ours: all.clone(),
        other: all,
        participant: "the best of each".to_owned(),
        ..judged(goal, &means)?
    })
}

fn geometric_mean(ratios: &[f64]) -> f64 {
    let logarithms = ratios.iter().map(|ratio| ratio.ln()).sum::<f64>();
    (logarithms / ratios.len().max(1) as f64).exp()
}

/// The verdict on ratios of runs, without the figures of both sides. None without a ratio.
fn judged(goal: &Goal, ratios: &[f64]) -> Option<Verdict> {
    let row = Row::new(goal.case.clone(), OURS, 0, "ratio", ratios)?;
    let name = match &goal.against {
        Against::BestPeer(_) => " × the best peer".to_owned(),
        Against::PeerBestAt(..) => " × that of the fastest peer".to_owned(),
        Against::Limit(_) => " × the machine's limit".to_owned(),
        Against::Ourselves(_, name) => format!(" × {name}"),
        Against::Nothing => String::new(),
    };
    Some(Verdict {
        goal: goal.what.clone(),
        wanted: format!("{}{name}", goal.bound.text()),
        ratio: row.median,
        min: row.min,
        max: row.max,
        runs: row.runs,
        ours: String::new(),
        other: String::new(),
        participant: String::new(),
        reached: goal.bound.holds(row.median),
    })
}

/// The peer with the best median.
fn best_peer<'a>(
    findings: &'a Findings,
    case: &str,
    size: u64,
    bound: Bound,
) -> Option<&'a Series> {
    let peers = findings.peers(case, size);
    match bound {
        AtMost(_) => peers.min_by(|a, b| a.median().total_cmp(&b.median())),
        AtLeast(_) => peers.max_by(|a, b| a.median().total_cmp(&b.median())),
    }
}

/// The verdicts as a table.
pub(crate) fn table(verdicts: &[Verdict]) -> Table {
    let mut table = Table::new(&[
        "what",
        "to reach",
        "reached",
        "runs' range",
        "ours",
        "other",
        "whose",
        "",
    ]);
    table.align_right(&[2, 3, 4, 5]);
    for verdict in verdicts {
        table.row(vec![
            verdict.goal.clone(),
            verdict.wanted.clone(),
            format!("{:.2}", verdict.ratio),
            format!("{:.2} to {:.2}", verdict.min, verdict.max),
            verdict.ours.clone(),
            verdict.other.clone(),
            verdict.participant.clone(),
            if verdict.reached { "yes" } else { "NO" }.to_owned(),
        ]);
    }
    table
}

/// The verdicts in a report, if there are any.
pub(crate) fn draw(benchmark: &Benchmark, page: &mut Page) {
    if !benchmark.verdicts.is_empty() {
        page.table(
            "What was to be reached",
            "Ratios are taken within each run, so that a slow moment of the machine hits both; shown is \
             their median. The other figure is that of the best peer of this very case.",
            &table(&benchmark.verdicts),
        );
    }
}

/// Verdicts at the top of a report: how many goals were reached, and the first of them.
pub(crate) fn cards(verdicts: &[Verdict]) -> Vec<(String, String, Option<bool>)> {
    let reached = verdicts.iter().filter(|verdict| verdict.reached).count();
    let mut cards = Vec::new();
    if !verdicts.is_empty() {
        let all = verdicts.len();
        cards.push((
            format!("{reached} of {all}"),
            "goals reached".to_owned(),
            Some(reached == all),
        ));
    }
    cards.extend(verdicts.iter().take(10).map(|verdict| {
        (
            format!("{:.2} ×", verdict.ratio),
            format!("{}; to reach {}", verdict.goal, verdict.wanted),
            Some(verdict.reached),
        )
    }));
    cards
}
