//! Reading records, checking permissions, and the operations that change nothing.

use std::fmt::Display;

use causeway_wire::codec::Wire;
use causeway_wire::fs::{
    ACCESS_ACL, Acl, Attributes, Body, Caller, Entry, Errno, Kind, MAX_MESSAGE_BYTES,
    MAX_NAME_BYTES, Node, ObjectId, Operation, ReplyBody,
};
use causeway_wire::store::{
    self, COUNTERS_KEY, Counters, EntryRecord, HAS_ACL, ObjectRecord, XattrsRecord, content_key,
    entry_key, object_key, xattrs_key,
};

use super::fault::{Outcome, corrupt, fail, malformed, plain, quoted, stale, unless_corrupt};
use super::store::{View, prefix_end};
use crate::permissions::Permissions;

/// Permission to read.
pub(super) const READ: u16 = 4;
/// Permission to write.
pub(super) const WRITE: u16 = 2;
/// Permission to search a directory.
pub(super) const SEARCH: u16 = 1;

/// All bits of a mode that programs see.
pub(super) const MODE_BITS: u16 = 0o7777;

/// Most bytes of directory entries in one reply: what a message holds, less its other fields.
const MAX_ENTRIES_BYTES: usize = MAX_MESSAGE_BYTES - 1024;

/// An object and its record.
#[derive(Debug, Clone)]
pub(super) struct StoredObject {
    pub(super) object: ObjectId,
    pub(super) record: ObjectRecord,
}

/// A caller and the state of the store that its request sees.
#[derive(Clone, Copy)]
pub(super) struct Query<'a> {
    pub(super) view: &'a dyn View,
    pub(super) caller: &'a Caller,
}

/// The record under a key, if there is one; `what` names it in messages.
pub(super) fn find_record<T: Wire>(
    view: &dyn View,
    key: &[u8],
    what: impl Display,
) -> Outcome<Option<T>> {
    match view.get(key)? {
        Some(bytes) => T::from_bytes(&bytes).map(Some).map_err(malformed(what)),
        None => Ok(None),
    }
}

/// The record under a key, which must exist.
pub(super) fn read_record<T: Wire>(view: &dyn View, key: &[u8], what: &str) -> Outcome<T> {
    find_record(view, key, what)?.ok_or_else(|| corrupt(format_args!("{what} is missing")))
}

/// The record of an object, if it exists.
pub(super) fn find_object(view: &dyn View, object: ObjectId) -> Outcome<Option<ObjectRecord>> {
    let what = format_args!("the record of object {}", object.0);
    find_record(view, &object_key(object), what)
}

/// The object to which a name in a directory refers.
pub(super) fn find_entry(
    view: &dyn View,
    directory: ObjectId,
    name: &[u8],
) -> Outcome<Option<EntryRecord>> {
    let what = format_args!("entry {} of directory {}", quoted(name), directory.0);
    find_record(view, &entry_key(directory, name), what)
}

/// The counts of objects and removals.
pub(super) fn read_counters(view: &dyn View) -> Outcome<Counters> {
    Ok(find_record(view, COUNTERS_KEY, "the record of counters")?.unwrap_or_default())
}

/// An object's attributes.
pub(super) fn attributes(record: &ObjectRecord) -> Attributes {
    Attributes {
        kind: record.kind(),
        mode: record.mode & MODE_BITS,
        uid: record.uid,
        gid: record.gid,
        links: record.links,
        size: record.size,
        accessed: record.accessed,
        modified: record.modified,
        changed: record.changed,
    }
}

/// Whether `caller` belongs to the group.
pub(super) fn in_group(caller: &Caller, gid: u32) -> bool {
    caller.gid == gid || caller.groups.contains(&gid)
}

/// Whether `caller` owns the object or is user 0.
pub(super) fn owns(record: &ObjectRecord, caller: &Caller) -> bool {
    caller.uid == 0 || caller.uid == record.uid
}

