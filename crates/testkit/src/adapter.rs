//! A method of another crate, which moves registered memory only, as a network adapter does, and has none of the abilities that
//! a method may lack: no atomics, no protection per peer, no news of a peer's death.
//!
//! It wraps another method, `mem` by default, under a scheme of its own, behind tables of registered memory.
//! Tests read the tables from outside, also after an endpoint has taken the method.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use causeway_sys::memory::Memory;
use causeway_transport::mem::{Mem, Options};
use causeway_transport::{
    Access, Address, Capabilities, Direction, Error, Identity, Limits, Method, Peer, PeerReport,
    Readiness, Registration, SendError, Sink, Transfer,
};
use causeway_wire::region::RegionDescriptor;

/// A method behind an adapter, cheaper than `tcp` and dearer than `shm`.
pub struct Adapter<M = Mem> {
    inner: M,
    tables: Tables,
}

/// The memory that is registered with an [`Adapter`].
#[derive(Clone, Default)]
pub struct Tables(Arc<Mutex<Registered>>);

/// Spans of memory by registration.
#[derive(Default)]
struct Registered {
    spans: HashMap<u64, Span>,
    made: u64,
    /// Most that there may be at once, if there is a limit.
    limit: Option<usize>,
}

/// Where memory lies.
#[derive(Clone, Copy)]
struct Span {
    start: usize,
    end: usize,
    writable: bool,
}

impl Span {
    fn of(memory: &Memory) -> Self {
        let start = memory.as_ptr().addr();
        Self {
            start,
            end: start + memory.len(),
            writable: memory.is_writable(),
        }
    }
}

impl Registered {
    fn register(&mut self, span: Span) -> Result<u64, Error> {
        if self.limit.is_some_and(|limit| self.spans.len() >= limit) {
            return Err(Error::Unsupported("the adapter's table is full"));
        }
        self.made += 1;
        self.spans.insert(self.made, span);
        Ok(self.made)
    }

    fn deregister(&mut self, registration: u64) {
        self.spans.remove(&registration);
    }

    /// Checks that a registration covers the memory, for writing to it if `writes`.
    fn find(
        &self,
        memory: &Memory,
        registration: Registration,
        writes: bool,
    ) -> Result<(), &'static str> {
        let (wanted, span) = (Span::of(memory), self.spans.get(&registration.0));
        let span = span.ok_or("there is no such registration")?;
        if wanted.start < span.start || wanted.end > span.end {
            return Err("the registration is another memory's");
        }
        match writes && !span.writable {
            true => Err("the memory was registered for reading"),
            false => Ok(()),
        }
    }
}

impl Tables {
    fn lock(&self) -> MutexGuard<'_, Registered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of registrations made so far.
    pub fn made(&self) -> u64 {
        self.lock().made
    }

    /// Number of present registrations.
    pub fn len(&self) -> usize {
        self.lock().spans.len()
    }

    /// Whether nothing is registered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets how many regions may be registered at a time from now on.
    pub fn limit(&self, most: usize) {
        self.lock().limit = Some(most);
    }
}

impl Adapter {
    /// `mem` behind one.
    ///
    /// # Errors
    /// As [`Mem::new`].
    pub fn new(options: Options) -> Result<Self, Error> {
        Ok(Self::over(Mem::new(options)?))
    }
}

impl<M: Method> Adapter<M> {
    /// This method behind one.
    pub fn over(inner: M) -> Self {
        Self {
            inner,
            tables: Tables::default(),
        }
    }

    /// Its tables.
    pub fn tables(&self) -> Tables {
        self.tables.clone()
    }

    fn adapter(&self) -> MutexGuard<'_, Registered> {
        self.tables.lock()
    }

    /// The same address for the method underneath.
    fn inner_of(&self, address: &Address) -> Result<Address, Error> {
        if address.scheme() != SCHEME {
            return Err(Error::BadAddress {
                address: address.to_string(),
                reason: "its scheme is not `adapter`",
            });
        }
        format!("{}://{}", self.inner.scheme(), address.rest()).parse()
    }
}

const SCHEME: &str = "adapter";

fn outer(address: &Address) -> Result<Address, Error> {
    format!("{SCHEME}://{}", address.rest()).parse()
}

