//! Leases on names and attributes, which let programs cache them: which program holds which, which leases are recalled, and
//! which changes must wait for that. No I/O, no clock.
//!
//! A change of something on which other programs hold leases is not carried out at once: its changes are undone before they are committed, its request waits
//! ([`Table::begin_wait`]), and the leases are recalled. Each ends when its holder confirms the recall, or when its time is over. Until the change has been
//! carried out no program gets a new lease on the same. So when the change is carried out, no program caches the former state any more.
//!
//! Reading and granting are one step, under the lock of the table; so are checking a batch's changes and noting what it is about to change. Therefore
//! either the change finds the lease, or the lease is on the state after the change. Only one kind of change is made without this: removing objects
//! that have no names and that no program has open. Leases on their attributes end with their time.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use causeway_wire::fs::{Leased, MAX_RECALLED};

use crate::locks::lock;

/// Most leases of all programs. Each takes some 200 bytes.
const MAX_LEASES: usize = 1 << 18;
/// Most leases of one program.
const MAX_OF_HOLDER: usize = 1 << 16;
/// Leases that renames may have beyond these limits.
const RESERVE: usize = 1 << 13;
/// Most programs that hold leases.
const MAX_HOLDERS: usize = 1 << 13;
/// How often the pause of a program that carries out no recalls doubles.
const MAX_DOUBLINGS: u32 = 6;

/// The leases of a metadata server, as its threads share them.
pub(crate) struct CacheLeases(Mutex<Table>);

