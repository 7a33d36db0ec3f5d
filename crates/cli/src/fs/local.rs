//! Trees on this machine, accessed relative to one descriptor.
//!
//! A [`Tree`] holds the directory that was named on the command line. Everything below it is opened
//! with `openat2`, which refuses symbolic links and `..` on the way: neither a name that a server
//! sends nor a link that another process adds to the tree meanwhile leads out of it.

use std::ffi::OsStr;
use std::fs::File as LocalFile;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use causeway_command::failure::{Doing, Failure, Outcome};
use causeway_command::shutdown;
use causeway_wire::fs::{ACCESS_ACL, Acl, DEFAULT_ACL, SetAttributes, Timestamp};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, Uid,
};
use rustix::io::Errno;

use crate::fs::engine::Lost;
use crate::fs::{lists, partial};

/// Longest path that is passed to the kernel at once; longer ones are walked in pieces.
const PIECE_OF_PATH_BYTES: usize = 2048;
/// How many times a walk is repeated that is disturbed by a renaming above it.
const ATTEMPTS: usize = 64;

/// Metadata of a local file.
#[derive(Debug, Clone)]
pub(crate) struct LocalMetadata {
    /// The kind of the file.
    pub(crate) kind: FileType,
    /// Permission bits, set-user-id, set-group-id and sticky bits.
    pub(crate) mode: u16,
    /// Owner.
    pub(crate) uid: u32,
    /// Group.
    pub(crate) gid: u32,
    /// Whether it has several names.
    pub(crate) linked: bool,
    /// Device and inode: equal for names of the same file.
    pub(crate) identity: (u64, u64),
    /// Bytes.
    pub(crate) size: u64,
    /// Whether it occupies less than its size: it has holes.
    pub(crate) sparse: bool,
    /// Its access control list, as far as it has been read.
    pub(crate) acl: Option<Box<Acl>>,
    /// The default list of a directory.
    pub(crate) default_acl: Option<Box<Acl>>,
    accessed: Timestamp,
    modified: Timestamp,
}

impl LocalMetadata {
    fn new(stat: &Stat) -> Self {
        let time = |seconds: i64, nanoseconds: u64| Timestamp {
            seconds,
            nanoseconds: u32::try_from(nanoseconds).unwrap_or(0),
        };
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        Self {
            kind: FileType::from_raw_mode(stat.st_mode),
            mode: (stat.st_mode & 0o7777) as u16,
            uid: stat.st_uid,
            gid: stat.st_gid,
            linked: stat.st_nlink > 1,
            identity: (stat.st_dev, stat.st_ino),
            size,
            sparse: u64::try_from(stat.st_blocks)
                .unwrap_or(0)
                .saturating_mul(512)
                < size,
            acl: None,
            default_acl: None,
            accessed: time(stat.st_atime, stat.st_atime_nsec),
            modified: time(stat.st_mtime, stat.st_mtime_nsec),
        }
    }

    /// The attributes of an open file.
    pub(crate) fn of(file: impl AsFd) -> std::io::Result<Self> {
        Ok(Self::new(&rustix::fs::fstat(file)?))
    }

    /// The same with its access control lists.
    pub(crate) fn with_list(file: impl AsFd) -> std::io::Result<Self> {
        let known = Self::of(&file)?;
        let default_acl = match known.kind {
            FileType::Directory => lists::read_local_default(&file)?,
            _ => None,
        };
        Ok(Self {
            acl: lists::read_local(&file)?,
            default_acl,
            ..known
        })
    }

    /// The times that a copy of it gets, or none.
    pub(crate) fn times(&self, keep_times: bool) -> SetAttributes {
        SetAttributes {
            accessed: keep_times.then_some(self.accessed),
            modified: keep_times.then_some(self.modified),
            ..SetAttributes::default()
        }
    }
}

/// A directory of this machine and everything below it.
#[derive(Debug)]
pub(crate) struct Tree {
    root: OwnedFd,
    shown: PathBuf,
}

/// A directory of a tree: its root, or one opened below it.
pub(crate) enum Directory<'a> {
    Root(BorrowedFd<'a>),
    Below(OwnedFd),
}

impl AsFd for Directory<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Root(root) => *root,
            Self::Below(directory) => directory.as_fd(),
        }
    }
}

