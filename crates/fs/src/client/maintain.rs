//! What operators ask: who is there, how full it is, is everything consistent.

use std::time::Instant;

use causeway_wire::fs::{
    Answer, CheckCursor, Errno, Generation, Greeting, Incarnation, ObjectId, Operation,
    ServerIdentity, Target,
};

use super::Client;
use super::identity::Layout;
use super::rpc::{Call, Trouble, done, unfit};
use crate::Error;

/// Datafiles that one step of [`Client::orphans`] looks at.
const ORPHAN_BATCH: u32 = 512;

/// A batch of the name space that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Where to go on; `None` at the end. Always behind where the batch began.
    pub next: Option<CheckCursor>,
    /// Records that were looked at.
    pub records: u64,
    /// What was found wrong, in words.
    pub findings: Vec<String>,
    /// How much of it was mended.
    pub mended: u64,
}

/// A batch of an I/O server's datafiles that was held against the metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphans {
    /// Where to go on; `None` at the end.
    pub next: Option<ObjectId>,
    /// Datafiles that were looked at.
    pub datafiles: u64,
    /// Those without a file, with their sizes in bytes.
    pub found: Vec<(ObjectId, u64)>,
}

impl Client {
    /// Asks one server (an index into the configuration) for its identity, which is not checked.
    pub fn ping(&mut self, server: usize) -> Result<Greeting, Error> {
        let all = self.ping_all(&[server]);
        let none = || Err(self.vanished("ping", server));
        all.into_iter().next().unwrap_or_else(none)
    }

    /// Asks several servers at once for their identities, which are not checked.
    pub fn ping_all(&mut self, servers: &[usize]) -> Vec<Result<Greeting, Error>> {
        let greetings = self.rpc.greet(servers);
        let named = |(&server, greeting): (&usize, Result<Greeting, Trouble>)| {
            greeting.map_err(|trouble| trouble.during("ping", &self.server_name(server)))
        };
        servers.iter().zip(greetings).map(named).collect()
    }

    /// Fails unless a server (an index into the configuration) is the one that it should be.
    pub fn verify(&mut self, server: usize) -> Result<(), Error> {
        self.rpc
            .introduce_to(&[server])
            .map_err(|trouble| trouble.during("meet", &self.server_name(server)))
    }

    /// The file system's I/O servers, as the metadata server says now.
    pub fn layout(&mut self) -> Result<Layout, Error> {
        let subject = self.server_name(self.metadata);
        self.rpc
            .renew_layout()
            .cloned()
            .map_err(|trouble| trouble.during("ask for the layout", &subject))
    }

    /// The configuration's index of the I/O server that distributions know by this number.
    pub fn server_of(&mut self, number: u16) -> Result<usize, Error> {
        self.rpc.server_of(number).map_err(|trouble| {
            trouble.during("find", format!("I/O server number {number}").as_bytes())
        })
    }

    /// Adds an I/O server of the configuration to the file system: once the metadata server has met it, new
    /// files use it.
    pub fn add_server(&mut self, name: &str) -> Result<(), Error> {
        let operation = Operation::AddServer {
            name: name.to_owned(),
        };
        self.mutate(operation)
            .and_then(done)
            .map_err(|trouble| trouble.during("add", name.as_bytes()))
    }

    /// Lets the directory of this generation take the place of the one that an I/O server had.
    pub fn accept_server(&mut self, name: &str, generation: Generation) -> Result<(), Error> {
        let operation = Operation::AcceptServer {
            name: name.to_owned(),
            generation,
        };
        self.mutate(operation)
            .and_then(done)
            .map_err(|trouble| trouble.during("accept", name.as_bytes()))
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
        let deadline = Instant::now() + self.rpc.timeout;
        let calls = vec![Call::query(server, operation)];
        let answers = self.rpc.call_directly(calls, found.target(), deadline);
        match answers.into_iter().next() {
            Some(answer) => answer
                .and_then(done)
                .map_err(|trouble| trouble.during("enroll", &self.server_name(server))),
            None => Err(self.vanished("enroll", server)),
        }
    }

    /// Takes the layout for granted: for the metadata server, which need not ask itself.
    pub(crate) fn trust_layout(&mut self, metadata: Target, layout: Layout) {
        self.rpc.trust_layout(metadata, layout);
    }

