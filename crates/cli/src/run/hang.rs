//! Hang reports: the call that each process of a running job is in. The launcher samples the calls at intervals, and reports at the request of the user
//! (SIGQUIT), or when a call takes too long.
//!
//! Each process publishes the call that it is in on a page ([`causeway_wire::run::call`]), and its
//! queues on the status page of every process of Causeway ([`causeway_watch`]). It does nothing for
//! a report, so that processes that hang are reported, too; processes that publish nothing are
//! named.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::Acquire;
use std::time::{Duration, Instant};

use causeway_command::failure::{Doing, Outcome};
use causeway_mpi::abi;
use causeway_sys::mapping::Mapping;
use causeway_sys::memfd;
use causeway_watch::observer::Observer;
use causeway_watch::process;
use causeway_wire::run::FORMATS;
use causeway_wire::run::call::{self, NONE, State};
use causeway_wire::watch::{OpKind, PeerRow, Row, WaitReason};

use super::job_rank::JobRank;
use super::programs::MOST;

#[path = "../../../mpi-c/abi/table.rs"]
#[allow(dead_code, reason = "only names are needed here")]
mod table;

/// The functions that calls are counted by.
const LIST: &str = include_str!("../../../mpi-c/abi/functions.txt");
/// How often to sample the calls, at least and at most.
const SELDOM: Duration = Duration::from_millis(500);
const OFTEN: Duration = Duration::from_millis(20);
/// The activity of a process that has published no call.
const AT_START: &str = "in MPI_Init, or has not communicated since";
/// How many processes one cause names.
const NAMED: usize = 4;

/// See the module's page.
pub(super) struct Watcher {
    file: OwnedFd,
    pages: Mapping,
    names: Vec<String>,
    fingerprint: u64,
    processes: Vec<Process>,
    looked: Instant,
    every: Duration,
    stall: Option<Duration>,
    /// A call that takes longer than this is reported.
    next_report_after: Duration,
}

/// A process that was started.
struct Process {
    job_rank: JobRank,
    page: usize,
    /// The state of each slot when it last changed, and when that was.
    seen: [(State, Instant); call::SLOTS],
}

/// The activity of one thread.
struct CurrentCall {
    name: String,
    peer: i32,
    tag: i32,
    object: usize,
    duration: Duration,
    is_inside: bool,
}

/// The activity of one process.
enum Activity {
    Ended,
    /// The process shows nothing, for this reason.
    Silent(String),
    Threads(Vec<CurrentCall>),
}

/// The activity of a process, and the operations that it has queued for each peer.
struct ProcessSnapshot {
    job_rank: JobRank,
    pid: u32,
    activity: Activity,
    queued: Vec<(Option<JobRank>, PeerRow)>,
}

impl Watcher {
    /// A watcher that reports calls that take longer than `stall`.
    pub(super) fn new(stall: Option<Duration>) -> Outcome<Self> {
        let doing = || "making the memory file for hang reports".to_owned();
        // Only pages that are used take memory.
        let bytes = MOST as usize * call::PAGE_BYTES;
        let file = memfd::create_fixed("causeway:run", bytes).doing(doing)?;
        let functions = table::read(LIST);
        let names = functions.iter().flat_map(table::Function::names);
        let now = Instant::now();
        Ok(Self {
            pages: Mapping::new(&file, bytes).doing(doing)?,
            file,
            names: names.map(|(name, _)| name).collect(),
            fingerprint: table::fingerprint(LIST),
            processes: Vec::new(),
            looked: now,
            every: stall.map_or(SELDOM, |stall| (stall / 4).clamp(OFTEN, SELDOM)),
            stall,
            next_report_after: stall.unwrap_or_default(),
        })
    }

    /// Where processes find the memory file.
    pub(super) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Adds a process that was started, and that has this page.
    pub(super) fn add(&mut self, job_rank: JobRank, page: u32) {
        self.processes.push(Process {
            job_rank,
            page: page as usize,
            seen: [(State::default(), Instant::now()); call::SLOTS],
        });
    }

    /// All processes that were started, with the numbers of their pages.
    pub(super) fn processes(&self) -> Vec<(JobRank, u32)> {
        let all = self.processes.iter();
        all.map(|process| (process.job_rank, process.page as u32))
            .collect()
    }

