//! The measurements of a run, and estimates from several runs.

use serde::{Deserialize, Serialize};

use crate::engine::{MICROSECOND, microseconds};
use crate::statistics::{Estimate, Histogram, PERCENTILES, Resource, Statistics, estimate};

/// A value that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// The subject: `svia/oneway`.
    pub case: String,
    /// Bytes of the messages; 0 where there are several.
    pub size_bytes: u32,
    /// The metric, with its unit at the end: `latency_us`.
    pub metric: String,
    /// The value; the mean, if it is composed of several.
    #[serde(with = "bits")]
    pub value: f64,
    /// The values that it is composed of.
    pub of: Parts,
}

/// The values that a measured value is composed of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Parts {
    /// None: it is a single value.
    #[default]
    One,
    /// Times of messages, in picoseconds.
    Messages(Box<Histogram>),
    /// A value of each instance of a processor, an engine or a link.
    Instances(#[serde(with = "all_bits")] Vec<f64>),
}

impl Measure {
    /// A single value.
    pub fn one(
        case: impl Into<String>,
        size_bytes: u32,
        metric: impl Into<String>,
        value: f64,
    ) -> Self {
        Self {
            case: case.into(),
            size_bytes,
            metric: metric.into(),
            value,
            of: Parts::One,
        }
    }

    /// Latencies of messages; `None` without any.
    pub fn latencies(
        case: impl Into<String>,
        size_bytes: u32,
        latencies: &Histogram,
    ) -> Option<Self> {
        (latencies.count() > 0).then(|| Self {
            of: Parts::Messages(Box::new(latencies.clone())),
            ..Self::one(
                case,
                size_bytes,
                "latency_us",
                latencies.mean() / MICROSECOND as f64,
            )
        })
    }
}

/// Latencies of all messages, and the use of each resource.
pub(super) fn of_statistics(name: &str, size_bytes: u32, statistics: &Statistics) -> Vec<Measure> {
    let mut measures = Vec::new();
    let all = format!("{name}/messages");
    measures.extend(Measure::latencies(all, size_bytes, &statistics.latencies));
    for resource in Resource::ALL {
        let shares = statistics.shares(resource);
        if shares.is_empty() {
            continue;
        }
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        measures.push(Measure {
            of: Parts::Instances(shares),
            ..Measure::one(
                format!("{name}/use/{}", resource.name()),
                size_bytes,
                "share",
                mean,
            )
        });
    }
    measures
}

/// A value in results: of one run, or of several that differ in their seeds only.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// See [`Measure`].
    pub case: String,
    /// See [`Measure`].
    pub size_bytes: u32,
    /// See [`Measure`].
    pub metric: String,
    /// The mean over runs, and its confidence interval.
    pub estimate: Estimate,
    /// The median of the composing values: of messages, instances, or runs.
    pub median: f64,
    /// The smallest of them.
    pub min: f64,
    /// The largest of them.
    pub max: f64,
    /// The number of them.
    pub count: u64,
    /// [`PERCENTILES`] of messages.
    pub percentiles: Option<[f64; PERCENTILES.len()]>,
    /// The number of runs.
    pub runs: usize,
}

/// Combines the values of runs that differ in their seeds only.
pub fn summarize(runs: &[Vec<Measure>]) -> Vec<Summary> {
    let mut groups: Vec<Vec<&Measure>> = Vec::new();
    let mut places = std::collections::BTreeMap::new();
    for measure in runs.iter().flatten() {
        let key = (&measure.case, measure.size_bytes, &measure.metric);
        let place = *places.entry(key).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(measure),
            None => groups.push(vec![measure]),
        }
    }
    groups.iter().map(|group| of_group(group)).collect()
}

fn of_group(group: &[&Measure]) -> Summary {
    let first = group[0];
    let values: Vec<f64> = group.iter().map(|one| one.value).collect();
    let mut messages = Histogram::default();
    let mut instances = Vec::new();
    for one in group {
        match &one.of {
            Parts::One => instances.push(one.value),
            Parts::Messages(latencies) => messages.merge(latencies),
            Parts::Instances(values) => instances.extend(values),
        }
    }
    let mut summary = Summary {
        case: first.case.clone(),
        size_bytes: first.size_bytes,
        metric: first.metric.clone(),
        estimate: estimate(&values),
        median: 0.0,
        min: 0.0,
        max: 0.0,
        count: 0,
        percentiles: None,
        runs: group.len(),
    };
    if messages.count() > 0 {
        let (min, max) = messages.range();
        let quantiles = PERCENTILES.map(|(_, share)| microseconds(messages.quantile(share)));
        summary.median = quantiles[0];
        (summary.min, summary.max) = (microseconds(min), microseconds(max));
        summary.count = messages.count();
        summary.percentiles = Some(quantiles);
        return summary;
    }
    instances.sort_by(f64::total_cmp);
    let middle = instances.len() / 2;
    summary.median = match instances.len() % 2 {
        1 => instances[middle],
        _ => (instances[middle - 1] + instances[middle]) / 2.0,
    };
    (summary.min, summary.max) = (instances[0], instances[instances.len() - 1]);
    summary.count = instances.len() as u64;
    summary
}

/// Floating-point numbers as bit patterns, so that none is rounded.
mod bits {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        value.to_bits().serialize(to)
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<f64, D::Error> {
        u64::deserialize(from).map(f64::from_bits)
    }
}

/// The same for lists of floating-point numbers.
mod all_bits {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(values: &[f64], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(values.iter().map(|value| value.to_bits()))
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Vec<f64>, D::Error> {
        let bits = Vec::<u64>::deserialize(from)?;
        Ok(bits.into_iter().map(f64::from_bits).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_put_together_value_by_value() {
        let run = |share: f64, latencies: &[u64]| {
            let mut histogram = Histogram::default();
            for latency in latencies {
                histogram.add(latency * MICROSECOND);
            }
            let latency = Measure::latencies("a", 4, &histogram);
            let mut run = vec![Measure::one("b", 0, "share", share)];
            run.extend(latency);
            run
        };
        let runs = [run(0.5, &[1, 2, 9]), run(0.7, &[5]), run(0.6, &[])];
        let found = summarize(&runs);
        assert_eq!(found.len(), 2);
        let share = &found[0];
        assert_eq!(
            (share.median, share.min, share.max, share.count),
            (0.6, 0.5, 0.7, 3)
        );
        assert!((share.estimate.mean - 0.6).abs() < 1e-9);
        assert!(share.estimate.half_width.is_some_and(|half| half > 0.2));
        let latency = &found[1];
        assert_eq!((latency.min, latency.max, latency.count), (1.0, 9.0, 4));
        assert!((1.9..2.1).contains(&latency.median), "{latency:?}");
        assert_eq!(latency.runs, 2, "the third run has received nothing");
        assert!((latency.estimate.mean - 4.5).abs() < 1e-9, "of 4 and 5");
    }

    #[test]
    fn measures_survive_being_kept() {
        let mut histogram = Histogram::default();
        histogram.add(7);
        let mut all = vec![Measure::one("a", 1, "share", 0.1 + 0.2)];
        all.extend(Measure::latencies("b", 1, &histogram));
        all[0].of = Parts::Instances(vec![1.0 / 3.0, f64::MIN_POSITIVE]);
        let text = serde_json::to_string(&all).expect("it is written");
        let read: Vec<Measure> = serde_json::from_str(&text).expect("it is read");
        assert_eq!(read, all);
    }
}
