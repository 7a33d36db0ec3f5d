//! The patterns that each library runs once in a run.

use crate::sizes::Sizes;

/// The largest message of collective operations.
const MOST_COLLECTIVE_BYTES: u64 = 1 << 20;
/// Ranks of the pattern that measures start-up.
const MANY_RANKS: u32 = 8;
/// Far more ranks than processors: for small collective operations.
const CROWD: u32 = 16;
const MOST_RANKS: u32 = 64;
/// Sizes of collective operations with that many ranks.
const SMALL: u64 = 8;

/// The sizes that a pattern is run with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum With {
    /// All sizes.
    Sizes,
    /// All sizes but the empty one.
    Bytes,
    /// Some of the sizes, for patterns that run with many numbers of ranks.
    FewSizes,
    /// This size.
    Size(u64),
    /// Both sizes.
    Sizes2(u64, u64),
}

/// The numbers of ranks that a pattern is run with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Two,
    /// From one to four senders, and the receiver.
    Senders,
    /// The requested numbers.
    Chosen,
    /// The requested numbers, and far more ranks than processors with small messages.
    ChosenAndCrowd,
    Many,
    /// Two, and a master with several workers.
    TwoAndFour,
    /// Those of start-up, and still more.
    ManyAndMost,
}

/// A pattern that the program implements.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pattern {
    pub(super) name: &'static str,
    by: By,
    with: With,
}

const fn pattern(name: &'static str, by: By, with: With) -> Pattern {
    Pattern { name, by, with }
}

/// All patterns, in the order in which they are run.
pub(super) const PATTERNS: [Pattern; 19] = [
    pattern("latency", By::Two, With::Sizes),
    pattern("bandwidth", By::Two, With::Bytes),
    pattern("bidirectional", By::Two, With::Bytes),
    pattern("any-source", By::Senders, With::Size(8)),
    pattern("threads", By::Two, With::Size(8)),
    pattern("barrier", By::ChosenAndCrowd, With::Size(0)),
    pattern("bcast", By::Chosen, With::FewSizes),
    pattern("allreduce", By::ChosenAndCrowd, With::FewSizes),
    pattern("reduce_scatter", By::Chosen, With::FewSizes),
    pattern("allgather", By::Chosen, With::FewSizes),
    pattern("alltoall", By::Chosen, With::FewSizes),
    // The program itself determines the sizes of these.
    pattern("vector", By::Two, With::Size(0)),
    pattern("subarray", By::Two, With::Size(0)),
    pattern("one-sided", By::Two, With::Sizes2(8, 1 << 20)),
    pattern("master-worker", By::TwoAndFour, With::Size(0)),
    pattern("life", By::Two, With::Size(0)),
    pattern("overlap", By::Two, With::Size(1 << 20)),
    pattern(START, By::Many, With::Size(0)),
    pattern("memory", By::ManyAndMost, With::Size(64 << 10)),
];

/// The pattern that does nothing but start and end.
pub(super) const START: &str = "start";

/// A pattern with a number of ranks.
#[derive(Debug, Clone)]
pub(super) struct Trial {
    pub(super) pattern: &'static str,
    pub(super) ranks: u32,
    pub(super) sizes: Vec<u64>,
    /// How long a pattern is repeated.
    pub(super) milliseconds: u32,
}

impl Trial {
    /// Its name: `allreduce by 4 ranks`.
    pub(super) fn name(&self) -> String {
        format!("{} by {} ranks", self.pattern, self.ranks)
    }
}

/// The trials of the patterns of these names.
pub(super) fn all(only: &[String], ranks: &[u32], sizes: &Sizes, quick: bool) -> Vec<Trial> {
    let chosen = |pattern: &Pattern| only.iter().any(|name| name == pattern.name);
    let mut trials = Vec::new();
    for pattern in PATTERNS.into_iter().filter(chosen) {
        let ranks = match pattern.by {
            By::Two => vec![2],
            By::Senders => vec![2, 3, 4, 5],
            By::Chosen => ranks.to_vec(),
            By::ChosenAndCrowd => {
                let crowd = (!quick && !ranks.contains(&CROWD)).then_some(CROWD);
                ranks.iter().copied().chain(crowd).collect()
            }
            By::Many => vec![MANY_RANKS],
            By::TwoAndFour => vec![2, 4],
            By::ManyAndMost if quick => vec![MANY_RANKS],
            By::ManyAndMost => vec![MANY_RANKS, MOST_RANKS],
        };
        trials.extend(ranks.into_iter().map(|ranks| Trial {
            pattern: pattern.name,
            ranks,
            sizes: pattern.sizes(sizes, ranks),
            milliseconds: if quick { 10 } else { 40 },
        }));
    }
    trials
}

impl Pattern {
    fn sizes(self, all: &Sizes, ranks: u32) -> Vec<u64> {
        let kept = |size: &u64| match self.with {
            With::Sizes => true,
            With::Bytes => *size > 0,
            // Elements of 4 bytes; of drawn sizes every second power of two.
            With::FewSizes => {
                let drawn = all.seed.is_some();
                let kept = size.is_power_of_two() && size.trailing_zeros() % 2 == 1;
                let fits = (4..=MOST_COLLECTIVE_BYTES).contains(size);
                fits && size.is_multiple_of(4) && (kept || !drawn)
            }
            With::Size(_) | With::Sizes2(..) => false,
        };
        match self.with {
            With::Size(size) => vec![size],
            With::Sizes2(one, other) => vec![one, other],
            With::FewSizes if ranks >= CROWD => vec![SMALL],
            _ => all.bytes.iter().copied().filter(kept).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trials(only: &str, bytes: &[u64], seed: Option<u64>) -> Vec<Trial> {
        let sizes = Sizes {
            bytes: bytes.to_vec(),
            seed,
        };
        all(&[only.to_owned()], &[2, 4], &sizes, true)
    }

    #[test]
    fn patterns_have_their_ranks_and_sizes() {
        let sizes = [0, 8, 16, 17, 32, 4 << 20];
        let names = |trials: &[Trial]| Vec::from_iter(trials.iter().map(Trial::name));
        let latency = trials("latency", &sizes, Some(1));
        assert_eq!(names(&latency), ["latency by 2 ranks"]);
        assert_eq!(latency[0].sizes, sizes);
        let bcast = trials("bcast", &sizes, Some(1));
        assert_eq!(names(&bcast), ["bcast by 2 ranks", "bcast by 4 ranks"]);
        assert_eq!(bcast[0].sizes, [8, 32]);
        assert_eq!(trials("bcast", &sizes, None)[0].sizes, [8, 16, 32]);
        assert_eq!(trials("any-source", &sizes, None).len(), 4);
        let chosen = Sizes {
            bytes: sizes.to_vec(),
            seed: None,
        };
        let crowd = all(&["allreduce".to_owned()], &[2], &chosen, false);
        assert_eq!((crowd[1].ranks, &crowd[1].sizes), (CROWD, &vec![SMALL]));
        assert_eq!(trials(START, &sizes, None)[0].ranks, MANY_RANKS);
    }
}
