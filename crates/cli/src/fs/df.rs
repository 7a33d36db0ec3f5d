//! `causeway fs df`: how full the servers are.

use causeway_command::failure::Outcome;
use causeway_report::table::Table;
use causeway_report::units::{bytes_text, count_text};
use causeway_wire::fs::ReplyBody;
use clap::Args;
use serde_json::{Value, json};

use crate::fs::engine::{ask_servers, conclude, each_operand};
use crate::fs::ping::{failure_cell, failure_json};
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

/// The servers' replies.
struct Shown {
    table: Table,
    /// Lines below the table.
    notes: Vec<String>,
    /// An object for each server.
    objects: Vec<Value>,
    total_bytes: u64,
    free_bytes: u64,
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let session = Session::open(&arguments.target)?;
    let servers: Vec<usize> = (0..session.configuration.servers.len()).collect();
    let replies = ask_servers(&servers, |index| status(&session, index));
    let mut shown = Shown {
        table: Table::new(&["server", "total", "used", "free", "use", "written", "read"]),
        notes: Vec::new(),
        objects: Vec::new(),
        total_bytes: 0,
        free_bytes: 0,
    };
    shown.table.align_right(&[1, 2, 3, 4, 5, 6]);
    let mut failures = Vec::new();
    for (index, reply) in servers.into_iter().zip(replies) {
        let name = session.server_name(index);
        match reply {
            Ok(reply) => shown.add(name, &reply),
            Err(failure) => {
                shown.objects.push(failure_json(name, &failure));
                let cell = failure_cell(&failure);
                shown.table.row(vec![name.to_owned(), cell]);
                failures.push(failure);
            }
        }
    }
    let (total, free) = (shown.total_bytes, shown.free_bytes);
    shown.table.row(storage_cells("all", total, free, None));
    session.output.line(&shown.table.text());
    for note in shown.notes {
        session.output.line(&note);
    }
    session.output.object(&json!({
        "total_bytes": total, "free_bytes": free, "servers": shown.objects }));
    conclude(each_operand(failures, Err))
}

impl Shown {
    /// Adds the status of a server.
    fn add(&mut self, name: &str, status: &ReplyBody) {
        match *status {
            ReplyBody::StorageStatus {
                total,
                free,
                written,
                read,
                busy,
                aside,
                aside_bytes,
            } => {
                if aside > 0 {
                    self.notes.push(format!(
                        "{name}: {} datafiles ({}) were moved aside to data/lost+found, for 30 days each",
                        count_text(aside),
                        bytes_text(aside_bytes)
                    ));
                }
                self.total_bytes = self.total_bytes.saturating_add(total);
                self.free_bytes = self.free_bytes.saturating_add(free);
                self.objects.push(json!({
                    "server": name, "ok": true, "total_bytes": total, "free_bytes": free,
                    "written_bytes": written, "read_bytes": read, "busy": busy,
                    "aside": aside, "aside_bytes": aside_bytes }));
                self.table
                    .row(storage_cells(name, total, free, Some((written, read))));
            }
            ReplyBody::MetadataStatus {
                objects, removals, ..
            } => {
                self.objects.push(json!({
                    "server": name, "ok": true, "objects": objects, "removals": removals }));
                self.notes.push(format!(
                    "{name}: {} objects, {} datafiles still to be removed",
                    count_text(objects),
                    count_text(removals)
                ));
            }
            _ => {}
        }
    }
}

fn status(session: &Session, index: usize) -> Outcome<ReplyBody> {
    let mut client = session.client()?;
    Ok(match index == session.configuration.metadata_server() {
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
