//! Walking directories of the file system, and names in them.

use std::collections::HashSet;

use causeway_command::failure::{Failure, Outcome};
use causeway_command::output::printable;
use causeway_command::remote::{
    about, base_name, each_entry, is_gone, is_missing, join, parent_of,
};
use causeway_fs::client::Client;
use causeway_wire::fs::{Attributes, Body, Kind, Node, ObjectId, Place};

use crate::fs::session::RemotePath;

/// Directories nested deeper than this are refused rather than followed for ever.
const MAX_DEPTH: usize = 20_000;

/// A name in a directory that is identified by its number: it stays the same entry if the path that
/// led there changes. An empty name is the directory itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoteName {
    /// The directory.
    pub(crate) directory: ObjectId,
    /// The name in it.
    pub(crate) name: Vec<u8>,
    /// The path that led there, for people.
    pub(crate) path: Vec<u8>,
}

impl RemoteName {
    /// Finds the last component of a path, in the directory that the rest of the path names now.
    pub(crate) fn find(client: &mut Client, path: &[u8]) -> Outcome<Self> {
        let parent = parent_of(path);
        let node = client.stat(parent, true)?;
        if !is_directory(&node) {
            let what = format!("looking for {}", printable(path));
            return Err(Failure::new(
                what,
                format!("{} is not a directory", printable(parent)),
            ));
        }
        Ok(Self {
            directory: node.object,
            name: base_name(path).to_vec(),
            path: path.to_vec(),
        })
    }

    /// A name in a directory that was reached by this path.
    pub(crate) fn below(directory: ObjectId, path: &[u8], name: &[u8]) -> Self {
        Self {
            directory,
            name: name.to_vec(),
            path: join(path, name),
        }
    }

    /// The place in requests to the servers.
    pub(crate) fn place(&self) -> Place {
        Place::from((self.directory, self.name.as_slice()))
    }

    /// An error about this name, with the whole path.
    pub(crate) fn failure(&self, error: causeway_fs::Error) -> Failure {
        about(&self.path, error)
    }

    /// The object of this name, a link itself; `None` if there is none.
    pub(crate) fn lookup(&self, client: &mut Client) -> Outcome<Option<Node>> {
        match client.stat(self.place(), false) {
            Ok(node) => Ok(Some(node)),
            // A directory that has been removed has no entries.
            Err(error) if is_missing(&error) || is_gone(&error) => Ok(None),
            Err(error) => Err(self.failure(error)),
        }
    }

    /// Makes a directory, unless there is one. A link to a directory does not count as one.
    pub(crate) fn make_directory(
        &self,
        client: &mut Client,
        mode: u16,
        distribution: Option<causeway_wire::fs::DistributionHint>,
    ) -> Outcome<Node> {
        let in_the_way = |what: &str| {
            Failure::new(
                format!("making the directory {}", printable(&self.path)),
                format!("{what} is in the way"),
            )
            .hint("remove it, or copy to another place")
        };
        if !self.name.is_empty() {
            match client.make_directory(self.place(), mode, distribution) {
                Err(error) if causeway_command::remote::exists_already(&error) => {}
                other => return other.map_err(|error| self.failure(error)),
            }
        }
        let node = client
            .stat(self.place(), false)
            .map_err(|error| self.failure(error))?;
        match node.attributes.kind {
            Kind::Directory => Ok(node),
            Kind::SymbolicLink => Err(in_the_way("a symbolic link")),
            Kind::File => Err(in_the_way("a file")),
            Kind::Fifo | Kind::Socket => Err(in_the_way("a pipe or socket")),
            Kind::CharacterDevice | Kind::BlockDevice => Err(in_the_way("a device")),
        }
    }
}

/// One object that a walk visits.
#[derive(Debug)]
pub(crate) struct Visited<'a> {
    /// The name by which it was reached.
    pub(crate) path: &'a [u8],
    /// The directory in which it was found; the top of the walk has none.
    pub(crate) directory: Option<ObjectId>,
    /// The object.
    pub(crate) object: ObjectId,
    /// Its attributes.
    pub(crate) attributes: Attributes,
    /// The directory's entries have all been visited.
    pub(crate) leaving: bool,
}

