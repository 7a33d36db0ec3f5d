//! Collective operations (MPI 5.0 chapter 6), each in its blocking, its nonblocking and its persistent form.
#![allow(clippy::too_many_arguments, reason = "they are the standard's")]

use std::ffi::{c_int, c_void};

use causeway_mpi::abi;
use causeway_mpi::collective::{Blocks, Reduction, Scan};
use causeway_mpi::error::{Error, Result};
use causeway_mpi::process::Process;
use causeway_mpi::steps::Steps;

use crate::library::{Handles, complete, with};
use crate::node;
use crate::types::{Handle, In, Numbers, Out, array, is_in_place, too_many};

/// Blocks of elements, as calls describe them.
#[derive(Clone, Copy)]
pub(crate) enum Layout {
    /// So many, equally long, one behind the other.
    Even(i64, Handle),
    /// Of these counts, at these displacements.
    Uneven(Numbers, Numbers, Handle),
    /// The same, displacements in bytes, each of a datatype of its own.
    Each(Numbers, Numbers, *const Handle),
}

/// # Safety
/// MPI's contract for the buffer of a collective operation.
pub(crate) unsafe fn blocks(
    handles: &Handles<'_>,
    buffer: *const c_void,
    layout: Layout,
    many: u32,
    writable: bool,
) -> Result<Blocks> {
    let number = many as usize;
    // SAFETY: the caller's promise, for all of the below.
    unsafe {
        let part = |bytes: i64, count, datatype| {
            let base = buffer.wrapping_byte_offset(bytes as isize);
            handles.owned_buffer(base, count, datatype, writable)
        };
        match layout {
            Layout::Even(count, handle) => {
                let datatype = handles.datatype(handle)?;
                let step = datatype.extent();
                if datatype.is_contiguous() {
                    let all = count.checked_mul(i64::from(many)).ok_or_else(too_many)?;
                    let memory = handles.owned_buffer(buffer, all, handle, writable)?.memory;
                    return Ok(Blocks::Even {
                        memory,
                        blocks: many,
                        datatype: Some(datatype.clone()),
                    });
                }
                let at = |block: i64| block.checked_mul(count)?.checked_mul(step);
                let each = (0..i64::from(many))
                    .map(|block| part(at(block).ok_or_else(too_many)?, count, handle));
                each.collect::<Result<_>>().map(Blocks::Each)
            }
            Layout::Uneven(counts, displacements, handle) => {
                let counts = counts.read(number, "the counts")?;
                let displacements = displacements.read(number, "the displacements")?;
                let step = handles.datatype(handle)?.extent();
                let each = counts
                    .iter()
                    .zip(displacements)
                    .map(|(count, displacement)| {
                        let bytes = displacement.checked_mul(step).ok_or_else(too_many)?;
                        part(bytes, *count, handle)
                    });
                each.collect::<Result<_>>().map(Blocks::Each)
            }
            Layout::Each(counts, displacements, datatypes) => {
                let counts = counts.read(number, "the counts")?;
                let displacements = displacements.read(number, "the displacements")?;
                let datatypes = array(datatypes, number, "the datatypes")?;
                let each = counts.iter().zip(displacements).zip(datatypes);
                each.map(|((count, displacement), handle)| part(displacement, *count, *handle))
                    .collect::<Result<_>>()
                    .map(Blocks::Each)
            }
        }
    }
}

/// How many blocks an operation has: one for each process of the group that is sent to and received from.
fn blocks_of(process: &Process, comm: Handle) -> Result<u32> {
    let communicator = process.communicator(comm)?;
    let remote = communicator.remote_group().map(|group| group.size());
    Ok(remote.unwrap_or(communicator.size()))
}

/// What a process does in an operation with a root.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It is the root, and has data like the others as well.
    Root,
    /// It is the root of an operation of the other group.
    RemoteRoot,
    /// It is one of those that the root sends to or receives from.
    Other,
    /// It takes no part: the communicator is an inter-communicator, and the root is in the
    /// process's own group.
    None,
}

