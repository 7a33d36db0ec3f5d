//! Removes the datafiles of removed files, at leisure.
//!
//! What is to be removed is recorded with the change that removed the last name, so nothing is
//! forgotten when a server dies: the record goes only when all I/O servers have confirmed, each of which is taken out of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use causeway_sys::waits;
use causeway_wire::fs::ObjectId;

use super::metadata::SharedService;
use crate::client::{Client, ClientOptions, Interrupter, Layout};
use crate::config::Configuration;
use crate::locks::{lock, wait_timeout_while};
use crate::meta::Removal;

/// Removals done at once.
const BATCH: usize = 512;
/// Pause in front of a batch, so that removals gather: a client that removes a tree is to find the servers free for
/// it. Only the server's end cuts it short.
const GATHER: Duration = Duration::from_millis(50);
/// Pause after a server could not be reached: there is no event when it can be.
const RETRY_PAUSE: Duration = Duration::from_secs(5);
/// How long the connections to I/O servers are kept without work. No removal waits for that.
const KEEP: Duration = Duration::from_secs(10);

/// Wakes a thread that works beside the loop.
#[derive(Clone, Default)]
pub(super) struct Wakeup(Arc<(Mutex<WakeupState>, Condvar)>);

#[derive(Default)]
struct WakeupState {
    notified: bool,
    stopping: bool,
    /// The thread's client, which may be waiting for a server that is down when the thread is to end.
    client: Option<Interrupter>,
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wake {
    Notified,
    TimedOut,
    Stop,
}

impl Wakeup {
    /// There may be work.
    pub(super) fn notify(&self) {
        self.set(|state| state.notified = true);
    }

    fn stop(&self) {
        self.set(|state| {
            state.stopping = true;
            state.client.iter().for_each(Interrupter::interrupt);
        });
    }

    /// Registers a client whose calls a stop ends.
    pub(super) fn interrupts(&self, client: &Client) {
        self.set(|state| {
            let interrupter = client.interrupter();
            if state.stopping {
                interrupter.interrupt();
            }
            state.client = Some(interrupter);
        });
    }

    fn set(&self, change: impl FnOnce(&mut WakeupState)) {
        change(&mut lock(&self.0.0));
        self.0.1.notify_all();
    }

    /// Waits for a notification, but not longer than this.
    pub(super) fn wait(&self, most: Option<Duration>) -> Wake {
        let (mut state, is_time_up) =
            wait_timeout_while(&self.0.1, lock(&self.0.0), most, |state| {
                !state.notified && !state.stopping
            });
        match state.stopping {
            true => Wake::Stop,
            false if is_time_up => Wake::TimedOut,
            false => {
                state.notified = false;
                Wake::Notified
            }
        }
    }

