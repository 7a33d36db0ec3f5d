//! Hang reports, timelines and traces of the launcher.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{built, compile, left_out};

fn launcher(arguments: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-s", "INT", "60", env!("CARGO_BIN_EXE_causeway"), "run"]);
    command.args(arguments).env("LD_LIBRARY_PATH", built());
    command
}

#[test]
fn a_hang_is_reported_with_its_cause() {
    let program = compile("hangs");
    let program = program.to_str().expect("UTF-8");
    let mut child = launcher(&["-n", "3", "--stall", "0.2", program])
        .envs([crate::LOOKS])
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut errors = child.stderr.take().expect("a pipe");
    let (mut said, mut bytes) = (String::new(), [0; 4096]);
    let wanted = [
        "hang report of 3 processes",
        "in MPI_Recv, with rank 1, tag 7, MPI_COMM_WORLD",
        "in MPI_Barrier, MPI_COMM_WORLD",
        "rank 0 waits for a message of tag 7 of rank 1, which is in MPI_Barrier",
        // One of the program's, and the question whether rank 0 takes part in the barrier.
        "2 messages without a receive",
        "1 of 3 processes are in MPI_Barrier and wait for rank 0, which is in MPI_Recv, and for rank 2",
    ];
    // The next report comes when the wait has doubled; in the end all ranks are in their last call.
    while let Some(missing) = wanted.iter().find(|part| !said.contains(*part)) {
        let read = errors.read(&mut bytes).expect("its errors");
        assert!(read > 0, "{missing:?} is not in\n{said}");
        said.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    let _ = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status();
    let _ = errors.read_to_string(&mut said);
    let _ = child.wait();
}

#[test]
fn a_process_that_has_not_called_mpi_init_is_reported_as_such() {
    let mut child = launcher(&["-n", "1", "sleep", "60"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut errors = child.stderr.take().expect("a pipe");
    let (mut said, mut bytes) = (String::new(), [0; 4096]);
    while !said.contains("rank 0 has not called MPI_Init") {
        // `timeout` passes the signal on, once the launcher handles it.
        let _ = Command::new("kill")
            .args(["-QUIT", &launched(child.id())])
            .status();
        let read = errors.read(&mut bytes).expect("its errors");
        assert!(read > 0, "{said}");
        said.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    // A terminal sends the signal to the process as well, which goes on until it is asked to end.
    let launcher = launched(child.id());
    for (signal, pid) in [
        ("-QUIT", &child_of(&launcher).expect("it runs")),
        ("-TERM", &launcher),
    ] {
        let told = Command::new("kill").args([signal, pid]).status();
        assert!(told.expect("kill runs").success(), "{signal} {pid}");
    }
    let _ = errors.read_to_string(&mut said);
    let _ = child.wait();
    assert!(said.contains("rank 0 was killed by SIGTERM"), "{said}");
}

/// As Python does, whose handlers run once the call of MPI has returned.
#[test]
fn processes_that_ignore_a_signal_are_killed_by_the_next() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let script = "trap '' INT TERM; echo started; while :; do sleep 0.1; done";
        let mut child = launcher(&["-n", "2", "sh", "-c", script])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut output = child.stdout.take().expect("a pipe");
        let mut started = [0; "started\nstarted\n".len()];
        output.read_exact(&mut started).expect("both start");
        let launcher = launched(child.id());
        let tell = || {
            let told = Command::new("kill").args([signal, &launcher]).status();
            assert!(told.expect("kill runs").success(), "{signal}");
        };
        // Two at once are what `timeout` sends.
        tell();
        tell();
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(child.try_wait().expect("its state"), None, "{signal}");
        tell();
        let mut said = String::new();
        let mut errors = child.stderr.take().expect("a pipe");
        errors.read_to_string(&mut said).expect("its errors");
        assert_eq!(child.wait().expect("its end").code(), Some(code), "{said}");
        assert!(said.contains("came again"), "{said}");
    }
}

#[test]
fn survivors_of_a_dead_rank_have_the_requested_time() {
    let script = "if [ $PMI_RANK = 0 ]; then exit 3; fi; sleep 2.2; echo lived";
    for (grace, lived) in [("50", true), ("0.1", false)] {
        let output = launcher(&["-n", "2", "--grace", grace, "sh", "-c", script]).output();
        let output = output.expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said.contains("lived"), lived, "{grace}: {said}");
        assert_eq!(output.status.code(), Some(3), "{grace}");
    }
}

/// The first process that this one has started.
fn child_of(pid: &str) -> Option<String> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    let first = children.split(' ').next().map(str::to_owned);
    first.filter(|pid| !pid.is_empty())
}

