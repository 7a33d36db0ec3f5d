//! Whether what was written may have been lost with a server's power before an fsync came.
//!
//! A write is acknowledged from the server's page cache. If the server's host then loses power and comes
//! back, a later fsync finds nothing left to flush and would succeed. So a client remembers each
//! server's boot identity from before its first write there, and looks again after a flush (what
//! NFS does with a write verifier). A server process that was merely restarted keeps its host's page
//! cache, and the identity. That goes for the metadata server as well, which keeps small files.

use causeway_wire::fs::{Errno, Generation};

use super::introduce::Known;
use super::rpc::Trouble;
use super::{Client, File};

/// The boot of a server's host, and the directory that the server has there.
type Host = (u128, Generation);

/// What is known of the servers' hosts.
#[derive(Debug, Default)]
pub(super) struct Boots {
    /// By server, as the configuration counts them.
    known: Vec<Option<Host>>,
    losses: u64,
}

impl Boots {
    /// How often a host was seen to have lost power. What was written at a lower count may be lost.
    pub(super) fn losses(&self) -> u64 {
        self.losses
    }

    /// Takes in what a server says of its host.
    fn observe(&mut self, server: usize, host: Host) {
        if self.known.len() <= server {
            self.known.resize(server + 1, None);
        }
        if self.known[server].is_some_and(|known| known != host) {
            self.losses += 1;
        }
        self.known[server] = Some(host);
    }
}

fn host(known: &Known) -> Host {
    (known.boot, known.target.generation)
}

impl Client {
    /// Learns the boots of servers that are about to be written to.
    fn meet(&mut self, servers: &[usize]) -> Result<(), Trouble> {
        self.rpc.introduce_to(servers)?;
        for &server in servers {
            if let Some(known) = self.rpc.known(server) {
                self.boots.observe(server, host(&known));
            }
        }
        Ok(())
    }

    /// Before a change of a file at these servers: remembers that an fsync must find their hosts as they are now.
    pub(super) fn will_change(
        &mut self,
        file: &mut File,
        servers: &[usize],
    ) -> Result<(), Trouble> {
        self.meet(servers)?;
        file.unsynced_since.get_or_insert(self.boots.losses());
        Ok(())
    }

    /// Fails if a host has lost power since the file was changed, as far as no fsync came; `servers` and the
    /// metadata server are asked.
    pub(super) fn check_losses(
        &mut self,
        file: &mut File,
        servers: &[usize],
    ) -> Result<(), Trouble> {
        let Some(losses) = file.unsynced_since else {
            return Ok(());
        };
        let asked: Vec<usize> = servers.iter().copied().chain([self.metadata]).collect();
        self.look_at_boots(&asked)?;
        if losses == self.boots.losses() {
            return Ok(());
        }
        (file.unsynced_since, file.written) = (None, None);
        Err(Trouble::local(
            Errno::EIO,
            "a server's host has lost power since the file was written, before it was synced: write it again",
        ))
    }

    /// Asks servers for their boots.
    fn look_at_boots(&mut self, servers: &[usize]) -> Result<(), Trouble> {
        for (server, greeting) in servers.iter().zip(self.rpc.greet(servers)) {
            let greeting = greeting?;
            let found = (greeting.boot, greeting.identity.generation);
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
        let host = |boot| (boot, Generation(1));
        boots.observe(2, host(7));
        boots.observe(2, host(7));
        assert_eq!(boots.losses(), 0);
        boots.observe(2, host(8));
        boots.observe(0, host(8));
        assert_eq!(boots.losses(), 1);
        // Another directory has none of what was written to the one before.
        boots.observe(0, (8, Generation(2)));
        assert_eq!(boots.losses(), 2);
    }
}
