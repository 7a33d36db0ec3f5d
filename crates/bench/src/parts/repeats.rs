//! Measures all trials of a plan, then repeats those that have too few parts at the distance of the
//! processors at which they are compared; at most as often as the plan permits.

use std::collections::BTreeSet;

use causeway_command::failure::Outcome;
use causeway_command::output::Output;
use causeway_command::progress::Progress;

use super::figure::Figure;
use super::{Part, Parts};
use crate::distance::Distances;

/// What is measured.
pub(crate) struct Plan {
    /// The trials' names.
    pub(crate) trials: Vec<String>,
    /// The participants, each of which runs all trials.
    pub(crate) participants: Vec<String>,
    /// How often everything is run.
    pub(crate) runs: u32,
}

/// Measures all parts of a plan: `measure` runs the trial of this number with a participant and returns its figures,
/// none if the participant cannot run it, and the distance of the processors before and after. Fails as soon as
/// `measure` does.
pub(crate) fn run(
    plan: Plan,
    output: &Output,
    mut measure: impl FnMut(&Progress, usize, &str) -> Outcome<(Distances, Vec<Figure>)>,
) -> Outcome<Parts> {
    let Plan {
        trials,
        participants,
        runs,
    } = plan;
    let all: Vec<(usize, String)> = (0..trials.len())
        .flat_map(|trial| participants.iter().map(move |name| (trial, name.clone())))
        .collect();
    let steps = all.len() as u64 * u64::from(runs);
    let mut progress = Progress::steps(output, "measuring", steps);
    let names = trials.clone();
    let mut parts = Parts::new(trials, runs as usize / 2 + 1);
    // A trial that yields nothing when it is repeated is not repeated again.
    let mut barren: BTreeSet<(usize, String)> = BTreeSet::new();
    for round in 0..runs.saturating_mul(2) {
        let mut due = all.clone();
        if round >= runs {
            due = parts.missing();
            due.retain(|one| !barren.contains(one));
            if due.is_empty() {
                break;
            }
            let steps = due.len() as u64;
            progress = Progress::steps(output, "measuring again", steps);
        }
        for (trial, participant) in due {
            let name = names.get(trial).map_or("", String::as_str);
            progress.step(&format!("{participant}: {name}"));
            let (distances, figures) = measure(&progress, trial, &participant)?;
            if figures.is_empty() {
                barren.insert((trial, participant));
                continue;
            }
            parts.add(Part {
                trial,
                participant,
                distances,
                figures,
            });
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_command::failure::Failure;

    const SILENT: Output = Output {
        json: true,
        terminal: false,
        progress: false,
    };
    const NEAR: f64 = 0.055;
    const FAR: f64 = 0.25;

    fn plan(runs: u32) -> Plan {
        Plan {
            trials: vec!["one".to_owned()],
            participants: ["a", "b"].map(str::to_owned).to_vec(),
            runs,
        }
    }

    fn at(distance: Option<f64>) -> Distances {
        Distances {
            before: distance,
            after: distance,
        }
    }

    fn figures() -> Vec<Figure> {
        Figure::latency("latency/shm", 8, 1.0).into_iter().collect()
    }

    /// Measures `runs` times; `distance` returns the processors' distance during each measurement of a
    /// participant, by its number. Returns the participants in the order of measurement as well.
    fn measured(runs: u32, distance: impl Fn(&str, usize) -> Option<f64>) -> (Parts, Vec<String>) {
        let mut order: Vec<String> = Vec::new();
        let parts = run(plan(runs), &SILENT, |_, _, participant| {
            order.push(participant.to_owned());
            Ok((
                at(distance(participant, times(&order, participant))),
                figures(),
            ))
        });
        (parts.unwrap(), order)
    }

    fn times(order: &[String], participant: &str) -> usize {
        order.iter().filter(|name| *name == participant).count()
    }

    #[test]
    fn nothing_is_repeated_while_distances_stay_the_same() {
        let (parts, order) = measured(3, |_, _| Some(NEAR));
        assert_eq!(order, ["a", "b", "a", "b", "a", "b"]);
        assert!(parts.missing().is_empty());
        assert_eq!(parts.notes(None).len(), 1);
    }

    #[test]
    fn participants_that_lack_parts_are_measured_again_until_they_have_enough() {
        let near_from_the_third = |name: &str, time: usize| match name {
            "b" if time < 3 => Some(FAR),
            _ => Some(NEAR),
        };
        let (parts, order) = measured(3, near_from_the_third);
        assert_eq!(
            (times(&order, "a"), times(&order, "b")),
            (3, 4),
            "{order:?}"
        );
        assert!(parts.missing().is_empty());
        let findings = parts.findings();
        let runs = |name| {
            findings
                .series("latency/shm", name, 8)
                .unwrap()
                .values()
                .len()
        };
        assert_eq!((runs("a"), runs("b")), (3, 2));
    }

    #[test]
    fn repeating_is_bounded_and_parts_without_a_counterpart_are_reported() {
        let never_alike = |name: &str, _| Some(if name == "a" { NEAR } else { FAR });
        let (parts, order) = measured(3, never_alike);
        assert!(
            times(&order, "a") <= 6 && times(&order, "b") <= 6,
            "{order:?}"
        );
        assert!(order.len() > 6, "{order:?}");
        assert_eq!(parts.missing().len(), 1);
        let notes = parts.notes(None).join("\n");
        assert!(
            notes.contains("its figures are compared with nothing"),
            "{notes}"
        );
        // The figures are shown nevertheless.
        let shown = parts.findings().rows().len() + parts.other_rows().len();
        assert_eq!(shown, 2);
    }

    #[test]
    fn participants_that_fail_are_not_repeated() {
        let mut order: Vec<String> = Vec::new();
        let parts = run(plan(4), &SILENT, |_, _, participant| {
            order.push(participant.to_owned());
            let time = times(&order, participant);
            Ok(match participant {
                "b" if time == 1 => (at(Some(FAR)), figures()),
                "b" => (at(Some(FAR)), Vec::new()),
                _ => (at(Some(NEAR)), figures()),
            })
        });
        assert_eq!(
            (times(&order, "a"), times(&order, "b")),
            (4, 4),
            "{order:?}"
        );
        let notes = parts.unwrap().notes(None).join("\n");
        assert!(notes.contains("b did not get enough parts"), "{notes}");
    }

    #[test]
    fn without_a_distance_all_requested_runs_are_kept() {
        let (parts, order) = measured(3, |_, _| None);
        assert_eq!(order.len(), 6);
        let rows = parts.findings().rows();
        assert!(
            rows.len() == 2 && rows.iter().all(|row| row.runs == 3),
            "{rows:?}"
        );
        let notes = parts.notes(Some("gone")).join("\n");
        assert!(notes.contains("6 of 6 parts (gone)"), "{notes}");
    }

    #[test]
    fn a_failed_measurement_ends_the_run() {
        let failed = run(plan(3), &SILENT, |_, _, _| {
            Err(Failure::new("measuring", "it is gone"))
        });
        assert!(failed.is_err());
    }
}
