//! The parts of a comparison, each one trial of one participant, and which of them may be compared.

use super::findings::Findings;
use super::trial::{Figure, Trial};
use crate::distance::{Class, Classes, Distances};

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

    /// The participants with parts of a trial, each with the number of those of a class.
    fn counts(&self, classes: &Classes, trial: usize, class: Class) -> Vec<(&str, usize)> {
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for part in self.parts.iter().filter(|part| part.trial == trial) {
            let more = usize::from(classes.class(part.distances) == class);
            match counts
                .iter_mut()
                .find(|(name, _)| *name == part.participant)
            {
                Some((_, count)) => *count += more,
                None => counts.push((&part.participant, more)),
            }
        }
        counts
    }

    /// The class in which a trial is compared: that of which the participant with the fewest parts has most.
    fn compared(&self, classes: &Classes, trial: usize) -> Class {
        let fewest = |class| {
            let counts = self.counts(classes, trial, class);
            let least = counts.iter().map(|(_, count)| *count).min();
            let all: usize = counts.iter().map(|(_, count)| *count).sum();
            (least, all)
        };
        match fewest(Class::Far) > fewest(Class::Near) {
            true => Class::Far,
            false => Class::Near,
        }
    }

    /// The trials and participants that have fewer than `enough` parts to be compared, although they can run them.
    pub(crate) fn missing(&self, trials: usize, enough: usize) -> Vec<(usize, String)> {
        let classes = self.classes();
        let mut missing = Vec::new();
        for trial in 0..trials {
            let class = self.compared(&classes, trial);
            let counts = self.counts(&classes, trial, class);
            let few = counts.iter().filter(|(_, count)| *count < enough);
            missing.extend(few.map(|(participant, _)| (trial, (*participant).to_owned())));
        }
        missing
    }

    /// The figures that may be compared: of each trial those of one class, numbered for each participant.
    pub(crate) fn findings(&self, trials: usize) -> Findings {
        let classes = self.classes();
        let mut findings = Findings::default();
        for trial in 0..trials {
            let class = self.compared(&classes, trial);
            let of_class =
                |part: &&Part| part.trial == trial && classes.class(part.distances) == class;
            let mut runs: Vec<(&str, u32)> = Vec::new();
            for part in self.parts.iter().filter(of_class) {
                let run = match runs.iter_mut().find(|(name, _)| *name == part.participant) {
                    Some((_, run)) => {
                        *run += 1;
                        *run
                    }
                    None => {
                        runs.push((&part.participant, 0));
                        0
                    }
                };
                for figure in &part.figures {
                    findings.add(run, &part.participant, figure.clone());
                }
            }
        }
        findings
    }

    /// Says how far apart the processors were, and what was compared.
    pub(crate) fn notes(&self, trials: &[Trial]) -> Vec<String> {
        let classes = self.classes();
        let distances = classes.text();
        if classes.is_single() {
            return vec![format!(
                "before and after each part a cache line took {distances} from one processor to the other: all parts \
                 are comparable"
            )];
        }
        let count = |class| {
            let mut all = self.parts.iter().map(|part| classes.class(part.distances));
            all.by_ref().filter(|one| *one == class).count()
        };
        let mut notes = vec![format!(
            "a cache line took different times from one processor to the other, {distances}: {} parts were measured \
             near, {} far, {} while that changed; each pattern is compared within one class, by its parts alone",
            count(Class::Near),
            count(Class::Far),
            count(Class::Mixed)
        )];
        for (number, trial) in trials.iter().enumerate() {
            let class = self.compared(&classes, number);
            let counts = self.counts(&classes, number, class);
            if counts.is_empty() {
                continue;
            }
            let counts: Vec<String> = counts
                .iter()
                .map(|(participant, count)| format!("{participant} {count}"))
                .collect();
            let name = match class {
                Class::Far => "far",
                Class::Near | Class::Mixed => "near",
            };
            notes.push(format!(
                "{}: {name}, parts: {}",
                trial.name(),
                counts.join(", ")
            ));
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
