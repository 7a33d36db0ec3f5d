//! Benchmarks run, verify their data and print rows of the common form. No figure is judged here.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::demo::{all_rows, check_report, check_rows};
use super::stand::Run;

/// Runs a benchmark in `here`. Returns its JSON, after the checks that are the same for all benchmarks.
fn measured(here: &Path, name: &str, arguments: &str) -> Value {
    let words = arguments.split_whitespace();
    let words: Vec<&str> = ["bench", name, "--json"].into_iter().chain(words).collect();
    let said = Run::new(here, &words).json();
    assert_eq!(said["bench"], name);
    check_rows(&said);
    said
}

/// The sizes in bytes of the rows that may be compared, of one case.
fn compared_sizes(said: &Value, case: &str) -> BTreeSet<u64> {
    let rows = said["rows"].as_array().unwrap().iter();
    rows.filter(|row| row["case"] == case)
        .map(|row| row["size_bytes"].as_u64().unwrap())
        .collect()
}

/// Whether there is such a row, of any size if none is named.
fn has_row(said: &Value, case: &str, participant: Option<&str>, size: Option<u64>) -> bool {
    all_rows(said).any(|row| {
        row["case"] == case
            && participant.is_none_or(|name| row["who"] == name)
            && size.is_none_or(|size| row["size_bytes"] == size)
    })
}

#[test]
fn the_file_system_is_measured() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let said = measured(
        here,
        "fs",
        "--quick --runs 1 --clients 1,2 --size 6MiB --files 40 --tile-widths 4 --dir . --disk . --html fs.html",
    );
    let has = |case: &str, participant: &str| {
        assert!(
            has_row(&said, case, Some(participant), None),
            "{case} {participant}"
        );
    };
    for what in ["write", "read"] {
        has(&format!("sequential/{what}/dd"), "limit");
        has(
            &format!("sequential/{what}/shared-buffers/2-clients/to-dd"),
            "causeway",
        );
        has(
            &format!("sequential/{what}/ordinary-memory/1-clients"),
            "causeway",
        );
        has(
            &format!("sequential/{what}/shared-buffers/2-clients/to-without-checksums"),
            "causeway",
        );
        has(&format!("tiles/{what}/list-to-each"), "causeway");
        has(&format!("small-files/{what}/2-clients"), "causeway");
    }
    for operation in ["create", "stat", "list", "unlink", "create-batch"] {
        has(&format!("{operation}/one-dir/1-clients"), "causeway");
        has(&format!("{operation}/many-dirs/2-clients"), "causeway");
    }
    for how in ["one", "batch"] {
        has(
            &format!("create-synced/group-commit/{how}/8-clients/to-commit-each"),
            "causeway",
        );
    }
    for what in ["put", "get", "remove"] {
        for beside in ["quiet", "beside-computing"] {
            has(&format!("tree/{what}/{beside}"), "causeway");
            has(&format!("tree/{what}/{beside}/local"), "limit");
        }
    }
    for what in ["create", "stat", "unlink", "write", "read", "read-pages"] {
        has(&format!("mount/{what}/2-processes/to-local"), "causeway");
        has(&format!("mount/{what}/1-processes/pass-through"), "limit");
    }
    has("idle-server/50-clients", "causeway");
    check_report(&std::fs::read_to_string(here.join("fs.html")).unwrap());
    let left: Vec<_> = std::fs::read_dir(here)
        .unwrap()
        .map(|one| one.unwrap().file_name())
        .collect();
    assert_eq!(left, ["fs.html"]);
}

/// Every row, and the run as a whole, states the distance of the processors, or that it is unknown.
fn check_distances(said: &Value) {
    let known = |name: &Value| {
        let name = name.as_str().unwrap();
        ["near", "far", "mixed", "unknown"].contains(&name) || name.starts_with("far ")
    };
    let distances = said["distances"].as_array().unwrap();
    assert!(!distances.is_empty());
    for distance in distances {
        assert!(known(&distance["distance"]) && distance["parts"].as_u64() > Some(0));
    }
    assert!(said["other_rows"].is_array());
    for row in all_rows(said) {
        assert!(known(&row["distance"]), "{row}");
    }
}

#[test]
fn messages_are_measured() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let said = measured(
        here,
        "messages",
        "--quick --runs 1 --sizes 8,4KiB,1MiB --tcp-connections 2 --html m.html",
    );
    for (case, size) in [
        ("latency/shm", 8),
        ("latency/tcp", 1 << 20),
        ("latency/cache-line", 8),
        ("latency/bare-tcp-polling", 8),
        ("latency/bare-tcp-blocking", 8),
        ("latency/shm/p99", 4096),
        ("latency/tcp/p99", 8),
        ("bandwidth/memcpy", 1 << 20),
        ("bandwidth/shm/shared-buffers", 1 << 20),
        ("rate/tcp", 4096),
    ] {
        assert!(has_row(&said, case, None, Some(size)), "{case} {size}");
    }
    for (case, limit) in [
        ("latency/shm", "latency/cache-line"),
        ("latency/tcp", "latency/bare-tcp-polling"),
    ] {
        // One run is compared with its limit unless the processors were moved between the two.
        let place = |case: &str| {
            let mut rows = all_rows(&said);
            let row = rows.find(|row| row["case"] == case && row["size_bytes"] == 8);
            row.map(|row| &row["distance"])
        };
        let ratio = has_row(&said, &format!("{case}/to-limit"), None, Some(8));
        assert_eq!(ratio, place(case) == place(limit), "{case}");
    }
    check_distances(&said);
    assert!(said.get("seed").is_none(), "the sizes were given");
    check_report(&std::fs::read_to_string(here.join("m.html")).unwrap());
}

