//! Reading, from beside the metadata or from datafiles; bytes are verified in the client's memory.

use std::cell::Cell;

use causeway_bmi::Memory;
use causeway_wire::fs::{Body, Distribution, Operation, Region, ReplyBody, WantedSums};

use super::call_error::{CallError, unexpected_reply};
use super::connection::Client;
use super::direct::DIRECT_ROUND_BYTES;
use super::file::File;
use super::io::{
    FORM_CHANGES, Form, ROUND_BYTES, WaitStages, busiest, in_rounds_of, keeps_changing,
};
use super::long_reads::{BUFFER_BYTES, LEAST_BYTES, PART_BYTES, TimedRead, Way};
use super::nodes::{content_of, node};
use super::rpc::Rpc;
use super::stages::StageClock;
use super::transfer::{IoKind, IoList, Planned, in_parts};
use crate::cutter::Cutter;
use crate::data::pieces::Cursor;

/// The stages of the wait for I/O servers.
const READING: WaitStages = ["read: messages", "read: copy", "read: storage"];

/// The result of reading datafiles.
struct Fetched {
    /// Whether some of the bytes lay behind a datafile's end.
    behind_end: bool,
    /// The error of a server that has sent blocks that do not match their sums, or has reported a wrong number of
    /// bytes.
    altered: Option<CallError>,
}

impl Client {
    /// Reads a list whose regions and memory were checked.
    pub(super) fn read_checked(
        &mut self,
        file: &mut File,
        list: IoList<'_>,
    ) -> Result<u64, CallError> {
        self.check_access(file, IoKind::Read)?;
        let mut is_fresh = false;
        for _ in 0..FORM_CHANGES {
            match self.form(file)? {
                // The size is requested first: bytes that are written later may be read in part.
                Form::Striped(_)
                    if !is_fresh && list.len_before(file.node.attributes.size) < list.len() =>
                {
                    self.refresh_node(file)?;
                    is_fresh = true;
                }
                Form::Striped(distribution) => {
                    if let Some(count) = self.read_striped(file, &distribution, list)? {
                        return Ok(count);
                    }
                    is_fresh = false;
                }
                Form::Stuffed { .. } => {
                    if let Some(content) = self.stuffed_content(file)? {
                        return Ok(deliver_content(&content, list));
                    }
                }
            }
        }
        Err(keeps_changing())
    }

    /// The content of a stuffed file: at first the content that came with the opening, later that of the server. `None` if the file
    /// is not stuffed any more, which `file` then shows.
    fn stuffed_content(&mut self, file: &mut File) -> Result<Option<Vec<u8>>, CallError> {
        if let Some(content) = file.opened_content.take() {
            return Ok(Some(content));
        }
        let operation = Operation::GetNode {
            object: file.node.object,
            content: true,
        };
        file.update_node(self.query(operation).and_then(node)?)?;
        match &mut file.node.body {
            Body::Stuffed { content, .. } => content_of(content.take()).map(Some),
            _ => Ok(None),
        }
    }