impl Role {
    fn of(process: &Process, root: c_int, comm: Handle) -> Result<Self> {
        let communicator = process.communicator(comm)?;
        let is_inter = communicator.remote_group().is_some();
        Ok(match root {
            abi::ROOT if is_inter => Self::RemoteRoot,
            abi::PROC_NULL if is_inter => Self::None,
            root if !is_inter && i64::from(root) == i64::from(communicator.rank()) => Self::Root,
            _ => Self::Other,
        })
    }

    fn is_root(self) -> bool {
        matches!(self, Self::Root | Self::RemoteRoot)
    }

    /// Whether it has a block of its own to send or to receive, if that is not in its place already.
    fn has_own(self, is_in_place: bool) -> bool {
        self == Self::Other || (self == Self::Root && !is_in_place)
    }
}

/// The last of several names: the communicator of an operation.
macro_rules! last {
    ($one:ident) => { $one };
    ($first:ident, $($others:ident),+) => { $crate::collective::last!($($others),+) };
}
pub(crate) use last;

/// Has the other processes notified that an operation is not begun here, because of this error. Returns the error.
#[cold]
pub(crate) fn refused(comm: Handle, called: &'static str, error: Error) -> Error {
    let refused = with(|process, _| Ok(process.refuse_collective(comm, called, error.clone())));
    refused.unwrap_or(error)
}

/// Likewise for a persistent operation.
#[cold]
pub(crate) fn refused_persistent(comm: Handle, called: &'static str, error: Error) -> Error {
    let refused = with(|process, _| Ok(process.refuse_persistent(comm, called, error.clone())));
    refused.unwrap_or(error)
}

/// Defines operations' nonblocking and persistent forms by their steps.
macro_rules! later_forms {
    ($called:literal $icalled:literal $nonblocking:ident, $persistent:ident, $steps:ident($($name:ident: $ty:ty),*)) => {
        pub(crate) unsafe fn $nonblocking($($name: $ty,)* request: *mut Handle) -> Result<()> {
            // SAFETY: the caller keeps MPI's contract.
            unsafe {
                let steps = $steps($($name),*)
                    .map_err(|error| $crate::collective::refused($crate::collective::last!($($name),*), $icalled, error))?;
                let handle = $crate::library::with(|process, _| {
                    let comm = $crate::collective::last!($($name),*);
                    process
                        .check_room_for_request()
                        .map_err(|error| process.refuse_collective(comm, $icalled, error))?;
                    let active = process.begin_call(steps.called($icalled))?;
                    process.keep(active)
                })?;
                request.write(handle);
            }
            Ok(())
        }

        pub(crate) unsafe fn $persistent($($name: $ty,)* _info: Handle, request: *mut Handle) -> Result<()> {
            // SAFETY: the caller keeps MPI's contract.
            unsafe {
                let steps = $steps($($name),*)
                    .map_err(|error| $crate::collective::refused_persistent($crate::collective::last!($($name),*), concat!($called, "_init"), error))?;
                let name = concat!($called, "_init");
                let comm = $crate::collective::last!($($name),*);
                let handle = $crate::library::with(|process, _| {
                    process
                        .check_room_for_request()
                        .map_err(|error| process.refuse_persistent(comm, name, error))?;
                    process.plan_steps(steps.called(name))
                })?;
                request.write(handle);
            }
            Ok(())
        }
    };
}
pub(crate) use later_forms;

