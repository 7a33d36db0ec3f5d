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
use serde_json::json;

use crate::fs::scrub::named;
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

/// A check in progress.
struct Check<'a> {
    session: &'a Session,
    client: Client,
    repair: bool,
    progress: Progress,
    found: Findings,
}

/// The findings of a check.
#[derive(Default)]
struct Findings {
    records: u64,
    datafiles: u64,
    shown: Vec<String>,
    /// The number of all findings, also of those not shown.
    count: u64,
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

impl Findings {
    fn add(&mut self, text: String) {
        self.count += 1;
        if self.shown.len() < SHOWN_FINDINGS {
            self.shown.push(text);
        }
    }
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let session = Session::open(&arguments.target)?;
    let mut check = Check {
        session: &session,
        client: session.client()?,
        repair: arguments.repair,
        progress: Progress::new(&session.output, "fsck", 0),
        found: Findings::default(),
    };
    check.names()?;
    check.striped()?;
    for server in check.client.layout()?.servers {
        let index = check.client.server_of(server.index)?;
        check.datafiles(index, &server.name)?;
    }
    check.progress.finish();
    show(&session, arguments.repair, &check.found);
    let left = check.found.count.saturating_sub(check.found.repaired);
    if left == 0 {
        return Ok(());
    }
    if session.output.json {
        // The JSON object has reported the findings.
        return Err(Failure::reported());
    }
    let failure = Failure::new(
        "checking the file system",
        format!("{left} findings are left"),
    );
    Err(match arguments.repair {
        _ if check.found.lost >= left => failure.hint(
            "lost data cannot be repaired: bring the server's disk or directory back, or remove the files \
             or write them anew",
        ),
        true => failure.hint("run it again; if findings stay, read the logs of the servers"),
        false => failure.hint("repair what can be repaired with `causeway fs fsck --repair`"),
    })
}

impl Check<'_> {
    /// Checks the records of the name space.
    fn names(&mut self) -> Outcome {
        let mut after = None;
        loop {
            let batch = self.client.check_metadata(after.as_ref(), self.repair)?;
            self.found.records = self.found.records.saturating_add(batch.records);
            self.found.repaired = self.found.repaired.saturating_add(batch.repaired);
            for finding in batch.findings {
                self.found.add(finding);
            }
            self.progress.advance(0, batch.records);
            if batch.next.is_none() {
                return Ok(());
            }
            after = batch.next;
        }
    }

    /// Finds datafiles of files that are absent, short, another one's or damaged.
    fn striped(&mut self) -> Outcome {
        let mut after = ObjectId(0);
        loop {
            let batch = self.client.check_striped(after)?;
            self.found.files += batch.files;
            if self.repair {
                // A datafile that was replaced by something else is reported once more, by this run.
                for lost in &batch.found {
                    self.client
                        .accept_data(lost.server, vec![lost.fault.object])?;
                }
            }
            for lost in named(&mut self.client, batch.found)? {
                let name = self.session.server_name(lost.server);
                self.found.lost += 1;
                self.found
                    .add(format!("{name}: {}: {}", lost.path, lost.fault.text));
            }
            self.progress.advance(0, batch.files);
            match batch.next {
                Some(next) => after = next,
                None => return Ok(()),
            }
        }
    }

    /// Finds datafiles of a server that belong to no file.
    fn datafiles(&mut self, index: usize, name: &str) -> Outcome {
        let (count, mut orphans) = self.scan(index)?;
        self.found.datafiles += count;
        if !orphans.is_empty() {
            // A file that was just removed leaves its datafiles for a moment: an orphan is one that is still there
            // when all removals are done.
            self.await_removals()?;
            let (_, again) = self.scan(index)?;
            orphans.retain(|object, _| again.contains_key(object));
        }
        for (object, bytes) in &orphans {
            self.found.orphans += 1;
            self.found.orphan_bytes = self.found.orphan_bytes.saturating_add(*bytes);
            let size = bytes_text(*bytes);
            self.found.add(format!(
                "{name}: datafile {} ({size}) belongs to no file",
                object.0
            ));
        }
        match self.repair && !orphans.is_empty() {
            true => self.remove(index, orphans.into_keys()),
            false => Ok(()),
        }
    }

