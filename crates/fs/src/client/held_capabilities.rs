//! The capabilities that a client holds.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use causeway_wire::fs::{Capability, MAC_BYTES, ObjectId, Rights};

use crate::capability_key::CapabilityKey;

/// Capabilities that are kept, in each of two generations; others are asked for again.
const MOST: usize = 4096;
/// How long what a metadata server makes for itself is good.
const OWN_LIFETIME: Duration = Duration::from_secs(60);

/// What a capability is for, to a client: the object (0 for all) and the user.
type Of = (ObjectId, u32);

/// The capabilities of a client.
#[derive(Debug, Default)]
pub(super) struct Capabilities {
    /// Of a metadata server's own client, which makes what it needs.
    pub(super) key: Option<CapabilityKey>,
    /// Until then the metadata server is not asked: it gives none.
    pub(super) none_until: Option<Instant>,
    recent: HashMap<Of, Held>,
    older: HashMap<Of, Held>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) capability: Capability,
    /// From then on a call renews it first.
    renew_at: Instant,
    /// From then on it is worth nothing.
    ends_at: Instant,
}

impl Capabilities {
    /// Keeps one that came with the reply to a request that was sent at this instant.
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

    pub(super) fn find(&self, of: Of) -> Option<&Held> {
        self.recent.get(&of).or_else(|| self.older.get(&of))
    }

    pub(super) fn forget(&mut self, of: Of) {
        self.recent.remove(&of);
        self.older.remove(&of);
    }

    /// Whether none is there that has one of these rights for a while longer; and whether the one that is there is worth nothing.
    pub(super) fn lacks(&self, of: Of, rights: Rights, now: Instant) -> (bool, bool) {
        match self.find(of) {
            Some(held) if rights == Rights::NONE || held.capability.rights.has_any(rights) => {
                (held.renew_at <= now, held.ends_at <= now)
            }
            _ => (true, true),
        }
    }
}

/// The version of what is made now: microseconds since 1970.
fn version() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_micros()).unwrap_or(u64::MAX)
}

/// What a metadata server's own client shows.
pub(super) fn own(key: &CapabilityKey, object: ObjectId, uid: u32, client: u128) -> Capability {
    let mut capability = Capability {
        object,
        rights: Rights::OPERATE.with(Rights::SERVE),
        uid,
        node: 0,
        client,
        version: version(),
        lifetime_ms: OWN_LIFETIME.as_millis() as u32,
        servers: u64::MAX,
        mac: [0; MAC_BYTES],
    };
    key.sign(&mut capability);
    capability
}
