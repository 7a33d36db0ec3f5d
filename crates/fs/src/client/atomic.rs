//! Access to a file that is atomic with respect to other accesses of this kind, however many servers it concerns: MPI's
//! atomic mode (docs/mpi-io.md).
//!
//! The metadata server puts these accesses in order: it grants one client after the other the file's append lock, the same as for appending. I/O servers
//! refuse writes under a lock after those under a later one. When the client has read or written, it asks the metadata server whether it still
//! has the lock: only then the access succeeds. An access loses the lock if others wait and it makes no progress for half of the time-out,
//! or if a connection is lost. It then fails, and other clients may see what it has written by then.

use causeway_bmi::Memory;
use causeway_wire::fs::{Body, Errno, Operation, Region};

use super::append_lock::{AppendLockWait, HeldAppendLock};
use super::call_error::{CallError, done, object_name};
use super::connection::Client;
use super::file::File;
use super::io::{FORM_CHANGES, Form, check_list, in_rounds, keeps_changing};
use super::nodes::consistent;
use super::transfer::{IoKind, IoList};
use crate::Error;

/// The number of no append lock.
const NO_APPEND_LOCK: u64 = 0;

/// A client's access to a file under its append lock, which is released with [`Client::end_atomic`] or [`Client::cancel_atomic`].
pub struct AtomicAccess {
    append_lock: HeldAppendLock,
    /// Something was read or written.
    begun: bool,
}

impl Client {
    /// Requests the append lock of a file, and waits for it for a part of the time-out. Returns nothing if other clients are still ahead: the
    /// caller has to call again at once, with the same `wait`, which is [`AppendLockWait::default`] the first time. Meanwhile the server keeps the
    /// client's place in the order, and between the calls other threads may use the client. The caller must be allowed to write the file. A client
    /// has one append lock at a time: another one that it had, of any file, is lost.
    pub fn begin_atomic(
        &mut self,
        file: &mut File,
        wait: &mut AppendLockWait,
    ) -> Result<Option<AtomicAccess>, Error> {
        self.try_begin(file, wait)
            .map_err(|error| error.during("atomic access", &object_name(file.node.object)))
    }

    /// As [`Client::read_lent`], under the append lock.
    pub fn read_atomic(
        &mut self,
        file: &mut File,
        access: &mut AtomicAccess,
        regions: &[Region],
        memory: &[Memory],
    ) -> Result<u64, Error> {
        let list = IoList { regions, memory };
        let mut count = 0;
        let result = check_list(list).and_then(|()| {
            in_rounds(list, |list| {
                self.go_on(file, access)?;
                count += self.read_checked(file, list)?;
                Ok(())
            })
        });
        self.take_back(memory);
        result
            .map(|()| count)
            .map_err(|error| error.during("read", &object_name(file.node.object)))
    }

    /// As [`Client::write_list`], under the append lock.
    pub fn write_atomic(
        &mut self,
        file: &mut File,
        access: &mut AtomicAccess,
        regions: &[Region],
        memory: &[Memory],
    ) -> Result<(), Error> {
        let list = IoList { regions, memory };
        check_list(list)
            .and_then(|()| {
                in_rounds(list, |list| {
                    self.go_on(file, access)?;
                    self.write_in_access(file, access, list)
                })
            })
            .map_err(|error| error.during("write", &object_name(file.node.object)))
    }

    /// Releases the append lock. Fails with [`Errno::OVERTAKEN`] if the client had lost it before: then other accesses may have come in between.
    pub fn end_atomic(&mut self, file: &File, access: AtomicAccess) -> Result<(), Error> {
        self.check_append_lock(file, access.append_lock.number, true)
            .map_err(|error| error.during("atomic access", &object_name(file.node.object)))
    }

    /// Releases the append lock after a failure, whether the client still has it or not.
    pub fn cancel_atomic(&mut self, file: &File, access: AtomicAccess) -> Result<(), Error> {
        self.cancel_append_lock(file, access.append_lock.number)
            .map_err(|error| error.during("atomic access", &object_name(file.node.object)))
    }

