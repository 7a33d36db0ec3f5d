//! A record on disk that clients may hold leases, so that a server that is started anew makes no change of what they may cache
//! before these have expired.

use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use causeway_wire::home::LeasesGiven;

use crate::files::{if_found, open_text, sync_name};

/// Name of the file, in the directory of the metadata.
const NAME: &str = "leases";
/// Pause after the record could not be made: until it is, there are no leases.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// See the module.
pub(super) struct LeaseMark {
    path: Option<PathBuf>,
    time: Duration,
    is_set: bool,
    again: Option<Instant>,
    /// Until then, leases may be good that an earlier run has given.
    pub(super) earlier_until: Option<Instant>,
}

impl LeaseMark {
    /// Of a server that gives leases of this `time`, and has its metadata in `directory`, if it has any.
    pub(super) fn open(directory: Option<&Path>, time: Duration, now: Instant) -> Self {
        let mut mark = Self {
            path: directory.map(|directory| directory.join(NAME)),
            time,
            is_set: false,
            again: None,
            earlier_until: None,
        };
        let Some(path) = &mark.path else {
            return mark;
        };
        let given = match if_found(std::fs::read_to_string(path)) {
            Ok(None) => return mark,
            Ok(Some(text)) => LeasesGiven::parse(&text).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let given = given.map(|given| Duration::from_millis(given.below_ms));
        mark.is_set = given.as_ref().is_ok_and(|given| *given >= time);
        let given = given.unwrap_or_else(|error| {
            tracing::warn!(
                "{}: {error}; leases of earlier runs are taken to be good for as long as those of this one",
                path.display()
            );
            time
        });
        mark.earlier_until = Some(now + given);
        mark
    }

    /// A lease is about to be given. Returns whether that is on record, and no leases of an earlier run are good: a change that has waited for
    /// these would else wait for new ones, too.
    pub(super) fn set(&mut self, now: Instant) -> bool {
        if self.earlier_until.is_some_and(|until| now < until) {
            return false;
        }
        if self.is_set || self.again.is_some_and(|again| now < again) {
            return self.is_set;
        }
        match self.write() {
            Ok(is_set) => self.is_set = is_set,
            Err(error) => {
                self.again = Some(now + RETRY_PAUSE);
                tracing::warn!(
                    %error,
                    "clients cannot cache names and attributes, as the metadata's disk does not take the record of that"
                );
            }
        }
        self.is_set
    }

    fn write(&self) -> io::Result<bool> {
        let Some(path) = &self.path else {
            return Ok(false);
        };
        let (file, _) = open_text(path)?;
        let below_ms = u64::try_from(self.time.as_millis()).unwrap_or(u64::MAX);
        let text = LeasesGiven { below_ms }.to_text();
        file.write_all_at(text.as_bytes(), 0)?;
        file.set_len(text.len() as u64)?;
        file.sync_all()?;
        sync_name(path)?;
        Ok(true)
    }

    /// At the end of a server, when no lease is good any more.
    pub(super) fn clear(&mut self) {
        let earlier = self.earlier_until;
        if earlier.is_some_and(|until| Instant::now() < until) {
            return;
        }
        if let Some(path) = &self.path
            && let Err(error) = if_found(std::fs::remove_file(path))
        {
            tracing::warn!(%error, "the next start of the server waits for leases, though there are none");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_secs(5);

    #[test]
    fn leases_that_may_be_good_outlast_the_server() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let directory = Some(directory.path());
        let now = Instant::now();
        let open = |time| LeaseMark::open(directory, time, now);
        // No program has had any leases.
        let mut first = open(TIME);
        assert_eq!(first.earlier_until, None);
        assert!(first.set(now) && first.set(now));
        // The server was killed. Its configuration has a shorter time now: earlier leases nevertheless
        // last for the former time.
        assert_eq!(open(TIME / 5).earlier_until, Some(now + TIME));
        // Its configuration has a longer time, and it grants such leases once they are on record.
        let mut longer = open(2 * TIME);
        assert_eq!(longer.earlier_until, Some(now + TIME));
        assert!(!longer.set(now) && longer.set(now + TIME));
        assert_eq!(open(TIME).earlier_until, Some(now + 2 * TIME));
        // An orderly end while leases of a run before may be good leaves them on record.
        open(TIME).clear();
        assert!(open(TIME).earlier_until.is_some());
        let mut last = open(TIME);
        last.earlier_until = Some(now);
        last.clear();
        assert_eq!(open(TIME).earlier_until, None);
    }

    #[test]
    fn a_damaged_record_stands_for_leases() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(directory.path().join(NAME), "leases?").expect("writes");
        let now = Instant::now();
        let mut mark = LeaseMark::open(Some(directory.path()), TIME, now);
        assert_eq!(mark.earlier_until, Some(now + TIME));
        assert!(!mark.set(now) && mark.set(now + TIME));
    }

    #[test]
    fn without_the_record_there_are_no_leases() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let missing = directory.path().join("missing");
        let now = Instant::now();
        let mut mark = LeaseMark::open(Some(&missing), TIME, now);
        assert!(!mark.set(now));
        std::fs::create_dir(&missing).expect("a directory");
        assert!(!mark.set(now) && mark.set(now + RETRY_PAUSE));
    }
}
