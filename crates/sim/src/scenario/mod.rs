//! Experiments of the user's own: a file names hardware, the card's program, a workload, sizes and a seed.
//!
//! ```toml
//! profile = "via"              # one that comes with the simulator, or the path of a file
//! design = "Base+O"
//! sizes = ["128 B", "4 KiB"]
//!
//! [workload]
//! kind = "exchange"            # types II to IV of chapter 4
//! nodes = 16
//! active = 28
//! rounds = 100
//! ```
//!
//! [`read`] is strict, as parameter files are: unknown keys, and keys without a meaning for the
//! workload, are refused with their lines and what is allowed. `run` makes the measurements; each
//! size is a run of its own.

mod channels;
mod jobs;
#[cfg(test)]
mod jobs_tests;
mod keys;
mod measure;
#[cfg(test)]
mod memory_tests;
mod network;
#[cfg(test)]
mod network_tests;
mod program;
mod read;
mod run;
mod setup;
mod sweep;
#[cfg(test)]
mod tests;
mod traffic;
#[cfg(test)]
mod traffic_tests;

pub use jobs::Jobs;
pub use keys::{Key, is_list, keys};
pub use measure::{Measure, Parts, Summary, summarize};
pub use program::{ProgramSetup, Runnable};
pub use read::{WORKLOADS, read};
pub use setup::{Cards, Changes, Scenario, ScenarioError, ScenarioKind, Step, Variant, Workload};

use crate::node::Record;
use crate::workloads::Keep;

impl Step<'_> {
    /// Runs it.
    pub fn run(&self, keep: Keep) -> Result<(Vec<Measure>, Record), ScenarioError> {
        match self.what {
            ScenarioKind::Cards(cards) => Ok(run::cards(cards, self, keep)?),
            ScenarioKind::Program(setup) => Ok(setup.run(keep)?),
            ScenarioKind::Jobs(jobs) => Ok(jobs.run(self.replication)?),
        }
    }

    /// Everything that determines the results, besides the code, as text that differs if and only
    /// if the runs do.
    pub fn parameters(&self) -> String {
        format!("{:?}", (self.what, self.size_bytes, self.replication))
    }
}
