//! Observing the peers now and then: publishes their state, and finds operations that make no
//! progress.
//!
//! This happens at ticks and before sleeping, never on the path of a message. Only peers whose
//! state has changed, and those with operations in flight, are observed, a bounded number at a
//! time. [`stall`](super::stall) determines what an operation waits for, and reports it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use causeway_transport::Identity;
use causeway_watch::page::{self, Page, RowSlot};
use causeway_watch::process;
use causeway_wire::watch::{InstanceRow, PeerRow, PhaseCode, Row, Waiting};

use super::connections::{Connections, End};
use super::methods::Methods;
use super::stall::Stall;
use crate::conversation::{Conversation, Phase};
use crate::conversations::Conversations;
use crate::matcher::Matcher;
use crate::operation::OpKind;
use crate::shared::Shared;
use crate::types::END_OF_CONNECTION;

/// Least time between two observations. It does not end a sleep.
const INTERVAL: Duration = Duration::from_millis(40);
/// Most peers that are observed at once.
const MOST_PEERS: usize = 512;
/// Most operations of a peer that are counted.
const MOST_COUNTED: u32 = 256;
/// Most operations of a peer whose progress is followed: the oldest ones.
const MOST_FOLLOWED: usize = 8;

/// The number of the next instance in this process.
static INSTANCES: AtomicU32 = AtomicU32::new(0);

/// What an instance needs to observe its peers.
pub(crate) struct Watch {
    instance: u32,
    stall_after: Duration,
    refused: u16,
    page: Option<Arc<Page>>,
    row: Option<RowSlot>,
    last: Instant,
    /// When an operation in flight will have waited for too long, unless it makes progress.
    due: Option<Instant>,
    /// How many of the peers with operations in flight are still to be observed in this round, and
    /// the earliest time at which one of the others has waited for too long.
    round: usize,
    round_due_ns: u64,
}

/// What is remembered of a peer from one observation to the next.
#[derive(Default)]
pub(crate) struct Watched {
    row: Option<RowSlot>,
    /// When its counters were last seen to change.
    progress_ns: u64,
    /// Its oldest operations.
    followed: Vec<Followed>,
    /// The stall that was reported, if one of them has waited for too long.
    pub(crate) stall: Option<Box<Stall>>,
    pub(crate) reports: u32,
}

/// An operation as it was at the last observation.
#[derive(Debug, Clone, Copy)]
struct Followed {
    key: u64,
    /// A number that changes when the operation makes progress.
    state: u64,
    since_ns: u64,
}

/// A peer's operations at one observation.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) receives: u32,
    pub(crate) sends: u32,
    /// The one that has waited longest.
    pub(crate) oldest: Option<Waiting>,
}

impl Watch {
    /// Starts observing, and publishes the state if `publish`. If the system refuses the status
    /// page, the instance runs without one.
    pub(crate) fn new(now: Instant, stall_after: Duration, publish: bool) -> Self {
        Self {
            instance: INSTANCES.fetch_add(1, Ordering::Relaxed),
            stall_after,
            refused: 0,
            page: publish.then(|| page::own().ok()).flatten(),
            row: None,
            // The first observation is due at once, so that an observer sees it even if no other
            // follows for long.
            last: now.checked_sub(INTERVAL).unwrap_or(now),
            due: None,
            round: 0,
            round_due_ns: u64::MAX,
        }
    }

    /// The number of this instance for observers.
    #[cfg(test)]
    pub(crate) fn instance(&self) -> u32 {
        self.instance
    }

    /// Sets how many requests a server has refused.
    pub(crate) fn set_refused(&mut self, refused: u64) {
        self.refused = u16::try_from(refused).unwrap_or(u16::MAX);
    }

    /// Changes the time after which a stall is reported; zero never reports.
    pub(crate) fn set_stall_after(&mut self, stall_after: Duration) {
        self.stall_after = stall_after;
        // The next thread that sleeps observes first.
        self.round = 1;
    }

    /// When to observe next, if nothing happens until then.
    pub(crate) fn deadline<M>(&self, all: &Conversations<M>) -> Option<Instant> {
        let next = self.last + INTERVAL;
        if all.shared.touched.has_new() || self.round > 0 {
            return Some(next);
        }
        self.due.map(|due| due.max(next))
    }

