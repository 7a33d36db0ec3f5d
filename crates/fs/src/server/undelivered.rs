//! Ends of capabilities that I/O servers have not confirmed, and when they are sent again.
//!
//! A server that did not reply may serve again a moment later, and accept all earlier capabilities. Ends that it has not confirmed are kept
//! for as long as any of these capabilities may be good, and sent later. Their number is bounded: beyond it, all capabilities of that server end.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use causeway_wire::fs::ObjectId;

/// Most objects that are kept for one server.
const MOST: usize = 1 << 14;
/// The first and the longest pause before another attempt at a server. It grows so that a server that hangs delays few changes.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(8));

/// Ends of capabilities, by object. Object 0 means all objects.
pub(super) type Ends = Vec<(ObjectId, u64)>;

/// Ends that servers have not confirmed, by the servers' numbers.
#[derive(Debug)]
pub(super) struct Undelivered {
    servers: BTreeMap<u16, Server>,
    /// How long a capability may be good.
    kept: Duration,
}

#[derive(Debug)]
struct Server {
    ends: HashMap<ObjectId, u64>,
    pause: Duration,
    next: Instant,
    /// When the youngest of the ends was added.
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

impl Undelivered {
    pub(super) fn new(kept: Duration) -> Self {
        Self {
            servers: BTreeMap::new(),
            kept,
        }
    }

    /// Ends to send to a server now: these and those that it has not confirmed before. `None` if its next attempt is not due yet: these are then
    /// kept.
    pub(super) fn now_due(&mut self, number: u16, ends: Ends, now: Instant) -> Option<Ends> {
        let Some(server) = self.servers.get_mut(&number) else {
            return Some(ends);
        };
        server.add(ends, now);
        (server.next <= now).then(|| server.ends.iter().map(|(of, end)| (*of, *end)).collect())
    }

    /// The servers whose next attempt is due, with the ends to send to each.
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

    /// Keeps ends that a server has not confirmed.
    pub(super) fn failed(&mut self, number: u16, ends: Ends, now: Instant) {
        let server = self.servers.entry(number).or_insert_with(|| Server {
            ends: HashMap::new(),
            pause: PAUSES.0,
            next: now,
            since: now,
        });
        let since = server.since;
        server.add(ends, now);
        // The ends are not younger because they were sent again.
        server.since = since;
        server.next = now + server.pause;
        server.pause = (2 * server.pause).min(PAUSES.1);
    }

    /// Notes that a server has confirmed all ends that were sent. Returns whether an earlier attempt had failed.
    pub(super) fn done(&mut self, number: u16) -> bool {
        self.servers.remove(&number).is_some()
    }

    /// Time until the next attempt at a server is due, if any is.
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
        let mut undelivered = Undelivered::new(KEPT);
        let [one, two] = [ObjectId(1), ObjectId(2)];
        assert_eq!(
            undelivered.now_due(3, vec![(one, 5)], start),
            Some(vec![(one, 5)])
        );
        undelivered.failed(3, vec![(one, 5)], start);
        // Other servers are not delayed, and this one is not tried again at once.
        assert_eq!(
            undelivered.now_due(4, vec![(one, 6)], start),
            Some(vec![(one, 6)])
        );
        assert_eq!(undelivered.now_due(3, vec![(two, 7)], start), None);
        assert!(undelivered.all_due(start).is_empty());
        let later = start + undelivered.next(start).expect("it is tried again");
        assert_eq!(undelivered.all_due(later).len(), 1);
        let expected = vec![(one, 5), (two, 8)];
        assert_eq!(
            sorted(undelivered.now_due(3, vec![(two, 8)], later)),
            expected
        );
        // The pauses grow, up to a limit.
        let mut now = later;
        for _ in 0..20 {
            undelivered.failed(3, vec![], now);
            let pause = undelivered.next(now).expect("it is tried again");
            assert!(pause > Duration::ZERO && pause <= PAUSES.1);
            now += Duration::from_secs(1);
        }
        assert!(undelivered.done(3) && !undelivered.done(3));
        assert_eq!(undelivered.next(now), None);
    }

    #[test]
    fn it_is_kept_for_as_long_as_a_capability_may_be_good_and_no_longer() {
        let start = Instant::now();
        let mut undelivered = Undelivered::new(KEPT);
        undelivered.failed(3, vec![(ObjectId(1), 5)], start);
        let late = start + KEPT - Duration::from_secs(1);
        assert_eq!(undelivered.all_due(late).len(), 1);
        undelivered.failed(3, vec![(ObjectId(1), 5)], late);
        assert!(undelivered.all_due(start + KEPT).is_empty());
        assert_eq!(undelivered.next(start + KEPT), None);
    }

    #[test]
    fn of_a_server_with_too_many_all_capabilities_end() {
        let start = Instant::now();
        let mut undelivered = Undelivered::new(KEPT);
        let many = (1..=MOST as u64).map(|object| (ObjectId(object), object + 10));
        undelivered.failed(3, many.collect(), start);
        assert_eq!(
            undelivered.now_due(3, vec![(ObjectId(u64::MAX), 7)], start),
            None
        );
        let later = start + PAUSES.1;
        let (_, ends) = undelivered.all_due(later).remove(0);
        assert_eq!(ends, [(ObjectId(0), MOST as u64 + 10)]);
    }
}
