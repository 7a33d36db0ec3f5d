//! The table of pointers that several clients share, as MPI's shared file pointers are. No I/O, no clock.
//!
//! A pointer is kept in memory only: it ends with the server, and its clients get an error ([`Refused::Unknown`]) instead of positions
//! that start again. A step that a client sends again, since its connection was lost, is done once: each client's last step is known for
//! as long as the pointer is.
//!
//! Clients that are killed leave pointers behind. There is no need to notice that at once: only if there is no more room, those
//! are forgotten of whose clients none is connected any more.

use std::collections::HashMap;
use std::hash::Hash;

use causeway_bmi::{Addr, ConnectionId};
use causeway_wire::fs::{ObjectId, PointerStep};

/// Where a pointer leads that is moved on: not beyond what programs get as a signed number.
fn moved(at: u64, many: u64) -> Option<u64> {
    let to = at.checked_add(many)?;
    i64::try_from(to).is_ok().then_some(to)
}

#[cfg(test)]
mod tests;

/// Most pointers.
const MAX_POINTERS: usize = 16 << 10;
/// Most clients of all pointers, each counted once for each pointer.
const MAX_SHARES: usize = 256 << 10;
/// Most pointers that clients use by one connection.
const MAX_OF_CONNECTION: usize = 4 << 10;
/// Most pointers that one user has made, by all connections: an eighth.
const MAX_POINTERS_OF_USER: usize = MAX_POINTERS / 8;
/// Most clients of one user, each counted once for each pointer.
const MAX_SHARES_OF_USER: usize = MAX_SHARES / 8;
/// How many requests for room come between two searches for pointers to forget: a search looks at all of them.
const REQUESTS_BETWEEN: usize = 1 << 10;

/// A client's connection with the server.
pub(super) type PointerConnection = (Addr, ConnectionId);

/// A pointer's name: its file, and the number that was drawn for it.
pub(super) type Key = (ObjectId, u64);

/// What a client last did to a pointer. `C` is its connection.
#[derive(Debug)]
struct Share<C> {
    connection: C,
    user: u32,
    number: u64,
    replied: u64,
}

#[derive(Debug)]
struct Pointer<C> {
    at: u64,
    /// Who has made it.
    user: u32,
    shares: HashMap<u128, Share<C>>,
}

/// The sender of a step, and its number for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sender<C> {
    pub(super) client: u128,
    pub(super) connection: C,
    pub(super) user: u32,
    pub(super) number: u64,
}

/// How many things each has, of those that have any.
#[derive(Debug)]
struct Counts<K>(HashMap<K, usize>);

impl<K: Eq + Hash> Counts<K> {
    fn of(&self, owner: &K) -> usize {
        self.0.get(owner).copied().unwrap_or(0)
    }

    fn add(&mut self, owner: K) {
        *self.0.entry(owner).or_default() += 1;
    }

    fn release(&mut self, owner: K) {
        if let Some(count) = self.0.get_mut(&owner) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&owner);
            }
        }
    }
}

/// Why a step was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// There is no such pointer, or none any more.
    Unknown,
    /// The client has done a later step.
    Stale,
    /// It would lie behind the largest number.
    TooFar,
    /// There are too many of them.
    Full(&'static str),
}

/// All pointers of a metadata server.
#[derive(Debug)]
pub(super) struct Pointers<C> {
    pointers: HashMap<Key, Pointer<C>>,
    /// Clients of all pointers.
    shares: usize,
    /// Pointers of each connection's clients.
    connections: Counts<C>,
    /// Pointers that each user has made.
    made: Counts<u32>,
    /// Of `shares`, each user's.
    users: Counts<u32>,
    /// Requests for room before the next search.
    patience: usize,
}

impl<C> Default for Pointers<C> {
    fn default() -> Self {
        Self {
            pointers: HashMap::new(),
            shares: 0,
            connections: Counts(HashMap::new()),
            made: Counts(HashMap::new()),
            users: Counts(HashMap::new()),
            patience: 0,
        }
    }
}

impl<C: Copy + Eq + Hash> Pointers<C> {
    /// Whether there is such a pointer.
    pub(super) fn has(&self, key: Key) -> bool {
        self.pointers.contains_key(&key)
    }

