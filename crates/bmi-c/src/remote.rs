//! Buffers for methods, and remote memory.

use std::ffi::{c_int, c_void};

use causeway_bmi::{Access, Addr, Context, Direction, RegionDescriptor};
use causeway_sys::memory::Memory;
use causeway_wire::region::ObjectSpan;
use libc::iovec;

use crate::error::{BMI_ELIMIT, BMI_EUNSUPPORTED, Failure};
use crate::handle::{Handle, call, guard};
use crate::memory::{Named, check};
use crate::post::{Outputs, number, post};

/// The peer may read.
pub const BMI_READ: c_int = 1;
/// The peer may write.
pub const BMI_WRITE: c_int = 2;
/// From the peer's memory to ours.
pub const BMI_GET: c_int = 1;
/// From our memory to the peer's.
pub const BMI_PUT: c_int = 2;

/// Most regions of one transfer.
const MAX_REGIONS: usize = causeway_wire::region::MAX_FRAGMENTS;

/// The header's `struct bmi_region`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BmiRegion {
    /// Protection key.
    pub key: u64,
    /// The owner's address of the first byte.
    pub base: u64,
    /// Bytes.
    pub size: u64,
    /// The owner's number of the object that contains the region, if `mappable`.
    pub object: u64,
    /// Where in that object.
    pub offset: u64,
    /// 1 or 0.
    pub mappable: u64,
}

impl From<RegionDescriptor> for BmiRegion {
    fn from(region: RegionDescriptor) -> Self {
        let span = region.object;
        Self {
            key: region.key,
            base: region.base,
            size: region.len,
            object: span.map_or(0, |span| span.object),
            offset: span.map_or(0, |span| span.offset),
            mappable: span.is_some().into(),
        }
    }
}

impl From<BmiRegion> for RegionDescriptor {
    fn from(region: BmiRegion) -> Self {
        Self {
            key: region.key,
            base: region.base,
            len: region.size,
            object: (region.mappable != 0).then_some(ObjectSpan {
                object: region.object,
                offset: region.offset,
            }),
        }
    }
}

/// # Safety
/// `region` is null or points to one.
unsafe fn read_region(region: *const BmiRegion) -> Result<RegionDescriptor, Failure> {
    Failure::if_null(region, "the region")?;
    // SAFETY: not null, and otherwise the caller's promise.
    Ok(unsafe { region.read() }.into())
}

