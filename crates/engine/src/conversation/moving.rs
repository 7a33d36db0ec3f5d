//! Transfers of remote memory that operations need: what the method is to do, and how its results
//! are handled.

use causeway_sys::memory::Memory;
use causeway_transport::{Cursor, Direction, NotifyPacket, Spans, Transfer, TransferError};
use causeway_wire::bmi::{self as wire, Header, Kind, Refusal};
use causeway_wire::region::{RegionDescriptor, Regions};

use super::Conversation;
use super::rendezvous::refusal;
use crate::matcher::Matcher;
use crate::operation::{Op, OpKind, State};
use crate::shared::{Shared, Work};
use crate::transfers::{Remainder, Transfers};
use crate::types::OpError;

/// Whether an operation's transfer has yet to be started.
pub(crate) fn is_to_move(op: &Op) -> bool {
    match op.state {
        // One that is withdrawn is about to be matched again.
        State::Matched(_) => !op.withdrawn,
        State::ToPush(_) | State::ToWrite(_) | State::ToMove(_) => true,
        _ => false,
    }
}

/// Whether an operation's transfer, or a part of it, was started.
pub(crate) fn is_moving(op: &Op) -> bool {
    matches!(
        op.state,
        State::Pulling(_) | State::Pushing { .. } | State::Writing(_) | State::Moving
    )
}

/// A short step to carry out for the peer whose packet was just handled.
#[derive(Debug)]
pub(crate) enum Short<'a> {
    /// Read one whole region of the peer's into the first bytes of memory, and notify the peer.
    Read {
        local: &'a Memory,
        remote: &'a RegionDescriptor,
        notify: NotifyPacket,
    },
    /// End the one export of a message that is complete.
    Revoke { key: u64 },
}

