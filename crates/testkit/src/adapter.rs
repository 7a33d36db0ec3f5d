//! A method of another crate, which moves registered memory only, as a network adapter does.
//!
//! It is `mem` under a scheme of its own, behind tables of which memory may be moved. Tests read the tables from
//! outside, also after an endpoint has taken the method.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use causeway_sys::memory::Memory;
use causeway_transport::mem::{Mem, Options};
use causeway_transport::{
    Access, Address, Atomic, Capabilities, Direction, Error, Identity, Limits, Method, Peer,
    PeerReport, Readiness, Registration, SendError, Sink, Transfer,
};
use causeway_wire::region::RegionDescriptor;

/// `mem` behind an adapter, cheaper than `tcp` and dearer than `shm`.
pub struct Adapter {
    mem: Mem,
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

    /// Registrations that were ever made.
    pub fn made(&self) -> u64 {
        self.lock().made
    }

    /// Registrations that there are now.
    pub fn len(&self) -> usize {
        self.lock().spans.len()
    }

    /// Whether nothing is registered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// From now on no more than so many may be registered at once.
    pub fn limit(&self, most: usize) {
        self.lock().limit = Some(most);
    }
}

impl Adapter {
    /// A new one.
    ///
    /// # Errors
    /// As [`Mem::new`].
    pub fn new(options: Options) -> Result<Self, Error> {
        Ok(Self {
            mem: Mem::new(options)?,
            tables: Tables::default(),
        })
    }

    /// Its tables.
    pub fn tables(&self) -> Tables {
        self.tables.clone()
    }

    fn adapter(&self) -> MutexGuard<'_, Registered> {
        self.tables.lock()
    }
}

/// The same address for the method underneath.
fn inner(address: &Address) -> Result<Address, Error> {
    if address.scheme() != "adapter" {
        return Err(Error::BadAddress {
            address: address.to_string(),
            reason: "its scheme is not `adapter`",
        });
    }
    format!("mem://{}", address.rest()).parse()
}

fn outer(address: &Address) -> Result<Address, Error> {
    format!("adapter://{}", address.rest()).parse()
}

impl Method for Adapter {
    fn scheme(&self) -> &'static str {
        "adapter"
    }
    fn rank(&self) -> u8 {
        45
    }
    fn limits(&self) -> Limits {
        self.mem.limits()
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            needs_local_registration: true,
            ..self.mem.capabilities()
        }
    }
    fn listen(&mut self, address: &Address) -> Result<Address, Error> {
        outer(&self.mem.listen(&inner(address)?)?)
    }
    fn connect(&mut self, now: Instant, address: &Address) -> Result<Peer, Error> {
        self.mem.connect(now, &inner(address)?)
    }
    fn set_time(&mut self, now: Instant) {
        self.mem.set_time(now);
    }
    fn address(&self, peer: Peer) -> Option<Address> {
        outer(&self.mem.address(peer)?).ok()
    }
    fn confirm_address(&self, peer: Peer, claimed: &Address) -> Option<Address> {
        let confirmed = self.mem.confirm_address(peer, &inner(claimed).ok()?)?;
        outer(&confirmed).ok()
    }
    fn identity(&self, peer: Peer) -> Option<Identity> {
        self.mem.identity(peer)
    }
    fn send(&mut self, peer: Peer, parts: &[&[u8]]) -> Result<(), SendError> {
        self.mem.send(peer, parts)
    }
    fn register(&mut self, memory: &Memory) -> Result<Registration, Error> {
        let span = Span::of(memory);
        self.adapter().register(span).map(Registration)
    }
    fn deregister(&mut self, registration: Registration) {
        self.adapter().deregister(registration.0);
    }
    fn pause(&mut self, peer: Peer) {
        self.mem.pause(peer);
    }
    fn resume(&mut self, peer: Peer) {
        self.mem.resume(peer);
    }
    fn readiness(&mut self, peer: Peer) -> Readiness {
        self.mem.readiness(peer)
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
        self.mem.grant(peer, memory, Registration::NONE, access)
    }
    fn revoke(&mut self, peer: Peer, key: u64) {
        self.mem.revoke(peer, key);
    }
    fn transfer(&mut self, peer: Peer, transfer: Transfer) -> Result<(), SendError> {
        let writes = transfer.direction == Direction::Get;
        for (at, memory) in transfer.local.iter().enumerate() {
            let registration = transfer.registrations.get(at).copied();
            let registration = registration.unwrap_or(Registration::NONE);
            let found = self.adapter().find(memory, registration, writes);
            found.map_err(|reason| SendError::Unregistered(reason.to_owned()))?;
        }
        self.mem.transfer(peer, transfer)
    }
    fn atomic(&mut self, peer: Peer, atomic: Atomic) -> Result<(), SendError> {
        self.mem.atomic(peer, atomic)
    }
    fn map(&mut self, peer: Peer, region: &RegionDescriptor) -> Option<Memory> {
        self.mem.map(peer, region)
    }
    fn allocate(&mut self, len: usize) -> Result<Memory, Error> {
        self.mem.allocate(len)
    }
    fn poll(&mut self, now: Instant, sink: &mut dyn Sink) -> bool {
        self.mem.poll(now, sink)
    }
    fn tick(&mut self, now: Instant, sink: &mut dyn Sink) {
        self.mem.tick(now, sink);
    }
    fn arm(&mut self, now: Instant) -> bool {
        self.mem.arm(now)
    }
    fn disarm(&mut self) {
        self.mem.disarm();
    }
    fn pollable(&self) -> BorrowedFd<'_> {
        self.mem.pollable()
    }
    fn deadline(&self) -> Option<Instant> {
        self.mem.deadline()
    }
    fn disconnect(&mut self, now: Instant, peer: Peer, sink: &mut dyn Sink) {
        self.mem.disconnect(now, peer, sink);
    }
    fn report(&self, peer: Peer) -> Option<PeerReport> {
        self.mem.report(peer)
    }
}