    /// Observes the peers, if it is time to.
    pub(crate) fn observe<M: Matcher>(
        &mut self,
        all: &mut Conversations<M>,
        connections: &mut Connections,
        methods: &Methods,
        now: Instant,
    ) {
        if now.saturating_duration_since(self.last) < INTERVAL {
            return;
        }
        self.last = now;
        causeway_watch::log::apply_request();
        let now_ns = process::monotonic_ns();
        if self.round == 0 {
            self.round = all.shared.touched.active();
            self.round_due_ns = u64::MAX;
        }
        let mut left = MOST_PEERS;
        while left > 0
            && let Some(peer) = all.shared.touched.take_new()
        {
            left -= 1;
            if all.peers.get(peer).is_some() {
                all.peers[peer].traffic.seen();
                self.observe_peer(all, connections, methods, (peer, now_ns));
            }
        }
        self.observe_some(all, connections, methods, (left, now_ns));
        self.due = match self.round_due_ns {
            u64::MAX => None,
            due => now.checked_add(Duration::from_nanos(due.saturating_sub(now_ns))),
        };
        self.publish_instance(all, connections, now_ns);
    }

    /// Observes the peers with operations in flight, at most `left` of them now.
    fn observe_some<M: Matcher>(
        &mut self,
        all: &mut Conversations<M>,
        connections: &mut Connections,
        methods: &Methods,
        (left, now_ns): (usize, u64),
    ) {
        for _ in 0..left.min(self.round) {
            self.round -= 1;
            if let Some(peer) = all.shared.touched.take_active()
                && all.peers.get(peer).is_some()
                && all.peers[peer].traffic.set_active(false)
            {
                self.observe_peer(all, connections, methods, (peer, now_ns));
            }
        }
    }

    fn observe_peer<M: Matcher>(
        &mut self,
        all: &mut Conversations<M>,
        connections: &mut Connections,
        methods: &Methods,
        (peer, now_ns): (u32, u64),
    ) {
        if all.peers[peer].has_operations() && !all.peers[peer].traffic.set_active(true) {
            all.shared.touched.add_active(peer);
        }
        let mut watched = std::mem::take(&mut connections.end(peer).watched);
        if all.peers[peer].traffic.settle(&mut all.shared.touched) {
            watched.progress_ns = now_ns;
        }
        let link = connections.link(peer);
        let method = link.map(|(method, handle)| (&methods.slots[method].method, handle));
        let activity = method.map_or(0, |(method, handle)| method.activity(handle));
        let identity = method.and_then(|(method, handle)| method.identity(handle));
        let tally = follow(all, peer, &mut watched.followed, (activity, now_ns));
        let pid = pid(identity);
        let of = (&all.peers[peer], &*connections.end(peer));
        let row = self.peer_row(&all.shared, of, &watched, &tally, (pid, now_ns));
        let due = self.check_stall(&mut watched, &row, &tally, of, now_ns);
        self.round_due_ns = self.round_due_ns.min(due);
        if let Some(page) = &self.page {
            let slot = watched.row.get_or_insert_with(|| RowSlot::new(page));
            slot.publish(&Row::Peer(PeerRow {
                stalled: watched.stall.is_some(),
                reports: watched.reports,
                ..row
            }));
        }
        connections.end(peer).watched = watched;
    }

    /// Reports a stall if there is one. Returns when this peer is to be observed again.
    fn check_stall(
        &self,
        watched: &mut Watched,
        row: &PeerRow,
        tally: &Tally,
        of: (&Conversation, &End),
        now_ns: u64,
    ) -> u64 {
        let limit_ns = u64::try_from(self.stall_after.as_nanos()).unwrap_or(u64::MAX);
        let since_ns = match &tally.oldest {
            Some(oldest) if limit_ns > 0 => oldest.since_ns,
            _ => u64::MAX,
        };
        if now_ns.saturating_sub(since_ns) >= limit_ns.max(1) {
            let stall = watched
                .stall
                .get_or_insert_with(|| Box::new(Stall::new(limit_ns)));
            if stall.is_due(since_ns, now_ns) {
                watched.reports += 1;
                stall.report(row, tally, of, now_ns);
            }
            return stall.next_ns();
        }
        if let Some(stall) = watched.stall.take() {
            stall.report_end(of.0, tally, now_ns);
        }
        since_ns.saturating_add(limit_ns)
    }

