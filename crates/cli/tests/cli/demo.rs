//! The demonstration, on a tree that is small but has everything.

use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use super::stand::{Run, runs, send, until};

fn make_tree(top: &Path) {
    for directory in 0..6 {
        let path = top.join(format!("d{directory}/sub"));
        std::fs::create_dir_all(&path).unwrap();
        for file in 0..10_usize {
            let size = file * file * 700;
            std::fs::write(path.join(format!("f{file}")), vec![file as u8; size]).unwrap();
        }
    }
    // Lies on every server, and is read while one is killed.
    let large: Vec<u8> = (0..9 << 20).map(|at: usize| (at >> 8) as u8).collect();
    std::fs::write(top.join("large"), large).unwrap();
    std::os::unix::fs::symlink("d0/sub/f3", top.join("link")).unwrap();
}

#[test]
fn the_demonstration_stores_loses_recovers_and_reports() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    make_tree(&here.join("tree"));
    std::fs::create_dir(here.join("storage")).unwrap();
    let said = Run::new(
        here,
        &[
            "demo",
            "--tree",
            "tree",
            "--clients",
            "2",
            "--dir",
            "storage",
            "--out",
            "report.html",
            "--timeout",
            "1",
            "--json",
        ],
    )
    .json();
    assert_eq!(said["ok"], true, "{said}");
    assert_eq!(said["differing"], 0);
    assert_eq!(said["files"], 62);
    // Two whole readings and one during the failure, copies, and the names of everything.
    assert!(said["compared"].as_u64().unwrap() >= 3 * 62);
    let victim = said["victim"].as_str().unwrap();
    let faults = said["faults"].as_array().unwrap();
    assert!(
        !faults.is_empty(),
        "no client had an operation at the killed server"
    );
    assert!(
        faults
            .iter()
            .any(|fault| fault["text"].as_str().unwrap().contains(victim))
    );
    for fault in faults {
        assert!(fault["waited_s"].as_f64().unwrap() < 30.0, "{fault}");
    }
    for moment in ["killed_s", "restarted_s", "answered_s"] {
        assert!(said[moment].as_f64().unwrap() > 0.0);
    }
    check_rows(&said);
    check_report(&std::fs::read_to_string(here.join("report.html")).unwrap());
    let left = std::fs::read_dir(here.join("storage")).unwrap().count();
    assert_eq!(left, 0, "storage is left behind");
}

/// Rows that may be compared, and those whose processors were otherwise apart, if there are any.
pub(crate) fn all_rows(said: &Value) -> impl Iterator<Item = &Value> {
    let others = said.get("other_rows").and_then(Value::as_array);
    let rows = said["rows"].as_array().unwrap().iter();
    rows.chain(others.into_iter().flatten())
}

/// Every row has the promised fields and sensible figures.
pub(crate) fn check_rows(said: &Value) {
    assert!(said["machine"]["cores"].as_u64().unwrap() > 0);
    assert!(said["commit"].is_string() && said["bench"].is_string());
    let mut rows = all_rows(said).peekable();
    assert!(rows.peek().is_some());
    for row in rows {
        let number = |field: &str| {
            row[field]
                .as_f64()
                .unwrap_or_else(|| panic!("{field}: {row}"))
        };
        assert!(row["case"].as_str().unwrap().contains('/'), "{row}");
        assert!(
            ["causeway", "limit"].contains(&row["who"].as_str().unwrap()),
            "{row}"
        );
        assert!(
            number("size_bytes") >= 0.0 && number("runs") >= 1.0,
            "{row}"
        );
        assert!(
            number("min") <= number("median") && number("median") <= number("max"),
            "{row}"
        );
        assert!(number("min") >= 0.0 && row["metric"].is_string(), "{row}");
    }
}

/// One self-contained file with plots.
pub(crate) fn check_report(html: &str) {
    for outside in [
        "http://", "https://", "src=", "<link", "@import", "<script", "NaN", "\"inf", ">inf",
    ] {
        assert!(!html.contains(outside), "{outside}");
    }
    assert!(html.contains("<svg") && html.trim_end().ends_with("</html>"));
    assert!(html.contains("name=\"viewport\""));
}

#[test]
fn an_interrupted_demonstration_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    make_tree(&here.join("tree"));
    let storage = here.join("storage");
    std::fs::create_dir(&storage).unwrap();
    let mut child = Run::new(here, &["demo", "--tree", "tree", "--dir", "storage"]).start();
    let socket_exists = || {
        std::fs::read_dir(&storage)
            .unwrap()
            .any(|entry| entry.unwrap().path().join("storage/meta.sock").exists())
    };
    until("servers are started", socket_exists);
    let servers: Vec<i32> = children_of(child.id());
    assert!(!servers.is_empty());
    send(child.id() as i32, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    until("the processes have ended", || {
        servers.iter().all(|pid| !runs(*pid))
    });
    assert_eq!(std::fs::read_dir(&storage).unwrap().count(), 0);
}

fn children_of(parent: u32) -> Vec<i32> {
    let wanted = format!("PPid:\t{parent}\n");
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/status"))
                .is_ok_and(|status| status.contains(&wanted))
        })
        .collect()
}
