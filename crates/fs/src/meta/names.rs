//! Making and removing names: create, mkdir, symlink, link, unlink, rmdir.

use causeway_wire::fs::{
    Body, DistributionHint, Errno, Kind, MAX_PATH_BYTES, ObjectId, Place, ReplyBody,
};
use causeway_wire::store::entry_key;

use super::change::Change;
use super::fault::{Outcome, fail, plain, quoted};
use super::query::{SEARCH, StoredObject, WRITE};
use super::walk::{Budget, Last, Resolved, missing, not_a_directory};

/// The parameters of [`Change::create`].
pub(super) struct NewFile<'a> {
    pub(super) place: &'a Place,
    pub(super) exclusive: bool,
    pub(super) mode: u16,
    pub(super) distribution: Option<DistributionHint>,
    pub(super) content: &'a [u8],
}

impl Change<'_> {
    /// Makes a file, or returns the one that exists.
    pub(super) fn create(&mut self, new: &NewFile<'_>) -> Outcome<ReplyBody> {
        if new.content.len() > self.settings.stuffed_limit {
            return fail(
                Errno::EINVAL,
                format!(
                    "first content has at most {} bytes, not {}",
                    self.settings.stuffed_limit,
                    new.content.len()
                ),
            );
        }
        let mut budget = Budget::new();
        let (mut base, mut path) = (new.place.base, new.place.path.clone());
        loop {
            let Resolved { directory, last } =
                self.query().resolve_parent(base, &path, &mut budget)?;
            let (name, slash) = last.name(|| is_a_directory(&path))?;
            let Some(found) = self.query().child(&directory, &name)? else {
                if slash {
                    return is_a_directory(&name);
                }
                return self.create_at(&directory, name, new);
            };
            match &found.record.body {
                _ if new.exclusive => return exists(&name),
                Body::Directory(_) => return is_a_directory(&name),
                // As in `open`: a link is followed, also to a file that does not exist yet.
                Body::Link(target) => {
                    budget.spend()?;
                    base = directory.object;
                    path = target.clone();
                    if slash {
                        path.push(b'/');
                    }
                }
                _ if slash => return not_a_directory(&name),
                _ => return self.node_reply(found),
            }
        }
    }

    fn create_at(
        &mut self,
        directory: &StoredObject,
        name: Vec<u8>,
        new: &NewFile<'_>,
    ) -> Outcome<ReplyBody> {
        self.query().check(directory, WRITE)?;
        let distribution = self.distribute(self.new_object, new.distribution, &directory.record)?;
        let body = Body::Stuffed {
            distribution,
            content: None,
            moving: false,
        };
        let size = new.content.len() as u64;
        let found = self.make(directory, name, new.mode, size, body)?;
        if !new.content.is_empty() {
            self.put_content(found.object, new.content);
        }
        self.node_reply(found)
    }

    /// Makes a directory.
    pub(super) fn make_directory(
        &mut self,
        place: &Place,
        mode: u16,
        distribution: Option<DistributionHint>,
    ) -> Outcome<ReplyBody> {
        let (directory, name, _) = self.resolve_new(place)?;
        let hint = match distribution {
            Some(hint) => {
                self.check_distribution(hint)?;
                hint
            }
            None => directory.record.default_distribution().unwrap_or_default(),
        };
        let found = self.make(&directory, name, mode, 0, Body::Directory(hint))?;
        self.node_reply(found)
    }

    /// Makes a symbolic link.
    pub(super) fn symbolic_link(&mut self, place: &Place, target: &[u8]) -> Outcome<ReplyBody> {
        if target.is_empty() {
            return fail(Errno::ENOENT, "a symbolic link cannot point to nothing");
        }
        if target.len() > MAX_PATH_BYTES {
            return plain(Errno::ENAMETOOLONG);
        }
        if target.contains(&0) {
            return fail(Errno::EINVAL, "a path cannot contain a NUL byte");
        }
        let (directory, name, slash) = self.resolve_new(place)?;
        if slash {
            return missing(&name);
        }
        let body = Body::Link(target.to_vec());
        let found = self.make(&directory, name, 0o777, target.len() as u64, body)?;
        self.node_reply(found)
    }

    /// Makes a pipe, a socket or a device.
    pub(super) fn make_special(
        &mut self,
        place: &Place,
        kind: Kind,
        mode: u16,
        device: u32,
    ) -> Outcome<ReplyBody> {
        if !kind.is_special() || (device != 0 && !kind.is_device()) {
            return fail(
                Errno::EINVAL,
                format!(
                    "{kind:?} with device number {device}: only pipes, sockets and devices are made so"
                ),
            );
        }
        if kind.is_device() && self.caller.uid != 0 {
            return fail(
                Errno::EPERM,
                format!(
                    "user {} may not make devices: only user 0 may",
                    self.caller.uid
                ),
            );
        }
        let (directory, name, slash) = self.resolve_new(place)?;
        if slash {
            return missing(&name);
        }
        let found = self.make(&directory, name, mode, 0, Body::Special { kind, device })?;
        self.node_reply(found)
    }

    /// Gives an object one more name.
    pub(super) fn hard_link(&mut self, object: ObjectId, place: &Place) -> Outcome<ReplyBody> {
        let mut found = self.found(object)?;
        if found.record.links == 0 {
            return fail(
                Errno::ENOENT,
                format!(
                    "object {} has lost its last name, and gets no other",
                    object.0
                ),
            );
        }
        let (directory, name, slash) = self.resolve_new(place)?;
        let kind = found.record.kind();
        if kind == Kind::Directory {
            return fail(Errno::EPERM, "a directory has one name only");
        }
        if slash {
            return missing(&name);
        }
        self.add_name(&mut found, directory.object, &name)?;
        found.record.changed = self.now;
        self.put_object(object, &found.record);
        self.add_entry(directory.object, &name, object, kind)?;
        self.node_reply(found)
    }

    /// Walks to a name that must not exist yet, in a directory that the caller may change. Also returns whether
    /// slashes follow the name.
    fn resolve_new(&self, place: &Place) -> Outcome<(StoredObject, Vec<u8>, bool)> {
        let query = self.query();
        let Resolved { directory, last } =
            query.resolve_parent(place.base, &place.path, &mut Budget::new())?;
        let (name, slash) = last.name(|| exists(&place.path))?;
        if query.child(&directory, &name)?.is_some() {
            return exists(&name);
        }
        query.check(&directory, WRITE)?;
        Ok((directory, name, slash))
    }

    /// Removes a name of a file or a link.
    pub(super) fn unlink(
        &mut self,
        place: &Place,
        expected: Option<ObjectId>,
    ) -> Outcome<ReplyBody> {
        let query = self.query();
        let resolved = query.resolve_parent(place.base, &place.path, &mut Budget::new())?;
        let (name, slash) = resolved.last.name(|| is_a_directory(&place.path))?;
        let found = self.expected_child(&resolved.directory, &name, expected)?;
        match found.record.kind() {
            Kind::Directory => is_a_directory(&name),
            _ if slash => not_a_directory(&name),
            _ => self.remove_name(&resolved.directory, &name, found),
        }
    }

    /// Removes an empty directory.
    pub(super) fn remove_directory(
        &mut self,
        place: &Place,
        expected: Option<ObjectId>,
    ) -> Outcome<ReplyBody> {
        let query = self.query();
        let resolved = query.resolve_parent(place.base, &place.path, &mut Budget::new())?;
        let name = match resolved.last {
            Last::Name(name, _) => name,
            Last::Empty => return plain(Errno::ENOENT),
            Last::Root => return fail(Errno::EBUSY, "the root cannot be removed"),
            Last::Dot => return fail(Errno::EINVAL, "a directory cannot be removed as \".\""),
            Last::DotDot => return plain(Errno::ENOTEMPTY),
        };
        let found = self.expected_child(&resolved.directory, &name, expected)?;
        match found.record.kind() {
            Kind::Directory => self.remove_name(&resolved.directory, &name, found),
            _ => not_a_directory(&name),
        }
    }

    /// The object of a name in a directory. Fails if that is no longer the `expected` one, which the
    /// caller has looked up.
    fn expected_child(
        &self,
        directory: &StoredObject,
        name: &[u8],
        expected: Option<ObjectId>,
    ) -> Outcome<StoredObject> {
        let Some(found) = self.query().child(directory, name)? else {
            return missing(name);
        };
        match expected {
            Some(expected) if expected != found.object => fail(
                Errno::ESTALE,
                format!(
                    "{} is object {} now, no longer object {}",
                    quoted(name),
                    found.object.0,
                    expected.0
                ),
            ),
            _ => Ok(found),
        }
    }

    /// Removes a name if the caller may, and the object with its last one.
    fn remove_name(
        &mut self,
        directory: &StoredObject,
        name: &[u8],
        found: StoredObject,
    ) -> Outcome<ReplyBody> {
        self.query().check(directory, WRITE | SEARCH)?;
        self.check_sticky(directory, &found)?;
        if found.record.kind() == Kind::Directory {
            check_empty(&found)?;
        }
        self.remove_entry(directory, name, found)?;
        Ok(ReplyBody::Done)
    }

    /// Removes a name from a directory, and the object with its last name.
    pub(super) fn remove_entry(
        &mut self,
        directory: &StoredObject,
        name: &[u8],
        found: StoredObject,
    ) -> Outcome<()> {
        let kind = found.record.kind();
        self.state.remove(entry_key(directory.object, name));
        self.drop_name(found, directory.object, name)?;
        self.count_entry(directory.object, kind, false)
    }
}

/// Refuses a directory with entries.
pub(super) fn check_empty(directory: &StoredObject) -> Outcome<()> {
    match directory.record.size {
        0 => Ok(()),
        entries => fail(
            Errno::ENOTEMPTY,
            format!("{} has {entries} entries", quoted(&directory.record.name)),
        ),
    }
}

/// The failure that a name exists.
pub(super) fn exists<T>(name: &[u8]) -> Outcome<T> {
    fail(Errno::EEXIST, format!("{} exists", quoted(name)))
}

/// The failure that a name is a directory's.
pub(super) fn is_a_directory<T>(name: &[u8]) -> Outcome<T> {
    fail(Errno::EISDIR, format!("{} is a directory", quoted(name)))
}
