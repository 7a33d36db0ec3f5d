//! The state of a server that a client can reach.

use std::time::Instant;

use causeway_bmi::{Addr, ConnectionId};
use causeway_wire::fs::formats::FORMATS;
use causeway_wire::fs::{Greeting, Target};

use crate::config::ServerEntry;

/// A server's identity according to its last greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    /// The target that requests to it carry.
    pub(crate) target: Target,
    /// The boot of its host at that moment.
    pub(crate) boot: u128,
    /// The count of failed syncs of its disk at that moment.
    pub(crate) failed_syncs: u64,
}

impl Known {
    pub(crate) fn of(greeting: &Greeting) -> Self {
        Self {
            target: greeting.identity.target(),
            boot: greeting.boot,
            failed_syncs: greeting.failed_syncs,
        }
    }
}

/// On which connections a server has replied since a change began. A connection is with one process, so with one boot of its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Replied {
    #[default]
    Not,
    On(ConnectionId),
    /// On several, or on one that is not known any more.
    Differently,
}

impl Replied {
    pub(super) fn note(&mut self, connection: Option<ConnectionId>) {
        *self = match (*self, connection) {
            (Self::Not, Some(connection)) => Self::On(connection),
            (Self::On(before), Some(connection)) if before == connection => Self::On(before),
            _ => Self::Differently,
        };
    }
}

/// A client's connection to a server.
pub(super) struct Link {
    pub(super) name: String,
    pub(super) addresses: String,
    pub(super) addr: Option<Addr>,
    pub(super) known: Option<Known>,
    /// The connection on which that was found.
    pub(super) known_of: Option<ConnectionId>,
    pub(super) replied: Replied,
    /// When a call was last given up that waited for this server, if it has not replied since.
    pub(super) silent: Option<Instant>,
    /// The format of requests to it: the highest that both sides are known to speak.
    pub(super) format: u8,
    /// The connection on which the format was found: the server behind another connection may be another build.
    pub(super) format_of: Option<ConnectionId>,
}

impl Link {
    pub(super) fn new(entry: &ServerEntry, only_scheme: Option<&str>) -> Self {
        let usable = |address: &&String| {
            only_scheme.is_none_or(|s| address.split("://").next().is_some_and(|have| have == s))
        };
        let addresses: Vec<&str> = entry
            .addresses
            .iter()
            .filter(usable)
            .map(String::as_str)
            .collect();
        Self {
            name: entry.name.clone(),
            addresses: addresses.join(","),
            addr: None,
            known: None,
            known_of: None,
            replied: Replied::Not,
            silent: None,
            format: FORMATS.highest,
            format_of: None,
        }
    }

    pub(super) fn describe(&self) -> String {
        format!("{}, {}", self.name, self.addresses)
    }
}
