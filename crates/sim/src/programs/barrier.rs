//! A barrier over a tree of requests: arrivals of all processes go up to process 0, and the release comes down.

use crate::am::port::{Awaited, Rank};
use crate::am::{ActiveMessages, AmError, Arrival, HandlerId};

/// The number of children of a process in the tree.
const FAN_OUT: u32 = 4;

/// A process's state of barriers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Barrier {
    /// Arrivals of children, in all barriers together.
    arrivals: u64,
    /// Releases from the parent, likewise.
    releases: u64,
    /// Barriers that this process has passed.
    passed: u64,
}

/// A state that contains a barrier.
pub trait HasBarrier {
    /// The barrier.
    fn barrier(&mut self) -> &mut Barrier;
}

/// The handler of a child's arrival.
pub fn on_arrival<S: HasBarrier>(arrival: &mut Arrival<'_, S>) -> Result<(), AmError> {
    arrival.state.barrier().arrivals += 1;
    Ok(())
}

/// The handler of the release.
pub fn on_release<S: HasBarrier>(arrival: &mut Arrival<'_, S>) -> Result<(), AmError> {
    arrival.state.barrier().releases += 1;
    Ok(())
}

/// The processes below `rank`.
fn children(rank: Rank, ranks: u32) -> impl Iterator<Item = Rank> {
    let first = u64::from(rank) * u64::from(FAN_OUT) + 1;
    (first..first + u64::from(FAN_OUT))
        .take_while(move |&child| child < u64::from(ranks))
        .map(|child| child as Rank)
}

/// Waits until all processes have arrived. `arrive` and `release` are the indices of this module's handlers in the table.
pub fn pass<A>(am: &mut A, arrive: HandlerId, release: HandlerId) -> Result<(), AmError>
where
    A: ActiveMessages,
    A::State: HasBarrier,
{
    let (rank, ranks) = (am.rank(), am.ranks());
    let passed = am.state().barrier().passed;
    let expected = (passed + 1) * children(rank, ranks).count() as u64;
    let from_below = match children(rank, ranks).next() {
        Some(child) => Awaited::from(child, "arrival at a barrier, or its sisters',"),
        None => Awaited::from_any("arrivals at a barrier"),
    };
    am.wait_until(from_below, |state| state.barrier().arrivals >= expected)?;
    if rank > 0 {
        let parent = (rank - 1) / FAN_OUT;
        am.request(parent, arrive, &[])?;
        let from_above = Awaited::from(parent, "release from a barrier");
        am.wait_until(from_above, |state| state.barrier().releases > passed)?;
    }
    for child in children(rank, ranks) {
        am.request(child, release, &[])?;
    }
    am.state().barrier().passed = passed + 1;
    Ok(())
}
