//! The client library: what the command line, benchmarks and later FUSE and MPI-IO call.
//!
//! A [`Client`] belongs to one thread; calls block until done or failed, within the
//! configuration's timeout. A call has all its requests in flight at once, where it can. Several
//! threads use several clients.
//!
//! Reading order: `call`, `call_error`, `rpc`, `pending` and `replies` (requests, replies, repetition), `session`, `link`, `introduce` and `identity`
//! (which server is at an address), `names` (the name space), `transfer` (which bytes go where), `io` (reading and
//! writing), `presence` (data that is missing), `verifiers` (writes that were lost before a sync), `maintain` (for
//! operators), `stages` (where the time goes).

mod call;
mod call_error;
mod holes;
mod identity;
mod introduce;
mod io;
mod link;
mod maintain;
mod names;
mod pending;
mod presence;
mod read;
mod replies;
mod rpc;
mod session;
mod stages;
mod transfer;
mod unacknowledged;
mod verifiers;

use std::time::Duration;

use causeway_bmi::{Memory, PeerReport};
use causeway_wire::fs::{Caller, DistributionHint, Errno, Node};

pub use identity::Layout;
pub use maintain::{Checked, CheckedFiles, Orphans, OrphansGone, Scrubbed, ServerFault, Space};
pub use names::MANY;
pub use stages::Stage;

use crate::Error;
use crate::config::Configuration;
use call_error::CallError;
pub(crate) use rpc::Interrupter;
use rpc::Rpc;

/// A connection to a file system.
pub struct Client {
    rpc: Rpc,
    /// Index of the metadata server in the configuration.
    metadata: usize,
    /// Index of any one I/O server in the configuration.
    any_io: Option<usize>,
    verifiers: verifiers::Verifiers,
    record_stages: bool,
    stages: Vec<Stage>,
}

/// An open file: an object and what is known of it. Holds no state on any server.
#[derive(Debug, Clone)]
pub struct File {
    /// The node as last received.
    pub node: Node,
    /// A small file's content as it came with the opening, for the first read.
    opened_content: Option<Vec<u8>>,
    /// [`verifiers::Verifiers::losses`] before the first change that no fsync has made durable.
    unsynced_since: Option<u64>,
    written: Option<io::Written>,
}

/// How [`Client::create`] makes a file.
#[derive(Debug, Clone)]
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

impl Default for CreateOptions {
    fn default() -> Self {
        Self {
            exclusive: false,
            mode: 0o644,
            distribution: None,
            content: Vec::new(),
        }
    }
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

impl Client {
    /// Prepares a client of a file system. Connections are made when they are needed, so servers that
    /// are down show only then.
    pub fn connect(configuration: &Configuration, options: ClientOptions) -> Result<Self, Error> {
        let caller = options.caller.unwrap_or_else(own_identity);
        let rpc = Rpc::new(configuration, caller, options.only_scheme.as_deref())
            .map_err(|error| error.during("connect", configuration.name.as_bytes()))?;
        Ok(Self {
            rpc,
            metadata: configuration.metadata_server(),
            any_io: configuration.io_servers().first().copied(),
            verifiers: verifiers::Verifiers::default(),
            record_stages: options.record_stages,
            stages: Vec::new(),
        })
    }

    /// A buffer of `len` bytes that servers on this host can reach without a copy in between.
    pub fn allocate(&mut self, len: usize) -> Result<Memory, Error> {
        let server = self.any_io.unwrap_or(self.metadata);
        let allocated = self.rpc.addr(server).and_then(|addr| {
            self.rpc
                .bmi()
                .memalloc(addr, len)
                .map_err(|error| CallError::local(Errno::ENOMEM, error.to_string()))
        });
        allocated.map_err(|error| error.during("allocate", format!("{len} bytes").as_bytes()))
    }

    /// Which method was chosen for a server (an index into the configuration), and why.
    pub fn report(&self, server: usize) -> Option<PeerReport> {
        self.rpc.report(server)
    }

    /// On whose behalf calls are made, from now on. Servers on this host believe only root that it is somebody else.
    pub fn act_for(&mut self, caller: Caller) {
        self.rpc.set_caller(caller);
    }

    /// Bounds how long each of the calls that follow may take, where the configuration allows for more.
    pub fn limit(&mut self, timeout: Duration) {
        self.rpc.timeout = timeout.min(self.rpc.longest_timeout);
    }

    /// Ends calls from another thread.
    pub(crate) fn interrupter(&self) -> Interrupter {
        self.rpc.interrupter()
    }

    /// Stages recorded since the last call.
    pub fn take_stages(&mut self) -> Vec<Stage> {
        std::mem::take(&mut self.stages)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.rpc.end_session();
        }
    }
}

/// The process's user, group and supplementary groups.
pub fn own_identity() -> Caller {
    let groups = rustix::process::getgroups().unwrap_or_default();
    Caller {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        groups: groups
            .into_iter()
            .take(causeway_wire::fs::MAX_GROUPS)
            .map(|group| group.as_raw())
            .collect(),
    }
}
