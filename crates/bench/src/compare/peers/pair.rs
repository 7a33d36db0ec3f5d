//! Benchmarks that consist of a server and a client, which connect by a port of the loopback.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use super::child::{Failed, Program, Running};

/// How long a server may take until it listens.
const STARTING: Duration = Duration::from_secs(5);

/// Runs a server and, once it listens, its client; returns the client's output.
pub(super) fn run(
    server: &Program,
    client: &Program,
    port: u16,
    within: Duration,
) -> Result<String, Failed> {
    let mut listening = Running::start(server, within)?;
    let deadline = Instant::now() + STARTING;
    while !is_listening(port) {
        if !listening.is_running() {
            let said = listening.finish();
            return Err(said
                .err()
                .unwrap_or_else(|| "the server has ended".to_owned().into()));
        }
        if Instant::now() > deadline {
            return Err(format!(
                "its server does not listen at port {port} within {} s",
                STARTING.as_secs()
            )
            .into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    client.run(within)
}

/// A port that was free a moment ago.
pub(super) fn free_port() -> Result<u16, String> {
    let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    port.map(|address| address.port())
        .map_err(|error| format!("there is no free port: {error}"))
}

/// Whether a server listens, without connecting: servers take one connection only.
fn is_listening(port: u16) -> bool {
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|table| {
        let table = std::fs::read_to_string(table).unwrap_or_default();
        table.lines().any(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let (local, state) = (fields.next(), fields.nth(1));
            let local = local.and_then(|local| local.rsplit(':').next());
            // 0A is LISTEN.
            state == Some("0A")
                && local.and_then(|port| u16::from_str_radix(port, 16).ok()) == Some(port)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listening_port_is_seen_without_connecting() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(is_listening(port));
        drop(listener);
        // A process that another test starts has a copy of the listener until its program runs.
        let begun = Instant::now();
        while is_listening(port) && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!is_listening(port));
    }

    #[test]
    fn a_server_that_ends_early_is_distinguished_from_a_slow_one() {
        let port = free_port().unwrap();
        let program = Program::new(std::path::Path::new("/bin/sh"), &["-c", "exit 7"]);
        let why = run(&program, &program, port, Duration::from_secs(20))
            .unwrap_err()
            .why;
        assert!(why.contains("sh failed"), "{why}");
    }
}
