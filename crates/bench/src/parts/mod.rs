//! The parts of a measurement, each one trial of one participant, and which of them may be compared: those that were
//! measured while the two processors were as far apart ([`crate::distance`]).
//!
//! [`repeats`] measures parts until enough of them may be compared, [`figure`] is the result of a
//! part, [`findings`] are the figures of all.

pub(crate) mod figure;
pub(crate) mod findings;
pub(crate) mod repeats;

use std::collections::{BTreeMap, BTreeSet};

use causeway_report::rows::Row;
use serde_json::{Value, json};

use crate::distance::{Classes, Distances, Label};
use figure::Figure;
use findings::Findings;

/// A trial of one participant that has finished, or failed with figures before the failure.
pub(crate) struct Part {
    /// The trial's number.
    pub(crate) trial: usize,
    pub(crate) participant: String,
    pub(crate) distances: Distances,
    pub(crate) figures: Vec<Figure>,
}

/// All parts.
pub(crate) struct Parts {
    /// The trials' names.
    trials: Vec<String>,
    /// The number of parts of a participant at one distance that is enough.
    enough: usize,
    parts: Vec<Part>,
}

impl Parts {
    /// No parts of these trials.
    pub(crate) fn new(trials: Vec<String>, enough: usize) -> Self {
        Self {
            trials,
            enough,
            parts: Vec::new(),
        }
    }

    /// Adds a part. A part without figures is dropped.
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

