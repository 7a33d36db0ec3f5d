//! A cache of memory registrations for one method: registering costs more than most transfers.
//!
//! Only methods that state [`Capabilities::needs_local_registration`](causeway_transport::Capabilities) have such a cache.
//! The whole allocation is registered, so that every part of it finds the registration. A registration ends once the
//! memory is freed, or when another registration needs its place; the method itself keeps what transfers and exports in
//! progress still use of it. Memory without an identity ([`Memory::id`]) is registered for each use.

use std::collections::HashMap;

use causeway_sys::memory::{Memory, MemoryId, MemoryWatch};
use causeway_transport::{
    Access, Error, Method, Peer as Handle, Registration, SendError, Transfer,
};
use causeway_wire::region::RegionDescriptor;

/// Registrations that an instance keeps for each method which needs them.
pub const MAX_REGISTRATIONS: usize = 256;
/// Most bytes that they cover. A larger allocation is registered in parts, for each use.
const MAX_BYTES: usize = 1 << 30;

/// The cache of one method.
#[derive(Default)]
pub(crate) struct Registrations {
    entries: HashMap<Key, Entry>,
    /// Bytes that the entries cover.
    bytes: usize,
    /// Uses so far: a transfer or a grant, with all of its memory, is one.
    uses: u64,
    /// Registrations of the present use that are not kept after it.
    passing: Vec<Registration>,
}

/// The identity of the memory, and whether it is registered for writing too.
type Key = (MemoryId, bool);

struct Entry {
    registration: Registration,
    /// Keeps the identity from being reused for another allocation.
    watch: MemoryWatch,
    bytes: usize,
    /// The number of its last use.
    used: u64,
}

impl Registrations {
    /// Starts a transfer with its local memory registered.
    pub(crate) fn transfer(
        &mut self,
        method: &mut dyn Method,
        peer: Handle,
        mut transfer: Transfer,
    ) -> Result<(), SendError> {
        self.uses += 1;
        for memory in &transfer.local {
            match self.find(method, memory) {
                Ok(registration) => transfer.registrations.push(registration),
                Err(error) => {
                    self.end_passing(method);
                    return Err(SendError::Unregistered(error.to_string()));
                }
            }
        }
        let started = method.transfer(peer, transfer);
        self.end_passing(method);
        started
    }

    /// Grants memory, registered.
    pub(crate) fn grant(
        &mut self,
        method: &mut dyn Method,
        peer: Handle,
        memory: &Memory,
        access: Access,
    ) -> Result<RegionDescriptor, Error> {
        self.uses += 1;
        let registration = self.find(method, memory)?;
        let granted = method.grant(peer, memory, registration, access);
        self.end_passing(method);
        granted
    }

    /// Ends the registrations of memory that was freed.
    pub(crate) fn drop_freed(&mut self, method: &mut dyn Method) {
        self.end(method, |entry| entry.watch.is_gone());
    }

    /// Returns the registration of memory, made now if there is none.
    fn find(&mut self, method: &mut dyn Method, memory: &Memory) -> Result<Registration, Error> {
        let whole = memory.allocation();
        let id = memory.id().filter(|_| whole.len() <= MAX_BYTES);
        let Some(id) = id else {
            let registration = self.register(method, memory)?;
            self.passing.push(registration);
            return Ok(registration);
        };
        let key = (id, memory.is_writable());
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.used = self.uses;
            return Ok(entry.registration);
        }
        self.drop_freed(method);
        let registration = self.register(method, &whole)?;
        if !self.make_room(method, whole.len()) {
            self.passing.push(registration);
            return Ok(registration);
        }
        self.bytes += whole.len();
        let entry = Entry {
            registration,
            watch: whole.watch(),
            bytes: whole.len(),
            used: self.uses,
        };
        self.entries.insert(key, entry);
        Ok(registration)
    }

    /// Registers memory. Cached registrations are ended if there is no room for both.
    fn register(
        &mut self,
        method: &mut dyn Method,
        memory: &Memory,
    ) -> Result<Registration, Error> {
        method.register(memory).or_else(|error| {
            let uses = self.uses;
            match self.end(method, |entry| entry.used != uses) {
                0 => Err(error),
                _ => method.register(memory),
            }
        })
    }

    /// Makes room for one more registration, of this many bytes, by ending the least recently used
    /// ones. `false` if those in use now take all of it.
    fn make_room(&mut self, method: &mut dyn Method, bytes: usize) -> bool {
        while self.entries.len() >= MAX_REGISTRATIONS || self.bytes + bytes > MAX_BYTES {
            let oldest = self.entries.values().map(|entry| entry.used).min();
            let Some(oldest) = oldest.filter(|used| *used != self.uses) else {
                return false;
            };
            self.end(method, |entry| entry.used == oldest);
        }
        true
    }

    /// Ends the registrations that meet a condition. Returns how many.
    fn end(&mut self, method: &mut dyn Method, mut ends: impl FnMut(&Entry) -> bool) -> usize {
        let before = self.entries.len();
        for (_, entry) in self.entries.extract_if(|_, entry| ends(entry)) {
            self.bytes -= entry.bytes;
            method.deregister(entry.registration);
        }
        before - self.entries.len()
    }

    fn end_passing(&mut self, method: &mut dyn Method) {
        for registration in self.passing.drain(..) {
            method.deregister(registration);
        }
    }
}
