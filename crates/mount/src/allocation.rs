//! Punching and finding holes; reserving room.

use causeway_fs::client::Allocation;
use causeway_wire::fs::{Errno, ObjectId, Region};

use crate::attributes::{Failed, Outcome};
use crate::operations::Mounted;

/// The kinds of seek that the kernel passes on to the file system.
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

impl Mounted {
    /// Reserves room for a part of a file, zeros it or punches a hole into it, depending on the flags. `drop_privileges` clears the file's
    /// set-user-ID and set-group-ID bits. Returns whether the file may have grown.
    pub(crate) fn allocate(
        &self,
        object: ObjectId,
        part: Region,
        flags: i32,
        drop_privileges: bool,
    ) -> Outcome<bool> {
        let (what, keep_size) = Allocation::of_flags(flags).ok_or(Failed(Errno::EOPNOTSUPP))?;
        self.with_file(object, |client, file| {
            self.changing_again(drop_privileges, client, file, |client, file| {
                client.allocate_part(file, part, what, keep_size)
            })?;
            Ok(!keep_size)
        })
    }

    /// Returns the offset of the next data or the next hole.
    pub(crate) fn seek(&self, object: ObjectId, offset: u64, whence: i32) -> Outcome<u64> {
        let found = self.with_file(object, |client, file| {
            // Other clients may have changed the size.
            client.refresh(file)?;
            match whence {
                SEEK_DATA => client.seek_data(file, offset).map(Ok),
                SEEK_HOLE => client.seek_hole(file, offset).map(Ok),
                _ => Ok(Err(Failed(Errno::EINVAL))),
            }
        })??;
        found.ok_or(Failed(Errno::ENXIO))
    }
}
