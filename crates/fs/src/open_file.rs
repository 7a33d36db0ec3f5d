//! Open files with flags and a position, used by several threads.
//!
//! A file that may be written is accessed through one client, which records what an fsync has to make durable. A file that is
//! only read has no client of its own: threads read it concurrently, each with a client of the pool.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_wire::fs::{Attributes, Body, Errno, ObjectId, Place, Region};

use crate::Error;
use crate::client::{Allocation, Client, CreateOptions, File};
use crate::pool::Clients;

/// Most further attempts to open or make a file whose name others make and remove.
const MAX_ATTEMPTS: usize = 100;

/// How a file is opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenFlags {
    /// Open for reading.
    pub read: bool,
    /// Open for writing.
    pub write: bool,
    /// Make it if it does not exist.
    pub create: bool,
    /// Make it, and fail if the name exists.
    pub exclusive: bool,
    /// Discard its content.
    pub truncate: bool,
    /// Write behind its present end.
    pub append: bool,
    /// Fail if the name is a symbolic link.
    pub no_follow: bool,
    /// Make every write durable before it returns.
    pub sync: bool,
}

/// The origin of a seek.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whence {
    /// From the file's start.
    Start,
    /// From the position.
    Current,
    /// From the file's end, as it is at the server.
    End,
    /// From the file's start, to the next byte that lies in no hole.
    Data,
    /// From the file's start, to the next hole, or the file's end.
    Hole,
}

/// An open file. It exists as long as it is open, even if its name is removed or replaced (`docs/open-files.md`).
pub struct OpenFile {
    pub(crate) clients: Arc<Clients>,
    flags: OpenFlags,
    object: ObjectId,
    /// The client of a file that may be written.
    client: Option<usize>,
    file: Mutex<File>,
    position: Mutex<u64>,
    /// The number of its owner of locks.
    pub(crate) lock_number: u64,
    /// Waits for locks on it, by their numbers.
    pub(crate) lock_waits: Mutex<Vec<u64>>,
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.drop_locks();
    }
}

