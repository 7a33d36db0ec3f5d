//! Changes that wait for leases to end, found by what they alter and by when they need not wait any longer: the end of a lease costs nothing for
//! those that do not wait for it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use causeway_wire::fs::Leased;

/// Something that waits.
pub(super) trait Waiting {
    /// What the change alters.
    fn alters(&self) -> &[Leased];

    /// When it need not wait any longer, if no holder says anything before.
    fn until(&self) -> Instant;
}

/// See the module.
pub(super) struct Waits<W> {
    /// In the order in which they came.
    all: BTreeMap<u64, W>,
    by_lease: HashMap<Leased, BTreeSet<u64>>,
    by_end: BTreeSet<(Instant, u64)>,
    last: u64,
}

impl<W: Waiting> Waits<W> {
    pub(super) fn new() -> Self {
        Self {
            all: BTreeMap::new(),
            by_lease: HashMap::new(),
            by_end: BTreeSet::new(),
            last: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &W> {
        self.all.values()
    }

    pub(super) fn add(&mut self, wait: W) {
        self.last += 1;
        self.by_end.insert((wait.until(), self.last));
        for on in wait.alters() {
            let waits = self.by_lease.entry(on.clone()).or_default();
            waits.insert(self.last);
        }
        self.all.insert(self.last, wait);
    }

    /// When the next one need not wait any longer.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.by_end.first().map(|(until, _)| *until)
    }

    /// Takes those out that `may` continue, among those whose time has come and those that alter some of what was `freed`, in the order in
    /// which they came.
    pub(super) fn take(
        &mut self,
        freed: impl IntoIterator<Item = Arc<Leased>>,
        now: Instant,
        mut may: impl FnMut(&W) -> bool,
    ) -> Vec<W> {
        let due = self.by_end.iter().take_while(|(until, _)| *until <= now);
        let mut found: BTreeSet<u64> = due.map(|(_, number)| *number).collect();
        for on in freed {
            found.extend(self.by_lease.get(&*on).into_iter().flatten());
        }
        found.retain(|number| self.all.get(number).is_some_and(&mut may));
        found
            .into_iter()
            .filter_map(|number| self.remove(number))
            .collect()
    }

    fn remove(&mut self, number: u64) -> Option<W> {
        let wait = self.all.remove(&number)?;
        self.by_end.remove(&(wait.until(), number));
        for on in wait.alters() {
            if let Some(waits) = self.by_lease.get_mut(on) {
                waits.remove(&number);
                if waits.is_empty() {
                    self.by_lease.remove(on);
                }
            }
        }
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use causeway_wire::fs::ObjectId;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone, PartialEq)]
    struct Change {
        number: usize,
        alters: Vec<Leased>,
        until: Instant,
    }

    impl Waiting for Change {
        fn alters(&self) -> &[Leased] {
            &self.alters
        }

        fn until(&self) -> Instant {
            self.until
        }
    }

    #[derive(Debug, Clone)]
    enum Event {
        Add(Vec<u64>, u64),
        /// Leases on these end, and so much time passes.
        Free(Vec<u64>, u64),
    }

    fn attributes(object: u64) -> Leased {
        Leased::Attributes(ObjectId(object))
    }

    fn any_event() -> impl Strategy<Value = Event> {
        let objects = || vec(0..6u64, 0..4);
        prop_oneof![
            (objects(), 0..8u64).prop_map(|(on, time)| Event::Add(on, time)),
            (objects(), 0..3u64).prop_map(|(on, time)| Event::Free(on, time)),
        ]
    }

    proptest! {
        /// As if all were looked at each time.
        #[test]
        fn those_that_may_go_on_are_found(events in vec(any_event(), 1..60), held in vec(any::<bool>(), 6)) {
            let (mut waits, mut model, mut now) = (Waits::new(), Vec::<Change>::new(), Instant::now());
            let mut asked_after = 0;
            for (number, event) in events.into_iter().enumerate() {
                match event {
                    Event::Add(on, time) => {
                        let until = now + Duration::from_secs(time);
                        let alters = on.into_iter().map(attributes).collect();
                        let change = Change { number, alters, until };
                        model.push(change.clone());
                        waits.add(change);
                    }
                    Event::Free(on, time) => {
                        now += Duration::from_secs(time);
                        let freed: Vec<Leased> = on.into_iter().map(attributes).collect();
                        // Some of these are held by others still.
                        let is_free = |change: &Change| {
                            let mut on = change.alters.iter();
                            on.all(|on| matches!(on, Leased::Attributes(object) if !held[object.0 as usize]))
                        };
                        let concerned = |change: &Change| {
                            change.until <= now || change.alters.iter().any(|on| freed.contains(on))
                        };
                        let expected: Vec<Change> = model
                            .extract_if(.., |change| concerned(change) && is_free(change))
                            .collect();
                        let known = model.len() + expected.len();
                        let taken = waits.take(freed.iter().cloned().map(Arc::new), now, |change| {
                            asked_after += 1;
                            assert!(concerned(change), "{change:?} is not concerned");
                            is_free(change)
                        });
                        prop_assert!(asked_after <= known);
                        asked_after = 0;
                        prop_assert_eq!(taken, expected);
                    }
                }
                prop_assert_eq!(waits.len(), model.len());
                prop_assert_eq!(waits.is_empty(), model.is_empty());
                prop_assert!(waits.iter().eq(&model));
                prop_assert_eq!(waits.next_end(), model.iter().map(|change| change.until).min());
            }
            let all = waits.take([], now + Duration::from_secs(99), |_| true);
            prop_assert_eq!(all, model);
            prop_assert!(waits.by_lease.is_empty() && waits.by_end.is_empty());
        }
    }
}
