//! Which peer's window is made smaller next (`conversations::shrinking`).

/// Peers that are looked at for one that needs window.
const LOOKS: u32 = 64;

/// Which peer's window is made smaller next.
#[derive(Debug, Default)]
pub(crate) struct Shrinking {
    /// Making one smaller is queued.
    pub(crate) queued: bool,
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
        assert!(shrinking.request() && !shrinking.request());
    }
}
