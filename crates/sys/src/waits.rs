//! A setting for tests in which nothing but events and real deadlines ends a wait.
//!
//! Some waits have a limit only to tidy up: a thread that has been idle for long ends, a buffer that is no longer
//! used is freed. When such a limit is over, the loop around the wait checks all its conditions again, and finds
//! the event that should have woken it: a lost wake-up shows as a short delay only. With the environment variable
//! `CAUSEWAY_WAITS=events`, waits have no such limits, so that a wake-up that is lost once the message layer has
//! stopped spinning is a hang. Limits that stay are part of an interface: what a caller asked for, retransmission,
//! liveness and connection deadlines.

use std::sync::OnceLock;
use std::time::Duration;

/// The variable's name.
pub const VARIABLE: &str = "CAUSEWAY_WAITS";

/// Whether this process was started in that setting.
pub fn by_events_only() -> bool {
    static SETTING: OnceLock<bool> = OnceLock::new();
    *SETTING.get_or_init(|| std::env::var_os(VARIABLE).is_some_and(|value| value == "events"))
}

/// The limit of a wait that is limited for tidiness only: none in that setting.
pub fn tidy_after(limit: Duration) -> Option<Duration> {
    (!by_events_only()).then_some(limit)
}
