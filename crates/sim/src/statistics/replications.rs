//! Estimates from several runs with different seeds.

/// Quantiles 0.975 of Student's t for 1 to 30 degrees of freedom.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// The mean of some values; 0 without any.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The coefficient of variation: the standard deviation over the mean, with one less than the values as divisor, as the ones
/// that the thesis prints are.
pub fn variation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len().max(2) - 1) as f64).sqrt() / mean
}

/// The mean of independent runs, and its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval around it; none of fewer than two runs.
    pub half_width: Option<f64>,
}

/// The mean of independent runs and its confidence interval, if the values are normally distributed.
pub fn estimate(values: &[f64]) -> Estimate {
    let count = values.len();
    let mean = mean(values);
    let half_width = (count > 1).then(|| {
        let squares: f64 = values
            .iter()
            .map(|value| (value - mean) * (value - mean))
            .sum();
        let freedom = count - 1;
        // Above 30 degrees of freedom, within 0.1 %: Cornish and Fisher's expansion.
        let student = STUDENT.get(freedom - 1).copied().unwrap_or_else(|| {
            let normal = 1.959_964;
            normal + (normal * normal * normal + normal) / (4.0 * freedom as f64)
        });
        student * (squares / freedom as f64 / count as f64).sqrt()
    });
    Estimate { mean, half_width }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::random::Random;

    #[test]
    fn nineteen_of_twenty_intervals_hold_the_true_mean() {
        let mut random = Random::new(1);
        for count in [2, 5, 40] {
            let mut held = 0;
            for _ in 0..2_000 {
                let values: Vec<f64> = (0..count)
                    .map(|_| (0..12).map(|_| random.below(1_000) as f64).sum::<f64>())
                    .collect();
                let found = estimate(&values);
                let width = found.half_width.expect("several values");
                held += u32::from((found.mean - 12.0 * 499.5).abs() <= width);
            }
            assert!((1_860..=1_940).contains(&held), "{count}: {held}");
        }
        assert_eq!(estimate(&[3.0]).half_width, None);
        assert_eq!(estimate(&[3.0, 3.0]).half_width, Some(0.0));
    }
}
