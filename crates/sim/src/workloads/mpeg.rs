//! Sizes of the frames of compressed video.
//!
//! The thesis plays MPEG-1 traces (its reference 77) that are not available. The model here has
//! their known features: groups of twelve pictures `IBBPBBPBBPBB`, 25 pictures a second, mean sizes
//! of I, P and B pictures as 5 : 3 : 1, and within a type the spread of a gamma distribution of
//! shape 4 (a standard deviation of half the mean). A trace file can be played instead: bits of one
//! picture per line, `#` begins a comment.

use super::random::Random;
use crate::profile::FileError;

/// Pictures per second.
pub const PICTURES_PER_SECOND: u64 = 25;
/// One group of pictures: the weight of each one's mean size.
const GROUP: [u64; 12] = [5, 1, 1, 3, 1, 1, 3, 1, 1, 3, 1, 1];
/// Shape of the distribution within a type.
const SHAPE: u64 = 4;

/// The pictures of a stream, in order.
#[derive(Clone, Debug)]
pub struct Pictures {
    source: Source,
    next: usize,
}

#[derive(Clone, Debug)]
enum Source {
    Model { mean_bytes: u64, random: Random },
    Trace(std::rc::Rc<[u32]>),
}

impl Pictures {
    /// A stream by the model, of this many bytes per second on average.
    pub fn model(bytes_per_second: u64, seed: u64) -> Self {
        let mut random = Random::new(seed);
        // Streams are not in step: each begins at a random position in its group.
        let next = random.below(GROUP.len() as u64) as usize;
        Self {
            source: Source::Model {
                mean_bytes: bytes_per_second / PICTURES_PER_SECOND,
                random,
            },
            next,
        }
    }

    /// A stream that plays a trace from `start` on, repeatedly.
    pub fn trace(sizes: std::rc::Rc<[u32]>, start: usize) -> Self {
        Self {
            source: Source::Trace(sizes),
            next: start,
        }
    }

    /// Bytes of the next picture, at least 1.
    pub fn next_bytes(&mut self) -> u32 {
        let place = self.next;
        self.next += 1;
        let bytes = match &mut self.source {
            Source::Model { mean_bytes, random } => {
                let weights: u64 = GROUP.iter().sum();
                let weight = GROUP[place % GROUP.len()] * GROUP.len() as u64;
                let mean = *mean_bytes * weight / weights;
                (0..SHAPE).map(|_| random.exponential(mean)).sum::<u64>() / SHAPE
            }
            Source::Trace(sizes) => sizes
                .get(place % sizes.len().max(1))
                .map_or(1, |bytes| u64::from(*bytes)),
        };
        u32::try_from(bytes).unwrap_or(u32::MAX).max(1)
    }
}

/// Reads a trace file: bits of one picture per line.
pub fn parse_trace(text: &str, file: &str) -> Result<std::rc::Rc<[u32]>, FileError> {
    let mut sizes = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let content = line.split('#').next().unwrap_or_default().trim();
        if content.is_empty() {
            continue;
        }
        let bits: u32 = content.parse().map_err(|_| FileError {
            file: file.to_owned(),
            line: number + 1,
            message: format!("`{content}` must be the bits of one picture, a whole number"),
        })?;
        sizes.push(bits.div_ceil(8));
    }
    match sizes.is_empty() {
        true => Err(FileError {
            file: file.to_owned(),
            line: 0,
            message: "there is no picture in it; each line must have the bits of one".to_owned(),
        }),
        false => Ok(sizes.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_has_the_rate_and_the_pattern() {
        let mut stream = Pictures::model(47_500, 3);
        stream.next = 0;
        let sizes: Vec<u64> = (0..12_000)
            .map(|_| u64::from(stream.next_bytes()))
            .collect();
        let mean = sizes.iter().sum::<u64>() / sizes.len() as u64;
        assert!((1_850..1_950).contains(&mean), "{mean}");
        let of = |place: usize| sizes.iter().skip(place).step_by(12).sum::<u64>() / 1_000;
        assert!((4..6).contains(&(of(0) / of(1))));
        assert!((2..4).contains(&(of(3) / of(1))));
    }

    #[test]
    fn traces_are_read_and_played_in_a_circle() {
        let sizes = parse_trace("# a film\n800\n\n16 # small\n", "film.txt").expect("a trace");
        let mut stream = Pictures::trace(sizes, 1);
        assert_eq!([(); 3].map(|()| stream.next_bytes()), [2, 100, 2]);
        let error = parse_trace("8\nx\n", "film.txt").expect_err("no number");
        assert_eq!((error.line, error.file.as_str()), (2, "film.txt"));
        assert!(parse_trace("# nothing\n", "film.txt").is_err());
    }
}
