//! Partitioned messages (MPI 5.0 §4.2).
#![allow(clippy::too_many_arguments, reason = "they are the standard's")]

use std::ffi::{c_int, c_void};

use causeway_mpi::abi;
use causeway_mpi::error::{Error, Result};
use causeway_mpi::point::Route;

use crate::library::{wake_all, with};
use crate::point::at_once;
use crate::types::{Handle, array};

/// # Safety
/// MPI's contract for the buffer of a partitioned message.
unsafe fn plan(
    (buf, partitions, count, datatype): (*const c_void, c_int, i64, Handle),
    route: Route,
    is_send: bool,
    request: *mut Handle,
) -> Result<()> {
    let many = i64::from(partitions);
    if many < 1 {
        let text = format!("{partitions} partitions");
        return Err(Error::new(abi::ERR_ARG, text));
    }
    let handle = with(|process, handles| {
        let too_many = || Error::new(abi::ERR_COUNT, "so many elements do not fit in memory");
        let of = handles.datatype(datatype)?;
        let step = count.checked_mul(of.extent()).ok_or_else(too_many)?;
        let is_plain = of.is_contiguous();
        let all = count.checked_mul(many).ok_or_else(too_many)?;
        step.checked_mul(many).ok_or_else(too_many)?;
        // SAFETY: the caller's promise.
        let (parts, whole) = unsafe {
            let part = |at: i64| {
                let base = buf.wrapping_byte_offset((at * step) as isize);
                handles.owned_buffer(base, count, datatype, !is_send)
            };
            let parts = (0..many).map(part).collect::<Result<Vec<_>>>()?;
            let whole = is_plain.then(|| handles.owned_buffer(buf, all, datatype, !is_send));
            (parts, whole.transpose()?)
        };
        process.plan_partitioned(parts, whole.map(|whole| whole.memory), route, is_send)
    })?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { request.write(handle) };
    Ok(())
}

pub(crate) unsafe fn psend_init(
    buf: *const c_void,
    partitions: c_int,
    count: i64,
    datatype: Handle,
    rank: c_int,
    tag: c_int,
    communicator: Handle,
    _info: Handle,
    request: *mut Handle,
) -> Result<()> {
    let route = Route {
        rank,
        tag,
        communicator,
    };
    // SAFETY: the caller keeps MPI's contract.
    unsafe { plan((buf, partitions, count, datatype), route, true, request) }
}

pub(crate) unsafe fn precv_init(
    buf: *mut c_void,
    partitions: c_int,
    count: i64,
    datatype: Handle,
    rank: c_int,
    tag: c_int,
    communicator: Handle,
    _info: Handle,
    request: *mut Handle,
) -> Result<()> {
    let route = Route {
        rank,
        tag,
        communicator,
    };
    // SAFETY: the caller keeps MPI's contract.
    unsafe { plan((buf, partitions, count, datatype), route, false, request) }
}

/// Marks partitions ready. Another thread may be waiting until all are.
fn ready(request: Handle, partitions: impl IntoIterator<Item = c_int>) -> Result<()> {
    let mut all = partitions.into_iter();
    with(|process, _| all.try_for_each(|part| process.ready(request, part.into())))?;
    wake_all();
    Ok(())
}

pub(crate) unsafe fn pready(partition: c_int, request: Handle) -> Result<()> {
    ready(request, [partition])
}

pub(crate) unsafe fn pready_range(low: c_int, high: c_int, request: Handle) -> Result<()> {
    ready(request, low..=high)
}

pub(crate) unsafe fn pready_list(
    length: c_int,
    partitions: *const c_int,
    request: Handle,
) -> Result<()> {
    let many = crate::topology::length(length)?;
    // SAFETY: the caller's array, as MPI has it.
    let partitions = unsafe { array(partitions, many, "array_of_partitions") }?;
    ready(request, partitions.iter().copied())
}

pub(crate) unsafe fn parrived(request: Handle, partition: c_int, flag: *mut c_int) -> Result<()> {
    let has = match request {
        abi::REQUEST_NULL => Some(true),
        _ => at_once(|process| process.arrived(request, partition.into()).map(Some))?,
    };
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { flag.write((has == Some(true)).into()) };
    Ok(())
}
