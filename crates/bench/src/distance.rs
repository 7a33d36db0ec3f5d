//! How far apart the two processors are, measured by bouncing a cache line.
//!
//! A hypervisor may move virtual processors between cores that share a cache and cores that do not,
//! many times in an hour. Figures at one distance cannot be compared with figures at another, so
//! each part of a measurement is labelled by the distance before and after it.

use std::time::{Duration, Instant};

use causeway_command::failure::{Failure, Outcome};
use serde_json::{Value, json};

use crate::messages::effort::Effort;
use crate::messages::pair::Pair;

/// Two neighbouring distances, in the order of size, belong to different classes if their ratio is larger. Distances within a class
/// differ by a few per cent, those of cores with and without a common cache by a factor of three to five.
const LEAST_RATIO: f64 = 1.5;
/// After this many failures in succession the distance is not measured any more.
const MOST_FAILURES: u32 = 3;
/// A distance that was measured no longer ago than this is used again.
const FRESH: Duration = Duration::from_millis(2);

/// Measures the distance once, in microseconds.
type Gauge = Box<dyn FnMut() -> Outcome<f64>>;

/// Measures the distance by two processes of its own, which sleep in between. A failure makes the distance unknown and
/// ends nothing.
pub(crate) struct Probe {
    start: Box<dyn FnMut() -> Outcome<Gauge>>,
    gauge: Option<Gauge>,
    failures: u32,
    /// The first reason why the distance was unknown.
    why: Option<String>,
    last: Option<(Instant, f64)>,
}

impl Probe {
    /// The processes are started at the first measurement.
    pub(crate) fn new() -> Self {
        Self::by(|| {
            let processors = causeway_sys::pin::allowed_cpus().map_or(0, |allowed| allowed.len());
            if processors < 2 {
                return Err(Failure::new(
                    "measuring the distance of two processors",
                    "there is only one",
                ));
            }
            // 20,000 bounces: some milliseconds.
            let mut pair = Pair::start(Effort { quick: true })?;
            Ok(Box::new(move || pair.cache_line()))
        })
    }

    /// Measures with the gauge that `start` starts, which is started again after a failure.
    fn by(start: impl FnMut() -> Outcome<Gauge> + 'static) -> Self {
        Self {
            start: Box::new(start),
            gauge: None,
            failures: 0,
            why: None,
            last: None,
        }
    }

    /// Measures before and after a part.
    pub(crate) fn around<T>(&mut self, part: impl FnOnce() -> T) -> (Distances, T) {
        let before = self.before();
        let done = part();
        let after = self.after();
        (Distances { before, after }, done)
    }

    /// The distance before a part: that measured after the last one, if that is recent.
    fn before(&mut self) -> Option<f64> {
        match self.last {
            Some((when, distance)) if when.elapsed() < FRESH => Some(distance),
            _ => self.after(),
        }
    }

    /// The latency of a cache line now, in microseconds; `None` if that cannot be measured.
    fn after(&mut self) -> Option<f64> {
        self.last = None;
        if self.failures >= MOST_FAILURES {
            return None;
        }
        match self.measure() {
            Ok(distance) => {
                self.failures = 0;
                self.last = Some((Instant::now(), distance));
                Some(distance)
            }
            Err(failure) => {
                // After a failure the two processes may be at different steps.
                self.gauge = None;
                self.failures += 1;
                self.why.get_or_insert_with(|| failure.to_string());
                None
            }
        }
    }

    /// The reason why the distance was unknown, if it ever was.
    pub(crate) fn why(&self) -> Option<&str> {
        self.why.as_deref()
    }

    fn measure(&mut self) -> Outcome<f64> {
        let gauge = match &mut self.gauge {
            Some(gauge) => gauge,
            none => none.insert((self.start)()?),
        };
        let distance = gauge()?;
        match distance.is_finite() && distance > 0.0 {
            true => Ok(distance),
            false => Err(Failure::new(
                "bouncing a cache line",
                format!("{distance} µs make no sense"),
            )),
        }
    }
}

/// The distances before and after a part of a measurement, in microseconds one way of a cache line; none where it could
/// not be measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Distances {
    pub(crate) before: Option<f64>,
    pub(crate) after: Option<f64>,
}

impl Distances {
    /// Neither was measured.
    pub(crate) const UNKNOWN: Self = Self {
        before: None,
        after: None,
    };
}

