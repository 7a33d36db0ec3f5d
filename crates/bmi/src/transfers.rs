//! Remote-memory transfers, throttled: too many at once are slower than few (Yu et al. §5.1).

use std::collections::VecDeque;

use causeway_transport::{Direction, SendError, Token, Transfer, TransferError};
use causeway_wire::bmi::{self as wire, Header, Kind, Refusal};

use crate::core::{Core, Task};
use crate::fragments::Cursor;
use crate::methods::Methods;
use crate::op::State;
use crate::types::OpError;

/// Transfers that an instance has in progress; the others wait. A peer without any may always start
/// one, so that peers which hang do not stop the rest.
const MAX_ACTIVE: usize = 16;

/// Waiting transfers that are looked at in one go, between other tasks.
const KICK_SCAN: usize = 64;

/// Transfers in progress and waiting.
#[derive(Default)]
pub(crate) struct Transfers {
    /// How many the methods have accepted and not completed.
    pub(crate) active: usize,
    /// Operations, by key, whose transfer waits. Those that are cancelled meanwhile are skipped.
    pub(crate) waiting: VecDeque<u64>,
    /// How many of those, from the front, are still to be looked at since something changed.
    lap: usize,
    /// A [`Task::Transfers`] is on its way.
    kick_queued: bool,
}

/// How starting a transfer ended.
#[derive(PartialEq, Eq)]
enum Started {
    /// It is in progress, or does not need to be any more.
    Yes,
    /// Later.
    NotNow,
}

impl Core {
    /// Starts an operation's transfer, or lets it wait for its turn.
    pub(crate) fn start_transfer(&mut self, methods: &mut Methods, op: u32) {
        let key = self.ops.key(op);
        if self.transfers.kick_queued {
            // Some of those that wait may go now: they are first.
            self.transfers.waiting.push_back(key);
            self.queue_kick();
        } else if self.try_transfer(methods, op) == Started::NotNow {
            self.transfers.waiting.push_back(key);
        }
    }

    /// Something has changed: every waiting transfer is to be looked at once.
    pub(crate) fn queue_kick(&mut self) {
        self.transfers.lap = self.transfers.waiting.len();
        if self.transfers.lap > 0 && !self.transfers.kick_queued {
            self.transfers.kick_queued = true;
            self.tasks.push_back(Task::Transfers);
        }
    }

    /// Starts waiting transfers as far as the throttle allows.
    pub(crate) fn kick_transfers(&mut self, methods: &mut Methods) {
        self.transfers.kick_queued = false;
        for _ in 0..self.transfers.lap.min(KICK_SCAN) {
            let Some(key) = self.transfers.waiting.pop_front() else {
                break;
            };
            self.transfers.lap -= 1;
            if let Some(op) = self.ops.find(key)
                && self.try_transfer(methods, op) == Started::NotNow
            {
                // After a whole lap they stand in their order again.
                self.transfers.waiting.push_back(key);
            }
        }
        if self.transfers.lap > 0 {
            self.transfers.kick_queued = true;
            self.tasks.push_back(Task::Transfers);
        }
    }

    fn try_transfer(&mut self, methods: &mut Methods, op: u32) -> Started {
        // First: a peer may be gone before the caller has asked how its last operation ended.
        if !matches!(
            self.ops[op].state,
            State::Matched(_) | State::ToPush(_) | State::ToMove(_)
        ) {
            return Started::Yes;
        }
        let peer = self.ops[op].peer;
        let entry = &self.peers[peer];
        let Some((method, handle)) = entry.link else {
            return Started::NotNow;
        };
        let throttled = self.transfers.active >= MAX_ACTIVE && entry.transfers > 0;
        if throttled || !entry.is_up() {
            return Started::NotNow;
        }
        let mut cursor = self.ops[op].cursor;
        let Some(transfer) = self.transfer_of(op, &mut cursor) else {
            return Started::Yes;
        };
        match methods.get(method).transfer(handle, transfer) {
            Ok(()) => {
                self.ops[op].cursor = cursor;
                self.peers[peer].transfers += 1;
                self.transfers.active += 1;
                self.note_started(op);
                Started::Yes
            }
            Err(SendError::WouldBlock) => Started::NotNow,
            Err(SendError::Gone(cause)) => {
                self.peers[peer].phase = crate::peer::Phase::Falling;
                let key = self.peers.key(peer);
                self.tasks.push_back(Task::Down(key, cause));
                Started::NotNow
            }
            Err(error) => {
                let error = TransferError::Copy(error.to_string());
                self.transfer_failed(op, error);
                Started::Yes
            }
        }
    }

