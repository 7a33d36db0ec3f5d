//! Turns to append to files: one client at a time has the turn of a file, the others wait in the order of their requests.
//!
//! Taking a turn away is always safe: writes that its client has sent for it are refused once others have appended
//! ([`super::turns_seen`]), and only the client that has the turn moves the end of the file.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use causeway_wire::fs::ObjectId;

/// Most clients that wait, over all files.
const MAX_WAITING: usize = 4096;
/// Most files whose turn a client may have at one time.
const MAX_FILES: usize = 4096;

/// A client that waits. `A` is its connection, `R` the data needed to reply to it.
#[derive(Debug)]
struct Waiter<A, R> {
    client: u128,
    from: A,
    reply: R,
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
    waiting: VecDeque<Waiter<A, R>>,
}

/// Turns of all files.
#[derive(Debug)]
pub(super) struct Turns<A, R> {
    files: HashMap<ObjectId, File<A, R>>,
    /// The file whose turn each client has. A client appends to one file at a time.
    held: HashMap<u128, ObjectId>,
    waiting: usize,
    last: u64,
    /// While others wait, a client has its turn for no longer than this.
    longest: Duration,
}

impl<A: Copy, R> Turns<A, R> {
    /// All turns are numbered above `first`, which is above those of earlier runs of the server.
    pub(super) fn new(first: u64, longest: Duration) -> Self {
        Self {
            files: HashMap::new(),
            held: HashMap::new(),
            waiting: 0,
            last: first,
            longest,
        }
    }

    /// Has a client wait. [`Turns::next`] gives it its turn. A client that requests a turn gives up the one that it has: returns
    /// the file of that turn. If too many clients wait, changes nothing, and fails with the argument that it was given.
    pub(super) fn wait(
        &mut self,
        object: ObjectId,
        (client, from): (u128, A),
        reply: R,
        now: Instant,
    ) -> Result<Option<ObjectId>, R> {
        if self.files.len() >= MAX_FILES {
            self.forget(now);
        }
        let is_known = self.files.contains_key(&object);
        if self.waiting >= MAX_WAITING || (!is_known && self.files.len() >= MAX_FILES) {
            return Err(reply);
        }
        let given_up = self.held.get(&client).copied();
        let given_up = given_up.filter(|object| {
            let file = self.files.get(object);
            let turn = file.map_or(0, |file| file.turn);
            file.is_some_and(|file| !file.is_ending) && self.end(*object, turn)
        });
        self.waiting += 1;
        let file = self.files.entry(object).or_insert_with(|| File {
            turn: 0,
            client,
            from,
            since: now,
            is_ending: false,
            waiting: VecDeque::new(),
        });
        file.waiting.push_back(Waiter {
            client,
            from,
            reply,
        });
        Ok(given_up)
    }

    /// Gives the turn to the client that has waited for longest, if no client has it.
    pub(super) fn next(&mut self, object: ObjectId, now: Instant) -> Option<(u64, R)> {
        let file = self.files.get_mut(&object)?;
        if file.turn != 0 {
            return None;
        }
        let Some(Waiter {
            client,
            from,
            reply,
        }) = file.waiting.pop_front()
        else {
            self.files.remove(&object);
            return None;
        };
        self.waiting -= 1;
        self.last += 1;
        (file.turn, file.since) = (self.last, now);
        (file.client, file.from) = (client, from);
        self.held.insert(client, object);
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
        if file.waiting.is_empty() {
            self.files.remove(&object);
        }
        true
    }

    /// Notes that a request is being carried out by which a client ends its turn. Returns whether the client has it.
    pub(super) fn begin_end(&mut self, object: ObjectId, turn: u64, client: u128) -> bool {
        match self.files.get_mut(&object) {
            Some(file) if turn != 0 && file.turn == turn && file.client == client => {
                let is_first = !file.is_ending;
                file.is_ending = true;
                is_first
            }
            _ => false,
        }
    }

    /// The present turn and the connection of its client, if other clients wait for it.
    pub(super) fn wanted(&self, object: ObjectId) -> Option<(u64, A)> {
        let file = self.files.get(&object)?;
        (file.turn != 0 && !file.waiting.is_empty()).then_some((file.turn, file.from))
    }

    fn due(&self, file: &File<A, R>) -> Option<Instant> {
        let is_due = file.turn != 0 && !file.is_ending && !file.waiting.is_empty();
        is_due.then(|| file.since + self.longest)
    }

    /// When the next turn is to be taken away.
    pub(super) fn next_due(&self) -> Option<Instant> {
        match self.waiting {
            0 => None,
            _ => self.files.values().filter_map(|file| self.due(file)).min(),
        }
    }

    /// Files whose turn is to be taken away, with the turn.
    pub(super) fn overdue(&self, now: Instant) -> Vec<(ObjectId, u64)> {
        let overdue = |file: &File<A, R>| self.due(file).is_some_and(|due| due <= now);
        let files = self.files.iter().filter(|(_, file)| overdue(file));
        files.map(|(object, file)| (*object, file.turn)).collect()
    }

    /// Forgets turns for which no client waits and whose clients have had them for too long.
    fn forget(&mut self, now: Instant) {
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
