//! Each change is carried out once, however often it is requested (the sessions of NFSv4.1).
//!
//! A client numbers the changes of a slot. The number and the reply are stored in the batch of the
//! change itself, so that they are stored exactly if the change was. A repeated request gets the stored
//! reply; an older one is refused. Replies with failures are kept in memory only: nothing
//! was changed, and a message from before a restart cannot arrive after it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use causeway_wire::codec::Wire;
use causeway_wire::fs::formats::STORED_REPLIES;
use causeway_wire::fs::{Errno, Failure, Operation, Reply, Request};
use causeway_wire::store::{Key, SessionRecord, session_key};

use super::fault::{Outcome, corrupt, fail, malformed};
use super::overlay::Overlay;
use super::query::read_record;
use super::store::{View, prefix_end};
use crate::locks::lock;
use crate::sabotage::{self, Sabotage};

/// Most slots of one client: changes that it has in progress at once.
pub(super) const MAX_SLOTS: u16 = 64;
/// The longest time-out of a client for which replies are kept, in seconds.
const MAX_TIMEOUT_S: u32 = 3601;
/// Replies are kept for this many seconds more than twice the longest time-out: for requests that are still in flight when
/// a client's time-out ends, and for those that wait here.
const LEASE_MARGIN_S: u32 = 30;
/// Idle slots are swept at most this often, in seconds, unless there is no room for another one.
const SWEEP_INTERVAL_S: u64 = 10;
/// Most slots that are forgotten in one sweep, which is part of some request's batch.
const MAX_SWEPT: usize = 4096;
/// Most clients whose end is remembered until the next sweep; the lease ends the sessions of others.
const MAX_ENDED: usize = 64 << 10;

/// For how long an idle slot is remembered: as long as any client may repeat a change, by the time-outs
/// that clients send with their greeting, or until its client ends. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Leases(Arc<LeaseState>);

#[derive(Debug, Default)]
struct LeaseState {
    seconds: AtomicU32,
    /// Clients that have ended since the last sweep.
    ended: Mutex<Vec<u128>>,
}

impl Leases {
    /// A client may repeat a request for this many seconds. Fails if that is longer than replies can be kept.
    pub fn extend(&self, timeout_s: u32) -> Result<(), Failure> {
        if timeout_s > MAX_TIMEOUT_S {
            return fail(
                Errno::EINVAL,
                format!(
                    "a time-out of {timeout_s} s is longer than replies are kept, {MAX_TIMEOUT_S} s: choose a \
                     shorter one"
                ),
            );
        }
        self.keep(timeout_s.saturating_mul(2).saturating_add(LEASE_MARGIN_S));
        Ok(())
    }

    fn keep(&self, lease_s: u32) {
        self.0.seconds.fetch_max(lease_s, Ordering::Relaxed);
    }

    fn seconds(&self) -> u32 {
        self.0.seconds.load(Ordering::Relaxed).max(LEASE_MARGIN_S)
    }

    /// Releases a client's slots: it will not repeat a change.
    pub fn end(&self, client: u128) {
        let mut ended = lock(&self.0.ended);
        if ended.len() < MAX_ENDED {
            ended.push(client);
        }
    }

    /// Takes some clients that have ended.
    fn take_ended(&self, most: usize) -> Vec<u128> {
        let mut ended = lock(&self.0.ended);
        let kept = ended.len().saturating_sub(most);
        ended.split_off(kept)
    }
}

/// A slot's last change.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    sequence: u64,
    /// When it was used last, by the clock of [`Sessions`].
    used: u64,
    last: Last,
    /// The user who made the last change; `None` if that was before a restart.
    uid: Option<u32>,
}

#[derive(Debug, Clone)]
pub(super) enum Last {
    /// The change was carried out, and the reply is stored.
    Stored,
    /// The change failed with this reply.
    Failed(Failure),
    /// The change may be carried out again: no reply is kept.
    Repeatable,
}

/// Of how many parts of all slots one user's slots may be one, once half of all slots are in use: without a bound, one user could have all
/// changes of others refused.
const USERS: usize = 8;

/// Slots by client and number.
pub(super) type Slots = HashMap<(u128, u16), Slot>;

