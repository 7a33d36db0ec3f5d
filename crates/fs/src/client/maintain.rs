//! Requests of operators: which servers run, how full they are, whether everything is consistent.

use std::collections::BTreeMap;

use causeway_wire::fs::{
    Body, CheckCursor, DataFault, Errno, Generation, Greeting, Incarnation, ObjectId, ObjectPath,
    Operation, ReplyBody, ScrubPosition, ServerIdentity, StripedFile, Target,
};

use super::call::Call;
use super::call_error::{CallError, done, object_name, only_asked, take_reply, unexpected_reply};
use super::connection::Client;
use super::file::version;
use super::identity::Layout;
use super::io::FORM_CHANGES;
use super::nodes::{node, node_of};
use super::rpc::Rpc;
use super::unsynced::{Unsynced, Version};
use crate::Error;

/// Datafiles that one step of [`Client::orphans`] checks.
const ORPHAN_BATCH: u32 = 512;
/// Striped files that one step of [`Client::check_striped`] checks.
const STRIPED_BATCH: u32 = 512;

/// Most empty batches in a row after each of which a server says that there are more datafiles.
const EMPTY_BATCHES: u32 = 8;

/// By how many bytes a step of a scrub may exceed the requested number: it completes what it has begun.
const SCRUB_EXCESS: u64 = 64 << 20;

/// A batch of the name space that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Cursor of the next batch; `None` at the end. It is always behind the beginning of this batch.
    pub next: Option<CheckCursor>,
    /// Records that were checked.
    pub records: u64,
    /// Inconsistencies that were found, in words.
    pub findings: Vec<String>,
    /// How many of them were repaired.
    pub repaired: u64,
}

/// A batch of an I/O server's datafiles that was compared with the metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphans {
    /// Cursor of the next batch; `None` at the end.
    pub next: Option<ObjectId>,
    /// Datafiles that were checked.
    pub datafiles: u64,
    /// Datafiles without a file, with their sizes in bytes.
    pub found: Vec<(ObjectId, u64)>,
}

/// How many orphans were deleted and moved aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OrphansGone {
    /// How many were deleted.
    pub deleted: u64,
    /// How many were moved aside, to `lost+found` of the server's datafiles.
    pub moved: u64,
}

/// A fault of a datafile on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFault {
    /// Index of the server in the configuration.
    pub server: usize,
    /// The datafile, and what is wrong with it.
    pub fault: DataFault,
}

/// A batch of striped files whose datafiles were checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedFiles {
    /// Cursor of the next batch; `None` at the end.
    pub next: Option<ObjectId>,
    /// Files that were checked.
    pub files: u64,
    /// Datafiles that are absent, short, foreign or damaged.
    pub found: Vec<ServerFault>,
}

/// A step of a scrub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scrubbed {
    /// Where the next step begins; `None` once all of the server's datafiles were verified.
    pub next: Option<ScrubPosition>,
    /// Bytes that were verified.
    pub bytes: u64,
    /// Datafiles whose end was reached.
    pub datafiles: u64,
    /// Faults that were found.
    pub faults: Vec<DataFault>,
}

/// Whether the objects of a listing ascend, beginning behind `after`: otherwise reading it batch by batch might never end.
fn is_ascending(after: ObjectId, listed: impl Iterator<Item = ObjectId>) -> bool {
    let mut last = after;
    listed
        .into_iter()
        .all(|object| std::mem::replace(&mut last, object) < object)
}

fn not_ascending(what: &str) -> CallError {
    let message = format!("the server's listing of {what} is not in the order of their numbers");
    CallError::local(Errno::EPROTO, message)
}

