//! Benchmarks run, verify their data and speak the common language. No figure is judged here.

use super::demo::{check_report, check_rows};
use super::stand::Run;

#[test]
fn the_file_system_is_measured() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let said = Run::new(
        here,
        &[
            "bench",
            "fs",
            "--quick",
            "--runs",
            "1",
            "--clients",
            "1,2",
            "--size",
            "6MiB",
            "--files",
            "40",
            "--tile-widths",
            "4",
            "--dir",
            ".",
            "--disk",
            ".",
            "--html",
            "fs.html",
            "--json",
        ],
    )
    .json();
    assert_eq!(said["bench"], "fs");
    check_rows(&said);
    let rows = said["rows"].as_array().unwrap();
    let has = |case: &str, who: &str| {
        assert!(
            rows.iter()
                .any(|row| row["case"] == case && row["who"] == who),
            "{case} {who}"
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
    has("idle-server/50-clients", "causeway");
    check_report(&std::fs::read_to_string(here.join("fs.html")).unwrap());
    let left: Vec<_> = std::fs::read_dir(here)
        .unwrap()
        .map(|one| one.unwrap().file_name())
        .collect();
    assert_eq!(left, ["fs.html"]);
}

#[test]
fn messages_are_measured() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let said = Run::new(
        here,
        &[
            "bench",
            "messages",
            "--quick",
            "--runs",
            "1",
            "--sizes",
            "8,4KiB,1MiB",
            "--html",
            "m.html",
            "--json",
        ],
    )
    .json();
    assert_eq!(said["bench"], "messages");
    check_rows(&said);
    let rows = said["rows"].as_array().unwrap();
    for (case, size) in [
        ("latency/shm", 8),
        ("latency/tcp", 1 << 20),
        ("latency/cache-line", 8),
        ("latency/bare-tcp-polling", 8),
        ("latency/bare-tcp-blocking", 8),
        ("latency/shm/to-limit", 8),
        ("latency/tcp/to-limit", 8),
        ("bandwidth/memcpy", 1 << 20),
        ("bandwidth/shm/shared-buffers", 1 << 20),
        ("rate/tcp", 4096),
    ] {
        let found = rows
            .iter()
            .any(|row| row["case"] == case && row["size_bytes"] == size);
        assert!(found, "{case} {size}");
    }
    check_report(&std::fs::read_to_string(here.join("m.html")).unwrap());
}
