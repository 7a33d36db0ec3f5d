//! Remote atomics: a request and a reply, each one short frame.
//!
//! The requester keeps at most [`ATOMIC_WINDOW`] of them outstanding; the owner performs each as it
//! arrives and keeps only the replies that are to be sent.

use std::collections::VecDeque;

use causeway_sys::net::Piece;
use causeway_wire::codec::Wire;
use causeway_wire::tcp::{ATOMIC_WINDOW, Header, Kind};

use super::{Session, violation};
use crate::error::{PeerError, SendError, TransferError};
use crate::method::{Atomic, Direction, Operation, Outcome, Peer, Sink, Token, perform, result_of};

#[derive(Debug, Default)]
pub(super) struct Atomics {
    /// Not sent yet.
    waiting: VecDeque<Atomic>,
    /// Sent, without a reply yet.
    sent: Vec<(u64, Token)>,
    /// Ended without a reply from the peer.
    done: VecDeque<(Token, TransferError)>,
}

impl Atomics {
    /// Takes the tokens of all that have not ended, and forgets them.
    pub(super) fn take_tokens(&mut self) -> Vec<Token> {
        let sent = self.sent.drain(..).map(|(_, token)| token);
        let waiting = self.waiting.drain(..).map(|atomic| atomic.token);
        sent.chain(waiting).collect()
    }

    pub(super) fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    pub(super) fn can_issue(&self) -> bool {
        self.sent.len() < ATOMIC_WINDOW && !self.waiting.is_empty()
    }
}

/// Atomics that this side requests.
impl Session {
    /// Queues an atomic operation.
    pub fn atomic(&mut self, atomic: Atomic) -> Result<(), SendError> {
        if self.transfers >= self.bounds.max_transfers {
            self.blocked = true;
            return Err(SendError::WouldBlock);
        }
        self.transfers += 1;
        match atomic.mistake() {
            Some(error) => self.atomics.done.push_back((atomic.token, error)),
            None => self.atomics.waiting.push_back(atomic),
        }
        Ok(())
    }

    pub(super) fn issue_atomics(&mut self) {
        while self.atomics.can_issue() {
            let Some(atomic) = self.atomics.waiting.pop_front() else {
                return;
            };
            let id = self.number();
            self.atomics.sent.push((id, atomic.token));
            let payload = atomic.operation.to_bytes();
            let mut header = Header::new(Kind::Atomic, payload.len())
                .with_id(id)
                .with_base(atomic.word.base);
            header.key = atomic.word.key;
            self.main
                .outbox
                .push_short(&header.encode(), &[Piece::Bytes(&payload)], 0);
        }
    }

    /// Reports those that have ended without a reply from the peer. Returns whether there were any.
    pub(super) fn deliver_atomics(&mut self, peer: Peer, sink: &mut dyn Sink) -> bool {
        let any = self.atomics.has_done();
        while let Some((token, error)) = self.atomics.done.pop_front() {
            self.transfers -= 1;
            sink.atomic_done(peer, token, Err(error));
        }
        any
    }

    pub(super) fn atomic_done(
        &mut self,
        header: &Header,
        payload: &[u8],
        peer: Peer,
        sink: &mut dyn Sink,
    ) -> Result<(), PeerError> {
        let outcome =
            Outcome::from_bytes(payload).map_err(|error| PeerError::Protocol(error.to_string()))?;
        let sent = &mut self.atomics.sent;
        let Some(at) = sent.iter().position(|(id, _)| *id == header.id) else {
            return Err(violation("it replies to an atomic that was not sent"));
        };
        let (_, token) = sent.swap_remove(at);
        self.transfers -= 1;
        sink.atomic_done(peer, token, result_of(outcome));
        Ok(())
    }

    /// Reports every atomic that has not ended as failed: the peer is lost.
    pub(super) fn fail_atomics(&mut self, cause: &PeerError, peer: Peer, sink: &mut dyn Sink) {
        self.deliver_atomics(peer, sink);
        for token in self.atomics.take_tokens() {
            self.transfers -= 1;
            sink.atomic_done(peer, token, Err(TransferError::Peer(cause.clone())));
        }
    }
}

/// Atomics that the peer requests.
impl Session {
    pub(super) fn serve_atomic(
        &mut self,
        header: &Header,
        payload: &[u8],
    ) -> Result<(), PeerError> {
        let operation = Operation::from_bytes(payload)
            .map_err(|error| PeerError::Protocol(error.to_string()))?;
        let may = |direction| self.exported(header.key, header.base, Atomic::BYTES, direction);
        let outcome = match may(Direction::Get).and(may(Direction::Put)) {
            Some(memory) => perform(operation, &memory),
            None => Outcome::Protection,
        };
        let payload = outcome.to_bytes();
        let reply = Header::new(Kind::AtomicDone, payload.len()).with_id(header.id);
        self.main.outbox.push_reply(&reply, &payload);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
