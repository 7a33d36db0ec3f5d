//! Locks: requests to the metadata server, and clients that disconnect.
//!
//! A client has its locks for as long as the connection lasts by which it requested them. Its end wakes the loop, by a receive that
//! no other event completes, and waiting clients get the locks.

use std::collections::HashSet;

use causeway_bmi::Completion;
use causeway_wire::fs::formats::ACLS;
use causeway_wire::fs::{
    Caller, Errno, Failure, Kind, Lock, LockFamily, LockHolder, LockRange, Node, ObjectId,
    Operation, Reply, ReplyBody, Request,
};

use super::events::Loop;
use super::lock_state::{LockClient, WATCHES_LOCKS};
use super::locks::{Outcome, Owner};
use super::ticket::{MAX_REQUESTS, ReplyTo, Ticket};
use crate::error::failure;
use crate::permissions;

/// Most clients that have locks.
const MAX_CLIENTS: usize = 4096;

impl Loop {
    /// Carries out a request about locks.
    pub(super) fn lock_request(
        &mut self,
        to: ReplyTo,
        request: &Request,
    ) -> Result<ReplyBody, Failure> {
        match request.operation {
            Operation::Lock { lock, wait } => self.lock(to, request, &lock, wait),
            Operation::Unlock {
                object,
                family,
                owner,
                range,
            } => self.unlock(to, request.client, owner, (object, family), range),
            Operation::TestLock { lock } => self.test_lock(request, &lock),
            Operation::CancelLock { wait } => Ok(self.cancel_lock(request.client, wait)),
            _ => Err(failure(Errno::EINVAL, "this request is about no lock")),
        }
    }

    /// A client asks for a lock.
    fn lock(
        &mut self,
        to: ReplyTo,
        request: &Request,
        lock: &Lock,
        wait: u64,
    ) -> Result<ReplyBody, Failure> {
        self.check_lock(request, lock)?;
        self.know_lock_client(to, request.client)?;
        let owner = Owner {
            client: request.client,
            number: lock.owner,
        };
        let wait = (wait != 0).then_some(wait);
        let table = &mut self.locks.table;
        let outcome = match to.format >= ACLS {
            true => table.lock(owner, lock, wait),
            false => table.lock_by_earlier_rules(owner, lock, wait),
        };
        self.note_granted();
        match outcome {
            Outcome::Granted => Ok(ReplyBody::Done),
            Outcome::Waits => Ok(ReplyBody::LockWaits),
            Outcome::Taken(holder) => Err(failure(Errno::EAGAIN, taken(&holder))),
            Outcome::Deadlock => Err(failure(
                Errno::EDEADLK,
                "deadlock: the owner of the conflicting lock waits for a lock of this owner",
            )),
            Outcome::Full(what) => Err(failure(Errno::ENOLCK, what)),
            Outcome::TagInUse => Err(failure(
                Errno::EINVAL,
                format!(
                    "client {:032x} already waits for a lock under tag {}",
                    request.client,
                    wait.unwrap_or(0)
                ),
            )),
        }
    }

    /// A client gives locks back.
    fn unlock(
        &mut self,
        to: ReplyTo,
        client: u128,
        owner: u64,
        (object, family): (ObjectId, LockFamily),
        range: LockRange,
    ) -> Result<ReplyBody, Failure> {
        self.check_metadata()?;
        self.forget_locks_of_others(to, client);
        let owner = Owner {
            client,
            number: owner,
        };
        let unlocked = self.locks.table.unlock(owner, (object, family), range);
        self.note_granted();
        match unlocked {
            Ok(()) => Ok(ReplyBody::Done),
            Err(what) => Err(failure(Errno::ENOLCK, what)),
        }
    }

    /// What is in the way of a lock.
    fn test_lock(&self, request: &Request, lock: &Lock) -> Result<ReplyBody, Failure> {
        self.check_lock(request, lock)?;
        let owner = Owner {
            client: request.client,
            number: lock.owner,
        };
        let holder = self.locks.table.test(owner, lock);
        Ok(ReplyBody::LockHolder { holder })
    }

    /// A client waits no longer.
    fn cancel_lock(&mut self, client: u128, wait: u64) -> ReplyBody {
        if self.locks.table.cancel(client, wait) {
            let cancelled = failure(Errno::ECANCELED, "the wait for the lock was cancelled");
            self.locks.news.push_back((client, wait, Err(cancelled)));
        }
        self.note_granted();
        ReplyBody::Done
    }

    /// Grants locks for which earlier requests have left clients waiting, because there were too many at once.
    pub(super) fn go_on_with_locks(&mut self) {
        self.locks.table.go_on();
        self.note_granted();
    }

    /// Tells clients that their waits have ended, as far as there is room for messages to them.
    pub(super) fn notify_lock_clients(&mut self) {
        while self.busy() < MAX_REQUESTS
            && let Some((client, tag, result)) = self.locks.news.pop_front()
        {
            let Some(known) = self.locks.clients.get(&client) else {
                continue;
            };
            let (from, format) = (known.from, known.format);
            // The completion of the send releases it.
            self.bmi.retain(from);
            let to = ReplyTo {
                from,
                tag,
                format,
                record: 0,
            };
            self.respond(to, &Reply { result });
        }
    }

