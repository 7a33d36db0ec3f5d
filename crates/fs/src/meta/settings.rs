//! The settings of a metadata service.

use std::time::Duration;

use causeway_wire::fs::{DistributionHint, Generation, Incarnation};

use crate::config::{DEFAULT_LEASE_TIME, DEFAULT_OPEN_FILES, Durability};

/// The settings of a metadata service.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What an acknowledgement promises.
    pub durability: Durability,
    /// Names of the I/O servers, for the layout of metadata that are formatted now.
    pub io_servers: Vec<String>,
    /// Distribution of files whose request and directory leave it open.
    pub distribution: DistributionHint,
    /// Largest content beside metadata, in bytes, at most
    /// [`causeway_wire::fs::MAX_STUFFED_BYTES`].
    pub stuffed_limit: usize,
    /// The file system's identity: a store that belongs to another one is refused.
    pub file_system: u128,
    /// The formatting of the server's directory.
    pub generation: Generation,
    /// The incarnation of the metadata, if they are formatted now.
    pub incarnation: Incarnation,
    /// Owner and group of the root directory, when it is made.
    pub root_owner: (u32, u32),
    /// Permission bits of the root directory, when it is made.
    pub root_mode: u16,
    /// Most names of one object.
    pub max_links: u32,
    /// Most slots that are remembered. Each takes some 150 bytes of memory.
    pub max_sessions: usize,
    /// Most files that one program has open. Each takes some 150 bytes of memory.
    pub open_files: usize,
    /// How long leases on names and attributes are good.
    pub lease_time: Duration,
    /// Requests that need space are refused while the disk has fewer free bytes than this, or than the store needs to
    /// free space; those that free space are not.
    pub reserve_bytes: u64,
    /// Whether an empty file system may be made where there is none.
    pub format: Format,
}

/// Whether metadata may be made anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Missing metadata are an error: a disk may not be mounted.
    Refused,
    /// Missing metadata are replaced by an empty file system.
    Allowed,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            durability: Durability::Synced,
            io_servers: vec!["io0".to_owned()],
            distribution: DistributionHint::default(),
            stuffed_limit: causeway_wire::fs::MAX_STUFFED_BYTES,
            file_system: 0,
            generation: Generation::NONE,
            incarnation: Incarnation::NONE,
            root_owner: (0, 0),
            root_mode: 0o755,
            max_links: 65_000,
            max_sessions: 1 << 19,
            open_files: DEFAULT_OPEN_FILES,
            lease_time: DEFAULT_LEASE_TIME,
            reserve_bytes: 0,
            format: Format::Allowed,
        }
    }
}
