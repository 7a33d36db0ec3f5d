//! The versions of capabilities that a metadata server gives out: microseconds since 1970, never lower than one of before.
//!
//! A clock that is set back must not bring ended capabilities back, also not over a restart. So the highest version that may have been
//! given out is recorded durably before any is, a little ahead of the clock so that this happens rarely. A clock that is set back by more
//! than capabilities may lie ahead of it is believed: what was given out before is from the future to all servers whose clocks are right.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use causeway_wire::home::{MAX_HOME_FILE_BYTES, VersionsSetAside};

use crate::clock::micros;
use crate::files::{open_text, sync_name};

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

/// See the module.
#[derive(Debug)]
pub(super) struct Versions {
    /// No capability is given out with a version below this.
    next: u64,
    /// What is recorded: no version above it was given out.
    below: u64,
    tolerance: u64,
    ahead: u64,
    /// Where it is recorded; servers that give no capabilities out record nothing.
    path: Option<PathBuf>,
}

impl Versions {
    /// Of a server that gives nothing out.
    pub(super) fn none() -> Self {
        Self {
            next: 0,
            below: u64::MAX,
            tolerance: u64::MAX,
            ahead: 0,
            path: None,
        }
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
        Self {
            next: known,
            below: known,
            tolerance: micros(tolerance(lifetime)),
            ahead: micros(ahead),
            path: Some(path),
        }
    }

    /// The version of a capability that is given out now.
    pub(super) fn current(&mut self, now: u64) -> u64 {
        if self.next > now.saturating_add(self.tolerance) {
            let back = Duration::from_micros(self.next - now);
            tracing::warn!(
                ?back,
                "the clock was set back: if that of I/O servers was not, they refuse capabilities until it is"
            );
            self.next = now;
            self.below = 0;
        }
        self.next = self.next.max(now);
        self.record(now);
        self.next
    }

    /// The version up to which capabilities end now. Those that are given out from now on have a higher one.
    pub(super) fn end(&mut self, now: u64) -> u64 {
        let version = self.current(now);
        self.next = version + 1;
        version
    }

    /// Records that versions up to the next one and a while longer may be given out, unless that is known.
    fn record(&mut self, now: u64) {
        if self.next < self.below {
            return;
        }
        let Some(path) = &self.path else { return };
        // By the clock, so that restarts in quick succession do not set aside more each.
        let least = self.next.saturating_add(LEAST_AHEAD);
        self.below = now.saturating_add(self.ahead).max(least);
        // Without the record nothing is lost unless the clock is set back, too: the server goes on.
        if let Err(error) = write(path, self.below.min(VersionsSetAside::HIGHEST)) {
            tracing::warn!(
                "{}: {error}; do not set the clock back before the server has started again",
                path.display()
            );
        }
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
        let mut versions = open();
        assert_eq!(versions.current(1000 * SECOND), 1000 * SECOND);
        let ended = versions.end(1001 * SECOND);
        assert!(versions.current(900 * SECOND) <= 900 * SECOND + 60 * SECOND);
        let mut versions = open();
        versions.end(1003 * SECOND);
        // The clock was set back a little while the server was down: what it gives out is younger than all of before.
        let mut again = open();
        assert!(again.current(990 * SECOND) > 1003 * SECOND);
        assert!(again.current(990 * SECOND) <= (990 + 60) * SECOND);
        assert!(again.end(990 * SECOND) > ended);
    }

    #[test]
    fn a_clock_that_was_wrong_by_far_is_believed_once_it_is_right() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let open = || Versions::open(directory.path(), LIFETIME);
        assert_eq!(open().current(90_000 * SECOND), 90_000 * SECOND);
        let mut versions = open();
        assert_eq!(versions.current(1000 * SECOND), 1000 * SECOND);
        // From then on, it is what counts.
        assert!(open().current(995 * SECOND) > 1000 * SECOND);
    }

    #[test]
    fn restarts_in_quick_succession_leave_versions_near_the_clock() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut before = 0;
        for _ in 0..50 {
            let mut versions = Versions::open(directory.path(), LIFETIME);
            let version = versions.current(1000 * SECOND);
            assert!(version > before && version < 1016 * SECOND, "{version}");
            before = version;
        }
    }

    #[test]
    fn many_changes_of_permissions_leave_versions_at_the_clock() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut versions = Versions::open(directory.path(), LIFETIME);
        // More in one second than a server carries out.
        for _ in 0..500_000 {
            versions.end(SECOND);
        }
        assert!(versions.current(2 * SECOND) == 2 * SECOND);
    }
}
