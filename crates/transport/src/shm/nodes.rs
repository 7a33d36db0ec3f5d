//! Checks of the nodes at the other ends of shared-memory connections.

use std::sync::Arc;

use super::pair::Pair;
use super::peers::Link;
use super::{Shm, ShmConfig};
use crate::address::Address;
use crate::error::{Error, PeerError};
use crate::method::Peer;
use crate::nodes::{Certificate, Membership};
use crate::trust::{NODES_NEED_KEY, keyed};

impl ShmConfig {
    /// Refuses settings that need the cluster's key if there is none.
    pub(super) fn check(&self) -> Result<(), Error> {
        match (&self.nodes, &self.key) {
            (Some(_), None) => Err(Error::Unsupported(NODES_NEED_KEY)),
            _ => Ok(()),
        }
    }
}

impl Pair {
    /// The entry about the peer's node in reports.
    pub(super) fn node_fact(&self) -> Option<(&'static str, String)> {
        let node = self.node.as_deref()?;
        Some(("peer", keyed(Some(node))))
    }
}

impl Shm {
    pub(super) fn node_of(&self, peer: Peer) -> Option<&Arc<Certificate>> {
        match &self.peers.get(peer)?.link {
            Link::Live(pair) => pair.node.as_ref(),
            _ => None,
        }
    }

    /// Whether a peer may claim to listen at `claimed`.
    pub(super) fn may_listen_at(&self, peer: Peer, claimed: &Address) -> bool {
        let node = self.node_of(peer).map(Arc::as_ref);
        let nodes = self.config.nodes.as_ref();
        nodes.is_none_or(|nodes| nodes.current().may_be_at(node, claimed))
    }

    /// Ends the connections with nodes that are no longer accepted.
    #[cold]
    pub(super) fn fail_rejected(&mut self, membership: &Membership) {
        let mut rejected = Vec::new();
        for entry in self.peers.iter_mut() {
            let peer = entry.peer;
            if let Some(node) = entry.pair().and_then(|pair| pair.node.as_ref())
                && let Err(why) = membership.still_admits(node)
            {
                rejected.push((peer, why));
            }
        }
        for (peer, why) in rejected {
            tracing::warn!(%why, "a connection over shared memory is ended");
            if let Some(pair) = self.peers.get_mut(peer).and_then(|entry| entry.pair()) {
                // Packets that it has put into its ring are not delivered any more.
                pair.unproven = true;
            }
            self.fail(peer, PeerError::Unauthorised(why.to_string()));
        }
    }
}
