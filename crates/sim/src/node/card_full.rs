//! Whether a card's memory is enough for what its settings state.

use std::fmt;

use causeway_firmware::{MemoryUse, Settings};

/// A card's memory is too small.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct CardFull {
    /// The card's node.
    pub node: usize,
    /// Bytes that the card has.
    pub has_bytes: u64,
    /// What the memory would have to hold, the largest part first.
    pub needs: Vec<MemoryUse>,
}

impl CardFull {
    /// Fails if the settings need more than the card of `node` has; `None` is unlimited.
    pub(super) fn check(
        node: usize,
        settings: &Settings,
        has_bytes: Option<u64>,
    ) -> Result<(), Self> {
        let Some(has_bytes) = has_bytes else {
            return Ok(());
        };
        let mut full = Self {
            node,
            has_bytes,
            needs: settings.memory().to_vec(),
        };
        if full.needs_bytes() <= has_bytes {
            return Ok(());
        }
        full.needs.retain(|entries| entries.count > 0);
        full.needs
            .sort_by_key(|entries| std::cmp::Reverse(entries.bytes()));
        Err(full)
    }

    /// Bytes that the card would need.
    pub fn needs_bytes(&self) -> u64 {
        let bytes = self.needs.iter().map(MemoryUse::bytes);
        bytes.fold(0, u64::saturating_add)
    }
}

impl fmt::Display for CardFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the card of node {} needs {} B of memory, and has {} B (`card.memory` of the profile): ",
            self.node,
            self.needs_bytes(),
            self.has_bytes
        )?;
        for (place, entries) in self.needs.iter().enumerate() {
            let between = if place == 0 { "" } else { ", " };
            let MemoryUse { what, count, .. } = entries;
            write!(f, "{between}{} B for {count} {what}", entries.bytes())?;
        }
        f.write_str(
            ". `settings.buffers` and `settings.frame` make buffers fewer and shorter; fewer interfaces, messages in progress and nodes \
             make the rest less; `card.memory` may be \"unlimited\"",
        )
    }
}
