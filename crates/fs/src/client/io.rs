//! Reading, writing, resizing and syncing files.
//!
//! A file's content lies beside its metadata (stuffed) or in datafiles (striped), and may move from the one to the
//! other, or be truncated, during a call: the server's reply shows it, and the call continues with
//! the file's new form.

use std::time::{Duration, Instant};

use causeway_bmi::Memory;
use causeway_sys::memory::{with_foreign, with_foreign_read_only};
use causeway_wire::fs::{
    Body, Distribution, Errno, MAX_STUFFED_BYTES, Operation, Reach, Region, ReplyBody,
};

use super::append_lock::HeldAppendLock;
use super::call::Call;
use super::call_error::{CallError, done, object_name, take_reply};
use super::connection::Client;
use super::file::{File, version};
use super::nodes::{content_of, node};
use super::stages::StageClock;
use super::transfer::{IoKind, IoList, Planned, plan};
use super::unsynced::{Unsynced, Written};
use crate::Error;
use crate::cutter::Cutter;
use crate::distribution::{MAX_FILE_BYTES, Striping};
use crate::permissions;

/// Most bytes that one round of requests moves, over all servers: this bounds how long a round takes, so that the
/// time-out applies to a bounded amount of work.
pub(super) const ROUND_BYTES: u64 = 64 << 20;
/// How often to check whether memory is free that a stopped server may be writing: no event shows when the server
/// runs again.
const HELD_INTERVAL: Duration = Duration::from_millis(10);
/// How long the wait for such memory may last before a warning is logged.
const LONG_HELD: Duration = Duration::from_secs(1);

/// How often a call requests the node again of a file that keeps changing its form.
pub(super) const FORM_CHANGES: usize = 16;

/// The form in which a file's content is stored.
pub(super) enum Form {
    /// The content is beside the metadata; `moving` once its move to the I/O servers has begun.
    Stuffed { moving: bool },
    /// The content is in datafiles.
    Striped(Distribution),
}

/// Makes progress until the caller is the memory's only holder.
fn wait_until_free(memory: &Memory, mut progress: impl FnMut()) {
    let mut since = None;
    let mut is_told = false;
    while memory.sharers() > 1 {
        let since = *since.get_or_insert_with(Instant::now);
        if !is_told && since.elapsed() > LONG_HELD {
            is_told = true;
            tracing::warn!(
                bytes = memory.len(),
                "a read has failed, but a server that is stopped may still write its buffer: waiting until that \
                 server goes on (kill -CONT) or ends"
            );
        }
        progress();
    }
}

