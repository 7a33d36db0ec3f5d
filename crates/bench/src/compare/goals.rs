//! Goals, and whether they were reached: ratios within a run, their medians, the verdict; of one size, of every size,
//! and of the mean of all sizes.

use causeway_report::plots::size_name;
use causeway_report::rows::{Row, figure_text};
use causeway_report::table::Table;

use super::steps;
use super::trial::{REPLY_BYTES, RINGS};
use crate::outcome::Verdict;
use crate::participants::{LIMIT, OURS};
use crate::parts::findings::{Findings, Series};

/// What a figure of Causeway's is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Against {
    /// The best of the peers in this case.
    BestPeer(String),
    /// The figure in this case of that peer which is best in another one: (the figure, the other case).
    PeerBestAt(String, String),
    /// A limit of the machine.
    Limit(String),
    /// Another case of Causeway's, with its name.
    Ourselves(String, &'static str),
    /// Nothing: the figure is a ratio already.
    Nothing,
}

/// A bound of a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Bound {
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

/// Which sizes a goal is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    /// One.
    Size(u64),
    /// Every one that was measured from this one on, whichever they are: the worst decides.
    Every(u64),
    /// The geometric mean of the ratios of all from this one on.
    Mean(u64),
}

/// Something to be reached.
#[derive(Debug, Clone)]
struct Goal {
    what: String,
    case: String,
    over: Over,
    against: Against,
    bound: Bound,
}

impl Goal {
    /// That a figure of Causeway's is so many times that of the best peer in the same case.
    fn new(what: impl Into<String>, case: impl Into<String>, size: u64, bound: Bound) -> Self {
        Self::over(what, case, Over::Size(size), bound)
    }

    /// The same for other sizes than one.
    fn over(what: impl Into<String>, case: impl Into<String>, over: Over, bound: Bound) -> Self {
        let case = case.into();
        Self {
            what: what.into(),
            against: Against::BestPeer(case.clone()),
            case,
            over,
            bound,
        }
    }

    /// The same, compared with something else.
    fn against(self, against: Against) -> Self {
        Self { against, ..self }
    }
}

/// The goals, in the order in which they are shown.
fn goals(clients: &[usize]) -> Vec<Goal> {
    let mut goals = pairs();
    goals.extend(all_sizes());
    goals.extend(idle_peers());
    goals.extend(waits());
    goals.extend(loads(clients));
    goals.extend(rings());
    goals
}

/// Goals of two processes, of single sizes.
fn pairs() -> Vec<Goal> {
    let cache_line = Against::Limit("latency/cache-line".to_owned());
    let bare = Against::Limit("latency/bare-tcp-polling".to_owned());
    let mut goals = vec![
        Goal::new("8 B one way, shm", "latency/shm", 8, AtMost(1.4)).against(cache_line),
        Goal::new("8 B one way, shm", "latency/shm", 8, AtMost(0.75)),
        Goal::new("1 KiB one way, shm", "latency/shm", 1024, AtMost(0.7)),
        Goal::new("rate of 8 B, shm", "rate/shm", 8, AtLeast(1.5)),
    ];
    let sizes = [64_u64 << 10, 256 << 10, 1 << 20, 4 << 20];
    let shared = ("bandwidth/shm/shared-buffers", "shm, memalloc");
    for ((case, name), bounds) in [
        (("bandwidth/shm", "shm"), [1.3, 1.6, 2.0, 1.7]),
        (shared, [2.0, 2.0, 3.0, 2.0]),
    ] {
        for (size, bound) in sizes.into_iter().zip(bounds) {
            let what = format!("bandwidth of {}, {name}", size_name(size as f64));
            let peers = Against::BestPeer("bandwidth/shm".to_owned());
            goals.push(Goal::new(what, case, size, AtLeast(bound)).against(peers));
        }
    }
    goals.push(Goal::new("8 B one way, tcp", "latency/tcp", 8, AtMost(1.1)).against(bare));
    goals.push(Goal::new("8 B one way, tcp", "latency/tcp", 8, AtMost(1.0)));
    let what = "bandwidth of 1 MiB, tcp";
    goals.push(Goal::new(what, "bandwidth/tcp", 1 << 20, AtLeast(1.0)));
    goals
}

/// Goals of all sizes that were measured, so that nothing is gained by being good at some.
fn all_sizes() -> Vec<Goal> {
    let (every, mean) = (Over::Every, Over::Mean);
    let kib = 1024;
    let shared = || Against::BestPeer("bandwidth/shm".to_owned());
    let mut goals = vec![
        Goal::over(
            "every size one way, shm",
            "latency/shm",
            every(0),
            AtMost(1.0),
        ),
        Goal::over(
            "all sizes one way, shm",
            "latency/shm",
            mean(0),
            AtMost(0.8),
        ),
        Goal::over(
            "bandwidth of every size, shm",
            "bandwidth/shm",
            every(kib),
            AtLeast(1.0),
        ),
        Goal::over(
            "bandwidth of all sizes, shm",
            "bandwidth/shm",
            mean(kib),
            AtLeast(1.5),
        ),
        Goal::over(
            "bandwidth of all sizes, shm, memalloc",
            "bandwidth/shm/shared-buffers",
            mean(kib),
            AtLeast(2.0),
        )
        .against(shared()),
        Goal::over(
            "bandwidth of every size, tcp",
            "bandwidth/tcp",
            every(0),
            AtLeast(1.0),
        ),
    ];
    for method in ["shm", "tcp"] {
        let case = format!("latency/{method}");
        let what = format!("99th percentile of every size, {method}");
        let median = Against::Ourselves(case.clone(), "its median");
        let p99 = format!("{case}/p99");
        goals.push(Goal::over(what, p99, every(0), AtMost(3.0)).against(median));
    }
    goals
}

