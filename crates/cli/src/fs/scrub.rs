//! `causeway fs scrub`: does everything that is stored still have its checksum?

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use causeway_command::failure::{Failure, Outcome};
use causeway_command::output::{json_name, printable};
use causeway_command::progress::Progress;
use causeway_fs::client::{Client, ServerFault};
use causeway_report::style::{Style, paint};
use causeway_report::units::{bytes_text, count_text, parse_bytes};
use causeway_wire::fs::{DataFault, ObjectId, ScrubPosition};
use clap::Args;
use serde_json::{Value, json};

use crate::fs::engine::ask_servers;
use crate::fs::session::{Session, Target};
use crate::fs::text::object_json;

/// Verify the checksums of everything that is stored, while the file system is in use
///
/// First the metadata say which datafiles there must be, and how long. Then each server reads its own, all servers at
/// once. An interrupted scrub continues where it stopped, on each server. The exit code is 1 if anything is damaged, absent or shorter than it was.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs scrub
  causeway fs scrub --rate 20MiB
  causeway fs scrub --server io1 --restart
  causeway fs scrub --json | jq .damaged")]
pub(crate) struct Arguments {
    /// Bytes per second that each server reads at most [default: 100MiB]
    #[arg(long, value_name = "BYTES", value_parser = parse_rate)]
    rate: Option<u64>,
    /// Only this server
    #[arg(long, short, value_name = "NAME")]
    server: Option<String>,
    /// Begin at the front, also if the last scrub was interrupted
    #[arg(long)]
    restart: bool,
    #[command(flatten)]
    target: Target,
}

/// Bytes per second without `--rate`.
const DEFAULT_RATE: u64 = 100 << 20;
/// Fewest and most bytes of one step.
const STEP_BYTES: (u64, u64) = (1 << 20, 32 << 20);
/// The number of damages that are shown in full.
const SHOWN: usize = 200;

fn parse_rate(text: &str) -> Result<u64, String> {
    let text = text.trim_end_matches("/s");
    match parse_bytes(text)? {
        0 => Err("a scrub that reads nothing comes to no end".to_owned()),
        rate => Ok(rate),
    }
}

/// The findings on all servers.
#[derive(Default)]
struct Findings {
    bytes: u64,
    datafiles: u64,
    damaged: u64,
    shown: Vec<Named>,
    /// The findings before the servers read their datafiles, which report some of them again.
    lost: HashSet<(usize, ObjectId, u64)>,
}

impl Findings {
    fn add(&mut self, found: Vec<Named>) {
        self.damaged += found.len() as u64;
        let room = SHOWN.saturating_sub(self.shown.len());
        self.shown.extend(found.into_iter().take(room));
    }
}

/// Something wrong with a datafile, and its file.
pub(crate) struct Named {
    /// Index of the server.
    pub(crate) server: usize,
    /// The fault.
    pub(crate) fault: DataFault,
    /// The file's path, printable; the object's number where it has none.
    pub(crate) path: String,
    raw_path: Option<Vec<u8>>,
}

/// Finds the paths of the files with faults.
pub(crate) fn named(client: &mut Client, faults: Vec<ServerFault>) -> Outcome<Vec<Named>> {
    let mut objects: Vec<ObjectId> = faults.iter().map(|lost| lost.fault.object).collect();
    objects.dedup();
    let mut paths = HashMap::new();
    if !objects.is_empty() {
        for found in client.paths(objects)? {
            paths.insert(found.object, found.path);
        }
    }
    let name = |ServerFault { server, fault }: ServerFault| {
        let raw_path = paths.get(&fault.object).cloned();
        let path = match &raw_path {
            Some(path) => printable(path),
            None => format!("object {}, which has no name", fault.object.0),
        };
        Named {
            server,
            fault,
            path,
            raw_path,
        }
    };
    Ok(faults.into_iter().map(name).collect())
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let session = Session::open(&arguments.target)?;
    let servers = match &arguments.server {
        Some(name) => vec![session.find_server(name, true)?],
        None => session.configuration.io_servers(),
    };
    let rate = arguments.rate.unwrap_or(DEFAULT_RATE);
    let progress = Progress::new(&session.output, "scrub", 0);
    let result = Mutex::new(lost(&session, &servers)?);
    let outcomes = ask_servers(&servers, |server| {
        scrub(
            &session,
            server,
            arguments.restart,
            rate,
            &result,
            &progress,
        )
    });
    progress.finish();
    let result = result.into_inner().unwrap_or_else(PoisonError::into_inner);
    show(&session, &result);
    outcomes.into_iter().collect::<Outcome>()?;
    match result.damaged {
        0 => Ok(()),
        // The JSON object has reported the findings.
        _ if session.output.json => Err(Failure::reported()),
        count => Err(Failure::new(
            "verifying stored data",
            format!("{} places are damaged", count_text(count)),
        )
        .hint("write the files anew from a good copy, or remove them; then check the disk")),
    }
}

