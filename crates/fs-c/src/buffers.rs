//! From plain pointers to buffers that can be lent to a call.

use std::ffi::c_void;
use std::ptr::NonNull;

use causeway_sys::lent::Buffer;
use causeway_wire::fs::Region;
use libc::iovec;

use crate::error::Failure;

/// Most bytes that one call transfers between one buffer and a file, as for system calls.
pub(crate) const MOST_BYTES: usize = 0x7fff_f000;
/// Most entries of a list.
const MOST_ENTRIES: usize = 1 << 20;

/// The header's `struct cwfs_region`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CwfsRegion {
    /// First byte in the file.
    pub offset: i64,
    /// Bytes.
    pub length: i64,
}

/// One buffer, limited to the length that one call transfers.
pub(crate) fn one(base: *const c_void, size: usize) -> Result<Buffer, Failure> {
    whole(base, size).map(|buffer| Buffer {
        len: buffer.len.min(MOST_BYTES),
        ..buffer
    })
}

fn whole(base: *const c_void, size: usize) -> Result<Buffer, Failure> {
    let Some(start) = NonNull::new(base.cast_mut().cast::<u8>()) else {
        return match size {
            0 => Ok(Buffer {
                base: NonNull::dangling(),
                len: 0,
            }),
            _ => Err(Failure::invalid(format!(
                "a buffer of {size} bytes is at NULL"
            ))),
        };
    };
    match start.addr().get().checked_add(size) {
        Some(end) if end <= isize::MAX as usize => Ok(Buffer {
            base: start,
            len: size,
        }),
        _ => Err(Failure::invalid(format!(
            "a buffer of {size} bytes would end beyond the address space"
        ))),
    }
}

/// Checks an offset in a file.
pub(crate) fn offset(offset: i64) -> Result<u64, Failure> {
    u64::try_from(offset).map_err(|_| Failure::invalid(format!("the offset {offset} is negative")))
}

/// # Safety
/// `list` points to `count` entries, or `count` is 0.
unsafe fn entries<'a, T>(list: *const T, count: usize, what: &str) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    Failure::if_null(list, what)?;
    if count > MOST_ENTRIES {
        return Err(Failure::invalid(format!(
            "{what} has {count} entries; at most {MOST_ENTRIES} are possible"
        )));
    }
    if !list.is_aligned() {
        return Err(Failure::invalid(format!("{what} is not aligned")));
    }
    // SAFETY: not null, aligned, not too long, and otherwise as the caller promises.
    Ok(unsafe { std::slice::from_raw_parts(list, count) })
}

/// A list of buffers and the regions of a file that they cover.
pub(crate) struct List {
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) regions: Vec<Region>,
    /// The number of bytes of either.
    pub(crate) bytes: u64,
}

/// # Safety
/// The pointers point to as many entries as the counts say.
pub(crate) unsafe fn list(
    memory: *const iovec,
    memory_count: usize,
    regions: *const CwfsRegion,
    region_count: usize,
) -> Result<List, Failure> {
    // SAFETY: the caller's promise.
    let (memory, regions) = unsafe {
        (
            entries(memory, memory_count, "the list of buffers")?,
            entries(regions, region_count, "the list of regions")?,
        )
    };
    let buffers = memory.iter().map(|part| whole(part.iov_base, part.iov_len));
    let buffers: Vec<Buffer> = buffers.collect::<Result<_, _>>()?;
    let region = |region: &CwfsRegion| {
        let len = u64::try_from(region.length).map_err(|_| {
            Failure::invalid(format!(
                "a region has the negative length {}",
                region.length
            ))
        })?;
        Ok(Region {
            offset: offset(region.offset)?,
            len,
        })
    };
    let regions: Vec<Region> = regions.iter().map(region).collect::<Result<_, Failure>>()?;
    let room = buffers.iter().map(|buffer| buffer.len as u64);
    let room = room.fold(0, u64::saturating_add);
    let bytes = regions
        .iter()
        .map(|region| region.len)
        .fold(0, u64::saturating_add);
    if room != bytes {
        return Err(Failure::invalid(format!(
            "the regions have {bytes} bytes and the buffers {room}"
        )));
    }
    Ok(List {
        buffers,
        regions,
        bytes,
    })
}
