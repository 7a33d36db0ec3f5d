//! Accesses to windows (MPI 5.0 §12.3).
#![allow(clippy::too_many_arguments, reason = "they are the standard's")]

use std::ffi::{c_int, c_void};

use causeway_mpi::abi;
use causeway_mpi::error::{Error, Result};
use causeway_mpi::process::{Active, Process};
use causeway_mpi::reduction::Op;
use causeway_mpi::window::{Access, Action, Change};

use causeway_sys::blocks::{self, Source};

use crate::library::{Handles, Inside, ProgramBuffer, with};
use crate::types::{Handle, count_of};

/// A buffer as a call describes it: address, count, datatype.
type Described = (*const c_void, i64, Handle);

/// The accessed memory.
#[derive(Clone, Copy)]
struct Target {
    rank: c_int,
    displacement: i64,
    count: i64,
    datatype: Handle,
    window: Handle,
}

/// Describes a buffer, if there is one. (Inlined always: what is written word by word and moved right afterwards costs more than all else
/// in a small access.)
///
/// # Safety
/// MPI's contract for the buffer of an access.
#[inline(always)]
unsafe fn buffer_of<'a>(
    handles: &'a Handles<'_>,
    buffer: Option<Described>,
    writable: bool,
) -> Result<Option<ProgramBuffer<'a>>> {
    match buffer {
        None => Ok(None),
        // SAFETY: the caller's promise.
        Some((base, count, datatype)) => unsafe {
            Ok(Some(handles.buffer_of(base, count, datatype, writable)?))
        },
    }
}

/// Describes an access for `body`. Of the three buffers, the first two are read, and the last one is written.
///
/// # Safety
/// MPI's contract for the buffers of an access.
#[inline(always)]
unsafe fn described<R>(
    action: Action,
    [origin, compare, result]: [Option<Described>; 3],
    target: Target,
    is_request: bool,
    body: impl FnOnce(&mut Process, &Access<'_>) -> Result<R>,
) -> Result<R> {
    with(|process, handles| {
        let datatype = handles.datatype(target.datatype)?;
        let count = count_of(target.count)?;
        // SAFETY: the caller's promise.
        let (origin, compare, result) = unsafe {
            let origin = buffer_of(handles, origin, false)?;
            let compare = buffer_of(handles, compare, false)?;
            (origin, compare, buffer_of(handles, result, true)?)
        };
        let access = Access {
            action,
            origin: origin.as_ref().map(ProgramBuffer::buffer),
            compare: compare.as_ref().map(ProgramBuffer::buffer),
            result: result.as_ref().map(ProgramBuffer::buffer),
            rank: target.rank,
            displacement: target.displacement,
            count,
            datatype,
            is_request,
        };
        body(process, &access)
    })
}

/// Starts an access.
///
/// # Safety
/// MPI's contract for the buffers of an access.
#[inline(always)]
unsafe fn start(action: Action, buffers: [Option<Described>; 3], target: Target) -> Result<()> {
    let start = |process: &mut Process, access: &Access<'_>| {
        process.access(target.window, access).map(drop)
    };
    // SAFETY: the caller's promise.
    unsafe { described(action, buffers, target, false, start) }
}

/// Starts an access that the program waits for.
///
/// # Safety
/// MPI's contract for the buffers of an access.
unsafe fn request(
    action: Action,
    buffers: [Option<Described>; 3],
    target: Target,
) -> Result<Active> {
    let start = |process: &mut Process, access: &Access<'_>| {
        process.check_room_for_request()?;
        process.access_with_request(target.window, access)
    };
    // SAFETY: the caller's promise.
    unsafe { described(action, buffers, target, true, start) }
}

/// # Safety
/// The pointer is valid for writes.
unsafe fn keep(active: Active, request: *mut Handle) -> Result<()> {
    let handle = with(|process, _| process.keep(active))?;
    // SAFETY: the caller's promise.
    unsafe { request.write(handle) };
    Ok(())
}

/// The predefined operation of a handle. `MPI_NO_OP` needs a result.
fn operation(op: Handle, has_result: bool) -> Result<Op> {
    let found = Op::from_handle(op).filter(|op| has_result || *op != Op::NoOp);
    found.ok_or_else(|| {
        let text = format!("{op:#x} is no operation that can be used here");
        Error::new(abi::ERR_OP, text)
    })
}

/// The origin of an operation: none if it needs no operands.
fn operands(op: Op, origin: Described) -> Option<Described> {
    (op != Op::NoOp).then_some(origin)
}

