//! Starting, ending and losing servers.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::stand::{Run, Stand, one_object, runs, send, until};

#[test]
fn an_interrupt_ends_every_server() {
    let mut stand = Stand::new();
    stand.fs(&["touch", "/kept"]).ok();
    let pids = stand.pids.clone();
    assert!(pids.iter().all(|pid| runs(*pid)));
    assert_eq!(stand.end(Signal::INT), Some(130));
    assert!(pids.iter().all(|pid| !runs(*pid)));
}

#[test]
fn no_server_outlives_a_killed_command() {
    let mut stand = Stand::new();
    let pids = stand.pids.clone();
    assert_eq!(stand.end(Signal::KILL), None);
    until("servers end with their command", || {
        pids.iter().all(|pid| !runs(*pid))
    });
}

#[test]
fn a_dead_server_is_named_and_can_be_started_again() {
    let stand = Stand::new();
    let here = stand.directory.path();
    let bytes = vec![42; 5 << 20];
    std::fs::write(here.join("file"), &bytes).unwrap();
    stand.fs(&["put", "file", "/file"]).ok();
    let victim = *stand.pids.last().unwrap();
    send(victim, Signal::KILL);
    until("the server is dead", || !runs(victim));
    let impatient = stand.impatient();
    let started = Instant::now();
    let said = stand
        .fs(&["get", "/file", "lost"])
        .config(&impatient)
        .fails(1);
    assert!(
        said.contains("io1") && said.contains("causeway fs ping"),
        "{said}"
    );
    assert!(started.elapsed() < Duration::from_secs(60));
    assert!(!here.join("lost").exists());
    let said = stand.fs(&["ping"]).config(&impatient).fails(1);
    assert!(said.contains("io1") && !said.contains("io0"), "{said}");
    let info = Run::new(here, &["info", "--json"])
        .config(&impatient)
        .json();
    let reached: Vec<bool> = info["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| server["reached"].as_bool().unwrap())
        .collect();
    assert_eq!(reached, [true, true, false]);

    let mut server = stand.fs(&["serve", "--server", "io1"]).start();
    until("the server is back", || {
        stand
            .fs(&["ping", "--server", "io1"])
            .config(&impatient)
            .left()
            .code
            == Some(0)
    });
    assert!(stand.fs(&["cat", "/file"]).ok() == bytes);
    send(server.id() as i32, Signal::TERM);
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn a_server_whose_directory_is_gone_is_not_well() {
    let mut stand = Stand::new();
    let directory = stand.config.with_file_name("io1");
    let away = stand.config.with_file_name("away");
    stand.fs(&["ping"]).ok();
    std::fs::rename(&directory, &away).unwrap();
    for verb in ["ping", "df"] {
        let said = stand.fs(&[verb]).fails(1);
        assert!(said.contains("moved away or removed"), "{verb}: {said}");
        let left = stand.fs(&[verb, "--json"]).left();
        let found = one_object(&left.out);
        let servers = found["servers"].as_array().unwrap();
        let well = servers.iter().map(|server| &server["ok"]);
        assert_eq!(well.collect::<Vec<_>>(), [true, true, false], "{verb}");
        assert_eq!(servers[2]["replies"], true, "{verb}");
        let shown = String::from_utf8(stand.fs(&[verb]).left().out).unwrap();
        assert!(shown.contains("an error"), "{verb}: {shown}");
        assert!(!shown.contains("no reply"), "{verb}: {shown}");
    }
    std::fs::rename(&away, &directory).unwrap();
    stand.fs(&["ping"]).ok();
    // It is lost for good.
    std::fs::remove_dir_all(&directory).unwrap();
    send(stand.pids[2], Signal::KILL);
    until("the server is dead", || !runs(stand.pids[2]));
    let left = stand.fs(&["ping", "--json"]).left();
    let found = one_object(&left.out);
    assert_eq!(found["servers"][2]["replies"], false);
    let said = stand.fs(&["serve", "--server", "io1"]).fails(1);
    // The commands that it recommends work.
    let config = format!("--config {}", stand.config.display());
    let commands: Vec<&str> = (said.split('`').skip(1).step_by(2))
        .filter_map(|command| command.strip_prefix("causeway fs "))
        .collect();
    let [format, accept] = commands[..] else {
        panic!("{said}");
    };
    assert!(
        format.contains(&config) && accept.contains(&config),
        "{said}"
    );
    let words = |command: &str| -> Vec<String> {
        let fs = std::iter::once("fs").chain(command.split(' '));
        fs.map(str::to_owned).collect()
    };
    let elsewhere = tempfile::tempdir().unwrap();
    let server = Run::new(elsewhere.path(), &words(format)).start();
    stand.others.push(server);
    let accept = words(accept);
    until("the server is taken back", || {
        Run::new(elsewhere.path(), &accept).left().code == Some(0)
    });
    stand.fs(&["ping"]).ok();
}

#[test]
fn a_damaged_journal_is_refused_until_its_loss_is_accepted() {
    let stand = Stand::new();
    let names: Vec<String> = (0..10).map(|number| format!("/name{number}")).collect();
    for name in &names {
        stand.fs(&["touch", name]).ok();
    }
    let metadata = stand.pids[0];
    send(metadata, Signal::KILL);
    until("the server is dead", || !runs(metadata));
    let journal = stand.config.with_file_name("meta").join("metadata/0.jnl");
    let mut bytes = std::fs::read(&journal).unwrap();
    let at = bytes.windows(5).position(|part| part == b"name5").unwrap();
    bytes[at] ^= 1;
    std::fs::write(&journal, &bytes).unwrap();

    let said = stand.fs(&["serve", "--server", "meta"]).fails(1);
    for part in ["0.jnl is damaged at byte", "oame5", "--accept-loss"] {
        assert!(said.contains(part), "{said}");
    }
    let mut server = stand
        .fs(&["serve", "--server", "meta", "--accept-loss"])
        .start();
    until("the server is back", || {
        stand.fs(&["ping", "--server", "meta"]).left().code == Some(0)
    });
    stand.fs(&["fsck", "--repair"]).left();
    let listed = stand.fs(&["ls", "/", "--json"]).json().to_string();
    for name in names.iter().filter(|name| *name != "/name5") {
        assert!(listed.contains(&name[1..]), "{name}: {listed}");
    }
    send(server.id() as i32, Signal::TERM);
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn a_server_that_was_killed_can_be_started_at_once() {
    let stand = Stand::new();
    send(stand.pids[0], Signal::KILL);
    for _ in 0..10 {
        let mut server = stand.fs(&["serve", "--server", "meta"]).start();
        until("the server is back", || {
            assert!(server.try_wait().unwrap().is_none(), "it ended");
            stand.fs(&["ping", "--server", "meta"]).left().code == Some(0)
        });
        send(server.id() as i32, Signal::KILL);
    }
}

#[test]
fn the_error_of_a_server_without_enrollment_names_the_remedy() {
    let stand = Stand::new();
    let bytes = vec![42; 5 << 20];
    stand.fs(&["put", "-", "/file"]).input(&bytes).ok();
    let victim = *stand.pids.last().unwrap();
    send(victim, Signal::KILL);
    until("the server is dead", || !runs(victim));
    std::fs::remove_file(stand.config.with_file_name("io1").join("enrolled")).unwrap();
    let mut server = stand.fs(&["serve", "--server", "io1"]).start();
    until("the server is back", || {
        stand.fs(&["ping", "--server", "io1"]).left().code == Some(0)
    });
    for verb in [&["cat", "/file"][..], &["fsck"], &["df"]] {
        let said = stand.fs(verb).fails(1);
        for part in ["io1", "`enrolled`", "servers accept io1"] {
            assert!(said.contains(part), "{verb:?}: {said}");
        }
    }
    stand.fs(&["servers", "accept", "io1"]).ok();
    assert!(stand.fs(&["cat", "/file"]).ok() == bytes);
    send(server.id() as i32, Signal::TERM);
    let mut said = String::new();
    let mut err = server.stderr.take().unwrap();
    err.read_to_string(&mut said).unwrap();
    assert!(said.contains("servers accept io1"), "{said}");
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn a_restarted_file_system_has_its_files() {
    let mut stand = Stand::new();
    stand.fs(&["put", "-", "/kept"]).input(b"kept").ok();
    stand.end(Signal::TERM);
    let directory = stand.directory.path().join("causeway-dev");
    let again = Stand::with(&["--dir", directory.to_str().unwrap()]);
    assert_eq!(again.fs(&["cat", "/kept"]).ok(), b"kept");
}

#[test]
fn servers_are_reached_over_tcp_if_asked() {
    let stand = Stand::with(&["--tcp"]);
    stand
        .fs(&["put", "--via", "tcp", "-", "/x"])
        .input(&vec![5; 3 << 20])
        .ok();
    assert!(stand.fs(&["cat", "--via", "tcp", "/x"]).ok() == vec![5; 3 << 20]);
    assert!(stand.fs(&["cat", "/x"]).ok() == vec![5; 3 << 20]);
    let heard = stand.fs(&["ping", "--via", "tcp", "--json"]).json();
    assert!(
        heard["servers"][1]["facts"].to_string().contains("tcp"),
        "{heard}"
    );
}

#[test]
fn init_writes_a_configuration_and_a_secret() {
    let directory = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| Run::new(directory.path(), arguments);
    let said = run(&["fs", "init", "n1", "n2:9000", "--metadata", "n0", "--json"]).json();
    assert_eq!(said["servers"], serde_json::json!(["meta", "io0", "io1"]));
    let text = std::fs::read_to_string(directory.path().join("causeway.toml")).unwrap();
    for part in [
        "# ",
        "tcp://n0:",
        "tcp://n1:",
        "tcp://n2:9000",
        "key_file",
        "synced",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let key = directory.path().join("causeway.key");
    assert_eq!(
        std::fs::metadata(&key).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let digits = std::fs::read_to_string(&key).unwrap();
    assert_eq!(digits.trim().len(), 64);
    let said = run(&["fs", "init", "n1"]).fails(1);
    assert!(said.contains("--force"), "{said}");
    run(&["fs", "init", "n1", "--force"]).ok();
    assert_ne!(std::fs::read_to_string(&key).unwrap(), digits);
    // None of its hosts is this one.
    let said = run(&["fs", "serve"]).fails(2);
    assert!(
        said.contains("--server") && said.contains("meta, io0"),
        "{said}"
    );
    let said = run(&["fs", "serve", "--server", "io9"]).fails(2);
    assert!(said.contains("meta, io0"), "{said}");
}

#[test]
fn a_drained_server_gets_no_new_files_until_it_is_added_again() {
    let stand = Stand::new();
    let here = stand.directory.path();
    // Some strips for each server.
    let bytes = vec![42; 6 << 20];
    std::fs::write(here.join("file"), &bytes).unwrap();
    let free = |server: &str| {
        let all = stand.fs(&["df", "--json"]).json();
        let found = all["servers"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["server"] == server)
            .unwrap_or_else(|| panic!("{server} in {all}"))
            .clone();
        found["written_bytes"]
            .as_u64()
            .unwrap_or_else(|| panic!("{found}"))
    };
    stand.fs(&["put", "file", "/before"]).ok();
    let drained = stand.fs(&["servers", "drain", "io1", "--json"]).json();
    assert_eq!(drained["files"], 1, "{drained}");
    let (io0, io1) = (free("io0"), free("io1"));
    stand.fs(&["put", "file", "/after"]).ok();
    assert_eq!(free("io1"), io1, "nothing was written to it");
    assert!(free("io0") >= io0 + bytes.len() as u64);
    for name in ["/before", "/after"] {
        stand.fs(&["get", name, "back"]).ok();
        assert!(std::fs::read(here.join("back")).unwrap() == bytes);
        std::fs::remove_file(here.join("back")).unwrap();
    }
    let listed = stand.fs(&["servers", "list"]).ok();
    assert!(String::from_utf8_lossy(&listed).contains("drained"));
    let said = stand.fs(&["servers", "drain", "io0"]).fails(1);
    assert!(said.contains("only server"), "{said}");
    stand.fs(&["servers", "add", "io1"]).ok();
    stand.fs(&["put", "file", "/again"]).ok();
    assert!(free("io1") > io1);
    stand.fs(&["servers", "drain", "unknown"]).fails(1);
}
