//! What is read under leases, and changes of what may be cached.

use std::sync::Arc;
use std::time::Instant;

use causeway_wire::fs::formats::GrantedLease;
use causeway_wire::fs::{Errno, Node, ObjectId, Operation, Place, ReplyBody};

use super::cached::{CacheStamp, LookedUp};
use super::call::{Body, Call};
use super::call_error::{CallError, object_name};
use super::change_scope::{ChangeScope, StateAfter};
use super::connection::Client;
use super::lease_cache::passing::Passed;
use super::lease_cache::{Asked, LeaseCache};
use super::leases::{Leases, Recalled};
use super::names::LOOKUPS;
use super::nodes::{node, node_of};
use super::numbers::random_number;
use super::options::ClientOptions;
use super::pending::{PendingCall, State};
use super::rpc::Rpc;
use super::{held_thread, lease_thread};
use crate::Error;
use crate::config::Configuration;
use crate::threads::JoinOnDrop;

impl Leases {
    /// Connects to the metadata server, in the background. When leases are recalled on what was [passed on](Self::pass_on), `recalled`
    /// is called with that on another thread, and must have the receiver forget it. It is also called when the program has passed
    /// something on too late, and, on the thread that makes the change, when the program changes attributes itself.
    pub fn start(
        configuration: &Configuration,
        options: &ClientOptions,
        recalled: impl Fn(&[Passed]) + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let failed = |error: CallError| error.during("connect", configuration.name.as_bytes());
        let rpc = held_thread::connect(configuration, options).map_err(failed)?;
        let waker = rpc.waker();
        let holder = random_number().map_err(failed)?;
        let cache = Arc::new(LeaseCache::new(holder));
        let shared = Arc::clone(&cache);
        let recalled: Recalled = Arc::new(recalled);
        let told = Arc::clone(&recalled);
        let thread = JoinOnDrop::spawn("leases", move || {
            lease_thread::run(rpc, &shared, &|passed: &[Passed]| told(passed));
        });
        let thread = thread.map_err(|error| failed(held_thread::not_started(error)))?;
        Ok(Self::new(cache, waker, recalled, thread))
    }
}

impl Client {
    /// As [`Client::stat`] of one name in a directory, without following a link; what is found is cached by the leases that the client
    /// was made with, if it has any.
    pub fn stat_cached(
        &mut self,
        directory: ObjectId,
        name: &[u8],
    ) -> Result<(Node, Option<CacheStamp>), Error> {
        let asked = self.rpc.ask();
        let (found, lease) = self.ask_leased(look_up(directory, name));
        let seen = self.keep_name(asked, (directory, name), &found, lease.as_ref());
        found
            .map(|found| (found, seen))
            .map_err(|error| error.during("stat", name))
    }

    /// Looks names in a directory up as [`Client::stat_cached`] does, with many requests in flight, so that they are cached. Returns what each refers to; if names cannot be looked up, the
    /// first of these errors is returned.
    pub fn stat_all_cached(
        &mut self,
        directory: ObjectId,
        names: &[Vec<u8>],
    ) -> Result<Vec<LookedUp>, Error> {
        let mut all = Vec::with_capacity(names.len());
        for names in names.chunks(LOOKUPS) {
            let asked = self.rpc.ask();
            let calls = names.iter().map(|name| {
                let mut call = Call::query(self.metadata, look_up(directory, name));
                call.asks_lease = true;
                call
            });
            let replies = self.rpc.call_all_leased(calls.collect());
            for ((reply, lease), name) in replies.into_iter().zip(names) {
                let found = reply.and_then(node);
                let seen = self.keep_name(asked, (directory, name), &found, lease.as_ref());
                all.push(match found {
                    Ok(found) => LookedUp::Node(Box::new(found), seen),
                    Err(error) if error.errno == Errno::ENOENT => LookedUp::Nothing,
                    Err(error) if error.errno == Errno::CORRUPT => LookedUp::Damaged,
                    Err(error) => return Err(error.during("stat", name)),
                });
            }
        }
        Ok(all)
    }