    /// Pauses; `false` if it is time to stop.
    pub(super) fn pause(&self, pause: Duration) -> bool {
        let (state, _) = wait_timeout_while(&self.0.1, lock(&self.0.0), Some(pause), |state| {
            !state.stopping
        });
        !state.stopping
    }
}

/// A thread that works beside the loop whenever it is notified, and ends with this.
pub(super) struct Background {
    wakeup: Wakeup,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts a thread of this name. `work` must return once [`Wakeup`] says stop.
    pub(super) fn start(
        name: &str,
        wakeup: Wakeup,
        work: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Self> {
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(work)?;
        Ok(Self {
            wakeup,
            thread: Some(thread),
        })
    }
}

/// Starts the reclaimer. It checks for work that an earlier process left, then waits to be notified.
pub(super) fn start(
    configuration: Configuration,
    service: SharedService,
    wakeup: Wakeup,
) -> std::io::Result<Background> {
    let work = Work {
        configuration,
        service,
        wakeup: wakeup.clone(),
        client: None,
        pass: Pass::default(),
    };
    Background::start("reclaim", wakeup, move || work.run())
}

impl Drop for Background {
    fn drop(&mut self) {
        self.wakeup.stop();
        if let Some(thread) = self.thread.take() {
            // It only fails by a panic, which was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// How long an I/O server may take for one batch.
const REPLY_TIMEOUT: Duration = Duration::from_secs(3);

struct Work {
    configuration: Configuration,
    service: SharedService,
    wakeup: Wakeup,
    client: Option<Client>,
    pass: Pass,
}

/// One walk over all that is to be removed. A server that cannot be reached is left out until the next walk: the
/// others go on.
#[derive(Default)]
struct Pass {
    /// The last record that was handled.
    after: Option<ObjectId>,
    /// Servers that have failed, and why.
    failed: BTreeMap<u16, String>,
}

impl Work {
    fn run(mut self) {
        self.wakeup.notify();
        loop {
            let most = waits::tidy_after(KEEP).filter(|_| self.client.is_some());
            match self.wakeup.wait(most) {
                Wake::Stop => return,
                Wake::TimedOut => {
                    self.client = None;
                    continue;
                }
                Wake::Notified => {}
            }
            if !self.wakeup.pause(GATHER) {
                return;
            }
            match self.batch() {
                Ok(false) => {}
                Ok(true) => self.wakeup.notify(),
                // A call that the server's end has cut short is no failure.
                Err(_) if !self.wakeup.pause(Duration::ZERO) => return,
                Err(reason) => {
                    tracing::warn!(reason, "datafiles of removed files stay for now");
                    if !self.wakeup.pause(RETRY_PAUSE) {
                        return;
                    }
                    self.wakeup.notify();
                }
            }
        }
    }

    /// Goes on with the pass by one batch. Returns whether more is left; fails at the end of a
    /// pass that has left something.
    fn batch(&mut self) -> Result<bool, String> {
        let removals = lock(&self.service)
            .removals(self.pass.after, BATCH)
            .map_err(|failure| failure.message)?;
        let Some(last) = removals.last() else {
            let pass = std::mem::take(&mut self.pass);
            return match pass.failed.into_values().next() {
                Some(reason) => Err(reason),
                // Files may have been removed meanwhile that the pass was behind already.
                None => Ok(pass.after.is_some()),
            };
        };
        self.pass.after = Some(last.object);
        let mut by_server: BTreeMap<u16, Vec<ObjectId>> = BTreeMap::new();
        for removal in &removals {
            for &server in &removal.servers {
                by_server.entry(server).or_default().push(removal.object);
            }
        }
        for (server, objects) in by_server {
            if self.pass.failed.contains_key(&server) {
                continue;
            }
            if !self.wakeup.pause(Duration::ZERO) {
                // The server ends; what is left is done after its next start.
                return Ok(false);
            }
            if let Err(reason) = self.remove(server, objects) {
                self.pass.failed.insert(server, reason);
            }
        }
        let gone: Vec<Removal> = removals
            .into_iter()
            .map(|mut removal| {
                let failed = &self.pass.failed;
                removal
                    .servers
                    .retain(|server| !failed.contains_key(server));
                removal
            })
            .collect();
        lock(&self.service)
            .removed(&gone)
            .map_err(|failure| failure.message)?;
        Ok(true)
    }

    fn remove(&mut self, server: u16, objects: Vec<ObjectId>) -> Result<(), String> {
        let client = match &mut self.client {
            Some(client) => client,
            None => {
                let client = connect(&self.configuration, &self.service)?;
                self.wakeup.interrupts(&client);
                self.client.insert(client)
            }
        };
        client
            .server_of(server)
            .and_then(|index| client.remove_datafiles(index, objects))
            .map_err(|error| error.to_string())
    }
}

/// A client that goes by the metadata's own layout: the metadata server may be ending, and would not send it.
fn connect(configuration: &Configuration, service: &SharedService) -> Result<Client, String> {
    let (target, layout) = {
        let service = lock(service);
        (service.target(), service.layout())
    };
    let mut client = Client::connect(&with_short_timeout(configuration), ClientOptions::default())
        .map_err(|error| error.to_string())?;
    let layout = Layout {
        file_system: target.file_system,
        incarnation: target.incarnation,
        epoch: layout.epoch,
        servers: layout.for_clients().collect(),
    };
    client.trust_layout(target, layout);
    Ok(client)
}

/// The same file system, with a short timeout: what fails is tried again later anyway, and the
/// server's end must not wait long for I/O servers that are down.
fn with_short_timeout(configuration: &Configuration) -> Configuration {
    Configuration {
        timeout: configuration.timeout.min(REPLY_TIMEOUT),
        ..configuration.clone()
    }
}