/// How far apart the processors were during a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Label {
    /// The class of all the part's measurements; the nearest class is 0.
    Class(usize),
    /// The processors were moved during the part.
    Mixed,
    /// The distance could not be measured.
    Unknown,
}

/// The distances at which a benchmark was run, in classes without a wide gap: mostly one, or near and far. A
/// measurement of the distance that something disturbed is a class of its own.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Classes {
    /// The smallest and the largest distance of each class, in increasing order.
    ranges: Vec<(f64, f64)>,
}

impl Classes {
    /// Of all distances that were measured.
    pub(crate) fn of(parts: impl Iterator<Item = Distances>) -> Self {
        let mut all: Vec<f64> = parts
            .flat_map(|part| [part.before, part.after])
            .flatten()
            .collect();
        all.sort_by(f64::total_cmp);
        let mut ranges: Vec<(f64, f64)> = Vec::new();
        for distance in all {
            match ranges.last_mut() {
                Some((_, most)) if distance < *most * LEAST_RATIO => *most = distance,
                _ => ranges.push((distance, distance)),
            }
        }
        Self { ranges }
    }

    /// The labels of all classes, the nearest one first.
    pub(crate) fn labels(&self) -> impl DoubleEndedIterator<Item = Label> + use<> {
        (0..self.ranges.len()).map(Label::Class)
    }

    /// The label of a part.
    pub(crate) fn label(&self, part: Distances) -> Label {
        let class = |distance: f64| self.ranges.iter().position(|(_, most)| distance <= *most);
        match (part.before.and_then(class), part.after.and_then(class)) {
            (Some(before), Some(after)) if before == after => Label::Class(before),
            (Some(_), Some(_)) => Label::Mixed,
            _ => Label::Unknown,
        }
    }

    /// A label in a word or two: `near`, `far`, `far 2`, `mixed`, `unknown`. The nearest class of a
    /// run is called near, at any distance: near and far are relative to one run; nanoseconds
    /// compare between runs.
    pub(crate) fn name(label: Label) -> String {
        match label {
            Label::Class(0) => "near".to_owned(),
            Label::Class(1) => "far".to_owned(),
            Label::Class(number) => format!("far {number}"),
            Label::Mixed => "mixed".to_owned(),
            Label::Unknown => "unknown".to_owned(),
        }
    }

    /// The same with the distances of a class: `near (51 to 58 ns)`, `far (240 to 262 ns)`.
    pub(crate) fn text(&self, label: Label) -> String {
        let name = Self::name(label);
        match label {
            Label::Class(class) => {
                let (least, most) = self.ranges.get(class).copied().unwrap_or_default();
                format!("{name} ({:.0} to {:.0} ns)", least * 1e3, most * 1e3)
            }
            _ => name,
        }
    }

