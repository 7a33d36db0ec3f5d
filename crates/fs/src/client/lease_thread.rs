//! The thread that has a program's connection for its leases: it waits for recalls, and confirms them when they have been
//! carried out.

use std::time::{Duration, Instant};

use causeway_bmi::{Addr, Completion, ConnectionId, END_OF_CONNECTION, Memory, Posted};
use causeway_wire::fs::{Errno, MAX_MESSAGE_BYTES, Operation, Reply, ReplyBody};

use super::call::Call;
use super::call_error::{CallError, done, unexpected_reply};
use super::lease_cache::LeaseCache;
use super::lease_cache::passing::Passed;
use super::rpc::{EVENT, Rpc};

/// Pause after the server could not be told where to send recalls: a call has tried for its whole time, or was refused.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// How long a call may take: the end of the program waits for it.
const CALL_TIME: Duration = Duration::from_secs(1);
/// The value in the place of a recall's tag that marks the receive that ends with the connection.
const WATCH: u64 = 0;

/// Serves until the end.
pub(super) fn run(mut rpc: Rpc, cache: &LeaseCache, recalled: &impl Fn(&[Passed])) {
    rpc.timeout = rpc.timeout.min(CALL_TIME);
    let mut thread = LeaseThread {
        rpc,
        cache,
        recalled,
        connection: None,
        watched: None,
        tag: 0,
        message: Memory::zeroed(MAX_MESSAGE_BYTES),
        gives_none: false,
        has_failed: false,
    };
    while !cache.is_stopping() {
        thread.end_former();
        let present = thread.connection();
        if present.is_some() && present == thread.connection {
            thread.take_events();
        } else {
            thread.begin();
        }
    }
    thread.end_former();
    thread.end_leases(cache.holder());
}

struct LeaseThread<'a, F> {
    rpc: Rpc,
    cache: &'a LeaseCache,
    recalled: &'a F,
    /// The connection by which the server sends recalls.
    connection: Option<ConnectionId>,
    /// The connection whose end interrupts the wait for events.
    watched: Option<ConnectionId>,
    /// The tag of the receive for the next recall.
    tag: u64,
    message: Memory,
    /// The server is of an earlier build, which grants no leases.
    gives_none: bool,
    /// The last attempt has failed, and the log says so already.
    has_failed: bool,
}

