//! What a sink needs to have large packets placed (`Sink::place`): every second one that it is asked for.

use std::collections::BTreeMap;

use causeway_sys::memory::Memory;
use causeway_transport::{PLACE_HEAD_BYTES, Spans};

/// A packet's head, and the memory for what is behind it.
#[derive(Debug)]
struct Landing {
    head: [u8; PLACE_HEAD_BYTES],
    into: Spans,
}

/// The packets that are on their way to their places, at most one for every `K`.
#[derive(Debug)]
pub struct Places<K> {
    landing: BTreeMap<K, Landing>,
    asked: usize,
}

impl<K> Default for Places<K> {
    fn default() -> Self {
        Self {
            landing: BTreeMap::new(),
            asked: 0,
        }
    }
}

impl<K: Ord + std::fmt::Debug> Places<K> {
    /// `Sink::place`, for a packet from `from`.
    ///
    /// # Panics
    /// If another one of its is on its way.
    pub fn place(
        &mut self,
        from: K,
        head: &[u8; PLACE_HEAD_BYTES],
        len: usize,
        into: &mut Spans,
    ) -> bool {
        let before = self.landing.get(&from);
        assert!(before.is_none(), "{from:?} has two packets placed at once");
        assert!(into.is_empty(), "there are places already");
        self.asked += 1;
        if self.asked.is_multiple_of(2) {
            return false;
        }
        let rest = len.saturating_sub(head.len());
        into.extend([rest / 3, 0, rest - rest / 3].map(Memory::zeroed));
        let landing = Landing {
            head: *head,
            into: into.clone(),
        };
        self.landing.insert(from, landing);
        true
    }

    /// `Sink::placed`: answers the packet.
    ///
    /// # Panics
    /// If it is not the one that was to be placed, or its memory is still held.
    pub fn placed(&mut self, from: K, head: &[u8; PLACE_HEAD_BYTES]) -> Vec<u8> {
        let landing = self.landing.get(&from);
        let known = landing.is_some_and(|landing| landing.head == *head);
        assert!(known, "{from:?} has a packet placed, and not {landing:?}");
        self.forget(&from)
    }

    /// The packet that is being placed, as far as it has come, will not be: its sender is gone, or it was taken
    /// back.
    ///
    /// # Panics
    /// If its memory is still held.
    pub fn forget(&mut self, from: &K) -> Vec<u8> {
        let Some(Landing { head, into }) = self.landing.remove(from) else {
            return Vec::new();
        };
        let mut packet = head.to_vec();
        for memory in into {
            assert_eq!(memory.sharers(), 1, "the memory of a place is still held");
            packet.extend(memory.to_vec());
        }
        packet
    }
}
