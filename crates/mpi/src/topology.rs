//! Virtual topologies (MPI 5.0 chapter 8).

/// A topology that a communicator has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topology {
    /// A grid.
    Cartesian(Cartesian),
}

/// A grid of processes, the last dimension fastest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cartesian {
    /// The processes in each dimension.
    pub dims: Vec<i32>,
    /// Whether each dimension is a ring.
    pub periods: Vec<bool>,
}
