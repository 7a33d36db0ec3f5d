//! Finds the objects of paths: `.` and `..`, symbolic links, trailing slashes, permission to
//! search.

use std::borrow::Cow;
use std::collections::HashSet;

use causeway_wire::fs::{Body, Errno, Kind, MAX_NAME_BYTES, MAX_PATH_BYTES, ObjectId, Place};
use causeway_wire::store::EntryRecord;

use super::fault::{Outcome, corrupt, fail, plain, quoted, stale};
use super::query::{Query, SEARCH, StoredObject, find_entry, find_object};

/// Most symbolic links followed on one walk, as in Linux.
const MAX_SYMBOLIC_LINKS: usize = 40;

/// A path that was resolved except for its last component: that component, and the directory in which to look it up, which the
/// caller may search.
#[derive(Debug)]
pub(super) struct Resolved {
    pub(super) directory: StoredObject,
    pub(super) last: Last,
}

/// The last component of a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// A name, and whether slashes follow: then it must name a directory.
    Name(Vec<u8>, bool),
    /// `.`.
    Dot,
    /// `..`.
    DotDot,
    /// None: the path is empty.
    Empty,
    /// None: the path consists of slashes.
    Root,
}

impl Last {
    /// The name, and whether slashes follow; fails with `other` for a path that ends in `.`, `..` or the root.
    pub(super) fn name(
        self,
        other: impl FnOnce() -> Outcome<(Vec<u8>, bool)>,
    ) -> Outcome<(Vec<u8>, bool)> {
        match self {
            Self::Name(name, slash) => Ok((name, slash)),
            Self::Empty => plain(Errno::ENOENT),
            Self::Dot | Self::DotDot | Self::Root => other(),
        }
    }
}

/// The number of links that a walk may still follow, and the directories that the caller was found to be permitted to search: checking
/// that again may require reading an access control list.
pub(super) struct Budget {
    links: usize,
    searched: HashSet<ObjectId>,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self {
            links: MAX_SYMBOLIC_LINKS,
            searched: HashSet::new(),
        }
    }

    pub(super) fn spend(&mut self) -> Outcome<()> {
        match self.links.checked_sub(1) {
            Some(left) => {
                self.links = left;
                Ok(())
            }
            None => fail(
                Errno::ELOOP,
                format!("more than {MAX_SYMBOLIC_LINKS} symbolic links on the way"),
            ),
        }
    }
}

