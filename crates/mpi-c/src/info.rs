//! Info objects (MPI 5.0 chapter 10).

use std::ffi::{c_char, c_int};

use causeway_mpi::abi;
use causeway_mpi::error::{Error, Result};
use causeway_mpi::info::Info;

use crate::library::{Library, enter};
use crate::types::{Handle, read_text, write_text};

/// Copies an info object that a call was given; none for `MPI_INFO_NULL`.
pub(crate) fn copy_of(library: &Library, handle: Handle) -> Result<Info> {
    match handle {
        abi::INFO_NULL | abi::INFO_ENV => Ok(Info::default()),
        other => library.infos.get(other).cloned(),
    }
}

/// # Safety
/// The pointer is valid for writes.
pub(crate) unsafe fn insert(info: Info, into: *mut Handle) -> Result<()> {
    let handle = enter(|library| library.infos.insert(info))?;
    // SAFETY: the caller's promise.
    unsafe { into.write(handle) };
    Ok(())
}

pub(crate) unsafe fn info_create(info: *mut Handle) -> Result<()> {
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { insert(Info::default(), info) }
}

pub(crate) unsafe fn info_dup(info: Handle, newinfo: *mut Handle) -> Result<()> {
    let copy = enter(|library| match info {
        abi::INFO_ENV => Ok(Info::default()),
        other => library.infos.get(other).cloned(),
    })?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { insert(copy, newinfo) }
}

pub(crate) unsafe fn info_free(info: *mut Handle) -> Result<()> {
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe {
        let handle = info.read();
        enter(|library| library.infos.remove(handle))?;
        info.write(abi::INFO_NULL);
    }
    Ok(())
}

pub(crate) unsafe fn info_set(
    info: Handle,
    key: *const c_char,
    value: *const c_char,
) -> Result<()> {
    // SAFETY: the caller's strings, as MPI has it.
    let (key, value) = unsafe { (read_text(key, "key")?, read_text(value, "value")?) };
    enter(|library| library.infos.get_mut(info)?.set(key, value))
}

pub(crate) unsafe fn info_delete(info: Handle, key: *const c_char) -> Result<()> {
    // SAFETY: the caller's string, as MPI has it.
    let key = unsafe { read_text(key, "key") }?;
    enter(|library| library.infos.get_mut(info)?.delete(key))
}

/// The value of a key.
///
/// # Safety
/// The key is null or a C string.
unsafe fn value_of(info: Handle, key: *const c_char) -> Result<Option<Vec<u8>>> {
    // SAFETY: the caller's promise.
    let key = unsafe { read_text(key, "key") }?;
    enter(|library| {
        let info = copy_of(library, info)?;
        Ok(info.get(key)?.map(<[u8]>::to_vec))
    })
}

pub(crate) unsafe fn info_get(
    info: Handle,
    key: *const c_char,
    valuelen: c_int,
    value: *mut c_char,
    flag: *mut c_int,
) -> Result<()> {
    let room = usize::try_from(valuelen);
    let room = room.map_err(|_| Error::new(abi::ERR_ARG, "valuelen is negative"))?;
    // SAFETY: the caller's pointers, as MPI has it: room for one byte more than it says.
    unsafe {
        let found = value_of(info, key)?;
        flag.write(found.is_some().into());
        if let Some(found) = found {
            write_text(&found, value, room + 1, std::ptr::null_mut());
        }
    }
    Ok(())
}

pub(crate) unsafe fn info_get_string(
    info: Handle,
    key: *const c_char,
    buflen: *mut c_int,
    value: *mut c_char,
    flag: *mut c_int,
) -> Result<()> {
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        let found = value_of(info, key)?;
        flag.write(found.is_some().into());
        if let Some(found) = found {
            let room = usize::try_from(buflen.read()).unwrap_or(0);
            write_text(&found, value, room, std::ptr::null_mut());
            buflen.write(found.len() as c_int + 1);
        }
    }
    Ok(())
}

pub(crate) unsafe fn info_get_valuelen(
    info: Handle,
    key: *const c_char,
    valuelen: *mut c_int,
    flag: *mut c_int,
) -> Result<()> {
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        let found = value_of(info, key)?;
        flag.write(found.is_some().into());
        if let Some(found) = found {
            valuelen.write(found.len() as c_int);
        }
    }
    Ok(())
}

pub(crate) unsafe fn info_get_nkeys(info: Handle, nkeys: *mut c_int) -> Result<()> {
    let many = enter(|library| Ok(copy_of(library, info)?.len()))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { nkeys.write(many as c_int) };
    Ok(())
}

pub(crate) unsafe fn info_get_nthkey(info: Handle, n: c_int, key: *mut c_char) -> Result<()> {
    let found = enter(|library| Ok(copy_of(library, info)?.key(n)?.to_vec()))?;
    let most = abi::MAX_INFO_KEY as usize;
    // SAFETY: MPI obliges the caller to have so much room.
    unsafe { write_text(&found, key, most, std::ptr::null_mut()) };
    Ok(())
}
