//! The date, for things that end at a date. No duration is measured by it, because it may be set at
//! any time.

use std::time::{Duration, SystemTime};

/// Seconds since 1970 began; 0 before.
pub fn seconds_since_1970() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.as_ref().map_or(0, Duration::as_secs)
}
