//! `causeway sim`: what it finds, what it writes, and what becomes of it when interrupted or out of room.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use super::demo::check_report;
use super::stand::{Run, send, until};

fn sim(here: &Path, arguments: &str) -> Run {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    Run::new(here, &[&["sim"], words.as_slice()].concat())
}

/// An example of the repository.
fn example(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("examples").join(name).canonicalize().unwrap()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// The value of a row.
fn median(said: &Value, case: &str, who: &str, size: u64) -> Option<f64> {
    let rows = said["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| {
        row["case"] == case && row["who"] == who && row["size_bytes"].as_u64() == Some(size)
    });
    row.and_then(|row| row["median"].as_f64())
}

#[test]
fn what_there_is_is_listed() {
    let said = sim(Path::new("/"), "list --json").json();
    let has = |list: &str, key: &str, name: &str| {
        let list = said[list].as_array().unwrap();
        assert!(list.iter().any(|one| one[key] == name), "{name}: {list:?}");
    };
    has("tables", "number", "5.1");
    has("figures", "number", "4.12");
    has("figures", "number", "2.3");
    has("profiles", "name", "via");
    has("scenarios", "workload", "channels");
    let text = String::from_utf8(sim(Path::new("/"), "list").ok()).unwrap();
    assert!(
        text.contains("causeway sim figure") && text.contains("5.8"),
        "{text}"
    );
}

#[test]
fn table_5_1_has_the_papers_coordinates() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let said = sim(here, "table 5.1 --json --html t.html --csv values").json();
    let sides = [("send", 7), ("recv", 6), ("oneway", 1)];
    let mut count = 0;
    for program in ["svia", "pvia", "qosvia"] {
        for (side, rows) in sides {
            for row in 0..rows {
                for size in [4, 1024, 4096, 16384] {
                    let case = format!("{program}/{side}/{row}");
                    for who in ["causeway", "paper"] {
                        let value = median(&said, &case, who, size);
                        assert!(
                            value.is_some_and(|value| value >= 0.0),
                            "{case} {who} {size}"
                        );
                    }
                    count += 2;
                }
            }
        }
    }
    assert_eq!(said["rows"].as_array().unwrap().len(), count);
    assert_eq!(median(&said, "pvia/oneway/0", "paper", 16384), Some(423.0));
    assert_eq!(said["verdicts"][0]["of"], "table 5.1");
    let html = std::fs::read_to_string(here.join("t.html")).unwrap();
    assert!(html.contains("HDMA Prog. (Desc.)") && html.contains("printed"));
    assert_eq!(
        names(&here.join("values")),
        ["table-5.1.csv", "verdicts.csv"]
    );
    let csv = std::fs::read_to_string(here.join("values/table-5.1.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + count / 2);
}

#[test]
fn a_figure_stands_beside_what_the_text_says_whatever_the_threads() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let mut outputs = Vec::new();
    for jobs in ["1", "3"] {
        let out = sim(
            here,
            &format!("figure 2.3 4.4 --quick --json --jobs {jobs} --html {jobs}.html --csv {jobs}"),
        );
        outputs.push(out.ok());
    }
    assert_eq!(outputs[0], outputs[1]);
    let read = |name: &str| std::fs::read_to_string(here.join(name)).unwrap();
    let html = read("1.html");
    check_report(&html);
    assert_eq!(html, read("3.html"));
    assert_eq!(names(&here.join("1")), names(&here.join("3")));
    for name in names(&here.join("1")) {
        assert_eq!(read(&format!("1/{name}")), read(&format!("3/{name}")));
    }
    let said: Value = serde_json::from_slice(&outputs[0]).unwrap();
    let verdicts = said["verdicts"].as_array().unwrap();
    assert!(verdicts.len() > 3);
    for verdict in verdicts {
        let text = verdict["claim"].as_str().unwrap();
        let shown = text
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        assert!(html.contains(&shown), "{text}");
        assert!(verdict["holds"].is_boolean() && verdict["evidence"].is_string());
    }
    assert!(median(&said, "figure-2.3/(c1,ni1)/32", "causeway", 0).is_some());
}

#[test]
fn finished_runs_are_used_again_and_nothing_else_is() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let run = || sim(here, "figure 2.3 --json --results kept").ok();
    let first = run();
    let kept = here.join("kept");
    let before = names(&kept);
    assert!(before.len() > 5);
    let path = |name: &str| kept.join(name);
    std::fs::remove_file(path(&before[0])).unwrap();
    std::fs::write(path(&before[1]), b"{\"parameters\":").unwrap();
    // Of another run under this one's name.
    std::fs::copy(path(&before[3]), path(&before[2])).unwrap();
    // A name that is not computed will show that it was taken from here.
    let text = std::fs::read_to_string(path(&before[3])).unwrap();
    assert!(text.contains("(C1,NI"), "{text}");
    assert_eq!(run(), first);
    assert_eq!(names(&kept), before);
    std::fs::write(path(&before[3]), text.replace("(C1,NI", "(X1,NI")).unwrap();
    let altered = String::from_utf8(run()).unwrap();
    assert!(altered.contains("(x1,ni"), "{altered}");
}