impl Visited<'_> {
    /// Its name in the directory in which it was found.
    pub(crate) fn name(&self) -> &[u8] {
        base_name(self.path)
    }

    /// Its name in that directory, as requests name it.
    pub(crate) fn place(&self) -> Place {
        match self.directory {
            Some(directory) => Place::from((directory, self.name())),
            None => Place::from(self.path),
        }
    }
}

/// Whether a walk enters a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalkControl {
    /// Enter this directory.
    Continue,
    /// Do not enter this directory; it is not visited again when the walk leaves it.
    Skip,
}

/// A directory that a walk is inside of.
struct Level {
    path_bytes: usize,
    directory: Option<ObjectId>,
    object: ObjectId,
    attributes: Attributes,
    rest: std::vec::IntoIter<(Vec<u8>, ObjectId, Attributes)>,
}

/// Walks everything under `top` (which must be a directory), directories before and again after
/// their entries. `each` is passed the client to work with.
pub(crate) fn walk(
    client: &mut Client,
    path: &[u8],
    top: &Node,
    each: &mut dyn FnMut(&mut Client, Visited<'_>) -> Outcome,
) -> Outcome {
    walk_choosing(client, path, top, &mut |client, visited| {
        each(client, visited).map(|()| WalkControl::Continue)
    })
}

/// As [`walk`], and `each` chooses which directories are entered. Objects are found by their numbers: a
/// directory that is renamed meanwhile is still the one that was visited.
pub(crate) fn walk_choosing(
    client: &mut Client,
    path: &[u8],
    top: &Node,
    each: &mut dyn FnMut(&mut Client, Visited<'_>) -> Outcome<WalkControl>,
) -> Outcome {
    let mut levels: Vec<Level> = Vec::new();
    let mut above = HashSet::new();
    let mut path = path.to_vec();
    let mut next = Some((path.len(), None, top.object, top.attributes));
    loop {
        if let Some((path_bytes, directory, object, attributes)) = next.take() {
            let visited = Visited {
                path: &path,
                directory,
                object,
                attributes,
                leaving: false,
            };
            if each(client, visited)? == WalkControl::Continue {
                if levels.len() >= MAX_DEPTH {
                    return Err(too_deep(&path));
                }
                if !above.insert(object) {
                    return Err(contains_itself(&path));
                }
                let rest = enter(client, &path, object, each)?.into_iter();
                levels.push(Level {
                    path_bytes,
                    directory,
                    object,
                    attributes,
                    rest,
                });
            }
        }
        let Some(level) = levels.last_mut() else {
            return Ok(());
        };
        path.truncate(level.path_bytes);
        if let Some((name, object, attributes)) = level.rest.next() {
            let parent = level.object;
            path = join(&path, &name);
            next = Some((path.len(), Some(parent), object, attributes));
            continue;
        }
        let visited = Visited {
            path: &path,
            directory: level.directory,
            object: level.object,
            attributes: level.attributes,
            leaving: true,
        };
        above.remove(&visited.object);
        levels.pop();
        each(client, visited)?;
    }
}

/// Calls `each` for the entries of a directory that are not directories, and returns those that are.
fn enter(
    client: &mut Client,
    path: &[u8],
    directory: ObjectId,
    each: &mut dyn FnMut(&mut Client, Visited<'_>) -> Outcome<WalkControl>,
) -> Outcome<Vec<(Vec<u8>, ObjectId, Attributes)>> {
    let mut directories = Vec::new();
    each_entry(client, (directory, path), |client, entry| {
        let path = join(path, &entry.name);
        let Some(attributes) = entry.attributes else {
            let what = format!("reading the attributes of {}", printable(&path));
            return Err(
                Failure::new(what, "its directory may be read but not searched")
                    .hint("give yourself the right with `causeway fs chmod u+x`, or ask its owner"),
            );
        };
        if attributes.kind == Kind::Directory {
            directories.push((entry.name, entry.object, attributes));
            return Ok(());
        }
        let visited = Visited {
            path: &path,
            directory: Some(directory),
            object: entry.object,
            attributes,
            leaving: false,
        };
        each(client, visited).map(|_| ())
    })?;
    Ok(directories)
}

fn contains_itself(path: &[u8]) -> Failure {
    let shown = printable(path.get(..200).unwrap_or(path));
    Failure::new(
        format!("walking {shown}"),
        "the directory contains itself, which the metadata server should not allow",
    )
    .hint("check the file system with `causeway fs fsck`")
}

fn too_deep(path: &[u8]) -> Failure {
    let shown = printable(path.get(..200).unwrap_or(path));
    Failure::new(
        format!("walking {shown}…"),
        format!("more than {MAX_DEPTH} directories deep"),
    )
    .hint("name a directory further down")
}

/// Whether a node is a directory.
pub(crate) fn is_directory(node: &Node) -> bool {
    node.attributes.kind == Kind::Directory
}

/// The target of a symbolic link.
pub(crate) fn link_target(node: &Node) -> Option<&[u8]> {
    match &node.body {
        Body::Link(target) => Some(target),
        _ => None,
    }
}

/// The destination of copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    /// Into this directory, under their own names.
    Into(ObjectId, Vec<u8>),
    /// Under this name.
    As(RemoteName),
}

impl Destination {
    /// Chooses the destination as `cp` does: inside a directory that exists, otherwise under the name given, which
    /// only one source can have. Sources that would get the same name are refused.
    pub(crate) fn decide(
        client: &mut Client,
        given: &RemotePath,
        names: &[&[u8]],
    ) -> Outcome<Self> {
        let path = given.trimmed();
        let what = || format!("copying to {}", printable(&path));
        let several = names.len() > 1;
        match client.stat(&given.0, true) {
            Ok(node) if is_directory(&node) => {
                refuse_equal_names(names, &what())?;
                Ok(Self::Into(node.object, path))
            }
            Ok(_) if several => Err(Failure::new(what(), "the destination is not a directory")
                .hint("name a directory, or copy one at a time")),
            Ok(_) => Ok(Self::As(RemoteName::find(client, &path)?)),
            Err(error) if is_missing(&error) && (several || given.names_directory()) => {
                let hint = "make it with `causeway fs mkdir -p`";
                Err(Failure::new(what(), "there is no such directory").hint(hint))
            }
            Err(error) if is_missing(&error) => RemoteName::find(client, &path)
                .map(Self::As)
                .map_err(|failure| failure.hint("make the directory with `causeway fs mkdir -p`")),
            Err(error) => Err(error.into()),
        }
    }

    /// The destination of a source called `name`; the entries of a source without a name go
    /// straight into the directory.
    pub(crate) fn name_of(&self, name: &[u8]) -> RemoteName {
        match self {
            Self::Into(directory, path) if name.is_empty() => RemoteName {
                directory: *directory,
                name: Vec::new(),
                path: path.clone(),
            },
            Self::Into(directory, path) => RemoteName::below(*directory, path, name),
            Self::As(name) => name.clone(),
        }
    }
}

/// Refuses sources of which one would replace another.
pub(crate) fn refuse_equal_names(names: &[&[u8]], what: &str) -> Outcome {
    let mut sorted: Vec<&[u8]> = names
        .iter()
        .copied()
        .filter(|name| !name.is_empty())
        .collect();
    sorted.sort_unstable();
    for pair in sorted.windows(2) {
        if let [one, other] = pair
            && one == other
        {
            let why = format!("two sources are called {}", printable(one));
            return Err(
                Failure::usage(what, why).hint("give them other names, one command for each")
            );
        }
    }
    Ok(())
}
