//! How long a piece of work takes at best.

use std::time::Instant;

/// The number of runs: other programs may disturb some of them.
const RUNS: usize = 12;

/// The shortest time of several runs of `work`, in nanoseconds; `None` if one of them fails.
pub(crate) fn lowest(mut work: impl FnMut() -> bool) -> Option<f64> {
    let mut lowest = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        if !work() {
            return None;
        }
        lowest = lowest.min(start.elapsed().as_nanos() as f64);
    }
    Some(lowest)
}

#[cfg(test)]
mod tests {
    #[test]
    fn work_that_fails_has_no_time() {
        assert_eq!(super::lowest(|| false), None);
        assert!(super::lowest(|| true).is_some_and(|time| time >= 0.0));
    }
}