/// Defines operations' blocking, nonblocking and persistent forms by their steps.
macro_rules! forms {
    ($($called:literal $icalled:literal $blocking:ident, $nonblocking:ident, $persistent:ident, $steps:ident($($name:ident: $ty:ty),*);)*) => {$(
        pub(crate) unsafe fn $blocking($($name: $ty),*) -> Result<()> {
            // SAFETY: the caller keeps MPI's contract.
            let steps = unsafe { $steps($($name),*) }
                .map_err(|error| $crate::collective::refused($crate::collective::last!($($name),*), $called, error))?;
            let active = $crate::library::with(|process, _| process.begin_call(steps.called($called)))?;
            $crate::library::complete(active).map(drop)
        }

        $crate::collective::later_forms! { $called $icalled $nonblocking, $persistent, $steps($($name: $ty),*) }
    )*};
}
pub(crate) use forms;

/// The same for operations that are done in memory that all processes have mapped, where possible.
macro_rules! forms_in_areas {
    ($($called:literal $icalled:literal $blocking:ident, $nonblocking:ident, $persistent:ident, $steps:ident($($name:ident: $ty:ty),*);)*) => {$(
        pub(crate) unsafe fn $blocking($($name: $ty),*) -> Result<()> {
            // SAFETY: the caller keeps MPI's contract.
            unsafe {
                if node::$blocking($called, $($name),*)? {
                    return Ok(());
                }
                let steps = $steps($($name),*)
                    .map_err(|error| $crate::collective::refused($crate::collective::last!($($name),*), $called, error))?;
                let active = with(|process, _| process.begin_call(steps.called($called)))?;
                complete(active).map(drop)
            }
        }

        later_forms! { $called $icalled $nonblocking, $persistent, $steps($($name: $ty),*) }
    )*};
}

forms_in_areas! {
    "MPI_Barrier" "MPI_Ibarrier" barrier, ibarrier, barrier_init, start_barrier(comm: Handle);
    "MPI_Bcast" "MPI_Ibcast" bcast, ibcast, bcast_init, start_bcast(buffer: Out, count: i64, datatype: Handle, root: c_int, comm: Handle);
    "MPI_Allgather" "MPI_Iallgather" allgather, iallgather, allgather_init, start_allgather(sendbuf: In, sendcount: i64, sendtype: Handle, recvbuf: Out,
        recvcount: i64, recvtype: Handle, comm: Handle);
    "MPI_Alltoall" "MPI_Ialltoall" alltoall, ialltoall, alltoall_init, start_alltoall(sendbuf: In, sendcount: i64, sendtype: Handle, recvbuf: Out,
        recvcount: i64, recvtype: Handle, comm: Handle);
    "MPI_Allreduce" "MPI_Iallreduce" allreduce, iallreduce, allreduce_init, start_allreduce(sendbuf: In, recvbuf: Out, count: i64, datatype: Handle, op: Handle,
        comm: Handle);
    "MPI_Reduce" "MPI_Ireduce" reduce, ireduce, reduce_init, start_reduce(sendbuf: In, recvbuf: Out, count: i64, datatype: Handle, op: Handle, root: c_int,
        comm: Handle);
    "MPI_Reduce_scatter" "MPI_Ireduce_scatter" reduce_scatter, ireduce_scatter, reduce_scatter_init, start_reduce_scatter(sendbuf: In, recvbuf: Out, recvcounts: Numbers,
        datatype: Handle, op: Handle, comm: Handle);
    "MPI_Reduce_scatter_block" "MPI_Ireduce_scatter_block" reduce_scatter_block, ireduce_scatter_block, reduce_scatter_block_init, start_reduce_scatter_block(sendbuf: In, recvbuf: Out,
        recvcount: i64, datatype: Handle, op: Handle, comm: Handle);
}

