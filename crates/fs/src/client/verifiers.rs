//! Whether what was written may have been lost with a server's power before an fsync came.
//!
//! A write is acknowledged from the server's page cache. If the server's host then loses power and comes
//! back, a later fsync finds nothing left to flush and would succeed. So a client remembers each server's boot
//! identity from before its first write there, and compares it again after a flush: the write verifier of NFS. A server process that was merely restarted keeps its host's page
//! cache, and the identity. The same holds for the metadata server, which keeps small files.
//!
//! A failed sync is the same from another cause: the kernel reports it once, and what it was to write is gone for all
//! clients that wrote since the last sync. Servers count failed syncs, and a client compares the count as it does the
//! boot.

use std::fmt;

use causeway_wire::fs::{Errno, Generation};

use super::call_error::CallError;
use super::link::Known;
use super::{Client, File};

/// A server's unsynced writes are there while this stays the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Verifier {
    /// The boot of the server's host; 0 if it is not known.
    boot: u128,
    /// The directory that the server has there.
    generation: Generation,
    failed_syncs: u64,
}

/// How unsynced writes were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    Power,
    FailedSync,
}

impl fmt::Display for Loss {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Power => "its host has lost power",
            Self::FailedSync => "a sync of its disk has failed",
        })
    }
}

/// The servers' verifiers as last received.
#[derive(Debug, Default)]
pub(super) struct Verifiers {
    /// By index in the configuration.
    known: Vec<Option<Verifier>>,
    losses: u64,
    /// The last loss, and the server.
    last: Option<(usize, Loss)>,
}

impl Verifiers {
    /// How often unsynced writes were seen to be lost. What was written at a lower count may be among them.
    pub(super) fn losses(&self) -> u64 {
        self.losses
    }

    /// Records what a server reports of its host and disk.
    fn observe(&mut self, server: usize, found: Verifier) {
        if self.known.len() <= server {
            self.known.resize(server + 1, None);
        }
        if let Some(known) = self.known[server]
            && known != found
        {
            let loss = match (known.boot, known.generation) == (found.boot, found.generation) {
                true => Loss::FailedSync,
                false => Loss::Power,
            };
            self.losses += 1;
            self.last = Some((server, loss));
        }
        self.known[server] = Some(found);
    }
}

fn verifier_of(known: &Known) -> Verifier {
    Verifier {
        boot: known.boot,
        generation: known.target.generation,
        failed_syncs: known.failed_syncs,
    }
}

impl Client {
    /// Records the verifiers of servers that are about to be written to.
    fn remember_verifiers(&mut self, servers: &[usize]) -> Result<(), CallError> {
        self.rpc.introduce_to(servers)?;
        for &server in servers {
            if let Some(known) = self.rpc.known(server) {
                self.verifiers.observe(server, verifier_of(&known));
            }
        }
        Ok(())
    }

    /// Before a change of a file at these servers: remembers that an fsync must find their hosts as they are now.
    pub(super) fn will_change(
        &mut self,
        file: &mut File,
        servers: &[usize],
    ) -> Result<(), CallError> {
        self.remember_verifiers(servers)?;
        file.unsynced_since.get_or_insert(self.verifiers.losses());
        Ok(())
    }

    /// Fails if a host has lost power since the file was changed, as far as no fsync came; `servers` and the
    /// metadata server are asked.
    pub(super) fn check_losses(
        &mut self,
        file: &mut File,
        servers: &[usize],
    ) -> Result<(), CallError> {
        let Some(losses) = file.unsynced_since else {
            return Ok(());
        };
        let asked: Vec<usize> = servers.iter().copied().chain([self.metadata]).collect();
        self.refresh_verifiers(&asked)?;
        if losses == self.verifiers.losses() {
            return Ok(());
        }
        (file.unsynced_since, file.written) = (None, None);
        let what = match self.verifiers.last {
            Some((server, loss)) => format!("server {}: {loss}", self.rpc.link_name(server)),
            None => "a server has lost what was not synced".to_owned(),
        };
        Err(CallError::local(
            Errno::EIO,
            format!(
                "{what}, after the file was written and before it was synced: write it again, then sync it"
            ),
        ))
    }

    /// After a sync that the server itself reported as failed: the failure is reported once.
    pub(super) fn report_loss(&mut self, file: &mut File, servers: &[usize]) {
        let losses = self.verifiers.losses();
        // If a server cannot be asked now, the failure is reported again.
        if self.refresh_verifiers(servers).is_ok() && self.verifiers.losses() != losses {
            (file.unsynced_since, file.written) = (None, None);
        }
    }

    /// Requests the servers' verifiers.
    fn refresh_verifiers(&mut self, servers: &[usize]) -> Result<(), CallError> {
        for (server, greeting) in servers.iter().zip(self.rpc.greet(servers)) {
            let greeting = greeting?;
            self.verifiers
                .observe(*server, verifier_of(&Known::of(&greeting)));
            self.rpc.update_known(*server, &greeting);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_boot_is_a_loss_and_the_first_one_seen_is_none() {
        let mut verifiers = Verifiers::default();
        let host = |boot, failed_syncs| Verifier {
            boot,
            generation: Generation(1),
            failed_syncs,
        };
        verifiers.observe(2, host(7, 0));
        verifiers.observe(2, host(7, 0));
        assert_eq!(verifiers.losses(), 0);
        verifiers.observe(2, host(8, 0));
        verifiers.observe(0, host(8, 5));
        assert_eq!(
            (verifiers.losses(), verifiers.last),
            (1, Some((2, Loss::Power)))
        );
        verifiers.observe(0, host(8, 6));
        assert_eq!(
            (verifiers.losses(), verifiers.last),
            (2, Some((0, Loss::FailedSync)))
        );
        // Another directory has none of what was written to the one before.
        let other = Verifier {
            generation: Generation(2),
            ..host(8, 6)
        };
        verifiers.observe(0, other);
        assert_eq!(
            (verifiers.losses(), verifiers.last),
            (3, Some((0, Loss::Power)))
        );
    }
}
