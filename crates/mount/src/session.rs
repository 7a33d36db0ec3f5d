//! Mounting, serving and unmounting.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_command::failure::{Doing, Failure, Outcome};
use causeway_fs::client::ClientOptions;
use causeway_fs::config::Configuration;
use causeway_wire::fs::ObjectId;
use fuser::BackgroundSession;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::caches::Caches;
use crate::clients::Clients;
use crate::lock_flags::LockFlags;
use crate::locks::{forget_at_loss, watch_signals};
use crate::operations::Mounted;
use crate::options::Options;
use crate::read_ahead;
use crate::requests::RequestHandler;

/// The type of Causeway's file systems in the table of mounts.
const TYPE: &str = "fuse.causeway";
const LIST_HINT: &str = "list the mounts of Causeway with `findmnt -t fuse.causeway`";

/// The program that mounts and unmounts for users who are not root.
const HELPER: &str = "fusermount3";

/// A file system to mount, and where.
pub struct Spec<'a> {
    /// The file system.
    pub configuration: &'a Configuration,
    /// Options of its clients.
    pub client: ClientOptions,
    /// The source that the table of mounts shows.
    pub name: &'a str,
    /// The mount point.
    pub at: &'a MountPoint,
    /// Options, as for mount(8).
    pub options: &'a Options,
    /// Threads that serve requests, and clients that they share.
    pub threads: usize,
}

/// A directory on which a file system can be mounted.
pub struct MountPoint {
    /// The path, absolute and without symbolic links.
    pub directory: PathBuf,
    serving: Serving,
}

/// The mount that this process serves at a mount point. Locked while it is being mounted.
type Serving = Arc<Mutex<Option<Served>>>;

struct Served {
    /// The mount's entry in the table of mounts, once it was found there: it distinguishes this mount from one on top of it.
    entry: Option<Entry>,
}

/// A mounted file system that this process serves.
pub struct Mount {
    serving: Serving,
    ended: Receiver<()>,
    session: BackgroundSession,
}

/// Ends a mount from another thread.
pub struct Unmounter {
    directory: PathBuf,
    serving: Serving,
}

/// Number of threads that serve a mount unless the caller chooses another one.
pub fn default_threads() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (2 * processors).clamp(4, 16)
}

/// The place to mount at. Fails if no file system can be mounted there.
pub fn mount_point(directory: &Path) -> Outcome<MountPoint> {
    let what = || format!("mounting at {}", directory.display());
    let resolved = match directory.canonicalize() {
        Ok(resolved) => resolved,
        Err(error) if is_dead(&error) => return Err(dead(directory)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(
                Failure::new(what(), "there is no such directory").hint(format!(
                    "make the directory with `mkdir -p {}`",
                    directory.display()
                )),
            );
        }
        Err(error) => return Err(Failure::new(what(), error)),
    };
    match resolved.metadata() {
        Ok(found) if found.is_dir() => {}
        Ok(_) => {
            return Err(Failure::new(what(), "the mount point is not a directory")
                .hint("name an empty directory, or make one with `mkdir`"));
        }
        Err(error) if is_dead(&error) => return Err(dead(directory)),
        Err(error) => return Err(Failure::new(what(), error)),
    }
    if is_mounted(&resolved) {
        return Err(
            Failure::new(what(), "a file system of Causeway is mounted there already").hint(
                format!(
                    "unmount it first with `causeway fs umount {}`",
                    directory.display()
                ),
            ),
        );
    }
    Ok(MountPoint {
        directory: resolved,
        serving: Serving::default(),
    })
}

/// Whether the process that served a mount has ended.
fn is_dead(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error())
}

fn dead(directory: &Path) -> Failure {
    Failure::new(
        format!("mounting at {}", directory.display()),
        "the process that served an earlier mount there has ended",
    )
    .hint(format!(
        "end that mount with `causeway fs umount {}`, then mount again",
        directory.display()
    ))
}

/// An entry of the table of mounts.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    /// The number of its device.
    numbers: String,
    kind: String,
}

/// The latest mount at this absolute path, if there is one.
fn mounted_at(directory: &Path) -> Option<Entry> {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let lines = table.split(|byte| *byte == b'\n');
    let mut mounts = lines.filter_map(mount_of).filter(|(at, _)| at == directory);
    mounts.next_back().map(|(_, entry)| entry)
}

/// Whether the latest mount there is a file system of Causeway.
fn is_mounted(directory: &Path) -> bool {
    mounted_at(directory).is_some_and(|entry| entry.kind == TYPE)
}

/// The mount point and the entry in a line of the table of mounts.
fn mount_of(line: &[u8]) -> Option<(PathBuf, Entry)> {
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let mut fields = line.split(|byte| *byte == b' ');
    let numbers = text(fields.nth(2)?);
    let place = fields.nth(1)?;
    // A lone `-` ends optional fields; the type follows.
    fields.find(|field| *field == b"-")?;
    let kind = text(fields.next()?);
    Some((unescaped(place), Entry { numbers, kind }))
}

