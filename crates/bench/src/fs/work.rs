//! The orders to the processes of a measurement, and their reports.

use causeway_command::failure::Outcome;
use causeway_command::workers::Channel;
use causeway_watch::process::monotonic_ns;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A report of a process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// It is connected, or ready to begin an order.
    Ready,
    /// An order is done: when, on the common clock, and how many operations.
    Done { at_ns: u64, operations: u64 },
}

/// What a process does for a measurement.
pub(crate) trait Work {
    /// The orders that it can get.
    type Order: DeserializeOwned;

    /// Does the untimed steps of an order.
    fn prepare(&mut self, order: &Self::Order) -> Outcome;

    /// Carries an order out. Returns how many operations that were.
    fn carry_out(&mut self, order: Self::Order) -> Outcome<u64>;
}

/// Works until the command closes the channel.
pub(crate) fn work(work: &mut impl Work, channel: &mut Channel) -> Outcome {
    channel.send(&Report::Ready)?;
    while let Some(order) = channel.receive()? {
        work.prepare(&order)?;
        channel.barrier(&Report::Ready)?;
        let operations = work.carry_out(order)?;
        let at_ns = monotonic_ns();
        channel.send(&Report::Done { at_ns, operations })?;
    }
    Ok(())
}
