//! The objects of which the kernel has inodes, as far as it can be told: it may have those for which it was given more names than it has forgotten.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use causeway_wire::fs::ObjectId;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Inodes(Mutex<HashMap<ObjectId, Inode>>);

#[derive(Debug, Default)]
struct Inode {
    /// Names that the kernel was given and has not forgotten.
    names: u64,
    /// The kernel has made a request about it since it has last forgotten any.
    is_proven: bool,
    /// The kernel has asked for an access control list, which it may keep.
    keeps_list: bool,
    /// Bytes of a file in whose pages the kernel may have set zeros behind the end.
    tail: Option<Range<u64>>,
}

/// What the kernel has of an object of which it is about to be given a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Given {
    /// It can have no inode.
    pub(crate) is_new: bool,
    /// It has an inode: as it has made a request about the object, it has processed the reply that told of it.
    pub(crate) is_known: bool,
    /// Beside attributes, it may keep an access control list.
    pub(crate) keeps_list: bool,
}

impl Inodes {
    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectId, Inode>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kernel is about to be given a name of an object.
    pub(crate) fn give(&self, object: ObjectId) -> Given {
        let mut inodes = self.lock();
        let inode = inodes.entry(object).or_default();
        inode.names += 1;
        Given {
            is_new: inode.names == 1 && object != ObjectId::ROOT,
            is_known: inode.is_proven,
            keeps_list: inode.keeps_list,
        }
    }

    /// The kernel was not given a name after all.
    pub(crate) fn take_back(&self, object: ObjectId) {
        let mut inodes = self.lock();
        if let Some(inode) = inodes.get_mut(&object) {
            inode.names = inode.names.saturating_sub(1);
            if inode.names == 0 {
                inodes.remove(&object);
            }
        }
    }

    /// The kernel has forgotten as many names of an object, with an inode. Calls `then`, as it may have no other inode yet.
    pub(crate) fn forget(&self, object: ObjectId, count: u64, then: impl FnOnce()) {
        let mut inodes = self.lock();
        let Some(inode) = inodes.get_mut(&object) else {
            return;
        };
        inode.names = inode.names.saturating_sub(count);
        inode.is_proven = false;
        if inode.names == 0 {
            inodes.remove(&object);
        }
        then();
    }

    /// The kernel has made a request about an object. Calls `then` unless it has forgotten the object since.
    pub(crate) fn note_request(&self, object: ObjectId, then: impl FnOnce()) {
        let mut inodes = self.lock();
        let inode = inodes.get_mut(&object);
        if object == ObjectId::ROOT || inode.is_some() {
            then();
        }
        if let Some(inode) = inode {
            inode.is_proven = true;
        }
    }

    /// The kernel is about to get content of a file that ends within these bytes.
    pub(crate) fn note_tail(&self, object: ObjectId, tail: Range<u64>) {
        if let Some(inode) = self.lock().get_mut(&object) {
            inode.tail = Some(match &inode.tail {
                Some(known) => known.start.min(tail.start)..known.end.max(tail.end),
                None => tail,
            });
        }
    }

    /// Returns where the pages are that the kernel is to drop before it learns that a file has grown.
    pub(crate) fn take_tail(&self, object: ObjectId) -> Option<Range<u64>> {
        self.lock().get_mut(&object)?.tail.take()
    }

    /// The kernel is about to get an access control list of an object.
    pub(crate) fn note_list(&self, object: ObjectId) {
        if let Some(inode) = self.lock().get_mut(&object) {
            inode.keeps_list = true;
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
        let given = |is_new, is_known, keeps_list| Given {
            is_new,
            is_known,
            keeps_list,
        };
        assert!(!is_known() && !forgets(1));
        assert_eq!(inodes.give(object), given(true, false, false));
        assert_eq!(inodes.give(object), given(false, false, false));
        inodes.take_back(object);
        assert!(is_known());
        inodes.note_list(object);
        assert_eq!(inodes.give(object), given(false, true, true));
        // What it has forgotten may have been the inode, and what is left a name on its way.
        assert!(forgets(1));
        assert_eq!(inodes.give(object), given(false, false, true));
        assert!(forgets(2) && !is_known());
        assert_eq!(inodes.give(object), given(true, false, false));
        inodes.take_back(object);
        assert!(!is_known());
    }

    #[test]
    fn the_ends_of_a_file_are_taken_together_and_forgotten_with_it() {
        let inodes = Inodes::default();
        let object = ObjectId(7);
        inodes.note_tail(object, 1..2);
        assert_eq!(inodes.take_tail(object), None);
        inodes.give(object);
        for tail in [300..400, 100..200, 150..350] {
            inodes.note_tail(object, tail);
        }
        assert_eq!(inodes.take_tail(object), Some(100..400));
        assert_eq!(inodes.take_tail(object), None);
        inodes.note_tail(object, 5..6);
        inodes.forget(object, 1, || ());
        inodes.give(object);
        assert_eq!(inodes.take_tail(object), None);
    }

    #[test]
    fn the_kernel_always_has_the_root() {
        let inodes = Inodes::default();
        assert!(!inodes.give(ObjectId::ROOT).is_new);
        inodes.forget(ObjectId::ROOT, 1, || ());
        let mut known = false;
        inodes.note_request(ObjectId::ROOT, || known = true);
        assert!(known);
    }
}
