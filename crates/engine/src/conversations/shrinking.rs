//! Taking window from peers that have more of it than one that needs some.

use super::Conversations;
use crate::matcher::Matcher;

/// Peers that are looked at for one that needs window.
const LOOKS: u32 = 64;

/// Which peer's window is made smaller next.
#[derive(Debug, Default)]
pub(crate) struct Shrinking {
    /// [`Work::Shrink`](crate::shared::Work::Shrink) is queued.
    queued: bool,
    /// The numbers of all peers are below this.
    end: u32,
    /// Where the next search begins.
    from: u32,
}

impl Shrinking {
    /// Notes the number of a new peer.
    pub(crate) fn add(&mut self, peer: u32) {
        self.end = self.end.max(peer + 1);
    }

    /// A peer needs window. Returns whether that is to be queued.
    pub(crate) fn request(&mut self) -> bool {
        !std::mem::replace(&mut self.queued, true)
    }

    /// The numbers to look at now: those that come next, so that all have their turn.
    fn look(&mut self) -> impl Iterator<Item = u32> + use<> {
        let (from, end) = (self.from, self.end);
        let looks = LOOKS.min(end);
        self.from = (from + looks).checked_rem(end).unwrap_or(0);
        (from..from + looks).map(move |at| at % end)
    }
}

impl<M: Matcher> Conversations<M> {
    /// Takes window for `wanting` from the largest of a bounded number of windows. A window that is
    /// no more than twice that of `wanting` stays as it is: a peer that reports again and again that it
    /// needs window gets as much as others have, and no more.
    pub(super) fn shrink_one(&mut self, wanting: u32) {
        let Self { peers, shared } = self;
        shared.shrinking.queued = false;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_has_its_turn() {
        let mut shrinking = Shrinking::default();
        assert_eq!(shrinking.look().count(), 0);
        (0..150).for_each(|peer| shrinking.add(peer));
        let mut looked = [0; 150];
        for _ in 0..75 {
            let numbers = shrinking.look();
            numbers.for_each(|at| looked[at as usize] += 1);
        }
        assert_eq!(looked, [75 * LOOKS / 150; 150]);
        assert!(shrinking.request() && !shrinking.request());
    }
}
