//! Meets the I/O servers of the layout: once each, and again when an operator accepts another directory.
//!
//! An I/O server that was never met gets its number and the metadata's incarnation; then the
//! layout gets the generation of its directory. From then on every client refuses another directory under that
//! name. Nothing is done to a server that was met.

use std::collections::BTreeMap;
use std::time::Duration;

use causeway_wire::fs::{Incarnation, ServerIdentity};
use causeway_wire::store::ServerRecord;

use super::metadata::SharedService;
use super::reclaim::{Bell, Beside, Wake};
use crate::client::{Client, ClientOptions};
use crate::config::Configuration;
use crate::locks::lock;

/// First pause before servers that cannot be met are tried again; it doubles up to [`LONGEST_PAUSE`]. They
/// may be started at any time, without an event here.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long servers have to reply in one round. One that is down delays the others by as much.
const ROUND: Duration = Duration::from_millis(500);

/// Starts the thread. It meets those that were not met yet, then waits for the bell.
pub(super) fn start(
    configuration: Configuration,
    service: SharedService,
    bell: Bell,
) -> std::io::Result<Beside> {
    let work = Work {
        configuration,
        service,
        bell: bell.clone(),
        told: BTreeMap::new(),
    };
    Beside::start("register", bell, move || work.run())
}

struct Work {
    configuration: Configuration,
    service: SharedService,
    bell: Bell,
    /// What was last logged about a server that cannot be met, so that it is logged once.
    told: BTreeMap<u16, String>,
}

impl Work {
    fn run(mut self) {
        self.bell.ring();
        while self.bell.wait(None) == Wake::Rung {
            let mut pause = FIRST_PAUSE;
            let mut client = None;
            while !self.round(&mut client) {
                if !self.bell.pause(pause) {
                    return;
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }

    /// Tries to meet all that were not met. Returns whether none is left.
    fn round(&mut self, client: &mut Option<Client>) -> bool {
        let (unmet, incarnation) = {
            let service = lock(&self.service);
            (service.layout().unmet(), service.incarnation())
        };
        let mut left = 0;
        let greetings = self.greet(client, &unmet);
        for ((index, record), greeting) in unmet.into_iter().zip(greetings) {
            // The server may be ending.
            if !self.bell.pause(Duration::ZERO) {
                return true;
            }
            let met = greeting.and_then(|(server, found)| {
                self.meet(client, server, &found, index, &record, incarnation)
            });
            match met {
                // A call that the server's end has cut short is no failure.
                Err(_) if !self.bell.pause(Duration::ZERO) => return true,
                Ok(()) => {
                    tracing::info!("I/O server {} is number {index} of the layout", record.name);
                    self.told.remove(&index);
                }
                Err(reason) => {
                    left += 1;
                    if self.told.get(&index) != Some(&reason) {
                        tracing::warn!("I/O server {} was not met: {reason}", record.name);
                        self.told.insert(index, reason);
                    }
                }
            }
        }
        left == 0
    }

    /// Asks all of them for their identities: each one's place in the configuration and identity.
    fn greet(
        &self,
        client: &mut Option<Client>,
        unmet: &[(u16, ServerRecord)],
    ) -> Vec<Result<(usize, ServerIdentity), String>> {
        let place = |record: &ServerRecord| {
            let found = self.configuration.server(&record.name);
            found.map(|(server, _)| server)
        };
        let asked: Vec<usize> = unmet
            .iter()
            .filter_map(|(_, record)| place(record))
            .collect();
        let mut greetings = match self.client(client) {
            Ok(client) => client.ping_all(&asked).into_iter(),
            Err(reason) => return unmet.iter().map(|_| Err(reason.clone())).collect(),
        };
        let one = |(_, record): &(u16, ServerRecord)| {
            let missing = "this server's configuration has no entry for it";
            let server = place(record).ok_or(missing)?;
            let greeting = greetings.next().ok_or("it was not asked")?;
            let greeting = greeting.map_err(|error| error.to_string())?;
            Ok((server, greeting.identity))
        };
        unmet.iter().map(one).collect()
    }

    fn client<'a>(&self, client: &'a mut Option<Client>) -> Result<&'a mut Client, String> {
        if let Some(client) = client {
            return Ok(client);
        }
        let configuration = Configuration {
            timeout: self.configuration.timeout.min(ROUND),
            ..self.configuration.clone()
        };
        let made = Client::connect(&configuration, ClientOptions::default())
            .map_err(|error| error.to_string())?;
        self.bell.interrupts(&made);
        Ok(client.insert(made))
    }

    fn meet(
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
            .met(index, found.generation)
            .map_err(|failure| failure.message)
    }
}

/// Whether the server at the address of `record` is that one.
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
