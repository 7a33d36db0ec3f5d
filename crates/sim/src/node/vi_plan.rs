//! Virtual interfaces to be set up.

use causeway_firmware::{Direction, Traffic};

/// Which completions of a virtual interface go to its process's completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Queues {
    /// None: the process polls descriptors.
    #[default]
    None,
    /// Those of receives.
    Receives,
    /// All.
    Both,
}

/// A virtual interface to be set up.
#[derive(Clone, Copy, Debug)]
pub struct ViPlan {
    /// The node.
    pub node: usize,
    /// The process, by its number on the node.
    pub process: usize,
    /// The most sends, and the most receives, that are posted at a time.
    pub depth: u32,
    /// The completions that go to the process's completion queue.
    pub queues: Queues,
    /// Completions of sends are only counted when they are in memory; the process never waits for them.
    pub sends_counted: bool,
    /// The reservation for its messages, and their direction.
    pub reserved: Option<(Direction, Traffic)>,
}

impl ViPlan {
    /// An interface whose process waits for all completions, in its completion queue or not, and that has no reservation.
    pub fn new(node: usize, process: usize, depth: u32, queues: Queues) -> Self {
        Self {
            node,
            process,
            depth,
            queues,
            sends_counted: false,
            reserved: None,
        }
    }
}