/// See the header.
///
/// # Safety
/// As the header requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_memalloc(
    bmi: *mut Handle,
    addr: u64,
    size: i64,
    buffer: *mut *mut c_void,
) -> c_int {
    call(bmi, |instance| {
        Failure::if_null(buffer, "the pointer for the buffer")?;
        // SAFETY: not null, and the header requires a pointer that is valid for writes.
        unsafe { buffer.write(std::ptr::null_mut()) };
        let size = usize::try_from(size)
            .ok()
            .filter(|size| (1..=isize::MAX as usize).contains(size))
            .ok_or_else(|| {
                Failure::invalid(format!("a buffer of {size} bytes cannot be allocated"))
            })?;
        let memory = instance.bmi.memalloc(Addr::from_raw(addr), size)?;
        // SAFETY: as above.
        unsafe { buffer.write(instance.memory.buffers.insert(memory)) };
        Ok(0)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_memfree(bmi: *mut Handle, buffer: *mut c_void) -> c_int {
    call(bmi, |instance| {
        // As with free().
        if buffer.is_null() || instance.memory.buffers.remove(buffer) {
            return Ok(0);
        }
        let text = "this is no buffer of BMI_memalloc or BMI_map, or it was freed already";
        Err(Failure::invalid(text))
    })
}

/// See the header.
///
/// # Safety
/// As the header requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_register(bmi: *mut Handle, buffer: *mut c_void, size: i64) -> c_int {
    call(bmi, |instance| {
        let bytes = usize::try_from(size).ok().filter(|bytes| *bytes > 0);
        let bytes = bytes.ok_or_else(|| {
            Failure::invalid(format!("a buffer of {size} bytes cannot be registered"))
        })?;
        let start = check(buffer, bytes)?;
        // SAFETY: the header requires memory that stays until BMI_deregister, and afterwards as long as operations and
        // exports that were begun with it.
        let memory = unsafe { Memory::registered(start, bytes) };
        instance.memory.registered.insert(memory);
        Ok(0)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_deregister(bmi: *mut Handle, buffer: *mut c_void) -> c_int {
    call(bmi, |instance| {
        if instance.memory.registered.remove(buffer) {
            return Ok(0);
        }
        let text = "no buffer that begins here is registered, or it was deregistered already";
        Err(Failure::invalid(text))
    })
}

/// See the header.
///
/// # Safety
/// As the header requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_export(
    bmi: *mut Handle,
    addr: u64,
    buffer: *mut c_void,
    size: i64,
    access: c_int,
    region: *mut BmiRegion,
) -> c_int {
    call(bmi, |instance| {
        Failure::if_null(region, "the pointer for the region")?;
        let allowed = match access {
            BMI_READ => Access::Read,
            BMI_WRITE => Access::Write,
            both if both == BMI_READ | BMI_WRITE => Access::ReadWrite,
            other => {
                return Err(Failure::invalid(format!(
                    "access {other} is none of BMI_READ, BMI_WRITE or both"
                )));
            }
        };
        let (layer, to) = (&mut instance.bmi, Addr::from_raw(addr));
        let named = Named::Buffer(buffer, size);
        // SAFETY: the header requires memory that stays until the export ends.
        let exported = unsafe {
            let writable = allowed.allows(Direction::Put);
            instance.memory.with(named, writable, |memory| {
                // One buffer is one span.
                let one = memory.first();
                let one = one.ok_or_else(|| Failure::invalid("no memory to export"))?;
                Ok(layer.export(to, one, allowed)?)
            })
        }?;
        // SAFETY: not null, and the header requires a pointer that is valid for writes.
        unsafe { region.write(exported.into()) };
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// As the header requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_unexport(
    bmi: *mut Handle,
    addr: u64,
    region: *const BmiRegion,
) -> c_int {
    call(bmi, |instance| {
        // SAFETY: the header requires a region.
        let region = unsafe { read_region(region) }?;
        instance.bmi.unexport(Addr::from_raw(addr), &region);
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// As the header requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_region_part(
    region: *const BmiRegion,
    offset: i64,
    size: i64,
    part: *mut BmiRegion,
) -> c_int {
    guard(|| {
        // SAFETY: the header requires a region.
        let whole = unsafe { read_region(region) }?;
        let (Ok(from), Ok(len)) = (u64::try_from(offset), u64::try_from(size)) else {
            return Err(Failure::invalid(
                "a part of a region with a negative offset or size",
            ));
        };
        Failure::if_null(part, "the pointer for the part")?;
        if from.checked_add(len).is_none_or(|end| end > whole.len) {
            return Err(Failure::invalid(format!(
                "bytes {offset} and the next {size} are not inside a region of {}",
                whole.len
            )));
        }
        // SAFETY: not null, and the header requires a pointer that is valid for writes.
        unsafe { part.write(whole.part(from, len).into()) };
        Ok(0)
    })
}

/// # Safety
/// As the header requires for the calls below.
unsafe fn transfer(
    bmi: *mut Handle,
    op: *mut u64,
    addr: u64,
    direction: c_int,
    local: Named,
    (remote, count): (*const BmiRegion, usize),
    context: u64,
    user_ptr: *mut c_void,
) -> c_int {
    let outputs = Outputs::without_size(op);
    // SAFETY: the caller's promise.
    unsafe { outputs.write_op(0) };
    let mut regions = Vec::new();
    let checked = guard(|| {
        if count > MAX_REGIONS {
            let text = format!("a list of {count} regions; at most {MAX_REGIONS} are allowed");
            return Err(Failure::new(BMI_ELIMIT, text));
        }
        regions.reserve(count);
        for at in 0..count {
            // SAFETY: the header requires an array of `count` regions; a null one is refused at once.
            regions.push(unsafe { read_region(remote.wrapping_add(at)) }?);
        }
        Ok(0)
    });
    if checked != 0 {
        return checked;
    }
    let direction = match direction {
        BMI_GET => Direction::Get,
        BMI_PUT => Direction::Put,
        other => {
            return Failure::invalid(format!("direction {other} is neither BMI_GET nor BMI_PUT"))
                .report();
        }
    };
    let (to, context) = (Addr::from_raw(addr), Context::from_raw(context));
    let writable = direction == Direction::Get;
    // SAFETY: the caller's promise.
    unsafe {
        post(bmi, outputs, local, writable, |layer, local| {
            layer.post_transfer(to, direction, local, &regions, context, number(user_ptr))
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_post_transfer(
    bmi: *mut Handle,
    op: *mut u64,
    addr: u64,
    direction: c_int,
    buffer: *mut c_void,
    size: i64,
    remote: *const BmiRegion,
    context: u64,
    user_ptr: *mut c_void,
) -> c_int {
    let (local, remote) = (Named::Buffer(buffer, size), (remote, 1));
    // SAFETY: the header requires it.
    unsafe { transfer(bmi, op, addr, direction, local, remote, context, user_ptr) }
}

/// See the header.
///
/// # Safety
/// As the header requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_post_transfer_list(
    bmi: *mut Handle,
    op: *mut u64,
    addr: u64,
    direction: c_int,
    list: *const iovec,
    count: usize,
    remote: *const BmiRegion,
    remote_count: usize,
    context: u64,
    user_ptr: *mut c_void,
) -> c_int {
    let (local, remote) = (Named::List(list, count), (remote, remote_count));
    // SAFETY: the header requires it.
    unsafe { transfer(bmi, op, addr, direction, local, remote, context, user_ptr) }
}

/// See the header.
///
/// # Safety
/// As the header requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_map(
    bmi: *mut Handle,
    addr: u64,
    region: *const BmiRegion,
    buffer: *mut *mut c_void,
) -> c_int {
    call(bmi, |instance| {
        Failure::if_null(buffer, "the pointer for the buffer")?;
        // SAFETY: not null, and the header requires a pointer that is valid for writes, and a region.
        let region = unsafe {
            buffer.write(std::ptr::null_mut());
            read_region(region)?
        };
        let Some(memory) = instance.bmi.map(Addr::from_raw(addr), &region) else {
            let text = "the region cannot be mapped here; BMI_addr_report() reports the reason";
            return Err(Failure::new(BMI_EUNSUPPORTED, text));
        };
        // SAFETY: as above.
        unsafe { buffer.write(instance.memory.buffers.insert(memory)) };
        Ok(0)
    })
}
