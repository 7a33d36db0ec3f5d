//! Scenarios of jobs that share processors.

use super::tests::{refused, scenario};
use super::{Measure, Parts, Step};
use crate::workloads::Keep;

const JOBS: &str = "profile = \"coscheduling\"
seed = 2
replications = 2

[workload]
kind = \"jobs\"
strategy = \"PB\"

[[workload.job]]
program = \"life 12 %\"
count = 2
iterations = 300

[[workload.job]]
program = \"sequential\"
compute = \"2 s\"
node = 0

[[workload.job]]
program = \"disk\"
compute = \"2 ms\"
sleep = \"18 ms\"
iterations = 100
node = 5
";

fn measured(step: &Step<'_>) -> Vec<Measure> {
    step.run(Keep::Statistics).expect("it runs").0
}

fn find<'a>(measures: &'a [Measure], case: &str, metric: &str) -> &'a Measure {
    let found = measures
        .iter()
        .find(|measure| measure.case == case && measure.metric == metric);
    found.unwrap_or_else(|| panic!("{case} {metric}: {measures:?}"))
}

#[test]
fn jobs_have_what_is_theirs_of_processors() {
    let scenario = scenario(JOBS).expect("it is right");
    assert!(scenario.is_reproducible() && !scenario.has_timeline());
    let steps = scenario.steps();
    assert_eq!(steps.len(), 2);
    let found = measured(&steps[0]);
    assert_eq!(found, measured(&steps[0]));
    assert_ne!(found, measured(&steps[1]), "seeds make a difference");
    let value = |case: &str, metric: &str| find(&found, case, metric).value;
    // 300 iterations take 1.2 s alone, and processes begin up to 0.1 s apart. Two of these jobs and a sequential one share the first
    // node; two without that take up to 8.76 times as long as one with PB in Table 6.6 (219 s for 25).
    for job in ["pb/job-0/LIFE (12 %)", "pb/job-1/LIFE (12 %)"] {
        let slowdown = value(&format!("{job}/completion"), "slowdown");
        assert!((1.2..8.76).contains(&slowdown), "{slowdown}");
        let alone = value(&format!("{job}/completion"), "time_us") / slowdown;
        assert!((1.15e6..1.4e6).contains(&alone), "{alone} µs alone");
        let spinning = value(&format!("{job}/spinning"), "share");
        assert!(spinning < value(&format!("{job}/processors"), "share"));
        let shares = find(&found, &format!("{job}/node-0"), "share");
        assert!(
            matches!(&shares.of, Parts::Instances(all) if all.len() > 5),
            "{shares:?}"
        );
    }
    // It wants a tenth of a processor, and waits for it.
    let disk = value("pb/job-3/disk/processors", "share");
    assert!((0.01..=0.1).contains(&disk), "{disk}");
    assert_eq!(value("pb/job-2/sequential/spinning", "share"), 0.0);
    let all = value("pb/all/completion", "time_us");
    let each = find(&found, "pb/each/completion", "time_us");
    assert!(matches!(&each.of, Parts::Instances(times) if times.len() == 4));
    assert!(each.value < all);
    assert!(value("pb/each/completion", "variation") > 0.05);
    assert!(value("pb/host/boosts", "count") > 100.0);
    assert_eq!(value("pb/host/interrupts", "count"), 0.0);
}

#[test]
fn jobs_have_their_shares_over_time() {
    let scenario = scenario(JOBS).expect("it is right");
    let (_, record) = scenario.steps()[0].run(Keep::Statistics).expect("it runs");
    let parts = record.statistics.expect("of jobs").parts;
    assert!((20..=256).contains(&parts.len()), "{}", parts.len());
    assert!(parts.is_sorted_by(|a, b| a.0 < b.0));
    for (at, parts) in &parts {
        assert_eq!(parts.len(), 4, "a part of each job");
        assert!(parts.iter().sum::<u32>() <= 1_000_001, "at {at}: {parts:?}");
    }
    // The disk-bound job is on another node than the first.
    assert!(parts.iter().all(|(_, parts)| parts[3] == 0));
    assert!(parts.iter().any(|(_, parts)| parts[2] > 100_000));
}

#[test]
fn strategies_and_the_profile_can_be_swept() {
    let sweep = |key: &str, values: &str| {
        let text = format!("{JOBS}[sweep]\nkey = \"{key}\"\nvalues = {values}\n");
        let scenario = scenario(&text.replace("replications = 2\n", "")).expect("it is right");
        let steps = scenario.steps();
        let all: Vec<f64> = steps.iter().map(|step| measured(step)[0].value).collect();
        all
    };
    let found = sweep("workload.strategy", "[\"LOCAL\", \"FB\"]");
    assert!(found[1] < found[0], "{found:?}");
    let found = sweep("profile.strategies.period", "[\"10 ms\", \"200 ms\"]");
    assert_ne!(found[0], found[1]);
}

#[test]
fn jobs_that_cannot_be_are_refused() {
    refused(JOBS, "\"PB\"", "\"GANG\"", 7, &["\"PB-SB\""]);
    refused(JOBS, "\"life 12 %\"", "\"fft\"", 10, &["\"mg\""]);
    refused(JOBS, "node = 5", "node = 8", 24, &["to 7"]);
    refused(
        JOBS,
        "compute = \"2 s\"",
        "compute = \"2 h\"",
        16,
        &["compute"],
    );
    refused(JOBS, "iterations = 300", "sleep = \"1 s\"", 12, &["sleep"]);
    refused(JOBS, "count = 2", "count = 63", 5, &["65 jobs"]);
    refused(
        JOBS,
        "\"coscheduling\"",
        "\"via\"",
        1,
        &["\"coscheduling\""],
    );
    refused(JOBS, "seed = 2", "design = \"SVIA\"", 2, &["design"]);
}