/// The flags with which directories on the way are opened.
const ON_THE_WAY: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl Tree {
    /// The tree at a path that the user has named: links in it are followed.
    pub(crate) fn open(path: &Path) -> Outcome<Arc<Self>> {
        let path = match path.as_os_str().is_empty() {
            true => Path::new("."),
            false => path,
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, path, flags, Mode::empty())
            .doing(|| format!("opening the directory {}", path.display()))?;
        Ok(Arc::new(Self {
            root,
            shown: path.to_owned(),
        }))
    }

    /// The path of something below, for people.
    pub(crate) fn shown(&self, below: &[u8]) -> String {
        match below {
            [] => self.shown.display().to_string(),
            below => self
                .shown
                .join(OsStr::from_bytes(below))
                .display()
                .to_string(),
        }
    }

    /// Opens something below, without following links anywhere on the way.
    pub(crate) fn open_below(&self, below: &[u8], flags: OFlags) -> std::io::Result<OwnedFd> {
        if below.is_empty() {
            return Ok(beneath(&self.root, b".", flags)?);
        }
        let (directory, last) = self.ends(below)?;
        Ok(beneath(directory, last, flags)?)
    }

    /// The directory that holds the last component of a path, and that component.
    pub(crate) fn parent<'a, 'b>(
        &'a self,
        below: &'b [u8],
    ) -> std::io::Result<(Directory<'a>, &'b OsStr)> {
        let (parent, name) = match below.iter().rposition(|byte| *byte == b'/') {
            None => (&b""[..], below),
            Some(slash) => (
                below.get(..slash).unwrap_or_default(),
                below.get(slash + 1..).unwrap_or_default(),
            ),
        };
        let name = OsStr::from_bytes(name);
        if parent.is_empty() {
            return Ok((Directory::Root(self.root.as_fd()), name));
        }
        let (directory, last) = self.ends(parent)?;
        let opened = beneath(directory, last, ON_THE_WAY)?;
        Ok((Directory::Below(opened), name))
    }

    /// Walks a long path up to its last piece.
    fn ends<'a, 'b>(&'a self, path: &'b [u8]) -> std::io::Result<(Directory<'a>, &'b [u8])> {
        let mut directory = Directory::Root(self.root.as_fd());
        let mut rest = path;
        while rest.len() > PIECE_OF_PATH_BYTES {
            let within = rest.get(..PIECE_OF_PATH_BYTES).unwrap_or(rest);
            let cut = within.iter().rposition(|byte| *byte == b'/');
            let Some(cut) = cut else {
                return Err(Errno::NAMETOOLONG.into());
            };
            let (piece, after) = rest.split_at(cut);
            directory = Directory::Below(beneath(directory, piece, ON_THE_WAY)?);
            rest = after.get(1..).unwrap_or_default();
        }
        Ok((directory, rest))
    }

    /// The attributes of the object at a path; a link there is not followed.
    pub(crate) fn known(&self, below: &[u8]) -> std::io::Result<LocalMetadata> {
        if below.is_empty() {
            return LocalMetadata::of(&self.root);
        }
        let (directory, name) = self.parent(below)?;
        let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(LocalMetadata::new(&stat))
    }

    /// The target of a symbolic link.
    pub(crate) fn link_target(&self, below: &[u8]) -> std::io::Result<Vec<u8>> {
        let (directory, name) = self.parent(below)?;
        Ok(rustix::fs::readlinkat(directory, name, Vec::new())?.into_bytes())
    }

    /// Opens a source without following a link and without waiting for the other end of a pipe.
    pub(crate) fn open_source(&self, below: &[u8]) -> std::io::Result<(LocalFile, LocalMetadata)> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = self.open_below(below, flags | OFlags::NOCTTY)?;
        let known = LocalMetadata::with_list(&file)?;
        Ok((LocalFile::from(file), known))
    }

    /// Calls `each` with the name of every entry of a directory. Returns the directory's
    /// attributes, and whether it has extended attributes.
    pub(crate) fn each_name(
        &self,
        below: &[u8],
        mut each: impl FnMut(&[u8]) -> Outcome,
    ) -> Outcome<(LocalMetadata, bool)> {
        let doing = || format!("reading {}", self.shown(below));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = self.open_below(below, flags).doing(doing)?;
        let known = LocalMetadata::with_list(&directory).doing(doing)?;
        for entry in rustix::fs::Dir::read_from(&directory).doing(doing)? {
            let entry = entry.doing(doing)?;
            match entry.file_name().to_bytes() {
                b"." | b".." => {}
                name => each(name)?,
            }
        }
        Ok((known, has_extended_attributes(&directory)))
    }

    /// Makes a directory, unless there is one. A link to a directory does not count as one.
    pub(crate) fn make_directory(&self, below: &[u8]) -> Outcome {
        let doing = || format!("making the directory {}", self.shown(below));
        if below.is_empty() {
            return Ok(());
        }
        let (directory, name) = self.parent(below).doing(doing)?;
        match rustix::fs::mkdirat(&directory, name, Mode::RWXU) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => {
                let stat =
                    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).doing(doing)?;
                match FileType::from_raw_mode(stat.st_mode) {
                    FileType::Directory => Ok(()),
                    FileType::Symlink => {
                        Err(Failure::new(doing(), "a symbolic link is in the way")
                            .hint("remove the link, or copy to where it leads"))
                    }
                    _ => Err(Failure::new(doing(), "a file is in the way")
                        .hint("remove it, or copy to another place")),
                }
            }
            Err(error) => Err(Failure::new(doing(), error)),
        }
    }
}

