//! Changes of objects: attributes, sizes, small contents and their move to the servers.

use causeway_wire::fs::{Body, Errno, Kind, ObjectId, Reach, ReplyBody, SetAttributes, Timestamp};

use super::change::{Change, SET_GID};
use super::fault::{Outcome, fail, plain};
use super::query::{MODE_BITS, StoredObject, in_group, owns};
use crate::distribution::{MAX_FILE_BYTES, Striping};

/// What a client has written into a striped file, as reported by [`causeway_wire::fs::Operation::Extend`].
pub(super) struct Written<'a> {
    pub(super) end: u64,
    pub(super) modified: Timestamp,
    pub(super) version: u64,
    pub(super) reached: &'a [Reach],
    /// All bytes from here to `end` were written; a value above all sizes if that is not known.
    pub(super) from: u64,
}

impl Change<'_> {
    /// Changes attributes.
    pub(super) fn set_attributes(
        &mut self,
        object: ObjectId,
        set: &SetAttributes,
    ) -> Outcome<ReplyBody> {
        let mut found = self.found(object)?;
        let owner = owns(&found.record, self.caller);
        self.set_owner(&mut found, set)?;
        let others = set.mode.is_some()
            || set.accessed.is_some()
            || set.modified.is_some()
            || set.distribution.is_some();
        if others && !owner {
            return fail(
                Errno::EPERM,
                format!("user {} does not own object {}", self.caller.uid, object.0),
            );
        }
        let record = &mut found.record;
        if let Some(mode) = set.mode {
            if record.kind() == Kind::SymbolicLink {
                return fail(Errno::EOPNOTSUPP, "a symbolic link's mode means nothing");
            }
            record.mode = record.mode & !MODE_BITS | mode & MODE_BITS;
            if !self.may_set_group_id(record.gid) {
                record.mode &= !SET_GID;
            }
        }
        record.accessed = set.accessed.unwrap_or(record.accessed);
        record.modified = set.modified.unwrap_or(record.modified);
        if let Some(hint) = set.distribution {
            self.check_distribution(hint)?;
            match &mut record.body {
                Body::Directory(default) => *default = hint,
                _ => {
                    return fail(
                        Errno::ENOTDIR,
                        "only a directory has a default distribution; a file's is fixed",
                    );
                }
            }
        }
        record.changed = self.now;
        self.put_object(object, &found.record);
        self.node_reply(found)
    }

    fn set_owner(&self, found: &mut StoredObject, set: &SetAttributes) -> Outcome<()> {
        if set.uid.is_none() && set.gid.is_none() {
            return Ok(());
        }
        let (caller, record) = (self.caller, &mut found.record);
        let owner = owns(record, caller);
        let uid_allowed = match set.uid {
            Some(uid) => caller.uid == 0 || (owner && uid == record.uid),
            None => true,
        };
        let gid_allowed = match set.gid {
            Some(gid) => caller.uid == 0 || (owner && (gid == record.gid || in_group(caller, gid))),
            None => true,
        };
        if !uid_allowed || !gid_allowed {
            return fail(
                Errno::EPERM,
                format!(
                    "user {} may not give object {} to another owner or group",
                    caller.uid, found.object.0
                ),
            );
        }
        record.uid = set.uid.unwrap_or(record.uid);
        record.gid = set.gid.unwrap_or(record.gid);
        Self::drop_privileges(record);
        Ok(())
    }

    /// Sets a file's size. A striped file's datafiles must follow, also if it grows: bytes behind the recorded
    /// size, which a write that was not finished may have left, must not appear.
    pub(super) fn truncate(&mut self, object: ObjectId, size: u64) -> Outcome<ReplyBody> {
        check_size(size)?;
        let mut found = self.writable_file(object)?;
        let old = found.record.size;
        match &mut found.record.body {
            Body::Stuffed { moving: true, .. } => return plain(Errno::MOVING),
            Body::Stuffed { .. } => {
                if size > self.settings.stuffed_limit as u64 {
                    return plain(Errno::STUFFED);
                }
                let mut content = self.query().content(object, old)?;
                content.resize(size as usize, 0);
                self.put_content(object, &content);
            }
            Body::Striped {
                distribution,
                version,
                truncating,
                lengths,
                sparse,
            } => {
                *sparse = size > 0 && (*sparse || size > old);
                let kept = size.min(old);
                *version = (*version + 1).max(self.least_version);
                *truncating = Some(truncating.map_or(kept, |pending| pending.min(kept)));
                if let Some(striping) = Striping::new(distribution) {
                    for (position, length) in lengths.iter_mut().enumerate() {
                        *length = (*length).min(striping.datafile_size(position, kept));
                    }
                }
            }
            Body::Directory(_) | Body::Link(_) | Body::Special { .. } => {
                return plain(Errno::EINVAL);
            }
        }
        found.record.size = size;
        self.put_written(found, self.now)
    }

    /// Sets a file's size if it is smaller.
    pub(super) fn grow(&mut self, object: ObjectId, size: u64) -> Outcome<ReplyBody> {
        let found = self.writable_file(object)?;
        match found.record.size < size {
            true => self.truncate(object, size),
            false => self.node_reply(found),
        }
    }

    /// Notes that the datafiles have followed a truncation, unless a later one has come.
    pub(super) fn finish_truncate(&mut self, object: ObjectId, version: u64) -> Outcome<ReplyBody> {
        let mut found = self.writable_file(object)?;
        let Body::Striped {
            version: current,
            truncating,
            ..
        } = &mut found.record.body
        else {
            return plain(Errno::STUFFED);
        };
        if version > *current {
            return fail(
                Errno::EINVAL,
                format!("truncation {version} was never begun; the last one is {current}"),
            );
        }
        if version == *current && truncating.take().is_some() {
            self.put_object(object, &found.record);
        }
        self.node_reply(found)
    }

    /// Notes that a striped file has been written up to `end`, and its datafiles as far as `reached`, unless a
    /// truncation after `version` may have truncated them.
    pub(super) fn extend(&mut self, object: ObjectId, written: &Written<'_>) -> Outcome<ReplyBody> {
        let Written {
            end,
            modified,
            version,
            reached,
            from,
        } = *written;
        check_size(end)?;
        let mut found = self.writable_file(object)?;
        let size = found.record.size;
        match &mut found.record.body {
            Body::Striped {
                distribution,
                version: current,
                lengths,
                sparse,
                ..
            } => {
                if version == *current {
                    note_reached(lengths, distribution.servers.len(), reached)?;
                }
                *sparse |= from > size;
            }
            Body::Stuffed { moving: true, .. } => return plain(Errno::MOVING),
            _ => return plain(Errno::STUFFED),
        }
        found.record.size = found.record.size.max(end);
        // Messages may overtake each other, times do not: the later time counts. But a time in the future was set by a user, not reached.
        let current = found.record.modified;
        let modified = match modified > current || current > self.now {
            true => modified,
            false => current,
        };
        self.put_written(found, modified)
    }

    /// Notes that all of a file is stored, if it has not changed since it was seen with this time of change.
    pub(super) fn filled(&mut self, object: ObjectId, changed: Timestamp) -> Outcome<ReplyBody> {
        let mut found = self.writable_file(object)?;
        let is_as_seen = found.record.changed == changed;
        if let Body::Striped { sparse, .. } = &mut found.record.body
            && *sparse
            && is_as_seen
        {
            *sparse = false;
            self.put_object(object, &found.record);
        }
        self.node_reply(found)
    }

    /// As [`Change::extend`], for a client that has the append lock. A client without it states lock 0.
    pub(super) fn end_append(
        &mut self,
        object: ObjectId,
        append_lock: u64,
        written: &Written<'_>,
    ) -> Outcome<ReplyBody> {
        if append_lock == 0 {
            return plain(Errno::OVERTAKEN);
        }
        match self.writable_file(object)?.record.body {
            // The file may by now end before the bytes written.
            Body::Striped { version, .. } if version != written.version => {
                plain(Errno::STALE_VERSION)
            }
            _ => self.extend(object, written),
        }
    }

    /// Writes into a small file, filling a gap with zeros, or behind its end if there is no offset.
    pub(super) fn write_stuffed(
        &mut self,
        object: ObjectId,
        offset: Option<u64>,
        data: &[u8],
    ) -> Outcome<ReplyBody> {
        let mut found = self.writable_file(object)?;
        let offset = offset.unwrap_or(found.record.size);
        let end = offset.saturating_add(data.len() as u64);
        check_size(end)?;
        match found.record.body {
            Body::Stuffed { moving: false, .. } => {}
            Body::Stuffed { moving: true, .. } => return plain(Errno::MOVING),
            _ => return plain(Errno::NOT_STUFFED),
        }
        if data.is_empty() {
            return self.node_reply(found);
        }
        if end > self.settings.stuffed_limit as u64 {
            return plain(Errno::STUFFED);
        }
        let mut content = self.query().content(object, found.record.size)?;
        let (start, end) = (offset as usize, end as usize);
        if content.len() < end {
            content.resize(end, 0);
        }
        if let Some(target) = content.get_mut(start..end) {
            target.copy_from_slice(data);
        }
        self.put_content(object, &content);
        found.record.size = content.len() as u64;
        self.put_written(found, self.now)
    }

    /// Freezes a small file's content and returns it; does nothing for a file whose content has moved.
    pub(super) fn begin_unstuff(&mut self, object: ObjectId) -> Outcome<ReplyBody> {
        let mut found = self.writable_file(object)?;
        if let Body::Stuffed { moving, .. } = &mut found.record.body
            && !*moving
        {
            *moving = true;
            self.put_object(object, &found.record);
        }
        self.query().node(found, true)
    }

    /// Removes a small file's content from the metadata: it is in the first datafile now.
    pub(super) fn finish_unstuff(&mut self, object: ObjectId) -> Outcome<ReplyBody> {
        let mut found = self.writable_file(object)?;
        match found.record.body.clone() {
            Body::Stuffed {
                distribution,
                moving: true,
                ..
            } => {
                // The content lies in the first datafile.
                let lengths = match found.record.size {
                    0 => Vec::new(),
                    size => vec![size],
                };
                found.record.body = Body::Striped {
                    distribution,
                    version: 0,
                    truncating: None,
                    lengths,
                    sparse: false,
                };
                self.put_content(object, &[]);
                self.put_object(object, &found.record);
            }
            Body::Stuffed { .. } => {
                return fail(
                    Errno::EINVAL,
                    format!("the content of object {} was not being moved", object.0),
                );
            }
            _ => {}
        }
        self.node_reply(found)
    }

    /// Puts a file whose content has changed.
    fn put_written(&mut self, mut found: StoredObject, modified: Timestamp) -> Outcome<ReplyBody> {
        if self.caller.uid != 0 {
            Self::drop_privileges(&mut found.record);
        }
        found.record.modified = modified;
        found.record.changed = self.now;
        self.put_object(found.object, &found.record);
        self.node_reply(found)
    }
}

/// Raises the least lengths of datafiles on `servers` servers.
fn note_reached(lengths: &mut Vec<u64>, servers: usize, reached: &[Reach]) -> Outcome<()> {
    for reach in reached {
        let position = usize::from(reach.position);
        if position >= servers {
            return fail(
                Errno::EINVAL,
                format!("the file lies on {servers} servers, none of them at position {position}"),
            );
        }
        check_size(reach.end)?;
        if lengths.len() <= position {
            lengths.resize(position + 1, 0);
        }
        if let Some(length) = lengths.get_mut(position) {
            *length = reach.end.max(*length);
        }
    }
    Ok(())
}

fn check_size(size: u64) -> Outcome<()> {
    match size {
        0..=MAX_FILE_BYTES => Ok(()),
        _ => fail(
            Errno::EFBIG,
            format!("a file has at most {MAX_FILE_BYTES} bytes, not {size}"),
        ),
    }
}
