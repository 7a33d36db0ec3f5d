//! Names and attributes.

use std::ffi::{c_char, c_int, c_uint};

use causeway_fs::Error;
use causeway_fs::client::{Client, File};
use causeway_fs::clock;
use causeway_wire::fs::{Attributes, Body, Distribution, Kind, Node, SetAttributes, Timestamp};

use crate::buffers;
use crate::error::Failure;
use crate::file::mode;
use crate::handle::{Handle, call};
use crate::instance::Instance;
use crate::text;

/// Renaming fails if the new name exists.
pub const CWFS_NOREPLACE: c_uint = 1;
/// Renaming swaps the objects of both names.
pub const CWFS_EXCHANGE: c_uint = 4;
/// A symbolic link is not followed.
pub const CWFS_NOFOLLOW: c_uint = 2;

/// Nanoseconds that mean the time of the call.
pub const CWFS_NOW: i64 = 1_073_741_823;
/// Nanoseconds of a time that is not set.
pub const CWFS_OMIT: i64 = 1_073_741_822;

/// The header's `struct cwfs_time`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CwfsTime {
    /// Seconds since 1970; negative before.
    pub seconds: i64,
    /// Nanoseconds, which count forward.
    pub nanoseconds: i64,
}

/// The header's `struct cwfs_stat`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CwfsStat {
    /// The object's number, which is never used again.
    pub object: u64,
    /// Bytes of a file or of a link's target; entries of a directory.
    pub size: u64,
    /// Kind and permission bits, as in `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of names.
    pub links: u32,
    /// Last access.
    pub accessed: CwfsTime,
    /// Last change of content.
    pub modified: CwfsTime,
    /// Last change of attributes.
    pub changed: CwfsTime,
    /// Bytes of a file's strips; 0 for other objects.
    pub strip_size: u32,
    /// Number of a file's servers.
    pub servers: u32,
}

/// The header's `struct cwfs_statfs`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CwfsStatfs {
    /// Bytes of all I/O servers' storage.
    pub total_bytes: u64,
    /// The free ones of these bytes.
    pub free_bytes: u64,
    /// Files, directories and links.
    pub objects: u64,
}

/// Attributes in the header's form, without the distribution.
pub(crate) fn stat_of(object: u64, attributes: &Attributes) -> CwfsStat {
    CwfsStat {
        object,
        size: attributes.size,
        mode: attributes.kind.mode_bits() | u32::from(attributes.mode),
        uid: attributes.uid,
        gid: attributes.gid,
        links: attributes.links,
        accessed: time(attributes.accessed),
        modified: time(attributes.modified),
        changed: time(attributes.changed),
        strip_size: 0,
        servers: 0,
    }
}

fn stat_of_node(node: &Node) -> CwfsStat {
    let distribution = node.body.distribution();
    let servers = |of: &Distribution| of.servers.len() as u32;
    CwfsStat {
        strip_size: distribution.map_or(0, |of| of.strip_size),
        servers: distribution.map_or(0, servers),
        ..stat_of(node.object.0, &node.attributes)
    }
}

fn time(at: Timestamp) -> CwfsTime {
    CwfsTime {
        seconds: at.seconds,
        nanoseconds: at.nanoseconds.into(),
    }
}

/// Carries out a call about a path.
///
/// # Safety
/// `path` is null or a string.
unsafe fn at(
    fs: *mut Handle,
    path: *const c_char,
    work: impl FnOnce(&Instance, &[u8]) -> Result<i64, Failure>,
) -> c_int {
    call(fs, |instance| {
        // SAFETY: the caller's promise.
        let path = unsafe { text::path(path, "the path") }?;
        work(instance, path)
    }) as c_int
}

/// Carries out a call about a path that returns nothing but success.
///
/// # Safety
/// `path` is null or a string.
unsafe fn done_at(
    fs: *mut Handle,
    path: *const c_char,
    work: impl FnOnce(&mut Client, &[u8]) -> Result<(), Error>,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        at(fs, path, |instance, path| {
            instance.with(|client| work(client, path)).map(|()| 0)
        })
    }
}

