//! What the processes of a job are called.

use std::fmt;

/// A process: of the program that the command was given, or of one that its processes have started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Who {
    /// 0, or which start it was.
    pub(crate) world: u32,
    pub(crate) rank: u32,
}

impl Who {
    /// How lines of its output begin.
    pub(crate) fn label(self) -> String {
        format!("[{}] ", self.number())
    }

    /// Its rank, behind its program's number unless that is the first.
    pub(crate) fn number(self) -> String {
        match self {
            Self { world: 0, rank } => rank.to_string(),
            Self { world, rank } => format!("{world}.{rank}"),
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { world: 0, rank } => write!(f, "rank {rank}"),
            Self { world, rank } => write!(f, "rank {rank} of spawned program {world}"),
        }
    }
}
