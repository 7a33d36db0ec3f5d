//! Memory that a peer may no longer write, but may still be writing.
//!
//! For a peer that is stopped (SIGSTOP, a debugger) in the middle of writing our memory, it is not
//! known when it will continue and finish. No caller waits for it: the memory is quarantined
//! ([`Quarantine`]), and freed ([`DeferredFree`]) once the peer has finished or is gone
//! ([`PeerLiveness`]).
//!
//! Memory that a peer can only read is not quarantined: the peer discards bytes that it reads too
//! late (`regions`).

use std::sync::Arc;

use causeway_sys::memory::Memory;
use causeway_sys::process;
use causeway_sys::socket::RecordSocket;

use super::intervals::{COPY_PATIENCE, COPY_SPINS, YIELDS_PER_LOOK};
use crate::blocking::Blocking;

/// Most pieces of memory that are quarantined.
const MOST: usize = 4096;

/// What shows whether a peer can be in the middle of a copy.
#[derive(Debug, Clone)]
pub(super) struct PeerLiveness {
    /// The connection's socket. A peer that copies has it open.
    pub(super) socket: Option<Arc<RecordSocket>>,
    /// The peer's process, if it is visible.
    pub(super) pid: Option<i32>,
}

impl PeerLiveness {
    /// Whether the peer has ended, so that it cannot be in the middle of a copy.
    fn is_gone(&self) -> bool {
        self.socket
            .as_ref()
            .is_none_or(|socket| socket.is_hung_up())
    }

    /// Whether the peer is stopped, so that it will not continue by itself.
    fn is_stopped(&self) -> bool {
        self.pid.is_some_and(process::is_stopped)
    }
}

/// Memory that a peer was writing when its access ended.
pub(super) struct DeferredFree {
    /// The key under which it was exported, if it was.
    key: Option<u64>,
    memory: Vec<Memory>,
    /// Whether the peer is still in that copy.
    is_touched: Box<dyn Fn() -> bool + Send>,
    liveness: Option<PeerLiveness>,
    over: bool,
}

impl DeferredFree {
    /// Defers the freeing of `memory`, which was exported under `key` and which the peer accesses
    /// as long as `is_touched`.
    pub(super) fn new(
        key: Option<u64>,
        memory: Vec<Memory>,
        is_touched: impl Fn() -> bool + Send + 'static,
    ) -> Self {
        Self {
            key,
            memory,
            is_touched: Box::new(is_touched),
            liveness: None,
            over: false,
        }
    }

    /// Has the memory freed also when the peer is gone.
    pub(super) fn watch(&mut self, liveness: &PeerLiveness) {
        self.liveness = Some(liveness.clone());
    }

    /// Whether the peer may still access the memory. Once it does not, that is final.
    fn may_be_touched(&mut self) -> bool {
        self.over = self.over
            || !(self.is_touched)()
            || self.liveness.as_ref().is_some_and(PeerLiveness::is_gone);
        !self.over
    }
}

impl Drop for DeferredFree {
    fn drop(&mut self) {
        if !self.may_be_touched() {
            return;
        }
        for memory in self.memory.drain(..) {
            tracing::warn!(
                bytes = memory.len(),
                "a peer neither finishes nor leaves a copy into memory that it may not touch any more; \
                 the memory is given up"
            );
            std::mem::forget(memory);
        }
    }
}

/// Waits until the peer accesses none of `deferred`, at most for [`COPY_PATIENCE`], and only while it
/// runs. If `copy_wait_timed_out`, an earlier wait for this peer has taken too long: there is no further wait before it
/// makes progress. Memory that it still accesses then remains in `deferred`.
pub(super) fn wait(
    deferred: &mut Vec<DeferredFree>,
    liveness: &PeerLiveness,
    copy_wait_timed_out: &mut bool,
) {
    let mut blocking = None;
    let mut round = 0u64;
    loop {
        deferred.retain_mut(DeferredFree::may_be_touched);
        if deferred.is_empty() {
            *copy_wait_timed_out = false;
            return;
        }
        round += 1;
        if round < COPY_SPINS {
            std::hint::spin_loop();
            continue;
        }
        std::thread::yield_now();
        if round.is_multiple_of(YIELDS_PER_LOOK) {
            let blocking = blocking.get_or_insert_with(|| Blocking::at_most(COPY_PATIENCE));
            if liveness.is_gone() {
                deferred.iter_mut().for_each(|entry| entry.over = true);
            } else if *copy_wait_timed_out || blocking.is_over() || liveness.is_stopped() {
                *copy_wait_timed_out = true;
                deferred.iter_mut().for_each(|entry| entry.watch(liveness));
                return;
            }
        }
    }
}

/// The quarantined memory of one instance. Memory that is left when the instance ends is never
/// freed.
#[derive(Default)]
pub(super) struct Quarantine {
    deferred: Vec<DeferredFree>,
}

impl Quarantine {
    /// Leaks all of it unchecked: a forked child cannot check memory that its parent shares with
    /// peers.
    pub(super) fn forget(&mut self) {
        std::mem::forget(std::mem::take(&mut self.deferred));
    }

    /// Adds what [`wait`] has left, as far as there is room.
    pub(super) fn add(&mut self, deferred: &mut Vec<DeferredFree>) {
        if self.deferred.len() + deferred.len() > MOST {
            self.reclaim();
        }
        let room = MOST - self.deferred.len();
        self.deferred.extend(deferred.drain(..).take(room));
    }

    /// Frees memory that no peer accesses any more.
    pub(super) fn reclaim(&mut self) {
        self.deferred.retain_mut(DeferredFree::may_be_touched);
    }

    /// Whether there is nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.deferred.is_empty()
    }

    /// Whether the memory exported under `key` is here.
    pub(super) fn holds(&self, key: u64) -> bool {
        self.deferred.iter().any(|entry| entry.key == Some(key))
    }
}
