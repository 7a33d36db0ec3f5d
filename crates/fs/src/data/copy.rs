//! Copying from one datafile to another, or to another part of the same one.
//!
//! The bytes are read as for a client, with their sums verified, into a buffer, and written as from a client. So sums, history and length of the
//! datafile that is written are those of a write, and a write to the other one meanwhile is seen as by any read. Nothing is held while
//! the source is read: two copies in opposite directions could wait for each other otherwise.

use std::sync::Arc;

use causeway_sys::memory::Memory;
use causeway_wire::fs::{ObjectId, Region};

use super::datafile::{Datafile, ReadOptions};
use super::fault::{Fault, Result};
use super::history::Origin;
use super::pieces::{Abandoned, Piece, Scratch};
use super::punch::Punch;
use super::store::Store;

/// Most bytes of data that one call copies, since it must end soon.
const MAX_COPIED: u64 = 8 << 20;
/// Bytes that are read, and then written, at a time.
const STEP_BYTES: u64 = 1 << 20;
/// Most parts, data or holes, that one call copies.
const MAX_PARTS: usize = 256;

/// A part of a datafile that is to become a copy.
#[derive(Debug, Clone)]
pub struct DataCopy {
    /// The datafile.
    pub object: ObjectId,
    /// The part.
    pub region: Region,
    /// The length that the datafile must have had before at least.
    pub at_least: u64,
    /// The datafile that is read.
    pub source: ObjectId,
    /// From which byte on.
    pub source_offset: u64,
    /// The length that it must have at least.
    pub source_at_least: u64,
    /// The request.
    pub origin: Origin,
    /// Set once the client no longer waits: what others write then must stay.
    pub abandoned: Abandoned,
}

/// What was copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copied {
    /// Bytes from the start of the part on, those in holes among them.
    pub bytes: u64,
    /// Bytes of data.
    pub stored: u64,
    /// The byte behind the last one of these in the datafile, or 0.
    pub reached: u64,
}

/// The next bytes of the source.
enum Part {
    Data(u64),
    Hole(u64),
}

impl DataCopy {
    /// Whether both parts are within the largest offset, and have no byte in common.
    pub fn is_possible(&self) -> bool {
        let ends =
            [self.region.offset, self.source_offset].map(|at| at.checked_add(self.region.len));
        let [Some(end), Some(source_end)] = ends else {
            return false;
        };
        self.object != self.source || end <= self.source_offset || source_end <= self.region.offset
    }

    /// The part of the datafile of which so many bytes are done already.
    fn rest(&self, done: u64) -> Region {
        Region {
            offset: self.region.offset + done,
            len: self.region.len - done,
        }
    }
}

/// A fault comes with the object whose it is.
type CopyResult = std::result::Result<Copied, (ObjectId, Fault)>;

impl Store {
    /// Copies a part of a datafile, or the front of the part if that would take too long.
    pub fn copy(&self, copy: &DataCopy, scratch: &mut Scratch) -> CopyResult {
        let of_source = |fault| (copy.source, fault);
        let of_target = |fault| (copy.object, fault);
        let source = self.find(copy.source).map_err(of_source)?;
        if source.is_none() && copy.source_at_least > 0 {
            let wanted = copy.source_at_least;
            return Err(of_source(Fault::Absent { wanted }));
        }
        let mut done = Copied::default();
        let mut buffer = None;
        for _ in 0..MAX_PARTS {
            let left = copy.region.len - done.bytes;
            if left == 0 || done.stored >= MAX_COPIED {
                break;
            }
            let part = match &source {
                Some(source) => source.next_part(copy, done.bytes).map_err(of_source)?,
                None => Part::Hole(left),
            };
            let rest = copy.rest(done.bytes);
            match part {
                Part::Hole(len) => {
                    let hole = Region { len, ..rest };
                    let (cleared, is_change) =
                        self.clear(copy, hole, scratch).map_err(of_target)?;
                    done.bytes += cleared;
                    if is_change {
                        break;
                    }
                }
                Part::Data(len) => {
                    let len = len.min(STEP_BYTES).min(MAX_COPIED - done.stored);
                    let Some(source) = &source else { break };
                    let buffer = buffer.get_or_insert_with(|| {
                        Memory::zeroed(STEP_BYTES.min(copy.region.len) as usize)
                    });
                    let memory = buffer.slice(0..len as usize);
                    let from = copy.source_offset + done.bytes;
                    source
                        .read_for_copy(copy, (from, &memory), scratch)
                        .map_err(of_source)?;
                    let piece = Piece {
                        regions: vec![Region { len, ..rest }],
                        memory: vec![memory],
                        stable: true,
                        abandoned: copy.abandoned.clone(),
                        origin: copy.origin,
                    };
                    self.find_or_make(copy.object, copy.at_least)
                        .and_then(|target| target.write(&piece, scratch, copy.at_least))
                        .map_err(of_target)?;
                    done.bytes += len;
                    done.stored += len;
                    done.reached = rest.offset + len;
                }
            }
        }
        Ok(done)
    }