impl Query<'_> {
    /// Carries out an operation that changes nothing; `None` for the others.
    pub(super) fn execute(&self, operation: &Operation) -> Option<Outcome<ReplyBody>> {
        Some(match operation {
            Operation::Lookup {
                place,
                follow,
                content,
            } => self.walk(place, *follow).and_then(|found| {
                let readable =
                    *content && (owns(&found.record, self.caller) || self.allows(&found, READ)?);
                self.node(found, readable)
            }),
            Operation::GetNode { object, content } => self.get_node(*object, *content),
            // A client that waits for the append lock gets the file's end with the lock.
            Operation::BeginAppend { object } => {
                let found = self.writable_file(*object);
                found.and_then(|found| self.node(found, false))
            }
            Operation::ReadDirectory {
                object,
                after,
                limit,
                attributes,
            } => self.read_directory(*object, after, *limit, *attributes),
            Operation::MetadataStatus => read_counters(self.view).and_then(|counters| {
                Ok(ReplyBody::MetadataStatus {
                    objects: counters.objects,
                    removals: counters.removals,
                    numbers: self.numbers()?,
                    gaps: self.gaps()?,
                })
            }),
            Operation::ListStriped { after, limit } => self.list_striped(*after, *limit),
            Operation::Paths { objects } => self.paths(objects),
            Operation::Exist { objects } => self.exist(objects),
            Operation::GetXattr { object, name } => self.get_xattr(*object, name),
            Operation::ListXattrs { object } => self.list_xattrs(*object),
            _ => return None,
        })
    }

    /// The record of an object that must exist.
    pub(super) fn object(&self, object: ObjectId) -> Outcome<ObjectRecord> {
        find_object(self.view, object)?.ok_or_else(|| stale(object))
    }

    /// A file that the caller may change through a handle.
    pub(super) fn writable_file(&self, object: ObjectId) -> Outcome<StoredObject> {
        let record = self.object(object)?;
        match record.kind() {
            Kind::File => {}
            Kind::Directory => {
                return fail(Errno::EISDIR, format!("object {} is a directory", object.0));
            }
            Kind::SymbolicLink => return plain(Errno::EINVAL),
            Kind::Fifo | Kind::Socket | Kind::CharacterDevice | Kind::BlockDevice => {
                return plain(Errno::ENXIO);
            }
        }
        let found = StoredObject { object, record };
        self.check_handle(&found, WRITE)?;
        Ok(found)
    }

    /// Refuses a caller without the wanted permissions on a file that it holds a handle of. A file's owner may always
    /// read and write it: it was checked when the file was opened, and a file may
    /// be created read-only for writing (as NFS servers do).
    pub(super) fn check_handle(&self, found: &StoredObject, wanted: u16) -> Outcome<()> {
        match owns(&found.record, self.caller) || self.allows(found, wanted)? {
            true => Ok(()),
            false => self.refuse(found, wanted),
        }
    }

    /// Refuses a caller without the wanted permissions.
    pub(super) fn check(&self, found: &StoredObject, wanted: u16) -> Outcome<()> {
        match self.allows(found, wanted)? {
            true => Ok(()),
            false => self.refuse(found, wanted),
        }
    }

    /// Whether the caller has all of the wanted permissions. User 0 has every one.
    fn allows(&self, found: &StoredObject, wanted: u16) -> Outcome<bool> {
        let StoredObject { object, record } = found;
        let is_plain = self.caller.uid == 0 || self.caller.uid == record.uid;
        let acl = match is_plain {
            true => None,
            false => self.acl(*object, record)?,
        };
        let permissions = Permissions {
            mode: record.mode,
            uid: record.uid,
            gid: record.gid,
            acl: acl.as_ref(),
        };
        Ok(permissions.allow(self.caller, wanted))
    }

    /// The access control list of an object, if it contains more than the mode.
    pub(super) fn acl(&self, object: ObjectId, record: &ObjectRecord) -> Outcome<Option<Acl>> {
        if record.mode & HAS_ACL == 0 {
            return Ok(None);
        }
        // Users' attributes follow it in the record, and would cost time with each check.
        let record_bytes = self.view.get(&xattrs_key(object))?;
        let stored = record_bytes.map(|bytes| XattrsRecord::value_in(&bytes, ACCESS_ACL));
        let stored = stored.and_then(Result::ok).flatten();
        match stored.map(|value| Acl::from_xattr(&value)) {
            Some(Ok(Some(acl))) => Ok(Some(acl.with_mode(record.mode))),
            _ => Err(corrupt(format_args!(
                "the access control list of object {} cannot be read",
                object.0
            ))),
        }
    }

    fn refuse(&self, found: &StoredObject, wanted: u16) -> Outcome<()> {
        let access = match wanted {
            SEARCH => "search",
            READ => "read",
            _ => "change",
        };
        let StoredObject { object, record } = found;
        fail(
            Errno::EACCES,
            format!(
                "user {} may not {access} {} (object {}, mode {:04o}, owner {}:{})",
                self.caller.uid,
                quoted(match record.name.as_slice() {
                    [] => b"/",
                    name => name,
                }),
                object.0,
                record.mode & MODE_BITS,
                record.uid,
                record.gid
            ),
        )
    }

    /// An object as clients see it.
    pub(super) fn node(&self, found: StoredObject, content: bool) -> Outcome<ReplyBody> {
        let StoredObject { object, record } = found;
        let attributes = attributes(&record);
        let acl = self.acl(object, &record)?.map(Box::new);
        let body = match record.body {
            Body::Stuffed {
                distribution,
                moving,
                ..
            } => Body::Stuffed {
                distribution,
                content: match content {
                    true => Some(self.content(object, record.size)?),
                    false => None,
                },
                moving,
            },
            body => body,
        };
        Ok(ReplyBody::Node(Box::new(Node {
            object,
            attributes,
            body,
            acl,
        })))
    }

    /// The content of a stuffed file of the given size.
    pub(super) fn content(&self, object: ObjectId, size: u64) -> Outcome<Vec<u8>> {
        let content = match size {
            0 => Vec::new(),
            _ => self.view.get(&content_key(object))?.unwrap_or_default(),
        };
        match content.len() as u64 == size {
            true => Ok(content),
            false => Err(corrupt(format_args!(
                "object {} has {size} bytes but {} of content",
                object.0,
                content.len()
            ))),
        }
    }

    fn get_node(&self, object: ObjectId, content: bool) -> Outcome<ReplyBody> {
        let record = self.object(object)?;
        let found = StoredObject { object, record };
        if content {
            self.check_handle(&found, READ)?;
        }
        self.node(found, content)
    }

    fn read_directory(
        &self,
        object: ObjectId,
        after: &[u8],
        limit: u32,
        with_attributes: bool,
    ) -> Outcome<ReplyBody> {
        let record = self.object(object)?;
        let directory = StoredObject { object, record };
        if directory.record.kind() != Kind::Directory {
            return fail(
                Errno::ENOTDIR,
                format!("object {} is not a directory", object.0),
            );
        }
        self.check(&directory, READ)?;
        // Attributes require the permission to search; names alone do not.
        let with_attributes = with_attributes && self.allows(&directory, SEARCH)?;
        let prefix = entry_key(object, b"");
        let mut start = entry_key(object, after);
        if !after.is_empty() {
            start.push(0);
        }
        let (mut entries, mut bytes) = (Vec::new(), 0);
        for pair in self.view.range(&start, &prefix_end(&prefix)) {
            let (key, value) = pair?;
            let name = key.get(prefix.len()..).unwrap_or_default().to_vec();
            let size = MAX_ENTRY_OVERHEAD_BYTES + name.len();
            if entries.len() >= limit.max(1) as usize || bytes + size > MAX_ENTRIES_BYTES {
                return Ok(ReplyBody::Entries {
                    entries,
                    end: false,
                });
            }
            if let Some(entry) = self.entry(name, &value, with_attributes)? {
                bytes += size;
                entries.push(entry);
            }
        }
        Ok(ReplyBody::Entries { entries, end: true })
    }

    /// One line of a listing; `None` for an entry that names no object, which a check will find.
    fn entry(&self, name: Vec<u8>, value: &[u8], attributed: bool) -> Outcome<Option<Entry>> {
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return Ok(None);
        }
        let Ok(EntryRecord { object, kind }) = EntryRecord::from_bytes(value) else {
            return Ok(None);
        };
        let attributes = match attributed {
            true => match find_object(self.view, object)? {
                Some(record) => Some(attributes(&record)),
                None => return Ok(None),
            },
            false => None,
        };
        Ok(Some(Entry {
            name,
            object,
            kind,
            attributes,
        }))
    }

    /// The objects among these that have, or may have, datafiles.
    fn exist(&self, objects: &[ObjectId]) -> Outcome<ReplyBody> {
        let mut existing = Vec::new();
        for object in objects {
            // A file whose content is being moved has a datafile already. A damaged record may be that of a file too:
            // its datafiles must stay.
            let keep = match unless_corrupt(find_object(self.view, *object))? {
                Some(None) => false,
                Some(Some(record)) => matches!(
                    record.body,
                    Body::Striped { .. } | Body::Stuffed { moving: true, .. }
                ),
                None => true,
            };
            if keep {
                existing.push(*object);
            }
        }
        Ok(ReplyBody::Objects(existing))
    }
}

/// Bytes of an encoded entry with attributes, beside the name.
const MAX_ENTRY_OVERHEAD_BYTES: usize = 4 + 8 + 1 + 1 + 59;

/// The further names of an object: directory and name.
pub(super) fn further_names(
    view: &dyn View,
    object: ObjectId,
) -> impl Iterator<Item = Outcome<(ObjectId, Vec<u8>)>> + '_ {
    let prefix = store::links_prefix(object);
    let range = view.range(&prefix, &prefix_end(&prefix));
    range.map(|pair| match store::Key::parse(&pair?.0) {
        Ok(store::Key::Link(_, directory, name)) => Ok((directory, name)),
        Ok(_) => Err(corrupt("a key among further names is none")),
        Err(error) => Err(malformed("the key of a further name")(error)),
    })
}
