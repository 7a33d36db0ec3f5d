//! What a program caches of names and attributes: each for as long as the metadata server's lease is good that it was read with. No
//! I/O, no clock.
//!
//! A reply may come late: what it says is not cached if a recall, or a change of the program's own, has ended a lease on it since the
//! request was sent. So each end is remembered, by numbers that count all ends, in a table of a fixed size: that two leases share
//! a place in it means at worst that something is not cached.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use causeway_wire::fs::{Acl, Body, Leased, Node, ObjectId, Operation, Place};

use crate::locks::lock;

/// Most names that are cached, and most units of objects. A name takes up to some 500 bytes.
const MAX_CACHED: usize = 1 << 16;
/// Of objects that are larger, each as many bytes count as one more. Beside that an object takes some 300.
const UNIT_BYTES: usize = 256;
/// Most users of a directory who are remembered.
const MAX_SEARCHERS: usize = 16;
/// Places in the table of ends.
const PLACES: usize = 1 << 12;

/// When something was asked for, in the order of the ends of leases.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    at: Instant,
    ends: u64,
}

/// Attributes that were cached when they were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    ends: u64,
}

/// A time in which an object's attributes have been under leases without a gap, so that no change by others has returned. If the same era is seen
/// twice, content that was read in between is still the object's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Era(u64);

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// This object, with attributes that are cached.
    Node(Box<Node>, Seen),
    /// Nothing.
    Nothing,
}

/// The caches of a program. Its clients fill them; a thread ends what is recalled.
pub(super) struct LeaseCache {
    state: Mutex<State>,
    /// Held shared by a thread that passes on what is cached, and exclusively to end a lease: what was passed on before is there when
    /// the lease ends.
    passing: RwLock<()>,
    hasher: RandomState,
}

struct State {
    /// The program, as the server knows it.
    holder: u128,
    /// Counts the ends of leases.
    ends: u64,
    /// The last end of a lease in each place.
    last: Vec<u64>,
    /// The last end of all leases on attributes, and of all on names.
    last_of_nodes: u64,
    last_of_names: u64,
    /// The last era that has begun.
    eras: u64,
    nodes: HashMap<ObjectId, CachedNode>,
    /// Of all these.
    units: usize,
    names: HashMap<ObjectId, HashMap<Vec<u8>, CachedName>>,
    name_count: usize,
    /// Until when attributes are good that were passed on.
    passed_on: HashMap<ObjectId, Instant>,
    /// Holders that the program was before, and what it had passed on as such.
    former: Vec<Former>,
    is_stopping: bool,
}

/// A place in the table of ends, and what is there on.
#[derive(Clone, Copy)]
enum EndPlace {
    OfAttributes(usize),
    OfName(usize),
}

struct CachedNode {
    node: Node,
    /// What it counts among all that are cached.
    units: usize,
    /// When it was asked for.
    asked_at: Instant,
    until: Instant,
    /// Somebody has it beside the cache.
    is_known: bool,
    /// Since when it has been under leases without a gap.
    era: Era,
    /// Somebody has kept nothing of its content but what was read in this era.
    has_content: bool,
    /// Of a directory: for whom the server has looked up names since.
    searchers: Vec<Searcher>,
}

/// A user and group for whom names are looked up. The server may know a user as somebody else (`root_squash`), or serve none from this node (`uids`).
pub(super) type Searcher = (u32, u32);

#[derive(Clone, Copy)]
struct CachedName {
    target: Option<ObjectId>,
    until: Instant,
}

/// A holder that the program was before.
pub(super) struct Former {
    pub(super) holder: u128,
    /// Objects whose attributes were passed on.
    pub(super) passed_on: Vec<ObjectId>,
}

/// What a change of the program's own may alter.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Altered {
    /// Names in directories.
    names: Vec<(ObjectId, Vec<u8>)>,
    /// Those among them of which what they stand for is altered, too, as long as that is not known.
    targets: Vec<(ObjectId, Vec<u8>)>,
    objects: Vec<ObjectId>,
    /// All objects.
    all_objects: bool,
    /// Everything.
    all: bool,
    /// Of names with targets: how many leases had ended when the change began.
    begun: Option<u64>,
}

