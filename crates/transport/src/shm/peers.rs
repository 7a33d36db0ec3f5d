//! The table of peers: handles, addresses, and the state of their connections.

use causeway_wire::shm::doorbell::MAX_PEERS;

use super::pair::Pair;
use crate::address::Address;
use crate::error::PeerError;
use crate::method::Peer;
use crate::table::Table;

/// A peer's connection.
pub(super) enum Link {
    /// None; the next send makes one (the address is known).
    Idle,
    /// None: making one failed for this reason, which has yet to be reported.
    Failed(PeerError),
    /// An open connection.
    Live(Box<Pair>),
    /// It was made by the peer, and has ended.
    Gone(PeerError),
}

/// One peer.
pub(super) struct Entry {
    pub(super) peer: Peer,
    pub(super) address: Address,
    /// Whether this process connects to the peer, rather than the peer to it.
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
