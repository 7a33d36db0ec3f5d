//! The table of locks on files: owners, waits, and the order in which waits are granted. No I/O, no clock.
//!
//! Requests come by [`Locks::lock`], [`Locks::unlock`], [`Locks::cancel`] and [`Locks::forget`]. Each may grant waits:
//! [`Locks::take_granted`] returns these. The limits below bound the cost of a request; [`Locks::go_on`] does the work that a request has left over.
//!
//! **Fairness.** A request for a range waits for conflicting locks, and for earlier conflicting waits: a stream of shared locks does not
//! keep an exclusive one out. An owner that changes a lock it holds is served ahead of all waits. A request for a whole file waits only for held
//! locks, as with `flock` on Linux: a program that has a shared one may wait for its child, which wants another, while a third program waits for both.
//!
//! **Deadlocks.** An owner waits for the owners of conflicting locks. A request for a range that would close a circle of such waits
//! is refused; waits for whole files count for nothing there, as `flock` has it, and are never refused. A circle that exists only because of the order of the
//! queue is opened: its later waits are served ahead of the earlier ones.
//!
//! **Changes of whole-file locks.** An owner that shares a lock with others loses it by requesting an exclusive one, even if it does not
//! get that, as with `flock` on Linux: of two owners that request this, neither waits for the other's shared lock.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use causeway_wire::fs::{Lock, LockFamily, LockHolder, LockRange, ObjectId};

pub(super) use crate::lock_ranges::Owner;
use crate::lock_ranges::{Held, set_part};

#[cfg(test)]
mod tests;
#[cfg(test)]
mod whole_tests;

/// Most locks and waits of one client.
const MAX_OF_CLIENT: usize = 16 << 10;
/// Most locks and waits of one family on one file.
const MAX_OF_FILE: usize = 16 << 10;
/// Most waits of one family on one file.
const MAX_WAITING: usize = 4 << 10;
/// Most locks and waits of all clients.
const MAX_OF_ALL: usize = 256 << 10;
/// Parts into which a lock may be split when another one is put into it.
const PARTS: usize = 2;
/// Most pairs of locks that one search for a circle of waits visits. Above this number of pairs, granting locks to waiting owners does not
/// begin another pass over their queue at once.
const MAX_SEARCH: usize = 1 << 20;
const TOO_MANY_WAITS: &str = "too many clients wait for each other";

/// A file, for the locks of one family.
type Key = (ObjectId, LockFamily);

/// An owner that waits.
#[derive(Debug, Clone, Copy)]
struct Waiter {
    wants: Held,
    /// The client's name for this wait.
    tag: u64,
    /// It does not wait for earlier waits.
    goes_ahead: bool,
}

#[derive(Debug, Default)]
struct File {
    held: Vec<Held>,
    waiting: VecDeque<Waiter>,
}

/// The locks and waits of an owner on a file.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    held: usize,
    waits: usize,
}

/// Which waits a search follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// Waits for locks of ranges that other owners have.
    ForRanges,
    /// Waits for locks that other owners have.
    ForLocks,
    /// Also waits for whole files, and waits for other owners' earlier waits.
    All,
}

/// The result of a search.
enum Cycle {
    None,
    /// The waits of the circle that wait for other owners' earlier waits, by client and tag.
    Of(Vec<(u128, u64)>),
    TooLarge,
}

/// The step by which a search has reached an owner.
#[derive(Clone, Copy)]
struct Step {
    from: Owner,
    /// The wait of this step, if it is one for an earlier wait.
    by: Option<(u128, u64)>,
}

/// The result of a request for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The owner has the lock.
    Granted,
    /// The owner waits: [`Locks::take_granted`] returns the wait once it has the lock.
    Waits,
    /// This lock or earlier wait conflicts.
    Taken(LockHolder),
    /// The owners of conflicting locks wait for this owner.
    Deadlock,
    /// There are too many locks.
    Full(&'static str),
    /// This client waits under this tag already.
    TagInUse,
}

