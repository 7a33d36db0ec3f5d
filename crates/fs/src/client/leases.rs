//! Leases of a program on names and attributes, by which it caches them.
//!
//! The program's clients ask for leases with what they read, and fill the cache ([`super::lease_cache`]). A thread with a connection of
//! its own waits for recalls ([`super::lease_thread`]).

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use causeway_bmi::Waker;
use causeway_wire::fs::{Leased, Node, ObjectId, Operation, Place};

use super::call::{Body, Call};
use super::call_error::{CallError, object_name};
use super::connection::Client;
use super::lease_cache::{Altered, Asked, LeaseCache, Named, Seen};
use super::lease_thread;
use super::nodes::{node, node_of};
use super::options::ClientOptions;
use super::pending::{PendingCall, State};
use super::rpc::Rpc;
use crate::Error;
use crate::config::Configuration;
use crate::locks::lock;
use crate::threads::JoinOnDrop;

/// The leases of a program, which its threads share.
pub struct Leases {
    cache: Arc<LeaseCache>,
    waker: Waker,
    recalled: Arc<dyn Fn(&[Leased]) + Send + Sync>,
    thread: Mutex<Option<JoinOnDrop>>,
}

impl Leases {
    /// Connects to the metadata server, in the background. When leases are recalled whose attributes were
    /// [passed on](Self::pass_on), `recalled` is called with them on another thread, and must see to it that nobody goes by them any more;
    /// also when the program changes them itself, on the thread that does.
    pub fn start(
        configuration: &Configuration,
        options: &ClientOptions,
        recalled: impl Fn(&[Leased]) + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let failed = |error: CallError| error.during("connect", configuration.name.as_bytes());
        let rpc = super::held_thread::connect(configuration, options).map_err(failed)?;
        let waker = rpc.waker();
        let holder = super::rpc::random_client().map_err(failed)?;
        let cache = Arc::new(LeaseCache::new(holder));
        let shared = Arc::clone(&cache);
        let recalled: Arc<dyn Fn(&[Leased]) + Send + Sync> = Arc::new(recalled);
        let told = Arc::clone(&recalled);
        let thread = JoinOnDrop::spawn("leases", move || {
            lease_thread::run(rpc, &shared, &|leases: &[Leased]| told(leases));
        });
        let thread = thread.map_err(|error| failed(super::held_thread::not_started(error)))?;
        Ok(Self {
            cache,
            waker,
            recalled,
            thread: Mutex::new(Some(thread)),
        })
    }

    pub(super) fn cache(&self) -> &LeaseCache {
        &self.cache
    }

    /// What a name in a directory stands for, if that is cached.
    pub fn find(&self, directory: ObjectId, name: &[u8]) -> Option<Named> {
        self.cache.find(directory, name, Instant::now())
    }

    /// An object, if it is cached.
    pub fn node(&self, object: ObjectId) -> Option<(Node, Seen)> {
        self.cache.node(object, Instant::now())
    }

    /// Whoever attributes are passed on to has this object already, or no more: only what is known can be recalled.
    pub fn note_known(&self, object: ObjectId, is_known: bool) {
        self.cache.note_known(object, is_known);
    }

    /// Passes attributes on that were `seen`, with the time for which they are good: 0 if their lease has ended since, or if the object is
    /// not [known](Self::note_known). A recall waits until `pass` has returned.
    pub fn pass_on<T>(
        &self,
        object: ObjectId,
        seen: Option<Seen>,
        pass: impl FnOnce(Duration) -> T,
    ) -> T {
        let begun = Instant::now();
        let mut given = Duration::ZERO;
        let passed = self.cache.pass_on(object, seen, begun, |time| {
            given = time;
            pass(time)
        });
        // The program was stopped meanwhile: whoever has them counts from too late.
        if is_late(given, begun.elapsed()) {
            self.tell(&[object]);
        }
        passed
    }

    /// Attributes of these objects were passed on that are old.
    fn tell(&self, objects: &[ObjectId]) {
        if !objects.is_empty() {
            let leases = objects.iter().copied().map(Leased::Attributes);
            (self.recalled)(&leases.collect::<Vec<_>>());
        }
    }

    /// The program caches nothing any more. Returns once the server knows it, or does not reply.
    pub fn end(&self) {
        self.cache.stop();
        self.waker.wake();
        // It is joined by being dropped.
        let thread = lock(&self.thread).take();
        drop(thread);
    }

    /// Changes of the program's own begin or end, which the server does not tell it of.
    fn note_changes(&self, altered: &mut [Altered]) {
        for altered in altered {
            let passed_on = self.cache.note_change(altered);
            self.tell(&passed_on);
        }
    }

