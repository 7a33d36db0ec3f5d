//! Limits that several parts of messages have in common.

/// Longest name of a directory entry, in bytes.
pub const MAX_NAME_BYTES: usize = 255;
/// Longest program version in a [`Greeting`](super::identity::Greeting), in bytes; a longer one is cut.
pub const MAX_LABEL_BYTES: usize = 255;
/// Largest encoding of a request or a reply, in bytes. Longer lists travel in exported memory.
pub const MAX_MESSAGE_BYTES: usize = 64 << 10;
