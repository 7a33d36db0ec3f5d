//! Names, attributes and directories: one request each to the metadata server.

use std::sync::Arc;

use causeway_wire::fs::{
    Attributes, DistributionHint, Entry, Errno, Kind, Node, ObjectId, Operation, Place, ReplyBody,
    SetAttributes,
};

use super::call::Call;
use super::call_error::{CallError, done, object_name, take_reply};
use super::connection::Client;
use super::file::{CreateOptions, File};
use super::nodes::{check_entry, node, node_of, node_of_kind};
use super::unsynced::{Changed, Unsynced};
use crate::Error;

/// Changes that [`Client::create_many`] and similar calls keep in flight, each in a session slot of its own: the metadata
/// server commits changes that arrive together with one sync.
pub const MANY: usize = 32;

/// Most lookups of a client that are in flight at a time.
pub const LOOKUPS: usize = 64;

/// Refuses a page of a listing, of at most `limit` entries, that does not advance, or has entries that no
/// directory can have.
fn check_page(
    after: &[u8],
    limit: u32,
    entries: &mut [Entry],
    is_last: bool,
) -> Result<(), CallError> {
    // A server makes at least one entry fit.
    let limit = limit.max(1);
    if entries.len() as u64 > u64::from(limit) {
        let message = format!(
            "the server listed {} entries of a directory for at most {limit}",
            entries.len()
        );
        return Err(CallError::local(Errno::EPROTO, message));
    }
    if entries.is_empty() && !is_last {
        let message = "the server listed no entries of a directory, and said that there are more";
        return Err(CallError::local(Errno::EPROTO, message));
    }
    let mut last = after;
    for entry in entries {
        check_entry(entry)?;
        if entry.name.as_slice() <= last {
            let message = "the server's listing of a directory is not in the order of names";
            return Err(CallError::local(Errno::EPROTO, message));
        }
        last = &entry.name;
    }
    Ok(())
}

/// The node that a creation has returned. Unless it is exclusive, that may be a pipe, socket or device which was there before.
fn made_file(exclusive: bool, node: Node) -> Result<Node, CallError> {
    match node.attributes.kind.is_special() && !exclusive {
        true => Ok(node),
        false => node_of_kind(Kind::File, node),
    }
}

fn create(place: Place, options: &CreateOptions) -> Operation {
    Operation::Create {
        place,
        exclusive: options.exclusive,
        mode: options.mode,
        distribution: options.distribution,
        content: options.content.clone(),
    }
}

impl Client {
    pub(super) fn query(&mut self, operation: Operation) -> Result<ReplyBody, CallError> {
        self.rpc.call(Call::query(self.metadata, operation))
    }

    pub(super) fn mutate(&mut self, operation: Operation) -> Result<ReplyBody, CallError> {
        self.rpc.call(Call::mutation(self.metadata, operation, 0))
    }

    /// Makes a change whose reply is a node, which `check` may refuse.
    fn mutate_node(
        &mut self,
        verb: &'static str,
        subject: &[u8],
        operation: Operation,
        check: impl FnOnce(Node) -> Result<Node, CallError>,
    ) -> Result<Node, Error> {
        self.mutate(operation)
            .and_then(node)
            .and_then(check)
            .map_err(|error| error.during(verb, subject))
    }

    pub(super) fn mutate_done(
        &mut self,
        verb: &'static str,
        subject: &[u8],
        operation: Operation,
    ) -> Result<(), Error> {
        self.mutate(operation)
            .and_then(done)
            .map_err(|error| error.during(verb, subject))
    }

    /// Looks a path up, following a link in the last component if `follow`.
    pub fn stat(&mut self, at: impl Into<Place>, follow: bool) -> Result<Node, Error> {
        let place = at.into();
        let subject = place.path.clone();
        self.query(Operation::Lookup {
            place,
            follow,
            content: false,
        })
        .and_then(node)
        .map_err(|error| error.during("stat", &subject))
    }

    /// The present node of an object.
    pub fn stat_object(&mut self, object: ObjectId) -> Result<Node, Error> {
        self.query(Operation::GetNode {
            object,
            content: false,
        })
        .and_then(node)
        .and_then(|node| node_of(object, node))
        .map_err(|error| error.during("stat", &object_name(object)))
    }

    /// Opens an existing file.
    pub fn open(&mut self, at: impl Into<Place>) -> Result<File, Error> {
        self.look_up_file(at.into(), true, false).map(File::new)
    }

