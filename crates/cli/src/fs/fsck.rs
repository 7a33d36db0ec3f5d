//! `causeway fs fsck`: is everything consistent? Online: the file system may be in use.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use causeway_command::failure::{Failure, Outcome};
use causeway_command::progress::Progress;
use causeway_fs::client::Client;
use causeway_report::style::{Style, paint};
use causeway_report::units::{bytes_text, count_text};
use causeway_wire::fs::{ObjectId, ReplyBody};
use clap::Args;
use serde_json::{Value, json};

use crate::fs::scrub::{named, server_name};
use crate::fs::session::{Session, Target};

/// Check the name space and the datafiles, while the file system is in use
///
/// Datafiles that are absent, shorter than what was written, another file's or damaged in their header are reported
/// by file and server; `causeway fs scrub` also verifies their content. Without --repair nothing is changed,
/// and the exit code is 1 if anything was found.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs fsck
  causeway fs fsck --repair
  causeway fs fsck --json | jq .findings")]
pub(crate) struct Arguments {
    /// Repair what is found: correct records, take datafiles that something else has put in the place of others as they are, remove datafiles that belong to no file; those that may belong to
    /// another state of the metadata are kept in data/lost+found of their server for 30 days
    #[arg(long, short)]
    repair: bool,
    #[command(flatten)]
    target: Target,
}

/// How long removals that are under way are waited for.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(10);
/// Datafiles removed by one request.
const REMOVE_BATCH: usize = 512;
/// Findings shown in full; more are only counted.
const SHOWN_FINDINGS: usize = 200;

#[derive(Default)]
struct Result {
    records: u64,
    datafiles: u64,
    findings: Vec<String>,
    found: u64,
    repaired: u64,
    orphans: u64,
    orphan_bytes: u64,
    /// Orphans that were moved aside, because nothing proves that they are not needed.
    moved: u64,
    /// Striped files.
    files: u64,
    /// Datafiles of files that are absent, short, foreign or damaged.
    lost: u64,
}

impl Result {
    fn find(&mut self, text: String) {
        self.found += 1;
        if self.findings.len() < SHOWN_FINDINGS {
            self.findings.push(text);
        }
    }
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let session = Session::open(&arguments.target)?;
    let mut client = session.client()?;
    let progress = Progress::new(&session.output, "fsck", 0);
    let mut result = Result::default();
    check_names(&mut client, arguments.repair, &mut result, &progress)?;
    check_striped(
        &session,
        &mut client,
        arguments.repair,
        &mut result,
        &progress,
    )?;
    for server in client.layout()?.servers {
        let (index, name) = (client.server_of(server.index)?, &server.name);
        check_datafiles(
            &mut client,
            index,
            name,
            arguments.repair,
            &mut result,
            &progress,
        )?;
    }
    progress.finish();
    show(&session, arguments.repair, &result);
    let left = result.found.saturating_sub(result.repaired);
    if left == 0 {
        return Ok(());
    }
    if session.output.json {
        // The one JSON object has reported it.
        return Err(Failure::reported());
    }
    let failure = Failure::new(
        "checking the file system",
        format!("{left} findings are left"),
    );
    Err(match arguments.repair {
        _ if result.lost >= left => failure.hint(
            "lost data cannot be repaired: bring the server's disk or directory back, or remove the files \
             or write them anew",
        ),
        true => failure.hint("run it again; if findings stay, read the logs of the servers"),
        false => failure.hint("repair them with `causeway fs fsck --repair`"),
    })
}

fn check_names(
    client: &mut Client,
    repair: bool,
    result: &mut Result,
    progress: &Progress,
) -> Outcome {
    let mut after = None;
    loop {
        let batch = client.check_metadata(after.as_ref(), repair)?;
        result.records += batch.records;
        result.repaired += batch.repaired;
        for finding in batch.findings {
            result.find(finding);
        }
        progress.advance(0, batch.records);
        if batch.next.is_none() {
            return Ok(());
        }
        after = batch.next;
    }
}

