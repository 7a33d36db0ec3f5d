//! Requests and replies: many in flight, repeated while that is safe, bounded by one time-out.
//!
//! Every call of the library ends here, in [`Rpc::call_all`]. A request travels as an unexpected
//! message; its reply is received under a tag of its own. When a server's connection breaks, the
//! request is sent again with the same session slot and sequence number, so that a mutation is carried
//! out once (see [`Request`]), until the time-out of the whole call has passed; time in which this process was
//! stopped does not count, but for changes that may have been carried out, as servers forget their replies. A server that is
//! connected but silent is disconnected at that moment, which also ends its access to the client's memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use causeway_bmi::{
    Access, Addr, Bmi, Completion, Config, Context, Memory, Posted, RegionDescriptor, Waker,
};
use causeway_wire::datafile::Binding;
use causeway_wire::fs::formats::{FORMATS, GrantedLease, NUMBERED_WRITES, lacking_text};
use causeway_wire::fs::{
    Caller, Errno, Generation, MAX_MESSAGE_BYTES, ObjectId, Operation, Regions, ReplyBody, Request,
    Target,
};

use super::attendance::Attendance;
use super::call::{Body, Call};
use super::call_error::CallError;
use super::held_capabilities::Capabilities;
use super::identity::Layout;
use super::leases::Leases;
use super::link::{Known, Link, Replied};
use super::node_files::NodeFiles;
use super::numbers::random_number;
use super::pending::{Attempt, PendingCall, State, results};
use super::transfer::{IoKind, Piece};
use crate::config::{ConfigError, Configuration};

/// An attempt to connect takes a quarter of the time-out, within these bounds: an attempt that reaches a
/// server that is ending must leave time for one after its restart.
const SHORTEST_ATTEMPT: Duration = Duration::from_millis(250);
const LONGEST_ATTEMPT: Duration = Duration::from_secs(5);
/// How long to wait for operations of a connection that was just closed: its method completes them at once, except for
/// memory that a stopped peer may be writing.
pub(super) const DRAIN: Duration = Duration::from_secs(2);
/// Completions taken per test.
pub(super) const BATCH: usize = 64;
/// Reply buffers that are kept for reuse.
pub(super) const SPARE_REPLIES: usize = 64;

/// A bit of an operation's `user` number: it belongs to no call.
pub(super) const EVENT: u64 = 1 << 63;

/// Ends a client's calls, the present one and all later ones, from another thread: each fails as if its time-out had passed.
#[derive(Debug, Clone)]
pub(crate) struct Interrupter {
    interrupted: Arc<AtomicBool>,
    waker: Waker,
}

impl Interrupter {
    /// Ends all calls.
    pub(crate) fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Release);
        self.waker.wake();
    }
}

/// What is done with the reply of a call, which has this index, while others are in progress.
pub(super) type OnReply<'a> = dyn FnMut(&Rpc, usize, &ReplyBody) + 'a;

/// The engine behind a client.
pub(crate) struct Rpc {
    pub(super) bmi: Bmi,
    pub(super) context: Context,
    pub(super) links: Vec<Link>,
    /// An agent makes its handshakes for it.
    is_spoken_for: bool,
    /// The files about nodes, if this process itself proves to which node it belongs.
    pub(super) node_files: Option<NodeFiles>,
    /// Index of the metadata server in the configuration.
    pub(super) metadata: usize,
    /// The file system's identity, as the configuration has it.
    pub(super) file_system: u128,
    /// The I/O servers, as last reported by the metadata server.
    pub(super) layout: Option<Layout>,
    /// Index in the configuration by number in the layout; the configuration may lack a server.
    pub(super) routes: Vec<Option<usize>>,
    /// How long a call may take.
    pub(super) timeout: Duration,
    /// How long a call may take at most by the configuration: servers keep replies for that long.
    pub(super) longest_timeout: Duration,
    /// Since when the present operation has waited for others of this client, if it has.
    pub(super) waits_since: Option<Instant>,
    /// Of the present call's time.
    pub(super) attendance: Attendance,
    pub(super) client: u128,
    caller: Caller,
    pub(super) capabilities: Capabilities,
    /// Last sequence number of each slot.
    pub(super) sequences: Vec<u64>,
    /// Whether a change was abandoned without a reply, or repeated: a copy of it may still reach a server.
    pub(super) unconfirmed: bool,
    /// An attempt at one of the last calls ended without a reply: the server may have carried it out, too.
    pub(super) was_unfinished: bool,
    next_tag: u64,
    /// Completions of operations that belong to no call, for the thread that has posted the operations.
    pub(super) events: Vec<Completion>,
    /// The number of writes so far.
    writes: u64,
    /// Set when all calls must end at once.
    interrupted: Arc<AtomicBool>,
    pub(super) spare_replies: Vec<Memory>,
    /// The leases under which the program caches names and attributes, if it does.
    pub(super) leases: Option<Arc<Leases>>,
}

