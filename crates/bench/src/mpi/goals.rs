//! The goals of `causeway bench mpi`.

use crate::goals::Bound::{AtLeast, AtMost};
use crate::goals::{Against, Goal, Over};
use causeway_report::plots::size_name;

/// The goals, in the order in which they are shown, with collective operations by these numbers of ranks.
pub(super) fn goals(ranks: &[u32]) -> Vec<Goal> {
    let mut goals = pairs();
    goals.extend(collectives(ranks));
    goals.extend(windows());
    goals.extend(more_ranks_than_processors(ranks));
    goals.extend(alone());
    goals
}

/// Goals of messages between few ranks.
fn pairs() -> Vec<Goal> {
    let kib = 1024;
    let (every, mean) = (Over::Every, Over::Mean);
    let mut goals = vec![
        Goal::over("latency of every size", "latency", every(0), AtMost(1.0)),
        Goal::over("latency", "latency", mean(0), AtMost(0.85)),
    ];
    for case in ["bandwidth", "bidirectional"] {
        let of_every = format!("{case} of every size");
        goals.push(Goal::over(of_every, case, every(kib), AtLeast(1.0)));
        goals.push(Goal::over(case, case, mean(kib), AtLeast(1.4)));
    }
    goals.push(Goal::new("rate of 8 B", "rate", 8, AtLeast(1.4)));
    let what = "rate of 8 B by 4 threads a rank";
    goals.push(Goal::new(what, "rate/4-threads", 8, AtLeast(2.0)));
    for senders in 1..=4 {
        let what = format!("rate of 8 B from any of {senders}");
        let case = format!("any-source/{senders}-senders");
        goals.push(Goal::new(what, case, 8, AtLeast(1.0)));
    }
    // The figures of these goals are times.
    for (case, bytes) in [("vector", 1 << 20), ("subarray", 2 << 20)] {
        goals.push(Goal::new(case, case, bytes, AtMost(0.5)));
    }
    goals
}

/// Goals of collective operations of every size.
fn collectives(ranks: &[u32]) -> Vec<Goal> {
    let mut goals = Vec::new();
    for operation in [
        "bcast",
        "allreduce",
        "reduce_scatter",
        "allgather",
        "alltoall",
    ] {
        for ranks in ranks {
            let case = format!("{operation}/{ranks}-ranks");
            let what = format!("{operation} by {ranks}");
            let of_every = format!("{what}, every size");
            goals.push(Goal::over(of_every, &case, Over::Every(0), AtMost(1.0)));
            goals.push(Goal::over(what, case, Over::Mean(0), AtMost(0.8)));
        }
    }
    goals
}

/// Goals of one-sided communication, and of whole programs.
fn windows() -> Vec<Goal> {
    let mut goals = Vec::new();
    for access in ["put", "get", "accumulate", "fetch-and-op"] {
        for size in [8, 1 << 20] {
            let what = format!("{access} with flush, {}", size_name(size as f64));
            goals.push(Goal::new(what, access, size, AtMost(0.9)));
        }
    }
    for case in [
        "master-worker/2-ranks",
        "master-worker/4-ranks",
        "life/2-ranks",
    ] {
        goals.push(Goal::new(case, case, 0, AtMost(0.8)));
    }
    goals
}

fn more_ranks_than_processors(ranks: &[u32]) -> Vec<Goal> {
    let mut goals = Vec::new();
    let some = ranks
        .iter()
        .copied()
        .filter(|ranks| (3..16).contains(ranks));
    for ranks in some.chain([16]) {
        for (operation, size) in [("barrier", 0), ("allreduce", 8)] {
            let case = format!("{operation}/{ranks}-ranks");
            let what = format!("{operation} by {ranks} on 2 processors");
            goals.push(Goal::new(what, case, size, AtMost(0.8)));
        }
    }
    goals
}

/// Goals that are absolute values.
fn alone() -> impl Iterator<Item = Goal> {
    let overlap = "1 MiB exchanged behind 500 µs of computing";
    let start = "start-up and end of 8 ranks, µs";
    let memory = "private memory of a rank of 64, MiB";
    let goals = [
        Goal::new(overlap, "overlap", 1 << 20, AtLeast(0.8)),
        Goal::new(start, "start/8-ranks", 0, AtMost(100_000.0)),
        Goal::new(memory, "memory/64-ranks", 0, AtMost(32.0)),
    ];
    goals.into_iter().map(|goal| goal.against(Against::Nothing))
}
