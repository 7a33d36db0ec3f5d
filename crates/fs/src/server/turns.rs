//! Turns to append to files: one client at a time has the turn of a file, the others wait in the order of their requests.
//!
//! Taking a turn away is always safe: writes that its client has sent for it are refused once others have appended
//! ([`super::turns_seen`]), and only the client that has the turn moves the end of the file.
//!
//! No request waits for long: a client is sent away after [`PATIENCE`], and asks again. Its place is kept until then, so that it comes behind none
//! that asked after it. While it is away, the turn goes to the next one that is there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use causeway_wire::fs::ObjectId;

/// Most clients that wait, over all files.
const MAX_WAITING: usize = 4096;
/// Most files whose turn a client may have at one time.
const MAX_FILES: usize = 4096;
/// Most clients of which the last turn is remembered that they have ended.
const MAX_ENDED: usize = 16 << 10;
/// How long a request for a turn waits, at most: short beside a time-out, and since the client does nothing else meanwhile. A client whose time-out is
/// not longer, and whose server has a longer one, takes the server for a silent one.
const PATIENCE: Duration = Duration::from_millis(500);

/// A client that waits. `A` is its connection, `R` the data needed to reply to it.
#[derive(Debug)]
struct Waiter<A, R> {
    client: u128,
    from: A,
    /// `None` while the client is away, to ask again.
    reply: Option<R>,
    /// When it asked last, or went away.
    since: Instant,
}

/// The client that has the turn of a file, and the clients that wait for it.
#[derive(Debug)]
struct File<A, R> {
    /// 0 while no client has the turn.
    turn: u64,
    client: u128,
    from: A,
    since: Instant,
    /// A request that ends the turn is being carried out: the turn is not taken away.
    is_ending: bool,
    /// By their places, in whose order they get the turn.
    waiting: BTreeMap<u64, Waiter<A, R>>,
    /// How many of these are there.
    present: usize,
    /// When the turn has to be taken away, which is the key in [`Turns::due`].
    due: Option<Instant>,
}

impl<A, R> File<A, R> {
    /// Whether a client waits that is there.
    fn is_wanted(&self) -> bool {
        self.present > 0
    }
}

/// The last turn of each client that it has ended by a request, which may come again. If there are too many, the oldest turns are forgotten.
#[derive(Debug, Default)]
struct Ended {
    of_clients: HashMap<u128, u64>,
    /// The same, by turn: these ascend.
    in_order: BTreeMap<u64, u128>,
}

impl Ended {
    fn note(&mut self, turn: u64, client: u128) {
        if let Some(before) = self.of_clients.insert(client, turn) {
            self.in_order.remove(&before);
        }
        self.in_order.insert(turn, client);
        if self.in_order.len() > MAX_ENDED
            && let Some((_, oldest)) = self.in_order.pop_first()
        {
            self.of_clients.remove(&oldest);
        }
    }
}

/// Turns of all files.
#[derive(Debug)]
pub(super) struct Turns<A, R> {
    files: HashMap<ObjectId, File<A, R>>,
    /// The file whose turn each client has. A client appends to one file at a time.
    held: HashMap<u128, ObjectId>,
    ended: Ended,
    /// Places in all files.
    waiting: usize,
    /// Those of clients that are there and may be sent away, by when they have asked.
    asking: BTreeMap<(Instant, u64), ObjectId>,
    /// Those of clients that are away, by when they went.
    away: BTreeMap<(Instant, u64), ObjectId>,
    last_place: u64,
    /// Files by the time at which their turns have to be taken away.
    due: BTreeSet<(Instant, ObjectId)>,
    last: u64,
    /// Where others wait, a client has its turn for no longer than this, and a place for no longer while it is away.
    longest: Duration,
    /// Whether a client knows that it may be sent away.
    asks_again: fn(&R) -> bool,
}

impl<A: Copy, R> Turns<A, R> {
    /// All turns are numbered above `first`, which is above those of earlier runs of the server. Only clients that ask again are sent away.
    pub(super) fn new(first: u64, longest: Duration, asks_again: fn(&R) -> bool) -> Self {
        Self {
            files: HashMap::new(),
            held: HashMap::new(),
            ended: Ended::default(),
            waiting: 0,
            asking: BTreeMap::new(),
            away: BTreeMap::new(),
            last_place: 0,
            due: BTreeSet::new(),
            last: first,
            longest,
            asks_again,
        }
    }