impl Client {
    /// Reads from `offset` on; fewer bytes than asked only at the end of the file.
    ///
    /// A server on this host that is stopped (SIGSTOP, a debugger) in the middle of writing `into` would continue
    /// with that later. So a call that fails does not return before that server continues or ends, even after the
    /// time-out.
    pub fn read_at(
        &mut self,
        file: &mut File,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, Error> {
        let regions = [Region {
            offset,
            len: into.len() as u64,
        }];
        let count = with_foreign(into, |memory| {
            self.read_lent(file, &regions, std::slice::from_ref(memory))
        })?;
        Ok(count as usize)
    }

    /// As [`Client::read_list`], into memory that its owner reuses: when the call returns, no server accesses any of the
    /// fragments; a call that fails may have to wait for that as [`Client::read_at`] does.
    pub fn read_lent(
        &mut self,
        file: &mut File,
        regions: &[Region],
        memory: &[Memory],
    ) -> Result<u64, Error> {
        let result = self.read_list(file, regions, memory);
        self.take_back(memory);
        result
    }

    /// Waits until nothing else holds these fragments.
    pub(super) fn take_back(&mut self, memory: &[Memory]) {
        for fragment in memory {
            wait_until_free(fragment, || self.rpc.make_progress(HELD_INTERVAL));
        }
    }

    /// Writes all of `from` at `offset`.
    pub fn write_at(&mut self, file: &mut File, offset: u64, from: &[u8]) -> Result<(), Error> {
        let regions = [Region {
            offset,
            len: from.len() as u64,
        }];
        with_foreign_read_only(from, |memory| {
            self.write_list(file, &regions, std::slice::from_ref(memory))
        })
    }

    /// Reads regions, in order, into memory fragments that cover the same number of bytes. Returns how
    /// many of the bytes lie before the end of the file. Holes read as zeros; so does what lies behind the end, if there are several
    /// regions. The memory behind the bytes of a single one stays as it is.
    pub fn read_list(
        &mut self,
        file: &mut File,
        regions: &[Region],
        memory: &[Memory],
    ) -> Result<u64, Error> {
        let list = IoList { regions, memory };
        check_list(list)
            .and_then(|()| self.read_checked(file, list))
            .map_err(|error| error.during("read", &object_name(file.node.object)))
    }

    /// Writes regions, in order, from memory fragments that cover the same number of bytes.
    pub fn write_list(
        &mut self,
        file: &mut File,
        regions: &[Region],
        memory: &[Memory],
    ) -> Result<(), Error> {
        let list = IoList { regions, memory };
        check_list(list)
            .and_then(|()| in_rounds(list, |list| self.write_round(file, list)))
            .map_err(|error| error.during("write", &object_name(file.node.object)))
    }

    /// Truncates or extends a file.
    pub fn truncate(&mut self, file: &mut File, size: u64) -> Result<(), Error> {
        let object = file.node.object;
        check_end(size)
            .and_then(|()| self.resize(file, &Operation::Truncate { object, size }))
            .map_err(|error| error.during("truncate", &object_name(object)))
    }

    /// Changes a file's size, and has the datafiles follow the change.
    pub(super) fn resize(
        &mut self,
        file: &mut File,
        operation: &Operation,
    ) -> Result<(), CallError> {
        let noted = self.will_change(file, &[self.metadata])?;
        let mut tries = 0;
        loop {
            match self.mutate(operation.clone()).and_then(node) {
                Ok(node) => break file.update_node(node)?,
                Err(t)
                    if matches!(t.errno, Errno::MOVING | Errno::STUFFED)
                        && tries < FORM_CHANGES =>
                {
                    self.unstuff(file)?;
                }
                Err(error) => return Err(error),
            }
            tries += 1;
        }
        self.has_changed(&mut file.unsynced, noted);
        self.finish_truncation(file)
    }

    /// Refuses a file whose content the caller may not read.
    pub fn check_readable(&self, file: &File) -> Result<(), Error> {
        self.check_access(file, IoKind::Read)
            .map_err(|error| error.during("open", &object_name(file.node.object)))
    }

    /// Refuses a file whose content the caller may not write.
    pub fn check_writable(&self, file: &File) -> Result<(), Error> {
        self.check_access(file, IoKind::Write)
            .map_err(|error| error.during("open", &object_name(file.node.object)))
    }

    /// Makes a file's content and size durable.
    pub fn fsync(&mut self, file: &mut File) -> Result<(), Error> {
        self.make_durable(file)
            .map_err(|error| error.during("fsync", &object_name(file.node.object)))
    }

    fn make_durable(&mut self, file: &mut File) -> Result<(), CallError> {
        let object = file.node.object;
        // Another client may have moved the content to datafiles, or truncated the file.
        self.refresh_node(file)?;
        if let Err(error) = self.flush_datafiles(file) {
            if error.errno == Errno::EIO {
                self.report_loss(file);
            }
            return Err(error);
        }
        // The size was acknowledged before it was durable, so it is sent again, in case the server lost power since; unless
        // the file was truncated, which is durable and has set the size.
        if let Some(written) =
            (file.unsynced.written.as_ref()).filter(|w| Some(w.version) == version(&file.node))
        {
            let extend = Operation::Extend {
                object,
                end: written.end,
                modified: file.node.attributes.modified,
                version: written.version.0,
                reached: written.reached.clone(),
                from: written.from,
            };
            file.update_node(self.mutate(extend).and_then(node)?)?;
        }
        if file.unsynced.written.is_some() {
            self.note_if_filled(file)?;
        }
        self.query(Operation::Commit).and_then(done)?;
        self.check_losses(&mut file.unsynced)?;
        file.unsynced = Unsynced::default();
        Ok(())
    }

    /// Makes a striped file's datafiles durable.
    fn flush_datafiles(&mut self, file: &mut File) -> Result<(), CallError> {
        let object = file.node.object;
        for _ in 0..FORM_CHANGES {
            let Body::Striped { distribution, .. } = &file.node.body else {
                return Ok(());
            };
            let calls = self.query_each(distribution, |position| Operation::Flush {
                object,
                at_least: file.least_length(position),
            })?;
            let results = self.rpc.call_all(calls);
            if let Some(replies) = self.unless_missing(file, results)? {
                return replies.into_iter().try_for_each(done);
            }
        }
        Err(keeps_changing())
    }

    fn write_round(&mut self, file: &mut File, list: IoList<'_>) -> Result<(), CallError> {
        self.check_access(file, IoKind::Write)?;
        file.forget_content();
        let end = list.end();
        for _ in 0..FORM_CHANGES {
            let is_written = match self.form(file)? {
                Form::Striped(distribution) => {
                    self.write_striped(file, &distribution, list, end, None)?
                }
                Form::Stuffed { moving: false } if end <= MAX_STUFFED_BYTES as u64 => {
                    self.write_stuffed(file, list)?
                }
                Form::Stuffed { .. } => {
                    self.unstuff(file)?;
                    false
                }
            };
            if is_written {
                return Ok(());
            }
        }
        Err(keeps_changing())
    }

    /// The form of a file's content after the datafiles have followed the last truncation: for a caller that may not write, and so
    /// cannot have them follow it, the form that the metadata server reports now.
    pub(super) fn form(&mut self, file: &mut File) -> Result<Form, CallError> {
        let mut is_fresh = false;
        for _ in 0..FORM_CHANGES {
            match &file.node.body {
                Body::Striped {
                    truncating: Some(_),
                    ..
                } if self.check_access(file, IoKind::Write).is_ok() => {
                    self.finish_truncation(file)?;
                }
                Body::Striped {
                    truncating: Some(_),
                    ..
                } if !is_fresh => {
                    self.refresh_node(file)?;
                    is_fresh = true;
                }
                Body::Striped { distribution, .. } => {
                    return Ok(Form::Striped(distribution.clone()));
                }
                Body::Stuffed { moving, .. } => return Ok(Form::Stuffed { moving: *moving }),
                Body::Directory(_) => return Err(CallError::local(Errno::EISDIR, "")),
                Body::Link(_) => return Err(CallError::local(Errno::EINVAL, "a symbolic link")),
                Body::Special { .. } => {
                    let message = "a pipe, a socket or a device, which programs use on a mount";
                    return Err(CallError::local(Errno::ENXIO, message));
                }
            }
        }
        Err(keeps_changing())
    }

    /// Writes to content beside the metadata. Returns `false` if the file is not stuffed any more, which `file` then shows.
    pub(super) fn write_stuffed(
        &mut self,
        file: &mut File,
        list: IoList<'_>,
    ) -> Result<bool, CallError> {
        let object = file.node.object;
        let noted = self.will_change(file, &[self.metadata])?;
        let mut memory = Cutter::new(list.memory.iter().cloned());
        for region in list.regions {
            let data: Vec<u8> = memory
                .take(region.len)
                .iter()
                .flat_map(|fragment| fragment.to_vec())
                .collect();
            let operation = Operation::WriteStuffed {
                object,
                offset: region.offset,
                data,
            };
            match self.mutate(operation).and_then(node) {
                Ok(node) => file.update_node(node)?,
                Err(t) if t.errno == Errno::NOT_STUFFED || t.errno == Errno::MOVING => {
                    self.refresh_node(file)?;
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        self.has_changed(&mut file.unsynced, noted);
        Ok(true)
    }

    /// Writes to the datafiles, then reports the new end to the metadata server: always,
    /// because another client may have truncated the file since this one saw its size. Returns `false` if another
    /// truncation has begun meanwhile, which `file` then shows: it may discard what was written, so the write must be
    /// repeated after it. An `append_lock` that is for an append is released thereby; with a lock, `false` also says that nothing was written because it must begin again.
    pub(super) fn write_striped(
        &mut self,
        file: &mut File,
        distribution: &Distribution,
        list: IoList<'_>,
        end: u64,
        append_lock: Option<&HeldAppendLock>,
    ) -> Result<bool, CallError> {
        let clock = StageClock::start(self.record_stages);
        let (planned, mut calls) = self.data_calls(file, distribution, list, IoKind::Write)?;
        let positions = planned.iter().map(|planned| planned.position);
        let servers = self.servers_at(distribution, positions)?;
        let noted = self.will_change(file, &servers)?;
        if let Some(append_lock) = append_lock
            && !self.rpc.put_under_append_lock(&mut calls, append_lock)?
        {
            return Ok(false);
        }
        let clock = clock.next(&mut self.stages, "write: plan");
        let replies = self.rpc.call_all(calls);
        let clock = clock.next_of(&mut self.stages, &WRITING, busiest(&replies));
        let Some(replies) = self.unless_missing(file, replies)? else {
            return Ok(false);
        };
        for (planned, reply) in planned.iter().zip(replies) {
            let bytes = take_reply!(reply, ReplyBody::Transferred { bytes, .. } => bytes)?;
            planned.check_written(bytes)?;
        }
        self.has_changed(&mut file.unsynced, noted);
        let object = file.node.object;
        let known = version(&file.node);
        let reached: Vec<Reach> = planned.iter().map(Planned::reach).collect();
        let modified = crate::clock::now();
        let version_before = known.map_or(0, |(version, _)| version);
        let from = start_of_last_run(list.regions);
        let report = match append_lock.filter(|append_lock| append_lock.appends) {
            None => Operation::Extend {
                object,
                end,
                modified,
                version: version_before,
                reached: reached.clone(),
                from,
            },
            Some(append_lock) => Operation::EndAppend {
                object,
                append_lock: append_lock.number,
                end,
                modified,
                version: version_before,
                reached: reached.clone(),
            },
        };
        file.update_node(self.mutate(report).and_then(node)?)?;
        clock.next(&mut self.stages, "write: size");
        let version = version(&file.node);
        if let Some(version) = version {
            let mut written = (file.unsynced.written.take())
                .filter(|written| written.version == version)
                .unwrap_or(Written {
                    end,
                    version,
                    reached: Vec::new(),
                    from,
                });
            written.note((from, end), &reached);
            file.unsynced.written = Some(written);
        }
        Ok(version == known)
    }

    pub(super) fn data_calls(
        &mut self,
        file: &File,
        distribution: &Distribution,
        list: IoList<'_>,
        kind: IoKind,
    ) -> Result<(Vec<Planned>, Vec<Call>), CallError> {
        let mut planned = Self::planned(file, distribution, list, kind)?;
        let calls = self.calls_of(distribution, &mut planned, kind)?;
        Ok((planned, calls))
    }

    /// What each server is asked for.
    pub(super) fn planned(
        file: &File,
        distribution: &Distribution,
        list: IoList<'_>,
        kind: IoKind,
    ) -> Result<Vec<Planned>, CallError> {
        let striping = striping(distribution)?;
        let at_least = |position| file.least_length(position);
        Ok(plan(file.node.object, &striping, at_least, list, kind))
    }

    /// The calls that carry it out.
    pub(super) fn calls_of(
        &mut self,
        distribution: &Distribution,
        planned: &mut [Planned],
        kind: IoKind,
    ) -> Result<Vec<Call>, CallError> {
        let mut calls = Vec::with_capacity(planned.len() + 1);
        for planned in planned {
            let server = self.io_server(distribution, planned.position)?;
            if let Some(piece) = planned.piece.take() {
                calls.push(Call::data(server, kind, piece));
            }
        }
        Ok(calls)
    }

    /// Makes a request to each server of a distribution, from its position.
    pub(super) fn query_each(
        &mut self,
        distribution: &Distribution,
        operation: impl Fn(usize) -> Operation,
    ) -> Result<Vec<Call>, CallError> {
        let servers = self.io_servers(distribution)?.into_iter().enumerate();
        let calls = servers.map(|(position, server)| Call::query(server, operation(position)));
        Ok(calls.collect())
    }

    pub(super) fn io_servers(
        &mut self,
        distribution: &Distribution,
    ) -> Result<Vec<usize>, CallError> {
        self.servers_at(distribution, 0..distribution.servers.len())
    }

    /// The servers at these positions of a distribution.
    pub(super) fn servers_at(
        &mut self,
        distribution: &Distribution,
        positions: impl Iterator<Item = usize>,
    ) -> Result<Vec<usize>, CallError> {
        positions
            .map(|position| self.io_server(distribution, position))
            .collect()
    }

    /// The configuration's index of a distribution's server.
    pub(super) fn io_server(
        &mut self,
        distribution: &Distribution,
        position: usize,
    ) -> Result<usize, CallError> {
        let number = distribution
            .servers
            .get(position)
            .copied()
            .unwrap_or(u16::MAX);
        self.rpc.server_of(number)
    }

    /// Moves a stuffed file's content to its first server, or completes a move that another client has begun.
    pub(super) fn unstuff(&mut self, file: &mut File) -> Result<(), CallError> {
        let object = file.node.object;
        file.update_node(
            self.mutate(Operation::BeginUnstuff { object })
                .and_then(node)?,
        )?;
        let Body::Stuffed {
            distribution,
            content,
            ..
        } = &mut file.node.body
        else {
            return Ok(());
        };
        let content = content_of(content.take())?;
        let distribution = distribution.clone();
        if !content.is_empty() {
            let server = self.io_server(&distribution, 0)?;
            let seed = Operation::Seed { object, content };
            match self.rpc.call(Call::query(server, seed)).and_then(done) {
                Err(error) if error.errno == Errno::EEXIST => {
                    self.check_unstuffed(file, error)?;
                }
                result => result?,
            }
        }
        file.update_node(
            self.mutate(Operation::FinishUnstuff { object })
                .and_then(node)?,
        )?;
        Ok(())
    }

    /// Makes the datafiles follow a truncation that the metadata has recorded.
    pub(super) fn finish_truncation(&mut self, file: &mut File) -> Result<(), CallError> {
        let Body::Striped {
            distribution,
            version,
            truncating: Some(size),
            ..
        } = &file.node.body
        else {
            return Ok(());
        };
        let (version, size) = (*version, *size);
        let object = file.node.object;
        let striping = striping(distribution)?;
        let calls = self.query_each(distribution, |position| Operation::TruncateData {
            object,
            size: striping.datafile_size(position, size),
            version,
            at_least: file.least_length(position),
        })?;
        let results = self.rpc.call_all(calls);
        let Some(replies) = self.unless_missing(file, results)? else {
            return Ok(());
        };
        replies.into_iter().try_for_each(done)?;
        match self
            .mutate(Operation::FinishTruncate { object, version })
            .and_then(node)
        {
            Ok(node) => file.update_node(node)?,
            Err(error) if error.errno == Errno::STALE_VERSION => {
                self.refresh_node(file)?;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Checks by the node that the caller may access a file's content: servers refuse the access too, but not with a reason that
    /// names mode and owner. The owner always may, through an open file, as in NFS.
    pub(super) fn check_access(&self, file: &File, kind: IoKind) -> Result<(), CallError> {
        self.locks.check_object(file.node.object)?;
        let attributes = &file.node.attributes;
        let wanted = match kind {
            IoKind::Read => permissions::READ,
            IoKind::Write => permissions::WRITE,
        };
        if permissions::of_handle(&file.node, self.rpc.caller()) & wanted != 0 {
            return Ok(());
        }
        let message = format!(
            "permission denied: mode {:o} of user {}, group {}",
            attributes.mode, attributes.uid, attributes.gid
        );
        Err(CallError::local(Errno::EACCES, message))
    }
}

/// The stages of a wait for I/O servers: messages, copying, storage.
pub(super) type WaitStages = [&'static str; 3];
const WRITING: WaitStages = ["write: messages", "write: copy", "write: storage"];

/// Microseconds of copying and of storage at the server with the longest times: the others worked concurrently.
pub(super) fn busiest(replies: &[Result<ReplyBody, CallError>]) -> (u32, u32) {
    replies
        .iter()
        .filter_map(|reply| match reply {
            Ok(ReplyBody::Transferred {
                copy_us,
                storage_us,
                ..
            }) => Some((*copy_us, *storage_us)),
            _ => None,
        })
        .max_by_key(|(copy, storage)| u64::from(*copy) + u64::from(*storage))
        .unwrap_or_default()
}

/// Fails unless the regions and the memory have the same number of bytes, and end within the largest offset.
pub(super) fn check_list(list: IoList<'_>) -> Result<(), CallError> {
    let mut total: u64 = 0;
    for region in list.regions {
        check_end(region.offset.saturating_add(region.len))?;
        total = total.saturating_add(region.len);
    }
    let fragments = list.memory.iter();
    let room: u64 = fragments.map(|fragment| fragment.len() as u64).sum();
    if total != room {
        let message = format!("the regions have {total} bytes and the memory {room}");
        return Err(CallError::local(Errno::EINVAL, message));
    }
    Ok(())
}

/// The offset from which on the regions have no gap up to their last byte, as far as their order shows it.
fn start_of_last_run(regions: &[Region]) -> u64 {
    let (mut start, mut end, mut furthest) = (0, 0, 0);
    for region in regions.iter().filter(|region| region.len > 0) {
        if region.offset != end {
            start = region.offset;
        }
        end = region.offset + region.len;
        furthest = end.max(furthest);
    }
    match end == furthest {
        true => start,
        false => furthest,
    }
}

/// Cuts a list into rounds of at most [`ROUND_BYTES`]. A list without bytes has no rounds.
pub(super) fn in_rounds(
    list: IoList<'_>,
    round: impl FnMut(IoList<'_>) -> Result<(), CallError>,
) -> Result<(), CallError> {
    in_rounds_of(list, ROUND_BYTES, round)
}

/// The same with rounds of at most `most` bytes.
pub(super) fn in_rounds_of(
    list: IoList<'_>,
    most: u64,
    mut round: impl FnMut(IoList<'_>) -> Result<(), CallError>,
) -> Result<(), CallError> {
    match list.len() {
        0 => return Ok(()),
        len if len <= most => return round(list),
        _ => {}
    }
    let mut regions = Cutter::new(list.regions.iter().copied());
    let mut memory = Cutter::new(list.memory.iter().cloned());
    loop {
        let regions = &regions.take(most);
        if regions.is_empty() {
            return Ok(());
        }
        let len = regions.iter().map(|region| region.len).sum();
        let memory = &memory.take(len);
        round(IoList { regions, memory })?;
    }
}

pub(super) fn striping(distribution: &Distribution) -> Result<Striping, CallError> {
    Striping::new(distribution)
        .ok_or_else(|| CallError::local(Errno::CORRUPT, "the file has no servers"))
}

pub(super) fn check_end(end: u64) -> Result<(), CallError> {
    if end > MAX_FILE_BYTES {
        let message = format!("byte {end} lies behind the largest offset, 2^63 - 1");
        return Err(CallError::local(Errno::EFBIG, message));
    }
    Ok(())
}

pub(super) fn keeps_changing() -> CallError {
    CallError::local(
        Errno::EAGAIN,
        "the file kept being truncated or moved by others; try again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_leave_nothing_out_from_the_start_of_their_last_run_on() {
        let of = |pairs: &[(u64, u64)]| {
            let regions = pairs.iter().map(|&(offset, len)| Region { offset, len });
            start_of_last_run(&regions.collect::<Vec<_>>())
        };
        assert_eq!(of(&[]), 0);
        assert_eq!(of(&[(5, 10)]), 5);
        assert_eq!(of(&[(5, 10), (15, 1), (90, 0)]), 5);
        assert_eq!(of(&[(5, 10), (16, 4), (20, 2)]), 16);
        // The region with the highest end is not the last in order: the regions in front of it need not be contiguous with it.
        assert_eq!(of(&[(50, 10), (0, 4)]), 60);
    }

    #[test]
    fn a_buffer_that_is_still_held_is_waited_for() {
        let memory = Memory::zeroed(8);
        let mut held = Some(memory.clone());
        let mut polls = 0;
        wait_until_free(&memory, || {
            polls += 1;
            if polls == 3 {
                held.take();
            }
        });
        assert_eq!((polls, memory.sharers()), (3, 1));
    }
}
