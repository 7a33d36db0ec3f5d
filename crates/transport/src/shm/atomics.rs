//! Remote atomics of one pair.
//!
//! Where the word is in memory of the peer's that is mapped here, this process performs the
//! operation itself, announced like a write (`regions`), and the peer takes no part. Otherwise it
//! sends the owner an internal packet, and the owner performs the operation when it polls:
//! cross-memory attach copies, and no copy is atomic. Both are instructions of a processor on the
//! same word, so that they are atomic with regard to each other.

use std::collections::VecDeque;

use causeway_wire::codec::Wire;
use causeway_wire::shm::{ATOMIC_WINDOW, AtomicRequest, Internal, SlotKind};

use super::pair::{Pair, Stage};
use crate::error::{PeerError, TransferError};
use crate::method::{Atomic, Direction, Outcome, Peer, Sink, Token, perform, result_of};

/// Operations that may be in progress with one peer.
const MAX_ATOMICS: usize = 4096;

/// The atomics of one pair, in both directions.
#[derive(Default)]
pub(super) struct Atomics {
    /// Requested by this side. Allocated when needed, as most pairs never need it.
    own: Option<Box<OwnAtomics>>,
    /// Replies for which the ring had no room: at most [`ATOMIC_WINDOW`].
    unsent: VecDeque<(u64, Outcome)>,
}

#[derive(Default)]
struct OwnAtomics {
    next_id: u64,
    /// Not begun.
    waiting: VecDeque<Atomic>,
    /// Requested from the owner.
    asked: Vec<(u64, Token)>,
    done: VecDeque<(Token, Result<u64, TransferError>)>,
    /// An atomic was refused for lack of room.
    caller_waits: bool,
}

impl OwnAtomics {
    fn len(&self) -> usize {
        self.waiting.len() + self.asked.len() + self.done.len()
    }
}

impl Atomics {
    /// Adds an operation; `false` if there are too many.
    pub(super) fn start(&mut self, atomic: Atomic) -> bool {
        let own = self.own.get_or_insert_default();
        if own.len() >= MAX_ATOMICS {
            own.caller_waits = true;
            return false;
        }
        own.waiting.push_back(atomic);
        true
    }

    /// Whether [`step`] has something to do, unless the ring is full.
    #[inline]
    pub(super) fn has_work(&self) -> bool {
        self.own.as_deref().is_some_and(|own| {
            !own.done.is_empty() || !own.waiting.is_empty() && own.asked.len() < ATOMIC_WINDOW
        })
    }

    /// Reports completed atomics.
    fn deliver(&mut self, peer: Peer, sink: &mut dyn Sink) {
        let Some(own) = self.own.as_deref_mut() else {
            return;
        };
        while let Some((token, result)) = own.done.pop_front() {
            sink.atomic_done(peer, token, result);
        }
        if own.caller_waits && own.len() <= MAX_ATOMICS / 2 {
            own.caller_waits = false;
            sink.writable(peer);
        }
    }

    /// Completes everything with an error: the peer is gone.
    pub(super) fn fail_all(&mut self, peer: Peer, cause: &PeerError, sink: &mut dyn Sink) {
        self.deliver(peer, sink);
        let Some(own) = self.own.take() else { return };
        let asked = own.asked.into_iter().map(|(_, token)| token);
        let waiting = own.waiting.into_iter().map(|atomic| atomic.token);
        for token in asked.chain(waiting) {
            sink.atomic_done(peer, token, Err(TransferError::Peer(cause.clone())));
        }
    }
}

/// Begins waiting atomics, as far as there is room, and reports completed ones.
pub(super) fn step(pair: &mut Pair, peer: Peer, sink: &mut dyn Sink) {
    if pair.stage == Stage::Up {
        while begin_one(pair) {}
    }
    pair.atomics.deliver(peer, sink);
}

/// Performs the first waiting operation, or requests it from the owner. `false` if there is none,
/// or no room.
fn begin_one(pair: &mut Pair) -> bool {
    let Some(own) = pair.atomics.own.as_deref_mut() else {
        return false;
    };
    let Some(&atomic) = own.waiting.front() else {
        return false;
    };
    let done = match atomic.mistake() {
        Some(error) => Some(Err(error)),
        None => perform_here(pair, &atomic).map(result_of),
    };
    let Some(own) = pair.atomics.own.as_deref_mut() else {
        return false;
    };
    if let Some(result) = done {
        own.waiting.pop_front();
        own.done.push_back((atomic.token, result));
        return true;
    }
    if own.asked.len() >= ATOMIC_WINDOW {
        return false;
    }
    let id = own.next_id;
    let request = Internal::Atomic(AtomicRequest {
        id,
        key: atomic.word.key,
        base: atomic.word.base,
        operation: atomic.operation,
    })
    .to_bytes();
    if !pair.publish(SlotKind::Internal, &request[..], request.len()) {
        return false;
    }
    if let Some(own) = pair.atomics.own.as_deref_mut() {
        own.next_id += 1;
        own.waiting.pop_front();
        own.asked.push((id, atomic.token));
    }
    true
}

/// Performs an operation on a word that is mapped here; `None` if it is not.
fn perform_here(pair: &mut Pair, atomic: &Atomic) -> Option<Outcome> {
    let word = atomic.word;
    let memory = pair.find_object(word.object?, word.base, word.len)?;
    pair.imports.announce(&[word.key]);
    let permission = pair.imports.check(word.key, word.base, word.len);
    let allowed = permission
        .is_some_and(|given| given.allows(Direction::Get) && given.allows(Direction::Put));
    let outcome = match allowed {
        true => perform(atomic.operation, &memory),
        false => Outcome::Protection,
    };
    pair.imports.release(&[word.key]);
    Some(outcome)
}

/// Performs an operation at the peer's request.
pub(super) fn serve(pair: &mut Pair, request: &AtomicRequest) -> Result<(), PeerError> {
    if pair.atomics.unsent.len() >= ATOMIC_WINDOW {
        return Err(PeerError::Protocol(
            "it requests more atomics than the window allows".to_owned(),
        ));
    }
    let exports = &pair.exports;
    let may = |direction| exports.find(request.key, request.base, Atomic::BYTES, direction);
    let outcome = match may(Direction::Get).and(may(Direction::Put)) {
        Some(memory) => perform(request.operation, &memory),
        None => Outcome::Protection,
    };
    pair.atomics.unsent.push_back((request.id, outcome));
    send_replies(pair);
    Ok(())
}

/// Sends the waiting replies, as far as there is room.
pub(super) fn send_replies(pair: &mut Pair) {
    while let Some(&(id, outcome)) = pair.atomics.unsent.front() {
        let reply = Internal::AtomicDone { id, outcome }.to_bytes();
        if !pair.publish(SlotKind::Internal, &reply[..], reply.len()) {
            return;
        }
        pair.atomics.unsent.pop_front();
    }
}

/// Handles the owner's reply.
pub(super) fn take_reply(pair: &mut Pair, id: u64, outcome: Outcome) -> Result<(), PeerError> {
    let asked = pair.atomics.own.as_deref_mut().and_then(|own| {
        let at = own.asked.iter().position(|(asked, _)| *asked == id)?;
        Some((own.asked.swap_remove(at).1, own))
    });
    let Some((token, own)) = asked else {
        return Err(PeerError::Protocol(
            "it replies to an atomic that was not sent".to_owned(),
        ));
    };
    own.done.push_back((token, result_of(outcome)));
    Ok(())
}
