//! The names of participants that every benchmark knows.

/// Causeway's own name among the participants.
pub(crate) const OURS: &str = "causeway";
/// The name under which the machine's limits stand.
pub(crate) const LIMIT: &str = "limit";
