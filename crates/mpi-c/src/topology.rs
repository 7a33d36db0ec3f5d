//! Virtual topologies (MPI 5.0 chapter 8): grids.

use std::ffi::c_int;
use std::sync::Arc;

use causeway_mpi::abi;
use causeway_mpi::error::{Error, Result};
use causeway_mpi::topology::{Cartesian, Topology, create_dims};

use crate::communicator::split_by;
use crate::library::with;
use crate::types::{Handle, array};

fn grid(comm: Handle) -> Result<(Arc<Cartesian>, c_int)> {
    with(|process, _| {
        let communicator = process.communicator(comm)?;
        match communicator.topology() {
            Some(Topology::Cartesian(grid)) => Ok((Arc::clone(grid), communicator.rank() as c_int)),
            None => Err(Error::new(
                abi::ERR_TOPOLOGY,
                "the communicator has no grid",
            )),
        }
    })
}

fn length(number: c_int) -> Result<usize> {
    usize::try_from(number).map_err(|_| Error::new(abi::ERR_DIMS, format!("{number} dimensions")))
}

/// # Safety
/// The array has room for as many entries as `room` says.
unsafe fn write(values: &[c_int], into: *mut c_int, room: c_int) -> Result<()> {
    if length(room)? < values.len() {
        let text = format!("room for {room} dimensions of {}", values.len());
        return Err(Error::new(abi::ERR_ARG, text));
    }
    for (at, value) in values.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { into.add(at).write(*value) };
    }
    Ok(())
}

pub(crate) unsafe fn topo_test(comm: Handle, status: *mut c_int) -> Result<()> {
    let kind = with(|process, _| match process.communicator(comm)?.topology() {
        Some(Topology::Cartesian(_)) => Ok(abi::CART),
        None => Ok(abi::UNDEFINED),
    })?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { status.write(kind) };
    Ok(())
}

pub(crate) unsafe fn dims_create(nnodes: c_int, ndims: c_int, dims: *mut c_int) -> Result<()> {
    // SAFETY: the caller's array, as MPI has it.
    unsafe {
        let mut chosen = array(dims, length(ndims)?, "dims")?.to_vec();
        create_dims(nnodes, &mut chosen)?;
        write(&chosen, dims, ndims)
    }
}

pub(crate) unsafe fn cart_create(
    comm: Handle,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    _reorder: c_int,
    new: *mut Handle,
) -> Result<()> {
    let many = length(ndims)?;
    // SAFETY: the caller's arrays and pointer, as MPI has it.
    unsafe {
        let dims = array(dims, many, "dims")?;
        let periods = array(periods, many, "periods")?
            .iter()
            .map(|period| *period != 0);
        let place = with(|process, _| {
            let communicator = process.communicator(comm)?;
            Ok((communicator.rank(), communicator.size()))
        })?;
        let grid = Cartesian::new(dims, periods.collect(), place.1)?;
        let color = match place.0 < grid.size() as u32 {
            true => 0,
            false => abi::UNDEFINED.into(),
        };
        split_by(comm, color, place.0 as c_int, new)?;
        set(new.read(), grid)
    }
}

/// Gives a communicator its grid, if there is one here.
fn set(comm: Handle, grid: Cartesian) -> Result<()> {
    if comm == abi::COMM_NULL {
        return Ok(());
    }
    with(|process, _| {
        let topology = Topology::Cartesian(Arc::new(grid));
        process.communicator_mut(comm)?.set_topology(topology);
        Ok(())
    })
}

pub(crate) unsafe fn cart_sub(
    comm: Handle,
    remain_dims: *const c_int,
    new: *mut Handle,
) -> Result<()> {
    let (whole, rank) = grid(comm)?;
    // SAFETY: the caller's array and pointer, as MPI has it.
    unsafe {
        let remain = array(remain_dims, whole.dims.len(), "remain_dims")?;
        let remain: Vec<bool> = remain.iter().map(|remains| *remains != 0).collect();
        let (part, number) = whole.part(&remain, rank)?;
        split_by(comm, number.into(), rank, new)?;
        set(new.read(), part)
    }
}

pub(crate) unsafe fn cartdim_get(comm: Handle, ndims: *mut c_int) -> Result<()> {
    let (grid, _) = grid(comm)?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { ndims.write(grid.dims.len() as c_int) };
    Ok(())
}

pub(crate) unsafe fn cart_get(
    comm: Handle,
    maxdims: c_int,
    dims: *mut c_int,
    periods: *mut c_int,
    coords: *mut c_int,
) -> Result<()> {
    let (grid, rank) = grid(comm)?;
    let rings: Vec<c_int> = grid.periods.iter().map(|period| (*period).into()).collect();
    // SAFETY: the caller's arrays, as MPI has it.
    unsafe {
        write(&grid.dims, dims, maxdims)?;
        write(&rings, periods, maxdims)?;
        write(&grid.coords(rank)?, coords, maxdims)
    }
}

pub(crate) unsafe fn cart_rank(comm: Handle, coords: *const c_int, rank: *mut c_int) -> Result<()> {
    let (grid, _) = grid(comm)?;
    // SAFETY: the caller's array and pointer, as MPI has it.
    unsafe {
        let coords = array(coords, grid.dims.len(), "coords")?;
        rank.write(grid.rank(coords)?);
    }
    Ok(())
}

pub(crate) unsafe fn cart_coords(
    comm: Handle,
    rank: c_int,
    maxdims: c_int,
    coords: *mut c_int,
) -> Result<()> {
    let (grid, _) = grid(comm)?;
    // SAFETY: the caller's array, as MPI has it.
    unsafe { write(&grid.coords(rank)?, coords, maxdims) }
}

pub(crate) unsafe fn cart_shift(
    comm: Handle,
    direction: c_int,
    disp: c_int,
    rank_source: *mut c_int,
    rank_dest: *mut c_int,
) -> Result<()> {
    let (grid, rank) = grid(comm)?;
    let (from, to) = grid.shift(rank, direction, disp)?;
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        rank_source.write(from);
        rank_dest.write(to);
    }
    Ok(())
}

pub(crate) unsafe fn cart_map(
    comm: Handle,
    ndims: c_int,
    dims: *const c_int,
    _periods: *const c_int,
    newrank: *mut c_int,
) -> Result<()> {
    let (rank, size) = with(|process, _| {
        let communicator = process.communicator(comm)?;
        Ok((communicator.rank(), communicator.size()))
    })?;
    // SAFETY: the caller's array and pointer, as MPI has it.
    unsafe {
        let dims = array(dims, length(ndims)?, "dims")?;
        let grid = Cartesian::new(dims, vec![false; dims.len()], size)?;
        let is_in = rank < grid.size() as u32;
        newrank.write(if is_in { rank as c_int } else { abi::UNDEFINED });
    }
    Ok(())
}
