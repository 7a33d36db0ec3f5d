//! Revokes capabilities at I/O servers when permissions change, before the client that has changed them gets its reply.
//!
//! An I/O server that does not reply delays the reply by `tell_timeout` at most. It applies the old permissions until a later attempt succeeds, or
//! all earlier capabilities have expired; a server that is down treats all of them as ended when it starts.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use causeway_sys::waits;

use super::access::kept;
use super::background::{Background, Wake};
use super::reclaim::connect;
use super::revocation::{Revocation, Revoker};
use super::thread_state::{ClientParts, Deliver, Finished, SharedService};
use super::undelivered::{Ends, Undelivered};
use crate::capability_key::Signer;
use crate::client::Client;
use crate::config::Configuration;

/// Most objects in one request.
const MOST: usize = 2048;
/// How long idle connections to I/O servers are kept. No change waits for that.
const KEEP: Duration = Duration::from_secs(10);

/// Starts the thread. It delivers the reply of each change whose revocation it has sent.
pub(super) fn start(
    (configuration, service, signer): ClientParts,
    revoker: Revoker,
    deliver: Deliver,
) -> std::io::Result<Background> {
    let wakeup = revoker.wakeup.clone();
    let undelivered = Undelivered::new(kept(configuration.access.capability_lifetime));
    let work = Work {
        configuration,
        service,
        signer,
        revoker,
        client: None,
        undelivered,
    };
    Background::start("revoker", wakeup, move || work.run(&deliver))
}

struct Work {
    configuration: Configuration,
    service: SharedService,
    signer: Signer,
    revoker: Revoker,
    client: Option<Client>,
    undelivered: Undelivered,
}

impl Work {
    fn run(mut self, deliver: &Deliver) {
        loop {
            let tidy = waits::tidy_after(KEEP).filter(|_| self.client.is_some());
            let again = self.undelivered.next(Instant::now());
            let most = [tidy, again].into_iter().flatten().min();
            match self.revoker.wakeup.wait(most) {
                Wake::Stop => return,
                Wake::TimedOut if again.is_some() => self.send(&[]),
                Wake::TimedOut => self.client = None,
                Wake::Notified => {
                    let revocations = self.revoker.take();
                    self.send(&revocations);
                    let replies = revocations.into_iter();
                    let replies = replies.map(|one| (one.ticket, Finished::Reply(one.reply, None)));
                    deliver(replies.collect());
                }
            }
        }
    }

    /// Sends these revocations, and those whose repetition is due.
    fn send(&mut self, revocations: &[Revocation]) {
        let now = Instant::now();
        let mut by_server: BTreeMap<u16, Ends> = BTreeMap::new();
        for revocation in revocations {
            for &server in &revocation.servers {
                let ended = by_server.entry(server).or_default();
                ended.push((revocation.object, revocation.version));
            }
        }
        let mut due: BTreeMap<u16, Ends> = self.undelivered.all_due(now).into_iter().collect();
        for (server, ends) in by_server {
            if let Some(all) = self.undelivered.now_due(server, ends, now) {
                due.insert(server, all);
            }
        }
        let calls: Vec<(u16, Ends)> = due
            .into_iter()
            .flat_map(|(server, ended)| {
                let parts = ended.chunks(MOST).map(<[_]>::to_vec);
                parts.map(|part| (server, part)).collect::<Vec<_>>()
            })
            .collect();
        if calls.is_empty() {
            return;
        }
        let results = match self.client() {
            Ok(client) => client.end_capabilities(&calls),
            Err(why) => calls.iter().map(|_| Err(why.clone())).collect(),
        };
        let (now, mut failed) = (Instant::now(), BTreeMap::new());
        for ((server, ended), result) in calls.iter().zip(results) {
            if let Err(why) = result {
                let (_, ends): &mut (String, Ends) =
                    failed.entry(*server).or_insert_with(|| (why, Ends::new()));
                ends.extend(ended);
            }
        }
        for server in calls.iter().map(|(server, _)| server) {
            if !failed.contains_key(server) && self.undelivered.done(*server) {
                tracing::info!("I/O server number {server} knows of changed permissions now");
            }
        }
        for (server, (why, ends)) in failed {
            tracing::warn!(
                why,
                "I/O server number {server} has not confirmed changed permissions: it goes by the old ones until it has, \
                 which is tried again, or until capabilities expire, {:?} from now at the latest",
                kept(self.configuration.access.capability_lifetime)
            );
            self.undelivered.failed(server, ends, now);
            // The layout may have changed.
            self.client = None;
        }
    }

    fn client(&mut self) -> Result<&mut Client, String> {
        let client = match self.client.take() {
            Some(client) => client,
            None => {
                let round = self.configuration.access.tell_timeout;
                let client = connect(&self.configuration, &self.service, &self.signer, round)?;
                self.revoker.wakeup.interrupts(&client);
                client
            }
        };
        Ok(self.client.insert(client))
    }
}
