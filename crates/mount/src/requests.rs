//! The kernel's requests, and the replies to them.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::SystemTime;

use causeway_wire::fs::{Kind, LockFamily, MAX_NAME_BYTES, ObjectId, Place, Region, SetAttributes};
use fuser::{
    BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLock, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use crate::attributes::{Outcome, file_type, for_kernel, timestamp};
use crate::buffers::BUFFER_BYTES;
use crate::clients::User;
use crate::lock_flags::LockFlags;
use crate::locks::KernelLock;
use crate::open_files::{Access, Handle};
use crate::operations::{Mounted, New};
use crate::replies::name_in;
use crate::xattrs::XattrReply;

/// Most bytes of one read or write.
const MAX_TRANSFER: u32 = BUFFER_BYTES as u32;
/// Bytes of a block, in which the kernel counts space.
const BLOCK_BYTES: u32 = 4096;
const O_EXCL: i32 = rustix::fs::OFlags::EXCL.bits() as i32;
const O_TRUNC: i32 = rustix::fs::OFlags::TRUNC.bits() as i32;
const O_APPEND: i32 = rustix::fs::OFlags::APPEND.bits() as i32;
const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;
/// A part of `O_SYNC`, too.
const O_DSYNC: i32 = rustix::fs::OFlags::DSYNC.bits() as i32;
const O_ACCMODE: i32 = rustix::fs::OFlags::RWMODE.bits() as i32;
const O_RDONLY: i32 = rustix::fs::OFlags::RDONLY.bits() as i32;
const O_WRONLY: i32 = rustix::fs::OFlags::WRONLY.bits() as i32;

/// The receiver of the kernel's requests.
pub(crate) struct RequestHandler {
    pub(crate) mounted: Arc<Mounted>,
    /// The number of files opened so far.
    pub(crate) opened: AtomicU64,
    /// `None` if the flags of locks cannot be read on this host.
    pub(crate) lock_flags: Option<LockFlags>,
    /// Whether the kernel drops pages of what is written past its cache, and maps files that are read past it (Linux 6.6).
    pub(crate) drops_written: bool,
    /// Gets a message when the kernel sends no more requests.
    pub(crate) ended: Sender<()>,
}

fn user(request: &Request) -> User {
    User {
        uid: request.uid(),
        gid: request.gid(),
        pid: request.pid(),
        umask: 0,
    }
}

/// The user of a request that makes an object.
fn maker(request: &Request, umask: u32) -> User {
    User {
        umask: (umask & 0o777) as u16,
        ..user(request)
    }
}

/// A name and the one that it becomes.
fn places(from: (INodeNo, &OsStr), to: (INodeNo, &OsStr)) -> (Place, Place) {
    let place = |(parent, name): (INodeNo, &OsStr)| Place::from((object(parent), name.as_bytes()));
    (place(from), place(to))
}

/// Whether the file that this request changes loses its set-user-ID and set-group-ID bits. For writes, the kernel marks the request.
fn may_lose_privileges(request: &Request) -> bool {
    request.uid() != 0
}

fn object(inode: INodeNo) -> ObjectId {
    ObjectId(inode.0)
}

fn mode_bits(mode: u32) -> u16 {
    (mode & 0o7777) as u16
}

fn reply_empty(outcome: Outcome, reply: ReplyEmpty) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(failed) => reply.error(failed.into()),
    }
}

fn reply_sized(outcome: Outcome<XattrReply>, reply: ReplyXattr) {
    match outcome {
        Ok(XattrReply::Size(size)) => reply.size(size),
        Ok(XattrReply::Data(data)) => reply.data(&data),
        Err(failed) => reply.error(failed.into()),
    }
}

impl RequestHandler {
    /// Replies to a request that has given objects other names.
    fn reply_renamed(&self, names: &[(Place, Place)], outcome: Outcome, reply: ReplyEmpty) {
        match outcome {
            Ok(()) => {
                let look_up = || self.mounted.look_up_again(names);
                let caches = &self.mounted.caches;
                caches.reply_renamed(names, look_up, || reply.ok());
            }
            Err(failed) => reply.error(failed.into()),
        }
    }