/// The cursor behind a batch of a listing; `None` at its end. Refuses a batch that is not in order, has too many objects, or has none although there are
/// more.
fn cursor(
    what: &str,
    (after, limit): (ObjectId, u32),
    listed: &[ObjectId],
    end: bool,
) -> Result<Option<ObjectId>, CallError> {
    if !is_ascending(after, listed.iter().copied()) {
        return Err(not_ascending(what));
    }
    match listed.last() {
        _ if listed.len() > limit as usize => {
            let message = format!(
                "the server listed {} {what} for at most {limit}",
                listed.len()
            );
            Err(CallError::local(Errno::EPROTO, message))
        }
        None if !end => {
            let message = format!("the server listed no {what}, and said that there are more");
            Err(CallError::local(Errno::EPROTO, message))
        }
        last => Ok(last.copied().filter(|_| !end)),
    }
}

fn no_reply() -> CallError {
    let message = "the call vanished, which is a defect of the client";
    CallError::local(Errno::EIO, message)
}

/// How full a file system is.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes of all I/O servers' storage.
    pub total_bytes: u64,
    /// Free bytes among these.
    pub free_bytes: u64,
    /// Files, directories and links.
    pub objects: u64,
}

impl Client {
    /// Makes a call to a server, and extracts the result from its reply with `take`.
    fn call_server<T>(
        &mut self,
        verb: &'static str,
        call: Call,
        take: impl FnOnce(ReplyBody) -> Result<T, CallError>,
    ) -> Result<T, Error> {
        let server = call.server;
        self.rpc
            .call(call)
            .and_then(take)
            .map_err(|error| error.during(verb, &self.server_name(server)))
    }

    /// Asks one server (an index into the configuration) for its identity, which is not checked.
    pub fn ping(&mut self, server: usize) -> Result<Greeting, Error> {
        let all = self.ping_all(&[server]);
        let none = || Err(self.vanished("ping", server));
        all.into_iter().next().unwrap_or_else(none)
    }

    /// Requests the identities of several servers concurrently, which are not checked.
    pub fn ping_all(&mut self, servers: &[usize]) -> Vec<Result<Greeting, Error>> {
        let greetings = self.rpc.greet(servers);
        let named = |(&server, greeting): (&usize, Result<Greeting, CallError>)| {
            greeting.map_err(|error| error.during("ping", &self.server_name(server)))
        };
        servers.iter().zip(greetings).map(named).collect()
    }

    /// Fails unless a server (an index into the configuration) is the expected one.
    pub fn verify(&mut self, server: usize) -> Result<(), Error> {
        self.rpc
            .introduce_to(&[server])
            .map_err(|error| error.during("introduce", &self.server_name(server)))
    }

    /// The file system's I/O servers, as the metadata server reports them now.
    pub fn layout(&mut self) -> Result<Layout, Error> {
        let subject = self.server_name(self.metadata);
        self.rpc
            .renew_layout()
            .cloned()
            .map_err(|error| error.during("ask for the layout", &subject))
    }

    /// The configuration's index of the I/O server that has this number in distributions.
    pub fn server_of(&mut self, number: u16) -> Result<usize, Error> {
        self.rpc
            .server_of(number)
            .map_err(|error| error.during("find", format!("I/O server number {number}").as_bytes()))
    }

    /// Adds an I/O server of the configuration to the file system: once the metadata server has registered it, new
    /// files use it.
    pub fn add_server(&mut self, name: &str) -> Result<(), Error> {
        let operation = Operation::AddServer {
            name: name.to_owned(),
        };
        self.mutate_done("add", name.as_bytes(), operation)
    }

    /// Has new files not use an I/O server any more.
    pub fn drain_server(&mut self, name: &str) -> Result<(), Error> {
        let operation = Operation::DrainServer {
            name: name.to_owned(),
        };
        self.mutate_done("drain", name.as_bytes(), operation)
    }

    /// A part of the striped files behind `after` that use the I/O server of this number: how many there are, and where
    /// to continue, `None` at the end. Safe while the file system is in use.
    pub fn files_on(
        &mut self,
        number: u16,
        after: ObjectId,
    ) -> Result<(u64, Option<ObjectId>), Error> {
        let subject = self.server_name(self.metadata);
        let (files, next) = self
            .striped_files(after)
            .map_err(|error| error.during("list", &subject))?;
        let using = files.iter().filter(|file| file.servers.contains(&number));
        Ok((using.count() as u64, next))
    }

