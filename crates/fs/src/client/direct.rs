//! Reads that the client carries out itself, from datafiles of I/O servers on its host.
//!
//! An I/O server moves each byte into ordinary memory of another process in two steps. A client whose user may read the server's files needs one:
//! it opens a datafile by the server's own descriptor ([`Operation::FindDescriptor`]) and reads it. The server says of which blocks, and what
//! their sums are ([`WantedSums::Only`]), for each read; so rights that have ended end these reads, too. What does not match its sum, because it is
//! being written or the file is another one by now, and what is not in the page cache, is read in the usual way.

use std::cell::RefCell;
use std::sync::Arc;

use causeway_bmi::{Identity, Memory};
use causeway_wire::datafile::{BLOCK_BYTES, Binding, GROUP_BYTES, physical};
use causeway_wire::fs::{
    Distribution, Errno, FileDescriptor, ObjectId, Operation, Region, Regions, ReplyBody,
    WantedSums,
};

use super::call::Call;
use super::call_error::{CallError, take_reply, unexpected_reply};
use super::connection::Client;
use super::file::File;
use super::open_datafile::{Known, OpenDatafile};
use super::rpc::Rpc;
use super::transfer::{IoKind, IoList, Planned, have_sums, plan_share};
use crate::cutter::Cutter;
use crate::distribution::Share;

/// Most bytes of a round.
pub(super) const DIRECT_ROUND_BYTES: u64 = 32 << 20;
/// Files from this size on have their datafiles opened: for smaller ones, asking for them takes about as long as the read.
const LEAST_FILE_BYTES: u64 = 4 << 20;
/// Bytes that are read at once, and summed while they are in the processor's own cache.
const PART_BYTES: u64 = 128 << 10;

/// Whole blocks of one datafile.
struct DirectPart {
    object: ObjectId,
    at_least: u64,
    position: usize,
    server: usize,
    /// One region.
    share: Share,
    region: Region,
    datafile: Arc<OpenDatafile>,
}

impl Client {
    /// Whether a file is long enough for its datafiles to be opened, and one of them is open, or may be found to be.
    pub(super) fn may_read_directly(file: &File) -> bool {
        file.node.attributes.size >= LEAST_FILE_BYTES && file.datafiles.may_be_open()
    }

    /// Opens the datafiles at these positions whose servers were not asked yet. `false` if the file was truncated meanwhile, which `file` then shows.
    fn open_datafiles(
        &mut self,
        file: &mut File,
        distribution: &Distribution,
        positions: impl Iterator<Item = usize>,
    ) -> Result<bool, CallError> {
        let is_asked = |position: &usize| !matches!(file.datafiles.at(*position), Known::NotAsked);
        let positions: Vec<usize> = positions.filter(|position| !is_asked(position)).collect();
        let servers = self.servers_at(distribution, positions.iter().copied())?;
        let object = file.node.object;
        let find = |server: &usize| Call::query(*server, Operation::FindDescriptor { object });
        let replies = self.rpc.call_all(servers.iter().map(find).collect());
        let replies = replies.into_iter().map(|reply| match reply {
            Err(error) if is_of_earlier_build(&error) => Ok(ReplyBody::Descriptor(None)),
            reply => reply,
        });
        let Some(replies) = self.unless_missing(file, replies.collect())? else {
            return Ok(false);
        };
        for ((position, server), reply) in positions.into_iter().zip(servers).zip(replies) {
            let found = take_reply!(reply, ReplyBody::Descriptor(found) => found)?;
            let opened = found.and_then(|found| self.open_datafile(server, found));
            let known = opened.map_or(Known::NotHere, |opened| Known::Open(Arc::new(opened)));
            file.datafiles.set(position, known);
        }
        Ok(true)
    }

    fn open_datafile(&mut self, server: usize, found: FileDescriptor) -> Option<OpenDatafile> {
        let addr = self.rpc.addr(server).ok()?;
        match self.rpc.bmi().identity(addr) {
            Some(Identity::Local { pid, .. }) => OpenDatafile::open(pid, found),
            _ => None,
        }
    }

