//! Buffers between the kernel and the I/O servers, in memory that servers on this host map: they move bytes between that and their storage, and
//! the mount hands the same memory to the kernel.
//!
//! A buffer belongs to a client, whose servers have it mapped from its first use on, so it is used again. It is not if a server may still
//! be accessing it, for an operation that has failed: then the client library has taken the memory away from servers, or still holds it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use causeway_fs::Error;
use causeway_fs::client::Client;
use causeway_sys::memory::Memory;
use causeway_wire::fs::Errno;

use crate::request_size::MAX_WRITE;

/// Bytes of a buffer: most bytes of one read or write.
pub(crate) const BUFFER_BYTES: usize = MAX_WRITE as usize;
/// Up to this many bytes travel in memory of this process alone.
const SMALL_BYTES: usize = 16 << 10;
/// Most buffers of a client that are in use at once. A server keeps 64 of a client's mappings.
const MOST: usize = 32;
/// Most idle buffers of a client that are kept.
const KEPT: usize = 4;

/// The buffers of all clients of a mount.
#[derive(Debug)]
pub(crate) struct Buffers {
    clients: Vec<Mutex<Owned>>,
}

/// The buffers of a client.
#[derive(Debug, Default)]
struct Owned {
    idle: Vec<Memory>,
    used: usize,
}

/// A buffer in use.
#[derive(Debug)]
pub(crate) struct Buffer<'a> {
    memory: Memory,
    /// Whether servers may map it.
    is_mapped: bool,
    /// The client that it is returned to.
    owner: Option<&'a Mutex<Owned>>,
}

fn lock(owned: &Mutex<Owned>) -> MutexGuard<'_, Owned> {
    owned.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Buffers {
    /// Those of so many clients.
    pub(crate) fn new(clients: usize) -> Self {
        let mut all = Vec::new();
        all.resize_with(clients, Mutex::default);
        Self { clients: all }
    }

    /// Returns a buffer of at least `len` bytes for operations of the client with this number.
    pub(crate) fn take(
        &self,
        number: usize,
        client: &mut Client,
        len: usize,
    ) -> Result<Buffer<'_>, Error> {
        let allocate = || client.allocate(BUFFER_BYTES).ok();
        match self.clients.get(number) {
            Some(owner) if len > SMALL_BYTES && len <= BUFFER_BYTES => {
                match Buffer::shared(owner, allocate) {
                    Some(buffer) => Ok(buffer),
                    None => Buffer::unshared(len),
                }
            }
            _ => Buffer::unshared(len),
        }
    }
}

impl<'a> Buffer<'a> {
    /// A buffer of the client, or `None` if it has too many in use, or none can be allocated.
    fn shared(owner: &'a Mutex<Owned>, allocate: impl FnOnce() -> Option<Memory>) -> Option<Self> {
        let idle = {
            let mut owned = lock(owner);
            if owned.used >= MOST {
                return None;
            }
            owned.used += 1;
            owned.idle.pop()
        };
        match idle.or_else(allocate) {
            Some(memory) => Some(Self {
                is_mapped: memory.object().is_some(),
                memory,
                owner: Some(owner),
            }),
            None => {
                lock(owner).used -= 1;
                None
            }
        }
    }

    fn unshared(len: usize) -> Result<Self, Error> {
        let memory = Memory::try_zeroed(len).map_err(|error| Error {
            operation: "allocate",
            subject: format!("{len} bytes"),
            errno: Errno::ENOMEM,
            message: error.to_string(),
            server: None,
        })?;
        Ok(Self {
            memory,
            is_mapped: false,
            owner: None,
        })
    }

    /// The first `len` bytes, or all if there are fewer.
    pub(crate) fn first(&self, len: usize) -> Memory {
        self.memory.slice(0..len.min(self.memory.len()))
    }

    /// Has a system call write the first `len` bytes, or all if there are fewer. It must not look at them.
    pub(crate) fn pass_on(&self, len: usize, system_call: impl FnOnce(&[u8])) {
        let range = 0..len.min(self.memory.len());
        self.memory.pass_on(range, |bytes| system_call(&bytes));
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        let Some(owner) = self.owner else {
            return;
        };
        let mut owned = lock(owner);
        owned.used -= 1;
        // A server that may still access it has lost it, or it is still held.
        let was_taken_away = self.is_mapped && self.memory.object().is_none();
        let is_free = self.memory.sharers() == 1 && !was_taken_away;
        if is_free && owned.idle.len() < KEPT {
            owned.idle.push(self.memory.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped() -> Option<Memory> {
        let file = causeway_sys::memfd::create_fixed("test", BUFFER_BYTES).expect("it is made");
        Some(Memory::map_object(file, BUFFER_BYTES, 1).expect("it is mapped"))
    }

    fn taken(owner: &Mutex<Owned>) -> Buffer<'_> {
        Buffer::shared(owner, mapped).expect("there is one")
    }

    #[test]
    fn a_buffer_is_used_again_unless_somebody_may_still_access_it() {
        let owner = Mutex::default();
        let id = |buffer: &Buffer<'_>| buffer.memory.id();
        let first = taken(&owner);
        let known = id(&first);
        drop(first);
        let again = taken(&owner);
        assert_eq!(id(&again), known);
        // An operation still holds it.
        let held = again.first(10);
        drop(again);
        assert!(lock(&owner).idle.is_empty());
        drop(held);
        let other = taken(&owner);
        // The client library has taken it away from servers.
        other.memory.detach().expect("it is taken away");
        drop(other);
        assert!(lock(&owner).idle.is_empty());
        assert_eq!(lock(&owner).used, 0);
    }

    #[test]
    fn buffers_are_bounded() {
        let owner = Mutex::default();
        let all: Vec<_> = (0..MOST).map(|_| taken(&owner)).collect();
        assert!(Buffer::shared(&owner, mapped).is_none());
        drop(all);
        assert_eq!(lock(&owner).idle.len(), KEPT);
        assert!(Buffer::shared(&owner, || None).is_some(), "an idle one");
        lock(&owner).idle.clear();
        assert!(Buffer::shared(&owner, || None).is_none());
        assert_eq!(lock(&owner).used, 0);
    }
}
