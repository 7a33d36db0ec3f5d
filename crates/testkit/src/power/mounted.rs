//! A [`Disk`] as a file system that programs use, through FUSE.
//!
//! Every write reaches the model before its system call returns: the kernel keeps no writes back.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use super::disk::{Disk, Key, Node};

/// How long the kernel may cache replies: names and attributes change through the mount only.
const TTL: Duration = Duration::from_secs(3600);
/// Bytes of a block, for programs that count in blocks.
const BLOCK: u32 = 4096;

/// Called before a sync takes effect, with the disk as it is then.
type Watcher = Box<dyn FnMut(&Disk) + Send>;
/// Returns for each sync the error number with which it fails, if it does.
type Failing = Box<dyn FnMut() -> Option<i32> + Send>;

struct Shared {
    disk: Disk,
    watcher: Option<Watcher>,
    failing: Option<Failing>,
}

/// A mounted disk. Dropping it unmounts it.
pub struct Mounted {
    shared: Arc<Mutex<Shared>>,
    session: Option<BackgroundSession>,
    path: PathBuf,
    /// The mount point, if it was made for this.
    _point: tempfile::TempDir,
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mounted {
    /// Mounts a disk. The error says what is needed.
    pub fn new(disk: Disk) -> io::Result<Self> {
        let point = tempfile::tempdir()?;
        let shared = Arc::new(Mutex::new(Shared {
            disk,
            watcher: None,
            failing: None,
        }));
        let served = Served {
            shared: Arc::clone(&shared),
        };
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("causeway-power".to_owned()),
            MountOption::DefaultPermissions,
        ];
        let session = fuser::spawn_mount(served, point.path(), &config).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!(
                    "simulated loss of power needs FUSE: /dev/fuse, and root or fusermount3 \
                     (Debian: apt-get install fuse3): {error}"
                ),
            )
        })?;
        Ok(Self {
            shared,
            session: Some(session),
            path: point.path().to_owned(),
            _point: point,
        })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The disk as it is now.
    pub fn disk(&self) -> Disk {
        lock(&self.shared).disk.clone()
    }

    /// From now on `watcher` is called at every sync, before it takes effect.
    pub fn watch(&self, watcher: impl FnMut(&Disk) + Send + 'static) {
        lock(&self.shared).watcher = Some(Box::new(watcher));
    }

    /// From now on syncs fail with the error numbers that `failing` returns.
    pub fn fail_syncs(&self, failing: impl FnMut() -> Option<i32> + Send + 'static) {
        lock(&self.shared).failing = Some(Box::new(failing));
    }

    /// Ends [`Mounted::watch`].
    pub fn stop_watching(&self) {
        lock(&self.shared).watcher = None;
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(session) = self.session.take()
            && let Err(error) = session.umount_and_join()
        {
            eprintln!("unmounting {}: {error}", self.path.display());
        }
    }
}

struct Served {
    shared: Arc<Mutex<Shared>>,
}

impl Served {
    fn disk<R>(&self, work: impl FnOnce(&mut Disk) -> R) -> R {
        work(&mut lock(&self.shared).disk)
    }

    fn sync(&self, number: INodeNo, all: bool) -> Result<(), Errno> {
        let mut shared = lock(&self.shared);
        let Shared {
            disk,
            watcher,
            failing,
        } = &mut *shared;
        if let Some(watcher) = watcher {
            watcher(disk);
        }
        match failing.as_mut().and_then(|failing| failing()) {
            Some(errno) => {
                disk.fail_sync(number.0);
                Err(Errno::from_i32(errno))
            }
            None => {
                disk.sync(number.0, all);
                Ok(())
            }
        }
    }
}

fn key(parent: INodeNo, name: &OsStr) -> Key {
    (parent.0, name.to_owned())
}

fn attr(number: u64, node: &Node) -> FileAttr {
    FileAttr {
        ino: INodeNo(number),
        size: node.size(),
        blocks: node.size().div_ceil(512),
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: kind(node),
        perm: node.mode,
        nlink: if node.is_directory { 2 } else { 1 },
        uid: node.owner.0,
        gid: node.owner.1,
        rdev: 0,
        blksize: BLOCK,
        flags: 0,
    }
}

fn kind(node: &Node) -> FileType {
    match node.is_directory {
        true => FileType::Directory,
        false => FileType::RegularFile,
    }
}

fn found(disk: &Disk, number: Option<u64>) -> Option<FileAttr> {
    let number = number?;
    Some(attr(number, disk.node(number)?))
}

impl Served {
    fn make(&self, request: &Request, key: Key, is_directory: bool, mode: u32) -> Option<FileAttr> {
        self.disk(|disk| {
            if disk.lookup(&key).is_some() {
                return None;
            }
            let owner = (request.uid(), request.gid());
            let number = disk.make(key, is_directory, mode as u16 & 0o7777, owner);
            found(disk, Some(number))
        })
    }

