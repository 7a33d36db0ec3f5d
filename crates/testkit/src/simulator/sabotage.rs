//! Weaknesses that are built in on purpose: they prove that the checks work.
//!
//! Each represents a mistake that a core could make; the network imitates it, so that the core
//! itself needs no switches. Datagrams are altered so that their checksums remain valid.

use causeway_wire::datagram::{Ack, Datagram, Segment, begin_segment, seal_with_check};

/// A mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// Acknowledges data that have not arrived, so that the sender does not send them again.
    AcknowledgeEverything,
    /// Takes the same data for new when it comes again.
    DeliverTwice,
    /// Does not check the checksum.
    IgnoreChecksum,
}

impl Sabotage {
    /// Changes a datagram; returns others that travel with it.
    pub(super) fn tamper(self, bytes: &mut Vec<u8>) -> Vec<Vec<u8>> {
        let original = bytes.clone();
        let Ok(Datagram::Plain(prefix, number, segment)) = Datagram::decode(&original) else {
            return Vec::new();
        };
        let mut changed = segment;
        let mut altered_data;
        let mut extra_offset = None;
        match self {
            Self::AcknowledgeEverything => {
                let Some(ack) = segment.ack else {
                    return Vec::new();
                };
                changed.ack = Some(Ack {
                    bitmap: [u64::MAX; 4],
                    ..ack
                });
            }
            Self::DeliverTwice => {
                if segment.data.len() < 100 {
                    return Vec::new();
                }
                extra_offset = Some(segment.offset + segment.data.len() as u64);
            }
            Self::IgnoreChecksum => {
                if segment.data.len() < 100 || number % 16 != 9 {
                    return Vec::new();
                }
                altered_data = segment.data.to_vec();
                if let Some(last) = altered_data.last_mut() {
                    *last ^= 1;
                }
                changed.data = &altered_data;
            }
        }
        let encode = |number: u64, segment: &Segment<'_>| {
            let mut bytes = Vec::new();
            begin_segment(prefix, number, &mut bytes);
            segment.encode_head(&mut bytes);
            bytes.extend_from_slice(segment.data);
            seal_with_check(0, &mut bytes);
            bytes
        };
        *bytes = encode(number, &changed);
        match extra_offset {
            // Far behind every number of its own, so that both are new.
            Some(offset) => vec![encode(number + 1, &Segment { offset, ..changed })],
            None => Vec::new(),
        }
    }
}
