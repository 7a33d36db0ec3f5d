//! The content of the files that a configuration names for nodes.
//!
//! All copies of a configuration share what was read from the files, so that reading them again ([`Configuration::reload_nodes`]) affects
//! every connection that was made with one of them.

use std::path::Path;

use causeway_bmi::nodes::files::Revoked;
use causeway_bmi::nodes::{Member, Membership, Nodes, Rejected, member};
use causeway_sys::trusted_file::Refused;

use super::nodes::NodesEntry;
use super::types::{ConfigError, Configuration};

impl Configuration {
    /// This node's certificate and key, and the rules about other nodes, if nodes have to prove their identity. The first call reads the files,
    /// for all copies of this configuration.
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

    /// Reads the section `[nodes]` of `file` and the files that it names again. Connections with nodes that are not accepted any more
    /// end with their processes' next polls. If anything is wrong, everything stays as it was; so it does if `check` refuses the result, which
    /// is a fault of the node's file. The other sections of `file` are ignored: processes go on calling the addresses of this configuration.
    pub fn reload_nodes(
        &self,
        file: &Path,
        check: impl FnOnce(&Membership) -> Result<(), String>,
    ) -> Result<(), ConfigError> {
        let Some(known) = self.nodes()? else {
            let why = "it had no `[nodes]` when this process started: restart it to change that";
            return Err(wrong(file, why.to_owned()));
        };
        let Some(entry) = Self::load_alone(file)?.nodes else {
            let why = "it has no `[nodes]` any more: restart this process to do without them";
            return Err(wrong(file, why.to_owned()));
        };
        let mut membership = self.membership(&entry)?;
        check(&membership).map_err(|message| wrong(&entry.node_file, message))?;
        let kept = membership
            .keep_revoked(&known.current())
            .map_err(|rejected| refused_by_others(&entry.node_file, &rejected))?;
        if kept > 0 {
            tracing::warn!(
                "{}: the list of revoked nodes lacks {kept} that it had before: they stay revoked until this process ends; copy the list again \
                 from where the cluster's authority is",
                entry.revoked_file.display()
            );
        }
        known.replace(membership);
        if let Some(own) = &self.nodes {
            own.set_limits(entry.limits());
        }
        Ok(())
    }

    fn membership(&self, entry: &NodesEntry) -> Result<Membership, ConfigError> {
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
        let mut membership = Membership::new(member, authorities, &revoked)
            .map_err(|rejected| refused_by_others(node_file, &rejected))?;
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

/// An error about a whole file.
fn wrong(path: &Path, message: String) -> ConfigError {
    ConfigError {
        file: path.display().to_string(),
        line: 0,
        message,
    }
}

fn refused_by_others(node_file: &Path, rejected: &Rejected) -> ConfigError {
    let message = format!(
        "other nodes would refuse this one: {rejected}; `causeway fs node add --renew` writes a new file where the cluster's authority is"
    );
    wrong(node_file, message)
}

/// Reads a list of revoked certificates. A missing list is an error: without it, a node would accept all revoked certificates.
pub fn read_revoked(path: &Path) -> Result<Revoked, ConfigError> {
    member::read_revoked(path).map_err(|refused| {
        let message = match refused {
            Refused::Unreadable(error) => format!(
                "the list of revoked nodes cannot be read: {error}; copy it from where the cluster's authority is"
            ),
            Refused::Distrusted(what) => format!("it is not used: {what}"),
        };
        wrong(path, message)
    })
}

#[cfg(test)]
mod tests;