    /// Accepts the directory of this generation in place of the one that an I/O server had.
    pub fn accept_server(&mut self, name: &str, generation: Generation) -> Result<(), Error> {
        let operation = Operation::AcceptServer {
            name: name.to_owned(),
            generation,
        };
        self.mutate_done("accept", name.as_bytes(), operation)
    }

    /// Gives an I/O server its number in the layout, on behalf of the metadata server.
    pub(crate) fn enroll(
        &mut self,
        server: usize,
        found: &ServerIdentity,
        index: u16,
        incarnation: Incarnation,
        replace: bool,
    ) -> Result<(), Error> {
        let operation = Operation::Enroll {
            index,
            incarnation,
            replace,
        };
        let deadline = self.rpc.begin_call(self.rpc.timeout);
        let calls = vec![Call::query(server, operation)];
        let replies = self.rpc.call_directly(calls, found.target(), deadline);
        match replies.into_iter().next() {
            Some(reply) => reply
                .and_then(done)
                .map_err(|error| error.during("enroll", &self.server_name(server))),
            None => Err(self.vanished("enroll", server)),
        }
    }

    /// Tells I/O servers, by number, up to which versions objects' capabilities have ended. The results are in the same order.
    pub(crate) fn end_capabilities(
        &mut self,
        ended: &[(u16, Vec<(ObjectId, u64)>)],
    ) -> Vec<Result<(), String>> {
        let call = |rpc: &mut Rpc, number: u16, ended: &[(ObjectId, u64)]| {
            let ended = ended.to_vec();
            let operation = Operation::EndCapabilities { ended };
            let server = rpc.server_of(number)?;
            Ok(Call::query(server, operation))
        };
        let (mut calls, mut unknown) = (Vec::new(), Vec::new());
        for (number, ended) in ended {
            match call(&mut self.rpc, *number, ended) {
                Ok(call) => {
                    calls.push(call);
                    unknown.push(None);
                }
                Err::<_, CallError>(error) => unknown.push(Some(error)),
            }
        }
        let mut replies = self.rpc.call_all(calls).into_iter();
        unknown
            .into_iter()
            .map(|unknown| {
                let reply = match unknown {
                    Some(error) => Err(error),
                    None => replies
                        .next()
                        .unwrap_or_else(|| Err(no_reply()))
                        .and_then(done),
                };
                reply.map_err(|error| error.message)
            })
            .collect()
    }

    /// Sets the layout without a request: for the metadata server, which has it.
    pub(crate) fn trust_layout(&mut self, metadata: Target, layout: Layout) {
        self.rpc.trust_layout(metadata, layout);
    }

    fn vanished(&self, operation: &'static str, server: usize) -> Error {
        no_reply().during(operation, &self.server_name(server))
    }

    /// Space and load of an I/O server ([`ReplyBody::StorageStatus`]).
    pub fn storage_status(&mut self, server: usize) -> Result<ReplyBody, Error> {
        let call = Call::query(server, Operation::StorageStatus);
        self.call_server(
            "status",
            call,
            |reply| take_reply!(reply, status @ ReplyBody::StorageStatus { .. } => status),
        )
    }

    /// Counts of the metadata server ([`ReplyBody::MetadataStatus`]).
    pub fn metadata_status(&mut self) -> Result<ReplyBody, Error> {
        let call = Call::query(self.metadata, Operation::MetadataStatus);
        self.call_server(
            "status",
            call,
            |reply| take_reply!(reply, status @ ReplyBody::MetadataStatus { .. } => status),
        )
    }

    /// The space of the file system with these I/O servers (indices into the configuration).
    pub fn space(&mut self, io_servers: &[usize]) -> Result<Space, Error> {
        let mut space = Space::default();
        for &server in io_servers {
            if let ReplyBody::StorageStatus { total, free, .. } = self.storage_status(server)? {
                space.total_bytes = space.total_bytes.saturating_add(total);
                space.free_bytes = space.free_bytes.saturating_add(free);
            }
        }
        if let ReplyBody::MetadataStatus { objects, .. } = self.metadata_status()? {
            space.objects = objects;
        }
        Ok(space)
    }

