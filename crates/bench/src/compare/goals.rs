//! The goals of the comparison with other libraries.

use causeway_report::plots::size_name;

use super::steps;
use super::trial::{REPLY_BYTES, RINGS};
use crate::goals::Bound::{AtLeast, AtMost};
use crate::goals::{self, Against, Goal, Over};
use crate::outcome::Verdict;
use crate::participants::OURS;
use crate::parts::findings::Findings;

/// The goals, in the order in which they are shown.
fn goals_of(clients: &[usize]) -> Vec<Goal> {
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

/// Goals over all sizes that were measured, so that nothing is gained by being good at some.
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

/// Goals of latency while other peers are connected.
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

/// Goals of a server with many clients.
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
    let goals = goals_of(clients);
    let steps = ["shm", "tcp"].into_iter().filter_map(|method| {
        let step = steps::largest(findings, OURS, method)?;
        Some(step.verdict(method))
    });
    let reached = goals::verdicts(findings, &goals);
    reached.into_iter().chain(steps).collect()
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

#[cfg(test)]
#[path = "goals_tests.rs"]
mod tests;
