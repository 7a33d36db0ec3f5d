//! Random numbers that are the same on every machine: no seeds from outside, no logarithms.

use causeway_wire::random::SplitMix64;

/// A generator of 64-bit numbers: fast, and good enough for arrival times.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

impl Random {
    /// The generator of this seed.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0.number()
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(bound)) >> 64) as u64
    }

    /// An exponentially distributed number of the given mean, by comparisons alone (von Neumann 1951): the whole
    /// part counts the refused runs, the fraction is the head of the first descending run of odd length.
    pub fn exponential(&mut self, mean: u64) -> u64 {
        let mut whole = 0_u128;
        loop {
            let head = self.number();
            let mut last = head;
            let mut length = 1_u32;
            loop {
                let next = self.number();
                if next >= last {
                    break;
                }
                last = next;
                length += 1;
            }
            if length % 2 == 1 {
                let value = (whole << 64) + u128::from(head);
                // Both factors are below 2⁷⁰ in any run that ends.
                return (((value >> 20) * u128::from(mean)) >> 44) as u64;
            }
            whole += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_numbers_have_the_mean_and_the_spread() {
        let mut random = Random::new(7);
        let count = 200_000_u64;
        let mean = 1_000_000_u64;
        let numbers: Vec<u64> = (0..count).map(|_| random.exponential(mean)).collect();
        let average = numbers.iter().sum::<u64>() / count;
        assert!((990_000..1_010_000).contains(&average), "{average}");
        // 1/e of them are above the mean.
        let above = numbers.iter().filter(|&&number| number > mean).count();
        assert!((73_000..74_200).contains(&above), "{above}");
    }

    #[test]
    fn numbers_below_a_bound_are_even() {
        let mut random = Random::new(1);
        let mut counts = [0; 7];
        for _ in 0..70_000 {
            counts[random.below(7) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_600..10_400).contains(count)));
    }
}
