//! The effect of each constant: the recordings are replayed with it at half and at double its value.

use super::*;

type Change = fn(&mut Constants, fn(u32) -> u32, fn(Duration) -> Duration);

/// The constants that recordings can tell apart.
const CHANGES: [(&str, Change); 9] = [
    ("batch", |c, _, time| c.batch = time(c.batch)),
    ("most_polls", |c, count, _| {
        c.most_polls = count(c.most_polls)
    }),
    ("lone_yield", |c, _, time| c.lone_yield = time(c.lone_yield)),
    ("long_yield", |c, _, time| c.long_yield = time(c.long_yield)),
    ("contended_factor", |c, count, _| {
        c.contended_factor = count(c.contended_factor);
    }),
    ("backoff_waits", |c, count, _| {
        c.backoff_waits = count(c.backoff_waits);
    }),
    ("memory_yields", |c, count, _| {
        c.memory_yields = count(c.memory_yields);
    }),
    ("step_polls", |c, count, _| {
        c.step_polls = count(c.step_polls)
    }),
    ("shortest_slice", |c, _, time| {
        c.shortest_slice = time(c.shortest_slice);
    }),
];

fn late_us(constants: Constants) -> [f64; 4] {
    CASES.map(|(_, trace, _)| Replay::run(&trace(), constants).late_us)
}

/// Prints the table (`cargo test -p causeway-engine --lib table -- --nocapture`).
#[test]
fn no_constant_is_far_from_its_best_value() {
    let usual = late_us(Constants::USUAL);
    println!("us late: ring, many-to-one, cpu-bound, barrier: {usual:.1?}");
    for (name, change) in CHANGES {
        let with = |count: fn(u32) -> u32, time: fn(Duration) -> Duration| {
            let mut constants = Constants::USUAL;
            change(&mut constants, count, time);
            late_us(constants)
        };
        let half = with(|count| count / 2, |time| time / 2);
        let double = with(|count| count * 2, |time| time * 2);
        println!("{name}: half {half:.1?}, double {double:.1?}");
        for other in [half, double] {
            let (usual, other): (f64, f64) = (usual.iter().sum(), other.iter().sum());
            assert!(
                usual < 2.5 * other,
                "{name}: {usual:.1} us, {other:.1} with another value"
            );
        }
    }
}
