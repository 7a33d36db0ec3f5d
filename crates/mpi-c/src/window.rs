//! Windows (MPI 5.0 §12.2, §12.5): making and freeing them, their attributes, epochs.

use std::ffi::{c_char, c_int, c_void};

use causeway_mpi::abi;
use causeway_mpi::error::{Error, Result};
use causeway_mpi::process::{Active, Process, Waited};
use causeway_mpi::window::{Begun, Flavor, Offered};

use crate::attributes::Holder;
use crate::library::{Inside, complete, enter, wait_for, with};
use crate::types::{Handle, NumbersOut, read_text, write_text};

fn size_of(size: i64) -> Result<u64> {
    u64::try_from(size)
        .map_err(|_| Error::new(abi::ERR_SIZE, format!("the size {size} is negative")))
}

fn unit_of(unit: i64) -> Result<u64> {
    let valid = u64::try_from(unit).ok().filter(|unit| *unit > 0);
    valid.ok_or_else(|| {
        let text = format!("the displacement unit {unit} is not positive");
        Error::new(abi::ERR_DISP, text)
    })
}

/// Makes a window together with the other processes of a communicator.
fn make(offered: Offered, comm: Handle) -> Result<Handle> {
    let mut begun = Begun::new(offered, comm);
    while let Some(active) = with(|process, _| process.make_window(&mut begun))? {
        complete(active)?;
    }
    Ok(begun.window())
}

/// What a call offers to a window.
fn offered(flavor: Flavor, size: i64, unit: i64, info: Handle) -> Result<Offered> {
    Ok(Offered {
        flavor,
        memory: None,
        size: size_of(size)?,
        base: 0,
        unit: unit_of(unit)?,
        info: enter(|library| crate::info::copy_of(library, info))?,
    })
}

pub(crate) unsafe fn win_create(
    base: *mut c_void,
    size: i64,
    disp_unit: i64,
    info: Handle,
    comm: Handle,
    win: *mut Handle,
) -> Result<()> {
    let mut offered = offered(Flavor::Create, size, disp_unit, info)?;
    let len = offered.size as usize;
    offered.base = base.expose_provenance();
    // SAFETY: MPI obliges the caller to leave the memory until the window is freed.
    offered.memory = Some(with(|_, handles| unsafe { handles.memory(base, len) })?);
    let window = make(offered, comm)?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { win.write(window) };
    Ok(())
}

pub(crate) unsafe fn win_create_dynamic(
    info: Handle,
    comm: Handle,
    win: *mut Handle,
) -> Result<()> {
    let window = make(offered(Flavor::Dynamic, 0, 1, info)?, comm)?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { win.write(window) };
    Ok(())
}

macro_rules! allocations {
    ($($name:ident, $flavor:expr;)*) => {$(
        pub(crate) unsafe fn $name(
            size: i64,
            disp_unit: i64,
            info: Handle,
            comm: Handle,
            baseptr: *mut c_void,
            win: *mut Handle,
        ) -> Result<()> {
            let window = make(offered($flavor, size, disp_unit, info)?, comm)?;
            let base = with(|process, _| Ok(process.window(window)?.base()))?;
            // SAFETY: the caller's pointers, as MPI has it: `baseptr` is the address of a pointer.
            unsafe {
                baseptr.cast::<usize>().write(base);
                win.write(window);
            }
            Ok(())
        }
    )*};
}

allocations! {
    win_allocate, Flavor::Allocate;
    win_allocate_shared, Flavor::Shared;
}

pub(crate) unsafe fn win_shared_query(
    win: Handle,
    rank: c_int,
    size: *mut i64,
    disp_unit: NumbersOut,
    baseptr: *mut c_void,
) -> Result<()> {
    let (bytes, unit, memory) = with(|process, _| process.shared_part(win, rank))?;
    let memory = memory.filter(|memory| !memory.is_empty());
    let base = memory.map_or(std::ptr::null_mut(), |memory| memory.as_ptr());
    // SAFETY: the caller's pointers, as MPI has it: `baseptr` is the address of a pointer.
    unsafe {
        size.write(bytes as i64);
        disp_unit.write(unit as i64);
        baseptr.cast::<*mut u8>().write(base);
    }
    Ok(())
}

