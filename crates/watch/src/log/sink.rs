//! Where log lines are printed.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long to wait for a slow reader of standard error before lines are dropped.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
const NO_PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// Standard error or a file. A slow reader cannot make the process wait for long: lines that it
/// does not read in time are dropped, and counted. They are still in the ring.
pub(super) struct Sink {
    file: Option<File>,
    left_out: AtomicU64,
}

impl Sink {
    pub(super) fn stderr() -> Self {
        Self {
            file: None,
            left_out: AtomicU64::new(0),
        }
    }

    /// Appends to a file.
    pub(super) fn file(path: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self {
            file: Some(file),
            ..Self::stderr()
        })
    }

    /// Prints whole lines.
    pub(super) fn print(&self, lines: &[u8]) {
        // A failure to log has nowhere to be reported.
        let _ = match &self.file {
            Some(file) => (&*file).write_all(lines),
            None => self.print_to_stderr(lines),
        };
    }

    fn print_to_stderr(&self, lines: &[u8]) -> io::Result<()> {
        let out = io::stderr();
        let left_out = self.left_out.load(Ordering::Relaxed);
        let patience = if left_out == 0 { PATIENCE } else { NO_PATIENCE };
        let mut ready = [PollFd::new(&out, PollFlags::OUT)];
        if poll(&mut ready, Some(&patience))? == 0 {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        // Standard error has no reader any more: writing would end a program that has not disabled
        // SIGPIPE.
        if ready[0].revents().contains(PollFlags::ERR) {
            return Ok(());
        }
        let mut out = out.lock();
        if left_out > 0 {
            self.left_out.fetch_sub(left_out, Ordering::Relaxed);
            writeln!(
                out,
                "({left_out} log lines were left out: they were not read in time)"
            )?;
        }
        out.write_all(lines)
    }
}
