//! `causeway sim`: its results, its files, and how it ends when interrupted or out of room.

use std::path::{Path, PathBuf};
use std::process::Command;

use causeway_command::output::hex;
use rustix::process::Signal;
use serde_json::Value;
use sha2::{Digest, Sha256};

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

/// A stored run that was changed, with the checksum that belongs to it now.
fn with_checksum(changed: &str) -> String {
    let run = changed.lines().next().unwrap();
    format!("{run}\n\"{}\"\n", hex(&Sha256::digest(run)))
}

/// The value of a row.
fn median(said: &Value, case: &str, participant: &str, size: u64) -> Option<f64> {
    let rows = said["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| {
        row["case"] == case && row["who"] == participant && row["size_bytes"].as_u64() == Some(size)
    });
    row.and_then(|row| row["median"].as_f64())
}

#[test]
fn list_names_tables_figures_profiles_and_scenarios() {
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
    for table in ["network.failure", "workload.job", "workload.sizes.size"] {
        assert!(text.contains(&format!("[[{table}]]")), "{text}");
    }
    assert!(!text.contains("[[workload.sizes]]"), "{text}");
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
                    for participant in ["causeway", "paper"] {
                        let value = median(&said, &case, participant, size);
                        assert!(
                            value.is_some_and(|value| value >= 0.0),
                            "{case} {participant} {size}"
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
fn a_figure_is_held_against_the_text_with_any_number_of_threads() {
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
    // A name that no run computes shows that the row was taken from this file.
    let text = std::fs::read_to_string(path(&before[3])).unwrap();
    assert!(text.contains("(C1,NI"), "{text}");
    assert_eq!(run(), first);
    assert_eq!(names(&kept), before);
    let altered = text.replace("(C1,NI", "(X1,NI");
    std::fs::write(path(&before[3]), &altered).unwrap();
    let refused = sim(here, "figure 2.3 --json --results kept").fails(1);
    assert!(refused.contains("its checksum is wrong"), "{refused}");
    assert!(refused.contains(&before[3]), "{refused}");
    std::fs::write(path(&before[3]), with_checksum(&altered)).unwrap();
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
    // A file that was being written at the interrupt has another name, and is ignored.
    for name in names(&unfinished) {
        if name.ends_with(".partial") {
            continue;
        }
        assert!(name.ends_with(".json"), "{name}");
        let text = std::fs::read_to_string(unfinished.join(&name)).unwrap();
        let (run, _) = text.split_once('\n').unwrap();
        serde_json::from_str::<Value>(run).unwrap();
        assert_eq!(text, with_checksum(run));
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
    let files = [
        "interfaces.csv",
        "interfaces.intervals.csv",
        "interfaces.latencies.csv",
    ];
    assert_eq!(names(&here.join("csv")), files);
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

const PING: &str = "profile = \"substrates\"\n[workload]\nkind = \"program\"\nprogram = \"ping\"\n\
                    substrate = \"(C3,NI3)\"\nprocesses = 2\niterations = 16\n";

/// The timeline's events of a kind.
fn events(path: &Path, kind: &str) -> Vec<Value> {
    let trace: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap().iter();
    events
        .filter(|event| event["ph"] == kind)
        .cloned()
        .collect()
}

/// Each flow begins once and ends once, later.
fn check_flows(path: &Path) {
    let (begun, ended) = (events(path, "s"), events(path, "f"));
    assert!(
        !begun.is_empty() && begun.len() == ended.len(),
        "{}",
        begun.len()
    );
    for begin in &begun {
        let end: Vec<&Value> = ended
            .iter()
            .filter(|end| end["id"] == begin["id"])
            .collect();
        assert_eq!(end.len(), 1, "{begin}");
        assert!(begin["ts"].as_f64() <= end[0]["ts"].as_f64(), "{begin}");
    }
}

#[test]
fn programs_figures_and_tables_are_traced() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    std::fs::write(here.join("p.toml"), PING).unwrap();
    let said = sim(here, "run p.toml --json").json();
    assert!(median(&said, "(C3,NI3)/ping/ended", "causeway", 0).is_some());
    assert_eq!(sim(here, "run p.toml --json --trace t.json").json(), said);
    check_flows(&here.join("t.json"));
    let wires = events(&here.join("t.json"), "X");
    assert!(
        wires.iter().any(|event| event["name"] == "wire"),
        "{wires:?}"
    );
    for what in ["figure 4.12", "figure 2.4", "table 3.2", "table 5.1"] {
        let plain = sim(here, &format!("{what} --quick --json")).json();
        let traced = sim(here, &format!("{what} --quick --json --trace f.json")).json();
        assert_eq!(plain, traced, "{what}");
        check_flows(&here.join("f.json"));
        std::fs::remove_file(here.join("f.json")).unwrap();
    }
    let doorbells = |run: u32| {
        let command = format!("figure 4.4 --quick --trace {run}.json --trace-run {run}");
        let said = String::from_utf8(sim(here, &command).ok()).unwrap();
        assert!(said.contains("timeline of figure 4.4, "), "{said}");
        let slices = events(&here.join(format!("{run}.json")), "X");
        slices
            .iter()
            .filter(|event| event["name"] == "doorbell")
            .count()
    };
    assert!(doorbells(1) > 0 && doorbells(2) > 0);
    let jobs = example("jobs.toml");
    let said = sim(here, &format!("run {} --trace x.json", jobs.display())).fails(2);
    assert!(said.contains("jobs have no timeline"), "{said}");
    let said = sim(here, "figure 4.4 --quick --trace x.json --trace-run 99").fails(2);
    assert!(said.contains("there are runs 1 to 5"), "{said}");
    assert_eq!(names(here), ["1.json", "2.json", "p.toml", "t.json"]);
}

#[test]
fn a_run_has_a_report() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    for file in [
        "interfaces.toml",
        "uplink.toml",
        "channels.toml",
        "sweep.toml",
        "jobs.toml",
    ] {
        let path = example(file);
        let said = sim(
            here,
            &format!("run {} --json --html r.html", path.display()),
        )
        .json();
        assert_eq!(said["reproducible"], true);
        let html = std::fs::read_to_string(here.join("r.html")).unwrap();
        check_report(&html);
        for row in said["rows"].as_array().unwrap() {
            assert!(html.contains(row["case"].as_str().unwrap()), "{row}");
        }
        assert!(html.contains("[workload]"), "the scenario itself is shown");
        let shares = said["observed"][0]["shares"].as_array();
        assert_eq!(shares.is_some(), file == "jobs.toml");
        assert_eq!(html.contains("shares of the first node"), shares.is_some());
        for interval in shares.into_iter().flatten() {
            let parts: Vec<f64> = interval[1]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(Value::as_f64)
                .collect();
            assert!(
                parts.len() == 4 && parts.iter().sum::<f64>() < 1.001,
                "{interval}"
            );
        }
    }
}

#[test]
fn rows_of_json_name_their_fields() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let file = example("channels.toml");
    let said = sim(here, &format!("run {} --json", file.display())).json();
    let rows = said["rows"].as_array().unwrap();
    let number = |row: &Value, field: &str| row[field].as_f64().unwrap();
    let row = |case: &str, metric: &str| {
        let found = rows
            .iter()
            .find(|row| row["case"] == case && row["metric"] == metric);
        found.unwrap_or_else(|| panic!("{case} {metric}"))
    };
    let latency = row("qosvia/messages", "latency_us");
    let order = ["min", "median", "p90", "p99", "p999", "max"].map(|field| number(latency, field));
    assert!(
        order.is_sorted() && order[0] < order[1] && order[1] < order[5],
        "{order:?}"
    );
    assert!(number(latency, "count") > 100.0 && latency["runs"] == 1);
    let used = row("qosvia/use/link", "share");
    assert!(
        number(used, "min") < number(used, "mean") && number(used, "mean") < number(used, "max")
    );
    // Of the three nodes' links, both ways.
    assert_eq!(number(used, "count"), 6.0);
    let observed = &said["observed"][0];
    let classes = observed["latency_classes_us"].as_array().unwrap();
    let counted: u64 = classes.iter().map(|class| class[2].as_u64().unwrap()).sum();
    assert_eq!(counted as f64, number(latency, "count"));
    let intervals = observed["intervals"].as_array().unwrap();
    assert!(intervals.len() > 40, "{}", intervals.len());
    let middle = &intervals[intervals.len() / 2];
    assert!(number(&middle["use"], "card-processor") > 0.01, "{middle}");
}

/// An interrupted `run` is continued by the next one, and its output is that of a run without interruption.
#[test]
fn an_interrupted_run_is_continued_with_the_same_result() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let text = std::fs::read_to_string(example("sweep.toml")).unwrap();
    std::fs::write(here.join("s.toml"), &text).unwrap();
    let whole = sim(here, "run s.toml --json --jobs 2").ok();
    assert_eq!(names(here), ["s.toml"], "the stored runs are removed");
    let mut child = sim(here, "run s.toml --json --jobs 1").start();
    let kept = here.join("s.unfinished");
    let finished = || std::fs::read_dir(&kept).map_or(0, Iterator::count);
    until("two runs are finished", || finished() >= 2);
    send(child.id() as i32, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let said = sim(here, "run s.toml --json --results s.unfinished").ok();
    assert_eq!(said, whole);
    let said: Value = serde_json::from_slice(&said).unwrap();
    let rows = said["rows"].as_array().unwrap();
    for value in ["2", "6", "10", "14"] {
        let row = rows
            .iter()
            .find(|row| row["sweep"] == value && row["case"] == "qosvia/messages");
        let row = row.unwrap();
        assert_eq!(row["runs"], 3);
        assert!(row["ci95"].as_f64().unwrap() > 0.0, "{row}");
    }
    let file = names(&kept)
        .into_iter()
        .find(|name| name.ends_with(".json"))
        .unwrap();
    let text = std::fs::read_to_string(kept.join(&file)).unwrap();
    let altered = text.replace("qosvia/messages", "qosvia/other");
    std::fs::write(kept.join(&file), with_checksum(&altered)).unwrap();
    let altered = String::from_utf8(sim(here, "run s.toml --json --results s.unfinished").ok());
    assert!(
        altered.unwrap().contains("qosvia/other"),
        "it is taken from there"
    );
}

#[test]
fn the_uplink_of_the_example_limits_it() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let received = |text: &str| {
        std::fs::write(here.join("u.toml"), text).unwrap();
        let said = sim(here, "run u.toml --json").json();
        let rows = said["rows"].as_array().unwrap().iter();
        let rates = rows.filter(|row| row["metric"] == "received_mb_s");
        let rates = rates.filter(|row| !row["case"].as_str().unwrap().ends_with("/all"));
        rates
            .map(|row| row["median"].as_f64().unwrap())
            .sum::<f64>()
    };
    let text = std::fs::read_to_string(example("uplink.toml")).unwrap();
    let narrow = received(&text);
    assert!((19.4..20.0).contains(&narrow), "{narrow}");
    let wide = received(&text.replace("20 MB/s", "60 MB/s"));
    assert!((39.0..41.0).contains(&wide), "{wide}");
}

#[test]
fn output_warns_that_native_time_differs() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    std::fs::write(here.join("n.toml"), format!("{PING}time = \"native\"\n")).unwrap();
    let left = sim(here, "run n.toml --json").left();
    assert_eq!(left.code, Some(0), "{}", left.err);
    assert!(left.err.contains("differ from run to run"), "{}", left.err);
    let said: Value = serde_json::from_slice(&left.out).unwrap();
    assert_eq!(said["reproducible"], false);
}