    fn peer_row<M>(
        &self,
        shared: &Shared<M>,
        (entry, end): (&Conversation, &End),
        watched: &Watched,
        tally: &Tally,
        (pid, now_ns): (u32, u64),
    ) -> PeerRow {
        let depth = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let (credit, window) = entry.account.credit_and_window();
        PeerRow {
            instance: self.instance,
            peer: entry.id,
            phase: phase_code(&entry.phase),
            outbound: end.outbound,
            blocked: entry.blocked,
            stalled: false,
            pid,
            reports: 0,
            sent: entry.traffic.sent,
            sent_large: entry.traffic.sent_large,
            received: entry.traffic.received,
            received_large: entry.traffic.received_large,
            moved: entry.traffic.moved,
            credit,
            window,
            granted: entry.grant.granted(),
            held: entry.grant.held(),
            sends: depth(entry.expected.len()),
            unexpected_sends: depth(entry.unexpected.len()),
            announced: entry.announced + entry.announced_unexpected,
            receives: tally.receives,
            transfers: entry.transfers,
            early: early_messages(shared, entry),
            unexpected: depth(entry.arrived.len()),
            published_ns: now_ns,
            progress_ns: watched.progress_ns,
            waiting: tally.oldest,
            address: entry.name.clone(),
        }
    }

    fn publish_instance<M>(
        &mut self,
        all: &Conversations<M>,
        connections: &Connections,
        now_ns: u64,
    ) {
        let shared = &all.shared;
        let Some(page) = &self.page else { return };
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let row = InstanceRow {
            instance: self.instance,
            peers: count(all.peers.len()),
            operations: count(shared.ops.len()),
            transfers: count(shared.transfers.active),
            unexpected_waiting: count(shared.unexpected_waiting),
            early_bytes: shared.budget.committed() + shared.budget.pulled(),
            early_limit: shared.budget.limit(),
            stall_after_ms: u64::try_from(self.stall_after.as_millis()).unwrap_or(u64::MAX),
            published_ns: now_ns,
            received: shared.touched.totals.received,
            sent: shared.touched.totals.sent,
            refused: self.refused,
            listening: connections.listening.join(","),
        };
        let slot = self.row.get_or_insert_with(|| RowSlot::new(page));
        slot.publish(&Row::Instance(row));
    }
}

/// Counts a peer's operations and finds the one that has made no progress for longest.
fn follow<M: Matcher>(
    all: &mut Conversations<M>,
    peer: u32,
    followed: &mut Vec<Followed>,
    (activity, now_ns): (u64, u64),
) -> Tally {
    let mut tally = Tally::default();
    let mut now = Vec::new();
    let most = MOST_COUNTED as usize;
    let ops = &all.shared.ops;
    let behind = |index: &u32| ops[*index].links.next();
    let active = std::iter::successors(all.peers[peer].ops.first(), behind);
    let mut indices: Vec<u32> = active.take(most).collect();
    let receives = all.shared.matcher.receives_of(peer, most - indices.len());
    indices.extend(receives);
    for index in indices {
        let op = &all.shared.ops[index];
        if op.tag == END_OF_CONNECTION && matches!(op.kind, OpKind::Receive) {
            continue;
        }
        match op.kind {
            OpKind::Receive | OpKind::Fetch => tally.receives += 1,
            OpKind::Send | OpKind::SendUnexpected => tally.sends += 1,
            OpKind::Transfer => {}
        }
        if now.len() == MOST_FOLLOWED {
            continue;
        }
        let mut waiting = all.waiting(index);
        let key = all.shared.ops.key(index);
        let state = all.progress_of(index, &waiting, activity);
        let before = followed.iter().find(|one| one.key == key);
        let stood = before.filter(|before| before.state == state);
        let since_ns = stood.map_or(now_ns, |before| before.since_ns);
        waiting.since_ns = since_ns;
        now.push(Followed {
            key,
            state,
            since_ns,
        });
        if tally.oldest.is_none_or(|oldest| since_ns < oldest.since_ns) {
            tally.oldest = Some(waiting);
        }
    }
    *followed = now;
    tally
}

/// A peer's messages that wait for a receive, as far as they are counted.
fn early_messages<M>(shared: &Shared<M>, peer: &Conversation) -> u32 {
    let mut next = peer.early.first();
    let mut counted = 0;
    while let Some(index) = next
        && counted < MOST_COUNTED
    {
        counted += 1;
        next = shared.early[index].links.next();
    }
    counted
}

fn phase_code(phase: &Phase) -> PhaseCode {
    match phase {
        Phase::Closed => PhaseCode::Closed,
        Phase::Greeting => PhaseCode::Connecting,
        Phase::Up | Phase::Leaving => PhaseCode::Up,
        Phase::Failed => PhaseCode::Falling,
        Phase::Gone(_) => PhaseCode::Gone,
    }
}

/// The process of the peer, if it is on this host.
fn pid(identity: Option<Identity>) -> u32 {
    match identity {
        Some(Identity::Local { pid, .. } | Identity::SocketOf { pid, .. }) => {
            u32::try_from(pid).unwrap_or(0)
        }
        _ => 0,
    }
}
