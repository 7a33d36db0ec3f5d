//! Whether written bytes may have been lost with a server's power before an fsync.
//!
//! A write is acknowledged from the server's page cache. If the server's host then loses power and comes
//! back, a later fsync finds nothing left to flush and would succeed. So a client remembers each server's boot
//! identity from before its first write there, and compares it again after a flush: the write verifier of NFS. A server process that was merely restarted keeps its host's page
//! cache, and the identity. The same holds for the metadata server, which keeps small files.
//!
//! A failed sync causes the same loss: the kernel reports it once, and the bytes that it should have written are lost for all
//! clients that wrote since the last sync. Servers count failed syncs, and a client compares the count as it does the
//! boot.

use std::fmt;

use causeway_wire::fs::Generation;

use super::link::Known;

/// A server's unsynced writes are not lost as long as its verifier stays the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verifier {
    /// The boot of the server's host; 0 if it is not known.
    boot: u128,
    /// The generation of the directory from which the server serves there.
    generation: Generation,
    failed_syncs: u64,
}

/// How unsynced writes were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// The host was rebooted, and what it had in memory only is gone.
    Reboot,
    OtherDirectory,
    FailedSync,
}

impl fmt::Display for Loss {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Reboot => "its host was rebooted",
            Self::OtherDirectory => "it serves another directory now",
            Self::FailedSync => "a sync of its disk has failed",
        })
    }
}

/// The servers' verifiers as last received.
#[derive(Debug, Default)]
pub(super) struct Verifiers {
    /// The verifiers by the server's index in the configuration.
    known: Vec<Option<Verifier>>,
    losses: u64,
    /// The last loss, with the server's index.
    pub(super) last: Option<(usize, Loss)>,
}

impl Verifiers {
    /// The number of times that unsynced writes were found lost. Bytes written at a lower count may be lost.
    pub(super) fn losses(&self) -> u64 {
        self.losses
    }

    /// Records a server's report of its host and disk.
    pub(super) fn observe(&mut self, server: usize, found: Verifier) {
        if self.known.len() <= server {
            self.known.resize(server + 1, None);
        }
        if let Some(known) = self.known[server]
            && known != found
        {
            let loss = if known.generation != found.generation {
                Loss::OtherDirectory
            } else if known.boot != found.boot {
                Loss::Reboot
            } else {
                Loss::FailedSync
            };
            self.losses += 1;
            self.last = Some((server, loss));
        }
        self.known[server] = Some(found);
    }
}

pub(super) fn verifier_of(known: &Known) -> Verifier {
    Verifier {
        boot: known.boot,
        generation: known.target.generation,
        failed_syncs: known.failed_syncs,
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
            (1, Some((2, Loss::Reboot)))
        );
        verifiers.observe(0, host(8, 6));
        assert_eq!(
            (verifiers.losses(), verifiers.last),
            (2, Some((0, Loss::FailedSync)))
        );
        // Another directory contains none of the bytes that were written to the earlier one.
        let other = Verifier {
            generation: Generation(2),
            ..host(8, 6)
        };
        verifiers.observe(0, other);
        assert_eq!(
            (verifiers.losses(), verifiers.last),
            (3, Some((0, Loss::OtherDirectory)))
        );
    }
}
