//! Requests and replies: many in flight, repeated while that is safe, bounded by one time-out.
//!
//! Every call of the library ends here, in [`Rpc::call_all`]. A request travels as an unexpected
//! message; its reply is received under a tag of its own. When a server's connection breaks, the
//! request is sent again with the same session slot and sequence number, so that a mutation is carried
//! out once (see [`Request`]), until the time-out of the whole call has passed. A server that is
//! connected but silent is disconnected at that moment, which also ends its access to our memory.

use std::time::{Duration, Instant};

use causeway_bmi::{
    Access, Addr, Bmi, Completion, Config, Context, Memory, OpError, OpId, Posted, RegionDescriptor,
};
use causeway_wire::codec::{Wire, Writer};
use causeway_wire::fs::{
    Answer, Caller, Errno, MAX_MESSAGE_BYTES, ObjectId, Operation, Regions, Reply, Request, Target,
};

use super::transfer::{Piece, Way};
use crate::Error;
use crate::config::{Configuration, ServerEntry};

/// First pause before a request is repeated, since nothing tells when a server is there again; it doubles up to
/// [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(2);
/// Longest pause before a request is repeated.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// An attempt to connect takes a quarter of the time-out, within these bounds: an attempt that met a
/// server in the middle of dying must leave time for one that meets it restarted.
const SHORTEST_ATTEMPT: Duration = Duration::from_millis(250);
const LONGEST_ATTEMPT: Duration = Duration::from_secs(5);
/// How long to wait for operations of a connection that was just dropped: its method completes them at once, and
/// only memory that a stopped peer may be writing is waited for.
const DRAIN: Duration = Duration::from_secs(2);
/// Completions taken per test.
const BATCH: usize = 64;
/// Reply buffers that are kept for reuse.
const SPARE_REPLIES: usize = 64;

/// One request to one server.
#[derive(Debug)]
pub(crate) struct Call {
    /// Index of the server in the configuration.
    pub server: usize,
    /// What to ask.
    pub body: Body,
    /// Session slot of a mutation.
    slot: Option<u16>,
}

/// What a call asks.
#[derive(Debug)]
pub(crate) enum Body {
    /// An operation that carries everything in its message.
    Plain(Operation),
    /// A read or write of a datafile with memory that must be exported first.
    Data(Way, Piece),
}

impl Call {
    /// A request that changes nothing, or that may be repeated without harm.
    pub(crate) fn query(server: usize, operation: Operation) -> Self {
        Self {
            server,
            body: Body::Plain(operation),
            slot: None,
        }
    }

    /// A request that must be carried out once. Mutations in flight together have different slots.
    pub(crate) fn mutation(server: usize, operation: Operation, slot: u16) -> Self {
        Self {
            server,
            body: Body::Plain(operation),
            slot: Some(slot),
        }
    }

    /// A read or write of a datafile.
    pub(crate) fn data(server: usize, way: Way, piece: Piece) -> Self {
        Self {
            server,
            body: Body::Data(way, piece),
            slot: None,
        }
    }
}

/// Why a call failed, before it is known on behalf of which path.
#[derive(Debug, Clone)]
pub(crate) struct Trouble {
    /// What kind.
    pub errno: Errno,
    /// What happened; may be empty where the number says it all.
    pub message: String,
    /// The server concerned, as text.
    pub server: Option<String>,
}

impl Trouble {
    /// A failure that no server is to blame for.
    pub(crate) fn local(errno: Errno, message: impl Into<String>) -> Self {
        Self {
            errno,
            message: message.into(),
            server: None,
        }
    }

    /// Names the operation and its subject.
    pub(crate) fn during(self, operation: &'static str, subject: &[u8]) -> Error {
        let message = match self.message.is_empty() {
            true => self.errno.to_string(),
            false => self.message,
        };
        Error {
            operation,
            subject: String::from_utf8_lossy(subject).escape_debug().to_string(),
            errno: self.errno,
            message,
            server: self.server,
        }
    }
}

/// The engine behind a client.
pub(crate) struct Rpc {
    bmi: Bmi,
    context: Context,
    links: Vec<Link>,
    timeout: Duration,
    client: u128,
    caller: Caller,
    /// Last sequence number of each slot.
    sequences: Vec<u64>,
    next_tag: u64,
    spare_replies: Vec<Memory>,
}

