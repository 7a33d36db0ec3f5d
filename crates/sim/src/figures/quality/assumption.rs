//! Further assumptions for runs of figures 5.2 to 5.8, to see what their claims depend on.

use crate::figures::common::prefix_of;

/// What a run assumes about things that the text leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Assumption {
    /// The figure's own assumptions.
    Own,
    /// A card with a faster processor.
    Clock(u64),
    /// Pictures this many times larger: fewer streams, each of a higher rate.
    Pictures(u32),
    /// Putting a frame into the network engine's hardware queue takes this many cycles.
    QueueStep(u64),
    /// Another choice of where in their periods channels begin.
    Begin(u64),
}

/// The card's clock in figures 5.4 to 5.7, to see what they depend on.
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

    /// The prefix of the series' names.
    pub(super) fn prefix(self) -> String {
        match self {
            Self::Own => String::new(),
            other => prefix_of(&other.assumed()),
        }
    }
}
