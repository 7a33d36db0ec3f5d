//! Observing running processes: `causeway top` and `causeway log`.

use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use super::stand::{Run, Stand, until};

fn here() -> &'static Path {
    Path::new("/")
}

/// The rows of `causeway top` for one process.
fn seen(pid: i32) -> Value {
    let pid = pid.to_string();
    let arguments = ["top", "--json", "--interval", "0.05", "--pid", &pid];
    Run::new(here(), &arguments).json()["processes"][0].clone()
}

/// The output of `causeway log PID --dump`.
fn texts(pid: i32) -> Vec<String> {
    let log = Run::new(here(), &["log", &pid.to_string(), "--dump", "--json"]).json();
    let events = log["events"].as_array().unwrap();
    let texts = events
        .iter()
        .map(|event| event["text"].as_str().unwrap().to_owned());
    texts.collect()
}

/// The lines of the audit that a server has logged.
pub(crate) fn audit_of(pid: i32) -> Vec<String> {
    texts(pid)
        .into_iter()
        .filter(|text| text.contains("audit") && text.contains("verb"))
        .collect()
}

#[test]
fn refusals_are_counted_and_the_audit_tells_who_did_what() {
    let user = rustix::process::geteuid().is_root().then_some(65_534);
    let uid = user.unwrap_or_else(|| rustix::process::geteuid().as_raw());
    let mut stand = Stand::of_user(user, &[]);
    stand.start_again(user, |text| {
        assert!(text.contains("\n# audit = \"off\"\n"), "{text}");
        format!("{text}\n[access]\naudit = \"changes\"\n")
    });
    let fs = |arguments: &[&str]| stand.fs(arguments).user(user);
    fs(&["mkdir", "/old"]).ok();
    fs(&["mv", "/old", "/shut"]).ok();
    fs(&["chmod", "000", "/shut"]).ok();
    fs(&["ls", "/shut"]).fails(1);
    let metadata = stand.pids[0];
    until("the refusal is shown", || {
        seen(metadata)["instances"][0]["refused"]
            .as_u64()
            .is_some_and(|refused| refused > 0)
    });
    let lines = audit_of(metadata);
    let tells = |verb: &str, outcome: &str| {
        let user = format!("uid={uid}");
        lines.iter().any(|line| {
            let parts = [user.as_str(), verb, outcome, "process"];
            parts.iter().all(|part| line.contains(part))
        })
    };
    assert!(tells("mkdir", "done"), "{lines:?}");
    assert!(tells("setattr", "done"), "{lines:?}");
    let both = |line: &String| {
        ["rename", "old", "shut"]
            .iter()
            .all(|part| line.contains(part))
    };
    assert!(lines.iter().any(both), "{lines:?}");
    assert!(tells("readdir", "EACCES"), "{lines:?}");
    assert!(
        !lines.iter().any(|line| line.contains("lookup")),
        "{lines:?}"
    );
}

/// What is recorded has names of users' files in it.
#[test]
fn other_users_processes_show_nothing_and_their_records_are_not_read() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can be several users");
        return;
    }
    let stand = Stand::new();
    let pid = stand.pids[0].to_string();
    for arguments in [
        &["log", &pid, "--dump"][..],
        &["top", "--once", "--pid", &pid],
    ] {
        let left = Run::new(here(), arguments).user(Some(61_234)).left();
        assert_ne!(left.code, Some(0), "{left:?}");
        assert!(left.out.is_empty(), "{left:?}");
        assert!(left.err.contains("another user"), "{left:?}");
    }
}

#[test]
fn servers_and_what_they_do_can_be_seen_without_their_help() {
    let stand = Stand::new();
    let server = *stand.pids.last().unwrap();
    std::fs::write(stand.directory.path().join("file"), vec![7; 4 << 20]).unwrap();
    stand.fs(&["put", "file", "/file"]).ok();
    until("the server shows itself", || {
        seen(server)["instances"][0]["received"]["number"]
            .as_u64()
            .is_some_and(|messages| messages > 0)
    });
    let process = seen(server);
    assert_eq!(process["pid"], server);
    assert!(
        process["name"]
            .as_str()
            .unwrap()
            .starts_with("causeway fs serve")
    );
    let listening = process["instances"][0]["listening"].as_str().unwrap();
    assert!(listening.starts_with("shm://"), "{listening}");
    assert_eq!(process["instances"][0]["stall_after_ms"], 10_000);

    // A stopped process is shown like any other, with its operations.
    super::stand::send(server, Signal::STOP);
    until("it is seen to be stopped", || {
        seen(server)["state"] == "stopped"
    });
    let table = Run::new(here(), &["top", "--once", "--interval", "0.05"]).ok();
    let table = String::from_utf8(table).unwrap();
    let line = table
        .lines()
        .find(|line| line.contains(&server.to_string()));
    assert!(line.is_some_and(|line| line.contains("stopped")), "{table}");
    assert!(
        table.contains("STATE") && table.contains("WAITS"),
        "{table}"
    );
    // Its log can be read as well, and a request left for it.
    assert!(texts(server).iter().any(|text| text.starts_with("called")));
    let set = [
        "log",
        &server.to_string(),
        "--set",
        "engine=debug",
        "--record",
        "trace",
    ];
    let said = String::from_utf8(Run::new(here(), &set).ok()).unwrap();
    assert!(
        said.contains("(stopped) has not applied them yet"),
        "{said}"
    );
    super::stand::send(server, Signal::CONT);
    stand.fs(&["ping"]).ok();
    until("the request is applied", || {
        let log = Run::new(here(), &["log", &server.to_string(), "--json"]).json();
        log["masks"] == "warn,engine.stall=info,fs.server.audit=info,engine=debug/trace"
    });
}