    /// A class with the number of its parts, for JSON; distances in nanoseconds.
    pub(crate) fn json(&self, label: Label, parts: usize) -> Value {
        let mut object = json!({ "distance": Self::name(label), "parts": parts });
        if let Label::Class(class) = label
            && let Some((least, most)) = self.ranges.get(class)
        {
            object["least_ns"] = json!(least * 1e3);
            object["most_ns"] = json!(most * 1e3);
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    fn parts(distances: &[(f64, f64)]) -> Vec<Distances> {
        let part = |&(before, after): &(f64, f64)| Distances {
            before: Some(before),
            after: Some(after),
        };
        distances.iter().map(part).collect()
    }

    fn labels(parts: &[Distances]) -> (Classes, Vec<Label>) {
        let classes = Classes::of(parts.iter().copied());
        let found = parts.iter().map(|&part| classes.label(part)).collect();
        (classes, found)
    }

    #[test]
    fn distances_that_differ_little_are_one_class() {
        let (classes, found) = labels(&parts(&[(0.051, 0.055), (0.060, 0.058), (0.070, 0.085)]));
        assert_eq!(found, [Label::Class(0); 3]);
        assert_eq!(classes.labels().count(), 1);
        assert_eq!(classes.text(Label::Class(0)), "near (51 to 85 ns)");
    }

    #[test]
    fn wide_gaps_part_near_from_far() {
        let all = parts(&[(0.055, 0.054), (0.26, 0.25), (0.056, 0.24), (0.24, 0.06)]);
        let (classes, found) = labels(&all);
        assert_eq!(
            found,
            [Label::Class(0), Label::Class(1), Label::Mixed, Label::Mixed]
        );
        assert_eq!(classes.text(Label::Class(0)), "near (54 to 60 ns)");
        assert_eq!(classes.text(Label::Class(1)), "far (240 to 260 ns)");
        assert_eq!(classes.json(Label::Class(1), 3)["distance"], "far");
        assert_eq!(classes.json(Label::Class(1), 3)["parts"], 3);
        assert_eq!(classes.text(Label::Mixed), "mixed");
    }

    #[test]
    fn every_class_has_a_name_of_its_own() {
        let (_, found) = labels(&parts(&[(0.24, 0.25), (2.0, 2.1), (9.0, 9.0)]));
        let names: Vec<String> = found.iter().map(|label| Classes::name(*label)).collect();
        assert_eq!(names, ["near", "far", "far 2"]);
    }

    #[test]
    fn a_disturbed_measurement_does_not_hide_near_and_far() {
        let (_, found) = labels(&parts(&[(0.055, 0.054), (0.26, 0.25), (0.055, 9.0)]));
        assert_eq!(found, [Label::Class(0), Label::Class(1), Label::Mixed]);
    }

    #[test]
    fn without_a_part_there_is_no_class() {
        assert_eq!(Classes::of(std::iter::empty()).labels().count(), 0);
    }

    #[test]
    fn a_part_is_unknown_if_one_of_its_distances_is() {
        let mut all = parts(&[(0.055, 0.054), (0.055, 0.055), (0.055, 0.055)]);
        all[1].before = None;
        all[2].after = None;
        let (classes, found) = labels(&all);
        assert_eq!(found, [Label::Class(0), Label::Unknown, Label::Unknown]);
        assert_eq!(classes.text(Label::Unknown), "unknown");
        let unknown = Distances {
            before: None,
            after: None,
        };
        assert_eq!(labels(&[unknown]).1, [Label::Unknown]);
    }

    /// A probe that returns these measurements one after the other, and counts how often it was
    /// started.
    fn probe(outcomes: Vec<Option<f64>>) -> (Probe, Rc<Cell<usize>>) {
        let (starts, next) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let started = Rc::clone(&starts);
        let probe = Probe::by(move || {
            started.set(started.get() + 1);
            let (outcomes, next) = (outcomes.clone(), Rc::clone(&next));
            Ok(Box::new(move || {
                let outcome = outcomes.get(next.get()).copied().flatten();
                next.set(next.get() + 1);
                outcome.ok_or_else(|| Failure::new("bouncing", format!("no. {}", next.get())))
            }))
        });
        (probe, starts)
    }

    #[test]
    fn a_failed_measurement_is_unknown_and_the_next_one_starts_anew() {
        let (mut probe, starts) = probe(vec![Some(0.05), None, Some(0.06), Some(f64::NAN)]);
        assert_eq!(probe.after(), Some(0.05));
        assert!(probe.why().is_none());
        assert_eq!(probe.after(), None);
        assert_eq!((probe.after(), starts.get()), (Some(0.06), 2));
        assert_eq!(probe.after(), None);
        assert!(probe.why().unwrap().contains("no. 2"), "{:?}", probe.why());
    }

    #[test]
    fn a_probe_that_keeps_failing_is_given_up() {
        let (mut failing, starts) = probe(Vec::new());
        for _ in 0..20 {
            assert_eq!(failing.after(), None);
        }
        assert_eq!(starts.get(), MOST_FAILURES as usize);
        let mut never = Probe::by(|| Err(Failure::new("starting", "no processes left")));
        assert_eq!(never.before(), None);
        assert!(never.why().unwrap().contains("no processes left"));
    }

    #[test]
    fn the_distance_after_a_part_is_that_before_the_next_one() {
        let (mut probe, _) = probe(vec![Some(0.05), Some(0.06)]);
        let hour = Duration::from_secs(3600);
        probe.last = Some((Instant::now() + hour, 0.07));
        assert_eq!(probe.before(), Some(0.07));
        probe.last = Instant::now().checked_sub(FRESH).map(|when| (when, 0.07));
        assert_eq!(probe.before(), Some(0.05));
        assert_eq!(probe.after(), Some(0.06));
    }

    #[test]
    fn a_part_is_labelled_by_what_was_measured_around_it() {
        let (mut probe, _) = probe(vec![Some(0.05), None]);
        let (distances, done) = probe.around(|| 7);
        assert_eq!(done, 7);
        assert_eq!((distances.before, distances.after), (Some(0.05), None));
    }
}