    fn cancel_append_lock(&mut self, file: &File, append_lock: u64) -> Result<(), CallError> {
        let object = file.node.object;
        self.query(Operation::CancelAppend {
            object,
            append_lock,
        })
        .and_then(done)
    }

    fn check_append_lock(
        &mut self,
        file: &File,
        append_lock: u64,
        end: bool,
    ) -> Result<(), CallError> {
        let object = file.node.object;
        self.query(Operation::CheckAppendLock {
            object,
            append_lock,
            end,
        })
        .and_then(done)
    }

    fn try_begin(
        &mut self,
        file: &mut File,
        wait: &mut AppendLockWait,
    ) -> Result<Option<AtomicAccess>, CallError> {
        self.check_access(file, IoKind::Write)?;
        file.forget_content();
        self.connect_data(file)?;
        self.check_turns_known(file)?;
        let connections = self.rpc.connections();
        let Some((number, node)) = self.request_append_lock(file.node.object, wait)? else {
            return Ok(None);
        };
        if self.append_locks_known != self.rpc.connection(self.metadata) {
            // The server may be another one than before.
            self.cancel_append_lock(file, number)?;
            return Ok(None);
        }
        let updated = consistent(node).and_then(|node| file.update_node(node));
        if let Err(error) = updated {
            // The error about the node is the more important one.
            let _ = self.cancel_append_lock(file, number);
            return Err(error);
        }
        Ok(Some(AtomicAccess {
            append_lock: HeldAppendLock {
                number,
                connections,
                appends: false,
            },
            begun: false,
        }))
    }

    /// Fails unless clients can ask the metadata server, by its present connection, whether they still have their append locks. So a server of an earlier
    /// build is recognised before this client waits for it, and before anything is written.
    fn check_turns_known(&mut self, file: &File) -> Result<(), CallError> {
        let known = self.append_locks_known;
        if known.is_some() && known == self.rpc.connection(self.metadata) {
            return Ok(());
        }
        match self.check_append_lock(file, NO_APPEND_LOCK, false) {
            Err(error) if error.errno != Errno::OVERTAKEN => return Err(error),
            Ok(()) | Err(_) => {}
        }
        self.append_locks_known = self.rpc.connection(self.metadata);
        Ok(())
    }

    /// Connects with the servers of the file's datafiles, also of those that it does not have yet.
    fn connect_data(&mut self, file: &File) -> Result<(), CallError> {
        let (Body::Stuffed { distribution, .. } | Body::Striped { distribution, .. }) =
            &file.node.body
        else {
            return Ok(());
        };
        let servers = self.io_servers(distribution)?;
        self.rpc.connect(&servers)
    }

    /// Renews the append lock, unless it has just been granted.
    fn go_on(&mut self, file: &File, access: &mut AtomicAccess) -> Result<(), CallError> {
        match std::mem::replace(&mut access.begun, true) {
            true => self.check_append_lock(file, access.append_lock.number, false),
            false => Ok(()),
        }
    }

    fn write_in_access(
        &mut self,
        file: &mut File,
        access: &mut AtomicAccess,
        list: IoList<'_>,
    ) -> Result<(), CallError> {
        self.check_access(file, IoKind::Write)?;
        let end = list.end();
        for _ in 0..FORM_CHANGES {
            let written = match self.form(file)? {
                Form::Striped(distribution) => {
                    self.write_striped(file, &distribution, list, end, Some(&access.append_lock))
                }
                // A write to content beside the metadata would not be one under the append lock.
                Form::Stuffed { .. } => self.unstuff(file).map(|()| false),
            };
            match written {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) if error.errno == Errno::OVERTAKEN => {}
                Err(error) => return Err(error),
            }
            // A connection may have been lost: while the client has the lock, there is no later one whose writes a new connection could follow.
            self.connect_data(file)?;
            access.append_lock.connections = self.rpc.connections();
            self.check_append_lock(file, access.append_lock.number, false)?;
        }
        Err(keeps_changing())
    }
}
