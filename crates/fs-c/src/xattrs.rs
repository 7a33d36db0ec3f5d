//! Extended attributes.

use std::ffi::{CStr, c_char, c_int, c_void};

use causeway_fs::client::Client;
use causeway_wire::fs::{MAX_XATTR_VALUE_BYTES, ObjectId, SetXattrMode};

use crate::error::Failure;
use crate::handle::{Handle, call};
use crate::text;

/// Carries out a call about an extended attribute of the object that a path leads to.
///
/// # Safety
/// `path` and `name` are null or strings.
unsafe fn named(
    fs: *mut Handle,
    path: *const c_char,
    name: *const c_char,
    work: impl FnOnce(&mut Client, ObjectId, &[u8]) -> Result<Vec<u8>, causeway_fs::Error>,
) -> Result<Vec<u8>, i64> {
    let mut found = None;
    let code = call(fs, |instance| {
        // SAFETY: the caller's promise.
        let path = unsafe { text::path(path, "the path") }?;
        Failure::if_null(name, "the name of the extended attribute")?;
        // SAFETY: not null, and otherwise as the caller promises.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        found = Some(instance.with(|client| {
            let object = client.stat(path, true)?.object;
            work(client, object, name)
        })?);
        Ok(0)
    });
    found.ok_or(code)
}

/// Writes bytes if there is room for all of them; returns their number. With `room` 0 only the number is requested.
///
/// # Safety
/// `into` is valid for writes of `room` bytes, or `room` is 0.
unsafe fn write(
    fs: *mut Handle,
    bytes: Result<Vec<u8>, i64>,
    into: *mut c_void,
    room: usize,
) -> i64 {
    let bytes = match bytes {
        Ok(bytes) => bytes,
        Err(code) => return code,
    };
    call(fs, |_| {
        if room > 0 && bytes.len() > room {
            let text = format!(
                "the value has {} bytes, and there is room for {room}",
                bytes.len()
            );
            return Err(Failure::new(libc::ERANGE, text));
        }
        if room > 0 {
            Failure::if_null(into.cast_const(), "the pointer for the bytes")?;
            // SAFETY: no more than `room`, for which the caller vouches.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), into.cast(), bytes.len()) };
        }
        Ok(bytes.len() as i64)
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_setxattr(
    fs: *mut Handle,
    path: *const c_char,
    name: *const c_char,
    value: *const c_void,
    size: usize,
    flags: c_int,
) -> c_int {
    let mode = match flags {
        0 => Some(SetXattrMode::Any),
        libc::XATTR_CREATE => Some(SetXattrMode::Create),
        libc::XATTR_REPLACE => Some(SetXattrMode::Replace),
        _ => None,
    };
    let checked = call(fs, |_| {
        if mode.is_none() {
            return Err(Failure::invalid("cwfs_setxattr() has no such flags"));
        }
        if size > MAX_XATTR_VALUE_BYTES {
            let text =
                format!("the value has {size} bytes; at most {MAX_XATTR_VALUE_BYTES} are possible");
            return Err(Failure::new(libc::E2BIG, text));
        }
        if size > 0 {
            Failure::if_null(value, "the value")?;
        }
        Ok(0)
    });
    let Some(mode) = mode.filter(|_| checked == 0) else {
        return checked as c_int;
    };
    let bytes: &[u8] = match size {
        0 => &[],
        // SAFETY: not null, and the header requires a value of `size` bytes.
        _ => unsafe { std::slice::from_raw_parts(value.cast(), size) },
    };
    // SAFETY: the header requires strings.
    let set = unsafe {
        named(fs, path, name, |client, object, name| {
            client
                .set_xattr(object, name, bytes, mode)
                .map(|()| Vec::new())
        })
    };
    set.map_or_else(|code| code as c_int, |_| 0)
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_getxattr(
    fs: *mut Handle,
    path: *const c_char,
    name: *const c_char,
    value: *mut c_void,
    room: usize,
) -> i64 {
    // SAFETY: the header requires strings and a buffer of `room` bytes.
    unsafe { write(fs, named(fs, path, name, Client::xattr), value, room) }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_listxattr(
    fs: *mut Handle,
    path: *const c_char,
    names: *mut c_void,
    room: usize,
) -> i64 {
    // SAFETY: the header requires a string and a buffer of `room` bytes.
    unsafe {
        let listed = named(fs, path, c"".as_ptr(), |client, object, _| {
            let mut all = Vec::new();
            for name in client.xattrs(object)? {
                all.extend_from_slice(&name);
                all.push(0);
            }
            Ok(all)
        });
        write(fs, listed, names, room)
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_removexattr(
    fs: *mut Handle,
    path: *const c_char,
    name: *const c_char,
) -> c_int {
    // SAFETY: the header requires strings.
    let removed = unsafe {
        named(fs, path, name, |client, object, name| {
            client.remove_xattr(object, name).map(|()| Vec::new())
        })
    };
    removed.map_or_else(|code| code as c_int, |_| 0)
}
