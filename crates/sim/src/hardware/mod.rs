//! The hardware of nodes and networks, which takes time, apart from the programs that run there.
//!
//! Everything here is passive: the caller calls it at the present time of the
//! [`Engine`](crate::engine::Engine), gets the times at which what it requested begins and ends, and schedules the
//! event itself. One rule makes this exact: **calls come in the order of time**, so that the first request is
//! served first and no reservation is ever cancelled. The same models therefore serve the
//! network interface's driver, kernel paths and programs that run as coroutines.
//!
//! | part | models |
//! |---|---|
//! | [`Shared`] | any resource that serves one request at a time, in order, with its use counted |
//! | [`Memory`] | pages, and the memory bus that DMA takes |
//! | [`IoBus`] | PCI and similar buses: arbitration, address cycles, bursts, reads that are refused once and repeated, the bridge's latency, programmed reads and writes |
//! | [`HostDma`] | a DMA engine between host memory and the card, with a queue and one or several channels |
//! | [`HostCpu`] | a processor of the host: computation, system calls, context switches, interrupts |
//! | [`Network`] | links, output-queued switches that stop the sender or drop, routes over a [`Topology`], which is a tree |
//!
//! A DMA transfer in short: [`HostDma::start`] accepts a job, [`HostDma::plan`] returns when to call [`HostDma::advance`] for which
//! channel, and each such call carries out the steps of bursts on the bus that are due, and returns whether the job has ended. Bursts
//! that nobody can observe are carried out together; who uses the bus besides calls [`HostDma::catch_up`] before.

mod bus;
mod dma;
mod host;
mod link_schedule;
mod links;
mod memory;
mod network;
mod shared;
mod topology;

pub use bus::{IoBus, IoBusSpec, Posted};
pub use dma::{Advance, Channels, Direction, HostDma, HostDmaSpec, Job, Wake};
pub use host::{HostCpu, HostSpec};
pub use links::{Broken, LinkSpec, NodeId, Outage, Routing, SwitchSpec, WhenFull};
pub use memory::{Memory, MemorySpec};
pub use network::{Network, Sent};
pub use shared::{Shared, Span};
pub use topology::{LinkChange, SwitchChange, Topology, TopologyError};

#[cfg(test)]
mod tests;
