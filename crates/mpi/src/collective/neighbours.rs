//! Collective operations of neighbours in a topology (MPI 5.0 §8.6).

use super::Blocks;
use crate::abi;
use crate::error::{Error, Result};
use crate::process::Process;
use crate::steps::Steps;
use crate::topology::{Neighbour, Neighbours};

/// The places of blocks with their neighbours' ranks, in the order in which messages between two processes go: by label.
fn in_order(neighbours: &[Neighbour]) -> Vec<(usize, u32)> {
    let mut places: Vec<_> = neighbours.iter().enumerate().collect();
    places.sort_by_key(|(_, neighbour)| neighbour.label);
    let there_is =
        |(at, neighbour): (usize, &Neighbour)| Some((at, u32::try_from(neighbour.rank?).ok()?));
    places.into_iter().filter_map(there_is).collect()
}

impl Process {
    /// The neighbours of this process in a communicator's topology.
    pub fn neighbours(&self, communicator: usize) -> Result<Neighbours> {
        let communicator = self.communicator(communicator)?;
        let topology = communicator.topology().ok_or_else(|| {
            let text = "the communicator has no topology";
            Error::new(abi::ERR_TOPOLOGY, text)
        })?;
        Ok(topology.neighbours(communicator.rank() as i32))
    }

    /// Exchanges blocks with neighbours: sends one block to all destinations, or one to each, and receives one from each
    /// source. Blocks of neighbours beyond a grid's edge stay as they are.
    pub fn exchange_with_neighbours(
        &mut self,
        from: &Blocks,
        into: &Blocks,
        is_same: bool,
        communicator: usize,
    ) -> Result<Steps> {
        let all = self.neighbours(communicator)?;
        let mut steps = self.steps_on(communicator);
        if self.checks {
            let [sent, expected] = [from.data()?, into.data()?];
            let sent = in_order(&all.destinations)
                .into_iter()
                .filter_map(|(at, rank)| Some((rank, *sent.get(if is_same { 0 } else { at })?)));
            let expected = in_order(&all.sources)
                .into_iter()
                .filter_map(|(at, rank)| Some((rank, *expected.get(at)?)));
            steps.exchanges(sent.collect(), expected.collect());
        }
        let from = from.packed(&mut steps)?;
        // A block that is not received must not be unpacked.
        for (at, rank) in in_order(&all.sources) {
            let into = into.staging_at(at, &mut steps)?;
            steps.receive(rank, into);
        }
        for (at, rank) in in_order(&all.destinations) {
            if let Some(from) = from.get(if is_same { 0 } else { at }) {
                steps.send(rank, from.clone());
            }
        }
        Ok(steps)
    }
}