/// All locks of a metadata server.
#[derive(Debug, Default)]
pub(super) struct Locks {
    files: HashMap<Key, File>,
    /// The locks and waits of each owner.
    owners: BTreeMap<Owner, HashMap<Key, Share>>,
    /// The number of locks and waits of each client.
    clients: HashMap<u128, usize>,
    count: usize,
    /// The file that each client waits for under each tag.
    waits: HashMap<(u128, u64), Key>,
    granted: Vec<(u128, u64)>,
    /// Files, each once, with parts whose waiting owners have not been looked at yet.
    left: VecDeque<(Key, Vec<LockRange>)>,
}

/// Whether the two exclude each other.
fn conflict(one: &Held, other: &Held) -> bool {
    one.owner != other.owner
        && (one.exclusive || other.exclusive)
        && one.range.overlaps(other.range)
}

impl Held {
    fn shown(&self) -> LockHolder {
        LockHolder {
            exclusive: self.exclusive,
            range: self.range,
            pid: self.pid,
        }
    }
}

impl File {
    /// A held lock that conflicts.
    fn in_the_way(&self, wanted: &Held) -> Option<&Held> {
        self.held.iter().find(|held| conflict(held, wanted))
    }

    /// Whether its owner has a lock on a part of it: then the request goes ahead of all waits, some of which may be for that part.
    fn has_part(&self, wanted: &Held) -> bool {
        let is_part = |held: &Held| held.owner == wanted.owner && held.range.overlaps(wanted.range);
        self.held.iter().any(is_part)
    }

    /// An earlier wait than the one at this place of the queue that would conflict with it.
    fn ahead_of(&self, wanted: &Held, place: usize) -> Option<&Held> {
        let mut ahead = self.waiting.iter().take(place).map(|waiter| &waiter.wants);
        let found = ahead.find(|ahead| conflict(ahead, wanted))?;
        (!self.has_part(wanted)).then_some(found)
    }

    /// What keeps a request that arrives now from its lock.
    fn obstacle_of_new(&self, wanted: &Held, family: LockFamily) -> Option<&Held> {
        let ahead = || match family {
            LockFamily::Record => self.ahead_of(wanted, self.waiting.len()),
            LockFamily::Whole => None,
        };
        self.in_the_way(wanted).or_else(ahead)
    }

    fn is_blocked(&self, waiter: &Waiter, place: usize) -> bool {
        self.in_the_way(&waiter.wants).is_some()
            || (!waiter.goes_ahead && self.ahead_of(&waiter.wants, place).is_some())
    }
}

impl Locks {
    /// Gives an owner a lock, or has the owner wait for it under a tag. A tag that another wait of the client has is refused, even if the
    /// lock could be granted at once.
    pub(super) fn lock(&mut self, owner: Owner, lock: &Lock, wait: Option<u64>) -> Outcome {
        self.request(owner, lock, wait, Waits::ForRanges)
    }

    /// The same for a client that does not implement [changes of whole-file locks](self): its owner keeps a shared lock until it has the exclusive
    /// one, and circles of waits for whole files are refused as well.
    pub(super) fn lock_by_earlier_rules(
        &mut self,
        owner: Owner,
        lock: &Lock,
        wait: Option<u64>,
    ) -> Outcome {
        self.request(owner, lock, wait, Waits::ForLocks)
    }

