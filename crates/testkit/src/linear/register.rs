//! Histories of one register to which every value is written at most once, checked without a search.
//!
//! The operations on one value, its write and the reads that returned it, form a cluster. Where an operation
//! of one cluster returned before one of another was called, all of the first come before all of the second.
//! A history is linearizable if no read returned before its value was written and these orders have no cycle
//! (Gibbons and Korach).
//!
//! A write that was given up may have happened or not, and may happen after the caller got the error. It must not
//! happen after a later write that was acknowledged: that is one more order between two clusters.

use std::collections::{HashMap, HashSet};

/// What was done with the register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// This value was written.
    Wrote(u64),
    /// This value may have been written, or may be written yet.
    GaveUp(u64),
    /// This value was read.
    Read(u64),
}

/// An operation. Moments are numbers from one counter, all different and none of them 0.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    /// What was done.
    pub access: Access,
    /// When it was called.
    pub called: u64,
    /// When it returned.
    pub returned: u64,
}

/// The operations on one value.
#[derive(Debug)]
struct Cluster {
    value: u64,
    write: Event,
    /// The first moment at which one of them had returned for certain.
    ended: u64,
    /// The last moment at which one of them was called.
    called: u64,
}

impl Cluster {
    fn of(value: u64, write: Event) -> Self {
        let is_given_up = matches!(write.access, Access::GaveUp(_));
        Self {
            value,
            write,
            ended: if is_given_up {
                u64::MAX
            } else {
                write.returned
            },
            called: write.called,
        }
    }

    /// Whether all of this one come before all of `later`.
    fn precedes(&self, later: &Self) -> bool {
        let is_stale = matches!(self.write.access, Access::GaveUp(_))
            && matches!(later.write.access, Access::Wrote(_))
            && self.write.returned < later.write.called;
        self.ended < later.called || is_stale
    }
}

/// Checks a history that begins with the value `first`.
///
/// # Errors
///
/// The contradiction, in words.
pub fn check(first: u64, events: &[Event]) -> Result<(), String> {
    let clusters = clusters(first, events)?;
    let mut left: Vec<&Cluster> = clusters.iter().collect();
    loop {
        let before = left.len();
        let is_led = |one: &Cluster| {
            left.iter()
                .any(|other| other.value != one.value && other.precedes(one))
        };
        let rest: Vec<&Cluster> = left.iter().copied().filter(|one| is_led(one)).collect();
        if rest.is_empty() {
            return Ok(());
        }
        if rest.len() == before {
            return Err(contradiction(&rest));
        }
        left = rest;
    }
}

/// The clusters of all values that were read, or certainly written.
fn clusters(first: u64, events: &[Event]) -> Result<Vec<Cluster>, String> {
    let start = Event {
        access: Access::Wrote(first),
        called: 0,
        returned: 0,
    };
    let mut found = HashMap::from([(first, Cluster::of(first, start))]);
    for event in events {
        if let Access::Wrote(value) | Access::GaveUp(value) = event.access
            && found.insert(value, Cluster::of(value, *event)).is_some()
        {
            return Err(format!(
                "{value:#x} was written twice: the history is none of this kind"
            ));
        }
    }
    let mut was_read = HashSet::new();
    for event in events {
        let Access::Read(value) = event.access else {
            continue;
        };
        let Some(cluster) = found.get_mut(&value) else {
            return Err(format!("{value:#x} was read and never written: {event:?}"));
        };
        if event.returned < cluster.write.called {
            return Err(format!(
                "{value:#x} was read before it was written: {event:?}"
            ));
        }
        cluster.ended = cluster.ended.min(event.returned);
        cluster.called = cluster.called.max(event.called);
        was_read.insert(value);
    }
    let counts = |cluster: &Cluster| {
        matches!(cluster.write.access, Access::Wrote(_)) || was_read.contains(&cluster.value)
    };
    Ok(found.into_values().filter(counts).collect())
}

/// Names two clusters each of which must come before the other, or all that are part of or behind a longer cycle.
fn contradiction(clusters: &[&Cluster]) -> String {
    for one in clusters {
        for other in clusters.iter().filter(|other| other.value != one.value) {
            if one.precedes(other) && other.precedes(one) {
                return format!(
                    "{:#x} must come before {:#x}, and after it: {one:?}, {other:?}",
                    one.value, other.value
                );
            }
        }
    }
    format!("these values have no order: {clusters:?}")
}

#[cfg(test)]
mod tests {
    use super::super::{self as linear, Model, Verdict};
    use super::*;
    use crate::random::Random;

    fn event(access: Access, called: u64, returned: u64) -> Event {
        Event {
            access,
            called,
            returned,
        }
    }

