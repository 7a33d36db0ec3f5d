//! Graphs that every process has as a whole (`MPI_Graph_create`, MPI 5.0 §8.5.3).

use super::error::{Error, check_rank};

/// A graph of processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    index: Vec<i32>,
    edges: Vec<i32>,
}

impl Graph {
    /// A graph of at most `size` processes. `index` has for each process how many neighbours it and those before it have,
    /// `edges` has all of them, one process's behind another's.
    pub fn new(index: &[i32], edges: &[i32], size: i32) -> Result<Self, Error> {
        let wrong = |what, value: usize, why| Error::Argument {
            what,
            value: value as i64,
            why,
        };
        let nodes = i32::try_from(index.len())
            .ok()
            .filter(|nodes| *nodes <= size);
        let why = "there must not be more than the communicator has";
        let nodes = nodes.ok_or(wrong("nnodes", index.len(), why))?;
        let ends = index.last().copied().unwrap_or(0);
        if !index.is_sorted() || index.first().is_some_and(|first| *first < 0) {
            return Err(wrong("index", index.len(), "its entries must not descend"));
        }
        if usize::try_from(ends) != Ok(edges.len()) {
            let why = "its length must be the last entry of index";
            return Err(wrong("edges", edges.len(), why));
        }
        edges.iter().try_for_each(|rank| check_rank(*rank, nodes))?;
        Ok(Self {
            index: index.to_vec(),
            edges: edges.to_vec(),
        })
    }

    /// The arguments that it was made of (`MPI_Graph_get`).
    pub fn index_and_edges(&self) -> (&[i32], &[i32]) {
        (&self.index, &self.edges)
    }

    /// How many processes it has.
    pub fn size(&self) -> i32 {
        self.index.len() as i32
    }

    /// The neighbours of a process (`MPI_Graph_neighbors`).
    pub fn neighbours(&self, rank: i32) -> Result<&[i32], Error> {
        check_rank(rank, self.size())?;
        let at = rank as usize;
        let begin = at.checked_sub(1).map_or(0, |before| self.index[before]);
        Ok(&self.edges[begin as usize..self.index[at] as usize])
    }
}
