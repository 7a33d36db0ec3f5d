//! Messages (MPI 5.0 chapter 3): sends in all modes, receives, probes.
#![allow(clippy::too_many_arguments, reason = "they are the standard's")]

use std::ffi::{c_int, c_void};

use causeway_mpi::abi;
use causeway_mpi::error::Result;
use causeway_mpi::point::{Mode, Received, Route};
use causeway_mpi::process::{Active, Waited};
use causeway_mpi::request::{FINISHED, Plan};
use causeway_mpi::status::Status as Known;

use crate::library::{Inside, complete, run, wait_for, with};
use crate::types::{Handle, Status, write_status};

/// # Safety
/// MPI's contract for a send.
#[inline]
unsafe fn start_send(
    (buf, count, datatype): (*const c_void, i64, Handle),
    route: Route,
    mode: Mode,
) -> Result<Active> {
    with(|process, handles| {
        // SAFETY: the caller's promise.
        unsafe {
            handles.buffer(buf, count, datatype, false, |from| {
                process.send(from, route, mode)
            })
        }
    })
}

/// Sends a message if it can leave at once. Returns whether it has; otherwise nothing has been done.
///
/// # Safety
/// MPI's contract for a send.
#[inline(always)]
unsafe fn send_at_once(
    (buf, count, datatype): (*const c_void, i64, Handle),
    route: Route,
    mode: Mode,
) -> Result<bool> {
    if !matches!(mode, Mode::Standard | Mode::Ready) {
        return Ok(false);
    }
    let mut inside = Inside::enter()?;
    let (process, handles) = inside.parts()?;
    // SAFETY: the caller's promise.
    let memory = unsafe { handles.contiguous_buffer(buf, count, datatype, false) };
    Ok(memory.is_some_and(|memory| process.send_at_once(&memory, route)))
}

/// # Safety
/// MPI's contract for a receive.
#[inline]
unsafe fn start_receive(
    (buf, count, datatype): (*mut c_void, i64, Handle),
    route: Route,
) -> Result<Active> {
    with(|process, handles| {
        // SAFETY: the caller's promise.
        unsafe {
            handles.buffer(buf, count, datatype, true, |into| {
                process.receive(into, route)
            })
        }
    })
}

/// # Safety
/// The pointer is valid for writes.
unsafe fn keep(active: Active, request: *mut Handle) -> Result<()> {
    let handle = with(|process, _| process.keep(active))?;
    // SAFETY: the caller's promise.
    unsafe { request.write(handle) };
    Ok(())
}

/// Sends a message that cannot leave at once.
///
/// # Safety
/// MPI's contract for a send.
#[inline(never)]
unsafe fn send_waiting(
    buffer: (*const c_void, i64, Handle),
    route: Route,
    mode: Mode,
) -> Result<()> {
    // SAFETY: the caller's promise.
    let active = unsafe { start_send(buffer, route, mode) }?;
    complete(active).map(drop)
}

/// The general path of `MPI_Isend` and its like: starts to send a message that cannot leave at once.
///
/// # Safety
/// MPI's contract for a send, and the pointer is valid for writes.
#[inline(never)]
unsafe fn isend_general(
    buffer: (*const c_void, i64, Handle),
    route: Route,
    mode: Mode,
    request: *mut Handle,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        with(|process, _| process.check_room_for_request())?;
        keep(start_send(buffer, route, mode)?, request)
    }
}

/// Writes the status of a receive, also of one whose message did not fit.
///
/// # Safety
/// The pointer is null or valid for writes.
#[inline]
unsafe fn settle(done: Result<Known>, status: *mut Status) -> Result<()> {
    let known = match &done {
        Ok(known) => Some(*known),
        Err(error) => error.status(),
    };
    if let Some(known) = known {
        // SAFETY: the caller's promise.
        unsafe { write_status(status, known) };
    }
    done.map(drop)
}

/// The general path of `MPI_Recv`: starts to receive a message that may have come, or one that the fast path leaves, and polls once for it: a thread that shares the library
/// with others enters it once for a message that is there.
///
/// # Safety
/// MPI's contract for a receive.
#[inline(never)]
unsafe fn recv_general(
    mut inside: Inside,
    (buf, count, datatype): (*mut c_void, i64, Handle),
    route: Route,
) -> Result<(Waited<Known>, Active)> {
    let (process, handles) = inside.parts()?;
    // SAFETY: the caller's promise.
    let mut active = unsafe {
        handles.buffer(buf, count, datatype, true, |into| {
            process.receive(into, route)
        })
    }?;
    let found = match active.status() {
        Some(status) => Waited::Done(status),
        None => process.wait(&mut active)?,
    };
    Ok((found, active))
}