/// Puts or gets a few bytes at once, if they are elements of one datatype without gaps on both sides. Returns whether it was done.
///
/// # Safety
/// MPI's contract for the buffer of an access, which is written unless `is_put`.
#[inline(always)]
unsafe fn copied(is_put: bool, (base, many, of): Described, target: Target) -> Result<bool> {
    if of != target.datatype || many != target.count {
        return Ok(false);
    }
    let mut inside = Inside::enter()?;
    let (process, handles) = inside.parts()?;
    let bytes = u64::try_from(many).ok();
    let bytes = bytes.and_then(|many| many.checked_mul(handles.unit(of)));
    let Some(len @ 1..=SHORT) = bytes else {
        return Ok(false);
    };
    if base.is_null() || base.addr() == abi::IN_PLACE {
        return Ok(false);
    }
    let (len, place) = (len as usize, (target.rank, target.displacement));
    // SAFETY: the caller's promise.
    Ok(unsafe {
        match is_put {
            true => process.put_bytes(target.window, place, Source::from_raw(base.cast(), len)),
            false => {
                let into = &mut blocks::Target::from_raw(base.cast_mut().cast(), len);
                process.get_bytes(target.window, place, into)
            }
        }
    })
}

/// Adds one integer at once, or does nothing. Returns whether it was done.
///
/// # Safety
/// MPI's contract for the buffer of an access.
#[inline(always)]
unsafe fn combined(op: Op, (base, many, of): Described, target: Target) -> Result<bool> {
    if (many, target.count) != (1, 1) || of != target.datatype || base.addr() == abi::IN_PLACE {
        return Ok(false);
    }
    // SAFETY: the caller's promise; the result is here.
    unsafe {
        let (nothing, mut before) = (std::ptr::null(), 0u64);
        let result = (&raw mut before).cast();
        changed(Change::Combine(op), [base, nothing], result, target)
    }
}

/// The same, with the old values as the result.
///
/// # Safety
/// MPI's contract for the buffers of an access.
#[inline(always)]
unsafe fn fetched(op: Op, origin: Described, result: Described, target: Target) -> Result<bool> {
    let is_one = |(base, many, of): Described| {
        many == 1 && of == target.datatype && base.addr() != abi::IN_PLACE
    };
    if target.count != 1 || !is_one(result) || op != Op::NoOp && !is_one(origin) {
        return Ok(false);
    }
    let nothing = std::ptr::null();
    let operand = operands(op, origin).map_or(nothing, |(base, ..)| base);
    // SAFETY: the caller's promise.
    unsafe {
        changed(
            Change::Combine(op),
            [operand, nothing],
            result.0.cast_mut(),
            target,
        )
    }
}

/// Most bytes of a short access.
const SHORT: u64 = 64;

/// The parameters of every access behind those of its own buffers, and a short way to do it, if there is one.
macro_rules! with_target {
    ($(
        $name:ident, $with_request:ident($($param:ident: $ty:ty),*; $($op:ident)?)
            $action:expr, $buffers:expr, $short:expr;
    )*) => {$(
        #[inline(always)]
        pub(crate) unsafe fn $name(
            $($param: $ty,)*
            rank: c_int,
            displacement: i64,
            count: i64,
            datatype: Handle,
            $($op: Handle,)?
            window: Handle,
        ) -> Result<()> {
            #[inline(never)]
            unsafe fn otherwise(
                $($param: $ty,)*
                rank: c_int,
                displacement: i64,
                count: i64,
                datatype: Handle,
                $($op: Handle,)?
                window: Handle,
            ) -> Result<()> {
                let target = Target { rank, displacement, count, datatype, window };
                // SAFETY: the caller keeps MPI's contract.
                unsafe { start($action, $buffers, target) }
            }
            let target = Target { rank, displacement, count, datatype, window };
            // SAFETY: the caller keeps MPI's contract.
            unsafe {
                if $short(target)? {
                    return Ok(());
                }
                otherwise($($param,)* rank, displacement, count, datatype, $($op,)? window)
            }
        }

        pub(crate) unsafe fn $with_request(
            $($param: $ty,)*
            rank: c_int,
            displacement: i64,
            count: i64,
            datatype: Handle,
            $($op: Handle,)?
            window: Handle,
            request: *mut Handle,
        ) -> Result<()> {
            let target = Target { rank, displacement, count, datatype, window };
            // SAFETY: the caller keeps MPI's contract.
            unsafe { keep(self::request($action, $buffers, target)?, request) }
        }
    )*};
}

