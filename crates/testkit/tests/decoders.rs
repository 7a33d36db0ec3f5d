//! Every decoder against seeded random and mutated inputs: the short form of `make fuzz`.

use causeway_testkit::decoders::{all, mutate};
use causeway_testkit::random::{Random, seed};

/// How many inputs each decoder gets.
const INPUTS: usize = 300_000;
/// Decoders with a whole state machine behind them take longer, and get fewer inputs by this
/// factor.
const SLOWER: &[(&str, usize)] = &[("firmware", 100)];

#[test]
fn well_formed_inputs_keep_the_promise() {
    for decoder in all() {
        let samples = (decoder.samples)();
        assert!(!samples.is_empty(), "{}", decoder.name);
        for sample in samples {
            (decoder.feed)(&sample);
        }
    }
}

#[test]
fn no_input_breaks_a_decoder() {
    let seed = seed(11);
    for decoder in all() {
        let mut random = Random::new(seed);
        let samples = (decoder.samples)();
        let slower = SLOWER.iter().find(|(name, _)| *name == decoder.name);
        for number in 0..INPUTS / slower.map_or(1, |(_, times)| *times) {
            let mut input = match random.below(10) {
                0 => {
                    let len = random.spread(12);
                    random.bytes(len)
                }
                _ => samples[random.below(samples.len())].clone(),
            };
            let cut = random.one_in(20);
            mutate(&mut input, &mut random);
            if cut {
                let other = &samples[random.below(samples.len())];
                input.extend(&other[random.below(other.len())..]);
            }
            let result = std::panic::catch_unwind(|| (decoder.feed)(&input));
            assert!(
                result.is_ok(),
                "{}: input {number} of seed {seed}: {:02x?}",
                decoder.name,
                &input[..input.len().min(4096)]
            );
        }
    }
}

/// A sample cut anywhere is refused or keeps the promise, byte by byte.
#[test]
fn truncated_inputs_are_refused() {
    for decoder in all() {
        for sample in (decoder.samples)() {
            for len in 0..sample.len() {
                (decoder.feed)(&sample[..len]);
            }
        }
    }
}
