//! The thread that has a program's connection for locks: it sends the queued requests one after the other, and receives the messages by which the
//! metadata server grants locks to waiting owners.
//!
//! A request is sent again if its connection is lost, as all requests are. A wait begins again at the end of the queue; locks that were
//! held are lost with their connection. After each call, and at each event, the thread checks whether the connection is still the same.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use causeway_bmi::{Addr, Completion, ConnectionId, END_OF_CONNECTION, Memory, Posted};
use causeway_wire::fs::formats::ACLS;
use causeway_wire::fs::{
    Errno, Lock, LockFamily, LockHolder, LockRange, MAX_FAILURE_BYTES, ObjectId, Operation, Reply,
    ReplyBody,
};

use super::call::Call;
use super::call_error::{CallError, object_name, take_reply, unexpected_reply};
use super::lock_state::{Ask, Command, Done, LockOwner, Shared, lost};
use super::options::{ClientOptions, own_identity};
use super::pending::errno_of;
use super::rpc::{EVENT, Rpc};
use crate::config::Configuration;

/// Room for the message that a wait is over: at most a failure.
const MESSAGE_BYTES: usize = 2 * MAX_FAILURE_BYTES;
/// The least time that a call gets: even after a long wait in the queue, it can reach a server that replies.
const LEAST_TIME: Duration = Duration::from_millis(100);
/// The value in the place of a wait's tag that marks the receive that ends with the connection.
const WATCH: u64 = 0;

/// A wait that the server has queued.
struct Wait {
    lock: Lock,
    /// The number by which the program can end the wait.
    number: u64,
    message: Memory,
    done: Done,
    is_cancelled: bool,
}

struct LockThread<'a> {
    rpc: Rpc,
    shared: &'a Shared,
    timeout: Duration,
    /// The connection to which the locks and waits belong.
    connection: Option<ConnectionId>,
    /// The waits by tag. A wait that begins again has another tag, so that late completions of the earlier one are ignored.
    waits: HashMap<u64, Wait>,
}

/// Starts a message layer for locks.
pub(super) fn connect(
    configuration: &Configuration,
    options: &ClientOptions,
) -> Result<Rpc, CallError> {
    let caller = options.caller.clone().unwrap_or_else(own_identity);
    Rpc::new(configuration, caller, options.only_scheme.as_deref())
}

/// Serves the locks until the program's last client ends.
pub(super) fn run(rpc: Rpc, shared: &Shared) {
    let timeout = rpc.timeout;
    let mut thread = LockThread {
        rpc,
        shared,
        timeout,
        connection: None,
        waits: HashMap::new(),
    };
    while let Some(commands) = shared.take() {
        let is_idle = commands.is_empty();
        for command in commands {
            thread.execute(command);
        }
        thread.take_events(is_idle);
    }
    for (_, wait) in thread.waits.drain() {
        let error = CallError::local(Errno::ECANCELED, "the client has ended");
        (wait.done)(Err(error.during("lock", &object_name(wait.lock.object))));
    }
}

fn cancelled() -> CallError {
    CallError::local(Errno::ECANCELED, "the wait for the lock was cancelled")
}

fn fail(done: Done, object: ObjectId, error: CallError) {
    done(Err(error.during("lock", &object_name(object))));
}

