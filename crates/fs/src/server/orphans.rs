//! Removes files that have lost their names, once no program has them open.
//!
//! After a start of the server, programs first report which files they have open, for a grace period, if any program may have had
//! some open. Until it ends, every file that loses its name is kept, and so are those that an earlier run of the server has left.

use std::sync::Arc;
use std::time::{Duration, Instant};

use causeway_wire::fs::ObjectId;

use super::background::{Background, Wake};
use super::thread_state::{SharedService, Wakeups};
use crate::clock;
use crate::locks::lock;
use crate::meta::opens::Opens;

/// Length of the grace period, in time-outs of the configuration.
const GRACE_TIMEOUTS: u32 = 3;
/// A replaced file stays for one to two of these: longer than a program takes from looking a name up to opening what it has found, also where it
/// waits for a processor. The server does not learn that an opening is in progress.
const REPLACED_PERIOD: Duration = Duration::from_secs(1);
/// Orphans removed in one batch.
const BATCH: usize = 512;
/// Pause after the metadata could not be changed: no event shows when a change can succeed.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Starts the thread, and the grace period.
pub(super) fn start(
    service: SharedService,
    opens: Arc<Opens>,
    wakeups: Wakeups,
    timeout: Duration,
) -> std::io::Result<Background> {
    let has_grace = opens.is_marked();
    opens.keep_all(has_grace);
    let wakeup = wakeups.orphans.clone();
    let work = Orphans {
        service,
        opens,
        wakeups,
        period_ends: None,
        grace_ends: has_grace.then(|| Instant::now() + timeout * GRACE_TIMEOUTS),
        left: (!has_grace).then_some(None),
    };
    Background::start("orphans", wakeup, move || work.run())
}

struct Orphans {
    service: SharedService,
    opens: Arc<Opens>,
    wakeups: Wakeups,
    /// When the present period ends; `None` if no replaced files stay.
    period_ends: Option<Instant>,
    /// When files are removed that no program has reported open; `None` if the grace period is over.
    grace_ends: Option<Instant>,
    /// Up to which object the files that an earlier run, or the grace period, has left were examined; `None` if none are left.
    left: Option<Option<ObjectId>>,
}

impl Orphans {
    fn run(mut self) {
        loop {
            let now = Instant::now();
            if self.period_ends.is_none() && self.opens.has_replaced() {
                self.period_ends = Some(now + REPLACED_PERIOD);
            }
            let ends = [self.grace_ends, self.period_ends];
            let next = ends.into_iter().flatten().min();
            let most = next.map(|end| end.saturating_duration_since(now));
            let is_at_work = self.left.is_some() || self.opens.has_released();
            let wake = match is_at_work {
                true => self.wakeups.orphans.wait(Some(Duration::ZERO)),
                false => self.wakeups.orphans.wait(most),
            };
            if wake == Wake::Stop {
                return;
            }
            let now = Instant::now();
            if self.period_ends.is_some_and(|end| now >= end) {
                let others = self.opens.end_period();
                self.period_ends = others.then(|| now + REPLACED_PERIOD);
            }
            if self.grace_ends.is_some_and(|end| now >= end) {
                self.grace_ends = None;
                self.opens.keep_all(false);
                self.left = Some(None);
            }
            if let Err(reason) = self.batch() {
                tracing::warn!(reason, "unlinked files that are closed stay for now");
                if !self.wakeups.orphans.pause(RETRY_PAUSE) {
                    return;
                }
            }
        }
    }

    /// Removes one batch.
    fn batch(&mut self) -> Result<(), String> {
        let released = self.opens.take_released(BATCH);
        let removed = lock(&self.service).remove_orphans(&released, clock::now());
        let mut removed = removed.map_err(|failure| {
            self.opens.put_back(released);
            failure.message
        })?;
        if let Some(after) = self.left {
            let mut service = lock(&self.service);
            let left = service.orphans(after, BATCH);
            let left = left.map_err(|failure| failure.message)?;
            let count = service.remove_orphans(&left, clock::now());
            removed += count.map_err(|failure| failure.message)?;
            self.left = left.last().map(|last| Some(*last));
        }
        if removed > 0 {
            self.wakeups.reclaimer.notify();
        }
        Ok(())
    }
}
