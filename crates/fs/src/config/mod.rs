//! The configuration: one short TOML file, the same on every node.
//!
//! [`Configuration`] (in `types`) is what every program works with; `file` reads and checks the text and gives every error its line; `text` writes it (`source`, `units`, `id_text`, `ids`, `access` and `leases` are parts of both); `nodes` is its section about nodes, `membership` reads the
//! files that it names for them, and `changed` notices that they have changed; `layout` makes configurations from a list of hosts or for one machine.

mod access;
mod changed;
mod file;
mod id_text;
mod ids;
mod key;
mod layout;
mod leases;
mod membership;
mod nodes;
mod source;
mod text;
mod types;
mod unit_text;
mod units;

#[cfg(test)]
mod tests;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use causeway_bmi::agent::Agent;
use causeway_sys::secret::Secret;
use causeway_sys::trusted_file::{self, Refused, Use};
use causeway_wire::fs::{DistributionHint, Errno};

use changed::Stamp;

pub(crate) use changed::INTERVAL as LOOK_INTERVAL;
pub use ids::{IdRules, NodeLimits};
pub use layout::{DEFAULT_PORT, Host};
pub use membership::read_revoked;
pub use nodes::{NodesEntry, parse_public_key, public_key_digits};
pub use types::{
    AccessRules, AuditLevel, CapabilityRule, ConfigError, Configuration,
    DEFAULT_CAPABILITY_LIFETIME, DEFAULT_LEASE_TIME, DEFAULT_OPEN_FILES, DEFAULT_STRIP_SIZE,
    DEFAULT_TIMEOUT, Durability, MAX_SERVERS, ServerEntry,
};

/// The environment variable that names a configuration file.
pub const VARIABLE: &str = "CAUSEWAY_CONFIG";
/// Where a configuration file is searched for when none is named.
pub const PLACES: [&str; 2] = ["causeway.toml", "causeway-dev/causeway.toml"];

/// A configuration file in a usual place; an error if there is one in a place where any user may have put it.
pub fn usual_file() -> Result<Option<PathBuf>, ConfigError> {
    let Some(file) = PLACES.iter().map(PathBuf::from).find(|file| file.is_file()) else {
        return Ok(None);
    };
    // Not only the file's own directory is checked: a user who may rename it can put another one in its place.
    for place in [Path::new(PLACES[0]), &file] {
        trusted_file::check_place(place).map_err(|refused| {
            let message = format!("it is not used: {refused}");
            ConfigError::refused(&file, 0, &refused, message)
        })?;
    }
    Ok(Some(file))
}

