//! Virtual topologies (MPI 5.0 chapter 8): graphs that each process has as a whole, or of which each has its own edges.

use std::ffi::c_int;

use causeway_mpi::abi;
use causeway_mpi::error::{Error, Result};
use causeway_mpi::topology::{Adjacent, Edge, Graph, Topology};

use crate::library::with;
use crate::topology::{create, length, place, write};
use crate::types::{Handle, array};

fn of_graph<R>(comm: Handle, body: impl FnOnce(&Graph) -> Result<R>) -> Result<R> {
    with(|process, _| match process.communicator(comm)?.topology() {
        Some(Topology::Graph(graph)) => body(graph),
        _ => Err(Error::new(
            abi::ERR_TOPOLOGY,
            "the communicator has no graph",
        )),
    })
}

fn of_adjacent<R>(comm: Handle, body: impl FnOnce(&Adjacent) -> Result<R>) -> Result<R> {
    with(|process, _| match process.communicator(comm)?.topology() {
        Some(Topology::Adjacent(graph)) => body(graph),
        _ => Err(Error::new(
            abi::ERR_TOPOLOGY,
            "the communicator has no distributed graph",
        )),
    })
}

/// Reads a graph's arrays.
///
/// # Safety
/// `index` has `nodes` entries, the last of which is the number of entries of `edges`.
unsafe fn graph_of(
    comm: Handle,
    nodes: c_int,
    index: *const c_int,
    edges: *const c_int,
) -> Result<Graph> {
    let (_, size) = place(comm)?;
    // SAFETY: the caller's promise.
    unsafe {
        let index = array(index, length(nodes)?, "index")?;
        let many = length(index.last().copied().unwrap_or(0))?;
        Ok(Graph::new(index, array(edges, many, "edges")?, size)?)
    }
}

pub(crate) unsafe fn graph_create(
    comm: Handle,
    nodes: c_int,
    index: *const c_int,
    edges: *const c_int,
    _reorder: c_int,
    new: *mut Handle,
) -> Result<()> {
    // SAFETY: the caller's arrays and pointer, as MPI has it.
    unsafe {
        let graph = graph_of(comm, nodes, index, edges)?;
        create(comm, graph.size(), Topology::Graph(graph), new)
    }
}

pub(crate) unsafe fn graph_map(
    comm: Handle,
    nodes: c_int,
    index: *const c_int,
    edges: *const c_int,
    newrank: *mut c_int,
) -> Result<()> {
    let (rank, _) = place(comm)?;
    // SAFETY: the caller's arrays and pointer, as MPI has it.
    unsafe {
        let graph = graph_of(comm, nodes, index, edges)?;
        let is_in = rank < graph.size();
        newrank.write(if is_in { rank } else { abi::UNDEFINED });
    }
    Ok(())
}

pub(crate) unsafe fn graphdims_get(
    comm: Handle,
    nodes: *mut c_int,
    edges: *mut c_int,
) -> Result<()> {
    of_graph(comm, |graph| {
        let (index, all) = graph.index_and_edges();
        // SAFETY: the caller's pointers, as MPI has it.
        unsafe {
            nodes.write(index.len() as c_int);
            edges.write(all.len() as c_int);
        }
        Ok(())
    })
}

pub(crate) unsafe fn graph_get(
    comm: Handle,
    maxindex: c_int,
    maxedges: c_int,
    index: *mut c_int,
    edges: *mut c_int,
) -> Result<()> {
    of_graph(comm, |graph| {
        let (all_index, all_edges) = graph.index_and_edges();
        // SAFETY: the caller's arrays, as MPI has it.
        unsafe {
            write(all_index, index, maxindex)?;
            write(all_edges, edges, maxedges)
        }
    })
}

pub(crate) unsafe fn graph_neighbors_count(
    comm: Handle,
    rank: c_int,
    many: *mut c_int,
) -> Result<()> {
    let found = of_graph(comm, |graph| Ok(graph.neighbours(rank)?.len()))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { many.write(found as c_int) };
    Ok(())
}

pub(crate) unsafe fn graph_neighbors(
    comm: Handle,
    rank: c_int,
    most: c_int,
    neighbours: *mut c_int,
) -> Result<()> {
    // SAFETY: the caller's array, as MPI has it.
    of_graph(comm, |graph| unsafe {
        write(graph.neighbours(rank)?, neighbours, most)
    })
}