/// Goals beside other peers that are connected.
fn idle_peers() -> Vec<Goal> {
    let mut goals = Vec::new();
    for method in ["shm", "tcp"] {
        for (what, case, most) in [
            ("4,096 idle peers", "4096-peers", 1.02),
            ("64 active peers", "64-active", 2.0),
        ] {
            let what = format!("8 B one way with {what}, {method}");
            let alone = Against::Ourselves(format!("idle/{method}/1-peers"), "with one");
            let case = format!("idle/{method}/{case}");
            goals.push(Goal::new(what, case, 8, AtMost(most)).against(alone));
        }
    }
    goals
}

/// Goals of messages that find their receiver asleep, at work, or without a processor.
fn waits() -> Vec<Goal> {
    let wake = Against::Limit("pause/futex-wake".to_owned());
    let plain = Against::Ourselves("latency/tcp".to_owned(), "its plain latency");
    let what = "8 B to a receiver that computes 50 µs";
    let mut goals = vec![
        Goal::new("8 B after 1 ms of idling, shm", "pause/shm", 8, AtMost(1.1)).against(wake),
        Goal::new(format!("{what}, tcp"), "computing/tcp", 8, AtMost(1.5)).against(plain),
    ];
    for method in ["shm", "tcp"] {
        let pause = format!("pause/{method}");
        let asleep = format!("8 B, both sides sleep 1 ms in between, {method}");
        goals.push(Goal::new(&asleep, &pause, 8, AtMost(1.1)));
        let cpu = format!("{pause}/cpu-of-a-message");
        let its_time = Against::PeerBestAt(cpu.clone(), pause);
        let asleep = format!("{asleep}: processor time");
        goals.push(Goal::new(asleep, cpu, 8, AtMost(0.05)).against(its_time));
        let case = format!("computing/{method}");
        goals.push(Goal::new(format!("{what}, {method}"), case, 8, AtMost(1.0)));
        for (which, name) in [("mean", "mean"), ("p99", "99th percentile")] {
            let what = format!("8 B beside computing processes, {method}: {name}");
            let case = format!("contention/{method}/{which}");
            goals.push(Goal::new(what, case, 8, AtMost(1.0)));
        }
    }
    goals
}

/// Goals of a server that many clients ask.
fn loads(clients: &[usize]) -> Vec<Goal> {
    let mut goals = Vec::new();
    for method in ["shm", "tcp"] {
        for clients in clients {
            for size in REPLY_BYTES {
                let case = format!("load/{method}/{clients}-clients");
                let what = format!("{clients} clients, {} KB replies, {method}", size / 1000);
                let mean = (format!("{what}: mean"), format!("{case}/mean"));
                goals.push(Goal::new(mean.0, mean.1, size, AtMost(1.0)));
                let spread = (
                    format!("{what}: slowest to mean"),
                    format!("{case}/max-to-mean"),
                );
                goals.push(
                    Goal::new(spread.0, spread.1, size, AtMost(1.2)).against(Against::Nothing),
                );
            }
        }
    }
    goals
}

/// Goals of rings of processes.
fn rings() -> Vec<Goal> {
    let mut goals = Vec::new();
    for method in ["shm", "tcp"] {
        for processes in RINGS {
            for (which, name) in [
                ("hop", "a hop"),
                ("cpu-of-a-hop", "processor time of a hop"),
                ("cpu-while-waiting", "processor time while all wait"),
            ] {
                let case = format!("ring/{method}/{processes}-processes/{which}");
                let what = format!("ring of {processes} on 2 processors, {method}: {name}");
                goals.push(Goal::new(what, case, 0, AtMost(1.0)));
            }
        }
    }
    goals
}

/// Every goal whose figures were measured, and the largest steps between neighbouring sizes.
pub(crate) fn verdicts(findings: &Findings, clients: &[usize]) -> Vec<Verdict> {
    let goals = goals(clients);
    let steps = ["shm", "tcp"].into_iter().filter_map(|method| {
        let step = steps::largest(findings, OURS, method)?;
        Some(step.verdict(method))
    });
    let reached = goals.iter().filter_map(|goal| verdict(findings, goal));
    reached.chain(steps).collect()
}

/// The largest steps of the peers, in words.
pub(crate) fn steps_of_peers(findings: &Findings) -> Vec<String> {
    let peers = findings
        .participants()
        .into_iter()
        .filter(|name| *name != OURS);
    let step = |peer: &str, method: &str| {
        let step = steps::largest(findings, peer, method)?;
        Some(format!(
            "{peer} over {method}: the largest step between neighbouring sizes is {step}"
        ))
    };
    peers
        .flat_map(|peer| ["shm", "tcp"].map(|method| step(peer, method)))
        .flatten()
        .collect()
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

/// The sizes from this one on of which there is a figure of Causeway's and one to compare it with.
fn sizes(findings: &Findings, goal: &Goal, from: u64) -> Vec<u64> {
    let ours = findings.by_size(&goal.case, OURS).into_iter();
    ours.map(|series| series.size)
        .filter(|size| *size >= from && other(findings, goal, *size).is_some())
        .collect()
}

/// What Causeway's figure of this size is compared with; `None` within if with nothing, `None` if that is missing.
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

/// The verdict on ratios of runs; who has what is still to be filled in. None without a ratio.
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

#[cfg(test)]
#[path = "goals_tests.rs"]
mod tests;
