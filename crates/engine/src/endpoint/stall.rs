//! Operations that make no progress: what they wait for, and the log line that reports it, once at
//! the configured time and again each time that the wait has doubled.

use causeway_watch::{process, text};
use causeway_wire::watch::{OpKind, PeerRow, WaitReason, Waiting};

use super::connections::End;
use super::watch::Tally;
use crate::conversation::Conversation;
use crate::conversations::Conversations;
use crate::credit::cost;
use crate::lists::NONE;
use crate::operation::{Op, State};

/// The log target.
const STALL: &str = "causeway_engine::stall";

/// A stall that has been reported and lasts.
#[derive(Debug)]
pub(crate) struct Stall {
    limit_ns: u64,
    since_ns: u64,
    /// When to report it next.
    next_ns: u64,
}

impl Stall {
    pub(crate) fn new(limit_ns: u64) -> Self {
        Self {
            limit_ns,
            since_ns: u64::MAX,
            next_ns: 0,
        }
    }

    /// When to report it next.
    pub(crate) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Whether a wait since `since_ns` is to be reported now.
    pub(crate) fn is_due(&mut self, since_ns: u64, now_ns: u64) -> bool {
        self.since_ns = self.since_ns.min(since_ns);
        if now_ns < self.next_ns {
            return false;
        }
        let waited = now_ns.saturating_sub(self.since_ns);
        let mut interval = self.limit_ns.max(1);
        while interval <= waited && interval < u64::MAX / 2 {
            interval *= 2;
        }
        self.next_ns = self.since_ns.saturating_add(interval);
        true
    }

    /// Logs one line: which peer is waited for, in which state, since when, and what is queued.
    pub(crate) fn report(
        &self,
        row: &PeerRow,
        tally: &Tally,
        (peer, end): (&Conversation, &End),
        now_ns: u64,
    ) {
        let Some(waiting) = &tally.oldest else { return };
        let waited = now_ns.saturating_sub(waiting.since_ns);
        tracing::warn!(
            target: STALL,
            "stalled {}: {} {} ({}): {}; queued: {} sends, {} receives; credit {} of {}; {}",
            text::age(waited),
            operation(waiting),
            peer.name,
            describe_location(row),
            reason(waiting, end),
            tally.sends,
            tally.receives,
            text::bytes(row.credit.into()),
            text::bytes(row.window.into()),
            last_traffic(row, now_ns),
        );
    }

    /// Logs the end of a stall: the operation makes progress, or has ended in any way.
    pub(crate) fn report_end(&self, peer: &Conversation, tally: &Tally, now_ns: u64) {
        let waited = now_ns.saturating_sub(self.since_ns);
        let state = if peer.is_up() {
            "connected"
        } else {
            "not connected"
        };
        tracing::info!(
            target: STALL,
            "no longer stalled, after {}: {} ({state}); in flight: {} sends, {} receives",
            text::age(waited),
            peer.name,
            tally.sends,
            tally.receives,
        );
    }
}

fn operation(waiting: &Waiting) -> String {
    let size = text::bytes(waiting.size);
    let tag = waiting.tag;
    match waiting.kind {
        OpKind::Receive => format!("receive of up to {size}, tag {tag}, from"),
        OpKind::Send => format!("send of {size}, tag {tag}, to"),
        OpKind::SendUnexpected => format!("unexpected send of {size}, tag {tag}, to"),
        OpKind::Transfer => format!("transfer of {size} with"),
        OpKind::Fetch => format!("unexpected message of {size}, tag {tag}, from"),
    }
}

fn describe_location(row: &PeerRow) -> String {
    match row.pid {
        0 => "process not known".to_owned(),
        pid => format!("pid {pid}, {}", process::state(pid).text()),
    }
}

