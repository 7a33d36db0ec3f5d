//! Neighbours in any topology.

/// A neighbour that blocks are exchanged with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// Its rank; `None` at a grid's edge, where nothing is exchanged.
    pub rank: Option<i32>,
    /// Which of the blocks between two processes it is: a receive matches the send of the same label, and sends of one label match
    /// in their order. In a ring of two processes each is the other's neighbour on both sides, and what is sent to one side
    /// must come from the other.
    pub label: u32,
}

/// A process's neighbours, in the order of the blocks that it exchanges with them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// Those that it receives from.
    pub sources: Vec<Neighbour>,
    /// Those that it sends to.
    pub destinations: Vec<Neighbour>,
}