pub(crate) unsafe fn win_attach(win: Handle, base: *mut c_void, size: i64) -> Result<()> {
    let len = size_of(size)? as usize;
    with(|process, handles| {
        // SAFETY: MPI obliges the caller to leave the memory until it is detached.
        process.attach(win, unsafe { handles.memory(base, len) }?)
    })
}

pub(crate) unsafe fn win_detach(win: Handle, base: *const c_void) -> Result<()> {
    with(|process, _| process.detach(win, base.addr()))
}

/// Waits for a collective operation of a window that `start` begins.
fn wait_for_collective(
    win: Handle,
    start: impl FnOnce(&mut Process) -> Result<Active>,
) -> Result<()> {
    let mut active = with(|process, _| start(process))?;
    wait_for(|process| process.wait_for_all(win, &mut active))
}

fn flush(win: Handle, rank: Option<c_int>) -> Result<()> {
    wait_for(|process| process.flush(win, rank))
}

pub(crate) unsafe fn win_free(win: *mut Handle) -> Result<()> {
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe {
        let handle = win.read();
        crate::attributes::delete_all(Holder::Window(handle))?;
        flush(handle, None)?;
        wait_for_collective(handle, |process| process.leave_window(handle))?;
        let handler = with(|process, _| process.forget(handle))?;
        enter(|library| Ok(library.window_values.remove(&handle)))?;
        crate::errors::release(handler)?;
        win.write(abi::WIN_NULL);
    }
    Ok(())
}

pub(crate) unsafe fn win_fence(assertion: c_int, win: Handle) -> Result<()> {
    flush(win, None)?;
    wait_for_collective(win, |process| process.fence(win, assertion))
}

pub(crate) unsafe fn win_post(group: Handle, _assertion: c_int, win: Handle) -> Result<()> {
    let group = enter(|library| library.group(group))?;
    with(|process, _| process.post(win, &group))
}

pub(crate) unsafe fn win_start(group: Handle, _assertion: c_int, win: Handle) -> Result<()> {
    let group = enter(|library| library.group(group))?;
    wait_for(|process| process.start_epoch(win, &group))
}

pub(crate) unsafe fn win_complete(win: Handle) -> Result<()> {
    with(|process, _| process.check_started(win))?;
    flush(win, None)?;
    with(|process, _| process.complete(win))
}

pub(crate) unsafe fn win_wait(win: Handle) -> Result<()> {
    wait_for(|process| process.close(win))
}

pub(crate) unsafe fn win_test(win: Handle, flag: *mut c_int) -> Result<()> {
    let closed = wait_for(|process| process.test_closed(win))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { flag.write(closed.is_some().into()) };
    Ok(())
}

fn lock(win: Handle, rank: Option<c_int>, exclusive: bool) -> Result<()> {
    with(|process, _| process.request_lock(win, rank, exclusive))?;
    wait_for(|process| process.await_lock(win, rank, exclusive))
}

fn unlock(win: Handle, rank: Option<c_int>) -> Result<()> {
    with(|process, _| process.check_unlock(win, rank))?;
    let flushed = flush(win, rank);
    // The lock is released even if an access has failed before.
    with(|process, _| process.unlock(win, rank))?;
    flushed
}

pub(crate) unsafe fn win_lock(
    lock_type: c_int,
    rank: c_int,
    _assertion: c_int,
    win: Handle,
) -> Result<()> {
    let exclusive = match lock_type {
        abi::LOCK_EXCLUSIVE => true,
        abi::LOCK_SHARED => false,
        other => {
            let text = format!("{other} is no type of lock");
            return Err(Error::new(abi::ERR_LOCKTYPE, text));
        }
    };
    match rank {
        abi::PROC_NULL => with(|process, _| process.window(win).map(drop)),
        rank => lock(win, Some(rank), exclusive),
    }
}