impl Altered {
    /// What the operation may alter, if it is a change.
    pub(super) fn of(operation: &Operation) -> Option<Self> {
        let mut altered = Self::default();
        match operation {
            Operation::Create { place, .. }
            | Operation::MakeDirectory { place, .. }
            | Operation::SymbolicLink { place, .. }
            | Operation::MakeSpecial { place, .. } => altered.add(place, false),
            Operation::HardLink { object, place } => {
                altered.add(place, false);
                altered.objects.push(*object);
            }
            Operation::Rename { from, to, .. } => {
                altered.add(from, true);
                altered.add(to, true);
            }
            Operation::Exchange { first, second } => {
                altered.add(first, true);
                altered.add(second, true);
            }
            Operation::Unlink { place, .. } | Operation::RemoveDirectory { place, .. } => {
                altered.add(place, true);
            }
            Operation::SetAttributes { object, .. }
            | Operation::Grow { object, .. }
            | Operation::Truncate { object, .. }
            | Operation::FinishTruncate { object, .. }
            | Operation::Extend { object, .. }
            | Operation::Filled { object, .. }
            | Operation::WriteStuffed { object, .. }
            | Operation::BeginUnstuff { object }
            | Operation::FinishUnstuff { object }
            | Operation::SetXattr { object, .. }
            | Operation::RemoveXattr { object, .. }
            | Operation::Append { object, .. }
            | Operation::EndAppend { object, .. } => altered.objects.push(*object),
            // A repair may alter anything.
            Operation::Check { repair: true, .. } => altered.all = true,
            _ => return None,
        }
        Some(altered)
    }

    fn add(&mut self, place: &Place, with_target: bool) {
        if place.path.contains(&b'/') {
            // Which directory it is is not known.
            self.all = true;
            return;
        }
        self.objects.push(place.base);
        self.names.push((place.base, place.path.clone()));
        if with_target {
            self.targets.push((place.base, place.path.clone()));
        }
    }
}

impl LeaseCache {
    pub(super) fn new(holder: u128) -> Self {
        Self {
            state: Mutex::new(State {
                holder,
                ends: 1,
                last: vec![0; PLACES],
                last_of_nodes: 0,
                last_of_names: 0,
                eras: 0,
                nodes: HashMap::new(),
                units: 0,
                names: HashMap::new(),
                name_count: 0,
                passed_on: HashMap::new(),
                former: Vec::new(),
                is_stopping: false,
            }),
            passing: RwLock::default(),
            hasher: RandomState::new(),
        }
    }

    fn place(&self, on: &Leased) -> EndPlace {
        let number = self.hasher.hash_one(on) as usize % PLACES;
        match on {
            Leased::Attributes(_) => EndPlace::OfAttributes(number),
            Leased::Entry(..) => EndPlace::OfName(number),
        }
    }

    /// The program, as the server knows it.
    pub(super) fn holder(&self) -> u128 {
        lock(&self.state).holder
    }

    /// Nothing is cached any more.
    pub(super) fn stop(&self) {
        let mut state = lock(&self.state);
        state.is_stopping = true;
        state.clear();
    }

    pub(super) fn is_stopping(&self) -> bool {
        lock(&self.state).is_stopping
    }

    /// Something is about to be asked for.
    pub(super) fn ask(&self, now: Instant) -> Asked {
        Asked {
            at: now,
            ends: lock(&self.state).ends,
        }
    }