    /// Reads whole blocks from the datafiles that are open. Returns what is left to read in the usual way, or `None` if the file was truncated
    /// meanwhile, which `file` then shows.
    pub(super) fn read_directly(
        &mut self,
        file: &mut File,
        distribution: &Distribution,
        planned: Vec<Planned>,
        list: IoList<'_>,
    ) -> Result<Option<Vec<Planned>>, CallError> {
        let object = file.node.object;
        let positions = planned.iter().map(|planned| planned.position);
        if !self.open_datafiles(file, distribution, positions)? {
            return Ok(None);
        }
        let mut left = Vec::with_capacity(planned.len());
        let mut parts = Vec::with_capacity(planned.len());
        for planned in planned {
            let position = planned.position;
            let (Known::Open(datafile), Some(region)) =
                (file.datafiles.at(position), whole_blocks(&planned.share))
            else {
                left.push(planned);
                continue;
            };
            let before = region.offset - planned.share.regions[0].offset;
            let behind = planned.share.len - before - region.len;
            let [before, share, behind] = planned.share.cut([before, region.len, behind]);
            let part = DirectPart {
                object,
                at_least: file.least_length(position),
                position,
                server: self.io_server(distribution, position)?,
                share,
                region,
                datafile,
            };
            let edges = [before, behind].into_iter().filter(|edge| edge.len > 0);
            left.extend(edges.map(|edge| part.plan(edge, list.memory)));
            parts.push(part);
        }
        let calls = parts.iter().map(|part| {
            let operation = Operation::Read {
                object,
                at_least: part.at_least,
                regions: Regions::Here(vec![part.region]),
                memory: Vec::new(),
                sums: WantedSums::Only,
            };
            Call::query(part.server, operation)
        });
        let calls = calls.collect();
        let done = RefCell::new(vec![None; parts.len()]);
        let mut take = |rpc: &Rpc, index: usize, reply: &ReplyBody| {
            if let ReplyBody::Transferred { sums, .. } = reply {
                let part = &parts[index];
                let binding = rpc.binding(part.server, object);
                done.borrow_mut()[index] = Some(part.read(list.memory, sums, binding));
            }
        };
        let mut replies = self.rpc.call_all_each(calls, &mut take);
        for (index, reply) in replies.iter_mut().enumerate() {
            // The server was replaced by one that sends no sums.
            if reply.as_ref().is_err_and(is_of_earlier_build) {
                file.datafiles.set(parts[index].position, Known::NotHere);
                done.borrow_mut()[index] = Some(0);
                *reply = Ok(ReplyBody::Done);
            }
        }
        let Some(replies) = self.unless_missing(file, replies)? else {
            return Ok(None);
        };
        for (index, reply) in replies.iter().enumerate() {
            if done.borrow()[index].is_none() {
                take(&self.rpc, index, reply);
            }
        }
        for ((part, done), reply) in parts.iter().zip(done.take()).zip(replies) {
            let done = done.ok_or_else(|| unexpected_reply(&reply))?;
            let [_, behind] = part.share.cut([done, part.share.len - done]);
            if behind.len > 0 {
                left.push(part.plan(behind, list.memory));
            }
        }
        Ok(Some(left))
    }
}

impl DirectPart {
    /// A part of it that is read in the usual way.
    fn plan(&self, share: Share, fragments: &[Memory]) -> Planned {
        let (object, at_least) = (self.object, self.at_least);
        plan_share(
            object,
            self.position,
            at_least,
            share,
            fragments,
            IoKind::Read,
        )
    }

