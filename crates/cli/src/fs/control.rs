//! Signals that control a running server or agent.

use std::io::Write as _;

use causeway_fs::agent::AgentHandle;
use causeway_fs::config::ConfigError;
use causeway_fs::server::Handles;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The handle of a running server or agent.
pub(super) trait Controlled: Send + 'static {
    /// Begins the line on standard output after the node's files were read again.
    const SPEAKER: &'static str;

    fn stop(&mut self);

    /// Reads certificates, revocations and rules of nodes again; `None` if nodes do not have to prove their identity.
    fn reload(&self) -> Option<Result<(), ConfigError>>;
}

impl Controlled for AgentHandle {
    const SPEAKER: &'static str = "";

    fn stop(&mut self) {
        AgentHandle::stop(self);
    }

    fn reload(&self) -> Option<Result<(), ConfigError>> {
        Some(AgentHandle::reload(self))
    }
}

impl Controlled for Handles {
    const SPEAKER: &'static str = "causeway: ";

    fn stop(&mut self) {
        self.stop.stop();
    }

    fn reload(&self) -> Option<Result<(), ConfigError>> {
        self.reload.as_ref().map(|reload| reload.reload())
    }
}

/// Starts a thread that handles `signals`, which catch SIGHUP already: at SIGHUP the files about nodes are read again, and SIGTERM and
/// Ctrl-C end the server or agent.
pub(super) fn obey<C: Controlled>(mut signals: Signals, mut controlled: C) -> std::io::Result<()> {
    for ends in [SIGINT, SIGTERM] {
        signals.add_signal(ends)?;
    }
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                if signal != SIGHUP {
                    controlled.stop();
                    continue;
                }
                match controlled.reload() {
                    None => {
                        tracing::warn!("SIGHUP: without `[nodes]` there is nothing to read again");
                    }
                    // Only an operator reads this line: a failure to write it changes nothing.
                    Some(Ok(())) => drop(writeln!(
                        std::io::stdout(),
                        "{}what is known of nodes was read again",
                        C::SPEAKER
                    )),
                    Some(Err(error)) => tracing::error!(%error, "SIGHUP: nothing is changed"),
                }
            }
        })?;
    Ok(())
}
