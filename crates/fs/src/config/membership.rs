//! What is in the files that a configuration names for nodes.
//!
//! All copies of a configuration share what was read from the files, so that reading them again ([`Configuration::reload_nodes`]) concerns
//! every connection that was made with one of them.

use std::path::Path;

use causeway_bmi::nodes::files::Revoked;
use causeway_bmi::nodes::{Member, Membership, Nodes, member};
use causeway_sys::trusted_file::Refused;

use super::nodes::NodesEntry;
use super::types::{ConfigError, Configuration};

impl Configuration {
    /// What is known of nodes, if each has to prove which it is: the same for all copies of this configuration. The first call reads the files.
    pub fn nodes(&self) -> Result<Option<Nodes>, ConfigError> {
        let Some(entry) = &self.nodes else {
            return Ok(None);
        };
        if let Some(known) = entry.known.get() {
            return Ok(Some(known.clone()));
        }
        let read = Nodes::new(self.membership(entry)?);
        Ok(Some(entry.known.get_or_init(|| read).clone()))
    }

    /// Reads the section `[nodes]` of `file` and the files that it names again. Connections with nodes that do not count any more
    /// end with their processes' next polls. If anything is wrong, everything stays as it was. All else in `file` is not looked at.
    pub fn reload_nodes(&self, file: &Path) -> Result<(), ConfigError> {
        let wrong = |message: &str| ConfigError {
            file: file.display().to_string(),
            line: 0,
            message: message.to_owned(),
        };
        let Some(known) = self.nodes()? else {
            return Err(wrong(
                "it had no `[nodes]` when this process started: restart it to change that",
            ));
        };
        let now = Self::load_alone(file)?;
        let Some(entry) = &now.nodes else {
            return Err(wrong(
                "it has no `[nodes]` any more: restart this process to do without them",
            ));
        };
        known.replace(now.membership(entry)?);
        Ok(())
    }

    fn membership(&self, entry: &NodesEntry) -> Result<Membership, ConfigError> {
        let wrong = |path: &Path, message: String| ConfigError {
            file: path.display().to_string(),
            line: 0,
            message,
        };
        let node_file = &entry.node_file;
        let member = Member::of_file(node_file).map_err(|refused| {
            let message = match refused {
                Refused::Unreadable(error) => format!(
                    "this node's certificate and key cannot be read: {error}; `causeway fs node add` writes the file where the cluster's \
                     authority is, and it must be copied here"
                ),
                Refused::Distrusted(what) => format!("it is not used: {what}"),
            };
            wrong(node_file, message)
        })?;
        let revoked = read_revoked(&entry.revoked_file)?;
        let authorities = entry.authorities.clone();
        let mut membership = Membership::new(member, authorities, &revoked).map_err(|rejected| {
            let message = format!(
                "this node would be talked to by nobody: {rejected}; `causeway fs node add --renew` writes a new file where the cluster's \
                 authority is"
            );
            wrong(node_file, message)
        })?;
        for server in &self.servers {
            for address in &server.addresses {
                membership
                    .pin(address, &server.name)
                    .map_err(|error| wrong(node_file, error.to_string()))?;
            }
        }
        Ok(membership)
    }
}

/// Reads a list of revoked certificates. One that is missing is an error: a node that does not know it would talk to all of them.
pub fn read_revoked(path: &Path) -> Result<Revoked, ConfigError> {
    member::read_revoked(path).map_err(|refused| ConfigError {
        file: path.display().to_string(),
        line: 0,
        message: match refused {
            Refused::Unreadable(error) => format!(
                "the list of revoked nodes cannot be read: {error}; copy it from where the cluster's authority is"
            ),
            Refused::Distrusted(what) => format!("it is not used: {what}"),
        },
    })
}
