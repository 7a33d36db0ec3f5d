//! The table of peers, and the state of each.

use std::sync::Arc;
use std::time::Instant;

use causeway_wire::tcp::Ticket;
use causeway_wire::user::User;

use super::link::Link;
use super::targets::Targets;
use crate::address::Address;
use crate::error::PeerError;
use crate::half_open::Entry;
use crate::method::{Identity, Peer};
use crate::nodes::Certificate;
use crate::session::{Bounds, Session};
use crate::table::Table;

/// How a peer was connected.
#[derive(Debug)]
pub(super) enum Origin {
    /// This process connects to it.
    Connected(Targets),
    /// It connected to this process and is trusted.
    Accepted,
    /// It connected to this process and is not trusted yet. It was not reported to the sink.
    HalfOpen(Entry<Instant>),
    /// Not a peer, but a subflow of one: an extra connection.
    Subflow {
        of: Peer,
        /// On the side that makes it: the ticket to present.
        ticket: Option<Ticket>,
    },
    /// This process has dropped it and waits for the last packets to leave.
    Lingering { until: Instant },
}

/// One peer.
pub(super) struct PeerState {
    pub(super) handle: Peer,
    pub(super) origin: Origin,
    pub(super) address: Address,
    pub(super) identity: Option<Identity>,
    /// Its node, if it has proven which one it is.
    pub(super) node: Option<Arc<Certificate>>,
    /// The one user that it speaks for, if its node's agent has said so.
    pub(super) user: Option<Arc<User>>,
    pub(super) link: Option<Link>,
    pub(super) session: Session,
    /// Its subflows, including those that are not up yet.
    pub(super) subflows: Vec<Peer>,
    /// The ticket with which connections become its subflows.
    pub(super) ticket: Option<Ticket>,
    /// A subflow was lost: until when the first connection may still deliver something.
    pub(super) dying: Option<(Instant, PeerError)>,
    /// Down for good.
    pub(super) gone: Option<PeerError>,
    /// Failed to connect; to be reported by the next poll.
    pub(super) failed: Option<PeerError>,
    /// In the list of those that the next poll serves.
    pub(super) due: bool,
    /// In the list of those with a deadline.
    pub(super) timed: bool,
    /// In the list of those whose hosts have yet to acknowledge something, as far as is known.
    pub(super) unacknowledged: bool,
    /// In the list of those that are read without waiting for epoll.
    pub(super) polled: bool,
    /// Reads in a row that found nothing, while polled.
    pub(super) misses: u32,
    /// The poll since which a packet was sent at once.
    pub(super) sent_in_round: u64,
}

impl PeerState {
    pub(super) fn new(handle: Peer, origin: Origin, address: Address, bounds: Bounds) -> Box<Self> {
        Box::new(Self {
            handle,
            origin,
            address,
            identity: None,
            node: None,
            user: None,
            link: None,
            session: Session::new(bounds),
            subflows: Vec::new(),
            ticket: None,
            dying: None,
            gone: None,
            failed: None,
            due: false,
            timed: false,
            unacknowledged: false,
            polled: false,
            misses: 0,
            sent_in_round: 0,
        })
    }

    /// Whether it takes one of the slots for connections that are not trusted yet.
    pub(super) fn is_half_open(&self) -> bool {
        matches!(self.origin, Origin::HalfOpen(_))
    }

    pub(super) fn is_lingering(&self) -> bool {
        matches!(self.origin, Origin::Lingering { .. })
    }

    pub(super) fn is_subflow(&self) -> bool {
        matches!(self.origin, Origin::Subflow { .. })
    }

    /// Whether its handle was ever returned or reported, and not dropped.
    pub(super) fn is_shown(&self) -> bool {
        !self.is_half_open() && !self.is_lingering() && !self.is_subflow()
    }

    pub(super) fn is_up(&self) -> bool {
        self.link.as_ref().is_some_and(Link::is_up)
    }

    /// Whether packets have not reached the kernel that would reach it before the peer is reported
    /// down.
    pub(super) fn holds_packets(&self) -> bool {
        let sealed = self.link.as_ref().is_some_and(Link::holds_sealed_packets);
        self.session.queued_bytes() > 0 || sealed
    }
}

/// All peers.
pub(super) type Slots = Table<Box<PeerState>>;

impl Table<Box<PeerState>> {
    /// The peer, if its handle was ever returned or reported.
    pub(super) fn shown(&self, peer: Peer) -> Option<&PeerState> {
        self.get(peer)
            .map(Box::as_ref)
            .filter(|state| state.is_shown())
    }
}