with_target! {
    put, rput(origin: *const c_void, many: i64, of: Handle;)
        Action::Put, [Some((origin, many, of)), None, None],
        |target| copied(true, (origin, many, of), target);
    get, rget(origin: *mut c_void, many: i64, of: Handle;)
        Action::Get, [None, None, Some((origin.cast_const(), many, of))],
        |target| copied(false, (origin.cast_const(), many, of), target);
    accumulate, raccumulate(origin: *const c_void, many: i64, of: Handle; op)
        Action::Combine(operation(op, false)?), [Some((origin, many, of)), None, None],
        |target| combined(operation(op, false)?, (origin, many, of), target);
    get_accumulate, rget_accumulate(
        origin: *const c_void, many: i64, of: Handle,
        result: *mut c_void, results: i64, result_type: Handle; op
    )
        Action::Combine(operation(op, true)?),
        [
            operands(operation(op, true)?, (origin, many, of)),
            None,
            Some((result.cast_const(), results, result_type)),
        ],
        |target| fetched(
            operation(op, true)?,
            (origin, many, of),
            (result.cast_const(), results, result_type),
            target,
        );
}

/// Changes one integer at once where that is possible, and writes its old value to `result`. Returns whether it was done. An
/// operand is NULL where the operation needs none.
///
/// # Safety
/// MPI's contract for the buffers of an access to one element, if they are not NULL.
#[inline]
unsafe fn changed(
    change: Change,
    [operand, compare]: [*const c_void; 2],
    result: *mut c_void,
    target: Target,
) -> Result<bool> {
    let mut inside = Inside::enter()?;
    let (process, handles) = inside.parts()?;
    if result.is_null() || !change.is_simple(handles.datatype(target.datatype)?.basic()) {
        return Ok(false);
    }
    // SAFETY: the caller's promise: the datatype, which was looked at, has 8 bytes.
    let read = |from: *const c_void| unsafe {
        (!from.is_null()).then(|| from.cast::<u64>().read_unaligned())
    };
    let (operand, change) = match (change, read(operand), read(compare)) {
        (Change::Combine(Op::NoOp), _, _) => (0, change),
        (Change::Combine(_), Some(operand), _) => (operand, change),
        (Change::IfEqual(_), Some(operand), Some(compare)) => (operand, Change::IfEqual(compare)),
        _ => return Ok(false),
    };
    let place = (target.rank, target.displacement);
    let old = process.change_integer(target.window, place, operand, change);
    if let Some(old) = old {
        // SAFETY: likewise.
        unsafe { result.cast::<u64>().write_unaligned(old) };
    }
    Ok(old.is_some())
}

#[inline(always)]
pub(crate) unsafe fn fetch_and_op(
    origin: *const c_void,
    result: *mut c_void,
    datatype: Handle,
    rank: c_int,
    displacement: i64,
    op: Handle,
    window: Handle,
) -> Result<()> {
    let op = operation(op, true)?;
    let target = Target {
        rank,
        displacement,
        count: 1,
        datatype,
        window,
    };
    let nothing = std::ptr::null();
    let from = if op == Op::NoOp { nothing } else { origin };
    // SAFETY: the caller keeps MPI's contract.
    if unsafe { changed(Change::Combine(op), [from, nothing], result, target) }? {
        return Ok(());
    }
    let origin = operands(op, (origin, 1, datatype));
    let buffers = [origin, None, Some((result.cast_const(), 1, datatype))];
    // SAFETY: the caller keeps MPI's contract.
    unsafe { start(Action::Combine(op), buffers, target) }
}

pub(crate) unsafe fn compare_and_swap(
    origin: *const c_void,
    compare: *const c_void,
    result: *mut c_void,
    datatype: Handle,
    rank: c_int,
    displacement: i64,
    window: Handle,
) -> Result<()> {
    let target = Target {
        rank,
        displacement,
        count: 1,
        datatype,
        window,
    };
    // SAFETY: the caller keeps MPI's contract.
    if unsafe { changed(Change::IfEqual(0), [origin, compare], result, target) }? {
        return Ok(());
    }
    let buffers = [origin, compare, result.cast_const()].map(|base| Some((base, 1, datatype)));
    // SAFETY: the caller keeps MPI's contract.
    unsafe { start(Action::CompareAndSwap, buffers, target) }
}
