//! Goals, and whether they were reached: ratios within a run, their medians, the verdict.

use causeway_report::plots::size_name;
use causeway_report::rows::{Row, figure_text};
use causeway_report::table::Table;

use super::findings::{Findings, Series};
use super::trial::{REPLY_BYTES, RINGS};
use crate::outcome::{LIMIT, OURS, Verdict};

/// What a figure of Causeway's is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Against {
    /// The best of the peers in this case.
    BestPeer(String),
    /// A limit of the machine.
    Limit(String),
    /// Another case of Causeway's.
    Ourselves(String),
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

/// Something to be reached.
#[derive(Debug, Clone)]
struct Goal {
    what: String,
    case: String,
    size: u64,
    against: Against,
    bound: Bound,
}

impl Goal {
    /// That a figure of Causeway's is so many times that of the best peer in the same case.
    fn new(what: impl Into<String>, case: impl Into<String>, size: u64, bound: Bound) -> Self {
        let case = case.into();
        Self {
            what: what.into(),
            against: Against::BestPeer(case.clone()),
            case,
            size,
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
    goals.extend(loads(clients));
    goals.extend(rings());
    goals
}

/// Goals of two processes.
fn pairs() -> Vec<Goal> {
    let cache_line = Against::Limit("latency/cache-line".to_owned());
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
    goals.push(Goal::new("8 B one way, tcp", "latency/tcp", 8, AtMost(1.0)));
    let what = "bandwidth of 1 MiB, tcp";
    goals.push(Goal::new(what, "bandwidth/tcp", 1 << 20, AtLeast(1.0)));
    for method in ["shm", "tcp"] {
        let what = format!("8 B one way with 4,096 idle peers, {method}");
        let alone = Against::Ourselves(format!("idle/{method}/1-peers"));
        let case = format!("idle/{method}/4096-peers");
        goals.push(Goal::new(what, case, 8, AtMost(1.05)).against(alone));
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
                    Goal::new(spread.0, spread.1, size, AtMost(2.0)).against(Against::Nothing),
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

/// Every goal whose figures were measured.
pub(crate) fn verdicts(findings: &Findings, clients: &[usize]) -> Vec<Verdict> {
    let goals = goals(clients);
    goals
        .iter()
        .filter_map(|goal| verdict(findings, goal))
        .collect()
}

fn verdict(findings: &Findings, goal: &Goal) -> Option<Verdict> {
    let ours = findings.series(&goal.case, OURS, goal.size)?;
    let other = match &goal.against {
        Against::BestPeer(case) => Some(best_peer(findings, case, goal)?),
        Against::Limit(case) => Some(findings.series(case, LIMIT, goal.size)?),
        Against::Ourselves(case) => Some(findings.series(case, OURS, goal.size)?),
        Against::Nothing => None,
    };
    let ratios: Vec<f64> = match other {
        Some(other) => ours.over(other),
        None => ours.values(),
    };
    let row = Row::new(goal.case.clone(), OURS, goal.size, "ratio", &ratios)?;
    let (relation, bound, reached) = match goal.bound {
        Bound::AtMost(bound) => ("≤", bound, row.median <= bound),
        Bound::AtLeast(bound) => ("≥", bound, row.median >= bound),
    };
    let name = match &goal.against {
        Against::BestPeer(_) => " × the best peer",
        Against::Limit(_) => " × the machine's limit",
        Against::Ourselves(_) => " × with one",
        Against::Nothing => "",
    };
    let text = |series: &Series| figure_text(series.metric, series.median());
    Some(Verdict {
        goal: goal.what.clone(),
        wanted: format!("{relation} {bound}{name}"),
        ratio: row.median,
        min: row.min,
        max: row.max,
        runs: row.runs,
        ours: text(ours),
        other: other.map(text).unwrap_or_default(),
        participant: other
            .map(|other| other.participant.clone())
            .unwrap_or_default(),
        reached,
    })
}

/// The peer with the best median.
fn best_peer<'a>(findings: &'a Findings, case: &str, goal: &Goal) -> Option<&'a Series> {
    let peers = findings.peers(case, goal.size);
    match goal.bound {
        Bound::AtMost(_) => peers.min_by(|a, b| a.median().total_cmp(&b.median())),
        Bound::AtLeast(_) => peers.max_by(|a, b| a.median().total_cmp(&b.median())),
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
mod tests {
    use super::*;
    use crate::compare::trial::Figure;

    fn findings(figures: &[(u32, &str, &str, u64, &'static str, f64)]) -> Findings {
        let mut findings = Findings::default();
        for &(round, participant, case, size, metric, value) in figures {
            findings.add(
                round,
                participant,
                Figure::new(case, size, metric, value).unwrap(),
            );
        }
        findings
    }

    #[test]
    fn ratios_are_taken_within_a_run_and_against_the_best_peer() {
        // The machine is twice as slow in the second run; the ratio does not see it.
        let findings = findings(&[
            (0, OURS, "latency/shm", 8, "latency_us", 0.2),
            (0, "fast-1", "latency/shm", 8, "latency_us", 0.4),
            (0, "slow-1", "latency/shm", 8, "latency_us", 0.9),
            (1, OURS, "latency/shm", 8, "latency_us", 0.4),
            (1, "fast-1", "latency/shm", 8, "latency_us", 0.8),
            (0, LIMIT, "latency/cache-line", 8, "latency_us", 0.1),
        ]);
        let verdicts = verdicts(&findings, &[64]);
        assert_eq!(verdicts.len(), 2, "{verdicts:?}");
        let limit = &verdicts[0];
        assert_eq!((limit.ratio, limit.runs, limit.reached), (2.0, 1, false));
        let peer = &verdicts[1];
        assert_eq!(
            (peer.ratio, peer.min, peer.max, peer.runs),
            (0.5, 0.5, 0.5, 2)
        );
        assert!(peer.reached && peer.participant == "fast-1");
    }

    #[test]
    fn for_rates_the_best_peer_is_the_highest() {
        let findings = findings(&[
            (0, OURS, "rate/shm", 8, "rate_per_s", 30.0),
            (0, "one", "rate/shm", 8, "rate_per_s", 10.0),
            (0, "two", "rate/shm", 8, "rate_per_s", 20.0),
        ]);
        let verdicts = verdicts(&findings, &[]);
        assert_eq!(
            (verdicts[0].ratio, verdicts[0].participant.as_str()),
            (1.5, "two")
        );
        assert!(verdicts[0].reached);
    }

    #[test]
    fn goals_without_figures_have_no_verdict() {
        assert!(verdicts(&Findings::default(), &[64]).is_empty());
        let alone = findings(&[(0, OURS, "latency/tcp", 8, "latency_us", 3.0)]);
        assert!(verdicts(&alone, &[64]).is_empty());
    }
}
