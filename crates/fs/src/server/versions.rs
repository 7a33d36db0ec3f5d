//! The versions of capabilities that a metadata server gives out: microseconds since 1970, never lower than an earlier one.
//!
//! A clock that is set back must not make ended capabilities good again, also not over a restart. So the highest version that may have been
//! given out is recorded durably first, a little ahead of the clock so that records are rare, and by a thread of its own, long before it is
//! needed. A clock that is set back by more
//! than capabilities may be ahead of it is believed: servers whose clocks are right refuse earlier capabilities as ones from the future.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
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
/// The least range that a record reserves, in microseconds, while versions are ahead of the clock: each end takes one.
const LEAST_AHEAD: u64 = 10_000;
/// The least time by which versions may be ahead of a server's clock; the lifetime of capabilities, if that is longer.
const LEAST_TOLERANCE: Duration = Duration::from_secs(2);

/// The time by which a version may be ahead of a server's clock.
pub(super) fn tolerance(lifetime: Duration) -> Duration {
    lifetime.max(LEAST_TOLERANCE)
}

/// The versions, shared by the loop and the threads beside it. See the module's page.
#[derive(Clone)]
pub(super) struct Versions(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Held while the record is written, by a thread that does not hold the lock of the state.
    file: Mutex<()>,
    /// Notified when it is time to record again.
    wakeup: Wakeup,
    /// The file of the record; `None` for servers that give out no capabilities.
    path: Option<PathBuf>,
}

#[derive(Debug)]
struct State {
    /// No capability is given out with a version below this.
    next: u64,
    /// The recorded version: all versions that were given out are below it.
    below: u64,
    tolerance: u64,
    ahead: u64,
    /// By how much versions may be older than the clock while the disk is slow, in microseconds.
    oldest: u64,
    /// The record is renewed when versions come this near to it.
    margin: u64,
    /// Whether the thread was asked to record.
    is_asked: bool,
}

