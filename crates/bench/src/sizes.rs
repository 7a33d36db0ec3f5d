//! Which sizes of messages are measured: powers of two, and others between them, so that nothing is tuned to a list.

use std::time::{SystemTime, UNIX_EPOCH};

use causeway_command::failure::{Failure, Outcome};
use causeway_report::plots::size_name;
use causeway_report::units::{bytes_text, parse_bytes};
use causeway_wire::random::SplitMix64;
use clap::Args;

/// The smallest and the largest power of two of the usual sizes.
const SMALLEST: u64 = 8;
const LARGEST: u64 = 4 << 20;

/// The options that choose sizes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Choice {
    /// Sizes of messages [usual: 0, powers of two from 8 B to 4 MiB, and between each two neighbours a
    /// size drawn from the seed]
    #[arg(long = "sizes", value_name = "LIST", value_delimiter = ',', value_parser = parse_bytes)]
    given: Vec<u64>,
    /// What the sizes between powers of two are drawn from [usual: the number of this day since
    /// 1970-01-01 UTC, so that runs of one day compare and tomorrow's sizes are not known]
    #[arg(long, value_name = "N", conflicts_with = "given")]
    seed: Option<u64>,
}

/// The sizes of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// In increasing order.
    pub(crate) bytes: Vec<u64>,
    /// The seed; none if the sizes were passed in.
    pub(crate) seed: Option<u64>,
}

impl Choice {
    /// The requested sizes, or the usual ones. Fails if one is above `most`.
    pub(crate) fn choose(&self, most: u64) -> Outcome<Sizes> {
        if self.given.is_empty() {
            return Ok(drawn(self.seed.unwrap_or_else(today)));
        }
        if let Some(size) = self.given.iter().find(|size| **size > most) {
            return Err(
                Failure::usage("reading --sizes", format!("{size} bytes are too many")).hint(
                    format!("messages of up to {} are measured", bytes_text(most)),
                ),
            );
        }
        let mut bytes = self.given.clone();
        bytes.sort_unstable();
        bytes.dedup();
        Ok(Sizes { bytes, seed: None })
    }
}

impl Sizes {
    /// How the sizes were drawn, as text; none if they were passed in.
    pub(crate) fn note(&self) -> Option<String> {
        let seed = self.seed?;
        let odd: Vec<String> = self
            .bytes
            .iter()
            .filter(|size| **size > 0 && !size.is_power_of_two())
            .map(u64::to_string)
            .collect();
        Some(format!(
            "sizes between powers of two, drawn from the seed {seed} (`--seed {seed}` draws them again): {}",
            odd.join(", ")
        ))
    }
}

/// The usual sizes: nothing, powers of two, and between each two neighbours one that the seed decides.
fn drawn(seed: u64) -> Sizes {
    let mut random = SplitMix64::new(seed);
    let mut bytes = vec![0];
    let mut power = SMALLEST;
    while power < LARGEST {
        bytes.push(power);
        bytes.push(power + 1 + random.below(power - 1));
        power *= 2;
    }
    bytes.push(LARGEST);
    Sizes {
        bytes,
        seed: Some(seed),
    }
}

/// The position of a size on a logarithmic axis, which has no zero: an empty message is shown at 4 bytes.
pub(crate) fn place(bytes: u64) -> f64 {
    if bytes == 0 { EMPTY } else { bytes as f64 }
}

/// The name of such a position.
pub(crate) fn place_name(place: f64) -> String {
    if place == EMPTY {
        return "0".to_owned();
    }
    size_name(place)
}

/// The position of an empty message.
const EMPTY: f64 = 4.0;

/// The number of this day since 1970-01-01 UTC.
fn today() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() / (24 * 3600))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_draws_the_same_sizes_and_another_one_draws_others() {
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7).bytes, drawn(8).bytes);
    }

    #[test]
    fn between_neighbouring_powers_of_two_lies_one_size() {
        for seed in 0..200 {
            let sizes = drawn(seed);
            assert_eq!(sizes.bytes.len(), 40);
            assert!(sizes.bytes.is_sorted_by(|a, b| a < b), "{sizes:?}");
            let powers = sizes.bytes.iter().filter(|size| size.is_power_of_two());
            assert_eq!(powers.count(), 20);
            for pair in sizes.bytes[1..].windows(2) {
                assert!(pair[1] < 2 * pair[0], "{pair:?}");
            }
        }
    }

    #[test]
    fn given_sizes_are_sorted_and_each_measured_once() {
        let given = |sizes: &[u64]| Choice {
            given: sizes.to_vec(),
            seed: None,
        };
        let sizes = given(&[4096, 8, 4096]).choose(1 << 20).unwrap();
        assert_eq!((sizes.bytes.as_slice(), sizes.seed), (&[8, 4096][..], None));
        assert!(sizes.note().is_none());
        assert!(given(&[8, 2 << 20]).choose(1 << 20).is_err());
    }

    #[test]
    fn the_seed_is_the_day_unless_one_is_given() {
        let usual = Choice {
            given: Vec::new(),
            seed: None,
        };
        let day = usual.choose(0).unwrap().seed.unwrap();
        assert!(day > 20_000 && day.abs_diff(today()) <= 1, "{day}");
        let given = Choice {
            seed: Some(7),
            ..usual
        };
        let sizes = given.choose(0).unwrap();
        assert_eq!(sizes, drawn(7));
        assert!(sizes.note().unwrap().contains("--seed 7"));
    }
}