    /// The object that was asked for, with a lease for this `time` from then on. Returns whether it is cached.
    pub(super) fn fill_node(
        &self,
        asked: Asked,
        node: &Node,
        time: Duration,
        now: Instant,
    ) -> Option<Seen> {
        let place = self.place(&Leased::Attributes(node.object));
        let mut state = lock(&self.state);
        if state.is_stopping || !state.is_current(asked.ends, place) {
            return None;
        }
        let units = units(node);
        if state.units + units > MAX_CACHED && !state.nodes.contains_key(&node.object) {
            state.make_room_for_nodes(asked.at, units);
        }
        let ends = state.ends;
        state.eras += 1;
        let new = Era(state.eras);
        // After a time without a lease nobody can have been told of changes: what is kept beside the attributes, as the kernel keeps access
        // control lists, may be old.
        // A clock that has stood still, as that of a suspended host, does not show such a time; the time of the last change does.
        let (is_known, era, has_content) = match state.nodes.get(&node.object) {
            Some(known) if known.until <= now => (false, new, false),
            Some(known) if known.node.attributes.changed == node.attributes.changed => {
                (known.is_known, known.era, known.has_content)
            }
            Some(known) => (known.is_known, new, false),
            None => (false, new, false),
        };
        let cached = CachedNode {
            node: node.clone(),
            units,
            asked_at: asked.at,
            until: asked.at + usable(time),
            is_known,
            era,
            has_content,
            searchers: Vec::new(),
        };
        state.units += units;
        if let Some(former) = state.nodes.insert(node.object, cached) {
            state.units -= former.units;
        }
        Some(Seen { ends })
    }

    /// The same of a name.
    pub(super) fn fill_name(
        &self,
        asked: Asked,
        (directory, name): (ObjectId, &[u8]),
        target: Option<ObjectId>,
        time: Duration,
    ) {
        let place = self.place(&Leased::Entry(directory, name.to_vec()));
        let mut state = lock(&self.state);
        if state.is_stopping || !state.is_current(asked.ends, place) {
            return;
        }
        if state.name_count >= MAX_CACHED {
            state.make_room_for_names(asked.at);
        }
        let until = asked.at + usable(time);
        let names = state.names.entry(directory).or_default();
        let known = names.insert(name.to_vec(), CachedName { target, until });
        state.name_count += usize::from(known.is_none());
    }

    /// The server has looked up a name that was asked for, or that it does not exist, for this user.
    pub(super) fn note_search(&self, asked: Asked, directory: ObjectId, by: Searcher) {
        let place = self.place(&Leased::Attributes(directory));
        let mut state = lock(&self.state);
        if !state.is_current(asked.ends, place) {
            return;
        }
        if let Some(cached) = state.nodes.get_mut(&directory)
            // Under an earlier lease, which has expired, others may have been permitted.
            && cached.asked_at <= asked.at
            && cached.searchers.len() < MAX_SEARCHERS
            && !cached.searchers.contains(&by)
        {
            cached.searchers.push(by);
        }
    }

    /// Whether the server would look up names in a directory for this user: it has done so, and the directory's attributes have been under
    /// the same lease since.
    pub(super) fn may_search(&self, directory: ObjectId, by: Searcher, now: Instant) -> bool {
        let state = lock(&self.state);
        let cached = state.nodes.get(&directory);
        cached.is_some_and(|cached| cached.until > now && cached.searchers.contains(&by))
    }

    /// What a name stands for, if that is cached.
    pub(super) fn find(&self, directory: ObjectId, name: &[u8], now: Instant) -> Option<Named> {
        let state = lock(&self.state);
        let cached = *state.names.get(&directory)?.get(name)?;
        if cached.until <= now {
            return None;
        }
        match cached.target {
            None => Some(Named::Nothing),
            Some(object) => {
                let (node, seen) = state.node(object, now)?;
                Some(Named::Node(Box::new(node), seen))
            }
        }
    }

    /// An object, if it is cached.
    pub(super) fn node(&self, object: ObjectId, now: Instant) -> Option<(Node, Seen)> {
        lock(&self.state).node(object, now)
    }

    /// From now on, attributes of this object are passed on to somebody who has it already.
    pub(super) fn note_known(&self, object: ObjectId, is_known: bool) {
        if let Some(cached) = lock(&self.state).nodes.get_mut(&object) {
            cached.is_known = is_known;
        }
    }

    /// The present era of an object that is cached, and whether all that somebody has kept of its content was read in it.
    pub(super) fn content(&self, object: ObjectId, now: Instant) -> Option<(Era, bool)> {
        let state = lock(&self.state);
        let cached = state.nodes.get(&object)?;
        (cached.until > now).then_some((cached.era, cached.has_content))
    }

