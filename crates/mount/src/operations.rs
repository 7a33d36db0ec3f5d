//! The operations behind the kernel's requests: each is one or a few calls of the client library.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_fs::Error;
use causeway_fs::client::{CacheStamp, Client, CreateOptions, File, Named, Space, Unsynced};
use causeway_wire::fs::{
    Attributes, Body, Entry, Errno, Kind, Node, ObjectId, Place, Region, SetAttributes,
};

use crate::ahead::Ahead;
use crate::attributes::{Failed, Outcome, Shown};
use crate::buffers::{Buffer, Buffers};
use crate::caches::Caches;
use crate::clients::{Clients, User};
use crate::contents::Contents;
use crate::file_end::FileEnd;
use crate::listing::{DOTS, Listing};
use crate::lock_handles::LockHandles;
use crate::open_files::{Access, Handle, OpenFiles, Shared};
use crate::signals::Waits;
use crate::stored::StoredBytes;

/// Most entries of a directory in one request.
const PAGE: u32 = 1000;
/// A mounted file system, without its connection to the kernel.
pub(crate) struct Mounted {
    pub(crate) clients: Clients,
    pub(crate) caches: Caches,
    /// Indices of the I/O servers in the configuration.
    io_servers: Vec<usize>,
    pub(crate) files: OpenFiles,
    buffers: Buffers,
    contents: Contents,
    stored: StoredBytes,
    directories: Mutex<Directories>,
    ahead: Ahead,
    /// Replies to writes past the kernel's cache that wait until it has dropped pages.
    pub(crate) waiting_writes: AtomicUsize,
    /// Programs that wait for locks.
    pub(crate) waits: Arc<Waits>,
    /// The handles by which programs have taken locks.
    pub(crate) lock_handles: LockHandles,
}

#[derive(Default)]
struct Directories {
    last: u64,
    open: HashMap<u64, Arc<Mutex<Listing>>>,
}

/// A new object under a new name.
pub(crate) enum New<'a> {
    Directory { mode: u16 },
    File { mode: u16 },
    Special { kind: Kind, mode: u16, device: u32 },
    Link { target: &'a [u8] },
    Name { of: ObjectId },
}

impl Mounted {
    pub(crate) fn new(clients: Clients, caches: Caches, io_servers: Vec<usize>) -> Self {
        Self {
            buffers: Buffers::new(clients.count()),
            clients,
            caches,
            io_servers,
            files: OpenFiles::default(),
            contents: Contents::default(),
            stored: StoredBytes::default(),
            directories: Mutex::default(),
            ahead: Ahead::default(),
            waiting_writes: AtomicUsize::default(),
            waits: Arc::default(),
            lock_handles: LockHandles::default(),
        }
    }

    /// A node's attributes as programs see them.
    fn shown(&self, node: &Node) -> Shown {
        Shown {
            device: node.body.device(),
            ..self.shown_with(node.object, node.attributes)
        }
    }

    /// The same of what is no device.
    fn shown_with(&self, object: ObjectId, attributes: Attributes) -> Shown {
        Shown {
            object,
            attributes,
            device: 0,
            stored: match attributes.kind {
                Kind::File => attributes.size,
                _ => 0,
            },
            seen: None,
        }
    }

    /// What a name stands for. How much of a file with holes is stored only [`Mounted::attributes`] says.
    pub(crate) fn looked_up(&self, node: &Node, seen: Option<CacheStamp>) -> Shown {
        let has_holes = matches!(node.body, Body::Striped { sparse: true, .. });
        Shown {
            seen: seen.filter(|_| !has_holes),
            ..self.shown(node)
        }
    }

    pub(crate) fn lookup(&self, user: User, parent: ObjectId, name: &[u8]) -> Outcome<Shown> {
        // The kernel has checked that the user may search the directory, by attributes and a list that are as good as the server's; the
        // cache, that the server takes the user for the same.
        match self.caches.find(user, parent, name) {
            Some(Named::Node(node, seen)) => return Ok(self.looked_up(&node, Some(seen))),
            Some(Named::Nothing) => return Err(Failed(Errno::ENOENT)),
            None => {}
        }
        let (found, seen) = self
            .clients
            .for_user(user, false, |client| {
                // A missing name is an ordinary result, and not logged.
                match client.stat_cached(parent, name) {
                    Err(error) if error.errno == Errno::ENOENT => Ok(None),
                    found => found.map(Some),
                }
            })?
            .ok_or(Failed(Errno::ENOENT))?;
        if let Some(count) = self.ahead.begin(parent, name) {
            let next = self.look_up_behind(user, parent, name, count);
            self.ahead.end(parent, next.unwrap_or_default());
        }
        Ok(self.looked_up(&found, seen))
    }

