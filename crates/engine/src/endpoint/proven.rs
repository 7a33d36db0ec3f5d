//! What is known for certain of a peer: proven by it, or vouched for.

use std::sync::Arc;

use causeway_transport::{Certificate, Identity, Method, Peer};
use causeway_wire::user::User;

use super::Endpoint;
use crate::matcher::Matcher;
use crate::types::Addr;

impl<M: Matcher> Endpoint<M> {
    /// The identity of the peer, as far as it is known for certain; `None` while not connected.
    pub fn identity(&self, addr: Addr) -> Option<Identity> {
        let (method, peer) = self.connected(addr)?;
        method.identity(peer)
    }

    /// The node that the peer belongs to, if its method has it prove that ([`Config::nodes`](crate::types::Config::nodes)); `None` while not connected.
    pub fn node(&self, addr: Addr) -> Option<Arc<Certificate>> {
        let (method, peer) = self.connected(addr)?;
        method.node(peer)
    }

    /// The one user that the peer speaks for, if the agent of its node has said so ([`Identity::OneUser`]); `None` while not connected.
    pub fn user(&self, addr: Addr) -> Option<Arc<User>> {
        let (method, peer) = self.connected(addr)?;
        method.user(peer)
    }

    fn connected(&self, addr: Addr) -> Option<(&dyn Method, Peer)> {
        let peer = self.find(addr)?;
        let (method, handle) = self.connections.link(peer)?;
        Some((&*self.methods.slots[method].method, handle))
    }
}