/// Datafiles of these servers that are absent or too short, judging by the metadata.
fn lost(session: &Session, servers: &[usize]) -> Outcome<Findings> {
    let mut client = session.client()?;
    let mut result = Findings::default();
    let mut after = ObjectId(0);
    loop {
        let batch = client.check_striped(after)?;
        let mut found = named(&mut client, batch.found)?;
        // The datafiles of a file that was removed meanwhile are not missing.
        found.retain(|named| servers.contains(&named.server) && named.raw_path.is_some());
        for named in &found {
            let fault = &named.fault;
            let place = (named.server, fault.object, fault.offset);
            result.lost.insert(place);
        }
        result.add(found);
        match batch.next {
            Some(next) => after = next,
            None => return Ok(result),
        }
    }
}

fn scrub(
    session: &Session,
    server: usize,
    restart: bool,
    rate: u64,
    result: &Mutex<Findings>,
    progress: &Progress,
) -> Outcome {
    let mut client = session.client()?;
    let step_bytes = (rate / 4).clamp(STEP_BYTES.0, STEP_BYTES.1);
    let mut from = restart.then_some(ScrubPosition::FRONT);
    loop {
        let began = Instant::now();
        let step = client.scrub(server, from, step_bytes)?;
        let faults = step.faults.into_iter();
        let faults = faults.map(|fault| ServerFault { server, fault }).collect();
        // Damage to a file that was removed or replaced meanwhile does not matter.
        let mut found = named(&mut client, faults)?;
        found.retain(|named| named.raw_path.is_some());
        {
            let mut result = result.lock().unwrap_or_else(PoisonError::into_inner);
            result.bytes = result.bytes.saturating_add(step.bytes);
            result.datafiles = result.datafiles.saturating_add(step.datafiles);
            found.retain(|Named { server, fault, .. }| {
                !result.lost.contains(&(*server, fault.object, fault.offset))
            });
            result.add(found);
        }
        progress.advance(step.bytes, step.datafiles);
        if step.next.is_none() {
            return Ok(());
        }
        from = step.next;
        let least = Duration::from_secs_f64(step.bytes as f64 / rate as f64);
        std::thread::sleep(least.saturating_sub(began.elapsed()));
    }
}

fn show(session: &Session, result: &Findings) {
    let output = session.output;
    let mut damaged = Vec::new();
    for found in &result.shown {
        let name = session.server_name(found.server);
        output.line(&format!("{name}: {}: {}", found.path, found.fault.text));
        let mut object = serde_json::Map::new();
        object.insert("server".to_owned(), name.into());
        object.insert("object".to_owned(), object_json(found.fault.object));
        if let Some(path) = &found.raw_path {
            json_name(&mut object, "path", path);
        }
        object.insert("offset".to_owned(), found.fault.offset.into());
        object.insert("bytes".to_owned(), found.fault.len.into());
        object.insert("text".to_owned(), found.fault.text.as_str().into());
        damaged.push(Value::Object(object));
    }
    let hidden = result.damaged - result.shown.len() as u64;
    if hidden > 0 {
        output.line(&format!("… and {} more", count_text(hidden)));
    }
    let verdict = match result.damaged {
        0 => paint("clean", Style::Green),
        count => paint(
            &format!("{} places are damaged", count_text(count)),
            Style::Red,
        ),
    };
    output.line(&format!(
        "{verdict}: {} datafiles, {} verified",
        count_text(result.datafiles),
        bytes_text(result.bytes)
    ));
    output.object(&json!({
        "bytes": result.bytes, "datafiles": result.datafiles, "found": result.damaged,
        "damaged": damaged }));
}
