//! The time of day, as files have it.

use std::time::{SystemTime, UNIX_EPOCH};

use causeway_wire::fs::Timestamp;

/// The present time; the epoch if the host's clock is before it.
pub fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanoseconds: since.subsec_nanos(),
    }
}
