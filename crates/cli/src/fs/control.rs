//! Signals that control a running server, agent or mount.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use causeway_fs::agent::AgentHandle;
use causeway_fs::config::{ConfigError, Configuration};
use causeway_fs::server::Handles;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// What reads the files about nodes again.
pub(super) trait Reloading: Send + 'static {
    /// Begins the line on standard output after the node's files were read again.
    const SPEAKER: &'static str;

    /// Reads certificates, revocations and rules of nodes again; `None` if nodes do not have to prove their identity.
    fn reload(&self) -> Option<Result<(), ConfigError>>;
}

/// The handle of a running server or agent.
pub(super) trait Controlled: Reloading {
    fn stop(&mut self);
}

impl Controlled for AgentHandle {
    fn stop(&mut self) {
        AgentHandle::stop(self);
    }
}

impl Reloading for AgentHandle {
    const SPEAKER: &'static str = "";

    fn reload(&self) -> Option<Result<(), ConfigError>> {
        Some(AgentHandle::reload(self))
    }
}

impl Controlled for Handles {
    fn stop(&mut self) {
        self.stop.stop();
    }
}

impl Reloading for Handles {
    const SPEAKER: &'static str = "causeway: ";

    fn reload(&self) -> Option<Result<(), ConfigError>> {
        self.reload.as_ref().map(|reload| reload.reload())
    }
}

/// A program that uses the file system, and the file from which it has read its configuration.
pub(super) struct Using {
    pub(super) configuration: Arc<Configuration>,
    pub(super) file: PathBuf,
}

impl Reloading for Using {
    const SPEAKER: &'static str = "";

    fn reload(&self) -> Option<Result<(), ConfigError>> {
        let has_files = self.configuration.nodes.is_some() && self.configuration.agent().is_none();
        has_files.then(|| self.configuration.reload_nodes(&self.file, |_| Ok(())))
    }
}

/// Starts a thread that handles `signals`, which catch SIGHUP already: at SIGHUP the files about nodes are read again, and SIGTERM and
/// Ctrl-C end the server or agent.
pub(super) fn obey<C: Controlled>(signals: Signals, mut controlled: C) -> std::io::Result<()> {
    for ends in [SIGINT, SIGTERM] {
        signals.add_signal(ends)?;
    }
    handle(signals, move |signal| match signal {
        SIGHUP => reload(&controlled),
        _ => controlled.stop(),
    })
}

/// Starts a thread that handles `signals`, which catch SIGHUP alone: the files about nodes are read again.
pub(super) fn obey_hangup<R: Reloading>(signals: Signals, reloading: R) -> std::io::Result<()> {
    handle(signals, move |_| reload(&reloading))
}

fn handle(
    mut signals: Signals,
    mut on_signal: impl FnMut(i32) + Send + 'static,
) -> std::io::Result<()> {
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || signals.forever().for_each(&mut on_signal))?;
    Ok(())
}

fn reload<R: Reloading>(reloading: &R) {
    match reloading.reload() {
        None => tracing::warn!(
            "SIGHUP: without `[nodes]` there is nothing to read again, nor where the node's agent reads it"
        ),
        // Only an operator reads this line: a failure to write it changes nothing.
        Some(Ok(())) => drop(writeln!(
            std::io::stdout(),
            "{}what is known of nodes was read again",
            R::SPEAKER
        )),
        Some(Err(error)) => tracing::error!(%error, "SIGHUP: nothing is changed"),
    }
}
