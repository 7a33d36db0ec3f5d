//! The processes of the experiments, and the worlds that they run in.
//!
//! | part | experiments |
//! |---|---|
//! | [`design`] | how cards of the thesis are built: Base to Door+O+DMAQ+2CPU, SVIA, PVIA, QoSVIA |
//! | [`ping`] | ping-pong and ping-bulk of two nodes (tables 5.1 and 5.2) |
//! | [`scaling`] | types I to IV on many virtual interfaces (chapter 4) |
//! | [`quality`] | channels of constant and variable rate beside best effort (chapter 5) |
//! | [`traffic`] | patterns of traffic between all nodes, in open and closed loops |
//! | [`mpeg`] | sizes of video frames, from a model or from a file |
//! | [`random`] | random numbers that are the same everywhere |

pub mod design;
pub mod mpeg;
pub mod ping;
pub mod quality;
pub mod random;
pub mod scaling;
pub mod traffic;

use crate::engine::{SECOND, Time};
use crate::hardware::TopologyError;
use crate::node::{BuildError, Ended, Record, World};

/// When an experiment is abandoned, in virtual time: long before times overflow.
const LONGEST: Time = 1_000_000 * SECOND;

/// The records that are kept while an experiment runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Sums only.
    Sums,
    /// Sums, distributions of latencies, events over time, and use.
    Statistics,
    /// All that, and the data of a timeline, which takes memory for each message.
    Slices,
}

impl Keep {
    /// Sets what `world` records. What happens before `from` prepares the experiment and is not in its statistics.
    fn begin(self, world: &mut World, from: Time) {
        if self != Self::Sums {
            world.keep_statistics(from);
        }
        if self == Self::Slices {
            world.record.keep_slices();
        }
    }
}

/// Why an experiment has no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Its world could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The experiment did not end.
    #[error("{0}")]
    Ended(Ended),
    /// The program passed an engine more than it holds, or messages failed.
    #[error("{overcommitted} transfers were given to a full engine, and {errors} messages failed")]
    Broken {
        /// Transfers for an engine that was full.
        overcommitted: u64,
        /// Completions with an error.
        errors: u64,
    },
    /// The nodes cannot be joined like this.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// There was nothing to measure.
    #[error("there was nothing to measure: {0}")]
    Empty(&'static str),
}

/// Fails if the world did not run to its end, or the program broke a promise.
fn check(ended: Ended, record: &Record) -> Result<(), RunError> {
    if ended != Ended::Finished {
        return Err(RunError::Ended(ended));
    }
    sound(record)
}

/// Fails if the program has broken a promise so far.
fn sound(record: &Record) -> Result<(), RunError> {
    let (overcommitted, errors) = (record.sums.overcommitted, record.sums.errors);
    match (overcommitted, errors) {
        (0, 0) => Ok(()),
        _ => Err(RunError::Broken {
            overcommitted,
            errors,
        }),
    }
}
