//! Blocking collective operations in memory that all processes have (`causeway_mpi::node`). Each returns whether it was done: if not, it
//! is to be done by messages.
#![allow(clippy::too_many_arguments, reason = "they are the standard's")]

use std::ffi::c_int;

use causeway_mpi::buffer::in_each_other;
use causeway_mpi::collective::Scan;
use causeway_mpi::datatype::Basic;
use causeway_mpi::error::Result;
use causeway_mpi::node::{self, Operands, Places, Side, Started};
use causeway_mpi::process::Process;

use crate::file::Surface;
use crate::library::{Handles, ProgramBuffer, complete, with};
use crate::types::{Handle, In, Numbers, Out, count_of, is_in_place, too_many};

/// Does an operation on a communicator that `start` begins.
#[inline]
fn run(
    called: &'static str,
    comm: Handle,
    start: impl Fn(&mut Process, &mut Handles<'_>) -> Result<Started>,
) -> Result<bool> {
    loop {
        let started = with(|process, handles| {
            let started = start(process, handles);
            started.or_else(|error| process.refuse_in_area(comm, called, error))
        });
        match started? {
            Started::Done => return Ok(true),
            Started::Active(active) => return complete(active).map(|_| true),
            Started::Partial(active) => {
                complete(active)?;
                return with(|process, _| Ok(!process.is_left_to_messages(comm)));
            }
            Started::Agreeing(active) => return complete(active).map(|_| false),
            Started::ByMessages => return Ok(false),
            Started::Make => node::make_area(&mut Surface(called), comm)?,
        }
    }
}

/// A reduction: operands, place of the result, and operation. A buffer is `None` where the call has none.
#[derive(Clone, Copy)]
struct Reduced {
    from: Option<(In, i64)>,
    into: Option<(Out, i64)>,
    datatype: Handle,
    op: Handle,
}

/// Describes a reduction for `body`.
///
/// # Safety
/// MPI's contract for the buffers of a reduction.
#[inline]
unsafe fn reduced(
    handles: &Handles<'_>,
    of: Reduced,
    body: impl FnOnce(&Operands<'_>) -> Result<Started>,
) -> Result<Started> {
    let is_of_program = handles.operations.find(of.op).is_some();
    // SAFETY: the caller's promise.
    let (from, into) = unsafe {
        let place = |(buffer, count): (In, i64), writable| {
            handles.buffer_of(buffer, count, of.datatype, writable)
        };
        let from = of.from.filter(|(from, _)| !is_in_place(*from));
        let from = from.map(|from| place(from, false)).transpose()?;
        let into = of.into.map(|(into, count)| (into.cast_const(), count));
        (from, into.map(|into| place(into, true)).transpose()?)
    };
    body(&Operands {
        from: from.as_ref().map(ProgramBuffer::buffer),
        into: into.as_ref().map(ProgramBuffer::buffer),
        operation: (!is_of_program).then_some(of.op),
    })
}

pub(crate) unsafe fn barrier(called: &'static str, comm: Handle) -> Result<bool> {
    run(called, comm, |process, _| process.barrier_in_area(comm))
}

pub(crate) unsafe fn bcast(
    called: &'static str,
    buffer: Out,
    count: i64,
    datatype: Handle,
    root: c_int,
    comm: Handle,
) -> Result<bool> {
    run(called, comm, |process, handles| {
        // SAFETY: the caller keeps MPI's contract. The arguments of a root of another group are read by
        // the operation over messages.
        let placed = unsafe {
            if process.communicator(comm)?.remote_group().is_some() {
                return Ok(Started::ByMessages);
            }
            handles.buffer_of(buffer, count, datatype, true)?
        };
        process.broadcast_in_area(&placed.buffer(), root, comm)
    })
}

pub(crate) unsafe fn allreduce(
    called: &'static str,
    from: In,
    into: Out,
    count: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> Result<bool> {
    let of = Reduced {
        from: Some((from, count)),
        into: Some((into, count)),
        datatype,
        op,
    };
    run(called, comm, |process, handles| {
        let start = |of: &Operands<'_>| process.reduce_in_area(of, None, comm);
        // SAFETY: the caller keeps MPI's contract.
        unsafe { reduced(handles, of, start) }
    })
}

pub(crate) unsafe fn reduce(
    called: &'static str,
    from: In,
    into: Out,
    count: i64,
    datatype: Handle,
    op: Handle,
    root: c_int,
    comm: Handle,
) -> Result<bool> {
    run(called, comm, |process, handles| {
        let communicator = process.communicator(comm)?;
        if communicator.remote_group().is_some() {
            return Ok(Started::ByMessages);
        }
        let is_root = i64::from(root) == i64::from(communicator.rank());
        let of = Reduced {
            from: Some((from, count)),
            into: is_root.then_some((into, count)),
            datatype,
            op,
        };
        let start = |of: &Operands<'_>| process.reduce_in_area(of, Some(root), comm);
        // SAFETY: the caller keeps MPI's contract.
        unsafe { reduced(handles, of, start) }
    })
}

/// Where the operands of a reduce-scatter are, whose result has so many elements here.
pub(crate) fn operands_of_parts((from, into): (In, Out), own: i64) -> Result<In> {
    match is_in_place(from) {
        true => Ok(into.cast_const()),
        false if from == into.cast_const() && own > 0 => Err(in_each_other()),
        false => Ok(from),
    }
}

/// # Safety
/// MPI's contract for a reduce-scatter.
unsafe fn reduce_parts(
    process: &mut Process,
    handles: &Handles<'_>,
    (from, into): (In, Out),
    counts: &[i64],
    (datatype, op): (Handle, Handle),
    comm: Handle,
) -> Result<Started> {
    let rank = process.communicator(comm)?.rank() as usize;
    let parts = counts.iter().map(|count| count_of(*count));
    let parts = parts.collect::<Result<Vec<_>>>()?;
    let total = (counts.iter()).try_fold(0i64, |sum, count| sum.checked_add(*count));
    let from = operands_of_parts((from, into), counts[rank])?;
    let of = Reduced {
        from: Some((from, total.ok_or_else(too_many)?)),
        into: Some((into, counts[rank])),
        datatype,
        op,
    };
    let start = |of: &Operands<'_>| process.reduce_scatter_in_area(of, &parts, comm);
    // SAFETY: the caller's promise.
    unsafe { reduced(handles, of, start) }
}

pub(crate) unsafe fn reduce_scatter(
    called: &'static str,
    from: In,
    into: Out,
    recvcounts: Numbers,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> Result<bool> {
    run(called, comm, |process, handles| {
        let many = process.communicator(comm)?.size() as usize;
        // SAFETY: the caller keeps MPI's contract.
        unsafe {
            let counts = recvcounts.read(many, "recvcounts")?;
            reduce_parts(
                process,
                handles,
                (from, into),
                &counts,
                (datatype, op),
                comm,
            )
        }
    })
}

pub(crate) unsafe fn reduce_scatter_block(
    called: &'static str,
    from: In,
    into: Out,
    recvcount: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> Result<bool> {
    run(called, comm, |process, handles| {
        let counts = vec![recvcount; process.communicator(comm)?.size() as usize];
        // SAFETY: the caller keeps MPI's contract.
        unsafe {
            reduce_parts(
                process,
                handles,
                (from, into),
                &counts,
                (datatype, op),
                comm,
            )
        }
    })
}

/// The blocks of an operation, `many` for each process, as elements of one buffer.
///
/// # Safety
/// MPI's contract for the buffer of a collective operation.
#[inline]
unsafe fn blocks<'a>(
    handles: &'a Handles<'_>,
    (buffer, count, datatype): (In, i64, Handle),
    many: u32,
    writable: bool,
) -> Result<ProgramBuffer<'a>> {
    let all = count.checked_mul(i64::from(many));
    // SAFETY: the caller's promise.
    unsafe { handles.buffer_of(buffer, all.ok_or_else(too_many)?, datatype, writable) }
}

/// Exchanges that `$start` begins: each process sends a block, the same to all or one to each, and receives one from each.
macro_rules! exchanges {
    ($($name:ident, $start:ident, |$size:ident| $sent:expr;)*) => {$(
        pub(crate) unsafe fn $name(
            called: &'static str,
            sendbuf: In,
            sendcount: i64,
            sendtype: Handle,
            recvbuf: Out,
            recvcount: i64,
            recvtype: Handle,
            comm: Handle,
        ) -> Result<bool> {
            run(called, comm, |process, handles| {
                let communicator = process.communicator(comm)?;
                if communicator.remote_group().is_some() {
                    return Ok(Started::ByMessages);
                }
                let $size = communicator.size();
                let sent = (sendbuf, sendcount, sendtype);
                let received = (recvbuf.cast_const(), recvcount, recvtype);
                // SAFETY: the caller keeps MPI's contract.
                let (from, into) = unsafe {
                    let into = blocks(handles, received, $size, true)?;
                    let from = (!is_in_place(sendbuf)).then(|| blocks(handles, sent, $sent, false));
                    (from.transpose()?, into)
                };
                let from = from.as_ref().map(ProgramBuffer::buffer);
                process.$start(from.as_ref(), &into.buffer(), comm)
            })
        }
    )*};
}

exchanges! {
    allgather, allgather_in_area, |size| 1;
    alltoall, alltoall_in_area, |size| size;
}

/// Blocks of these counts, at these displacements.
#[derive(Clone, Copy)]
struct Uneven {
    buffer: In,
    counts: Numbers,
    displacements: Numbers,
    datatype: Handle,
}

/// The blocks of all processes; `receives` if they are received into.
///
/// # Safety
/// MPI's contract for the buffer of a collective operation, and there are as many counts and displacements.
unsafe fn side(handles: &Handles<'_>, of: Uneven, many: u32, receives: bool) -> Result<Side> {
    let Uneven {
        buffer, datatype, ..
    } = of;
    let many = many as usize;
    of.counts.check(many, "the counts")?;
    of.displacements.check(many, "the displacements")?;
    // SAFETY: the caller's promise, for all of the below.
    unsafe {
        let offset = |at: usize, step: i64| {
            let offset = of.displacements.get(at).checked_mul(step);
            offset.ok_or_else(too_many)
        };
        let unit = match handles.unit(datatype) {
            0 => {
                let described = handles.datatype(datatype)?;
                let step = described.extent();
                if !described.is_contiguous() {
                    let each = (0..many).map(|at| {
                        let base = buffer.wrapping_byte_offset(offset(at, step)? as isize);
                        handles.owned_buffer(base, of.counts.get(at), datatype, receives)
                    });
                    return Side::with_gaps(each.collect::<Result<_>>()?, receives);
                }
                // Of no elements: whether the datatype may be used.
                handles.buffer_of(buffer, 0, datatype, receives)?;
                described.size()
            }
            unit => unit,
        };
        let step = i64::try_from(unit).map_err(|_| too_many())?;
        let mut places = Places::with_capacity(many);
        let (mut start, mut end) = (i64::MAX, i64::MIN);
        for at in 0..many {
            let len = count_of(of.counts.get(at))?.checked_mul(unit);
            let len = len.and_then(|len| i64::try_from(len).ok());
            let first = offset(at, step)?;
            let last = len.and_then(|len| first.checked_add(len));
            let last = last.ok_or_else(too_many)?;
            if first < last {
                (start, end) = (start.min(first), end.max(last));
            }
            places.push(first as usize..last as usize);
        }
        let (start, end) = if start < end { (start, end) } else { (0, 0) };
        let hull = end.checked_sub(start).ok_or_else(too_many)?;
        let base = buffer.wrapping_byte_offset(start as isize);
        let memory = handles.buffer_of(base, hull, Basic::Byte.handle(), receives)?;
        let memory = memory.buffer().memory.clone();
        for place in &mut places {
            *place = match place.start == place.end {
                true => 0..0,
                // Both lie at or behind the start, also where that is in front of the buffer.
                false => {
                    place.start.wrapping_sub(start as usize)..place.end.wrapping_sub(start as usize)
                }
            };
        }
        Ok(Side::at(memory, places))
    }
}

/// Does an operation that `start` begins, if all processes do this kind in memory that all have.
#[inline]
fn run_newer(
    called: &'static str,
    comm: Handle,
    start: impl Fn(&mut Process, &mut Handles<'_>) -> Result<Started>,
) -> Result<bool> {
    run(called, comm, |process, handles| {
        match process.may_be_in_area(comm)? {
            true => start(process, handles),
            false => Ok(Started::ByMessages),
        }
    })
}

/// What a process has in an operation with a root.
struct Rooted {
    is_root: bool,
    ranks: u32,
}

/// Does an operation with a root that `start` begins, if it may be done in memory that all have.
#[inline]
fn run_rooted(
    called: &'static str,
    (root, comm): (c_int, Handle),
    start: impl Fn(&mut Process, &Handles<'_>, Rooted) -> Result<Started>,
) -> Result<bool> {
    run_newer(called, comm, |process, handles| {
        let communicator = process.communicator(comm)?;
        let of = Rooted {
            is_root: i64::from(root) == i64::from(communicator.rank()),
            ranks: communicator.size(),
        };
        start(process, handles, of)
    })
}

pub(crate) unsafe fn gather(
    called: &'static str,
    sendbuf: In,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: Out,
    recvcount: i64,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
) -> Result<bool> {
    run_rooted(called, (root, comm), |process, handles, of| {
        let has_own = !of.is_root || !is_in_place(sendbuf);
        let received = (recvbuf.cast_const(), recvcount, recvtype);
        // SAFETY: the caller keeps MPI's contract. What only the root has is looked at there only.
        let (from, into) = unsafe {
            let from = has_own.then(|| handles.buffer_of(sendbuf, sendcount, sendtype, false));
            let into = (of.is_root).then(|| blocks(handles, received, of.ranks, true));
            (from.transpose()?, into.transpose()?)
        };
        let from = from.as_ref().map(ProgramBuffer::buffer);
        let into = into.as_ref().map(ProgramBuffer::buffer);
        process.gather_in_area(from.as_ref(), into.as_ref(), root, comm)
    })
}

pub(crate) unsafe fn gatherv(
    called: &'static str,
    sendbuf: In,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: Out,
    recvcounts: Numbers,
    displs: Numbers,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
) -> Result<bool> {
    let received = Uneven {
        buffer: recvbuf.cast_const(),
        counts: recvcounts,
        displacements: displs,
        datatype: recvtype,
    };
    run_rooted(called, (root, comm), |process, handles, of| {
        let has_own = !of.is_root || !is_in_place(sendbuf);
        // SAFETY: as for a gather.
        let (from, into) = unsafe {
            let from = has_own.then(|| handles.buffer_of(sendbuf, sendcount, sendtype, false));
            let into = (of.is_root).then(|| side(handles, received, of.ranks, true));
            (from.transpose()?, into.transpose()?)
        };
        let from = from.as_ref().map(ProgramBuffer::buffer);
        process.gatherv_in_area(from.as_ref(), into, root, comm)
    })
}

pub(crate) unsafe fn scatter(
    called: &'static str,
    sendbuf: In,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: Out,
    recvcount: i64,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
) -> Result<bool> {
    run_rooted(called, (root, comm), |process, handles, of| {
        let has_own = !of.is_root || !is_in_place(recvbuf);
        let (sent, into) = ((sendbuf, sendcount, sendtype), recvbuf.cast_const());
        // SAFETY: as for a gather.
        let (from, into) = unsafe {
            let from = (of.is_root).then(|| blocks(handles, sent, of.ranks, false));
            let into = has_own.then(|| handles.buffer_of(into, recvcount, recvtype, true));
            (from.transpose()?, into.transpose()?)
        };
        let from = from.as_ref().map(ProgramBuffer::buffer);
        let into = into.as_ref().map(ProgramBuffer::buffer);
        process.scatter_in_area(from.as_ref(), into.as_ref(), root, comm)
    })
}

pub(crate) unsafe fn scatterv(
    called: &'static str,
    sendbuf: In,
    sendcounts: Numbers,
    displs: Numbers,
    sendtype: Handle,
    recvbuf: Out,
    recvcount: i64,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
) -> Result<bool> {
    let sent = Uneven {
        buffer: sendbuf,
        counts: sendcounts,
        displacements: displs,
        datatype: sendtype,
    };
    run_rooted(called, (root, comm), |process, handles, of| {
        let has_own = !of.is_root || !is_in_place(recvbuf);
        let into = recvbuf.cast_const();
        // SAFETY: as for a gather.
        let (from, into) = unsafe {
            let from = (of.is_root).then(|| side(handles, sent, of.ranks, false));
            let into = has_own.then(|| handles.buffer_of(into, recvcount, recvtype, true));
            (from.transpose()?, into.transpose()?)
        };
        let into = into.as_ref().map(ProgramBuffer::buffer);
        process.scatterv_in_area(from, into.as_ref(), root, comm)
    })
}

pub(crate) unsafe fn allgatherv(
    called: &'static str,
    sendbuf: In,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: Out,
    recvcounts: Numbers,
    displs: Numbers,
    recvtype: Handle,
    comm: Handle,
) -> Result<bool> {
    let received = Uneven {
        buffer: recvbuf.cast_const(),
        counts: recvcounts,
        displacements: displs,
        datatype: recvtype,
    };
    run_newer(called, comm, |process, handles| {
        let ranks = process.communicator(comm)?.size();
        let has_own = !is_in_place(sendbuf);
        // SAFETY: the caller keeps MPI's contract.
        let (from, into) = unsafe {
            let from = has_own.then(|| handles.buffer_of(sendbuf, sendcount, sendtype, false));
            (from.transpose()?, side(handles, received, ranks, true)?)
        };
        let from = from.as_ref().map(ProgramBuffer::buffer);
        process.allgatherv_in_area(from.as_ref(), into, comm)
    })
}

pub(crate) unsafe fn alltoallv(
    called: &'static str,
    sendbuf: In,
    sendcounts: Numbers,
    sdispls: Numbers,
    sendtype: Handle,
    recvbuf: Out,
    recvcounts: Numbers,
    rdispls: Numbers,
    recvtype: Handle,
    comm: Handle,
) -> Result<bool> {
    let sent = Uneven {
        buffer: sendbuf,
        counts: sendcounts,
        displacements: sdispls,
        datatype: sendtype,
    };
    let received = Uneven {
        buffer: recvbuf.cast_const(),
        counts: recvcounts,
        displacements: rdispls,
        datatype: recvtype,
    };
    run_newer(called, comm, |process, handles| {
        let ranks = process.communicator(comm)?.size();
        // SAFETY: the caller keeps MPI's contract.
        let (from, into) = unsafe {
            let from = (!is_in_place(sendbuf)).then(|| side(handles, sent, ranks, false));
            (from.transpose()?, side(handles, received, ranks, true)?)
        };
        process.alltoallv_in_area(from, into, comm)
    })
}

/// Scans of one kind.
macro_rules! scans {
    ($($name:ident, $kind:expr;)*) => {$(
        pub(crate) unsafe fn $name(
            called: &'static str,
            from: In,
            into: Out,
            count: i64,
            datatype: Handle,
            op: Handle,
            comm: Handle,
        ) -> Result<bool> {
            let of = Reduced {
                from: Some((from, count)),
                into: Some((into, count)),
                datatype,
                op,
            };
            run_newer(called, comm, |process, handles| {
                let start = |of: &Operands<'_>| process.scan_in_area(of, $kind, comm);
                // SAFETY: the caller keeps MPI's contract.
                unsafe { reduced(handles, of, start) }
            })
        }
    )*};
}

scans! {
    scan, Scan::Inclusive;
    exscan, Scan::Exclusive;
}