    fn remove(&self, key: Key, is_directory: bool, reply: ReplyEmpty) {
        let outcome = self.disk(|disk| {
            let number = disk.lookup(&key).ok_or(Errno::ENOENT)?;
            let node = disk.node(number).ok_or(Errno::ENOENT)?;
            match (node.is_directory, is_directory) {
                (true, false) => return Err(Errno::EISDIR),
                (false, true) => return Err(Errno::ENOTDIR),
                _ => {}
            }
            if disk.list(number).next().is_some() {
                return Err(Errno::ENOTEMPTY);
            }
            disk.change(vec![(key, None)]);
            Ok(())
        });
        finish(outcome, reply);
    }
}

fn finish(outcome: Result<(), Errno>, reply: ReplyEmpty) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

fn enter(found: Option<FileAttr>, missing: Errno, reply: ReplyEntry) {
    match found {
        Some(attr) => reply.entry(&TTL, &attr, Generation(0)),
        None => reply.error(missing),
    }
}

impl Filesystem for Served {
    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.disk(|disk| found(disk, disk.lookup(&key(parent, name))));
        enter(found, Errno::ENOENT, reply);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.disk(|disk| found(disk, Some(number.0))) {
            Some(attr) => reply.attr(&TTL, &attr),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let found = self.disk(|disk| {
            if let Some(size) = size {
                disk.set_size(number.0, size);
            }
            if let Some(mode) = mode {
                disk.set_mode(number.0, mode as u16 & 0o7777);
            }
            found(disk, Some(number.0))
        });
        match found {
            Some(attr) => reply.attr(&TTL, &attr),
            None => reply.error(Errno::ENOENT),
        }
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
        let made = self.make(request, key(parent, name), true, mode & !umask);
        enter(made, Errno::EEXIST, reply);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        match self.make(request, key(parent, name), false, mode & !umask) {
            Some(attr) => {
                let flags = FopenFlags::empty();
                reply.created(&TTL, &attr, Generation(0), FileHandle(0), flags);
            }
            None => reply.error(Errno::EEXIST),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.remove(key(parent, name), false, reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.remove(key(parent, name), true, reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = (key(parent, name), key(new_parent, new_name));
        let outcome = self.disk(|disk| {
            let number = disk.lookup(&from).ok_or(Errno::ENOENT)?;
            if flags.contains(RenameFlags::RENAME_NOREPLACE) && disk.lookup(&to).is_some() {
                return Err(Errno::EEXIST);
            }
            if !(flags - RenameFlags::RENAME_NOREPLACE).is_empty() {
                return Err(Errno::EINVAL);
            }
            if let Some(old) = disk.lookup(&to)
                && disk.list(old).next().is_some()
            {
                return Err(Errno::ENOTEMPTY);
            }
            if from != to {
                disk.change(vec![(from, None), (to, Some(number))]);
            }
            Ok(())
        });
        finish(outcome, reply);
    }

    fn open(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.disk(|disk| disk.node(number.0).is_some()) {
            true => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = |disk: &mut Disk| Some(disk.node(number.0)?.read(offset, size as usize));
        match self.disk(read) {
            Some(bytes) => reply.data(&bytes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.disk(|disk| disk.write(number.0, offset, data)) {
            true => reply.written(data.len() as u32),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, number: INodeNo, _: FileHandle, data: bool, reply: ReplyEmpty) {
        finish(self.sync(number, !data), reply);
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        finish(self.sync(number, true), reply);
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        self.disk(|disk| {
            for (at, (name, child)) in disk.list(number.0).enumerate().skip(offset as usize) {
                let Some(node) = disk.node(child) else {
                    continue;
                };
                if reply.add(INodeNo(child), at as u64 + 1, kind(node), name) {
                    break;
                }
            }
        });
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let (total, free) = self.disk(|disk| disk.space());
        let blocks = |bytes: u64| bytes / u64::from(BLOCK);
        let free = blocks(free);
        reply.statfs(
            blocks(total),
            free,
            free,
            1 << 20,
            1 << 20,
            BLOCK,
            255,
            BLOCK,
        );
    }

    fn setxattr(
        &self,
        _: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        _flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let value = Some(value.to_vec());
        self.disk(|disk| disk.set_attribute(number.0, name.to_owned(), value));
        reply.ok();
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let value = self.disk(|disk| disk.node(number.0)?.attributes().get(name).cloned());
        match value {
            None => reply.error(Errno::ENODATA),
            Some(value) if size == 0 => reply.size(value.len() as u32),
            Some(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
            Some(value) => reply.data(&value),
        }
    }

    fn removexattr(&self, _: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.disk(|disk| disk.set_attribute(number.0, name.to_owned(), None));
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        const KEEP_SIZE: i32 = 1;
        let outcome = self.disk(|disk| {
            let size = disk.node(number.0).map(Node::size).ok_or(Errno::ENOENT)?;
            match mode {
                0 => disk.set_size(number.0, size.max(offset.saturating_add(length))),
                KEEP_SIZE => {}
                _ => return Err(Errno::EOPNOTSUPP),
            }
            Ok(())
        });
        finish(outcome, reply);
    }
}
