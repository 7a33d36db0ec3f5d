//! Seeded random numbers: the same seed gives the same test.

use causeway_wire::random::SplitMix64;

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Random(SplitMix64);

impl Random {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0.number()
    }

    /// A number below `limit`; 0 if `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0.below(limit as u64) as usize
    }

    /// A number below two to a random power that is itself below `powers`: small ones are as
    /// frequent as large ones.
    pub fn spread(&mut self, powers: usize) -> usize {
        let limit = 1 << self.below(powers);
        self.below(limit)
    }

    /// True once in `times`.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill(bytes);
    }

    /// `len` random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        self.0.bytes(len)
    }

    /// Cuts `total` into at most `most` parts (some of them empty) that add up to it.
    pub fn cut(&mut self, total: usize, most: usize) -> Vec<usize> {
        let mut marks: Vec<usize> = (1..most.max(1)).map(|_| self.below(total + 1)).collect();
        marks.sort_unstable();
        marks.push(total);
        let mut from = 0;
        marks
            .into_iter()
            .map(|mark| {
                let part = mark - from;
                from = mark;
                part
            })
            .collect()
    }
}

/// The seed that `CAUSEWAY_SEED` names, or `usual`; printed, so that a failing test shows it.
pub fn seed(usual: u64) -> u64 {
    let seed = std::env::var("CAUSEWAY_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(usual);
    println!("seed {seed} (CAUSEWAY_SEED chooses another)");
    seed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats() {
        let (mut one, mut other) = (Random::new(7), Random::new(7));
        assert_eq!(one.bytes(100), other.bytes(100));
        assert_ne!(one.bytes(100), Random::new(8).bytes(100));
    }

    #[test]
    fn cuts_add_up() {
        let mut random = Random::new(1);
        for total in [0, 1, 5, 1000] {
            for most in [0, 1, 2, 50] {
                let parts = random.cut(total, most);
                assert_eq!(parts.iter().sum::<usize>(), total);
                assert!(parts.len() <= most.max(1));
            }
        }
    }
}
