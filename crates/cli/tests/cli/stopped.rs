//! Commands that are stopped, as by Ctrl-Z, and go on later.

use std::time::Duration;

use rustix::process::Signal;

use super::stand::{Stand, send, until};
use super::top::waits_for_one_at;

/// A configuration whose servers are reached at their addresses of this scheme only.
fn reached_by(scheme: &str, text: &str) -> String {
    let line = |line: &str| match line.strip_prefix("addresses = ") {
        Some(all) => {
            let mut ours = all.split('"').filter(|part| part.starts_with(scheme));
            format!("addresses = [{:?}]", ours.next().unwrap())
        }
        None => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Time in which a client is stopped is not a server's: the requests that it waits for do not fail.
#[test]
fn a_command_that_is_stopped_for_longer_than_the_time_out_goes_on() {
    for only in ["shm://", "tcp://"] {
        let stand = Stand::with(&["--tcp"]);
        let server = *stand.pids.last().unwrap();
        let bytes: Vec<u8> = (0..8 << 20).map(|at: u32| (at % 251) as u8).collect();
        let file = |name: &str| stand.directory.path().join(name);
        std::fs::write(file("file"), &bytes).unwrap();
        stand.fs(&["put", "file", "/there"]).ok();
        let config = stand.with_timeout("3 s");
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, reached_by(only, &text)).unwrap();
        for (arguments, left) in [
            (["fs", "get", "/there", "back"], "back"),
            (["fs", "put", "file", "/new"], "file"),
        ] {
            send(server, Signal::STOP);
            let client = stand.fs(&arguments[1..]).config(&config).start();
            let pid = client.id();
            until("it waits for the server", || waits_for_one_at(pid, ""));
            send(pid as i32, Signal::STOP);
            std::thread::sleep(Duration::from_secs(4));
            send(server, Signal::CONT);
            send(pid as i32, Signal::CONT);
            let output = client.wait_with_output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{only} {arguments:?}: {errors}");
            assert!(std::fs::read(file(left)).unwrap() == bytes);
        }
        stand.fs(&["get", "/new", "new"]).ok();
        assert!(std::fs::read(file("new")).unwrap() == bytes);
    }
}
