//! Requests with which a client notices losses: before it writes, and after it has flushed.

use causeway_wire::fs::Errno;

use super::call_error::CallError;
use super::connection::Client;
use super::file::File;
use super::link::Known;
use super::verifiers::verifier_of;

impl Client {
    /// Records the verifiers of servers before they are written to.
    fn remember_verifiers(&mut self, servers: &[usize]) -> Result<(), CallError> {
        self.rpc.introduce_to(servers)?;
        for &server in servers {
            if let Some(known) = self.rpc.known(server) {
                self.verifiers.observe(server, verifier_of(&known));
            }
        }
        Ok(())
    }

    /// Notes, before a change of a file at these servers, that an fsync must find their hosts with the same boot.
    pub(super) fn will_change(
        &mut self,
        file: &mut File,
        servers: &[usize],
    ) -> Result<(), CallError> {
        self.remember_verifiers(servers)?;
        file.unsynced_since.get_or_insert(self.verifiers.losses());
        Ok(())
    }

    /// Fails if a server has lost unsynced writes ([`super::verifiers::Loss`]) since the file was changed and before an fsync; requests the verifiers of `servers`
    /// and of the metadata server.
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
            None => "a server has lost writes that were not synced".to_owned(),
        };
        Err(CallError::local(
            Errno::EIO,
            format!(
                "{what}, after the file was written and before it was synced: truncate it and write it again, then sync it"
            ),
        ))
    }

    /// Reports once that a sync has failed, as the server itself has reported. Requests the same verifiers as [`Client::check_losses`]: a reboot that only the
    /// next fsync noticed would be taken for one after the file was written again.
    pub(super) fn report_loss(&mut self, file: &mut File, servers: &[usize]) {
        let losses = self.verifiers.losses();
        let asked: Vec<usize> = servers.iter().copied().chain([self.metadata]).collect();
        // If a server does not reply now, a later fsync reports the failure.
        if self.refresh_verifiers(&asked).is_ok() && self.verifiers.losses() != losses {
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
