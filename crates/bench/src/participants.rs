//! The names of participants that all benchmarks use.

/// Causeway's own name among the participants.
pub(crate) const OURS: &str = "causeway";
/// The name of the machine's limits.
pub(crate) const LIMIT: &str = "limit";