    /// Reads as many of the first blocks as match their sums, and returns how many bytes these have.
    fn read(&self, fragments: &[Memory], sums: &[u32], binding: Binding) -> u64 {
        let mut memory = Cutter::new(self.share.memory_in(fragments).into_iter());
        let whole = self.region.len.min(sums.len() as u64 * BLOCK_BYTES);
        let mut done = 0;
        while done < whole {
            let at = self.region.offset + done;
            let in_group = GROUP_BYTES - at % GROUP_BYTES;
            let into = memory.take(PART_BYTES.min(in_group).min(whole - done));
            let len: u64 = into.iter().map(|into| into.len() as u64).sum();
            let sums = &sums[(done / BLOCK_BYTES) as usize..][..(len / BLOCK_BYTES) as usize];
            let is_read = self.datafile.read(&into, physical(at));
            if !is_read || !have_sums(&into, at / BLOCK_BYTES, sums, binding) {
                break;
            }
            done += len;
        }
        done
    }
}

/// Whether a server does not know a request, which later builds do.
fn is_of_earlier_build(error: &CallError) -> bool {
    error.errno == Errno::EOPNOTSUPP
}

/// The whole blocks of a share that is one region.
fn whole_blocks(share: &Share) -> Option<Region> {
    let [one] = share.regions[..] else {
        return None;
    };
    let offset = one.offset.next_multiple_of(BLOCK_BYTES);
    let end = (one.offset + one.len) / BLOCK_BYTES * BLOCK_BYTES;
    let len = end.saturating_sub(offset);
    (len > 0).then_some(Region { offset, len })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};

    use causeway_wire::fs::Generation;

    use super::*;
    use crate::data::sums::{BLOCK, crc};

    #[test]
    fn blocks_are_read_as_far_as_they_match_their_sums() {
        let binding = Binding::new(1, Generation(2), ObjectId(3));
        // Two groups, of which the read begins in the middle of the first.
        let (offset, blocks) = (GROUP_BYTES - 40 * BLOCK_BYTES, 80);
        let len = blocks * BLOCK_BYTES;
        let bytes: Vec<u8> = (0..len).map(|at| (at / 7) as u8).collect();
        let file = tempfile::tempfile().unwrap();
        for (index, block) in bytes.chunks(BLOCK).enumerate() {
            let at = physical(offset + (index * BLOCK) as u64);
            file.write_all_at(block, at).unwrap();
        }
        let right: Vec<u32> = bytes
            .chunks(BLOCK)
            .zip(offset / BLOCK_BYTES..)
            .map(|(block, number)| binding.sum(number, crc(block)))
            .collect();
        let metadata = file.metadata().unwrap();
        let descriptor = FileDescriptor {
            number: file.as_raw_fd().unsigned_abs(),
            device: metadata.dev(),
            inode: metadata.ino(),
        };
        let opened = OpenDatafile::open(std::process::id().cast_signed(), descriptor);
        let region = Region { offset, len };
        let part = DirectPart {
            object: ObjectId(3),
            at_least: 0,
            position: 0,
            server: 0,
            share: Share {
                regions: vec![region],
                memory: vec![Region { offset: 0, len }],
                len,
            },
            region,
            datafile: Arc::new(opened.unwrap()),
        };
        let into = Memory::zeroed(len as usize);
        let fragments = [into.slice(0..5000), into.slice(5000..len as usize)];
        let read = |sums: &[u32], binding| {
            into.clear();
            let done = part.read(&fragments, sums, binding);
            assert!(done.is_multiple_of(BLOCK_BYTES));
            let done = done as usize;
            assert!(into.to_vec()[..done] == bytes[..done]);
            done / BLOCK
        };
        assert_eq!(read(&right, binding), 80);
        // More than were asked for.
        assert_eq!(read(&[&right[..], &[1, 2, 3]].concat(), binding), 80);
        assert_eq!(read(&right[..33], binding), 33);
        assert_eq!(read(&[], binding), 0);
        for wrong in [0, 31, 32, 39, 40, 79] {
            let mut sums = right.clone();
            sums[wrong] ^= 1;
            assert!(read(&sums, binding) <= wrong);
        }
        // Of another object, and of another place of this one.
        assert_eq!(read(&right, Binding::new(1, Generation(2), ObjectId(4))), 0);
        assert_eq!(read(&right[1..], binding), 0);
        // The file has been cut.
        file.set_len(physical(offset + 50 * BLOCK_BYTES)).unwrap();
        assert!((40..=50).contains(&read(&right, binding)));
    }
}
