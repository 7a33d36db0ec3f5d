//! Requests in progress that end before they are done: those of clients that no longer wait for them, and those that have lost the right to go on.

use std::time::Instant;

use causeway_bmi::Addr;
use causeway_wire::fs::Errno;
use causeway_wire::fs::formats::REVOCATIONS;

use super::events::{EntryState, Loop};
use super::io::disconnected;
use crate::error::failure;

impl Loop {
    /// Disconnects clients for which their own requests have waited for too long, which ends these requests. Such a client
    /// can reconnect later.
    pub(super) fn disconnect_stuck_clients(&mut self) {
        let now = Instant::now();
        let mut stuck = Vec::new();
        // A request that begins to wait for its client from now on has at least as much time.
        self.client_check_at = now + self.timeout;
        for entry in self.entries.iter_mut().flatten() {
            let waits_for_client = match &entry.state {
                EntryState::Elsewhere | EntryState::Changing(_) | EntryState::Punching(..) => false,
                EntryState::Replying => true,
                EntryState::Moving(job) => job.waits_for_client(),
            };
            let due = entry.last_progress + self.timeout;
            if !waits_for_client {
                continue;
            } else if due > now {
                self.client_check_at = self.client_check_at.min(due);
            } else if !stuck.contains(&entry.to.from) {
                stuck.push(entry.to.from);
            }
        }
        for addr in stuck {
            let client = self.bmi.reverse_lookup(addr).unwrap_or_default();
            tracing::warn!(
                client,
                "disconnecting a client: its request has made no progress for {} s",
                self.timeout.as_secs_f64()
            );
            self.bmi.disconnect(addr);
        }
    }

    /// Abandons the jobs of connections that have ended.
    pub(super) fn abandon_ended(&mut self) {
        for entry in self.entries.iter_mut().flatten() {
            match &mut entry.state {
                EntryState::Moving(job)
                    if job.in_flight() && self.bmi.identity(entry.to.from).is_none() =>
                {
                    job.abandon(disconnected());
                }
                EntryState::Punching(_, abandoned)
                    if self.bmi.identity(entry.to.from).is_none() =>
                {
                    abandoned.set();
                }
                _ => {}
            }
        }
    }

    /// Abandons the jobs of a client that has sent a request by a new connection: it no longer waits for the jobs of its
    /// earlier connections, though this server may not have seen those connections end yet.
    pub(super) fn abandon_others(&mut self, client: u128, from: Addr) {
        for entry in self.entries.iter_mut().flatten() {
            if entry.to.from == from {
                continue;
            }
            match &mut entry.state {
                EntryState::Moving(job) if job.requester.client == client => {
                    job.abandon(disconnected());
                }
                EntryState::Punching(of, abandoned) if *of == client => abandoned.set(),
                _ => {}
            }
        }
    }

    /// Abandons reads and writes whose capabilities have ended meanwhile: a slow client must not go on with rights that it has lost.
    /// A client that has got other capabilities sends the request again. Requests that no client waits for are carried out, and so are writes
    /// of earlier formats.
    pub(super) fn abandon_revoked(&mut self) {
        for entry in self.entries.iter_mut().flatten() {
            let EntryState::Moving(job) = &mut entry.state else {
                continue;
            };
            if let Some(version) = job.requester.version
                && self.access.has_ended(job.object, version)
                && let Some(errno) = errno_of_revoked(job.write, job.requester.to.format)
            {
                job.abandon(failure(
                    errno,
                    "permissions have changed, or the file was removed, while the request was in progress",
                ));
            }
        }
    }
}

/// The error with which a read or write of this format ends when its capability has ended; `None` if it goes on. Clients of earlier formats would
/// repeat a write as if nothing of it had been stored, over what others may have written since.
fn errno_of_revoked(is_write: bool, format: u8) -> Option<Errno> {
    match (is_write, format) {
        (false, _) => Some(Errno::CAPABILITY_ENDED),
        (true, REVOCATIONS..) => Some(Errno::REVOKED),
        (true, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clients_that_know_of_it_have_writes_end_in_the_middle() {
        let before = REVOCATIONS - 1;
        assert_eq!(errno_of_revoked(true, before), None);
        assert_eq!(errno_of_revoked(true, REVOCATIONS), Some(Errno::REVOKED));
        for format in [before, REVOCATIONS] {
            assert_eq!(
                errno_of_revoked(false, format),
                Some(Errno::CAPABILITY_ENDED)
            );
        }
    }
}
