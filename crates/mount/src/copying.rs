//! Copying from one file of the mount to another, as `copy_file_range` asks for it.

use causeway_wire::fs::ObjectId;

use crate::attributes::Outcome;
use crate::operations::Mounted;

/// Most bytes of one request, during which other requests about the same file wait. Programs ask for the rest with another one.
const MAX_COPIED: u64 = 64 << 20;

impl Mounted {
    /// Copies up to `len` bytes from an offset of one file to one of another, and returns how many. The kernel has written back what it had of both, drops
    /// its pages of the file that is written, and asks for its attributes again. `drop_privileges` clears that one's set-user-ID and
    /// set-group-ID bits.
    pub(crate) fn copy(
        &self,
        (from, from_offset): (ObjectId, u64),
        (to, to_offset): (ObjectId, u64),
        len: u64,
        drop_privileges: bool,
    ) -> Outcome<u32> {
        // A value of its own: two copies in opposite directions must not wait for each other's files.
        let mut source = self.with_file(from, |_, file| Ok(file.clone()))?;
        let mut copied = 0;
        self.with_file(to, |client, file| {
            self.changing_again(drop_privileges, client, file, |client, file| {
                let len = len.min(MAX_COPIED);
                copied = client.copy_range(&mut source, from_offset, file, to_offset, len)?;
                Ok(())
            })
        })?;
        Ok(copied as u32)
    }
}
