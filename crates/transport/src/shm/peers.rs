//! The table of peers: handles, addresses, and what there is of a connection.

use causeway_wire::shm::doorbell::MAX_PEERS;

use super::pair::Pair;
use crate::address::Address;
use crate::error::PeerError;
use crate::method::Peer;
use crate::table::Table;

/// A peer's connection.
pub(super) enum Link {
    /// None; the next send makes one (we know its address).
    Idle,
    /// None, and making one failed for this reason, which is yet to be reported.
    Failed(PeerError),
    /// There is one.
    Live(Box<Pair>),
    /// There was one, made by the peer.
    Gone(PeerError),
}

/// One peer.
pub(super) struct Entry {
    pub(super) peer: Peer,
    pub(super) address: Address,
    /// Whether we connect to it, rather than it to us.
    pub(super) initiated: bool,
    /// Its packets are not delivered now; see also [`Pair::paused`].
    pub(super) paused: bool,
    pub(super) link: Link,
}

impl Entry {
    /// The connection, if there is one.
    #[inline]
    pub(super) fn pair(&mut self) -> Option<&mut Pair> {
        match &mut self.link {
            Link::Live(pair) => Some(pair),
            Link::Idle | Link::Failed(_) | Link::Gone(_) => None,
        }
    }
}

/// All peers. An index is also the peer's bit in our doorbell page.
pub(super) type Peers = Table<Entry>;

impl Peers {
    /// Adds a peer; `None` if there is no bit left for it.
    pub(super) fn add(&mut self, address: Address, initiated: bool, link: Link) -> Option<Peer> {
        let entry = |peer| Entry {
            peer,
            address,
            initiated,
            paused: false,
            link,
        };
        (self.len() < MAX_PEERS as usize).then(|| self.insert(entry))
    }
}
