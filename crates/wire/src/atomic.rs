//! Encodings of remote atomics, for every method that sends them in messages.
//!
//! An [`Operation`] is sent with the key and the position of the 64-bit word that it changes; the
//! [`Outcome`] is the reply. `docs/formats/tcp.md` and `docs/formats/shm.md` define the frames.

use crate::codec::{Malformed, Reader, Wire, Writer, unknown};

/// Encoded size of an [`Operation`].
pub const OPERATION_BYTES: usize = 17;

/// Encoded size of an [`Outcome`].
pub const OUTCOME_BYTES: usize = 9;

/// The change of the word, in one step. Arithmetic wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Adds a value.
    FetchAdd(u64),
    /// Writes `new` if the word is `expected`.
    CompareSwap {
        /// The value that the word has to have.
        expected: u64,
        /// Its new value.
        new: u64,
    },
}

/// The result of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The operation was carried out (a comparison may have failed): the value before.
    Old(u64),
    /// The word is not, or no longer, exported for reading and writing.
    Protection,
    /// The word is not at a multiple of 8 in the owner's memory.
    Misaligned,
}

const FETCH_ADD: u8 = 1;
const COMPARE_SWAP: u8 = 2;

impl Wire for Operation {
    fn encode(&self, out: &mut Writer) {
        let (kind, first, second) = match *self {
            Self::FetchAdd(value) => (FETCH_ADD, value, 0),
            Self::CompareSwap { expected, new } => (COMPARE_SWAP, expected, new),
        };
        out.u8(kind);
        out.u64(first);
        out.u64(second);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let kind = input.u8("atomic operation")?;
        let first = input.u64("atomic operand")?;
        let second = input.u64("atomic operand")?;
        match (kind, second) {
            (FETCH_ADD, 0) => Ok(Self::FetchAdd(first)),
            (FETCH_ADD, value) => unknown("atomic operand", value),
            (COMPARE_SWAP, new) => Ok(Self::CompareSwap {
                expected: first,
                new,
            }),
            (value, _) => unknown("atomic operation", value),
        }
    }
}

const OLD: u8 = 0;
const PROTECTION: u8 = 1;
const MISALIGNED: u8 = 2;

impl Wire for Outcome {
    fn encode(&self, out: &mut Writer) {
        let (kind, old) = match *self {
            Self::Old(old) => (OLD, old),
            Self::Protection => (PROTECTION, 0),
            Self::Misaligned => (MISALIGNED, 0),
        };
        out.u8(kind);
        out.u64(old);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let kind = input.u8("atomic outcome")?;
        match (kind, input.u64("atomic old value")?) {
            (OLD, old) => Ok(Self::Old(old)),
            (PROTECTION, 0) => Ok(Self::Protection),
            (MISALIGNED, 0) => Ok(Self::Misaligned),
            (PROTECTION | MISALIGNED, value) => unknown("atomic old value", value),
            (value, _) => unknown("atomic outcome", value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let add = Operation::FetchAdd(0x0102_0304_0506_0708);
        assert_eq!(
            add.to_bytes(),
            [1, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0]
        );
        let swap = Operation::CompareSwap {
            expected: 0x11,
            new: 0x2200,
        };
        assert_eq!(
            swap.to_bytes(),
            [2, 0x11, 0, 0, 0, 0, 0, 0, 0, 0, 0x22, 0, 0, 0, 0, 0, 0]
        );
        for operation in [add, swap] {
            let bytes = operation.to_bytes();
            assert_eq!(bytes.len(), OPERATION_BYTES);
            assert_eq!(Operation::from_bytes(&bytes), Ok(operation));
        }
        let old = Outcome::Old(0x33);
        assert_eq!(old.to_bytes(), [0, 0x33, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Outcome::Protection.to_bytes(), [1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Outcome::Misaligned.to_bytes(), [2, 0, 0, 0, 0, 0, 0, 0, 0]);
        for outcome in [old, Outcome::Protection, Outcome::Misaligned] {
            let bytes = outcome.to_bytes();
            assert_eq!(bytes.len(), OUTCOME_BYTES);
            assert_eq!(Outcome::from_bytes(&bytes), Ok(outcome));
        }
    }

    #[test]
    fn invalid_bytes_are_refused() {
        let mut operation = Operation::FetchAdd(1).to_bytes();
        operation[9] = 1;
        assert!(
            Operation::from_bytes(&operation).is_err(),
            "a second operand"
        );
        operation[0] = 3;
        assert!(Operation::from_bytes(&operation).is_err(), "no operation");
        assert!(Operation::from_bytes(&operation[..16]).is_err());
        let mut outcome = Outcome::Protection.to_bytes();
        outcome[1] = 1;
        assert!(
            Outcome::from_bytes(&outcome).is_err(),
            "a refusal with a value"
        );
        outcome[0] = 9;
        assert!(Outcome::from_bytes(&outcome).is_err(), "no outcome");
    }
}
