//! Locks of open files.

use std::ffi::c_int;

use causeway_fs::open_locks::{Wanted, range};
use causeway_wire::fs::{Errno, LockRange};

use crate::error::Failure;
use crate::handle::{Handle, call};

/// The result of a cancelled wait.
fn ended(error: causeway_fs::Error) -> Failure {
    match error.errno {
        Errno::ECANCELED => Failure::new(libc::EINTR, error.text()),
        _ => error.into(),
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn cwfs_flock(fs: *mut Handle, file: u64, operation: c_int) -> c_int {
    call(fs, |instance| {
        let file = instance.files.get(file)?;
        let exclusive = match operation & !libc::LOCK_NB {
            libc::LOCK_SH => false,
            libc::LOCK_EX => true,
            libc::LOCK_UN => {
                file.unlock(Wanted::Whole)?;
                return Ok(0);
            }
            _ => return Err(Failure::invalid("cwfs_flock() has no such operation")),
        };
        match operation & libc::LOCK_NB {
            0 => file.lock(Wanted::Whole, exclusive, || true),
            _ => file.try_lock(Wanted::Whole, exclusive),
        }
        .map_err(ended)?;
        Ok(0)
    }) as c_int
}

/// The last byte that a file may have: a part that ends there has no end, as in the kernel.
const LAST: u64 = i64::MAX as u64;

/// The part of the file that a lock is on.
fn part(lock: &libc::flock) -> Result<LockRange, Failure> {
    if c_int::from(lock.l_whence) != libc::SEEK_SET {
        return Err(Failure::invalid("l_whence is not SEEK_SET"));
    }
    let (first, len) = (u64::try_from(lock.l_start), u64::try_from(lock.l_len));
    let (Ok(first), Ok(len)) = (first, len) else {
        return Err(Failure::invalid("l_start or l_len is negative"));
    };
    match range(first, len) {
        Some(part) if len == 0 || part.last < LAST => Ok(part),
        Some(LockRange { first, last: LAST }) => Ok(LockRange {
            first,
            last: u64::MAX,
        }),
        _ => Err(Failure::new(
            libc::EOVERFLOW,
            "the part ends behind byte 2^63 - 1",
        )),
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_fcntl(
    fs: *mut Handle,
    file: u64,
    command: c_int,
    lock: *mut libc::flock,
) -> c_int {
    call(fs, |instance| {
        let file = instance.files.get(file)?;
        Failure::if_null(lock, "the pointer for the lock")?;
        // SAFETY: not null, and the header requires a lock.
        let mut asked = unsafe { lock.read() };
        let wanted = Wanted::Part(part(&asked)?);
        let exclusive = match c_int::from(asked.l_type) {
            libc::F_RDLCK => Some(false),
            libc::F_WRLCK => Some(true),
            libc::F_UNLCK => None,
            _ => return Err(Failure::invalid("l_type is no kind of lock")),
        };
        match (command, exclusive) {
            (libc::F_SETLK | libc::F_SETLKW, None) => file.unlock(wanted)?,
            (libc::F_SETLK, Some(exclusive)) => file.try_lock(wanted, exclusive)?,
            (libc::F_SETLKW, Some(exclusive)) => {
                file.lock(wanted, exclusive, || true).map_err(ended)?;
            }
            (libc::F_GETLK, Some(exclusive)) => {
                match file.test_lock(wanted, exclusive)? {
                    None => asked.l_type = libc::F_UNLCK as i16,
                    Some(holder) => {
                        let LockRange { first, last } = holder.range;
                        let number = |number| i64::try_from(number).unwrap_or(i64::MAX);
                        asked.l_type = match holder.exclusive {
                            true => libc::F_WRLCK as i16,
                            false => libc::F_RDLCK as i16,
                        };
                        asked.l_start = number(first);
                        asked.l_len = match last {
                            u64::MAX => 0,
                            last => number(last - first + 1),
                        };
                        asked.l_pid = i32::try_from(holder.pid).unwrap_or(0);
                    }
                }
                // SAFETY: as above.
                unsafe { lock.write(asked) };
            }
            _ => return Err(Failure::invalid("cwfs_fcntl() has no such command")),
        }
        Ok(0)
    }) as c_int
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn cwfs_cancel_locks(fs: *mut Handle, file: u64) -> c_int {
    call(fs, |instance| {
        instance.files.get(file)?.cancel_locks();
        Ok(0)
    }) as c_int
}
