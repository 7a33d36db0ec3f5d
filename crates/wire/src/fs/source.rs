//! What is copied.

use super::capability::Capability;
use super::objects::ObjectId;

/// What [`Operation::CopyData`](super::Operation::CopyData) reads: as many bytes as it writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataSource {
    /// Which datafile.
    pub object: ObjectId,
    /// From which of its bytes on.
    pub offset: u64,
    /// How long it must be at least, in bytes.
    pub at_least: u64,
    /// The right to read it, where servers check rights.
    pub capability: Option<Capability>,
}