    /// Whatever was kept of an object's content before this era has been dropped.
    pub(super) fn note_content(&self, object: ObjectId, era: Era) {
        if let Some(cached) = lock(&self.state).nodes.get_mut(&object) {
            cached.has_content |= cached.era == era;
        }
    }

    /// Passes attributes on that were `seen`, with the time for which they are good: 0 if their lease has ended since, or if nobody has
    /// said that the object [is known](Self::note_known) and so could be told when it does. A recall of the lease waits until `pass` has returned.
    pub(super) fn pass_on<T>(
        &self,
        object: ObjectId,
        seen: Option<Seen>,
        now: Instant,
        pass: impl FnOnce(Duration) -> T,
    ) -> T {
        let _passing = self.passing.read().unwrap_or_else(PoisonError::into_inner);
        let place = self.place(&Leased::Attributes(object));
        let good = seen.and_then(|seen| lock(&self.state).good_for(object, seen, place, now));
        pass(good.unwrap_or_default())
    }

    /// Leases are recalled. What was passed on is to be recalled, too, before the server is told.
    pub(super) fn recall(&self, leases: &[Leased]) {
        let _passing = self.passing.write().unwrap_or_else(PoisonError::into_inner);
        let mut state = lock(&self.state);
        for on in leases {
            state.end(self.place(on), on);
            if let Leased::Attributes(object) = on {
                state.passed_on.remove(object);
            }
        }
    }

    /// The program is about to make a change itself, or has made it: its leases stay, but what it has cached may be old. What names
    /// stand for is determined before. Returns objects whose attributes were passed on: these may be old, too.
    pub(super) fn note_change(&self, altered: &mut Altered) -> Vec<ObjectId> {
        let _passing = self.passing.write().unwrap_or_else(PoisonError::into_inner);
        let mut state = lock(&self.state);
        // Somebody else may have had a name stand for something else meanwhile.
        if let Some(begun) = altered.begun {
            let named = altered.names.iter();
            let mut places = named.map(|(at, name)| Leased::Entry(*at, name.clone()));
            altered.all_objects |= places.any(|on| !state.is_current(begun, self.place(&on)));
        }
        let has_targets = !altered.targets.is_empty();
        for (directory, name) in std::mem::take(&mut altered.targets) {
            let names = state.names.get(&directory);
            match names.and_then(|names| names.get(&name)) {
                Some(cached) => altered.objects.extend(cached.target),
                // It may be known by another name.
                None => altered.all_objects = true,
            }
        }
        for (directory, name) in &altered.names {
            let on = Leased::Entry(*directory, name.clone());
            state.end(self.place(&on), &on);
        }
        for object in &altered.objects {
            let on = Leased::Attributes(*object);
            state.end(self.place(&on), &on);
        }
        if altered.all {
            state.clear();
        } else if altered.all_objects {
            state.clear_nodes();
        }
        if has_targets {
            altered.begun = Some(state.ends);
        }
        if altered.all || altered.all_objects {
            return std::mem::take(&mut state.passed_on).into_keys().collect();
        }
        let objects = altered.objects.iter().copied();
        let passed_on = &mut state.passed_on;
        objects
            .filter(|object| passed_on.remove(object).is_some())
            .collect()
    }

    /// It is not known whether a change of the program's own is carried out, now or later: from now on, the program is another
    /// one for the server, which then also recalls leases for that change. Returns the objects whose attributes were passed on.
    pub(super) fn become_another(&self, holder: u128) -> Vec<ObjectId> {
        let _passing = self.passing.write().unwrap_or_else(PoisonError::into_inner);
        let mut state = lock(&self.state);
        state.clear();
        let passed_on = std::mem::take(&mut state.passed_on).into_keys();
        let former = Former {
            holder: std::mem::replace(&mut state.holder, holder),
            passed_on: passed_on.collect(),
        };
        let passed_on = former.passed_on.clone();
        state.former.push(former);
        passed_on
    }

    /// Holders that the program was before, whose leases are to be ended.
    pub(super) fn take_former(&self) -> Vec<Former> {
        std::mem::take(&mut lock(&self.state).former)
    }
}

