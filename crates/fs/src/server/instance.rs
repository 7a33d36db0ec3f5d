//! A server inside a program.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use causeway_bmi::{Bmi, Config, InfoOption};
use causeway_wire::fs::{MAX_MESSAGE_BYTES, ObjectId};

use super::error::{ServerError, entry_of};
use super::events::Loop;
use super::home::{Home, Wanted};
use super::nodes::{self, ReloadHandle};
use super::stop::StopHandle;
use crate::config::{Configuration, Durability};
use crate::data::{Owner, Settings, Store};

/// A server that has started: it has locked its directory and listens, but serves requests only in [`Server::run`].
pub struct Server {
    events: Loop,
    stop: StopHandle,
    addresses: Vec<String>,
    name: String,
    configuration: Configuration,
}

impl Server {
    /// Locks the server's directory, which must have been formatted by [`format()`](fn@super::format), and starts to
    /// listen.
    pub fn start(configuration: &Configuration, name: &str) -> Result<Self, ServerError> {
        let fail = ServerError::of(name);
        let entry = entry_of(configuration, name)?;
        let nodes = configuration
            .nodes()
            .map_err(|error| fail(error.to_string()))?;
        if let Some(nodes) = &nodes {
            nodes::check_own(&nodes.current(), name).map_err(&fail)?;
        }
        let wanted = Wanted {
            file_system: configuration.id,
            entry,
        };
        let home = Home::open(&wanted).map_err(&fail)?;
        let store = match entry.io {
            true => {
                let settings = Settings {
                    owner: Owner {
                        file_system: configuration.id,
                        generation: home.identity().generation,
                    },
                    synced: configuration.durability == Durability::Synced,
                    checksums: configuration.checksums,
                    boot: crate::boot::identity(),
                };
                let unusable =
                    |error: std::io::Error| format!("the datafiles cannot be opened: {error}");
                let store =
                    Store::open(&home.data(), settings).map_err(|error| fail(unusable(error)))?;
                if home.enrolled().is_none() && !entry.metadata {
                    warn_if_used(&store, name).map_err(|error| fail(unusable(error)))?;
                }
                Some(Arc::new(store))
            }
            false => None,
        };
        let key = configuration
            .key()
            .map_err(|error| fail(error.to_string()))?;
        let mut bmi = Bmi::new(Config {
            listen: entry.addresses.clone(),
            key,
            nodes,
            encrypt: configuration.encrypt,
            tcp_connections: configuration.tcp_connections,
            unexpected_limit: MAX_MESSAGE_BYTES,
            connect_timeout: configuration.timeout.min(Duration::from_secs(5)),
            ..Config::default()
        })
        .map_err(|error| fail(format!("it cannot listen: {error}")))?;
        bmi.set_info(None, InfoOption::Server(true))
            .map_err(|error| fail(error.to_string()))?;
        let stop = StopHandle::new(bmi.waker());
        let addresses = bmi.listening();
        let events =
            Loop::new(configuration, entry, home, store, bmi, stop.clone()).map_err(&fail)?;
        Ok(Self {
            events,
            stop,
            addresses,
            name: name.to_owned(),
            configuration: configuration.clone(),
        })
    }

    /// Has the server send clients this identity of the host's boot instead of the kernel's: for hosts whose kernel does not show
    /// whether memory was lost, and for tests. Clients treat a change of it as a loss of power.
    pub fn set_boot_identity(&mut self, boot: u128) -> std::io::Result<()> {
        self.events.boot = boot;
        match &self.events.store {
            Some(store) => store.set_boot(boot),
            None => Ok(()),
        }
    }

    /// A handle by which this server reads the certificates, revocations and rules of nodes again; `file` is its configuration.
    /// `None` if nodes do not have to prove their identity.
    pub fn reload_handle(&self, file: &Path) -> Option<ReloadHandle> {
        let waker = self.events.bmi.waker();
        ReloadHandle::new(&self.configuration, &self.name, file, waker)
    }

    /// Stops this server from another thread or a signal.
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// The addresses at which it listens.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Serves until it is stopped. Before it returns, all acknowledged changes are durable and the sockets are removed.
    pub fn run(self) -> Result<(), ServerError> {
        self.events.run().map_err(ServerError::of(&self.name))
    }
}

/// Logs a warning if a directory that is not enrolled with any metadata contains datafiles.
fn warn_if_used(store: &Store, name: &str) -> std::io::Result<()> {
    let (datafiles, _) = store.list(ObjectId(0), 1)?;
    if !datafiles.is_empty() {
        tracing::warn!(
            "server {name}: its directory holds datafiles, but its file `enrolled` is missing: clients do not use it \
             until that is restored, or the directory is taken as it is with `causeway fs servers accept {name}`"
        );
    }
    Ok(())
}
