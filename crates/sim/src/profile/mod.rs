//! Parameter files: everything about the hardware that a simulation runs on.
//!
//! A profile is a TOML file in which each value has its unit and its source: `clock = { value = "66
//! MHz", source = "thesis, §4.3.1" }`. Reading is strict: an unknown key, a unit that does not fit,
//! a count of 0, or impossible hardware is an error that names the line and what is allowed.
//! Profiles that come with the simulator are in [`SHIPPED`].

pub mod edit;
mod read;
mod reader;
#[cfg(test)]
mod tests;
pub mod units;

pub use reader::FileError;
pub(crate) use reader::{Section, Source, Sourced};

use causeway_firmware::{Reliability, Step};

use crate::engine::{Time, duration_at};
use crate::hardware::{
    HostDmaSpec, HostSpec, IoBusSpec, LinkSpec, MemorySpec, SwitchSpec, Topology, TopologyError,
};

/// Everything about the hardware of a cluster whose nodes are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// A description, in a sentence.
    pub summary: String,
    /// The hosts' processors.
    pub host: HostSpec,
    /// The costs of the processes' library.
    pub library: LibrarySpec,
    /// The hosts' memory.
    pub memory: MemorySpec,
    /// The bus between host and card.
    pub io_bus: IoBusSpec,
    /// The card's processors and the costs of its program.
    pub card: CardSpec,
    /// The engine between host memory and card.
    pub host_dma: HostDmaSpec,
    /// The engines between card and wire.
    pub net_dma: NetDmaSpec,
    /// Links.
    pub link: LinkSpec,
    /// Switches.
    pub switch: SwitchSpec,
    /// How nodes and switches are connected; if absent, all nodes are on one switch.
    pub topology: Option<Topology>,
}

/// The costs of the user-level library for a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibrarySpec {
    /// Building and posting a descriptor, without its ringing.
    pub post: Time,
    /// Looking once at a status or a completion queue.
    pub poll: Time,
    /// Consuming a completion that was found.
    pub complete: Time,
    /// How processes wait.
    pub waits: Waits,
    /// The reliability of their connections.
    pub reliability: Reliability,
}

/// How a process waits for a completion (§4.2.5). Not a value of profiles: scenarios set it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waits {
    /// It polls, and holds a processor.
    #[default]
    Poll,
    /// It arms the card's interrupt by a system call, sleeps, and is woken by the interrupt.
    Block,
}

/// The card's processor and memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardSpec {
    /// Cycles per second.
    pub clock_hz: u64,
    /// Bytes of memory, which have to be enough for what a card's settings state ([`Settings::memory`]); `None` if it is unlimited, as
    /// the thesis's simulator has "infinite sized buffers" (§5.4.2).
    ///
    /// [`Settings::memory`]: causeway_firmware::Settings::memory
    pub memory_bytes: Option<u64>,
    /// How many buffers a card has; `None` for as many as the workload can use. Not a value of profiles: scenarios set it.
    pub buffers: Option<u32>,
    /// Cycles that one round of the idle program's loop takes; an event is noticed half of it later
    /// on average. This is the loop of the event-driven programs, which poll every engine.
    pub idle_loop_cycles: u64,
    /// The same for the sequential program, which polls doorbells and arrivals only.
    pub sequential_idle_loop_cycles: u64,
    /// The cost of each step of the program.
    pub steps: StepCosts,
}

impl CardSpec {
    /// How long `cycles` take.
    pub fn cycles(&self, cycles: u64) -> Time {
        duration_at(cycles, self.clock_hz)
    }
}

/// Engines between card and wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetDmaSpec {
    /// From being programmed to the first byte on the link.
    pub send_startup: Time,
    /// From the last byte off the link to the frame's being announced.
    pub receive_startup: Time,
}

/// Cycles that each step of the card's program takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepCosts([u64; Step::ALL.len()]);

impl StepCosts {
    /// A table in which each step costs what `cost` returns.
    pub fn new(mut cost: impl FnMut(Step) -> u64) -> Self {
        Self(Step::ALL.map(&mut cost))
    }

    /// The cost of `step`, in cycles of the card's clock.
    pub fn cycles(&self, step: Step) -> u64 {
        self.0.get(step as usize).copied().unwrap_or(0)
    }
}

/// The profiles that come with the simulator: their names and texts.
pub const SHIPPED: &[(&str, &str)] = &[
    ("psnow", include_str!("../../profiles/psnow.toml")),
    ("munet", include_str!("../../profiles/munet.toml")),
    ("via", include_str!("../../profiles/via.toml")),
    ("qos", include_str!("../../profiles/qos.toml")),
    ("present", include_str!("../../profiles/present.toml")),
];

impl Profile {
    /// How `nodes` nodes are joined.
    pub fn topology(&self, nodes: usize) -> Result<Topology, TopologyError> {
        match &self.topology {
            Some(topology) if topology.nodes() == nodes => Ok(topology.clone()),
            Some(topology) => Err(TopologyError::OtherNodes(topology.nodes(), nodes)),
            None => Topology::star(nodes),
        }
    }
}