impl Configuration {
    /// Reads and checks a file, and the files with keys that it names.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let stamp = Stamp::of(path);
        Self::load_read(path, &Self::read(path)?, stamp)
    }

    /// Checks the text of a file, and the files with keys that it names.
    pub fn load_text(path: &Path, text: &str) -> Result<Self, ConfigError> {
        Self::load_read(path, text, None)
    }

    /// The same for a text; the file had this stamp before the text was read.
    fn load_read(path: &Path, text: &str, stamp: Option<Stamp>) -> Result<Self, ConfigError> {
        let (configuration, key_line) = file::parse(text, &path.display().to_string())?;
        let is_spoken_for = configuration.agent().is_some();
        if let Some(key_file) = configuration.key_file.as_ref().filter(|_| !is_spoken_for) {
            key::read(key_file, path, key_line)?;
        }
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        if !is_spoken_for {
            configuration.watch_nodes(path.clone(), stamp)?;
        }
        tracing::debug!(file = %path.display(), key_file = ?configuration.key_file, "the configuration was read");
        Ok(configuration)
    }

    /// Reads and checks a file, but no other file that it names.
    pub fn load_alone(path: &Path) -> Result<Self, ConfigError> {
        Self::parse(&Self::read(path)?, &path.display().to_string())
    }

    /// The text of a file; an error if other users may change it.
    pub fn read(path: &Path) -> Result<String, ConfigError> {
        let text = trusted_file::open(path, Use::Configuration).and_then(|mut found| {
            let mut text = String::new();
            let read = found.read_to_string(&mut text);
            read.map(|_| text).map_err(Refused::Unreadable)
        });
        text.map_err(|refused| {
            let message = match &refused {
                Refused::Unreadable(error) => format!(
                    "cannot be read: {error}; `causeway fs init` writes a configuration file"
                ),
                Refused::Distrusted(what) => format!("it is not used: {what}"),
            };
            ConfigError::refused(path, 0, &refused, message)
        })
    }

    /// Reads and checks the file that the environment names, or one in a usual place.
    pub fn load_usual() -> Result<Self, ConfigError> {
        Self::load(&Self::usual()?)
    }

    /// The file that the environment names, or one in a usual place.
    pub fn usual() -> Result<PathBuf, ConfigError> {
        let named = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
        let file = match named {
            Some(named) => Some(PathBuf::from(named)),
            None => usual_file()?,
        };
        file.ok_or_else(|| ConfigError {
            file: PLACES[0].to_owned(),
            line: 0,
            message: format!(
                "there is none, nor a {}, and ${VARIABLE} names none: start a file system on this machine with \
                 `causeway fs dev`, or name the configuration file of one",
                PLACES[1]
            ),
            errno: Some(Errno::ENOENT),
        })
    }

    /// Reads and checks a text; `file` is used in messages. The key file is not read.
    pub fn parse(text: &str, file: &str) -> Result<Self, ConfigError> {
        Ok(file::parse(text, file)?.0)
    }

    /// The file's text, with comments that explain it.
    pub fn to_toml(&self) -> String {
        text::print(self)
    }

    /// The cluster's key, if the configuration names a key file.
    pub fn key(&self) -> Result<Option<Secret>, ConfigError> {
        self.key_file
            .as_deref()
            .map(|path| key::read(path, path, 0))
            .transpose()
    }

    /// The agent that speaks for this process, if the configuration names one and this process may not read the cluster's key, or that of its
    /// node. The process then needs neither key.
    pub fn agent(&self) -> Option<Agent> {
        let socket = self.agent_socket.as_ref()?;
        let node_file = self.nodes.as_ref().map(|entry| &entry.node_file);
        let mut keys = self.key_file.iter().chain(node_file);
        keys.any(|path| key::is_denied(path)).then(|| Agent {
            socket: socket.clone(),
            nodes: self.nodes.is_some(),
        })
    }

    /// The key that only servers hold, if the configuration names its file.
    pub fn server_key(&self) -> Result<Option<Secret>, ConfigError> {
        let read = |path: &PathBuf| key::read(path, path, 0);
        self.access.server_key_file.as_ref().map(read).transpose()
    }

    /// How long a lease on names and attributes is good: half of the time-out at most, so that a change that waits for a client that
    /// does not reply is made in time. Zero if there are none, as that is below the least time.
    pub fn lease_time(&self) -> Duration {
        leases::good_for(self.leases, self.timeout)
    }

    /// Index of the metadata server.
    pub fn metadata_server(&self) -> usize {
        self.servers
            .iter()
            .position(|server| server.metadata)
            .unwrap_or(0)
    }

    /// Indices of the I/O servers. Distributions do not count them in this order, but by the numbers of the
    /// file system's layout.
    pub fn io_servers(&self) -> Vec<usize> {
        (0..self.servers.len())
            .filter(|&index| self.servers[index].io)
            .collect()
    }

    /// The server of this name.
    pub fn server(&self, name: &str) -> Option<(usize, &ServerEntry)> {
        self.servers
            .iter()
            .enumerate()
            .find(|(_, server)| server.name == name)
    }

    /// The default distribution with its strip size filled in. 0 servers are all that the file system has.
    pub fn default_distribution(&self) -> DistributionHint {
        let hint = self.distribution;
        DistributionHint {
            strip_size: match hint.strip_size {
                0 => DEFAULT_STRIP_SIZE,
                size => size,
            },
            ..hint
        }
    }

    /// Names of the I/O servers, in the order of their entries.
    pub fn io_names(&self) -> Vec<String> {
        self.servers
            .iter()
            .filter(|server| server.io)
            .map(|server| server.name.clone())
            .collect()
    }
}
