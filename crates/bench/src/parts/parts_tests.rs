//! Which parts are compared, and notes about the others.

use super::*;

const NEAR: Distances = Distances {
    before: Some(0.055),
    after: Some(0.056),
};
const FAR: Distances = Distances {
    before: Some(0.25),
    after: Some(0.26),
};
const MIXED: Distances = Distances {
    before: Some(0.055),
    after: Some(0.26),
};
const UNKNOWN: Distances = Distances {
    before: Some(0.055),
    after: None,
};

fn parts(enough: usize, all: &[(&str, Distances, f64)]) -> Parts {
    let mut parts = Parts::new(vec!["latency over shm".to_owned()], enough);
    for &(participant, distances, value) in all {
        parts.add(Part {
            trial: 0,
            participant: participant.to_owned(),
            distances,
            figures: Figure::latency("latency/shm", 8, value)
                .into_iter()
                .collect(),
        });
    }
    parts
}

fn values(findings: &Findings, participant: &str) -> Vec<f64> {
    let series = findings.series("latency/shm", participant, 8);
    series.map(findings::Series::values).unwrap_or_default()
}

#[test]
fn only_parts_of_one_class_are_compared_and_others_are_listed_separately() {
    let all = [
        ("a", NEAR, 0.1),
        ("b", FAR, 0.5),
        ("a", MIXED, 0.3),
        ("b", NEAR, 0.2),
        ("a", NEAR, 0.1),
        ("b", NEAR, 0.2),
    ];
    assert_eq!(parts(3, &all).missing().len(), 2);
    let parts = parts(2, &all);
    assert!(parts.missing().is_empty());
    let findings = parts.findings();
    let [a, b] = ["a", "b"].map(|name| findings.series("latency/shm", name, 8).unwrap());
    assert_eq!(a.over(b), [0.5, 0.5]);
    assert_eq!(findings.rows(), parts.findings_of(0).rows());
    let others: Vec<_> = parts
        .other_rows()
        .into_iter()
        .map(|row| (row.participant, row.distance.unwrap(), row.median))
        .collect();
    let other = |name: &str, distance: &str, value| (name.to_owned(), distance.to_owned(), value);
    assert_eq!(others, [other("b", "far", 0.5), other("a", "mixed", 0.3)]);
    let json = parts.json();
    assert_eq!(
        (&json[0]["distance"], &json[0]["parts"]),
        (&"near".into(), &4.into())
    );
    assert_eq!(
        (&json[2]["distance"], &json[2]["parts"]),
        (&"mixed".into(), &1.into())
    );
}

#[test]
fn the_class_that_all_have_is_chosen() {
    let parts = parts(
        2,
        &[
            ("a", NEAR, 0.1),
            ("a", NEAR, 0.1),
            ("a", FAR, 0.4),
            ("b", FAR, 0.5),
            ("b", MIXED, 0.2),
        ],
    );
    let findings = parts.findings();
    assert_eq!(
        (values(&findings, "a"), values(&findings, "b")),
        (vec![0.4], vec![0.5])
    );
    assert_eq!(parts.missing(), [(0, "a".to_owned()), (0, "b".to_owned())]);
}

#[test]
fn figures_of_unknown_distance_are_compared_only_without_better_ones() {
    let known = [("a", NEAR, 0.1), ("b", NEAR, 0.2)];
    let unknown = [
        ("a", UNKNOWN, 0.3),
        ("a", UNKNOWN, 0.3),
        ("b", UNKNOWN, 0.4),
        ("b", UNKNOWN, 0.4),
    ];
    let both = parts(1, &[&known[..], &unknown[..]].concat());
    assert_eq!(values(&both.findings(), "a"), [0.1]);
    assert_eq!(both.other_rows().len(), 2);
    let notes = both.notes(Some("the probe is gone")).join("\n");
    assert!(
        notes.contains("4 of 6 parts (the probe is gone)"),
        "{notes}"
    );

    let neither = parts(2, &unknown);
    assert_eq!(values(&neither.findings(), "b"), [0.4, 0.4]);
    assert!(neither.missing().is_empty() && neither.other_rows().is_empty());
    let row = neither.findings().rows().remove(0);
    assert_eq!(row.distance.as_deref(), Some("unknown"));
    let notes = neither.notes(Some("the probe is gone")).join("\n");
    assert!(
        notes.contains("is not known") && notes.contains("4 of 4 parts"),
        "{notes}"
    );
}

#[test]
fn parts_without_a_counterpart_are_reported() {
    let parts = parts(
        2,
        &[
            ("a", NEAR, 0.1),
            ("a", NEAR, 0.1),
            ("b", NEAR, 0.1),
            ("c", FAR, 0.4),
        ],
    );
    // Of classes that not all have, the one with the most parts.
    assert_eq!(values(&parts.findings(), "a").len(), 2);
    let notes = parts.notes(None).join("\n");
    assert!(
        notes.contains(
            "b did not get enough parts at the distance of the others: it has only 1 of 2"
        ),
        "{notes}"
    );
    assert!(notes.contains("c did not get enough parts at the distance of the others: its figures are compared with nothing"), "{notes}");
    assert!(!notes.contains("a did not get"), "{notes}");
    assert!(
        notes.contains("3 near (55 to 56 ns), 1 far (250 to 260 ns)"),
        "{notes}"
    );
}

#[test]
fn parts_without_figures_count_for_nothing() {
    let mut parts = parts(1, &[("a", NEAR, 0.1)]);
    parts.add(Part {
        trial: 0,
        participant: "b".to_owned(),
        distances: FAR,
        figures: Vec::new(),
    });
    assert!(parts.missing().is_empty());
    assert_eq!(parts.notes(None).len(), 1);
}
