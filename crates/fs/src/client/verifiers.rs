//! Whether what was written may have been lost with a server's power before an fsync came.
//!
//! A write is acknowledged from the server's page cache. If the server's host then loses power and comes
//! back, a later fsync finds nothing left to flush and would succeed. So a client remembers each server's boot
//! identity from before its first write there, and asks for it again after a flush (as NFS does with a write
//! verifier). A server process that was merely restarted keeps its host's page
//! cache, and the identity. The same holds for the metadata server, which keeps small files.

//!
//! A failed sync is the same from another cause: the kernel reports it once, and what it was to write is gone for all
//! clients that wrote since the last sync. Servers count failed syncs, and a client compares the count as it does the
//! boot.

use std::fmt;

use causeway_wire::fs::{Errno, Generation};

use super::introduce::Known;
use super::rpc::CallError;
use super::{Client, File};

/// What keeps a server's unsynced writes: while it stays the same, they are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Keeping {
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

/// What the client knows of the servers' hosts and disks.
#[derive(Debug, Default)]
pub(super) struct Boots {
    /// By server, as the configuration counts them.
    known: Vec<Option<Keeping>>,
    losses: u64,
    /// The last loss, and the server.
    last: Option<(usize, Loss)>,
}

impl Boots {
    /// How often unsynced writes were seen to be lost. What was written at a lower count may be among them.
    pub(super) fn losses(&self) -> u64 {
        self.losses
    }

    /// Records what a server reports of its host and disk.
    fn observe(&mut self, server: usize, found: Keeping) {
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

fn keeping(known: &Known) -> Keeping {
    Keeping {
        boot: known.boot,
        generation: known.target.generation,
        failed_syncs: known.failed_syncs,
    }
}

impl Client {
    /// Learns the boots of servers that are about to be written to.
    fn remember_boots(&mut self, servers: &[usize]) -> Result<(), CallError> {
        self.rpc.introduce_to(servers)?;
        for &server in servers {
            if let Some(known) = self.rpc.known(server) {
                self.boots.observe(server, keeping(&known));
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
        self.remember_boots(servers)?;
        file.unsynced_since.get_or_insert(self.boots.losses());
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
        self.refresh_boots(&asked)?;
        if losses == self.boots.losses() {
            return Ok(());
        }
        (file.unsynced_since, file.written) = (None, None);
        let what = match self.boots.last {
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
        let losses = self.boots.losses();
        // If a server cannot be asked now, the failure is reported again.
        if self.refresh_boots(servers).is_ok() && self.boots.losses() != losses {
            (file.unsynced_since, file.written) = (None, None);
        }
    }

    /// Asks servers for their boots.
    fn refresh_boots(&mut self, servers: &[usize]) -> Result<(), CallError> {
        for (server, greeting) in servers.iter().zip(self.rpc.greet(servers)) {
            let greeting = greeting?;
            let found = Keeping {
                boot: greeting.boot,
                generation: greeting.identity.generation,
                failed_syncs: greeting.failed_syncs,
            };
            self.boots.observe(*server, found);
            self.rpc.note(*server, &greeting);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_boot_is_a_loss_and_a_first_meeting_is_none() {
        let mut boots = Boots::default();
        let host = |boot, failed_syncs| Keeping {
            boot,
            generation: Generation(1),
            failed_syncs,
        };
        boots.observe(2, host(7, 0));
        boots.observe(2, host(7, 0));
        assert_eq!(boots.losses(), 0);
        boots.observe(2, host(8, 0));
        boots.observe(0, host(8, 5));
        assert_eq!((boots.losses(), boots.last), (1, Some((2, Loss::Power))));
        boots.observe(0, host(8, 6));
        assert_eq!(
            (boots.losses(), boots.last),
            (2, Some((0, Loss::FailedSync)))
        );
        // Another directory has none of what was written to the one before.
        let other = Keeping {
            generation: Generation(2),
            ..host(8, 6)
        };
        boots.observe(0, other);
        assert_eq!((boots.losses(), boots.last), (3, Some((0, Loss::Power))));
    }
}
