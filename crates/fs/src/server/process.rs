//! A server process as a whole: configuration, readiness, end.

use std::io::{Read as _, Write as _};
use std::path::Path;

use super::error::ServerError;
use super::instance::Server;
use super::nodes::ReloadHandle;
use super::stop::StopHandle;
use crate::config::Configuration;

/// Environment variable that makes a server end when its standard input does: set by a parent that holds the other
/// end, so that the parent's death ends its servers.
pub const PARENT_PIPE: &str = "CAUSEWAY_PARENT_PIPE";

/// Handles by which a program controls a running server.
#[derive(Debug)]
pub struct Handles {
    /// Stops the server.
    pub stop: StopHandle,
    /// Has the server read the certificates, revocations and rules of nodes again, if nodes have to prove their identity.
    pub reload: Option<ReloadHandle>,
}

/// Runs server `name` of the file system that `configuration` describes until it is stopped through the handles that
/// `prepare` gets, before the server is ready. Signals and the mask of file modes are the program's own: this changes neither.
///
/// Once it listens, one line `causeway: server NAME ready at ADDRESS, ADDRESS` appears on standard
/// output.
pub fn serve(
    configuration: &Path,
    name: &str,
    prepare: impl FnOnce(Handles) -> std::io::Result<()>,
) -> Result<(), ServerError> {
    let fail = ServerError::of(name);
    let file = configuration;
    let configuration = Configuration::load(file).map_err(|error| fail(error.to_string()))?;
    let server =
        Server::start(&configuration, name).map_err(|error| error.with_configuration(file))?;
    let stop = server.stop_handle();
    let handles = Handles {
        stop: stop.clone(),
        reload: server.reload_handle(file),
    };
    prepare(handles).map_err(|error| fail(format!("signals: {error}")))?;
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
