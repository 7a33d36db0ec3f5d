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
        self.refresh_verifiers(servers)?;
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

    /// Reports once that a sync has failed, as the server itself has reported. A reboot of the metadata server is noticed here, too: if only the next
    /// fsync noticed it, it would be taken for one after the file was written again.
    pub(super) fn report_loss(&mut self, file: &mut File, servers: &[usize]) {
        let losses = self.verifiers.losses();
        // If a server does not reply now, a later fsync reports the failure.
        if self.refresh_verifiers(servers).is_ok() && self.verifiers.losses() != losses {
            (file.unsynced_since, file.written) = (None, None);
        }
    }

    /// Requests the verifiers of these servers and of the metadata server.
    fn refresh_verifiers(&mut self, servers: &[usize]) -> Result<(), CallError> {
        let asked: Vec<usize> = servers.iter().copied().chain([self.metadata]).collect();
        for (server, greeting) in asked.iter().zip(self.rpc.greet(&asked)) {
            let greeting = greeting?;
            self.verifiers
                .observe(*server, verifier_of(&Known::of(&greeting)));
            self.rpc.update_known(*server, &greeting);
        }
        Ok(())
    }
}
