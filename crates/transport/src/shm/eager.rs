//! The size up to which a message is sent whole, through the ring.
//!
//! A message through the ring is copied twice, and the second copy fetches cache lines that the other processor has just written. A
//! message that is announced is copied once, by a system call. Which of the two takes less time depends on the machine:
//!
//! | machine | the system call takes | it copies, per ns | the process copies, per ns | both take as long for |
//! |---|---|---|---|---|
//! | Xeon | 0.55 µs | 42 bytes | 42 bytes | 14 KiB |
//! | EPYC, third generation | 1.4 µs | 45 bytes | 45 bytes | 33 to 45 KiB |
//! | EPYC, fifth generation | 0.95 µs | 16 bytes | 130 bytes | none: the ring is faster for every packet |

use causeway_sys::copy_costs::CopyCosts;

/// The limit if the costs are not known.
const USUAL_BYTES: usize = 14 << 10;

/// Shorter messages are sent through the ring on every machine: a measurement with a lower limit
/// was disturbed.
const LEAST_BYTES: usize = 8 << 10;

/// Messages of at most this many bytes are sent through the ring if they are in memory that the
/// peer maps. The peer would copy an announced message once, and without a system call; but its
/// announcement and its acknowledgement take as long as this many bytes in the ring.
pub(super) const MAPPED_BYTES: usize = 14 << 10;

/// A message through the ring takes as long as this many copies of it within a process (both
/// measured above).
pub(super) const COPIES: f64 = 2.65;

/// Bytes of a packet that are reserved for headers of the layers above.
const HEADROOM_BYTES: usize = 256;

/// Messages of at most this many bytes are sent through the ring on this machine, with packets of
/// at most `max_packet` bytes. `attach`: larger messages are copied by cross-memory attach.
pub(super) fn limit_for(attach: bool, max_packet: usize) -> usize {
    let costs = attach.then(CopyCosts::of_this_machine).flatten();
    limit(costs, max_packet - HEADROOM_BYTES)
}

fn limit(costs: Option<CopyCosts>, most: usize) -> usize {
    let Some(costs) = costs else {
        return USUAL_BYTES.min(most);
    };
    let more_per_byte = COPIES * costs.copy_byte - costs.attach_byte;
    match more_per_byte > 0.0 {
        // Too large values saturate.
        true => ((costs.attach_call / more_per_byte) as usize)
            .max(LEAST_BYTES)
            .min(most),
        false => most,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit_of(attach_call: f64, attach_byte: f64, copy_byte: f64) -> usize {
        let costs = CopyCosts {
            attach_call,
            attach_byte,
            copy_byte,
        };
        limit(Some(costs), 64 << 10)
    }

    #[test]
    fn the_limit_follows_the_prices() {
        assert_eq!(limit_of(550.0, 1.0 / 42.0, 1.0 / 42.0) >> 10, 13);
        assert_eq!(limit_of(1400.0, 1.0 / 45.0, 1.0 / 45.0) >> 10, 37);
        assert_eq!(limit_of(950.0, 1.0 / 16.0, 1.0 / 130.0), 64 << 10);
        assert_eq!(limit_of(1.0, 0.001, 1.0), LEAST_BYTES);
        assert_eq!(limit(None, 8 << 10), 8 << 10);
        assert_eq!(limit(None, 1 << 20), USUAL_BYTES);
    }
}
