//! Ends of capabilities that I/O servers could not be told, and when they are tried again.
//!
//! A server that did not reply may serve again a moment later, with all the capabilities that it knew. What it was not told is kept
//! for as long as any of these may be good, and told it later. That is bounded: of a server with more, all capabilities end instead.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use causeway_wire::fs::ObjectId;

/// Objects that are kept for one server.
const MOST: usize = 1 << 14;
/// The first and the longest pause before a server is tried again. It grows so that a server which hangs delays few changes.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(8));

/// Ends of capabilities, by object. Object 0 stands for all.
pub(super) type Ends = Vec<(ObjectId, u64)>;

/// What servers were not told, by number.
#[derive(Debug)]
pub(super) struct Untold {
    servers: BTreeMap<u16, Server>,
    /// How long a capability may be good.
    kept: Duration,
}

#[derive(Debug)]
struct Server {
    ends: HashMap<ObjectId, u64>,
    pause: Duration,
    next: Instant,
    /// When the youngest of the ends came.
    since: Instant,
}

impl Server {
    fn add(&mut self, ends: Ends, now: Instant) {
        for (object, version) in ends {
            let known = self.ends.entry(object).or_default();
            *known = version.max(*known);
        }
        if self.ends.len() > MOST {
            let newest = self.ends.values().copied().max().unwrap_or_default();
            self.ends = HashMap::from([(ObjectId(0), newest)]);
        }
        self.since = now;
    }
}

impl Untold {
    pub(super) fn new(kept: Duration) -> Self {
        Self {
            servers: BTreeMap::new(),
            kept,
        }
    }

    /// What a server is to be told now: these and what it was not told before. Nothing if it is not tried again yet: then they are
    /// kept.
    pub(super) fn now_due(&mut self, number: u16, ends: Ends, now: Instant) -> Option<Ends> {
        let Some(server) = self.servers.get_mut(&number) else {
            return Some(ends);
        };
        server.add(ends, now);
        (server.next <= now).then(|| server.ends.iter().map(|(of, end)| (*of, *end)).collect())
    }

    /// The servers that are tried again now, and what they are told.
    pub(super) fn all_due(&mut self, now: Instant) -> Vec<(u16, Ends)> {
        let kept = self.kept;
        self.servers
            .retain(|_, server| now.saturating_duration_since(server.since) < kept);
        let due = self.servers.iter().filter(|(_, server)| server.next <= now);
        due.map(|(number, server)| {
            let ends = server.ends.iter().map(|(of, end)| (*of, *end));
            (*number, ends.collect())
        })
        .collect()
    }

    /// A server was not told these.
    pub(super) fn failed(&mut self, number: u16, ends: Ends, now: Instant) {
        let server = self.servers.entry(number).or_insert_with(|| Server {
            ends: HashMap::new(),
            pause: PAUSES.0,
            next: now,
            since: now,
        });
        let since = server.since;
        server.add(ends, now);
        // Nothing is younger by being tried again.
        server.since = since;
        server.next = now + server.pause;
        server.pause = (2 * server.pause).min(PAUSES.1);
    }

    /// A server was told all that there was. Returns whether some of it had failed before.
    pub(super) fn done(&mut self, number: u16) -> bool {
        self.servers.remove(&number).is_some()
    }

    /// In how long a server is tried again, if any is.
    pub(super) fn next(&self, now: Instant) -> Option<Duration> {
        let next = self.servers.values().map(|server| server.next).min()?;
        Some(next.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: Duration = Duration::from_secs(120);

    fn sorted(ends: Option<Ends>) -> Ends {
        let mut ends = ends.expect("due");
        ends.sort_by_key(|(object, _)| object.0);
        ends
    }

    #[test]
    fn what_a_server_was_not_told_is_told_it_later_with_what_came_meanwhile() {
        let start = Instant::now();
        let mut untold = Untold::new(KEPT);
        let [one, two] = [ObjectId(1), ObjectId(2)];
        assert_eq!(
            untold.now_due(3, vec![(one, 5)], start),
            Some(vec![(one, 5)])
        );
        untold.failed(3, vec![(one, 5)], start);
        // Others are not held up, and it is not asked at once.
        assert_eq!(
            untold.now_due(4, vec![(one, 6)], start),
            Some(vec![(one, 6)])
        );
        assert_eq!(untold.now_due(3, vec![(two, 7)], start), None);
        assert!(untold.all_due(start).is_empty());
        let later = start + untold.next(start).expect("it is tried again");
        assert_eq!(untold.all_due(later).len(), 1);
        let expected = vec![(one, 5), (two, 8)];
        assert_eq!(sorted(untold.now_due(3, vec![(two, 8)], later)), expected);
        // Pauses grow, within a limit.
        let mut now = later;
        for _ in 0..20 {
            untold.failed(3, vec![], now);
            let pause = untold.next(now).expect("it is tried again");
            assert!(pause > Duration::ZERO && pause <= PAUSES.1);
            now += Duration::from_secs(1);
        }
        assert!(untold.done(3) && !untold.done(3));
        assert_eq!(untold.next(now), None);
    }

    #[test]
    fn it_is_kept_for_as_long_as_a_capability_may_be_good_and_no_longer() {
        let start = Instant::now();
        let mut untold = Untold::new(KEPT);
        untold.failed(3, vec![(ObjectId(1), 5)], start);
        let late = start + KEPT - Duration::from_secs(1);
        assert_eq!(untold.all_due(late).len(), 1);
        untold.failed(3, vec![(ObjectId(1), 5)], late);
        assert!(untold.all_due(start + KEPT).is_empty());
        assert_eq!(untold.next(start + KEPT), None);
    }

    #[test]
    fn of_a_server_with_too_many_all_capabilities_end() {
        let start = Instant::now();
        let mut untold = Untold::new(KEPT);
        let many = (1..=MOST as u64).map(|object| (ObjectId(object), object + 10));
        untold.failed(3, many.collect(), start);
        assert_eq!(
            untold.now_due(3, vec![(ObjectId(u64::MAX), 7)], start),
            None
        );
        let later = start + PAUSES.1;
        let (_, ends) = untold.all_due(later).remove(0);
        assert_eq!(ends, [(ObjectId(0), MOST as u64 + 10)]);
    }
}
