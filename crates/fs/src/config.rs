//! The configuration: one short TOML file, the same on every node.

use std::path::{Path, PathBuf};
use std::time::Duration;

use causeway_wire::fs::DistributionHint;

/// A file system: what its configuration file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// Name, for people.
    pub name: String,
    /// Identity, written by `causeway fs init`.
    pub id: u128,
    /// What an acknowledgement promises.
    pub durability: Durability,
    /// The one bound on how long an operation may take before it fails.
    pub timeout: Duration,
    /// Default distribution.
    pub distribution: DistributionHint,
    /// File with the cluster's key (64 hexadecimal digits), if there is one.
    pub key_file: Option<PathBuf>,
    /// Encrypt connections between hosts.
    pub encrypt: bool,
    /// The servers, metadata server and I/O servers.
    pub servers: Vec<ServerEntry>,
}

/// One server of a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerEntry {
    /// Its name, unique.
    pub name: String,
    /// Whether it keeps the metadata (exactly one does).
    pub metadata: bool,
    /// Whether it keeps datafiles.
    pub io: bool,
    /// Its addresses, cheapest first.
    pub addresses: Vec<String>,
    /// Its directory.
    pub directory: PathBuf,
}

/// What an acknowledgement promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// An acknowledged create, rename, unlink or fsync survives power loss.
    Synced,
    /// It survives the death of any process; power loss may undo the last moments, never corrupt.
    Relaxed,
}

/// What is wrong with a configuration file, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct ConfigError {
    /// The file.
    pub file: String,
    /// The line, from 1; 0 if it concerns the whole file.
    pub line: usize,
    /// What is wrong and what is allowed.
    pub message: String,
}

impl Configuration {
    /// Reads and checks a file.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        todo!()
    }

    /// Reads and checks a text; `file` is used in messages.
    pub fn parse(text: &str, file: &str) -> Result<Self, ConfigError> {
        todo!()
    }

    /// The file's text, with comments that explain it.
    pub fn to_toml(&self) -> String {
        todo!()
    }
}