impl LockThread<'_> {
    fn execute(&mut self, command: Command) {
        let Command {
            ask,
            deadline,
            done,
        } = command;
        let (object, called) = match ask {
            Ask::Lock(lock, wait) => match self.lock(&lock, wait, deadline) {
                Ok(None) => (lock.object, Ok(None)),
                Ok(Some(tag)) => return self.await_lock(lock, wait.unwrap_or(0), tag, done),
                Err(error) => (lock.object, Err(error)),
            },
            Ask::Unlock(owner, range) => (owner.object, self.unlock(owner, range, deadline)),
            Ask::Test(lock) => (lock.object, self.test(lock, deadline)),
            Ask::Cancel(wait) => {
                self.cancel(wait, deadline);
                (ObjectId(0), Ok(None))
            }
        };
        match called {
            Ok(holder) => done(Ok(holder)),
            Err(error) => fail(done, object, error),
        }
    }

    fn call(&mut self, operation: Operation, deadline: Instant) -> Result<ReplyBody, CallError> {
        let left = deadline.saturating_duration_since(Instant::now());
        self.rpc.timeout = left.clamp(LEAST_TIME, self.timeout.max(LEAST_TIME));
        let result = self.rpc.call(Call::query(self.rpc.metadata, operation));
        self.look_at_connection();
        result
    }

    /// Requests a lock. Returns the tag of the server's message that the wait is over, or `None` if the owner has the lock.
    fn lock(
        &mut self,
        lock: &Lock,
        wait: Option<u64>,
        deadline: Instant,
    ) -> Result<Option<u64>, CallError> {
        let owner = LockOwner::of(lock);
        if self.shared.is_lost(&owner) {
            return Err(lost());
        }
        let tag = wait.map_or(0, |_| self.rpc.next_tag());
        let operation = Operation::Lock {
            lock: *lock,
            wait: tag,
        };
        let reply = self.call(operation, deadline);
        let not_had = match &reply {
            Ok(reply) => matches!(reply, ReplyBody::LockWaits),
            Err(error) => error.errno == Errno::EAGAIN,
        };
        // With servers of earlier formats, an owner keeps its shared lock.
        let costs_shared = self.rpc.formats(self.rpc.metadata).highest >= ACLS;
        if not_had && costs_shared && lock.exclusive && lock.family == LockFamily::Whole {
            self.shared.note_given_up(&owner);
        }
        let reply = reply?;
        let is_granted = match reply {
            ReplyBody::Done => true,
            ReplyBody::LockWaits if tag != 0 => false,
            other => return Err(unexpected_reply(&other)),
        };
        if is_granted {
            self.shared.note_held(owner, lock.range);
            if self.connection.is_none() {
                self.shared.note_lost();
            }
        }
        // An earlier connection may have ended within the call.
        if !self.shared.is_lost(&owner) {
            return Ok((!is_granted).then_some(tag));
        }
        if !is_granted {
            self.give_up_wait(owner, tag, deadline);
        }
        Err(lost())
    }

    /// Ends a wait whose owner learns that its locks are lost, and releases the lock if it was granted meanwhile.
    fn give_up_wait(&mut self, owner: LockOwner, tag: u64, deadline: Instant) {
        // The server's message about the wait must be received, although its content does not matter.
        let received = self.receive(tag, Memory::zeroed(MESSAGE_BYTES), tag);
        let unlock = Operation::Unlock {
            object: owner.object,
            family: owner.family,
            owner: owner.number,
            range: LockRange::ALL,
        };
        let given_up = received
            .and_then(|_| self.call(Operation::CancelLock { wait: tag }, deadline))
            .and_then(|_| self.call(unlock, deadline));
        if let Err(error) = given_up {
            tracing::warn!(
                error.message,
                "a wait for a lock could not be given up; it ends with the connection"
            );
        }
    }

    /// Posts the receive for the message that a wait is over.
    fn await_lock(&mut self, lock: Lock, number: u64, tag: u64, done: Done) {
        let message = Memory::zeroed(MESSAGE_BYTES);
        let wait = Wait {
            lock,
            number,
            message: message.clone(),
            done,
            is_cancelled: false,
        };
        self.waits.insert(tag, wait);
        let posted = match self.connection {
            Some(_) => self.receive(tag, message, tag),
            None => Err(CallError::local(Errno::ECONNRESET, "disconnected")),
        };
        match posted {
            Ok(None) => {}
            Ok(Some(completion)) => self.event(completion),
            Err(error) if error.errno == Errno::ECONNRESET => self.renew(tag),
            Err(error) => self.end_wait(tag, Err(error)),
        }
    }

    /// Receives a message; `name` is the tag of the wait that it is for, or [`WATCH`].
    fn receive(
        &mut self,
        tag: u64,
        into: Memory,
        name: u64,
    ) -> Result<Option<Completion>, CallError> {
        let addr = self.addr()?;
        let (context, user) = (self.rpc.context, EVENT | name);
        match self.rpc.bmi.post_recv(addr, &[into], tag, context, user) {
            Ok(Posted::Pending(_)) => Ok(None),
            Ok(Posted::Complete(completion)) => Ok(Some(completion)),
            Err(error) => Err(CallError::local(Errno::EIO, error.to_string())),
        }
    }

    fn addr(&mut self) -> Result<Addr, CallError> {
        self.rpc.addr(self.rpc.metadata)
    }

    fn unlock(
        &mut self,
        owner: LockOwner,
        range: LockRange,
        deadline: Instant,
    ) -> Result<Option<LockHolder>, CallError> {
        let operation = Operation::Unlock {
            object: owner.object,
            family: owner.family,
            owner: owner.number,
            range,
        };
        let reply = self.call(operation, deadline);
        // A file that is released as a whole counts as released, whatever the outcome of the request.
        if range == LockRange::ALL || matches!(reply, Ok(ReplyBody::Done)) {
            self.shared.note_unlocked(owner, range);
        }
        take_reply!(reply?, ReplyBody::Done => None)
    }

    fn test(&mut self, lock: Lock, deadline: Instant) -> Result<Option<LockHolder>, CallError> {
        if self.shared.is_lost(&LockOwner::of(&lock)) {
            return Err(lost());
        }
        let reply = self.call(Operation::TestLock { lock }, deadline)?;
        let holder = take_reply!(reply, ReplyBody::LockHolder { holder } => holder)?;
        match holder {
            Some(other) if !other.range.overlaps(lock.range) => {
                let text = "the metadata server named the holder of a lock on other bytes";
                Err(CallError::local(Errno::EPROTO, text))
            }
            holder => Ok(holder),
        }
    }

    fn cancel(&mut self, number: u64, deadline: Instant) {
        let mut waits = self.waits.iter_mut();
        let Some((&tag, known)) = waits.find(|(_, wait)| wait.number == number) else {
            // The wait's request may not have been sent yet, or again.
            if let Some(Command { ask, done, .. }) = self.shared.take_wait(number)
                && let Ask::Lock(lock, _) = ask
            {
                fail(done, lock.object, cancelled());
            }
            return;
        };
        known.is_cancelled = true;
        if let Err(error) = self.call(Operation::CancelLock { wait: tag }, deadline) {
            // Without a connection, the wait has ended already.
            self.end_wait(tag, Err(error));
        }
    }

    fn end_wait(&mut self, tag: u64, result: Result<(), CallError>) {
        let Some(Wait { lock, done, .. }) = self.waits.remove(&tag) else {
            return;
        };
        match result {
            Ok(()) => {
                self.shared.note_held(LockOwner::of(&lock), lock.range);
                done(Ok(None));
            }
            Err(error) => fail(done, lock.object, error),
        }
    }

    /// Handles events, and waits for one first if there is nothing else to do.
    fn take_events(&mut self, is_idle: bool) {
        let idle = match is_idle && self.rpc.events.is_empty() {
            true => Duration::MAX,
            false => Duration::ZERO,
        };
        self.rpc.wait_for_events(idle);
        for completion in std::mem::take(&mut self.rpc.events) {
            self.event(completion);
        }
        self.look_at_connection();
    }

    fn event(&mut self, completion: Completion) {
        let tag = completion.user & !EVENT;
        let Some(wait) = self.waits.get(&tag) else {
            return;
        };
        match completion.result {
            Ok(len) => {
                let mut bytes = vec![0; (len as usize).min(wait.message.len())];
                wait.message.read_at(0, &mut bytes);
                let result = match Reply::from_bytes(&bytes) {
                    Ok((Reply { result }, _)) => result,
                    Err(malformed) => {
                        let text = format!("its message is malformed: {malformed}");
                        let error = self.rpc.error_at(self.rpc.metadata, Errno::EPROTO, text);
                        return self.end_wait(tag, Err(error));
                    }
                };
                let result = match result {
                    Ok(ReplyBody::Done) => Ok(()),
                    Ok(other) => Err(unexpected_reply(&other)),
                    Err(failure) => Err(CallError::local(failure.errno, failure.message)),
                };
                self.end_wait(tag, result);
            }
            Err(error) => {
                self.look_at_connection();
                // If the wait is still registered, its connection has not been lost.
                if self.waits.contains_key(&tag) {
                    let error = CallError::local(errno_of(&error), error.to_string());
                    self.end_wait(tag, Err(error));
                }
            }
        }
    }

    /// If the connection has changed, the locks are lost and the waits begin again.
    fn look_at_connection(&mut self) {
        let present = self
            .addr()
            .ok()
            .and_then(|addr| self.rpc.bmi.connection(addr));
        if present == self.connection {
            return;
        }
        let had_one = self.connection.is_some();
        self.connection = present;
        if present.is_some() {
            let watched = self.receive(END_OF_CONNECTION, Memory::zeroed(1), WATCH);
            if let Err(error) = watched {
                tracing::warn!(error.message, "the metadata server's end is not watched");
            }
        }
        if had_one {
            self.shared.note_lost();
            let waits: Vec<u64> = self.waits.keys().copied().collect();
            for tag in waits {
                self.renew(tag);
            }
        }
    }

    /// Requests a lock again whose connection was lost while its owner waited for it.
    fn renew(&mut self, tag: u64) {
        let Some(known) = self.waits.remove(&tag) else {
            return;
        };
        let Wait {
            lock, number, done, ..
        } = known;
        if known.is_cancelled {
            return fail(done, lock.object, cancelled());
        }
        self.shared.put_back(Command {
            ask: Ask::Lock(lock, Some(number)),
            deadline: Instant::now() + self.timeout,
            done,
        });
    }
}
