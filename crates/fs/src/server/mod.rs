//! The server process: metadata, datafiles, or both, behind one message layer.
//!
//! One thread runs the loop (`events`): it takes requests, replies to those that need no waiting, and moves data
//! (`io`, over `lists`, `piece_io`, `regions` and `staging`; `data` has the short requests about datafiles). What would
//! block it goes to other threads (`background`): changes of a synced file system to the commit thread (`metadata`), storage that waits
//! for a device to the datafile store's pool, removals of datafiles to the reclaimer (`reclaim`). A server serves only
//! from the directory that was formatted for it (`home`, `format`), and only requests that are meant for it
//! (`identity`); the metadata server registers each I/O server once (`register`). At most [`MAX_REQUESTS`] requests are
//! in progress; the rest wait in the message layer, which makes the clients wait.
//!
//! [`Server`] runs one inside a program; [`serve`] is all of a server process.

mod background;
mod callers;
mod data;
mod events;
mod format;
mod home;
mod identity;
mod io;
mod lists;
mod metadata;
mod piece_io;
mod process;
mod reclaim;
mod recover;
mod regions;
mod register;
mod scans;
mod staging;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use causeway_bmi::{Bmi, Config, InfoOption, Waker};
use causeway_wire::fs::{MAX_MESSAGE_BYTES, ObjectId};

use crate::config::{Configuration, Durability, ServerEntry};
use crate::data::{Owner, Settings, Store};

pub use format::{format, is_formatted};
pub use process::{PARENT_PIPE, serve};
pub use recover::accept_loss;

/// Most requests in progress.
pub const MAX_REQUESTS: usize = 256;

/// Why a server does not start, or has ended: a sentence with what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("server {server}: {message}")]
pub struct ServerError {
    /// The server's name.
    pub server: String,
    /// What is wrong.
    pub message: String,
}

impl ServerError {
    /// Makes errors of the server of this name.
    fn of(name: &str) -> impl Fn(String) -> Self {
        |message| Self {
            server: name.to_owned(),
            message,
        }
    }
}

/// Names a request in progress. Never used again for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Ticket {
    slot: u16,
    generation: u32,
}

/// A server that has started: it holds its directory and listens, but serves requests only in [`Server::run`].
pub struct Server {
    events: events::Loop,
    stop: StopHandle,
    addresses: Vec<String>,
    name: String,
}

/// Stops a running server from elsewhere.
#[derive(Debug, Clone)]
pub struct StopHandle {
    stopping: Arc<AtomicBool>,
    waker: Waker,
}

impl StopHandle {
    /// Asks the server to finish what is in progress, make it durable, and end.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.waker.wake();
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

impl Server {
    /// Takes the server's directory, which must have been formatted by [`format()`], and starts to listen.
    pub fn start(configuration: &Configuration, name: &str) -> Result<Self, ServerError> {
        let fail = ServerError::of(name);
        let entry = entry_of(configuration, name)?;
        let wanted = home::Wanted {
            file_system: configuration.id,
            entry,
        };
        let home = home::Home::open(&wanted).map_err(&fail)?;
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
            encrypt: configuration.encrypt,
            tcp_connections: configuration.tcp_connections,
            unexpected_limit: MAX_MESSAGE_BYTES,
            connect_timeout: configuration.timeout.min(Duration::from_secs(5)),
            ..Config::default()
        })
        .map_err(|error| fail(format!("it cannot listen: {error}")))?;
        bmi.set_info(None, InfoOption::Server(true))
            .map_err(|error| fail(error.to_string()))?;
        let stop = StopHandle {
            stopping: Arc::default(),
            waker: bmi.waker(),
        };
        let addresses = bmi.listening();
        let events = events::Loop::new(configuration, entry, home, store, bmi, stop.clone())
            .map_err(&fail)?;
        Ok(Self {
            events,
            stop,
            addresses,
            name: name.to_owned(),
        })
    }

    /// Sends clients this identity of the host's boot instead of the kernel's: for hosts where that does not show
    /// whether memory was lost, and for tests. To clients, another one means a loss of power.
    pub fn set_boot_identity(&mut self, boot: u128) -> std::io::Result<()> {
        self.events.boot = boot;
        match &self.events.store {
            Some(store) => store.set_boot(boot),
            None => Ok(()),
        }
    }

    /// Stops this server from another thread or a signal.
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// The addresses that it listens at.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Serves until it is stopped. Then everything acknowledged is durable, and the sockets are removed.
    pub fn run(self) -> Result<(), ServerError> {
        self.events.run().map_err(ServerError::of(&self.name))
    }
}

/// Logs a warning if a directory that no metadata have enrolled has datafiles.
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

/// The configuration's entry of a server.
fn entry_of<'a>(
    configuration: &'a Configuration,
    name: &str,
) -> Result<&'a ServerEntry, ServerError> {
    let Some((_, entry)) = configuration.server(name) else {
        let names = configuration.servers.iter();
        let names: Vec<&str> = names.map(|server| server.name.as_str()).collect();
        let message = format!(
            "the configuration has no such server; it has {}",
            names.join(", ")
        );
        return Err(ServerError::of(name)(message));
    };
    Ok(entry)
}