    /// Opens an existing file to read it once, now: the reply brings a small file's content, which serves the first read,
    /// which therefore may not return bytes that were written after the opening.
    pub fn open_once(&mut self, at: impl Into<Place>) -> Result<File, Error> {
        self.open_name(at, true)
    }

    /// As [`Client::open_once`]; a link in the last component is followed only if `follow`. Otherwise the link itself is opened,
    /// which [`File::node`] then shows.
    pub fn open_name(&mut self, at: impl Into<Place>, follow: bool) -> Result<File, Error> {
        self.look_up_file(at.into(), follow, true)
            .map(File::with_content)
    }

    fn look_up_file(&mut self, place: Place, follow: bool, content: bool) -> Result<Node, Error> {
        let subject = place.path.clone();
        let operation = Operation::Lookup {
            place,
            follow,
            content,
        };
        self.query(operation)
            .and_then(node)
            .map_err(|error| error.during("open", &subject))
    }

    /// As [`Client::open_once`], many files with many requests in flight; the results stand in the order of the places.
    pub fn open_many(&mut self, places: Vec<Place>) -> Vec<Result<File, Error>> {
        let mut opened = Vec::with_capacity(places.len());
        for places in places.chunks(LOOKUPS) {
            let lookup = |place: &Place| {
                let operation = Operation::Lookup {
                    place: place.clone(),
                    follow: true,
                    content: true,
                };
                Call::query(self.metadata, operation)
            };
            let replies = self.rpc.call_all(places.iter().map(lookup).collect());
            let files = replies.into_iter().zip(places).map(|(reply, place)| {
                reply
                    .and_then(node)
                    .map(File::with_content)
                    .map_err(|error| error.during("open", &place.path))
            });
            opened.extend(files);
        }
        opened
    }

    /// As [`Client::open_once`], by the file's number: for an object that a walk has found, whose name may have
    /// changed since.
    pub fn open_object(&mut self, object: ObjectId) -> Result<File, Error> {
        self.query(Operation::GetNode {
            object,
            content: true,
        })
        .and_then(node)
        .and_then(|node| node_of(object, node))
        .map(File::with_content)
        .map_err(|error| error.during("open", &object_name(object)))
    }

    /// Reads the node of an open file again, and a small file's content for the next read, as an opening would. The record of
    /// writes that an fsync must make durable is kept.
    pub fn open_again(&mut self, file: &mut File) -> Result<(), Error> {
        let opened = self.open_object(file.node.object)?;
        file.take_node(opened);
        Ok(())
    }

    /// As [`Client::open_again`], and holds the file from now on.
    pub fn hold_again(&mut self, file: &mut File) -> Result<(), Error> {
        if file.is_held() {
            return self.open_again(file);
        }
        let opened = self.open_object_held(file.node.object)?;
        file.held.clone_from(&opened.held);
        file.take_node(opened);
        Ok(())
    }

    /// Reads the node of an open file again, without its content.
    pub fn refresh(&mut self, file: &mut File) -> Result<(), Error> {
        self.open_again(file)?;
        file.forget_content();
        Ok(())
    }

    /// As [`Client::stat`], and opens the object if it is a file: it then exists for as long as it is open, also without a name.
    pub fn open_held(&mut self, at: impl Into<Place>, follow: bool) -> Result<File, Error> {
        let place = at.into();
        let subject = place.path.clone();
        let operation = Operation::Lookup {
            place,
            follow,
            content: false,
        };
        self.hold(Call::query(self.metadata, operation))
            .map_err(|error| error.during("open", &subject))
    }

    /// As [`Client::open_object`] for a file that exists for as long as it is open, also without a name.
    pub fn open_object_held(&mut self, object: ObjectId) -> Result<File, Error> {
        let operation = Operation::GetNode {
            object,
            content: true,
        };
        self.hold(Call::query(self.metadata, operation))
            .and_then(|file| {
                let mut opened = File::with_content(node_of(object, file.node)?);
                opened.held = file.held;
                Ok(opened)
            })
            .map_err(|error| error.during("open", &object_name(object)))
    }

    /// As [`Client::create`] for a file that exists for as long as it is open, also without a name.
    pub fn create_held(
        &mut self,
        at: impl Into<Place>,
        options: &CreateOptions,
    ) -> Result<File, Error> {
        let place = at.into();
        let subject = place.path.clone();
        self.hold(Call::mutation(self.metadata, create(place, options), 0))
            .and_then(|file| {
                made_file(options.exclusive, file.node.clone())?;
                Ok(file)
            })
            .map_err(|error| error.during("create", &subject))
    }

