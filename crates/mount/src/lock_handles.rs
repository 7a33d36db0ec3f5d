//! The handles of open files by which the owners of locks have requested them.
//!
//! When a process closes a file, the kernel names the owner of its locks. For locks that an open file itself owns (`F_OFD_SETLK`) the kernel
//! names none: these are released with the last close of the handle by which they were taken.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use causeway_wire::fs::ObjectId;

/// Handles, by file and owner. An open file has one handle. For a program that locks by several handles, the last one is kept; that suffices, as its
/// locks end whichever handle it closes.
#[derive(Debug, Default)]
pub(crate) struct LockHandles {
    known: Mutex<HashMap<ObjectId, HashMap<u64, u64>>>,
}

impl LockHandles {
    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectId, HashMap<u64, u64>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that an owner requests a lock by this handle.
    pub(crate) fn note(&self, object: ObjectId, owner: u64, handle: u64) {
        let mut known = self.lock();
        known.entry(object).or_default().insert(owner, handle);
    }

    /// Forgets an owner whose locks on a file end.
    pub(crate) fn forget_owner(&self, object: ObjectId, owner: u64) {
        let mut known = self.lock();
        if let Some(owners) = known.get_mut(&object) {
            owners.remove(&owner);
            if owners.is_empty() {
                known.remove(&object);
            }
        }
    }

    /// Forgets a handle that is closed. Returns the owners whose locks end with it.
    pub(crate) fn close(&self, object: ObjectId, handle: u64) -> Vec<u64> {
        let mut known = self.lock();
        let Some(owners) = known.get_mut(&object) else {
            return Vec::new();
        };
        let mut ended = Vec::new();
        owners.retain(|owner, by| {
            let ends = *by == handle;
            if ends {
                ended.push(*owner);
            }
            !ends
        });
        if owners.is_empty() {
            known.remove(&object);
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_go_with_their_last_handle_unless_they_went_before() {
        let (handles, file, other) = (LockHandles::default(), ObjectId(5), ObjectId(6));
        handles.note(file, 1, 10);
        handles.note(file, 2, 10);
        handles.note(file, 3, 11);
        handles.note(other, 1, 10);
        handles.forget_owner(file, 2);
        // The number is used again, for another open file.
        handles.note(file, 1, 12);
        assert!(handles.close(file, 10).is_empty());
        assert_eq!(handles.close(file, 12), [1]);
        assert_eq!(handles.close(file, 11), [3]);
        assert!(handles.close(file, 11).is_empty());
        assert_eq!(handles.close(other, 10), [1]);
        assert!(handles.lock().is_empty());
    }
}
