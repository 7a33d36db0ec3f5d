//! Resources whose use is measured.

use crate::engine::Time;

/// A resource: it is in use or idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// A processor of a host.
    HostProcessor,
    /// A processor of a card.
    CardProcessor,
    /// A channel of a host DMA engine.
    HostDma,
    /// A host's I/O bus.
    IoBus,
    /// One direction of a link that leads away from a node or a switch.
    Link,
}

impl Resource {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::HostProcessor,
        Self::CardProcessor,
        Self::HostDma,
        Self::IoBus,
        Self::Link,
    ];

    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::HostProcessor => "host-processor",
            Self::CardProcessor => "card-processor",
            Self::HostDma => "host-dma",
            Self::IoBus => "io-bus",
            Self::Link => "link",
        }
    }
}

/// How long each instance of each resource has been in use, in the order of [`Resource::ALL`].
pub type Busy = [Vec<Time>; Resource::ALL.len()];
