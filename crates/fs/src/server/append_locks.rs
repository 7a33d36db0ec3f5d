//! The append locks of files: one client at a time has the append lock of a file, the others wait in the order of their requests. Clients take it to
//! append, and for atomic accesses (docs/mpi-io.md). Each grant has a number, higher than those of all earlier ones, which the client's writes carry.
//!
//! Revoking a lock is always safe: writes that its client has sent under it are refused once others have written under a later one
//! ([`super::seen_append_locks`]), and only the client that has the lock moves the end of the file.
//!
//! No request waits for long: a client is told to retry after [`PATIENCE`]. Its place is kept until then, so that it comes behind none
//! that asked after it. While it is absent, the lock is granted to the next one that is present.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use causeway_wire::fs::ObjectId;

/// Most clients that wait, over all files.
const MAX_WAITING: usize = 4096;
/// Most files whose append locks are held or waited for at one time.
const MAX_FILES: usize = 4096;
/// Most clients whose last released lock is remembered.
const MAX_RELEASED: usize = 16 << 10;
/// How long a request for a lock waits, at most: short beside a time-out, and since the client does nothing else meanwhile. A client whose time-out is
/// not longer, and whose server has a longer one, takes the server for a silent one.
const PATIENCE: Duration = Duration::from_millis(500);

/// A client that waits. `A` is its connection, `R` the data needed to reply to it.
#[derive(Debug)]
struct Waiter<A, R> {
    client: u128,
    from: A,
    /// `None` while the client is absent, told to retry.
    reply: Option<R>,
    /// When it requested the lock last, or was told to retry.
    since: Instant,
}

/// The client that has the append lock of a file, and the clients that wait for it.
#[derive(Debug)]
struct File<A, R> {
    /// The number of the grant; 0 while no client has the lock.
    lock: u64,
    client: u128,
    from: A,
    since: Instant,
    /// A request that releases the lock is being carried out: the lock is not revoked.
    is_releasing: bool,
    /// By their places, in whose order they get the lock.
    waiting: BTreeMap<u64, Waiter<A, R>>,
    /// How many of these are present.
    present: usize,
    /// When the lock has to be revoked, which is the key in [`AppendLocks::due`].
    due: Option<Instant>,
}

impl<A, R> File<A, R> {
    /// Whether a client that is present waits.
    fn is_wanted(&self) -> bool {
        self.present > 0
    }
}

/// The last lock of each client that it has released by a request, which may come again. If there are too many, the oldest locks are forgotten.
#[derive(Debug, Default)]
struct Released {
    of_clients: HashMap<u128, u64>,
    /// The same, by the number of the lock: these ascend.
    in_order: BTreeMap<u64, u128>,
}

impl Released {
    fn note(&mut self, lock: u64, client: u128) {
        if let Some(before) = self.of_clients.insert(client, lock) {
            self.in_order.remove(&before);
        }
        self.in_order.insert(lock, client);
        if self.in_order.len() > MAX_RELEASED
            && let Some((_, oldest)) = self.in_order.pop_first()
        {
            self.of_clients.remove(&oldest);
        }
    }
}

/// The append locks of all files.
#[derive(Debug)]
pub(super) struct AppendLocks<A, R> {
    files: HashMap<ObjectId, File<A, R>>,
    /// The file whose lock each client has. A client appends to one file at a time.
    held: HashMap<u128, ObjectId>,
    released: Released,
    /// Places in all files.
    waiting: usize,
    /// Those of clients that are present and may be told to retry, by when they requested the lock.
    timeouts: BTreeMap<(Instant, u64), ObjectId>,
    /// Those of clients that are absent, by when they were told to retry.
    absent: BTreeMap<(Instant, u64), ObjectId>,
    last_place: u64,
    /// Files by the time at which their locks have to be revoked.
    due: BTreeSet<(Instant, ObjectId)>,
    last: u64,
    /// Where others wait, a client has a lock for no longer than this, and a place for no longer while it is absent.
    longest: Duration,
    /// Whether a client knows that it may be told to retry.
    may_retry: fn(&R) -> bool,
}

impl<A: Copy, R> AppendLocks<A, R> {
    /// All locks are numbered above `first`, which is above those of earlier runs of the server. Only clients that `may_retry` are told to retry.
    pub(super) fn new(first: u64, longest: Duration, may_retry: fn(&R) -> bool) -> Self {
        Self {
            files: HashMap::new(),
            held: HashMap::new(),
            released: Released::default(),
            waiting: 0,
            timeouts: BTreeMap::new(),
            absent: BTreeMap::new(),
            last_place: 0,
            due: BTreeSet::new(),
            last: first,
            longest,
            may_retry,
        }
    }