#[test]
fn an_interrupted_paper_leaves_finished_runs_only() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let mut child = sim(here, "paper --quick --jobs 2 --html paper.html").start();
    let unfinished = here.join("causeway-paper.unfinished");
    let finished = || {
        let entries = std::fs::read_dir(&unfinished);
        entries.map_or(0, |entries| {
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.filter(|name| name.ends_with(".json")).count()
        })
    };
    until("some runs are finished", || finished() >= 3);
    send(child.id() as i32, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(names(here), ["causeway-paper.unfinished"]);
    for name in names(&unfinished) {
        assert!(name.ends_with(".json"), "{name}");
        let text = std::fs::read(unfinished.join(&name)).unwrap();
        serde_json::from_slice::<Value>(&text).unwrap();
    }
}

#[test]
fn a_full_disk_leaves_nothing_half_written() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    std::fs::write(here.join("t.html"), b"before").unwrap();
    // Files may not grow beyond 8 blocks; the signal for it is ignored, so that writing fails.
    let script = "trap '' XFSZ; ulimit -f 8; exec \"$0\" sim table 5.1 --html t.html";
    let left = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_causeway")])
        .current_dir(here)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&left.stderr).into_owned();
    assert_eq!(left.status.code(), Some(1), "{said}");
    assert!(said.contains("t.html"), "{said}");
    assert_eq!(names(here), ["t.html"]);
    assert_eq!(std::fs::read(here.join("t.html")).unwrap(), b"before");
    let said = sim(here, "table 5.1 --html /dev/full").fails(1);
    assert!(said.contains("/dev/full"), "{said}");
}

#[test]
fn the_examples_run_and_are_traced() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let interfaces = example("interfaces.toml");
    let run = || {
        let file = interfaces.to_str().unwrap();
        sim(here, &format!("run {file} --json --trace t.json --csv csv")).ok()
    };
    let first = run();
    let trace = std::fs::read(here.join("t.json")).unwrap();
    assert_eq!(run(), first);
    assert_eq!(std::fs::read(here.join("t.json")).unwrap(), trace);
    let said: Value = serde_json::from_slice(&first).unwrap();
    for size in [128, 1024, 4096] {
        let found = median(&said, "base+o+dmaq/vis-60/latency", "causeway", size);
        assert!(found.is_some_and(|value| value > 1.0), "{size}");
    }
    let trace: Value = serde_json::from_slice(&trace).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    for kind in ["M", "X", "s", "t", "i"] {
        assert!(events.iter().any(|event| event["ph"] == kind), "{kind}");
    }
    assert_eq!(names(&here.join("csv")), ["interfaces.csv"]);
    let channels = example("channels.toml");
    let said = sim(here, &format!("run {} --json", channels.to_str().unwrap())).json();
    assert!(median(&said, "qosvia/constant/0", "causeway", 4096).is_some());
}

#[test]
fn a_wrong_scenario_is_refused_with_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let text = std::fs::read_to_string(example("interfaces.toml")).unwrap();
    let line_of = |part: &str| 1 + text.lines().position(|line| line.contains(part)).unwrap();
    for (part, by, wanted) in [
        ("nodes = 16", "nodes = 0", "from 2 to 4096"),
        ("burst = 1", "bursts = 1", "burst"),
        ("\"64 B\"", "\"64 MHz\"", "KiB"),
        ("\"via\"", "\"vai\"", "munet"),
    ] {
        std::fs::write(here.join("wrong.toml"), text.replace(part, by)).unwrap();
        let said = sim(here, "run wrong.toml").fails(2);
        let place = format!("wrong.toml:{}: ", line_of(part));
        assert!(
            said.contains(&place) && said.contains(wanted),
            "{by}: {said}"
        );
    }
    // Hardware of one's own lies beside the scenario; a DMA engine cannot be faster than its bus.
    let via = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/profiles/via.toml");
    let hardware = std::fs::read_to_string(via).unwrap();
    let mut in_dma = false;
    let faster: Vec<String> = hardware
        .lines()
        .map(|line| {
            in_dma = match line.starts_with('[') {
                true => line == "[host_dma]",
                false => in_dma,
            };
            match in_dma && line.starts_with("rate") {
                true => "rate = { value = \"900 GB/s\", source = \"a dream\" }".to_owned(),
                false => line.to_owned(),
            }
        })
        .collect();
    std::fs::create_dir(here.join("mine")).unwrap();
    std::fs::write(here.join("mine/card.toml"), faster.join("\n")).unwrap();
    std::fs::write(
        here.join("mine/s.toml"),
        text.replace("\"via\"", "\"card.toml\""),
    )
    .unwrap();
    let said = sim(here, "run mine/s.toml").fails(2);
    assert!(
        said.contains("card.toml:") && said.contains("than its bus"),
        "{said}"
    );
    let left = sim(here, "run wrong.toml --json").left();
    assert_eq!(left.code, Some(2));
    super::stand::one_object(&left.out);
}

#[test]
fn programs_have_no_timeline() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let text = "profile = \"substrates\"\n[workload]\nkind = \"program\"\nprogram = \"ping\"\n\
                substrate = \"(C3,NI3)\"\nprocesses = 2\niterations = 16\n";
    std::fs::write(here.join("p.toml"), text).unwrap();
    let said = sim(here, "run p.toml --json").json();
    assert!(median(&said, "(C3,NI3)/ping/ended", "causeway", 0).is_some());
    let said = sim(here, "run p.toml --trace t.json").fails(2);
    assert!(said.contains("--trace"), "{said}");
    assert_eq!(names(here), ["p.toml"]);
}
