//! A program's cache of names and attributes. Each entry is used until the metadata server's lease expires that came with it. No
//! I/O, no clock.
//!
//! A reply may come late: its content is not cached if a recall, or a change of the program's own, has ended a lease on it since the
//! request was sent. So a number counts all ends of leases, and the number of each end is kept in a table of a fixed size. If two
//! leases share a place in the table, at worst something is not cached.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use causeway_wire::fs::formats::GrantedLease;
use causeway_wire::fs::{Acl, Body, Kind, Leased, Node, ObjectId};

use super::cached::{CacheStamp, CachedName, CachedNode, Era, Named, PassedName, Searcher};
use super::change_scope::{ChangeScope, StateAfter};
use super::contention::Contention;
use crate::locks::lock;

pub(super) mod passing;

/// Most names that are cached, and most units of objects. A name takes up to some 500 bytes.
const MAX_CACHED: usize = 1 << 16;
/// Bytes of an object's variable part that count as one more unit. The rest of an object takes some 300
/// bytes.
const UNIT_BYTES: usize = 256;
/// Most users of a directory who are remembered.
const MAX_SEARCHERS: usize = 16;
/// Places in the table of ends.
const PLACES: usize = 1 << 12;

/// When something was requested, in time and in the order of the ends of leases.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    at: Instant,
    ends: u64,
}

/// The caches of a program. Its clients fill them; a thread ends what is recalled.
pub(super) struct LeaseCache {
    state: Mutex<State>,
    /// Held shared by a thread that passes cached content on to the kernel, and exclusively to end a lease: so whatever was passed on
    /// before has arrived when the lease ends.
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
    /// Units of all cached objects.
    units: usize,
    names: HashMap<ObjectId, HashMap<Vec<u8>, CachedName>>,
    name_count: usize,
    /// Counts the times that names were dropped, to make room or by a recall.
    evictions: u64,
    /// When the attributes expire that were passed on.
    passed_on: HashMap<ObjectId, Instant>,
    /// For those among them that the receiver may not have processed yet, the directory under whose lock
    /// it does so.
    unsettled: HashMap<ObjectId, ObjectId>,
    /// When the names expire that were passed on.
    passed_names: HashMap<ObjectId, HashMap<Vec<u8>, PassedName>>,
    passed_name_count: usize,
    /// Objects for whose names the receiver may set the time of a name that was recalled, and until when.
    late: HashMap<ObjectId, Instant>,
    contention: Contention,
    /// Identities under which the program held leases before, and what it had passed on under them.
    retired: Vec<RetiredHolder>,
    is_stopping: bool,
}

/// A place in the table of ends, and the kind of lease.
#[derive(Clone, Copy)]
enum EndPlace {
    OfAttributes(usize),
    OfName(usize),
}

/// An identity under which the program held leases before.
pub(super) struct RetiredHolder {
    pub(super) holder: u128,
    /// Objects whose attributes were passed on.
    pub(super) passed_on: Vec<ObjectId>,
    /// When the names expire that were passed on, and the attributes that the receiver may not have
    /// processed yet.
    pub(super) unforgotten_until: Option<Instant>,
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
                evictions: 0,
                passed_on: HashMap::new(),
                unsettled: HashMap::new(),
                passed_names: HashMap::new(),
                passed_name_count: 0,
                late: HashMap::new(),
                contention: Contention::default(),
                retired: Vec::new(),
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

    /// From now on, nothing is cached.
    pub(super) fn stop(&self) {
        let mut state = lock(&self.state);
        state.is_stopping = true;
        state.clear();
    }

    pub(super) fn is_stopping(&self) -> bool {
        lock(&self.state).is_stopping
    }

    /// Notes the moment before a request is sent.
    pub(super) fn ask(&self, now: Instant) -> Asked {
        Asked {
            at: now,
            ends: lock(&self.state).ends,
        }
    }

    /// Caches the object that was requested at `asked`, with a lease for this `time` from then on. Returns
    /// whether it is cached.
    pub(super) fn fill_node(
        &self,
        asked: Asked,
        node: &Node,
        lease: &GrantedLease,
        now: Instant,
    ) -> Option<CacheStamp> {
        let place = self.place(&Leased::Attributes(node.object));
        let mut state = lock(&self.state);
        if state.is_stopping || !state.is_current(asked.ends, place) {
            return None;
        }
        Some(state.keep_node(asked.at, node, lease, now))
    }

    /// The same for a name.
    pub(super) fn fill_name(
        &self,
        asked: Asked,
        (directory, name): (ObjectId, &[u8]),
        target: Option<ObjectId>,
        lease: &GrantedLease,
    ) {
        let place = self.place(&Leased::Entry(directory, name.to_vec()));
        let mut state = lock(&self.state);
        if state.is_stopping || !state.is_current(asked.ends, place) {
            return;
        }
        state.keep_name((directory, name), target, lease, asked.at);
    }

