//! Changes of permissions on their way to the I/O servers.

use std::sync::{Arc, Mutex};

use causeway_wire::fs::{ObjectId, Reply};

use super::background::Wakeup;
use super::ticket::Ticket;
use crate::locks::lock;

/// A change of permissions that is told before its reply is sent.
pub(super) struct News {
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
pub(super) struct Teller {
    queue: Arc<Mutex<Vec<News>>>,
    pub(super) wakeup: Wakeup,
}

impl Teller {
    /// Has the I/O servers told. At most one for each request in progress waits.
    pub(super) fn put(&self, news: News) {
        lock(&self.queue).push(news);
        self.wakeup.notify();
    }

    /// All that wait.
    pub(super) fn take(&self) -> Vec<News> {
        std::mem::take(&mut *lock(&self.queue))
    }
}
