//! The processes of a measurement: all begin at one moment, and the time ends with the last.

use std::marker::PhantomData;
use std::time::Duration;

use causeway_command::cluster::Cluster;
use causeway_command::failure::{Failure, Outcome};
use causeway_command::workers::Pool;
use serde::Serialize;

use super::work::Report;
use super::{system_calls, worker};
use crate::task::Task;

/// How long a measurement may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// Processes that get orders of the type `O`.
pub(crate) struct Processes<O> {
    pool: Pool<Report>,
    orders: PhantomData<O>,
}

/// Client processes of one file system, connected.
pub(crate) type ClientProcesses = Processes<worker::Order>;

/// Processes that use directories by system calls.
pub(crate) type Programs = Processes<system_calls::Order>;

/// The result of a measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    /// From the common start to the last end.
    pub(crate) seconds: f64,
    /// The sum of the operations that all workers counted.
    pub(crate) operations: u64,
}

impl Timing {
    /// Operations per second.
    pub(crate) fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds.max(1e-9)
    }

    /// Millions of bytes per second, if `bytes` were moved.
    pub(crate) fn megabytes(&self, bytes: u64) -> f64 {
        bytes as f64 / 1e6 / self.seconds.max(1e-9)
    }
}

impl ClientProcesses {
    /// Starts `clients` processes and waits until they are connected to every server.
    pub(crate) fn start(cluster: &Cluster, clients: usize) -> Outcome<Self> {
        Self::of((0..clients).map(|number| {
            Task::Fs(worker::Assignment {
                config: cluster.file().to_owned(),
                number,
            })
        }))
    }
}

impl Programs {
    /// Starts `count` processes.
    pub(crate) fn start(count: usize) -> Outcome<Self> {
        Self::of((0..count).map(|number| Task::Program(system_calls::Assignment { number })))
    }
}

impl<O: Serialize> Processes<O> {
    fn of(tasks: impl Iterator<Item = Task>) -> Outcome<Self> {
        let mut pool = Pool::default();
        for task in tasks {
            pool.start(&task)?;
        }
        pool.gather(PATIENCE, "starting the processes that measure")?;
        Ok(Self {
            pool,
            orders: PhantomData,
        })
    }

    /// The number of processes.
    pub(crate) fn len(&self) -> usize {
        self.pool.count()
    }

    /// Has every process carry out its own order, all at once.
    pub(crate) fn measure(&mut self, order: impl Fn(usize) -> O) -> Outcome<Timing> {
        for number in 0..self.pool.count() {
            self.pool.send(number, &order(number))?;
        }
        let (started, _) = self.pool.start_together(PATIENCE)?;
        let mut took = Timing {
            seconds: 0.0,
            operations: 0,
        };
        for report in self.pool.gather(PATIENCE, "measuring")? {
            let Report::Done { at_ns, operations } = report else {
                return Err(Failure::new(
                    "measuring",
                    "a worker reported something other than its time",
                ));
            };
            let seconds = at_ns.saturating_sub(started) as f64 / 1e9;
            took.seconds = took.seconds.max(seconds);
            took.operations += operations;
        }
        Ok(took)
    }
}
