//! Requests in progress that end before they are done: those of clients that do not wait for them any more, and those without the right to go on.

use causeway_bmi::Addr;
use causeway_wire::fs::Errno;

use super::events::{EntryState, Loop};
use super::io::disconnected;
use crate::error::failure;

impl Loop {
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

    /// Abandons the jobs of a client that has sent a request by a new connection: it does not wait for those of its
    /// earlier connections any more, though these may not have ended here yet.
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

    /// Abandons reads and writes whose capabilities have ended meanwhile: a client that takes its time must not go on with rights that it has lost.
    /// One that has others now sends the request again. What waits for no client is carried out.
    pub(super) fn abandon_revoked(&mut self) {
        for entry in self.entries.iter_mut().flatten() {
            let EntryState::Moving(job) = &mut entry.state else {
                continue;
            };
            if let Some(version) = job.requester.version
                && self.access.has_ended(job.object, version)
            {
                job.abandon(failure(
                    Errno::CAPABILITY_ENDED,
                    "permissions have changed while the request was in progress",
                ));
            }
        }
    }
}
