//! Changes of permissions on their way to the I/O servers.

use std::sync::{Arc, Mutex};

use causeway_wire::fs::{ObjectId, Reply};

use super::background::Wakeup;
use super::ticket::Ticket;
use crate::locks::lock;

/// The revocation of an object's capabilities, which I/O servers confirm before the reply to the change is sent.
pub(super) struct Revocation {
    pub(super) ticket: Ticket,
    pub(super) reply: Reply,
    pub(super) object: ObjectId,
    /// Capabilities up to this version have ended.
    pub(super) version: u64,
    /// The numbers of the I/O servers that have the object's datafiles.
    pub(super) servers: Vec<u16>,
}

/// The queue to the thread that sends revocations.
#[derive(Clone, Default)]
pub(super) struct Revoker {
    queue: Arc<Mutex<Vec<Revocation>>>,
    pub(super) wakeup: Wakeup,
}

impl Revoker {
    /// Has a revocation sent to the I/O servers. At most one waits for each request in progress.
    pub(super) fn put(&self, revocation: Revocation) {
        lock(&self.queue).push(revocation);
        self.wakeup.notify();
    }

    /// Returns all waiting revocations.
    pub(super) fn take(&self) -> Vec<Revocation> {
        std::mem::take(&mut *lock(&self.queue))
    }
}