forms_in_areas! {
    "MPI_Gather" "MPI_Igather" gather, igather, gather_init, start_gather(sendbuf: In, sendcount: i64, sendtype: Handle, recvbuf: Out, recvcount: i64,
        recvtype: Handle, root: c_int, comm: Handle);
    "MPI_Gatherv" "MPI_Igatherv" gatherv, igatherv, gatherv_init, start_gatherv(sendbuf: In, sendcount: i64, sendtype: Handle, recvbuf: Out,
        recvcounts: Numbers, displs: Numbers, recvtype: Handle, root: c_int, comm: Handle);
    "MPI_Scatter" "MPI_Iscatter" scatter, iscatter, scatter_init, start_scatter(sendbuf: In, sendcount: i64, sendtype: Handle, recvbuf: Out, recvcount: i64,
        recvtype: Handle, root: c_int, comm: Handle);
    "MPI_Scatterv" "MPI_Iscatterv" scatterv, iscatterv, scatterv_init, start_scatterv(sendbuf: In, sendcounts: Numbers, displs: Numbers, sendtype: Handle,
        recvbuf: Out, recvcount: i64, recvtype: Handle, root: c_int, comm: Handle);
    "MPI_Allgatherv" "MPI_Iallgatherv" allgatherv, iallgatherv, allgatherv_init, start_allgatherv(sendbuf: In, sendcount: i64, sendtype: Handle, recvbuf: Out,
        recvcounts: Numbers, displs: Numbers, recvtype: Handle, comm: Handle);
    "MPI_Alltoallv" "MPI_Ialltoallv" alltoallv, ialltoallv, alltoallv_init, start_alltoallv(sendbuf: In, sendcounts: Numbers, sdispls: Numbers, sendtype: Handle,
        recvbuf: Out, recvcounts: Numbers, rdispls: Numbers, recvtype: Handle, comm: Handle);
    "MPI_Scan" "MPI_Iscan" scan, iscan, scan_init, start_scan(sendbuf: In, recvbuf: Out, count: i64, datatype: Handle, op: Handle, comm: Handle);
    "MPI_Exscan" "MPI_Iexscan" exscan, iexscan, exscan_init, start_exscan(sendbuf: In, recvbuf: Out, count: i64, datatype: Handle, op: Handle,
        comm: Handle);
}

forms! {
    "MPI_Alltoallw" "MPI_Ialltoallw" alltoallw, ialltoallw, alltoallw_init, start_alltoallw(sendbuf: In, sendcounts: Numbers, sdispls: Numbers,
        sendtypes: *const Handle, recvbuf: Out, recvcounts: Numbers, rdispls: Numbers, recvtypes: *const Handle,
        comm: Handle);
}

unsafe fn start_barrier(comm: Handle) -> Result<Steps> {
    with(|process, _| process.barrier(comm))
}

unsafe fn start_bcast(
    buffer: Out,
    count: i64,
    datatype: Handle,
    root: c_int,
    comm: Handle,
) -> Result<Steps> {
    with(|process, handles| {
        if Role::of(process, root, comm)? == Role::None {
            return process.nothing(comm);
        }
        let start =
            |buffer: causeway_mpi::buffer::Buffer<'_>| process.broadcast(buffer, root, comm);
        // SAFETY: the caller keeps MPI's contract.
        unsafe { handles.buffer(buffer, count, datatype, true, start) }
    })
}

/// # Safety
/// MPI's contract for a gather.
unsafe fn start_gather_of(
    (sendbuf, sendcount, sendtype): (In, i64, Handle),
    (recvbuf, layout): (Out, Layout),
    root: c_int,
    comm: Handle,
) -> Result<Steps> {
    with(|process, handles| {
        let (many, role) = (blocks_of(process, comm)?, Role::of(process, root, comm)?);
        // SAFETY: the caller's promise. What only the root has is looked at there only.
        unsafe {
            let own = Layout::Even(sendcount, sendtype);
            let from = role.has_own(is_in_place(sendbuf));
            let from = from.then(|| blocks(handles, sendbuf, own, 1, false));
            let into = role.is_root();
            let into = into.then(|| blocks(handles, recvbuf, layout, many, true));
            let (from, into) = (from.transpose()?, into.transpose()?);
            process.gather(from.as_ref(), into.as_ref(), root, comm)
        }
    })
}

