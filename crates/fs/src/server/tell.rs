//! Tells I/O servers that permissions have changed, before the client that has changed them gets its reply.
//!
//! A server that cannot be told delays the reply by half a second at most. It goes by the old permissions until it is told later, or
//! all capabilities of before have expired; one that is down has forgotten all of them when it starts.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use causeway_sys::waits;

use super::access::kept;
use super::background::{Background, Wake};
use super::beside::{Deliver, Ours, SharedService};
use super::news::{News, Teller};
use super::reclaim::connect;
use super::untold::{Ends, Untold};
use crate::capability_key::CapabilityKey;
use crate::client::Client;
use crate::config::Configuration;

/// Objects in one request.
const MOST: usize = 2048;
/// How long the connections to I/O servers are kept without work. No change waits for that.
const KEEP: Duration = Duration::from_secs(10);

/// Starts the thread. It delivers the reply of what it has told.
pub(super) fn start(
    (configuration, service, key): Ours,
    teller: Teller,
    deliver: Deliver,
) -> std::io::Result<Background> {
    let wakeup = teller.wakeup.clone();
    let untold = Untold::new(kept(configuration.access.capability_lifetime));
    let work = Work {
        configuration,
        service,
        key,
        teller,
        client: None,
        untold,
    };
    Background::start("tell", wakeup, move || work.run(&deliver))
}

struct Work {
    configuration: Configuration,
    service: SharedService,
    key: CapabilityKey,
    teller: Teller,
    client: Option<Client>,
    untold: Untold,
}

impl Work {
    fn run(mut self, deliver: &Deliver) {
        loop {
            let tidy = waits::tidy_after(KEEP).filter(|_| self.client.is_some());
            let again = self.untold.next(Instant::now());
            let most = [tidy, again].into_iter().flatten().min();
            match self.teller.wakeup.wait(most) {
                Wake::Stop => return,
                Wake::TimedOut if again.is_some() => self.tell(&[]),
                Wake::TimedOut => self.client = None,
                Wake::Notified => {
                    let news = self.teller.take();
                    self.tell(&news);
                    let replies = news.into_iter().map(|news| (news.ticket, news.reply));
                    deliver(replies.collect());
                }
            }
        }
    }

    /// Tells these, and what is to be told again.
    fn tell(&mut self, news: &[News]) {
        let now = Instant::now();
        let mut by_server: BTreeMap<u16, Ends> = BTreeMap::new();
        for news in news {
            for &server in &news.servers {
                let ended = by_server.entry(server).or_default();
                ended.push((news.object, news.version));
            }
        }
        let mut due: BTreeMap<u16, Ends> = self.untold.all_due(now).into_iter().collect();
        for (server, ends) in by_server {
            if let Some(all) = self.untold.now_due(server, ends, now) {
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
            if !failed.contains_key(server) && self.untold.done(*server) {
                tracing::info!("I/O server number {server} knows of changed permissions now");
            }
        }
        for (server, (why, ends)) in failed {
            tracing::warn!(
                why,
                "I/O server number {server} was not told of changed permissions: it goes by the old ones until it is, \
                 which is tried again, or until capabilities expire, {:?} from now at the latest",
                kept(self.configuration.access.capability_lifetime)
            );
            self.untold.failed(server, ends, now);
            // The layout may have changed.
            self.client = None;
        }
    }

    fn client(&mut self) -> Result<&mut Client, String> {
        let client = match self.client.take() {
            Some(client) => client,
            None => {
                let round = self.configuration.access.tell_timeout;
                let client = connect(&self.configuration, &self.service, &self.key, round)?;
                self.teller.wakeup.interrupts(&client);
                client
            }
        };
        Ok(self.client.insert(client))
    }
}
