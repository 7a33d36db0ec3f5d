//! Which peer's window is made smaller next, and for which peers (`conversations::shrinking`).

/// Peers for which window is taken at once: those with the smallest windows.
const MOST_WANTING: usize = 8;

/// Peers that are looked at for one that needs window.
const LOOKS: u32 = 64;

/// Which peer's window is made smaller next.
#[derive(Debug, Default)]
pub(crate) struct Shrinking {
    /// Peers that need window, with what they have. Not empty: making windows smaller is queued.
    wanting: Vec<(u32, u32)>,
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

    /// A peer needs window, and has so much. A peer that requests more again and again does not keep out one that has
    /// less. Returns whether making windows smaller is to be queued.
    pub(crate) fn request(&mut self, peer: u32, window: u32) -> bool {
        let is_first = self.wanting.is_empty();
        let known = self.wanting.iter().position(|(other, _)| *other == peer);
        if let Some(known) = known {
            self.wanting[known].1 = window;
        } else if self.wanting.len() < MOST_WANTING {
            self.wanting.push((peer, window));
        } else if let Some(largest) = self.wanting.iter_mut().max_by_key(|(_, window)| *window)
            && largest.1 > window
        {
            *largest = (peer, window);
        }
        is_first
    }

    /// The peers that need window.
    pub(crate) fn take_wanting(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.wanting)
    }

    /// The numbers to look at now: those that come next, so that all have their turn.
    pub(crate) fn look(&mut self) -> impl Iterator<Item = u32> + use<> {
        let (from, end) = (self.from, self.end);
        let looks = LOOKS.min(end);
        self.from = (from + looks).checked_rem(end).unwrap_or(0);
        (from..from + looks).map(move |at| at % end)
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
    }

    #[test]
    fn peers_with_small_windows_are_not_kept_out() {
        let mut shrinking = Shrinking::default();
        assert!(shrinking.request(0, 5000));
        for peer in 1..100 {
            assert!(!shrinking.request(peer, 1000 - peer));
            assert!(!shrinking.request(0, 5000));
        }
        let wanting = shrinking.take_wanting();
        assert_eq!(wanting.len(), MOST_WANTING);
        assert!(wanting.iter().all(|(peer, _)| *peer > 91), "{wanting:?}");
        assert!(shrinking.request(0, 5000));
    }
}
