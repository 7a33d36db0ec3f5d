//! `causeway fs dev`: a whole file system on this machine.

use std::path::PathBuf;
use std::time::Duration;

use causeway_command::cluster::{Cluster, Spec};
use causeway_command::failure::Outcome;
use causeway_command::output::{Output, warn};
use causeway_command::shutdown;
use causeway_report::style::{Style, paint};
use clap::Args;
use serde_json::json;

use super::init::Promise;

/// Run a whole file system on this machine, each server a process of its own, until Ctrl-C
///
/// The data stay in the directory: run the command there again to continue.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs dev
  causeway fs dev --servers 2 --dir /dev/shm/try --durability relaxed
  causeway fs dev --tcp &
  causeway fs put README.md /")]
pub(crate) struct Arguments {
    /// Number of I/O servers, beside the metadata server (only for a new file system)
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    servers: u16,
    /// Where configuration and data lie
    #[arg(long, value_name = "DIR", default_value = "causeway-dev")]
    dir: PathBuf,
    /// What an acknowledgement guarantees (only for a new file system)
    #[arg(long, value_enum, default_value_t = Promise::Synced)]
    durability: Promise,
    /// Listen on TCP ports of the loopback interface too (only for a new file system)
    #[arg(long)]
    tcp: bool,
    /// Print exactly one JSON object on standard output, once all servers reply
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let output = Output::new(arguments.json);
    shutdown::on_signals()?;
    let mut cluster = Cluster::start(&Spec {
        directory: arguments.dir.clone(),
        servers: usize::from(arguments.servers),
        durability: arguments.durability.into(),
        tcp: arguments.tcp,
        timeout: None,
        checksums: true,
        environment: Vec::new(),
    })?;
    let file = cluster.file().display().to_string();
    let names: Vec<String> = cluster
        .configuration()
        .servers
        .iter()
        .map(|server| server.name.clone())
        .collect();
    let pids: Vec<Option<u32>> = (0..names.len()).map(|index| cluster.pid(index)).collect();
    output.line(&format!(
        "{}: {} ({})",
        paint("the file system is running", Style::Green),
        names.join(", "),
        file
    ));
    output.line("try it from another terminal:");
    let option = match std::env::current_dir() {
        Ok(here) if here.join("causeway-dev/causeway.toml") == cluster.file() => String::new(),
        _ => format!(" --config {file}"),
    };
    output.line(&format!("  causeway fs put{option} README.md /"));
    output.line(&format!("  causeway fs ls{option} -l /"));
    output.line("Ctrl-C ends it; what is stored stays");
    output.object(&json!({ "config": file, "servers": names, "pids": pids }));
    loop {
        // Often enough to report the end of a server to people; nothing else is waited for.
        std::thread::sleep(Duration::from_millis(200));
        while let Some((index, words)) = cluster.ended() {
            let name = cluster.name(index);
            warn(&format!(
                "the server {name} ended: {words}; start it again with \
                 `causeway fs serve --config {file} --server {name}`"
            ));
        }
    }
}
