//! Reading directories.

use std::ffi::{c_char, c_int};
use std::sync::{Mutex, PoisonError};

use causeway_fs::listing::Listing;
use causeway_wire::fs::{Entry, MAX_NAME_BYTES};

use crate::error::Failure;
use crate::handle::{Handle, call};
use crate::names::{CwfsStat, stat_of};
use crate::text;

/// The header's `struct cwfs_dirent`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CwfsDirent {
    /// The entry's attributes; only object and kind are valid if the directory was opened without attributes.
    pub stat: CwfsStat,
    /// The length of the name in bytes.
    pub name_length: u32,
    /// The name, with a NUL behind it.
    pub name: [c_char; 260],
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_opendir(
    fs: *mut Handle,
    directory: *mut u64,
    path: *const c_char,
    attributes: c_int,
) -> c_int {
    call(fs, |instance| {
        Failure::if_null(directory, "the pointer for the directory")?;
        // SAFETY: not null, and the header requires a pointer that is valid for writes.
        unsafe { directory.write(0) };
        // SAFETY: the header requires a string.
        let path = unsafe { text::path(path, "the path") }?;
        instance.directories.check_room()?;
        let listing = Listing::open(&instance.clients, path, attributes != 0)?;
        // SAFETY: as above.
        unsafe { directory.write(instance.directories.insert(Mutex::new(listing))) };
        Ok(0)
    }) as c_int
}

fn dirent(entry: &Entry) -> Result<CwfsDirent, Failure> {
    let object = entry.object.0;
    // SAFETY: every member may be zero.
    let mut dirent: CwfsDirent = unsafe { std::mem::zeroed() };
    match &entry.attributes {
        Some(attributes) => dirent.stat = stat_of(object, attributes),
        None => {
            dirent.stat.object = object;
            dirent.stat.mode = entry.kind.mode_bits();
        }
    }
    let len = entry.name.len();
    if len > MAX_NAME_BYTES {
        let text = format!("the metadata server sent a name of {len} bytes");
        return Err(Failure::new(libc::EPROTO, text));
    }
    dirent.name_length = len as u32;
    for (into, byte) in dirent.name.iter_mut().zip(&entry.name) {
        *into = byte.cast_signed() as c_char;
    }
    Ok(dirent)
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_readdir(
    fs: *mut Handle,
    directory: u64,
    entry: *mut CwfsDirent,
) -> c_int {
    call(fs, |instance| {
        let listing = instance.directories.get(directory)?;
        Failure::if_null(entry, "the pointer for the entry")?;
        let mut listing = listing.lock().unwrap_or_else(PoisonError::into_inner);
        match listing.next_entry()? {
            None => Ok(0),
            Some(found) => {
                // SAFETY: not null, and the header requires a pointer that is valid for writes.
                unsafe { entry.write(dirent(&found)?) };
                Ok(1)
            }
        }
    }) as c_int
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn cwfs_closedir(fs: *mut Handle, directory: u64) -> c_int {
    call(fs, |instance| {
        instance.directories.remove(directory).map(|_| 0)
    }) as c_int
}
