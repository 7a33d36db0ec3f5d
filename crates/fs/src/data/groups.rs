//! Which groups of blocks were written. A block without a sum is lost if it is in a written group, and a hole
//! otherwise.
//!
//! Before the first block of a group is written, all blocks of the group get the sum of their present content, zeros, and then
//! the group is recorded in the header's page (`noted_groups`). So a page of sums that is lost with its data is not taken for a hole.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use causeway_wire::datafile::{MAX_FAR_SPANS, NEAR_GROUPS};

use crate::locks::lock;

/// Ascending spans of groups that are not adjacent: the first one of each, and the one behind its last.
pub(super) type GroupSpans = Vec<(u64, u64)>;

/// The written groups of one datafile.
#[derive(Debug)]
pub(super) struct Groups {
    /// How many groups, from the first on, were all written; for readers.
    prefix: AtomicU64,
    /// The written groups.
    pub(super) spans: Mutex<GroupSpans>,
    /// Held while a group is begun, and while the header's page gets the spans.
    pub(super) beginning: Mutex<()>,
}

impl Groups {
    /// The parts of these spans that lie within a datafile of this many groups.
    pub(super) fn new(spans: GroupSpans, count: u64) -> Self {
        let groups = Self {
            prefix: AtomicU64::new(u64::MAX),
            spans: Mutex::new(spans),
            beginning: Mutex::default(),
        };
        groups.truncate(count);
        groups
    }

    /// Whether a group was written. To be called before its sums are read.
    pub(super) fn has(&self, group: u64) -> bool {
        group < self.prefix.load(Ordering::Acquire)
            || self.next(group).is_some_and(|next| next == group)
    }

    /// The first written group from this one on.
    pub(super) fn next(&self, group: u64) -> Option<u64> {
        let spans = lock(&self.spans);
        let at = spans.partition_point(|(_, end)| *end <= group);
        spans.get(at).map(|(first, _)| group.max(*first))
    }

    pub(super) fn note(&self, group: u64) {
        let mut spans = lock(&self.spans);
        let at = spans.partition_point(|(_, end)| *end < group);
        match spans.get_mut(at) {
            Some((first, end)) if *first <= group + 1 && *end >= group => {
                *first = group.min(*first);
                *end = (group + 1).max(*end);
                let end = *end;
                if let Some(&(next, next_end)) = spans.get(at + 1)
                    && next == end
                {
                    spans[at].1 = next_end;
                    spans.remove(at + 1);
                }
            }
            _ => spans.insert(at, (group, group + 1)),
        }
        forget_shortest(&mut spans);
        self.note_prefix(&spans);
    }

    /// Removes groups beyond the first `count`. The caller keeps all writers out.
    pub(super) fn truncate(&self, count: u64) {
        let mut spans = lock(&self.spans);
        spans.retain_mut(|(first, end)| {
            *end = (*end).min(count);
            *first < *end
        });
        self.note_prefix(&spans);
    }

    pub(super) fn note_prefix(&self, spans: &[(u64, u64)]) {
        let prefix = spans.first().filter(|(first, _)| *first == 0);
        self.prefix
            .store(prefix.map_or(0, |(_, end)| *end), Ordering::Release);
    }
}

/// Removes the shortest span: the header's page has room for a limited number of spans far from the beginning. In a group that
/// was removed, data that is lost together with its sums reads as a hole, until the group is written or scrubbed again.
fn forget_shortest(spans: &mut GroupSpans) {
    let far = spans.partition_point(|(_, end)| *end <= NEAR_GROUPS);
    if spans.len() - far <= MAX_FAR_SPANS {
        return;
    }
    let shortest = (far..spans.len()).min_by_key(|&at| spans[at].1 - spans[at].0);
    if let Some(at) = shortest {
        spans.remove(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn knows_which_groups_were_written(
            steps in prop::collection::vec((0u64..60, any::<bool>()), 0..200)
        ) {
            let (groups, mut written) = (Groups::new(Vec::new(), 0), [false; 80]);
            for (group, cut) in steps {
                if cut && group % 7 == 0 {
                    groups.truncate(group);
                    written[group as usize..].fill(false);
                } else {
                    groups.note(group);
                    written[group as usize] = true;
                }
                for at in 0..80 {
                    prop_assert_eq!(groups.has(at), written[at as usize]);
                    let next = written[at as usize..].iter().position(|written| *written);
                    prop_assert_eq!(groups.next(at), next.map(|behind| at + behind as u64));
                }
                let spans = lock(&groups.spans);
                prop_assert!(spans.windows(2).all(|pair| pair[0].1 < pair[1].0));
            }
        }
    }

    #[test]
    fn of_far_groups_the_shortest_spans_are_forgotten() {
        let groups = Groups::new(Vec::new(), 0);
        let far = |index: u64| NEAR_GROUPS + 10 * index;
        for index in 0..MAX_FAR_SPANS as u64 {
            groups.note(far(index));
            groups.note(far(index) + 1);
        }
        (0..NEAR_GROUPS)
            .step_by(2)
            .for_each(|near| groups.note(near));
        groups.note(far(1000));
        assert!(!groups.has(far(1000)));
        assert!((0..MAX_FAR_SPANS as u64).all(|index| groups.has(far(index))));
        assert!((0..NEAR_GROUPS).all(|near| groups.has(near) == near.is_multiple_of(2)));
    }
}