/// A path as the table of mounts has it: some bytes are written as a backslash and three octal digits.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        let octal = behind.get(..3).filter(|_| byte == b'\\');
        let value = octal
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match value {
            Some(value) => {
                path.push(value);
                rest = &rest[4..];
            }
            None => {
                path.push(byte);
                rest = behind;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(path))
}

/// Mounts a file system and serves it. The mount replies to requests when this returns.
pub fn mount(spec: &Spec<'_>) -> Outcome<Mount> {
    let directory = spec.at.directory.as_path();
    let what = || format!("mounting at {}", directory.display());
    let mut probe = causeway_fs::client::Client::connect(spec.configuration, spec.client.clone())?;
    probe.stat_object(ObjectId::ROOT)?;
    drop(probe);
    // The server may take root for nobody, whom it refuses what this kernel permits root.
    let is_root = rustix::process::geteuid().is_root();
    let is_private = !spec.options.allow_other && !spec.options.allow_root && !is_root;
    let caches = Caches::start(spec.configuration, &spec.client, is_private)?;
    let leases = caches.leases();
    let clients = Clients::connect(spec.configuration, &spec.client, spec.threads, leases)?;
    let io_servers = spec.configuration.io_servers();
    let mounted = Arc::new(Mounted::new(clients, caches, io_servers));
    watch_signals(&mounted).doing(what)?;
    forget_at_loss(&mounted);
    let (sender, ended) = channel();
    let handler = RequestHandler {
        mounted: Arc::clone(&mounted),
        opened: AtomicU64::new(0),
        lock_flags: known_lock_flags(),
        drops_written: false,
        ended: sender,
    };
    let mut config = fuser::Config::default();
    config.mount_options = spec.options.for_kernel(spec.name);
    config.acl = spec.options.access();
    config.n_threads = Some(spec.threads);
    config.clone_fd = true;
    let session = {
        let mut serving = lock(&spec.at.serving);
        let refused = |error| refused(what(), &error);
        let session = fuser::Session::new(handler, directory, &config).map_err(refused)?;
        let device = session.as_fd().try_clone_to_owned().doing(what)?;
        mounted.caches.set_kernel(device).doing(what)?;
        let session = session.spawn().map_err(refused)?;
        *serving = Some(Served { entry: None });
        session
    };
    match directory.metadata() {
        Ok(_) => {
            let entry = mounted_at(directory);
            if let Some(entry) = entry.as_ref().filter(|_| is_root)
                && let Err(error) = read_ahead::set(&entry.numbers)
            {
                tracing::debug!(%error, "the kernel reads ahead in small requests");
            }
            if let Some(served) = lock(&spec.at.serving).as_mut() {
                served.entry = entry;
            }
            Ok(Mount {
                serving: Arc::clone(&spec.at.serving),
                ended,
                session,
            })
        }
        Err(error) => {
            spec.at.unmounter().unmount();
            Err(Failure::new(what(), error))
        }
    }
}

/// The flags that distinguish locks of `flock`, if this host lets the mount read them.
fn known_lock_flags() -> Option<LockFlags> {
    match LockFlags::open() {
        Ok(flags) => Some(flags),
        Err(error) => {
            tracing::warn!(
                %error,
                "/proc/self/mem cannot be read: locks of flock exclude programs of this mount only"
            );
            None
        }
    }
}

fn lock(serving: &Serving) -> MutexGuard<'_, Option<Served>> {
    serving.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds to an error of mounting what the user can do.
fn refused(what: String, error: &io::Error) -> Failure {
    let text = error.to_string();
    let hint = match error.kind() {
        io::ErrorKind::NotFound if !Path::new("/dev/fuse").exists() => {
            "the kernel's module `fuse` is not loaded: `modprobe fuse`"
        }
        io::ErrorKind::NotFound => {
            "users need the program fusermount3 to mount: install the package fuse3"
        }
        _ if text.contains("user_allow_other") => {
            "write a line `user_allow_other` into /etc/fuse.conf, or leave allow_other and allow_root out"
        }
        io::ErrorKind::PermissionDenied => {
            "mount as root, or install the package fuse3, and mount at a directory of your own"
        }
        _ => "see the kernel's log with `dmesg`",
    };
    Failure::new(what, text.trim()).hint(hint)
}

impl MountPoint {
    /// Returns a handle that ends this mount from another thread, also before it is mounted.
    pub fn unmounter(&self) -> Unmounter {
        Unmounter {
            directory: self.directory.clone(),
            serving: Arc::clone(&self.serving),
        }
    }
}

impl Mount {
    /// Serves until the file system is unmounted.
    pub fn serve(self) {
        // The last thread that serves requests drops the sender, at the latest.
        let _ = self.ended.recv();
        // Another file system may be mounted there by now: if the session were dropped, it would unmount that one.
        lock(&self.serving).take();
        std::mem::forget(self.session);
    }
}