impl CacheLeases {
    /// A table that grants leases for this time; it grants none if that is zero.
    pub(crate) fn new(time: Duration) -> Self {
        Self(Mutex::new(Table::new(time)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Table> {
        lock(&self.0)
    }
}

/// See the module.
pub(crate) struct Table {
    time: Duration,
    most: usize,
    leases: HashMap<Arc<Leased>, HashMap<u128, Lease>>,
    count: usize,
    /// Leases in the order in which they expire, including those that have ended or were renewed
    /// since.
    expiries: VecDeque<(Instant, u128, Arc<Leased>)>,
    holders: HashMap<u128, Holder>,
    /// Holders to which a recall may have to be sent.
    recall_queue: VecDeque<u128>,
    /// The number of the lease that was granted last.
    last_number: u64,
    /// What changes wait for.
    awaited: HashMap<Leased, Awaited>,
    /// Those among the awaited on which leases have ended so that some change may be possible now: at most one holder is left, which may
    /// itself be the one that makes the change.
    freed: HashSet<Arc<Leased>>,
    /// Whether the batch that is being carried out notes what it changes; `None` while there is no
    /// batch.
    batch: Option<bool>,
    /// What the batch changes, each with the number of the last change to it.
    changing: HashMap<Leased, u64>,
    /// The number of changes of the batch that were noted.
    changes: u64,
    /// The disk has a record that there may be leases, for the next start of the server.
    is_on_record: bool,
}

/// A lease of one holder.
#[derive(Clone, Copy)]
struct Lease {
    until: Instant,
    /// Distinguishes it from later leases of the same holder on the same.
    number: u64,
    is_recalled: bool,
}

/// How leases are granted.
struct Terms {
    /// If leases of the holder last for at least this time, none is renewed.
    enough: Duration,
    /// By this number, the usual limits may be exceeded.
    reserve: usize,
    /// They come with the reply to a change of the holder's, which may have waited for the leases of others on the same.
    is_of_change: bool,
}

/// Changes that wait until there are no leases on something, or are being made after such a wait.
#[derive(Default)]
struct Awaited {
    count: usize,
    /// The program whose change is being made.
    changer: Option<u128>,
}

/// A program that holds leases.
#[derive(Default)]
struct Holder {
    /// Recalls can be sent to it.
    is_reachable: bool,
    /// It uses leases that come with the replies to changes.
    accepts_leases_of_changes: bool,
    leases: HashSet<Arc<Leased>>,
    /// Leases to be recalled.
    due: VecDeque<(Arc<Leased>, u64)>,
    /// The recall that was sent and is not carried out yet.
    sent: Vec<(Arc<Leased>, u64)>,
    /// When it was sent.
    sent_at: Option<Instant>,
    recalls: u64,
    /// Leases expired although it had time enough to end them: until it replies, it gets no others, which would delay other
    /// programs again.
    is_silent: bool,
    /// How many recalls in a row it has not carried out in time: each doubles the pause that follows.
    missed: u32,
    /// It gets no leases before this instant.
    pauses_until: Option<Instant>,
}

impl Holder {
    /// Whether it has had time enough to carry out the recall that was sent: a quarter of the `time` of a lease.
    fn had_time(&self, now: Instant, time: Duration) -> bool {
        self.sent_at
            .is_some_and(|sent_at| sent_at + time / 4 <= now)
    }
}

impl Table {
    fn new(time: Duration) -> Self {
        Self {
            time,
            most: MAX_LEASES,
            leases: HashMap::new(),
            count: 0,
            expiries: VecDeque::new(),
            holders: HashMap::new(),
            recall_queue: VecDeque::new(),
            last_number: 0,
            awaited: HashMap::new(),
            freed: HashSet::new(),
            batch: None,
            changing: HashMap::new(),
            changes: 0,
            is_on_record: false,
        }
    }

    /// Notes that the disk has a record that there may be leases, for the next start of the server: from now on, leases
    /// may also be granted with changes.
    pub(crate) fn note_record(&mut self) {
        self.is_on_record = true;
    }

    /// Takes what changes wait for and on which leases have ended since the last call, so that the
    /// changes may be possible now.
    pub(crate) fn take_freed(&mut self, now: Instant) -> HashSet<Arc<Leased>> {
        self.expire(now);
        std::mem::take(&mut self.freed)
    }

    /// Whether no program holds a lease any more.
    pub(crate) fn is_empty(&mut self, now: Instant) -> bool {
        self.expire(now);
        self.count == 0
    }

    /// Notes that recalls can be sent to a program from now on; those that it may have missed are sent again. Returns whether the program
    /// is known, as their number is limited.
    pub(crate) fn set_reachable(&mut self, holder: u128) -> bool {
        if self.holders.len() >= MAX_HOLDERS && !self.holders.contains_key(&holder) {
            return false;
        }
        let known = self.holders.entry(holder).or_default();
        known.is_reachable = true;
        known.is_silent = false;
        let sent = std::mem::take(&mut known.sent);
        for lease in sent.into_iter().rev() {
            known.due.push_front(lease);
        }
        if !known.due.is_empty() {
            self.recall_queue.push_back(holder);
        }
        true
    }

    /// Notes whether a program uses leases that come with the replies to changes.
    pub(crate) fn note_acceptance(&mut self, holder: u128, accepts_leases_of_changes: bool) {
        if let Some(known) = self.holders.get_mut(&holder) {
            known.accepts_leases_of_changes = accepts_leases_of_changes;
        }
    }

    /// Notes that recalls cannot be sent to a program any more. Its leases stay: it may still rely
    /// on them.
    pub(crate) fn set_unreachable(&mut self, holder: u128) {
        if let Some(known) = self.holders.get_mut(&holder) {
            known.is_reachable = false;
            if known.leases.is_empty() {
                self.holders.remove(&holder);
            }
        }
    }

    /// Ends all leases of a program, which has said that it caches nothing any more.
    pub(crate) fn end_all(&mut self, holder: u128) {
        let Some(known) = self.holders.get_mut(&holder) else {
            return;
        };
        known.due.clear();
        known.sent.clear();
        let leases = std::mem::take(&mut known.leases);
        if !known.is_reachable {
            self.holders.remove(&holder);
        }
        for on in leases {
            self.remove(holder, &on);
        }
    }

    /// Removes a lease, and notes if changes may be possible without it.
    fn remove(&mut self, holder: u128, on: &Arc<Leased>) -> Option<Lease> {
        let holders = self.leases.get_mut(on)?;
        let removed = holders.remove(&holder)?;
        self.count -= 1;
        if holders.len() <= 1 && self.awaited.contains_key(on) {
            self.freed.insert(Arc::clone(on));
        }
        if holders.is_empty() {
            self.leases.remove(on);
        }
        Some(removed)
    }

    /// Grants a program leases on what was read under the same lock, all or none. Returns their time.
    pub(crate) fn grant(
        &mut self,
        holder: u128,
        on: Vec<Leased>,
        now: Instant,
    ) -> Option<Duration> {
        // With this limit, each lease is among the expiries only a few times.
        let terms = Terms {
            enough: self.time * 3 / 4,
            reserve: 0,
            is_of_change: false,
        };
        self.grant_all(holder, on, now, &terms)
    }

    /// Grants a program leases on the state after its own change, all or none, right after the end of the batch and under the same lock. They last for the
    /// whole time, so that none ends before a lease that the program has had on a name which it has renamed. Without a lease on the new name, the program
    /// would have to wait for the end of the former lease: so there is a reserve for renames.
    pub(crate) fn grant_of_change(
        &mut self,
        holder: u128,
        on: Vec<Leased>,
        is_rename: bool,
        now: Instant,
    ) -> Option<Duration> {
        let accepts = self.holders.get(&holder)?.accepts_leases_of_changes;
        if !self.is_on_record || !accepts {
            return None;
        }
        let terms = Terms {
            enough: self.time,
            reserve: if is_rename { RESERVE } else { 0 },
            is_of_change: true,
        };
        self.grant_all(holder, on, now, &terms)
    }

    /// Grants leases, all or none.
    fn grant_all(
        &mut self,
        holder: u128,
        on: Vec<Leased>,
        now: Instant,
        terms: &Terms,
    ) -> Option<Duration> {
        self.expire(now);
        // A batch that does not note its changes may be changing just this.
        if self.batch == Some(false) || self.time.is_zero() {
            return None;
        }
        let is_own = |awaited: &Awaited| {
            terms.is_of_change && awaited.count == 1 && awaited.changer == Some(holder)
        };
        let is_free = |on: &Leased| {
            !self.changing.contains_key(on) && self.awaited.get(on).is_none_or(is_own)
        };
        let known = self.holders.get(&holder)?;
        let lease_on = |on: &Leased| self.leases.get(on)?.get(&holder);
        // The holder is about to end such a lease.
        let is_recalled = |on: &Leased| lease_on(on).is_some_and(|lease| lease.is_recalled);
        let new = on.iter().filter(|on| lease_on(on).is_none()).count();
        let has_room = self.count + new <= self.most + terms.reserve
            && known.leases.len() + new <= MAX_OF_HOLDER + terms.reserve
            && self.expiries.len() < self.most.saturating_mul(4);
        // The holder is not yet late with the recall that was sent, regardless of its leases.
        let replies = known.sent.is_empty() || !known.had_time(now, self.time);
        let may_hold = known.is_reachable
            && !known.is_silent
            && replies
            && known.pauses_until.is_none_or(|until| until <= now);
        let are_free = on.iter().all(|on| is_free(on) && !is_recalled(on));
        if !may_hold || !has_room || !are_free {
            return None;
        }
        let left_of =
            |on: &Leased| lease_on(on).map(|lease| lease.until.saturating_duration_since(now));
        let shortest = on.iter().map(left_of).min().flatten();
        if let Some(left) = shortest.filter(|left| *left >= terms.enough) {
            return Some(left);
        }
        // All of them: what is asked for later must not last for less long than what was granted before, as the holder would have to wait for the end of that
        // ([`Table::grant_of_change`]).
        for on in on {
            self.grant_one(holder, on, now);
        }
        Some(self.time)
    }

    fn grant_one(&mut self, holder: u128, on: Leased, now: Instant) {
        let on = match self.leases.get_key_value(&on) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::new(on),
        };
        self.last_number += 1;
        let until = now + self.time;
        let lease = Lease {
            until,
            number: self.last_number,
            is_recalled: false,
        };
        let holders = self.leases.entry(Arc::clone(&on)).or_default();
        if holders.insert(holder, lease).is_none() {
            self.count += 1;
            if let Some(holder) = self.holders.get_mut(&holder) {
                holder.leases.insert(Arc::clone(&on));
            }
        }
        self.expiries.push_back((until, holder, on));
    }

    /// Begins a batch of changes.
    pub(crate) fn begin_batch(&mut self) {
        self.batch = Some(!self.holders.is_empty());
    }

    /// Notes that the batch makes a change, on behalf of a program that may itself hold leases. Fails with what the change alters if
    /// others hold leases on some of that: then the change must not be made. Returns the change's number in the batch, 0 if it is not
    /// noted.
    pub(crate) fn admit(
        &mut self,
        changer: Option<u128>,
        alters: impl Iterator<Item = Leased>,
        now: Instant,
    ) -> Result<u64, Vec<Leased>> {
        if self.batch != Some(true) {
            return Ok(0);
        }
        self.expire(now);
        let alters: Vec<Leased> = alters.collect();
        match self.has_others(changer, &alters) {
            true => Err(alters),
            false => {
                self.changes += 1;
                let number = self.changes;
                self.changing
                    .extend(alters.into_iter().map(|on| (on, number)));
                Ok(number)
            }
        }
    }

    /// Whether no later change of the batch than the one with this number has altered this.
    pub(crate) fn was_last(&self, number: u64, on: &Leased) -> bool {
        self.changing.get(on).is_none_or(|last| *last <= number)
    }

    /// Stops granting leases until the [end of a batch](Self::end_batch), because changes are made, or may have been made,
    /// that are not noted.
    pub(crate) fn suspend(&mut self) {
        self.batch = Some(false);
        self.changing.clear();
        self.changes = 0;
    }

    /// Ends a batch that is committed, or has failed.
    pub(crate) fn end_batch(&mut self) {
        self.batch = None;
        self.changing.clear();
        self.changes = 0;
    }

    fn has_others(&self, changer: Option<u128>, alters: &[Leased]) -> bool {
        alters.iter().any(|on| {
            self.leases.get(on).is_some_and(|holders| {
                let own = changer.is_some_and(|changer| holders.contains_key(&changer));
                holders.len() > usize::from(own)
            })
        })
    }

    /// Begins a change's wait for the leases of others: they are recalled, and no program gets new ones on the same. Returns the time
    /// by which they have expired.
    pub(crate) fn begin_wait(
        &mut self,
        changer: Option<u128>,
        alters: &[Leased],
        now: Instant,
    ) -> Instant {
        self.expire(now);
        let mut until = now;
        for on in alters {
            self.awaited.entry(on.clone()).or_default().count += 1;
            let Some((on, _)) = self.leases.get_key_value(on) else {
                continue;
            };
            let on = Arc::clone(on);
            let others = self.leases.get_mut(&on).into_iter().flatten();
            for (&holder, lease) in others.filter(|(holder, _)| Some(**holder) != changer) {
                until = until.max(lease.until);
                let is_recalled = std::mem::replace(&mut lease.is_recalled, true);
                let known = self.holders.get_mut(&holder);
                if let Some(known) = known.filter(|_| !is_recalled) {
                    if known.due.is_empty() {
                        self.recall_queue.push_back(holder);
                    }
                    known.due.push_back((Arc::clone(&on), lease.number));
                }
            }
        }
        until
    }

    /// Whether a change that waits may be made, because no others hold leases on what it alters.
    pub(crate) fn is_free(
        &mut self,
        changer: Option<u128>,
        alters: &[Leased],
        now: Instant,
    ) -> bool {
        self.expire(now);
        !self.has_others(changer, alters)
    }

    /// Notes that a change is made which has waited. Its program gets leases on the state after it, unless other changes wait for the same.
    pub(crate) fn begin_change(&mut self, changer: Option<u128>, alters: &[Leased]) {
        for on in alters {
            if let Some(awaited) = self.awaited.get_mut(on) {
                awaited.changer = changer;
            }
        }
    }

    /// Ends the wait of a change, which has been made, or is given up.
    pub(crate) fn end_wait(&mut self, alters: &[Leased]) {
        for on in alters {
            if let Some(awaited) = self.awaited.get_mut(on) {
                awaited.count -= 1;
                awaited.changer = None;
                if awaited.count == 0 {
                    self.awaited.remove(on);
                    self.freed.remove(on);
                }
            }
        }
    }

    /// A holder to which a recall may have to be sent, if there is one.
    pub(crate) fn next_holder(&mut self) -> Option<u128> {
        self.recall_queue.pop_front()
    }

    /// The next recall for a holder, with its number; nothing if an earlier one is not carried out yet, or
    /// nothing has to be recalled.
    pub(crate) fn next_recall(&mut self, holder: u128, now: Instant) -> Option<(u64, Vec<Leased>)> {
        let known = self.holders.get_mut(&holder)?;
        if !known.sent.is_empty() || !known.is_reachable {
            return None;
        }
        while known.sent.len() < MAX_RECALLED
            && let Some((on, number)) = known.due.pop_front()
        {
            let holders = self.leases.get(&on);
            let lease = holders.and_then(|holders| holders.get(&holder));
            // Other leases have expired.
            if lease.is_some_and(|lease| lease.number == number) {
                known.sent.push((on, number));
            }
        }
        if known.sent.is_empty() {
            return None;
        }
        known.recalls += 1;
        known.sent_at = Some(now);
        let leases = known.sent.iter().map(|(on, _)| Leased::clone(on));
        Some((known.recalls, leases.collect()))
    }

    /// Notes that a holder has carried out all recalls up to this number.
    pub(crate) fn end_recall(&mut self, holder: u128, number: u64) {
        let Some(known) = self.holders.get_mut(&holder) else {
            return;
        };
        if number != known.recalls {
            return;
        }
        known.is_silent = false;
        let sent = std::mem::take(&mut known.sent);
        if !known.due.is_empty() {
            self.recall_queue.push_back(holder);
        }
        let mut is_in_time = false;
        for (on, number) in sent {
            let ended = self.end(holder, &on, |lease| lease.number == number);
            is_in_time |= ended.is_some();
        }
        if is_in_time && let Some(known) = self.holders.get_mut(&holder) {
            known.missed = known.missed.saturating_sub(1);
        }
    }

    /// Ends the leases whose time is over.
    fn expire(&mut self, now: Instant) {
        while let Some((until, ..)) = self.expiries.front()
            && *until <= now
            && let Some((_, holder, on)) = self.expiries.pop_front()
        {
            let ended = self.end(holder, &on, |lease| lease.until <= now);
            // A holder has not missed a recall that was not sent, or was sent just before the end.
            if let Some(ended) = ended
                && let Some(known) = self.holders.get_mut(&holder)
                && !known.is_silent
                && ended.is_recalled
                && !known.sent.is_empty()
                && known.had_time(ended.until, self.time)
            {
                known.is_silent = true;
                let pause = self
                    .time
                    .saturating_mul(1 << known.missed.min(MAX_DOUBLINGS));
                known.missed = known.missed.saturating_add(1);
                known.pauses_until = Some(ended.until + pause);
            }
        }
    }

    /// Ends a lease, if there is one and `is_it`. Returns it.
    fn end(
        &mut self,
        holder: u128,
        on: &Arc<Leased>,
        is_it: impl FnOnce(&Lease) -> bool,
    ) -> Option<Lease> {
        let holders = self.leases.get(on)?;
        if !holders.get(&holder).is_some_and(is_it) {
            return None;
        }
        let ended = self.remove(holder, on);
        if let Some(known) = self.holders.get_mut(&holder) {
            known.leases.remove(on);
            if known.leases.is_empty() && !known.is_reachable {
                self.holders.remove(&holder);
            }
        }
        ended
    }
}

#[cfg(test)]
mod tests;
