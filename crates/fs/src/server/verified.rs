//! The capabilities that a server has verified lately: a client that presents one again costs a comparison and no hash.
//!
//! Only capabilities that the key has proven are kept, and every compared field was authenticated. Any end of capabilities empties the memory.

use std::time::{Duration, Instant};

use causeway_wire::fs::Capability;

use crate::capability_key::proves;

/// Most capabilities that are kept, each in one place: another one with the same place replaces it.
const PLACES: usize = 256;
/// How long a capability counts as verified: after that it is verified again, because the clock may have been set.
const LONGEST: Duration = Duration::from_secs(1);
/// Spreads neighbouring numbers over all bits: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// See the module's page.
#[derive(Debug)]
pub(super) struct Verified {
    places: Vec<Option<VerifiedStamp>>,
    /// Only entries with this number count.
    present: u64,
}

#[derive(Debug)]
struct VerifiedStamp {
    capability: Capability,
    present: u64,
    until: Instant,
}

impl Default for Verified {
    fn default() -> Self {
        Self {
            places: (0..PLACES).map(|_| None).collect(),
            present: 0,
        }
    }
}

impl Verified {
    /// Whether exactly this capability was verified, and is still good.
    pub(super) fn has(&self, capability: &Capability, now: Instant) -> bool {
        self.places[place(capability)].as_ref().is_some_and(|seen| {
            seen.present == self.present
                && now < seen.until
                && is_same(&seen.capability, capability)
        })
    }

    /// Notes that a capability was verified, and is good for `left`.
    pub(super) fn note(&mut self, capability: &Capability, now: Instant, left: Duration) {
        self.places[place(capability)] = Some(VerifiedStamp {
            capability: capability.clone(),
            present: self.present,
            until: now + left.min(LONGEST),
        });
    }

    /// Has every capability verified again: some may have ended.
    pub(super) fn forget(&mut self) {
        self.present += 1;
    }
}

fn place(capability: &Capability) -> usize {
    let mixed = capability.object.0 ^ capability.client as u64 ^ u64::from(capability.uid);
    (mixed.wrapping_mul(SPREAD) >> 32) as usize % PLACES
}

/// Whether two capabilities agree in all fields that are authenticated, and in the compared bytes of the code: those are compared in constant time.
fn is_same(one: &Capability, other: &Capability) -> bool {
    let Capability {
        object,
        rights,
        uid,
        node,
        client,
        version,
        lifetime_ms,
        servers,
        mac,
    } = other;
    one.object == *object
        && one.rights == *rights
        && one.uid == *uid
        && one.node == *node
        && one.client == *client
        && one.version == *version
        && one.lifetime_ms == *lifetime_ms
        && one.servers == *servers
        && proves(&one.mac, mac)
}

#[cfg(test)]
mod tests {
    use causeway_wire::fs::ObjectId;

    use super::*;
    use crate::capability_key::tests::{CHANGES, capability};

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn only_the_very_capability_that_was_verified_is_known() {
        let (mut verified, now) = (Verified::default(), Instant::now());
        let good = capability();
        assert!(!verified.has(&good, now));
        verified.note(&good, now, SECOND);
        assert!(verified.has(&good, now));
        // An altered capability may have the same place as the verified one.
        let in_its_place: [fn(&mut Capability); 3] = [
            |c| (c.object.0, c.client) = (c.object.0 ^ 1, c.client ^ 1),
            |c| (c.uid, c.client) = (c.uid ^ 1, c.client ^ 1),
            |c| c.client += 1 << 64,
        ];
        for (index, change) in in_its_place.iter().chain(&CHANGES).enumerate() {
            let mut other = good.clone();
            change(&mut other);
            assert!(!verified.has(&other, now), "change {index}");
        }
    }

    #[test]
    fn what_is_known_is_looked_at_again_when_it_expires_or_another_ends_and_once_a_second() {
        let (mut verified, now) = (Verified::default(), Instant::now());
        let good = capability();
        verified.note(&good, now, SECOND / 2);
        assert!(verified.has(&good, now + SECOND / 4) && !verified.has(&good, now + SECOND / 2));
        verified.note(&good, now, 60 * SECOND);
        assert!(!verified.has(&good, now + LONGEST));
        verified.forget();
        assert!(!verified.has(&good, now));
        verified.note(&good, now, SECOND);
        assert!(verified.has(&good, now));
    }

    #[test]
    fn any_number_of_them_takes_the_same_room() {
        let (mut verified, now) = (Verified::default(), Instant::now());
        let numbered = |object| Capability {
            object: ObjectId(object),
            ..capability()
        };
        (0..10 * PLACES as u64).for_each(|object| verified.note(&numbered(object), now, SECOND));
        assert_eq!(verified.places.len(), PLACES);
        let known = (0..10 * PLACES as u64).filter(|object| verified.has(&numbered(*object), now));
        assert!((PLACES / 2..=PLACES).contains(&known.count()));
    }
}
