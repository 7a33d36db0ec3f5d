//! `causeway top`: the traffic of messages on this machine, by process and peer, live.
//!
//! Processes that use the message layer publish their status; this verb only reads it. [`sample`]
//! reads and computes rates, [`table`] formats them for people and as JSON, [`screen`] draws on a
//! terminal.

mod sample;
mod screen;
mod table;

use std::time::Duration;

use causeway_command::failure::{Failure, Outcome};
use causeway_command::output::{self, Output};
use clap::Args;

use sample::{Sample, Watcher};

/// Show the messages on this machine, by process and peer: rates, sizes, credit, queues, waits
///
/// Stalled peers come first, then the busiest. On a terminal the table is drawn anew until q is
/// pressed; otherwise it is printed once.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway top
  causeway top --pid 4242 --interval 0.2
  causeway top --once
  causeway top --json | jq '.processes[].instances[].peers[] | select(.stalled)'")]
pub(crate) struct Arguments {
    /// Only this process
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Seconds between two samples
    #[arg(long, short, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: Duration,
    /// Print the table once, after one interval
    #[arg(long)]
    once: bool,
    /// Print exactly one JSON object on standard output, after one interval
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| format!("`{text}` is no number of seconds"))?;
    if (0.05..=3600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(format!("{text}: from 0.05 to 3600 seconds are possible"))
    }
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let output = Output::new(arguments.json);
    let mut watcher = Watcher::new(arguments.pid);
    let first = watcher.sample()?;
    if let Some(pid) = arguments.pid
        && first.processes.is_empty()
    {
        // The process exists: opening its page would have failed otherwise.
        return Err(Failure::new(
            "observing a process",
            format!(
                "process {pid} does not use the message layer, or was configured not to show it"
            ),
        ));
    }
    if output.terminal && !arguments.once && !arguments.json {
        return screen::run(&mut watcher, arguments.interval);
    }
    std::thread::sleep(arguments.interval);
    let sample = watcher.sample()?;
    check(&sample)?;
    for line in table::lines(&sample) {
        output.line(&line.painted());
    }
    for error in &sample.errors {
        output::warn(error);
    }
    output.object(&table::json(&sample));
    Ok(())
}

/// No processes to show is a failure, for scripts.
fn check(sample: &Sample) -> Outcome {
    if !sample.processes.is_empty() {
        return Ok(());
    }
    let failure = Failure::new(
        "looking for processes",
        "none that this user may observe uses the message layer",
    );
    Err(match sample.not_allowed {
        0 => failure,
        count => failure.hint(format!(
            "{count} processes belong to other users: only their owners and root may observe them"
        )),
    })
}