    /// Does a step, or returns what came of it if it was done before. `is_alive` says whether a connection still exists.
    pub(super) fn step(
        &mut self,
        key: Key,
        sender: Sender<C>,
        step: PointerStep,
        is_alive: impl Fn(C) -> bool,
    ) -> Result<u64, Refused> {
        match (self.pointers.get(&key), step) {
            (None, PointerStep::End) => return Ok(0),
            (None, PointerStep::Add(_) | PointerStep::Get) => return Err(Refused::Unknown),
            (None, PointerStep::Put(_)) => self.make_room(&sender, true, is_alive)?,
            // The pointer's maker had a right to the file. Another user may have none, and the error does not reveal that the pointer
            // exists.
            (Some(pointer), _) if pointer.user != sender.user => return Err(Refused::Unknown),
            (Some(pointer), _) => match pointer.shares.get(&sender.client) {
                Some(share) if share.number == sender.number => {
                    let replied = share.replied;
                    self.note(key, sender, replied);
                    return Ok(replied);
                }
                Some(share) if share.number > sender.number => return Err(Refused::Stale),
                Some(_) => {}
                None => self.make_room(&sender, false, is_alive)?,
            },
        }
        let at = match self.pointers.get(&key) {
            Some(pointer) => pointer.at,
            None if matches!(step, PointerStep::Put(_)) => 0,
            // Room was made for this request, but not of a pointer whose client is just asking by another connection.
            None => return Err(Refused::Unknown),
        };
        let (next, replied) = match step {
            PointerStep::Put(to) => (to, to),
            PointerStep::Add(many) => (moved(at, many).ok_or(Refused::TooFar)?, at),
            PointerStep::Get => (at, at),
            PointerStep::End => {
                self.forget(key);
                return Ok(at);
            }
        };
        let pointer = self.pointers.entry(key).or_insert_with(|| {
            self.made.add(sender.user);
            Pointer {
                at,
                user: sender.user,
                shares: HashMap::new(),
            }
        });
        pointer.at = next;
        self.note(key, sender, replied);
        Ok(replied)
    }

    /// Notes a client's last step.
    fn note(&mut self, key: Key, sender: Sender<C>, replied: u64) {
        let Some(pointer) = self.pointers.get_mut(&key) else {
            return;
        };
        let share = Share {
            connection: sender.connection,
            user: sender.user,
            number: sender.number,
            replied,
        };
        let before = pointer.shares.insert(sender.client, share);
        self.shares += 1;
        self.connections.add(sender.connection);
        self.users.add(sender.user);
        if let Some(before) = before {
            self.release(&before);
        }
    }

    fn release(&mut self, share: &Share<C>) {
        self.shares -= 1;
        self.connections.release(share.connection);
        self.users.release(share.user);
    }

    fn forget(&mut self, key: Key) {
        let Some(pointer) = self.pointers.remove(&key) else {
            return;
        };
        self.made.release(pointer.user);
        for share in pointer.shares.values() {
            self.release(share);
        }
    }

    /// Makes room for one more client of a pointer, and perhaps one more pointer.
    fn make_room(
        &mut self,
        sender: &Sender<C>,
        is_new: bool,
        is_alive: impl Fn(C) -> bool,
    ) -> Result<(), Refused> {
        if self.connections.of(&sender.connection) >= MAX_OF_CONNECTION {
            return Err(Refused::Full(
                "this client uses too many shared file pointers",
            ));
        }
        let refusal = |table: &Self| {
            let (made, shares) = (table.made.of(&sender.user), table.users.of(&sender.user));
            if shares >= MAX_SHARES_OF_USER || (is_new && made >= MAX_POINTERS_OF_USER) {
                return Some("this user has too many shared file pointers");
            }
            let is_full =
                table.shares >= MAX_SHARES || (is_new && table.pointers.len() >= MAX_POINTERS);
            is_full.then_some("there are too many shared file pointers on this metadata server")
        };
        // Also after a request that finds room: one user that has none may not have the table searched each time that others do.
        let is_patient = self.patience > 0;
        self.patience = self.patience.saturating_sub(1);
        if refusal(self).is_some() && !is_patient {
            let left = |pointer: &Pointer<C>| {
                let mut shares = pointer.shares.values();
                !shares.any(|share| is_alive(share.connection))
            };
            let pointers = self.pointers.iter();
            let left = pointers.filter(|(_, pointer)| left(pointer));
            for key in Vec::from_iter(left.map(|(key, _)| *key)) {
                self.forget(key);
            }
            self.patience = REQUESTS_BETWEEN - 1;
        }
        refusal(self).map_or(Ok(()), |text| Err(Refused::Full(text)))
    }
}
