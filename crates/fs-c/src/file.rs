//! Open files: opening, reading, writing, by one buffer or by lists.

use std::ffi::{c_char, c_int, c_void};
use std::time::Instant;

use causeway_fs::Error;
use causeway_fs::client::{Allocation, Client, File};
use causeway_fs::open_file::{OpenFile, OpenFlags, Whence, region};
use causeway_sys::lent::{Buffer, Use, with_lent};
use causeway_sys::memory::Memory;
use causeway_wire::fs::Region;
use libc::iovec;

pub use crate::buffers::CwfsRegion;
use crate::buffers::{self, List};
use crate::error::Failure;
use crate::handle::{Handle, call};
use crate::instance::Instance;
use crate::text;

/// Flags of `open` that have no effect here.
const IGNORED: c_int = libc::O_CLOEXEC
    | libc::O_NOCTTY
    | libc::O_NONBLOCK
    | libc::O_NOATIME
    | libc::O_DIRECT
    | libc::O_LARGEFILE
    // The kernel's value of O_LARGEFILE, which libc defines as 0 on 64-bit systems.
    | 0o100_000;
const KNOWN: c_int = libc::O_ACCMODE
    | libc::O_CREAT
    | libc::O_EXCL
    | libc::O_TRUNC
    | libc::O_APPEND
    | libc::O_NOFOLLOW
    | libc::O_SYNC
    | libc::O_DSYNC
    | IGNORED;

/// Permission bits.
pub(crate) fn mode(mode: u32) -> Result<u16, Failure> {
    u16::try_from(mode)
        .ok()
        .filter(|mode| *mode <= 0o7777)
        .ok_or_else(|| {
            Failure::invalid(format!(
                "the mode {mode:o} has other bits than those of permissions"
            ))
        })
}