    /// Notes that the server has looked up a name for this user, whether the name exists or not.
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

    /// What a name refers to, if that is cached.
    pub(super) fn find(&self, directory: ObjectId, name: &[u8], now: Instant) -> Option<Named> {
        let state = lock(&self.state);
        match state.known_name(directory, name, now)?.target {
            None => Some(Named::Nothing),
            Some(object) => {
                let (node, seen) = state.node(object, now)?;
                Some(Named::Node(Box::new(node), seen))
            }
        }
    }

    /// An object, if it is cached.
    pub(super) fn node(&self, object: ObjectId, now: Instant) -> Option<(Node, CacheStamp)> {
        lock(&self.state).node(object, now)
    }

    /// Notes whether the receiver of passed-on attributes (the kernel) knows this object from now
    /// on.
    pub(super) fn note_known(&self, object: ObjectId, is_known: bool) {
        let mut state = lock(&self.state);
        if let Some(cached) = state.nodes.get_mut(&object) {
            cached.is_known = is_known;
        }
        state.unsettled.remove(&object);
    }

    /// The present era of an object that is cached, and whether all of its content that the receiver (the kernel) keeps
    /// was read in this era.
    pub(super) fn content(&self, object: ObjectId, now: Instant) -> Option<(Era, bool)> {
        let state = lock(&self.state);
        let cached = state.nodes.get(&object)?;
        (cached.until > now).then_some((cached.era, cached.has_content))
    }

    /// Notes that the receiver has dropped all of an object's content that was read before this
    /// era.
    pub(super) fn note_content(&self, object: ObjectId, era: Era) {
        if let Some(cached) = lock(&self.state).nodes.get_mut(&object) {
            cached.has_content |= cached.era == era;
        }
    }

    /// Begins a change of the program's own: its leases stay, but what it has cached may become outdated. What the names refer
    /// to is determined before.
    pub(super) fn begin_change(&self, scope: &mut ChangeScope, now: Instant) {
        let _passing = self.passing.write().unwrap_or_else(PoisonError::into_inner);
        let mut state = lock(&self.state);
        for (directory, name) in &scope.names {
            state.contention.note_own(*directory, now);
            let known = state.known_name(*directory, name, now);
            scope.by_directory |= known.is_some() && !state.has_name(*directory, name);
            scope.targets_before.push(known);
        }
        if let Some(directory) = scope.directory() {
            let known = state.nodes.get(&directory);
            scope.before = known.filter(|known| known.until > now).cloned();
        }
        scope.evictions = state.evictions;
        scope.find_targets();
        self.end_in_scope(&mut state, scope);
        scope.begun = Some((now, state.ends));
    }

    /// Ends a change of the program's own; `left` is the state after it, according to the reply and its leases. Returns objects whose attributes
    /// were passed on and may be outdated.
    pub(super) fn end_change(
        &self,
        scope: &mut ChangeScope,
        left: Option<StateAfter<'_>>,
        now: Instant,
    ) -> Vec<ObjectId> {
        let _passing = self.passing.write().unwrap_or_else(PoisonError::into_inner);
        let mut state = lock(&self.state);
        let Some((begun, ends)) = scope.begun else {
            return Vec::new();
        };
        let names_stay = self.widen_scope(&state, scope, ends);
        let left = left.filter(|_| names_stay && !scope.all && !scope.all_objects);
        let is_current =
            |object: ObjectId| state.is_current(ends, self.place(&Leased::Attributes(object)));
        let node = left
            .as_ref()
            .and_then(|left| left.node)
            .filter(|node| is_current(node.object));
        let directory = scope.directory().filter(|object| is_current(*object));
        self.end_in_scope(&mut state, scope);
        if let Some(left) = left
            && !state.is_stopping
        {
            cache_state_after(&mut state, scope, &left, (node, directory), (begun, now));
        }
        take_outdated(&mut state, scope)
    }

    /// Adds all objects to a scope if it is not known which ones the change has altered: another thread or program may have changed a name since
    /// the change began, when `ends` leases had ended. Returns whether the names are still what they were then.
    fn widen_scope(&self, state: &State, scope: &mut ChangeScope, ends: u64) -> bool {
        let is_current = |on: &Leased| state.is_current(ends, self.place(on));
        let entry =
            |(directory, name): &(ObjectId, Vec<u8>)| Leased::Entry(*directory, name.clone());
        let directories = scope.names.iter().map(|(directory, _)| *directory);
        let mut directories = directories.filter(|_| scope.by_directory);
        let names_stay = scope.names.iter().all(|name| is_current(&entry(name)))
            && directories.all(|object| is_current(&Leased::Attributes(object)));
        scope.all_objects |= scope.has_targets && !names_stay;
        names_stay
    }

