//! Output of jobs, and launchers that misbehave.

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::messages::effort::Effort;

fn trial(pattern: Pattern) -> Trial {
    Trial {
        pattern,
        method: "shm".to_owned(),
        sizes: vec![0, 8, 1 << 20],
        clients: 3,
        effort: Effort { quick: true },
        processors: [0, 1],
    }
}

fn value(figures: &[Figure], case: &str, size: u64) -> f64 {
    let found = figures
        .iter()
        .find(|figure| figure.case == case && figure.size == size);
    found
        .unwrap_or_else(|| panic!("{case} {size} in {figures:?}"))
        .value
}

#[test]
fn figures_are_found_between_other_output_of_launchers() {
    let said = "--------------------------------------------------\n\
        WARNING: Open MPI {did} not like something.\n\
        {\"pattern\":\"latency\",\"size_bytes\":8,\"latency_us\":0.220775,\"p99_us\":0.5}\n\
        [1,0]<stdout>: {\"pattern\":\"stream\",\"size_bytes\":8,\"rate_per_s\":13988829.718353}\n\
        {\"pattern\":\"stream\",\"size_bytes\":1048576,\"rate_per_s\":22746.432707}\n\
        {\"pattern\":\"ring\",\"processes\":4,\"hop_us\":0.9,\"cpu_us_per_hop\":1.8,\
        \"waiting_cpu_share\":2.0}\n\
        {\"pattern\":\"load\",\"size_bytes\":10000,\"latencies_us\":[100,200,300]}\n\
        {\"pattern\":\"latency\",\"size_bytes\":0,\"latency_us\":nan,\"p99_us\":1}\n\
        {\"pattern\":\"something else\"}\n";
    let figures = parse(said, &trial(Pattern::Latency));
    assert_eq!(value(&figures, "latency/shm", 8), 0.220775);
    assert_eq!(value(&figures, "latency/shm/p99", 8), 0.5);
    assert_eq!(value(&figures, "rate/shm", 8), 13_988_829.718_353);
    assert!((value(&figures, "bandwidth/shm", 1 << 20) - 23_851.4).abs() < 1.0);
    assert_eq!(value(&figures, "ring/shm/4-processes/hop", 0), 0.9);
    assert_eq!(
        value(&figures, "ring/shm/4-processes/cpu-while-waiting", 0),
        2.0
    );
    assert_eq!(value(&figures, "load/shm/3-clients/mean", 10_000), 200.0);
    assert_eq!(
        value(&figures, "load/shm/3-clients/max-to-mean", 10_000),
        1.5
    );
    assert!(
        !figures
            .iter()
            .any(|figure| figure.case == "latency/shm" && figure.size == 0)
    );
}

#[test]
fn output_of_another_form_has_no_figures() {
    for said in [
        "",
        "{",
        "{}\n}{",
        "\0\u{fffd}{\"pattern\":1}",
        "{\"pattern\":\"load\"}",
    ] {
        assert!(parse(said, &trial(Pattern::Load)).is_empty(), "{said}");
    }
}

#[test]
fn all_participants_get_the_same_repetitions() {
    let jobs = jobs(&trial(Pattern::Bandwidth));
    let effort = Effort { quick: true };
    let expected =
        [8, 1 << 20].map(|size| format!("{size}:{}:{}", window(size), effort.windows(size)));
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0].arguments[1..], expected);
}

#[test]
fn an_exchange_has_the_figures_that_its_pattern_is_judged_by() {
    let said = "{\"pattern\":\"exchange\",\"mean_us\":3.0,\"median_us\":0.3,\"p99_us\":9.0,\"cpu_us\":2.0}";
    let contention = parse(said, &trial(Pattern::Contention));
    assert_eq!(value(&contention, "contention/shm/mean", 8), 3.0);
    assert_eq!(value(&contention, "contention/shm/p99", 8), 9.0);
    let pause = parse(said, &trial(Pattern::Pause));
    assert_eq!(value(&pause, "pause/shm", 8), 0.3);
    assert_eq!(value(&pause, "pause/shm/cpu-of-a-message", 8), 2.0);
    assert_eq!(parse(said, &trial(Pattern::Computing)).len(), 2);
    let what = |pattern| jobs(&trial(pattern))[0].arguments[1].clone();
    assert_eq!(what(Pattern::Pause), "8:300:300:s1000:s1000");
    assert_eq!(what(Pattern::Computing), "8:1048576:300:n:c50");
}

/// A launcher of that family that runs the script instead of a job.
fn fake(directory: &Path, script: &str) -> Mpi {
    let launcher = directory.join("mpiexec");
    std::fs::write(&launcher, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&launcher, std::fs::Permissions::from_mode(0o755)).unwrap();
    Mpi {
        name: "mpich-0.0".to_owned(),
        family: Family::Mpich,
        major: 0,
        launcher,
        program: directory.join("mpi"),
        scratch: directory.to_owned(),
    }
}

#[test]
fn a_job_with_invalid_output_or_a_failure_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let mut mpi = fake(directory.path(), "echo 'all is well: 5 us'");
    let why = mpi
        .run(&trial(Pattern::Latency), &mut Vec::new())
        .unwrap_err()
        .why;
    assert!(why.contains("no figures"), "{why}");
    let mut mpi = fake(
        directory.path(),
        "echo 'mpi: rank 1: what arrived is not what was sent' >&2; exit 1",
    );
    let why = mpi
        .run(&trial(Pattern::Latency), &mut Vec::new())
        .unwrap_err()
        .why;
    assert!(why.contains("is not what was sent"), "{why}");
}
