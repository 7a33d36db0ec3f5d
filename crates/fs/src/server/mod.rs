//! The server process: metadata, datafiles, or both, behind one message layer.
//!
//! One thread runs the loop (`events`): it takes requests, answers what can be answered at once, and
//! moves data (`io`, over `regions` and `staging`). What would block it goes elsewhere: changes of a
//! synced file system to the commit thread (`metadata`), storage that waits for a device to the
//! datafile store's pool, removals of datafiles to the reclaimer (`reclaim`). At most
//! [`MAX_REQUESTS`] requests are in progress; the rest waits in the message layer, which makes the
//! clients wait.
//!
//! [`Server`] is the thing to use inside a program; [`serve`] is all of a server process.

mod callers;
mod events;
mod home;
mod io;
mod metadata;
mod process;
mod reclaim;
mod recover;
mod regions;
mod staging;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use causeway_bmi::{Bmi, Config, InfoOption, Waker};
use causeway_wire::fs::MAX_MESSAGE_BYTES;

use crate::config::{Configuration, Durability};
use crate::data::Store;

pub use process::{PARENT_PIPE, serve};
pub use recover::accept_loss;

/// Most requests in progress.
pub const MAX_REQUESTS: usize = 256;

/// Why a server does not start, or ended: a sentence that says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("server {server}: {message}")]
pub struct ServerError {
    /// The server's name.
    pub server: String,
    /// What is wrong.
    pub message: String,
}

/// Names a request in progress. Never used again for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Ticket {
    slot: u16,
    generation: u32,
}

/// A server that has started: it holds its directory and listens, but answers only in
/// [`Server::run`].
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
    /// Takes the server's directory and starts to listen.
    pub fn start(configuration: &Configuration, name: &str) -> Result<Self, ServerError> {
        let fail = |message: String| ServerError {
            server: name.to_owned(),
            message,
        };
        let (_, entry) = configuration.server(name).ok_or_else(|| {
            let names: Vec<&str> = configuration
                .servers
                .iter()
                .map(|server| server.name.as_str())
                .collect();
            fail(format!(
                "the configuration has no such server; it has {}",
                names.join(", ")
            ))
        })?;
        let home = home::Home::open(&entry.directory, configuration.id, name).map_err(&fail)?;
        raise_descriptor_limit();
        let store = match entry.io {
            true => {
                let synced = configuration.durability == Durability::Synced;
                let store = Store::open(&home.data(), synced)
                    .map_err(|error| fail(format!("the datafiles cannot be opened: {error}")))?;
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

    /// Tells clients this identity of the host's boot instead of the kernel's: for hosts where that does not
    /// say whether memory was lost, and for tests. Clients take another one for a loss of power.
    pub fn set_boot_identity(&mut self, boot: u128) {
        self.events.boot = boot;
    }

    /// Stops this server from another thread or a signal.
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// The addresses that it listens at.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Serves until it is stopped. Then everything acknowledged is durable, and the sockets are gone.
    pub fn run(self) -> Result<(), ServerError> {
        let name = self.name;
        self.events.run().map_err(|message| ServerError {
            server: name,
            message,
        })
    }
}

/// Many clients need many descriptors: takes as many as the system gives without asking anybody.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
}
