//! The versions of capabilities that a metadata server gives out: microseconds since 1970, never lower than one of before.
//!
//! A clock that is set back must not bring ended capabilities back, also not over a restart. So the highest version that may have been
//! given out is recorded durably before any is, a little ahead of the clock so that this happens rarely, and by a thread of its own, long before it is
//! needed. A clock that is set back by more
//! than capabilities may lie ahead of it is believed: what was given out before is from the future to all servers whose clocks are right.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use causeway_wire::home::{MAX_HOME_FILE_BYTES, VersionsSetAside};

use super::background::{Background, Wake, Wakeup};
use crate::clock::{micros, micros_since_1970};
use crate::files::{open_text, sync_name};
use crate::locks::lock;

/// The file, in the metadata server's directory.
const FILE: &str = "capability-versions";
/// The shortest and the longest time by which the record is ahead of the clock.
const AHEAD: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(600));
/// What is set aside at once at least, in microseconds, where versions are ahead of the clock: each end takes one.
const LEAST_AHEAD: u64 = 10_000;
/// Versions may be ahead of a server's clock by as much as the lifetime of capabilities, or by this.
const LEAST_TOLERANCE: Duration = Duration::from_secs(2);

/// By how much a version may be ahead of a server's clock.
pub(super) fn tolerance(lifetime: Duration) -> Duration {
    lifetime.max(LEAST_TOLERANCE)
}

/// The versions, as the loop and the threads beside it share them. See the module.
#[derive(Clone)]
pub(super) struct Versions(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Held while the record is written, by whoever holds no lock of the state.
    file: Mutex<()>,
    /// Notified when it is time to record again.
    wakeup: Wakeup,
    /// Where they are recorded; servers that give no capabilities out record nothing.
    path: Option<PathBuf>,
}

#[derive(Debug)]
struct State {
    /// No capability is given out with a version below this.
    next: u64,
    /// What is recorded: all versions that were given out are below.
    below: u64,
    tolerance: u64,
    ahead: u64,
    /// It is time to record again when the versions are as near to what is recorded.
    margin: u64,
    /// The thread was asked to.
    is_asked: bool,
}

impl State {
    /// The version of a capability that is given out now; `None` if it must be recorded before.
    fn current(&mut self, now: u64) -> Option<u64> {
        if self.next > now.saturating_add(self.tolerance) {
            let back = Duration::from_micros(self.next - now);
            tracing::warn!(
                ?back,
                "the clock was set back: if that of I/O servers was not, they refuse capabilities until it is"
            );
            self.next = now;
            self.below = 0;
        }
        let wanted = self.next.max(now);
        self.next = match self.below.checked_sub(1)? {
            last if wanted <= last => wanted,
            // The disk is slow. Capabilities may be a little older than they need be.
            last if self.next <= last && wanted - last <= self.ahead => last,
            _ => return None,
        };
        Some(self.next)
    }

    /// What to record at this time: a while ahead of the clock, and not of the last record, so that restarts in quick succession do not set
    /// aside more each.
    fn next_record(&mut self, now: u64) -> u64 {
        self.is_asked = false;
        let least = self.next.saturating_add(LEAST_AHEAD);
        now.saturating_add(self.ahead).max(least)
    }

    fn recorded(&mut self, below: u64, now: u64) {
        self.below = below;
        self.margin = below.saturating_sub(self.next.max(now)) / 2;
    }

    /// Whether the thread is to be asked to record.
    fn asks_for_record(&mut self) -> bool {
        let is_near = self.next.saturating_add(self.margin) >= self.below;
        is_near && !std::mem::replace(&mut self.is_asked, true)
    }
}

impl Versions {
    fn new(state: State, path: Option<PathBuf>) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            file: Mutex::default(),
            wakeup: Wakeup::default(),
            path,
        }))
    }

    /// Of a server that gives nothing out.
    pub(super) fn none() -> Self {
        let state = State {
            next: 0,
            below: u64::MAX,
            tolerance: u64::MAX,
            ahead: 0,
            margin: 0,
            is_asked: false,
        };
        Self::new(state, None)
    }

    /// Of a metadata server that starts. A record that cannot be read is one that is not there, as far as the clock is right.
    pub(super) fn open(directory: &Path, lifetime: Duration) -> Self {
        let path = directory.join(FILE);
        let text = read(&path).map_err(|error| error.to_string());
        let known = text.and_then(|text| match VersionsSetAside::parse(&text) {
            Ok(known) => Ok(known.below),
            Err(_) if text.is_empty() => Ok(0),
            Err(error) => Err(error.to_string()),
        });
        let known = known.unwrap_or_else(|why| {
            tracing::warn!("{}: {why}; versions go by the clock alone", path.display());
            0
        });
        let ahead = (lifetime / 4).clamp(AHEAD.0, AHEAD.1);
        // A server that cannot start leaves its directory as it is: the first use records.
        let state = State {
            next: known,
            below: known,
            tolerance: micros(tolerance(lifetime)),
            ahead: micros(ahead),
            margin: 0,
            is_asked: false,
        };
        Self::new(state, Some(path))
    }

    /// Starts the thread that records them, before it is needed, so that nobody waits for the disk.
    pub(super) fn start(&self) -> io::Result<Background> {
        self.record(micros_since_1970());
        let versions = self.clone();
        let work = move || {
            while versions.0.wakeup.wait(None) != Wake::Stop {
                versions.record(micros_since_1970());
            }
        };
        Background::start("versions", self.0.wakeup.clone(), work)
    }

    /// The version of a capability that is given out now.
    pub(super) fn current(&self, now: u64) -> u64 {
        self.take(now, |version| version)
    }

    /// The version up to which capabilities end now. Those that are given out from now on have a higher one.
    pub(super) fn end(&self, now: u64) -> u64 {
        self.take(now, |version| version + 1)
    }

    /// A version above all that were given out until now, for what the server does itself.
    pub(super) fn own(&self, now: u64) -> u64 {
        self.end(now) + 1
    }

    /// The version of now, and what `next` makes of it as the lowest that follows.
    fn take(&self, now: u64, next: impl Fn(u64) -> u64) -> u64 {
        loop {
            let mut state = lock(&self.0.state);
            if let Some(version) = state.current(now) {
                state.next = next(version);
                let is_to_ask = self.0.path.is_some() && state.asks_for_record();
                drop(state);
                if is_to_ask {
                    self.0.wakeup.notify();
                }
                return version;
            }
            drop(state);
            self.record(now);
        }
    }

    /// Records that versions up to a while after the next one may be given out.
    fn record(&self, now: u64) {
        let _writing = lock(&self.0.file);
        let below = lock(&self.0.state).next_record(now);
        if let Some(path) = &self.0.path
            // Without the record nothing is lost unless the clock is set back, too: the server goes on.
            && let Err(error) = write(path, below.min(VersionsSetAside::HIGHEST))
        {
            tracing::warn!(
                "{}: {error}; do not set the clock back before the server has started again",
                path.display()
            );
        }
        lock(&self.0.state).recorded(below, now);
    }
}

