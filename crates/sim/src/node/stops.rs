//! Nodes that stand still for some time: neither the card's program nor processes run. Engines and links finish what they were given.

use crate::engine::Time;
use crate::hardware::{Broken, Outage};

/// When which nodes stand still.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stops(Vec<(u32, Time, Time)>);

impl Stops {
    /// Those of the outages that stop nodes.
    pub(crate) fn new(outages: &[Outage]) -> Self {
        let stops = outages.iter().filter(|outage| outage.stops);
        Self(
            stops
                .filter_map(|outage| match outage.what {
                    Broken::Node(node) => Some((node as u32, outage.from, outage.to)),
                    Broken::Switch(_) | Broken::Cable(..) => None,
                })
                .collect(),
        )
    }

    /// When the node goes on, if it stands still now.
    pub(crate) fn until(&self, node: u32, now: Time) -> Option<Time> {
        let now_of = self.0.iter().filter(|stop| stop.0 == node);
        now_of
            .filter(|(_, from, to)| (*from..*to).contains(&now))
            .map(|(.., to)| *to)
            .max()
    }
}