    /// Makes everything that the metadata server has acknowledged durable.
    pub fn commit(&mut self) -> Result<(), Error> {
        let call = Call::query(self.metadata, Operation::Commit);
        self.call_server("commit", call, done)
    }

    /// Makes a directory's attributes and names durable. Fails, once, if some of these changes were lost before.
    pub fn sync_directory(
        &mut self,
        directory: ObjectId,
        unsynced: &mut Unsynced,
    ) -> Result<(), Error> {
        self.commit()?;
        self.check_losses(unsynced)
            .map_err(|error| error.during("fsync", &object_name(directory)))?;
        *unsynced = Unsynced::default();
        Ok(())
    }

    /// Checks a batch of the name space, from `after` (`None` at first) on, and repairs it if `repair` is set. A
    /// server that returns a cursor which does not advance is an error, so that a check always ends.
    pub fn check_metadata(
        &mut self,
        after: Option<&CheckCursor>,
        repair: bool,
    ) -> Result<Checked, Error> {
        let operation = Operation::Check {
            after: after.cloned(),
            repair,
        };
        let call = match repair {
            true => Call::mutation(self.metadata, operation, 0),
            false => Call::query(self.metadata, operation),
        };
        self.call_server("check", call, |reply| match reply {
            ReplyBody::Checked {
                next: Some(next), ..
            } if Some(&next) <= after => Err(CallError::local(
                Errno::EPROTO,
                "the server returned a cursor that does not advance",
            )),
            ReplyBody::Checked {
                next,
                records,
                findings,
                mended,
            } => Ok(Checked {
                next,
                records,
                findings,
                repaired: mended,
            }),
            other => Err(unexpected_reply(&other)),
        })
    }

    /// Compares a batch of an I/O server's datafiles, from `after` on, with the metadata.
    ///
    /// Safe while the file system is in use: object numbers are never used again, and a datafile is only
    /// ever made after its file, so a datafile without a file is an orphan for good.
    pub fn orphans(&mut self, server: usize, after: ObjectId) -> Result<Orphans, Error> {
        let subject = self.server_name(server);
        self.try_orphans(server, after)
            .map_err(|error| error.during("check", &subject))
    }

    /// A batch of a server's datafiles, and whether it is the last one. Servers of formats before 14 reply with none, although there are more,
    /// if all of the batch are removed while they list it: the next one then does not have these.
    fn list_datafiles(
        &mut self,
        server: usize,
        after: ObjectId,
    ) -> Result<(Vec<(ObjectId, u64)>, bool), CallError> {
        let mut attempts = EMPTY_BATCHES;
        loop {
            let list = Operation::ListData {
                after,
                limit: ORPHAN_BATCH,
            };
            let reply = self.rpc.call(Call::query(server, list))?;
            let (datafiles, end) =
                take_reply!(reply, ReplyBody::Datafiles { datafiles, end } => (datafiles, end))?;
            attempts -= 1;
            if !datafiles.is_empty() || end || attempts == 0 {
                return Ok((datafiles, end));
            }
        }
    }

    fn try_orphans(&mut self, server: usize, after: ObjectId) -> Result<Orphans, CallError> {
        let (datafiles, end) = self.list_datafiles(server, after)?;
        let objects: Vec<ObjectId> = datafiles.iter().map(|(object, _)| *object).collect();
        let next = cursor("datafiles", (after, ORPHAN_BATCH), &objects, end)?;
        let known = match objects.is_empty() {
            true => Vec::new(),
            false => {
                let asked = objects.clone();
                let reply = self.query(Operation::Exist { objects })?;
                let known = take_reply!(reply, ReplyBody::Objects(known) => known)?;
                only_asked("the existence", &asked, known.iter().copied())?;
                known
            }
        };
        let known: std::collections::HashSet<ObjectId> = known.into_iter().collect();
        let count = datafiles.len() as u64;
        let found = datafiles
            .into_iter()
            .filter(|(object, _)| !known.contains(object))
            .collect();
        Ok(Orphans {
            next,
            datafiles: count,
            found,
        })
    }