impl State {
    /// The version of a capability that is given out now; `None` if a version must be recorded first.
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
            // The disk is slow. Capabilities may be a little older than necessary.
            last if self.next <= last && wanted - last <= self.oldest => last,
            _ => return None,
        };
        Some(self.next)
    }

    /// The version to record at this time: ahead of the clock, not of the last record, so that restarts in quick succession do not each reserve
    /// more. It is never less than the present record, up to which other threads may give out versions until the new record is written.
    fn next_record(&self, now: u64) -> u64 {
        let least = self.next.saturating_add(LEAST_AHEAD);
        now.saturating_add(self.ahead).max(least).max(self.below)
    }

    fn recorded(&mut self, below: u64, now: u64) {
        self.below = below;
        self.is_asked = false;
        self.margin = below.saturating_sub(self.next.max(now)) / 2;
    }

    /// Whether the thread must be asked to record; the caller then asks it.
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

    /// The versions of a server that gives out no capabilities.
    pub(super) fn none() -> Self {
        let state = State {
            next: 0,
            below: u64::MAX,
            tolerance: u64::MAX,
            ahead: 0,
            oldest: 0,
            margin: 0,
            is_asked: false,
        };
        Self::new(state, None)
    }

    /// The versions of a metadata server that starts. A record that cannot be read counts as missing, which is safe as long as the clock is right.
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
        // A server that cannot start leaves its directory unchanged: the first use writes the record.
        let state = State {
            next: known,
            below: known,
            tolerance: micros(tolerance(lifetime)),
            ahead: micros(ahead),
            oldest: micros(ahead.min(lifetime / 4)),
            margin: 0,
            is_asked: false,
        };
        Self::new(state, Some(path))
    }

    /// Starts the thread that records versions before they are needed, so that no request waits for the disk.
    pub(super) fn start(&self) -> io::Result<Background> {
        self.record(&lock(&self.0.file), micros_since_1970());
        let versions = self.clone();
        let work = move || {
            while versions.0.wakeup.wait(None) != Wake::Stop {
                versions.record(&lock(&versions.0.file), micros_since_1970());
            }
        };
        Background::start("versions", self.0.wakeup.clone(), work)
    }

    /// The version of a capability that is given out now.
    pub(super) fn current(&self, now: u64) -> u64 {
        self.take(now, |_, version| version)
    }

    /// The version up to which capabilities end now. Capabilities that are given out from now on have a higher one.
    pub(super) fn end(&self, now: u64) -> u64 {
        self.take(now, |state, version| {
            state.next = version + 1;
            version
        })
    }

    /// A version for the server's own capabilities: above all that have ended, and above all that were given out until now, as far as the record
    /// permits. It uses up no version that requests need while the disk is slow.
    pub(super) fn own(&self, now: u64) -> u64 {
        self.take(now, |state, version| {
            state.next = (version + 1).min(state.below - 1);
            state.next
        })
    }

    /// Returns what `of` makes of the present version, which is below the record. `of` may raise the lowest version that follows.
    fn take(&self, now: u64, of: impl Fn(&mut State, u64) -> u64) -> u64 {
        let mut writing = None;
        loop {
            let mut state = lock(&self.0.state);
            if let Some(version) = state.current(now) {
                let version = of(&mut state, version);
                let is_to_ask = self.0.path.is_some() && state.asks_for_record();
                drop(state);
                if is_to_ask {
                    self.0.wakeup.notify();
                }
                return version;
            }
            drop(state);
            match &writing {
                // The thread that is writing at this moment may record a version that suffices.
                None => writing = Some(lock(&self.0.file)),
                Some(writing) => self.record(writing, now),
            }
        }
    }

    /// Records that versions up to some time after the next one may be given out. The caller holds the lock of the file.
    fn record(&self, _writing: &MutexGuard<'_, ()>, now: u64) {
        let below = lock(&self.0.state).next_record(now);
        if let Some(path) = &self.0.path
            // Without the record nothing is lost unless the clock is also set back: so the server
            // continues.
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
        // The clock was set back a little while the server was down: capabilities from now on are younger than all earlier ones.
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
        // From then on, the new record counts.
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
        // More ends in one second than a server carries out.
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
        // The disk does not reply: the versions given out are older, and this thread writes nothing.
        let late = versions.current(1020 * SECOND);
        assert!(late > 1010 * SECOND && late < 1015 * SECOND, "{late}");
        assert_eq!(versions.current(1029 * SECOND), late);
        assert_eq!(recorded(), first);
        versions.record(&lock(&versions.0.file), 1029 * SECOND);
        assert_eq!(versions.current(1029 * SECOND), 1029 * SECOND);
        // Capabilities must not be much older than the clock, and none may be as old as one that has ended.
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

    #[test]
    fn a_server_s_own_requests_use_up_nothing_while_the_disk_is_slow() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let versions = Versions::open(directory.path(), LIFETIME);
        let recorded = || std::fs::read_to_string(directory.path().join(FILE)).expect("a record");
        let given = versions.current(1000 * SECOND);
        let first = recorded();
        for _ in 0..3 {
            let own = versions.own(1020 * SECOND);
            assert!(own > given && own < 1015 * SECOND, "{own} is recorded");
            assert!(versions.current(1020 * SECOND) < 1015 * SECOND);
        }
        assert_eq!(recorded(), first, "nobody has waited for the disk");
    }

    #[test]
    fn who_has_waited_for_a_record_does_not_write_another_one() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let versions = Versions::open(directory.path(), LIFETIME);
        let writing = lock(&versions.0.file);
        let (other, (began, begins)) = (versions.clone(), std::sync::mpsc::channel());
        let waits = std::thread::spawn(move || {
            began.send(()).expect("the test");
            other.current(1001 * SECOND)
        });
        begins.recv().expect("a thread");
        // Most likely the thread is waiting at that time; the test is right in any case.
        std::thread::sleep(Duration::from_millis(50));
        versions.record(&writing, 1000 * SECOND);
        drop(writing);
        assert_eq!(waits.join().expect("a thread"), 1001 * SECOND);
        assert_eq!(lock(&versions.0.state).below, 1015 * SECOND);
    }

    #[test]
    fn the_thread_is_asked_once_for_each_record() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let versions = Versions::open(directory.path(), LIFETIME);
        versions.current(1000 * SECOND);
        versions.current(1010 * SECOND);
        let mut state = lock(&versions.0.state);
        assert!(state.is_asked);
        let below = state.next_record(1010 * SECOND);
        // A record is being written.
        assert!(!state.asks_for_record());
        state.recorded(below, 1010 * SECOND);
        assert!(!state.asks_for_record(), "there is enough");
        assert!(state.current(1020 * SECOND).is_some() && state.asks_for_record());
    }

    #[test]
    fn what_is_given_out_while_the_disk_is_slow_is_good_for_most_of_its_lifetime() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let versions = Versions::open(directory.path(), Duration::from_millis(100));
        versions.current(10 * SECOND);
        for tenths in 100..140 {
            let now = tenths * SECOND / 10 + SECOND / 20;
            assert!(now - versions.current(now) <= SECOND / 40, "{tenths}");
        }
    }

    #[test]
    fn a_record_is_never_lowered_while_it_may_be_in_use() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let versions = Versions::open(directory.path(), LIFETIME);
        versions.current(1010 * SECOND);
        let text = std::fs::read_to_string(directory.path().join(FILE)).expect("a record");
        // The state of a thread that has read the clock before.
        versions.record(&lock(&versions.0.file), 1005 * SECOND);
        let again = std::fs::read_to_string(directory.path().join(FILE)).expect("a record");
        assert_eq!(again, text);
    }
}