impl Rpc {
    /// Starts the message layer. Nothing is connected yet.
    pub(crate) fn new(
        configuration: &Configuration,
        caller: Caller,
        only_scheme: Option<&str>,
    ) -> Result<Self, CallError> {
        let unusable = |e: ConfigError| CallError::local(Errno::EINVAL, e.to_string());
        let agent = configuration.agent();
        let is_spoken_for = agent.is_some();
        let (key, nodes) = match agent {
            Some(_) => (None, None),
            None => (
                configuration.key().map_err(unusable)?,
                configuration.nodes().map_err(unusable)?,
            ),
        };
        let broken = |e: causeway_bmi::Error| CallError::local(Errno::EIO, e.to_string());
        let mut bmi = Bmi::new(Config {
            key,
            nodes,
            agent,
            encrypt: configuration.encrypt,
            tcp_connections: configuration.tcp_connections,
            unexpected_limit: MAX_MESSAGE_BYTES,
            connect_timeout: (configuration.timeout / 4).clamp(SHORTEST_ATTEMPT, LONGEST_ATTEMPT),
            ..Config::default()
        })
        .map_err(broken)?;
        let context = bmi.open_context().map_err(broken)?;
        let links = configuration
            .servers
            .iter()
            .map(|entry| Link::new(entry, only_scheme))
            .collect();
        Ok(Self {
            bmi,
            context,
            links,
            node_files: NodeFiles::of(configuration, is_spoken_for),
            is_spoken_for,
            metadata: configuration.metadata_server(),
            file_system: configuration.id,
            layout: None,
            routes: Vec::new(),
            timeout: configuration.timeout,
            longest_timeout: configuration.timeout,
            waits_since: None,
            attendance: Attendance::begin(configuration.timeout, Instant::now()),
            client: random_number()?,
            caller,
            capabilities: Capabilities::default(),
            sequences: Vec::new(),
            unconfirmed: false,
            was_unfinished: false,
            next_tag: 1,
            events: Vec::new(),
            writes: 0,
            interrupted: Arc::default(),
            spare_replies: Vec::new(),
            leases: None,
        })
    }

    /// The address of a server.
    pub(crate) fn addr(&mut self, server: usize) -> Result<Addr, CallError> {
        let link = self.links.get_mut(server).ok_or_else(|| {
            CallError::local(Errno::EINVAL, format!("there is no server number {server}"))
        })?;
        if let Some(addr) = link.addr {
            return Ok(addr);
        }
        let remark = match self.is_spoken_for {
            true => {
                "; this process may not read the key, and the node's agent speaks for it over tcp alone"
            }
            false => "",
        };
        let addr = self.bmi.lookup(&link.addresses).map_err(|e| CallError {
            errno: Errno::EINVAL,
            message: format!("{e}{remark}"),
            server: Some(link.describe()),
        })?;
        link.addr = Some(addr);
        Ok(addr)
    }

    /// A server's identity; `None` before it is known.
    pub(crate) fn known(&self, server: usize) -> Option<Known> {
        self.links.get(server)?.known
    }