    /// A change may or may not be carried out.
    pub(super) fn note_unknown_change(&self) {
        // Failing that, the next number is as good as random: nobody else has it.
        let holder =
            super::rpc::random_client().unwrap_or_else(|_| self.cache.holder().wrapping_add(1));
        let passed_on = self.cache.become_another(holder);
        self.tell(&passed_on);
        self.waker.wake();
    }
}

/// Whether more has gone of the time that attributes were passed on with than they can be late.
fn is_late(given: Duration, gone: Duration) -> bool {
    !given.is_zero() && gone > given / 16
}

impl Drop for Leases {
    fn drop(&mut self) {
        self.end();
    }
}

impl Client {
    /// As [`Client::stat`] of one name in a directory, without following a link; what is found is cached by the leases that the client
    /// was made with, if it has any.
    pub fn stat_cached(
        &mut self,
        directory: ObjectId,
        name: &[u8],
    ) -> Result<(Node, Option<Seen>), Error> {
        let asked = self.rpc.ask();
        let operation = Operation::Lookup {
            place: Place::from((directory, name)),
            follow: false,
            content: false,
        };
        let found = self.ask_leased(operation);
        let target = match &found {
            Ok(found) => Some(found.object),
            Err(_) => None,
        };
        let mut seen = None;
        if let (Some(asked), Some(time), Some(leases)) = (asked, self.rpc.lease, &self.rpc.leases) {
            let cache = leases.cache();
            if let Ok(found) = &found {
                seen = cache.fill_node(asked, found, time, Instant::now());
            }
            cache.fill_name(asked, (directory, name), target, time);
        }
        found
            .map(|found| (found, seen))
            .map_err(|error| error.during("stat", name))
    }

    /// As [`Client::stat_object`], and caches the object in the same way.
    pub fn stat_object_cached(&mut self, object: ObjectId) -> Result<(Node, Option<Seen>), Error> {
        let asked = self.rpc.ask();
        let operation = Operation::GetNode {
            object,
            content: false,
        };
        let found = self
            .ask_leased(operation)
            .and_then(|found| node_of(object, found))
            .map_err(|error| error.during("stat", &object_name(object)))?;
        let seen = match (asked, self.rpc.lease, &self.rpc.leases) {
            (Some(asked), Some(time), Some(leases)) => {
                leases
                    .cache()
                    .fill_node(asked, &found, time, Instant::now())
            }
            _ => None,
        };
        Ok((found, seen))
    }

    fn ask_leased(&mut self, operation: Operation) -> Result<Node, CallError> {
        let mut call = Call::query(self.metadata, operation);
        call.asks_lease = true;
        self.rpc.call(call).and_then(node)
    }
}

impl Rpc {
    /// Something is about to be asked for that is to be cached.
    fn ask(&self) -> Option<Asked> {
        let leases = self.leases.as_ref()?;
        Some(leases.cache().ask(Instant::now()))
    }

    /// As whom the metadata server knows the program, if the call asks for a lease or is a change.
    pub(super) fn holder_of(&self, call: &Call) -> Option<u128> {
        let leases = self.leases.as_ref()?;
        (call.asks_lease || call.slot.is_some()).then(|| leases.cache().holder())
    }

    /// Calls are about to be made, some of which may be changes: what they alter is cached no more.
    pub(super) fn begin_changes(&self, calls: &[Call]) -> Vec<Altered> {
        let Some(leases) = &self.leases else {
            return Vec::new();
        };
        let altered = calls.iter().filter_map(|call| match &call.body {
            Body::Plain(operation) if call.slot.is_some() => Altered::of(operation),
            _ => None,
        });
        let mut altered: Vec<Altered> = altered.collect();
        leases.note_changes(&mut altered);
        altered
    }

    /// The calls have been made: nor is what was read meanwhile.
    pub(super) fn end_changes(&self, altered: &mut [Altered], calls: &[PendingCall]) {
        let Some(leases) = &self.leases else {
            return;
        };
        leases.note_changes(altered);
        let is_unknown = |pending: &PendingCall| {
            let has_failed = matches!(pending.state, State::Done(Err(_)));
            pending.call.slot.is_some() && pending.unfinished && has_failed
        };
        if calls.iter().any(is_unknown) {
            leases.note_unknown_change();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_that_come_late_are_recalled() {
        let given = Duration::from_secs(16);
        assert!(!is_late(given, Duration::from_secs(1)));
        assert!(is_late(
            given,
            Duration::from_secs(1) + Duration::from_nanos(1)
        ));
        assert!(!is_late(Duration::ZERO, given));
    }
}