    /// Removes what a change alters from the cache, as far as that is known.
    fn end_in_scope(&self, state: &mut State, scope: &ChangeScope) {
        for (directory, name) in &scope.names {
            let on = Leased::Entry(*directory, name.clone());
            state.end(self.place(&on), &on);
        }
        for object in &scope.objects {
            let on = Leased::Attributes(*object);
            state.end(self.place(&on), &on);
        }
        if scope.all {
            state.clear();
        } else if scope.all_objects {
            state.clear_nodes();
        }
    }

    /// Gives the program a new identity as a holder of leases, because it is not known whether a change of its own is carried
    /// out, now or later: if it is, the server also recalls the program's leases. Returns the objects whose attributes were
    /// passed on.
    pub(super) fn renew_holder_id(&self, holder: u128) -> Vec<ObjectId> {
        let _passing = self.passing.write().unwrap_or_else(PoisonError::into_inner);
        let mut state = lock(&self.state);
        state.clear();
        let passed_on = std::mem::take(&mut state.passed_on);
        let unsettled = std::mem::take(&mut state.unsettled);
        let unsettled = unsettled.keys().filter_map(|object| passed_on.get(object));
        state.passed_name_count = 0;
        let names = std::mem::take(&mut state.passed_names);
        let names = names.values().flat_map(HashMap::values);
        let unforgotten_until = names.map(|passed| &passed.until).chain(unsettled).max();
        let retired = RetiredHolder {
            holder: std::mem::replace(&mut state.holder, holder),
            unforgotten_until: unforgotten_until.copied(),
            passed_on: passed_on.into_keys().collect(),
        };
        let passed_on = retired.passed_on.clone();
        state.retired.push(retired);
        passed_on
    }

    /// Takes the retired identities whose leases have to be ended.
    pub(super) fn take_retired(&self) -> Vec<RetiredHolder> {
        std::mem::take(&mut lock(&self.state).retired)
    }
}

/// Caches the state after a change, on which there are leases: names, `node` and the `directory` whose names have changed, as far as nothing else has
/// changed them since the change has `begun`.
fn cache_state_after(
    state: &mut State,
    scope: &mut ChangeScope,
    left: &StateAfter<'_>,
    (node, directory): (Option<&Node>, Option<ObjectId>),
    (begun, now): (Instant, Instant),
) {
    let names = scope.left_names(left.node, now);
    let are_known = names.len() == scope.left_count();
    for ((directory, name), target) in names {
        state.keep_name((directory, name), Some(target), left.lease, begun);
    }
    if let Some(node) = node {
        state.keep_node(begun, node, left.lease, now);
        if let Some(cached) = state.nodes.get_mut(&node.object) {
            cached.is_complete |= scope.is_new_directory;
        }
    }
    // Whatever the reply does not state about the directory is unchanged, as there were leases on it
    // without a gap.
    if let (Some(_), Some(attributes), Some(before)) =
        (directory, left.lease.directory, scope.before.take())
        && before.until > now
    {
        let until = begun + usable(left.lease);
        let has_all = are_known && state.evictions == scope.evictions;
        state.put_back(CachedNode {
            node: Node {
                attributes,
                ..before.node
            },
            until,
            is_complete: before.is_complete && has_all,
            ..before
        });
    }
}

/// Takes the objects in the scope of a change whose attributes were passed on, and may be outdated.
fn take_outdated(state: &mut State, scope: &ChangeScope) -> Vec<ObjectId> {
    if scope.all || scope.all_objects {
        state.unsettled.clear();
        return std::mem::take(&mut state.passed_on).into_keys().collect();
    }
    let objects = scope.objects.iter().copied();
    let passed_on = &mut state.passed_on;
    objects
        .filter(|object| passed_on.remove(object).is_some())
        .collect()
}

/// The part of a lease's time that is used: clocks of different hosts run at slightly different rates.
fn usable(lease: &GrantedLease) -> Duration {
    let time = Duration::from_millis(lease.time_ms.into());
    time - time / 16
}

