//! What is to be reached.

use crate::goals::Bound::{AtLeast, AtMost};
use crate::goals::{Against, Goal, Over};

/// The goals, in the order in which they are shown, for collective operations by so many ranks.
pub(super) fn goals(ranks: &[u32]) -> Vec<Goal> {
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
    for senders in 1..=3 {
        let what = format!("rate of 8 B from any of {senders}");
        let case = format!("any-source/{senders}-senders");
        goals.push(Goal::new(what, case, 8, AtLeast(1.0)));
    }
    for case in ["vector", "subarray"] {
        // These are times.
        let bytes = if case == "vector" { 1 << 20 } else { 2 << 20 };
        goals.push(Goal::new(case, case, bytes, AtMost(0.5)));
    }
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
            goals.push(Goal::over(
                format!("{what}, every size"),
                &case,
                every(0),
                AtMost(1.0),
            ));
            goals.push(Goal::over(what, case, mean(0), AtMost(0.8)));
        }
    }
    for ranks in ranks.iter().filter(|ranks| **ranks > 2) {
        for (operation, size) in [("barrier", 0), ("allreduce", 8)] {
            let case = format!("{operation}/{ranks}-ranks");
            let what = format!("{operation} by {ranks} on 2 processors");
            goals.push(Goal::new(what, case, size, AtMost(0.8)));
        }
    }
    let nothing = Against::Nothing;
    goals.push(
        Goal::new(
            "1 MiB exchanged behind 500 µs of computing",
            "overlap",
            1 << 20,
            AtLeast(0.8),
        )
        .against(nothing),
    );
    goals.push(Goal::new(
        "start-up and end of 8 ranks",
        "start/8-ranks",
        0,
        AtMost(1.0),
    ));
    goals.push(Goal::new(
        "private memory of a rank of 8",
        "memory/8-ranks",
        0,
        AtMost(1.0),
    ));
    goals
}
