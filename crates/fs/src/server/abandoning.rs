//! Requests in progress that end before they are done: those of clients that no longer wait for them, and those that have lost the right to go on.

use causeway_bmi::Addr;
use causeway_wire::fs::Errno;
use causeway_wire::fs::formats::REVOCATIONS;

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
                EntryState::Storing(_, abandoned) if self.bmi.identity(entry.to.from).is_none() => {
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
                EntryState::Storing(of, abandoned) if *of == client => abandoned.set(),
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