/// An object's size in the cache, in units.
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

    fn node(&self, object: ObjectId, now: Instant) -> Option<(Node, CacheStamp)> {
        let cached = self.nodes.get(&object)?;
        let seen = CacheStamp { ends: self.ends };
        (cached.until > now).then(|| (cached.node.clone(), seen))
    }

    /// Caches an object that was requested at this moment, with this lease.
    fn keep_node(
        &mut self,
        asked_at: Instant,
        node: &Node,
        lease: &GrantedLease,
        now: Instant,
    ) -> CacheStamp {
        let units = units(node);
        if self.units + units > MAX_CACHED && !self.nodes.contains_key(&node.object) {
            self.make_room_for_nodes(asked_at, units);
        }
        let ends = self.ends;
        self.eras += 1;
        let new = Era(self.eras);
        // During a time without a lease, the server has reported no changes: what the receiver keeps beside the attributes, as the kernel
        // keeps access control lists, may be outdated. A clock that has stood still, as that of a suspended host, does not show such a
        // time; the time of the last change does.
        let (is_known, era, has_content, is_complete) = match self.nodes.get(&node.object) {
            Some(known) if known.until <= now => (false, new, false, false),
            Some(known) if known.node.attributes.changed == node.attributes.changed => (
                known.is_known,
                known.era,
                known.has_content,
                known.is_complete,
            ),
            Some(known) => (known.is_known, new, false, false),
            None => (false, new, false, false),
        };
        let cached = CachedNode {
            node: node.clone(),
            units,
            asked_at,
            until: asked_at + usable(lease),
            is_known,
            era,
            has_content,
            searchers: Vec::new(),
            is_complete,
        };
        self.units += units;
        if let Some(former) = self.nodes.insert(node.object, cached) {
            self.units -= former.units;
        }
        CacheStamp { ends }
    }

    /// Caches an object again.
    fn put_back(&mut self, cached: CachedNode) {
        self.units += cached.units;
        if let Some(former) = self.nodes.insert(cached.node.object, cached) {
            self.units -= former.units;
        }
    }

    /// Caches a name that was requested at this moment, with this lease.
    fn keep_name(
        &mut self,
        (directory, name): (ObjectId, &[u8]),
        target: Option<ObjectId>,
        lease: &GrantedLease,
        asked_at: Instant,
    ) {
        if self.name_count >= MAX_CACHED {
            self.make_room_for_names(asked_at);
        }
        let cached = CachedName {
            target,
            until: asked_at + usable(lease),
            for_all_users: lease.for_all_users,
            may_be_renamed: lease.of_changes,
        };
        let names = self.names.entry(directory).or_default();
        let known = names.insert(name.to_vec(), cached);
        self.name_count += usize::from(known.is_none());
    }

    fn has_name(&self, directory: ObjectId, name: &[u8]) -> bool {
        let names = self.names.get(&directory);
        names.is_some_and(|names| names.contains_key(name))
    }

    /// What a name refers to, if that is cached or follows from what is cached.
    fn known_name(&self, directory: ObjectId, name: &[u8], now: Instant) -> Option<CachedName> {
        let names = self.names.get(&directory);
        let Some(cached) = names.and_then(|names| names.get(name)) else {
            let all = self.nodes.get(&directory).filter(|all| all.is_complete)?;
            let missing = CachedName {
                target: None,
                until: all.until,
                for_all_users: false,
                may_be_renamed: false,
            };
            return (all.until > now).then_some(missing);
        };
        (cached.until > now).then_some(*cached)
    }

    /// Removes what is cached under this lease. Returns whether that was a directory.
    fn end(&mut self, place: EndPlace, on: &Leased) -> bool {
        self.ends += 1;
        let (EndPlace::OfAttributes(number) | EndPlace::OfName(number)) = place;
        if let Some(last) = self.last.get_mut(number) {
            *last = self.ends;
        }
        match on {
            Leased::Attributes(object) => {
                let Some(cached) = self.nodes.remove(object) else {
                    return false;
                };
                self.units -= cached.units;
                cached.node.attributes.kind == Kind::Directory
            }
            Leased::Entry(directory, name) => {
                // It is no longer known what the name refers to, or whether it exists.
                if let Some(cached) = self.nodes.get_mut(directory) {
                    cached.is_complete = false;
                }
                if let Some(names) = self.names.get_mut(directory) {
                    self.name_count -= usize::from(names.remove(name).is_some());
                    if names.is_empty() {
                        self.names.remove(directory);
                    }
                }
                false
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
        self.evictions += 1;
        let nodes = &mut self.nodes;
        let mut forget_names_of = |directory: &ObjectId| {
            if let Some(cached) = nodes.get_mut(directory) {
                cached.is_complete = false;
            }
        };
        self.names.retain(|directory, names| {
            let count = names.len();
            names.retain(|_, cached| cached.until > now);
            if names.len() < count {
                forget_names_of(directory);
            }
            !names.is_empty()
        });
        self.name_count = self.names.values().map(HashMap::len).sum();
        if self.name_count >= MAX_CACHED {
            self.names.keys().for_each(forget_names_of);
            self.names.clear();
            self.name_count = 0;
        }
    }
}

#[cfg(test)]
mod tests;
