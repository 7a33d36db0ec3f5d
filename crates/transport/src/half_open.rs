//! Half-open connections, which are not trusted yet: how many there may be, from which source, and
//! for how long.
//!
//! They have slots of their own, so that they never take one from a peer. Each *source* (a user of
//! this host, or another host) has at most half of the slots; when all are in use, a connection of
//! the source with the most is evicted. So under a flood from one source a connection from another
//! gets a slot at once, and its handshake ends long before it could be evicted.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::ops::Add;
use std::time::Duration;

use crate::method::Peer;

/// The source of a connection, as far as it is known before the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// A user of this host, as reported by the kernel.
    User(u32),
    /// Another host: its IPv4 address, or the 64-bit network prefix of its IPv6 address.
    Host(IpAddr),
}

impl Source {
    pub(crate) fn host(address: IpAddr) -> Self {
        Self::Host(match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => {
                let network = u128::from(address) & !u128::from(u64::MAX);
                Ipv6Addr::from(network).into()
            }
        })
    }
}

/// If a source has more half-open connections than one in this many of all that there may be, each of them is kept
/// only for [`SHORT_TIMEOUT`]. The processes of one host that start to communicate with this one at the same time are no flood.
const PART_OF_FEW: usize = 4;

/// Enough for a handshake over any network, and for a process that has to wait for its processor.
const SHORT_TIMEOUT: Duration = Duration::from_secs(1);

/// A half-open connection's entry, by which it is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry<T> {
    pub(crate) source: Source,
    pub(crate) since: T,
}

/// Least time between two log lines about refusals, so that peers cannot fill the log.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// When an event that peers can cause was last logged.
#[derive(Debug)]
pub(crate) struct LogLimit<T>(Option<T>);

impl<T> Default for LogLimit<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Copy + Ord + Add<Duration, Output = T>> LogLimit<T> {
    /// Whether to log the event now; if so, the next interval begins.
    pub(crate) fn allows(&mut self, now: T) -> bool {
        let allows = self.0.is_none_or(|logged| logged + LOG_INTERVAL <= now);
        if allows {
            self.0 = Some(now);
        }
        allows
    }
}

/// See the module's page. `T` is the type of the method's times.
#[derive(Debug)]
pub(crate) struct HalfOpen<T> {
    by_source: HashMap<Source, BTreeSet<(T, Peer)>>,
    count: usize,
    most: usize,
    timeout: Duration,
}