    /// Makes progress for `idle`, while no call is in progress.
    pub(super) fn make_progress(&mut self, idle: Duration) {
        self.bmi.wait(self.context, idle);
    }

    /// Waits for the completion of an operation that belongs to no call, or for the waker, for at most `idle`. See [`Rpc::events`].
    pub(super) fn wait_for_events(&mut self, idle: Duration) {
        let mut completions = Vec::new();
        let taken = self
            .bmi
            .testcontext(self.context, BATCH, idle, &mut completions);
        if let Err(error) = taken {
            tracing::warn!(%error, "the message layer has failed");
        }
        for completion in completions {
            self.completed(&mut [], completion);
        }
    }

    /// A tag that no earlier message has had.
    pub(super) fn next_tag(&mut self) -> u64 {
        let tag = self.next_tag;
        self.next_tag += 1;
        tag
    }

    /// Returns a handle that ends [`Rpc::wait_for_events`] from another thread.
    pub(super) fn waker(&self) -> Waker {
        self.bmi.waker()
    }

    /// The binding of the sums of an object's blocks on this server.
    pub(super) fn binding(&self, server: usize, object: ObjectId) -> Binding {
        let generation = self
            .known(server)
            .map_or(Generation(0), |known| known.target.generation);
        Binding::new(self.file_system, generation, object)
    }

    pub(super) fn set_known(&mut self, server: usize, known: Option<Known>) {
        if let Some(link) = self.links.get_mut(server) {
            link.known = known;
            link.known_of = link.addr.and_then(|addr| self.bmi.connection(addr));
        }
    }

    /// Begins to note on which connections these servers reply.
    pub(super) fn watch_replies(&mut self, servers: &[usize]) {
        for &server in servers {
            if let Some(link) = self.links.get_mut(server) {
                link.replied = Replied::Not;
            }
        }
    }

    pub(super) fn note_reply(&mut self, server: usize) {
        if let Some(link) = self.links.get_mut(server) {
            let connection = link.addr.and_then(|addr| self.bmi.connection(addr));
            link.replied.note(connection);
        }
    }

    /// Whether a server has replied on one connection alone since then, and whether what is known of it was found on that connection.
    pub(super) fn replied_on_one(&self, server: usize) -> Option<bool> {
        let link = self.links.get(server)?;
        match link.replied {
            Replied::On(connection) => Some(link.known_of == Some(connection)),
            Replied::Not | Replied::Differently => None,
        }
    }

    pub(super) fn link_name(&self, server: usize) -> &str {
        self.links.get(server).map_or("", |link| &link.name)
    }

    pub(super) fn link_named(&self, name: &str) -> Option<usize> {
        self.links.iter().position(|link| link.name == name)
    }

    /// Names the server that an error concerns.
    pub(super) fn at(&self, server: usize, error: CallError) -> CallError {
        CallError {
            server: self.links.get(server).map(Link::describe),
            ..error
        }
    }

    /// A failure that concerns a server.
    pub(super) fn error_at(
        &self,
        server: usize,
        errno: Errno,
        message: impl Into<String>,
    ) -> CallError {
        self.at(server, CallError::local(errno, message))
    }

    /// Returns a handle that ends calls from another thread.
    pub(crate) fn interrupter(&self) -> Interrupter {
        Interrupter {
            interrupted: Arc::clone(&self.interrupted),
            waker: self.bmi.waker(),
        }
    }

    /// The user for whom requests are made.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Sets the user for whom requests are made from now on.
    pub(crate) fn set_caller(&mut self, caller: Caller) {
        self.caller = caller;
    }

    /// The message layer, for reports and buffers.
    pub(crate) fn bmi(&mut self) -> &mut Bmi {
        &mut self.bmi
    }

    /// Reports the method that was chosen for a server, and the reason.
    pub(crate) fn report(&self, server: usize) -> Option<causeway_bmi::PeerReport> {
        self.bmi.report(self.links.get(server)?.addr?)
    }

