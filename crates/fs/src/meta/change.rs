//! The common parts of all changes: writing records, adding and removing names, counting directories' entries.
//!
//! A name is kept twice: as an entry of its directory, and with its object (the first one in the
//! record, the others under keys of their own). Both change in one batch, so that a check can compare
//! them record by record while the file system is in use.

use causeway_wire::codec::Wire;
use causeway_wire::fs::{
    Body, Caller, Distribution, DistributionHint, Errno, Kind, MAX_STRIPE_SERVERS,
    MAX_STUFFED_BYTES, ObjectId, ReplyBody, Timestamp,
};
use causeway_wire::store::{
    Counters, EntryRecord, ObjectRecord, RemovalRecord, content_key, entry_key, link_key,
    object_key, removal_key, xattrs_key,
};

use super::fault::{Outcome, corrupt, fail, quoted};
use super::layout::Layout;
use super::opens::Opens;
use super::overlay::Overlay;
use super::query::{MODE_BITS, Query, StoredObject, further_names, in_group, owns};
use super::settings::Settings;
use super::store::View as _;

/// Strip size where neither the request, nor the directory, nor the settings have one.
const DEFAULT_STRIP_BYTES: u32 = 1 << 20;
/// Strip sizes are multiples of this.
const STRIP_UNIT_BYTES: u32 = 4 << 10;
/// Set-user-ID bit.
pub(super) const SET_UID: u16 = 0o4000;
/// Set-group-ID bit; on a directory: new entries get its group.
pub(super) const SET_GID: u16 = 0o2000;
/// On a directory: only owners remove names from it.
pub(super) const STICKY: u16 = 0o1000;
/// The group may execute.
const GROUP_EXECUTE: u16 = 0o010;

/// A change in progress, by one request.
pub(super) struct Change<'a> {
    pub(super) state: &'a mut Overlay,
    pub(super) counters: &'a mut Counters,
    pub(super) caller: &'a Caller,
    pub(super) settings: &'a Settings,
    pub(super) layout: &'a Layout,
    pub(super) opens: &'a Opens,
    /// The disk has room for changes other than removals.
    pub(super) has_room: bool,
    pub(super) now: Timestamp,
    /// Number for a new object, if the request makes one.
    pub(super) new_object: ObjectId,
    /// Whether `new_object` was used.
    pub(super) used_new_object: bool,
    /// The least version of truncations: above all that datafiles can have seen, also those of metadata of which
    /// these are an older copy.
    pub(super) least_version: u64,
}

