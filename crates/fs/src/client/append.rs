//! Appending to a file, also while other clients append or change its size: the bytes of one call are
//! contiguous, and overlap nothing that other clients append.
//!
//! The metadata server itself appends to small files. To a striped file, one client at a time appends, the one that has the file's *append lock*: the metadata
//! server grants it the lock and sends the offset of the end, the client writes there, and releases the lock with the new size, which makes the
//! bytes that it has written a part of the file. A client that takes too long loses the lock, and begins again. The module `append_lock` chooses
//! the connections for these writes.

use std::time::Instant;

use causeway_bmi::Memory;
use causeway_sys::memory::with_foreign_read_only;
use causeway_wire::fs::{Errno, MAX_STUFFED_BYTES, Operation, Region};

use super::append_lock::{AppendLockWait, HeldAppendLock};
use super::call_error::{CallError, done, object_name};
use super::connection::Client;
use super::file::File;
use super::io::{Form, check_end, in_rounds, keeps_changing};
use super::nodes::{consistent, node};
use super::transfer::{IoKind, IoList};
use crate::Error;

impl Client {
    /// Writes all of `from` behind the end of a file. Returns the byte behind the last one written.
    pub fn append(&mut self, file: &mut File, from: &[u8]) -> Result<u64, Error> {
        with_foreign_read_only(from, |memory| {
            self.append_list(file, std::slice::from_ref(memory))
        })
    }

    /// Writes memory fragments behind each other behind the end of a file, in one piece if they have at most 64 MiB. Returns the
    /// byte behind the last one written.
    pub fn append_list(&mut self, file: &mut File, memory: &[Memory]) -> Result<u64, Error> {
        let mut end = file.node.attributes.size;
        // The offset is found in each round.
        let regions = [Region {
            offset: 0,
            len: memory.iter().map(|fragment| fragment.len() as u64).sum(),
        }];
        let list = IoList {
            regions: &regions,
            memory,
        };
        in_rounds(list, |list| {
            end = self.append_round(file, list.memory, list.len())?;
            Ok(())
        })
        .map(|()| end)
        .map_err(|error| error.during("append", &object_name(file.node.object)))
    }

    /// Writes memory at an offset or, if that is absent, behind the end of a file. Returns the byte behind the last one
    /// written.
    pub fn write_memory(
        &mut self,
        file: &mut File,
        offset: Option<u64>,
        memory: &[Memory],
    ) -> Result<u64, Error> {
        let Some(offset) = offset else {
            return self.append_list(file, memory);
        };
        let len = memory.iter().map(|fragment| fragment.len() as u64).sum();
        self.write_list(file, &[Region { offset, len }], memory)?;
        Ok(offset.saturating_add(len))
    }

    fn append_round(
        &mut self,
        file: &mut File,
        memory: &[Memory],
        len: u64,
    ) -> Result<u64, CallError> {
        self.check_access(file, IoKind::Write)?;
        file.forget_content();
        let deadline = Instant::now() + self.rpc.timeout;
        loop {
            let appended = self.append_once(file, memory, len, deadline);
            let is_over = Instant::now() >= deadline;
            match appended {
                Ok(Some(end)) => return Ok(end),
                Ok(None) if is_over => return Err(keeps_changing()),
                Ok(None) => {}
                // Others have truncated it each time that this client looked.
                Err(error) if error.errno == Errno::EAGAIN && !is_over => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns `None` if the file has changed its form meanwhile.
    fn append_once(
        &mut self,
        file: &mut File,
        memory: &[Memory],
        len: u64,
        deadline: Instant,
    ) -> Result<Option<u64>, CallError> {
        match self.form(file)? {
            Form::Striped(_) => self.append_striped(file, memory, len, deadline),
            Form::Stuffed { moving: false } if len <= MAX_STUFFED_BYTES as u64 => {
                self.append_stuffed(file, memory, len)
            }
            Form::Stuffed { .. } => self.unstuff(file).map(|()| None),
        }
    }

    /// Appends to a file whose content is beside the metadata. Returns `None` if the content was moved to datafiles, which `file` then shows.
    fn append_stuffed(
        &mut self,
        file: &mut File,
        memory: &[Memory],
        len: u64,
    ) -> Result<Option<u64>, CallError> {
        let object = file.node.object;
        let noted = self.will_change(file, &[self.metadata])?;
        let data = memory.iter().flat_map(Memory::to_vec).collect();
        match self
            .mutate(Operation::Append { object, data })
            .and_then(node)
        {
            Ok(node) => {
                file.update_node(node)?;
                self.has_changed(&mut file.unsynced, noted);
                let end = file.node.attributes.size;
                if end < len {
                    let text =
                        format!("the metadata server says that {len} bytes end at byte {end}");
                    return Err(CallError::local(Errno::EPROTO, text));
                }
                Ok(Some(end))
            }
            Err(error) if matches!(error.errno, Errno::NOT_STUFFED | Errno::MOVING) => {
                self.refresh_node(file)?;
                Ok(None)
            }
            Err(error) if error.errno == Errno::STUFFED => {
                self.unstuff(file)?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Appends to a striped file under its append lock. Returns `None` if the lock was lost, or the file was truncated meanwhile.
    fn append_striped(
        &mut self,
        file: &mut File,
        memory: &[Memory],
        len: u64,
        deadline: Instant,
    ) -> Result<Option<u64>, CallError> {
        let object = file.node.object;
        let mut wait = AppendLockWait::default();
        let (connections, (append_lock, node)) = loop {
            let connections = self.rpc.connections();
            if let Some(append_lock) = self.request_append_lock(object, &mut wait)? {
                break (connections, append_lock);
            }
            if Instant::now() >= deadline {
                let text = "other clients have had the append lock of the file for all of the time-out; try again";
                return Err(self.rpc.error_at(self.metadata, Errno::ETIMEDOUT, text));
            }
        };
        file.update_node(consistent(node)?)?;
        let held = HeldAppendLock {
            number: append_lock,
            connections,
            appends: true,
        };
        let appended = self.write_under_append_lock(file, &held, memory, len);
        match &appended {
            Ok(Some(_)) => return appended,
            // The server has revoked the lock, or does not reply.
            Err(error) if error.errno == Errno::ETIMEDOUT => return appended,
            Ok(None) | Err(_) => {}
        }
        let cancel = Operation::CancelAppend {
            object,
            append_lock,
        };
        let cancelled = self.query(cancel).and_then(done);
        match appended {
            Err(error) if matches!(error.errno, Errno::OVERTAKEN | Errno::STALE_VERSION) => {
                self.refresh_node(file)?;
            }
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        cancelled.map(|()| None)
    }

    fn write_under_append_lock(
        &mut self,
        file: &mut File,
        append_lock: &HeldAppendLock,
        memory: &[Memory],
        len: u64,
    ) -> Result<Option<u64>, CallError> {
        let Form::Striped(distribution) = self.form(file)? else {
            return Ok(None);
        };
        let offset = file.node.attributes.size;
        let end = offset.saturating_add(len);
        check_end(end)?;
        let list = IoList {
            regions: &[Region { offset, len }],
            memory,
        };
        let is_written = self.write_striped(file, &distribution, list, end, Some(append_lock))?;
        Ok(is_written.then_some(end))
    }
}
