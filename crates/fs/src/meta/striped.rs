//! Operators' requests about striped files: the least lengths of their datafiles, and their paths.

use causeway_wire::codec::Wire as _;
use causeway_wire::fs::{Body, MAX_MESSAGE_BYTES, ObjectId, ObjectPath, ReplyBody, StripedFile};
use causeway_wire::store::{
    Counter, GAPS_KEY, Gaps, Key, NEXT_OBJECT_KEY, ObjectRecord, object_key,
};

use super::check::check_caller;
use super::fault::{Outcome, unless_corrupt};
use super::query::{Query, find_object, find_record};
use super::store::{View, prefix_end};

/// Most bytes of items in one reply: what a message holds, less its other fields.
const MAX_ITEM_BYTES: usize = MAX_MESSAGE_BYTES - 1024;
/// Records that one listing reads, so that it ends soon also where hardly any is a striped file.
const MAX_LISTED_RECORDS: usize = 20_000;
/// Deepest directory for which a path is looked up.
const MAX_DEPTH: usize = 16 << 10;

/// The gaps in the numbers that were given out.
pub(super) fn read_gaps(view: &dyn View) -> Outcome<Gaps> {
    Ok(find_record(view, GAPS_KEY, "the gaps in object numbers")?.unwrap_or_default())
}

impl Query<'_> {
    /// Object numbers below this may be in use.
    pub(super) fn numbers(&self) -> Outcome<u64> {
        let what = "the counter of object numbers";
        let counter: Option<Counter> = find_record(self.view, NEXT_OBJECT_KEY, what)?;
        Ok(counter.map_or(0, |counter| counter.0))
    }

    /// Numbers below that which were never used.
    pub(super) fn gaps(&self) -> Outcome<Vec<(ObjectId, u64)>> {
        let gaps = read_gaps(self.view)?.0.into_iter();
        Ok(gaps.map(|(from, to)| (ObjectId(from), to)).collect())
    }

    /// Striped files behind `after`, in order. Records that are damaged are left to the check of the name space.
    pub(super) fn list_striped(&self, after: ObjectId, limit: u32) -> Outcome<ReplyBody> {
        check_caller(self.view, self.caller)?;
        let start = object_key(ObjectId(after.0.saturating_add(1)));
        let (mut files, mut bytes) = (Vec::new(), 0);
        for (read, pair) in self.view.range(&start, &prefix_end(b"o")).enumerate() {
            let (key, value) = pair?;
            let Ok(Key::Object(object)) = Key::parse(&key) else {
                continue;
            };
            let mut file = StripedFile {
                object,
                servers: Vec::new(),
                lengths: Vec::new(),
            };
            if let Ok(ObjectRecord {
                body:
                    Body::Striped {
                        distribution,
                        lengths,
                        ..
                    },
                ..
            }) = ObjectRecord::from_bytes(&value)
            {
                (file.servers, file.lengths) = (distribution.servers, lengths);
            }
            let long_enough = read >= MAX_LISTED_RECORDS;
            if file.servers.is_empty() && !long_enough {
                continue;
            }
            let size = file.to_bytes().len();
            if !files.is_empty() && (files.len() >= limit as usize || bytes + size > MAX_ITEM_BYTES)
            {
                return Ok(ReplyBody::StripedFiles { files, end: false });
            }
            bytes += size;
            files.push(file);
            // The last record is the cursor of the next listing, whatever kind it is.
            if long_enough {
                return Ok(ReplyBody::StripedFiles { files, end: false });
            }
        }
        Ok(ReplyBody::StripedFiles { files, end: true })
    }

    /// One path of each object that has one, as many as a reply holds.
    pub(super) fn paths(&self, objects: &[ObjectId]) -> Outcome<ReplyBody> {
        check_caller(self.view, self.caller)?;
        let (mut paths, mut bytes) = (Vec::new(), 0);
        for &object in objects {
            let Some(path) = self.path(object)? else {
                continue;
            };
            bytes += path.len() + 12;
            if bytes > MAX_ITEM_BYTES {
                break;
            }
            paths.push(ObjectPath { object, path });
        }
        Ok(ReplyBody::Paths(paths))
    }

    fn path(&self, object: ObjectId) -> Outcome<Option<Vec<u8>>> {
        let (mut names, mut at) = (Vec::new(), object);
        while at != ObjectId::ROOT {
            let found = unless_corrupt(find_object(self.view, at))?;
            let Some(record) = found.flatten().filter(|record| record.links > 0) else {
                return Ok(None);
            };
            names.push(record.name);
            at = record.parent;
            if names.len() > MAX_DEPTH {
                return Ok(None);
            }
        }
        if names.is_empty() {
            return Ok(Some(b"/".to_vec()));
        }
        let mut path = Vec::new();
        for name in names.iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        Ok(Some(path))
    }
}
