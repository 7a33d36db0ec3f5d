//! Append locks: requests to the metadata server, and clients that disconnect while they have one.

use std::time::Instant;

use causeway_bmi::{Addr, Completion, END_OF_CONNECTION, Memory, OpId, Posted};
use causeway_wire::fs::{Errno, Failure, ObjectId, Operation, Reply, ReplyBody, Request};

use super::append_state::{Waiting, Watched};
use super::events::Loop;
use super::purpose::Purpose;
use super::ticket::{ReplyTo, Ticket};
use crate::error::failure;

impl Loop {
    /// Handles a client's request for an append lock; the reply is sent when the client gets it.
    pub(super) fn begin_append(
        &mut self,
        to: ReplyTo,
        object: ObjectId,
        request: Request,
    ) -> Result<Option<ReplyBody>, Failure> {
        self.check_metadata()?;
        let client = request.client;
        let waiting = Waiting { to, request };
        match self
            .appends
            .locks
            .wait(object, (client, to.from), waiting, self.loop_time)
        {
            Ok(given_up) => {
                if let Some(other) = given_up.filter(|other| *other != object) {
                    self.grant_append_lock(other);
                }
                self.grant_append_lock(object);
                self.watch_append_lock(object);
                Ok(None)
            }
            Err(_) => Err(failure(
                Errno::RETRY,
                "too many clients wait for append locks at this metadata server",
            )),
        }
    }

    /// Handles a client's report that it has appended. Only the client that has the lock may send it; from another one it may be a repeated
    /// request, which is replied to as before.
    pub(super) fn end_append(
        &mut self,
        to: ReplyTo,
        mut request: Request,
    ) -> Result<Option<ReplyBody>, Failure> {
        let client = request.client;
        let mut release = None;
        if let Operation::EndAppend {
            object,
            append_lock,
            ..
        } = &mut request.operation
        {
            match self
                .appends
                .locks
                .begin_release(*object, *append_lock, client)
            {
                true => release = Some((*object, *append_lock)),
                false => *append_lock = 0,
            }
        }
        let taken = self.take_metadata_request(to, request);
        if let (Ok(ticket), Some(release)) = (&taken, release) {
            self.appends.releases.insert(*ticket, release);
        }
        taken.map(|_| None)
    }

    /// Releases a client's append lock.
    pub(super) fn cancel_append(
        &mut self,
        object: ObjectId,
        append_lock: u64,
        client: u128,
    ) -> ReplyBody {
        // From now on, the lock counts as released.
        if self
            .appends
            .locks
            .begin_release(object, append_lock, client)
        {
            self.release_append_lock(object, append_lock);
        }
        ReplyBody::Done
    }

    /// Handles a client's question whether it still has its append lock. If a request to release the lock is repeated, since its reply was lost,
    /// it gets the same reply again.
    pub(super) fn check_append_lock(
        &mut self,
        object: ObjectId,
        append_lock: u64,
        client: u128,
        end: bool,
    ) -> Result<ReplyBody, Failure> {
        if end && self.appends.locks.was_released(append_lock, client) {
            return Ok(ReplyBody::Done);
        }
        if !self
            .appends
            .locks
            .renew(object, append_lock, client, self.loop_time)
        {
            return Err(failure(
                Errno::OVERTAKEN,
                format!(
                    "lost append lock {append_lock} of object {}: idle for too long while others waited, or disconnected; begin the operation again",
                    object.0
                ),
            ));
        }
        if end {
            self.appends.locks.note_released(append_lock, client);
            self.release_append_lock(object, append_lock);
        }
        Ok(ReplyBody::Done)
    }

    /// Handles the end of a metadata request: if it released an append lock, the next client gets it.
    pub(super) fn note_finished(&mut self, ticket: Ticket) {
        if let Some((object, append_lock)) = self.appends.releases.remove(&ticket) {
            self.release_append_lock(object, append_lock);
        }
    }

    /// Revokes locks for which others have waited for too long, and has those clients retry that have waited for as long as one
    /// request may.
    pub(super) fn revoke_overdue_append_locks(&mut self) {
        self.have_clients_retry();
        if self
            .appends
            .locks
            .next_due()
            .is_none_or(|due| due > self.loop_time)
        {
            return;
        }
        // Clients whose changes wait for leases make progress as soon as they can.
        for wait in self.leases.waits.iter() {
            let client = wait.request.client;
            self.appends.locks.renew_held(client, self.loop_time);
        }
        for (object, append_lock) in self.appends.locks.overdue(self.loop_time) {
            tracing::warn!(
                object = object.0,
                append_lock,
                "a client has kept the append lock for too long without going on; the next client gets it"
            );
            self.release_append_lock(object, append_lock);
        }
    }

