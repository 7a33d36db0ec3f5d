//! Whether an earlier attempt of a write may have been stored, and since when: the server needs that before it stores a
//! repeated write, which would otherwise overwrite bytes that other clients have written since.

use std::time::{Duration, Instant};

use causeway_bmi::{OpError, PeerError};
use causeway_wire::fs::Moment;

/// The server's moments are rounded down by this much.
const SLACK: Duration = Duration::from_millis(1);

/// The attempts of one write that have ended without a reply.
#[derive(Debug, Default)]
pub(super) struct Unacknowledged {
    /// When the first attempt was sent that may have reached the server.
    first: Option<Instant>,
    /// The same by the server's clock, for the next attempt.
    moment: Option<Moment>,
}

impl Unacknowledged {
    /// Notes that an attempt that was sent at `sent` ended without a reply.
    pub(super) fn note(&mut self, sent: Instant, error: &OpError) {
        match may_have_arrived(error) {
            true => self.note_partial(sent),
            false => self.moment = None,
        }
    }

    /// Notes that an attempt was refused in the middle, so that a part of it may have been stored.
    pub(super) fn note_partial(&mut self, sent: Instant) {
        self.moment = None;
        self.first.get_or_insert(sent);
    }

    /// Whether the client must ask for the server's clock before the next attempt.
    pub(super) fn wants_clock(&self) -> bool {
        self.first.is_some() && self.moment.is_none()
    }

    /// Notes that the server's clock showed `clock` at `now` or earlier.
    pub(super) fn set_clock(&mut self, clock: Moment, now: Instant) {
        self.moment = self.first.map(|first| {
            let age = now.saturating_duration_since(first) + SLACK;
            let age = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
            Moment {
                at: clock.at.saturating_sub(age),
                ..clock
            }
        });
    }

    /// When the first attempt was sent that may have reached the server, or an earlier moment, by the server's clock.
    pub(super) fn moment(&self) -> Option<Moment> {
        self.moment
    }
}

/// Whether the server may have received a request whose send ended like this.
fn may_have_arrived(error: &OpError) -> bool {
    match error {
        OpError::Peer { cause, .. } => !matches!(
            cause,
            PeerError::Refused(_)
                | PeerError::Unauthorised(_)
                | PeerError::Full(_)
                | PeerError::Exhausted(_)
        ),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(cause: PeerError) -> OpError {
        OpError::Peer {
            address: "shm://somewhere".to_owned(),
            cause,
        }
    }

    #[test]
    fn the_first_sending_that_may_have_arrived_counts_by_the_servers_clock() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let clock = Moment {
            boot: 1,
            at: 9_000_000_000,
        };
        let mut unacknowledged = Unacknowledged::default();
        unacknowledged.note(start, &ended(PeerError::Refused("a stranger".to_owned())));
        assert!(!unacknowledged.wants_clock());
        unacknowledged.note(after(5), &ended(PeerError::Broken("reset".to_owned())));
        unacknowledged.note(
            after(7),
            &ended(PeerError::Refused("a stranger".to_owned())),
        );
        assert!(unacknowledged.wants_clock());
        unacknowledged.set_clock(clock, after(15));
        let since = Moment {
            boot: 1,
            at: 9_000_000_000 - 11_000_000,
        };
        assert_eq!(unacknowledged.moment(), Some(since));
        // The next attempt may reach a host that was rebooted.
        unacknowledged.note(after(16), &ended(PeerError::Closed));
        assert!(unacknowledged.wants_clock());
    }
}
