//! What the loop of a metadata server knows of programs that hold leases, and of changes that wait for these to end.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use causeway_bmi::{Addr, ConnectionId, OpId};
use causeway_wire::fs::formats::GrantedLease;
use causeway_wire::fs::{Leased, Request};

use super::lease_mark::LeaseMark;
use super::lease_waits::{Waiting, Waits};
use super::ticket::Ticket;

/// In the place of a ticket's slot: watches of programs that hold leases, beside those of open files, of file locks and of append locks.
pub(super) const WATCHES_HOLDERS: u16 = 3;

/// See the module.
pub(super) struct LeaseState {
    /// How programs are reached.
    pub(super) channels: HashMap<u128, Channel>,
    /// Programs whose end is watched, by the watch's number.
    pub(super) watches: HashMap<u32, u128>,
    pub(super) last_watch: u32,
    /// Changes that wait.
    pub(super) waits: Waits<Wait>,
    /// Changes that have waited and are being made now: until they are made, no program gets leases on
    /// what they alter.
    pub(super) made: HashMap<Ticket, Vec<Leased>>,
    pub(super) mark: LeaseMark,
    /// Granted with the reply that is about to be sent.
    pub(super) granted: Option<GrantedLease>,
    /// Granted with replies to changes that are not sent yet.
    pub(super) granted_later: HashMap<Ticket, GrantedLease>,
}

/// The way to a program that holds leases.
pub(super) struct Channel {
    pub(super) from: Addr,
    pub(super) connection: ConnectionId,
    /// The format of its requests.
    pub(super) format: u8,
    pub(super) watch: u32,
    pub(super) receive: OpId,
    /// Under which it waits for a recall.
    pub(super) tag: Option<u64>,
    /// The one user for whom the connection speaks, if its node's agent has made it.
    pub(super) user: Option<u32>,
}

/// A change that waits for leases to end.
pub(super) struct Wait {
    pub(super) ticket: Ticket,
    pub(super) request: Box<Request>,
    pub(super) alters: Vec<Leased>,
    /// Not to be made before this instant, also if no program is known to hold leases: those of an earlier run of the server are not known.
    pub(super) not_before: Option<Instant>,
    /// By when the leases of others have expired.
    pub(super) until: Instant,
}

impl Waiting for Wait {
    fn alters(&self) -> &[Leased] {
        &self.alters
    }

    fn until(&self) -> Instant {
        self.until
    }
}

impl LeaseState {
    pub(super) fn new(directory: Option<&Path>, time: Duration) -> Self {
        Self {
            channels: HashMap::new(),
            watches: HashMap::new(),
            last_watch: 0,
            waits: Waits::new(),
            made: HashMap::new(),
            mark: LeaseMark::open(directory, time, Instant::now()),
            granted: None,
            granted_later: HashMap::new(),
        }
    }
}