/// Whether a process is seen to have waited a while for a peer whose address ends like this.
pub(crate) fn waits_for_one_at(pid: u32, end: &str) -> bool {
    let top = Run::new(here(), &["top", "--json", "--interval", "0.05"]).json();
    let processes = top["processes"].as_array().unwrap().clone();
    let own = processes.iter().filter(|process| process["pid"] == pid);
    let instances = own.flat_map(|process| process["instances"].as_array().unwrap());
    let mut peers = instances.flat_map(|instance| instance["peers"].as_array().unwrap());
    peers.any(|peer| {
        peer["waiting"]["age_s"]
            .as_f64()
            .is_some_and(|age| age > 0.2)
            && peer["address"].as_str().unwrap().ends_with(end)
    })
}

#[test]
fn a_client_that_waits_for_a_stopped_server_is_seen_to_wait() {
    let stand = Stand::new();
    let server = *stand.pids.last().unwrap();
    std::fs::write(stand.directory.path().join("file"), vec![7; 4 << 20]).unwrap();
    super::stand::send(server, Signal::STOP);
    let mut client = stand.fs(&["put", "file", "/file"]).start();
    let pid = client.id();
    until("it is seen to wait", || waits_for_one_at(pid, "io1.sock"));
    client.kill().unwrap();
    client.wait().unwrap();
    super::stand::send(server, Signal::CONT);
    assert!(
        Run::new(here(), &["log", &pid.to_string()])
            .fails(1)
            .contains("no process")
    );
}

#[test]
fn processes_that_cannot_be_observed_are_reported_as_such() {
    let said = Run::new(here(), &["log", "4294967295"]).fails(1);
    assert!(said.contains("there is no process 4294967295"), "{said}");
    // A process that has nothing to do with the message layer.
    let mut other = std::process::Command::new("sleep")
        .arg("600")
        .spawn()
        .unwrap();
    let pid = other.id().to_string();
    let said = [&["top", "--pid", &pid][..], &["log", &pid]]
        .map(|arguments| Run::new(here(), arguments).left());
    other.kill().unwrap();
    other.wait().unwrap();
    for left in said {
        assert_eq!(left.code, Some(1), "{}", left.err);
        assert!(left.err.contains("shows nothing of itself"), "{}", left.err);
    }
    for wrong in [
        &["log", "--dump"][..],
        &["log", "x"],
        &["top", "--interval", "0"],
        &["top", "--interval", "soon"],
    ] {
        Run::new(here(), wrong).fails(2);
    }
}

#[test]
fn masks_are_read_from_the_environment_and_invalid_ones_refused() {
    let stand = Stand::new();
    let file = stand.directory.path().join("log");
    stand
        .fs(&["ping"])
        .variable("CAUSEWAY_LOG", "off,engine.connect=debug/off")
        .variable("CAUSEWAY_LOG_FILE", file.to_str().unwrap())
        .ok();
    let log = std::fs::read_to_string(&file).unwrap();
    assert!(
        log.contains("DEBUG engine.connect: connected peer=shm://"),
        "{log}"
    );

    let run = || Run::new(here(), &["info"]);
    let info = run().variable("CAUSEWAY_LOG", "tcp=trace");
    let text = String::from_utf8(info.ok()).unwrap();
    assert!(
        text.contains("tcp=trace") && text.contains("causeway top"),
        "{text}"
    );
    let said = run().variable("CAUSEWAY_LOG", "tcp=loud").fails(2);
    assert!(
        said.contains("CAUSEWAY_LOG") && said.contains("`loud`"),
        "{said}"
    );
    let said = run().variable("CAUSEWAY_LOG", "pct=info").fails(2);
    assert!(
        said.contains("`pct`") && said.contains("transport.tcp"),
        "{said}"
    );
    run().variable("CAUSEWAY_LOG_FILE", "/nowhere/log").fails(1);

    let server = stand.pids[0].to_string();
    let said = Run::new(here(), &["log", &server, "--set", "smh=trace"]).fails(2);
    assert!(said.contains("`smh`"), "{said}");
    let list = Run::new(here(), &["log", "--json"]).json();
    let listed = list["processes"].as_array().unwrap();
    assert!(listed.iter().any(|process| process["pid"] == stand.pids[0]));
}