impl<M: Method> Method for Adapter<M> {
    fn scheme(&self) -> &'static str {
        SCHEME
    }
    fn rank(&self) -> u8 {
        45
    }
    fn limits(&self) -> Limits {
        self.inner.limits()
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            per_peer_protection: false,
            remote_atomics: false,
            needs_local_registration: true,
            reports_peer_exit: false,
            identifies_nodes: false,
            ..self.inner.capabilities()
        }
    }
    fn listen(&mut self, address: &Address) -> Result<Address, Error> {
        let address = self.inner_of(address)?;
        outer(&self.inner.listen(&address)?)
    }
    fn connect(&mut self, now: Instant, address: &Address) -> Result<Peer, Error> {
        let address = self.inner_of(address)?;
        self.inner.connect(now, &address)
    }
    fn also_at(&mut self, peer: Peer, address: &Address) -> bool {
        let address = self.inner_of(address);
        address.is_ok_and(|address| self.inner.also_at(peer, &address))
    }
    fn set_time(&mut self, now: Instant) {
        self.inner.set_time(now);
    }
    fn address(&self, peer: Peer) -> Option<Address> {
        outer(&self.inner.address(peer)?).ok()
    }
    fn confirm_address(&self, peer: Peer, claimed: &Address) -> Option<Address> {
        let claimed = self.inner_of(claimed).ok()?;
        let confirmed = self.inner.confirm_address(peer, &claimed)?;
        outer(&confirmed).ok()
    }
    fn identity(&self, peer: Peer) -> Option<Identity> {
        self.inner.identity(peer)
    }
    fn send(&mut self, peer: Peer, parts: &[&[u8]]) -> Result<(), SendError> {
        self.inner.send(peer, parts)
    }
    fn register(&mut self, memory: &Memory) -> Result<Registration, Error> {
        let span = Span::of(memory);
        self.adapter().register(span).map(Registration)
    }
    fn deregister(&mut self, registration: Registration) {
        self.adapter().deregister(registration.0);
    }
    fn pause(&mut self, peer: Peer) {
        self.inner.pause(peer);
    }
    fn resume(&mut self, peer: Peer) {
        self.inner.resume(peer);
    }
    fn readiness(&mut self, peer: Peer) -> Readiness {
        self.inner.readiness(peer)
    }
    fn grant(
        &mut self,
        peer: Peer,
        memory: &Memory,
        registration: Registration,
        access: Access,
    ) -> Result<RegionDescriptor, Error> {
        let writes = access.allows(Direction::Put);
        let found = self.adapter().find(memory, registration, writes);
        found.map_err(Error::Unsupported)?;
        self.inner.grant(peer, memory, Registration::NONE, access)
    }
    fn revoke(&mut self, peer: Peer, key: u64) {
        self.inner.revoke(peer, key);
    }
    fn transfer(&mut self, peer: Peer, transfer: Transfer) -> Result<(), SendError> {
        let writes = transfer.direction == Direction::Get;
        for (at, memory) in transfer.local.iter().enumerate() {
            let registration = transfer.registrations.get(at).copied();
            let registration = registration.unwrap_or(Registration::NONE);
            let found = self.adapter().find(memory, registration, writes);
            found.map_err(|reason| SendError::Unregistered(reason.to_owned()))?;
        }
        self.inner.transfer(peer, transfer)
    }
    fn map(&mut self, peer: Peer, region: &RegionDescriptor) -> Option<Memory> {
        self.inner.map(peer, region)
    }
    fn allocate(&mut self, len: usize) -> Result<Memory, Error> {
        self.inner.allocate(len)
    }
    fn poll(&mut self, now: Instant, sink: &mut dyn Sink) -> bool {
        self.inner.poll(now, sink)
    }
    fn tick(&mut self, now: Instant, sink: &mut dyn Sink) {
        self.inner.tick(now, sink);
    }
    fn arm(&mut self, now: Instant) -> bool {
        self.inner.arm(now)
    }
    fn disarm(&mut self) {
        self.inner.disarm();
    }
    fn pollable(&self) -> BorrowedFd<'_> {
        self.inner.pollable()
    }
    fn deadline(&self) -> Option<Instant> {
        self.inner.deadline()
    }
    fn disconnect(&mut self, now: Instant, peer: Peer, sink: &mut dyn Sink) {
        self.inner.disconnect(now, peer, sink);
    }
    fn report(&self, peer: Peer) -> Option<PeerReport> {
        self.inner.report(peer)
    }
}
