//! Pausing: a ring with a packet at its front that must not be delivered now is set aside. It is
//! neither polled nor has notification enabled, so that it costs nothing; the sender fills it, and
//! its sends are then refused. Everything before that packet is handled as usual.

use super::Shm;
use super::pair::Pair;
use super::ring::Peeked;
use crate::method::{Peer, Readiness};
use causeway_wire::shm::SlotKind;

impl Shm {
    /// Delivers a peer's packets again.
    pub(super) fn resume_ring(&mut self, peer: Peer) {
        let Some(entry) = self.peers.get_mut(peer) else {
            return;
        };
        entry.paused = false;
        let Some(pair) = entry.pair() else { return };
        pair.paused = false;
        if std::mem::take(&mut pair.set_aside) && !pair.polled {
            pair.polled = true;
            pair.last_active = self.looks;
            self.polled.push(peer.index() as u32);
        }
    }
}

impl Pair {
    /// Sets the ring aside: the packet at its front must not be delivered now. The caller removes
    /// the ring from the list of polled ones.
    #[cold]
    pub(super) fn put_aside(&mut self) {
        self.set_aside = true;
        self.polled = false;
        // The sender need not ring for a ring that is not read. If it is just ringing, the poll
        // finds the same packet.
        self.notification = false;
        self.consumer.disable_notification();
        if self.consumer.return_credit() {
            self.ring_peer();
        }
    }

    /// See [`crate::Method::readiness`].
    pub(super) fn readiness(&mut self) -> Readiness {
        let front = self.consumer.peek();
        let kind = SlotKind::Packet;
        let readable = matches!(front, Peeked::Packet { kind: found, .. } if found == kind);
        let writable = self.failing.is_none() && self.takes_packets();
        self.blocked |= !writable;
        Readiness { readable, writable }
    }
}