/// The file's text; empty if it is not there.
fn read(path: &Path) -> io::Result<String> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        file => file?,
    };
    let mut bytes = Vec::new();
    file.take(MAX_HOME_FILE_BYTES as u64)
        .read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn write(path: &Path, below: u64) -> io::Result<()> {
    let (file, _) = open_text(path)?;
    let text = VersionsSetAside { below }.to_text();
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)?;
    file.sync_all()?;
    sync_name(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(60);
    const SECOND: u64 = 1_000_000;

    #[test]
    fn versions_never_go_back_within_the_tolerance_whatever_the_clock_says() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let open = || Versions::open(directory.path(), LIFETIME);
        let versions = open();
        assert_eq!(versions.current(1000 * SECOND), 1000 * SECOND);
        let ended = versions.end(1001 * SECOND);
        assert!(versions.current(900 * SECOND) <= 900 * SECOND + 60 * SECOND);
        let versions = open();
        versions.end(1003 * SECOND);
        // The clock was set back a little while the server was down: what it gives out is younger than all of before.
        let again = open();
        assert!(again.current(990 * SECOND) > 1003 * SECOND);
        assert!(again.current(990 * SECOND) <= (990 + 60) * SECOND);
        assert!(again.end(990 * SECOND) > ended);
    }

    #[test]
    fn a_clock_that_was_wrong_by_far_is_believed_once_it_is_right() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let open = || Versions::open(directory.path(), LIFETIME);
        assert_eq!(open().current(90_000 * SECOND), 90_000 * SECOND);
        let versions = open();
        assert_eq!(versions.current(1000 * SECOND), 1000 * SECOND);
        // From then on, it is what counts.
        assert!(open().current(995 * SECOND) > 1000 * SECOND);
    }

    #[test]
    fn restarts_in_quick_succession_leave_versions_near_the_clock() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut before = 0;
        for _ in 0..50 {
            let versions = Versions::open(directory.path(), LIFETIME);
            let version = versions.current(1000 * SECOND);
            assert!(version > before && version < 1016 * SECOND, "{version}");
            before = version;
        }
    }

    #[test]
    fn many_changes_of_permissions_leave_versions_at_the_clock() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let versions = Versions::open(directory.path(), LIFETIME);
        // More in one second than a server carries out.
        for _ in 0..500_000 {
            versions.end(SECOND);
        }
        assert!(versions.current(2 * SECOND) == 2 * SECOND);
    }

    #[test]
    fn the_thread_records_before_it_is_needed_and_a_slow_disk_holds_nobody_up() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let versions = Versions::open(directory.path(), LIFETIME);
        let recorded = || std::fs::read_to_string(directory.path().join(FILE)).expect("a record");
        let is_asked = || versions.0.wakeup.wait(Some(Duration::ZERO)) == Wake::Notified;
        versions.current(1000 * SECOND);
        let first = recorded();
        assert_eq!(versions.current(1005 * SECOND), 1005 * SECOND);
        assert!(!is_asked());
        assert_eq!(versions.current(1010 * SECOND), 1010 * SECOND);
        assert!(is_asked(), "it is recorded up to 15 s ahead");
        // The disk does not reply: what is given out is older, and nothing is written here.
        let late = versions.current(1020 * SECOND);
        assert!(late > 1010 * SECOND && late < 1015 * SECOND, "{late}");
        assert_eq!(versions.current(1029 * SECOND), late);
        assert_eq!(recorded(), first);
        versions.record(1029 * SECOND);
        assert_eq!(versions.current(1029 * SECOND), 1029 * SECOND);
        // Much older ones would be of no use to anybody, nor would any that is as old as what has ended.
        let second = recorded();
        assert_eq!(versions.current(1100 * SECOND), 1100 * SECOND);
        assert_ne!(recorded(), second);
        let ended = versions.end(1120 * SECOND);
        assert!(ended < 1120 * SECOND && versions.current(1120 * SECOND) > ended);
    }

    #[test]
    fn a_server_s_own_requests_are_younger_than_all_that_was_given_out() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let versions = Versions::open(directory.path(), LIFETIME);
        versions.current(1030 * SECOND);
        // The clock was set back.
        let given = versions.current(1000 * SECOND);
        let own = versions.own(1000 * SECOND);
        assert!(own > given && versions.own(1000 * SECOND) > own);
    }
}
