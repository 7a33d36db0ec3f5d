//! Graphs of which each process has its own edges (MPI 5.0 §8.5.4).

use super::error::{Error, check_rank, same_length};

/// An edge that some process has stated (`MPI_Dist_graph_create`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The process that sends along it.
    pub source: i32,
    /// The process that receives.
    pub destination: i32,
    /// Its weight; 1 if edges have none.
    pub weight: i32,
}

/// A process's own edges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Adjacent {
    /// The processes that it receives from, one entry for each edge.
    pub sources: Vec<i32>,
    /// The processes that it sends to.
    pub destinations: Vec<i32>,
    /// The edges' weights, those of sources and those of destinations; `None` for `MPI_UNWEIGHTED`.
    pub weights: Option<(Vec<i32>, Vec<i32>)>,
}

impl Adjacent {
    /// The edges that the process itself has given (`MPI_Dist_graph_create_adjacent`), in a communicator of `size`.
    pub fn new(
        sources: &[i32],
        destinations: &[i32],
        weights: Option<(&[i32], &[i32])>,
        size: i32,
    ) -> Result<Self, Error> {
        for rank in sources.iter().chain(destinations) {
            check_rank(*rank, size)?;
        }
        if let Some((of_sources, of_destinations)) = weights {
            same_length("sourceweights", of_sources.len(), sources.len())?;
            same_length("destweights", of_destinations.len(), destinations.len())?;
            let mut all = of_sources.iter().chain(of_destinations);
            all.try_for_each(|weight| check_weight(*weight))?;
        }
        Ok(Self {
            sources: sources.to_vec(),
            destinations: destinations.to_vec(),
            weights: weights.map(|(a, b)| (a.to_vec(), b.to_vec())),
        })
    }

    /// Of the edges that all processes have stated, in the order of their ranks: those of one process
    /// (`MPI_Dist_graph_create`). All processes must give their edges in one order, so that the edges between two are
    /// the same to both.
    pub fn of_edges(
        rank: i32,
        edges: impl IntoIterator<Item = Edge>,
        is_weighted: bool,
        size: i32,
    ) -> Result<Self, Error> {
        let mut own = Self::default();
        let mut weights = (Vec::new(), Vec::new());
        for edge in edges {
            check_rank(edge.source, size)?;
            check_rank(edge.destination, size)?;
            if is_weighted {
                check_weight(edge.weight)?;
            }
            if edge.destination == rank {
                own.sources.push(edge.source);
                weights.0.push(edge.weight);
            }
            if edge.source == rank {
                own.destinations.push(edge.destination);
                weights.1.push(edge.weight);
            }
        }
        own.weights = is_weighted.then_some(weights);
        Ok(own)
    }
}

fn check_weight(weight: i32) -> Result<(), Error> {
    if weight >= 0 {
        return Ok(());
    }
    Err(Error::Argument {
        what: "weights",
        value: weight.into(),
        why: "it must not be negative",
    })
}