impl Unmounter {
    /// Unmounts the file system. Files that are open fail from then on.
    pub fn unmount(self) {
        let Some(Served { entry }) = lock(&self.serving).take() else {
            return;
        };
        let place = &self.directory;
        // A mount that appeared there since then is another one, even if its type is Causeway.
        let is_another = entry.is_some_and(|ours| mounted_at(place) != Some(ours));
        let unmounted = match is_another {
            true => Ok(()),
            false => unmount_place(place, place, UnmountKind::Unused)
                .or_else(|_| unmount_place(place, place, UnmountKind::Lazy)),
        };
        if let Err(failure) = unmounted {
            tracing::warn!("{failure}");
        }
    }
}

/// How a file system is unmounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnmountKind {
    /// If nobody uses it.
    Unused,
    /// Even while it is in use: it disappears at once, and ends with its last use.
    Lazy,
    /// Even while programs wait for its requests, which fail. Only root can do that.
    Forced,
}

/// Unmounts a file system of Causeway.
pub fn unmount(directory: &Path, kind: UnmountKind) -> Outcome {
    let what = || format!("unmounting {}", directory.display());
    // The mount point of a dead mount cannot be inspected; the directory above it can.
    let place = match directory.canonicalize() {
        Ok(place) => place,
        Err(error) if is_dead(&error) => absolute(directory).doing(what)?,
        Err(error) => return Err(Failure::new(what(), error).hint(LIST_HINT)),
    };
    unmount_place(directory, &place, kind)
}

/// Unmounts the mount at an absolute path, for which the user has given `directory`.
fn unmount_place(directory: &Path, place: &Path, kind: UnmountKind) -> Outcome {
    let what = || format!("unmounting {}", directory.display());
    match mounted_at(place) {
        Some(entry) if entry.kind == TYPE => {}
        Some(Entry { kind: other, .. }) => {
            return Err(Failure::new(
                what(),
                format!(
                    "the topmost mount there is no file system of Causeway but of the type {other}"
                ),
            )
            .hint(format!(
                "if it is not needed, unmount it first with `umount {}`",
                directory.display()
            )));
        }
        None => {
            return Err(
                Failure::new(what(), "no file system of Causeway is mounted there").hint(LIST_HINT),
            );
        }
    }
    let flags = match kind {
        UnmountKind::Unused => UnmountFlags::empty(),
        UnmountKind::Lazy => UnmountFlags::DETACH,
        UnmountKind::Forced => UnmountFlags::FORCE,
    };
    match rustix::mount::unmount(place, flags) {
        Ok(()) => Ok(()),
        // Its requests have failed, but programs have files open, or are about to see that.
        Err(Errno::BUSY) if kind == UnmountKind::Forced => {
            unmount_place(directory, place, UnmountKind::Lazy)
        }
        Err(Errno::BUSY) => Err(busy(what(), directory)),
        Err(Errno::PERM) if kind == UnmountKind::Forced => {
            let text = "only root can have requests fail that programs wait for";
            Err(Failure::new(what(), text)
                .hint(format!("causeway fs umount --lazy {}", directory.display())))
        }
        Err(Errno::PERM) => unmount_by_helper(what(), directory, place, kind == UnmountKind::Lazy),
        Err(error) => Err(Failure::new(what(), io::Error::from(error))),
    }
}

fn unmount_by_helper(what: String, directory: &Path, place: &Path, lazy: bool) -> Outcome {
    let mut command = Command::new(HELPER);
    command.arg("-u");
    if lazy {
        command.arg("-z");
    }
    let output = command.arg("--").arg(place).output();
    let output = output.map_err(|error| {
        Failure::new(what.clone(), format!("{HELPER}: {error}"))
            .hint("users need it to unmount: install the package fuse3")
    })?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    match text.contains("busy") {
        true => Err(busy(what, directory)),
        false => Err(Failure::new(what, text)),
    }
}

fn busy(what: String, directory: &Path) -> Failure {
    Failure::new(what, "programs use it").hint(format!(
        "list the programs that use it with `fuser -vm {0}`, or unmount it as soon as they end: `causeway fs umount --lazy {0}`, or have what they wait for fail: `causeway fs umount --force {0}`",
        directory.display()
    ))
}

/// The path with its directory resolved, but not the last component.
fn absolute(directory: &Path) -> io::Result<PathBuf> {
    let name = directory.file_name().unwrap_or(OsStr::from_bytes(b"."));
    let above = match directory.parent() {
        Some(above) if above != Path::new("") => above.canonicalize()?,
        _ => std::env::current_dir()?,
    };
    Ok(above.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_mounts_is_read() {
        let line = |place: &str, kind: &str| {
            format!("36 35 98:0 / {place} rw,noatime master:1 shared:2 - {kind} /a rw").into_bytes()
        };
        for (text, place, kind) in [
            ("/mnt/a\\040b\\134", "/mnt/a b\\", TYPE),
            ("/mnt", "/mnt", "fuse.sshfs"),
        ] {
            let found = mount_of(&line(text, kind));
            let entry = Entry {
                numbers: "98:0".to_owned(),
                kind: kind.to_owned(),
            };
            assert_eq!(found, Some((PathBuf::from(place), entry)));
        }
        assert_eq!(mount_of(b""), None);
        assert_eq!(unescaped(b"/\\9zz\\1"), PathBuf::from("/\\9zz\\1"));
    }
}