    /// Makes one call.
    pub(crate) fn call(&mut self, call: Call) -> Result<ReplyBody, CallError> {
        self.call_all(vec![call])
            .pop()
            .unwrap_or_else(|| Err(CallError::vanished()))
    }

    /// Makes calls at once and returns all of their results, in order. When it returns, none of them is in flight
    /// and no server can access the memory that they named.
    ///
    /// The identities of unknown servers are requested first. The identity of a server that refuses a
    /// call as meant for another server is requested again, as long as it has changed.
    pub(crate) fn call_all(&mut self, calls: Vec<Call>) -> Vec<Result<ReplyBody, CallError>> {
        results(self.complete(calls, &mut |_, _, _| {}))
    }

    /// The same; also hands over replies of calls that succeed, as soon as they are there, with the call's index, while others are
    /// in progress. Not all: such as come while connections are made anew, or for calls that were repeated, are only returned.
    pub(super) fn call_all_each(
        &mut self,
        calls: Vec<Call>,
        on_reply: &mut OnReply<'_>,
    ) -> Vec<Result<ReplyBody, CallError>> {
        results(self.complete(calls, on_reply))
    }

    /// The same, with the leases that came with the replies.
    pub(super) fn call_all_leased(
        &mut self,
        calls: Vec<Call>,
    ) -> Vec<(Result<ReplyBody, CallError>, Option<GrantedLease>)> {
        let mut completed = self.complete(calls, &mut |_, _, _| {});
        let leases: Vec<_> = completed
            .iter_mut()
            .map(|completed| completed.lease.take())
            .collect();
        results(completed).into_iter().zip(leases).collect()
    }

    /// Makes calls at once and returns when all of them are done.
    fn complete(&mut self, calls: Vec<Call>, on_reply: &mut OnReply<'_>) -> Vec<PendingCall> {
        let mut now = Instant::now();
        let deadline = self.begin_call(self.timeout);
        let mut altered = self.begin_changes(&calls);
        let mut pending_calls = self.start_calls(calls, None, now);
        loop {
            if self.introduce_all(&mut pending_calls, deadline) {
                // The introductions may have taken a while.
                now = Instant::now();
            }
            self.authorize_all(&mut pending_calls, now, deadline);
            self.exchange(&mut pending_calls, deadline, on_reply);
            let renewed = self.renew_ended(&mut pending_calls, deadline);
            if !self.redirect(&mut pending_calls, deadline) && !renewed {
                pending_calls
                    .iter_mut()
                    .for_each(PendingCall::detach_memory);
                self.note_unconfirmed(&pending_calls);
                self.end_changes(&mut altered, &pending_calls);
                self.was_unfinished = pending_calls.iter().any(|pending| pending.unfinished);
                return pending_calls;
            }
            now = Instant::now();
        }
    }

    /// Makes calls that are meant for `target`, without introductions.
    pub(super) fn call_directly(
        &mut self,
        calls: Vec<Call>,
        target: Target,
        deadline: Instant,
    ) -> Vec<Result<ReplyBody, CallError>> {
        let mut pending_calls = self.start_calls(calls, Some(target), Instant::now());
        self.exchange(&mut pending_calls, deadline, &mut |_, _, _| {});
        results(pending_calls)
    }

    fn start_calls(
        &mut self,
        calls: Vec<Call>,
        given_target: Option<Target>,
        now: Instant,
    ) -> Vec<PendingCall> {
        let start = |call: Call| {
            let sequence = match call.slot {
                Some(slot) => self.next_sequence(slot),
                None => {
                    self.writes += u64::from(call.is_write());
                    self.writes
                }
            };
            PendingCall::new(call, sequence, given_target, now)
        };
        calls.into_iter().map(start).collect()
    }

