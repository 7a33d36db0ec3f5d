//! Virtual topologies (MPI 5.0 chapter 8): which processes of a communicator are neighbours. Arithmetic only: nothing here
//! communicates.
//!
//! [`Topology::neighbours`] is what neighbourhood collectives need of every kind; the rest is what the functions of one kind ask for.

mod cartesian;
mod dimensions;
mod distributed;
mod error;
mod graph;
mod neighbours;

pub use cartesian::{Cartesian, Part};
pub use dimensions::balance;
pub use distributed::{Adjacent, Edge};
pub use error::Error;
pub use graph::Graph;
pub use neighbours::{Neighbour, Neighbours};

/// A topology that a communicator has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topology {
    /// A grid.
    Cartesian(Cartesian),
    /// A graph that every process has as a whole.
    Graph(Graph),
    /// A graph of which each process has its own edges.
    Adjacent(Adjacent),
}

impl Topology {
    /// The neighbours of a process, with which neighbourhood collectives exchange blocks (MPI 5.0 §8.6). A process that is
    /// outside of the topology has none.
    pub fn neighbours(&self, rank: i32) -> Neighbours {
        let unlabelled = |ranks: &[i32]| {
            let of = |rank: &i32| Neighbour {
                rank: Some(*rank),
                label: 0,
            };
            ranks.iter().map(of).collect::<Vec<_>>()
        };
        match self {
            Self::Cartesian(grid) => grid.neighbours(rank),
            Self::Graph(graph) => {
                let both = unlabelled(graph.neighbours(rank).unwrap_or_default());
                Neighbours {
                    sources: both.clone(),
                    destinations: both,
                }
            }
            Self::Adjacent(graph) => Neighbours {
                sources: unlabelled(&graph.sources),
                destinations: unlabelled(&graph.destinations),
            },
        }
    }
}

#[cfg(test)]
mod tests;