/// The launcher that `timeout` has started, once it has started a process of its own: then it handles signals.
fn launched(timeout: u32) -> String {
    loop {
        if let Some(launcher) = child_of(&timeout.to_string())
            && child_of(&launcher).is_some()
        {
            return launcher;
        }
        std::thread::yield_now();
    }
}

#[test]
fn every_send_of_a_timeline_has_its_receive_and_a_trace_has_each_call() {
    let program = compile("recorded");
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name).display().to_string();
    let (timeline, trace) = (file("timeline.json"), file("trace"));
    let program = program.to_str().expect("UTF-8");
    let output = launcher(&[
        "-n",
        "3",
        "--timeline",
        &timeline,
        "--trace",
        &trace,
        program,
    ])
    .output()
    .expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = std::fs::read_to_string(timeline).expect("a timeline");
    let whole: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let events = whole["traceEvents"].as_array().expect("a list");
    let mut messages: BTreeMap<&str, Vec<&serde_json::Value>> = BTreeMap::new();
    for event in events.iter().filter(|event| event["cat"] == "message") {
        let id = event["id"].as_str().expect("an id");
        messages.entry(id).or_default().push(event);
    }
    // Of each of 3 ranks: 4 of tag 3, and of tags 4, 5, 9 one, 3 of tag 6.
    assert_eq!(messages.len(), 30);
    for (id, ends) in &messages {
        let kind = |kind: &str| ends.iter().find(|end| end["ph"] == kind);
        let (Some(sent), Some(received), 2) = (kind("s"), kind("f"), ends.len()) else {
            panic!("{id}: {ends:?}");
        };
        assert!(sent["ts"].as_f64() <= received["ts"].as_f64(), "{id}");
        assert_eq!(sent["args"]["bytes"], received["args"]["bytes"], "{id}");
    }
    let calls = events.iter().filter(|event| event["cat"] == "call").count();
    let trace = std::fs::read_to_string(trace).expect("a trace");
    let lines = Vec::from_iter(trace.lines().filter(|line| !line.starts_with('#')));
    let with = |part: &str| lines.iter().filter(|line| line.contains(part)).count();
    assert_eq!(with(" - sent "), messages.len());
    assert_eq!(with(" - received "), messages.len());
    assert_eq!(lines.len(), calls + 2 * messages.len());
    assert_eq!(with(" MPI_Allreduce - - 16 "), 3);
    // Waited for in the order from the last to the first.
    assert!(with(" 4 4 - -") == 6, "{trace}");
    assert!(lines.iter().all(|line| line.split(' ').count() == 9));
    replays(directory.path(), "trace");
}

/// A trace is a program that the simulator runs.
fn replays(directory: &Path, trace: &str) {
    let scenario = directory.join("replay.toml");
    let text = format!(
        "profile = \"substrates\"\n[workload]\nkind = \"program\"\nprogram = \"replay\"\nfile = \"{trace}\"\n\
         substrate = \"(C2,NI3)\"\nprocesses = 3\n"
    );
    std::fs::write(&scenario, text).expect("a scenario");
    let output = Command::new(env!("CARGO_BIN_EXE_causeway"))
        .args(["sim", "run", "--json", "--results"])
        .arg(directory.join("results"))
        .arg(&scenario)
        .output()
        .expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let whole: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = whole["rows"].as_array().expect("rows");
    let messages = rows.iter().find(|row| {
        let case = row["case"].as_str().unwrap_or_default();
        case.ends_with("/messages")
    });
    let count = messages.map(|row| row["count"].as_u64());
    // 30 of the program's own; an allreduce among three is four, one among two is two, a barrier among three is six.
    assert_eq!(count, Some(Some(42)), "{rows:?}");
}

#[test]
fn the_benchmark_runs_with_our_library_alone() {
    if std::thread::available_parallelism().is_ok_and(|count| count.get() == 1) {
        left_out("there is only one processor to measure on");
        return;
    }
    let library = built().join("libmpi_abi.so.1");
    let only = "latency,threads,one-sided,master-worker,life,vector,barrier";
    let output = Command::new(env!("CARGO_BIN_EXE_causeway"))
        .args([
            "bench", "mpi", "--quick", "--alone", "--json", "--sizes", "8", "--ranks", "2",
        ])
        .args(["--only", only, "--library"])
        .arg(library)
        .output()
        .expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let whole: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = whole["rows"].as_array().expect("rows");
    // Parts during which the distance between the processors changed are there, too.
    let others = whole["other_rows"].as_array().expect("rows");
    let rows: Vec<_> = rows.iter().chain(others).collect();
    for case in [
        "latency",
        "rate/4-threads",
        "put",
        "fetch-and-op",
        "life/2-ranks",
        "master-worker/4-ranks",
    ] {
        assert!(
            rows.iter().any(|row| row["case"] == case),
            "{case} in {rows:?}"
        );
    }
}