/// The general path of `MPI_Irecv`: starts to receive a message that may have come, or one that the fast path leaves. Returns the handle of its request.
///
/// # Safety
/// MPI's contract for a receive.
#[inline(never)]
unsafe fn irecv_general(
    mut inside: Inside,
    (buf, count, datatype): (*mut c_void, i64, Handle),
    route: Route,
) -> Result<Handle> {
    let (process, handles) = inside.parts()?;
    process.check_room_for_request()?;
    // SAFETY: the caller's promise.
    let active = unsafe {
        handles.buffer(buf, count, datatype, true, |into| {
            process.receive(into, route)
        })
    }?;
    process.keep(active)
}

macro_rules! sends {
    ($($blocking:ident, $nonblocking:ident, $persistent:ident, $mode:expr;)*) => {$(
        #[inline(always)]
        pub(crate) unsafe fn $blocking(
            buf: *const c_void,
            count: i64,
            datatype: Handle,
            rank: c_int,
            tag: c_int,
            communicator: Handle,
        ) -> Result<()> {
            let route = Route { rank, tag, communicator };
            // SAFETY: the caller keeps MPI's contract.
            unsafe {
                if send_at_once((buf, count, datatype), route, $mode)? {
                    return Ok(());
                }
                send_waiting((buf, count, datatype), route, $mode)
            }
        }

        #[inline(always)]
        pub(crate) unsafe fn $nonblocking(
            buf: *const c_void,
            count: i64,
            datatype: Handle,
            rank: c_int,
            tag: c_int,
            communicator: Handle,
            request: *mut Handle,
        ) -> Result<()> {
            let route = Route { rank, tag, communicator };
            // SAFETY: the caller keeps MPI's contract.
            unsafe {
                if send_at_once((buf, count, datatype), route, $mode)? {
                    request.write(FINISHED);
                    return Ok(());
                }
                isend_general((buf, count, datatype), route, $mode, request)
            }
        }

        pub(crate) unsafe fn $persistent(
            buf: *const c_void,
            count: i64,
            datatype: Handle,
            rank: c_int,
            tag: c_int,
            communicator: Handle,
            request: *mut Handle,
        ) -> Result<()> {
            let route = Route { rank, tag, communicator };
            // SAFETY: the caller keeps MPI's contract.
            unsafe {
                let handle = with(|process, handles| {
                    let from = handles.owned_buffer(buf, count, datatype, false)?;
                    process.check_destination(route)?;
                    process.plan(Plan::Send { from, route, mode: $mode })
                })?;
                request.write(handle);
            }
            Ok(())
        }
    )*};
}

sends! {
    send, isend, send_init, Mode::Standard;
    bsend, ibsend, bsend_init, Mode::Buffered;
    ssend, issend, ssend_init, Mode::Synchronous;
    rsend, irsend, rsend_init, Mode::Ready;
}

#[inline(always)]
pub(crate) unsafe fn recv(
    buf: *mut c_void,
    count: i64,
    datatype: Handle,
    rank: c_int,
    tag: c_int,
    communicator: Handle,
    status: *mut Status,
) -> Result<()> {
    let route = Route {
        rank,
        tag,
        communicator,
    };
    // SAFETY: the caller keeps MPI's contract.
    unsafe {
        let mut inside = Inside::enter()?;
        let (process, handles) = inside.parts()?;
        let received = match handles.contiguous_buffer(buf, count, datatype, true) {
            Some(memory) => process.receive_alone(&memory, route, !status.is_null()),
            None => Received::NeedsGeneralPath,
        };
        let done = match received {
            Received::Done(done) => {
                drop(inside);
                done
            }
            Received::Waits(active) => {
                drop(inside);
                complete(active)
            }
            Received::NeedsGeneralPath => {
                let looked = recv_general(inside, (buf, count, datatype), route);
                looked.and_then(|(found, active)| match found {
                    Waited::Done(status) => Ok(status),
                    Waited::Call(call) => run(&call).and_then(|()| complete(active)),
                    Waited::NotYet(_) => complete(active),
                })
            }
        };
        settle(done, status)
    }
}

