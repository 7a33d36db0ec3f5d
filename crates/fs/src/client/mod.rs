//! The client library: what the command line, benchmarks and later FUSE and MPI-IO call.
//!
//! A [`Client`] belongs to one thread; calls block until done or failed, within the
//! configuration's timeout. Inside a call everything that can be is in flight at once. Several
//! threads use several clients.

use causeway_bmi::{Memory, PeerReport};
use causeway_wire::fs::{
    Answer, Attributes, Caller, DistributionHint, Entry, Node, ObjectId, Region, SetAttributes,
};

use crate::Error;
use crate::config::Configuration;

/// A connection to a file system.
pub struct Client {}

/// An open file: an object and what is known of it. Holds no state on any server.
#[derive(Debug, Clone)]
pub struct File {
    /// The node as last seen.
    pub node: Node,
}

/// How [`Client::create`] makes a file.
#[derive(Debug, Clone, Default)]
pub struct CreateOptions {
    /// Fail if the name exists.
    pub exclusive: bool,
    /// Permission bits.
    pub mode: u16,
    /// How to stripe.
    pub distribution: Option<DistributionHint>,
    /// First content, if small ([`causeway_wire::fs::MAX_STUFFED_BYTES`]).
    pub content: Vec<u8>,
}

/// How a client behaves.
#[derive(Debug, Clone, Default)]
pub struct ClientOptions {
    /// On whose behalf; the process's own identity if absent.
    pub caller: Option<Caller>,
    /// Use only addresses of this scheme (`shm`, `tcp`), for measurements.
    pub only_scheme: Option<String>,
    /// Record how long each stage of reads and writes takes, for [`Client::take_stages`].
    pub record_stages: bool,
}

/// Time spent in one stage of an operation, for breakdowns.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// Such as `request`, `transfer`, `storage`, `reply`.
    pub name: &'static str,
    /// Microseconds, summed.
    pub total_us: f64,
    /// How often.
    pub count: u64,
}

impl Client {
    /// Connects to a file system. Servers that are down show when they are needed.
    pub fn connect(configuration: &Configuration, options: ClientOptions) -> Result<Self, Error> {
        todo!()
    }

    /// Looks a path up, following a link in the last component if `follow`.
    pub fn stat(&mut self, path: &[u8], follow: bool) -> Result<Node, Error> {
        todo!()
    }

    /// Opens an existing file.
    pub fn open(&mut self, path: &[u8]) -> Result<File, Error> {
        todo!()
    }

    /// Makes (or, unless exclusive, opens) a file.
    pub fn create(&mut self, path: &[u8], options: &CreateOptions) -> Result<File, Error> {
        todo!()
    }

    /// Makes a directory.
    pub fn make_directory(
        &mut self,
        path: &[u8],
        mode: u16,
        distribution: Option<DistributionHint>,
    ) -> Result<Node, Error> {
        todo!()
    }

    /// Makes a symbolic link at `path` that points to `target`.
    pub fn symbolic_link(&mut self, target: &[u8], path: &[u8]) -> Result<Node, Error> {
        todo!()
    }

    /// Gives `existing` one more name.
    pub fn hard_link(&mut self, existing: &[u8], path: &[u8]) -> Result<Node, Error> {
        todo!()
    }

    /// Renames atomically.
    pub fn rename(&mut self, from: &[u8], to: &[u8], no_replace: bool) -> Result<(), Error> {
        todo!()
    }

    /// Removes a name.
    pub fn unlink(&mut self, path: &[u8]) -> Result<(), Error> {
        todo!()
    }

    /// Removes an empty directory.
    pub fn remove_directory(&mut self, path: &[u8]) -> Result<(), Error> {
        todo!()
    }

    /// One page of a directory: the entries behind the name `after`, and whether that is all.
    pub fn read_directory(
        &mut self,
        directory: ObjectId,
        after: &[u8],
        limit: u32,
        attributes: bool,
    ) -> Result<(Vec<Entry>, bool), Error> {
        todo!()
    }

    /// Changes attributes.
    pub fn set_attributes(
        &mut self,
        object: ObjectId,
        set: SetAttributes,
    ) -> Result<Attributes, Error> {
        todo!()
    }

    /// Cuts or grows a file.
    pub fn truncate(&mut self, file: &mut File, size: u64) -> Result<(), Error> {
        todo!()
    }

    /// Reads from `offset` on; fewer bytes than asked only at the end of the file.
    pub fn read_at(
        &mut self,
        file: &mut File,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, Error> {
        todo!()
    }

    /// Writes all of `from` at `offset`.
    pub fn write_at(&mut self, file: &mut File, offset: u64, from: &[u8]) -> Result<(), Error> {
        todo!()
    }

    /// Reads regions, in order, into memory fragments that cover the same number of bytes; answers the
    /// bytes up to the end of the file, and zero-fills holes.
    pub fn read_list(
        &mut self,
        file: &mut File,
        regions: &[Region],
        memory: &[Memory],
    ) -> Result<u64, Error> {
        todo!()
    }

    /// Writes regions, in order, from memory fragments that cover the same number of bytes.
    pub fn write_list(
        &mut self,
        file: &mut File,
        regions: &[Region],
        memory: &[Memory],
    ) -> Result<(), Error> {
        todo!()
    }

    /// A buffer that servers on this host can reach without a copy in between.
    pub fn allocate(&mut self, len: usize) -> Result<Memory, Error> {
        todo!()
    }

    /// Makes a file's content and size durable.
    pub fn fsync(&mut self, file: &mut File) -> Result<(), Error> {
        todo!()
    }

    /// Asks one server (an index into the configuration) who it is.
    pub fn ping(&mut self, server: usize) -> Result<Answer, Error> {
        todo!()
    }

    /// Space and load of one I/O server, or counts of the metadata server.
    pub fn status(&mut self, server: usize) -> Result<Answer, Error> {
        todo!()
    }

    /// Which method was chosen for a server, and why.
    pub fn report(&self, server: usize) -> Option<PeerReport> {
        todo!()
    }

    /// Stages recorded since the last call.
    pub fn take_stages(&mut self) -> Vec<Stage> {
        todo!()
    }
}