/// A server as this client reaches it.
struct Link {
    name: String,
    addresses: String,
    addr: Option<Addr>,
}

impl Link {
    fn new(entry: &ServerEntry, only_scheme: Option<&str>) -> Self {
        let usable = |address: &&String| {
            only_scheme.is_none_or(|s| address.split("://").next().is_some_and(|have| have == s))
        };
        let addresses: Vec<&str> = entry
            .addresses
            .iter()
            .filter(usable)
            .map(String::as_str)
            .collect();
        Self {
            name: entry.name.clone(),
            addresses: addresses.join(","),
            addr: None,
        }
    }

    fn describe(&self) -> String {
        format!("{}, {}", self.name, self.addresses)
    }
}

/// A call on its way.
struct Flight {
    call: Call,
    sequence: u64,
    state: State,
    pause: Duration,
    last: Option<Trouble>,
}

enum State {
    Waiting { until: Instant },
    Flying(Attempt),
    Done(Result<Answer, Trouble>),
}

/// One sending of a request.
struct Attempt {
    send: Option<OpId>,
    receive: Option<OpId>,
    reply: Memory,
    received: Option<u64>,
    trouble: Option<OpError>,
    exports: Vec<RegionDescriptor>,
    addr: Addr,
}

impl Rpc {
    /// Starts the message layer. Nothing is connected yet.
    pub(crate) fn new(
        configuration: &Configuration,
        caller: Caller,
        only_scheme: Option<&str>,
    ) -> Result<Self, Trouble> {
        let key = configuration
            .key()
            .map_err(|e| Trouble::local(Errno::EINVAL, e.to_string()))?;
        let broken = |e: causeway_bmi::Error| Trouble::local(Errno::EIO, e.to_string());
        let mut bmi = Bmi::new(Config {
            key,
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
            timeout: configuration.timeout,
            client: random_client()?,
            caller,
            sequences: Vec::new(),
            next_tag: 1,
            spare_replies: Vec::new(),
        })
    }

    /// The address of a server.
    pub(crate) fn addr(&mut self, server: usize) -> Result<Addr, Trouble> {
        let link = self.links.get_mut(server).ok_or_else(|| {
            Trouble::local(Errno::EINVAL, format!("there is no server number {server}"))
        })?;
        if let Some(addr) = link.addr {
            return Ok(addr);
        }
        let addr = self.bmi.lookup(&link.addresses).map_err(|e| Trouble {
            errno: Errno::EINVAL,
            message: e.to_string(),
            server: Some(link.describe()),
        })?;
        link.addr = Some(addr);
        Ok(addr)
    }

    /// On whose behalf requests are made.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The message layer, for reports and buffers.
    pub(crate) fn bmi(&mut self) -> &mut Bmi {
        &mut self.bmi
    }

    /// What was chosen for a server.
    pub(crate) fn report(&self, server: usize) -> Option<causeway_bmi::PeerReport> {
        self.bmi.report(self.links.get(server)?.addr?)
    }

    /// Makes one call.
    pub(crate) fn call(&mut self, call: Call) -> Result<Answer, Trouble> {
        self.call_all(vec![call]).pop().unwrap_or_else(|| {
            Err(Trouble::local(
                Errno::EIO,
                "a call vanished, which is a defect of the client",
            ))
        })
    }

