//! Progress: a bar on a terminal, a plain line now and then when piped, nothing under `--json`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use causeway_report::units::{bytes_text, count_text};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::{Output, note};

/// How often a plain line is written when standard error is no terminal.
const PLAIN_INTERVAL: Duration = Duration::from_secs(10);

/// The progress of a long operation, in bytes and in items.
#[derive(Debug)]
pub struct Progress {
    label: String,
    bar: Option<ProgressBar>,
    plain: bool,
    bytes: AtomicU64,
    items: AtomicU64,
    total_bytes: AtomicU64,
    last_line: Mutex<Instant>,
}

impl Progress {
    /// Starts with a label; totals may be added later.
    pub fn new(output: &Output, label: &str, total_bytes: u64) -> Self {
        Self::begin(output, label, total_bytes, style(total_bytes))
    }

    fn begin(output: &Output, label: &str, total: u64, style: ProgressStyle) -> Self {
        let bar = output.progress.then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(10);
            ProgressBar::with_draw_target(Some(total), target)
                .with_style(style)
                .with_prefix(label.to_owned())
        });
        Self {
            label: label.to_owned(),
            plain: bar.is_none() && !output.json,
            bar,
            bytes: AtomicU64::new(0),
            items: AtomicU64::new(0),
            total_bytes: AtomicU64::new(total),
            last_line: Mutex::new(Instant::now()),
        }
    }

    /// Starts with a label and a number of steps, counted by [`Progress::step`].
    pub fn steps(output: &Output, label: &str, total: u64) -> Self {
        let template = "{prefix:16} {bar:24.cyan/dim} {pos} of {len}, {eta} left  {msg}";
        let style =
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        Self::begin(output, label, total, style)
    }

    /// Starts the next step.
    pub fn step(&self, name: &str) {
        let done = self.items.fetch_add(1, Ordering::Relaxed);
        let total = self.total_bytes.load(Ordering::Relaxed);
        if let Some(bar) = &self.bar {
            bar.set_position(done);
            bar.set_message(name.to_owned());
        } else if self.plain_line_is_due() {
            note(&format!("{}: {done} of {total}, {name}", self.label));
        }
    }

    /// Whether a plain line is due where no bar can be drawn.
    fn plain_line_is_due(&self) -> bool {
        let Ok(mut last) = self.last_line.try_lock() else {
            return false;
        };
        let due = self.plain && last.elapsed() >= PLAIN_INTERVAL;
        if due {
            *last = Instant::now();
        }
        due
    }

    /// Adds to the total.
    pub fn add_total(&self, bytes: u64) {
        let total = self.total_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if let Some(bar) = &self.bar {
            if total == bytes {
                bar.set_style(style(total));
            }
            bar.set_length(total);
        }
    }

    /// Counts work that is done.
    pub fn advance(&self, bytes: u64, items: u64) {
        let bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let items = self.items.fetch_add(items, Ordering::Relaxed) + items;
        if let Some(bar) = &self.bar {
            bar.set_position(bytes);
            bar.set_message(format!("{} items", count_text(items)));
        } else if self.plain_line_is_due() {
            let total = self.total_bytes.load(Ordering::Relaxed);
            note(&format!(
                "{}: {} of {}, {} items",
                self.label,
                bytes_text(bytes),
                bytes_text(total),
                count_text(items)
            ));
        }
    }

    /// Subtracts work that must be done again.
    pub fn subtract(&self, bytes: u64) {
        let bytes = self.bytes.fetch_sub(bytes, Ordering::Relaxed) - bytes;
        if let Some(bar) = &self.bar {
            bar.set_position(bytes);
        }
    }

    /// Prints a line above the bar.
    pub fn print_above(&self, print: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Bytes and items so far.
    pub fn done(&self) -> (u64, u64) {
        (
            self.bytes.load(Ordering::Relaxed),
            self.items.load(Ordering::Relaxed),
        )
    }

    /// Removes the bar.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

fn style(total_bytes: u64) -> ProgressStyle {
    let template = if total_bytes > 0 {
        "{prefix:16} {bar:24.cyan/dim} {binary_bytes:>11} of {binary_total_bytes:<11} \
         {binary_bytes_per_sec:>13}  {msg}"
    } else {
        "{prefix:16} {spinner} {binary_bytes:>11}  {msg}"
    };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