pub(crate) unsafe fn win_unlock(rank: c_int, win: Handle) -> Result<()> {
    match rank {
        abi::PROC_NULL => with(|process, _| process.window(win).map(drop)),
        rank => unlock(win, Some(rank)),
    }
}

pub(crate) unsafe fn win_lock_all(_assertion: c_int, win: Handle) -> Result<()> {
    lock(win, None, false)
}

pub(crate) unsafe fn win_unlock_all(win: Handle) -> Result<()> {
    unlock(win, None)
}

/// A flush of a rank, or of all. Accesses that are done at the target are done here too.
#[inline(always)]
fn checked_flush(win: Handle, rank: Option<c_int>) -> Result<()> {
    let is_done = {
        let mut inside = Inside::enter()?;
        inside.parts()?.0.flush_now(win, rank)
    };
    if is_done {
        return Ok(());
    }
    flush_otherwise(win, rank)
}

/// The same where there is something to wait for, or something is wrong.
#[cold]
#[inline(never)]
fn flush_otherwise(win: Handle, rank: Option<c_int>) -> Result<()> {
    if rank == Some(abi::PROC_NULL) {
        return with(|process, _| process.window(win).map(drop));
    }
    wait_for(|process| {
        process.check_flush(win, rank)?;
        let flushed: Waited<()> = process.flush(win, rank)?;
        Ok(flushed)
    })
}

macro_rules! flushes {
    ($($one:ident, $all:ident;)*) => {$(
        #[inline(always)]
        pub(crate) unsafe fn $one(rank: c_int, win: Handle) -> Result<()> {
            checked_flush(win, Some(rank))
        }

        pub(crate) unsafe fn $all(win: Handle) -> Result<()> {
            checked_flush(win, None)
        }
    )*};
}

flushes! {
    win_flush, win_flush_all;
    win_flush_local, win_flush_local_all;
}

pub(crate) unsafe fn win_sync(win: Handle) -> Result<()> {
    with(|process, _| process.synchronize(win))
}

pub(crate) unsafe fn win_get_group(win: Handle, group: *mut Handle) -> Result<()> {
    let found = with(|process, _| Ok(process.window(win)?.group().clone()))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { crate::group::insert(found, group) }
}

pub(crate) unsafe fn win_set_name(win: Handle, name: *const c_char) -> Result<()> {
    // SAFETY: the caller's string, as MPI has it.
    let name = unsafe { read_text(name, "win_name") }?;
    let most = abi::MAX_OBJECT_NAME as usize - 1;
    let name = &name[..name.len().min(most)];
    with(|process, _| {
        process.window_mut(win)?.set_name(name);
        Ok(())
    })
}

pub(crate) unsafe fn win_get_name(
    win: Handle,
    name: *mut c_char,
    resultlen: *mut c_int,
) -> Result<()> {
    let found = with(|process, _| match win {
        abi::WIN_NULL => Ok(b"MPI_WIN_NULL".to_vec()),
        other => Ok(process.window(other)?.name().to_vec()),
    })?;
    let most = abi::MAX_OBJECT_NAME as usize;
    // SAFETY: MPI obliges the caller to have so much room.
    unsafe { write_text(&found, name, most, resultlen) };
    Ok(())
}

pub(crate) unsafe fn win_set_info(win: Handle, info: Handle) -> Result<()> {
    let hints = enter(|library| crate::info::copy_of(library, info))?;
    with(|process, _| {
        process.window_mut(win)?.info().update(&hints);
        Ok(())
    })
}

pub(crate) unsafe fn win_get_info(win: Handle, info_used: *mut Handle) -> Result<()> {
    let hints = with(|process, _| Ok(process.window_mut(win)?.info().clone()))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { crate::info::insert(hints, info_used) }
}