    /// Makes calls at once and answers all of their results, in order. When it returns, nothing of them
    /// is in flight any more and no server can reach the memory that they named.
    pub(crate) fn call_all(&mut self, calls: Vec<Call>) -> Vec<Result<Answer, Trouble>> {
        let deadline = Instant::now() + self.timeout;
        let mut flights: Vec<Flight> = calls
            .into_iter()
            .map(|call| {
                let sequence = call.slot.map_or(0, |slot| self.next_sequence(slot));
                let state = State::Waiting {
                    until: Instant::now(),
                };
                Flight {
                    call,
                    sequence,
                    state,
                    pause: FIRST_PAUSE,
                    last: None,
                }
            })
            .collect();
        let mut completions = Vec::new();
        loop {
            let now = Instant::now();
            if now >= deadline {
                self.give_up(&mut flights);
                break;
            }
            let mut next = deadline;
            let mut open = false;
            for (index, flight) in flights.iter_mut().enumerate() {
                if let State::Waiting { until } = flight.state
                    && until <= now
                {
                    self.launch(flight, index);
                }
                if let State::Waiting { until } = flight.state {
                    next = next.min(until);
                }
                open |= !matches!(flight.state, State::Done(_));
            }
            if !open {
                break;
            }
            completions.clear();
            let idle = next.saturating_duration_since(now);
            if let Err(error) = self
                .bmi
                .testcontext(self.context, BATCH, idle, &mut completions)
            {
                let trouble = Trouble::local(Errno::EIO, error.to_string());
                return flights.iter().map(|_| Err(trouble.clone())).collect();
            }
            for completion in completions.drain(..) {
                self.completed(&mut flights, completion);
            }
        }
        flights
            .into_iter()
            .map(|flight| match flight.state {
                State::Done(result) => result,
                State::Waiting { .. } | State::Flying(_) => {
                    Err(Trouble::local(Errno::ETIMEDOUT, "the call did not end"))
                }
            })
            .collect()
    }

    fn next_sequence(&mut self, slot: u16) -> u64 {
        let slot = usize::from(slot);
        if self.sequences.len() <= slot {
            self.sequences.resize(slot + 1, 0);
        }
        self.sequences[slot] += 1;
        self.sequences[slot]
    }

    /// Sends a flight's request.
    fn launch(&mut self, flight: &mut Flight, index: usize) {
        let attempt = match self.attempt(flight, index) {
            Ok(attempt) => attempt,
            Err(trouble) if trouble.errno == Errno::EHOSTUNREACH => {
                flight.wait(trouble);
                return;
            }
            Err(trouble) => {
                flight.state = State::Done(Err(trouble));
                return;
            }
        };
        flight.state = State::Flying(attempt);
        self.settle(flight);
    }

    fn attempt(&mut self, flight: &Flight, index: usize) -> Result<Attempt, Trouble> {
        let addr = self.addr(flight.call.server)?;
        let mut exports = Vec::new();
        let operation = match &flight.call.body {
            Body::Plain(operation) => operation.clone(),
            Body::Data(way, piece) => {
                self.data_operation(flight.call.server, addr, *way, piece, &mut exports)?
            }
        };
        let tag = self.next_tag;
        self.next_tag += 1;
        let request = Request {
            reply_tag: tag,
            target: Target::default(),
            client: self.client,
            slot: flight.call.slot.unwrap_or(0),
            sequence: flight.sequence,
            caller: self.caller.clone(),
            operation,
        };
        let reply = self
            .spare_replies
            .pop()
            .unwrap_or_else(|| Memory::zeroed(MAX_MESSAGE_BYTES));
        let mut attempt = Attempt {
            send: None,
            receive: None,
            reply,
            received: None,
            trouble: None,
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
            Err(error) => return Err(self.refused(flight.call.server, attempt, error)),
        }
        let message = Memory::from_vec(request.to_bytes());
        match self
            .bmi
            .post_sendunexpected(addr, &[message], tag, self.context, user | 1)
        {
            Ok(Posted::Pending(op)) => attempt.send = Some(op),
            Ok(Posted::Complete(done)) => attempt.note_send(done.result),
            Err(error) => return Err(self.refused(flight.call.server, attempt, error)),
        }
        Ok(attempt)
    }

    /// Undoes an attempt whose posting was refused.
    fn refused(
        &mut self,
        server: usize,
        mut attempt: Attempt,
        error: causeway_bmi::Error,
    ) -> Trouble {
        if let Some(op) = attempt.receive.take() {
            self.bmi.cancel(op);
            let _ = self.bmi.test(op, DRAIN);
        }
        self.end_exports(&attempt);
        let errno = match error {
            causeway_bmi::Error::UnexpectedTooLarge { .. } => Errno::EMSGSIZE,
            _ => Errno::EIO,
        };
        Trouble {
            errno,
            message: error.to_string(),
            server: self.links.get(server).map(Link::describe),
        }
    }

