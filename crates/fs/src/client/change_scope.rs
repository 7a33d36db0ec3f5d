//! Which cached names and objects a change of the program's own alters, and what they are after it.

use std::time::Instant;

use causeway_wire::fs::formats::GrantedLease;
use causeway_wire::fs::{Node, ObjectId, Operation, Place};

use super::cached::{CachedName, CachedNode};

/// What a change of the program's own may alter.
#[derive(Debug, Default)]
pub(super) struct ChangeScope {
    /// The index of the call that makes the change among the calls that are made together.
    pub(super) call: usize,
    /// Names in directories.
    pub(super) names: Vec<(ObjectId, Vec<u8>)>,
    /// What each of these names referred to when the change began, if that was cached.
    pub(super) targets_before: Vec<Option<CachedName>>,
    /// The former meaning of one of these names followed from what is known of its directory.
    pub(super) by_directory: bool,
    /// The objects that these names refer to are altered, too.
    pub(super) has_targets: bool,
    names_after: NamesAfter,
    /// The change makes a directory, which is empty.
    pub(super) is_new_directory: bool,
    pub(super) objects: Vec<ObjectId>,
    /// All objects.
    pub(super) all_objects: bool,
    /// Everything.
    pub(super) all: bool,
    /// If the change alters names of one directory only: the directory as it was before, if that
    /// was cached.
    pub(super) before: Option<CachedNode>,
    /// How often names had been dropped from the cache when the change began.
    pub(super) evictions: u64,
    /// When the change began, and how many leases had ended then.
    pub(super) begun: Option<(Instant, u64)>,
}

/// What the names of a change refer to after it.
#[derive(Debug, Default, Clone, Copy)]
enum NamesAfter {
    /// The names are gone, or nothing is known of them.
    #[default]
    Unknown,
    /// The first name refers to the object in the reply.
    New,
    /// The second name refers to what the first one referred to.
    Renamed,
    /// Each name refers to what the other one referred to.
    Exchanged,
}

/// The state after a change, according to its reply, with the leases on it.
pub(super) struct StateAfter<'a> {
    pub(super) node: Option<&'a Node>,
    pub(super) lease: &'a GrantedLease,
}

impl ChangeScope {
    /// What the operation may alter, if it is a change.
    pub(super) fn of(operation: &Operation) -> Option<Self> {
        let names_after = match operation {
            Operation::Create { .. }
            | Operation::MakeDirectory { .. }
            | Operation::SymbolicLink { .. }
            | Operation::MakeSpecial { .. }
            | Operation::HardLink { .. } => NamesAfter::New,
            Operation::Rename { .. } => NamesAfter::Renamed,
            Operation::Exchange { .. } => NamesAfter::Exchanged,
            _ => NamesAfter::Unknown,
        };
        let mut scope = Self {
            names_after,
            is_new_directory: matches!(operation, Operation::MakeDirectory { .. }),
            ..Self::default()
        };
        match operation {
            Operation::Create { place, .. }
            | Operation::MakeDirectory { place, .. }
            | Operation::SymbolicLink { place, .. }
            | Operation::MakeSpecial { place, .. } => scope.add(place, false),
            Operation::HardLink { object, place } => {
                scope.add(place, false);
                scope.objects.push(*object);
            }
            Operation::Rename { from, to, .. } => {
                scope.add(from, true);
                scope.add(to, true);
            }
            Operation::Exchange { first, second } => {
                scope.add(first, true);
                scope.add(second, true);
            }
            Operation::Unlink { place, .. } | Operation::RemoveDirectory { place, .. } => {
                scope.add(place, true);
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
            | Operation::EndAppend { object, .. } => scope.objects.push(*object),
            // A repair may alter anything.
            Operation::Check { repair: true, .. } => scope.all = true,
            _ => return None,
        }
        Some(scope)
    }

    fn add(&mut self, place: &Place, with_target: bool) {
        if place.path.contains(&b'/') {
            // The directory is not known.
            self.all = true;
            return;
        }
        self.objects.push(place.base);
        self.names.push((place.base, place.path.clone()));
        self.has_targets |= with_target;
    }

    /// The only directory whose names the change alters, if there is only one.
    pub(super) fn directory(&self) -> Option<ObjectId> {
        let (first, _) = self.names.first()?;
        let is_one = self.names.iter().all(|(directory, _)| directory == first);
        is_one.then_some(*first)
    }

    /// If the objects to which the names refer are altered, too, notes which objects these are.
    pub(super) fn find_targets(&mut self) {
        if !self.has_targets {
            return;
        }
        for known in &self.targets_before {
            match known {
                Some(known) => self.objects.extend(known.target),
                // The object may be cached under another name.
                None => self.all_objects = true,
            }
        }
    }

    /// The number of names that exist after the change.
    pub(super) fn left_count(&self) -> usize {
        match self.names_after {
            NamesAfter::Unknown => 0,
            NamesAfter::New | NamesAfter::Renamed => 1,
            NamesAfter::Exchanged => 2,
        }
    }

    /// The names that exist after the change, with what they refer to, if there are leases on them: a new name refers to `node`, others to what the
    /// former names referred to, if the leases on that have not expired.
    pub(super) fn left_names(
        &self,
        node: Option<&Node>,
        now: Instant,
    ) -> Vec<((ObjectId, &[u8]), ObjectId)> {
        let former = |index: usize| {
            let known = (*self.targets_before.get(index)?)?;
            known.target.filter(|_| known.until > now)
        };
        let targets = match self.names_after {
            NamesAfter::New => [node.map(|node| node.object), None],
            NamesAfter::Renamed => [None, former(0)],
            NamesAfter::Exchanged => [former(1), former(0)],
            NamesAfter::Unknown => [None, None],
        };
        let names = self.names.iter().map(|(at, name)| (*at, name.as_slice()));
        let named = names.zip(targets);
        named
            .filter_map(|(name, target)| Some((name, target?)))
            .collect()
    }
}
