//! Whether changes may have been lost with a server's power before an fsync.
//!
//! A write is acknowledged from the server's page cache. If the server's host then loses power and comes
//! back, a later fsync finds nothing left to flush and would succeed. So a file's record of what was not synced has each server's boot
//! identity from before the first such change there, and it is compared after a flush: the write verifier of NFS. A server process that was merely restarted keeps its host's page
//! cache, and the identity. The same holds for the metadata server, which keeps small files.
//!
//! A failed sync causes the same loss: the kernel reports it once, and the bytes that it should have written are lost for all
//! clients that wrote since the last sync. Servers count failed syncs, and a client compares the count as it does the
//! boot.

use std::fmt;

use causeway_wire::fs::Generation;

use super::link::Known;

/// A server's unsynced changes are not lost as long as its verifier stays the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verifier {
    /// The boot of the server's host; 0 if it is not known.
    boot: u128,
    /// The generation of the directory from which the server serves there.
    generation: Generation,
    failed_syncs: u64,
}

/// How unsynced changes were lost.
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

impl Verifier {
    pub(super) fn of(known: &Known) -> Self {
        Self {
            boot: known.boot,
            generation: known.target.generation,
            failed_syncs: known.failed_syncs,
        }
    }

    /// Whether this is the verifier of a later boot from its beginning on: no sync has failed. If one has, a change that was made before this verifier was received
    /// may be lost.
    pub(super) fn is_whole_boot_after(&self, earlier: &Self) -> bool {
        self.failed_syncs == 0 && (self.boot, self.generation) != (earlier.boot, earlier.generation)
    }

    /// How changes that were made under this verifier were lost by the time of another one; `None` if they were not.
    pub(super) fn loss(&self, now: &Self) -> Option<Loss> {
        if self.generation != now.generation {
            Some(Loss::OtherDirectory)
        } else if self.boot != now.boot {
            Some(Loss::Reboot)
        } else {
            (self.failed_syncs != now.failed_syncs).then_some(Loss::FailedSync)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_lost_with_a_boot_a_failed_sync_and_a_directory() {
        let host = |boot, failed_syncs| Verifier {
            boot,
            generation: Generation(1),
            failed_syncs,
        };
        assert_eq!(host(7, 0).loss(&host(7, 0)), None);
        assert_eq!(host(7, 0).loss(&host(8, 0)), Some(Loss::Reboot));
        assert_eq!(host(8, 5).loss(&host(8, 6)), Some(Loss::FailedSync));
        // Another directory contains none of the bytes that were written to the earlier one.
        let other = Verifier {
            generation: Generation(2),
            ..host(8, 6)
        };
        assert_eq!(host(8, 6).loss(&other), Some(Loss::OtherDirectory));
    }
}
