//! Leases on the state after changes, which come with the replies to these: a client that makes a file and then looks it up, or
//! makes another one beside it, need not request again what the reply has said.

use std::time::{Duration, Instant};

use causeway_wire::fs::formats::GrantedLease;
use causeway_wire::fs::{
    Attributes, Leased, MAX_NAME_BYTES, ObjectId, Operation, Reply, ReplyBody, Request,
};

use super::cache_leases::Table;
use super::overlay::Overlay;
use super::query::{attributes, find_object};

/// The state after one change of a batch, and the program that may cache it once the batch is
/// committed.
pub(super) struct LeasesOfChange {
    /// The request's place in the batch.
    pub(super) index: usize,
    holder: u128,
    /// The change's number in the batch.
    number: u64,
    on: Vec<Leased>,
    is_rename: bool,
    directory: Option<(ObjectId, Attributes)>,
    /// A later change of the batch has altered some of it.
    is_overtaken: bool,
}

/// The time of a lease as the client gets it. The client uses 15/16 of that, of at least a quarter of a second: so it may be longer than the lease's by less than a millisecond. Shorter, it would make
/// a lease on a new name end before an earlier one on its former name, for which the client would have to wait.
pub(crate) fn in_milliseconds(time: Duration) -> u32 {
    let whole = time.as_nanos().div_ceil(1_000_000);
    u32::try_from(whole).unwrap_or(u32::MAX)
}

/// The name of a path that is a single name: only on such a name there can be a lease.
pub(crate) fn single_name(path: &[u8]) -> Option<&[u8]> {
    let is_one = !matches!(path, b"" | b"." | b"..")
        && path.len() <= MAX_NAME_BYTES
        && !path.contains(&b'/');
    is_one.then_some(path)
}

/// What can be leased with this reply to a change, and the only directory that the change has changed.
fn left_by(operation: &Operation, reply: &Reply) -> Option<(Vec<Leased>, Option<ObjectId>)> {
    let body = reply.result.as_ref().ok()?;
    let name = |place: &causeway_wire::fs::Place| {
        Some(Leased::Entry(
            place.base,
            single_name(&place.path)?.to_vec(),
        ))
    };
    match (operation, body) {
        (
            Operation::Create {
                place,
                exclusive: true,
                ..
            }
            | Operation::MakeDirectory { place, .. }
            | Operation::SymbolicLink { place, .. }
            | Operation::MakeSpecial { place, .. }
            | Operation::HardLink { place, .. },
            ReplyBody::Node(node),
        ) => {
            let on = vec![name(place)?, Leased::Attributes(node.object)];
            Some((on, Some(place.base)))
        }
        (Operation::SetAttributes { object, .. }, ReplyBody::Node(_)) => {
            Some((vec![Leased::Attributes(*object)], None))
        }
        (Operation::Unlink { place, .. } | Operation::RemoveDirectory { place, .. }, _) => {
            single_name(&place.path)?;
            Some((Vec::new(), Some(place.base)))
        }
        (Operation::Rename { from, to, .. }, _) => {
            let directory = (from.base == to.base).then_some(to.base);
            single_name(&from.path)?;
            Some((vec![name(to)?], directory))
        }
        (Operation::Exchange { first, second }, _) => {
            let directory = (first.base == second.base).then_some(first.base);
            Some((vec![name(first)?, name(second)?], directory))
        }
        _ => None,
    }
}

impl LeasesOfChange {
    /// The result in `state` of the change with this `number` in its batch, if a client may cache it.
    pub(super) fn of(
        (index, number): (usize, u64),
        request: &Request,
        reply: &Reply,
        state: &Overlay,
    ) -> Option<Self> {
        let holder = request.holder?;
        let (on, directory) = left_by(&request.operation, reply)?;
        let directory = directory.and_then(|object| {
            let record = find_object(state, object).ok()??;
            Some((object, attributes(&record)))
        });
        Some(Self {
            index,
            holder,
            number,
            on,
            is_rename: matches!(
                request.operation,
                Operation::Rename { .. } | Operation::Exchange { .. }
            ),
            directory,
            is_overtaken: false,
        })
    }

    /// Notes what later changes of the same batch have changed again.
    pub(super) fn note_later_changes(&mut self, table: &Table) {
        let is_left = |on: &Leased| table.was_last(self.number, on);
        self.is_overtaken = !self.on.iter().all(is_left);
        let directory = self.directory.take();
        self.directory = directory.filter(|(object, _)| is_left(&Leased::Attributes(*object)));
    }

    /// Grants the leases. Everything to be leased is committed, and has not been changed since.
    pub(super) fn grant(self, table: &mut Table, now: Instant) -> Option<GrantedLease> {
        if self.is_overtaken {
            return None;
        }
        let mut grant = |on: Vec<Leased>| match on.is_empty() {
            true => None,
            false => table.grant_of_change(self.holder, on, self.is_rename, now),
        };
        let has_others = !self.on.is_empty();
        let granted = grant(self.on);
        // The reply has one lease, which covers everything besides the directory or nothing.
        if has_others && granted.is_none() {
            return None;
        }
        let of_directory = self.directory.and_then(|(object, attributes)| {
            let time = grant(vec![Leased::Attributes(object)])?;
            Some((time, attributes))
        });
        let times = [granted, of_directory.map(|(time, _)| time)];
        let time = times.into_iter().flatten().min()?;
        Some(GrantedLease {
            time_ms: in_milliseconds(time),
            of_changes: true,
            for_all_users: false,
            directory: of_directory.map(|(_, attributes)| attributes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_millisecond_counts_as_a_whole_one() {
        let times = [0, 1, 999_999, 1_000_000, 1_000_001];
        let milliseconds = times.map(|time| in_milliseconds(Duration::from_nanos(time)));
        assert_eq!(milliseconds, [0, 1, 1, 1, 2]);
        assert_eq!(in_milliseconds(Duration::MAX), u32::MAX);
    }
}
