//! The parts of a comparison, each one trial of one participant, and which of them may be compared.

use std::collections::BTreeMap;

use super::findings::Findings;
use super::trial::{Figure, Trial};
use crate::distance::{Classes, Distances};

/// A trial of one participant that came to an end, or to a failure with figures before it.
pub(crate) struct Part {
    /// The trial's number.
    pub(crate) trial: usize,
    pub(crate) participant: String,
    pub(crate) distances: Distances,
    pub(crate) figures: Vec<Figure>,
}

/// All parts.
#[derive(Default)]
pub(crate) struct Parts {
    parts: Vec<Part>,
}

impl Parts {
    /// Adds a part; one without figures counts for nothing.
    pub(crate) fn add(&mut self, part: Part) {
        if !part.figures.is_empty() {
            self.parts.push(part);
        }
    }

    fn classes(&self) -> Classes {
        Classes::of(self.parts.iter().map(|part| part.distances))
    }

    fn of_trial(&self, trial: usize) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(move |part| part.trial == trial)
    }

    /// The participants with parts of a trial, each with the number of those of a class.
    fn counts(&self, classes: &Classes, trial: usize, class: usize) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for part in self.of_trial(trial) {
            let is_of_class = classes.class(part.distances) == Some(class);
            *counts.entry(part.participant.as_str()).or_default() += usize::from(is_of_class);
        }
        counts
    }

    /// The class in which a trial is compared: that of which the participant with the fewest parts has most.
    fn compared(&self, classes: &Classes, trial: usize) -> usize {
        let fewest = |class: &usize| {
            let counts = self.counts(classes, trial, *class);
            (
                counts.values().min().copied(),
                counts.values().sum::<usize>(),
            )
        };
        // Of equals `max_by_key` takes the last one: the nearest.
        (0..classes.len()).rev().max_by_key(fewest).unwrap_or(0)
    }

    /// The trials and participants that have fewer than `enough` parts to be compared, although they can run them.
    pub(crate) fn missing(&self, trials: usize, enough: usize) -> Vec<(usize, String)> {
        let classes = self.classes();
        let mut missing = Vec::new();
        for trial in 0..trials {
            let class = self.compared(&classes, trial);
            let counts = self.counts(&classes, trial, class).into_iter();
            let few = counts.filter(|(_, count)| *count < enough);
            missing.extend(few.map(|(participant, _)| (trial, participant.to_owned())));
        }
        missing
    }

    /// The figures that may be compared: of each trial those of one class, numbered for each participant.
    pub(crate) fn findings(&self, trials: usize) -> Findings {
        let classes = self.classes();
        let mut findings = Findings::default();
        for trial in 0..trials {
            let class = self.compared(&classes, trial);
            let mut runs: BTreeMap<&str, u32> = BTreeMap::new();
            let is_of_class = |part: &&Part| classes.class(part.distances) == Some(class);
            for part in self.of_trial(trial).filter(is_of_class) {
                let run = runs.entry(&part.participant).or_default();
                for figure in &part.figures {
                    findings.add(*run, &part.participant, figure.clone());
                }
                *run += 1;
            }
        }
        findings
    }

    /// How far apart the processors were, and what is compared.
    pub(crate) fn notes(&self, trials: &[Trial]) -> Vec<String> {
        let classes = self.classes();
        if classes.len() <= 1 {
            return vec![format!(
                "the two processors stayed where they were, {} by a cache line's way from one to the other: all parts \
                 are compared",
                classes.text(0)
            )];
        }
        let parts = |class| {
            let same = |part: &&Part| classes.class(part.distances) == class;
            self.parts.iter().filter(same).count()
        };
        let mut places: Vec<String> = (0..classes.len())
            .map(|class| format!("{} {}", parts(Some(class)), classes.text(class)))
            .collect();
        places.push(format!("{} mixed", parts(None)));
        let mut notes = vec![format!(
            "the two processors were moved, as a cache line's way from one to the other shows; parts: {}. Each pattern \
             is compared in one class",
            places.join(", ")
        )];
        for (number, trial) in trials.iter().enumerate() {
            let class = self.compared(&classes, number);
            let counts = self.counts(&classes, number, class);
            let counts: Vec<String> = counts
                .iter()
                .map(|(participant, count)| format!("{participant} {count}"))
                .collect();
            let (name, class) = (trial.name(), classes.text(class));
            notes.push(format!("{name}: {class}, parts: {}", counts.join(", ")));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Distances = Distances {
        before: 0.055,
        after: 0.056,
    };
    const FAR: Distances = Distances {
        before: 0.25,
        after: 0.26,
    };
    const MIXED: Distances = Distances {
        before: 0.055,
        after: 0.26,
    };

    fn parts(all: &[(&str, Distances, f64)]) -> Parts {
        let mut parts = Parts::default();
        for &(participant, distances, value) in all {
            parts.add(Part {
                trial: 0,
                participant: participant.to_owned(),
                distances,
                figures: Figure::new("latency/shm", 8, "latency_us", value)
                    .into_iter()
                    .collect(),
            });
        }
        parts
    }

    #[test]
    fn only_parts_of_one_class_are_compared() {
        let parts = parts(&[
            ("a", NEAR, 0.1),
            ("b", FAR, 0.5),
            ("a", MIXED, 0.3),
            ("b", NEAR, 0.2),
            ("a", NEAR, 0.1),
            ("b", NEAR, 0.2),
        ]);
        assert!(parts.missing(1, 2).is_empty());
        assert_eq!(parts.missing(1, 3).len(), 2);
        let findings = parts.findings(1);
        let [a, b] = ["a", "b"].map(|name| findings.series("latency/shm", name, 8).unwrap());
        assert_eq!(a.over(b), [0.5, 0.5]);
    }

    #[test]
    fn the_class_that_all_have_is_chosen() {
        let parts = parts(&[
            ("a", NEAR, 0.1),
            ("a", NEAR, 0.1),
            ("a", FAR, 0.4),
            ("b", FAR, 0.5),
            ("b", MIXED, 0.2),
        ]);
        let findings = parts.findings(1);
        let [a, b] = ["a", "b"].map(|name| findings.series("latency/shm", name, 8).unwrap());
        assert_eq!((a.values(), b.values()), (vec![0.4], vec![0.5]));
        let missing = parts.missing(1, 2);
        assert_eq!(missing, [(0, "a".to_owned()), (0, "b".to_owned())]);
    }
}
