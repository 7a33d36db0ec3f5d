//! The parts of a scenario: the workload, the hardware, and the steps.

use causeway_firmware::{BestEffort, DmaQueue, Settings};

use super::jobs::Jobs;
use super::program::ProgramSetup;
use crate::coscheduling::DidNotEnd;
use crate::profile::Profile;
use crate::substrates::SimError;
use crate::workloads::RunError;
use crate::workloads::design::Design;
use crate::workloads::quality::Experiment;
use crate::workloads::scaling::{Extent, Load};
use crate::workloads::traffic::Traffic;

/// An experiment.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name, as in the file or the file's own.
    pub name: String,
    /// The swept key.
    pub swept: Option<String>,
    /// The variants: one for each value of the swept key.
    pub variants: Vec<Variant>,
    /// The number of runs that differ in their seeds, for each variant.
    pub replications: u32,
}

/// The scenario with one value of the swept key.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The value, as it is written.
    pub value: Option<String>,
    /// The workload.
    pub what: ScenarioKind,
}

/// The workload.
#[derive(Clone, Debug)]
pub enum ScenarioKind {
    /// Processes that post descriptors to cards.
    Cards(Box<Cards>),
    /// A parallel program on a substrate of chapter 2.
    Program(Box<ProgramSetup>),
    /// Parallel jobs that share the processors of chapter 6's platform.
    Jobs(Box<Jobs>),
}

/// Processes that post descriptors to cards.
#[derive(Clone, Debug)]
pub struct Cards {
    /// The hardware.
    pub profile: Profile,
    /// How the card is built, by its name in the thesis.
    pub design: Design,
    /// The file's changes of the design.
    pub settings: Changes,
    /// Sizes of messages, each run on its own; empty where the workload has its own.
    pub sizes: Vec<u32>,
    /// The workload.
    pub workload: Workload,
}

/// Changes of a design.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Bytes that travel inside a descriptor.
    pub payload_bytes: Option<u32>,
    /// Shadow queues.
    pub shadow_queues: Option<bool>,
    /// Tailgating.
    pub tailgating: Option<bool>,
    /// Cut-through from host memory to the network.
    pub cut_through: Option<bool>,
    /// Cut-through from the network to host memory.
    pub receive_cut_through: Option<bool>,
    /// Entries of the network send engine's queue.
    pub net_send_queue: Option<u32>,
    /// Bytes of a message that a frame carries at most, and that a card's buffer has room for.
    pub frame_bytes: Option<u32>,
    /// A card's buffers, half of them for receiving.
    pub buffers: Option<u32>,
    /// Bytes per second for best effort, however much is reserved.
    pub best_effort_rate: Option<u64>,
    /// Best-effort messages that are in progress at a time.
    pub best_effort_in_progress: Option<u32>,
    /// Whether doorbells are polled only when no engine has finished anything.
    pub doorbells_last: Option<bool>,
}

impl Workload {
    /// The number of nodes, and whether all of them are simulated.
    pub(super) fn nodes(&self) -> (usize, bool) {
        match self {
            Self::PingPong { .. } | Self::PingBulk { .. } => (2, true),
            Self::Interfaces(load) => (load.nodes, load.extent == Extent::Whole),
            Self::Channels(experiment) => (experiment.shape.nodes(), true),
            Self::Traffic(traffic) => (traffic.nodes, true),
        }
    }
}

impl Changes {
    pub(super) fn apply(&self, of: Settings) -> Settings {
        let best_effort = of.best_effort.clone();
        Settings {
            payload_bytes: self.payload_bytes.unwrap_or(of.payload_bytes),
            shadow_queues: self.shadow_queues.unwrap_or(of.shadow_queues),
            tailgating: self.tailgating.unwrap_or(of.tailgating),
            cut_through: self.cut_through.unwrap_or(of.cut_through),
            receive_cut_through: self.receive_cut_through.unwrap_or(of.receive_cut_through),
            frame_bytes: self.frame_bytes.unwrap_or(of.frame_bytes),
            net_send: self.net_send_queue.map_or(of.net_send, DmaQueue::Hardware),
            doorbells_last: self.doorbells_last.unwrap_or(of.doorbells_last),
            best_effort: BestEffort {
                rate: self.best_effort_rate.unwrap_or(best_effort.rate),
                in_progress: self
                    .best_effort_in_progress
                    .unwrap_or(best_effort.in_progress),
                ..best_effort
            },
            ..of
        }
    }
}

/// The workload of the processes.
#[derive(Clone, Debug)]
pub enum Workload {
    /// Two nodes send one message back and forth.
    PingPong {
        /// The number of measured round trips.
        rounds: u32,
    },
    /// Two nodes send windows of messages to each other.
    PingBulk {
        /// The number of messages in a window.
        window: u32,
        /// The number of measured windows.
        rounds: u32,
    },
    /// Types I to IV of chapter 4. Each of the scenario's sizes replaces the load's.
    Interfaces(Load),
    /// Channels with reserved rates beside best effort, of chapter 5.
    Channels(Experiment),
    /// Traffic between all nodes.
    Traffic(Box<Traffic>),
}

/// Why a scenario has no result.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// A run of cards failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A program failed.
    #[error(transparent)]
    Program(#[from] SimError),
    /// Jobs do not end.
    #[error(transparent)]
    Jobs(#[from] DidNotEnd),
}

/// One independent run of a scenario.
#[derive(Clone, Debug)]
pub struct Step<'a> {
    pub(super) what: &'a ScenarioKind,
    /// The value of the swept key.
    pub value: Option<&'a str>,
    /// Bytes of its messages; 0 where the workload decides.
    pub size_bytes: u32,
    /// The number of the run among those that differ in their seeds, from 0.
    pub replication: u32,
}

impl Scenario {
    /// Whether the same file yields the same values wherever and whenever it is run.
    pub fn is_reproducible(&self) -> bool {
        self.variants.iter().all(|variant| match &variant.what {
            ScenarioKind::Cards(_) | ScenarioKind::Jobs(_) => true,
            ScenarioKind::Program(program) => program.setup.clocking.is_deterministic(),
        })
    }

    /// Whether runs have messages and engines that a timeline shows.
    pub fn has_timeline(&self) -> bool {
        let mut all = self.variants.iter();
        !all.any(|variant| matches!(variant.what, ScenarioKind::Jobs(_)))
    }

    /// The runs: one for each swept value, each size, and each replication, in this order.
    pub fn steps(&self) -> Vec<Step<'_>> {
        let mut steps = Vec::new();
        for variant in &self.variants {
            let sizes: &[u32] = match &variant.what {
                ScenarioKind::Cards(cards) if !cards.sizes.is_empty() => &cards.sizes,
                _ => &[0],
            };
            for &size_bytes in sizes {
                steps.extend((0..self.replications).map(|replication| Step {
                    what: &variant.what,
                    value: variant.value.as_deref(),
                    size_bytes,
                    replication,
                }));
            }
        }
        steps
    }
}
