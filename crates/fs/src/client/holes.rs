//! The data of files between holes, as I/O servers report them.

use causeway_wire::datafile::BLOCK_BYTES;
use causeway_wire::fs::{Body, Distribution, Errno, Node, ObjectId, Operation, Region, ReplyBody};

use super::call::Call;
use super::call_error::{CallError, object_name, unexpected_reply};
use super::connection::Client;
use super::file::File;
use super::io::{FORM_CHANGES, Form, keeps_changing, striping};
use super::nodes::node;
use super::transfer::IoKind;
use crate::Error;
use crate::distribution::MAX_FILE_BYTES;

impl Client {
    /// Stored bytes of an object's content: less than the size of a file with holes, perhaps more if room is reserved.
    /// Files that may have holes cost one request to each of their I/O servers, which count in blocks of 4 KiB.
    /// With servers of earlier builds it is the size. Directories and links have no stored bytes.
    pub fn stored_bytes(&mut self, node: &Node) -> Result<u64, Error> {
        self.try_stored_bytes(node)
            .map_err(|error| error.during("measure", &object_name(node.object)))
    }

    /// As [`Client::stored_bytes`], or the size if an I/O server fails: programs still need the other attributes.
    pub fn stored_bytes_or_size(&mut self, node: &Node) -> u64 {
        self.stored_bytes(node).unwrap_or_else(|error| {
            tracing::warn!("{error}; its size is shown instead");
            node.attributes.size
        })
    }

    fn try_stored_bytes(&mut self, node: &Node) -> Result<u64, CallError> {
        let object = node.object;
        let distribution = match &node.body {
            Body::Striped {
                distribution,
                sparse: true,
                ..
            } => distribution,
            Body::Striped { .. } | Body::Stuffed { .. } => return Ok(node.attributes.size),
            Body::Directory(_) | Body::Link(_) | Body::Special { .. } => return Ok(0),
        };
        match self.stored_of_each(object, distribution) {
            Ok(stored) => Ok(stored.into_iter().fold(0, u64::saturating_add)),
            // An I/O server of an earlier build.
            Err(error) if error.errno == Errno::EOPNOTSUPP => Ok(node.attributes.size),
            Err(error) => Err(error),
        }
    }

    /// How much of each datafile is stored.
    fn stored_of_each(
        &mut self,
        object: ObjectId,
        distribution: &Distribution,
    ) -> Result<Vec<u64>, CallError> {
        let calls = self.query_each(distribution, |_| Operation::StoredData { object })?;
        let replies = self.rpc.call_all(calls).into_iter();
        replies
            .map(|reply| match reply? {
                // The longest datafile has one byte less.
                ReplyBody::Stored(bytes) if bytes > MAX_FILE_BYTES + 1 => {
                    let text = format!("the server says that a datafile has {bytes} bytes stored");
                    Err(CallError::local(Errno::EPROTO, text))
                }
                ReplyBody::Stored(bytes) => Ok(bytes),
                other => Err(unexpected_reply(&other)),
            })
            .collect()
    }

    /// Tells the metadata server if a file that is marked as one that may have holes turns out to have none: parts of it were written
    /// before those in front of them, and by now all of it has been written.
    /// If the disks count more or fewer bytes than were written, the mark stays.
    pub(super) fn note_if_filled(&mut self, file: &mut File) -> Result<(), CallError> {
        let Body::Striped {
            distribution,
            sparse: true,
            truncating: None,
            ..
        } = &file.node.body
        else {
            return Ok(());
        };
        let (object, attributes) = (file.node.object, file.node.attributes);
        let striping = striping(distribution)?;
        // The mark only costs requests, which is no reason to have a sync fail.
        let Ok(stored) = self.stored_of_each(object, distribution) else {
            return Ok(());
        };
        let is_full = |(position, bytes): (usize, u64)| {
            let size = striping.datafile_size(position, attributes.size);
            bytes == size.next_multiple_of(BLOCK_BYTES)
        };
        if stored.into_iter().enumerate().all(is_full) {
            let changed = attributes.changed;
            let filled = Operation::Filled { object, changed };
            file.update_node(self.mutate(filled).and_then(node)?)?;
        }
        Ok(())
    }

    /// The first region of a file from `offset` on that may contain other bytes than zeros, in front of the file's end according to
    /// `file`. `None` if there is only a hole. Servers report data in units of some MiB, so that the region
    /// may begin and end in a hole, and may be followed by further data.
    pub fn next_data(&mut self, file: &mut File, offset: u64) -> Result<Option<Region>, Error> {
        self.try_next_data(file, offset)
            .map_err(|error| error.during("find data", &object_name(file.node.object)))
    }

    pub(super) fn try_next_data(
        &mut self,
        file: &mut File,
        offset: u64,
    ) -> Result<Option<Region>, CallError> {
        self.check_access(file, IoKind::Read)?;
        for _ in 0..FORM_CHANGES {
            let size = file.node.attributes.size;
            if offset >= size {
                return Ok(None);
            }
            match self.form(file)? {
                Form::Striped(distribution) => {
                    if let Some(found) = self.find_striped(file, &distribution, (offset, size))? {
                        return Ok(first_of(found, size));
                    }
                }
                Form::Stuffed { .. } => {
                    return Ok(Some(Region {
                        offset,
                        len: size - offset,
                    }));
                }
            }
        }
        Err(keeps_changing())
    }

    /// For each datafile that has data there, the span in the file of its first data at or behind the offset.
    /// `None` if the file was truncated meanwhile, which `file` then shows.
    fn find_striped(
        &mut self,
        file: &mut File,
        distribution: &Distribution,
        (offset, size): (u64, u64),
    ) -> Result<Option<Vec<(u64, u64)>>, CallError> {
        let striping = striping(distribution)?;
        let object = file.node.object;
        let (mut asked, mut calls) = (Vec::new(), Vec::new());
        for position in 0..striping.servers() {
            let offset = striping.datafile_size(position, offset);
            if offset >= striping.datafile_size(position, size) {
                continue;
            }
            asked.push((position, offset));
            let operation = Operation::FindData {
                object,
                at_least: file.least_length(position),
                offset,
            };
            calls.push(Call::query(
                self.io_server(distribution, position)?,
                operation,
            ));
        }
        let results = self.rpc.call_all(calls);
        let Some(replies) = self.unless_missing(file, results)? else {
            return Ok(None);
        };
        let mut found = Vec::new();
        for ((position, asked), reply) in asked.into_iter().zip(replies) {
            let first = match &reply {
                ReplyBody::Data { first: None } => continue,
                ReplyBody::Data { first: Some(first) }
                    if first.offset >= asked && first.len > 0 =>
                {
                    first
                }
                other => return Err(unexpected_reply(other)),
            };
            let last = first.offset.saturating_add(first.len - 1);
            let start = striping.file_offset(position, first.offset).max(offset);
            found.push((
                start,
                striping.file_offset(position, last).saturating_add(1),
            ));
        }
        Ok(Some(found))
    }
}

/// The first of these spans, joined with those that overlap or follow it, up to the file's end.
fn first_of(mut spans: Vec<(u64, u64)>, size: u64) -> Option<Region> {
    spans.sort_unstable();
    let (start, mut end) = *spans.first()?;
    for (from, to) in spans {
        if from <= end {
            end = end.max(to);
        }
    }
    let len = end.min(size).saturating_sub(start);
    (len > 0).then_some(Region { offset: start, len })
}
