//! One phase of the demonstration: processes that share a list of files, assigned in batches.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use causeway_command::failure::{Failure, Outcome};
use causeway_command::progress::Progress;
use causeway_command::workers::{Event, Pool};
use causeway_report::histogram::Histogram;
use causeway_watch::process::monotonic_ns;

use super::drill::Drill;
use super::worker::{Assignment, Done, Fault, Item, Order, Report};

/// A batch ends when it has this many bytes, or this many files.
const BATCH_BYTES: u64 = 4 << 20;
const BATCH_FILES: usize = 32;
/// Batches that a worker has at a time, so that it never waits for the next one.
const OUTSTANDING: usize = 2;
/// How many times an item is tried if a server is out of reach.
const ATTEMPTS: u32 = 5;
/// How long all workers may send no message.
const PATIENCE: Duration = Duration::from_secs(120);

/// An item and its bytes.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    pub(crate) item: Item,
    pub(crate) bytes: u64,
    pub(crate) attempts: u32,
}

impl Work {
    /// An item that was not tried yet.
    pub(crate) fn new(item: Item, bytes: u64) -> Self {
        Self {
            item,
            bytes,
            attempts: 0,
        }
    }
}

/// The results of a phase.
#[derive(Debug, Default)]
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    pub(crate) items: u64,
    pub(crate) read: u64,
    pub(crate) written: u64,
    pub(crate) processes: usize,
    /// Errors that clients reported, with the worker's number.
    pub(crate) faults: Vec<(usize, Fault)>,
    /// Items that failed for good.
    pub(crate) lost: Vec<String>,
    /// Bytes read and written by slot of the common clock, for each worker.
    pub(crate) slots: Vec<BTreeMap<u64, (u64, u64)>>,
    pub(crate) latencies: BTreeMap<Cow<'static, str>, Histogram>,
    pub(crate) stages: BTreeMap<Cow<'static, str>, (f64, u64)>,
}

impl Phase {
    /// How long it took.
    pub(crate) fn time(&self) -> Duration {
        Duration::from_nanos(self.to_ns.saturating_sub(self.from_ns))
    }

    /// Bytes moved.
    pub(crate) fn bytes(&self) -> u64 {
        self.read + self.written
    }
}

struct Running<'a> {
    pool: Pool<Report>,
    queue: VecDeque<Work>,
    /// Items that wait until the servers are back.
    again: Vec<Work>,
    /// The items that each worker is working on.
    held: Vec<BTreeMap<usize, Work>>,
    /// Unfinished batches of each worker.
    batches: Vec<usize>,
    given_out: usize,
    total: usize,
    phase: Phase,
    progress: &'a Progress,
}

/// Runs a phase to its end. `each` is called for every item that succeeded.
pub(crate) fn run(
    name: &'static str,
    clients: usize,
    assignment: &Assignment,
    work: Vec<Work>,
    progress: &Progress,
    mut drill: Option<&mut Drill<'_>>,
    each: &mut dyn FnMut(&Done),
) -> Outcome<Phase> {
    let mut pool = Pool::default();
    for _ in 0..clients {
        pool.start(assignment)?;
    }
    pool.gather(Duration::from_secs(60), "connecting the client processes")?;
    let mut running = Running {
        pool,
        total: work.len(),
        queue: work.into(),
        again: Vec::new(),
        held: vec![BTreeMap::new(); clients],
        batches: vec![0; clients],
        given_out: 0,
        phase: Phase {
            name,
            from_ns: monotonic_ns(),
            processes: clients,
            slots: vec![BTreeMap::new(); clients],
            ..Phase::default()
        },
        progress,
    };
    let mut last_heard = Instant::now();
    while !running.finished() || drill.as_ref().is_some_and(|drill| !drill.over()) {
        if let Some(drill) = drill.as_deref_mut() {
            drill.advance(running.given_out, running.total, &running.phase.faults)?;
        }
        let all_up = drill.as_ref().is_none_or(|drill| drill.all_up());
        let most = drill
            .as_ref()
            .map_or(usize::MAX, |drill| drill.most_items(running.total));
        running.give_out(all_up, most)?;
        match running.pool.event(Duration::from_millis(20)) {
            Some((number, Event::Message(report))) => {
                last_heard = Instant::now();
                running.take_report(number, report, each);
            }
            Some((number, Event::Ended(reason))) => {
                let reason = reason.unwrap_or_else(|| "it ended early".to_owned());
                return Err(Failure::new(
                    format!("the phase `{name}`"),
                    format!("client process {number}: {reason}"),
                ));
            }
            None if last_heard.elapsed() > PATIENCE => {
                return Err(Failure::new(
                    format!("the phase `{name}`"),
                    format!(
                        "no client process reported anything for {} s",
                        PATIENCE.as_secs()
                    ),
                ));
            }
            None => {}
        }
    }
    running.phase.to_ns = monotonic_ns();
    running.collect()
}

