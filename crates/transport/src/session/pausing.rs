//! Pausing: input from the peer is processed up to the first packet, and kept from there on. The
//! driver stops reading, or stops granting the peer window, so that little has to be kept.

use causeway_wire::tcp::{HEADER_BYTES, Header, Kind};

/// See the module's page.
#[derive(Debug, Default)]
pub(super) struct Pausing {
    /// Packets are not delivered now.
    pub(super) is_on: bool,
    /// Input of the first connection, from the first packet that was not delivered on.
    held: Vec<u8>,
}

impl Pausing {
    /// Bytes that are kept.
    pub(super) fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// Whether a packet is held back: all later input is kept behind it.
    pub(super) fn is_stopped(&self) -> bool {
        self.is_on && !self.held.is_empty()
    }

    /// Whether there is kept input to process.
    pub(super) fn has_held(&self) -> bool {
        !self.is_on && !self.held.is_empty()
    }

    /// Takes the kept input.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    /// Whether input need not be searched for packets.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        !self.is_on && self.held.is_empty()
    }

    /// Keeps input between two frames, or behind `begun` of one, if it is behind a packet that is
    /// not to be delivered now, or contains one. Returns whether it does.
    pub(super) fn hold_back(&mut self, begun: &[u8], bytes: &[u8]) -> bool {
        let is_held = !self.held.is_empty() || brings_packet(begun, bytes);
        if is_held {
            self.held.extend_from_slice(bytes);
        }
        is_held
    }
}

/// Whether the frame that begins with these bytes is a packet, as far as can be seen.
fn brings_packet(begun: &[u8], bytes: &[u8]) -> bool {
    if begun.len() + bytes.len() < HEADER_BYTES {
        return false;
    }
    let mut header = [0; HEADER_BYTES];
    for (to, from) in header.iter_mut().zip(begun.iter().chain(bytes)) {
        *to = *from;
    }
    Header::decode(&header).is_ok_and(|header| match header.kind {
        Kind::Packet => true,
        Kind::PutEnd => header.flag,
        _ => false,
    })
}
