//! The capabilities that a client holds.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use causeway_wire::fs::{Capability, ObjectId, Rights};

use crate::capability_key::Signer;

/// Most capabilities that are kept, in each of two generations; others are requested again.
const MOST: usize = 4096;
/// For how long a metadata server that has given no capability is not asked again.
const NONE_GIVEN: Duration = Duration::from_secs(60);

/// The key of a client's capability: the object (0 for all) and the user.
type Of = (ObjectId, u32);

/// The capabilities of a client.
#[derive(Debug, Default)]
pub(super) struct Capabilities {
    /// The signer of a metadata server's own client, which makes the capabilities that it needs.
    pub(super) signer: Option<Signer>,
    /// Until then the metadata server is not asked, because it gives none. `None` if it is believed to give some.
    pub(super) none_until: Option<Instant>,
    recent: HashMap<Of, Held>,
    older: HashMap<Of, Held>,
}

/// A capability that the client has.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) capability: Capability,
    /// From this time on a call renews the capability first.
    renew_at: Instant,
    /// From this time on the capability is not good any more.
    ends_at: Instant,
}

impl Held {
    /// Whether the capability has one of these rights, or none is needed.
    pub(super) fn gives(&self, rights: Rights) -> bool {
        rights == Rights::NONE || self.capability.rights.has_any(rights)
    }

    /// Whether a call has to renew the capability first.
    pub(super) fn is_to_renew(&self, now: Instant) -> bool {
        self.renew_at <= now
    }
}

impl Capabilities {
    /// Keeps a capability that came with the reply to a request that was sent at `sent`.
    pub(super) fn keep(&mut self, uid: u32, capability: Capability, sent: Instant) {
        let lifetime = Duration::from_millis(capability.lifetime_ms.into());
        let held = Held {
            renew_at: sent + lifetime * 3 / 4,
            ends_at: sent + lifetime,
            capability,
        };
        if self.recent.len() >= MOST {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert((held.capability.object, uid), held);
    }

    /// Whether the metadata server may be asked for capabilities at this time.
    pub(super) fn are_asked_for(&self, now: Instant) -> bool {
        self.signer.is_none() && self.none_until.is_none_or(|until| until <= now)
    }

    /// Whether the metadata server gave no capability when it was last asked. Then it is asked whether it gives some by now, and calls go on
    /// without one if it does not reply.
    pub(super) fn were_not_given(&self) -> bool {
        self.none_until.is_some()
    }

    /// Notes that the metadata server gives none, or could not be asked whether it does by now.
    pub(super) fn go_on_without(&mut self, now: Instant) {
        self.none_until = Some(now + NONE_GIVEN);
    }

    pub(super) fn find(&self, of: Of) -> Option<&Held> {
        self.recent.get(&of).or_else(|| self.older.get(&of))
    }

    pub(super) fn forget(&mut self, of: Of) {
        self.recent.remove(&of);
        self.older.remove(&of);
    }

    /// Whether no capability is kept that has one of these rights for a while longer; and whether the one that is kept is not good any more.
    pub(super) fn lacks(&self, of: Of, rights: Rights, now: Instant) -> (bool, bool) {
        match self.find(of) {
            Some(held) if held.gives(rights) => (held.is_to_renew(now), held.ends_at <= now),
            _ => (true, true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metadata_server_that_gives_none_is_asked_again_later_and_calls_go_on_meanwhile() {
        let now = Instant::now();
        let mut capabilities = Capabilities::default();
        assert!(capabilities.are_asked_for(now) && !capabilities.were_not_given());
        capabilities.go_on_without(now);
        assert!(!capabilities.are_asked_for(now));
        let later = now + NONE_GIVEN;
        assert!(capabilities.are_asked_for(later) && capabilities.were_not_given());
        // The metadata server does not reply: the pause before the next attempt is as long as the last one.
        capabilities.go_on_without(later);
        assert!(!capabilities.are_asked_for(later) && capabilities.were_not_given());
    }
}