fn reason(waiting: &Waiting, end: &End) -> String {
    let moved = || {
        let (moved, size) = (text::bytes(waiting.moved), text::bytes(waiting.size));
        format!("{moved} of {size} moved")
    };
    match waiting.why {
        WaitReason::Connection => match end.notes().last() {
            Some(note) => format!("not connected yet ({note})"),
            None => "not connected yet".to_owned(),
        },
        WaitReason::Room => "its ring or socket is full: the peer does not read what was sent before".to_owned(),
        WaitReason::Credit => {
            "waits for credit: the peer's program has not taken earlier messages".to_owned()
        }
        WaitReason::Queue => "stands behind earlier sends".to_owned(),
        WaitReason::Announcements => {
            "the peer has not posted the receives of earlier announced messages".to_owned()
        }
        WaitReason::Receive => {
            "announced; the peer has not posted a matching receive, or has not read the announcement".to_owned()
        }
        WaitReason::Message => "posted, no message has come".to_owned(),
        WaitReason::Write => format!("matched, the peer does not write it ({})", moved()),
        WaitReason::TransferSlot => "waits for its turn among the transfers".to_owned(),
        WaitReason::Transfer => format!("a transfer makes no progress ({})", moved()),
        WaitReason::Ending => "its exports are being ended".to_owned(),
    }
}

fn last_traffic(row: &PeerRow, now_ns: u64) -> String {
    match row.progress_ns {
        0 => "no traffic yet".to_owned(),
        at => format!("last traffic {} ago", text::age(now_ns.saturating_sub(at))),
    }
}

impl<M> Conversations<M> {
    /// What an operation waits for. The time since when is filled in by the caller.
    pub(crate) fn waiting(&self, op: u32) -> Waiting {
        let entry = &self.shared.ops[op];
        Waiting {
            kind: entry.kind,
            why: self.wait_reason(op, entry),
            tag: entry.tag,
            size: entry.size,
            moved: entry.moved,
            since_ns: 0,
        }
    }

    /// A number that changes when an operation makes progress. `activity` is the method's
    /// ([`causeway_transport::Method::activity`]).
    pub(crate) fn progress_of(&self, op: u32, waiting: &Waiting, activity: u64) -> u64 {
        let entry = &self.shared.ops[op];
        let around_it = match entry.state {
            // A queued send makes progress when those before it leave.
            State::Held | State::Queued => self.peers[entry.peer].traffic.total(),
            // A receive that is posted for later, such as for the end of a connection, does not
            // hang while other operations of its peer complete.
            State::Posted if entry.peer != NONE => {
                self.peers[entry.peer].traffic.received_messages()
            }
            State::Pulling(_)
            | State::Pushing { .. }
            | State::Writing(_)
            | State::Moving
            | State::Cleared { .. }
            | State::Collecting(_)
            | State::SendingParts { .. }
            | State::Placed { .. } => activity,
            _ => 0,
        };
        let state = (waiting.why as u64) << 56;
        state ^ entry.moved.rotate_left(8) ^ around_it
    }

    fn wait_reason(&self, op: u32, entry: &Op) -> WaitReason {
        if entry.peer == NONE {
            return WaitReason::Message;
        }
        let peer = &self.peers[entry.peer];
        match &entry.state {
            State::Finishing | State::Retracting | State::Done => WaitReason::Ending,
            _ if !peer.is_up() => WaitReason::Connection,
            State::Posted => WaitReason::Message,
            State::Cleared { .. } | State::ToClear(_) => WaitReason::Write,
            State::Pulling(_)
            | State::Pushing { .. }
            | State::SendingParts { .. }
            | State::Writing(_)
            | State::Moving => WaitReason::Transfer,
            State::Placed { .. } | State::Collecting(_) => WaitReason::Write,
            State::Held => WaitReason::Room,
            _ if peer.blocked => WaitReason::Room,
            State::Matched(_) | State::ToPush(_) | State::ToWrite(_) | State::ToMove(_) => {
                WaitReason::TransferSlot
            }
            State::Announced | State::ToAnnounce { .. } => WaitReason::Receive,
            State::Queued => self.queued_reason(op, entry, peer),
        }
    }

    fn queued_reason(&self, op: u32, entry: &Op, peer: &Conversation) -> WaitReason {
        let unexpected = entry.kind == OpKind::SendUnexpected;
        let queue = if unexpected {
            &peer.unexpected
        } else {
            &peer.expected
        };
        if queue.front() != Some(&op) {
            return WaitReason::Queue;
        }
        let cost = cost(usize::try_from(entry.size).unwrap_or(usize::MAX));
        let is_eager = peer.is_eager(entry.fragments.as_slice(), entry.size);
        if unexpected && is_eager && peer.account.will_afford(cost) {
            WaitReason::Credit
        } else {
            WaitReason::Announcements
        }
    }
}
