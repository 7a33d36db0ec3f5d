//! Verdicts on figures of a few runs.

use super::*;
use crate::participants::LIMIT;
use crate::parts::figure::Figure;

fn findings(figures: &[(u32, &str, &str, u64, &'static str, f64)]) -> Findings {
    let mut findings = Findings::default();
    for &(round, participant, case, size, metric, value) in figures {
        findings.add(
            round,
            participant,
            "near",
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

fn found<'a>(verdicts: &'a [Verdict], what: &str) -> &'a Verdict {
    let mut all = verdicts.iter();
    all.find(|verdict| verdict.goal.contains(what))
        .unwrap_or_else(|| panic!("{what}: {verdicts:?}"))
}

#[test]
fn the_worst_of_all_sizes_decides_whichever_they_are() {
    let findings = findings(&[
        (0, OURS, "latency/shm", 8, "latency_us", 0.1),
        (0, "one", "latency/shm", 8, "latency_us", 0.2),
        (0, OURS, "latency/shm", 12_345, "latency_us", 3.0),
        (0, "one", "latency/shm", 12_345, "latency_us", 4.0),
        (0, "two", "latency/shm", 12_345, "latency_us", 2.0),
        // There is no peer to compare it with.
        (0, OURS, "latency/shm", 99_999, "latency_us", 30.0),
    ]);
    let verdicts = verdicts(&findings, &[]);
    let worst = found(&verdicts, "every size one way, shm");
    assert!(worst.goal.ends_with("worst of 2, 12,345 B"), "{worst:?}");
    assert_eq!((worst.ratio, worst.reached), (1.5, false));
    assert_eq!(worst.participant, "two");
    let mean = found(&verdicts, "all sizes one way, shm");
    // The square root of 0.5 and 1.5.
    assert!((mean.ratio - 0.75_f64.sqrt()).abs() < 1e-9, "{mean:?}");
    assert_eq!((mean.ours.as_str(), mean.reached), ("2 sizes", false));
}

#[test]
fn a_mean_is_of_runs_that_have_all_sizes() {
    let mut figures = Vec::new();
    for run in 0..3 {
        for size in [2048, 3000] {
            // The last run has one size only.
            if (run, size) != (2, 3000) {
                let bandwidth = "bandwidth/shm";
                figures.push((run, OURS, bandwidth, size, "bandwidth_mb_s", 200.0));
                figures.push((run, "one", bandwidth, size, "bandwidth_mb_s", 100.0));
            }
        }
    }
    // Too small for this goal.
    figures.push((0, OURS, "bandwidth/shm", 8, "bandwidth_mb_s", 1.0));
    figures.push((0, "one", "bandwidth/shm", 8, "bandwidth_mb_s", 9.0));
    let verdicts = verdicts(&findings(&figures), &[]);
    let mean = found(&verdicts, "bandwidth of all sizes, shm: geometric mean");
    assert_eq!((mean.runs, mean.reached), (2, true));
    assert!((mean.ratio - 2.0).abs() < 1e-9, "{mean:?}");
}

#[test]
fn processor_time_is_compared_with_that_of_the_fastest_peer() {
    let cpu = "pause/shm/cpu-of-a-message";
    let findings = findings(&[
        (0, OURS, "pause/shm", 8, "latency_us", 4.0),
        (0, OURS, cpu, 8, "latency_us", 50.0),
        (0, "spins", "pause/shm", 8, "latency_us", 1.0),
        (0, "spins", cpu, 8, "latency_us", 1000.0),
        (0, "sleeps", "pause/shm", 8, "latency_us", 9.0),
        (0, "sleeps", cpu, 8, "latency_us", 10.0),
        (0, LIMIT, "pause/futex-wake", 8, "latency_us", 4.0),
    ]);
    let verdicts = verdicts(&findings, &[]);
    let time = found(&verdicts, "processor time");
    assert_eq!((time.ratio, time.participant.as_str()), (0.05, "spins"));
    assert!(time.reached);
    assert!(found(&verdicts, "after 1 ms of idling").reached);
    assert!(!found(&verdicts, "both sides sleep 1 ms in between, shm").reached);
}

#[test]
fn steps_between_neighbouring_sizes_are_a_finding() {
    let latency = "latency/tcp";
    let findings = findings(&[
        (0, OURS, latency, 8192, "latency_us", 1.0),
        (0, OURS, latency, 9000, "latency_us", 4.0),
        (0, "one", latency, 8192, "latency_us", 1.0),
        (0, "one", latency, 9000, "latency_us", 1.1),
    ]);
    let verdicts = verdicts(&findings, &[]);
    let step = found(&verdicts, "largest step");
    assert_eq!((step.ratio, step.runs, step.reached), (4.0, 1, false));
    let notes = steps_of_peers(&findings);
    assert_eq!(notes.len(), 1);
    assert!(
        notes[0].starts_with("one over tcp: the largest step"),
        "{notes:?}"
    );
}

#[test]
fn goals_without_figures_have_no_verdict() {
    assert!(verdicts(&Findings::default(), &[64]).is_empty());
    let alone = findings(&[(0, OURS, "latency/tcp", 8, "latency_us", 3.0)]);
    assert!(verdicts(&alone, &[64]).is_empty());
}