    /// Prepares another round for calls that were refused as meant for another server, if the server that
    /// they should reach has changed. Returns whether there are any.
    fn redirect(&mut self, pending_calls: &mut [PendingCall], deadline: Instant) -> bool {
        let refused = |pending: &PendingCall| {
            matches!(&pending.state, State::Done(Err(error)) if error.errno == Errno::WRONG_TARGET)
                && pending.sent_target != Target::default()
        };
        if !pending_calls.iter().any(refused) || self.is_over(deadline) {
            return false;
        }
        for pending in pending_calls.iter().filter(|pending| refused(pending)) {
            self.forget(pending.call.server, pending.sent_target);
        }
        let mut again = false;
        for pending in pending_calls.iter_mut() {
            if !refused(pending) {
                continue;
            }
            let until = Instant::now();
            let refusal = std::mem::replace(&mut pending.state, State::Waiting { until });
            self.introduce_all(std::slice::from_mut(pending), deadline);
            if !pending.is_open() {
                continue;
            }
            match self.known(pending.call.server) {
                Some(known) if known.target != pending.sent_target => again = true,
                // The server has the identity that the request named, and refuses it nevertheless.
                _ => pending.state = refusal,
            }
            pending.sent_target = Target::default();
        }
        again
    }

    /// Sends calls and waits until all are done.
    fn exchange(
        &mut self,
        pending_calls: &mut [PendingCall],
        deadline: Instant,
        on_reply: &mut OnReply<'_>,
    ) {
        let mut completions = Vec::new();
        let began = Instant::now();
        loop {
            let now = Instant::now();
            self.attendance.look(now);
            let ends = self.deadline(pending_calls, began, deadline);
            let ends = self.attendance.extended(ends);
            if now >= ends || self.interrupted.load(Ordering::Acquire) {
                return self.give_up(pending_calls);
            }
            self.look_at_nodes(pending_calls, now);
            let mut next = ends;
            let mut open = false;
            for (index, pending) in pending_calls.iter_mut().enumerate() {
                if let State::Waiting { until } = pending.state
                    && until <= now
                {
                    match pending.is_doubtful_change() && now >= deadline {
                        true => self.give_up_change(pending),
                        false => self.send(pending, index),
                    }
                }
                if let State::Waiting { until } = pending.state {
                    next = next.min(until);
                }
                open |= pending.is_open();
            }
            if !open {
                return;
            }
            completions.clear();
            let idle = next.saturating_duration_since(now);
            let idle = idle.min(self.attendance.step());
            if let Err(error) = self
                .bmi
                .testcontext(self.context, BATCH, idle, &mut completions)
            {
                let error = CallError::local(Errno::EIO, error.to_string());
                for pending in pending_calls.iter_mut().filter(|pending| pending.is_open()) {
                    // It is not known whether the server carries the request out.
                    pending.unfinished |= matches!(pending.state, State::Sent(_));
                    pending.state = State::Done(Err(error.clone()));
                }
                return;
            }
            for completion in completions.drain(..) {
                let ended = self.completed(pending_calls, completion);
                let ended = ended.and_then(|index| Some((index, pending_calls.get(index)?)));
                // After an attempt that a server has left unfinished, it may still write: the memory is taken away from it first.
                if let Some((index, pending)) = ended
                    && !pending.unfinished
                    && let State::Done(Ok(reply)) = &pending.state
                {
                    on_reply(self, index, reply);
                }
            }
        }
    }

    /// A call begins that may take this long; returns when that ends, if this process is not stopped meanwhile.
    pub(super) fn begin_call(&mut self, time: Duration) -> Instant {
        let now = Instant::now();
        self.attendance = Attendance::begin(time, now);
        now + time
    }

    /// Whether the time until then has passed, beside that in which this process was stopped.
    pub(super) fn is_over(&mut self, deadline: Instant) -> bool {
        let now = Instant::now();
        self.attendance.look(now);
        now >= self.attendance.extended(deadline)
    }