    /// What the method is to do for an operation.
    fn transfer_of(&self, op: u32, cursor: &mut Cursor) -> Option<Transfer> {
        let entry = &self.ops[op];
        let list = entry.fragments.as_slice();
        let mut transfer = Transfer {
            direction: Direction::Put,
            local: Vec::new(),
            remote: Vec::new(),
            notify: None,
            token: self.ops.key(op),
        };
        match &entry.state {
            State::Matched(incoming) => {
                let announcement = &incoming.announcement;
                transfer.direction = Direction::Get;
                transfer.local = cursor.take(list, announcement.size, usize::MAX);
                transfer.remote = announcement.regions.clone();
                transfer.notify = notify(Kind::Read, announcement.send);
            }
            State::ToPush(clearance) => {
                transfer.local = cursor.take(list, clearance.len, usize::MAX);
                transfer.remote = clearance.regions.clone();
                transfer.notify = notify(Kind::Written, clearance.receive);
            }
            State::ToMove(remote) => {
                transfer.direction = remote.direction;
                transfer.local = cursor.take(list, entry.size, usize::MAX);
                transfer.remote = remote.regions.clone();
            }
            _ => return None,
        }
        Some(transfer)
    }

    fn note_started(&mut self, op: u32) {
        let entry = &mut self.ops[op];
        let state = std::mem::replace(&mut entry.state, State::Finishing);
        entry.state = match state {
            State::Matched(incoming) => State::Pulling(incoming),
            State::ToPush(clearance) => State::Pushing {
                receive: clearance.receive,
                end: clearance.offset + clearance.len,
            },
            _ => State::Moving,
        };
    }

    /// A transfer is complete.
    pub(crate) fn transfer_done(&mut self, token: Token, result: Result<(), TransferError>) {
        self.transfers.active = self.transfers.active.saturating_sub(1);
        self.queue_kick();
        let Some(op) = self.ops.find(token) else {
            return;
        };
        if !matches!(
            self.ops[op].state,
            State::Pulling(_) | State::Pushing { .. } | State::Moving
        ) {
            // It has failed already, with its peer.
            return;
        }
        let entry = &mut self.peers[self.ops[op].peer];
        entry.transfers = entry.transfers.saturating_sub(1);
        match result {
            Ok(()) => self.transfer_succeeded(op),
            Err(error) => self.transfer_failed(op, error),
        }
    }

    fn transfer_succeeded(&mut self, op: u32) {
        let entry = &mut self.ops[op];
        match &entry.state {
            State::Pulling(incoming) => {
                let size = incoming.announcement.size;
                self.finish(op, Ok(size));
            }
            State::Pushing { end, .. } => {
                entry.moved = *end;
                if entry.moved == entry.size {
                    let size = entry.size;
                    self.finish(op, Ok(size));
                } else {
                    entry.state = State::Announced;
                }
            }
            State::Moving => {
                let size = entry.size;
                self.finish(op, Ok(size));
            }
            _ => {}
        }
    }

    /// A sender has closed its memory while we were reading it. If it has cancelled, its word of it
    /// is on its way; if not, it can still write what we could not read.
    fn ask_for_push(&mut self, op: u32) {
        let entry = &mut self.ops[op];
        let state = std::mem::replace(&mut entry.state, State::Finishing);
        entry.state = match state {
            State::Pulling(mut incoming) => {
                incoming.announcement.regions = Vec::new();
                State::Matched(incoming)
            }
            other => other,
        };
        entry.cursor = Cursor::default();
        let key = self.ops.key(op);
        self.tasks.push_back(Task::Clear(key));
    }

    /// The transfer of an operation failed, or cannot be started: tells the other side, which waits
    /// for it.
    fn transfer_failed(&mut self, op: u32, error: TransferError) {
        let entry = &self.ops[op];
        let (peer, withdrawn) = (entry.peer, entry.withdrawn);
        if let TransferError::Peer(cause) = error {
            let error = self.peer_error(peer, cause);
            return self.finish(op, Err(error));
        }
        let theirs = match &entry.state {
            State::Pulling(_) if withdrawn => {
                let key = self.ops.key(op);
                return self.tasks.push_back(Task::Repost(key));
            }
            State::Pulling(_) if error == TransferError::Protection => {
                return self.ask_for_push(op);
            }
            State::Pushing { .. } if withdrawn => {
                return self.finish(op, Err(OpError::Withdrawn));
            }
            State::Pulling(incoming) | State::Matched(incoming) => Some(incoming.announcement.send),
            State::Pushing { receive, .. } => Some(*receive),
            State::ToPush(clearance) => Some(clearance.receive),
            _ => None,
        };
        if let Some(key) = theirs {
            let header = Header::new(Kind::Refuse, key);
            self.queue_control(peer, wire::encode_refusal(header, Refusal::Failed));
        }
        self.finish(op, Err(error.into()));
    }
}

fn notify(kind: Kind, word: u64) -> Option<Vec<u8>> {
    Some(Header::new(kind, word).encode().to_vec())
}