/// `paper`, interrupted again and again, continues each time, and its output is that of a run without interruption. One
/// chapter has enough runs for this.
#[test]
fn an_interrupted_paper_is_continued_with_the_same_result() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let paper = |results: &str, jobs: u32| {
        let outputs = format!("--html {results}.html --csv {results}-csv --results {results}");
        sim(
            here,
            &format!("paper --chapter 4 --quick --json --jobs {jobs} {outputs}"),
        )
    };
    let whole = paper("whole", 2).ok();
    let finished = || -> Vec<(String, u64, std::time::SystemTime)> {
        use std::os::unix::fs::MetadataExt;
        let Ok(entries) = std::fs::read_dir(here.join("parts")) else {
            return Vec::new();
        };
        let mut found: Vec<_> = entries
            .map(|entry| entry.unwrap())
            .filter_map(|entry| {
                let name = entry.file_name().into_string().unwrap();
                let known = entry.metadata().ok()?;
                let is_finished = name.ends_with(".json");
                is_finished.then(|| (name, known.ino(), known.modified().unwrap()))
            })
            .collect();
        found.sort();
        found
    };
    let mut before = finished();
    for (signal, more) in [(Signal::INT, 5), (Signal::KILL, 5), (Signal::TERM, 5)] {
        let mut child = paper("parts", 2).start();
        until("more runs are finished", || {
            finished().len() >= before.len() + more
        });
        send(child.id() as i32, signal);
        assert!(!child.wait().unwrap().success());
        assert!(!here.join("parts.html").exists() && !here.join("parts-csv").exists());
        let now = finished();
        assert!(
            before.iter().all(|one| now.contains(one)),
            "one was measured again"
        );
        before = now;
    }
    assert_eq!(paper("parts", 1).ok(), whole);
    let after = finished();
    assert!(
        before.iter().all(|one| after.contains(one)),
        "one was measured again"
    );
    let read = |path: &str| std::fs::read(here.join(path)).unwrap();
    assert_eq!(read("whole.html"), read("parts.html"));
    assert_eq!(
        names(&here.join("whole-csv")),
        names(&here.join("parts-csv"))
    );
    for name in names(&here.join("whole-csv")) {
        let of = |directory: &str| read(&format!("{directory}-csv/{name}"));
        assert_eq!(of("whole"), of("parts"), "{name}");
    }
}

