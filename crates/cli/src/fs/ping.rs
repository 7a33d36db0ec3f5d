//! `causeway fs ping`: which servers reply, how fast, and over which method.

use std::time::{Duration, Instant};

use causeway_command::failure::{Failure, Outcome};
use causeway_command::output::escaped;
use causeway_report::table::Table;
use causeway_report::units::{duration_text, microseconds_text};
use causeway_wire::fs::ServerIdentity;
use clap::Args;
use serde_json::{Value, json};

use crate::fs::engine::{ask_servers, conclude, each_operand};
use crate::fs::session::{Session, Target};

/// The beginning of the failure that another server is at the address.
const OTHER_SERVER: &str = "asking server";

/// Ask every server whether it is there, and has its directory
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs ping
  causeway fs ping --server io2 -n 100
  causeway fs ping --via tcp --json")]
pub(crate) struct Arguments {
    /// Only this server
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// How many times to ping each server
    #[arg(long, short = 'n', value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
    #[command(flatten)]
    target: Target,
}

/// The reply of one server.
struct PingReply {
    version: String,
    pid: u32,
    uptime: Duration,
    median_us: f64,
    facts: Vec<(&'static str, String)>,
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let session = Session::open(&arguments.target)?;
    let servers = match &arguments.server {
        Some(name) => vec![session.find_server(name, false)?],
        None => (0..session.configuration.servers.len()).collect(),
    };
    let replies = ask_servers(&servers, |index| ask(&session, index, arguments.count));
    show(&session, servers.into_iter().zip(replies))
}

fn ask(session: &Session, index: usize, count: u32) -> Outcome<PingReply> {
    let mut client = session.client()?;
    let mut times = Vec::new();
    let mut reply = None;
    for _ in 0..count {
        let started = Instant::now();
        reply = Some(client.ping(index)?);
        times.push(started.elapsed().as_secs_f64() * 1e6);
    }
    // The first time contains making the connection.
    if times.len() > 1 {
        times.remove(0);
    }
    times.sort_by(f64::total_cmp);
    let Some(greeting) = reply else {
        return Err(Failure::new(
            "asking a server",
            "the server did not tell its time",
        ));
    };
    check(session, index, &greeting.identity)?;
    Ok(PingReply {
        version: escaped(&greeting.version),
        pid: greeting.pid,
        uptime: Duration::from_millis(greeting.uptime_ms),
        median_us: times.get(times.len() / 2).copied().unwrap_or(0.0),
        facts: client
            .report(index)
            .map(|report| report.facts)
            .unwrap_or_default(),
    })
}

/// Whether the server is the one that the configuration has at its address.
fn check(session: &Session, index: usize, found: &ServerIdentity) -> Outcome {
    let expected = session.server_name(index);
    if found.file_system == session.configuration.id && found.name == expected {
        return Ok(());
    }
    Err(Failure::new(
        format!("{OTHER_SERVER} {expected}"),
        format!(
            "at its address is server {} of file system {:032x}, and the configuration has server {expected} \
             of file system {:032x} there",
            escaped(&found.name),
            found.file_system,
            session.configuration.id
        ),
    )
    .hint("correct the `id`, the names or the addresses in the configuration"))
}

fn show(session: &Session, replies: impl Iterator<Item = (usize, Outcome<PingReply>)>) -> Outcome {
    let mut table = Table::new(&[
        "server",
        "replies in",
        "up for",
        "process",
        "version",
        "method",
    ]);
    table.align_right(&[1, 2, 3]);
    let mut objects = Vec::new();
    let mut failures = Vec::new();
    for (index, reply) in replies {
        let name = session.server_name(index);
        match reply {
            Ok(reply) => {
                let method = method_of(&reply.facts);
                objects.push(json!({
                    "server": name, "ok": true, "median_us": reply.median_us,
                    "uptime_ms": reply.uptime.as_millis() as u64, "pid": reply.pid,
                    "version": reply.version, "facts": facts_json(&reply.facts) }));
                table.row(vec![
                    name.to_owned(),
                    microseconds_text(reply.median_us),
                    duration_text(reply.uptime),
                    reply.pid.to_string(),
                    reply.version,
                    method,
                ]);
            }
            Err(failure) => {
                objects.push(failure_json(name, &failure));
                table.row(vec![name.to_owned(), failure_cell(&failure)]);
                failures.push(failure);
            }
        }
    }
    session.output.line(&table.text());
    session.output.object(&json!({ "servers": objects }));
    conclude(each_operand(failures, Err))
}

/// The table's cell for a server that sent no proper reply.
pub(crate) fn failure_cell(failure: &Failure) -> String {
    let text = match failure.no_reply {
        true => "no reply",
        false if failure.what.starts_with(OTHER_SERVER) => "another one",
        false => "an error",
    };
    text.to_owned()
}

/// The same for `--json`.
pub(crate) fn failure_json(server: &str, failure: &Failure) -> Value {
    json!({ "server": server, "ok": false, "replies": !failure.no_reply, "error": failure.to_string() })
}

/// The fact that names the method in use.
pub(crate) fn method_of(facts: &[(&'static str, String)]) -> String {
    facts
        .iter()
        .find(|(name, _)| matches!(*name, "method" | "chosen" | "address"))
        .map(|(_, value)| value.clone())
        .unwrap_or_default()
}

/// Facts as a JSON object.
pub(crate) fn facts_json(facts: &[(&'static str, String)]) -> Value {
    facts
        .iter()
        .map(|(name, value)| ((*name).to_owned(), Value::from(value.clone())))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