fn check_datafiles(
    client: &mut Client,
    index: usize,
    name: &str,
    repair: bool,
    result: &mut Result,
    progress: &Progress,
) -> Outcome {
    let (count, mut orphans) = scan(client, index, progress)?;
    result.datafiles += count;
    if !orphans.is_empty() {
        // A file that was just removed leaves its datafiles for a moment: only what is still there
        // when all removals are done is an orphan.
        await_removals(client)?;
        let (_, again) = scan(client, index, progress)?;
        orphans.retain(|object, _| again.contains_key(object));
    }
    for (object, bytes) in &orphans {
        result.orphans += 1;
        result.orphan_bytes += bytes;
        let size = bytes_text(*bytes);
        result.find(format!(
            "{name}: datafile {} ({size}) belongs to no file",
            object.0
        ));
    }
    if !repair || orphans.is_empty() {
        return Ok(());
    }
    let ReplyBody::MetadataStatus { numbers, gaps, .. } = client.metadata_status()? else {
        return Err(Failure::new(
            "checking datafiles",
            "the metadata server does not say which object numbers it has given out",
        ));
    };
    // Numbers in a gap were given out by later metadata, of which this is an older copy: nothing is proven of them.
    let in_gap = |object: &ObjectId| gaps.iter().any(|gap| gap.0 <= *object && object.0 < gap.1);
    let (unknown, known): (Vec<_>, Vec<_>) = orphans.into_keys().partition(in_gap);
    for (objects, numbers) in [(known, numbers), (unknown, 0)] {
        for batch in objects.chunks(REMOVE_BATCH) {
            let gone = client.remove_orphans(index, batch.to_vec(), numbers)?;
            result.repaired += gone.deleted + gone.moved;
            result.moved += gone.moved;
        }
    }
    Ok(())
}

/// Finds datafiles of files that are absent, short, another one's or damaged.
fn check_striped(
    session: &Session,
    client: &mut Client,
    repair: bool,
    result: &mut Result,
    progress: &Progress,
) -> Outcome {
    let mut after = ObjectId(0);
    loop {
        let batch = client.check_striped(after)?;
        result.files += batch.files;
        if repair {
            // What was replaced by something else is reported once more, by this run.
            for lost in &batch.found {
                client.accept_data(lost.server, vec![lost.fault.object])?;
            }
        }
        for lost in named(client, batch.found)? {
            let name = server_name(session, lost.server);
            result.lost += 1;
            result.find(format!("{name}: {}: {}", lost.path, lost.fault.text));
        }
        progress.advance(0, batch.files);
        match batch.next {
            Some(next) => after = next,
            None => return Ok(()),
        }
    }
}

/// All datafiles of a server that belong to no file, with their sizes, and how many it has.
fn scan(
    client: &mut Client,
    index: usize,
    progress: &Progress,
) -> Outcome<(u64, BTreeMap<ObjectId, u64>)> {
    let mut orphans = BTreeMap::new();
    let mut count = 0;
    let mut after = ObjectId(0);
    loop {
        let batch = client.orphans(index, after)?;
        count += batch.datafiles;
        orphans.extend(batch.found);
        progress.advance(0, batch.datafiles);
        match batch.next {
            Some(next) if next > after => after = next,
            _ => return Ok((count, orphans)),
        }
    }
}

/// Waits until the metadata server has no datafiles left to remove, but not for ever: a server that
/// is away keeps its own.
fn await_removals(client: &mut Client) -> Outcome {
    let deadline = Instant::now() + REMOVAL_PATIENCE;
    while let ReplyBody::MetadataStatus { removals, .. } = client.metadata_status()?
        && removals > 0
        && Instant::now() < deadline
    {
        // The server sends no event when the last one is removed: it has to be asked.
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn show(session: &Session, repair: bool, result: &Result) {
    let output = session.output;
    for finding in &result.findings {
        output.line(finding);
    }
    let hidden = result.found - result.findings.len() as u64;
    if hidden > 0 {
        output.line(&format!("… and {} more", count_text(hidden)));
    }
    let verdict = match (result.found, repair) {
        (0, _) => paint("clean", Style::Green),
        (found, true) => format!(
            "{} findings, {} repaired",
            count_text(found),
            count_text(result.repaired)
        ),
        (found, false) => paint(&format!("{} findings", count_text(found)), Style::Yellow),
    };
    output.line(&format!(
        "{verdict}: {} records of the name space, {} datafiles, {} without a file ({})",
        count_text(result.records),
        count_text(result.datafiles),
        count_text(result.orphans),
        bytes_text(result.orphan_bytes)
    ));
    if result.moved > 0 {
        output.line(&format!(
            "{} datafiles were not proven to be this file system's and lie in data/lost+found of their \
             servers for 30 days",
            count_text(result.moved)
        ));
    }
    let findings: Vec<Value> = result
        .findings
        .iter()
        .map(|text| text.as_str().into())
        .collect();
    output.object(&json!({
        "records": result.records, "datafiles": result.datafiles, "found": result.found,
        "mended": result.repaired, "orphans": result.orphans, "orphan_bytes": result.orphan_bytes,
        "moved_aside": result.moved, "striped_files": result.files, "lost_datafiles": result.lost,
        "findings": findings }));
}