    /// When to sample next.
    pub(super) fn next(&self) -> Instant {
        self.looked + self.every
    }

    /// Samples the calls, if it is time to. Returns a report if a call of one of these processes takes too long.
    pub(super) fn look(&mut self, running: &[JobRank]) -> Option<String> {
        if Instant::now() < self.next() {
            return None;
        }
        self.observe();
        let stall = self.stall?;
        let all = self.processes.iter();
        let all = all.filter(|process| running.contains(&process.job_rank));
        let slots = all.flat_map(|process| process.seen);
        let inside = slots.filter(|(state, _)| state.is_inside);
        let longest = inside.map(|(_, since)| self.looked - since).max()?;
        if longest < stall {
            self.next_report_after = stall;
        }
        if longest < self.next_report_after {
            return None;
        }
        // Reported again each time that the wait has doubled.
        while self.next_report_after <= longest {
            self.next_report_after = (2 * self.next_report_after).max(OFTEN);
        }
        Some(self.report(running))
    }

    fn observe(&mut self) {
        let now = Instant::now();
        for process in &mut self.processes {
            for (slot, seen) in process.seen.iter_mut().enumerate() {
                let offset = call::SLOTS_OFFSET + slot * call::SLOT_BYTES;
                let state = State::of_word(word(&self.pages, process.page, offset));
                if seen.0 != state {
                    *seen = (state, now);
                }
            }
        }
        self.looked = now;
    }

    fn find(&self, process: &Process, is_running: bool) -> ProcessSnapshot {
        let pid = word(&self.pages, process.page, call::PID);
        let pid = u32::try_from(pid).unwrap_or(0);
        let activity = match is_running {
            true => self.activity(process, pid),
            false => Activity::Ended,
        };
        let queued = match activity {
            Activity::Threads(_) => queued(pid),
            _ => Vec::new(),
        };
        ProcessSnapshot {
            job_rank: process.job_rank,
            pid,
            activity,
            queued,
        }
    }

    fn activity(&self, process: &Process, pid: u32) -> Activity {
        let silent = |why: &str| Activity::Silent(why.to_owned());
        if pid == 0 {
            return silent(
                "has not called MPI_Init, or runs another library, and cannot say what it does",
            );
        }
        if process::state(pid) == process::State::Ended {
            return silent("has lost the process that called MPI_Init");
        }
        let word = |offset| word(&self.pages, process.page, offset);
        if let Err(why) = check_formats(word(call::FORMATS)) {
            return Activity::Silent(why);
        }
        if word(call::LIST) != self.fingerprint {
            return silent("runs a library of another version, which cannot say what it does");
        }
        let threads = process.seen.iter().enumerate().filter_map(|(slot, seen)| {
            let (state, since) = *seen;
            let offset = call::SLOTS_OFFSET + slot * call::SLOT_BYTES;
            let (peer, tag) = call::unpack(word(offset + 8));
            let object = word(offset + 16) as usize;
            let name = self.names.get(usize::from(state.function));
            (state.number > 0).then(|| CurrentCall {
                name: name.cloned().unwrap_or_default(),
                peer,
                tag,
                object,
                duration: self.looked.saturating_duration_since(since),
                is_inside: state.is_inside,
            })
        });
        Activity::Threads(threads.collect())
    }

    /// The report on all processes, except for the calls of those that have ended.
    pub(super) fn report(&mut self, running: &[JobRank]) -> String {
        self.observe();
        let all = self.processes.iter();
        let all = all.map(|process| self.find(process, running.contains(&process.job_rank)));
        let all = Vec::from_iter(all);
        let mut text = format!("hang report of {} processes", all.len());
        for ProcessSnapshot {
            job_rank,
            pid,
            activity,
            queued,
        } in &all
        {
            let _ = match activity {
                Activity::Ended => write!(text, "\n  {job_rank} has ended"),
                Activity::Silent(why) => write!(text, "\n  {job_rank} {why}"),
                Activity::Threads(places) => {
                    let state = process::state(*pid).text();
                    let places = Vec::from_iter(places.iter().map(CurrentCall::text));
                    let text_of = match places.is_empty() {
                        true => AT_START.to_owned(),
                        false => places.join("; another thread: "),
                    };
                    write!(text, "\n  {job_rank} (pid {pid}, {state}): {text_of}")
                }
            };
            for row in queued {
                let _ = write!(text, "\n    {}", queue_text(row));
            }
        }
        for cause in causes(&all) {
            let _ = write!(text, "\n  likely cause: {cause}");
        }
        text
    }
}