impl<T: Copy + Ord + Add<Duration, Output = T>> HalfOpen<T> {
    /// At most `most` connections at a time, each for at most `timeout`.
    pub(crate) fn new(most: usize, timeout: Duration) -> Self {
        Self {
            by_source: HashMap::new(),
            count: 0,
            most: most.max(2),
            timeout,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The connection to evict before one of this source is added, if one has to be.
    pub(crate) fn to_evict(&self, source: Source) -> Option<(Entry<T>, Peer)> {
        let own = self.by_source.get_key_value(&source);
        let (&source, waiting) = match own.filter(|(_, own)| own.len() >= self.most / 2) {
            Some(own) => own,
            None if self.count < self.most => return None,
            None => self
                .by_source
                .iter()
                .max_by_key(|(_, waiting)| waiting.len())?,
        };
        let &(since, peer) = waiting.first()?;
        Some((Entry { source, since }, peer))
    }

    pub(crate) fn add(&mut self, source: Source, peer: Peer, since: T) -> Entry<T> {
        if self
            .by_source
            .entry(source)
            .or_default()
            .insert((since, peer))
        {
            self.count += 1;
        }
        Entry { source, since }
    }

    pub(crate) fn remove(&mut self, entry: Entry<T>, peer: Peer) {
        let Some(waiting) = self.by_source.get_mut(&entry.source) else {
            return;
        };
        if waiting.remove(&(entry.since, peer)) {
            self.count -= 1;
        }
        if waiting.is_empty() {
            self.by_source.remove(&entry.source);
        }
    }

    fn deadlines(&self) -> impl Iterator<Item = (T, Peer)> {
        self.by_source.values().filter_map(|waiting| {
            let timeout = match waiting.len() {
                count if count <= self.most / PART_OF_FEW => self.timeout,
                _ => self.timeout.min(SHORT_TIMEOUT),
            };
            let &(since, peer) = waiting.first()?;
            Some((since + timeout, peer))
        })
    }

    /// When the first connection times out.
    pub(crate) fn deadline(&self) -> Option<T> {
        self.deadlines().map(|(at, _)| at).min()
    }

    /// A connection that has timed out.
    pub(crate) fn overdue(&self, now: T) -> Option<Peer> {
        let mut overdue = self.deadlines().filter(|(at, _)| *at <= now);
        overdue.next().map(|(_, peer)| peer)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    type HalfOpen = super::HalfOpen<Instant>;
    type Entry = super::Entry<Instant>;

    fn fill(source: Source, count: u32, half_open: &mut HalfOpen, now: Instant) -> Vec<Entry> {
        let base = half_open.count as u32;
        (0..count)
            .map(|n| {
                let since = now + Duration::from_micros(n.into());
                half_open.add(source, Peer::new(base + n, 0), since)
            })
            .collect()
    }

    #[test]
    fn a_source_makes_room_for_itself_and_for_sources_with_less() {
        let now = Instant::now();
        let half_open = &mut HalfOpen::new(8, Duration::from_secs(5));
        let (loud, calm) = (Source::User(1), Source::User(2));
        let other = Source::host("192.0.2.1".parse().unwrap());
        let entries = fill(loud, 4, half_open, now);
        assert_eq!(
            half_open.to_evict(loud),
            Some((entries[0], Peer::new(0, 0))),
            "half of all"
        );
        assert_eq!(half_open.to_evict(calm), None, "there is room");
        fill(calm, 3, half_open, now);
        fill(other, 1, half_open, now);
        assert_eq!(half_open.len(), 8);
        for source in [calm, other] {
            let oldest = (entries[0], Peer::new(0, 0));
            assert_eq!(half_open.to_evict(source), Some(oldest));
        }
        half_open.remove(entries[0], Peer::new(0, 0));
        half_open.remove(entries[0], Peer::new(0, 0));
        assert_eq!(half_open.len(), 7, "once only");
        assert_eq!(half_open.to_evict(calm), None);
    }

    #[test]
    fn events_caused_by_others_are_logged_seldom() {
        let mut limit = LogLimit::default();
        let logged = (0..100).filter(|&at| limit.allows(Duration::from_secs(at)));
        assert_eq!(logged.count(), 10);
    }

    #[test]
    fn many_of_one_source_have_less_time() {
        let now = Instant::now();
        let timeout = Duration::from_secs(5);
        let half_open = &mut HalfOpen::new(1000, timeout);
        assert_eq!(half_open.deadline(), None);
        let (loud, calm) = (Source::User(1), Source::User(2));
        fill(calm, 1, half_open, now);
        assert_eq!(half_open.deadline(), Some(now + timeout));
        let entries = fill(loud, 251, half_open, now);
        assert_eq!(half_open.deadline(), Some(now + SHORT_TIMEOUT));
        assert_eq!(half_open.overdue(now), None);
        let overdue = half_open.overdue(now + SHORT_TIMEOUT).unwrap();
        assert_eq!(overdue, Peer::new(1, 0), "the oldest of the loud one");
        half_open.remove(entries[0], overdue);
        assert_eq!(half_open.overdue(now + SHORT_TIMEOUT), None);
        assert!(half_open.overdue(now + timeout).is_some());
    }

    #[test]
    fn the_addresses_that_one_host_may_take_are_one_source() {
        let source = |text: &str| Source::host(text.parse().unwrap());
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:1"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_eq!(source("::ffff:192.0.2.1"), source("192.0.2.1"));
        assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
    }
}
