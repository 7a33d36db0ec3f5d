//! Tables 6.4 to 6.7 as printed, in seconds.

use causeway_cosched::Strategy;

pub use crate::statistics::{mean, variation};

/// Completion times of workloads 1 to 12 with each strategy, in the order of [`Strategy::THESIS`].
pub const COMPLETION: [[u16; 12]; 10] = [
    [
        180, 208, 674, 2524, 3997, 106, 1115, 1088, 3393, 83, 128, 986,
    ],
    [124, 153, 773, 1814, 2849, 104, 438, 301, 1344, 62, 75, 692],
    [162, 192, 350, 533, 764, 104, 214, 144, 664, 78, 98, 240],
    [133, 173, 321, 463, 700, 101, 221, 134, 525, 65, 97, 191],
    [130, 138, 152, 226, 451, 103, 174, 176, 355, 63, 67, 219],
    [152, 190, 252, 295, 284, 112, 125, 136, 211, 70, 69, 220],
    [130, 158, 655, 1685, 2660, 106, 411, 331, 1467, 62, 87, 698],
    [157, 185, 985, 2320, 3046, 107, 936, 818, 2674, 78, 104, 891],
    [166, 205, 347, 527, 717, 105, 183, 145, 618, 78, 108, 270],
    [141, 158, 287, 459, 733, 103, 171, 145, 836, 69, 72, 164],
];

/// The tables' name of a strategy.
pub(super) fn name(strategy: Strategy) -> &'static str {
    strategy.name().unwrap_or_default()
}

/// The printed value for a strategy and a workload.
pub fn completion(strategy: Strategy, workload: usize) -> Option<f64> {
    let place = Strategy::THESIS
        .iter()
        .position(|(_, known)| *known == strategy)?;
    let row = COMPLETION.get(place)?;
    row.get(workload.checked_sub(1)?).copied().map(f64::from)
}

/// A row of Table 6.7: a strategy, with jobs of workload 3 and of workload 5, each in the order of the table.
pub struct Individual {
    /// The strategy.
    pub strategy: Strategy,
    /// Both `hi`, then both `lo`.
    pub workload_3: [u16; 4],
    /// The four of them.
    pub workload_5: [u16; 4],
}

const fn row(strategy: Strategy, workload_3: [u16; 4], workload_5: [u16; 4]) -> Individual {
    Individual {
        strategy,
        workload_3,
        workload_5,
    }
}

/// Table 6.7.
pub const INDIVIDUAL: [Individual; 5] = [
    row(Strategy::SB, [773, 760, 139, 137], [2845, 2836, 2849, 2807]),
    row(Strategy::DCS, [350, 344, 188, 186], [764, 764, 755, 739]),
    row(Strategy::PB, [150, 152, 54, 137], [287, 451, 449, 409]),
    row(Strategy::PBT, [252, 198, 203, 210], [63, 284, 264, 49]),
    row(Strategy::PB_SY, [256, 269, 287, 286], [719, 721, 733, 719]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_means_and_variations_are_those_of_the_printed_times() {
        let printed = [
            (452.0, 0.80, 2834.0, 0.01),
            (267.0, 0.35, 755.0, 0.02),
            (123.0, 0.38, 399.0, 0.19),
            (215.0, 0.11, 165.0, 0.76),
            (274.0, 0.05, 723.0, 0.01),
        ];
        for (row, (mean_3, variation_3, mean_5, variation_5)) in INDIVIDUAL.iter().zip(printed) {
            let three = row.workload_3.map(f64::from);
            let five = row.workload_5.map(f64::from);
            assert!((mean(&three) - mean_3).abs() <= 1.0, "{three:?}");
            assert!((mean(&five) - mean_5).abs() <= 1.0, "{five:?}");
            assert!((variation(&three) - variation_3).abs() < 0.01, "{three:?}");
            assert!((variation(&five) - variation_5).abs() < 0.01, "{five:?}");
        }
    }

    #[test]
    fn individual_times_end_with_the_completion() {
        for row in &INDIVIDUAL {
            for (workload, times) in [(3, row.workload_3), (5, row.workload_5)] {
                let last = times.map(f64::from).into_iter().fold(0.0, f64::max);
                let completion = completion(row.strategy, workload).expect("it is printed");
                assert!((last - completion).abs() <= 1.0, "{workload}: {last}");
            }
        }
    }
}
