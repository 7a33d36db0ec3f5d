//! Each change happens once, however often it is asked for (the sessions of NFSv4.1).
//!
//! A client numbers the changes of a slot. The number and the reply are stored in the batch of the
//! change itself, so that they are there exactly if it happened. A repeated request gets the stored
//! reply; an older one is refused. Replies that say "failed" are kept in memory only: nothing
//! happened, and a message from before a restart cannot arrive behind it.

use std::collections::HashMap;

use causeway_wire::codec::Wire;
use causeway_wire::fs::{Errno, Failure, Operation, Reply, Request};
use causeway_wire::store::{Key, SessionRecord, session_key};

use super::fault::{Outcome, corrupt, malformed};
use super::overlay::Overlay;
use super::store::{View, prefix_end};
use crate::sabotage::{self, Sabotage};

/// A slot that was used within this many seconds is not given up for another one.
const MIN_IDLE_S: i64 = 60;
/// Idle slots are looked for at most this often, in seconds.
const SWEEP_INTERVAL_S: i64 = 10;
/// Most slots forgotten in one sweep, which is part of some request's batch.
const MAX_SWEPT: usize = 4096;

/// What is remembered of a slot's last change.
#[derive(Debug, Clone)]
struct Slot {
    sequence: u64,
    used: i64,
    last: Last,
}

#[derive(Debug, Clone)]
enum Last {
    /// It happened, and the reply is stored.
    Stored,
    /// It failed with this reply.
    Failed(Failure),
    /// It may be done again: nothing is kept.
    Repeatable,
}

/// All slots.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    slots: HashMap<(u128, u16), Slot>,
    next_sweep: i64,
}

/// What is to be done with a request.
pub(super) enum Verdict {
    /// Execute it.
    New,
    /// Answer this.
    Answered(Reply),
}

/// Whether doing it twice is the same as doing it once, so that no reply need be stored.
fn repeatable(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::BeginUnstuff { .. }
            | Operation::FinishUnstuff { .. }
            | Operation::FinishTruncate { .. }
            | Operation::Extend { .. }
            | Operation::Commit
            | Operation::Check { .. }
    )
}

impl Sessions {
    /// Reads the slots that a store knows.
    pub(super) fn load(view: &dyn View) -> Outcome<Self> {
        let mut slots = HashMap::new();
        for pair in view.range(b"s", &prefix_end(b"s")) {
            let (key, value) = pair?;
            let Ok(Key::Session(client, slot)) = Key::parse(&key) else {
                continue;
            };
            let record = match SessionRecord::from_bytes(&value) {
                Ok(record) => record,
                Err(error) => {
                    tracing::error!(
                        "the session of client {client:032x}, slot {slot}, is damaged ({error}): if its last \
                         change is asked for again, it is done again"
                    );
                    continue;
                }
            };
            let slot_state = Slot {
                sequence: record.sequence,
                used: record.used,
                last: Last::Stored,
            };
            slots.insert((client, slot), slot_state);
        }
        Ok(Self {
            slots,
            next_sweep: 0,
        })
    }

    /// Decides about a request that changes something.
    pub(super) fn admit(
        &mut self,
        view: &dyn View,
        request: &Request,
        now: i64,
        max_sessions: usize,
    ) -> Verdict {
        if request.sequence == 0 {
            return Verdict::New;
        }
        let answered = |result| Verdict::Answered(Reply { result });
        let Some(slot) = self.slots.get_mut(&(request.client, request.slot)) else {
            if self.slots.len() >= max_sessions {
                return answered(Err(Failure {
                    errno: Errno::RETRY,
                    message: format!("{max_sessions} clients' slots are in use; wait a minute"),
                }));
            }
            return Verdict::New;
        };
        slot.used = now;
        if request.sequence > slot.sequence || sabotage::is_on(Sabotage::ForgetReplies) {
            return Verdict::New;
        }
        if request.sequence < slot.sequence {
            return answered(Err(Failure {
                errno: Errno::STALE_SEQUENCE,
                message: format!(
                    "slot {} has done change {} already; {} comes too late",
                    request.slot, slot.sequence, request.sequence
                ),
            }));
        }
        match &slot.last {
            Last::Failed(failure) => answered(Err(failure.clone())),
            Last::Repeatable => Verdict::New,
            Last::Stored => match stored_reply(view, request) {
                Ok(reply) => Verdict::Answered(reply),
                Err(failure) => answered(Err(failure)),
            },
        }
    }

    /// Remembers a reply, and stores it with the request's changes if it says that something happened.
    pub(super) fn remember(
        &mut self,
        state: &mut Overlay,
        request: &Request,
        reply: &Reply,
        now: i64,
    ) {
        if request.sequence == 0 {
            return;
        }
        let last = match &reply.result {
            _ if repeatable(&request.operation) => Last::Repeatable,
            Err(failure) => Last::Failed(failure.clone()),
            Ok(_) => {
                let record = SessionRecord {
                    sequence: request.sequence,
                    used: now,
                    reply: reply.to_bytes(),
                };
                state.put(session_key(request.client, request.slot), record.to_bytes());
                Last::Stored
            }
        };
        let slot = Slot {
            sequence: request.sequence,
            used: now,
            last,
        };
        self.slots.insert((request.client, request.slot), slot);
    }

    /// Whether a change happened according to the store, whatever became of its batch; its reply then.
    pub(super) fn settled(&self, view: &dyn View, request: &Request) -> Option<Reply> {
        let slot = self.slots.get(&(request.client, request.slot))?;
        let same = request.sequence != 0 && slot.sequence == request.sequence;
        match (same, &slot.last) {
            (true, Last::Stored) => stored_reply(view, request).ok(),
            _ => None,
        }
    }

    /// Forgets slots that were idle for a lifetime, or for a minute if there are too many.
    pub(super) fn sweep(
        &mut self,
        state: &mut Overlay,
        now: i64,
        lifetime_s: u32,
        max_sessions: usize,
    ) {
        if now < self.next_sweep && now > self.next_sweep - 2 * SWEEP_INTERVAL_S {
            return;
        }
        self.next_sweep = now.saturating_add(SWEEP_INTERVAL_S);
        let crowded = self.slots.len() >= max_sessions;
        let lifetime = match crowded {
            true => MIN_IDLE_S,
            false => i64::from(lifetime_s).max(MIN_IDLE_S),
        };
        let idle: Vec<_> = self
            .slots
            .iter()
            .filter(|(_, slot)| now.saturating_sub(slot.used) > lifetime)
            .map(|(key, _)| *key)
            .take(MAX_SWEPT)
            .collect();
        for (client, slot) in idle {
            self.slots.remove(&(client, slot));
            state.remove(session_key(client, slot));
        }
    }

    /// How many slots are remembered.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }
}

fn stored_reply(view: &dyn View, request: &Request) -> Outcome<Reply> {
    let damaged = || malformed(format_args!("the session of slot {}", request.slot).to_string());
    let key = session_key(request.client, request.slot);
    let bytes = view.get(&key)?.unwrap_or_default();
    let record = SessionRecord::from_bytes(&bytes).map_err(damaged())?;
    if record.sequence != request.sequence {
        return Err(corrupt(format_args!(
            "the session of slot {} keeps the reply to change {}, not to {}",
            request.slot, record.sequence, request.sequence
        )));
    }
    Reply::from_bytes(&record.reply).map_err(damaged())
}