    /// As [`Client::stat_object`], and caches the object in the same way.
    pub fn stat_object_cached(
        &mut self,
        object: ObjectId,
    ) -> Result<(Node, Option<CacheStamp>), Error> {
        let asked = self.rpc.ask();
        let operation = Operation::GetNode {
            object,
            content: false,
        };
        let (found, lease) = self.ask_leased(operation);
        let found = found
            .and_then(|found| node_of(object, found))
            .map_err(|error| error.during("stat", &object_name(object)))?;
        let seen = match (asked, &lease, &self.rpc.leases) {
            (Some(asked), Some(lease), Some(leases)) => {
                leases
                    .cache()
                    .fill_node(asked, &found, lease, Instant::now())
            }
            _ => None,
        };
        Ok((found, seen))
    }

    fn ask_leased(
        &mut self,
        operation: Operation,
    ) -> (Result<Node, CallError>, Option<GrantedLease>) {
        let mut call = Call::query(self.metadata, operation);
        call.asks_lease = true;
        match self.rpc.call_all_leased(vec![call]).pop() {
            Some((reply, lease)) => (reply.and_then(node), lease),
            None => (Err(CallError::vanished()), None),
        }
    }

    /// Caches what a name was found to refer to, if the request asked for leases and the reply contains
    /// one.
    fn keep_name(
        &self,
        asked: Option<Asked>,
        (directory, name): (ObjectId, &[u8]),
        found: &Result<Node, CallError>,
        lease: Option<&GrantedLease>,
    ) -> Option<CacheStamp> {
        let (Some(asked), Some(lease), Some(leases)) = (asked, lease, &self.rpc.leases) else {
            return None;
        };
        if matches!(found, Err(error) if error.errno != Errno::ENOENT) {
            return None;
        }
        let cache = leases.cache();
        let found = found.as_ref().ok();
        let seen = found.and_then(|found| cache.fill_node(asked, found, lease, Instant::now()));
        let target = found.map(|found| found.object);
        cache.fill_name(asked, (directory, name), target, lease);
        let caller = self.rpc.caller();
        cache.note_search(asked, directory, (caller.uid, caller.gid));
        seen
    }
}

/// Looks one name up in a directory, without following a link.
fn look_up(directory: ObjectId, name: &[u8]) -> Operation {
    Operation::Lookup {
        place: Place::from((directory, name)),
        follow: false,
        content: false,
    }
}

impl Rpc {
    /// Notes the moment before a request whose result is to be cached.
    fn ask(&self) -> Option<Asked> {
        let leases = self.leases.as_ref()?;
        Some(leases.cache().ask(Instant::now()))
    }

    /// The identity under which the program holds leases, if the call asks for a lease or is a
    /// change.
    pub(super) fn holder_of(&self, call: &Call) -> Option<u128> {
        let leases = self.leases.as_ref()?;
        (call.asks_lease || call.slot.is_some()).then(|| leases.cache().holder())
    }

    /// Removes from the cache what these calls may alter, before they are made.
    pub(super) fn begin_changes(&self, calls: &[Call]) -> Vec<ChangeScope> {
        let Some(leases) = &self.leases else {
            return Vec::new();
        };
        let scopes = calls.iter().enumerate().filter_map(|(index, call)| {
            let Body::Plain(operation) = &call.body else {
                return None;
            };
            call.slot?;
            let mut scope = ChangeScope::of(operation)?;
            scope.call = index;
            Some(scope)
        });
        let mut scopes: Vec<ChangeScope> = scopes.collect();
        leases.begin_changes(&mut scopes);
        scopes
    }

    /// Removes what was read during the changes among these calls as well, and caches what the
    /// replies say under leases.
    pub(super) fn end_changes(&self, scopes: &mut [ChangeScope], calls: &[PendingCall]) {
        let Some(leases) = &self.leases else {
            return;
        };
        for scope in scopes {
            let pending = calls.get(scope.call);
            let left = pending.and_then(|pending| {
                let State::Done(Ok(body)) = &pending.state else {
                    return None;
                };
                Some(StateAfter {
                    node: match body {
                        ReplyBody::Node(node) => Some(node),
                        _ => None,
                    },
                    lease: pending.lease.as_ref()?,
                })
            });
            leases.end_change(scope, left);
        }
        let is_unknown = |pending: &PendingCall| {
            let has_failed = matches!(pending.state, State::Done(Err(_)));
            pending.call.slot.is_some() && pending.unfinished && has_failed
        };
        if calls.iter().any(is_unknown) {
            leases.note_unknown_change();
        }
    }
}