    fn vanished(&self, operation: &'static str, server: usize) -> Error {
        let message = "the call vanished, which is a defect of the client";
        Trouble::local(Errno::EIO, message).during(operation, &self.server_name(server))
    }

    /// Space and load of an I/O server ([`Answer::StorageStatus`]).
    pub fn storage_status(&mut self, server: usize) -> Result<Answer, Error> {
        let subject = self.server_name(server);
        self.rpc
            .call(Call::query(server, Operation::StorageStatus))
            .map_err(|trouble| trouble.during("status", &subject))
    }

    /// Counts of the metadata server ([`Answer::MetadataStatus`]).
    pub fn metadata_status(&mut self) -> Result<Answer, Error> {
        let subject = self.server_name(self.metadata);
        self.query(Operation::MetadataStatus)
            .map_err(|trouble| trouble.during("status", &subject))
    }

    /// Makes everything that the metadata server has acknowledged durable.
    pub fn commit(&mut self) -> Result<(), Error> {
        let subject = self.server_name(self.metadata);
        self.query(Operation::Commit)
            .and_then(done)
            .map_err(|trouble| trouble.during("commit", &subject))
    }

    /// Checks a batch of the name space, from `after` (`None` at first) on, and mends it if asked. A
    /// server that names an earlier place to go on at is an error, so that a check always ends.
    pub fn check_metadata(
        &mut self,
        after: Option<&CheckCursor>,
        repair: bool,
    ) -> Result<Checked, Error> {
        let subject = self.server_name(self.metadata);
        let operation = Operation::Check {
            after: after.cloned(),
            repair,
        };
        let call = match repair {
            true => Call::mutation(self.metadata, operation, 0),
            false => Call::query(self.metadata, operation),
        };
        match self.rpc.call(call) {
            Ok(Answer::Checked {
                next: Some(next), ..
            }) if Some(&next) <= after => Err(Trouble::local(
                Errno::EPROTO,
                "the server named an earlier place to go on at".to_owned(),
            )
            .during("check", &subject)),
            Ok(Answer::Checked {
                next,
                records,
                findings,
                mended,
            }) => Ok(Checked {
                next,
                records,
                findings,
                mended,
            }),
            Ok(other) => Err(unfit(&other).during("check", &subject)),
            Err(trouble) => Err(trouble.during("check", &subject)),
        }
    }

    /// Holds a batch of an I/O server's datafiles, from `after` on, against the metadata.
    ///
    /// Safe while the file system is in use: object numbers are never used again, and a datafile is only
    /// ever made after its file, so a datafile without a file is an orphan for good.
    pub fn orphans(&mut self, server: usize, after: ObjectId) -> Result<Orphans, Error> {
        let subject = self.server_name(server);
        let list = Operation::ListData {
            after,
            limit: ORPHAN_BATCH,
        };
        let (datafiles, end) = match self.rpc.call(Call::query(server, list)) {
            Ok(Answer::Datafiles { datafiles, end }) => (datafiles, end),
            Ok(other) => return Err(unfit(&other).during("check", &subject)),
            Err(trouble) => return Err(trouble.during("check", &subject)),
        };
        let objects: Vec<ObjectId> = datafiles.iter().map(|(object, _)| *object).collect();
        let next = if end { None } else { objects.last().copied() };
        let known = match objects.is_empty() {
            true => Vec::new(),
            false => match self.query(Operation::Exist { objects }) {
                Ok(Answer::Objects(known)) => known,
                Ok(other) => return Err(unfit(&other).during("check", &subject)),
                Err(trouble) => return Err(trouble.during("check", &subject)),
            },
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

    /// Removes datafiles that [`Client::orphans`] has found.
    pub fn remove_datafiles(&mut self, server: usize, objects: Vec<ObjectId>) -> Result<(), Error> {
        let subject = self.server_name(server);
        self.rpc
            .call(Call::query(server, Operation::Remove { objects }))
            .and_then(done)
            .map_err(|trouble| trouble.during("remove orphans", &subject))
    }

    fn server_name(&self, server: usize) -> Vec<u8> {
        self.names.get(server).map_or_else(
            || format!("server number {server}").into_bytes(),
            |name| name.clone().into_bytes(),
        )
    }
}
