//! Virtual interfaces that are to be set up.

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
    /// On which node.
    pub node: usize,
    /// Of which of the node's processes.
    pub process: usize,
    /// Most sends, and most receives, that are posted at a time.
    pub depth: u32,
    /// What goes to the process's completion queue.
    pub queues: Queues,
    /// Completions of sends are only counted, as they land; the process never waits for them.
    pub sends_counted: bool,
    /// What is reserved for its messages, and which way they go.
    pub reserved: Option<(Direction, Traffic)>,
}

impl ViPlan {
    /// One whose process waits for all completions, in its completion queue or not, and for which nothing is reserved.
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
