//! A client: its parts and its options.

use std::sync::Arc;
use std::time::{Duration, Instant};

use causeway_bmi::{ConnectionId, Memory, PeerError, PeerReport};
use causeway_wire::fs::{Caller, Errno};

use super::call_error::CallError;
use super::held::HeldFiles;
use super::leases::Leases;
use super::locks::Locks;
use super::long_reads::LongReads;
use super::options::{ClientOptions, own_identity};
use super::rpc::{Interrupter, Rpc};
use super::stages::Stage;
use crate::Error;
use crate::capability_key::Signer;
use crate::config::Configuration;

/// A connection to a file system.
pub struct Client {
    pub(super) rpc: Rpc,
    /// Index of the metadata server in the configuration.
    pub(super) metadata: usize,
    /// Index of any one I/O server in the configuration.
    pub(super) any_io: Option<usize>,
    pub(super) record_stages: bool,
    pub(super) stages: Vec<Stage>,
    pub(super) locks: Arc<Locks>,
    pub(super) held: Arc<HeldFiles>,
    /// The number of its last step of a shared pointer.
    pub(super) pointer_steps: u64,
    /// The connection with the metadata server on which clients can ask whether they still have
    /// their append locks.
    pub(super) append_locks_known: Option<ConnectionId>,
    /// How it reads much into ordinary memory on the servers' host.
    pub(super) long_reads: LongReads,
}

/// State that the clients of a program share.
pub(crate) struct Shared {
    pub(crate) locks: Arc<Locks>,
    held: Arc<HeldFiles>,
    leases: Option<Arc<Leases>>,
}

impl Shared {
    /// Fails at once if this process needs the node's agent and the agent does not run: that is a fault of the node, which an operator
    /// has to correct. Clients that run already repeat calls until their time-out, so that an agent can be started again.
    pub(crate) fn new(
        configuration: &Configuration,
        options: &ClientOptions,
    ) -> Result<Self, Error> {
        if let Some(agent) = configuration.agent() {
            agent.check().map_err(|error| {
                let text = match error {
                    // No server is concerned.
                    PeerError::Refused(text) | PeerError::Unauthorised(text) => text,
                    error => error.to_string(),
                };
                CallError::local(Errno::ENOKEY, text)
                    .during("connect", configuration.name.as_bytes())
            })?;
        }
        let held = HeldFiles::new(configuration, options)
            .map_err(|error| error.during("connect", configuration.name.as_bytes()))?;
        Ok(Self {
            locks: Arc::new(Locks::new(configuration, options)),
            held: Arc::new(held),
            leases: None,
        })
    }

    /// The same for a program that caches names and attributes.
    pub(crate) fn with_leases(self, leases: Arc<Leases>) -> Self {
        Self {
            leases: Some(leases),
            ..self
        }
    }
}

impl Client {
    /// Prepares a client of a file system. Connections are made when they are needed, so servers that
    /// are down are noticed only then.
    pub fn connect(configuration: &Configuration, options: ClientOptions) -> Result<Self, Error> {
        let shared = Shared::new(configuration, &options)?;
        Self::sharing(configuration, options, &shared)
    }

    /// The same for one of several clients that share their locks and open files.
    pub(crate) fn sharing(
        configuration: &Configuration,
        options: ClientOptions,
        shared: &Shared,
    ) -> Result<Self, Error> {
        let caller = options.caller.unwrap_or_else(own_identity);
        let mut rpc = Rpc::new(configuration, caller, options.only_scheme.as_deref())
            .map_err(|error| error.during("connect", configuration.name.as_bytes()))?;
        rpc.leases.clone_from(&shared.leases);
        Ok(Self {
            rpc,
            metadata: configuration.metadata_server(),
            any_io: configuration.io_servers().first().copied(),
            record_stages: options.record_stages,
            stages: Vec::new(),
            locks: Arc::clone(&shared.locks),
            held: Arc::clone(&shared.held),
            pointer_steps: 0,
            append_locks_known: None,
            long_reads: LongReads::new(options.long_reads),
        })
    }

    /// Allocates a buffer of `len` bytes that servers on this host can access without an intermediate copy.
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

    /// The locks that exclude other clients. While a file's locks are lost, reading and writing it fails.
    pub fn locks(&self) -> &Arc<Locks> {
        &self.locks
    }

    /// Reports the method that was chosen for a server (an index into the configuration), and the reason.
    pub fn report(&self, server: usize) -> Option<PeerReport> {
        self.rpc.report(server)
    }

    /// Sets the user for whom calls are made from now on. Servers on this host accept another identity from root only.
    pub fn act_for(&mut self, caller: Caller) {
        self.rpc.set_caller(caller);
    }

    /// Bounds how long each of the following calls may take, where the configuration permits more.
    pub fn limit(&mut self, timeout: Duration) {
        self.rpc.timeout = timeout.min(self.rpc.longest_timeout);
        self.rpc.waits_since = None;
    }

    /// The following calls, up to the next [`Self::limit`], are of an operation that has waited for others of this client since then. Servers for which another one has waited in vain meanwhile get
    /// little more time: many operations that wait for one such server end soon after the first one.
    pub fn has_waited(&mut self, since: Instant) {
        self.rpc.waits_since = Some(since);
    }

    /// Makes the capabilities that its requests need, as a metadata server's own client.
    pub(crate) fn act_as_server(&mut self, signer: Signer) {
        self.rpc.act_as_server(signer);
    }

    /// Returns a handle that ends calls from another thread.
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
