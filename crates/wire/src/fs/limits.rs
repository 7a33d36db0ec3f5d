//! Limits of what requests and replies have inside.

/// Longest name of a directory entry, in bytes.
pub const MAX_NAME_BYTES: usize = 255;
/// Longest path in one request, and longest target of a symbolic link, in bytes.
pub const MAX_PATH_BYTES: usize = 4096;
/// Largest content of a file that lives beside its metadata, in bytes.
pub const MAX_STUFFED_BYTES: usize = 16 << 10;
/// Longest name of an extended attribute, in bytes.
pub const MAX_XATTR_NAME_BYTES: usize = 255;
/// Longest value of an extended attribute, in bytes: what a message holds, less its other fields.
pub const MAX_XATTR_VALUE_BYTES: usize = 60 << 10;
/// Most supplementary groups of a caller.
pub const MAX_GROUPS: usize = 64;
/// Most servers that one file is striped over.
pub const MAX_STRIPE_SERVERS: usize = 1024;
/// Longest cursor of a check, in bytes.
pub const MAX_CURSOR_BYTES: usize = 1024;
/// Largest encoding of a request or a reply, in bytes. Longer lists travel in exported memory.
pub const MAX_MESSAGE_BYTES: usize = 64 << 10;