#[inline(always)]
pub(crate) unsafe fn irecv(
    buf: *mut c_void,
    count: i64,
    datatype: Handle,
    rank: c_int,
    tag: c_int,
    communicator: Handle,
    request: *mut Handle,
) -> Result<()> {
    let route = Route {
        rank,
        tag,
        communicator,
    };
    // SAFETY: the caller keeps MPI's contract.
    unsafe {
        let mut inside = Inside::enter()?;
        let (process, handles) = inside.parts()?;
        let memory = handles.contiguous_buffer(buf, count, datatype, true);
        let posted = memory.and_then(|memory| process.receive_with_request(&memory, route));
        let handle = match posted {
            Some(handle) => handle,
            None => irecv_general(inside, (buf, count, datatype), route),
        };
        request.write(handle?);
    }
    Ok(())
}

pub(crate) unsafe fn recv_init(
    buf: *mut c_void,
    count: i64,
    datatype: Handle,
    rank: c_int,
    tag: c_int,
    communicator: Handle,
    request: *mut Handle,
) -> Result<()> {
    let route = Route {
        rank,
        tag,
        communicator,
    };
    // SAFETY: the caller keeps MPI's contract.
    unsafe {
        let handle = with(|process, handles| {
            let into = handles.owned_buffer(buf, count, datatype, true)?;
            process.check_route(route)?;
            process.plan(Plan::Receive { into, route })
        })?;
        request.write(handle);
    }
    Ok(())
}

pub(crate) unsafe fn sendrecv(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    dest: c_int,
    sendtag: c_int,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: Handle,
    source: c_int,
    recvtag: c_int,
    communicator: Handle,
    status: *mut Status,
) -> Result<()> {
    let from = Route {
        rank: source,
        tag: recvtag,
        communicator,
    };
    let to = Route {
        rank: dest,
        tag: sendtag,
        communicator,
    };
    // SAFETY: the caller keeps MPI's contract.
    unsafe {
        let receive = start_receive((recvbuf, recvcount, recvtype), from)?;
        let send = start_send((sendbuf, sendcount, sendtype), to, Mode::Standard);
        let sent = send.and_then(complete);
        if sent.is_err() {
            with(|process, _| {
                process.cancel(&receive);
                Ok(())
            })?;
        }
        let done = complete(receive);
        sent?;
        settle(done, status)?;
    }
    Ok(())
}

pub(crate) unsafe fn sendrecv_replace(
    buf: *mut c_void,
    count: i64,
    datatype: Handle,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    communicator: Handle,
    status: *mut Status,
) -> Result<()> {
    let to = Route {
        rank: dest,
        tag: sendtag,
        communicator,
    };
    let from = Route {
        rank: source,
        tag: recvtag,
        communicator,
    };
    // SAFETY: the caller keeps MPI's contract. What is sent was copied before it is received over.
    unsafe {
        let send = with(|process, handles| {
            handles.buffer(buf, count, datatype, false, |from| {
                process.send_copy(from, to)
            })
        })?;
        let receive = start_receive((buf, count, datatype), from)?;
        let done = complete(receive);
        settle(done, status)?;
        complete(send)?;
    }
    Ok(())
}

pub(crate) unsafe fn isendrecv(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: Handle,
    dest: c_int,
    sendtag: c_int,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: Handle,
    source: c_int,
    recvtag: c_int,
    communicator: Handle,
    request: *mut Handle,
) -> Result<()> {
    let to = Route {
        rank: dest,
        tag: sendtag,
        communicator,
    };
    let from = Route {
        rank: source,
        tag: recvtag,
        communicator,
    };
    // SAFETY: the caller keeps MPI's contract.
    unsafe {
        with(|process, _| {
            process.check_room_for_request()?;
            process.check_route(to)
        })?;
        let receive = start_receive((recvbuf, recvcount, recvtype), from)?;
        let send = start_send((sendbuf, sendcount, sendtype), to, Mode::Standard);
        keep_both(receive, send, request)
    }
}

pub(crate) unsafe fn isendrecv_replace(
    buf: *mut c_void,
    count: i64,
    datatype: Handle,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    communicator: Handle,
    request: *mut Handle,
) -> Result<()> {
    let to = Route {
        rank: dest,
        tag: sendtag,
        communicator,
    };
    let from = Route {
        rank: source,
        tag: recvtag,
        communicator,
    };
    // SAFETY: the caller keeps MPI's contract. What is sent was copied before it is received over.
    unsafe {
        let send = with(|process, handles| {
            process.check_room_for_request()?;
            process.check_route(from)?;
            handles.buffer(buf, count, datatype, false, |from| {
                process.send_copy(from, to)
            })
        })?;
        let receive = start_receive((buf, count, datatype), from)?;
        keep_both(receive, Ok(send), request)
    }
}

