//! What a large message costs by either way, measured while messages are moved: sent whole through the ring, where its sender copies
//! it in and its receiver out, or read from the sender's memory by a system call.
//!
//! While only one side sends, the two copies through the ring are made by two processors at the same time. While both sides send,
//! each processor makes both copies of as many bytes, so that the sum of the two counts; and one system call reads several messages.
//! So a message that waits for room while the peer's messages arrive is announced if reading takes less time a byte than the two copies together
//! (`docs/mpi-messages.md`, "Large messages in both directions").

use causeway_sys::copy_costs::CopyCosts;

use crate::blocking::Stopwatch;

/// Shorter messages are not announced: their receiver reads each by a system call of its own, as soon as the announcement arrives. A
/// transfer that is shorter, and the only one, is complete before the peer could help with it.
pub(super) const LARGE_BYTES: usize = 24 << 10;

/// Of so many copies one is timed.
const SAMPLED: u32 = 8;
/// The weight of a new sample is one part in so many.
const SMOOTHING: f64 = 8.0;
/// A sample counts as at most so many times what was known before: the process may have lost its processor during the copy.
const MOST: f64 = 4.0;

/// The smoothed time for a byte, in nanoseconds.
#[derive(Debug)]
struct Cost {
    /// Copies before the next one that is timed.
    left: u32,
    known: Option<f64>,
}

impl Default for Cost {
    /// The first copies touch pages that have no memory yet.
    fn default() -> Self {
        Self {
            left: SAMPLED - 1,
            known: None,
        }
    }
}

impl Cost {
    /// Begins a copy; returns a running stopwatch if it is to be measured.
    fn begin(&mut self) -> Option<Stopwatch> {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                None
            }
            None => {
                self.left = SAMPLED - 1;
                Some(Stopwatch::start())
            }
        }
    }

    fn note(&mut self, nanos: f64, bytes: usize) {
        let sample = nanos / bytes.max(1) as f64;
        self.known = Some(match self.known {
            None => sample,
            Some(known) => known + (sample.min(MOST * known) - known) / SMOOTHING,
        });
    }
}

/// Which of the costs is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Copying {
    /// Into the ring.
    In,
    /// Out of the peer's ring.
    Out,
    /// From the peer's memory, by a system call.
    Read,
}

/// See the module's page.
#[derive(Debug, Default)]
pub(super) struct Costs {
    by: [Cost; 3],
    /// The ring had no room for a large message, and no large message of the peer's has arrived since then.
    is_full: bool,
    /// One has arrived.
    both_send: bool,
}

impl Costs {
    /// Begins a copy of a large message; returns a running stopwatch if it is to be measured.
    pub(super) fn begin(&mut self, copying: Copying) -> Option<Stopwatch> {
        self.by[copying as usize].begin()
    }

    /// Ends a copy that is measured.
    pub(super) fn end(&mut self, copying: Copying, stopwatch: Stopwatch, bytes: usize) {
        self.by[copying as usize].note(stopwatch.read().as_nanos() as f64, bytes);
    }

    /// Notes that the ring has no room for a large message.
    pub(super) fn full(&mut self) {
        self.is_full = true;
        self.both_send = false;
    }

    /// Notes that a large message of the peer's has arrived through the ring.
    pub(super) fn arrived(&mut self) {
        self.both_send |= std::mem::take(&mut self.is_full);
    }

    /// Whether large messages that wait for room are to be announced.
    pub(super) fn announces(&self) -> bool {
        self.both_send && self.is_reading_faster(CopyCosts::of_this_machine())
    }

    /// `costs`: what reading takes as long as it was not measured.
    fn is_reading_faster(&self, costs: Option<CopyCosts>) -> bool {
        let [copied_in, copied_out, read] = [0, 1, 2].map(|at: usize| self.by[at].known);
        let expected = costs.map(|p| p.attach_byte + p.attach_call / LARGE_BYTES as f64);
        match (copied_in, copied_out, read.or(expected)) {
            (Some(copied_in), Some(copied_out), Some(read)) => read < copied_in + copied_out,
            _ => false,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn measured(times: [Option<f64>; 3]) -> Costs {
        let by = times.map(|known| Cost { left: 0, known });
        Costs {
            by,
            ..Costs::default()
        }
    }

    #[test]
    fn reading_is_compared_with_both_copies() {
        let costs = |byte: f64| CopyCosts {
            attach_call: 0.0,
            attach_byte: byte,
            copy_byte: 1.0,
        };
        let faster = |times, byte| measured(times).is_reading_faster(Some(costs(byte)));
        assert!(faster([Some(2.0), Some(2.0), None], 3.0));
        assert!(!faster([Some(2.0), Some(2.0), None], 5.0));
        assert!(!faster([Some(2.0), Some(2.0), Some(5.0)], 3.0));
        assert!(!faster([Some(2.0), None, None], 1.0), "not measured yet");
        assert!(!measured([Some(2.0), Some(2.0), None]).is_reading_faster(None));
    }

    #[test]
    fn both_send_if_messages_arrive_while_others_wait() {
        let mut costs = measured([Some(1e9), Some(1e9), Some(1.0)]);
        costs.arrived();
        assert!(!costs.announces(), "an exchange of single messages");
        costs.full();
        assert!(!costs.announces(), "only this side sends");
        costs.arrived();
        assert!(costs.announces());
        costs.full();
        assert!(!costs.announces(), "the peer may have stopped");
    }

    #[test]
    fn a_disturbed_copy_changes_little() {
        let mut cost = Cost::default();
        for _ in 0..10 {
            cost.note(1000.0, 1000);
        }
        cost.note(1e9, 1000);
        assert!(cost.known < Some(1.5), "{cost:?}");
    }

    #[test]
    fn one_of_several_copies_is_timed() {
        let mut cost = Cost::default();
        let timed = (0..80).filter(|_| cost.begin().is_some());
        assert_eq!(timed.count(), 80 / SAMPLED as usize);
    }
}