    /// Makes a call that finds or makes a file and also opens it.
    fn hold(&mut self, mut call: Call) -> Result<File, CallError> {
        let begun = self.held.begin();
        call.opening = Some(begun.opening.clone());
        match self.rpc.call(call).and_then(node) {
            // The server holds no other objects open.
            Ok(node) if node.attributes.kind != Kind::File => Ok(File::new(node)),
            Ok(node) => {
                let held = self.held.opened(begun, node.object)?;
                let mut file = File::new(node);
                file.held = Some(Arc::new(held));
                Ok(file)
            }
            Err(error) => {
                let is_repeated = self.rpc.was_unfinished;
                self.held.not_opened(begun, error.errno, is_repeated);
                Err(error)
            }
        }
    }

    /// Makes (or, unless exclusive, opens) a file.
    pub fn create(&mut self, at: impl Into<Place>, options: &CreateOptions) -> Result<File, Error> {
        let place = at.into();
        let subject = place.path.clone();
        let made = |node| made_file(options.exclusive, node);
        self.mutate_node("create", &subject, create(place, options), made)
            .map(File::new)
    }

    /// Makes many files with as many requests in flight as the session has slots; the results stand in
    /// the order of the paths.
    pub fn create_many<P: Into<Place> + Clone>(
        &mut self,
        files: &[(P, CreateOptions)],
    ) -> Vec<Result<File, Error>> {
        let changes = files.iter().map(|(at, options)| {
            let place: Place = at.clone().into();
            (place.path.clone(), create(place, options))
        });
        self.mutate_many("create", changes.collect(), |index, reply| {
            let exclusive = files[index].1.exclusive;
            node(reply)
                .and_then(|node| made_file(exclusive, node))
                .map(File::new)
        })
    }

    /// Changes attributes of many objects, as [`Client::create_many`] makes files.
    pub fn set_attributes_many(
        &mut self,
        sets: Vec<(ObjectId, SetAttributes)>,
    ) -> Vec<Result<Attributes, Error>> {
        let objects: Vec<ObjectId> = sets.iter().map(|(object, _)| *object).collect();
        let changes = sets.into_iter().map(|(object, set)| {
            let operation = Operation::SetAttributes { object, set };
            (object_name(object), operation)
        });
        self.mutate_many("setattr", changes.collect(), |index, reply| {
            let node = node_of(objects[index], node(reply)?)?;
            Ok(node.attributes)
        })
    }

    /// Renames many names, as [`Client::create_many`] makes files: each atomically, replacing an object that has
    /// the new name.
    pub fn rename_many(&mut self, names: Vec<(Place, Place)>) -> Vec<Result<(), Error>> {
        let changes = names.into_iter().map(|(from, to)| {
            let subject = from.path.clone();
            let operation = Operation::Rename {
                from,
                to,
                no_replace: false,
            };
            (subject, operation)
        });
        self.mutate_many("rename", changes.collect(), |_, reply| done(reply))
    }

    /// Makes changes, each with its subject, with as many requests in flight as the session has slots. `take` extracts the
    /// result of the change with this index from its reply.
    fn mutate_many<T>(
        &mut self,
        verb: &'static str,
        changes: Vec<(Vec<u8>, Operation)>,
        take: impl Fn(usize, ReplyBody) -> Result<T, CallError>,
    ) -> Vec<Result<T, Error>> {
        let (subjects, operations): (Vec<_>, Vec<_>) = changes.into_iter().unzip();
        let mut replies = Vec::with_capacity(operations.len());
        let mut operations = operations.into_iter().peekable();
        while operations.peek().is_some() {
            let calls = operations
                .by_ref()
                .take(MANY)
                .enumerate()
                .map(|(slot, operation)| Call::mutation(self.metadata, operation, slot as u16))
                .collect();
            replies.extend(self.rpc.call_all(calls));
        }
        let results = replies.into_iter().zip(subjects).enumerate();
        results
            .map(|(index, (reply, subject))| {
                reply
                    .and_then(|reply| take(index, reply))
                    .map_err(|error| error.during(verb, &subject))
            })
            .collect()
    }

