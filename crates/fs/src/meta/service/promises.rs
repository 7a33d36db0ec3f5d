//! Which changes a loss of power must not undo once they are acknowledged.

use causeway_wire::fs::{Operation, Request, SetAttributes};
use causeway_wire::store::ObjectRecord;

use crate::meta::change::{SET_GID, SET_UID};
use crate::meta::query::{MODE_BITS, find_object};
use crate::meta::store::View;

/// Whether a synced file system's acknowledgement of the operation promises that it is durable; `state` is the one before it. Bytes that were
/// written, and the size that a file has with them, are promised by fsync, as with any file system, also of files whose content is beside their
/// metadata: fsync notices if the metadata server has lost power since, as with the I/O servers, also for attributes. Attributes are promised only if access is taken away: who relies on that,
/// and writes afterwards what others must not see, is not to find it undone.
pub(super) fn is_promised(state: &dyn View, operation: &Operation) -> bool {
    match operation {
        Operation::Extend { .. }
        | Operation::EndAppend { .. }
        | Operation::Filled { .. }
        | Operation::WriteStuffed { .. }
        | Operation::Append { .. } => false,
        Operation::SetAttributes { object, set } => match find_object(state, *object) {
            Ok(Some(record)) => takes_access_away(&record, set),
            _ => true,
        },
        _ => true,
    }
}

/// Whether somebody may have less access to an object once its attributes are set, or programs may run with fewer privileges; and whether its owner or
/// the distribution of its files changes.
fn takes_access_away(record: &ObjectRecord, set: &SetAttributes) -> bool {
    // Setting an owner or a mode may clear these.
    let has_privileges = record.mode & (SET_UID | SET_GID) != 0;
    let is_for_others = set.uid.is_some_and(|uid| uid != record.uid)
        || set.gid.is_some_and(|gid| gid != record.gid);
    let sets_access = set.mode.is_some() || set.uid.is_some() || set.gid.is_some();
    let removed = set.mode.map_or(0, |mode| record.mode & !mode & MODE_BITS);
    is_for_others || removed != 0 || (sets_access && has_privileges) || set.distribution.is_some()
}

/// Whether datafiles will be changed because of this, also in a relaxed file system: if power loss undid it,
/// truncation versions would be used twice, or a file would be stuffed again
/// whose old datafile exists.
pub(super) fn binds_datafiles(request: &Request) -> bool {
    matches!(
        request.operation,
        Operation::Truncate { .. } | Operation::Grow { .. } | Operation::BeginUnstuff { .. }
    )
}
