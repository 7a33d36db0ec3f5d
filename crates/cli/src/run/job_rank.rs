//! Ranks of a job, which may have several programs, and their names in messages to the user.

use std::fmt;

/// A process by its rank: in the program on the command line, or in one that the job's processes
/// have started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct JobRank {
    /// 0 for the program on the command line; others are counted in the order in which they were
    /// started.
    pub(crate) world: u32,
    pub(crate) rank: u32,
}

impl JobRank {
    /// The label of its lines of output.
    pub(crate) fn label(self) -> String {
        format!("[{}] ", self.number())
    }

    /// Its rank, after its program's number unless that is the first.
    pub(crate) fn number(self) -> String {
        match self {
            Self { world: 0, rank } => rank.to_string(),
            Self { world, rank } => format!("{world}.{rank}"),
        }
    }
}

impl fmt::Display for JobRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { world: 0, rank } => write!(f, "rank {rank}"),
            Self { world, rank } => write!(f, "rank {rank} of spawned program {world}"),
        }
    }
}
