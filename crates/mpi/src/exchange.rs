//! Values that processes exchange when they make a communicator together.

use causeway_engine::Memory;

/// The values of one process: its number of the new communicator, and two of the caller's.
pub(crate) const WORDS: usize = 3;
pub(crate) const BYTES: usize = WORDS * 8;

/// The bytes of numbers in this host's order.
pub(crate) fn bytes_of(numbers: &[i64]) -> Vec<u8> {
    numbers.iter().flat_map(|one| one.to_ne_bytes()).collect()
}

/// The exchanged values, once the operation is done.
#[derive(Debug, Clone)]
pub struct Exchange {
    pub(crate) communicator: usize,
    /// This process's number of the new communicator.
    pub(crate) number: u32,
    /// The words of each process, in the order of the communicator's `everyone`.
    pub(crate) memory: Memory,
    /// The handle of the new communicator, if it exists already.
    pub(crate) new: usize,
}

impl Exchange {
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

    /// The handle of the communicator that is being made.
    pub fn new_handle(&self) -> usize {
        self.new
    }
}
