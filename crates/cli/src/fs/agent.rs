//! `causeway fs agent`: makes connections for the users of its node, who hold no keys.

use std::path::{Path, PathBuf};
use std::process::Command;

use causeway_command::failure::{Doing as _, Failure, Outcome};
use causeway_command::output::Output;
use causeway_command::remote::load;
use causeway_fs::agent::{Agent, AgentError};
use clap::Args;
use serde_json::json;
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

use super::control::obey;
use super::detached;
use super::session::find;

/// Authenticate the users of this node to the servers, so that they use the file system without keys
///
/// Root runs one agent on each node whose users may not read the cluster's key. The configuration, which is the same on every node, names its socket:
/// `socket = "/run/causeway/agent.sock"` in the section `[agent]`.
///
/// A program whose configuration names keys that it may not read asks the agent for each connection with a server. The agent asks the kernel which
/// user connects, and makes the handshake: the server then accepts requests of that user on that connection, and no others. File data do not
/// go through the agent: if it ends, open connections continue, and new ones fail until it is started again.
///
/// With `[nodes]`, the servers also check `uids` there: the users that the node may authenticate. SIGHUP makes the agent reload the list of
/// revoked certificates, and its node's own certificate.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs agent --config /etc/causeway.toml          # for a service manager
  causeway fs agent --config /etc/causeway.toml --detach # prints the process's number
  kill -HUP PID                                          # reloads the node's files")]
pub(crate) struct Arguments {
    /// The file system's configuration [default: $CAUSEWAY_CONFIG, ./causeway.toml,
    /// ./causeway-dev/causeway.toml]
    #[arg(long, short = 'C', value_name = "FILE")]
    config: Option<PathBuf>,
    /// Serve in the background, and return once the agent listens. Its log, which states why connections are refused, is discarded then: to
    /// keep the log, have a service manager start the agent in the foreground
    #[arg(long)]
    detach: bool,
    /// Serve in the background: what a detached agent is started with
    #[arg(long, hide = true, conflicts_with = "detach")]
    background: bool,
    /// Print exactly one JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    // SIGHUP is caught from the start: one that comes before the agent is ready is handled when it is.
    let signals = Signals::new([SIGHUP]).doing(|| "catching SIGHUP".to_owned())?;
    let file = find(arguments.config.as_deref())?;
    let output = Output::new(arguments.json);
    if arguments.detach {
        return detach(&file, &output);
    }
    let failed = |error: AgentError| Failure::new("running the agent", error.to_string());
    let agent = Agent::start(&load(&file)?).map_err(failed)?;
    let doing = || "starting the agent".to_owned();
    obey(signals, agent.handle(&file).doing(doing)?).doing(doing)?;
    match arguments.background {
        true => detached::leave_terminal()?,
        false => report(&output, agent.path(), agent.node(), std::process::id()),
    }
    agent.run().map_err(failed)
}

fn report(output: &Output, socket: &Path, node: Option<String>, pid: u32) {
    let of = node
        .as_ref()
        .map_or(String::new(), |node| format!(" of node {node}"));
    let place = socket.display();
    output.line(&format!("the agent{of} listens at {place}"));
    output.object(&json!({ "socket": socket, "node": node, "pid": pid }));
}

/// Starts this program again to serve, and waits until it does.
fn detach(file: &Path, output: &Output) -> Outcome {
    let doing = || "starting the agent in the background".to_owned();
    let configuration = load(file)?;
    let mut command = Command::new(std::env::current_exe().doing(doing)?);
    command
        .args(["fs", "agent", "--background", "--config"])
        .arg(file.canonicalize().doing(doing)?);
    let pid = detached::start(command, doing)?;
    let socket = configuration.agent_socket.unwrap_or_default();
    output.line(&format!(
        "the agent listens at {}; end it with `kill {pid}`",
        socket.display()
    ));
    output.object(&json!({ "socket": socket, "pid": pid }));
    Ok(())
}