/// The part of a lease's time that is made use of: clocks of different hosts run at slightly different rates.
fn usable(time: Duration) -> Duration {
    time - time / 16
}

/// What an object counts among all that are cached.
fn units(node: &Node) -> usize {
    let body = match &node.body {
        Body::Directory(_) | Body::Special { .. } => 0,
        Body::Link(target) => target.len(),
        Body::Stuffed {
            distribution,
            content,
            ..
        } => distribution.servers.len() * 2 + content.as_ref().map_or(0, Vec::len),
        Body::Striped {
            distribution,
            lengths,
            ..
        } => distribution.servers.len() * 2 + lengths.len() * 8,
    };
    let entries = |acl: &Acl| (acl.users.len() + acl.groups.len()) * size_of::<(u32, u8)>();
    1 + (body + node.acl.as_deref().map_or(0, entries)) / UNIT_BYTES
}

impl State {
    /// Whether no lease in this place has ended since there had been this number of ends.
    fn is_current(&self, ends: u64, place: EndPlace) -> bool {
        let (number, last_of_all) = match place {
            EndPlace::OfAttributes(number) => (number, self.last_of_nodes),
            EndPlace::OfName(number) => (number, self.last_of_names),
        };
        let last = self.last.get(number).copied().unwrap_or(u64::MAX);
        last <= ends && last_of_all <= ends
    }

    fn node(&self, object: ObjectId, now: Instant) -> Option<(Node, Seen)> {
        let cached = self.nodes.get(&object)?;
        let seen = Seen { ends: self.ends };
        (cached.until > now).then(|| (cached.node.clone(), seen))
    }

    fn good_for(
        &mut self,
        object: ObjectId,
        seen: Seen,
        place: EndPlace,
        now: Instant,
    ) -> Option<Duration> {
        if !self.is_current(seen.ends, place) {
            return None;
        }
        let cached = self.nodes.get(&object)?;
        let good = cached.until.saturating_duration_since(now);
        if !cached.is_known || good.is_zero() {
            return None;
        }
        let until = cached.until;
        if self.passed_on.len() >= MAX_CACHED && !self.passed_on.contains_key(&object) {
            self.passed_on.retain(|_, until| *until > now);
            if self.passed_on.len() >= MAX_CACHED {
                return None;
            }
        }
        self.passed_on.insert(object, until);
        // The kernel counts from when it has them.
        Some(good - good / 8)
    }

    fn end(&mut self, place: EndPlace, on: &Leased) {
        self.ends += 1;
        let (EndPlace::OfAttributes(number) | EndPlace::OfName(number)) = place;
        if let Some(last) = self.last.get_mut(number) {
            *last = self.ends;
        }
        match on {
            Leased::Attributes(object) => {
                if let Some(cached) = self.nodes.remove(object) {
                    self.units -= cached.units;
                }
            }
            Leased::Entry(directory, name) => {
                if let Some(names) = self.names.get_mut(directory) {
                    self.name_count -= usize::from(names.remove(name).is_some());
                    if names.is_empty() {
                        self.names.remove(directory);
                    }
                }
            }
        }
    }

    fn clear_nodes(&mut self) {
        self.ends += 1;
        self.last_of_nodes = self.ends;
        self.nodes.clear();
        self.units = 0;
    }

    fn clear(&mut self) {
        self.clear_nodes();
        self.last_of_names = self.ends;
        self.names.clear();
        self.name_count = 0;
    }

    fn make_room_for_nodes(&mut self, now: Instant, units: usize) {
        self.nodes.retain(|_, cached| cached.until > now);
        self.units = self.nodes.values().map(|cached| cached.units).sum();
        if self.units + units > MAX_CACHED {
            self.nodes.clear();
            self.units = 0;
        }
    }

    fn make_room_for_names(&mut self, now: Instant) {
        self.names.retain(|_, names| {
            names.retain(|_, cached| cached.until > now);
            !names.is_empty()
        });
        self.name_count = self.names.values().map(HashMap::len).sum();
        if self.name_count >= MAX_CACHED {
            self.names.clear();
            self.name_count = 0;
        }
    }
}

#[cfg(test)]
mod tests;