/// A word of a page; 0 if there is no such page.
fn word(pages: &Mapping, page: usize, offset: usize) -> u64 {
    match page < MOST as usize {
        true => pages.word(page * call::PAGE_BYTES + offset).load(Acquire),
        false => 0,
    }
}

impl CurrentCall {
    fn text(&self) -> String {
        let seconds = self.duration.as_secs_f64();
        if !self.is_inside {
            return format!("outside of MPI for {seconds:.1} s, last in {}", self.name);
        }
        let mut text = format!("in {}", self.name);
        let _ = match self.peer {
            NONE => Ok(()),
            abi::ANY_SOURCE => write!(text, ", from any rank"),
            peer => write!(text, ", with rank {peer}"),
        };
        let _ = match self.tag {
            NONE => Ok(()),
            abi::ANY_TAG => write!(text, ", any tag"),
            tag => write!(text, ", tag {tag}"),
        };
        let _ = match self.object {
            0 => Ok(()),
            abi::COMM_WORLD => write!(text, ", MPI_COMM_WORLD"),
            abi::COMM_SELF => write!(text, ", MPI_COMM_SELF"),
            other => write!(text, ", object {other:#x}"),
        };
        let _ = write!(text, ", for {seconds:.1} s");
        text
    }

    /// The activity of the process, in a few words, for processes that wait for it.
    fn activity_text(&self) -> String {
        match self.is_inside {
            true => format!("is in {}", self.name),
            false => format!("is outside of MPI, last in {}", self.name),
        }
    }

    fn is_send(&self) -> bool {
        let ends = ["send", "Send"].iter().any(|end| self.name.ends_with(end));
        ends || self.name.ends_with("send_c")
    }

    /// Whether all processes of the communicator have to take part.
    fn is_collective(&self) -> bool {
        self.tag == NONE && self.object == abi::COMM_WORLD
    }
}

impl ProcessSnapshot {
    /// The activity of the thread, in a few words.
    fn activity_text(&self) -> String {
        match &self.activity {
            Activity::Ended => "has ended".to_owned(),
            Activity::Silent(why) => why.clone(),
            Activity::Threads(places) => {
                let first = places.first();
                first.map_or(format!("is {AT_START}"), CurrentCall::activity_text)
            }
        }
    }
}

/// The reason why this launcher cannot read what a process publishes, by the word in which the
/// process states its formats.
fn check_formats(word: u64) -> Result<(), String> {
    let theirs = call::stated(word).map_err(|error| format!("shows nonsense: {error}"))?;
    match FORMATS.common(theirs) {
        Some(_) => Ok(()),
        None => Err(format!(
            "cannot say what it does: {}",
            FORMATS.mismatch(theirs, "what processes show their launcher")
        )),
    }
}

/// What a process has queued for each peer, read from its status page.
fn queued(pid: u32) -> Vec<(Option<JobRank>, PeerRow)> {
    let Ok(page) = Observer::new(pid) else {
        return Vec::new();
    };
    let peers = page.rows().into_iter().filter_map(|row| match row {
        Row::Peer(row) if row.sends + row.receives + row.early > 0 || row.waiting.is_some() => {
            Some((peer_of(&row.address), row))
        }
        _ => None,
    });
    peers.collect()
}

/// The process that has this address: a socket in its program's directory.
fn peer_of(address: &str) -> Option<JobRank> {
    let mut parts = address.rsplit('/');
    let rank = parts.next()?.parse().ok()?;
    let world = parts.next()?.parse().ok()?;
    Some(JobRank { world, rank })
}

fn queue_text((peer, row): &(Option<JobRank>, PeerRow)) -> String {
    let whose = peer.map_or_else(|| row.address.clone(), |job_rank| job_rank.to_string());
    let mut text = format!(
        "queued for {whose}: {} sends, {} receives, {} messages without a receive",
        row.sends, row.receives, row.early
    );
    if let Some(waiting) = &row.waiting {
        let (tag, size) = (waiting.tag as u32, waiting.size);
        let what = match (waiting.kind, waiting.why) {
            (OpKind::Receive, WaitReason::Message) => "receive, for which no message has come",
            (OpKind::Receive, _) => "receive, whose message is on its way",
            (OpKind::Send, WaitReason::Receive) => "send, announced to a peer without a receive",
            (OpKind::Send, WaitReason::Connection) => "send, not connected",
            (OpKind::Send, _) => "send, on its way",
            _ => "transfer",
        };
        let _ = write!(text, "; the oldest is a {what} (tag {tag}, {size} bytes)");
    }
    text
}