    /// Has a client wait, at its place if it was told to retry. [`AppendLocks::grant_next`] grants it the lock. A client that requests a lock has no other
    /// one any more: returns the file whose lock it lost thereby. With too many, changes nothing, and fails with what it was given.
    pub(super) fn wait(
        &mut self,
        object: ObjectId,
        (client, from): (u128, A),
        reply: R,
        now: Instant,
    ) -> Result<Option<ObjectId>, R> {
        if self.files.len() >= MAX_FILES || self.waiting >= MAX_WAITING {
            self.forget(now);
        }
        let longest = self.longest;
        let is_its = |waiter: &Waiter<A, R>| {
            waiter.client == client && waiter.reply.is_none() && waiter.since + longest > now
        };
        let file = self.files.get(&object);
        let place = file.and_then(|file| {
            let mut waiting = file.waiting.iter();
            waiting.find_map(|(place, waiter)| is_its(waiter).then_some((*place, waiter.since)))
        });
        let is_full = || {
            let no_file = file.is_none() && self.files.len() >= MAX_FILES;
            self.waiting >= MAX_WAITING || no_file
        };
        if place.is_none() && is_full() {
            return Err(reply);
        }
        let given_up = self.held.get(&client).copied();
        let given_up = given_up.filter(|object| {
            let lock = self.files.get(object).map_or(0, |file| file.lock);
            self.release_lost(*object, lock)
        });
        let place = match place {
            Some((place, since)) => {
                self.absent.remove(&(since, place));
                place
            }
            None => {
                self.waiting += 1;
                self.last_place += 1;
                self.last_place
            }
        };
        if (self.may_retry)(&reply) {
            self.timeouts.insert((now, place), object);
        }
        let file = self.files.entry(object).or_insert_with(|| File {
            lock: 0,
            client,
            from,
            since: now,
            is_releasing: false,
            waiting: BTreeMap::new(),
            present: 0,
            due: None,
        });
        let waiter = Waiter {
            client,
            from,
            reply: Some(reply),
            since: now,
        };
        file.waiting.insert(place, waiter);
        file.present += 1;
        self.note_due(object);
        Ok(given_up)
    }

    /// Grants the lock to the first waiting client that is present, if no client has it.
    pub(super) fn grant_next(&mut self, object: ObjectId, now: Instant) -> Option<(u64, R)> {
        let file = self.files.get_mut(&object)?;
        if file.lock != 0 {
            return None;
        }
        if file.waiting.is_empty() {
            self.files.remove(&object);
            return None;
        }
        let mut waiting = file.waiting.iter();
        let (&first, _) = waiting.find(|(_, waiter)| waiter.reply.is_some())?;
        let Waiter {
            client,
            from,
            reply,
            since,
        } = file.waiting.remove(&first)?;
        let reply = reply?;
        self.timeouts.remove(&(since, first));
        file.present -= 1;
        self.waiting -= 1;
        self.last += 1;
        (file.lock, file.since) = (self.last, now);
        (file.client, file.from) = (client, from);
        self.held.insert(client, object);
        self.note_due(object);
        Some((self.last, reply))
    }

    /// Releases a lock, unless it was released before.
    pub(super) fn release(&mut self, object: ObjectId, lock: u64) -> bool {
        let Some(file) = self.files.get_mut(&object) else {
            return false;
        };
        if file.lock != lock || lock == 0 {
            return false;
        }
        (file.lock, file.is_releasing) = (0, false);
        let client = file.client;
        if self.held.get(&client) == Some(&object) {
            self.held.remove(&client);
        }
        let is_unused = file.waiting.is_empty();
        self.note_due(object);
        if is_unused {
            self.files.remove(&object);
        }
        true
    }

    /// Releases the lock of a client that is gone, unless its own request to release it is being carried out: that may still move the end of
    /// the file, so the next lock is granted after it. Returns whether the lock was released.
    pub(super) fn release_lost(&mut self, object: ObjectId, lock: u64) -> bool {
        let file = self.files.get(&object);
        file.is_some_and(|file| !file.is_releasing) && self.release(object, lock)
    }

    /// Notes that a client releases its lock by a request that is being carried out. Returns whether it has it.
    pub(super) fn begin_release(&mut self, object: ObjectId, lock: u64, client: u128) -> bool {
        match self.files.get_mut(&object) {
            Some(file) if lock != 0 && file.lock == lock && file.client == client => {
                let is_first = !file.is_releasing;
                file.is_releasing = true;
                self.note_due(object);
                is_first
            }
            _ => false,
        }
    }

