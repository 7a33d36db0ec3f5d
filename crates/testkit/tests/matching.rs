//! Matchers against the reference, and the engine over the one with wildcards.

use causeway_engine::matcher::{ByTag, FromTag};
use causeway_mpi::matching::{Mpi, MpiPattern};
use causeway_testkit::matching::{Rules, follow_reference};
use causeway_testkit::random::Random;

const SEEDS: u64 = 200;
const STEPS: usize = 1500;

fn below(random: &mut Random, most: usize) -> u32 {
    random.below(most) as u32
}

struct Bmi;

impl Rules for Bmi {
    type Matcher = ByTag;

    fn pattern(random: &mut Random) -> FromTag {
        let (peer, tag) = Self::message(random);
        FromTag { peer, tag }
    }

    fn message(random: &mut Random) -> (u32, u64) {
        (below(random, 3), random.below(8) as u64)
    }

    fn matches(pattern: &FromTag, (peer, tag): (u32, u64)) -> bool {
        *pattern == FromTag { peer, tag }
    }
}

/// Patterns and messages of so many tags.
struct Wildcards<const TAGS: usize>;

impl<const TAGS: usize> Rules for Wildcards<TAGS> {
    type Matcher = Mpi;

    fn pattern(random: &mut Random) -> MpiPattern {
        MpiPattern {
            context: below(random, 2),
            source: (!random.one_in(3)).then(|| below(random, 3)),
            tag: (!random.one_in(3)).then(|| below(random, TAGS)),
        }
    }

    fn message(random: &mut Random) -> (u32, u64) {
        let (context, tag) = (below(random, 2), below(random, TAGS));
        (below(random, 3), MpiPattern::word(context, tag))
    }

    fn matches(pattern: &MpiPattern, message: (u32, u64)) -> bool {
        pattern.matches(message)
    }
}

#[test]
fn by_tag_does_as_the_reference() {
    (0..SEEDS).for_each(|seed| follow_reference::<Bmi>(seed, STEPS));
}

#[test]
fn with_wildcards_does_as_the_reference() {
    (0..SEEDS).for_each(|seed| follow_reference::<Wildcards<4>>(seed, STEPS));
}

/// More patterns of one source than have queues of their own.
#[test]
fn with_wildcards_and_many_tags_does_as_the_reference() {
    (0..SEEDS).for_each(|seed| follow_reference::<Wildcards<12>>(seed, STEPS));
}