impl Running<'_> {
    fn finished(&self) -> bool {
        self.queue.is_empty() && self.again.is_empty() && self.held.iter().all(BTreeMap::is_empty)
    }

    /// Keeps every worker busy, without assigning more than `most` items in all.
    fn give_out(&mut self, all_up: bool, most: usize) -> Outcome {
        if all_up && !self.again.is_empty() {
            self.queue.extend(self.again.drain(..));
        }
        for round in 0..OUTSTANDING {
            for number in 0..self.batches.len() {
                let busy = self.batches.get(number).copied().unwrap_or(OUTSTANDING);
                if busy > round || self.given_out >= most {
                    continue;
                }
                let batch = self.next_batch(most);
                if batch.is_empty() {
                    return Ok(());
                }
                let order = Order::Batch(batch.iter().map(|work| work.item.clone()).collect());
                if let Some(held) = self.held.get_mut(number) {
                    held.extend(batch.into_iter().map(|work| (work.item.number, work)));
                }
                if let Some(count) = self.batches.get_mut(number) {
                    *count += 1;
                }
                self.pool.send(number, &order)?;
            }
        }
        Ok(())
    }

    fn next_batch(&mut self, most: usize) -> Vec<Work> {
        let mut batch: Vec<Work> = Vec::new();
        let mut bytes = 0;
        while batch.len() < BATCH_FILES && bytes < BATCH_BYTES && self.given_out < most {
            let Some(work) = self.queue.pop_front() else {
                break;
            };
            bytes += work.bytes;
            if work.attempts == 0 {
                self.given_out += 1;
            }
            batch.push(work);
        }
        batch
    }

    fn take_report(&mut self, number: usize, report: Report, each: &mut dyn FnMut(&Done)) {
        let Report::Batch {
            results,
            slots,
            complete,
        } = report
        else {
            return;
        };
        if complete && let Some(count) = self.batches.get_mut(number) {
            *count = count.saturating_sub(1);
        }
        for (slot, (read, written)) in slots {
            self.phase.read += read;
            self.phase.written += written;
            self.progress.advance(read + written, 0);
            if let Some(mine) = self.phase.slots.get_mut(number) {
                let sum = mine.entry(slot).or_default();
                sum.0 += read;
                sum.1 += written;
            }
        }
        for done in results {
            let held = self
                .held
                .get_mut(number)
                .and_then(|held| held.remove(&done.number));
            let Some(mut work) = held else { continue };
            let Some(fault) = &done.error else {
                self.phase.items += 1;
                self.progress.advance(0, 1);
                each(&done);
                continue;
            };
            work.attempts += 1;
            let again = fault.retry && work.attempts < ATTEMPTS;
            if !again {
                let path = causeway_command::output::printable(work.item.path.bytes());
                self.phase.lost.push(format!("{path}: {}", fault.text));
            }
            self.phase.faults.push((number, fault.clone()));
            if again {
                self.again.push(work);
            }
        }
    }

    /// Ends the workers and collects their measurements.
    fn collect(mut self) -> Outcome<Phase> {
        for number in 0..self.pool.count() {
            self.pool.close(number);
        }
        let reports = self.pool.gather(
            Duration::from_secs(60),
            "collecting the clients' measurements",
        )?;
        for report in reports {
            if let Report::Finished { latencies, stages } = report {
                for (name, histogram) in latencies {
                    let all = self.phase.latencies.entry(name).or_default();
                    all.merge(&histogram);
                }
                for (name, (us, count)) in stages {
                    let stage = self.phase.stages.entry(name).or_default();
                    stage.0 += us;
                    stage.1 += count;
                }
            }
        }
        Ok(self.phase)
    }
}
