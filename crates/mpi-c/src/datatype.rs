//! Datatypes (MPI 5.0 chapter 5).

use std::ffi::{c_int, c_void};

use causeway_mpi::abi;
use causeway_mpi::datatype::{Darray, Datatype, Distribution, Order, Width};
use causeway_mpi::error::{Error, Result};

use crate::attributes::Holder;
use crate::library::{enter, with};
use crate::types::{Handle, Numbers, NumbersOut, array, count_of};

fn width(is_large: bool) -> Width {
    match is_large {
        true => Width::Count,
        false => Width::Int,
    }
}

/// # Safety
/// The pointer is valid for writes.
unsafe fn insert(new: Datatype, into: *mut Handle) -> Result<()> {
    let handle = enter(|library| library.types.insert(new))?;
    // SAFETY: the caller's promise.
    unsafe { into.write(handle) };
    Ok(())
}

fn get(handle: Handle) -> Result<Datatype> {
    enter(|library| library.datatype(handle).cloned())
}

fn length(count: i64) -> Result<usize> {
    Ok(count_of(count)? as usize)
}

pub(crate) unsafe fn type_contiguous(
    count: i64,
    old: Handle,
    new: *mut Handle,
    is_large: bool,
) -> Result<()> {
    let made = Datatype::contiguous(count, &get(old)?, width(is_large))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { insert(made, new) }
}

pub(crate) unsafe fn type_vector(
    count: i64,
    blocklength: i64,
    stride: i64,
    old: Handle,
    new: *mut Handle,
    is_large: bool,
) -> Result<()> {
    let made = Datatype::vector(count, blocklength, stride, &get(old)?, width(is_large))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { insert(made, new) }
}

pub(crate) unsafe fn type_create_hvector(
    count: i64,
    blocklength: i64,
    stride: i64,
    old: Handle,
    new: *mut Handle,
    is_large: bool,
) -> Result<()> {
    let made = Datatype::hvector(count, blocklength, stride, &get(old)?, width(is_large))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { insert(made, new) }
}

#[expect(clippy::too_many_arguments, reason = "they are MPI's")]
pub(crate) unsafe fn type_create_subarray(
    dimensions: c_int,
    sizes: Numbers,
    subsizes: Numbers,
    starts: Numbers,
    order: c_int,
    old: Handle,
    new: *mut Handle,
    is_large: bool,
) -> Result<()> {
    let many = length(dimensions.into())?;
    // SAFETY: the caller's arrays and pointer, as MPI has it.
    unsafe {
        let sizes = sizes.read(many, "array_of_sizes")?;
        let subsizes = subsizes.read(many, "array_of_subsizes")?;
        let starts = starts.read(many, "array_of_starts")?;
        let (order, width) = (Order::try_from(order)?, width(is_large));
        let made = Datatype::subarray(&sizes, &subsizes, &starts, order, &get(old)?, width)?;
        insert(made, new)
    }
}

#[expect(clippy::too_many_arguments, reason = "they are MPI's")]
pub(crate) unsafe fn type_create_darray(
    size: c_int,
    rank: c_int,
    dimensions: c_int,
    sizes: Numbers,
    distributions: *const c_int,
    arguments: *const c_int,
    grid: *const c_int,
    order: c_int,
    old: Handle,
    new: *mut Handle,
    is_large: bool,
) -> Result<()> {
    let many = length(dimensions.into())?;
    // SAFETY: the caller's arrays and pointer, as MPI has it.
    unsafe {
        let distributions = array(distributions, many, "array_of_distribs")?;
        let distributions = distributions
            .iter()
            .map(|value| Distribution::try_from(*value))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let of = Darray {
            size,
            rank,
            sizes: &sizes.read(many, "array_of_gsizes")?,
            distributions: &distributions,
            arguments: array(arguments, many, "array_of_dargs")?,
            grid: array(grid, many, "array_of_psizes")?,
            order: Order::try_from(order)?,
        };
        insert(Datatype::darray(&of, &get(old)?, width(is_large))?, new)
    }
}

pub(crate) unsafe fn type_indexed(
    count: i64,
    lengths: Numbers,
    displacements: Numbers,
    old: Handle,
    new: *mut Handle,
    is_large: bool,
) -> Result<()> {
    let many = length(count)?;
    // SAFETY: the caller's arrays and pointer, as MPI has it.
    unsafe {
        let lengths = lengths.read(many, "array_of_blocklengths")?;
        let displacements = displacements.read(many, "array_of_displacements")?;
        let made = Datatype::indexed(&lengths, &displacements, &get(old)?, width(is_large))?;
        insert(made, new)
    }
}

