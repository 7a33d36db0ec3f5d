//! Direct placement in sinks of tests (`Sink::receive_buffer`): receive buffers for every second packet that is offered.

use std::collections::BTreeMap;

use causeway_sys::memory::Memory;
use causeway_transport::{PLACEMENT_HEAD_BYTES, Spans};

/// A packet's head, and the receive buffers for the rest.
#[derive(Debug)]
struct Placement {
    head: [u8; PLACEMENT_HEAD_BYTES],
    into: Spans,
}

/// The packets that are being received into buffers of the sink's, at most one for every `K`.
#[derive(Debug)]
pub struct Placements<K> {
    in_progress: BTreeMap<K, Placement>,
    offered: usize,
}

impl<K> Default for Placements<K> {
    fn default() -> Self {
        Self {
            in_progress: BTreeMap::new(),
            offered: 0,
        }
    }
}

impl<K: Ord + std::fmt::Debug> Placements<K> {
    /// `Sink::receive_buffer`, for a packet from `from`.
    ///
    /// # Panics
    /// If another packet of this sender is being placed.
    pub fn receive_buffer(
        &mut self,
        from: K,
        head: &[u8; PLACEMENT_HEAD_BYTES],
        len: usize,
        into: &mut Spans,
    ) -> bool {
        let before = self.in_progress.get(&from);
        assert!(before.is_none(), "{from:?} has two packets placed at once");
        assert!(into.is_empty(), "there are receive buffers already");
        self.offered += 1;
        if self.offered.is_multiple_of(2) {
            return false;
        }
        let rest = len.saturating_sub(head.len());
        into.extend([rest / 3, 0, rest - rest / 3].map(Memory::zeroed));
        let placement = Placement {
            head: *head,
            into: into.clone(),
        };
        self.in_progress.insert(from, placement);
        true
    }

    /// `Sink::placement_done`: returns the packet.
    ///
    /// # Panics
    /// If it is not the one that was to be placed, or its memory is still held.
    pub fn placement_done(&mut self, from: K, head: &[u8; PLACEMENT_HEAD_BYTES]) -> Vec<u8> {
        let placement = self.in_progress.get(&from);
        let known = placement.is_some_and(|placement| placement.head == *head);
        assert!(known, "{from:?} has a packet placed, and not {placement:?}");
        self.forget(&from)
    }

    /// Returns the packet that is being placed as far as it has arrived, since the rest will not arrive: its sender is
    /// gone, or its placement was cancelled.
    ///
    /// # Panics
    /// If its memory is still held.
    pub fn forget(&mut self, from: &K) -> Vec<u8> {
        let Some(Placement { head, into }) = self.in_progress.remove(from) else {
            return Vec::new();
        };
        let mut packet = head.to_vec();
        for memory in into {
            assert_eq!(memory.sharers(), 1, "a receive buffer is still held");
            packet.extend(memory.to_vec());
        }
        packet
    }
}
