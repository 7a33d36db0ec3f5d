//! All of a server process: configuration, readiness, signals, end.

use std::io::{Read as _, Write as _};
use std::path::Path;

use super::{Server, ServerError, StopHandle};
use crate::config::Configuration;

/// Environment variable with which a server ends when its standard input does: set by a parent that holds the other
/// end, so that its death ends its servers.
pub const PARENT_PIPE: &str = "CAUSEWAY_PARENT_PIPE";

/// Runs server `name` of the file system that `configuration` describes until SIGTERM or SIGINT.
///
/// Once it listens, one line `causeway: server NAME ready at ADDRESS, ADDRESS` appears on standard
/// output.
pub fn serve(configuration: &Path, name: &str) -> Result<(), ServerError> {
    let fail = ServerError::of(name);
    let configuration =
        Configuration::load(configuration).map_err(|error| fail(error.to_string()))?;
    // Files that the server makes are for its own user only.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let server = Server::start(&configuration, name)?;
    let stop = server.stop_handle();
    stop_on_signals(stop.clone()).map_err(|error| fail(format!("signals: {error}")))?;
    if std::env::var_os(PARENT_PIPE).is_some_and(|value| value == "1") {
        stop_with_standard_input(stop)
            .map_err(|error| fail(format!("no thread can be started: {error}")))?;
    }
    let addresses = server.addresses().join(", ");
    let mut out = std::io::stdout();
    writeln!(out, "causeway: server {name} ready at {addresses}")
        .and_then(|()| out.flush())
        .map_err(|error| fail(format!("standard output: {error}")))?;
    server.run()
}

fn stop_on_signals(stop: StopHandle) -> std::io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for _ in signals.forever() {
                stop.stop();
            }
        })?;
    Ok(())
}

fn stop_with_standard_input(stop: StopHandle) -> std::io::Result<()> {
    std::thread::Builder::new()
        .name("parent".to_owned())
        .spawn(move || {
            let mut byte = [0];
            let mut input = std::io::stdin().lock();
            loop {
                match input.read(&mut byte) {
                    Ok(0) => break,
                    Err(error) if error.kind() != std::io::ErrorKind::Interrupted => break,
                    _ => {}
                }
            }
            stop.stop();
        })?;
    Ok(())
}