    /// Handles the end of a receive that watched a client: the client has disconnected.
    pub(super) fn lock_watch_ended(&mut self, ticket: Ticket, completion: &Completion) {
        if let Some(client) = self.locks.watches.get(&ticket.generation).copied() {
            tracing::debug!(?completion.result, "a client is gone that had locks");
            self.forget_lock_client(client);
        }
    }

    fn note_granted(&mut self) {
        let granted = self.locks.table.take_granted().into_iter();
        let news = granted.map(|(client, tag)| (client, tag, Ok(ReplyBody::Done)));
        self.locks.news.extend(news);
    }

    /// Refuses a lock that the caller may not have.
    fn check_lock(&self, request: &Request, lock: &Lock) -> Result<(), Failure> {
        self.check_metadata()?;
        if lock.family == LockFamily::Whole && lock.range != LockRange::ALL {
            return Err(failure(
                Errno::EINVAL,
                "a flock-style lock must cover the whole file",
            ));
        }
        let node = self.node_for(request, lock.object)?;
        check_permission(&node, &request.caller, lock)
    }

    /// The node of an object, as the sender of a request may know it.
    pub(super) fn node_for(
        &self,
        request: &Request,
        object: ObjectId,
    ) -> Result<Box<Node>, Failure> {
        let asked = Request {
            operation: Operation::GetNode {
                object,
                content: false,
            },
            ..request.clone()
        };
        match self.read_metadata(&asked).map(|reply| reply.result) {
            Some(Ok(ReplyBody::Node(node))) => Ok(node),
            Some(Err(failure)) => Err(failure),
            _ => Err(failure(Errno::EIO, "the file's attributes cannot be read")),
        }
    }

    /// Notes the connection by which a client has its locks. The locks of its earlier connection are released.
    fn know_lock_client(&mut self, to: ReplyTo, client: u128) -> Result<(), Failure> {
        self.forget_locks_of_others(to, client);
        if self.locks.clients.contains_key(&client) {
            return Ok(());
        }
        if self.locks.clients.len() >= MAX_CLIENTS {
            self.forget_idle_lock_clients();
        }
        if self.locks.clients.len() >= MAX_CLIENTS {
            return Err(failure(Errno::ENOLCK, "too many clients have locks"));
        }
        let gone = || failure(Errno::ECONNRESET, "the client has disconnected");
        let connection = self.bmi.connection(to.from).ok_or_else(gone)?;
        self.locks.last_watch = self.locks.last_watch.wrapping_add(1);
        let watch = self.locks.last_watch;
        let ticket = Ticket {
            slot: WATCHES_LOCKS,
            generation: watch,
        };
        let receive = self.post_watch(to.from, ticket).ok_or_else(gone)?;
        self.bmi.retain(to.from);
        self.locks.watches.insert(watch, client);
        let known = LockClient {
            from: to.from,
            connection,
            format: to.format,
            watch,
            receive,
        };
        self.locks.clients.insert(client, known);
        Ok(())
    }

    /// Releases the locks of a client's earlier connection when it has sent a request by a new one.
    fn forget_locks_of_others(&mut self, to: ReplyTo, client: u128) {
        let present = self.bmi.connection(to.from);
        let known = self.locks.clients.get(&client);
        if known.is_some_and(|known| present != Some(known.connection)) {
            self.forget_lock_client(client);
        }
    }

    fn forget_lock_client(&mut self, client: u128) {
        if let Some(known) = self.locks.clients.remove(&client) {
            self.locks.watches.remove(&known.watch);
            self.bmi.cancel(known.receive);
            self.bmi.release(known.from);
        }
        self.locks.news.retain(|(told, _, _)| *told != client);
        self.locks.table.forget(client);
        self.note_granted();
    }

    fn forget_idle_lock_clients(&mut self) {
        let table = &self.locks.table;
        // A client that has not been told of the end of its wait yet still needs its connection.
        let told: HashSet<u128> = self.locks.news.iter().map(|(told, ..)| *told).collect();
        let clients = self.locks.clients.keys().copied();
        let is_idle = |client: &u128| table.is_idle(*client) && !told.contains(client);
        let idle: Vec<u128> = clients.filter(is_idle).collect();
        for client in idle {
            self.forget_lock_client(client);
        }
    }
}

fn taken(holder: &LockHolder) -> String {
    let kind = match holder.exclusive {
        true => "an exclusive",
        false => "a shared",
    };
    format!(
        "process {} has or awaits {kind} lock on bytes {} to {}",
        holder.pid, holder.range.first, holder.range.last
    )
}

/// An exclusive lock of a range needs permission to write the file, as with `fcntl`; all others need permission to read or to write it.
fn check_permission(node: &Node, caller: &Caller, lock: &Lock) -> Result<(), Failure> {
    if node.attributes.kind != Kind::File {
        return Err(failure(Errno::EINVAL, "only files can be locked"));
    }
    let wanted = match (lock.family, lock.exclusive) {
        (LockFamily::Record, true) => permissions::WRITE,
        _ => permissions::READ | permissions::WRITE,
    };
    match permissions::of_handle(node, caller) & wanted {
        0 => Err(failure(
            Errno::EACCES,
            "a lock needs permission to read the file, an exclusive one of a range to write it",
        )),
        _ => Ok(()),
    }
}