    fn data_operation(
        &mut self,
        server: usize,
        addr: Addr,
        way: Way,
        piece: &Piece,
        exports: &mut Vec<RegionDescriptor>,
    ) -> Result<Operation, Trouble> {
        let access = match way {
            Way::Read => Access::Write,
            Way::Write => Access::Read,
        };
        let described = self.links.get(server).map(Link::describe);
        let mut export = |bmi: &mut Bmi, memory: &Memory, access| {
            let region = bmi.export(addr, memory, access).map_err(|e| match e {
                // Without a connection there is nobody to export to.
                causeway_bmi::Error::Transport(_) => Trouble {
                    errno: Errno::EHOSTUNREACH,
                    message: "no connection can be made".to_owned(),
                    server: described.clone(),
                },
                e => Trouble::local(Errno::ENOMEM, format!("the buffer cannot be exported: {e}")),
            })?;
            exports.push(region);
            Ok::<_, Trouble>(region)
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
        Ok(match way {
            Way::Read => Operation::Read {
                object,
                regions,
                memory,
            },
            Way::Write => Operation::Write {
                object,
                regions,
                memory,
                inline: piece.inline.clone(),
            },
        })
    }

    /// Takes one completion in.
    fn completed(&mut self, flights: &mut [Flight], completion: Completion) {
        let (index, is_send) = ((completion.user >> 1) as usize, completion.user & 1 == 1);
        let Some(flight) = flights.get_mut(index) else {
            return;
        };
        let State::Flying(attempt) = &mut flight.state else {
            return;
        };
        if is_send {
            attempt.note_send(completion.result);
        } else {
            attempt.note_receive(completion.result);
        }
        if let (Some(_), Some(receive)) = (&attempt.trouble, attempt.receive) {
            // The request did not reach the server: no reply will come.
            self.bmi.cancel(receive);
        }
        self.settle(flight);
    }

    /// Moves a flight on once both halves of its attempt are complete.
    fn settle(&mut self, flight: &mut Flight) {
        let State::Flying(attempt) = &mut flight.state else {
            return;
        };
        if attempt.send.is_some() || attempt.receive.is_some() {
            return;
        }
        let now = Instant::now();
        let state = std::mem::replace(&mut flight.state, State::Waiting { until: now });
        let State::Flying(attempt) = state else {
            return;
        };
        self.end_exports(&attempt);
        let server = self.links.get(flight.call.server).map(Link::describe);
        let outcome = attempt.outcome();
        if self.spare_replies.len() < SPARE_REPLIES {
            self.spare_replies.push(attempt.reply);
        }
        let (trouble, repeat) = match outcome {
            Ok(Ok(answer)) => {
                flight.state = State::Done(Ok(answer));
                return;
            }
            Ok(Err(failure)) => {
                let repeat = failure.errno == Errno::RETRY;
                (
                    Trouble {
                        errno: failure.errno,
                        message: failure.message,
                        server,
                    },
                    repeat,
                )
            }
            Err(error) => {
                let repeat = matches!(error, OpError::Peer { .. } | OpError::Cancelled);
                (
                    Trouble {
                        errno: errno_of(&error),
                        message: error.to_string(),
                        server,
                    },
                    repeat,
                )
            }
        };
        if repeat {
            flight.wait(trouble);
        } else {
            flight.state = State::Done(Err(trouble));
        }
    }

    fn end_exports(&mut self, attempt: &Attempt) {
        for region in &attempt.exports {
            self.bmi.unexport(attempt.addr, region);
        }
    }

    /// The time-out has passed: ends what is in flight, whatever the servers do, and says why.
    fn give_up(&mut self, flights: &mut [Flight]) {
        let waited = format!("after {} s", self.timeout.as_secs_f64());
        let mut silent = Vec::new();
        for flight in flights.iter() {
            if let State::Flying(attempt) = &flight.state
                && !silent.contains(&attempt.addr)
            {
                silent.push(attempt.addr);
            }
        }
        for addr in silent {
            self.bmi.disconnect(addr);
        }
        let drained_by = Instant::now() + DRAIN;
        let mut completions = Vec::new();
        while flights.iter().any(|f| matches!(f.state, State::Flying(_)))
            && Instant::now() < drained_by
        {
            completions.clear();
            let idle = drained_by.saturating_duration_since(Instant::now());
            if self
                .bmi
                .testcontext(self.context, BATCH, idle, &mut completions)
                .is_err()
            {
                break;
            }
            for completion in completions.drain(..) {
                self.completed(flights, completion);
            }
        }
        for flight in flights {
            if matches!(flight.state, State::Done(_)) {
                continue;
            }
            let server = self.links.get(flight.call.server).map(Link::describe);
            let message = match flight.last.take() {
                Some(last) => format!("{} ({waited}); is the server running?", last.message),
                None => format!("no answer {waited}; the server is connected but silent"),
            };
            flight.state = State::Done(Err(Trouble {
                errno: Errno::ETIMEDOUT,
                message,
                server,
            }));
        }
    }
}

impl Flight {
    /// Pauses before the next attempt.
    fn wait(&mut self, trouble: Trouble) {
        self.state = State::Waiting {
            until: Instant::now() + self.pause,
        };
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.last = Some(trouble);
    }
}

impl Attempt {
    fn note_send(&mut self, result: Result<u64, OpError>) {
        self.send = None;
        if let Err(error) = result {
            self.trouble = Some(error);
        }
    }

