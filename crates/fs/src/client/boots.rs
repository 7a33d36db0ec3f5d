//! Whether what was written may have been lost with a server's power before an fsync came.
//!
//! A write is acknowledged from the server's page cache. If the server's host then loses power and comes
//! back, a later fsync finds nothing left to flush and would succeed. So a client remembers each I/O
//! server's boot identity from before its first write there, and looks again after a flush (what
//! NFS does with a write verifier). A server process that was merely restarted keeps its host's page
//! cache, and the identity.

use causeway_wire::fs::{Answer, Operation};

use super::Client;
use super::rpc::{Call, Trouble, unfit};

/// What is known of the servers' hosts.
#[derive(Debug, Default)]
pub(super) struct Boots {
    /// By server, as the configuration counts them.
    known: Vec<Option<u128>>,
    losses: u64,
}

impl Boots {
    /// How often a host was seen to have lost power. What was written at a lower count may be lost.
    pub(super) fn losses(&self) -> u64 {
        self.losses
    }

    fn knows(&self, server: usize) -> bool {
        self.known.get(server).copied().flatten().is_some()
    }

    /// Takes in what a server says of its host.
    fn observe(&mut self, server: usize, boot: u128) {
        if self.known.len() <= server {
            self.known.resize(server + 1, None);
        }
        if self.known[server].is_some_and(|known| known != boot) {
            self.losses += 1;
        }
        self.known[server] = Some(boot);
    }
}

impl Client {
    /// Learns the boots of servers that are about to be written to for the first time.
    pub(super) fn meet(&mut self, servers: &[usize]) -> Result<(), Trouble> {
        let unknown: Vec<usize> = servers
            .iter()
            .copied()
            .filter(|server| !self.boots.knows(*server))
            .collect();
        self.look_at_boots(&unknown)
    }

    /// Asks servers for their boots.
    pub(super) fn look_at_boots(&mut self, servers: &[usize]) -> Result<(), Trouble> {
        if servers.is_empty() {
            return Ok(());
        }
        let calls = servers
            .iter()
            .map(|server| Call::query(*server, Operation::Hello { layout_from: 0 }))
            .collect();
        for (server, answer) in servers.iter().zip(self.rpc.call_all(calls)) {
            match answer? {
                Answer::Hello(greeting) => self.boots.observe(*server, greeting.boot),
                other => return Err(unfit(&other)),
            }
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
        boots.observe(2, 7);
        assert!(boots.knows(2) && !boots.knows(0) && !boots.knows(9));
        boots.observe(2, 7);
        assert_eq!(boots.losses(), 0);
        boots.observe(2, 8);
        boots.observe(0, 8);
        assert_eq!(boots.losses(), 1);
    }
}