    /// When the next lock is to be revoked, or the next client to be told to retry, if any is.
    pub(super) fn next_append_lock_due(&self) -> Option<Instant> {
        let locks = &self.appends.locks;
        locks
            .next_due()
            .into_iter()
            .chain(locks.next_timeout())
            .min()
    }

    fn have_clients_retry(&mut self) {
        let due = self.appends.locks.next_timeout();
        if due.is_none_or(|due| due > self.loop_time) {
            return;
        }
        for Waiting { to, request } in self.appends.locks.take_timed_out(self.loop_time) {
            let object = match request.operation {
                Operation::BeginAppend { object } => object.0,
                _ => 0,
            };
            let result = Err(failure(
                Errno::EAGAIN,
                format!(
                    "other clients are ahead in the queue for the append lock of object {object}; retry"
                ),
            ));
            self.respond(to, &Reply { result });
        }
    }

    fn release_append_lock(&mut self, object: ObjectId, append_lock: u64) {
        if self.appends.locks.release(object, append_lock) {
            self.go_on_after(object, append_lock);
        }
    }

    /// Releases the lock of a client that is gone.
    fn release_lost_append_lock(&mut self, object: ObjectId, append_lock: u64) {
        if self.appends.locks.release_lost(object, append_lock) {
            self.go_on_after(object, append_lock);
        }
    }

    /// Grants the lock to the next client after it was released.
    fn go_on_after(&mut self, object: ObjectId, append_lock: u64) {
        let mut ended =
            self.appends.watched.iter().filter(|(_, watched)| {
                watched.object == object && watched.append_lock == append_lock
            });
        if let Some((&number, watched)) = ended.next() {
            let receive = watched.receive;
            self.appends.watched.remove(&number);
            self.bmi.cancel(receive);
        }
        self.grant_append_lock(object);
    }

    /// Grants the lock to the first waiting client that is still connected.
    fn grant_append_lock(&mut self, object: ObjectId) {
        while let Some((append_lock, Waiting { to, request })) =
            self.appends.locks.grant_next(object, self.loop_time)
        {
            let result = match self.bmi.identity(to.from) {
                Some(_) => self.append_lock_reply(append_lock, &request),
                None => Err(failure(Errno::ECONNRESET, "the client has disconnected")),
            };
            let is_given = result.is_ok();
            self.respond(to, &Reply { result });
            if is_given {
                return self.watch_append_lock(object);
            }
            self.appends.locks.release(object, append_lock);
        }
    }

    fn append_lock_reply(&self, append_lock: u64, request: &Request) -> Result<ReplyBody, Failure> {
        match self.read_metadata(request).map(|reply| reply.result) {
            Some(Ok(ReplyBody::Node(node))) => Ok(ReplyBody::AppendLock { append_lock, node }),
            Some(Err(failure)) => Err(failure),
            _ => Err(failure(Errno::EIO, "the file's end cannot be read")),
        }
    }

    /// Watches the client that has a lock for which others wait: its disconnection wakes the loop.
    fn watch_append_lock(&mut self, object: ObjectId) {
        let Some((append_lock, from)) = self.appends.locks.wanted(object) else {
            return;
        };
        let mut watched = self.appends.watched.values();
        if watched.any(|watched| (watched.object, watched.append_lock) == (object, append_lock)) {
            return;
        }
        self.appends.last_watch = self.appends.last_watch.wrapping_add(1);
        let number = self.appends.last_watch;
        let ticket = Ticket {
            slot: 0,
            generation: number,
        };
        match self.post_watch(from, ticket) {
            Some(receive) => {
                let watched = Watched {
                    object,
                    append_lock,
                    receive,
                };
                self.appends.watched.insert(number, watched);
            }
            // The client is gone already.
            None => self.release_lost_append_lock(object, append_lock),
        }
    }

    /// Posts a receive that completes when a client's connection ends; `number` stands where other completions have a ticket.
    pub(super) fn post_watch(&mut self, from: Addr, number: Ticket) -> Option<OpId> {
        self.bmi.identity(from)?;
        let user = Purpose::Watch.user(number);
        let into = [Memory::zeroed(1)];
        let posted = self
            .bmi
            .post_recv(from, &into, END_OF_CONNECTION, self.context, user);
        match posted {
            Ok(Posted::Pending(receive)) => Some(receive),
            Ok(Posted::Complete(_)) | Err(_) => None,
        }
    }

    /// Handles the end of a receive that watched a client: the client has disconnected, or the watch was cancelled.
    pub(super) fn watch_ended(&mut self, ticket: Ticket, completion: &Completion) {
        if let Some(watched) = self.appends.watched.remove(&ticket.generation) {
            tracing::debug!(?completion.result, "a client that had an append lock has disconnected");
            self.release_lost_append_lock(watched.object, watched.append_lock);
        }
    }
}
