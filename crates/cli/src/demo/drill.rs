//! The failure drill: one I/O server is killed in the middle of a phase, stays down until clients
//! have met an error, and is restarted.

use std::collections::BTreeSet;
use std::time::Duration;

use causeway_command::cluster::Cluster;
use causeway_command::failure::Outcome;
use causeway_watch::process::monotonic_ns;

use super::worker::Fault;

/// How long beyond the file system's time-out the server stays away if no client notices.
const GRACE: Duration = Duration::from_secs(2);

/// The drill's course, on the common clock.
pub(crate) struct Drill<'a> {
    cluster: &'a mut Cluster,
    victim: usize,
    clients: usize,
    timeout: Duration,
    /// When the server was killed.
    pub(crate) killed_ns: Option<u64>,
    /// When its restart began.
    pub(crate) restarted_ns: Option<u64>,
    /// When it replied again.
    pub(crate) answered_ns: Option<u64>,
}

impl<'a> Drill<'a> {
    /// A drill that kills the server `victim` (an index into the configuration).
    pub(crate) fn new(cluster: &'a mut Cluster, victim: usize, clients: usize) -> Self {
        let timeout = cluster.configuration().timeout;
        Self {
            cluster,
            victim,
            clients,
            timeout,
            killed_ns: None,
            restarted_ns: None,
            answered_ns: None,
        }
    }

    /// Whether the server is back.
    pub(crate) fn over(&self) -> bool {
        self.answered_ns.is_some()
    }

    /// Whether no server is known to be down.
    pub(crate) fn all_up(&self) -> bool {
        self.killed_ns.is_none() || self.over()
    }

    /// At most half of the items are assigned before the server is killed, the others afterwards.
    pub(crate) fn most_items(&self, total: usize) -> usize {
        if self.killed_ns.is_none() {
            total.div_ceil(2)
        } else {
            usize::MAX
        }
    }

    /// Kills or restarts the server if it is time to.
    pub(crate) fn advance(
        &mut self,
        given_out: usize,
        total: usize,
        faults: &[(usize, Fault)],
    ) -> Outcome {
        let Some(killed_ns) = self.killed_ns else {
            if given_out >= total.div_ceil(2) {
                self.cluster.kill(self.victim)?;
                self.killed_ns = Some(monotonic_ns());
            }
            return Ok(());
        };
        if self.restarted_ns.is_some() {
            return Ok(());
        }
        let felt: BTreeSet<usize> = faults.iter().map(|(worker, _)| *worker).collect();
        let away = Duration::from_nanos(monotonic_ns().saturating_sub(killed_ns));
        if felt.len() >= self.clients || away > self.timeout + GRACE {
            self.restarted_ns = Some(monotonic_ns());
            self.cluster.restart(self.victim)?;
            self.answered_ns = Some(monotonic_ns());
        }
        Ok(())
    }
}