    /// Looks up as many names behind this one, so that they are cached when the kernel asks for them, and returns the name behind these. Errors are for the
    /// requests to report that the kernel makes then.
    fn look_up_behind(
        &self,
        user: User,
        directory: ObjectId,
        name: &[u8],
        count: u32,
    ) -> Outcome<Option<Vec<u8>>> {
        // Permission to read the directory was checked when a program listed it.
        let (mut entries, _) = (self.clients)
            .own(|client| client.read_directory(directory, name, count + 1, false))?;
        let next = entries.get(count as usize).map(|entry| entry.name.clone());
        entries.truncate(count as usize);
        // Names are found in the cache by users who have looked some up while the directory was cached.
        self.node(directory)?;
        let unknown = |entry: &Entry| self.caches.find(user, directory, &entry.name).is_none();
        let names = entries.into_iter().filter(unknown);
        let names: Vec<Vec<u8>> = names.map(|entry| entry.name).collect();
        if !names.is_empty() {
            self.clients.for_user(user, false, |client| {
                client.stat_all_cached(directory, &names)
            })?;
        }
        Ok(next)
    }

    /// An object's node, which may be cached.
    pub(crate) fn node(&self, object: ObjectId) -> Outcome<(Node, Option<CacheStamp>)> {
        match self.caches.node(object) {
            Some((node, seen)) => Ok((node, Some(seen))),
            None => self.clients.own(|client| client.stat_object_cached(object)),
        }
    }

    /// An object with how much of its content is stored.
    pub(crate) fn attributes(&self, object: ObjectId) -> Outcome<Shown> {
        let (node, seen) = self.node(object)?;
        self.caches.note_known(object);
        let has_holes = matches!(node.body, Body::Striped { sparse: true, .. });
        let stored = match has_holes {
            true => self
                .clients
                .own(|client| Ok(self.stored.of(&node, || client.stored_bytes(&node))))?,
            false => self.shown(&node).stored,
        };
        Ok(Shown {
            stored,
            seen,
            ..self.shown(&node)
        })
    }

    /// Changes attributes, the size first. A change of the size also states whether the file's set-user-ID and set-group-ID bits are cleared.
    pub(crate) fn change(
        &self,
        object: ObjectId,
        size: Option<(u64, bool)>,
        set: SetAttributes,
    ) -> Outcome<Shown> {
        let mut attributes = None;
        if let Some((size, drop_privileges)) = size {
            attributes = Some(self.with_file(object, |client, file| {
                self.changing_again(drop_privileges, client, file, |client, file| {
                    client.truncate(file, size)
                })?;
                Ok(file.node.attributes)
            })?);
        }
        if set != SetAttributes::default() {
            let grants = set.mode.is_some_and(|mode| unprivileged(mode).is_some());
            attributes = Some(match grants && self.files.get(object).is_some() {
                // Writes clear these bits, so the node that the open file has must have them.
                true => self.with_file(object, |client, file| {
                    client.set_attributes_of(file, set)?;
                    Ok(file.node.attributes)
                }),
                false => {
                    let mut unsynced = Unsynced::default();
                    let changed = self
                        .clients
                        .own(|client| client.set_attributes_noting(object, set, &mut unsynced));
                    // Also if the server has not replied: it may have set them.
                    if !unsynced.is_empty() {
                        self.files.note(object, unsynced);
                    }
                    changed
                }
            }?);
        }
        match attributes {
            // The kernel has the device's number already.
            Some(attributes) => Ok(self.shown_with(object, attributes)),
            None => self.attributes(object),
        }
    }

    pub(crate) fn read_link(&self, object: ObjectId) -> Outcome<Vec<u8>> {
        match self.node(object)?.0.body {
            Body::Link(target) => Ok(target),
            _ => Err(Failed(Errno::EINVAL)),
        }
    }

