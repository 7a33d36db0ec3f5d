//! Requests with which a client notices losses: before it changes a file, and after it has flushed it.

use causeway_wire::fs::Errno;

use super::call_error::CallError;
use super::connection::Client;
use super::file::File;
use super::link::Known;
use super::unsynced::{Changed, ChangedAt, Unsynced};
use super::verifiers::{Loss, Verifier};

/// Where a change is to be made.
#[must_use]
pub(super) struct NotedAt {
    servers: Vec<usize>,
    what: Changed,
}

/// A loss of changes at a server.
struct Lost {
    server: usize,
    loss: Loss,
    content: bool,
    attributes: bool,
}

impl Client {
    /// Notes, before a change of a file's content at these servers, that an fsync must find them with the same verifiers.
    pub(super) fn will_change(
        &mut self,
        file: &mut File,
        servers: &[usize],
    ) -> Result<NotedAt, CallError> {
        self.will_change_what(&mut file.unsynced, servers, Changed::Content)
    }

    /// The same for any change.
    pub(super) fn will_change_what(
        &mut self,
        unsynced: &mut Unsynced,
        servers: &[usize],
        what: Changed,
    ) -> Result<NotedAt, CallError> {
        self.rpc.introduce_to(servers)?;
        self.rpc.watch_replies(servers);
        for &server in servers {
            if let Some(known) = self.rpc.known(server) {
                unsynced.note(server, Verifier::of(&known), what);
            }
        }
        let servers = servers.to_vec();
        Ok(NotedAt { servers, what })
    }

    /// Corrects the verifiers of servers that had been rebooted before the change that is done now, which nobody had noticed: it was made under those after the
    /// reboot. A server whose replies came on one connection alone had the same boot all the time.
    pub(super) fn has_changed(&mut self, unsynced: &mut Unsynced, noted: NotedAt) {
        let NotedAt { servers, what } = noted;
        let first = |server: &usize| unsynced.is_first(*server, what);
        let first: Vec<usize> = servers.into_iter().filter(first).collect();
        if first.is_empty() {
            return;
        }
        let is_anew = |server: &usize| self.rpc.replied_on_one(*server) == Some(false);
        let asked: Vec<usize> = first.iter().copied().filter(is_anew).collect();
        for (server, greeting) in asked.iter().zip(self.rpc.greet(&asked)) {
            // If a server does not reply, the next fsync reports the reboot.
            if let Ok(greeting) = greeting {
                self.rpc.update_known(*server, &greeting);
            }
        }
        for server in first {
            let found = match self.rpc.replied_on_one(server) {
                Some(true) => self.rpc.known(server),
                _ => None,
            };
            unsynced.note_done(server, found.map(|known| Verifier::of(&known)), what);
        }
    }

    /// Fails, once, if a server has lost some of these changes ([`Loss`]), which were to be synced.
    pub(super) fn check_losses(&mut self, unsynced: &mut Unsynced) -> Result<(), CallError> {
        let Some(lost) = self.lost(unsynced)? else {
            return Ok(());
        };
        *unsynced = Unsynced::default();
        let (since, remedy) = match (lost.content, lost.attributes) {
            (_, false) => ("it was written", "truncate it and write it again"),
            (false, true) => (
                "its attributes were set",
                "set its times, mode and owner again",
            ),
            (true, true) => (
                "it was written and its attributes were set",
                "truncate it, write it and set its times, mode and owner again",
            ),
        };
        let server = self.rpc.link_name(lost.server);
        let loss = lost.loss;
        Err(CallError::local(
            Errno::EIO,
            format!(
                "server {server}: {loss}, after {since} and before that was synced: {remedy}, then sync it"
            ),
        ))
    }

    /// Reports once that a sync has failed, as the server itself has reported. A reboot of another server is noticed here, too: if only the next
    /// fsync noticed it, it would be taken for one after the file was written again.
    pub(super) fn report_loss(&mut self, file: &mut File) {
        // If a server does not reply now, a later fsync reports the failure.
        if let Ok(Some(_)) = self.lost(&file.unsynced) {
            file.unsynced = Unsynced::default();
        }
    }

    /// Requests the verifiers of the servers where changes were made, and returns which of these are lost.
    fn lost(&mut self, unsynced: &Unsynced) -> Result<Option<Lost>, CallError> {
        let mut servers: Vec<usize> = unsynced.at().iter().map(|at| at.server).collect();
        servers.sort_unstable();
        servers.dedup();
        let mut found: Option<Lost> = None;
        for (server, greeting) in servers.iter().zip(self.rpc.greet(&servers)) {
            let greeting = greeting?;
            self.rpc.update_known(*server, &greeting);
            let now = Verifier::of(&Known::of(&greeting));
            for ChangedAt { before, what, .. } in unsynced.of(*server) {
                if let Some(loss) = before.loss(&now) {
                    let lost = found.get_or_insert(Lost {
                        server: *server,
                        loss,
                        content: false,
                        attributes: false,
                    });
                    lost.content |= *what == Changed::Content;
                    lost.attributes |= *what == Changed::Attributes;
                }
            }
        }
        Ok(found)
    }
}
