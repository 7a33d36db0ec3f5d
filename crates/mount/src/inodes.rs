//! The objects of which the kernel has inodes, as far as it can be told: it may have those for which it was given more names than it has forgotten.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use causeway_wire::fs::ObjectId;

use crate::file_end::FileEnd;

/// Longest time between two changes of an object by other clients that follow each other closely, and after the last one of these.
const CLOSE: Duration = Duration::from_millis(100);
/// Others change an object all the time if so many changes follow each other closely. One that was just finished, such as a copy, is read again and again from then on.
const MANY_CHANGES: u32 = 8;

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
    end: FileEnd,
    /// When another client last changed the object, and how many changes followed each other closely then.
    changed: Option<(Instant, u32)>,
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

    /// Calls `with` with what the kernel may know of where a file ends, if it has an inode of the file.
    pub(crate) fn with_end<T>(
        &self,
        file: ObjectId,
        with: impl FnOnce(&mut FileEnd) -> T,
    ) -> Option<T> {
        self.lock().get_mut(&file).map(|inode| with(&mut inode.end))
    }

    /// Another client changes an object of which this mount has cached the attributes.
    pub(crate) fn note_recall(&self, object: ObjectId, now: Instant) {
        if let Some(inode) = self.lock().get_mut(&object) {
            let last = inode.changed.filter(|(at, _)| now < *at + CLOSE);
            let count = last.map_or(0, |(_, count)| count);
            inode.changed = Some((now, count.saturating_add(1)));
        }
    }

    /// Whether others have just been changing an object all the time.
    pub(crate) fn is_contended(&self, object: ObjectId, now: Instant) -> bool {
        let changed = self.lock().get(&object).and_then(|inode| inode.changed);
        changed.is_some_and(|(at, count)| count >= MANY_CHANGES && now < at + CLOSE)
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
    fn the_end_of_a_file_is_known_while_its_inode_is() {
        let inodes = Inodes::default();
        let object = ObjectId(7);
        assert_eq!(inodes.with_end(object, |end| end.tell(5)), None);
        inodes.give(object);
        let reads = || inodes.with_end(object, |end| end.end_read(end.begin_read(), 5..6));
        let grows = || inodes.with_end(object, |end| end.tell(6).is_some());
        assert_eq!((reads(), grows()), (Some(true), Some(true)));
        inodes.forget(object, 1, || ());
        inodes.give(object);
        assert_eq!(grows(), Some(false));
    }

    #[test]
    fn objects_are_contended_while_others_change_them_often() {
        let inodes = Inodes::default();
        let object = ObjectId(7);
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let is_contended = |milliseconds| inodes.is_contended(object, at(milliseconds));
        inodes.note_recall(object, at(0));
        assert!(!is_contended(0), "the kernel has no inode");
        inodes.give(object);
        assert!(!is_contended(0));
        for change in 0..7 {
            inodes.note_recall(object, at(99 * change));
            assert!(!is_contended(99 * change), "after {change}");
        }
        inodes.note_recall(object, at(693));
        assert!(is_contended(792) && !is_contended(793));
        inodes.note_recall(object, at(793));
        assert!(!is_contended(793), "the first one after a pause");
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
