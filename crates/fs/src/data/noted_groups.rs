//! Datafiles that record their written groups: each block of a recorded group has a sum.

use causeway_wire::codec::Wire as _;
use causeway_wire::datafile::{GROUP_BLOCKS, Sums, WRITTEN_OFFSET, WrittenGroups, sums_offset};

use super::datafile::Datafile;
use super::disk::{put, read_full};
use super::fault::Result;
use super::sums::{BLOCK, BlockBinding, SUMS, both};
use super::types::Wait;
use crate::locks::lock;

impl Datafile {
    /// Gives each block of a group a sum, and records the group in the header's page. The caller holds a
    /// range of the group, and is about to store sums of it.
    pub(super) fn begin_group(&self, group: u64) -> Result<()> {
        if self.groups.has(group) {
            return Ok(());
        }
        self.begin_write()?;
        let _one_at_a_time = lock(&self.groups.beginning);
        if self.groups.has(group) {
            return Ok(());
        }
        let first = group * GROUP_BLOCKS;
        let binding = BlockBinding::new(self.binding, first);
        let mut page = [0; BLOCK];
        read_full(&self.file, &mut page, sums_offset(first), Wait::Allowed)?;
        for (index, sums) in page.chunks_exact_mut(SUMS).enumerate() {
            if sums == Sums::default().to_bytes() {
                sums.copy_from_slice(&both(binding.zeros(index)).to_bytes());
            }
        }
        // The sums are written first: a kill in between leaves holes that have sums, in a group that need not have any.
        put(&self.file, &page, sums_offset(first))?;
        self.groups.note(group);
        self.put_groups()
    }

    /// Forgets the groups behind a truncation to `count` of them. The caller holds all ranges.
    pub(super) fn truncate_groups(&self, count: u64) -> Result<()> {
        let _one_at_a_time = lock(&self.groups.beginning);
        self.groups.truncate(count);
        match self.has_sums() {
            true => self.put_groups(),
            false => Ok(()),
        }
    }

    fn put_groups(&self) -> Result<()> {
        let written = WrittenGroups {
            binding: self.binding,
            spans: lock(&self.groups.spans).clone(),
        };
        Ok(put(&self.file, &written.to_bytes(), WRITTEN_OFFSET)?)
    }
}