    /// Has a part read as zeros, for a hole of the source. Returns how many bytes do now, and whether any of them were changed.
    fn clear(&self, copy: &DataCopy, hole: Region, scratch: &mut Scratch) -> Result<(u64, bool)> {
        // Also what changes nothing has its place in the order of writes: a repetition must not undo later ones.
        let note = || self.history().note(copy.origin.write, copy.object, &[hole]);
        let mut target = self.find(copy.object)?;
        if target.is_none() {
            note()?;
            // One that was made meanwhile may have been written before.
            target = self.find(copy.object)?;
        }
        let Some(target) = target else {
            return match copy.at_least {
                0 => Ok((hole.len, false)),
                wanted => Err(Fault::Absent { wanted }),
            };
        };
        let claim = target.claim(&[hole]);
        claim.wait();
        if target.is_clear(hole, copy.at_least)? {
            note()?;
            return Ok((hole.len, false));
        }
        let punch = Punch {
            region: hole,
            origin: copy.origin,
            at_least: copy.at_least,
            abandoned: copy.abandoned.clone(),
        };
        let next = claim.punch(&punch, scratch)?;
        Ok((next.map_or(hole.len, |next| next - hole.offset), true))
    }
}

impl Datafile {
    /// What comes next of the source.
    fn next_part(self: &Arc<Self>, copy: &DataCopy, done: u64) -> Result<Part> {
        let (from, end) = (
            copy.source_offset + done,
            copy.source_offset + copy.region.len,
        );
        let size = self.size()?;
        // Bytes that were lost must not become a hole.
        if end > size && from < self.min_size(copy.source_at_least) {
            self.check_size(copy.source_at_least)?;
        }
        let end_of_file = size.min(end);
        if from >= end_of_file {
            return Ok(Part::Hole(end - from));
        }
        let data = self.next_byte(from, end_of_file)?;
        if data >= end_of_file {
            return Ok(Part::Hole(end - from));
        }
        if data > from {
            return Ok(Part::Hole(data - from));
        }
        // How far the data reach does not matter behind the next step.
        let far = end_of_file.min(from + STEP_BYTES);
        Ok(Part::Data(self.end_of_data(from, far)? - from))
    }

    /// Whether a part is a hole already, of a datafile that is as long as it should be.
    fn is_clear(&self, part: Region, at_least: u64) -> Result<bool> {
        let size = self.size()?;
        let end = part.offset + part.len;
        if size < self.min_size(at_least) && end > size {
            return Ok(false);
        }
        let end = end.min(size);
        Ok(part.offset >= end || self.next_byte(part.offset, end)? >= end)
    }

    fn read_for_copy(
        &self,
        copy: &DataCopy,
        (offset, memory): (u64, &Memory),
        scratch: &mut Scratch,
    ) -> Result<()> {
        let piece = Piece {
            regions: vec![Region {
                offset,
                len: memory.len() as u64,
            }],
            memory: vec![memory.clone()],
            abandoned: copy.abandoned.clone(),
            ..Piece::default()
        };
        let options = ReadOptions {
            at_least: copy.source_at_least,
            ..ReadOptions::default()
        };
        self.read(&piece, scratch, &options, &mut Vec::new())
            .map(drop)
    }
}
