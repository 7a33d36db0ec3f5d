//! Processes that compute, one on each processor, while a participant is measured.

use std::time::Duration;

use causeway_command::failure::{Failure, Outcome};
use causeway_command::workers::{Event, Pool};

use super::multi_process::{Assignment, Report, Role};
use super::trial::{Pattern, Trial};
use crate::task::Task;

/// How long the processes may take to start.
const STARTING: Duration = Duration::from_secs(20);

/// Processes that compete for the processors; they end when this is dropped.
pub(crate) struct Competitors {
    pool: Pool<Report>,
}

impl Competitors {
    /// Starts the processes that the pattern requires: none, or one on each of the two processors.
    pub(crate) fn of(trial: &Trial) -> Outcome<Self> {
        let mut pool = Pool::default();
        if trial.pattern == Pattern::Contention {
            for processor in trial.processors {
                pool.start(&Task::MultiProcess(Assignment {
                    processors: vec![processor],
                    role: Role::Computing,
                }))?;
            }
            pool.gather(STARTING, "starting processes that compute")?;
        }
        Ok(Self { pool })
    }

    /// Fails if one of the processes has ended: the measurement was then made without it.
    pub(crate) fn still_compute(&self) -> Outcome {
        match self.pool.event(Duration::ZERO) {
            Some((number, Event::Ended(why))) => Err(Failure::new(
                "computing beside the messages",
                format!(
                    "process {number} has ended early: {}",
                    why.unwrap_or_else(|| "it printed nothing".to_owned())
                ),
            )),
            _ => Ok(()),
        }
    }
}
