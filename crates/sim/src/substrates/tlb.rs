//! The card's translations (§2.3.4): from a process's virtual page to a page of physical memory.
//!
//! Sets of a few entries each, found by a hash; in a full set the least recently used entry is replaced. Only
//! presence matters here: the simulated machine has no physical addresses.

/// A page of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) process: u32,
    pub(super) number: u64,
}

impl Page {
    fn hash(self) -> u64 {
        // Neighbouring pages fall into neighbouring sets, and pages of different processes into distant ones.
        self.number
            .wrapping_add(u64::from(self.process).wrapping_mul(0x9e37_79b9))
    }
}

/// A card's translations.
#[derive(Debug)]
pub(super) struct Tlb {
    /// Each set in the order of use, latest first.
    sets: Vec<Vec<Page>>,
    ways: usize,
    misses: u64,
}

impl Tlb {
    pub(super) fn new(sets: u32, ways: u32) -> Self {
        Self {
            sets: vec![Vec::new(); sets.max(1) as usize],
            ways: ways.max(1) as usize,
            misses: 0,
        }
    }

    fn set(&mut self, page: Page) -> &mut Vec<Page> {
        let sets = self.sets.len() as u64;
        &mut self.sets[(page.hash() % sets) as usize]
    }

    /// Whether the page's translation is present; counts it as used.
    pub(super) fn finds(&mut self, page: Page) -> bool {
        let set = self.set(page);
        let found = set.iter().position(|&other| other == page);
        match found {
            Some(place) => set[..=place].rotate_right(1),
            None => self.misses += 1,
        }
        found.is_some()
    }

    /// Adds the page's translation.
    pub(super) fn fill(&mut self, page: Page) {
        let ways = self.ways;
        let set = self.set(page);
        if !set.contains(&page) {
            set.truncate(ways - 1);
            set.insert(0, page);
        }
    }

    /// The number of misses.
    pub(super) fn misses(&self) -> u64 {
        self.misses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(number: u64) -> Page {
        Page { process: 0, number }
    }

    #[test]
    fn what_was_used_longest_ago_makes_room() {
        let mut tlb = Tlb::new(4, 2);
        assert!(!tlb.finds(page(1)));
        for number in [1, 5] {
            tlb.fill(page(number));
        }
        assert!(tlb.finds(page(1)) && tlb.finds(page(5)) && tlb.finds(page(1)));
        tlb.fill(page(9));
        assert!(tlb.finds(page(1)) && tlb.finds(page(9)) && !tlb.finds(page(5)));
        assert!(!tlb.finds(Page {
            process: 1,
            number: 1
        }));
        assert_eq!(tlb.misses(), 3);
    }
}
