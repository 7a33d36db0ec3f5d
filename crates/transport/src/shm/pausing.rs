//! Pausing: a ring with a packet at its front that is not wanted now is set aside. It is neither polled nor rung for,
//! so that it costs nothing; the sender fills it, and is told to wait then. Up to that packet all goes on.

use super::Shm;
use super::pair::Pair;
use super::ring::Peeked;
use crate::method::{Peer, Readiness};
use causeway_wire::shm::SlotKind;

impl Shm {
    /// Has a peer's packets delivered again.
    pub(super) fn resume_ring(&mut self, peer: Peer) {
        let Some(entry) = self.peers.get_mut(peer) else {
            return;
        };
        entry.paused = false;
        let Some(pair) = entry.pair() else { return };
        pair.paused = false;
        if std::mem::take(&mut pair.set_aside) && !pair.polled {
            pair.polled = true;
            pair.last_active = self.polls;
            self.polled.push(peer.index() as u32);
        }
    }
}

impl Pair {
    /// A packet is at the front that is not wanted now. The caller takes the ring out of the list of polled ones.
    #[cold]
    pub(super) fn put_aside(&mut self) {
        self.set_aside = true;
        self.polled = false;
        // The sender need not ring for what is not looked at. A ring that is on its way finds the same packet.
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
