//! The files about nodes that a client has read. What it does when they have changed is in `changed_nodes`.

use std::time::Instant;

use crate::config::Configuration;

/// The files about nodes, and when to look at them again.
pub(super) struct NodeFiles {
    pub(super) configuration: Configuration,
    /// When they are looked at again, if no connection is made before.
    pub(super) next: Instant,
}

impl NodeFiles {
    /// The files that a configuration with a section `[nodes]` names; `None` without such a section, or if an agent
    /// makes handshakes for this process.
    pub(super) fn of(configuration: &Configuration, is_spoken_for: bool) -> Option<Self> {
        let has_files = configuration.nodes.is_some() && !is_spoken_for;
        has_files.then(|| Self {
            configuration: configuration.clone(),
            next: Instant::now(),
        })
    }
}
