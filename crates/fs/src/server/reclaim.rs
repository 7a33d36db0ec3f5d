//! Removes the datafiles of removed files in the background.
//!
//! A removal is recorded together with the change that removed the last name, so nothing is
//! forgotten when a server dies: the record is deleted only when all I/O servers have confirmed; each server that has is taken out of it.

use std::collections::BTreeMap;
use std::time::Duration;

use causeway_sys::waits;
use causeway_wire::fs::ObjectId;

use super::background::{Background, Wake, Wakeup};
use super::thread_state::{ClientParts, SharedService};
use crate::capability_key::Signer;
use crate::client::{Client, ClientOptions, Layout};
use crate::config::Configuration;
use crate::locks::lock;
use crate::meta::Removal;

/// Removals in one batch.
const BATCH: usize = 512;
/// Pause before a batch, so that removals gather and do not compete with a client that removes a tree. Only the server's end cuts it short.
const GATHER: Duration = Duration::from_millis(50);
/// Pause after a server could not be reached: no event shows when it can be.
const RETRY_PAUSE: Duration = Duration::from_secs(5);
/// How long idle connections to I/O servers are kept. No removal waits for that.
const KEEP: Duration = Duration::from_secs(10);

/// Starts the reclaimer. It checks for work that an earlier process left, then waits to be notified.
pub(super) fn start(
    (configuration, service, signer): ClientParts,
    wakeup: Wakeup,
) -> std::io::Result<Background> {
    let work = Reclaimer {
        configuration,
        service,
        signer,
        wakeup: wakeup.clone(),
        client: None,
        pass: Pass::default(),
    };
    Background::start("reclaim", wakeup, move || work.run())
}

/// How long an I/O server may take for one batch.
const REPLY_TIMEOUT: Duration = Duration::from_secs(3);

struct Reclaimer {
    configuration: Configuration,
    service: SharedService,
    signer: Signer,
    wakeup: Wakeup,
    client: Option<Client>,
    pass: Pass,
}

/// One walk over all recorded removals. A server that cannot be reached is skipped until the next walk: the
/// others go on.
#[derive(Default)]
struct Pass {
    /// The last record that was processed.
    after: Option<ObjectId>,
    /// Servers that have failed, with the reason.
    failed: BTreeMap<u16, String>,
}

impl Reclaimer {
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
                // A call that was cut short because the server ends is no failure.
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

    /// Processes one batch of the pass. Returns whether more are left; fails at the end of a
    /// pass that had to leave records.
    fn batch(&mut self) -> Result<bool, String> {
        let removals = lock(&self.service)
            .removals(self.pass.after, BATCH)
            .map_err(|failure| failure.message)?;
        let Some(last) = removals.last() else {
            let pass = std::mem::take(&mut self.pass);
            return match pass.failed.into_values().next() {
                Some(reason) => Err(reason),
                // Meanwhile files may have been removed whose records lie behind the pass.
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
                // The server ends; its next start continues with the rest.
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
                let client = connect(
                    &self.configuration,
                    &self.service,
                    &self.signer,
                    REPLY_TIMEOUT,
                )?;
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

/// Connects a client that the metadata server itself uses. The client goes by the metadata's own layout: the metadata server may be
/// ending, and would not send it. Its timeout is short because its work is repeated later anyway: the server's end must not wait long
/// for I/O servers that are down.
pub(super) fn connect(
    configuration: &Configuration,
    service: &SharedService,
    signer: &Signer,
    timeout: Duration,
) -> Result<Client, String> {
    let (target, layout) = {
        let service = lock(service);
        (service.target(), service.layout())
    };
    let configuration = Configuration {
        timeout: configuration.timeout.min(timeout),
        ..configuration.clone()
    };
    let mut client = Client::connect(&configuration, ClientOptions::default())
        .map_err(|error| error.to_string())?;
    client.act_as_server(signer.clone());
    let layout = Layout {
        file_system: target.file_system,
        incarnation: target.incarnation,
        epoch: layout.epoch,
        servers: layout.for_clients().collect(),
    };
    client.trust_layout(target, layout);
    Ok(client)
}
