//! The table of peers, and the state of each.

use std::net::SocketAddr;

use super::link::Link;
use super::{Remote, Time};
use crate::address::Address;
use crate::error::PeerError;
use crate::half_open::Entry;
use crate::method::{Identity, Peer};
use crate::session::Session;
use crate::table::Table;

/// How a peer was connected.
pub(super) enum Origin {
    /// This process connects to it.
    Connected {
        targets: Vec<Remote>,
        /// The index of the target that is tried, or was reached.
        at: usize,
    },
    /// It connected to this process, is up, and was reported.
    Accepted,
    /// It connected to this process and is not up yet. It was not reported.
    HalfOpen(Entry<Time>),
    /// This process has dropped it and waits for the last packets to arrive.
    Lingering {
        until: Time,
        /// Only our goodbye is in flight.
        owes_nothing: bool,
    },
}

/// One peer.
pub(super) struct PeerState {
    pub(super) handle: Peer,
    pub(super) origin: Origin,
    pub(super) address: Address,
    pub(super) identity: Option<Identity>,
    pub(super) link: Option<Link>,
    pub(super) session: Session,
    /// Down for good.
    pub(super) gone: Option<PeerError>,
    /// Failed to connect; to be reported by the next poll.
    pub(super) failed: Option<PeerError>,
    /// The next target is to be tried.
    pub(super) goes_on: bool,
    /// In the queue of those that may have something to send.
    pub(super) ready: bool,
    /// In the queue of those that have something to report.
    pub(super) due: bool,
    /// Datagrams sent in its present burst.
    pub(super) burst: u32,
    /// Its time in the timers.
    pub(super) timer: Option<Time>,
}

impl PeerState {
    pub(super) fn new(handle: Peer, origin: Origin, address: Address, session: Session) -> Self {
        Self {
            handle,
            origin,
            address,
            identity: None,
            link: None,
            session,
            gone: None,
            failed: None,
            goes_on: false,
            ready: false,
            due: false,
            burst: 0,
            timer: None,
        }
    }

    /// Whether it takes one of the slots for connections that are not trusted yet.
    pub(super) fn is_half_open(&self) -> bool {
        matches!(self.origin, Origin::HalfOpen(_))
    }

    pub(super) fn is_lingering(&self) -> bool {
        matches!(self.origin, Origin::Lingering { .. })
    }

    /// When its timer is due.
    pub(super) fn deadline(&self) -> Option<Time> {
        let linger = match self.origin {
            Origin::Lingering { until, .. } => Some(until),
            _ => None,
        };
        let link = self.link.as_ref().and_then(Link::deadline);
        [linger, link].into_iter().flatten().min()
    }
}

impl Table<Box<PeerState>> {
    /// The peer, if its handle was ever returned or reported.
    pub(super) fn shown(&self, peer: Peer) -> Option<&PeerState> {
        self.get(peer)
            .map(Box::as_ref)
            .filter(|state| !state.is_half_open() && !state.is_lingering())
    }
}

/// The address at which `target` is reached.
pub(super) fn describe(target: SocketAddr) -> Option<Address> {
    format!("{}://{target}", super::SCHEME).parse().ok()
}