    /// Reads the bytes before the end of the file by its node, and zeros for the rest of several regions. `None` if the file was truncated
    /// meanwhile, which `file` then shows.
    fn read_striped(
        &mut self,
        file: &mut File,
        distribution: &Distribution,
        list: IoList<'_>,
    ) -> Result<Option<u64>, CallError> {
        let size = file.node.attributes.size;
        // Where the datafiles have not followed a truncation yet, their bytes behind it are no part of the file any more. No client
        // writes there before they have followed.
        let stored = match &file.node.body {
            Body::Striped {
                truncating: Some(cut),
                ..
            } => size.min(*cut),
            _ => size,
        };
        let is_inside = |region: &Region| region.offset.saturating_add(region.len) <= stored;
        let cut = (!list.regions.iter().all(is_inside)).then(|| before_end(list, stored));
        let inside = match &cut {
            Some((regions, memory)) => IoList { regions, memory },
            None => list,
        };
        let mut is_whole = true;
        let mut behind_end = false;
        let timed = self.begin_long_read(file, distribution, inside);
        let way = timed.as_ref().map_or(&Way::Straight, |timed| &timed.way);
        let most = match way {
            Way::Straight => ROUND_BYTES,
            Way::Through(_) => BUFFER_BYTES,
            Way::Direct => DIRECT_ROUND_BYTES,
        };
        let read = in_rounds_of(inside, most, |list| {
            if is_whole {
                let read = self.read_round(file, distribution, list, way)?;
                is_whole = read.is_some();
                behind_end |= read.unwrap_or_default();
            }
            Ok(())
        });
        if read.is_err() {
            // A server may access the buffer for as long as it cannot be reached.
            self.long_reads.forget_buffer();
        }
        read?;
        if !is_whole {
            return Ok(None);
        }
        if let Some(timed) = &timed {
            self.long_reads.end(timed, inside.len());
        }
        if behind_end {
            // Behind a datafile's end the file has a hole, or it was truncated: the file's size shows which.
            let known = file.node.attributes.size;
            self.refresh_node(file)?;
            let size = known.min(file.node.attributes.size);
            before_end(list, size);
            return Ok(Some(list.len_before(size)));
        }
        Ok(Some(list.len_before(size)))
    }

    /// Begins a read of datafiles, and decides which way it takes. `None` if it can go straight to its memory only.
    fn begin_long_read(
        &mut self,
        file: &File,
        distribution: &Distribution,
        list: IoList<'_>,
    ) -> Option<TimedRead> {
        let is_mapped = |memory: &Memory| memory.object().is_some();
        if list.len() < LEAST_BYTES || list.memory.iter().any(is_mapped) {
            return None;
        }
        let (mut any, servers) = (None, distribution.servers.len());
        for position in 0..servers {
            let server = self.io_server(distribution, position).ok()?;
            let addr = self.rpc.addr(server).ok()?;
            if self.rpc.bmi().method(addr) != Some("shm") {
                return None;
            }
            any = Some(addr);
        }
        let may_be_direct = Self::may_read_directly(file);
        let (long_reads, bmi) = (&mut self.long_reads, self.rpc.bmi());
        let allocate = || any.and_then(|addr| bmi.memalloc(addr, BUFFER_BYTES as usize).ok());
        long_reads.begin((list.len(), servers), may_be_direct, allocate)
    }

    /// Reads from the datafiles. Returns whether any byte lay behind a datafile's end, or `None` if the file was truncated
    /// meanwhile, which `file` then shows.
    fn read_round(
        &mut self,
        file: &mut File,
        distribution: &Distribution,
        list: IoList<'_>,
        way: &Way,
    ) -> Result<Option<bool>, CallError> {
        let mut planned = Self::planned(file, distribution, list, IoKind::Read)?;
        if let Way::Direct = way {
            let Some(left) = self.read_directly(file, distribution, planned, list)? else {
                return Ok(None);
            };
            planned = left;
        }
        let buffer = match way {
            Way::Through(buffer) => Some(buffer),
            Way::Straight | Way::Direct => None,
        };
        let mut altered = None;
        // Blocks that are written while they are read do not match the stored sums, and a datafile that is truncated may
        // have fewer bytes than its size just before. A mismatch that persists arises between server and
        // client.
        for sums in [WantedSums::Stored, WantedSums::Sent, WantedSums::Sent] {
            let Some(fetched) = self.fetch(file, distribution, (planned, list), sums, buffer)?
            else {
                return Ok(None);
            };
            let Some(error) = fetched.altered else {
                return Ok(Some(fetched.behind_end));
            };
            let object = file.node.object.0;
            tracing::debug!(object, ?sums, error.message, "reading again");
            altered = Some(error);
            planned = Self::planned(file, distribution, list, IoKind::Read)?;
        }
        altered.map_or(Ok(None), Err)
    }