/// Which processes seem to wait for which.
fn causes(all: &[ProcessSnapshot]) -> Vec<String> {
    let mut causes = Vec::new();
    // The processes of each program in each collective operation.
    let mut together: BTreeMap<(u32, &str), BTreeSet<u32>> = BTreeMap::new();
    for found in all {
        let Activity::Threads(places) = &found.activity else {
            continue;
        };
        for place in places.iter().filter(|place| place.is_inside) {
            if place.is_collective() {
                let ranks = together.entry((found.job_rank.world, &place.name));
                ranks.or_default().insert(found.job_rank.rank);
            } else {
                waits(all, found, place, &mut causes);
            }
        }
    }
    for ((world, name), ranks) in together {
        let members = all.iter().filter(|found| found.job_rank.world == world);
        let others = members
            .clone()
            .filter(|found| !ranks.contains(&found.job_rank.rank));
        let others =
            others.map(|found| format!("{}, which {}", found.job_rank, found.activity_text()));
        let others = Vec::from_iter(others.take(NAMED));
        if !others.is_empty() {
            causes.push(format!(
                "{} of {} processes are in {name} and wait for {}",
                ranks.len(),
                members.count(),
                others.join(", and for ")
            ));
        }
    }
    causes
}

/// The process that a thread in a call which is not collective waits for.
fn waits(
    all: &[ProcessSnapshot],
    found: &ProcessSnapshot,
    place: &CurrentCall,
    causes: &mut Vec<String>,
) {
    let job_rank = found.job_rank;
    let mut add = |peer: JobRank, is_send: bool, tag: Option<i64>| {
        let what = match (is_send, tag) {
            (true, None) => format!("for {peer} to receive its message"),
            (true, Some(tag)) => format!("for {peer} to receive its message of tag {tag}"),
            (false, None) => format!("for a message of {peer}"),
            (false, Some(tag)) => format!("for a message of tag {tag} of {peer}"),
        };
        let where_it_is = all.iter().find(|found| found.job_rank == peer);
        let where_it_is = where_it_is.map_or(
            "is not known here".to_owned(),
            ProcessSnapshot::activity_text,
        );
        causes.push(format!("{job_rank} waits {what}, which {where_it_is}"));
    };
    if place.object == abi::COMM_WORLD && place.peer >= 0 {
        let rank = place.peer as u32;
        let tag = (![NONE, abi::ANY_TAG].contains(&place.tag)).then_some(i64::from(place.tag));
        let world = job_rank.world;
        add(JobRank { world, rank }, place.is_send(), tag);
    } else if place.peer == abi::ANY_SOURCE {
        let others = all.iter().filter(|other| other.job_rank != job_rank);
        let others = others.map(|other| format!("; {} {}", other.job_rank, other.activity_text()));
        let others = String::from_iter(others.take(NAMED));
        causes.push(format!(
            "{job_rank} waits for a message of any rank{others}"
        ));
    } else {
        for (peer, row) in &found.queued {
            if let (Some(peer), Some(waiting)) = (peer, &row.waiting) {
                let is_send = waiting.kind != OpKind::Receive;
                add(*peer, is_send, Some(i64::from(waiting.tag as u32)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_wire::formats::Formats;

    #[test]
    fn pages_of_other_formats_are_refused_with_both_ranges() {
        check_formats(0).expect("builds that state no format speak the first");
        check_formats(call::stating(FORMATS)).expect("this build's own");
        let (lowest, highest) = (FORMATS.highest + 1, FORMATS.highest + 2);
        let newer = check_formats(call::stating(Formats { lowest, highest }));
        let why = newer.expect_err("none of them is spoken here");
        for range in [Formats { lowest, highest }, FORMATS] {
            assert!(why.contains(&range.to_string()), "{why}");
        }
        check_formats(u64::MAX).expect_err("it states none");
    }
}