unsafe fn start_gather(
    sendbuf: In,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: Out,
    recvcount: i64,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
) -> Result<Steps> {
    let layout = Layout::Even(recvcount, recvtype);
    // SAFETY: the caller keeps MPI's contract.
    unsafe {
        start_gather_of(
            (sendbuf, sendcount, sendtype),
            (recvbuf, layout),
            root,
            comm,
        )
    }
}

unsafe fn start_gatherv(
    sendbuf: In,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: Out,
    recvcounts: Numbers,
    displs: Numbers,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
) -> Result<Steps> {
    let layout = Layout::Uneven(recvcounts, displs, recvtype);
    // SAFETY: the caller keeps MPI's contract.
    unsafe {
        start_gather_of(
            (sendbuf, sendcount, sendtype),
            (recvbuf, layout),
            root,
            comm,
        )
    }
}

/// # Safety
/// MPI's contract for a scatter.
unsafe fn start_scatter_of(
    (sendbuf, layout): (In, Layout),
    (recvbuf, recvcount, recvtype): (Out, i64, Handle),
    root: c_int,
    comm: Handle,
) -> Result<Steps> {
    with(|process, handles| {
        let (many, role) = (blocks_of(process, comm)?, Role::of(process, root, comm)?);
        // SAFETY: the caller's promise. What only the root has is looked at there only.
        unsafe {
            let from = role.is_root();
            let from = from.then(|| blocks(handles, sendbuf, layout, many, false));
            let own = Layout::Even(recvcount, recvtype);
            let into = role.has_own(is_in_place(recvbuf));
            let into = into.then(|| blocks(handles, recvbuf, own, 1, true));
            let (from, into) = (from.transpose()?, into.transpose()?);
            process.scatter(from.as_ref(), into.as_ref(), root, comm)
        }
    })
}

unsafe fn start_scatter(
    sendbuf: In,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: Out,
    recvcount: i64,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
) -> Result<Steps> {
    let layout = Layout::Even(sendcount, sendtype);
    // SAFETY: the caller keeps MPI's contract.
    unsafe {
        start_scatter_of(
            (sendbuf, layout),
            (recvbuf, recvcount, recvtype),
            root,
            comm,
        )
    }
}

unsafe fn start_scatterv(
    sendbuf: In,
    sendcounts: Numbers,
    displs: Numbers,
    sendtype: Handle,
    recvbuf: Out,
    recvcount: i64,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
) -> Result<Steps> {
    let layout = Layout::Uneven(sendcounts, displs, sendtype);
    // SAFETY: the caller keeps MPI's contract.
    unsafe {
        start_scatter_of(
            (sendbuf, layout),
            (recvbuf, recvcount, recvtype),
            root,
            comm,
        )
    }
}

/// # Safety
/// MPI's contract for an allgather.
unsafe fn start_allgather_of(
    (sendbuf, sendcount, sendtype): (In, i64, Handle),
    (recvbuf, layout): (Out, Layout),
    comm: Handle,
) -> Result<Steps> {
    with(|process, handles| {
        let many = blocks_of(process, comm)?;
        // SAFETY: the caller's promise.
        unsafe {
            let from = match is_in_place(sendbuf) {
                true => None,
                false => Some(blocks(
                    handles,
                    sendbuf,
                    Layout::Even(sendcount, sendtype),
                    1,
                    false,
                )?),
            };
            let into = blocks(handles, recvbuf, layout, many, true)?;
            process.allgather(from.as_ref(), &into, comm)
        }
    })
}

unsafe fn start_allgather(
    sendbuf: In,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: Out,
    recvcount: i64,
    recvtype: Handle,
    comm: Handle,
) -> Result<Steps> {
    let layout = Layout::Even(recvcount, recvtype);
    // SAFETY: the caller keeps MPI's contract.
    let steps =
        unsafe { start_allgather_of((sendbuf, sendcount, sendtype), (recvbuf, layout), comm) };
    steps.map(Steps::exact)
}