    /// Removes orphans, or moves them aside.
    fn remove(&mut self, index: usize, orphans: impl Iterator<Item = ObjectId>) -> Outcome {
        let ReplyBody::MetadataStatus { numbers, gaps, .. } = self.client.metadata_status()? else {
            return Err(Failure::new(
                "checking datafiles",
                "the metadata server does not say which object numbers it has given out",
            ));
        };
        // Numbers in a gap were assigned by later metadata, of which these are an older copy: such
        // datafiles may be needed.
        let in_gap =
            |object: &ObjectId| gaps.iter().any(|gap| gap.0 <= *object && object.0 < gap.1);
        let (unknown, known): (Vec<_>, Vec<_>) = orphans.partition(in_gap);
        for (objects, numbers) in [(known, numbers), (unknown, 0)] {
            for batch in objects.chunks(REMOVE_BATCH) {
                let gone = self.client.remove_orphans(index, batch.to_vec(), numbers)?;
                self.found.repaired = self
                    .found
                    .repaired
                    .saturating_add(gone.deleted + gone.moved);
                self.found.moved += gone.moved;
            }
        }
        Ok(())
    }

    /// All datafiles of a server that belong to no file, with their sizes, and how many it has.
    fn scan(&mut self, index: usize) -> Outcome<(u64, BTreeMap<ObjectId, u64>)> {
        let mut orphans = BTreeMap::new();
        let mut count = 0;
        let mut after = ObjectId(0);
        loop {
            let batch = self.client.orphans(index, after)?;
            count += batch.datafiles;
            orphans.extend(batch.found);
            self.progress.advance(0, batch.datafiles);
            match batch.next {
                Some(next) if next > after => after = next,
                _ => return Ok((count, orphans)),
            }
        }
    }

    /// Waits until the metadata server has no datafiles left to remove, for a bounded time: a server that
    /// is down keeps its own.
    fn await_removals(&mut self) -> Outcome {
        let deadline = Instant::now() + REMOVAL_PATIENCE;
        while let ReplyBody::MetadataStatus { removals, .. } = self.client.metadata_status()?
            && removals > 0
            && Instant::now() < deadline
        {
            // The server sends no event when the last one is removed, so it is polled.
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

fn show(session: &Session, repair: bool, found: &Findings) {
    let output = session.output;
    for finding in &found.shown {
        output.line(finding);
    }
    let hidden = found.count - found.shown.len() as u64;
    if hidden > 0 {
        output.line(&format!("… and {} more", count_text(hidden)));
    }
    let verdict = match (found.count, repair) {
        (0, _) => paint("clean", Style::Green),
        (count, true) => format!(
            "{} findings, {} repaired",
            count_text(count),
            count_text(found.repaired)
        ),
        (count, false) => paint(&format!("{} findings", count_text(count)), Style::Yellow),
    };
    output.line(&format!(
        "{verdict}: {} records of the name space, {} datafiles, {} without a file ({})",
        count_text(found.records),
        count_text(found.datafiles),
        count_text(found.orphans),
        bytes_text(found.orphan_bytes)
    ));
    if found.moved > 0 {
        output.line(&format!(
            "{} datafiles were not proven to be this file system's and lie in data/lost+found of their \
             servers for 30 days",
            count_text(found.moved)
        ));
    }
    output.object(&json!({
        "records": found.records, "datafiles": found.datafiles, "found": found.count,
        "mended": found.repaired, "orphans": found.orphans, "orphan_bytes": found.orphan_bytes,
        "moved_aside": found.moved, "striped_files": found.files, "lost_datafiles": found.lost,
        "findings": found.shown }));
}
