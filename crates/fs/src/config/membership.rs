//! The content of the files that a configuration names for nodes.
//!
//! All copies of a configuration share what was read from the files, so that reading them again ([`Configuration::reload_nodes`]) affects
//! every connection that was made with one of them.

use std::path::{Path, PathBuf};
use std::sync::{PoisonError, TryLockError};

use causeway_bmi::nodes::files::Revoked;
use causeway_bmi::nodes::{Member, Membership, Nodes, Rejected, member};
use causeway_sys::trusted_file::Refused;

use super::changed::{Read, Stamp, Watched};
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

    /// Reads the section `[nodes]` of `file` and the files that it names again. Connections with nodes that are not accepted any more end with
    /// their processes' next polls. If anything is wrong, the former content stays in use, also if `check` refuses the result, which means
    /// that the node's file is wrong. The other sections of `file` are ignored: processes continue to use the addresses of this configuration.
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

    /// Reads the files about nodes, and has [`Configuration::read_changed_nodes`] notice their changes. This configuration was read from `file`, which
    /// had this stamp before.
    pub(super) fn watch_nodes(
        &self,
        file: PathBuf,
        stamp: Option<Stamp>,
    ) -> Result<(), ConfigError> {
        let Some(entry) = &self.nodes else {
            return Ok(());
        };
        let read = self.with_named(&file, stamp);
        self.nodes()?;
        entry.watch(Watched {
            file,
            read,
            complaint: None,
        });
        Ok(())
    }

    /// Reads the files about nodes again if they may have changed since they were last read, as [`Configuration::reload_nodes`] does. An
    /// error is logged, and the files are read again with the next call.
    ///
    /// Nothing happens for a configuration that was not loaded from a file, and while another thread does this.
    pub(crate) fn read_changed_nodes(&self) {
        let Some(entry) = &self.nodes else {
            return;
        };
        // No thread waits here: after a fork, the one that has the lock may not exist.
        let mut watched = match entry.watched.try_lock() {
            Ok(watched) => watched,
            Err(TryLockError::Poisoned(watched)) => PoisonError::into_inner(watched),
            Err(TryLockError::WouldBlock) => return,
        };
        let Some(watched) = watched.as_mut().filter(|watched| watched.have_changed()) else {
            return;
        };
        let stamp = Stamp::of(&watched.file);
        let read = Self::load_alone(&watched.file).and_then(|now| {
            let read = now.with_named(&watched.file, stamp);
            self.reload_nodes(&watched.file, |_| Ok(())).map(|()| read)
        });
        match read {
            Ok(read) => {
                let file = watched.file.display();
                tracing::debug!(%file, "the files about nodes were read again");
                (watched.read, watched.complaint) = (read, None);
            }
            Err(error) => {
                let complaint = Some(error.to_string());
                if watched.complaint != complaint {
                    tracing::error!(%error, "the files about nodes have changed, and cannot be used: nothing is changed");
                }
                watched.complaint = complaint;
            }
        }
    }

    /// `file`, with its stamp, and the files that this configuration names for nodes, with theirs.
    fn with_named(&self, file: &Path, stamp: Option<Stamp>) -> Read {
        let named = self.nodes.iter();
        let named = named.flat_map(|entry| [&entry.node_file, &entry.revoked_file]);
        let named = named.map(|path| (path.clone(), Stamp::of(path)));
        let first = std::iter::once((file.to_owned(), stamp));
        first.chain(named).collect()
    }

    fn membership(&self, entry: &NodesEntry) -> Result<Membership, ConfigError> {
        let node_file = &entry.node_file;
        let member = Member::of_file(node_file).map_err(|refused| {
            let message = match &refused {
                Refused::Unreadable(error) => format!(
                    "this node's certificate and key cannot be read: {error}; `causeway fs node add` writes the file where the cluster's \
                     authority is, and it must be copied here"
                ),
                Refused::Distrusted(what) => format!("it is not used: {what}"),
            };
            ConfigError::refused(node_file, 0, &refused, message)
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
        errno: None,
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
        let message = match &refused {
            Refused::Unreadable(error) => format!(
                "the list of revoked nodes cannot be read: {error}; copy it from where the cluster's authority is"
            ),
            Refused::Distrusted(what) => format!("it is not used: {what}"),
        };
        ConfigError::refused(path, 0, &refused, message)
    })
}

#[cfg(test)]
mod tests;