    /// Sends a call's request.
    fn send(&mut self, pending: &mut PendingCall, index: usize) {
        let attempt = match self.attempt(pending, index) {
            Ok(attempt) => attempt,
            Err(error) if error.errno == Errno::EHOSTUNREACH => {
                pending.wait(error);
                return;
            }
            Err(error) => {
                pending.state = State::Done(Err(error));
                return;
            }
        };
        pending.state = State::Sent(attempt);
        self.finish_attempt(pending);
    }

    fn attempt(&mut self, pending: &mut PendingCall, index: usize) -> Result<Attempt, CallError> {
        let known = self.known(pending.call.server).map(|known| known.target);
        pending.sent_target = pending.given_target.or(known).unwrap_or_default();
        let addr = self.addr(pending.call.server)?;
        self.check_append_lock(pending, addr)?;
        self.renew_format(pending.call.server);
        let mut exports = Vec::new();
        let formats = self.formats(pending.call.server);
        let has_clock = formats.highest >= NUMBERED_WRITES;
        let asks_clock = has_clock && pending.unacknowledged.wants_clock();
        let operation = match &pending.call.body {
            _ if asks_clock => Operation::Clock,
            Body::Plain(operation) => numbered(operation.clone(), pending),
            Body::Data(kind, piece) => {
                self.data_operation(pending, addr, *kind, piece, &mut exports)?
            }
        };
        let needed = operation.lowest_format();
        if needed > formats.highest {
            for region in &exports {
                self.bmi.unexport(addr, region);
            }
            // The server may have been upgraded since. If not, it refuses, and this attempt is not repeated.
            if !pending.raised && needed <= FORMATS.highest {
                pending.raised = true;
                self.set_format(pending.call.server, FORMATS.highest);
                return self.attempt(pending, index);
            }
            let text = lacking_text(needed, formats.highest);
            return Err(self.error_at(pending.call.server, Errno::EOPNOTSUPP, text));
        }
        let tag = self.next_tag();
        let request = Request {
            reply_tag: tag,
            target: pending.sent_target,
            client: self.client,
            slot: pending.call.slot.unwrap_or(0),
            sequence: pending.call.slot.map_or(0, |_| pending.sequence),
            caller: self.caller.clone(),
            capability: self.capability_for(pending, &operation),
            opening: pending.call.opening.clone(),
            holder: self.holder_of(&pending.call),
            operation,
        };
        let reply = self
            .spare_replies
            .pop()
            .unwrap_or_else(|| Memory::zeroed(MAX_MESSAGE_BYTES));
        let mut attempt = Attempt {
            sent: Instant::now(),
            format: formats.highest,
            asks_clock,
            send: None,
            receive: None,
            reply,
            received: None,
            error: None,
            exports,
            addr,
        };
        let user = (index as u64) << 1;
        match self.bmi.post_recv(
            addr,
            std::slice::from_ref(&attempt.reply),
            tag,
            self.context,
            user,
        ) {
            Ok(Posted::Pending(op)) => attempt.receive = Some(op),
            Ok(Posted::Complete(done)) => attempt.note_receive(done.result),
            Err(error) => return Err(self.refused(pending.call.server, attempt, error)),
        }
        if let Err(error) = self.check_append_lock(pending, addr) {
            self.undo(attempt);
            return Err(error);
        }
        let message = Memory::from_vec(request.to_bytes(formats));
        match self
            .bmi
            .post_sendunexpected(addr, &[message], tag, self.context, user | 1)
        {
            Ok(Posted::Pending(op)) => attempt.send = Some(op),
            Ok(Posted::Complete(done)) => attempt.note_send(done.result),
            Err(error) => return Err(self.refused(pending.call.server, attempt, error)),
        }
        Ok(attempt)
    }

    /// Fails if a call is a write under an append lock, and the connection with the server is newer than the lock.
    fn check_append_lock(&self, pending: &PendingCall, addr: Addr) -> Result<(), CallError> {
        match &pending.call.body {
            Body::Data(
                _,
                Piece {
                    append_lock: Some(append_lock),
                    ..
                },
            ) if self.bmi.connection(addr) != Some(append_lock.connection) => {
                let text = "the connection was lost while this client had the append lock";
                Err(self.error_at(pending.call.server, Errno::OVERTAKEN, text))
            }
            _ => Ok(()),
        }
    }