    /// Makes an object under a name that does not exist.
    pub(crate) fn make(
        &self,
        user: User,
        parent: ObjectId,
        name: &[u8],
        new: &New<'_>,
    ) -> Outcome<Shown> {
        let at = || Place::from((parent, name));
        let is_for_group = matches!(*new, New::Directory { mode } | New::File { mode } | New::Special { mode, .. } if is_for_group(mode));
        let node = self
            .clients
            .for_user(user, is_for_group, |client| match *new {
                New::Directory { mode } => client.make_directory(at(), mode, None),
                New::File { mode } => {
                    let options = CreateOptions {
                        exclusive: true,
                        mode,
                        ..CreateOptions::default()
                    };
                    client.create(at(), &options).map(|file| file.node)
                }
                New::Special { kind, mode, device } => {
                    client.make_special(at(), kind, mode, device)
                }
                New::Link { target } => client.symbolic_link(target, at()),
                New::Name { of } => client.hard_link_object(of, at()),
            })?;
        let made = self.made(&node);
        Ok(match new {
            // Requests about the object, which the kernel knows, are no sign that it has dealt with this reply.
            New::Name { .. } => Shown { seen: None, ..made },
            _ => made,
        })
    }

    /// An object that has just been made, as it is by now if that is cached.
    fn made(&self, node: &Node) -> Shown {
        match self.caches.node(node.object) {
            Some((now, seen)) => self.looked_up(&now, Some(seen)),
            None => self.looked_up(node, None),
        }
    }

    /// Makes a file and opens it, as [`OpenFiles::open`] does. If another client has just made it, returns [`Errno::ESTALE`]: the kernel then looks up the
    /// name, and so checks permissions.
    pub(crate) fn create(
        &self,
        user: User,
        parent: ObjectId,
        name: &[u8],
        (mode, exclusive): (u16, bool),
        (access, may_bypass_cache): (Access, bool),
    ) -> Outcome<(Shown, bool)> {
        let at = || Place::from((parent, name));
        let options = CreateOptions {
            exclusive: true,
            mode,
            ..CreateOptions::default()
        };
        let made = self.clients.for_user(user, is_for_group(mode), |client| {
            client.create_held(at(), &options)
        });
        match made {
            Ok(file) => {
                let shown = self.made(&file.node);
                let (shared, is_uncached) = self.files.open(shown.object, access, may_bypass_cache);
                *shared.lock() = Some(file);
                Ok((shown, is_uncached))
            }
            Err(Failed(Errno::EEXIST)) if !exclusive => Err(Failed(Errno::ESTALE)),
            Err(failed) => Err(failed),
        }
    }

    /// Removes a name of a file.
    pub(crate) fn unlink(&self, user: User, parent: ObjectId, name: &[u8]) -> Outcome {
        let place = Place::from((parent, name));
        self.clients
            .for_user(user, false, |client| client.unlink(place.clone()))
    }

    pub(crate) fn remove_directory(&self, user: User, parent: ObjectId, name: &[u8]) -> Outcome {
        let place = Place::from((parent, name));
        self.clients
            .for_user(user, false, |client| client.remove_directory(place.clone()))
    }

    pub(crate) fn rename(
        &self,
        user: User,
        from: (ObjectId, &[u8]),
        to: (ObjectId, &[u8]),
        no_replace: bool,
    ) -> Outcome {
        self.clients
            .for_user(user, false, |client| client.rename(from, to, no_replace))
    }

    /// Looks up what names have become, each the second one of a pair, to have leases on them.
    pub(crate) fn look_up_again(&self, names: &[(Place, Place)]) {
        for (_, name) in names {
            let found = self
                .clients
                .own(|client| client.stat_cached(name.base, &name.path).map(drop));
            if let Err(Failed(errno)) = found {
                tracing::debug!(?errno, "a name has changed since it was renamed");
            }
        }
    }

    /// Swaps the objects of two names.
    pub(crate) fn exchange(
        &self,
        user: User,
        first: (ObjectId, &[u8]),
        second: (ObjectId, &[u8]),
    ) -> Outcome {
        self.clients
            .for_user(user, false, |client| client.exchange(first, second))
    }