/// A failure found by this library, not by a server.
fn refuse(operation: &'static str, object: ObjectId, errno: Errno, message: &str) -> Error {
    Error {
        operation,
        subject: format!("object {}", object.0),
        errno,
        message: message.to_owned(),
        server: None,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OpenFile {
    /// Opens a file. A new one gets the permission bits `mode`.
    pub fn open(
        clients: &Arc<Clients>,
        path: &[u8],
        flags: OpenFlags,
        mode: u16,
    ) -> Result<Self, Error> {
        let changes = flags.write || flags.truncate;
        let client = changes.then(|| clients.next());
        let file = clients.call(client, |client| open(client, path, flags, mode))?;
        Ok(Self {
            clients: Arc::clone(clients),
            flags,
            object: file.node.object,
            client,
            file: Mutex::new(file),
            position: Mutex::new(0),
            lock_number: clients.next_lock_number(),
            lock_waits: Mutex::default(),
        })
    }

    /// The object's number.
    pub fn object(&self) -> ObjectId {
        self.object
    }

    /// The file's own client, if it has one.
    pub fn client(&self) -> Option<usize> {
        self.client
    }

    /// The flags with which it was opened.
    pub fn flags(&self) -> OpenFlags {
        self.flags
    }

    fn with<T>(
        &self,
        work: impl FnOnce(&mut Client, &mut File) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.clients.call(self.client, |client| {
            if self.client.is_some() {
                return work(client, &mut lock(&self.file));
            }
            // Other threads read meanwhile. The node that is kept is the latest that was received, or will be requested again.
            let mut file = lock(&self.file).clone();
            let done = work(client, &mut file);
            *lock(&self.file) = file;
            done
        })
    }

    fn check(&self, allowed: bool, operation: &'static str, what: &str) -> Result<(), Error> {
        match allowed {
            true => Ok(()),
            false => Err(refuse(operation, self.object, Errno::EBADF, what)),
        }
    }

    pub(crate) fn check_read(&self) -> Result<(), Error> {
        self.check(
            self.flags.read,
            "read",
            "the file was not opened for reading",
        )
    }

    pub(crate) fn check_write(&self, operation: &'static str) -> Result<(), Error> {
        let what = "the file was not opened for writing";
        self.check(self.flags.write, operation, what)
    }

    /// Carries out a read of the file's content.
    pub fn reading<T>(
        &self,
        work: impl FnOnce(&mut Client, &mut File) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.check_read()?;
        self.with(work)
    }

    /// Carries out a write of the file's content, and makes it durable if the file was opened with `sync`.
    pub fn writing<T>(
        &self,
        work: impl FnOnce(&mut Client, &mut File) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.check_write("write")?;
        self.with(|client, file| {
            let done = work(client, file)?;
            match self.flags.sync {
                true => client.fsync(file).map(|()| done),
                false => Ok(done),
            }
        })
    }

    /// Reads at the position with `read`, which gets the position and returns the number of bytes read.
    pub fn read_on(
        &self,
        read: impl FnOnce(&mut Client, &mut File, u64) -> Result<u64, Error>,
    ) -> Result<u64, Error> {
        self.check_read()?;
        let mut position = lock(&self.position);
        let count = self.with(|client, file| read(client, file, *position))?;
        *position = position.saturating_add(count);
        Ok(count)
    }

    /// Writes with `write`, which gets the position or, if the file was opened to append, `None`, for
    /// a write behind its end; it returns the byte behind the last one written, as [`Client::write_memory`] does.
    pub fn write_on(
        &self,
        write: impl FnOnce(&mut Client, &mut File, Option<u64>) -> Result<u64, Error>,
    ) -> Result<(), Error> {
        self.check_write("write")?;
        let mut position = lock(&self.position);
        let at = (!self.flags.append).then_some(*position);
        *position = self.writing(|client, file| write(client, file, at))?;
        Ok(())
    }

    /// Sets the position, which may lie behind the end. Returns it.
    pub fn seek(&self, offset: i64, whence: Whence) -> Result<u64, Error> {
        let mut position = lock(&self.position);
        let base = match whence {
            Whence::Start => 0,
            Whence::Current => *position,
            Whence::End => self.attributes()?.size,
            Whence::Data | Whence::Hole => {
                *position = self.find(offset, whence)?;
                return Ok(*position);
            }
        };
        let target = base
            .checked_add_signed(offset)
            .filter(|target| i64::try_from(*target).is_ok());
        let Some(target) = target else {
            let message =
                "the position would lie before the start of the file or behind byte 2^63 - 1";
            return Err(refuse("seek", self.object, Errno::EINVAL, message));
        };
        *position = target;
        Ok(target)
    }

    /// Where data or a hole begin, from `offset` on.
    fn find(&self, offset: i64, whence: Whence) -> Result<u64, Error> {
        let found = match u64::try_from(offset) {
            Ok(from) => self.with(|client, file| {
                client.refresh(file)?;
                match whence {
                    Whence::Hole => client.seek_hole(file, from),
                    _ => client.seek_data(file, from),
                }
            })?,
            Err(_) => None,
        };
        let message = "there is nothing of that kind between the offset and the end of the file";
        found.ok_or_else(|| refuse("seek", self.object, Errno::ENXIO, message))
    }

    /// As [`Client::allocate_part`].
    pub fn allocate(&self, part: Region, what: Allocation, keep_size: bool) -> Result<(), Error> {
        self.check_write("allocate")?;
        self.with(|client, file| client.allocate_part(file, part, what, keep_size))
    }

    /// The attributes as they are at the server.
    pub fn attributes(&self) -> Result<Attributes, Error> {
        self.clients
            .call(None, |client| client.stat_object(self.object))
            .map(|node| node.attributes)
    }

    /// Drops the content that came with the opening, as it may be older than a lock.
    pub(crate) fn forget_content(&self) {
        lock(&self.file).forget_content();
    }

    /// The attributes, and the bytes that are stored ([`Client::stored_bytes_or_size`]).
    pub fn stored_attributes(&self) -> Result<(Attributes, u64), Error> {
        self.clients.call(None, |client| {
            let node = client.stat_object(self.object)?;
            Ok((node.attributes, client.stored_bytes_or_size(&node)))
        })
    }

    /// The size as it was last seen.
    pub fn known_size(&self) -> u64 {
        lock(&self.file).node.attributes.size
    }

    /// Truncates or extends it.
    pub fn truncate(&self, size: u64) -> Result<(), Error> {
        self.check_write("truncate")?;
        self.with(|client, file| client.truncate(file, size))
    }

    /// Makes content and size durable.
    pub fn sync(&self) -> Result<(), Error> {
        self.with(Client::fsync)
    }
}

/// A part of a file.
pub fn region(offset: u64, len: usize) -> Region {
    Region {
        offset,
        len: len as u64,
    }
}

fn open(client: &mut Client, path: &[u8], flags: OpenFlags, mode: u16) -> Result<File, Error> {
    let mut file = match flags.create || flags.exclusive {
        true => make(client, path, flags, mode)?,
        false => find(client, path, flags)?,
    };
    let refused = |errno: Errno, message: &str| Error {
        operation: "open",
        subject: String::from_utf8_lossy(path).escape_debug().to_string(),
        errno,
        message: message.to_owned(),
        server: None,
    };
    match file.node.body {
        Body::Directory(_) => return Err(refused(Errno::EISDIR, &Errno::EISDIR.to_string())),
        Body::Link(_) => {
            let message = "a symbolic link, and the file was to be opened without following one";
            return Err(refused(Errno::ELOOP, message));
        }
        Body::Special { .. } => {
            let message = "a pipe, a socket or a device, which programs use on a mount";
            return Err(refused(Errno::ENXIO, message));
        }
        Body::Stuffed { .. } | Body::Striped { .. } => {}
    }
    if flags.read {
        client.check_readable(&file)?;
    }
    if flags.write || flags.truncate {
        client.check_writable(&file)?;
    }
    if flags.truncate && file.node.attributes.size > 0 {
        client.truncate(&mut file, 0)?;
    }
    Ok(file)
}

/// Opens without a small file's content: bytes that are written between opening and reading must be read.
fn find(client: &mut Client, path: &[u8], flags: OpenFlags) -> Result<File, Error> {
    client.open_held(path, !flags.no_follow)
}

fn make(client: &mut Client, path: &[u8], flags: OpenFlags, mode: u16) -> Result<File, Error> {
    let options = CreateOptions {
        // Otherwise the server would follow a link, also to a file that does not exist yet.
        exclusive: flags.exclusive || flags.no_follow,
        mode,
        ..CreateOptions::default()
    };
    let mut attempts = 0..MAX_ATTEMPTS;
    loop {
        match client.create_held(Place::from(path), &options) {
            // The name is that of a directory, or links are not followed and it exists.
            Err(error) if error.errno == Errno::EEXIST && !flags.exclusive => {}
            made => return made,
        }
        match find(client, path, flags) {
            // The name has been removed meanwhile.
            Err(error) if error.errno == Errno::ENOENT && attempts.next().is_some() => {}
            found => return found,
        }
    }
}