    fn note_receive(&mut self, result: Result<u64, OpError>) {
        self.receive = None;
        match result {
            Ok(len) => self.received = Some(len),
            Err(error) => {
                self.trouble.get_or_insert(error);
            }
        }
    }

    /// What the server said, or why it said nothing.
    fn outcome(&self) -> Result<Result<Answer, causeway_wire::fs::Failure>, OpError> {
        if let Some(len) = self.received {
            let mut bytes = vec![0; (len as usize).min(self.reply.len())];
            self.reply.read_at(0, &mut bytes);
            return Ok(match Reply::from_bytes(&bytes) {
                Ok(reply) => reply.result,
                Err(malformed) => Err(causeway_wire::fs::Failure {
                    errno: Errno::EPROTO,
                    message: format!("its reply is malformed: {malformed}"),
                }),
            });
        }
        Err(self.trouble.clone().unwrap_or(OpError::Cancelled))
    }
}

fn errno_of(error: &OpError) -> Errno {
    match error {
        OpError::Peer { .. } => Errno::ECONNRESET,
        OpError::TooLarge { .. } => Errno::EMSGSIZE,
        OpError::Cancelled => Errno::ECANCELED,
        _ => Errno::EIO,
    }
}

fn random_client() -> Result<u128, Trouble> {
    let mut bytes = [0; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| Trouble::local(Errno::EIO, format!("no random numbers: {e}")))?;
    Ok(u128::from_le_bytes(bytes))
}

/// Encodes a list of regions for [`Regions::There`].
pub(crate) fn encode_list(regions: &[causeway_wire::fs::Region]) -> Memory {
    let mut out = Writer::new();
    for region in regions {
        out.u64(region.offset);
        out.u64(region.len);
    }
    Memory::from_vec(out.finish())
}

/// The answer to an operation that only succeeds.
pub(crate) fn done(answer: Answer) -> Result<(), Trouble> {
    match answer {
        Answer::Done => Ok(()),
        other => Err(unfit(&other)),
    }
}

/// A server answered something that does not fit the question.
pub(crate) fn unfit(answer: &Answer) -> Trouble {
    let kind = match answer {
        Answer::Done => "done",
        Answer::Node(_) => "a node",
        Answer::Entries { .. } => "directory entries",
        Answer::Transferred { .. } => "a transfer",
        Answer::Objects(_) => "objects",
        Answer::Datafiles { .. } => "datafiles",
        Answer::Checked { .. } => "a check",
        Answer::MetadataStatus { .. } | Answer::StorageStatus { .. } => "a status",
        Answer::Hello(_) => "a greeting",
    };
    Trouble::local(
        Errno::EPROTO,
        format!("the server answered {kind}, which does not fit"),
    )
}

/// A request about one object is printable even without its path.
pub(crate) fn object_name(object: ObjectId) -> Vec<u8> {
    format!("object {}", object.0).into_bytes()
}