    /// Removes datafiles that [`Client::orphans`] has found: those that provably belong to the present metadata,
    /// which have given out object numbers below `numbers`, are deleted; all others are moved aside.
    pub fn remove_orphans(
        &mut self,
        server: usize,
        objects: Vec<ObjectId>,
        numbers: u64,
    ) -> Result<OrphansGone, Error> {
        let asked = objects.len() as u64;
        let operation = Operation::RemoveOrphans { objects, numbers };
        let call = Call::query(server, operation);
        self.call_server("remove orphans", call, |reply| match reply {
            ReplyBody::OrphansRemoved { deleted, moved }
                if deleted.saturating_add(moved) > asked =>
            {
                let text = format!(
                    "the server says that of {asked} datafiles it has deleted {deleted} and moved {moved}"
                );
                Err(CallError::local(Errno::EPROTO, text))
            }
            ReplyBody::OrphansRemoved { deleted, moved } => Ok(OrphansGone { deleted, moved }),
            other => Err(unexpected_reply(&other)),
        })
    }

    /// Compares the datafiles of a batch of striped files, from `after` on, with what the metadata say that they contain at
    /// least. Safe while the file system is in use.
    pub fn check_striped(&mut self, after: ObjectId) -> Result<CheckedFiles, Error> {
        let subject = self.server_name(self.metadata);
        self.try_check_striped(after)
            .map_err(|error| error.during("check", &subject))
    }

    /// A batch of striped files, and the cursor of the next.
    fn striped_files(
        &mut self,
        after: ObjectId,
    ) -> Result<(Vec<StripedFile>, Option<ObjectId>), CallError> {
        let list = Operation::ListStriped {
            after,
            limit: STRIPED_BATCH,
        };
        let reply = self.query(list)?;
        let (files, end) =
            take_reply!(reply, ReplyBody::StripedFiles { files, end } => (files, end))?;
        let objects: Vec<ObjectId> = files.iter().map(|file| file.object).collect();
        let next = cursor("striped files", (after, STRIPED_BATCH), &objects, end)?;
        Ok((files, next))
    }

    fn try_check_striped(&mut self, after: ObjectId) -> Result<CheckedFiles, CallError> {
        let (files, next) = self.striped_files(after)?;
        let mut by_server: BTreeMap<u16, Vec<(ObjectId, u64)>> = BTreeMap::new();
        for file in &files {
            for (position, server) in file.servers.iter().enumerate() {
                let at_least = file.lengths.get(position).copied().unwrap_or(0);
                let datafiles = by_server.entry(*server).or_default();
                datafiles.push((file.object, at_least));
            }
        }
        let mut found = Vec::new();
        for (number, datafiles) in by_server {
            let server = self.rpc.server_of(number)?;
            for fault in self.check_data(server, datafiles)? {
                // Meanwhile the file may have been written, truncated or removed: only faults of its present state count.
                found.extend(self.confirm(number, server, fault)?);
            }
        }
        Ok(CheckedFiles {
            next,
            files: files.iter().filter(|file| !file.servers.is_empty()).count() as u64,
            found,
        })
    }

    fn check_data(
        &mut self,
        server: usize,
        datafiles: Vec<(ObjectId, u64)>,
    ) -> Result<Vec<DataFault>, CallError> {
        let asked: Vec<ObjectId> = datafiles.iter().map(|(object, _)| *object).collect();
        let operation = Operation::CheckData { datafiles };
        let reply = self.rpc.call(Call::query(server, operation))?;
        let faults = take_reply!(reply, ReplyBody::Faults(faults) => faults)?;
        only_asked("faults", &asked, faults.iter().map(|fault| fault.object))?;
        Ok(faults)
    }

