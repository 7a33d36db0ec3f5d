//! Info objects (MPI 5.0 chapter 10).

use std::ffi::{OsString, c_char, c_int};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use causeway_mpi::abi;
use causeway_mpi::error::{Error, Result};
use causeway_mpi::info::Info;

use crate::library::{Library, enter};
use crate::types::{Handle, array, read_text, write_text};

/// Copies an info object that a call was given; none for `MPI_INFO_NULL`.
pub(crate) fn copy_of(library: &Library, handle: Handle) -> Result<Info> {
    match handle {
        abi::INFO_NULL => Ok(Info::default()),
        abi::INFO_ENV => environment(&[]),
        other => library.infos.get(other).cloned(),
    }
}

/// Copies an info object; `MPI_INFO_NULL` is an error.
fn present(library: &Library, handle: Handle) -> Result<Info> {
    match handle {
        abi::INFO_NULL => Err(Error::new(
            abi::ERR_INFO,
            "the info object is MPI_INFO_NULL",
        )),
        other => copy_of(library, other),
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
    let copy = enter(|library| present(library, info))?;
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
        let info = present(library, info)?;
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
    let many = enter(|library| Ok(present(library, info)?.len()))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { nkeys.write(many as c_int) };
    Ok(())
}

pub(crate) unsafe fn info_get_nthkey(info: Handle, n: c_int, key: *mut c_char) -> Result<()> {
    let found = enter(|library| Ok(present(library, info)?.key(n)?.to_vec()))?;
    let most = abi::MAX_INFO_KEY as usize;
    // SAFETY: MPI obliges the caller to have so much room.
    unsafe { write_text(&found, key, most, std::ptr::null_mut()) };
    Ok(())
}

/// How the program was started, as far as it is known (MPI 5.0 §11.2.1); the arguments are those of `main`, if they are known.
fn environment(arguments: &[&[u8]]) -> Result<Info> {
    let mut info = Info::default();
    let mut set = |key: &str, value: &[u8]| match value.is_empty() {
        true => Ok(()),
        false => {
            let most = abi::MAX_INFO_VAL as usize - 1;
            info.set(key.as_bytes(), &value[..value.len().min(most)])
        }
    };
    let own: Vec<Vec<u8>> = std::env::args_os().map(OsString::into_vec).collect();
    let arguments = match arguments.is_empty() {
        true => own.iter().map(Vec::as_slice).collect(),
        false => arguments.to_vec(),
    };
    if let Some((command, rest)) = arguments.split_first() {
        set("command", command)?;
        set("argv", &rest.join(&b' '))?;
    }
    set("arch", std::env::consts::ARCH.as_bytes())?;
    if let Ok(directory) = std::env::current_dir() {
        set("wdir", directory.as_os_str().as_bytes())?;
    }
    set("thread_level", b"MPI_THREAD_MULTIPLE")?;
    Ok(info)
}

pub(crate) unsafe fn info_create_env(
    argc: c_int,
    argv: *mut *mut c_char,
    info: *mut Handle,
) -> Result<()> {
    let many = usize::try_from(argc).unwrap_or(0);
    // SAFETY: the caller's strings and pointer, as MPI has it: both may be missing.
    unsafe {
        let arguments = match argv.is_null() {
            true => &[],
            false => array(argv, many, "argv")?,
        };
        let arguments = arguments.iter().map(|text| read_text(*text, "argv"));
        insert(environment(&arguments.collect::<Result<Vec<_>>>()?)?, info)
    }
}
