//! The status of a received message, or of another completed operation (MPI 5.0 §3.2.5).

use crate::abi;

/// A status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// The rank of the sender.
    pub source: i32,
    /// The message's tag.
    pub tag: i32,
    /// The message's bytes.
    pub bytes: u64,
    /// Whether the operation was cancelled.
    pub cancelled: bool,
}

impl Status {
    /// Of a message.
    #[inline]
    pub fn of_message(source: i32, tag: i32, bytes: u64) -> Self {
        Self {
            source,
            tag,
            bytes,
            cancelled: false,
        }
    }

    /// The status that the standard calls empty.
    #[inline]
    pub fn empty() -> Self {
        Self::of_message(abi::ANY_SOURCE, abi::ANY_TAG, 0)
    }

    /// Of a send.
    #[inline]
    pub fn of_send() -> Self {
        Self::empty()
    }

    /// Of a message from or to `MPI_PROC_NULL`.
    pub fn of_proc_null() -> Self {
        Self::of_message(abi::PROC_NULL, abi::ANY_TAG, 0)
    }

    /// Of an operation that was cancelled.
    pub fn cancelled() -> Self {
        Self {
            cancelled: true,
            ..Self::empty()
        }
    }
}