/// Opens below a directory, without links and without `..` that leads out.
fn beneath(directory: impl AsFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let path = OsStr::from_bytes(path);
    let mut attempts = ATTEMPTS;
    loop {
        attempts -= 1;
        match rustix::fs::openat2(&directory, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) if attempts > 0 => {}
            other => return other,
        }
    }
}

/// The attributes of a copy on this machine.
#[derive(Debug)]
pub(crate) struct CopyAttributes<'a> {
    /// Mode, owner, group and times.
    pub(crate) attributes: causeway_wire::fs::Attributes,
    /// The access control list, if the original has one.
    pub(crate) acl: Option<Box<Acl>>,
    /// Whether the copy gets the times.
    pub(crate) times: bool,
    /// Whether the copy gets owner and group.
    pub(crate) owner: bool,
    /// Where lists are counted that copies cannot have.
    pub(crate) lost: &'a Lost,
}

impl CopyAttributes<'_> {
    fn timestamps(&self) -> Timestamps {
        let time = |time: Timestamp| Timespec {
            tv_sec: time.seconds,
            tv_nsec: i64::from(time.nanoseconds),
        };
        Timestamps {
            last_access: time(self.attributes.accessed),
            last_modification: time(self.attributes.modified),
        }
    }

    fn ids(&self) -> (Option<Uid>, Option<Gid>) {
        let owner = self.owner;
        (
            owner.then(|| Uid::from_raw(self.attributes.uid)),
            owner.then(|| Gid::from_raw(self.attributes.gid)),
        )
    }

    /// Sets the attributes of an open file or directory: the owner first, since a change of owner
    /// clears bits of the mode.
    pub(crate) fn apply_to(&self, file: impl AsFd) -> std::io::Result<()> {
        if self.owner {
            let (uid, gid) = self.ids();
            rustix::fs::fchown(&file, uid, gid)?;
        }
        let there = LocalMetadata::of(&file)?;
        let list = (self.acl.as_deref(), self.attributes.mode);
        let mode = safe_mode(
            lists::set_local(&file, list, self.lost)?,
            (self.attributes.uid, self.attributes.gid),
            (there.uid, there.gid),
        );
        rustix::fs::fchmod(&file, Mode::from_raw_mode(u32::from(mode)))?;
        if self.times {
            rustix::fs::futimens(&file, &self.timestamps())?;
        }
        Ok(())
    }

    /// Sets the attributes of a symbolic link; it has no mode.
    fn apply_to_link(&self, directory: impl AsFd, name: &OsStr) -> std::io::Result<()> {
        if self.owner {
            let (uid, gid) = self.ids();
            rustix::fs::chownat(&directory, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        if self.times {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::utimensat(&directory, name, &self.timestamps(), flags)?;
        }
        Ok(())
    }
}

/// A mode without set-user-ID and set-group-ID bits where the copy has another owner or group than the original, for which
/// these bits were set.
pub(crate) fn safe_mode(mode: u16, original: (u32, u32), copy: (u32, u32)) -> u16 {
    let mut mode = mode & 0o7777;
    if original.0 != copy.0 {
        mode &= !0o4000;
    }
    if original.1 != copy.1 {
        mode &= !0o2000;
    }
    mode
}

/// A local file that is being written: under a temporary name in the directory of its final name.
pub(crate) struct PendingFile {
    /// Open for writing.
    pub(crate) file: LocalFile,
    /// The final path, for people.
    pub(crate) shown: String,
    directory: Arc<OwnedFd>,
    temporary: Mutex<Option<shutdown::Registration>>,
    temporary_name: Vec<u8>,
    name: Vec<u8>,
}

impl PendingFile {
    /// Begins the file at a path of a tree.
    pub(crate) fn new(tree: &Tree, below: &[u8]) -> Outcome<Self> {
        let shown = tree.shown(below);
        let doing = || format!("making {shown}");
        let (directory, name) = tree.parent(below).doing(doing)?;
        let there = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW);
        if there.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory) {
            return Err(Failure::new(doing(), "a directory is in the way")
                .hint("remove it, or copy to another place"));
        }
        let directory = Arc::new(match directory {
            Directory::Root(root) => root.try_clone_to_owned().doing(doing)?,
            Directory::Below(below) => below,
        });
        let temporary_name = partial::new_name()?;
        let registration =
            shutdown::register_below(Arc::clone(&directory), OsStr::from_bytes(&temporary_name));
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let temporary = OsStr::from_bytes(&temporary_name);
        let file = rustix::fs::openat(&*directory, temporary, flags, Mode::RUSR | Mode::WUSR)
            .doing(doing)?;
        Ok(Self {
            file: LocalFile::from(file),
            directory,
            temporary: Mutex::new(Some(registration)),
            temporary_name,
            name: name.as_bytes().to_vec(),
            shown,
        })
    }

    /// Sets the file's attributes and renames it to its final name.
    pub(crate) fn complete(&self, wanted: &CopyAttributes<'_>) -> Outcome {
        let doing = || format!("finishing {}", self.shown);
        wanted.apply_to(&self.file).doing(doing)?;
        let (from, to) = (
            OsStr::from_bytes(&self.temporary_name),
            OsStr::from_bytes(&self.name),
        );
        rustix::fs::renameat(&*self.directory, from, &*self.directory, to).doing(doing)?;
        *self.registration() = None;
        Ok(())
    }

    fn registration(&self) -> std::sync::MutexGuard<'_, Option<shutdown::Registration>> {
        self.temporary
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        if self.registration().take().is_some() {
            // A file that cannot be removed keeps its recognizable name; the failure itself has been reported.
            let name = OsStr::from_bytes(&self.temporary_name);
            let _ = rustix::fs::unlinkat(&*self.directory, name, AtFlags::empty());
        }
    }
}

