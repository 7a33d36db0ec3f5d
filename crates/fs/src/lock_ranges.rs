//! The parts of a file that an owner has locked.

use causeway_wire::fs::LockRange;

/// The owner of a lock, or of a wait for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Owner {
    pub(crate) client: u128,
    /// Chosen by the client.
    pub(crate) number: u64,
}

/// A lock that an owner has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) owner: Owner,
    pub(crate) exclusive: bool,
    pub(crate) range: LockRange,
    pub(crate) pid: u32,
}

/// Replaces an owner's locks on a part of a file by one lock, or by none. Adjacent locks of the same kind are merged; of
/// other locks, the parts outside stay.
pub(crate) fn set_part(held: &mut Vec<Held>, owner: Owner, part: LockRange, to: Option<Held>) {
    let mut whole = part;
    let mut beside = Vec::new();
    held.retain(|found| {
        if found.owner != owner {
            return true;
        }
        let range = found.range;
        if let Some(to) = to
            && found.exclusive == to.exclusive
            && touches(range, part)
        {
            whole.first = whole.first.min(range.first);
            whole.last = whole.last.max(range.last);
            return false;
        }
        if !range.overlaps(part) {
            return true;
        }
        if range.first < part.first {
            let last = part.first - 1;
            let range = LockRange { last, ..range };
            beside.push(Held { range, ..*found });
        }
        if range.last > part.last {
            let first = part.last + 1;
            let range = LockRange { first, ..range };
            beside.push(Held { range, ..*found });
        }
        false
    });
    held.extend(beside);
    held.extend(to.map(|to| Held { range: whole, ..to }));
}

/// Whether no byte lies between the two.
fn touches(one: LockRange, other: LockRange) -> bool {
    let ends_before = |one: LockRange, other: LockRange| {
        one.last
            .checked_add(1)
            .is_some_and(|next| next < other.first)
    };
    !ends_before(one, other) && !ends_before(other, one)
}