#[test]
fn comparing_measures_every_pattern_of_ours_without_peers() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let said = measured(
        here,
        "compare",
        "--quick --who causeway --methods shm --sizes 0,8,1MiB --clients 4 --html c.html",
    );
    for (case, participant, size) in [
        ("latency/shm", "causeway", 0),
        ("latency/cache-line", "limit", 8),
        ("bandwidth/shm", "causeway", 1 << 20),
        ("bandwidth/shm/shared-buffers", "causeway", 1 << 20),
        ("rate/shm", "causeway", 8),
        ("load/shm/4-clients/mean", "causeway", 100_000),
        ("load/shm/4-clients/max-to-mean", "causeway", 10_000),
        ("ring/shm/8-processes/hop", "causeway", 0),
        ("ring/shm/2-processes/cpu-while-waiting", "causeway", 0),
        ("idle/shm/4096-peers", "causeway", 8),
        ("idle/shm/64-active", "causeway", 8),
        ("latency/shm/p99", "causeway", 0),
        ("pause/shm", "causeway", 8),
        ("pause/shm/cpu-of-a-message", "causeway", 8),
        ("pause/futex-wake", "limit", 8),
        ("computing/shm", "causeway", 8),
        ("contention/shm/mean", "causeway", 8),
        ("contention/shm/p99", "causeway", 8),
    ] {
        let found = has_row(&said, case, Some(participant), Some(size));
        assert!(found, "{case} {participant} {size}");
    }
    check_distances(&said);
    // A part during which the distance between the processors changed is judged by no goal.
    let goals = said.get("goals").and_then(Value::as_array);
    let goals = goals.map_or(&[][..], Vec::as_slice);
    let [latencies, p99s] =
        ["latency/shm", "latency/shm/p99"].map(|case| compared_sizes(&said, case));
    assert!(!goals.is_empty() || latencies.is_disjoint(&p99s));
    for field in [
        "goal", "wanted", "ratio", "min", "max", "runs", "ours", "other", "who", "reached",
    ] {
        assert!(
            goals.iter().all(|goal| goal.get(field).is_some()),
            "{field}"
        );
    }
    check_report(&std::fs::read_to_string(here.join("c.html")).unwrap());
}

#[test]
fn sizes_are_drawn_from_the_seed_that_is_printed() {
    let directory = tempfile::tempdir().unwrap();
    let said = measured(
        directory.path(),
        "compare",
        "--quick --who causeway --methods shm --patterns latency --seed 7",
    );
    assert_eq!(said["seed"], 7);
    let of_size = |row: &&Value| row["case"] == "latency/shm";
    let mut sizes: Vec<u64> = all_rows(&said)
        .filter(of_size)
        .map(|row| row["size_bytes"].as_u64().unwrap())
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    assert_eq!(sizes.len(), 40);
    assert_eq!(
        sizes.iter().filter(|size| size.is_power_of_two()).count(),
        20
    );
    // Otherwise the distance between the processors changed during a part, which is then judged by no goal.
    let is_judged = |case: &str| compared_sizes(&said, case).len() == 40;
    if is_judged("latency/shm") && is_judged("latency/shm/p99") {
        let goals = said["goals"].as_array().unwrap();
        for what in [
            "largest step of latency between neighbouring sizes, shm",
            "99th percentile of every size, shm: worst of 40",
        ] {
            let mut goals = goals.iter();
            assert!(
                goals.any(|goal| goal["goal"].as_str().unwrap().starts_with(what)),
                "{what} in {goals:?}"
            );
        }
    }
    let notes = said["notes"].as_array().unwrap();
    let is_said = |note: &Value| {
        note.as_str()
            .unwrap()
            .contains("`--seed 7` draws them again")
    };
    assert!(notes.iter().any(is_said), "{notes:?}");
}

#[test]
fn invalid_output_of_a_peer_library_is_a_note_and_not_a_failure() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let programs = here.join("peers/mpich/bin");
    std::fs::create_dir_all(&programs).unwrap();
    for (name, script) in [
        ("mpicc", "cp /bin/true \"$3\""),
        (
            "mpiexec",
            "echo 'HYDRA build details: Version: 0.0.7'; echo '{\"pattern\":\"latency\"'",
        ),
    ] {
        use std::os::unix::fs::PermissionsExt;
        let path = programs.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let said = measured(
        here,
        "compare",
        "--quick --who causeway,mpich-0 --methods shm --sizes 8 --patterns latency --peers peers",
    );
    let notes = said["notes"].as_array().unwrap();
    let is_said = |note: &serde_json::Value| {
        let note = note.as_str().unwrap();
        note.contains("mpich-0.0.7, latency over shm") && note.contains("no figures")
    };
    assert!(notes.iter().any(is_said), "{notes:?}");
    let gap = &said["gaps"][0];
    assert_eq!(gap["who"], "mpich-0.0.7", "{gap}");
    assert_eq!(gap["trial"], "latency over shm", "{gap}");
    assert_eq!(gap["how"], "failed", "{gap}");
}
