//! Values that processes exchange when they make a communicator together.

use causeway_engine::Memory;

/// Values of one process for the others: its number of the new communicator, and two more.
pub(crate) const WORDS: usize = 3;
pub(crate) const BYTES: usize = WORDS * 8;

/// Numbers, as they lie in memory.
pub(crate) fn bytes_of(numbers: &[i64]) -> Vec<u8> {
    numbers.iter().flat_map(|one| one.to_ne_bytes()).collect()
}

/// The exchanged values, once the operation is done.
#[derive(Debug, Clone)]
pub struct Told {
    pub(crate) communicator: usize,
    /// This process's number of the new communicator.
    pub(crate) number: u32,
    /// The words of each, in the order of the communicator's `everyone`.
    pub(crate) memory: Memory,
    /// The new communicator, if there is one already.
    pub(crate) new: usize,
}

impl Told {
    pub(crate) fn all(&self) -> Vec<[i64; WORDS]> {
        let bytes = self.memory.to_vec();
        let each = bytes.chunks_exact(BYTES);
        each.map(|one| {
            let mut words = [0; WORDS];
            for (word, bytes) in words.iter_mut().zip(one.chunks_exact(8)) {
                *word = bytes.try_into().map_or(0, i64::from_ne_bytes);
            }
            words
        })
        .collect()
    }

    /// The communicator that is being made.
    pub fn new_handle(&self) -> usize {
        self.new
    }
}
