//! Files that are read while other clients may replace them.
//!
//! `put`, `cp` and `mv` replace a file by renaming another object to its name; the object that had
//! the name is removed. A reader that has looked the name up just before finds nothing then, or
//! loses the object in the middle of reading: it starts again with the object that has the name
//! now, and never joins parts of two objects.

use causeway_command::failure::{Failure, Outcome};
use causeway_command::output::printable;
use causeway_command::remote::{about, is_gone, is_missing};
use causeway_fs::Error;
use causeway_fs::client::{Client, File};
use causeway_wire::fs::{Kind, Node, ObjectId, Place};

use crate::fs::engine::Worker;
use crate::fs::tree::Visited;

/// How many times a name is looked up if its object is removed each time before it is read.
pub(crate) const MAX_LOOKUPS: usize = 32;

/// A file to read: an object, and the name that has led to it.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// The object that the name led to; `None` before the first look-up.
    object: Option<ObjectId>,
    place: Place,
    follow: bool,
    /// The whole path, for people.
    path: Vec<u8>,
}

/// The failure of a name that was looked up [`MAX_LOOKUPS`] times.
pub(crate) fn kept_changing(path: &[u8]) -> Failure {
    Failure::new(
        format!("using {}", printable(path)),
        format!("the file was replaced {MAX_LOOKUPS} times, each time before that was done"),
    )
    .hint("try again when other clients replace it less often")
}

/// Calls `attempt`, which looks the path up and uses the object found, and repeats that if the
/// object was removed in between: at most [`MAX_LOOKUPS`] times.
pub(crate) fn with_current<T>(
    path: &[u8],
    mut attempt: impl FnMut() -> Result<T, Error>,
) -> Outcome<T> {
    for _ in 0..MAX_LOOKUPS {
        match attempt() {
            Err(error) if is_gone(&error) => {}
            done => return done.map_err(|error| about(path, error)),
        }
    }
    Err(kept_changing(path))
}

impl Source {
    /// The source at a path given by the user; links are followed.
    pub(crate) fn path(path: &[u8]) -> Self {
        Self {
            object: None,
            place: Place::from(path),
            follow: true,
            path: path.to_vec(),
        }
    }

    /// The same, where the path has led to this node already.
    pub(crate) fn named(path: &[u8], node: &Node) -> Self {
        Self {
            object: Some(node.object),
            ..Self::path(path)
        }
    }

    /// The source that a walk has visited.
    pub(crate) fn visited(visited: &Visited<'_>) -> Self {
        Self {
            object: Some(visited.object),
            place: visited.place(),
            follow: false,
            path: visited.path.to_vec(),
        }
    }

    /// Opens the source to be read once.
    pub(crate) fn open(&self, client: &mut Client) -> Outcome<File> {
        if let Some(object) = self.object {
            match client.open_object(object) {
                Err(error) if is_gone(&error) => {}
                opened => return opened.map_err(|error| about(&self.path, error)),
            }
        }
        self.open_current(client)
    }

    /// Opens the object that has the name now.
    fn open_current(&self, client: &mut Client) -> Outcome<File> {
        let file = client
            .open_name(self.place.clone(), self.follow)
            .map_err(|error| match is_missing(&error) || is_gone(&error) {
                true if self.object.is_some() => self.vanished(),
                _ => about(&self.path, error),
            })?;
        let is_link = file.node.attributes.kind == Kind::SymbolicLink;
        match is_link || (self.object.is_some() && file.node.attributes.kind != Kind::File) {
            false => Ok(file),
            true => Err(Failure::new(
                format!("reading {}", printable(&self.path)),
                "the file has been replaced by something that is no file",
            )
            .hint("copy again when nothing else changes the tree")),
        }
    }

    fn vanished(&self) -> Failure {
        Failure::new(
            format!("reading {}", printable(&self.path)),
            "the file has been removed meanwhile",
        )
    }

    /// Reads the source with `read`, which is passed the open file. Starts again with the object
    /// that has the name then, each time the object was removed before reading was complete.
    pub(crate) fn read<T>(
        &self,
        worker: &mut Worker,
        mut read: impl FnMut(&mut Worker, File) -> Outcome<T>,
    ) -> Outcome<T> {
        let mut file = self.open(&mut worker.client)?;
        for _ in 0..MAX_LOOKUPS {
            match read(worker, file) {
                Err(failure) if failure.gone => file = self.open_current(&mut worker.client)?,
                done => return done,
            }
        }
        Err(kept_changing(&self.path))
    }

    /// The whole path.
    pub(crate) fn shown(&self) -> &[u8] {
        &self.path
    }

    /// The target of the symbolic link that was visited.
    pub(crate) fn link(&self, client: &mut Client) -> Outcome<Node> {
        let by_number = self.object.map(|object| client.stat_object(object));
        let node = match by_number {
            Some(Ok(node)) => node,
            Some(Err(error)) if !is_gone(&error) => return Err(about(&self.path, error)),
            _ => match client.stat(self.place.clone(), false) {
                Ok(node) => node,
                Err(error) if is_missing(&error) || is_gone(&error) => return Err(self.vanished()),
                Err(error) => return Err(about(&self.path, error)),
            },
        };
        match node.attributes.kind {
            Kind::SymbolicLink => Ok(node),
            _ => Err(Failure::new(
                format!("reading the link {}", printable(&self.path)),
                "the link has been replaced by something else meanwhile",
            )
            .hint("copy again when nothing else changes the tree")),
        }
    }
}