fn open_flags(flags: c_int) -> Result<OpenFlags, Failure> {
    if flags & !KNOWN != 0 {
        let text = format!(
            "the flags {:#o} are not possible; directories are opened with cwfs_opendir()",
            flags & !KNOWN
        );
        return Err(Failure::invalid(text));
    }
    let has = |flag: c_int| flags & flag == flag;
    let (read, write) = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => (true, false),
        libc::O_WRONLY => (false, true),
        libc::O_RDWR => (true, true),
        _ => {
            return Err(Failure::invalid(
                "reading or writing, but not both of the flags' bits",
            ));
        }
    };
    if has(libc::O_TRUNC) && !write {
        return Err(Failure::invalid("O_TRUNC without writing"));
    }
    Ok(OpenFlags {
        read,
        write,
        create: has(libc::O_CREAT),
        exclusive: has(libc::O_CREAT) && has(libc::O_EXCL),
        truncate: has(libc::O_TRUNC),
        append: has(libc::O_APPEND),
        no_follow: has(libc::O_NOFOLLOW),
        sync: has(libc::O_DSYNC),
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_open(
    fs: *mut Handle,
    file: *mut u64,
    path: *const c_char,
    flags: c_int,
    permissions: u32,
) -> c_int {
    call(fs, |instance| {
        Failure::if_null(file, "the pointer for the file")?;
        // SAFETY: not null, and the header requires a pointer that is valid for writes.
        unsafe { file.write(0) };
        // SAFETY: the header requires a string.
        let path = unsafe { text::path(path, "the path") }?;
        let flags = open_flags(flags)?;
        let permissions = match flags.create {
            true => mode(permissions)?,
            false => 0,
        };
        instance.files.check_room()?;
        let opened = OpenFile::open(&instance.clients, path, flags, permissions)?;
        // SAFETY: as above.
        unsafe { file.write(instance.files.insert(opened)) };
        Ok(0)
    }) as c_int
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_creat(
    fs: *mut Handle,
    file: *mut u64,
    path: *const c_char,
    permissions: u32,
) -> c_int {
    let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
    // SAFETY: the same promises.
    unsafe { cwfs_open(fs, file, path, flags, permissions) }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn cwfs_close(fs: *mut Handle, file: u64) -> c_int {
    call(fs, |instance| {
        instance.files.remove(file)?.end_locks()?;
        Ok(0)
    }) as c_int
}

/// Reads regions into buffers.
///
/// # Safety
/// The buffers are valid for writes during the call.
pub(crate) unsafe fn read_into(
    client: &mut Client,
    file: &mut File,
    regions: &[Region],
    buffers: &[Buffer],
) -> Result<u64, Error> {
    // SAFETY: the caller's promise; when `read_lent` returns, nothing else holds the memory.
    unsafe {
        with_lent(buffers, Use::Write, |memory| {
            client.read_lent(file, regions, memory)
        })
    }
}

/// Writes regions from buffers.
///
/// # Safety
/// The buffers are valid for reads during the call.
pub(crate) unsafe fn write_from(
    client: &mut Client,
    file: &mut File,
    regions: &[Region],
    buffers: &[Buffer],
) -> Result<(), Error> {
    // SAFETY: the caller's promise; a write that has returned holds no memory.
    unsafe {
        with_lent(buffers, Use::Read, |memory| {
            client.write_list(file, regions, memory)
        })
    }
}

fn count(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_read(
    fs: *mut Handle,
    file: u64,
    buffer: *mut c_void,
    size: usize,
) -> i64 {
    call(fs, |instance| {
        let file = instance.files.get(file)?;
        let buffer = buffers::one(buffer, size)?;
        let read = file.read_on(|client, file, at| {
            // SAFETY: the header requires a buffer of `size` bytes.
            unsafe { read_into(client, file, &[region(at, buffer.len)], &[buffer]) }
        });
        Ok(count(read?))
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_write(
    fs: *mut Handle,
    file: u64,
    buffer: *const c_void,
    size: usize,
) -> i64 {
    call(fs, |instance| {
        let file = instance.files.get(file)?;
        let buffer = buffers::one(buffer, size)?;
        file.write_on(|client, file, at| {
            let write = |memory: &[Memory]| client.write_memory(file, at, memory);
            // SAFETY: the header requires a buffer of `size` bytes; a write that has returned holds no memory.
            unsafe { with_lent(&[buffer], Use::Read, write) }
        })?;
        Ok(count(buffer.len as u64))
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_pread(
    fs: *mut Handle,
    file: u64,
    buffer: *mut c_void,
    size: usize,
    offset: i64,
) -> i64 {
    call(fs, |instance| {
        let file = instance.files.get(file)?;
        // SAFETY: the header requires a buffer of `size` bytes.
        let list = unsafe { one_region(buffer, size, offset) }?;
        // SAFETY: as above.
        Ok(count(unsafe { read_list(&file, &list, None) }?))
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_pwrite(
    fs: *mut Handle,
    file: u64,
    buffer: *const c_void,
    size: usize,
    offset: i64,
) -> i64 {
    call(fs, |instance| {
        let file = instance.files.get(file)?;
        // SAFETY: the header requires a buffer of `size` bytes.
        let list = unsafe { one_region(buffer, size, offset) }?;
        // SAFETY: as above.
        Ok(count(unsafe { write_list(&file, &list, None) }?))
    })
}

/// A list of one buffer and one region.
///
/// # Safety
/// The buffer is as its user needs it.
pub(crate) unsafe fn one_region(
    buffer: *const c_void,
    size: usize,
    offset: i64,
) -> Result<List, Failure> {
    let buffer = buffers::one(buffer, size)?;
    let offset = buffers::offset(offset)?;
    Ok(List {
        buffers: vec![buffer],
        regions: vec![region(offset, buffer.len)],
        bytes: buffer.len as u64,
    })
}

/// Of an operation that was posted, `posted` is when.
///
/// # Safety
/// The buffers are valid for writes during the call.
pub(crate) unsafe fn read_list(
    file: &OpenFile,
    list: &List,
    posted: Option<Instant>,
) -> Result<u64, Error> {
    file.reading(|client, file| {
        if let Some(posted) = posted {
            client.has_waited(posted);
        }
        // SAFETY: the caller's promise.
        unsafe { read_into(client, file, &list.regions, &list.buffers) }
    })
}

/// Of an operation that was posted, `posted` is when.
///
/// # Safety
/// The buffers are valid for reads during the call.
pub(crate) unsafe fn write_list(
    file: &OpenFile,
    list: &List,
    posted: Option<Instant>,
) -> Result<u64, Error> {
    file.writing(|client, file| {
        if let Some(posted) = posted {
            client.has_waited(posted);
        }
        // SAFETY: the caller's promise.
        unsafe { write_from(client, file, &list.regions, &list.buffers) }
    })?;
    Ok(list.bytes)
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_readx(
    fs: *mut Handle,
    file: u64,
    memory: *const iovec,
    memory_count: usize,
    regions: *const CwfsRegion,
    region_count: usize,
) -> i64 {
    call(fs, |instance| {
        let file = instance.files.get(file)?;
        // SAFETY: the header requires lists of that many entries.
        let list = unsafe { buffers::list(memory, memory_count, regions, region_count) }?;
        // SAFETY: the header requires buffers of the lengths that they have.
        Ok(count(unsafe { read_list(&file, &list, None) }?))
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_writex(
    fs: *mut Handle,
    file: u64,
    memory: *const iovec,
    memory_count: usize,
    regions: *const CwfsRegion,
    region_count: usize,
) -> i64 {
    call(fs, |instance| {
        let file = instance.files.get(file)?;
        // SAFETY: the header requires lists of that many entries.
        let list = unsafe { buffers::list(memory, memory_count, regions, region_count) }?;
        // SAFETY: the header requires buffers of the lengths that they have.
        Ok(count(unsafe { write_list(&file, &list, None) }?))
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn cwfs_lseek(fs: *mut Handle, file: u64, offset: i64, whence: c_int) -> i64 {
    call(fs, |instance| {
        let file = instance.files.get(file)?;
        let whence = match whence {
            libc::SEEK_SET => Whence::Start,
            libc::SEEK_CUR => Whence::Current,
            libc::SEEK_END => Whence::End,
            libc::SEEK_DATA => Whence::Data,
            libc::SEEK_HOLE => Whence::Hole,
            other => {
                let text = format!(
                    "{other} is none of SEEK_SET, SEEK_CUR, SEEK_END, SEEK_DATA and SEEK_HOLE"
                );
                return Err(Failure::invalid(text));
            }
        };
        Ok(count(file.seek(offset, whence)?))
    })
}

fn of_file(
    fs: *mut Handle,
    file: u64,
    work: impl FnOnce(&Instance, &OpenFile) -> Result<(), Failure>,
) -> c_int {
    call(fs, |instance| {
        let file = instance.files.get(file)?;
        work(instance, &file).map(|()| 0)
    }) as c_int
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn cwfs_ftruncate(fs: *mut Handle, file: u64, size: i64) -> c_int {
    of_file(fs, file, |_, file| {
        Ok(file.truncate(buffers::offset(size)?)?)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn cwfs_fallocate(
    fs: *mut Handle,
    file: u64,
    mode: c_int,
    offset: i64,
    len: i64,
) -> c_int {
    of_file(fs, file, |_, file| {
        let (what, keep_size) = Allocation::of_flags(mode).ok_or_else(|| {
            let text = format!("the mode {mode:#x} is not possible");
            Failure::new(libc::EOPNOTSUPP, text)
        })?;
        let part = Region {
            offset: buffers::offset(offset)?,
            len: buffers::offset(len)?,
        };
        Ok(file.allocate(part, what, keep_size)?)
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_stored(fs: *mut Handle, file: u64, bytes: *mut u64) -> c_int {
    of_file(fs, file, |_, file| {
        Failure::if_null(bytes, "the pointer for the number of bytes")?;
        let (_, stored) = file.stored_attributes()?;
        // SAFETY: not null, and the header requires a pointer that is valid for writes.
        unsafe { bytes.write(stored) };
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn cwfs_fsync(fs: *mut Handle, file: u64) -> c_int {
    of_file(fs, file, |_, file| Ok(file.sync()?))
}
