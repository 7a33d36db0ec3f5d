//! Virtual topologies (MPI 5.0 chapter 8): grids.

use std::ffi::c_int;

use causeway_mpi::abi;
use causeway_mpi::error::{Error, Result};
use causeway_mpi::topology::{Cartesian, Topology, balance};

use crate::communicator::split_by;
use crate::library::with;
use crate::types::{Handle, array};

/// Reads the grid of a communicator, with the rank of this process.
fn of_grid<R>(comm: Handle, body: impl FnOnce(&Cartesian, c_int) -> Result<R>) -> Result<R> {
    with(|process, _| {
        let communicator = process.communicator(comm)?;
        match communicator.topology() {
            Some(Topology::Cartesian(grid)) => body(grid, communicator.rank() as c_int),
            _ => Err(Error::new(
                abi::ERR_TOPOLOGY,
                "the communicator has no grid",
            )),
        }
    })
}

/// The rank of this process in a communicator, and how many there are.
pub(crate) fn place(comm: Handle) -> Result<(c_int, c_int)> {
    with(|process, _| {
        let communicator = process.communicator(comm)?;
        Ok((communicator.rank() as c_int, communicator.size() as c_int))
    })
}

/// An array's length.
pub(crate) fn length(number: c_int) -> Result<usize> {
    usize::try_from(number)
        .map_err(|_| Error::new(abi::ERR_ARG, format!("an array of {number} entries")))
}

/// Writes an array.
///
/// # Safety
/// It has room for `room` entries.
pub(crate) unsafe fn write(values: &[c_int], into: *mut c_int, room: c_int) -> Result<()> {
    if length(room)? < values.len() {
        let text = format!("room for {room} of {} entries", values.len());
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
        Some(Topology::Graph(_)) => Ok(abi::GRAPH),
        Some(Topology::Adjacent(_)) => Ok(abi::DIST_GRAPH),
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
        balance(nnodes, &mut chosen)?;
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
        let periods = array(periods, many, "periods")?;
        let rings: Vec<bool> = periods.iter().map(|period| *period != 0).collect();
        let (_, size) = place(comm)?;
        let grid = Cartesian::new(dims, &rings, size)?;
        create(comm, grid.size(), Topology::Cartesian(grid), new)
    }
}

/// Makes a communicator of the first `size` processes of another, with a topology.
///
/// # Safety
/// `new` is valid for writes.
pub(crate) unsafe fn create(
    comm: Handle,
    size: c_int,
    topology: Topology,
    new: *mut Handle,
) -> Result<()> {
    let (rank, _) = place(comm)?;
    let color = if rank < size { 0 } else { abi::UNDEFINED };
    let name = match &topology {
        Topology::Cartesian(_) => "MPI_Cart_create",
        Topology::Graph(_) => "MPI_Graph_create",
        Topology::Adjacent(_) => "MPI_Dist_graph_create",
    };
    // SAFETY: the caller's promise.
    unsafe {
        split_by(comm, (color.into(), rank), name, new)?;
        set(new.read(), topology)
    }
}

/// Gives a communicator its topology, if there is one here.
fn set(comm: Handle, topology: Topology) -> Result<()> {
    if comm == abi::COMM_NULL {
        return Ok(());
    }
    with(|process, _| {
        process.communicator_mut(comm)?.set_topology(topology);
        Ok(())
    })
}

pub(crate) unsafe fn cart_sub(
    comm: Handle,
    remain_dims: *const c_int,
    new: *mut Handle,
) -> Result<()> {
    let many = of_grid(comm, |grid, _| Ok(grid.dims.len()))?;
    // SAFETY: the caller's array and pointer, as MPI has it.
    unsafe {
        let remain = array(remain_dims, many, "remain_dims")?;
        let remain: Vec<bool> = remain.iter().map(|remains| *remains != 0).collect();
        let part = of_grid(comm, |grid, rank| Ok(grid.part(rank, &remain)?))?;
        let place = (part.colour.into(), part.rank);
        split_by(comm, place, "MPI_Cart_sub", new)?;
        set(new.read(), Topology::Cartesian(part.grid))
    }
}

pub(crate) unsafe fn cartdim_get(comm: Handle, ndims: *mut c_int) -> Result<()> {
    let many = of_grid(comm, |grid, _| Ok(grid.dims.len()))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { ndims.write(many as c_int) };
    Ok(())
}

pub(crate) unsafe fn cart_get(
    comm: Handle,
    maxdims: c_int,
    dims: *mut c_int,
    periods: *mut c_int,
    coords: *mut c_int,
) -> Result<()> {
    of_grid(comm, |grid, rank| {
        let rings: Vec<c_int> = grid.periods.iter().map(|period| (*period).into()).collect();
        // SAFETY: the caller's arrays, as MPI has it.
        unsafe {
            write(&grid.dims, dims, maxdims)?;
            write(&rings, periods, maxdims)?;
            write(&grid.coordinates(rank)?, coords, maxdims)
        }
    })
}

pub(crate) unsafe fn cart_rank(comm: Handle, coords: *const c_int, rank: *mut c_int) -> Result<()> {
    of_grid(comm, |grid, _| {
        // SAFETY: the caller's array and pointer, as MPI has it.
        unsafe {
            let coords = array(coords, grid.dims.len(), "coords")?;
            rank.write(grid.rank(coords)?);
        }
        Ok(())
    })
}

pub(crate) unsafe fn cart_coords(
    comm: Handle,
    rank: c_int,
    maxdims: c_int,
    coords: *mut c_int,
) -> Result<()> {
    // SAFETY: the caller's array, as MPI has it.
    of_grid(comm, |grid, _| unsafe {
        write(&grid.coordinates(rank)?, coords, maxdims)
    })
}

pub(crate) unsafe fn cart_shift(
    comm: Handle,
    direction: c_int,
    disp: c_int,
    rank_source: *mut c_int,
    rank_dest: *mut c_int,
) -> Result<()> {
    let (from, to) = of_grid(comm, |grid, rank| Ok(grid.shift(rank, direction, disp)?))?;
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe {
        rank_source.write(from.unwrap_or(abi::PROC_NULL));
        rank_dest.write(to.unwrap_or(abi::PROC_NULL));
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
    let (rank, size) = place(comm)?;
    // SAFETY: the caller's array and pointer, as MPI has it.
    unsafe {
        let dims = array(dims, length(ndims)?, "dims")?;
        let grid = Cartesian::new(dims, &vec![false; dims.len()], size)?;
        let is_in = rank < grid.size();
        newrank.write(if is_in { rank } else { abi::UNDEFINED });
    }
    Ok(())
}
