//! Taking window from peers that have more of it than one that needs some.

use super::Conversations;
use crate::matcher::Matcher;

impl<M: Matcher> Conversations<M> {
    /// Takes window for each of the peers that have requested it.
    pub(super) fn shrink_some(&mut self) {
        for (wanting, _) in self.shared.shrinking.take_wanting() {
            self.shrink_one(wanting);
        }
    }

    /// Takes window for `wanting` from the largest of a bounded number of windows. A window that is
    /// no more than twice that of `wanting` stays as it is: a peer that reports again and again that it
    /// needs window gets as much as others have, and no more.
    fn shrink_one(&mut self, wanting: u32) {
        let Self { peers, shared } = self;
        let Some(own) = peers.get(wanting).map(|peer| peer.grant.window()) else {
            return;
        };
        let window = |at: u32| peers.get(at).map_or(0, |peer| peer.grant.window());
        let largest = (shared.shrinking.look())
            .filter(|&at| at != wanting && peers.get(at).is_some_and(|peer| peer.is_up()))
            .max_by_key(|&at| window(at));
        if let Some(peer) = largest.filter(|&at| window(at) / 2 > own) {
            peers[peer].shrink_window(shared);
        }
    }
}