    /// The participants with parts of a trial, each with the number of its parts that have this label.
    fn counts(&self, classes: &Classes, trial: usize, label: Label) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for part in self.of_trial(trial) {
            let is_alike = classes.label(part.distances) == label;
            *counts.entry(part.participant.as_str()).or_default() += usize::from(is_alike);
        }
        counts
    }

    /// The label of the parts of a trial that are compared: the class of which the participant with the fewest parts
    /// has most. Parts of unknown distance are compared with each other if there is no class that all have.
    fn compared(&self, classes: &Classes, trial: usize) -> Label {
        let fewest = |label: &Label| {
            let counts = self.counts(classes, trial, *label);
            let fewest = counts.values().min().copied().unwrap_or(0);
            (fewest, counts.values().sum::<usize>())
        };
        // Of equals, `max_by_key` returns the last one: the nearest.
        let class = classes.labels().rev().max_by_key(fewest);
        let class = class.filter(|class| fewest(class).0 > 0 || fewest(&Label::Unknown).0 == 0);
        class.unwrap_or(Label::Unknown)
    }

    /// The trials and participants that have fewer parts than enough to be compared, although they can run them.
    pub(crate) fn missing(&self) -> Vec<(usize, String)> {
        let classes = self.classes();
        let mut missing = Vec::new();
        for trial in 0..self.trials.len() {
            let label = self.compared(&classes, trial);
            let counts = self.counts(&classes, trial, label).into_iter();
            let few = counts.filter(|(_, count)| *count < self.enough);
            missing.extend(few.map(|(participant, _)| (trial, participant.to_owned())));
        }
        missing
    }

    /// The figures that may be compared: of each trial those of one label, numbered for each participant.
    pub(crate) fn findings(&self) -> Findings {
        self.collect(|compared, label| compared == label)
    }

    /// The figures of one trial that may be compared.
    pub(crate) fn findings_of(&self, trial: usize) -> Findings {
        let classes = self.classes();
        let mut findings = Findings::default();
        let label = self.compared(&classes, trial);
        self.collect_trial(&mut findings, &classes, trial, label);
        findings
    }

    /// Rows of the figures that may not be compared with the others, because the processors were at another distance.
    pub(crate) fn other_rows(&self) -> Vec<Row> {
        self.collect(|compared, label| compared != label).rows()
    }

    fn collect(&self, wanted: impl Fn(Label, Label) -> bool) -> Findings {
        let classes = self.classes();
        let mut findings = Findings::default();
        for trial in 0..self.trials.len() {
            let compared = self.compared(&classes, trial);
            let labels: BTreeSet<Label> = self
                .of_trial(trial)
                .map(|part| classes.label(part.distances))
                .collect();
            for label in labels.into_iter().filter(|&label| wanted(compared, label)) {
                self.collect_trial(&mut findings, &classes, trial, label);
            }
        }
        findings
    }

    fn collect_trial(
        &self,
        findings: &mut Findings,
        classes: &Classes,
        trial: usize,
        label: Label,
    ) {
        let mut runs: BTreeMap<&str, u32> = BTreeMap::new();
        let name = Classes::name(label);
        let is_alike = |part: &&Part| classes.label(part.distances) == label;
        for part in self.of_trial(trial).filter(is_alike) {
            let run = runs.entry(&part.participant).or_default();
            for figure in &part.figures {
                findings.add(*run, &part.participant, &name, figure.clone());
            }
            *run += 1;
        }
    }

    /// Each label that parts have, with their number.
    fn labels(&self, classes: &Classes) -> BTreeMap<Label, usize> {
        let mut labels = BTreeMap::new();
        for part in &self.parts {
            *labels.entry(classes.label(part.distances)).or_default() += 1;
        }
        labels
    }

    /// The distances, for JSON: each with its name, its range and the number of parts.
    pub(crate) fn json(&self) -> Value {
        let classes = self.classes();
        let labels = self.labels(&classes).into_iter();
        let labels: Vec<Value> = labels
            .map(|(label, parts)| classes.json(label, parts))
            .collect();
        json!(labels)
    }

    /// How far apart the processors were, what is compared, and what has nothing to be compared
    /// with. `why` is the reason why a distance is unknown.
    pub(crate) fn notes(&self, why: Option<&str>) -> Vec<String> {
        let classes = self.classes();
        let labels = self.labels(&classes);
        let mut notes = vec![distances_note(&classes, &labels)];
        if let (Some(parts), all) = (labels.get(&Label::Unknown), self.parts.len()) {
            notes.push(format!(
                "the distance of the processors is unknown before or after {parts} of {all} parts ({}): nothing says \
                 that those were measured under equal conditions",
                why.unwrap_or("no reason is known")
            ));
        }
        for (number, trial) in self.trials.iter().enumerate() {
            let label = self.compared(&classes, number);
            let counts = self.counts(&classes, number, label);
            let apart = self
                .of_trial(number)
                .any(|part| classes.label(part.distances) != label);
            if apart {
                let all: Vec<String> = counts
                    .iter()
                    .map(|(participant, count)| format!("{participant} {count}"))
                    .collect();
                let place = classes.text(label);
                notes.push(format!("{trial}: {place}, parts: {}", all.join(", ")));
            }
            notes.extend(counts.iter().filter_map(|(participant, count)| {
                let left = match count {
                    0 => "its figures are compared with nothing".to_owned(),
                    count if *count < self.enough => {
                        format!("it has only {count} of {} parts", self.enough)
                    }
                    _ => return None,
                };
                Some(format!(
                    "{trial}: {participant} did not get enough parts at the distance of the others: {left}"
                ))
            }));
        }
        notes
    }
}

fn distances_note(classes: &Classes, labels: &BTreeMap<Label, usize>) -> String {
    let mut known = labels.keys().filter(|label| **label != Label::Unknown);
    match (known.next(), known.next()) {
        (None, _) => "how far apart the two processors were is not known".to_owned(),
        (Some(label), None) => format!(
            "the two processors stayed where they were, {} by a cache line's way from one to the other: all parts that \
             show it are compared",
            classes.text(*label)
        ),
        _ => {
            let places: Vec<String> = labels
                .iter()
                .map(|(label, parts)| format!("{parts} {}", classes.text(*label)))
                .collect();
            format!(
                "the two processors were moved, as a cache line's way from one to the other shows; parts: {}. Each \
                 pattern is compared in one class; the other figures stand apart",
                places.join(", ")
            )
        }
    }
}

#[cfg(test)]
#[path = "parts_tests.rs"]
mod tests;