    /// How a file is opened with these flags, and whether its content may go past the kernel's cache.
    fn access(&self, flags: i32) -> (Access, bool) {
        let access = Access {
            reads: flags & O_ACCMODE != O_WRONLY,
            writes: flags & O_ACCMODE != O_RDONLY,
            appends: flags & O_APPEND != 0,
        };
        (access, self.drops_written)
    }

    /// A handle that no other open file has, and how the kernel has to use it.
    fn handle(&self, access: Access, is_uncached: bool) -> (Handle, FopenFlags) {
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        let kernel = match is_uncached {
            true => FopenFlags::FOPEN_DIRECT_IO,
            false => FopenFlags::empty(),
        };
        (Handle::new(number, access, is_uncached), kernel)
    }
}

impl Filesystem for RequestHandler {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for wanted in [
            InitFlags::FUSE_PARALLEL_DIROPS,
            // Listings come with what their names stand for, at their beginning and where programs ask for the names.
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_ATOMIC_O_TRUNC,
            InitFlags::FUSE_AUTO_INVAL_DATA,
            InitFlags::FUSE_POSIX_LOCKS,
            InitFlags::FUSE_ASYNC_DIO,
            // A default list takes the place of the umask, so the metadata server applies that.
            InitFlags::FUSE_DONT_MASK,
            // Otherwise the kernel requests `security.capability` before each write.
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        ] {
            if config.add_capabilities(wanted).is_err() {
                tracing::debug!(?wanted, "the kernel does not have it");
            }
        }
        let maps_uncached = InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP;
        self.drops_written = config.add_capabilities(maps_uncached).is_ok();
        // It asks for access control lists, and checks permissions by them.
        if config.add_capabilities(InitFlags::FUSE_POSIX_ACL).is_err() {
            // What it lets users look up may be what the server refuses them by a list.
            tracing::warn!(
                "the kernel does not know access control lists: on this mount, the mode alone counts, whose group digit is the list's mask, and names and attributes are not cached"
            );
            self.mounted.caches.end();
        }
        if self.lock_flags.is_some()
            && config
                .add_capabilities(InitFlags::FUSE_FLOCK_LOCKS)
                .is_err()
        {
            // All locks that the kernel asks for are those of fcntl then.
            self.lock_flags = None;
            tracing::warn!(
                "the kernel keeps locks of flock to itself: they exclude programs of this mount only"
            );
        }
        // A kernel that permits less states its limit.
        for (what, set) in [
            ("writes", config.set_max_write(MAX_TRANSFER)),
            ("reading ahead", config.set_max_readahead(MAX_TRANSFER)),
        ] {
            if let Err(most) = set {
                tracing::debug!(most, "the kernel limits {what}");
            }
        }
        Ok(())
    }

    fn destroy(&mut self) {
        self.mounted.caches.end();
        let _ = self.ended.send(());
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self
            .mounted
            .lookup(user(request), object(parent), name.as_bytes());
        self.mounted
            .reply_looked_up(name_in(parent, name), found, reply);
    }

    fn forget(&self, _: &Request, inode: INodeNo, count: u64) {
        self.mounted.caches.note_forgotten(object(inode), count);
    }

    fn getattr(&self, _: &Request, inode: INodeNo, by: Option<FileHandle>, reply: ReplyAttr) {
        // The kernel names a handle before it reads by it, and not for `stat` and `fstat`. It reads nothing behind the size.
        let checked = by.map_or(Ok(()), |_| self.mounted.check_locks(object(inode)));
        let attributes = checked.and_then(|()| self.mounted.attributes(object(inode)));
        self.mounted.reply_attributes(attributes, reply);
    }

    fn setattr(
        &self,
        request: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = SetAttributes {
            mode: mode.map(mode_bits),
            uid,
            gid,
            accessed: accessed.map(timestamp),
            modified: modified.map(timestamp),
            distribution: None,
        };
        let size = size.map(|size| (size, may_lose_privileges(request)));
        let changed = self.mounted.change(object(inode), size, set);
        match size {
            Some(_) => self.mounted.reply_resized(changed, reply),
            None => self.mounted.reply_attributes(changed, reply),
        }
    }

    fn readlink(&self, _: &Request, inode: INodeNo, reply: ReplyData) {
        match self.mounted.read_link(object(inode)) {
            Ok(target) => reply.data(&target),
            Err(failed) => reply.error(failed.into()),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let kind = Kind::of_mode(mode);
        let mode = mode_bits(mode);
        let new = match kind {
            Some(Kind::File) => New::File { mode },
            Some(kind) if kind.is_special() => {
                // For objects that are no devices, the kernel passes on whatever number the program has given.
                let device = if kind.is_device() { device } else { 0 };
                New::Special { kind, mode, device }
            }
            _ => return reply.error(Errno::EINVAL),
        };
        let made = self
            .mounted
            .make(maker(request, umask), object(parent), name.as_bytes(), &new);
        self.mounted.reply_made(name_in(parent, name), made, reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let new = New::Directory {
            mode: mode_bits(mode),
        };
        let made = self
            .mounted
            .make(maker(request, umask), object(parent), name.as_bytes(), &new);
        self.mounted.reply_made(name_in(parent, name), made, reply);
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let target = target.as_os_str().as_bytes();
        let new = New::Link { target };
        let made = self
            .mounted
            .make(user(request), object(parent), name.as_bytes(), &new);
        self.mounted.reply_made(name_in(parent, name), made, reply);
    }

    fn link(
        &self,
        request: &Request,
        inode: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        let new = New::Name { of: object(inode) };
        let made = self
            .mounted
            .make(user(request), object(parent), name.as_bytes(), &new);
        self.mounted.reply_made(name_in(parent, name), made, reply);
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self
            .mounted
            .unlink(user(request), object(parent), name.as_bytes());
        reply_empty(removed, reply);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self
            .mounted
            .remove_directory(user(request), object(parent), name.as_bytes());
        reply_empty(removed, reply);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if flags == RenameFlags::RENAME_EXCHANGE {
            let exchanged = self.mounted.exchange(
                user(request),
                (object(parent), name.as_bytes()),
                (object(new_parent), new_name.as_bytes()),
            );
            let places = places((parent, name), (new_parent, new_name));
            let back = (places.1.clone(), places.0.clone());
            return self.reply_renamed(&[places, back], exchanged, reply);
        }
        // The error of `rename` for flags that the file system does not support.
        if !RenameFlags::RENAME_NOREPLACE.contains(flags) {
            return reply.error(Errno::EINVAL);
        }
        let renamed = self.mounted.rename(
            user(request),
            (object(parent), name.as_bytes()),
            (object(new_parent), new_name.as_bytes()),
            flags.contains(RenameFlags::RENAME_NOREPLACE),
        );
        let places = places((parent, name), (new_parent, new_name));
        self.reply_renamed(&[places], renamed, reply);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let access = self.access(flags);
        let created = self.mounted.create(
            maker(request, umask),
            object(parent),
            name.as_bytes(),
            (mode_bits(mode), flags & O_EXCL != 0),
            access,
        );
        match created {
            Ok((shown, is_uncached)) => {
                let (handle, kernel) = self.handle(access.0, is_uncached);
                let handle = FileHandle(handle.0);
                let attributes = for_kernel(&shown);
                let name = (object(parent), name.as_bytes());
                let mounted = &self.mounted;
                mounted.reply_with_entry(name, Some(&shown), true, |times| {
                    let time = times.name.min(times.attributes);
                    reply.created(&time, &attributes, Generation(0), handle, kernel);
                });
            }
            Err(failed) => reply.error(failed.into()),
        }
    }

    fn open(&self, request: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let truncate = flags.0 & O_TRUNC != 0;
        let access = self.access(flags.0);
        let drop_privileges = may_lose_privileges(request);
        let object = object(inode);
        match self.mounted.open(object, access, truncate, drop_privileges) {
            Ok(is_uncached) => {
                let (handle, mut kernel) = self.handle(access.0, is_uncached);
                if kernel.is_empty() && self.mounted.keeps_content(object, handle.0) {
                    kernel = FopenFlags::FOPEN_KEEP_CACHE;
                }
                reply.opened(FileHandle(handle.0), kernel);
            }
            Err(failed) => reply.error(failed.into()),
        }
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let size = size.min(MAX_TRANSFER) as usize;
        // The kernel names the reader unless it reads for its cache.
        let is_cached = owner.is_none();
        let read = (self.mounted).read(object(inode), handle.0, (offset, size), is_cached);
        match read {
            Ok((buffer, count)) => buffer.pass_on(count, |bytes| reply.data(bytes)),
            Err(failed) => reply.error(failed.into()),
        }
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let object = object(inode);
        let handle = Handle(handle.0);
        // What the kernel writes back of mapped pages may go through any handle, to its own place. The program may have cleared the flag since it
        // opened the file.
        let is_own = handle.is_uncached() && !write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let appends = is_own && handle.access().appends && flags.0 & O_APPEND != 0;
        let place = (!appends).then_some(offset);
        let drop_privileges = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let written = self.mounted.write(object, place, data, drop_privileges);
        // Of what goes past its cache the kernel requests no sync.
        let written = written.and_then(|()| match is_own && flags.0 & O_DSYNC != 0 {
            true => self.mounted.sync(object),
            false => Ok(()),
        });
        match written {
            Ok(()) => {
                let bytes = offset..offset.saturating_add(data.len() as u64);
                let reply = move || reply.written((bytes.end - bytes.start) as u32);
                // Others write past the cache, too, if they have set `O_DIRECT`.
                match is_own || flags.0 & O_DIRECT != 0 {
                    true => self.mounted.reply_written_past(object, bytes.end, reply),
                    false => {
                        self.mounted.note_written(object, bytes);
                        reply();
                    }
                }
            }
            Err(failed) => reply.error(failed.into()),
        }
    }

    // All data is at the servers when `write` returns; only the locks of a process that closes a file must be released.
    fn flush(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        self.mounted.caches.note_known(object(inode));
        self.mounted
            .end_locks(object(inode), owner.0, |ended| reply_empty(ended, reply));
    }

    fn getlk(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        owner: LockOwner,
        first: u64,
        last: u64,
        kind: i32,
        pid: u32,
        reply: ReplyLock,
    ) {
        let lock = KernelLock {
            object: object(inode),
            family: LockFamily::Record,
            owner: owner.0,
            handle: handle.0,
            first,
            last,
            kind,
            pid,
        };
        self.mounted.test_lock(lock, |found| match found {
            Ok(found) => reply.locked(found.first, found.last, found.kind, found.pid),
            Err(failed) => reply.error(failed.into()),
        });
    }

    fn setlk(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        owner: LockOwner,
        first: u64,
        last: u64,
        kind: i32,
        pid: u32,
        waits: bool,
        reply: ReplyEmpty,
    ) {
        let lock = KernelLock {
            object: object(inode),
            family: LockFamily::Record,
            owner: owner.0,
            handle: handle.0,
            first,
            last,
            kind,
            pid,
        };
        let is_flock = match &self.lock_flags {
            Some(flags) => flags.is_flock(request, &lock),
            None => Ok(false),
        };
        let family = match is_flock {
            Ok(true) => LockFamily::Whole,
            Ok(false) => LockFamily::Record,
            Err(error) => {
                tracing::error!(%error, "a lock cannot be taken: whether flock or fcntl asks for it cannot be known");
                return reply.error(Errno::ENOLCK);
            }
        };
        let lock = KernelLock { family, ..lock };
        let waits = waits.then(|| request.pid());
        self.mounted
            .set_lock(lock, waits, |done| reply_empty(done, reply));
    }

    fn release(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        flock_owner: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let flock_owner = flock_owner.map(|owner| owner.0);
        self.mounted
            .end_locks_of_handle(object(inode), handle.0, flock_owner);
        self.mounted.close(object(inode), Handle(handle.0));
        reply.ok();
    }

    fn fsync(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply_empty(self.mounted.sync(object(inode)), reply);
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let handle = self.mounted.open_directory();
        reply.opened(FileHandle(handle), FopenFlags::empty());
    }

    fn readdir(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self
            .mounted
            .list(object(inode), handle.0, offset, |next, entry| {
                let name = OsStr::from_bytes(&entry.name);
                let inode = INodeNo(entry.object.0);
                !reply.add(inode, next, file_type(entry.kind), name)
            });
        match listed {
            Ok(()) => reply.ok(),
            Err(failed) => reply.error(failed.into()),
        }
    }

    fn readdirplus(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let directory = object(inode);
        let listed = self
            .mounted
            .list_looked_up(user(request), directory, handle.0, offset);
        let listed = match listed {
            Ok(listed) => listed,
            Err(failed) => return reply.error(failed.into()),
        };
        self.mounted.reply_listed(directory, listed, reply);
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.mounted.close_directory(handle.0);
        reply.ok();
    }

    fn fallocate(
        &self,
        request: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        flags: i32,
        reply: ReplyEmpty,
    ) {
        let part = Region {
            offset,
            len: length,
        };
        let allocated =
            self.mounted
                .allocate(object(inode), part, flags, may_lose_privileges(request));
        if allocated == Ok(true) {
            self.mounted
                .note_grown(object(inode), offset.saturating_add(length));
        }
        reply_empty(allocated.map(drop), reply);
    }

    fn lseek(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let Ok(from) = u64::try_from(offset) else {
            return reply.error(Errno::ENXIO);
        };
        match self.mounted.seek(object(inode), from, whence) {
            // No file has bytes behind the largest offset.
            Ok(found) => reply.offset(i64::try_from(found).unwrap_or(i64::MAX)),
            Err(failed) => reply.error(failed.into()),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        inode: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let xattr = (name.as_bytes(), value);
        let set = self
            .mounted
            .set_xattr(user(request), object(inode), xattr, flags);
        reply_empty(set, reply);
    }

    fn getxattr(
        &self,
        request: &Request,
        inode: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        let (user, object, name) = (user(request), object(inode), name.as_bytes());
        self.mounted
            .reply_with_xattr(user, object, name, size, |value| reply_sized(value, reply));
    }

    fn listxattr(&self, request: &Request, inode: INodeNo, size: u32, reply: ReplyXattr) {
        let names = self.mounted.xattrs(user(request), object(inode), size);
        reply_sized(names, reply);
    }

    fn removexattr(&self, request: &Request, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self
            .mounted
            .remove_xattr(user(request), object(inode), name.as_bytes());
        reply_empty(removed, reply);
    }

    fn fsyncdir(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply_empty(self.mounted.sync_directory(object(inode)), reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.mounted.space() {
            Ok(space) => {
                let blocks = |bytes: u64| bytes / u64::from(BLOCK_BYTES);
                let free = blocks(space.free_bytes);
                // Every object takes some space beside the metadata: nothing else limits their number.
                let objects = space.objects.saturating_add(free);
                reply.statfs(
                    blocks(space.total_bytes),
                    free,
                    free,
                    objects,
                    free,
                    BLOCK_BYTES,
                    MAX_NAME_BYTES as u32,
                    BLOCK_BYTES,
                );
            }
            Err(failed) => reply.error(failed.into()),
        }
    }
}
