//! `causeway fs df`: how full the servers are.

use causeway_command::failure::{Failure, Outcome};
use causeway_command::output::report_item;
use causeway_report::table::Table;
use causeway_report::units::{bytes_text, count_text};
use causeway_wire::fs::ReplyBody;
use clap::Args;
use serde_json::json;

use crate::fs::engine::conclude;
use crate::fs::session::{Session, Target};

/// Show how full each server is
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs df
  causeway fs df --json | jq .free_bytes")]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let session = Session::open(&arguments.target)?;
    let replies: Vec<Outcome<ReplyBody>> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..session.configuration.servers.len())
            .map(|index| {
                let session = &session;
                scope.spawn(move || status(session, index))
            })
            .collect();
        let lost = || {
            Err(Failure::new(
                "asking a server",
                "the thread that asked ended",
            ))
        };
        asked
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| lost()))
            .collect()
    });
    let mut table = Table::new(&["server", "total", "used", "free", "use", "written", "read"]);
    table.align_right(&[1, 2, 3, 4, 5, 6]);
    let (mut total_bytes, mut free_bytes) = (0_u64, 0_u64);
    let mut objects = Vec::new();
    let mut failures = Vec::new();
    let mut notes = Vec::new();
    for (server, reply) in session.configuration.servers.iter().zip(replies) {
        match reply {
            Ok(ReplyBody::StorageStatus {
                total,
                free,
                written,
                read,
                busy,
                aside,
                aside_bytes,
            }) => {
                if aside > 0 {
                    notes.push(format!(
                        "{}: {} datafiles ({}) were moved aside to data/lost+found, for 30 days each",
                        server.name,
                        count_text(aside),
                        bytes_text(aside_bytes)
                    ));
                }
                total_bytes = total_bytes.saturating_add(total);
                free_bytes = free_bytes.saturating_add(free);
                objects.push(json!({
                    "server": server.name, "ok": true, "total_bytes": total, "free_bytes": free,
                    "written_bytes": written, "read_bytes": read, "busy": busy,
                    "aside": aside, "aside_bytes": aside_bytes }));
                table.row(storage_cells(
                    &server.name,
                    total,
                    free,
                    Some((written, read)),
                ));
            }
            Ok(ReplyBody::MetadataStatus {
                objects: count,
                removals,
                ..
            }) => {
                objects.push(json!({
                    "server": server.name, "ok": true, "objects": count, "removals": removals }));
                notes.push(format!(
                    "{}: {} objects, {} datafiles still to be removed",
                    server.name,
                    count_text(count),
                    count_text(removals)
                ));
            }
            Ok(_) => {}
            Err(failure) => {
                objects.push(json!({
                    "server": server.name, "ok": false, "error": failure.to_string() }));
                table.row(vec![server.name.clone(), "no reply".to_owned()]);
                failures.push(failure);
            }
        }
    }
    table.row(storage_cells("all", total_bytes, free_bytes, None));
    session.output.line(&table.text());
    for note in notes {
        session.output.line(&note);
    }
    session.output.object(&json!({
        "total_bytes": total_bytes, "free_bytes": free_bytes, "servers": objects }));
    for failure in &failures {
        report_item(failure);
    }
    conclude(failures.len() as u64)
}

fn status(session: &Session, index: usize) -> Outcome<ReplyBody> {
    let mut client = session.client()?;
    let metadata = session
        .configuration
        .servers
        .get(index)
        .is_some_and(|server| server.metadata);
    Ok(match metadata {
        true => client.metadata_status()?,
        false => client.storage_status(index)?,
    })
}

fn storage_cells(name: &str, total: u64, free: u64, moved: Option<(u64, u64)>) -> Vec<String> {
    let used = total.saturating_sub(free);
    let share = if total == 0 {
        0.0
    } else {
        used as f64 / total as f64 * 100.0
    };
    let mut cells = vec![
        name.to_owned(),
        bytes_text(total),
        bytes_text(used),
        bytes_text(free),
        format!("{share:.0} %"),
    ];
    if let Some((written, read)) = moved {
        cells.push(bytes_text(written));
        cells.push(bytes_text(read));
    }
    cells
}