impl<F: Fn(&[Passed])> LeaseThread<'_, F> {
    fn addr(&mut self) -> Result<Addr, CallError> {
        self.rpc.addr(self.rpc.metadata)
    }

    fn connection(&mut self) -> Option<ConnectionId> {
        let addr = self.addr().ok()?;
        self.rpc.bmi.connection(addr)
    }

    fn call(&mut self, operation: Operation) -> Result<(), CallError> {
        self.rpc
            .call(Call::query(self.rpc.metadata, operation))
            .and_then(done)
    }

    /// Tells the server where to send recalls.
    fn begin(&mut self) {
        self.connection = None;
        // An earlier receive may still use the former memory.
        self.message = Memory::zeroed(MAX_MESSAGE_BYTES);
        let begun = self.wait_for_recall(0);
        self.gives_none = begun
            .as_ref()
            .is_err_and(|error| error.errno == Errno::EOPNOTSUPP);
        let begun = match begun {
            Err(_) if self.gives_none => Ok(()),
            begun => begun,
        };
        let begun = begun.and_then(|()| self.watch());
        let was_failing = self.has_failed;
        self.has_failed = begun.is_err();
        if let Err(error) = begun {
            if !was_failing && !self.cache.is_stopping() {
                tracing::warn!(
                    error.message,
                    "names and attributes are not cached until the metadata server replies again"
                );
            }
            self.rpc.wait_for_events(RETRY_PAUSE);
            self.rpc.events.clear();
        }
    }

    /// Has the end of the present connection interrupt the wait for events.
    fn watch(&mut self) -> Result<(), CallError> {
        let present = self.connection();
        if present.is_none() || self.watched != present {
            self.receive(END_OF_CONNECTION, Memory::zeroed(1), WATCH)?;
        }
        self.watched = present;
        self.connection = present;
        Ok(())
    }

    /// Confirms all recalls up to the one with this number, and waits for the next one.
    fn wait_for_recall(&mut self, ended: u64) -> Result<(), CallError> {
        self.tag = self.rpc.next_tag();
        let operation = Operation::HoldLeases {
            holder: self.cache.holder(),
            recalls: self.tag,
            ended,
        };
        self.call(operation)?;
        let (tag, message) = (self.tag, self.message.clone());
        self.receive(tag, message, tag)
    }

    /// Receives a message; `name` is its tag or [`WATCH`].
    fn receive(&mut self, tag: u64, into: Memory, name: u64) -> Result<(), CallError> {
        let addr = self.addr()?;
        let (context, user) = (self.rpc.context, EVENT | name);
        match self.rpc.bmi.post_recv(addr, &[into], tag, context, user) {
            Ok(Posted::Pending(_)) => Ok(()),
            Ok(Posted::Complete(completion)) => {
                self.rpc.events.push(completion);
                Ok(())
            }
            Err(error) => Err(CallError::local(Errno::EIO, error.to_string())),
        }
    }

    fn take_events(&mut self) {
        let idle = match self.rpc.events.is_empty() {
            true => Duration::MAX,
            false => Duration::ZERO,
        };
        self.rpc.wait_for_events(idle);
        for completion in std::mem::take(&mut self.rpc.events) {
            if let Err(error) = self.event(&completion) {
                // The thread begins anew: the server sends its recalls again.
                tracing::debug!(error.message, "a recall was not carried out");
                self.connection = None;
            }
        }
    }

    fn event(&mut self, completion: &Completion) -> Result<(), CallError> {
        // Other completions belong to an earlier connection, or mean that the connection has ended.
        if completion.user & !EVENT != self.tag {
            return Ok(());
        }
        let len = match &completion.result {
            Ok(len) => *len as usize,
            Err(error) => return Err(CallError::local(Errno::ECONNRESET, error.to_string())),
        };
        let mut bytes = vec![0; len.min(self.message.len())];
        self.message.read_at(0, &mut bytes);
        let (reply, _) = Reply::from_bytes(&bytes).map_err(|malformed| {
            let text = format!("its message is malformed: {malformed}");
            self.rpc.error_at(self.rpc.metadata, Errno::EPROTO, text)
        })?;
        match reply.result {
            Ok(ReplyBody::Recall { number, leases }) => {
                let passed = self.cache.recall(&leases, Instant::now());
                (self.recalled)(&passed);
                self.cache.forgotten(&passed);
                self.wait_for_recall(number)
            }
            Ok(other) => Err(unexpected_reply(&other)),
            Err(failure) => Err(CallError::local(failure.errno, failure.message)),
        }
    }

    /// Ends the leases that the program has under former identities.
    fn end_former(&mut self) {
        for retired in self.cache.take_retired() {
            let until = Instant::now();
            let attributes = retired
                .passed_on
                .into_iter()
                .map(|object| Passed::Attributes {
                    object,
                    behind: None,
                    until: Some(until),
                });
            (self.recalled)(&attributes.collect::<Vec<_>>());
            // If something cannot be forgotten now, it may be used until its time is over, and all leases of
            // that identity have to last as long.
            if retired.unforgotten_until.is_none_or(|last| last <= until) {
                self.end_leases(retired.holder);
            }
            self.connection = None;
        }
    }

    fn end_leases(&mut self, holder: u128) {
        if self.gives_none || self.connection().is_none() {
            return;
        }
        if let Err(error) = self.call(Operation::EndLeases { holder }) {
            tracing::debug!(error.message, "leases end with their time");
        }
    }
}