    /// Opens a file, as [`OpenFiles::open`] does, and truncates it if `truncate` is set. `drop_privileges` clears the set-user-ID and
    /// set-group-ID bits of a file that is truncated.
    pub(crate) fn open(
        &self,
        object: ObjectId,
        (access, may_bypass_cache): (Access, bool),
        truncate: bool,
        drop_privileges: bool,
    ) -> Outcome<bool> {
        self.caches.note_known(object);
        // Of a file that others change all the time the kernel would have to drop pages all the time, too.
        let is_contended = may_bypass_cache && !access.writes && self.caches.is_contended(object);
        let (shared, is_uncached) = match is_contended {
            true => (self.files.open_uncached(object, access), true),
            false => self.files.open(object, access, may_bypass_cache),
        };
        let opened = self.clients.of_file(object, |client| {
            let mut known = shared.lock();
            let file = known_file(client, &mut known, object, true)?;
            if !truncate {
                return Ok(());
            }
            self.changing(drop_privileges, client, file, |client, file| {
                client.truncate(file, 0)
            })
        });
        self.files.release(object, shared);
        if opened.is_err() {
            self.files.close(object, access, is_uncached);
        }
        opened.map(|()| is_uncached)
    }

    /// Whether the kernel may keep what it has of the content of a file that has just been opened. If not, it drops that before it reads by this
    /// handle.
    pub(crate) fn keeps_content(&self, object: ObjectId, handle: u64) -> bool {
        match self.caches.content(object) {
            Some((_, true)) => true,
            Some((era, false)) => {
                self.contents.will_drop(handle, object, era);
                false
            }
            None => false,
        }
    }

    /// Handles the last close of a handle.
    pub(crate) fn close(&self, object: ObjectId, handle: Handle) {
        self.contents.forget(handle.0);
        self.files
            .close(object, handle.access(), handle.is_uncached());
    }

    /// Makes a call about a file's content with the file's client.
    pub(crate) fn with_file<T>(
        &self,
        object: ObjectId,
        work: impl FnOnce(&mut Client, &mut File) -> Result<T, Error>,
    ) -> Outcome<T> {
        let shared: Shared = self.files.get(object).unwrap_or_default();
        let done = self.clients.of_file(object, |client| {
            let mut known = shared.lock();
            let file = known_file(client, &mut known, object, false)?;
            if let Some(others) = shared.others() {
                file.resume(others);
            }
            work(client, file)
        });
        self.files.release(object, shared);
        done
    }

    /// Reads up to `len` bytes by a handle; returns a buffer that begins with them, and their number. `is_cached`: the kernel keeps them.
    pub(crate) fn read(
        &self,
        object: ObjectId,
        handle: u64,
        (offset, len): (u64, usize),
        is_cached: bool,
    ) -> Outcome<(Buffer<'_>, usize)> {
        if let Some((object, era)) = self.contents.dropped(handle) {
            self.caches.note_content(object, era);
        }
        let number = self.clients.number(object);
        loop {
            let began = self.caches.with_end(object, |end| end.begin_read());
            let (buffer, count) = self.with_file(object, |client, file| {
                let buffer = self.buffers.take(number, client, len)?;
                let region = Region {
                    offset,
                    len: len as u64,
                };
                let count = client.read_list(file, &[region], &[buffer.first(len)])?;
                Ok((buffer, count as usize))
            })?;
            if !is_cached || count == len {
                return Ok((buffer, count));
            }
            let behind = offset.saturating_add(count as u64)..offset.saturating_add(len as u64);
            let ends = |end: &mut FileEnd| end.end_read(began.unwrap_or_default(), behind);
            if self.caches.with_end(object, ends) != Some(false) {
                return Ok((buffer, count));
            }
        }
    }

    /// Writes at an offset or, without one, at the end, wherever other clients move that to. `drop_privileges` clears the set-user-ID and
    /// set-group-ID bits.
    pub(crate) fn write(
        &self,
        object: ObjectId,
        offset: Option<u64>,
        data: &[u8],
        drop_privileges: bool,
    ) -> Outcome {
        let number = self.clients.number(object);
        self.with_file(object, |client, file| {
            let buffer = self.buffers.take(number, client, data.len())?;
            let memory = buffer.first(data.len());
            memory.write_at(0, data);
            self.changing(drop_privileges, client, file, |client, file| {
                client.write_memory(file, offset, &[memory]).map(|_| ())
            })
        })
    }

    pub(crate) fn sync(&self, object: ObjectId) -> Outcome {
        self.with_file(object, Client::fsync)
    }

    pub(crate) fn sync_directory(&self, object: ObjectId) -> Outcome {
        let mut unsynced = self.files.take_unsynced(object);
        let synced = (self.clients).own(|client| client.sync_directory(object, &mut unsynced));
        // The server did not reply.
        if !unsynced.is_empty() {
            self.files.note(object, unsynced);
        }
        synced
    }

