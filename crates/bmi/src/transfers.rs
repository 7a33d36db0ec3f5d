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

/// Waiting transfers that are looked at in one go.
const KICK_SCAN: usize = 64;

/// Transfers in progress and waiting.
#[derive(Default)]
pub(crate) struct Transfers {
    /// How many the methods have accepted and not completed.
    pub(crate) active: usize,
    /// Operations, by key, whose transfer waits. Those that are cancelled meanwhile are skipped.
    pub(crate) waiting: VecDeque<u64>,
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
        if !self.transfers.waiting.is_empty() || self.try_transfer(methods, op) == Started::NotNow {
            self.transfers.waiting.push_back(key);
            self.tasks.push_back(Task::Transfers);
        }
    }

    /// Starts waiting transfers as far as the throttle allows.
    pub(crate) fn kick_transfers(&mut self, methods: &mut Methods) {
        let scan = self.transfers.waiting.len().min(KICK_SCAN);
        let mut kept = VecDeque::new();
        for _ in 0..scan {
            let Some(key) = self.transfers.waiting.pop_front() else {
                break;
            };
            if let Some(op) = self.ops.find(key)
                && self.try_transfer(methods, op) == Started::NotNow
            {
                kept.push_back(key);
            }
        }
        if kept.len() < KICK_SCAN {
            // All were looked at: they keep their order.
            kept.append(&mut self.transfers.waiting);
            self.transfers.waiting = kept;
        } else {
            self.transfers.waiting.append(&mut kept);
        }
    }

    fn try_transfer(&mut self, methods: &mut Methods, op: u32) -> Started {
        let peer = self.ops[op].peer;
        let entry = &self.peers[peer];
        if !matches!(
            self.ops[op].state,
            State::Matched(_) | State::ToPush(_) | State::ToMove(_)
        ) {
            return Started::Yes;
        }
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
        if !self.transfers.waiting.is_empty() {
            self.tasks.push_back(Task::Transfers);
        }
        let Some(op) = self.ops.find(token) else {
            return;
        };
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
