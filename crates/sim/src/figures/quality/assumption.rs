//! What figures 5.2 to 5.8 are run with besides what the text says, to see on what its claims depend.

use crate::figures::common::prefix_of;

/// What a run assumes of things that the text leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Assumption {
    /// What the figure assumes.
    Own,
    /// A card with a faster processor.
    Clock(u64),
    /// So many times larger pictures: fewer streams, each of a higher rate.
    Pictures(u32),
    /// Putting a frame into the network engine's hardware queue takes so many cycles.
    QueueStep(u64),
    /// Another choice of where in their periods channels begin.
    Begin(u64),
}

/// The card's clock in figures 5.4 to 5.7, to see on what they depend.
pub(super) const FASTER: Assumption = Assumption::Clock(3);
/// The pictures of fig. 5.7, for the same.
pub(super) const LARGER: Assumption = Assumption::Pictures(4);
/// The step that fig. 5.8 is about, as dear as that of the host engine's queue in the profile.
pub(super) const DEAR_QUEUE: Assumption = Assumption::QueueStep(248);
/// How many other choices of channels' beginnings fig. 5.3 is run with.
pub(super) const BEGINNINGS: u64 = 20;

impl Assumption {
    pub(super) fn assumed(self) -> String {
        match self {
            Self::Own => String::new(),
            Self::Clock(times) => format!("the card's clock is {times} times as high"),
            Self::Pictures(times) => format!("pictures are {times} times as large"),
            Self::QueueStep(cycles) => {
                format!("putting a frame into the hardware queue takes {cycles} cycles")
            }
            Self::Begin(seed) => format!("channels begin elsewhere ({seed})"),
        }
    }

    /// What the series' names begin with.
    pub(super) fn prefix(self) -> String {
        match self {
            Self::Own => String::new(),
            other => prefix_of(&other.assumed()),
        }
    }
}
