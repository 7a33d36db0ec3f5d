//! The content of a configuration.

use std::path::{Path, PathBuf};
use std::time::Duration;

use causeway_sys::trusted_file::Refused;
use causeway_wire::fs::{DistributionHint, Errno};

use super::nodes::NodesEntry;

/// Strip size where the configuration has none, in bytes.
pub const DEFAULT_STRIP_SIZE: u32 = 1 << 20;
/// Timeout where the configuration has none.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// Lifetime of capabilities where the configuration has none; also the longest time that a change of permissions takes to reach an
/// I/O server to which the metadata server cannot send it.
pub const DEFAULT_CAPABILITY_LIFETIME: Duration = Duration::from_secs(60);
/// How long a change of permissions waits for I/O servers that do not reply, where the configuration has no limit.
const DEFAULT_TELL_TIMEOUT: Duration = Duration::from_millis(500);
/// Most files that one program may have open, where the configuration has no limit.
pub const DEFAULT_OPEN_FILES: usize = 1 << 16;
/// The longest time of leases on names and attributes, where the configuration has none.
pub const DEFAULT_LEASE_TIME: Duration = Duration::from_secs(5);
/// Most servers of one file system: indices of I/O servers are 16 bits wide.
pub const MAX_SERVERS: usize = 4096;

/// A file system: the content of its configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// Name, for messages.
    pub name: String,
    /// Identity, written by `causeway fs init`.
    pub id: u128,
    /// What an acknowledgement promises.
    pub durability: Durability,
    /// How long an operation may take before it fails.
    pub timeout: Duration,
    /// Default distribution.
    pub distribution: DistributionHint,
    /// File with the cluster's key (64 hexadecimal digits), if there is one.
    pub key_file: Option<PathBuf>,
    /// The Unix socket of each node's agent, which speaks for users who may not read the keys.
    pub agent_socket: Option<PathBuf>,
    /// Each node has to prove its identity: the authorities that certify nodes, and the files with this node's certificate.
    pub nodes: Option<NodesEntry>,
    /// Encrypt connections between hosts. Otherwise, messages over tcp are only authenticated.
    pub encrypt: bool,
    /// Keep checksums in new datafiles.
    pub checksums: bool,
    /// Most TCP connections between two processes, see [`causeway_bmi::Config::tcp_connections`].
    pub tcp_connections: u8,
    /// Rights to files and the audit log.
    pub access: AccessRules,
    /// The time of the leases under which clients cache names and attributes; see
    /// [`Configuration::lease_time`].
    pub leases: Duration,
    /// Most files that the metadata server keeps open for one program.
    pub open_files: usize,
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

/// Rights to files and the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessRules {
    /// File with the key that only servers hold (64 hexadecimal digits). Without one, the key of capabilities is derived from
    /// the cluster's key; without that either, the metadata server makes one in its directory.
    pub server_key_file: Option<PathBuf>,
    /// Whether I/O servers serve requests without a capability.
    pub capabilities: CapabilityRule,
    /// How long a capability is good before it must be renewed.
    pub capability_lifetime: Duration,
    /// How long a change of permissions waits for I/O servers that do not reply.
    pub tell_timeout: Duration,
    /// Whether root of other hosts is mapped to nobody.
    pub root_squash: bool,
    /// The requests that servers log.
    pub audit: AuditLevel,
}

/// Whether I/O servers serve requests without a capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapabilityRule {
    /// They refuse such requests.
    Required,
    /// They serve such requests: for a time in which clients or the metadata server are of a build without capabilities. A capability that comes
    /// with a request is nevertheless checked.
    Optional,
    /// There are no capabilities: the metadata server gives none out, and I/O servers check none.
    Off,
}

/// The requests that servers log. Refused requests are counted at every level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AuditLevel {
    /// Nothing.
    Off,
    /// Requests that change names, attributes and the layout, or remove datafiles, and all that are refused because a right is missing.
    /// Writes are not among them.
    Changes,
    /// All requests.
    All,
}

impl Default for AccessRules {
    fn default() -> Self {
        Self {
            server_key_file: None,
            capabilities: CapabilityRule::Required,
            capability_lifetime: DEFAULT_CAPABILITY_LIFETIME,
            tell_timeout: DEFAULT_TELL_TIMEOUT,
            root_squash: false,
            audit: AuditLevel::Off,
        }
    }
}

/// The guarantee of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// An acknowledged create, rename, unlink or fsync survives power loss.
    Synced,
    /// A change survives the death of any process; power loss may undo the last moments, but never corrupts.
    Relaxed,
}

/// An error in a configuration file, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct ConfigError {
    /// The file.
    pub file: String,
    /// The line, from 1; 0 if it concerns the whole file.
    pub line: usize,
    /// What is wrong, and what is allowed.
    pub message: String,
    /// Why a file cannot be read or is not used, as the system would say it; `None` if a file says something wrong.
    pub errno: Option<Errno>,
}

impl ConfigError {
    /// The file was refused, or another one that it names in this line.
    pub(super) fn refused(path: &Path, line: usize, refused: &Refused, message: String) -> Self {
        let errno = match refused {
            Refused::Unreadable(error) => error
                .raw_os_error()
                .and_then(|number| u16::try_from(number).ok())
                .map(Errno),
            Refused::Distrusted(_) => Some(Errno::EACCES),
        };
        Self {
            file: path.display().to_string(),
            line,
            message,
            errno,
        }
    }
}
