//! The objects for which a metadata server has given out capabilities that may still be good, and their permissions at that time.
//!
//! Only these capabilities must be revoked, and only when some user has fewer rights than before: most changes of permissions concern files that
//! no client has open, or take no right away.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use causeway_wire::fs::{Acl, Node, ObjectId};

/// Most objects that are kept, in each of two generations.
const MOST: usize = 1 << 16;
/// The bits for reading and writing, of the group and of others. The owner may always read and
/// write.
const RIGHTS: u16 = 0o066;

/// The attributes of an object on which its users' rights depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Permissions {
    mode: u16,
    uid: u32,
    gid: u32,
    /// A hash of the entries of an access control list that the mode does not contain; 0 without a list.
    acl: u64,
}

impl Permissions {
    pub(super) fn of(node: &Node) -> Self {
        let attributes = &node.attributes;
        let acl = node.acl.as_deref().map_or(0, digest);
        // The mask of an access control list limits all its named users and groups, so all of its bits count.
        let bits = if acl == 0 { RIGHTS } else { 0o077 };
        Self {
            mode: attributes.mode & bits,
            uid: attributes.uid,
            gid: attributes.gid,
            acl,
        }
    }

    /// Whether no user has fewer rights with `later` than with `self`.
    fn are_within(self, later: Self) -> bool {
        (self.uid, self.gid, self.acl) == (later.uid, later.gid, later.acl)
            && match self.acl {
                0 => self.mode & !later.mode == 0,
                // With a list, any change of the mode counts: its effect on a user depends on the other entries.
                _ => self.mode == later.mode,
            }
    }
}

fn digest(acl: &Acl) -> u64 {
    let mut digest = [0; 8];
    let named = acl.clone().with_mode(0).to_xattr();
    digest.copy_from_slice(&blake3::hash(&named).as_bytes()[..8]);
    u64::from_le_bytes(digest).max(1)
}

/// For each object, the permissions by which all of its capabilities were given out; `None` if these differ.
type Generation = HashMap<ObjectId, Option<Permissions>>;

/// See the module's page.
#[derive(Debug)]
pub(super) struct Given {
    /// For how long a capability may be good.
    lifetime: Duration,
    /// Until then, any object may have capabilities of which the server has no record.
    any_until: Option<Instant>,
    recent: Generation,
    /// Objects whose capabilities were given out before `since`.
    older: Generation,
    since: Instant,
}

impl Given {
    /// The record of a server that starts: its earlier run may have given capabilities out.
    pub(super) fn new(lifetime: Duration, now: Instant) -> Self {
        Self {
            lifetime,
            any_until: Some(now + lifetime),
            recent: Generation::new(),
            older: Generation::new(),
            since: now,
        }
    }

    /// Notes that a capability of an object with these permissions is given out.
    pub(super) fn note(&mut self, object: ObjectId, permissions: Permissions, now: Instant) {
        self.pass(now);
        if self.recent.len() >= MOST && !self.recent.contains_key(&object) {
            self.any_until = Some(now + self.lifetime);
            self.recent.clear();
            self.older.clear();
        }
        let permissions = Some(permissions);
        let of_all = [&self.recent, &self.older]
            .iter()
            .all(|noted| noted.get(&object).is_none_or(|known| *known == permissions));
        self.recent.insert(object, permissions.filter(|_| of_all));
    }

    /// Whether a capability of the object may be good that permits more than these permissions do.
    pub(super) fn may_exceed(
        &mut self,
        object: ObjectId,
        later: Permissions,
        now: Instant,
    ) -> bool {
        self.pass(now);
        self.any_until.is_some()
            || [&self.recent, &self.older].iter().any(|noted| {
                let given = noted.get(&object);
                given.is_some_and(|given| given.is_none_or(|given| !given.are_within(later)))
            })
    }

    /// Notes that all capabilities of the object that were given out have ended.
    pub(super) fn ended(&mut self, object: ObjectId) {
        self.recent.remove(&object);
        self.older.remove(&object);
    }

    fn pass(&mut self, now: Instant) {
        self.any_until = self.any_until.filter(|until| *until > now);
        let age = now.saturating_duration_since(self.since);
        if age < self.lifetime {
            return;
        }
        self.older = std::mem::take(&mut self.recent);
        if age >= 2 * self.lifetime {
            self.older.clear();
        }
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(60);

    fn permissions(mode: u16, uid: u32, gid: u32) -> Permissions {
        Permissions {
            mode: mode & RIGHTS,
            uid,
            gid,
            acl: 0,
        }
    }

    #[test]
    fn objects_are_known_as_long_as_their_capabilities_are_good() {
        let start = Instant::now();
        let mut given = Given::new(LIFETIME, start);
        let [one, two] = [ObjectId(1), ObjectId(2)];
        let (wide, narrow) = (permissions(0o666, 1, 1), permissions(0o600, 1, 1));
        assert!(given.may_exceed(two, narrow, start), "of an earlier run");
        let later = start + LIFETIME;
        given.note(one, wide, later - Duration::from_secs(1));
        assert!(!given.may_exceed(two, narrow, later) && given.may_exceed(one, narrow, later));
        let late = later + LIFETIME - Duration::from_secs(2);
        assert!(given.may_exceed(one, narrow, late));
        assert!(!given.may_exceed(one, narrow, later + 2 * LIFETIME));
        // With more objects than are kept, any object may have capabilities.
        for object in 0..=MOST as u64 {
            given.note(ObjectId(object + 10), wide, later + 2 * LIFETIME);
        }
        assert!(given.may_exceed(two, narrow, later + 2 * LIFETIME));
        assert!(!given.may_exceed(two, narrow, later + 3 * LIFETIME));
    }

    #[test]
    fn capabilities_exceed_what_takes_a_right_from_anybody() {
        let start = Instant::now();
        let mut given = Given::new(LIFETIME, start);
        let now = start + LIFETIME;
        let object = ObjectId(1);
        given.note(object, permissions(0o644, 5, 6), now);
        for (mode, uid, gid, exceeds) in [
            (0o644, 5, 6, false),
            (0o666, 5, 6, false),
            (0o755, 5, 6, false),
            (0o444, 5, 6, false),
            (0o640, 5, 6, true),
            (0o604, 5, 6, true),
            (0o666, 4, 6, true),
            (0o666, 5, 4, true),
        ] {
            let later = permissions(mode, uid, gid);
            assert_eq!(given.may_exceed(object, later, now), exceeds, "{later:?}");
        }
        // Another access control list may permit less to any user.
        given.ended(object);
        let listed = Permissions {
            acl: 7,
            ..permissions(0o660, 5, 6)
        };
        given.note(object, listed, now);
        assert!(!given.may_exceed(object, listed, now));
        for later in [
            permissions(0o666, 5, 6),
            Permissions { acl: 8, ..listed },
            Permissions {
                mode: 0o066,
                ..listed
            },
        ] {
            assert!(given.may_exceed(object, later, now));
        }
        // Capabilities were given out before and after a change, in either order and over generations.
        for (first, second) in [(0o600, 0o666), (0o666, 0o600)] {
            given.ended(object);
            assert!(!given.may_exceed(object, permissions(0o600, 5, 6), now));
            given.note(object, permissions(first, 5, 6), now);
            given.note(object, permissions(second, 5, 6), now + LIFETIME);
            assert!(given.may_exceed(object, permissions(0o600, 5, 6), now + LIFETIME));
        }
    }
}
