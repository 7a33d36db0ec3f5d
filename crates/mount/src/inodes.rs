//! The objects of which the kernel has inodes, as far as it can be told: it may have those for which it was given more names than it has forgotten.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use causeway_wire::fs::ObjectId;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Inodes(Mutex<HashMap<ObjectId, u64>>);

impl Inodes {
    /// The kernel is about to be given a name of an object. Returns whether it can have none of the object's.
    pub(crate) fn give(&self, object: ObjectId) -> bool {
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = given.entry(object).or_default();
        *count += 1;
        *count == 1 && object != ObjectId::ROOT
    }

    /// The kernel has forgotten as many names of an object. Calls `then` if it has no inode of it any more.
    pub(crate) fn forget(&self, object: ObjectId, count: u64, then: impl FnOnce()) {
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(left) = given.get_mut(&object) else {
            return;
        };
        *left = left.saturating_sub(count);
        if *left == 0 {
            given.remove(&object);
            then();
        }
    }

    /// The kernel has made a request about an object. Calls `then` unless it has forgotten the object since.
    pub(crate) fn note_request(&self, object: ObjectId, then: impl FnOnce()) {
        let given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if object == ObjectId::ROOT || given.contains_key(&object) {
            then();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inode_is_known_while_names_of_it_are() {
        let inodes = Inodes::default();
        let object = ObjectId(7);
        let is_known = || {
            let mut known = false;
            inodes.note_request(object, || known = true);
            known
        };
        let forgets = |count| {
            let mut forgotten = false;
            inodes.forget(object, count, || forgotten = true);
            forgotten
        };
        assert!(!is_known() && !forgets(1));
        assert!(inodes.give(object));
        assert!(!inodes.give(object));
        assert!(is_known());
        assert!(!forgets(1) && is_known());
        assert!(!inodes.give(object), "the kernel may still have it");
        assert!(forgets(2) && !is_known());
        assert!(inodes.give(object));
    }

    #[test]
    fn the_kernel_always_has_the_root() {
        let inodes = Inodes::default();
        assert!(!inodes.give(ObjectId::ROOT));
        inodes.forget(ObjectId::ROOT, 1, || ());
        let mut known = false;
        inodes.note_request(ObjectId::ROOT, || known = true);
        assert!(known);
    }
}