unsafe fn start_allgatherv(
    sendbuf: In,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: Out,
    recvcounts: Numbers,
    displs: Numbers,
    recvtype: Handle,
    comm: Handle,
) -> Result<Steps> {
    let layout = Layout::Uneven(recvcounts, displs, recvtype);
    // SAFETY: the caller keeps MPI's contract.
    unsafe { start_allgather_of((sendbuf, sendcount, sendtype), (recvbuf, layout), comm) }
}

/// # Safety
/// MPI's contract for an alltoall.
unsafe fn start_alltoall_of(
    (sendbuf, from): (In, Layout),
    (recvbuf, into): (Out, Layout),
    comm: Handle,
) -> Result<Steps> {
    with(|process, handles| {
        let many = blocks_of(process, comm)?;
        // SAFETY: the caller's promise.
        unsafe {
            let from = match is_in_place(sendbuf) {
                true => None,
                false => Some(blocks(handles, sendbuf, from, many, false)?),
            };
            let into = blocks(handles, recvbuf, into, many, true)?;
            process.alltoall(from.as_ref(), &into, comm)
        }
    })
}

unsafe fn start_alltoall(
    sendbuf: In,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: Out,
    recvcount: i64,
    recvtype: Handle,
    comm: Handle,
) -> Result<Steps> {
    let (from, into) = (
        Layout::Even(sendcount, sendtype),
        Layout::Even(recvcount, recvtype),
    );
    // SAFETY: the caller keeps MPI's contract.
    let steps = unsafe { start_alltoall_of((sendbuf, from), (recvbuf, into), comm) };
    steps.map(Steps::exact)
}

unsafe fn start_alltoallv(
    sendbuf: In,
    sendcounts: Numbers,
    sdispls: Numbers,
    sendtype: Handle,
    recvbuf: Out,
    recvcounts: Numbers,
    rdispls: Numbers,
    recvtype: Handle,
    comm: Handle,
) -> Result<Steps> {
    let from = Layout::Uneven(sendcounts, sdispls, sendtype);
    let into = Layout::Uneven(recvcounts, rdispls, recvtype);
    // SAFETY: the caller keeps MPI's contract.
    unsafe { start_alltoall_of((sendbuf, from), (recvbuf, into), comm) }
}

unsafe fn start_alltoallw(
    sendbuf: In,
    sendcounts: Numbers,
    sdispls: Numbers,
    sendtypes: *const Handle,
    recvbuf: Out,
    recvcounts: Numbers,
    rdispls: Numbers,
    recvtypes: *const Handle,
    comm: Handle,
) -> Result<Steps> {
    let from = Layout::Each(sendcounts, sdispls, sendtypes);
    let into = Layout::Each(recvcounts, rdispls, recvtypes);
    // SAFETY: the caller keeps MPI's contract.
    unsafe { start_alltoall_of((sendbuf, from), (recvbuf, into), comm) }
}

/// The buffers of a reduction.
#[derive(Clone, Copy)]
struct Operands {
    /// The operands here, if there are any.
    from: Option<In>,
    /// Where the result goes, if it goes anywhere.
    into: Option<Out>,
    count: i64,
    datatype: Handle,
    op: Handle,
}

/// # Safety
/// MPI's contract for the buffers of a reduction.
unsafe fn reduction(handles: &Handles<'_>, of: Operands) -> Result<Reduction> {
    let describe = |buffer: In, writable| {
        // SAFETY: the caller's promise.
        unsafe { handles.owned_buffer(buffer, of.count, of.datatype, writable) }
    };
    let from = match of.from {
        Some(from) if !is_in_place(from) => Some(describe(from, false)?),
        _ => None,
    };
    let into = match &of.into {
        Some(into) => Some(describe(*into, true)?),
        None => None,
    };
    let what = match handles.operations.find(of.op) {
        Some(operation) => Ok((operation.clone(), of.datatype)),
        None => Err(of.op),
    };
    Reduction::new(
        what,
        handles.datatype(of.datatype)?,
        from.as_ref(),
        into.as_ref(),
    )
}

