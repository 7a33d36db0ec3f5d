//! Random and mutated event sequences for a card: the short form of `make fuzz`, without coverage.

use causeway_wire::random::SplitMix64;

use crate::world::{chance, fuzz};

const ROUNDS: u64 = 4000;

#[test]
fn a_card_survives_any_sequence_of_events() {
    let samples = fuzz::samples();
    for sample in &samples {
        fuzz::feed(sample);
    }
    for seed in 0..ROUNDS {
        let mut random = SplitMix64::new(seed);
        let mut bytes = match chance(&mut random, 70) {
            true => samples[random.below(samples.len() as u64) as usize].clone(),
            false => Vec::new(),
        };
        for _ in 0..random.below(200) {
            let byte = random.below(256) as u8;
            match random.below(3) {
                0 => bytes.push(byte),
                1 => bytes.insert(random.below(bytes.len() as u64 + 1) as usize, byte),
                _ => {
                    let at = random.below(bytes.len() as u64) as usize;
                    if let Some(place) = bytes.get_mut(at) {
                        *place = byte;
                    }
                }
            }
        }
        let result = std::panic::catch_unwind(|| fuzz::feed(&bytes));
        assert!(result.is_ok(), "seed {seed}: {bytes:?}");
    }
}