/// # Safety
/// The pointer is valid for writes.
unsafe fn keep_both(receive: Active, send: Result<Active>, request: *mut Handle) -> Result<()> {
    // The receive has begun: its memory is the library's until the request is done.
    let send = send.unwrap_or_else(|error| Active::failed(error, receive.communicator()));
    let handle = with(|process, _| process.keep_both(receive, send))?;
    // SAFETY: the caller's promise.
    unsafe { request.write(handle) };
    Ok(())
}

pub(crate) unsafe fn probe(
    rank: c_int,
    tag: c_int,
    communicator: Handle,
    status: *mut Status,
) -> Result<()> {
    let route = Route {
        rank,
        tag,
        communicator,
    };
    let found = wait_for(|process| process.wait_until_ready(|process| process.probe(route)))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { write_status(status, found) };
    Ok(())
}

pub(crate) unsafe fn iprobe(
    rank: c_int,
    tag: c_int,
    communicator: Handle,
    flag: *mut c_int,
    status: *mut Status,
) -> Result<()> {
    let route = Route {
        rank,
        tag,
        communicator,
    };
    let found = at_once(|process| process.probe(route))?;
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        flag.write(found.is_some().into());
        if let Some(found) = found {
            write_status(status, found);
        }
    }
    Ok(())
}

/// The result of `ready` now, after some progress.
pub(crate) fn at_once<T>(
    mut ready: impl FnMut(&mut causeway_mpi::Process) -> Result<Option<T>>,
) -> Result<Option<T>> {
    wait_for(|process| process.look(&mut ready))
}

/// The result of `ready` now, after some progress if there is none before.
pub(crate) fn look_first<T>(
    mut ready: impl FnMut(&mut causeway_mpi::Process) -> Result<Option<T>>,
) -> Result<Option<T>> {
    wait_for(|process| process.look_first(&mut ready))
}

pub(crate) unsafe fn mprobe(
    rank: c_int,
    tag: c_int,
    communicator: Handle,
    message: *mut Handle,
    status: *mut Status,
) -> Result<()> {
    let route = Route {
        rank,
        tag,
        communicator,
    };
    let find = |process: &mut causeway_mpi::Process| -> Result<Waited<_>> {
        process.wait_until_ready(|process| process.take_message(route))
    };
    let (handle, found) = wait_for(find)?;
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        message.write(handle);
        write_status(status, found);
    }
    Ok(())
}

pub(crate) unsafe fn improbe(
    rank: c_int,
    tag: c_int,
    communicator: Handle,
    flag: *mut c_int,
    message: *mut Handle,
    status: *mut Status,
) -> Result<()> {
    let route = Route {
        rank,
        tag,
        communicator,
    };
    let found = at_once(|process| process.take_message(route))?;
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        flag.write(found.is_some().into());
        if let Some((handle, found)) = found {
            message.write(handle);
            write_status(status, found);
        }
    }
    Ok(())
}

/// # Safety
/// MPI's contract for a receive of a message.
unsafe fn start_message(
    (buf, count, datatype): (*mut c_void, i64, Handle),
    message: *mut Handle,
) -> Result<Active> {
    // SAFETY: the caller's promise.
    unsafe {
        let handle = message.read();
        let active = with(|process, handles| {
            handles.buffer(buf, count, datatype, true, |into| {
                process.receive_message(into, handle)
            })
        })?;
        message.write(abi::MESSAGE_NULL);
        Ok(active)
    }
}

pub(crate) unsafe fn mrecv(
    buf: *mut c_void,
    count: i64,
    datatype: Handle,
    message: *mut Handle,
    status: *mut Status,
) -> Result<()> {
    // SAFETY: the caller keeps MPI's contract.
    unsafe {
        let done = complete(start_message((buf, count, datatype), message)?);
        settle(done, status)?;
    }
    Ok(())
}

pub(crate) unsafe fn imrecv(
    buf: *mut c_void,
    count: i64,
    datatype: Handle,
    message: *mut Handle,
    request: *mut Handle,
) -> Result<()> {
    // SAFETY: the caller keeps MPI's contract.
    unsafe {
        with(|process, _| process.check_room_for_request())?;
        keep(start_message((buf, count, datatype), message)?, request)
    }
}
