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
    /// The numbers of its I/O servers.
    pub(super) servers: Vec<u16>,
}

/// The way to the thread that tells.
#[derive(Clone, Default)]
pub(super) struct Revoker {
    queue: Arc<Mutex<Vec<Revocation>>>,
    pub(super) wakeup: Wakeup,
}

impl Revoker {
    /// Has it sent to the I/O servers. At most one for each request in progress waits.
    pub(super) fn put(&self, revocation: Revocation) {
        lock(&self.queue).push(revocation);
        self.wakeup.notify();
    }

    /// All that wait.
    pub(super) fn take(&self) -> Vec<Revocation> {
        std::mem::take(&mut *lock(&self.queue))
    }
}
