//! `causeway log`: shows and changes the log of a running process.
//!
//! The process takes no part in being observed: its latest events can be read even if it hangs. A
//! change of its masks is a request that it applies when it next makes progress.

use std::time::{Duration, Instant};

use causeway_command::failure::{Doing, Failure, Outcome};
use causeway_command::output::Output;
use causeway_report::style::{Style, paint};
use causeway_report::table::Table;
use causeway_watch::log::{self, Masks};
use causeway_watch::observer::{ObserveError, Observer, observe_all};
use causeway_watch::{process, text};
use clap::Args;
use serde_json::json;

use crate::logging;

/// How long to wait for a process to apply a request.
const PATIENCE: Duration = Duration::from_secs(1);

/// Show the log of a running process, or change what it logs
///
/// Without a process it lists those that there are. A mask is a level (off, error, warn, info, debug,
/// trace) for everything, and others for parts of the program: warn,engine=debug,shm=trace. Only what it
/// names is changed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway log
  causeway log 4242 --dump
  causeway log 4242 --set engine=debug,shm=trace
  causeway log 4242 --record trace
  CAUSEWAY_LOG=warn,tcp=debug causeway fs serve")]
pub(crate) struct Arguments {
    /// The process
    #[arg(value_name = "PID")]
    pid: Option<u32>,
    /// Print the latest events that it has recorded
    #[arg(long, requires = "pid")]
    dump: bool,
    /// Print at most this number of them
    #[arg(long, value_name = "COUNT", requires = "dump")]
    last: Option<usize>,
    /// Change the mask of events that it prints
    #[arg(long, value_name = "MASK", requires = "pid")]
    set: Option<String>,
    /// Change the mask of events that it records
    #[arg(long, value_name = "MASK", requires = "pid")]
    record: Option<String>,
    /// Print exactly one JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let output = Output::new(arguments.json);
    let Some(pid) = arguments.pid else {
        return list(&output);
    };
    let page = open(pid)?;
    let request = requested(&arguments, &page)?;
    if let Some(request) = &request {
        change(&output, &page, request)?;
    }
    let last = arguments.last.unwrap_or(usize::MAX);
    let events = if arguments.dump {
        dump(&output, &page, last)
    } else {
        Vec::new()
    };
    if request.is_none() && !arguments.dump {
        describe(&output, &page);
    }
    output.object(&json!({
        "pid": pid, "name": page.name(), "masks": page.masks(), "lost_events": page.lost_events(),
        "events": events }));
    Ok(())
}

/// The page of a process, or what the user can do to see it.
pub(crate) fn open(pid: u32) -> Outcome<Observer> {
    Observer::new(pid).map_err(|error| {
        let failure = Failure::new("observing a process", &error);
        match error {
            ObserveError::NotAllowed(_) => failure.hint("try it as that user or as root"),
            ObserveError::NoPage(_) => {
                failure.hint("`causeway log` lists the processes that there are")
            }
            _ => failure,
        }
    })
}

fn list(output: &Output) -> Outcome {
    let own = std::process::id();
    let found = observe_all(|pid| pid == own).doing(|| "looking for processes".to_owned())?;
    let mut table = Table::new(&["pid", "state", "masks (printed/recorded)", "process"]);
    table.align_right(&[0]);
    for page in &found.processes {
        let masks = page.masks();
        table.row(vec![
            page.pid.to_string(),
            process::state(page.pid).text().to_owned(),
            if masks.is_empty() {
                "-".to_owned()
            } else {
                masks
            },
            page.name(),
        ]);
    }
    if found.processes.is_empty() {
        output.line("no process of this user shows a log");
    } else {
        output.line(&table.text());
    }
    for error in &found.errors {
        causeway_command::output::warn(&error.to_string());
    }
    output.object(
        &json!({ "processes": found.processes.iter().map(|page| json!({
        "pid": page.pid, "name": page.name(), "masks": page.masks(),
        "state": process::state(page.pid).text() })).collect::<Vec<_>>() }),
    );
    Ok(())
}

/// The masks that the process is to use.
fn requested(arguments: &Arguments, page: &Observer) -> Outcome<Option<Masks>> {
    if arguments.set.is_none() && arguments.record.is_none() {
        return Ok(None);
    }
    let what = || "choosing log events".to_owned();
    let mut masks: Masks = page.masks().parse().map_err(|_| {
        Failure::new(what(), format!("process {} has a log of its own", page.pid))
            .hint("the masks of programs that do not use Causeway's log cannot be changed")
    })?;
    let wrong = |error: log::MaskError| Failure::usage(what(), error);
    if let Some(printed) = &arguments.set {
        masks.printed.change(printed).map_err(wrong)?;
    }
    if let Some(recorded) = &arguments.record {
        masks.recorded.change(recorded).map_err(wrong)?;
    }
    logging::check(&masks)?;
    Ok(Some(masks))
}

fn change(output: &Output, page: &Observer, request: &Masks) -> Outcome {
    let doing = || format!("changing what process {} logs", page.pid);
    let asked = page.request_masks(&request.to_string()).doing(doing)?;
    let until = Instant::now() + PATIENCE;
    while !page.has_applied(asked) && Instant::now() < until {
        // The page is memory of the other process, which may change it at any time.
        std::thread::sleep(Duration::from_millis(10));
    }
    if !page.is_there() {
        return Err(Failure::new(doing(), "it has ended"));
    }
    if page.has_applied(asked) {
        output.line(&format!("process {} uses {}", page.pid, page.masks()));
    } else {
        output.line(&format!(
            "process {} ({}) has not applied them yet; it will use {request} as soon as it makes progress",
            page.pid,
            process::state(page.pid).text()
        ));
    }
    Ok(())
}

fn dump(output: &Output, page: &Observer, last: usize) -> Vec<serde_json::Value> {
    let events = page.events(last);
    for (_, event) in &events {
        let line = log::line(event);
        let line = match event.level {
            1 => paint(&line, Style::Red),
            2 => paint(&line, Style::Yellow),
            _ => line,
        };
        output.line(&line);
    }
    if events.is_empty() && page.masks().is_empty() {
        output.line(&format!("process {} has a log of its own", page.pid));
    }
    let events = events.iter().map(|(number, event)| {
        json!({
            "number": number, "time": text::time(event.at_ns), "thread": event.thread,
            "level": log::level_name(event.level).to_ascii_lowercase(), "target": event.target,
            "text": event.text })
    });
    events.collect()
}

fn describe(output: &Output, page: &Observer) {
    output.line(&format!(
        "process {}: {} ({})",
        page.pid,
        page.name(),
        process::state(page.pid).text()
    ));
    let masks = page.masks();
    let (printed, recorded) = masks.split_once('/').unwrap_or(("", ""));
    if masks.is_empty() {
        output.line("it has a log of its own");
        return;
    }
    output.line(&format!("prints {printed}"));
    output.line(&format!("records {recorded}; print that with --dump"));
    output.line("");
    let mut table = Table::new(&["part", "what"]);
    for (name, what) in logging::SUBSYSTEMS {
        table.row(vec![(*name).to_owned(), (*what).to_owned()]);
    }
    output.line(&table.text());
}