impl Query<'_> {
    /// The object at `place`; a link in the last component is followed if `follow` or if a slash
    /// stands behind it.
    pub(super) fn walk(&self, place: &Place, follow: bool) -> Outcome<StoredObject> {
        let mut budget = Budget::new();
        let (mut base, mut path) = (place.base, place.path.clone());
        loop {
            let Resolved { directory, last } = self.resolve_parent(base, &path, &mut budget)?;
            let (name, slash) = match last {
                Last::Name(name, slash) => (name, slash),
                Last::DotDot => return self.parent(&directory),
                Last::Dot | Last::Empty | Last::Root => return Ok(directory),
            };
            let Some(found) = self.child(&directory, &name)? else {
                return missing(&name);
            };
            match &found.record.body {
                Body::Link(target) if follow || slash => {
                    budget.spend()?;
                    base = directory.object;
                    path = target.clone();
                    if slash {
                        path.push(b'/');
                    }
                }
                Body::Directory(_) => return Ok(found),
                _ if slash => return not_a_directory(&name),
                _ => return Ok(found),
            }
        }
    }

    /// Resolves all components of a path but the last.
    pub(super) fn resolve_parent(
        &self,
        base: ObjectId,
        path: &[u8],
        budget: &mut Budget,
    ) -> Outcome<Resolved> {
        check_path(path)?;
        let mut at = self.start(base, path)?;
        if path.is_empty() {
            return Ok(Resolved {
                directory: at,
                last: Last::Empty,
            });
        }
        // Links on the way change the path.
        let mut whole = Cow::Borrowed(path);
        let mut begin = 0;
        loop {
            let rest = skip_slashes(whole.get(begin..).unwrap_or_default());
            let end = rest.iter().position(|byte| *byte == b'/');
            let (component, tail) = rest.split_at(end.unwrap_or(rest.len()));
            let next = skip_slashes(tail);
            if component.len() > MAX_NAME_BYTES {
                return fail(
                    Errno::ENAMETOOLONG,
                    format!("a name has at most {MAX_NAME_BYTES} bytes"),
                );
            }
            if at.record.kind() != Kind::Directory {
                return not_a_directory(&at.record.name);
            }
            if !component.is_empty() && !budget.searched.contains(&at.object) {
                self.check(&at, SEARCH)?;
                budget.searched.insert(at.object);
            }
            if next.is_empty() {
                let last = match component {
                    b"" => Last::Root,
                    b"." => Last::Dot,
                    b".." => Last::DotDot,
                    name => Last::Name(name.to_vec(), !tail.is_empty()),
                };
                return Ok(Resolved {
                    directory: at,
                    last,
                });
            }
            let found = match component {
                b"." => at.clone(),
                b".." => self.parent(&at)?,
                name => match self.child(&at, name)? {
                    Some(found) => found,
                    None => return missing(name),
                },
            };
            match &found.record.body {
                Body::Link(target) => {
                    budget.spend()?;
                    at = self.start(at.object, target)?;
                    whole = Cow::Owned([target, b"/".as_slice(), next].concat());
                    begin = 0;
                }
                _ => {
                    begin = whole.len() - next.len();
                    at = found;
                }
            }
        }
    }

    /// The directory in which a walk begins.
    fn start(&self, base: ObjectId, path: &[u8]) -> Outcome<StoredObject> {
        let object = match path.first() {
            Some(b'/') => ObjectId::ROOT,
            _ => base,
        };
        let record = find_object(self.view, object)?.ok_or_else(|| stale(object))?;
        Ok(StoredObject { object, record })
    }

    /// The object to which a name in a directory refers.
    pub(super) fn child(
        &self,
        directory: &StoredObject,
        name: &[u8],
    ) -> Outcome<Option<StoredObject>> {
        let Some(EntryRecord { object, .. }) = find_entry(self.view, directory.object, name)?
        else {
            return Ok(None);
        };
        match find_object(self.view, object)? {
            Some(record) => Ok(Some(StoredObject { object, record })),
            None => Err(corrupt(format_args!(
                "{} in directory {} names object {}, which does not exist",
                quoted(name),
                directory.object.0,
                object.0
            ))),
        }
    }

    /// The directory above a directory; the root is above itself.
    pub(super) fn parent(&self, directory: &StoredObject) -> Outcome<StoredObject> {
        if directory.record.kind() != Kind::Directory {
            return not_a_directory(&directory.record.name);
        }
        let object = directory.record.parent;
        match find_object(self.view, object)? {
            Some(record) => Ok(StoredObject { object, record }),
            None => Err(corrupt(format_args!(
                "directory {} lies in directory {}, which does not exist",
                directory.object.0, object.0
            ))),
        }
    }
}

/// Refuses an impossible path.
fn check_path(path: &[u8]) -> Outcome<()> {
    if path.len() > MAX_PATH_BYTES {
        return fail(
            Errno::ENAMETOOLONG,
            format!("a path has at most {MAX_PATH_BYTES} bytes"),
        );
    }
    match path.contains(&0) {
        true => fail(Errno::EINVAL, "a path cannot contain a NUL byte"),
        false => Ok(()),
    }
}

fn skip_slashes(path: &[u8]) -> &[u8] {
    let start = path.iter().position(|byte| *byte != b'/');
    path.get(start.unwrap_or(path.len())..).unwrap_or_default()
}

/// The failure that a name does not exist.
pub(super) fn missing<T>(name: &[u8]) -> Outcome<T> {
    fail(Errno::ENOENT, format!("there is no {}", quoted(name)))
}

/// The failure that a name is not a directory's.
pub(super) fn not_a_directory<T>(name: &[u8]) -> Outcome<T> {
    match name {
        [] => plain(Errno::ENOTDIR),
        name => fail(
            Errno::ENOTDIR,
            format!("{} is not a directory", quoted(name)),
        ),
    }
}
