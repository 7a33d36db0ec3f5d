//! The state of turns to append in the loop of a metadata server.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use causeway_bmi::{Addr, OpId};
use causeway_wire::fs::formats::POINTERS;
use causeway_wire::fs::{ObjectId, Request};
use causeway_wire::home::TurnsSetAside;

use super::ticket::{ReplyTo, Ticket};
use super::turns::Turns;
use crate::files::{open_text, sync_name};

/// Name of the file, in the directory of the metadata, with the highest number that a turn may have had.
const NAME: &str = "turns";
/// Numbers reserved for one run of a server: more than it uses in years.
const RUN: u64 = 1 << 42;

/// Reserves the numbers of turns of a new run of the server, durably, and returns the number above which they lie: `least`, or
/// the end of earlier runs' numbers if that is higher. I/O servers refuse turns that are lower than those they have seen.
pub(super) fn set_turns_aside(directory: &Path, least: u64) -> io::Result<u64> {
    let path = directory.join(NAME);
    let (file, text) = open_text(&path)?;
    let known = match TurnsSetAside::parse(&text) {
        Ok(known) => known.below,
        Err(_) if text.is_empty() => 0,
        Err(error) => {
            tracing::warn!(
                "{}: {error}; turns to append are numbered by the clock",
                path.display()
            );
            0
        }
    };
    let first = known.max(least).min(TurnsSetAside::HIGHEST);
    let below = first.saturating_add(RUN).min(TurnsSetAside::HIGHEST);
    let text = TurnsSetAside { below }.to_text();
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)?;
    file.sync_all()?;
    sync_name(&path)?;
    Ok(first)
}

/// A client that waits for its turn.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) to: ReplyTo,
    pub(super) request: Request,
}

/// Whether a client's format has replies that make it ask again for its turn.
fn asks_again(waiting: &Waiting) -> bool {
    waiting.to.format >= POINTERS
}

/// The receive that completes when the client that has a turn disconnects.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) object: ObjectId,
    pub(super) turn: u64,
    pub(super) receive: OpId,
}

/// The turns to append of a metadata server's files.
pub(super) struct Appends {
    pub(super) turns: Turns<Addr, Waiting>,
    /// Turns that end with a request in progress.
    pub(super) endings: HashMap<Ticket, (ObjectId, u64)>,
    /// Watched clients that have a turn for which others wait, by the watch's number.
    pub(super) watched: HashMap<u32, Watched>,
    pub(super) last_watch: u32,
}

impl Appends {
    /// Turns are numbered above `first`. While other clients wait, none has its turn for longer than `longest`.
    pub(super) fn new(first: u64, longest: Duration) -> Self {
        Self {
            turns: Turns::new(first, longest, asks_again),
            endings: HashMap::new(),
            watched: HashMap::new(),
            last_watch: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_of_each_run_lie_above_those_of_earlier_ones_whatever_the_clock_says() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let directory = directory.path();
        let start = |clock| set_turns_aside(directory, clock).expect("turns are set aside");
        assert_eq!(start(5000), 5000);
        // The clock was set back, then forward.
        assert_eq!(start(70), 5000 + RUN);
        assert_eq!(start(5000 + 3 * RUN), 5000 + 3 * RUN);
        assert_eq!(start(0), 5000 + 4 * RUN);
        assert_eq!(start(u64::MAX), TurnsSetAside::HIGHEST);
        assert_eq!(start(0), TurnsSetAside::HIGHEST);
        // A file that cannot be read is replaced by a new one.
        std::fs::write(directory.join(NAME), "damaged ".repeat(100)).expect("writes");
        assert_eq!(start(80), 80);
        assert_eq!(start(0), 80 + RUN);
    }
}