    /// Makes a directory.
    pub fn make_directory(
        &mut self,
        at: impl Into<Place>,
        mode: u16,
        distribution: Option<DistributionHint>,
    ) -> Result<Node, Error> {
        let place = at.into();
        let subject = place.path.clone();
        let operation = Operation::MakeDirectory {
            place,
            mode,
            distribution,
        };
        let made = |node| node_of_kind(Kind::Directory, node);
        self.mutate_node("mkdir", &subject, operation, made)
    }

    /// Makes a symbolic link at a place that points to `target`.
    pub fn symbolic_link(&mut self, target: &[u8], at: impl Into<Place>) -> Result<Node, Error> {
        let place = at.into();
        let subject = place.path.clone();
        let operation = Operation::SymbolicLink {
            place,
            target: target.to_vec(),
        };
        let made = |node| node_of_kind(Kind::SymbolicLink, node);
        self.mutate_node("symlink", &subject, operation, made)
    }

    /// Makes a pipe, a socket or a device, which only programs on a mount can use. Only user 0 may make devices. `device` is
    /// a device's number as Linux encodes it, and 0 for others.
    pub fn make_special(
        &mut self,
        at: impl Into<Place>,
        kind: Kind,
        mode: u16,
        device: u32,
    ) -> Result<Node, Error> {
        let place = at.into();
        let subject = place.path.clone();
        let operation = Operation::MakeSpecial {
            place,
            kind,
            mode,
            device,
        };
        let made = |node| node_of_kind(kind, node);
        self.mutate_node("mknod", &subject, operation, made)
    }

    /// Gives the file `existing` one more name.
    pub fn hard_link(
        &mut self,
        existing: impl Into<Place>,
        at: impl Into<Place>,
    ) -> Result<Node, Error> {
        let object = self.stat(existing, false)?.object;
        self.hard_link_object(object, at)
    }

    /// Gives a file one more name, by the file's number.
    pub fn hard_link_object(
        &mut self,
        object: ObjectId,
        at: impl Into<Place>,
    ) -> Result<Node, Error> {
        let place = at.into();
        let subject = place.path.clone();
        let operation = Operation::HardLink { object, place };
        let linked = |node| node_of(object, node);
        self.mutate_node("link", &subject, operation, linked)
    }

    /// Renames atomically.
    pub fn rename(
        &mut self,
        from: impl Into<Place>,
        to: impl Into<Place>,
        no_replace: bool,
    ) -> Result<(), Error> {
        let from = from.into();
        let subject = from.path.clone();
        let operation = Operation::Rename {
            from,
            to: to.into(),
            no_replace,
        };
        self.mutate_done("rename", &subject, operation)
    }

    /// Swaps the objects of two names, atomically.
    pub fn exchange(
        &mut self,
        first: impl Into<Place>,
        second: impl Into<Place>,
    ) -> Result<(), Error> {
        let first = first.into();
        let subject = first.path.clone();
        let second = second.into();
        self.mutate_done("exchange", &subject, Operation::Exchange { first, second })
    }

    /// Removes a name.
    pub fn unlink(&mut self, at: impl Into<Place>) -> Result<(), Error> {
        self.unlink_expected(at.into(), None)
    }

    /// Removes a name if it still is this object's; otherwise the error is [`Errno::ESTALE`].
    pub fn unlink_object(&mut self, at: impl Into<Place>, object: ObjectId) -> Result<(), Error> {
        self.unlink_expected(at.into(), Some(object))
    }

    /// Removes many names, as [`Client::create_many`] makes files: each as [`Client::unlink_object`] does.
    pub fn unlink_objects(&mut self, names: Vec<(Place, ObjectId)>) -> Vec<Result<(), Error>> {
        let changes = names.into_iter().map(|(place, object)| {
            let subject = place.path.clone();
            let expected = Some(object);
            (subject, Operation::Unlink { place, expected })
        });
        self.mutate_many("unlink", changes.collect(), |_, reply| done(reply))
    }

    fn unlink_expected(&mut self, place: Place, expected: Option<ObjectId>) -> Result<(), Error> {
        let subject = place.path.clone();
        self.mutate_done("unlink", &subject, Operation::Unlink { place, expected })
    }

    /// Removes an empty directory.
    pub fn remove_directory(&mut self, at: impl Into<Place>) -> Result<(), Error> {
        self.remove_directory_expected(at.into(), None)
    }