    /// Whether a client has a lock that no request releases yet: then the lock is renewed.
    pub(super) fn renew(
        &mut self,
        object: ObjectId,
        lock: u64,
        client: u128,
        now: Instant,
    ) -> bool {
        match self.files.get_mut(&object) {
            Some(file)
                if lock != 0
                    && file.lock == lock
                    && file.client == client
                    && !file.is_releasing =>
            {
                file.since = now;
                self.note_due(object);
                true
            }
            _ => false,
        }
    }

    /// What a client has the lock for had to wait for others: its lock is renewed.
    pub(super) fn renew_held(&mut self, client: u128, now: Instant) {
        if let Some(&object) = self.held.get(&client)
            && let Some(file) = self.files.get_mut(&object)
        {
            file.since = now;
            self.note_due(object);
        }
    }

    /// Notes that a client has released its lock by a request that may come again.
    pub(super) fn note_released(&mut self, lock: u64, client: u128) {
        self.released.note(lock, client);
    }

    /// Whether this was the last lock that the client has released so.
    pub(super) fn was_released(&self, lock: u64, client: u128) -> bool {
        self.released.of_clients.get(&client) == Some(&lock)
    }

    /// When the next client has waited for as long as one request may, of those that may be told to retry.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let (first, _) = self.timeouts.first_key_value()?;
        Some(first.0 + self.patience())
    }

    fn patience(&self) -> Duration {
        PATIENCE.min(self.longest)
    }

    /// Takes those clients, which have to retry; each keeps its place for a time.
    pub(super) fn take_timed_out(&mut self, now: Instant) -> Vec<R> {
        self.forget_places(now);
        let mut timed_out = Vec::new();
        while self.next_timeout().is_some_and(|due| due <= now)
            && let Some(((_, place), object)) = self.timeouts.pop_first()
        {
            let file = self.files.get_mut(&object);
            let Some(file) = file else { continue };
            let waiter = file.waiting.get_mut(&place);
            if let Some(waiter) = waiter
                && let Some(reply) = waiter.reply.take()
            {
                waiter.since = now;
                file.present -= 1;
                self.absent.insert((now, place), object);
                timed_out.push(reply);
                self.note_due(object);
            }
        }
        timed_out
    }

    /// Forgets places whose clients have been absent for too long.
    fn forget_places(&mut self, now: Instant) {
        while let Some((&(since, _), _)) = self.absent.first_key_value()
            && since + self.longest <= now
            && let Some(((_, place), object)) = self.absent.pop_first()
        {
            self.waiting -= 1;
            if let Some(file) = self.files.get_mut(&object) {
                file.waiting.remove(&place);
                if file.lock == 0 && file.waiting.is_empty() {
                    self.files.remove(&object);
                }
            }
        }
    }

    /// The present lock, if others wait for it, and the connection of the client that has it.
    pub(super) fn wanted(&self, object: ObjectId) -> Option<(u64, A)> {
        let file = self.files.get(&object)?;
        (file.lock != 0 && file.is_wanted()).then_some((file.lock, file.from))
    }

    fn due(&self, file: &File<A, R>) -> Option<Instant> {
        let is_due = file.lock != 0 && !file.is_releasing && file.is_wanted();
        is_due.then(|| file.since + self.longest)
    }

    /// Notes when the lock of a file has to be revoked, after a change on which that depends.
    fn note_due(&mut self, object: ObjectId) {
        let due = self.files.get(&object).and_then(|file| self.due(file));
        let Some(file) = self.files.get_mut(&object) else {
            return;
        };
        let before = std::mem::replace(&mut file.due, due);
        if before != due {
            if let Some(before) = before {
                self.due.remove(&(before, object));
            }
            self.due.extend(due.map(|due| (due, object)));
        }
    }

    /// When the next lock has to be revoked.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Files whose locks have to be revoked, with the locks.
    pub(super) fn overdue(&self, now: Instant) -> Vec<(ObjectId, u64)> {
        let overdue = self.due.iter().take_while(|(due, _)| *due <= now);
        let lock = |object| self.files.get(object).map_or(0, |file| file.lock);
        overdue.map(|(_, object)| (*object, lock(object))).collect()
    }

    /// Removes places in the queue whose clients have been absent for too long, and locks for which no client waits and whose clients have had
    /// them for too long.
    fn forget(&mut self, now: Instant) {
        self.forget_places(now);
        let longest = self.longest;
        let held = &mut self.held;
        self.files.retain(|object, file| {
            let is_kept =
                file.is_releasing || !file.waiting.is_empty() || file.since + longest > now;
            if !is_kept && held.get(&file.client) == Some(object) {
                held.remove(&file.client);
            }
            is_kept
        });
    }
}

#[cfg(test)]
mod tests;
