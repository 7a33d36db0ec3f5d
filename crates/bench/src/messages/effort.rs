//! How often something is measured, and which sizes of messages are measured in which way.

/// Smallest message whose bandwidth is compared with copying: smaller copies stay in the innermost
/// cache and cannot be compared with messages.
pub(crate) const COPY_BYTES: u64 = 64 << 10;
/// Largest message whose rate is shown beside its bandwidth.
pub(crate) const RATE_BYTES: u64 = 4096;

/// Numbers of repetitions: enough for a measurement, and no more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Fewer repetitions: an impression, not a measurement.
    pub(crate) quick: bool,
}

impl Effort {
    /// Repetitions of something that moves `size` bytes, at most `most`.
    pub(crate) fn rounds(self, size: u64, most: u64) -> u64 {
        let bytes = if self.quick { 4 << 20 } else { 256 << 20 };
        let most = if self.quick { most / 20 } else { most };
        (bytes / size.max(1)).clamp(if self.quick { 5 } else { 16 }, most.max(5))
    }

    /// Number of round trips.
    pub(crate) fn echoes(self, method: &str, size: u64) -> u64 {
        self.rounds(size, if method == "shm" { 100_000 } else { 20_000 })
    }

    /// Number of round trips that are timed one by one: enough for a 99th percentile.
    pub(crate) fn samples(self, method: &str, size: u64) -> u64 {
        let (least, most) = if self.quick {
            (100, 1000)
        } else {
            (300, 20_000)
        };
        self.echoes(method, size).clamp(least, most)
    }

    /// Number of acknowledged windows of messages.
    pub(crate) fn windows(self, size: u64) -> u64 {
        self.rounds(size * window(size) as u64, 5000)
    }

    /// Number of bounces of a cache line.
    pub(crate) fn bounces(self) -> u64 {
        if self.quick { 20_000 } else { 200_000 }
    }
}

/// A size as `usize`. A size that does not fit cannot be allocated either.
pub(crate) fn in_memory(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

/// Number of messages in a window: enough to keep both sides busy, bounded in bytes.
pub(crate) fn window(size: u64) -> usize {
    usize::try_from(((16_u64 << 20) / size.max(1)).clamp(4, 64)).unwrap_or(4)
}