pub(crate) unsafe fn reduce_local(
    inbuf: In,
    inoutbuf: Out,
    count: i64,
    datatype: Handle,
    op: Handle,
) -> Result<()> {
    let of = Operands {
        from: Some(inbuf),
        into: Some(inoutbuf),
        count,
        datatype,
        op,
    };
    let active = with(|process, handles| {
        // SAFETY: the caller keeps MPI's contract.
        let steps = Process::reduce_local(&unsafe { reduction(handles, of) }?);
        process.begin(steps)
    })?;
    complete(active).map(drop)
}

unsafe fn start_allreduce(
    from: In,
    into: Out,
    count: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> Result<Steps> {
    let of = Operands {
        from: Some(from),
        into: Some(into),
        count,
        datatype,
        op,
    };
    // SAFETY: the caller keeps MPI's contract.
    with(|process, handles| process.allreduce(&unsafe { reduction(handles, of) }?, comm))
}

unsafe fn start_reduce(
    from: In,
    into: Out,
    count: i64,
    datatype: Handle,
    op: Handle,
    root: c_int,
    comm: Handle,
) -> Result<Steps> {
    with(|process, handles| {
        let role = Role::of(process, root, comm)?;
        if role == Role::None {
            return process.nothing(comm);
        }
        let of = Operands {
            from: (role != Role::RemoteRoot).then_some(from),
            into: role.is_root().then_some(into),
            count,
            datatype,
            op,
        };
        // SAFETY: the caller keeps MPI's contract.
        process.reduce(&unsafe { reduction(handles, of) }?, root, comm)
    })
}

unsafe fn start_reduce_scatter(
    from: In,
    into: Out,
    recvcounts: Numbers,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> Result<Steps> {
    with(|process, handles| {
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

unsafe fn start_reduce_scatter_block(
    from: In,
    into: Out,
    recvcount: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> Result<Steps> {
    with(|process, handles| {
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

/// # Safety
/// MPI's contract for a reduce-scatter.
unsafe fn reduce_parts(
    process: &mut Process,
    handles: &Handles<'_>,
    (from, into): (In, Out),
    counts: &[i64],
    (datatype, op): (Handle, Handle),
    comm: Handle,
) -> Result<Steps> {
    let parts: Vec<u64> = counts
        .iter()
        .map(|count| crate::types::count_of(*count))
        .collect::<Result<_>>()?;
    let rank = process.communicator(comm)?.rank() as usize;
    let count = counts
        .iter()
        .try_fold(0i64, |sum, count| sum.checked_add(*count));
    let of = Operands {
        from: Some(node::operands_of_parts((from, into), counts[rank])?),
        into: None,
        count: count.ok_or_else(too_many)?,
        datatype,
        op,
    };
    // SAFETY: the caller's promise.
    unsafe {
        let reduction = reduction(handles, of)?;
        let mine = handles.owned_buffer(into, counts[rank], datatype, true)?;
        process.reduce_scatter(&reduction, &parts, &mine, comm)
    }
}

macro_rules! scans {
    ($($name:ident, $kind:expr;)*) => {$(
        unsafe fn $name(
            from: In,
            into: Out,
            count: i64,
            datatype: Handle,
            op: Handle,
            comm: Handle,
        ) -> Result<Steps> {
            let of = Operands { from: Some(from), into: Some(into), count, datatype, op };
            // SAFETY: the caller keeps MPI's contract.
            with(|process, handles| process.scan(&unsafe { reduction(handles, of) }?, $kind, comm))
        }
    )*};
}

scans! {
    start_scan, Scan::Inclusive;
    start_exscan, Scan::Exclusive;
}