/// # Safety
/// `path` is null or a string, `stat` null or valid for writes.
unsafe fn stat_at(
    fs: *mut Handle,
    path: *const c_char,
    stat: *mut CwfsStat,
    follow: bool,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        at(fs, path, |instance, path| {
            Failure::if_null(stat, "the pointer for attributes")?;
            let node = instance.with(|client| client.stat(path, follow))?;
            stat.write(stat_of_node(&node));
            Ok(0)
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_stat(
    fs: *mut Handle,
    path: *const c_char,
    stat: *mut CwfsStat,
) -> c_int {
    // SAFETY: the header's promises.
    unsafe { stat_at(fs, path, stat, true) }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_lstat(
    fs: *mut Handle,
    path: *const c_char,
    stat: *mut CwfsStat,
) -> c_int {
    // SAFETY: the header's promises.
    unsafe { stat_at(fs, path, stat, false) }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_fstat(fs: *mut Handle, file: u64, stat: *mut CwfsStat) -> c_int {
    call(fs, |instance| {
        let file = instance.files.get(file)?;
        Failure::if_null(stat, "the pointer for attributes")?;
        let node = instance.with(|client| client.stat_object(file.object()))?;
        // SAFETY: not null, and the header requires a pointer that is valid for writes.
        unsafe { stat.write(stat_of_node(&node)) };
        Ok(0)
    }) as c_int
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_truncate(fs: *mut Handle, path: *const c_char, size: i64) -> c_int {
    // SAFETY: the header requires a string.
    unsafe {
        at(fs, path, |instance, path| {
            let size = buffers::offset(size)?;
            instance.with(|client| {
                let mut file = File::new(client.stat(path, true)?);
                client.truncate(&mut file, size)
            })?;
            Ok(0)
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_mkdir(
    fs: *mut Handle,
    path: *const c_char,
    permissions: u32,
) -> c_int {
    // SAFETY: the header requires a string.
    unsafe {
        at(fs, path, |instance, path| {
            let mode = mode(permissions)?;
            instance.with(|client| client.make_directory(path, mode, None))?;
            Ok(0)
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_mknod(
    fs: *mut Handle,
    path: *const c_char,
    kind_and_permissions: u32,
    device: u64,
) -> c_int {
    // SAFETY: the header requires a string.
    unsafe {
        at(fs, path, |instance, path| {
            let kind = Kind::of_mode(kind_and_permissions).filter(|kind| kind.is_special());
            let kind = kind.ok_or_else(|| {
                Failure::invalid(format!(
                    "cwfs_mknod(): mode {kind_and_permissions:#o} is no pipe, socket or device; use cwfs_open() or cwfs_mkdir()"
                ))
            })?;
            let mode = mode(kind_and_permissions & !libc::S_IFMT)?;
            let device = u32::try_from(device)
                .map_err(|_| Failure::invalid("a device's number has at most 32 bits"))?;
            instance.with(|client| client.make_special(path, kind, mode, device))?;
            Ok(0)
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_device(fs: *mut Handle, path: *const c_char) -> i64 {
    call(fs, |instance| {
        // SAFETY: the header requires a string.
        let path = unsafe { text::path(path, "the path") }?;
        let node = instance.with(|client| client.stat(path, false))?;
        match node.attributes.kind.is_device() {
            true => Ok(node.body.device().into()),
            false => Err(Failure::new(libc::ENODEV, "not a device".to_owned())),
        }
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_rmdir(fs: *mut Handle, path: *const c_char) -> c_int {
    // SAFETY: the header requires a string.
    unsafe { done_at(fs, path, |client, path| client.remove_directory(path)) }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_unlink(fs: *mut Handle, path: *const c_char) -> c_int {
    // SAFETY: the header requires a string.
    unsafe { done_at(fs, path, |client, path| client.unlink(path)) }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_rename(
    fs: *mut Handle,
    from: *const c_char,
    to: *const c_char,
    flags: c_uint,
) -> c_int {
    // SAFETY: the header requires strings.
    unsafe {
        at(fs, from, |instance, from| {
            let to = text::path(to, "the new path")?;
            match flags {
                0 => instance.with(|client| client.rename(from, to, false))?,
                CWFS_NOREPLACE => instance.with(|client| client.rename(from, to, true))?,
                CWFS_EXCHANGE => instance.with(|client| client.exchange(from, to))?,
                _ => return Err(Failure::invalid("cwfs_rename() has no such flags")),
            }
            Ok(0)
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_link(
    fs: *mut Handle,
    existing: *const c_char,
    path: *const c_char,
) -> c_int {
    // SAFETY: the header requires strings.
    unsafe {
        at(fs, existing, |instance, existing| {
            let path = text::path(path, "the new path")?;
            instance.with(|client| client.hard_link(existing, path))?;
            Ok(0)
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_symlink(
    fs: *mut Handle,
    target: *const c_char,
    path: *const c_char,
) -> c_int {
    // SAFETY: the header requires strings.
    unsafe {
        at(fs, path, |instance, path| {
            let target = text::path(target, "the target")?;
            instance.with(|client| client.symbolic_link(target, path))?;
            Ok(0)
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_readlink(
    fs: *mut Handle,
    path: *const c_char,
    target: *mut c_char,
    room: usize,
) -> i64 {
    call(fs, |instance| {
        // SAFETY: the header requires a string.
        let path = unsafe { text::path(path, "the path") }?;
        match instance.with(|client| client.stat(path, false))?.body {
            // SAFETY: the header requires a buffer of `room` bytes.
            Body::Link(found) => unsafe { text::write(&found, target, room) },
            _ => Err(Failure::invalid("not a symbolic link")),
        }
    })
}

/// # Safety
/// `path` is null or a string.
unsafe fn set_at(
    fs: *mut Handle,
    path: *const c_char,
    flags: c_uint,
    set: impl FnOnce() -> Result<SetAttributes, Failure>,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        at(fs, path, |instance, path| {
            if flags & !CWFS_NOFOLLOW != 0 {
                return Err(Failure::invalid("there are no such flags for this call"));
            }
            let (set, follow) = (set()?, flags & CWFS_NOFOLLOW == 0);
            instance.with(|client| {
                let object = client.stat(path, follow)?.object;
                client.set_attributes(object, set)
            })?;
            Ok(0)
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_chmod(
    fs: *mut Handle,
    path: *const c_char,
    permissions: u32,
) -> c_int {
    let set = || {
        Ok(SetAttributes {
            mode: Some(mode(permissions)?),
            ..SetAttributes::default()
        })
    };
    // SAFETY: the header requires a string.
    unsafe { set_at(fs, path, 0, set) }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_chown(
    fs: *mut Handle,
    path: *const c_char,
    uid: u32,
    gid: u32,
    flags: c_uint,
) -> c_int {
    let given = |id: u32| (id != u32::MAX).then_some(id);
    let set = || {
        Ok(SetAttributes {
            uid: given(uid),
            gid: given(gid),
            ..SetAttributes::default()
        })
    };
    // SAFETY: the header requires a string.
    unsafe { set_at(fs, path, flags, set) }
}

/// A time to set; `None` for one to leave.
fn time_to_set(at: CwfsTime, now: Timestamp) -> Result<Option<Timestamp>, Failure> {
    match at.nanoseconds {
        CWFS_OMIT => Ok(None),
        CWFS_NOW => Ok(Some(now)),
        0..=999_999_999 => Ok(Some(Timestamp {
            seconds: at.seconds,
            nanoseconds: at.nanoseconds as u32,
        })),
        wrong => Err(Failure::invalid(format!("a time has {wrong} nanoseconds"))),
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_utimens(
    fs: *mut Handle,
    path: *const c_char,
    times: *const CwfsTime,
    flags: c_uint,
) -> c_int {
    let set = || {
        let now = clock::now();
        let (accessed, modified) = match times.is_null() {
            true => (Some(now), Some(now)),
            // SAFETY: the header requires an array of two if it is not null; it is read as C would lay it out.
            false => unsafe {
                let (first, second) = (times.read_unaligned(), times.add(1).read_unaligned());
                (time_to_set(first, now)?, time_to_set(second, now)?)
            },
        };
        Ok(SetAttributes {
            accessed,
            modified,
            ..SetAttributes::default()
        })
    };
    // SAFETY: the header requires a string.
    unsafe { set_at(fs, path, flags, set) }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_statfs(fs: *mut Handle, into: *mut CwfsStatfs) -> c_int {
    call(fs, |instance| {
        Failure::if_null(into, "the pointer for the file system's state")?;
        let servers = instance.clients.configuration().io_servers();
        let space = instance.with(|client| client.space(&servers))?;
        let statfs = CwfsStatfs {
            total_bytes: space.total_bytes,
            free_bytes: space.free_bytes,
            objects: space.objects,
        };
        // SAFETY: not null, and the header requires a pointer that is valid for writes.
        unsafe { into.write(statfs) };
        Ok(0)
    }) as c_int
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn cwfs_sync(fs: *mut Handle) -> c_int {
    call(fs, |instance| instance.with(Client::commit).map(|()| 0)) as c_int
}