    /// Checks a faulty datafile again, as long as truncations come in between.
    fn confirm(
        &mut self,
        number: u16,
        server: usize,
        fault: DataFault,
    ) -> Result<Option<ServerFault>, CallError> {
        let object = fault.object;
        let mut confirmed: Option<(Option<Version>, DataFault)> = None;
        for _ in 0..FORM_CHANGES {
            let operation = Operation::GetNode {
                object,
                content: false,
            };
            let described = self.query(operation).and_then(node);
            let node = match described.and_then(|node| node_of(object, node)) {
                Ok(node) => node,
                Err(error) if error.errno == Errno::ESTALE => return Ok(None),
                Err(error) => return Err(error),
            };
            let version = version(&node);
            if let Some((seen, fault)) = confirmed
                && seen == version
            {
                return Ok(Some(ServerFault { server, fault }));
            }
            let Body::Striped {
                distribution,
                lengths,
                ..
            } = node.body
            else {
                return Ok(None);
            };
            let position = distribution.servers.iter().position(|s| *s == number);
            let at_least = position.and_then(|position| lengths.get(position).copied());
            let datafile = (object, at_least.unwrap_or(0));
            match self.check_data(server, vec![datafile])?.into_iter().next() {
                Some(fault) => confirmed = Some((version, fault)),
                None => return Ok(None),
            }
        }
        // A file that is truncated all the time is left to the next check.
        Ok(None)
    }

    /// Has an I/O server accept datafiles that were replaced from outside.
    pub fn accept_data(&mut self, server: usize, objects: Vec<ObjectId>) -> Result<(), Error> {
        let call = Call::query(server, Operation::AcceptData { objects });
        self.call_server("accept datafiles", call, done)
    }

    /// Has an I/O server verify about `bytes` of its datafiles, from this position, or from where its last scrub stopped. A
    /// server that returns a position which is not behind `from` is an error, so that a scrub makes progress with each step.
    pub fn scrub(
        &mut self,
        server: usize,
        from: Option<ScrubPosition>,
        bytes: u64,
    ) -> Result<Scrubbed, Error> {
        let call = Call::query(
            server,
            Operation::Scrub {
                from,
                // With 0 bytes, a server would not advance.
                bytes: bytes.max(1),
            },
        );
        let most = bytes.saturating_add(SCRUB_EXCESS);
        self.call_server("scrub", call, |reply| match reply {
            ReplyBody::Scrubbed { bytes, .. } if bytes > most => {
                let message =
                    format!("the server says that a step of at most {most} bytes had {bytes}");
                Err(CallError::local(Errno::EPROTO, message))
            }
            ReplyBody::Scrubbed { next, .. } if next.is_some() && next <= from => {
                let message = "the server returned a position of the scrub that does not advance";
                Err(CallError::local(Errno::EPROTO, message))
            }
            ReplyBody::Scrubbed {
                next,
                bytes,
                datafiles,
                faults,
            } => Ok(Scrubbed {
                next,
                bytes,
                datafiles,
                faults,
            }),
            other => Err(unexpected_reply(&other)),
        })
    }

    /// One path of each object that has one; of very many long ones, the first.
    pub fn paths(&mut self, objects: Vec<ObjectId>) -> Result<Vec<ObjectPath>, Error> {
        let asked = objects.clone();
        let call = Call::query(self.metadata, Operation::Paths { objects });
        self.call_server("find paths", call, |reply| {
            let paths = take_reply!(reply, ReplyBody::Paths(paths) => paths)?;
            only_asked("paths", &asked, paths.iter().map(|path| path.object))?;
            Ok(paths)
        })
    }

    /// Removes the datafiles of files that were removed.
    pub fn remove_datafiles(&mut self, server: usize, objects: Vec<ObjectId>) -> Result<(), Error> {
        let call = Call::query(server, Operation::Remove { objects });
        self.call_server("remove datafiles", call, done)
    }

    fn server_name(&self, server: usize) -> Vec<u8> {
        let name = match self.rpc.link_name(server) {
            "" => format!("server number {server}"),
            name => name.to_owned(),
        };
        name.into_bytes()
    }
}
