//! Registers the I/O servers of the layout: once each, and again when an operator accepts another directory.
//!
//! A new I/O server gets its number and the metadata's incarnation; then the
//! layout gets the generation of its directory. From then on every client refuses another directory under that
//! name. A registered server is left alone.

use std::collections::BTreeMap;
use std::time::Duration;

use causeway_wire::fs::{Incarnation, ServerIdentity};
use causeway_wire::store::ServerRecord;

use super::background::{Background, Wake, Wakeup};
use super::thread_state::{ClientParts, SharedService};
use crate::backoff::Backoff;
use crate::capability_key::Signer;
use crate::client::{Client, ClientOptions};
use crate::config::Configuration;
use crate::locks::lock;

/// Pauses before another attempt to register servers. They may be started at any time, without an event
/// here.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long servers have to reply in one round. A server that is down delays the others by as much.
const ROUND: Duration = Duration::from_millis(500);

/// Starts the thread. It registers new servers, then waits to be notified.
pub(super) fn start(
    (configuration, service, signer): ClientParts,
    wakeup: Wakeup,
) -> std::io::Result<Background> {
    let work = Registrar {
        configuration,
        service,
        signer,
        wakeup: wakeup.clone(),
        logged: BTreeMap::new(),
    };
    Background::start("register", wakeup, move || work.run())
}

struct Registrar {
    configuration: Configuration,
    service: SharedService,
    signer: Signer,
    wakeup: Wakeup,
    /// The last log line about each server that cannot be registered, so that none is repeated.
    logged: BTreeMap<u16, String>,
}

impl Registrar {
    fn run(mut self) {
        self.wakeup.notify();
        while self.wakeup.wait(None) == Wake::Notified {
            let mut pauses = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
            let mut client = None;
            while !self.round(&mut client) {
                if !self.wakeup.pause(pauses.next()) {
                    return;
                }
            }
        }
    }

    /// Tries to register all new servers. Returns whether none is left.
    fn round(&mut self, client: &mut Option<Client>) -> bool {
        let (unregistered, incarnation) = {
            let service = lock(&self.service);
            (service.layout().unregistered(), service.incarnation())
        };
        let mut left = 0;
        let greetings = self.greet(client, &unregistered);
        for ((index, record), greeting) in unregistered.into_iter().zip(greetings) {
            // The metadata server may be ending.
            if !self.wakeup.pause(Duration::ZERO) {
                return true;
            }
            let registered = greeting.and_then(|(server, found)| {
                self.register(client, server, &found, index, &record, incarnation)
            });
            match registered {
                // A call that was cut short because the server ends is no failure.
                Err(_) if !self.wakeup.pause(Duration::ZERO) => return true,
                Ok(()) => {
                    tracing::info!("I/O server {} is number {index} of the layout", record.name);
                    self.logged.remove(&index);
                }
                Err(reason) => {
                    left += 1;
                    if self.logged.get(&index) != Some(&reason) {
                        tracing::warn!("I/O server {} was not registered: {reason}", record.name);
                        self.logged.insert(index, reason);
                    }
                }
            }
        }
        left == 0
    }

    /// Requests the identities of all of them. Returns each server's place in the configuration and its identity.
    fn greet(
        &self,
        client: &mut Option<Client>,
        unregistered: &[(u16, ServerRecord)],
    ) -> Vec<Result<(usize, ServerIdentity), String>> {
        let place = |record: &ServerRecord| {
            let found = self.configuration.server(&record.name);
            found.map(|(server, _)| server)
        };
        let asked: Vec<usize> = unregistered
            .iter()
            .filter_map(|(_, record)| place(record))
            .collect();
        let mut greetings = match self.client(client) {
            Ok(client) => client.ping_all(&asked).into_iter(),
            Err(reason) => return unregistered.iter().map(|_| Err(reason.clone())).collect(),
        };
        let one = |(_, record): &(u16, ServerRecord)| {
            let missing = "this server's configuration has no entry for it";
            let server = place(record).ok_or(missing)?;
            let greeting = greetings.next().ok_or("it was not asked")?;
            let greeting = greeting.map_err(|error| error.to_string())?;
            Ok((server, greeting.identity))
        };
        unregistered.iter().map(one).collect()
    }

    fn client<'a>(&self, client: &'a mut Option<Client>) -> Result<&'a mut Client, String> {
        if let Some(client) = client {
            return Ok(client);
        }
        let configuration = Configuration {
            timeout: self.configuration.timeout.min(ROUND),
            ..self.configuration.clone()
        };
        let mut made = Client::connect(&configuration, ClientOptions::default())
            .map_err(|error| error.to_string())?;
        made.act_as_server(self.signer.clone());
        self.wakeup.interrupts(&made);
        Ok(client.insert(made))
    }

    fn register(
        &self,
        client: &mut Option<Client>,
        server: usize,
        found: &ServerIdentity,
        index: u16,
        record: &ServerRecord,
        incarnation: Incarnation,
    ) -> Result<(), String> {
        check(found, record, self.configuration.id)?;
        let replace = !record.accepted.is_none();
        self.client(client)?
            .enroll(server, found, index, incarnation, replace)
            .map_err(|error| error.to_string())?;
        lock(&self.service)
            .register(index, found.generation)
            .map_err(|failure| failure.message)
    }
}

/// Whether the server that replied at the address of `record` is the one of the record.
fn check(found: &ServerIdentity, record: &ServerRecord, file_system: u128) -> Result<(), String> {
    if found.file_system != file_system {
        return Err(format!(
            "at its address is server {} of file system {:032x}, and this is {file_system:032x}",
            found.name, found.file_system
        ));
    }
    if found.name != record.name {
        return Err(format!("at its address is server {}", found.name));
    }
    if !found.io {
        return Err("it keeps no datafiles".to_owned());
    }
    if !record.accepted.is_none() && record.accepted != found.generation {
        return Err(format!(
            "its directory has generation {}, and {} was accepted",
            found.generation, record.accepted
        ));
    }
    Ok(())
}
