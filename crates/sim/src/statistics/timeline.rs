//! Events over time.

use serde::{Deserialize, Serialize};

use super::resource::Resource;
use crate::engine::{MICROSECOND, Time};

/// Most samples; when there are as many, every second one is dropped and the interval doubled.
const MOST: usize = 128;
/// The interval at the beginning.
const FIRST_INTERVAL: Time = 10 * MICROSECOND;

/// The sums so far, at some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Sample {
    at: Time,
    messages: u64,
    bytes: u64,
    latency: u128,
    busy: [Time; Resource::ALL.len()],
}

/// The events of an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Its beginning.
    pub from: Time,
    /// Its end.
    pub to: Time,
    /// The number of messages received.
    pub messages: u64,
    /// The bytes of these messages.
    pub bytes: u64,
    /// The mean latency of these messages; 0 without any.
    pub latency: Time,
    /// The share of the interval that resources were in use, on average over all instances, in the order of
    /// [`Resource::ALL`].
    pub busy: [f64; Resource::ALL.len()],
}

/// Samples at equal intervals, of sums so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    from: Time,
    interval: Time,
    now: Sample,
    samples: Vec<Sample>,
    /// Instances of each resource.
    instances: [u64; Resource::ALL.len()],
}

impl Timeline {
    pub(super) fn new(from: Time) -> Self {
        Self {
            from,
            interval: FIRST_INTERVAL,
            ..Self::default()
        }
    }

    pub(super) fn message(&mut self, latency: Time, bytes: u64) {
        self.now.messages += 1;
        self.now.bytes += bytes;
        self.now.latency += u128::from(latency);
    }

    /// When the next sample is due.
    pub(crate) fn due(&self) -> Time {
        self.from
            .saturating_add(self.interval.saturating_mul(self.samples.len() as Time))
    }

    /// Takes a sample of how long all instances of each resource together have been in use, and how many there are.
    pub(crate) fn sample(&mut self, at: Time, resources: &[(u64, Time); Resource::ALL.len()]) {
        self.instances = resources.map(|(instances, _)| instances);
        self.samples.push(Sample {
            at,
            busy: resources.map(|(_, busy)| busy),
            ..self.now
        });
        if self.samples.len() == MOST {
            let mut place = 0;
            self.samples.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.interval = self.interval.saturating_mul(2);
        }
    }

    /// The intervals between the samples.
    pub fn intervals(&self) -> impl Iterator<Item = Interval> + '_ {
        self.samples
            .windows(2)
            .filter(|pair| pair[1].at > pair[0].at)
            .map(|pair| {
                let (before, after) = (pair[0], pair[1]);
                let (span, messages) = (after.at - before.at, after.messages - before.messages);
                let latency = (after.latency - before.latency) / u128::from(messages.max(1));
                let mut busy = [0.0; Resource::ALL.len()];
                for (place, share) in busy.iter_mut().enumerate() {
                    let used = after.busy[place].saturating_sub(before.busy[place]) as f64;
                    let all = span as f64 * self.instances[place].max(1) as f64;
                    *share = (used / all).min(1.0);
                }
                Interval {
                    from: before.at,
                    to: after.at,
                    messages,
                    bytes: after.bytes - before.bytes,
                    latency: latency as Time,
                    busy,
                }
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_add_up_however_long_it_takes() {
        let mut timeline = Timeline::new(1_000);
        let mut now = 0;
        for step in 0..40_000_u64 {
            now = step * 3 * MICROSECOND;
            while timeline.due() <= now {
                let used = timeline.due().saturating_sub(1_000) / 4;
                timeline.sample(timeline.due(), &[(2, used); 5]);
            }
            timeline.message(500, 100);
        }
        let intervals: Vec<Interval> = timeline.intervals().collect();
        assert!((60..MOST).contains(&intervals.len()), "{}", intervals.len());
        assert!(intervals.windows(2).all(|pair| pair[0].to == pair[1].from));
        assert_eq!(intervals[0].from, 1_000);
        assert!(now - intervals[intervals.len() - 1].to < intervals[0].to - intervals[0].from);
        let messages: u64 = intervals.iter().map(|one| one.messages).sum();
        assert!((39_000..=40_000).contains(&messages), "{messages}");
        for one in &intervals {
            assert_eq!((one.latency, one.bytes), (500, 100 * one.messages));
            assert!((one.busy[0] - 0.125).abs() < 1e-6, "{one:?}");
        }
    }
}
