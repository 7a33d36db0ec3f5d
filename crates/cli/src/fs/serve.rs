//! `causeway fs serve`: one server of a file system.

use std::net::TcpListener;
use std::path::PathBuf;

use causeway_command::failure::{Doing as _, Failure, Outcome};
use causeway_command::remote::load;
use causeway_fs::config::{Configuration, ServerEntry};
use clap::Args;
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

use super::control::obey;
use super::session::{find, find_server, server_names};

/// Run one server of a file system, until SIGTERM or Ctrl-C
///
/// Without --server it is the one whose TCP address belongs to this host, if there is only one.
///
/// With `[nodes]` in the configuration, SIGHUP has the server read again which authorities it accepts, which certificates were revoked, and its own:
/// connections with nodes that do not count any more end. SIGHUP never ends a server.
///
/// A server starts only on the directory that was formatted for it. A new server's directory is formatted once, with
/// --format; an empty one is refused without it, since that is most often a disk that is not mounted.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs serve --config /etc/causeway.toml --format
  causeway fs serve --config /etc/causeway.toml
  causeway fs serve --config /etc/causeway.toml --server io2")]
pub(crate) struct Arguments {
    /// The file system's configuration [default: $CAUSEWAY_CONFIG, ./causeway.toml,
    /// ./causeway-dev/causeway.toml]
    #[arg(long, short = 'C', value_name = "FILE")]
    config: Option<PathBuf>,
    /// The server's name in the configuration
    #[arg(long, short, value_name = "NAME")]
    server: Option<String>,
    /// Format the directory of a new server first; one that holds anything is refused
    #[arg(long)]
    format: bool,
    /// Start a metadata server that has lost acknowledged changes, without them
    ///
    /// What is lost is listed first, and what is cut out of the journal is kept beside it.
    #[arg(long)]
    accept_loss: bool,
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    // SIGHUP is caught from the start: one that comes before the server is ready is handled when it is.
    let signals = Signals::new([SIGHUP]).doing(|| "catching SIGHUP".to_owned())?;
    let file = find(arguments.config.as_deref())?;
    let configuration = load(&file)?;
    let name = match arguments.server {
        Some(name) => {
            find_server(&configuration, &file, &name, false)?;
            name
        }
        None => server_of_this_host(&configuration)?,
    };
    let failed = |doing: &str, error: causeway_fs::server::ServerError| {
        let error = error.with_configuration(&file);
        Failure::new(format!("{doing} {}", error.server), error.message)
    };
    if arguments.format {
        causeway_fs::server::format(&configuration, &name)
            .map_err(|error| failed("formatting", error))?;
    }
    if arguments.accept_loss {
        let lost = causeway_fs::server::accept_loss(&configuration, &name)
            .map_err(|error| failed("recovering", error))?;
        if !lost {
            tracing::warn!("nothing was lost: --accept-loss is not needed");
        }
    }
    // The server's files are accessible to its own user only.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    causeway_fs::server::serve(&file, &name, |handles| obey(signals, handles)).map_err(|error| {
        causeway_watch::log::print_recent();
        failed("serving", error)
    })
}

/// The server whose TCP address belongs to this host.
fn server_of_this_host(configuration: &Configuration) -> Outcome<String> {
    let here: Vec<&ServerEntry> = configuration
        .servers
        .iter()
        .filter(|server| is_this_host(server))
        .collect();
    match here.as_slice() {
        [server] => Ok(server.name.clone()),
        [] => Err(Failure::usage(
            "choosing a server",
            "no server of the configuration has a TCP address of this host",
        )
        .hint(format!(
            "name one with --server: {}",
            server_names(&configuration.servers)
        ))),
        several => Err(Failure::usage(
            "choosing a server",
            format!(
                "{} of the configuration's servers run on this host",
                several.len()
            ),
        )
        .hint(format!(
            "start each with --server: {}",
            server_names(several.iter().copied())
        ))),
    }
}

/// Whether one of the server's addresses belongs to this host: a process can listen at such addresses only.
fn is_this_host(server: &ServerEntry) -> bool {
    server.addresses.iter().any(|address| {
        address
            .strip_prefix("tcp://")
            .and_then(|rest| rest.rsplit_once(':'))
            .is_some_and(|(host, _)| TcpListener::bind(format!("{host}:0")).is_ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_of_this_host_is_found_by_its_address() {
        let entry = |address: &str| ServerEntry {
            name: "x".to_owned(),
            metadata: false,
            io: true,
            addresses: vec![address.to_owned()],
            directory: PathBuf::from("/x"),
        };
        assert!(is_this_host(&entry("tcp://127.0.0.1:7440")));
        assert!(!is_this_host(&entry("tcp://192.0.2.1:7440")));
        assert!(!is_this_host(&entry("shm:///x.sock")));
    }
}
