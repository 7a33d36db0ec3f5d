//! Stored sums of blocks that somebody else reads.

use std::io;

use causeway_wire::datafile::{BLOCK_BYTES, GROUP_BLOCKS, Trust};
use causeway_wire::fs::{FileDescriptor, Region};

use super::blocks::Blocks;
use super::datafile::Datafile;
use super::fault::Result;
use super::sums::{SUMS, stored};
use super::types::Wait;

/// Bytes of the sums of a group.
const GROUP_SUMS: usize = GROUP_BLOCKS as usize * SUMS;

impl Datafile {
    /// By which descriptor this process has the datafile open.
    pub fn descriptor(&self) -> io::Result<FileDescriptor> {
        use std::os::fd::AsRawFd as _;
        use std::os::unix::fs::MetadataExt as _;

        let metadata = self.file.metadata()?;
        Ok(FileDescriptor {
            // An open file's number is not negative.
            number: self.file.as_raw_fd().unsigned_abs(),
            device: metadata.dev(),
            inode: metadata.ino(),
        })
    }

    /// The sums of the first blocks of a region, which begins with a block: of at most `most`, and only of as many as can be known without
    /// waiting. There are none if blocks may also match other sums than the stored ones, or if the datafile is shorter than it must be.
    /// A block that is being written matches its sum once the write has ended.
    pub fn stored_sums(&self, region: Region, at_least: u64, most: usize) -> Result<Vec<u32>> {
        let size = self.size()?;
        if !self.has_sums() || self.trust() != Trust::Latest || size < self.min_size(at_least) {
            return Ok(Vec::new());
        }
        let inside = region.len.min(size.saturating_sub(region.offset));
        let count = usize::try_from(inside / BLOCK_BYTES).map_or(most, |count| count.min(most));
        let mut found = Vec::with_capacity(count);
        let wait = match self.common.in_memory {
            true => Wait::Allowed,
            false => Wait::Refused,
        };
        let mut slots = [0; GROUP_SUMS];
        while found.len() < count {
            let first = region.offset / BLOCK_BYTES + found.len() as u64;
            let in_group = (GROUP_BLOCKS - first % GROUP_BLOCKS) as usize;
            let blocks = Blocks::run(first, in_group.min(count - found.len()));
            let must = self.must_have_sums(blocks);
            match self.load_sums(blocks, &mut slots, wait) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                loaded => loaded?,
            }
            let slots = &slots[..blocks.count() * SUMS];
            if super::blocks::first_without(slots, must).is_some() {
                break;
            }
            let binding = self.block_binding(blocks);
            let sums = stored(slots).enumerate();
            found.extend(sums.map(|(index, sums)| binding.effective(index, sums.latest)));
        }
        Ok(found)
    }
}