    /// Reads what is planned from the datafiles into the list's memory, and verifies the blocks there whose sums were sent. `None` if the file was truncated
    /// meanwhile, which `file` then shows.
    fn fetch(
        &mut self,
        file: &mut File,
        distribution: &Distribution,
        (mut planned, list): (Vec<Planned>, IoList<'_>),
        sums: WantedSums,
        buffer: Option<&Memory>,
    ) -> Result<Option<Fetched>, CallError> {
        let clock = StageClock::start(self.record_stages);
        if let Some(buffer) = buffer.filter(|buffer| buffer.object().is_some()) {
            planned = in_parts(planned, buffer, PART_BYTES);
        }
        let mut calls = self.calls_of(distribution, &mut planned, IoKind::Read)?;
        let servers: Vec<usize> = calls.iter().map(|call| call.server).collect();
        calls.iter_mut().for_each(|call| call.want_sums(sums));
        let clock = clock.next(&mut self.stages, "read: plan");
        let object = file.node.object;
        let mut fetched = Fetched {
            behind_end: false,
            altered: None,
        };
        let is_delivered = vec![Cell::new(false); planned.len()];
        let mut take = |rpc: &Rpc, index: usize, reply: &ReplyBody| {
            let ReplyBody::Transferred {
                bytes,
                size,
                inline,
                sums,
                ..
            } = reply
            else {
                return;
            };
            let (planned, server) = (&planned[index], servers[index]);
            is_delivered[index].set(true);
            if let Err(error) = planned.check_read(*bytes, inline.len(), *size) {
                fetched.altered = Some(rpc.at(server, error));
                return;
            }
            if !planned.matches(list.memory, sums, rpc.binding(server, object)) {
                fetched.altered = Some(rpc.altered(server));
            }
            fetched.behind_end |= planned.deliver(list.memory, inline, *size);
        };
        let replies = self.rpc.call_all_each(calls, &mut take);
        let clock = clock.next_of(&mut self.stages, &READING, busiest(&replies));
        let Some(replies) = self.unless_missing(file, replies)? else {
            return Ok(None);
        };
        // The replies to calls that were repeated, or that ended elsewhere than among those that were waited for, come here.
        for (index, reply) in replies.iter().enumerate() {
            if !is_delivered[index].get() {
                take(&self.rpc, index, reply);
            }
            if !is_delivered[index].get() {
                return Err(unexpected_reply(reply));
            }
        }
        clock.next(&mut self.stages, "read: deliver");
        Ok(Some(fetched))
    }
}

/// The part of a list that lies before byte `size`; sets the memory of the rest to zeros if the list has several regions.
fn before_end(list: IoList<'_>, size: u64) -> (Vec<Region>, Vec<Memory>) {
    let mut memory = Cutter::new(list.memory.iter().cloned());
    let (mut inside, mut into) = (Vec::with_capacity(list.regions.len()), Vec::new());
    // Memory that no slice covers yet: as few slices as possible, however many regions there are.
    let mut pending = 0;
    for region in list.regions {
        let len = size.saturating_sub(region.offset).min(region.len);
        if len > 0 {
            inside.push(Region { len, ..*region });
            pending += len;
        }
        if len < region.len {
            into.extend(memory.take(std::mem::take(&mut pending)));
            let behind = memory.take(region.len - len);
            if list.regions.len() > 1 {
                behind.iter().for_each(Memory::clear);
            }
        }
    }
    into.extend(memory.take(pending));
    (inside, into)
}

/// Copies a small file's content into memory; returns how many bytes lay before its end.
fn deliver_content(content: &[u8], list: IoList<'_>) -> u64 {
    let mut memory = Cursor::new(list.memory);
    for region in list.regions {
        let start = usize::try_from(region.offset).unwrap_or(usize::MAX);
        let found = content.get(start..).unwrap_or_default();
        let len = region.len.min(found.len() as u64);
        memory.copy_in(&found[..len as usize]);
        if list.regions.len() > 1 {
            memory.clear(region.len - len);
        }
    }
    list.len_before(content.len() as u64)
}
