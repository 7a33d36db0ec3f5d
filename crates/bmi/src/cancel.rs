//! Cancelling: an operation gives its memory back as soon as nobody can touch it any more.
//!
//! Where the peer may be reading or writing the memory, the peer is told, if there is room to tell it
//! now, and the export is ended, which takes effect whatever the peer does. Where we are copying
//! ourselves the operation completes as it would have.

use causeway_wire::bmi::{self as wire, Header, Kind, Refusal};

use crate::core::Core;
use crate::eager::is_unexpected;
use crate::op::State;
use crate::types::OpError;

impl Core {
    /// Cancels an operation.
    pub(crate) fn cancel(&mut self, op: u32) {
        let entry = &mut self.ops[op];
        let (peer, tag) = (entry.peer, entry.tag);
        let key = self.ops.key(op);
        self.touch(peer);
        let state = &mut self.ops[op].state;
        match state {
            State::Posted => {
                self.file_receives(peer);
                self.unfile(op);
                self.complete(op, Err(OpError::Cancelled));
            }
            State::Matched(_) => {
                let taken = std::mem::replace(state, State::Finishing);
                self.complete(op, Err(OpError::Cancelled));
                if let State::Matched(incoming) = taken {
                    self.unmatch(peer, tag, incoming);
                }
            }
            State::Cleared { incoming, .. } => {
                let header = Header::new(Kind::Refuse, incoming.announcement.send);
                let packet = wire::encode_refusal(header, Refusal::Cancelled);
                self.queue_control(peer, packet);
                self.finish(op, Err(OpError::Cancelled));
            }
            State::Queued => {
                let entry = &mut self.peers[peer];
                let queue = if is_unexpected(self.ops[op].what) {
                    &mut entry.unexpected
                } else {
                    &mut entry.expected
                };
                queue.retain(|queued| *queued != op);
                self.complete(op, Err(OpError::Cancelled));
                // What stood behind it may go now.
                self.mark_dirty(peer);
            }
            State::Announced | State::ToPush(_) => {
                self.unannounce(op);
                self.queue_bare(peer, Kind::Withdraw, key);
                self.finish(op, Err(OpError::Cancelled));
            }
            State::ToMove(_) => self.complete(op, Err(OpError::Cancelled)),
            State::Pulling(_)
            | State::Pushing { .. }
            | State::Moving
            | State::Finishing
            | State::Done => {}
        }
    }
}
