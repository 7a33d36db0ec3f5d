//! Walking directories of the file system.

use causeway_fs::client::Client;
use causeway_wire::fs::{Attributes, Body, Entry, Kind, Node, ObjectId};

use crate::failure::{Failure, Outcome};
use crate::fs::session::{RemotePath, is_missing, join};

/// Entries asked for at a time.
const PAGE_ENTRIES: u32 = 1000;
/// Directories nested deeper than this are refused rather than followed for ever.
const MAX_DEPTH: usize = 2000;

/// Calls `each` for every entry of a directory, in the order of names.
pub(crate) fn each_entry(
    client: &mut Client,
    directory: ObjectId,
    mut each: impl FnMut(&mut Client, Entry) -> Outcome,
) -> Outcome {
    let mut after = Vec::new();
    loop {
        let (entries, end) = client.read_directory(directory, &after, PAGE_ENTRIES, true)?;
        let Some(last) = entries.last() else {
            return Ok(());
        };
        after = last.name.clone();
        for entry in entries {
            each(client, entry)?;
        }
        if end {
            return Ok(());
        }
    }
}

/// One object met on a walk.
#[derive(Debug)]
pub(crate) struct Met<'a> {
    /// Where it is.
    pub(crate) path: &'a [u8],
    /// What it is.
    pub(crate) object: ObjectId,
    /// Its attributes.
    pub(crate) attributes: Attributes,
    /// A directory's entries have all been met.
    pub(crate) leaving: bool,
}

/// Walks everything under `top` (which must be a directory), directories before and again after
/// their entries. `each` gets the client to work with.
pub(crate) fn walk(
    client: &mut Client,
    path: &[u8],
    top: &Node,
    each: &mut dyn FnMut(&mut Client, Met<'_>) -> Outcome,
) -> Outcome {
    walk_from(client, path, top.object, top.attributes, 0, each)
}

fn walk_from(
    client: &mut Client,
    path: &[u8],
    object: ObjectId,
    attributes: Attributes,
    depth: usize,
    each: &mut dyn FnMut(&mut Client, Met<'_>) -> Outcome,
) -> Outcome {
    if depth > MAX_DEPTH {
        let what = format!("walking {}", crate::output::printable(path));
        return Err(Failure::new(
            what,
            format!("more than {MAX_DEPTH} directories deep"),
        ));
    }
    let met = |leaving| Met {
        path,
        object,
        attributes,
        leaving,
    };
    each(client, met(false))?;
    let mut directories = Vec::new();
    each_entry(client, object, |client, entry| {
        let Some(attributes) = entry.attributes else {
            return Ok(());
        };
        if entry.kind == Kind::Directory {
            directories.push((entry.name, entry.object, attributes));
            return Ok(());
        }
        let path = join(path, &entry.name);
        each(
            client,
            Met {
                path: &path,
                object: entry.object,
                attributes,
                leaving: false,
            },
        )
    })?;
    for (name, object, attributes) in directories {
        walk_from(
            client,
            &join(path, &name),
            object,
            attributes,
            depth + 1,
            each,
        )?;
    }
    each(client, met(true))
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

/// Where copies go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    /// Into this directory, under their own names.
    Into(Vec<u8>),
    /// Under this name.
    As(Vec<u8>),
}

impl Destination {
    /// Decides as `cp` does: into a directory that exists, otherwise under the name given, which
    /// only one source can have.
    pub(crate) fn decide(client: &mut Client, given: &RemotePath, sources: usize) -> Outcome<Self> {
        let path = given.trimmed();
        let what = || format!("copying to {}", crate::output::printable(&path));
        match client.stat(&path, true) {
            Ok(node) if is_directory(&node) => Ok(Self::Into(path)),
            Ok(_) if sources > 1 || given.names_directory() => {
                Err(Failure::new(what(), "it is not a directory"))
            }
            Ok(_) => Ok(Self::As(path)),
            Err(error) if is_missing(&error) => {
                if sources > 1 || given.names_directory() {
                    let hint = "make it with `causeway fs mkdir -p`";
                    Err(Failure::new(what(), "there is no such directory").hint(hint))
                } else {
                    Ok(Self::As(path))
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The path of a source called `name`.
    pub(crate) fn path_of(&self, name: &[u8]) -> Vec<u8> {
        match self {
            Self::Into(directory) if name.is_empty() => directory.clone(),
            Self::Into(directory) => join(directory, name),
            Self::As(path) => path.clone(),
        }
    }
}
