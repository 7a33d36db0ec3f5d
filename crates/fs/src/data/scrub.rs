//! Scrubs: reading datafiles and verifying every block, a bounded number of bytes at a time.

use std::io;
use std::sync::atomic::Ordering;

use causeway_wire::datafile::{BLOCK_BYTES, GROUP_BYTES, Trust};
use causeway_wire::fs::{ObjectId, Region, ScrubPosition};

use super::datafile::Datafile;
use super::fault::{Fault, Result};
use super::pieces::PART_BYTES;
use super::pieces::Scratch;
use super::store::Store;
use crate::files::if_found;
use crate::sabotage::{self, Sabotage};

/// Damaged spans that one step reports for one datafile; later steps find further ones.
const MAX_SPANS: usize = 64;

/// What a step has found wrong with a datafile.
#[derive(Debug)]
pub struct Finding {
    /// The object of the datafile.
    pub object: ObjectId,
    /// The fault.
    pub fault: Fault,
}

/// A step of a scrub.
#[derive(Debug)]
pub struct Step {
    /// Cursor of the next step; `None` at the end.
    pub next: Option<ScrubPosition>,
    /// Bytes that were verified.
    pub bytes: u64,
    /// Datafiles whose end was reached.
    pub datafiles: u64,
    /// Faults that were found.
    pub findings: Vec<Finding>,
}

/// Name of the file beside the store's directories with the position of the last scrub.
const POSITION: &str = "scrub";

impl Store {
    /// Where the last scrub stopped; the start if it reached the end.
    pub fn scrub_position(&self) -> ScrubPosition {
        let text = std::fs::read_to_string(self.beside(POSITION)).unwrap_or_default();
        let mut numbers = text.split_whitespace().map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(object)), Some(Ok(offset))) => ScrubPosition {
                object: ObjectId(object),
                offset,
            },
            // Without the position, a scrub begins at the start.
            _ => ScrubPosition {
                object: ObjectId(0),
                offset: 0,
            },
        }
    }

    /// Records where a scrub stopped, also for a later run of the server.
    pub fn keep_scrub_position(&self, next: Option<ScrubPosition>) -> io::Result<()> {
        let path = self.beside(POSITION);
        match next {
            Some(ScrubPosition { object, offset }) => {
                let new = path.with_extension("new");
                std::fs::write(&new, format!("{} {offset}\n", object.0))?;
                std::fs::rename(new, path)
            }
            None => if_found(std::fs::remove_file(path)).map(drop),
        }
    }

    /// Verifies about `budget` bytes of the datafiles from `from` on.
    pub fn scrub(&self, from: ScrubPosition, budget: u64, scratch: &mut Scratch) -> Result<Step> {
        /// What opening a datafile costs, in bytes that could be verified instead.
        const OPENING: u64 = 16 << 10;
        let mut step = Step {
            next: None,
            bytes: 0,
            datafiles: 0,
            findings: Vec::new(),
        };
        let (mut from, mut effort) = (from, 0);
        loop {
            // The object in which the last step stopped comes first, then those behind it.
            let before = ObjectId(from.object.0.saturating_sub(1));
            let (listed, end) = super::paths::list(self.root(), before, 64)?;
            for object in listed {
                let offset = match object == from.object {
                    true => from.offset,
                    false => 0,
                };
                if effort >= budget || step.findings.len() >= MAX_SPANS {
                    step.next = Some(ScrubPosition { object, offset });
                    return Ok(step);
                }
                effort += OPENING;
                let left = budget.saturating_sub(effort).max(PART_BYTES);
                match self.scrub_one(object, offset, left, scratch, &mut step) {
                    Ok(Some(offset)) => {
                        step.next = Some(ScrubPosition { object, offset });
                        return Ok(step);
                    }
                    Ok(None) => step.datafiles += 1,
                    Err(fault) if fault.is_loss() => {
                        step.findings.push(Finding { object, fault });
                        step.datafiles += 1;
                    }
                    Err(fault) => return Err(fault),
                }
                effort = effort.max(step.bytes);
                from = ScrubPosition {
                    object: ObjectId(object.0.saturating_add(1)),
                    offset: 0,
                };
            }
            if end {
                return Ok(step);
            }
        }
    }

    /// Returns where to continue, unless the end was reached.
    fn scrub_one(
        &self,
        object: ObjectId,
        from: u64,
        budget: u64,
        scratch: &mut Scratch,
        step: &mut Step,
    ) -> Result<Option<u64>> {
        if from == 0 {
            match self.check_open_file(object) {
                // The replacement is reported herewith; the present file is verified like any other.
                Err(fault @ Fault::Replaced) => {
                    self.accept(object);
                    step.findings.push(Finding { object, fault });
                }
                other => other?,
            }
        }
        // The datafile was removed meanwhile, or is empty.
        let Some(datafile) = self.find(object)? else {
            return Ok(None);
        };
        if from == 0 {
            datafile.check_size(0)?;
        }
        let mut offset = from / BLOCK_BYTES * BLOCK_BYTES;
        let stop = offset.saturating_add(budget);
        let size = datafile.size()?;
        while datafile.has_sums() && offset < size {
            if offset >= stop || step.findings.len() >= MAX_SPANS {
                return Ok(Some(offset));
            }
            // A written group is verified even where the file has a hole now.
            let may_be_hole = !datafile.groups.has(offset / GROUP_BYTES);
            if may_be_hole && offset.is_multiple_of(GROUP_BYTES) {
                let next = datafile.next_data(offset, size)?;
                if next > offset {
                    datafile.note_scrubbed(Region {
                        offset,
                        len: next - offset,
                    });
                    offset = next;
                    continue;
                }
            }
            let aligned = offset / PART_BYTES * PART_BYTES + PART_BYTES;
            let part = Region {
                offset,
                len: size.min(aligned) - offset,
            };
            let damaged = match sabotage::is_on(Sabotage::BlindScrub) {
                true => Vec::new(),
                false => datafile.verify(part, scratch)?,
            };
            for (offset, len) in damaged {
                let fault = Fault::Damaged { offset, len };
                step.findings.push(Finding { object, fault });
            }
            step.bytes += part.len;
            datafile.note_scrubbed(part);
            offset += part.len;
        }
        datafile.end_scrub(size)?;
        Ok(None)
    }
}

impl Datafile {
    fn note_scrubbed(&self, part: Region) {
        // A scrub that begins in the middle has not verified what comes before.
        if part.offset == 0 {
            self.scrubbed.store(part.len, Ordering::Relaxed);
        } else {
            let end = part.offset + part.len;
            let _ = self.scrubbed.compare_exchange(
                part.offset,
                end,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }

    /// Ends a scrub that has reached the datafile's end: if everything was verified, blocks must
    /// match their latest sums again.
    fn end_scrub(&self, size: u64) -> Result<()> {
        let seen = self.scrubbed.swap(0, Ordering::Relaxed);
        if self.has_sums() && self.trust() != Trust::Latest && seen >= size {
            self.restore_trust()?;
        }
        Ok(())
    }
}
