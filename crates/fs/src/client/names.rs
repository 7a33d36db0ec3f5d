//! Names, attributes and directories: one request each to the metadata server.

use causeway_wire::fs::{
    Answer, Attributes, DistributionHint, Entry, Node, ObjectId, Operation, Place, SetAttributes,
};

use super::rpc::{Call, Trouble, done, object_name, unfit};
use super::{Client, CreateOptions, File};
use crate::Error;

/// Mutations that [`Client::create_many`] keeps in flight, each in a session slot of its own.
const SLOTS: usize = 32;

fn place(path: &[u8]) -> Place {
    Place {
        base: ObjectId::ROOT,
        path: path.to_vec(),
    }
}

/// The answer to an operation that answers a node.
pub(super) fn node(answer: Answer) -> Result<Node, Trouble> {
    match answer {
        Answer::Node(node) => Ok(*node),
        other => Err(unfit(&other)),
    }
}

fn create(path: &[u8], options: &CreateOptions) -> Operation {
    Operation::Create {
        place: place(path),
        exclusive: options.exclusive,
        mode: options.mode,
        distribution: options.distribution,
        content: options.content.clone(),
    }
}

impl Client {
    pub(super) fn query(&mut self, operation: Operation) -> Result<Answer, Trouble> {
        self.rpc.call(Call::query(self.metadata, operation))
    }

    pub(super) fn mutate(&mut self, operation: Operation) -> Result<Answer, Trouble> {
        self.rpc.call(Call::mutation(self.metadata, operation, 0))
    }

    fn mutate_node(
        &mut self,
        verb: &'static str,
        path: &[u8],
        operation: Operation,
    ) -> Result<Node, Error> {
        self.mutate(operation)
            .and_then(node)
            .map_err(|trouble| trouble.during(verb, path))
    }

    fn mutate_done(
        &mut self,
        verb: &'static str,
        path: &[u8],
        operation: Operation,
    ) -> Result<(), Error> {
        self.mutate(operation)
            .and_then(done)
            .map_err(|trouble| trouble.during(verb, path))
    }

    /// Looks a path up, following a link in the last component if `follow`.
    pub fn stat(&mut self, path: &[u8], follow: bool) -> Result<Node, Error> {
        self.query(Operation::Lookup {
            place: place(path),
            follow,
            content: false,
        })
        .and_then(node)
        .map_err(|trouble| trouble.during("stat", path))
    }

    /// The node of a known object, as it is now.
    pub fn stat_object(&mut self, object: ObjectId) -> Result<Node, Error> {
        self.query(Operation::GetNode {
            object,
            content: false,
        })
        .and_then(node)
        .map_err(|trouble| trouble.during("stat", &object_name(object)))
    }

    /// Opens an existing file. A small file's content comes along and serves the first read.
    pub fn open(&mut self, path: &[u8]) -> Result<File, Error> {
        self.query(Operation::Lookup {
            place: place(path),
            follow: true,
            content: true,
        })
        .and_then(node)
        .map(File::fresh)
        .map_err(|trouble| trouble.during("open", path))
    }

    /// Makes (or, unless exclusive, opens) a file.
    pub fn create(&mut self, path: &[u8], options: &CreateOptions) -> Result<File, Error> {
        self.mutate_node("create", path, create(path, options))
            .map(File::new)
    }

    /// Makes many files with as many requests in flight as the session has slots; the results stand in
    /// the order of the paths.
    pub fn create_many(&mut self, files: &[(Vec<u8>, CreateOptions)]) -> Vec<Result<File, Error>> {
        let operations = files
            .iter()
            .map(|(path, options)| create(path, options))
            .collect();
        self.mutate_many(operations)
            .into_iter()
            .zip(files)
            .map(|(result, (path, _))| {
                let node = result.and_then(node);
                node.map(File::new)
                    .map_err(|trouble| trouble.during("create", path))
            })
            .collect()
    }

    /// Removes many names, as [`Client::create_many`] makes them.
    pub fn unlink_many(&mut self, paths: &[Vec<u8>]) -> Vec<Result<(), Error>> {
        let operations = paths
            .iter()
            .map(|path| Operation::Unlink { place: place(path) })
            .collect();
        self.mutate_many(operations)
            .into_iter()
            .zip(paths)
            .map(|(result, path)| {
                result
                    .and_then(done)
                    .map_err(|trouble| trouble.during("unlink", path))
            })
            .collect()
    }

    fn mutate_many(&mut self, operations: Vec<Operation>) -> Vec<Result<Answer, Trouble>> {
        let mut results = Vec::with_capacity(operations.len());
        let mut operations = operations.into_iter().peekable();
        while operations.peek().is_some() {
            let calls = operations
                .by_ref()
                .take(SLOTS)
                .enumerate()
                .map(|(slot, operation)| Call::mutation(self.metadata, operation, slot as u16))
                .collect();
            results.extend(self.rpc.call_all(calls));
        }
        results
    }

    /// Makes a directory.
    pub fn make_directory(
        &mut self,
        path: &[u8],
        mode: u16,
        distribution: Option<DistributionHint>,
    ) -> Result<Node, Error> {
        let operation = Operation::MakeDirectory {
            place: place(path),
            mode,
            distribution,
        };
        self.mutate_node("mkdir", path, operation)
    }

    /// Makes a symbolic link at `path` that points to `target`.
    pub fn symbolic_link(&mut self, target: &[u8], path: &[u8]) -> Result<Node, Error> {
        let operation = Operation::SymbolicLink {
            place: place(path),
            target: target.to_vec(),
        };
        self.mutate_node("symlink", path, operation)
    }

    /// Gives the file `existing` one more name.
    pub fn hard_link(&mut self, existing: &[u8], path: &[u8]) -> Result<Node, Error> {
        let object = self.stat(existing, false)?.object;
        self.mutate_node(
            "link",
            path,
            Operation::HardLink {
                object,
                place: place(path),
            },
        )
    }

    /// Renames atomically.
    pub fn rename(&mut self, from: &[u8], to: &[u8], no_replace: bool) -> Result<(), Error> {
        let operation = Operation::Rename {
            from: place(from),
            to: place(to),
            no_replace,
        };
        self.mutate_done("rename", from, operation)
    }

    /// Removes a name.
    pub fn unlink(&mut self, path: &[u8]) -> Result<(), Error> {
        self.mutate_done("unlink", path, Operation::Unlink { place: place(path) })
    }

    /// Removes an empty directory.
    pub fn remove_directory(&mut self, path: &[u8]) -> Result<(), Error> {
        self.mutate_done(
            "rmdir",
            path,
            Operation::RemoveDirectory { place: place(path) },
        )
    }

    /// One page of a directory: the entries behind the name `after`, and whether that is all.
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
            .and_then(|answer| match answer {
                Answer::Entries { entries, end } => Ok((entries, end)),
                other => Err(unfit(&other)),
            })
            .map_err(|trouble| trouble.during("readdir", &object_name(directory)))
    }

    /// Changes attributes.
    pub fn set_attributes(
        &mut self,
        object: ObjectId,
        set: SetAttributes,
    ) -> Result<Attributes, Error> {
        let operation = Operation::SetAttributes { object, set };
        self.mutate_node("setattr", &object_name(object), operation)
            .map(|node| node.attributes)
    }
}