impl Conversation {
    /// See [`Conversations::peek_short`](crate::Conversations::peek_short).
    pub(crate) fn short_of<'a, M>(&self, shared: &'a Shared<M>) -> Option<Short<'a>> {
        match shared.work.back()? {
            Work::Transfers => {
                let entry = &shared.ops[shared.ops.find(shared.transfers.only()?)?];
                let State::Matched(incoming) = &entry.state else {
                    return None;
                };
                if entry.withdrawn {
                    return None;
                }
                let ([local], [remote]) = (
                    entry.fragments.as_slice(),
                    &incoming.announcement.regions[..],
                ) else {
                    return None;
                };
                let is_its = entry.peer == self.id && entry.kind == OpKind::Receive;
                let is_whole = remote.len == incoming.announcement.size && entry.moved == 0;
                (is_its && is_whole && self.may_transfer(shared)).then(|| Short::Read {
                    local,
                    remote,
                    notify: packet(Kind::Read, incoming.announcement.send),
                })
            }
            Work::Finish(op, Ok(_)) => {
                let entry = &shared.ops[shared.ops.find(*op)?];
                // Otherwise the driver first looks for copies that the peer waits for.
                let is_message = entry.kind == OpKind::Send
                    || entry.kind == OpKind::Receive && self.limits.one_sided;
                let is_its = entry.peer == self.id && is_message;
                match (&entry.state, &entry.exports[..]) {
                    (State::Finishing, &[key]) if is_its => Some(Short::Revoke { key }),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// What [`Conversation::short_of`] returned has been done; a peer whose memory was read has
    /// been notified.
    pub(crate) fn handle_short_done<M: Matcher>(&mut self, shared: &mut Shared<M>) {
        match shared.work.pop_back() {
            Some(Work::Transfers) => {
                let op = shared.transfers.take_only();
                let Some(op) = op.and_then(|key| shared.ops.find(key)) else {
                    return;
                };
                shared.ops[op].queued = false;
                if let State::Matched(incoming) = &shared.ops[op].state {
                    let size = incoming.announcement.size;
                    self.finish(shared, op, Ok(size));
                }
            }
            Some(Work::Finish(key, result)) => {
                if let Some(op) = shared.ops.find(key) {
                    shared.ops[op].exports.clear();
                    self.clear_next(shared);
                    self.complete(shared, op, result);
                }
            }
            _ => {}
        }
    }

    /// Whether another transfer may be started.
    pub(crate) fn may_transfer<M>(&self, shared: &Shared<M>) -> bool {
        self.is_up() && shared.transfers.may_start(self.transfers)
    }

    /// The next transfer that the method is to start for an operation, and what remains to be
    /// transferred after it.
    pub(crate) fn transfer_of<M>(
        &self,
        shared: &Shared<M>,
        op: u32,
    ) -> Option<(Transfer, Remainder)> {
        let entry = &shared.ops[op];
        let max_list = self.limits.max_list;
        if is_moving(entry) {
            let (part, rest) = shared.transfers.next_part(shared.ops.key(op), max_list)?;
            let cursor = entry.cursor;
            return Some((part, Remainder { cursor, rest }));
        }
        let list = entry.fragments.as_slice();
        let mut cursor = entry.cursor;
        let mut transfer = Transfer {
            direction: Direction::Put,
            local: Spans::new(),
            remote: Regions::new(),
            registrations: Vec::new(),
            notify: None,
            token: shared.ops.key(op),
        };
        match &entry.state {
            State::Matched(incoming) => {
                let announcement = &incoming.announcement;
                transfer.direction = Direction::Get;
                transfer.local = cursor.take_spans(list, announcement.size, usize::MAX);
                transfer.remote = announcement.regions.clone();
                transfer.notify = notify(Kind::Read, announcement.send);
            }
            State::ToPush(clearance) => {
                transfer.local = cursor.take_spans(list, clearance.len, usize::MAX);
                transfer.remote = clearance.regions.clone();
                transfer.notify = notify(Kind::Written, clearance.receive);
            }
            State::ToWrite(offer) => {
                transfer.local = cursor.take_spans(list, entry.size, usize::MAX);
                transfer.remote = std::iter::once(offer.region.part(0, entry.size)).collect();
                let packet = wire::send_complete(offer.receive, entry.size);
                transfer.notify = Some(NotifyPacket::from_slice(&packet));
            }
            State::ToMove(remote) => {
                transfer.direction = remote.direction;
                transfer.local = cursor.take_spans(list, entry.size, usize::MAX);
                transfer.remote = remote.regions.clone();
            }
            _ => return None,
        }
        let (transfer, rest) = Transfers::first_part(transfer, max_list);
        Some((transfer, Remainder { cursor, rest }))
    }

    /// The method has accepted the transfer of an operation.
    pub(crate) fn transfer_started<M>(
        &mut self,
        shared: &mut Shared<M>,
        op: u32,
        behind: Remainder,
    ) {
        shared.transfers.started(&mut self.transfers);
        let key = shared.ops.key(op);
        shared.transfers.part_started(key, behind.rest);
        let entry = &mut shared.ops[op];
        if is_moving(entry) {
            return;
        }
        entry.cursor = behind.cursor;
        let state = std::mem::replace(&mut entry.state, State::Finishing);
        entry.state = match state {
            State::Matched(incoming) => State::Pulling(incoming),
            State::ToPush(clearance) => State::Pushing {
                receive: clearance.receive,
                end: clearance.offset + clearance.len,
            },
            State::ToWrite(offer) => State::Writing(offer),
            _ => State::Moving,
        };
    }

    /// A transfer of an operation is complete.
    pub(crate) fn handle_transfer_done<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        op: u32,
        result: Result<(), TransferError>,
    ) {
        let key = shared.ops.key(op);
        if !is_moving(&shared.ops[op]) {
            // It has already failed, with its peer.
            return shared.transfers.forget_parts(key);
        }
        shared.transfers.ended(&mut self.transfers);
        self.has_moved = true;
        let is_cut = shared.transfers.is_cut(key);
        if is_cut && result.is_err() {
            shared.transfers.forget_parts(key);
        }
        match result {
            Ok(()) if is_cut => shared.start_transfer(op),
            Ok(()) => self.transfer_succeeded(shared, op),
            Err(error) => self.transfer_failed(shared, op, error),
        }
    }

    fn transfer_succeeded<M: Matcher>(&mut self, shared: &mut Shared<M>, op: u32) {
        let entry = &mut shared.ops[op];
        let size = match &entry.state {
            State::Pulling(incoming) => incoming.announcement.size,
            State::Pushing { end, .. } => {
                entry.moved = *end;
                if entry.moved == entry.size {
                    entry.size
                } else if entry.withdrawn {
                    // No other part will be cleared.
                    return self.finish(shared, op, Err(OpError::Withdrawn));
                } else {
                    entry.state = State::Announced;
                    return;
                }
            }
            State::Writing(_) => {
                self.write_succeeded(shared);
                shared.ops[op].size
            }
            _ => entry.size,
        };
        self.finish(shared, op, Ok(size));
    }

    /// A sender has ended its export while we were reading it. If it has cancelled, its notice of
    /// that is on the way; if not, it can still write what we could not read.
    fn ask_for_push<M: Matcher>(&mut self, shared: &mut Shared<M>, op: u32) {
        let entry = &mut shared.ops[op];
        if let State::Pulling(mut incoming) = std::mem::replace(&mut entry.state, State::Finishing)
        {
            entry.cursor = Cursor::default();
            incoming.announcement.regions = Regions::new();
            self.clear(shared, op, incoming);
        }
    }

    /// The transfer of an operation failed, or cannot be started: notifies the other side, which
    /// waits for it.
    pub(crate) fn transfer_failed<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        op: u32,
        error: TransferError,
    ) {
        if let State::ToWrite(_) | State::Writing(_) = &shared.ops[op].state {
            return self.write_failed(shared, op, error);
        }
        if let TransferError::Peer(cause) = error {
            let error = self.lost(cause);
            return self.finish(shared, op, Err(error));
        }
        let entry = &shared.ops[op];
        let theirs = match &entry.state {
            State::Pulling(_) if entry.withdrawn => {
                let key = shared.ops.key(op);
                return shared.work.push_back(Work::Rematch(key));
            }
            State::Pulling(_) if error == TransferError::Protection => {
                return self.ask_for_push(shared, op);
            }
            State::Pushing { .. } if entry.withdrawn => {
                return self.finish(shared, op, Err(OpError::Withdrawn));
            }
            // A receiver ends its export before its message by cancelling, and its notice of that
            // may come later. It is told nevertheless: one that waits has another reason.
            State::Pushing { receive, .. } if error == TransferError::Protection => {
                self.queue_control(shared, refusal(*receive, Refusal::Failed));
                return self.finish(shared, op, Err(OpError::Withdrawn));
            }
            State::Pulling(incoming) | State::Matched(incoming) => Some(incoming.announcement.send),
            State::Pushing { receive, .. } => Some(*receive),
            State::ToPush(clearance) => Some(clearance.receive),
            _ => None,
        };
        if let Some(key) = theirs {
            self.queue_control(shared, refusal(key, Refusal::Failed));
        }
        self.finish(shared, op, Err(error.into()));
    }
}

fn notify(kind: Kind, word: u64) -> Option<NotifyPacket> {
    Some(packet(kind, word))
}

/// A packet of a header alone.
fn packet(kind: Kind, word: u64) -> NotifyPacket {
    NotifyPacket::from_slice(&Header::new(kind, word).encode())
}
