//! Tells I/O servers that permissions have changed, before the client that has changed them gets its reply.
//!
//! A server that cannot be told delays the reply by one [`ROUND`] at most. It goes by the old permissions for as long as a
//! capability is good that it can still verify; one that is down has forgotten all of them when it starts.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use causeway_sys::waits;
use causeway_wire::fs::ObjectId;

use super::background::{Background, Wake};
use super::beside::{Deliver, Ours, SharedService};
use super::news::{News, Teller};
use super::reclaim::connect;
use crate::capability_key::CapabilityKey;
use crate::client::Client;
use crate::config::Configuration;

/// How long I/O servers have to reply.
const ROUND: Duration = Duration::from_millis(500);
/// For how long a server that could not be told is not asked again, so that it delays few changes.
const LEFT_OUT: Duration = Duration::from_secs(5);
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
    let work = Work {
        configuration,
        service,
        key,
        teller,
        client: None,
        left_out: BTreeMap::new(),
    };
    Background::start("tell", wakeup, move || work.run(&deliver))
}

struct Work {
    configuration: Configuration,
    service: SharedService,
    key: CapabilityKey,
    teller: Teller,
    client: Option<Client>,
    /// Servers that could not be told, and until when they are left out.
    left_out: BTreeMap<u16, Instant>,
}

impl Work {
    fn run(mut self, deliver: &Deliver) {
        loop {
            let most = waits::tidy_after(KEEP).filter(|_| self.client.is_some());
            match self.teller.wakeup.wait(most) {
                Wake::Stop => return,
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

    fn tell(&mut self, news: &[News]) {
        let now = Instant::now();
        self.left_out.retain(|_, until| *until > now);
        let mut by_server: BTreeMap<u16, Vec<(ObjectId, u64)>> = BTreeMap::new();
        for news in news {
            for &server in &news.servers {
                if !self.left_out.contains_key(&server) {
                    let ended = by_server.entry(server).or_default();
                    ended.push((news.object, news.version));
                }
            }
        }
        let calls: Vec<(u16, Vec<(ObjectId, u64)>)> = by_server
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
        for ((server, _), result) in calls.iter().zip(results) {
            let Err(why) = result else { continue };
            tracing::warn!(
                why,
                "I/O server number {server} was not told of changed permissions: it goes by the old ones until \
                 capabilities expire, {:?} from now at the latest",
                self.configuration.access.capability_lifetime
            );
            self.left_out.insert(*server, now + LEFT_OUT);
            // The layout may have changed.
            self.client = None;
        }
    }

    fn client(&mut self) -> Result<&mut Client, String> {
        let client = match self.client.take() {
            Some(client) => client,
            None => {
                let client = connect(&self.configuration, &self.service, &self.key, ROUND)?;
                self.teller.wakeup.interrupts(&client);
                client
            }
        };
        Ok(self.client.insert(client))
    }
}
