//! How much of a card's memory the program takes.
//!
//! The thesis states what is there: buffers that stage messages from and to the network (§4.2.1), descriptors that were brought down
//! (§5.2.2), the tables that translate addresses (§4.2.1, §5.2.2), a queue of doorbells for each virtual interface (§5.2.1) or one that
//! hardware keeps (§4.2.3), and shadow queues (§4.2.2). Work queues, completion queues and the data of messages are in registered
//! memory of the host (§4.2.1, §4.2.2), and take nothing. It states no sizes of entries; those of descriptors and frames are
//! [`wire`](causeway_wire::vi)'s, the others what the fields take that an entry needs. The program's own code is not counted.

use causeway_wire::vi::{CONTROL_BYTES, DESCRIPTOR_ALIGN, FRAME_HEADER_BYTES, SEGMENT_BYTES};

use crate::settings::Settings;

/// A virtual interface: its connection, attributes, sequence numbers, clocks and the heads of its queues.
const INTERFACE_BYTES: u64 = 256;
/// A doorbell that was rung: the descriptor's address and handle, and its place among all.
const DOORBELL_BYTES: u64 = 16;
/// A page: its bus address.
const PAGE_BYTES: u64 = 8;
/// A region (base, length, first page, tag, rights), or a completion queue (address, handle, length, next entry, tag).
const OBJECT_BYTES: u64 = 32;
/// An outgoing frame besides its header: operation, source, buffer, stamp and state.
const FRAME_BYTES: u64 = 32;
/// A transfer that waits for its engine: addresses, length, stamp and purpose.
const TRANSFER_BYTES: u64 = 32;

/// Entries of one kind in a card's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUse {
    /// What the entries are, in the plural.
    pub what: &'static str,
    /// How many there are.
    pub count: u64,
    /// Bytes of each.
    pub each_bytes: u64,
}

impl MemoryUse {
    /// Bytes of all.
    pub fn bytes(&self) -> u64 {
        self.count.saturating_mul(self.each_bytes)
    }
}

impl Settings {
    /// What a card of these settings has in its memory.
    pub fn memory(&self) -> [MemoryUse; 9] {
        let limits = &self.limits;
        let queues = 2 * u64::from(limits.vis);
        let in_progress = queues.saturating_mul(limits.descriptors_per_queue.into());
        let posted = queues.saturating_mul(limits.posted_per_queue.into());
        let behind =
            u64::from(self.payload_bytes).max(u64::from(limits.segments) * SEGMENT_BYTES as u64);
        let descriptor_bytes = (CONTROL_BYTES as u64 + behind).next_multiple_of(DESCRIPTOR_ALIGN);
        let (buffers, frames) = (u64::from(limits.buffers), u64::from(limits.frames));
        let header_bytes = FRAME_HEADER_BYTES as u64;
        let shadows = match self.shadow_queues {
            true => posted,
            false => 0,
        };
        let entries = |what, count, each_bytes| MemoryUse {
            what,
            count,
            each_bytes,
        };
        [
            entries(
                "buffers",
                buffers,
                header_bytes + u64::from(self.frame_bytes),
            ),
            entries("descriptors in progress", in_progress, descriptor_bytes),
            entries("entries of shadow queues", shadows, descriptor_bytes),
            entries("doorbells", posted, DOORBELL_BYTES),
            entries("virtual interfaces", limits.vis.into(), INTERFACE_BYTES),
            entries(
                "frames on their way out",
                frames,
                header_bytes + FRAME_BYTES,
            ),
            entries(
                "transfers",
                in_progress.saturating_add(frames).saturating_add(buffers),
                TRANSFER_BYTES,
            ),
            entries(
                "pages of registered memory",
                limits.pages.into(),
                PAGE_BYTES,
            ),
            entries(
                "regions and completion queues",
                u64::from(limits.regions) + u64::from(limits.completion_queues),
                OBJECT_BYTES,
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Limits;

    fn bytes_of(settings: &Settings, what: &str) -> u64 {
        let memory = settings.memory();
        let mut found = memory.iter().filter(|entries| entries.what == what);
        found.next().expect("there are such").bytes()
    }

    #[test]
    fn buffers_and_descriptors_take_what_they_hold() {
        let settings = Settings {
            frame_bytes: 4_096,
            limits: Limits {
                vis: 10,
                buffers: 100,
                descriptors_per_queue: 4,
                posted_per_queue: 32,
                segments: 2,
                ..Limits::default()
            },
            ..Settings::default()
        };
        assert_eq!(bytes_of(&settings, "buffers"), 100 * (4_096 + 64));
        assert_eq!(bytes_of(&settings, "descriptors in progress"), 80 * 64);
        assert_eq!(bytes_of(&settings, "doorbells"), 640 * 16);
        assert_eq!(bytes_of(&settings, "entries of shadow queues"), 0);
        let shadowed = Settings {
            shadow_queues: true,
            payload_bytes: 128,
            ..settings
        };
        assert_eq!(bytes_of(&shadowed, "entries of shadow queues"), 640 * 192);
    }
}
