//! Collective operations of neighbours in a topology (MPI 5.0 §8.6), in their blocking, nonblocking and persistent forms.
#![allow(clippy::too_many_arguments, reason = "they are the standard's")]

use causeway_mpi::error::Result;
use causeway_mpi::steps::Steps;

use crate::collective::{Layout, blocks, forms};
use crate::library::with;
use crate::types::{Handle, In, Numbers, Out};

forms! {
    "MPI_Neighbor_allgather" "MPI_Ineighbor_allgather" neighbor_allgather, ineighbor_allgather, neighbor_allgather_init,
        allgather(sendbuf: In, sendcount: i64, sendtype: Handle, recvbuf: Out, recvcount: i64, recvtype: Handle,
        comm: Handle);
    "MPI_Neighbor_allgatherv" "MPI_Ineighbor_allgatherv" neighbor_allgatherv, ineighbor_allgatherv,
        neighbor_allgatherv_init, allgatherv(sendbuf: In, sendcount: i64, sendtype: Handle, recvbuf: Out,
        recvcounts: Numbers, displs: Numbers, recvtype: Handle, comm: Handle);
    "MPI_Neighbor_alltoall" "MPI_Ineighbor_alltoall" neighbor_alltoall, ineighbor_alltoall, neighbor_alltoall_init,
        alltoall(sendbuf: In, sendcount: i64, sendtype: Handle, recvbuf: Out, recvcount: i64, recvtype: Handle,
        comm: Handle);
    "MPI_Neighbor_alltoallv" "MPI_Ineighbor_alltoallv" neighbor_alltoallv, ineighbor_alltoallv,
        neighbor_alltoallv_init, alltoallv(sendbuf: In, sendcounts: Numbers, sdispls: Numbers, sendtype: Handle,
        recvbuf: Out, recvcounts: Numbers, rdispls: Numbers, recvtype: Handle, comm: Handle);
    "MPI_Neighbor_alltoallw" "MPI_Ineighbor_alltoallw" neighbor_alltoallw, ineighbor_alltoallw,
        neighbor_alltoallw_init, alltoallw(sendbuf: In, sendcounts: Numbers, sdispls: *const i64,
        sendtypes: *const Handle, recvbuf: Out, recvcounts: Numbers, rdispls: *const i64, recvtypes: *const Handle,
        comm: Handle);
}

/// # Safety
/// MPI's contract for a neighbourhood collective operation. `is_same` is set if all destinations get the same block.
unsafe fn exchange(
    (sendbuf, from, is_same): (In, Layout, bool),
    (recvbuf, into): (Out, Layout),
    comm: Handle,
) -> Result<Steps> {
    with(|process, handles| {
        let neighbours = process.neighbours(comm)?;
        let (sources, destinations) = (neighbours.sources.len(), neighbours.destinations.len());
        let many = if is_same { 1 } else { destinations as u32 };
        // SAFETY: the caller's promise.
        unsafe {
            let from = blocks(handles, sendbuf, from, many, false)?;
            let into = blocks(handles, recvbuf, into, sources as u32, true)?;
            process.exchange_with_neighbours(&from, &into, is_same, comm)
        }
    })
}

unsafe fn allgather(
    sendbuf: In,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: Out,
    recvcount: i64,
    recvtype: Handle,
    comm: Handle,
) -> Result<Steps> {
    let from = Layout::Even(sendcount, sendtype);
    let into = Layout::Even(recvcount, recvtype);
    // SAFETY: the caller keeps MPI's contract.
    unsafe { exchange((sendbuf, from, true), (recvbuf, into), comm) }
}

unsafe fn allgatherv(
    sendbuf: In,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: Out,
    recvcounts: Numbers,
    displs: Numbers,
    recvtype: Handle,
    comm: Handle,
) -> Result<Steps> {
    let from = Layout::Even(sendcount, sendtype);
    let into = Layout::Uneven(recvcounts, displs, recvtype);
    // SAFETY: the caller keeps MPI's contract.
    unsafe { exchange((sendbuf, from, true), (recvbuf, into), comm) }
}

unsafe fn alltoall(
    sendbuf: In,
    sendcount: i64,
    sendtype: Handle,
    recvbuf: Out,
    recvcount: i64,
    recvtype: Handle,
    comm: Handle,
) -> Result<Steps> {
    let from = Layout::Even(sendcount, sendtype);
    let into = Layout::Even(recvcount, recvtype);
    // SAFETY: the caller keeps MPI's contract.
    unsafe { exchange((sendbuf, from, false), (recvbuf, into), comm) }
}

unsafe fn alltoallv(
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
    unsafe { exchange((sendbuf, from, false), (recvbuf, into), comm) }
}

unsafe fn alltoallw(
    sendbuf: In,
    sendcounts: Numbers,
    sdispls: *const i64,
    sendtypes: *const Handle,
    recvbuf: Out,
    recvcounts: Numbers,
    rdispls: *const i64,
    recvtypes: *const Handle,
    comm: Handle,
) -> Result<Steps> {
    let from = Layout::Each(sendcounts, Numbers::Large(sdispls), sendtypes);
    let into = Layout::Each(recvcounts, Numbers::Large(rdispls), recvtypes);
    // SAFETY: the caller keeps MPI's contract.
    unsafe { exchange((sendbuf, from, false), (recvbuf, into), comm) }
}