    /// Has a client wait, at its place if it was sent away from one. [`Turns::next`] gives it its turn. A client that asks has no other
    /// turn any more: returns the file whose turn ended thereby. With too many, changes nothing, and fails with what it was given.
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
            let turn = self.files.get(object).map_or(0, |file| file.turn);
            self.lose(*object, turn)
        });
        let place = match place {
            Some((place, since)) => {
                self.away.remove(&(since, place));
                place
            }
            None => {
                self.waiting += 1;
                self.last_place += 1;
                self.last_place
            }
        };
        if (self.asks_again)(&reply) {
            self.asking.insert((now, place), object);
        }
        let file = self.files.entry(object).or_insert_with(|| File {
            turn: 0,
            client,
            from,
            since: now,
            is_ending: false,
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

    /// Grants the turn to the first waiting client that is still connected, if no client has it.
    pub(super) fn next(&mut self, object: ObjectId, now: Instant) -> Option<(u64, R)> {
        let file = self.files.get_mut(&object)?;
        if file.turn != 0 {
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
        self.asking.remove(&(since, first));
        file.present -= 1;
        self.waiting -= 1;
        self.last += 1;
        (file.turn, file.since) = (self.last, now);
        (file.client, file.from) = (client, from);
        self.held.insert(client, object);
        self.note_due(object);
        Some((self.last, reply))
    }

    /// Ends a turn, unless it has ended before.
    pub(super) fn end(&mut self, object: ObjectId, turn: u64) -> bool {
        let Some(file) = self.files.get_mut(&object) else {
            return false;
        };
        if file.turn != turn || turn == 0 {
            return false;
        }
        (file.turn, file.is_ending) = (0, false);
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

    /// The client that has a turn is gone, which ends it, unless its request to end it is being carried out: that may still move the end of
    /// the file, so the next turn begins after it. Returns whether the turn has ended.
    pub(super) fn lose(&mut self, object: ObjectId, turn: u64) -> bool {
        let file = self.files.get(&object);
        file.is_some_and(|file| !file.is_ending) && self.end(object, turn)
    }

    /// Notes that a client ends its turn by a request that is being carried out. Returns whether it has it.
    pub(super) fn begin_end(&mut self, object: ObjectId, turn: u64, client: u128) -> bool {
        match self.files.get_mut(&object) {
            Some(file) if turn != 0 && file.turn == turn && file.client == client => {
                let is_first = !file.is_ending;
                file.is_ending = true;
                self.note_due(object);
                is_first
            }
            _ => false,
        }
    }

    /// Whether a client has a turn that nothing ends yet: then it lasts for as long again.
    pub(super) fn keep(&mut self, object: ObjectId, turn: u64, client: u128, now: Instant) -> bool {
        match self.files.get_mut(&object) {
            Some(file)
                if turn != 0 && file.turn == turn && file.client == client && !file.is_ending =>
            {
                file.since = now;
                self.note_due(object);
                true
            }
            _ => false,
        }
    }

    /// What a client has the turn for had to wait for others: its turn lasts for as long again.
    pub(super) fn keep_held(&mut self, client: u128, now: Instant) {
        if let Some(&object) = self.held.get(&client)
            && let Some(file) = self.files.get_mut(&object)
        {
            file.since = now;
            self.note_due(object);
        }
    }

    /// Notes that a client ends its turn by a request that may come again.
    pub(super) fn note_own_end(&mut self, turn: u64, client: u128) {
        self.ended.note(turn, client);
    }

    /// Whether this was the last turn that the client has ended so.
    pub(super) fn has_ended(&self, turn: u64, client: u128) -> bool {
        self.ended.of_clients.get(&client) == Some(&turn)
    }

    /// When the next client has waited for as long as one request may, of those that may ask again.
    pub(super) fn next_to_ask_again(&self) -> Option<Instant> {
        let (first, _) = self.asking.first_key_value()?;
        Some(first.0 + self.patience())
    }

    fn patience(&self) -> Duration {
        PATIENCE.min(self.longest)
    }

    /// Sends those clients away; each keeps its place for a time.
    pub(super) fn take_to_ask_again(&mut self, now: Instant) -> Vec<R> {
        self.forget_places(now);
        let mut sent_away = Vec::new();
        while self.next_to_ask_again().is_some_and(|due| due <= now)
            && let Some(((_, place), object)) = self.asking.pop_first()
        {
            let file = self.files.get_mut(&object);
            let Some(file) = file else { continue };
            let waiter = file.waiting.get_mut(&place);
            if let Some(waiter) = waiter
                && let Some(reply) = waiter.reply.take()
            {
                waiter.since = now;
                file.present -= 1;
                self.away.insert((now, place), object);
                sent_away.push(reply);
                self.note_due(object);
            }
        }
        sent_away
    }

    /// Forgets places whose clients have been away for too long.
    fn forget_places(&mut self, now: Instant) {
        while let Some((&(since, _), _)) = self.away.first_key_value()
            && since + self.longest <= now
            && let Some(((_, place), object)) = self.away.pop_first()
        {
            self.waiting -= 1;
            if let Some(file) = self.files.get_mut(&object) {
                file.waiting.remove(&place);
                if file.turn == 0 && file.waiting.is_empty() {
                    self.files.remove(&object);
                }
            }
        }
    }

    /// The present turn, if others wait for it, and the connection of the client that has it.
    pub(super) fn wanted(&self, object: ObjectId) -> Option<(u64, A)> {
        let file = self.files.get(&object)?;
        (file.turn != 0 && file.is_wanted()).then_some((file.turn, file.from))
    }

    fn due(&self, file: &File<A, R>) -> Option<Instant> {
        let is_due = file.turn != 0 && !file.is_ending && file.is_wanted();
        is_due.then(|| file.since + self.longest)
    }

    /// Notes when the turn of a file has to be taken away, after a change on which that depends.
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

    /// When the next turn has to be taken away.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Files whose turns have to be taken away, with the turns.
    pub(super) fn overdue(&self, now: Instant) -> Vec<(ObjectId, u64)> {
        let overdue = self.due.iter().take_while(|(due, _)| *due <= now);
        let turn = |object| self.files.get(object).map_or(0, |file| file.turn);
        overdue.map(|(_, object)| (*object, turn(object))).collect()
    }

    /// Removes places in the queue whose clients have been away for too long, and turns for which no client waits and whose clients have had
    /// them for too long.
    fn forget(&mut self, now: Instant) {
        self.forget_places(now);
        let longest = self.longest;
        let held = &mut self.held;
        self.files.retain(|object, file| {
            let is_kept = file.is_ending || !file.waiting.is_empty() || file.since + longest > now;
            if !is_kept && held.get(&file.client) == Some(object) {
                held.remove(&file.client);
            }
            is_kept
        });
    }
}

#[cfg(test)]
mod tests;