    /// Cancels the posted operations of an attempt that is not sent.
    fn undo(&mut self, mut attempt: Attempt) {
        if let Some(op) = attempt.receive.take() {
            self.bmi.cancel(op);
            let _ = self.bmi.test(op, DRAIN);
        }
        self.end_exports(&attempt);
    }

    /// Undoes an attempt whose operations could not be posted.
    fn refused(
        &mut self,
        server: usize,
        attempt: Attempt,
        error: causeway_bmi::Error,
    ) -> CallError {
        self.undo(attempt);
        let errno = match error {
            causeway_bmi::Error::UnexpectedTooLarge { .. } => Errno::EMSGSIZE,
            _ => Errno::EIO,
        };
        self.error_at(server, errno, error.to_string())
    }

    fn data_operation(
        &mut self,
        pending: &PendingCall,
        addr: Addr,
        kind: IoKind,
        piece: &Piece,
        exports: &mut Vec<RegionDescriptor>,
    ) -> Result<Operation, CallError> {
        let access = match kind {
            IoKind::Read => Access::Write,
            IoKind::Write => Access::Read,
        };
        let described = self.links.get(pending.call.server).map(Link::describe);
        let mut export = |bmi: &mut Bmi, memory: &Memory, access| {
            let region = bmi.export(addr, memory, access).map_err(|e| match e {
                // Without a connection there is no peer to export to.
                causeway_bmi::Error::Transport(_) => CallError {
                    errno: Errno::EHOSTUNREACH,
                    message: "no connection can be made".to_owned(),
                    server: described.clone(),
                },
                e => CallError::local(Errno::ENOMEM, format!("the buffer cannot be exported: {e}")),
            })?;
            exports.push(region);
            Ok::<_, CallError>(region)
        };
        let mut whole: Vec<(usize, RegionDescriptor)> = Vec::new();
        let mut memory = Vec::with_capacity(piece.spans.len());
        for span in &piece.spans {
            let region = match whole
                .iter()
                .rev()
                .find(|(fragment, _)| *fragment == span.fragment)
            {
                Some((_, region)) => *region,
                None => {
                    let region = export(&mut self.bmi, &piece.fragments[span.fragment], access)?;
                    whole.push((span.fragment, region));
                    region
                }
            };
            memory.push(region.part(span.offset, span.len));
        }
        let regions = match (&piece.regions, &piece.list) {
            (Regions::Here(regions), Some(list)) => Regions::There {
                count: regions.len() as u64,
                list: export(&mut self.bmi, list, Access::Read)?,
            },
            (regions, _) => regions.clone(),
        };
        let object = piece.object;
        Ok(match kind {
            IoKind::Read => Operation::Read {
                object,
                at_least: piece.at_least,
                regions,
                memory,
                sums: piece.sums,
            },
            IoKind::Write => Operation::Write {
                object,
                number: pending.sequence,
                repeated: pending.unacknowledged.moment(),
                at_least: piece.at_least,
                regions,
                memory,
                inline: piece.inline.clone(),
                append_lock: piece
                    .append_lock
                    .map_or(0, |append_lock| append_lock.number),
            },
        })
    }

    /// The failure of a read whose bytes keep changing on the way from a server.
    pub(super) fn altered(&self, server: usize) -> CallError {
        self.error_at(
            server,
            Errno::EIO,
            "bytes that the server sent do not match their checksums when they arrive: memory or a network on the way \
             is faulty",
        )
    }
}

/// An operation with the number that the call has among the client's writes, if it is one of these.
fn numbered(mut operation: Operation, pending: &PendingCall) -> Operation {
    if let Operation::PunchData {
        number, repeated, ..
    } = &mut operation
    {
        *number = pending.sequence;
        *repeated = pending.unacknowledged.moment();
    }
    operation
}