    pub(crate) fn open_directory(&self) -> u64 {
        let mut directories = self.lock_directories();
        directories.last += 1;
        let handle = directories.last;
        directories.open.insert(handle, Arc::default());
        handle
    }

    pub(crate) fn close_directory(&self, handle: u64) {
        self.lock_directories().open.remove(&handle);
    }

    fn lock_directories(&self) -> MutexGuard<'_, Directories> {
        self.directories
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes the entries from a position on to `take`, each with the position behind it, until `take` returns `false`.
    pub(crate) fn list(
        &self,
        directory: ObjectId,
        handle: u64,
        position: u64,
        mut take: impl FnMut(u64, &Entry) -> bool,
    ) -> Outcome {
        let listing = self.lock_directories().open.get(&handle).map(Arc::clone);
        let listing = listing.ok_or(Failed(Errno::EBADF))?;
        let mut listing = listing.lock().unwrap_or_else(PoisonError::into_inner);
        listing.seek(directory, position);
        if position == 0 {
            self.ahead.note_listing(directory);
        }
        let mut position = position;
        let mut taken = false;
        loop {
            while let Some(entry) = listing.entry(position) {
                position += 1;
                if !take(position, entry) {
                    return Ok(());
                }
                taken |= position > DOTS;
            }
            // Names that are here already go to the program before the server is asked for more.
            let Some(after) = listing.more().filter(|_| !taken) else {
                return Ok(());
            };
            let (entries, end) = self
                .clients
                .own(|client| client.read_directory(directory, after, PAGE, false))?;
            listing.add(entries, end);
        }
    }

    pub(crate) fn space(&self) -> Outcome<Space> {
        self.clients.own(|client| client.space(&self.io_servers))
    }
}

/// Whether the group of an object with this mode matters when it is made: a member of a directory's group keeps the set-group-ID bit.
fn is_for_group(mode: u16) -> bool {
    mode & 0o2000 != 0
}

impl Mounted {
    /// Changes a file's content. With `drop_privileges` its set-user-ID and set-group-ID bits, as far as they are known, are cleared before,
    /// so that no other content runs with them whatever fails, and those that another client has set meanwhile afterwards.
    fn changing(
        &self,
        drop_privileges: bool,
        client: &mut Client,
        file: &mut File,
        change: impl FnOnce(&mut Client, &mut File) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.make_unprivileged_if(drop_privileges, client, file)?;
        change(client, file)?;
        self.make_unprivileged_if(drop_privileges, client, file)
    }

    /// The same for changes that are so rare that the file's mode is read again first.
    pub(crate) fn changing_again(
        &self,
        drop_privileges: bool,
        client: &mut Client,
        file: &mut File,
        change: impl FnOnce(&mut Client, &mut File) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if drop_privileges {
            client.refresh(file)?;
        }
        self.changing(drop_privileges, client, file, change)
    }

    /// Clears a file's set-user-ID and set-group-ID bits, if that is `wanted` and it has them.
    fn make_unprivileged_if(
        &self,
        wanted: bool,
        client: &mut Client,
        file: &mut File,
    ) -> Result<(), Error> {
        let mode = unprivileged(file.node.attributes.mode).filter(|_| wanted);
        if let Some(mode) = mode {
            let set = SetAttributes {
                mode: Some(mode),
                ..SetAttributes::default()
            };
            client.set_attributes_of(file, set)?;
            self.caches.forget(file.node.object);
        }
        Ok(())
    }
}

/// The mode without its set-user-ID and set-group-ID bits, if it has them.
fn unprivileged(mode: u16) -> Option<u16> {
    let dropped = match mode & 0o010 {
        // Without the right to execute, the set-group-ID bit has another meaning.
        0 => 0o4000,
        _ => 0o6000,
    };
    (mode & dropped != 0).then_some(mode & !dropped)
}

/// The file as this mount has it; it is read from the server if the mount does not have it yet or opens it, which also holds it.
fn known_file<'a>(
    client: &mut Client,
    known: &'a mut Option<File>,
    object: ObjectId,
    opens: bool,
) -> Result<&'a mut File, Error> {
    let file = match known.take() {
        Some(mut file) => {
            let seen = match opens {
                true => client.hold_again(&mut file),
                false => Ok(()),
            };
            // A file with unsynced data must be kept, whatever happens.
            let file = known.insert(file);
            seen?;
            return Ok(file);
        }
        None if opens => client.open_object_held(object)?,
        None => client.open_object(object)?,
    };
    Ok(known.insert(file))
}
