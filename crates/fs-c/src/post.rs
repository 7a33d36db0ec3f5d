//! Posting reads and writes, and testing for them.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::time::Instant;

use causeway_fs::Error;
use causeway_fs::open_file::OpenFile;
use libc::iovec;

use crate::buffers::{self, CwfsRegion, List};
use crate::error::Failure;
use crate::file::{one_region, read_list, write_list};
use crate::handle::{Handle, call};
use crate::instance::Instance;
use crate::life::wait_us;
use crate::posted::Done;

/// The header's `struct cwfs_completion`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CwfsCompletion {
    /// The operation.
    pub op: u64,
    /// The pointer given when it was posted.
    pub user_ptr: *mut c_void,
    /// Bytes that were read or written, or an error.
    pub result: i64,
}

/// The function that carries out an operation on a list.
type Carry = unsafe fn(&OpenFile, &List, Option<Instant>) -> Result<u64, Error>;

/// # Safety
/// The list's buffers are as `carry` needs them until the operation has completed.
unsafe fn post(
    instance: &Instance,
    op: *mut u64,
    file: u64,
    list: impl FnOnce() -> Result<List, Failure>,
    user_ptr: *mut c_void,
    carry: Carry,
) -> Result<i64, Failure> {
    Failure::if_null(op, "the pointer for the operation")?;
    // SAFETY: not null, and the header requires a pointer that is valid for writes.
    unsafe { op.write(0) };
    let file: Arc<OpenFile> = instance.files.get(file)?;
    let list = list()?;
    let (client, posted) = (file.client(), Instant::now());
    let number = instance
        .posted
        .post(client, user_ptr.expose_provenance(), move || {
            // SAFETY: the caller's promise.
            Ok(unsafe { carry(&file, &list, Some(posted)) }?)
        })?;
    // SAFETY: as above.
    unsafe { op.write(number) };
    Ok(0)
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_post_read(
    fs: *mut Handle,
    op: *mut u64,
    file: u64,
    buffer: *mut c_void,
    size: usize,
    offset: i64,
    user_ptr: *mut c_void,
) -> c_int {
    call(fs, |instance| {
        // SAFETY: the header requires a buffer of `size` bytes until the operation has completed.
        unsafe {
            let list = || one_region(buffer, size, offset);
            post(instance, op, file, list, user_ptr, read_list)
        }
    }) as c_int
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_post_write(
    fs: *mut Handle,
    op: *mut u64,
    file: u64,
    buffer: *const c_void,
    size: usize,
    offset: i64,
    user_ptr: *mut c_void,
) -> c_int {
    call(fs, |instance| {
        // SAFETY: the header requires a buffer of `size` bytes until the operation has completed.
        unsafe {
            let list = || one_region(buffer, size, offset);
            post(instance, op, file, list, user_ptr, write_list)
        }
    }) as c_int
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_post_readx(
    fs: *mut Handle,
    op: *mut u64,
    file: u64,
    memory: *const iovec,
    memory_count: usize,
    regions: *const CwfsRegion,
    region_count: usize,
    user_ptr: *mut c_void,
) -> c_int {
    call(fs, |instance| {
        // SAFETY: the header requires lists of that many entries, and the buffers until the operation has completed.
        unsafe {
            let list = || buffers::list(memory, memory_count, regions, region_count);
            post(instance, op, file, list, user_ptr, read_list)
        }
    }) as c_int
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_post_writex(
    fs: *mut Handle,
    op: *mut u64,
    file: u64,
    memory: *const iovec,
    memory_count: usize,
    regions: *const CwfsRegion,
    region_count: usize,
    user_ptr: *mut c_void,
) -> c_int {
    call(fs, |instance| {
        // SAFETY: the header requires lists of that many entries, and the buffers until the operation has completed.
        unsafe {
            let list = || buffers::list(memory, memory_count, regions, region_count);
            post(instance, op, file, list, user_ptr, write_list)
        }
    }) as c_int
}

fn completion(done: Done) -> CwfsCompletion {
    CwfsCompletion {
        op: done.op,
        user_ptr: std::ptr::with_exposed_provenance_mut(done.user),
        result: match done.outcome {
            Ok(bytes) => i64::try_from(bytes).unwrap_or(i64::MAX),
            Err(failure) => failure.report(),
        },
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_test(
    fs: *mut Handle,
    op: u64,
    done: *mut CwfsCompletion,
    timeout_us: i64,
) -> c_int {
    call(fs, |instance| {
        Failure::if_null(done, "the pointer for the completion")?;
        match instance.posted.test(op, wait_us(timeout_us))? {
            None => Ok(0),
            Some(found) => {
                // SAFETY: not null, and the header requires a pointer that is valid for writes.
                unsafe { done.write(completion(found)) };
                Ok(1)
            }
        }
    }) as c_int
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwfs_testsome(
    fs: *mut Handle,
    done: *mut CwfsCompletion,
    most: c_int,
    timeout_us: i64,
) -> c_int {
    call(fs, |instance| {
        Failure::if_null(done, "the pointer for completions")?;
        let most = usize::try_from(most)
            .map_err(|_| Failure::invalid("the number of completions is negative"))?;
        let found = instance.posted.test_some(most, wait_us(timeout_us))?;
        let count = found.len() as i64;
        for (index, found) in found.into_iter().enumerate() {
            // SAFETY: the header requires room for `most` completions, and no more were found.
            unsafe { done.add(index).write(completion(found)) };
        }
        Ok(count)
    }) as c_int
}