pub(crate) unsafe fn type_create_hindexed(
    count: i64,
    lengths: Numbers,
    displacements: *const i64,
    old: Handle,
    new: *mut Handle,
    is_large: bool,
) -> Result<()> {
    let many = length(count)?;
    // SAFETY: the caller's arrays and pointer, as MPI has it.
    unsafe {
        let lengths = lengths.read(many, "array_of_blocklengths")?;
        let displacements = array(displacements, many, "array_of_displacements")?;
        let made = Datatype::hindexed(&lengths, displacements, &get(old)?, width(is_large))?;
        insert(made, new)
    }
}

pub(crate) unsafe fn type_create_indexed_block(
    count: i64,
    blocklength: i64,
    displacements: Numbers,
    old: Handle,
    new: *mut Handle,
    is_large: bool,
) -> Result<()> {
    // SAFETY: the caller's array and pointer, as MPI has it.
    unsafe {
        let displacements = displacements.read(length(count)?, "array_of_displacements")?;
        let made =
            Datatype::indexed_block(blocklength, &displacements, &get(old)?, width(is_large))?;
        insert(made, new)
    }
}

pub(crate) unsafe fn type_create_hindexed_block(
    count: i64,
    blocklength: i64,
    displacements: *const i64,
    old: Handle,
    new: *mut Handle,
    is_large: bool,
) -> Result<()> {
    // SAFETY: the caller's array and pointer, as MPI has it.
    unsafe {
        let displacements = array(displacements, length(count)?, "array_of_displacements")?;
        let made =
            Datatype::hindexed_block(blocklength, displacements, &get(old)?, width(is_large))?;
        insert(made, new)
    }
}

pub(crate) unsafe fn type_create_struct(
    count: i64,
    lengths: Numbers,
    displacements: *const i64,
    types: *const Handle,
    new: *mut Handle,
    is_large: bool,
) -> Result<()> {
    let many = length(count)?;
    // SAFETY: the caller's arrays and pointer, as MPI has it.
    unsafe {
        let lengths = lengths.read(many, "array_of_blocklengths")?;
        let displacements = array(displacements, many, "array_of_displacements")?;
        let types = array(types, many, "array_of_types")?;
        let types: Vec<Datatype> = types.iter().map(|of| get(*of)).collect::<Result<_>>()?;
        let made = Datatype::structure(&lengths, displacements, &types, width(is_large))?;
        insert(made, new)
    }
}

pub(crate) unsafe fn type_create_resized(
    old: Handle,
    lower: i64,
    extent: i64,
    new: *mut Handle,
    is_large: bool,
) -> Result<()> {
    let made = Datatype::resized(&get(old)?, lower, extent, width(is_large))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { insert(made, new) }
}

pub(crate) unsafe fn type_dup(old: Handle, new: *mut Handle) -> Result<()> {
    let made = Datatype::duplicate(&get(old)?)?;
    let handle = enter(|library| library.types.insert(made))?;
    if let Err(error) = crate::attributes::copy_all(Holder::Datatype(old), handle) {
        // Copied data are sent as they would be with the datatype.
        crate::attributes::delete_all(Holder::Datatype(handle))?;
        enter(|library| library.types.remove(handle))?;
        return Err(error);
    }
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { new.write(handle) };
    Ok(())
}

pub(crate) unsafe fn type_commit(datatype: *mut Handle) -> Result<()> {
    // SAFETY: the caller's pointer, as MPI has it.
    let handle = unsafe { datatype.read() };
    get(handle)?.commit();
    Ok(())
}

pub(crate) unsafe fn type_free(datatype: *mut Handle) -> Result<()> {
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe {
        let handle = datatype.read();
        // Nothing is deleted of one that cannot be freed.
        enter(|library| library.types.get(handle).map(drop))?;
        crate::attributes::delete_all(Holder::Datatype(handle))?;
        enter(|library| {
            library.type_names.remove(&handle);
            library.types.remove(handle)
        })?;
        datatype.write(abi::DATATYPE_NULL);
    }
    Ok(())
}

pub(crate) unsafe fn type_size(datatype: Handle, size: NumbersOut) -> Result<()> {
    let bytes = enter(|library| Ok(library.datatype(datatype)?.size()))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { size.write(bytes as i64) };
    Ok(())
}

