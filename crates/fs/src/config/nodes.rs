//! The section `[nodes]` of a configuration.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use causeway_bmi::nodes::files::{bytes_of_hex, hex};
use causeway_bmi::nodes::{CLIENT, Nodes, PublicKey};

use super::changed::Watched;
use super::ids::NodeLimits;

/// The section `[nodes]`.
#[derive(Debug, Clone)]
pub struct NodesEntry {
    /// The authorities whose certificates are accepted.
    pub authorities: Vec<PublicKey>,
    /// The file with the certificate and the key of the node that reads the configuration.
    pub node_file: PathBuf,
    /// The list of revoked certificates.
    pub revoked_file: PathBuf,
    /// The users and groups for which each node may speak, as last read; shared by all copies of the configuration.
    pub(super) limits: Arc<Mutex<Arc<NodeLimits>>>,
    /// The content of the files, once it was read; shared by all copies of the configuration.
    pub(super) known: Arc<OnceLock<Nodes>>,
    /// The files as they were read, if the configuration was loaded from one; shared by all copies of the configuration.
    pub(super) watched: Arc<Mutex<Option<Watched>>>,
}

impl PartialEq for NodesEntry {
    fn eq(&self, other: &Self) -> bool {
        let said = |entry: &Self| {
            let files = (entry.node_file.clone(), entry.revoked_file.clone());
            (entry.authorities.clone(), files, entry.limits())
        };
        said(self) == said(other)
    }
}

impl Eq for NodesEntry {}

impl NodesEntry {
    /// An entry with these files, which are not read yet.
    pub fn new(authorities: Vec<PublicKey>, node_file: PathBuf, revoked_file: PathBuf) -> Self {
        Self {
            authorities,
            node_file,
            revoked_file,
            limits: Arc::default(),
            known: Arc::default(),
            watched: Arc::default(),
        }
    }
}

impl NodesEntry {
    /// The users and groups for which each node may speak, as last read.
    pub fn limits(&self) -> Arc<NodeLimits> {
        let limits = self.limits.lock();
        Arc::clone(&limits.unwrap_or_else(PoisonError::into_inner))
    }

    /// Has programs notice that the files have changed.
    pub(super) fn watch(&self, watched: Watched) {
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) = Some(watched);
    }

    /// Replaces them, for all copies of the configuration.
    pub(super) fn set_limits(&self, limits: Arc<NodeLimits>) {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner) = limits;
    }
}

/// A public key of 64 hexadecimal digits.
pub fn parse_public_key(text: &str) -> Option<PublicKey> {
    bytes_of_hex(&text.to_ascii_lowercase())?.try_into().ok()
}

/// The hexadecimal digits of a public key.
pub fn public_key_digits(key: &PublicKey) -> String {
    hex(key)
}

/// Whether a server must not have this name, because its certificate could not be distinguished from a client's.
pub(super) fn is_reserved(server: &str) -> bool {
    server == CLIENT
}