#[test]
fn a_full_disk_leaves_no_half_a_result() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let interfaces = example("interfaces.toml");
    let run = format!("run {} --trace t.json", interfaces.display());
    for (blocks, command, place) in [
        (0, "figure 2.3 --results kept", "kept"),
        (0, "figure 2.3 --csv csv", "csv"),
        (8, run.as_str(), "t.json"),
        (8, "figure 4.12 --quick --trace t.json", "t.json"),
    ] {
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" sim {command}");
        let left = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_causeway")])
            .current_dir(here)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&left.stderr).into_owned();
        assert_eq!(left.status.code(), Some(1), "{command}: {said}");
        assert!(said.contains(place), "{command}: {said}");
    }
    // The directories are there, and nothing is in them.
    assert_eq!(names(here), ["csv", "kept"]);
    assert!(names(&here.join("csv")).is_empty() && names(&here.join("kept")).is_empty());
}

/// Files with mistakes as users make them.
#[test]
fn hostile_scenarios_are_refused_where_they_are_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    std::fs::create_dir(here.join("d.toml")).unwrap();
    std::fs::write(here.join("film.txt"), "100\n-5\n").unwrap();
    let ping = "profile = \"via\"\ndesign = \"Base\"\nsizes = [\"4 B\"]\n[workload]\nkind = \"ping-pong\"\nrounds = 3\n";
    let exchange = ping.replace("ping-pong", "exchange");
    let all = exchange.clone() + "nodes = 4\nsimulate = \"all nodes\"\n";
    let channels = "profile = \"qos\"\ndesign = \"PVIA\"\n[workload]\nkind = \"channels\"\nshape = \"both ways\"\n\
                    warm_up = \"0 ms\"\nmeasured = \"1 ms\"\n[[workload.channel]]\nkind = \"video\"\nrate = \"1 MB/s\"\nstreams = 1\n";
    let deep = format!("name = {}{}\n", "[".repeat(20_000), "]".repeat(20_000));
    let cases: Vec<(String, usize, &str)> = vec![
        (String::new(), 1, "lacks `[workload]`"),
        ("\u{0}\u{1}\u{2}".to_owned(), 1, "key"),
        (deep, 1, ""),
        (ping.replace("sizes = [", "sizes = [["), 4, "expected `,`"),
        (ping.replace("[\"4 B\"]", "\"4 B\""), 3, "a list"),
        (ping.replace("\"4 B\"", "4"), 3, "a number and its unit"),
        (ping.replace("4 B", "-4 B"), 3, "B, bit, KiB"),
        (ping.replace("4 B", "4 QB"), 3, "B, bit, KiB"),
        (ping.replace("4 B", "99999999999999999999 GiB"), 3, "a size"),
        (
            ping.replace("rounds = 3", "rounds = -3"),
            6,
            "from 1 to 100000",
        ),
        (
            ping.replace("rounds = 3", "rounds = 3\nrounds = 3"),
            7,
            "duplicate",
        ),
        (
            ping.replace("rounds = 3", "rounds = 3.5"),
            6,
            "whole number",
        ),
        (ping.replace("\"via\"", "\"d.toml\""), 1, "it is no file"),
        (
            ping.replace("\"via\"", "\"/dev/zero.toml\""),
            1,
            "No such file",
        ),
        (ping.replace("\"via\"", "7"), 1, "must be text"),
        (ping.replace("\"Base\"", "\"base\""), 2, "\"Base\""),
        (
            ping.replace("[workload]", "[[workload]]"),
            4,
            "must be a table",
        ),
        (
            ping.replace("ping-pong", "ping-pong\u{202e}"),
            5,
            "ping-pong",
        ),
        (exchange.clone() + "nodes = 3\n", 7, "even"),
        (
            exchange.clone() + "nodes = 4294967298\n",
            7,
            "from 2 to 4096",
        ),
        (
            exchange + "nodes = 4096\nsimulate = \"all nodes\"\n",
            7,
            "65536",
        ),
        (
            all.clone() + "[network]\ntopology = \"ring\"\n",
            10,
            "\"tree\"",
        ),
        (
            all + "[[network.switch]]\nname = \"a\"\nnodes = [\"0-3\"]\n[[network.link]]\nends = [\"a\", \"a\"]\n",
            13,
            "cycle",
        ),
        (channels.replace("\"video\"", "\"audio\""), 9, "best effort"),
        (channels.replace("streams = 1", "streams = 0"), 11, "from 1"),
        (
            channels.replace(
                "[[workload.channel]]",
                "trace = \"film.txt\"\n[[workload.channel]]",
            ),
            0,
            "film.txt:2",
        ),
        (
            channels.replace("\"1 ms\"", "\"1 year\""),
            7,
            "units are ps",
        ),
        (PING.replace("processes = 2", "processes = 3"), 6, "2"),
        (PING.replace("substrates", "via"), 1, "\"substrates\""),
        (PING.replace("iterations", "iteration"), 2, "iterations"),
    ];
    for (number, (text, line, wanted)) in cases.iter().enumerate() {
        let name = format!("{number}.toml");
        std::fs::write(here.join(&name), text).unwrap();
        let said = sim(here, &format!("run {name}")).fails(2);
        let place = match line {
            0 => String::new(),
            line => format!("{name}:{line}: "),
        };
        let start: String = text.chars().take(300).collect();
        assert!(
            said.contains(&place) && said.contains(wanted),
            "{start}: {said}"
        );
        assert!(said.len() < 2_000, "{said}");
    }
    for missing in ["none.toml", "d.toml", "/dev/zero"] {
        let said = sim(here, &format!("run {missing}")).fails(2);
        assert!(said.contains(missing), "{said}");
    }
}

/// A network that loses what a process waits for.
#[test]
fn a_stalled_run_reports_which_process_waits_for_which() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let text = "profile = \"via\"\ndesign = \"Base\"\nsizes = [\"4 KiB\"]\n[workload]\nkind = \"exchange\"\nnodes = 4\n\
                simulate = \"all nodes\"\nrounds = 20\n[network]\ntopology = \"tree\"\nfan_out = 2\nwhen_full = \"drop\"\n\
                buffer = \"1 B\"\nuplink_rate = \"1 MB/s\"\n";
    std::fs::write(here.join("lossy.toml"), text).unwrap();
    let said = sim(here, "run lossy.toml").fails(1);
    assert!(said.contains(" of node 1 waits since "), "{said}");
    assert!(said.contains("for a message from node "), "{said}");
    assert!(said.contains("and 8 more processes"), "{said}");
}
