//! The time of day, as files and capabilities have it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use causeway_wire::fs::Timestamp;

/// The present time; the epoch if the host's clock is before it.
pub fn now() -> Timestamp {
    let since = since_1970();
    Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanoseconds: since.subsec_nanos(),
    }
}

/// The present time in the unit of capabilities' versions: microseconds since 1970.
pub(crate) fn micros_since_1970() -> u64 {
    micros(since_1970())
}

/// A duration in microseconds.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn since_1970() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}
