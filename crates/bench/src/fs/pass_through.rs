//! The least that a file system through FUSE does: each request is one system call, on a directory of this machine.
//!
//! It is what Causeway's mount is compared with, and has what the measurement needs: files and directories are made, opened, read, written and
//! removed; none is listed or renamed. The kernel keeps names, attributes and content, as nobody else changes the directory.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags,
    ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, fstat, mkdirat, openat, statat, unlinkat};

/// How long the kernel keeps what it knows.
const KEPT: Duration = Duration::from_secs(3600);
/// As Causeway's mount has them.
const MAX_TRANSFER: u32 = 1 << 20;

/// A name that the kernel knows.
struct Node {
    above: Arc<OwnedFd>,
    name: OsString,
    /// Of a directory.
    directory: Option<Arc<OwnedFd>>,
    lookups: u64,
}

/// The file system. Its inodes have the directory's numbers and one more, as 1 is the root's.
struct PassThrough {
    root: Arc<OwnedFd>,
    nodes: Mutex<HashMap<u64, Node>>,
    files: Mutex<HashMap<u64, Arc<File>>>,
    opened: AtomicU64,
}

/// Mounts the directory `from` at `at`, served by so many threads.
pub(super) fn mount(from: &Path, at: &Path, threads: usize) -> io::Result<BackgroundSession> {
    let root = openat(
        CWD,
        from,
        OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let served = PassThrough {
        root: Arc::new(root),
        nodes: Mutex::default(),
        files: Mutex::default(),
        opened: AtomicU64::new(0),
    };
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("causeway-bench".to_owned()),
        MountOption::DefaultPermissions,
    ];
    config.n_threads = Some(threads);
    config.clone_fd = true;
    fuser::spawn_mount(served, at, &config)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn attributes(stat: &Stat) -> FileAttr {
    let time = |seconds: i64, nanos: u64| {
        UNIX_EPOCH + Duration::new(u64::try_from(seconds).unwrap_or(0), nanos as u32)
    };
    let is_directory = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir();
    FileAttr {
        ino: INodeNo(stat.st_ino.wrapping_add(1)),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        blocks: u64::try_from(stat.st_blocks).unwrap_or(0),
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        crtime: UNIX_EPOCH,
        kind: match is_directory {
            true => FileType::Directory,
            false => FileType::RegularFile,
        },
        perm: (stat.st_mode & 0o7777) as u16,
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

fn mode(mode: u32, umask: u32) -> Mode {
    Mode::from_raw_mode(mode & !umask & 0o7777)
}

impl PassThrough {
    fn directory(&self, inode: INodeNo) -> Result<Arc<OwnedFd>, Errno> {
        if inode == INodeNo::ROOT {
            return Ok(Arc::clone(&self.root));
        }
        let nodes = lock(&self.nodes);
        let node = nodes.get(&inode.0).ok_or(Errno::ENOENT)?;
        node.directory.clone().ok_or(Errno::ENOTDIR)
    }

    /// Where an object that is no root lies, and its name there.
    fn place(&self, inode: INodeNo) -> Result<(Arc<OwnedFd>, OsString), Errno> {
        let nodes = lock(&self.nodes);
        let node = nodes.get(&inode.0).ok_or(Errno::ENOENT)?;
        Ok((Arc::clone(&node.above), node.name.clone()))
    }

    fn file(&self, handle: FileHandle) -> Result<Arc<File>, Errno> {
        lock(&self.files)
            .get(&handle.0)
            .cloned()
            .ok_or(Errno::EBADF)
    }

    /// The kernel learns of a name.
    fn enter(&self, above: Arc<OwnedFd>, name: &OsStr, stat: &Stat) -> Result<FileAttr, Errno> {
        let found = attributes(stat);
        let directory = match found.kind {
            FileType::Directory => {
                let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let opened = openat(&*above, name, flags, Mode::empty()).map_err(failed)?;
                Some(Arc::new(opened))
            }
            _ => None,
        };
        let mut nodes = lock(&self.nodes);
        let node = nodes.entry(found.ino.0).or_insert_with(|| Node {
            above,
            name: name.to_owned(),
            directory,
            lookups: 0,
        });
        node.lookups += 1;
        Ok(found)
    }

    fn look_up(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        let above = self.directory(parent)?;
        let stat = statat(&*above, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        self.enter(above, name, &stat)
    }

    fn attributes(&self, inode: INodeNo) -> Result<FileAttr, Errno> {
        if inode == INodeNo::ROOT {
            let root = fstat(&*self.root).map_err(failed)?;
            return Ok(FileAttr {
                ino: INodeNo::ROOT,
                ..attributes(&root)
            });
        }
        let (above, name) = self.place(inode)?;
        let stat = statat(&*above, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        Ok(attributes(&stat))
    }

    fn keep(&self, file: File) -> FileHandle {
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        lock(&self.files).insert(number, Arc::new(file));
        FileHandle(number)
    }

    fn open(&self, inode: INodeNo, flags: OFlags) -> Result<FileHandle, Errno> {
        let (above, name) = self.place(inode)?;
        let flags = (flags & (OFlags::RWMODE | OFlags::TRUNC)) | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&*above, &name, flags, Mode::empty()).map_err(failed)?;
        Ok(self.keep(file.into()))
    }

    fn create(
        &self,
        parent: INodeNo,
        name: &OsStr,
        mode: Mode,
    ) -> Result<(FileAttr, FileHandle), Errno> {
        let above = self.directory(parent)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(&*above, name, flags, mode).map_err(failed)?;
        let stat = fstat(&file).map_err(failed)?;
        let found = self.enter(above, name, &stat)?;
        Ok((found, self.keep(file.into())))
    }

    fn make_directory(&self, parent: INodeNo, name: &OsStr, mode: Mode) -> Result<FileAttr, Errno> {
        let above = self.directory(parent)?;
        mkdirat(&*above, name, mode).map_err(failed)?;
        self.look_up(parent, name)
    }

    fn remove(&self, parent: INodeNo, name: &OsStr, flags: AtFlags) -> Result<(), Errno> {
        let above = self.directory(parent)?;
        unlinkat(&*above, name, flags).map_err(failed)
    }

    fn set_size(&self, inode: INodeNo, size: Option<u64>) -> Result<FileAttr, Errno> {
        if let Some(size) = size {
            let (above, name) = self.place(inode)?;
            let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = openat(&*above, &name, flags, Mode::empty()).map_err(failed)?;
            File::from(file).set_len(size).map_err(Errno::from)?;
        }
        self.attributes(inode)
    }
}

fn failed(errno: rustix::io::Errno) -> Errno {
    Errno::from_i32(errno.raw_os_error())
}

fn reply_entry(found: Result<FileAttr, Errno>, reply: ReplyEntry) {
    match found {
        Ok(attributes) => reply.entry(&KEPT, &attributes, Generation(0)),
        Err(errno) => reply.error(errno),
    }
}

fn reply_attributes(found: Result<FileAttr, Errno>, reply: ReplyAttr) {
    match found {
        Ok(attributes) => reply.attr(&KEPT, &attributes),
        Err(errno) => reply.error(errno),
    }
}

fn reply_empty(done: Result<(), Errno>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

impl Filesystem for PassThrough {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for wanted in [
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_ATOMIC_O_TRUNC,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        ] {
            // Kernels without it do more requests.
            let _ = config.add_capabilities(wanted);
        }
        // Kernels that permit less take their own value.
        let _ = config.set_max_write(MAX_TRANSFER);
        let _ = config.set_max_readahead(MAX_TRANSFER);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        reply_entry(self.look_up(parent, name), reply);
    }

    fn forget(&self, _: &Request, inode: INodeNo, lookups: u64) {
        let mut nodes = lock(&self.nodes);
        if let Some(node) = nodes.get_mut(&inode.0) {
            node.lookups = node.lookups.saturating_sub(lookups);
            if node.lookups == 0 {
                nodes.remove(&inode.0);
            }
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply_attributes(self.attributes(inode), reply);
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        _: Option<u32>,
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
        reply_attributes(self.set_size(inode, size), reply);
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        bits: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        reply_entry(self.make_directory(parent, name, mode(bits, umask)), reply);
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        bits: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        match self.create(parent, name, mode(bits, umask)) {
            Ok((attributes, handle)) => {
                let flags = FopenFlags::FOPEN_KEEP_CACHE;
                reply.created(&KEPT, &attributes, Generation(0), handle, flags);
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.open(inode, OFlags::from_bits_truncate(flags.0 as u32)) {
            Ok(handle) => reply.opened(handle, FopenFlags::FOPEN_KEEP_CACHE),
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut buffer = vec![0; size.min(MAX_TRANSFER) as usize];
        let count = self
            .file(handle)
            .and_then(|file| file.read_at(&mut buffer, offset).map_err(Errno::from));
        match count {
            Ok(count) => reply.data(buffer.get(..count).unwrap_or_default()),
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self
            .file(handle)
            .and_then(|file| file.write_all_at(data, offset).map_err(Errno::from));
        match written {
            Ok(()) => reply.written(data.len() as u32),
            Err(errno) => reply.error(errno),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        lock(&self.files).remove(&handle.0);
        reply.ok();
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(self.remove(parent, name, AtFlags::empty()), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(self.remove(parent, name, AtFlags::REMOVEDIR), reply);
    }
}
