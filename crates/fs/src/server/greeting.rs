//! A server's greeting, and its number in the layout, which the metadata server assigns.

use causeway_wire::fs::{Errno, Failure, Greeting, Operation, ReplyBody};
use causeway_wire::home::Enrollment;

use super::events::Loop;
use crate::error::failure;

impl Loop {
    /// This server's identity. Fails if the server's directory is gone, so that no client begins to use a server that cannot
    /// store anything.
    pub(super) fn greet(&self, layout_from: u16) -> Result<ReplyBody, Failure> {
        self.home
            .check_place()
            .map_err(|gone| failure(Errno::EIO, gone))?;
        Ok(ReplyBody::Hello(Box::new(Greeting {
            identity: self.identity.clone(),
            pid: std::process::id(),
            uptime_ms: self.started.elapsed().as_millis() as u64,
            boot: self.boot,
            failed_syncs: self.failed_syncs(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            layout: self.layout_part(layout_from),
        })))
    }

    /// Accepts a number from the metadata server, once, or again if an operator requests that.
    pub(super) fn enroll(
        &mut self,
        wanted: Enrollment,
        replace: bool,
    ) -> Result<ReplyBody, Failure> {
        self.store()?;
        let own = &self.identity;
        let other_metadata = match self.home.enrolled() {
            Some(found) if found == wanted => return Ok(ReplyBody::Done),
            Some(found) => Some(found),
            None => None,
        };
        if own.metadata && own.incarnation != wanted.incarnation {
            return Err(failure(
                Errno::WRONG_TARGET,
                format!(
                    "server {} keeps metadata of its own, {}",
                    own.name, own.incarnation
                ),
            ));
        }
        if let Some(found) = other_metadata
            && !replace
        {
            return Err(failure(
                Errno::EEXIST,
                format!(
                    "server {} belongs to metadata of incarnation {} as its number {}; it cannot be number {} \
                     of metadata of incarnation {}",
                    own.name, found.incarnation, found.index, wanted.index, wanted.incarnation
                ),
            ));
        }
        self.home.enroll(wanted).map_err(|error| {
            failure(
                Errno::EIO,
                format!("the directory of server {}: {error}", own.name),
            )
        })?;
        self.identity.index = Some(wanted.index);
        self.identity.incarnation = wanted.incarnation;
        self.access.forget_key();
        if let Some(store) = &self.store {
            store.set_incarnation(wanted.incarnation);
        }
        Ok(ReplyBody::Done)
    }

    /// Refuses a change of the layout that is not possible with this server's configuration.
    pub(super) fn check_layout_change(&self, operation: &Operation) -> Result<(), Failure> {
        let (Operation::AddServer { name } | Operation::AcceptServer { name, .. }) = operation
        else {
            return Ok(());
        };
        match self.io_names.contains(name) {
            true => Ok(()),
            false => Err(failure(
                Errno::ENOENT,
                format!(
                    "the configuration of the metadata server {} has no I/O server {name}: add its entry \
                     there, start the metadata server again, then repeat this",
                    self.identity.name
                ),
            )),
        }
    }
}