    /// `refused`: the waits that must not close a circle.
    fn request(&mut self, owner: Owner, lock: &Lock, wait: Option<u64>, refused: Waits) -> Outcome {
        let key = (lock.object, lock.family);
        let wants = Held {
            owner,
            exclusive: lock.exclusive,
            range: lock.range,
            pid: lock.pid,
        };
        // These come first: a request that is refused for them costs the owner no shared lock.
        if wait.is_some_and(|tag| self.waits.contains_key(&(owner.client, tag))) {
            return Outcome::TagInUse;
        }
        if let Some(what) = self.lacks_room(key, owner.client) {
            return Outcome::Full(what);
        }
        if wait.is_some() && self.has_full_queue(key, &wants) {
            return Outcome::Full("too many clients wait for a lock on this file");
        }
        if lock.family == LockFamily::Whole && refused == Waits::ForRanges {
            self.give_up_shared(key, &wants);
        }
        let file = self.files.entry(key).or_default();
        let obstacle = file.obstacle_of_new(&wants, lock.family);
        let tag = match (obstacle.map(Held::shown), wait) {
            (None, _) => {
                set_part(&mut file.held, wants.owner, wants.range, Some(wants));
                self.settle(key, owner);
                // The owner may have given up an exclusive lock, or may get a lock that it waits for.
                self.grant(key, vec![lock.range]);
                return Outcome::Granted;
            }
            (Some(holder), None) => return Outcome::Taken(holder),
            (Some(_), Some(tag)) => tag,
        };
        file.waiting.push_back(Waiter {
            wants,
            tag,
            // This holds even if the owner releases that part meanwhile.
            goes_ahead: lock.family == LockFamily::Whole || file.has_part(&wants),
        });
        self.waits.insert((owner.client, tag), key);
        self.settle(key, owner);
        let outcome = self.break_cycles(owner, lock.family, refused);
        let own = |granted: &(u128, u64)| *granted == (owner.client, tag);
        if let Some(place) = self.granted.iter().position(own) {
            self.granted.remove(place);
            return Outcome::Granted;
        }
        if outcome != Outcome::Waits {
            self.end_wait(owner.client, tag);
        }
        outcome
    }

    /// Releases the shared lock of an owner that requests an exclusive one, if other owners share it.
    fn give_up_shared(&mut self, key: Key, wants: &Held) {
        let Some(file) = self.files.get_mut(&key) else {
            return;
        };
        if file.has_part(wants) && file.in_the_way(wants).is_some() {
            set_part(&mut file.held, wants.owner, wants.range, None);
            self.settle(key, wants.owner);
            self.grant(key, vec![wants.range]);
        }
    }