/// Makes something under a temporary name with `make`, which is passed the directory and the name,
/// and then renames it atomically to its final name.
fn make_and_rename(
    tree: &Tree,
    below: &[u8],
    make: impl FnOnce(BorrowedFd<'_>, &OsStr) -> std::io::Result<()>,
) -> Outcome {
    let doing = || format!("making the link {}", tree.shown(below));
    let (directory, name) = tree.parent(below).doing(doing)?;
    let directory = Arc::new(directory.as_fd().try_clone_to_owned().doing(doing)?);
    let temporary = partial::new_name()?;
    let temporary = OsStr::from_bytes(&temporary);
    let _registration = shutdown::register_below(Arc::clone(&directory), temporary);
    let made = make(directory.as_fd(), temporary).and_then(|()| {
        Ok(rustix::fs::renameat(
            &*directory,
            temporary,
            &*directory,
            name,
        )?)
    });
    // If both names are of one file, renaming leaves them as they are; otherwise the temporary name is gone.
    let _ = rustix::fs::unlinkat(&*directory, temporary, AtFlags::empty());
    made.doing(doing)
}

/// Makes a symbolic link, replacing an existing file or link.
pub(crate) fn make_link(
    tree: &Tree,
    below: &[u8],
    target: &[u8],
    wanted: &CopyAttributes<'_>,
) -> Outcome {
    make_and_rename(tree, below, |directory, name| {
        rustix::fs::symlinkat(OsStr::from_bytes(target), directory, name)?;
        wanted.apply_to_link(directory, name)
    })
}

/// Makes a further name for the file at `first`, replacing an existing entry.
pub(crate) fn make_hard_link(tree: &Tree, first: &[u8], below: &[u8]) -> Outcome {
    make_and_rename(tree, below, |directory, name| {
        let (from, old) = tree.parent(first)?;
        Ok(rustix::fs::linkat(
            from,
            old,
            directory,
            name,
            AtFlags::empty(),
        )?)
    })
}

/// Whether a file has extended attributes that a copy will lack. The label that a security module gives
/// to every file does not count, nor does its access control list.
pub(crate) fn has_extended_attributes(file: impl AsFd) -> bool {
    let mut names = [0_u8; 4096];
    match rustix::fs::flistxattr(&file, &mut names) {
        Ok(count) => names
            .get(..count)
            .unwrap_or_default()
            .split(|byte| *byte == 0)
            .any(|name| {
                let is_copied = [ACCESS_ACL, DEFAULT_ACL].contains(&name);
                !name.is_empty() && !is_copied && name != b"security.selinux"
            }),
        // The file system has no extended attributes.
        Err(Errno::OPNOTSUPP) => false,
        // There are more names than fit, or they cannot be listed: the copy may lack some.
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_parents_on_the_way_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path();
        std::fs::create_dir_all(top.join("tree/inside")).unwrap();
        std::fs::create_dir(top.join("outside")).unwrap();
        std::fs::write(top.join("outside/secret"), b"x").unwrap();
        std::os::unix::fs::symlink("../outside", top.join("tree/link")).unwrap();
        let tree = Tree::open(&top.join("tree")).unwrap();
        for path in [
            "link/secret",
            "../outside/secret",
            "inside/../../outside/secret",
        ] {
            assert!(tree.open_source(path.as_bytes()).is_err(), "{path}");
            assert!(PendingFile::new(&tree, path.as_bytes()).is_err(), "{path}");
        }
        assert!(tree.make_directory(b"link").is_err());
        assert!(tree.make_directory(b"link/new").is_err());
        assert_eq!(std::fs::read_dir(top.join("outside")).unwrap().count(), 1);
        tree.make_directory(b"inside").unwrap();
    }

    #[test]
    fn paths_longer_than_the_kernel_takes_are_walked_in_pieces() {
        let directory = tempfile::tempdir().unwrap();
        let tree = Tree::open(directory.path()).unwrap();
        let mut path = Vec::new();
        for _ in 0..30 {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&[b'd'; 250]);
            tree.make_directory(&path).unwrap();
        }
        assert!(path.len() > 4096);
        assert_eq!(tree.known(&path).unwrap().kind, FileType::Directory);
    }

    #[test]
    fn a_copy_whose_owner_is_not_restored_lends_no_identity() {
        let file = tempfile::tempfile().unwrap();
        let mine = LocalMetadata::of(&file).unwrap();
        let time = Timestamp::default();
        let mode_as = |uid| {
            let attributes = causeway_wire::fs::Attributes {
                kind: causeway_wire::fs::Kind::File,
                mode: 0o4755,
                uid,
                gid: mine.gid,
                links: 1,
                size: 0,
                accessed: time,
                modified: time,
                changed: time,
            };
            let wanted = CopyAttributes {
                attributes,
                acl: None,
                times: true,
                owner: false,
                lost: &Lost::default(),
            };
            wanted.apply_to(&file).unwrap();
            LocalMetadata::of(&file).unwrap().mode
        };
        assert_eq!(mode_as(mine.uid + 1), 0o755);
        assert_eq!(mode_as(mine.uid), 0o4755);
    }

    #[test]
    fn bits_that_lend_an_identity_need_that_identity() {
        assert_eq!(safe_mode(0o6755, (5, 6), (5, 6)), 0o6755);
        assert_eq!(safe_mode(0o6755, (5, 6), (0, 6)), 0o2755);
        assert_eq!(safe_mode(0o6755, (5, 6), (5, 0)), 0o4755);
        assert_eq!(safe_mode(0o1777, (5, 6), (0, 0)), 0o1777);
    }
}