    #[test]
    fn known_histories() {
        use Access::{GaveUp, Read, Wrote};
        let good = |events: &[_]| check(0, events).is_ok();
        assert!(good(&[]));
        assert!(good(&[event(Wrote(1), 1, 2), event(Read(1), 3, 4)]));
        assert!(!good(&[event(Wrote(1), 1, 2), event(Read(0), 3, 4)]));
        assert!(!good(&[event(Read(7), 1, 2)]));
        assert!(!good(&[event(Read(1), 1, 2), event(Wrote(1), 3, 4)]));
        // While a write runs, both values are right; but not first the new one, then the old one.
        let write = event(Wrote(1), 1, 9);
        assert!(good(&[write, event(Read(0), 2, 3), event(Read(1), 4, 5)]));
        assert!(!good(&[write, event(Read(1), 2, 3), event(Read(0), 4, 5)]));
        // A write that was given up may happen later, or never,
        let given_up = event(GaveUp(1), 1, 2);
        assert!(good(&[
            given_up,
            event(Read(0), 3, 4),
            event(Read(1), 5, 6)
        ]));
        assert!(good(&[given_up, event(Read(0), 3, 4)]));
        // but not twice, and not after a later write that was acknowledged.
        assert!(!good(&[
            given_up,
            event(Read(1), 3, 4),
            event(Read(0), 5, 6)
        ]));
        let later = event(Wrote(2), 3, 6);
        assert!(good(&[
            given_up,
            event(Read(1), 4, 5),
            later,
            event(Read(2), 7, 8)
        ]));
        assert!(!good(&[given_up, later, event(Read(1), 7, 8)]));
        assert!(!good(&[
            given_up,
            later,
            event(Read(2), 4, 5),
            event(Read(1), 7, 8)
        ]));
        // Of two that ran together, the one that was given up may be the last.
        let beside = event(Wrote(2), 1, 4);
        let given_up = event(GaveUp(1), 2, 3);
        assert!(good(&[
            beside,
            given_up,
            event(Read(2), 5, 6),
            event(Read(1), 7, 8)
        ]));
        // Three values, each before the next.
        assert!(!good(&[
            event(Wrote(1), 1, 10),
            event(Wrote(2), 2, 11),
            event(Read(1), 12, 15),
            event(Read(2), 16, 17),
            event(Read(1), 18, 19),
        ]));
    }

    /// A register for the search.
    struct Register;

    impl Model for Register {
        type State = u64;
        type Call = Access;
        type Return = ();

        fn start(&self) -> u64 {
            0
        }

        fn step(&self, state: &u64, call: &Access, _: Option<&()>) -> Vec<u64> {
            match *call {
                Access::Wrote(value) | Access::GaveUp(value) => vec![value],
                Access::Read(value) if value == *state => vec![*state],
                Access::Read(_) => Vec::new(),
            }
        }
    }

    fn search(events: &[Event]) -> bool {
        let events: Vec<_> = events
            .iter()
            .map(|event| linear::Event {
                call: event.access,
                called: event.called,
                returned: match event.access {
                    Access::GaveUp(_) => None,
                    Access::Wrote(_) | Access::Read(_) => Some(((), event.returned)),
                },
            })
            .collect();
        linear::check(&Register, &events) == Verdict::Linearizable
    }

    #[test]
    fn it_agrees_with_the_search() {
        let (mut good, mut bad) = (0, 0);
        for seed in 0..4_000 {
            let mut dice = Random::new(seed);
            let count = 2 + dice.below(5);
            // Moments, shuffled, two for each operation.
            let mut moments: Vec<u64> = (1..=2 * count as u64).collect();
            for at in (1..moments.len()).rev() {
                moments.swap(at, dice.below(at + 1));
            }
            let mut given_up = false;
            let mut events = Vec::new();
            for (number, pair) in moments.chunks_exact(2).enumerate() {
                let value = number as u64 + 1;
                let access = match dice.below(5) {
                    0 | 1 => Access::Wrote(value),
                    2 if !given_up => Access::GaveUp(value),
                    _ => Access::Read(dice.below(count + 1) as u64),
                };
                given_up |= matches!(access, Access::GaveUp(_));
                events.push(event(access, pair[0].min(pair[1]), pair[0].max(pair[1])));
            }
            // The search does not check that given-up writes do not come late: only a read could show that.
            let is_late = events.iter().any(|late| {
                matches!(late.access, Access::GaveUp(_))
                    && events.iter().any(|other| {
                        matches!(other.access, Access::Wrote(_)) && late.returned < other.called
                    })
            });
            let ours = check(0, &events).is_ok();
            if is_late {
                assert!(!ours || search(&events), "{events:?}");
                continue;
            }
            assert_eq!(ours, search(&events), "{events:?}");
            good += usize::from(ours);
            bad += usize::from(!ours);
        }
        assert!(good > 400 && bad > 400, "{good} good, {bad} bad");
    }
}