impl Change<'_> {
    /// A view of the state with the request's own changes.
    pub(super) fn query(&self) -> Query<'_> {
        Query {
            view: &*self.state,
            caller: self.caller,
        }
    }

    /// An object, which must exist.
    pub(super) fn found(&self, object: ObjectId) -> Outcome<StoredObject> {
        let record = self.query().object(object)?;
        Ok(StoredObject { object, record })
    }

    /// The reply with an object whose record has just been put.
    pub(super) fn node_reply(&self, found: StoredObject) -> Outcome<ReplyBody> {
        self.query().node(found, false)
    }

    pub(super) fn put_object(&mut self, object: ObjectId, record: &ObjectRecord) {
        self.state.put(object_key(object), record.to_bytes());
    }

    /// Puts the content of a stuffed file.
    pub(super) fn put_content(&mut self, object: ObjectId, content: &[u8]) {
        match content {
            [] => self.state.remove(content_key(object)),
            content => self.state.put(content_key(object), content.to_vec()),
        }
    }

    /// Counts an entry added to or removed from a directory, and a sub-directory likewise if `kind` is one.
    pub(super) fn count_entry(
        &mut self,
        directory: ObjectId,
        kind: Kind,
        more: bool,
    ) -> Outcome<()> {
        let mut record = self.query().object(directory)?;
        let change = |value: u64| match more {
            true => value.checked_add(1),
            false => value.checked_sub(1),
        };
        let wrong = || corrupt(format_args!("directory {} counts wrongly", directory.0));
        record.size = change(record.size).ok_or_else(wrong)?;
        if kind == Kind::Directory {
            let links = change(record.links.into()).and_then(|links| u32::try_from(links).ok());
            record.links = match links {
                Some(links) => links,
                None if more => return fail(Errno::EMLINK, "too many sub-directories"),
                None => return Err(wrong()),
            };
        }
        record.modified = self.now;
        record.changed = self.now;
        self.put_object(directory, &record);
        Ok(())
    }

    /// Puts a new entry and counts it.
    pub(super) fn add_entry(
        &mut self,
        directory: ObjectId,
        name: &[u8],
        object: ObjectId,
        kind: Kind,
    ) -> Outcome<()> {
        let entry = EntryRecord { object, kind };
        self.state.put(entry_key(directory, name), entry.to_bytes());
        self.count_entry(directory, kind, true)
    }

    /// Makes an object with its first name.
    pub(super) fn make(
        &mut self,
        directory: &StoredObject,
        name: Vec<u8>,
        mode: u16,
        size: u64,
        body: Body,
    ) -> Outcome<StoredObject> {
        let object = self.new_object;
        let kind = body.kind();
        self.used_new_object = true;
        let (mode, gid) = self.inherit(&directory.record, mode & MODE_BITS, kind);
        let (mode, acls) = self.inherit_acls(directory, mode, kind)?;
        let record = ObjectRecord {
            mode,
            uid: self.caller.uid,
            gid,
            links: if kind == Kind::Directory { 2 } else { 1 },
            size,
            accessed: self.now,
            modified: self.now,
            changed: self.now,
            parent: directory.object,
            name,
            body,
        };
        self.put_object(object, &record);
        if !acls.xattrs.is_empty() {
            self.state.put(xattrs_key(object), acls.to_bytes());
        }
        self.add_entry(directory.object, &record.name, object, kind)?;
        self.counters.objects += 1;
        Ok(StoredObject { object, record })
    }

    /// The mode and group of a new object in a directory.
    fn inherit(&self, directory: &ObjectRecord, mode: u16, kind: Kind) -> (u16, u32) {
        if directory.mode & SET_GID == 0 {
            return (mode, self.caller.gid);
        }
        let mode = match kind {
            Kind::Directory => mode | SET_GID,
            Kind::SymbolicLink => mode,
            // A user must not be able to make a program that runs as a group that the user is not in.
            _ if self.may_set_group_id(directory.gid) => mode,
            _ if mode & GROUP_EXECUTE == 0 => mode,
            _ => mode & !SET_GID,
        };
        (mode, directory.gid)
    }

    /// Whether the caller may set the set-group-ID bit for an object of this group.
    pub(super) fn may_set_group_id(&self, gid: u32) -> bool {
        self.caller.uid == 0 || in_group(self.caller, gid)
    }

    /// Clears the bits that make a program run as its owner or group, as a change of its content or owner does.
    pub(super) fn drop_privileges(record: &mut ObjectRecord) {
        if record.kind() == Kind::File {
            record.mode &= !SET_UID;
            if record.mode & GROUP_EXECUTE != 0 {
                record.mode &= !SET_GID;
            }
        }
    }

    /// Refuses to remove a name from a sticky directory unless the caller owns either.
    pub(super) fn check_sticky(
        &self,
        directory: &StoredObject,
        victim: &StoredObject,
    ) -> Outcome<()> {
        let sticky = directory.record.mode & STICKY != 0;
        if sticky && !owns(&victim.record, self.caller) && !owns(&directory.record, self.caller) {
            return fail(
                Errno::EPERM,
                format!(
                    "directory {} is sticky: user {} owns neither it nor {}",
                    directory.object.0,
                    self.caller.uid,
                    quoted(&victim.record.name)
                ),
            );
        }
        Ok(())
    }

    /// Adds a name to an object that has one already. The record is changed, not put.
    pub(super) fn add_name(
        &mut self,
        found: &mut StoredObject,
        directory: ObjectId,
        name: &[u8],
    ) -> Outcome<()> {
        if found.record.links >= self.settings.max_links {
            return fail(
                Errno::EMLINK,
                format!("an object has at most {} names", self.settings.max_links),
            );
        }
        found.record.links += 1;
        self.state
            .put(link_key(found.object, directory, name), Vec::new());
        Ok(())
    }

    /// Moves one of an object's names elsewhere. The record is changed, not put.
    pub(super) fn move_name(
        &mut self,
        found: &mut StoredObject,
        old: (ObjectId, &[u8]),
        new: (ObjectId, &[u8]),
    ) {
        let StoredObject { object, record } = found;
        if (record.parent, record.name.as_slice()) == old {
            record.parent = new.0;
            record.name = new.1.to_vec();
        } else {
            self.state.remove(link_key(*object, old.0, old.1));
            self.state.put(link_key(*object, new.0, new.1), Vec::new());
        }
    }

    /// Removes one of an object's names, and the object with the last one. The entry itself and
    /// the directory's count are the caller's to change.
    pub(super) fn drop_name(
        &mut self,
        mut found: StoredObject,
        directory: ObjectId,
        name: &[u8],
    ) -> Outcome<()> {
        let last = found.record.kind() == Kind::Directory || found.record.links <= 1;
        if last {
            return self.remove_or_keep(found);
        }
        let StoredObject { object, record } = &mut found;
        if (record.parent, record.name.as_slice()) == (directory, name) {
            let next = further_names(&*self.state, *object).next().transpose()?;
            let Some((parent, name)) = next else {
                return Err(corrupt(format_args!(
                    "object {} counts {} names but has one",
                    object.0, record.links
                )));
            };
            self.state.remove(link_key(*object, parent, &name));
            record.parent = parent;
            record.name = name;
        } else {
            self.state.remove(link_key(*object, directory, name));
        }
        found.record.links -= 1;
        found.record.changed = self.now;
        self.put_object(found.object, &found.record);
        Ok(())
    }

    /// Removes an object, with a record for the reclaimer if it may have datafiles.
    pub(super) fn remove_object(&mut self, found: StoredObject) -> Outcome<()> {
        let StoredObject { object, record } = found;
        self.state.remove(object_key(object));
        if self.state.get(&xattrs_key(object))?.is_some() {
            self.state.remove(xattrs_key(object));
        }
        let servers = match record.body {
            Body::Striped { distribution, .. } => distribution.servers,
            Body::Stuffed {
                distribution,
                moving,
                ..
            } => {
                if record.size > 0 {
                    self.state.remove(content_key(object));
                }
                // The content may have reached the first server.
                match moving {
                    true => distribution.servers.into_iter().take(1).collect(),
                    false => Vec::new(),
                }
            }
            Body::Directory(_) | Body::Link(_) | Body::Special { .. } => Vec::new(),
        };
        if !servers.is_empty() {
            let removal = RemovalRecord { servers, writes: 0 };
            self.state.put(removal_key(object), removal.to_bytes());
            self.counters.removals += 1;
        }
        self.counters.objects = self.counters.objects.saturating_sub(1);
        Ok(())
    }

    /// The distribution of a new file: the request's hint, then the directory's, then the settings'.
    pub(super) fn distribute(
        &self,
        object: ObjectId,
        hint: Option<DistributionHint>,
        directory: &ObjectRecord,
    ) -> Outcome<Distribution> {
        let hint = hint.unwrap_or_default();
        self.check_distribution(hint)?;
        let inherited = directory.default_distribution().unwrap_or_default();
        let fallback = self.settings.distribution;
        let pick = |values: [u32; 4]| values.into_iter().find(|value| *value != 0).unwrap_or(1);
        let active = self.layout.active();
        if active.is_empty() {
            return fail(
                Errno::ENOSPC,
                "the file system has no I/O server for new files",
            );
        }
        let available = active.len() as u32;
        let strip_size = pick([
            hint.strip_size,
            inherited.strip_size,
            fallback.strip_size,
            DEFAULT_STRIP_BYTES,
        ]);
        let count = pick([
            hint.servers.into(),
            inherited.servers.into(),
            fallback.servers.into(),
            available,
        ])
        .min(available)
        .min(MAX_STRIPE_SERVERS as u32);
        // Numbers of objects are consecutive, so that files start on the servers round-robin.
        let next = (object.0 % u64::from(available)) as u32 + 1;
        let start = pick([
            hint.start.into(),
            inherited.start.into(),
            fallback.start.into(),
            next,
        ]);
        // A server that is named but not used for new files is replaced by the next one.
        let first = active.partition_point(|&index| u32::from(index) + 1 < start);
        let servers = (active.iter().cycle().skip(first))
            .take(count as usize)
            .copied()
            .collect();
        Ok(Distribution {
            strip_size,
            servers,
        })
    }

    /// Refuses a hint that cannot be followed.
    pub(super) fn check_distribution(&self, hint: DistributionHint) -> Outcome<()> {
        let strip = hint.strip_size;
        if strip != 0
            && (!strip.is_multiple_of(STRIP_UNIT_BYTES) || (strip as usize) < MAX_STUFFED_BYTES)
        {
            return fail(
                Errno::EINVAL,
                format!(
                    "strip size {strip}: must be a multiple of {STRIP_UNIT_BYTES} and at least \
                     {MAX_STUFFED_BYTES} bytes"
                ),
            );
        }
        let servers = self.layout.servers.len();
        if usize::from(hint.start) > servers || usize::from(hint.servers) > servers {
            return fail(
                Errno::EINVAL,
                format!(
                    "{} servers from number {} on: the file system has {servers}",
                    hint.servers, hint.start
                ),
            );
        }
        Ok(())
    }

    /// A file that the caller may change through a handle.
    pub(super) fn writable_file(&self, object: ObjectId) -> Outcome<StoredObject> {
        self.query().writable_file(object)
    }
}
