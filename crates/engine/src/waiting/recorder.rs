//! Records the inputs of a policy, for tests: with `CAUSEWAY_RECORD_WAITS=PREFIX` each instance of
//! the process writes the file `PREFIX.PID.N`.
//!
//! One line for each wait, times in nanoseconds: from the end of the wait before to its beginning, from its beginning to
//! the message, polls that found nothing, the time they took, steps before the message, yields as
//! `DURATION`, or `DURATION:LENGTH` where the run queue was counted, joined with commas, and
//! parkings in the same way; `-` stands for none. A policy that records makes no polls without the clock.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::constants::Yielded;

const VARIABLE: &str = "CAUSEWAY_RECORD_WAITS";
/// A recording ends after this many waits.
const MOST_WAITS: u32 = 20_000;
/// Bytes that are written at once; writes are rare, since each disturbs what is recorded.
const BUFFER: usize = 1 << 18;

/// Writes one file.
pub(super) struct Recorder {
    file: File,
    text: String,
    waits: u32,
    /// When the last wait ended.
    ended: Instant,
    began: Option<Instant>,
    polls: u32,
    polled: Duration,
    steps: u32,
    yields: String,
    parkings: String,
}

impl Recorder {
    /// Opens the recorder that the environment requests, if its file can be created.
    pub(super) fn from_environment(now: Instant) -> Option<Box<Self>> {
        static FILES: AtomicU32 = AtomicU32::new(0);
        let mut path = std::env::var_os(VARIABLE)?;
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        path.push(format!(".{}.{number}", std::process::id()));
        Some(Box::new(Self {
            file: File::create(path).ok()?,
            text: String::with_capacity(BUFFER),
            waits: 0,
            ended: now,
            began: None,
            polls: 0,
            polled: Duration::ZERO,
            steps: 0,
            yields: String::new(),
            parkings: String::new(),
        }))
    }

    pub(super) fn begin(&mut self, start: Instant) {
        self.began.get_or_insert(start);
    }

    pub(super) fn polled(&mut self, polls: u32, took: Duration) {
        self.polls += polls;
        self.polled += took;
    }

    pub(super) fn progressed(&mut self) {
        self.steps += 1;
    }

    pub(super) fn yielded(&mut self, of: &Yielded) {
        // A yield before the wait counts as a part of it.
        self.began.get_or_insert(of.from);
        append(&mut self.yields, of.took());
        if let Some(length) = of.run_queue {
            let _ = write!(self.yields, ":{length}");
        }
    }

    pub(super) fn parked(&mut self, took: Duration) {
        append(&mut self.parkings, took);
    }

    pub(super) fn arrived(&mut self, now: Instant) {
        let Some(began) = self.began.take() else {
            return;
        };
        let none = |list: &str| if list.is_empty() { "-" } else { list }.to_owned();
        if self.waits < MOST_WAITS {
            let _ = writeln!(
                self.text,
                "{} {} {} {} {} {} {}",
                began.saturating_duration_since(self.ended).as_nanos(),
                now.saturating_duration_since(began).as_nanos(),
                self.polls,
                self.polled.as_nanos(),
                self.steps,
                none(&self.yields),
                none(&self.parkings),
            );
        }
        self.waits += 1;
        self.ended = now;
        (self.polls, self.steps, self.polled) = (0, 0, Duration::ZERO);
        self.yields.clear();
        self.parkings.clear();
        if self.text.len() > BUFFER / 2 {
            self.flush();
        }
    }

    fn flush(&mut self) {
        // If the file cannot be written, the recording is incomplete.
        let _ = self.file.write_all(self.text.as_bytes());
        self.text.clear();
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.flush();
    }
}

fn append(list: &mut String, took: Duration) {
    let comma = if list.is_empty() { "" } else { "," };
    let _ = write!(list, "{comma}{}", took.as_nanos());
}
