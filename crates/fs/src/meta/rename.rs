//! Renaming, as in POSIX.

use causeway_wire::fs::{Errno, Kind, ObjectId, Place, ReplyBody};
use causeway_wire::store::entry_key;

use super::change::Change;
use super::fault::{Outcome, corrupt, fail};
use super::names::{check_empty, exists, is_a_directory};
use super::query::{SEARCH, StoredObject, WRITE, find_object};
use super::walk::{Budget, Resolved, missing, not_a_directory};

/// Deepest directory that another directory can be moved into: finding a loop costs a step for each directory above.
const MAX_DEPTH: usize = 8192;

/// Largest file that stays for a while after it was replaced.
const MAX_HELD_BYTES: u64 = 256 << 10;

/// One end of a renaming.
struct End {
    directory: StoredObject,
    name: Vec<u8>,
    slash: bool,
    found: Option<StoredObject>,
}

impl Change<'_> {
    /// Renames, replacing what has the new name.
    pub(super) fn rename(
        &mut self,
        from: &Place,
        to: &Place,
        no_replace: bool,
    ) -> Outcome<ReplyBody> {
        let from = self.resolve_end(from)?;
        let to = self.resolve_end(to)?;
        let Some(moved) = from.found.clone() else {
            return missing(&from.name);
        };
        if no_replace && to.found.is_some() {
            return exists(&to.name);
        }
        let is_directory = moved.record.kind() == Kind::Directory;
        if !is_directory && (from.slash || (to.slash && to.found.is_none())) {
            return not_a_directory(&from.name);
        }
        if to
            .found
            .as_ref()
            .is_some_and(|found| found.object == moved.object)
        {
            return Ok(ReplyBody::Done);
        }
        if is_directory && from.directory.object != to.directory.object {
            self.check_no_loop(moved.object, &to.directory)?;
        }
        self.check_rename(&from, &to, &moved)?;
        self.relink(from, to, moved)?;
        Ok(ReplyBody::Done)
    }

    /// Swaps the objects of two names.
    pub(super) fn exchange(&mut self, first: &Place, second: &Place) -> Outcome<ReplyBody> {
        let ends = [self.resolve_end(first)?, self.resolve_end(second)?];
        let mut moved = Vec::with_capacity(2);
        for end in &ends {
            match &end.found {
                None => return missing(&end.name),
                Some(found) if end.slash && found.record.kind() != Kind::Directory => {
                    return not_a_directory(&end.name);
                }
                Some(found) => moved.push(found.clone()),
            }
        }
        let ([one, other], [first, second]) = (&ends, &mut moved[..]) else {
            return fail(Errno::EINVAL, "an exchange has two ends");
        };
        if first.object == second.object {
            return Ok(ReplyBody::Done);
        }
        self.check_exchange(one, other, first)?;
        self.check_exchange(other, one, second)?;
        let kinds = (first.record.kind(), second.record.kind());
        let places = (
            (one.directory.object, &one.name[..]),
            (other.directory.object, &other.name[..]),
        );
        for (place, kind) in [(places.0, kinds.0), (places.1, kinds.1)] {
            self.state.remove(entry_key(place.0, place.1));
            self.count_entry(place.0, kind, false)?;
        }
        for (found, old, new) in [(first, places.0, places.1), (second, places.1, places.0)] {
            self.move_name(found, old, new);
            found.record.changed = self.now;
            self.put_object(found.object, &found.record);
            self.add_entry(new.0, new.1, found.object, found.record.kind())?;
        }
        Ok(ReplyBody::Done)
    }

    /// Refuses to move the object at one end to the other one if it would be a directory below itself, or if
    /// a permission is missing.
    fn check_exchange(&self, from: &End, to: &End, moved: &StoredObject) -> Outcome<()> {
        let query = self.query();
        query.check(&from.directory, WRITE | SEARCH)?;
        self.check_sticky(&from.directory, moved)?;
        if moved.record.kind() == Kind::Directory && from.directory.object != to.directory.object {
            self.check_no_loop(moved.object, &to.directory)?;
            query.check(moved, WRITE)?;
        }
        Ok(())
    }

    fn resolve_end(&self, place: &Place) -> Outcome<End> {
        let query = self.query();
        let Resolved { directory, last } =
            query.resolve_parent(place.base, &place.path, &mut Budget::new())?;
        let no_name = || fail(Errno::EBUSY, "\".\", \"..\" and \"/\" cannot be renamed");
        let (name, slash) = last.name(no_name)?;
        let found = query.child(&directory, &name)?;
        Ok(End {
            directory,
            name,
            slash,
            found,
        })
    }

    /// Refuses to move a directory into itself or below.
    fn check_no_loop(&self, moved: ObjectId, into: &StoredObject) -> Outcome<()> {
        let (mut object, mut parent) = (into.object, into.record.parent);
        for _ in 0..MAX_DEPTH {
            if object == moved {
                return fail(Errno::EINVAL, "a directory cannot be moved below itself");
            }
            if object == ObjectId::ROOT {
                return Ok(());
            }
            object = parent;
            parent = match find_object(&*self.state, object)? {
                Some(record) => record.parent,
                None => {
                    return Err(corrupt(format_args!(
                        "directory {} does not exist",
                        object.0
                    )));
                }
            };
        }
        fail(
            Errno::ENAMETOOLONG,
            format!("the new place is more than {MAX_DEPTH} directories deep"),
        )
    }

    /// Checks permissions, and whether the object at the new name can be replaced.
    fn check_rename(&self, from: &End, to: &End, moved: &StoredObject) -> Outcome<()> {
        let query = self.query();
        query.check(&from.directory, WRITE | SEARCH)?;
        self.check_sticky(&from.directory, moved)?;
        query.check(&to.directory, WRITE | SEARCH)?;
        let is_directory = moved.record.kind() == Kind::Directory;
        if let Some(victim) = &to.found {
            self.check_sticky(&to.directory, victim)?;
            match victim.record.kind() {
                Kind::Directory if !is_directory => return is_a_directory(&to.name),
                Kind::Directory => check_empty(victim)?,
                _ if is_directory => return not_a_directory(&to.name),
                _ if to.slash => return not_a_directory(&to.name),
                _ => {}
            }
        }
        // The directory's `..` changes.
        if is_directory && from.directory.object != to.directory.object {
            query.check(moved, WRITE)?;
        }
        Ok(())
    }

    fn relink(&mut self, from: End, to: End, mut moved: StoredObject) -> Outcome<()> {
        let kind = moved.record.kind();
        if let Some(victim) = to.found {
            let is_held = victim.record.kind() == Kind::File
                && victim.record.links <= 1
                && victim.record.size <= MAX_HELD_BYTES;
            if is_held {
                self.opens.hold_replaced(victim.object);
            }
            self.remove_entry(&to.directory, &to.name, victim)?;
        }
        self.state
            .remove(entry_key(from.directory.object, &from.name));
        self.count_entry(from.directory.object, kind, false)?;
        self.move_name(
            &mut moved,
            (from.directory.object, &from.name),
            (to.directory.object, &to.name),
        );
        moved.record.changed = self.now;
        self.put_object(moved.object, &moved.record);
        self.add_entry(to.directory.object, &to.name, moved.object, kind)
    }
}