    /// Removes an empty directory if the name is still this directory's; otherwise the error is
    /// [`Errno::ESTALE`].
    pub fn remove_directory_object(
        &mut self,
        at: impl Into<Place>,
        object: ObjectId,
    ) -> Result<(), Error> {
        self.remove_directory_expected(at.into(), Some(object))
    }

    /// Removes many empty directories, none of which is in another one, as [`Client::create_many`] makes files: each as
    /// [`Client::remove_directory_object`] does.
    pub fn remove_directory_objects(
        &mut self,
        names: Vec<(Place, ObjectId)>,
    ) -> Vec<Result<(), Error>> {
        let changes = names.into_iter().map(|(place, object)| {
            let subject = place.path.clone();
            let expected = Some(object);
            (subject, Operation::RemoveDirectory { place, expected })
        });
        self.mutate_many("rmdir", changes.collect(), |_, reply| done(reply))
    }

    fn remove_directory_expected(
        &mut self,
        place: Place,
        expected: Option<ObjectId>,
    ) -> Result<(), Error> {
        let subject = place.path.clone();
        let operation = Operation::RemoveDirectory { place, expected };
        self.mutate_done("rmdir", &subject, operation)
    }

    /// One page of a directory: the entries behind the name `after`, and whether that is all. Names come in ascending order, and each
    /// page but the last has at least one, so that reading a directory page by page ends even if the server lies.
    pub fn read_directory(
        &mut self,
        directory: ObjectId,
        after: &[u8],
        limit: u32,
        attributes: bool,
    ) -> Result<(Vec<Entry>, bool), Error> {
        let operation = Operation::ReadDirectory {
            object: directory,
            after: after.to_vec(),
            limit,
            attributes,
        };
        self.query(operation)
            .and_then(|reply| {
                let (mut entries, end) =
                    take_reply!(reply, ReplyBody::Entries { entries, end } => (entries, end))?;
                check_page(after, limit, &mut entries, end)?;
                Ok((entries, end))
            })
            .map_err(|error| error.during("readdir", &object_name(directory)))
    }

    /// Changes attributes. Times, and modes that only add permissions, are durable with the next sync.
    pub fn set_attributes(
        &mut self,
        object: ObjectId,
        set: SetAttributes,
    ) -> Result<Attributes, Error> {
        self.set_attributes_noting(object, set, &mut Unsynced::default())
    }

    /// Changes attributes of a file. The file's next fsync makes them durable, and fails if they were lost meanwhile.
    pub fn set_attributes_of(&mut self, file: &mut File, set: SetAttributes) -> Result<(), Error> {
        let object = file.node.object;
        file.node.attributes = self.set_attributes_noting(object, set, &mut file.unsynced)?;
        Ok(())
    }

    /// Changes attributes, and notes for [`File::resume`] or [`Client::sync_directory`] what they need to know of that.
    pub fn set_attributes_noting(
        &mut self,
        object: ObjectId,
        set: SetAttributes,
        unsynced: &mut Unsynced,
    ) -> Result<Attributes, Error> {
        let noted = self
            .will_change_what(unsynced, &[self.metadata], Changed::Attributes)
            .map_err(|error| error.during("setattr", &object_name(object)))?;
        let operation = Operation::SetAttributes { object, set };
        let found = |node| node_of(object, node);
        let node = self.mutate_node("setattr", &object_name(object), operation, found)?;
        self.has_changed(unsynced, noted);
        Ok(node.attributes)
    }
}

#[cfg(test)]
mod tests {
    use causeway_wire::fs::Kind;

    use super::*;

    #[test]
    fn a_listing_that_goes_back_is_refused() {
        let entry = |name: &[u8]| Entry {
            name: name.to_vec(),
            object: ObjectId(2),
            kind: Kind::File,
            attributes: None,
        };
        assert!(check_page(b"", 2, &mut [entry(b"a"), entry(b"b")], false).is_ok());
        assert!(check_page(b"b", 2, &mut [], true).is_ok());
        // More entries than were requested, and none although there are more.
        assert!(check_page(b"", 1, &mut [entry(b"a"), entry(b"b")], true).is_err());
        assert!(check_page(b"b", 2, &mut [], false).is_err());
        for (after, names) in [
            (&b""[..], [&b"b"[..], b"a"]),
            (b"", [b"a", b"a"]),
            (b"m", [b"m", b"n"]),
            (b"m", [b"a", b"n"]),
        ] {
            let mut page = names.map(entry);
            assert!(check_page(after, 2, &mut page, true).is_err(), "{names:?}");
        }
    }
}