/// All slots. Their clock is monotonic and the process's own: no clock that is set ends a lease, and with a restart
/// all leases begin again.
#[derive(Debug)]
pub(super) struct Sessions {
    slots: Slots,
    /// How many of them each user has.
    of_user: HashMap<u32, usize>,
    pub(super) leases: Leases,
    started: Instant,
    /// Seconds by which tests have advanced the clock.
    passed: u64,
    next_sweep: u64,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            slots: Slots::default(),
            of_user: HashMap::new(),
            leases: Leases::default(),
            started: Instant::now(),
            passed: 0,
            next_sweep: 0,
        }
    }
}

/// The decision about a request.
pub(super) enum Verdict {
    /// Execute it.
    New,
    /// Send this reply.
    Done(Reply),
}

/// Whether carrying it out twice has the same result as once, so that no reply need be stored.
fn repeatable(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::BeginUnstuff { .. }
            | Operation::LieLike { .. }
            | Operation::FinishUnstuff { .. }
            | Operation::FinishTruncate { .. }
            | Operation::Extend { .. }
            | Operation::Commit
            | Operation::Check { .. }
    )
}

impl Sessions {
    /// Reads the slots in a store.
    pub(super) fn reload(&mut self, view: &dyn View) -> Outcome<()> {
        let (mut slots, now) = (HashMap::new(), self.now());
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
                used: now,
                last: Last::Stored,
                uid: None,
            };
            self.leases.keep(record.lease_s);
            slots.insert((client, slot), slot_state);
        }
        self.slots = slots;
        self.of_user.clear();
        Ok(())
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_secs() + self.passed
    }

    /// Takes out all slots, to be put back later.
    pub(super) fn take_slots(&mut self) -> Slots {
        std::mem::take(&mut self.slots)
    }

    /// Puts back the slots that were taken out.
    pub(super) fn put_slots(&mut self, slots: Slots) {
        self.of_user.clear();
        for uid in slots.values().filter_map(|slot| slot.uid) {
            *self.of_user.entry(uid).or_default() += 1;
        }
        self.slots = slots;
    }

    /// Decides about a request that changes something.
    pub(super) fn admit(
        &mut self,
        view: &dyn View,
        request: &Request,
        max_sessions: usize,
    ) -> Verdict {
        if request.sequence == 0 {
            return Verdict::New;
        }
        let done = |result| Verdict::Done(Reply { result });
        if request.slot >= MAX_SLOTS {
            return done(fail(
                Errno::EINVAL,
                format!(
                    "slot {}: a client has {MAX_SLOTS} slots, numbered from 0",
                    request.slot
                ),
            ));
        }
        let now = self.now();
        let Some(slot) = self.slots.get_mut(&(request.client, request.slot)) else {
            if let Err(failure) = self.check_share(request.caller.uid, max_sessions) {
                return done(Err(failure));
            }
            if self.slots.len() >= max_sessions {
                // Idle slots make room at the end of this batch.
                self.next_sweep = 0;
                return done(fail(
                    Errno::RETRY,
                    format!(
                        "{max_sessions} clients' slots are in use, each of which is kept for {} s after its last change",
                        self.leases.seconds()
                    ),
                ));
            }
            return Verdict::New;
        };
        slot.used = now;
        if request.sequence > slot.sequence || sabotage::is_on(Sabotage::ForgetReplies) {
            return Verdict::New;
        }
        if request.sequence < slot.sequence {
            return done(fail(
                Errno::STALE_SEQUENCE,
                format!(
                    "slot {} has done change {} already; {} comes too late",
                    request.slot, slot.sequence, request.sequence
                ),
            ));
        }
        match &slot.last {
            Last::Failed(failure) => done(Err(failure.clone())),
            Last::Repeatable => Verdict::New,
            Last::Stored => match stored_reply(view, request) {
                Ok(reply) => Verdict::Done(reply),
                Err(failure) => done(Err(failure)),
            },
        }
    }

    /// Refuses a user one more slot who has their share of them, where half of all are in use. Root has no share: nobody acts for root who may not do
    /// everything.
    fn check_share(&mut self, uid: u32, max_sessions: usize) -> Outcome<()> {
        let own = self.of_user.get(&uid).copied().unwrap_or(0);
        if uid == 0 || self.slots.len() < max_sessions / 2 || own < max_sessions / USERS {
            return Ok(());
        }
        self.next_sweep = 0;
        fail(
            Errno::RETRY,
            format!(
                "user {uid} has {own} slots of clients in use, each of which is kept for {} s after its last change, and others need some",
                self.leases.seconds()
            ),
        )
    }

    /// Remembers a reply, and stores it with the request's changes if it is not a failure.
    pub(super) fn remember(&mut self, state: &mut Overlay, request: &Request, reply: &Reply) {
        if request.sequence == 0 {
            return;
        }
        let now = self.now();
        let last = match &reply.result {
            _ if repeatable(&request.operation) => Last::Repeatable,
            Err(failure) => Last::Failed(failure.clone()),
            Ok(_) => {
                let record = SessionRecord {
                    sequence: request.sequence,
                    lease_s: self.leases.seconds(),
                    reply: reply.to_bytes(reply.lowest_format().max(STORED_REPLIES)),
                };
                state.put(session_key(request.client, request.slot), record.to_bytes());
                Last::Stored
            }
        };
        let uid = request.caller.uid;
        let slot = Slot {
            sequence: request.sequence,
            used: now,
            last,
            uid: Some(uid),
        };
        *self.of_user.entry(uid).or_default() += 1;
        let former = self.slots.insert((request.client, request.slot), slot);
        self.release(former);
    }

    /// Whether the store has a change, even if its batch was reported as failed. Returns its reply
    /// then.
    pub(super) fn stored_reply(&self, view: &dyn View, request: &Request) -> Option<Reply> {
        let slot = self.slots.get(&(request.client, request.slot))?;
        let same = request.sequence != 0 && slot.sequence == request.sequence;
        match (same, &slot.last) {
            (true, Last::Stored) => stored_reply(view, request).ok(),
            _ => None,
        }
    }

    /// Forgets slots that were released, and those whose lease has ended: no client still waits
    /// for their replies.
    pub(super) fn sweep(&mut self, state: &mut Overlay) {
        for client in self.leases.take_ended(MAX_SWEPT / usize::from(MAX_SLOTS)) {
            for slot in 0..MAX_SLOTS {
                self.forget((client, slot), state);
            }
        }
        let now = self.now();
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + SWEEP_INTERVAL_S;
        let lease = u64::from(self.leases.seconds());
        let idle: Vec<_> = self
            .slots
            .iter()
            .filter(|(_, slot)| now.saturating_sub(slot.used) > lease)
            .map(|(key, _)| *key)
            .take(MAX_SWEPT)
            .collect();
        if idle.len() == MAX_SWEPT {
            self.next_sweep = now;
        }
        for key in idle {
            self.forget(key, state);
        }
    }

    fn forget(&mut self, key: (u128, u16), state: &mut Overlay) {
        let former = self.slots.remove(&key);
        if former.is_some() {
            state.remove(session_key(key.0, key.1));
        }
        self.release(former);
    }

    /// Counts a slot no more as its user's.
    fn release(&mut self, former: Option<Slot>) {
        let Some(uid) = former.and_then(|slot| slot.uid) else {
            return;
        };
        if let Some(own) = self.of_user.get_mut(&uid) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                self.of_user.remove(&uid);
            }
        }
    }

    /// Advances the clock.
    #[cfg(test)]
    pub(super) fn pass_time(&mut self, seconds: u64) {
        self.passed += seconds;
    }

    /// The number of slots that are remembered.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }
}

fn stored_reply(view: &dyn View, request: &Request) -> Outcome<Reply> {
    let what = format!("the session of slot {}", request.slot);
    let key = session_key(request.client, request.slot);
    let record: SessionRecord = read_record(view, &key, &what)?;
    if record.sequence != request.sequence {
        return Err(corrupt(format_args!(
            "the session of slot {} keeps the reply to change {}, not to {}",
            request.slot, record.sequence, request.sequence
        )));
    }
    let (reply, _) = Reply::from_bytes(&record.reply).map_err(malformed(what))?;
    Ok(reply)
}
