//! A record of what this process does, written to a file for its launcher: calls, and messages with their receives
//! ([`causeway_wire::run::Event`]).
//!
//! There is one record in a process. While it is off, as usual, each message costs the check of a flag. Lines are gathered in
//! memory of bounded size and written when it is full; a process that is killed loses the gathered ones.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use causeway_engine::types::OpId;
pub use causeway_wire::run;
use causeway_wire::run::{Event, Message};
use rustix::time::{ClockId, clock_gettime};

/// Bytes that are gathered before they are written.
const GATHERED: usize = 64 << 10;

static IS_ON: AtomicBool = AtomicBool::new(false);
static RECORD: Mutex<Option<Record>> = Mutex::new(None);

struct Record {
    file: File,
    lines: String,
    /// The number of receives posted so far, and the receives that wait, each with how many were posted before it.
    posted: u64,
    waiting: HashMap<OpId, u64>,
}

/// Whether the record is on.
#[inline(always)]
pub fn is_on() -> bool {
    IS_ON.load(Relaxed)
}

/// The monotonic clock, which all processes of a host share, in nanoseconds.
#[cold]
#[inline(never)]
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Turns the record on.
pub fn start(path: &Path) -> std::io::Result<()> {
    let record = Record {
        file: File::create(path)?,
        lines: String::with_capacity(GATHERED),
        posted: 0,
        waiting: HashMap::new(),
    };
    *lock() = Some(record);
    IS_ON.store(true, Relaxed);
    Ok(())
}

/// Writes the gathered lines.
pub fn flush() {
    if let Some(record) = lock().as_mut() {
        record.write();
    }
}

/// Records events, with no event of another thread between them.
pub fn events(events: &[Event]) {
    with(|record| {
        for event in events {
            record.add(event);
        }
    });
}

fn lock() -> MutexGuard<'static, Option<Record>> {
    RECORD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with(body: impl FnOnce(&mut Record)) {
    if let Some(record) = lock().as_mut() {
        body(record);
    }
}

impl Record {
    fn add(&mut self, event: &Event) {
        event.encode(&mut self.lines);
        // Most lines are far shorter than the remaining room.
        if self.lines.len() > GATHERED - 512 {
            self.write();
        }
    }

    fn write(&mut self) {
        if self.file.write_all(self.lines.as_bytes()).is_err() {
            // The disk is full, or the launcher has ended: the program goes on without a record.
            IS_ON.store(false, Relaxed);
        }
        self.lines.clear();
    }
}

/// Records that a message is sent.
#[cold]
pub(crate) fn sent(peer: u32, word: u64, bytes: u64) {
    let at_ns = now_ns();
    with(|record| {
        record.add(&Event::Sent(Message {
            at_ns,
            peer,
            word,
            bytes,
        }));
    });
}

/// Records that a receive waits.
#[cold]
pub(crate) fn posted(op: OpId) {
    with(|record| {
        record.posted += 1;
        record.waiting.insert(op, record.posted);
    });
}

/// Records that a receive has ended without a message.
#[cold]
pub(crate) fn given_up(op: OpId) {
    with(|record| {
        record.waiting.remove(&op);
    });
}

/// Records that a message has been received; `op` is its receive, if that has waited.
#[cold]
pub(crate) fn received(op: Option<OpId>, peer: u32, word: u64, bytes: u64) {
    let at_ns = now_ns();
    with(|record| {
        let order = op.and_then(|op| record.waiting.remove(&op));
        let order = order.unwrap_or_else(|| {
            record.posted += 1;
            record.posted
        });
        let message = Message {
            at_ns,
            peer,
            word,
            bytes,
        };
        record.add(&Event::Received(message, order));
    });
}
