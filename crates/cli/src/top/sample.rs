//! Reading the status pages of processes, and the rates between two readings.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use causeway_command::failure::{Doing, Outcome};
use causeway_watch::observer::{Observer, observe_all};
use causeway_watch::process;
use causeway_wire::watch::{Count, InstanceRow, PeerRow, Row};

/// How often to search for new processes: that reads all of `/proc`.
const SEARCH: Duration = Duration::from_secs(2);

/// Samples processes repeatedly.
pub(super) struct Watcher {
    only: Option<u32>,
    pages: Vec<Observer>,
    searched: Option<Instant>,
    not_allowed: usize,
    errors: Vec<String>,
    last: Option<Instant>,
    /// The counts of the last sample.
    counted: HashMap<Key, Counts>,
}

/// The number of the peer in the key of a process itself.
const NO_PEER: u32 = u32::MAX;

/// Identifies a peer on this machine: process, its start, instance, number, and whether this side connected.
type Key = (u32, u64, u32, u32, String);

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    received: Count,
    sent: Count,
}

/// One sample of everything.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) processes: Vec<Process>,
    /// The time of the sample, by the clock that the rows' times are of.
    pub(super) at_ns: u64,
    /// The number of processes of other users.
    pub(super) not_allowed: usize,
    pub(super) errors: Vec<String>,
}

/// A process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) name: String,
    pub(super) state: process::State,
    pub(super) started_ns: u64,
    pub(super) missing_rows: u64,
    /// The rates of all its instances since the last sample, also with peers that are gone.
    pub(super) received: Rate,
    pub(super) sent: Rate,
    pub(super) instances: Vec<InstanceRow>,
    pub(super) peers: Vec<Peer>,
}

/// A peer of a process, with its rates since the last sample.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) row: PeerRow,
    pub(super) received: Rate,
    pub(super) sent: Rate,
}

/// Messages and bytes in a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Rate {
    pub(super) messages: f64,
    pub(super) bytes: f64,
}

impl Rate {
    fn between(before: Count, now: Count, seconds: f64) -> Self {
        // Any process may have written the counters.
        let number = now.number.saturating_sub(before.number);
        let bytes = now.bytes.saturating_sub(before.bytes);
        Self {
            messages: number as f64 / seconds,
            bytes: bytes as f64 / seconds,
        }
    }
}

impl Watcher {
    pub(super) fn new(only: Option<u32>) -> Self {
        Self {
            only,
            pages: Vec::new(),
            searched: None,
            not_allowed: 0,
            errors: Vec::new(),
            last: None,
            counted: HashMap::new(),
        }
    }

    /// Samples all processes once.
    pub(super) fn sample(&mut self) -> Outcome<Sample> {
        self.pages.retain(Observer::is_there);
        self.search()?;
        let now = Instant::now();
        let seconds = self
            .last
            .replace(now)
            .map(|last| (now - last).as_secs_f64().max(1e-3));
        let mut counted = HashMap::new();
        let mut processes = Vec::new();
        for page in &self.pages {
            let mut process = Process {
                pid: page.pid,
                name: page.name(),
                state: process::state(page.pid),
                started_ns: page.started_ns(),
                missing_rows: page.missing_rows(),
                received: Rate::default(),
                sent: Rate::default(),
                instances: Vec::new(),
                peers: Vec::new(),
            };
            for row in page.rows() {
                match row {
                    Row::Instance(row) => process.instances.push(row),
                    Row::Peer(row) => {
                        let (key, counts) = counts(&process, &row);
                        let (received, sent) = self.rates(&key, counts, seconds);
                        process.peers.push(Peer {
                            row,
                            received,
                            sent,
                        });
                        counted.insert(key, counts);
                    }
                }
            }
            let all = Counts {
                received: sum(process.instances.iter().map(|row| row.received)),
                sent: sum(process.instances.iter().map(|row| row.sent)),
            };
            let key = (page.pid, process.started_ns, 0, NO_PEER, String::new());
            (process.received, process.sent) = self.rates(&key, all, seconds);
            counted.insert(key, all);
            // The other processes only log.
            if !process.instances.is_empty() || !process.peers.is_empty() {
                processes.push(process);
            }
        }
        self.counted = counted;
        Ok(Sample {
            processes,
            at_ns: process::monotonic_ns(),
            not_allowed: self.not_allowed,
            errors: self.errors.clone(),
        })
    }

    /// The rates since the last sample, received and sent.
    fn rates(&self, key: &Key, now: Counts, seconds: Option<f64>) -> (Rate, Rate) {
        // At the first sample there is nothing to compare with.
        let Some(seconds) = seconds else {
            return Default::default();
        };
        let before = self.counted.get(key).copied().unwrap_or_default();
        (
            Rate::between(before.received, now.received, seconds),
            Rate::between(before.sent, now.sent, seconds),
        )
    }

    fn search(&mut self) -> Outcome {
        if let Some(pid) = self.only {
            if self.pages.is_empty() {
                self.pages.push(crate::log::open(pid)?);
            }
            return Ok(());
        }
        if self.searched.is_some_and(|at| at.elapsed() < SEARCH) {
            return Ok(());
        }
        let own = std::process::id();
        let pages = &self.pages;
        let found = observe_all(|pid| pid == own || pages.iter().any(|page| page.pid == pid))
            .doing(|| "looking for processes".to_owned())?;
        self.searched = Some(Instant::now());
        self.not_allowed = found.not_allowed;
        self.errors = found.errors.iter().map(ToString::to_string).collect();
        self.pages.extend(found.processes);
        self.pages.sort_by_key(|page| page.pid);
        Ok(())
    }
}

fn counts(process: &Process, row: &PeerRow) -> (Key, Counts) {
    let key = (
        process.pid,
        process.started_ns,
        row.instance,
        row.peer,
        row.address.clone(),
    );
    let counts = Counts {
        received: sum([row.received, row.received_large]),
        // A transfer of remote memory is counted by the process that requested it.
        sent: sum([row.sent, row.sent_large, row.moved]),
    };
    (key, counts)
}

fn sum(counts: impl IntoIterator<Item = Count>) -> Count {
    let mut all = Count::default();
    for count in counts {
        all.number = all.number.saturating_add(count.number);
        all.bytes = all.bytes.saturating_add(count.bytes);
    }
    all
}