pub(crate) unsafe fn type_size_x(datatype: Handle, size: *mut i64) -> Result<()> {
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { type_size(datatype, NumbersOut::Large(size)) }
}

pub(crate) unsafe fn type_get_extent(
    datatype: Handle,
    lower: *mut i64,
    extent: *mut i64,
) -> Result<()> {
    let of = |found: &Datatype| (found.lower_bound(), found.extent());
    let found = enter(|library| Ok(of(library.datatype(datatype)?)))?;
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        lower.write(found.0);
        extent.write(found.1);
    }
    Ok(())
}

pub(crate) unsafe fn type_get_extent_x(
    datatype: Handle,
    lower: *mut i64,
    extent: *mut i64,
) -> Result<()> {
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe { type_get_extent(datatype, lower, extent) }
}

pub(crate) unsafe fn type_get_true_extent(
    datatype: Handle,
    lower: *mut i64,
    extent: *mut i64,
) -> Result<()> {
    let of = |found: &Datatype| (found.true_lower_bound(), found.true_extent());
    let found = enter(|library| Ok(of(library.datatype(datatype)?)))?;
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        lower.write(found.0);
        extent.write(found.1);
    }
    Ok(())
}

pub(crate) unsafe fn type_get_true_extent_x(
    datatype: Handle,
    lower: *mut i64,
    extent: *mut i64,
) -> Result<()> {
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe { type_get_true_extent(datatype, lower, extent) }
}

/// Where packed data lie: the buffer, its bytes, and the position in it.
type Stream = (*mut c_void, i64, i64);

/// The part of a packed buffer that is left.
///
/// # Safety
/// The buffer has so many bytes.
pub(crate) unsafe fn rest_of((buffer, size, position): Stream) -> Result<(*mut u8, usize)> {
    let left = size.checked_sub(position).filter(|_| position >= 0);
    let left = left
        .and_then(|left| usize::try_from(left).ok())
        .ok_or_else(|| {
            let text = format!("the position {position} in a buffer of {size} bytes");
            Error::new(abi::ERR_ARG, text)
        })?;
    Ok((buffer.wrapping_byte_offset(position as isize).cast(), left))
}

pub(crate) unsafe fn pack(
    inbuf: *const c_void,
    incount: i64,
    datatype: Handle,
    outbuf: *mut c_void,
    outsize: i64,
    position: NumbersOut,
    _comm: Handle,
) -> Result<()> {
    // SAFETY: the caller's buffers, as MPI has it.
    unsafe {
        let at = position.read();
        let (into, room) = rest_of((outbuf, outsize, at))?;
        let from = with(|_, handles| handles.owned_buffer(inbuf, incount, datatype, false))?;
        let packed = from.packed()?;
        if packed.len() > room {
            let text = format!("{} bytes, where there is room for {room}", packed.len());
            return Err(Error::new(abi::ERR_TRUNCATE, text));
        }
        std::ptr::copy(packed.as_ptr(), into, packed.len());
        position.write(at + packed.len() as i64);
    }
    Ok(())
}

pub(crate) unsafe fn unpack(
    inbuf: *const c_void,
    insize: i64,
    position: NumbersOut,
    outbuf: *mut c_void,
    outcount: i64,
    datatype: Handle,
    _comm: Handle,
) -> Result<()> {
    // SAFETY: the caller's buffers, as MPI has it.
    unsafe {
        let at = position.read();
        let (from, left) = rest_of((inbuf.cast_mut(), insize, at))?;
        let into = with(|_, handles| handles.owned_buffer(outbuf, outcount, datatype, true))?;
        let needed = into.bytes_of_data()? as usize;
        if needed > left {
            let text = format!("{needed} bytes, where {left} are left");
            return Err(Error::new(abi::ERR_TRUNCATE, text));
        }
        let stream = array(from, needed, "inbuf")?;
        into.unpack(stream)?;
        position.write(at + needed as i64);
    }
    Ok(())
}

pub(crate) unsafe fn pack_size(
    incount: i64,
    datatype: Handle,
    _comm: Handle,
    size: NumbersOut,
) -> Result<()> {
    let count = count_of(incount)?;
    let one = enter(|library| Ok(library.datatype(datatype)?.size()))?;
    let all = one
        .checked_mul(count)
        .and_then(|all| i64::try_from(all).ok());
    let all = all.ok_or_else(|| Error::new(abi::ERR_VALUE_TOO_LARGE, "too many bytes"))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { size.write(all) };
    Ok(())
}
