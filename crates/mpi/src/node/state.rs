//! Whether a communicator has an area.

use std::sync::Arc;

use super::area::Area;

/// A communicator's area, or why it has none. An area lives as long as a reference to it.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    /// It was used so often.
    Used(u32),
    /// Its processes cannot have one.
    Never,
    /// It has one.
    Ready(Arc<Area>),
}

impl Default for Node {
    fn default() -> Self {
        Self::Used(0)
    }
}