#[expect(clippy::too_many_arguments, reason = "they are MPI's")]
pub(crate) unsafe fn dist_graph_create_adjacent(
    comm: Handle,
    indegree: c_int,
    sources: *const c_int,
    source_weights: *const c_int,
    outdegree: c_int,
    destinations: *const c_int,
    destination_weights: *const c_int,
    _info: Handle,
    _reorder: c_int,
    new: *mut Handle,
) -> Result<()> {
    let (into, out) = (length(indegree)?, length(outdegree)?);
    let (_, size) = place(comm)?;
    let is_weighted =
        source_weights.addr() != abi::UNWEIGHTED && destination_weights.addr() != abi::UNWEIGHTED;
    // SAFETY: the caller's arrays and pointer, as MPI has it; `MPI_WEIGHTS_EMPTY` stands for weights of no edges only.
    unsafe {
        let weights = match is_weighted {
            true => Some((
                array(source_weights, into, "sourceweights")?,
                array(destination_weights, out, "destweights")?,
            )),
            false => None,
        };
        let sources = array(sources, into, "sources")?;
        let destinations = array(destinations, out, "destinations")?;
        let graph = Adjacent::new(sources, destinations, weights, size)?;
        create(comm, size, Topology::Adjacent(graph), new)
    }
}

/// The words of an edge on its way: source, destination, weight, and whether it has one.
const EDGE: usize = 4;

#[expect(clippy::too_many_arguments, reason = "they are MPI's")]
pub(crate) unsafe fn dist_graph_create(
    comm: Handle,
    n: c_int,
    sources: *const c_int,
    degrees: *const c_int,
    destinations: *const c_int,
    weights: *const c_int,
    _info: Handle,
    _reorder: c_int,
    new: *mut Handle,
) -> Result<()> {
    let many = length(n)?;
    let (rank, size) = place(comm)?;
    let is_weighted = weights.addr() != abi::UNWEIGHTED;
    // SAFETY: the caller's arrays, as MPI has it; `MPI_WEIGHTS_EMPTY` stands for weights of no edges only.
    let words = unsafe {
        let sources = array(sources, many, "sources")?;
        let degrees = array(degrees, many, "degrees")?;
        let degrees = degrees.iter().map(|degree| length(*degree));
        let degrees = degrees.collect::<Result<Vec<usize>>>()?;
        let total = degrees.iter().sum();
        let destinations = array(destinations, total, "destinations")?;
        let weights = match is_weighted {
            true => array(weights, total, "weights")?,
            false => &[],
        };
        let repeated = sources.iter().zip(degrees);
        let sources = repeated.flat_map(|(source, degree)| std::iter::repeat_n(*source, degree));
        let edges = sources.zip(destinations).enumerate();
        let edge = |(at, (source, destination)): (usize, (c_int, &c_int))| {
            let weight = weights.get(at).copied().unwrap_or(1);
            [source, *destination, weight, is_weighted.into()]
        };
        Vec::from_iter(edges.flat_map(edge))
    };
    let all = crate::communicator::exchange_numbers(comm, &words, "MPI_Dist_graph_create")?;
    let edges = all.chunks_exact(EDGE).map(|edge| Edge {
        source: edge[0],
        destination: edge[1],
        weight: edge[2],
    });
    // Processes that give no edges do not know.
    let is_weighted = match all.get(3) {
        Some(is) => *is != 0,
        None => is_weighted,
    };
    let graph = Adjacent::of_edges(rank, edges, is_weighted, size)?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { create(comm, size, Topology::Adjacent(graph), new) }
}

pub(crate) unsafe fn dist_graph_neighbors_count(
    comm: Handle,
    indegree: *mut c_int,
    outdegree: *mut c_int,
    weighted: *mut c_int,
) -> Result<()> {
    of_adjacent(comm, |graph| {
        // SAFETY: the caller's pointers, as MPI has it.
        unsafe {
            indegree.write(graph.sources.len() as c_int);
            outdegree.write(graph.destinations.len() as c_int);
            weighted.write(graph.weights.is_some().into());
        }
        Ok(())
    })
}

/// Writes the first `most` edges of one direction.
///
/// # Safety
/// `ranks` has room for so many entries, and `weights` as well unless it is `MPI_UNWEIGHTED`.
unsafe fn write_edges(
    (from, weights_from): (&[c_int], Option<&[c_int]>),
    most: c_int,
    ranks: *mut c_int,
    weights: *mut c_int,
) -> Result<()> {
    let many = from.len().min(length(most)?);
    // SAFETY: the caller's promise.
    unsafe {
        write(&from[..many], ranks, most)?;
        match weights_from {
            Some(all) if weights.addr() != abi::UNWEIGHTED => write(&all[..many], weights, most),
            _ => Ok(()),
        }
    }
}

pub(crate) unsafe fn dist_graph_neighbors(
    comm: Handle,
    maxindegree: c_int,
    sources: *mut c_int,
    source_weights: *mut c_int,
    maxoutdegree: c_int,
    destinations: *mut c_int,
    destination_weights: *mut c_int,
) -> Result<()> {
    of_adjacent(comm, |graph| {
        let weights = graph.weights.as_ref();
        let into = (&*graph.sources, weights.map(|(into, _)| &**into));
        let out = (&*graph.destinations, weights.map(|(_, out)| &**out));
        // SAFETY: the caller's arrays, as MPI has it.
        unsafe {
            write_edges(into, maxindegree, sources, source_weights)?;
            write_edges(out, maxoutdegree, destinations, destination_weights)
        }
    })
}