    /// Releases an owner's locks on a part of a file. Fails if that makes more parts than the limit.
    pub(super) fn unlock(
        &mut self,
        owner: Owner,
        key: Key,
        range: LockRange,
    ) -> Result<(), &'static str> {
        let Some(file) = self.files.get(&key) else {
            return Ok(());
        };
        let is_split = |held: &Held| {
            held.owner == owner && held.range.first < range.first && held.range.last > range.last
        };
        if file.held.iter().any(is_split)
            && let Some(what) = self.lacks_room(key, owner.client)
        {
            return Err(what);
        }
        if let Some(file) = self.files.get_mut(&key) {
            set_part(&mut file.held, owner, range, None);
        }
        self.settle(key, owner);
        self.grant(key, vec![range]);
        Ok(())
    }

    /// Returns a lock or wait that conflicts with this lock, if there is any.
    pub(super) fn test(&self, owner: Owner, lock: &Lock) -> Option<LockHolder> {
        let wants = Held {
            owner,
            exclusive: lock.exclusive,
            range: lock.range,
            pid: lock.pid,
        };
        let file = self.files.get(&(lock.object, lock.family))?;
        file.in_the_way(&wants).map(Held::shown)
    }

    /// Ends a wait. Returns whether it had not ended yet.
    pub(super) fn cancel(&mut self, client: u128, tag: u64) -> bool {
        let ended = self.end_wait(client, tag);
        if let Some((key, range)) = ended {
            self.grant(key, vec![range]);
        }
        ended.is_some()
    }

    /// Releases all locks and waits of a client that has disconnected.
    pub(super) fn forget(&mut self, client: u128) {
        let of_client = |number| Owner { client, number };
        let owners = self.owners.range(of_client(0)..=of_client(u64::MAX));
        let owners: Vec<(Owner, Vec<Key>)> = owners
            .map(|(owner, shares)| (*owner, shares.keys().copied().collect()))
            .collect();
        let mut keys = HashSet::new();
        for (owner, shares) in owners {
            for key in shares {
                if let Some(file) = self.files.get_mut(&key) {
                    file.held.retain(|held| held.owner != owner);
                    file.waiting.retain(|waiter| waiter.wants.owner != owner);
                }
                self.settle(key, owner);
                keys.insert(key);
            }
        }
        self.waits.retain(|(waits, _), _| *waits != client);
        self.granted.retain(|(waits, _)| *waits != client);
        for key in keys {
            self.grant(key, vec![LockRange::ALL]);
        }
    }

    /// Whether a client has no locks and waits for none.
    pub(super) fn is_idle(&self, client: u128) -> bool {
        !self.clients.contains_key(&client)
    }

    /// Waits whose locks were granted since the last call, by client and tag.
    pub(super) fn take_granted(&mut self) -> Vec<(u128, u64)> {
        std::mem::take(&mut self.granted)
    }

    /// Whether some waiting owners have not been looked at yet: [`Locks::go_on`] does that.
    pub(super) fn has_left(&self) -> bool {
        !self.left.is_empty()
    }

    /// Looks at the waiting owners of one more file that earlier requests have left over.
    pub(super) fn go_on(&mut self) {
        if let Some((key, changed)) = self.left.pop_front() {
            self.grant(key, changed);
        }
    }

    /// Whether a request would have to wait, and too many others do.
    fn has_full_queue(&self, key: Key, wants: &Held) -> bool {
        self.files.get(&key).is_some_and(|file| {
            file.waiting.len() >= MAX_WAITING && file.obstacle_of_new(wants, key.1).is_some()
        })
    }

    fn lacks_room(&self, key: Key, client: u128) -> Option<&'static str> {
        let of_file = self.files.get(&key);
        let of_file = of_file.map_or(0, |file| file.held.len() + file.waiting.len());
        let of_client = self.clients.get(&client).copied().unwrap_or(0);
        if of_file + PARTS > MAX_OF_FILE {
            Some("there are too many locks on this file")
        } else if of_client + PARTS > MAX_OF_CLIENT {
            Some("this client has too many locks")
        } else if self.count + PARTS > MAX_OF_ALL {
            Some("there are too many locks on this metadata server")
        } else {
            None
        }
    }

    /// Counts an owner's locks and waits on a file anew, after each change of them.
    fn settle(&mut self, key: Key, owner: Owner) {
        let mut now = Share::default();
        if let Some(file) = self.files.get(&key) {
            let is_own = |held: &&Held| held.owner == owner;
            now.held = file.held.iter().filter(is_own).count();
            let wanted = file.waiting.iter().map(|waiter| &waiter.wants);
            now.waits = wanted.filter(is_own).count();
            if file.held.is_empty() && file.waiting.is_empty() {
                self.files.remove(&key);
            }
        }
        let shares = self.owners.entry(owner).or_default();
        let (before, after) = match now.held + now.waits {
            0 => (shares.remove(&key), 0),
            count => (shares.insert(key, now), count),
        };
        if shares.is_empty() {
            self.owners.remove(&owner);
        }
        let before = before.map_or(0, |share| share.held + share.waits);
        self.count = self.count + after - before;
        let of_client = self.clients.entry(owner.client).or_default();
        *of_client = *of_client + after - before;
        if *of_client == 0 {
            self.clients.remove(&owner.client);
        }
    }

    /// Ends a wait, and returns its file and range.
    fn end_wait(&mut self, client: u128, tag: u64) -> Option<(Key, LockRange)> {
        let key = self.waits.remove(&(client, tag))?;
        let file = self.files.get_mut(&key)?;
        let is_it = |waiter: &Waiter| waiter.wants.owner.client == client && waiter.tag == tag;
        let place = file.waiting.iter().position(is_it)?;
        let waiter = file.waiting.remove(place)?;
        self.settle(key, waiter.wants.owner);
        Some((key, waiter.wants.range))
    }

    /// Grants locks to owners that wait for any of these parts and that no lock conflicts with any more. That may change other parts, for which other
    /// owners wait: if there are too many of these, they are left for later.
    fn grant(&mut self, key: Key, mut changed: Vec<LockRange>) {
        let mut looked_at = 0;
        while !changed.is_empty() {
            if looked_at > MAX_SEARCH {
                return self.leave(key, changed);
            }
            let mut place = 0;
            let mut freed = Vec::new();
            while let Some(file) = self.files.get(&key)
                && let Some(waiter) = file.waiting.get(place)
            {
                let is_part = |part: &LockRange| part.overlaps(waiter.wants.range);
                looked_at += 1;
                if !changed.iter().any(is_part) {
                    place += 1;
                    continue;
                }
                looked_at += file.held.len() + place;
                if file.is_blocked(waiter, place) {
                    place += 1;
                    continue;
                }
                freed.extend(self.give(key, place));
            }
            changed = freed;
        }
    }

    /// Notes that the owners that wait for these parts must be looked at later.
    fn leave(&mut self, key: Key, parts: Vec<LockRange>) {
        let mut left = self.left.iter_mut();
        match left.find(|(left, _)| *left == key) {
            Some((_, known)) if known.len() + parts.len() > MAX_WAITING => {
                *known = vec![LockRange::ALL];
            }
            Some((_, known)) => known.extend(parts),
            None => self.left.push_back((key, parts)),
        }
    }

    /// Grants the wait at this place of the queue its lock. Returns the part if other waits, also earlier ones, may be granted because of it.
    fn give(&mut self, key: Key, place: usize) -> Option<LockRange> {
        let file = self.files.get_mut(&key)?;
        let Waiter { wants, tag, .. } = file.waiting.remove(place)?;
        let frees = |held: &Held| {
            held.owner == wants.owner && held.exclusive && held.range.overlaps(wants.range)
        };
        let frees_others = !wants.exclusive && file.held.iter().any(frees);
        set_part(&mut file.held, wants.owner, wants.range, Some(wants));
        self.waits.remove(&(wants.owner.client, tag));
        self.granted.push((wants.owner.client, tag));
        self.settle(key, wants.owner);
        // An owner that has a part of the range goes ahead.
        let share = self.owners.get(&wants.owner).and_then(|of| of.get(&key));
        let waits_on = share.is_some_and(|share| share.waits > 0);
        (frees_others || waits_on).then_some(wants.range)
    }

    /// Handles that an owner has begun to wait for a lock of this family. Refuses the wait if it closes a circle of owners that wait for each other's
    /// locks, as far as these waits are `refused`; opens circles in which some owners wait only for others' earlier waits.
    fn break_cycles(&mut self, owner: Owner, family: LockFamily, refused: Waits) -> Outcome {
        let shares = self
            .owners
            .get(&owner)
            .into_iter()
            .flat_map(HashMap::values);
        let (held, waits) = shares.fold((0, 0), |(held, waits), share| {
            (held + share.held, waits + share.waits)
        });
        if held == 0 && waits <= 1 {
            // No other owner waits for this one.
            return Outcome::Waits;
        }
        let mut budget = MAX_SEARCH;
        if family == LockFamily::Record || refused == Waits::ForLocks {
            match self.find_cycle(owner, refused, &mut budget) {
                Cycle::Of(_) => return Outcome::Deadlock,
                Cycle::None => {}
                Cycle::TooLarge => return Outcome::Full(TOO_MANY_WAITS),
            }
        }
        loop {
            match self.find_cycle(owner, Waits::All, &mut budget) {
                Cycle::None => return Outcome::Waits,
                // The search found no circle that must be refused.
                Cycle::TooLarge if family == LockFamily::Whole => return Outcome::Waits,
                Cycle::TooLarge => return Outcome::Full(TOO_MANY_WAITS),
                Cycle::Of(later) => {
                    for (client, tag) in later {
                        self.let_ahead(client, tag);
                    }
                }
            }
        }
    }

    fn let_ahead(&mut self, client: u128, tag: u64) {
        let Some(&key) = self.waits.get(&(client, tag)) else {
            return;
        };
        let Some(file) = self.files.get_mut(&key) else {
            return;
        };
        let is_it = |waiter: &Waiter| waiter.wants.owner.client == client && waiter.tag == tag;
        let Some(place) = file.waiting.iter().position(is_it) else {
            return;
        };
        file.waiting[place].goes_ahead = true;
        if !file.is_blocked(&file.waiting[place], place) {
            let freed = self.give(key, place);
            self.grant(key, freed.into_iter().collect());
        }
    }

    /// Searches for a circle of waits through an owner.
    fn find_cycle(&self, start: Owner, which: Waits, budget: &mut usize) -> Cycle {
        // For each owner that the search has reached: the owner before it, and the wait if that is for an earlier wait.
        let mut reached: HashMap<Owner, Step> = HashMap::new();
        let mut left = vec![start];
        while let Some(owner) = left.pop() {
            for (file, place, waiter) in self.waits_of(owner, which) {
                let is_behind = which == Waits::All
                    && !waiter.goes_ahead
                    && file.ahead_of(&waiter.wants, place).is_some();
                let ahead = if is_behind { place } else { 0 };
                match budget.checked_sub(file.held.len() + place) {
                    Some(rest) => *budget = rest,
                    None => return Cycle::TooLarge,
                }
                let held = file.held.iter().map(|held| (held, None));
                let by = Some((owner.client, waiter.tag));
                let ahead = file.waiting.iter().take(ahead);
                let ahead = ahead.map(|waiter| (&waiter.wants, by));
                for (other, by) in held.chain(ahead) {
                    if !conflict(other, &waiter.wants) {
                        continue;
                    }
                    let step = Step { from: owner, by };
                    if other.owner == start {
                        let behind = steps_back(&reached, start, step);
                        if which == Waits::All && behind.is_empty() {
                            // All waits of this circle are for whole files, and no change of order opens it:
                            // another circle through this owner may be one that can be opened.
                            continue;
                        }
                        return Cycle::Of(behind);
                    }
                    if let Entry::Vacant(entry) = reached.entry(other.owner) {
                        entry.insert(step);
                        left.push(other.owner);
                    }
                }
            }
        }
        Cycle::None
    }

    /// The waits of an owner: files, and places in their queues.
    fn waits_of(
        &self,
        owner: Owner,
        which: Waits,
    ) -> impl Iterator<Item = (&File, usize, &Waiter)> {
        let shares = self.owners.get(&owner).into_iter().flatten();
        let is_followed = move |family| which != Waits::ForRanges || family == LockFamily::Record;
        let keys =
            shares.filter(move |((_, family), share)| share.waits > 0 && is_followed(*family));
        let files = keys.filter_map(|(key, _)| self.files.get(key));
        files.flat_map(move |file| {
            let waiting = file.waiting.iter().enumerate();
            let own = waiting.filter(move |(_, waiter)| waiter.wants.owner == owner);
            own.map(move |(place, waiter)| (file, place, waiter))
        })
    }
}

/// The waits for earlier waits on the path to this step, and the step's own.
fn steps_back(reached: &HashMap<Owner, Step>, start: Owner, last: Step) -> Vec<(u128, u64)> {
    let mut waits: Vec<_> = last.by.into_iter().collect();
    let mut owner = last.from;
    while owner != start
        && let Some(step) = reached.get(&owner)
    {
        waits.extend(step.by);
        owner = step.from;
    }
    waits
}
