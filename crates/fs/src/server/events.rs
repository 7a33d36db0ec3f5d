//! The server's loop: requests in, answers out.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use causeway_bmi::{Addr, Bmi, Completion, Context, Memory, Posted, Unexpected, Waker};
use causeway_sys::waits;
use causeway_wire::codec::Wire as _;
use causeway_wire::fs::{
    Answer, Caller, Errno, Failure, Generation, Greeting, Incarnation, MAX_MESSAGE_BYTES, ObjectId,
    Operation, Reply, Request, ServerIdentity, Target,
};

use super::callers::Callers;
use super::home::Home;
use super::io::Job;
use super::metadata::Metadata;
use super::reclaim::{Bell, Reclaimer};
use super::staging::Staging;
use super::{MAX_REQUESTS, StopHandle, Ticket};
use crate::config::{Configuration, Durability, ServerEntry};
use crate::data::{Pool, Scratch, Store};

/// Completions and unexpected messages taken at once.
const BATCH: usize = 64;
/// Buffers that have not been wanted for so long are freed. Nothing waits for that.
const KEEP_BUFFERS: Duration = Duration::from_secs(1);
/// Threads for storage that waits for a device.
const POOL_THREADS: usize = 8;
/// How long a stopping server waits for requests in progress: a client that does not take its reply must not keep it.
const LAST_REQUESTS: Duration = Duration::from_secs(5);
/// Most datafiles in one answer to [`Operation::ListData`].
const MAX_LISTED: u32 = 2048;

/// What the loop consists of.
pub(super) struct Loop {
    pub(super) bmi: Bmi,
    pub(super) context: Context,
    name: String,
    file_system: u128,
    synced: bool,
    timeout: Duration,
    /// No request in progress has waited for its client for too long before.
    patrol_at: Instant,
    started: Instant,
    /// Of the host, as clients are told it.
    pub(super) boot: u128,
    stop: StopHandle,
    callers: Callers,
    entries: Vec<Option<Entry>>,
    free: Vec<u16>,
    generation: u32,
    /// What other threads have finished.
    done: Receiver<Done>,
    mailbox: Mailbox,
    /// Jobs that can go on.
    pub(super) runnable: VecDeque<Ticket>,
    /// Jobs that wait for a buffer.
    pub(super) starved: VecDeque<Ticket>,
    pub(super) staging: Staging,
    pub(super) scratch: Scratch,
    pub(super) pool: Pool,
    pub(super) store: Option<Arc<Store>>,
    pub(super) written: u64,
    pub(super) read: u64,
    // The reclaimer stops before the metadata, and both before the directory is released.
    reclaimer: Option<Reclaimer>,
    metadata: Option<Metadata>,
    _home: Home,
}

/// A request in progress.
pub(super) struct Entry {
    pub(super) from: Addr,
    pub(super) reply_tag: u64,
    generation: u32,
    /// When it last got anywhere.
    pub(super) moved: Instant,
    pub(super) state: EntryState,
}

pub(super) enum EntryState {
    /// Another thread works on it.
    Elsewhere,
    /// Data is moved.
    Moving(Box<Job>),
    /// Its reply is on the way.
    Replying,
}

/// What another thread has finished.
pub(super) enum Done {
    /// A request.
    Replies(Vec<(Ticket, Reply)>),
    /// A piece of a job, and how many bytes were found.
    Piece(Ticket, usize, std::io::Result<u64>),
}

/// Brings what other threads finish to the loop.
#[derive(Clone)]
pub(super) struct Mailbox {
    sender: Sender<Done>,
    waker: Waker,
}

impl Mailbox {
    pub(super) fn put(&self, done: Done) {
        // It only fails when the loop has ended, and then nobody waits.
        if self.sender.send(done).is_ok() {
            self.waker.wake();
        }
    }
}

/// What a completion belongs to, as the message layer's `user` number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Reply,
    List,
    Piece(usize),
}

impl Purpose {
    pub(super) fn user(self, ticket: Ticket) -> u64 {
        let low = match self {
            Self::Reply => 0,
            Self::List => 1,
            Self::Piece(index) => 2 + index as u64,
        };
        u64::from(ticket.generation) << 32 | u64::from(ticket.slot) << 16 | low
    }

    fn parse(user: u64) -> (Ticket, Self) {
        let ticket = Ticket {
            slot: (user >> 16) as u16,
            generation: (user >> 32) as u32,
        };
        let purpose = match user & 0xffff {
            0 => Self::Reply,
            1 => Self::List,
            low => Self::Piece(low as usize - 2),
        };
        (ticket, purpose)
    }
}

pub(super) fn failure(errno: Errno, message: impl Into<String>) -> Failure {
    Failure {
        errno,
        message: message.into(),
    }
}

/// A failure of the local file system, as clients see it.
pub(super) fn storage_failure(doing: &str, object: ObjectId, error: &std::io::Error) -> Failure {
    let errno = match error.raw_os_error() {
        Some(number) => u16::try_from(number).map_or(Errno::EIO, Errno),
        None => Errno::EIO,
    };
    let advice = match errno {
        Errno::ENOSPC => ": the server's disk is full",
        Errno::EDQUOT => ": the server's quota is used up",
        _ => "",
    };
    failure(
        errno,
        format!("{doing} datafile {:x}: {error}{advice}", object.0),
    )
}

impl Loop {
    pub(super) fn new(
        configuration: &Configuration,
        entry: &ServerEntry,
        home: Home,
        store: Option<Arc<Store>>,
        mut bmi: Bmi,
        stop: StopHandle,
    ) -> Result<Self, String> {
        let context = bmi.open_context().map_err(|error| error.to_string())?;
        let (sender, done) = channel();
        let mailbox = Mailbox {
            sender,
            waker: bmi.waker(),
        };
        let (mut metadata, mut reclaimer) = (None, None);
        if entry.metadata {
            let bell = Bell::default();
            let mailbox = mailbox.clone();
            let deliver = Box::new(move |replies| mailbox.put(Done::Replies(replies)));
            let opened = Metadata::open(&home.metadata(), configuration, bell.clone(), deliver)
                .map_err(|failure| format!("the metadata cannot be opened: {}", failure.message))?;
            let started = Reclaimer::start(configuration.clone(), opened.service(), bell);
            reclaimer = Some(started.map_err(|error| format!("no thread can start: {error}"))?);
            metadata = Some(opened);
        }
        home.sync()
            .map_err(|error| format!("its directory cannot be made durable: {error}"))?;
        Ok(Self {
            bmi,
            context,
            name: entry.name.clone(),
            file_system: configuration.id,
            synced: configuration.durability == Durability::Synced,
            timeout: configuration.timeout,
            patrol_at: Instant::now() + configuration.timeout,
            started: Instant::now(),
            boot: crate::boot::identity(),
            stop,
            callers: Callers::default(),
            entries: Vec::new(),
            free: Vec::new(),
            generation: 0,
            done,
            mailbox,
            runnable: VecDeque::new(),
            starved: VecDeque::new(),
            staging: Staging::default(),
            scratch: Scratch::default(),
            pool: Pool::new(POOL_THREADS),
            store,
            written: 0,
            read: 0,
            reclaimer,
            metadata,
            _home: home,
        })
    }

    /// Serves until stopped.
    pub(super) fn run(mut self) -> Result<(), String> {
        let mut completions = Vec::with_capacity(BATCH);
        let mut arrived = Vec::with_capacity(BATCH);
        let mut stop_by: Option<Instant> = None;
        loop {
            if stop_by.is_none() && self.stop.is_stopping() {
                stop_by = Some(Instant::now() + LAST_REQUESTS);
            }
            if stop_by.is_some_and(|by| self.busy() == 0 || Instant::now() >= by) {
                break;
            }
            let takes_more = stop_by.is_none() && self.busy() < MAX_REQUESTS;
            self.sleep(takes_more, stop_by, &mut completions)?;
            self.bmi
                .testcontext(self.context, BATCH, Duration::ZERO, &mut completions)
                .map_err(|error| error.to_string())?;
            for completion in completions.drain(..) {
                self.completed(completion);
            }
            while let Ok(done) = self.done.try_recv() {
                self.finished_elsewhere(done);
            }
            if takes_more {
                let most = BATCH.min(MAX_REQUESTS - self.busy().min(MAX_REQUESTS));
                self.bmi
                    .testunexpected(most, Duration::ZERO, &mut arrived)
                    .map_err(|error| error.to_string())?;
                for message in arrived.drain(..) {
                    self.arrived(message);
                }
            }
            self.settle_metadata();
            self.run_jobs();
            if self.busy() > 0 && Instant::now() >= self.patrol_at {
                self.patrol();
            }
        }
        self.end()
    }

    /// Waits for something to do. Every event ends that: a message, a completion, and by the mailbox what another
    /// thread has finished. Of time, only what has to happen then.
    fn sleep(
        &mut self,
        takes_more: bool,
        stop_by: Option<Instant>,
        completions: &mut Vec<Completion>,
    ) -> Result<(), String> {
        let can_run = !self.starved.is_empty() && self.staging.may_take();
        if can_run || !self.runnable.is_empty() {
            return self.wait(takes_more, Duration::ZERO, completions);
        }
        let patrol = (self.busy() > 0).then_some(self.patrol_at);
        let deadline = patrol.into_iter().chain(stop_by).min();
        if deadline.is_none() && self.staging.has_idle() {
            // Buffers are made again within a request, but not for nothing.
            let limit = waits::tidy_after(KEEP_BUFFERS).unwrap_or(Duration::MAX);
            let begun = Instant::now();
            self.wait(takes_more, limit, completions)?;
            if begun.elapsed() >= limit {
                self.staging.shrink();
            }
            return Ok(());
        }
        let idle = deadline.map_or(Duration::MAX, |deadline| {
            deadline.saturating_duration_since(Instant::now())
        });
        self.wait(takes_more, idle, completions)
    }

    fn wait(
        &mut self,
        takes_more: bool,
        idle: Duration,
        completions: &mut Vec<Completion>,
    ) -> Result<(), String> {
        if takes_more {
            self.bmi.wait(self.context, idle);
            return Ok(());
        }
        // Messages that wait to be taken must not keep the loop awake now.
        self.bmi
            .testcontext(self.context, BATCH, idle, completions)
            .map(drop)
            .map_err(|error| error.to_string())
    }

    /// Makes everything durable and lets go of it.
    fn end(mut self) -> Result<(), String> {
        if self.busy() > 0 {
            tracing::warn!(requests = self.busy(), "ending in the middle of requests");
        }
        self.reclaimer = None;
        if self.metadata.is_some() {
            let request = Request {
                reply_tag: 0,
                target: Target::default(),
                client: 0,
                slot: 0,
                sequence: 0,
                caller: Caller::default(),
                operation: Operation::Commit,
            };
            if let Some(metadata) = &self.metadata
                && let Some(Reply {
                    result: Err(failure),
                }) = metadata.now(request)
            {
                return Err(format!("metadata: {}", failure.message));
            }
        }
        self.metadata = None;
        if let Some(store) = &self.store {
            store
                .sync_all()
                .map_err(|error| format!("the datafiles cannot be made durable: {error}"))?;
        }
        Ok(())
    }

    /// Requests in progress.
    fn busy(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Opens an entry for a request that is not answered at once.
    pub(super) fn enter(&mut self, from: Addr, reply_tag: u64, state: EntryState) -> Ticket {
        self.generation = self.generation.wrapping_add(1);
        let entry = Entry {
            from,
            reply_tag,
            generation: self.generation,
            moved: Instant::now(),
            state,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.entries[usize::from(slot)] = Some(entry);
                slot
            }
            None => {
                self.entries.push(Some(entry));
                (self.entries.len() - 1) as u16
            }
        };
        Ticket {
            slot,
            generation: self.generation,
        }
    }

    pub(super) fn entry(&mut self, ticket: Ticket) -> Option<&mut Entry> {
        self.entries
            .get_mut(usize::from(ticket.slot))?
            .as_mut()
            .filter(|entry| entry.generation == ticket.generation)
    }

    fn leave(&mut self, ticket: Ticket) -> Option<Entry> {
        self.entry(ticket)?;
        self.free.push(ticket.slot);
        self.entries[usize::from(ticket.slot)].take()
    }

    fn completed(&mut self, completion: Completion) {
        let (ticket, purpose) = Purpose::parse(completion.user);
        match purpose {
            Purpose::Reply => {
                if let Err(error) = &completion.result {
                    tracing::debug!(%error, "a reply was not delivered");
                }
                if let Some(entry) = self.leave(ticket) {
                    self.bmi.release(entry.from);
                }
            }
            Purpose::List => self.list_arrived(ticket, completion.result),
            Purpose::Piece(index) => self.piece_transferred(ticket, index, completion.result),
        }
    }

    fn finished_elsewhere(&mut self, done: Done) {
        match done {
            Done::Replies(replies) => {
                for (ticket, reply) in replies {
                    self.finish(ticket, reply);
                }
            }
            Done::Piece(ticket, index, result) => self.piece_stored(ticket, index, result),
        }
    }

    /// Answers a request that has an entry.
    pub(super) fn finish(&mut self, ticket: Ticket, reply: Reply) {
        if let Some(entry) = self.leave(ticket) {
            self.respond(entry.from, entry.reply_tag, &reply);
        }
    }

    /// Sends a reply and gives the requester's address back when it has gone.
    pub(super) fn respond(&mut self, to: Addr, tag: u64, reply: &Reply) {
        let mut bytes = reply.to_bytes();
        if bytes.len() > MAX_MESSAGE_BYTES {
            let result = Err(failure(
                Errno::EMSGSIZE,
                format!("the answer has {} bytes; ask for less at once", bytes.len()),
            ));
            bytes = Reply { result }.to_bytes();
        }
        // The entry exists before the reply can complete.
        let ticket = self.enter(to, tag, EntryState::Elsewhere);
        let user = Purpose::Reply.user(ticket);
        let message = Memory::from_vec(bytes);
        let posted = self.bmi.post_send(to, &[message], tag, self.context, user);
        match posted {
            Ok(Posted::Pending(_)) => {
                if let Some(entry) = self.entry(ticket) {
                    entry.state = EntryState::Replying;
                }
            }
            Ok(Posted::Complete(completion)) => self.completed(completion),
            Err(error) => {
                tracing::debug!(%error, "a reply cannot be sent");
                self.leave(ticket);
                self.bmi.release(to);
            }
        }
    }

    /// Takes a request in.
    fn arrived(&mut self, message: Unexpected) {
        let from = message.from;
        let request = match Request::from_bytes(&message.data) {
            Ok(request) => request,
            Err(malformed) => {
                tracing::warn!(%malformed, "a request cannot be understood");
                match Request::reply_tag_of(&message.data) {
                    Some(tag) => {
                        let result = Err(failure(Errno::EPROTO, malformed.to_string()));
                        self.respond(from, tag, &Reply { result });
                    }
                    None => self.bmi.release(from),
                }
                return;
            }
        };
        let identity = self.bmi.identity(from);
        let tag = request.reply_tag;
        if let Err(failure) = self.callers.verify(from, identity, &request.caller) {
            tracing::warn!(failure.message, "a caller is not who it claims to be");
            let result = Err(failure);
            return self.respond(from, tag, &Reply { result });
        }
        match self.dispatch(from, request) {
            Ok(Some(answer)) => self.respond(from, tag, &Reply { result: Ok(answer) }),
            Ok(None) => {}
            Err(failure) => {
                let result = Err(failure);
                self.respond(from, tag, &Reply { result });
            }
        }
    }

    /// Carries a request out; `None` if its answer comes later.
    fn dispatch(&mut self, from: Addr, request: Request) -> Result<Option<Answer>, Failure> {
        let tag = request.reply_tag;
        match request.operation {
            Operation::Hello { .. } => Ok(Some(self.greet())),
            Operation::Read {
                object,
                regions,
                memory,
            } => self.start_read(from, tag, object, regions, memory),
            Operation::Write {
                object,
                regions,
                memory,
                inline,
            } => self.start_write(from, tag, object, regions, memory, inline),
            Operation::Seed { object, content } => {
                self.store_task(from, tag, false, move |store| {
                    store
                        .seed(object, &content)
                        .map(|()| Answer::Done)
                        .map_err(|error| storage_failure("making", object, &error))
                })
            }
            Operation::TruncateData {
                object,
                size,
                version,
            } => self.store_task(from, tag, false, move |store| {
                store
                    .truncate(object, size, version)
                    .map(|()| Answer::Done)
                    .map_err(|error| storage_failure("cutting", object, &error))
            }),
            Operation::Flush { object } => self.store_task(from, tag, false, move |store| {
                store
                    .flush(object)
                    .map(|()| Answer::Done)
                    .map_err(|error| storage_failure("syncing", object, &error))
            }),
            Operation::Remove { objects } => {
                check_operator(&request.caller, "remove datafiles")?;
                let synced = self.synced;
                self.store_task(from, tag, true, move |store| {
                    remove(store, &objects, synced)
                })
            }
            Operation::ListData { after, limit } => {
                check_operator(&request.caller, "list datafiles")?;
                self.store_task(from, tag, false, move |store| {
                    let (datafiles, end) = store
                        .list(after, limit.min(MAX_LISTED) as usize)
                        .map_err(|error| storage_failure("listing from", after, &error))?;
                    Ok(Answer::Datafiles { datafiles, end })
                })
            }
            Operation::StorageStatus => self.storage_status().map(Some),
            _ => self.metadata_request(from, request),
        }
    }

    fn metadata_request(
        &mut self,
        from: Addr,
        request: Request,
    ) -> Result<Option<Answer>, Failure> {
        let Some(metadata) = &self.metadata else {
            return Err(failure(
                Errno::WRONG_SERVER,
                format!("server {} does not keep the metadata", self.name),
            ));
        };
        if let Some(reply) = metadata.answer(&request) {
            return reply.result.map(Some);
        }
        let ticket = self.enter(from, request.reply_tag, EntryState::Elsewhere);
        if let Some(metadata) = &mut self.metadata {
            metadata.change(ticket, request);
        }
        Ok(None)
    }

    fn settle_metadata(&mut self) {
        let replies = match &mut self.metadata {
            Some(metadata) => metadata.settle(),
            None => return,
        };
        for (ticket, reply) in replies {
            self.finish(ticket, reply);
        }
    }

    fn greet(&self) -> Answer {
        let identity = ServerIdentity {
            file_system: self.file_system,
            name: self.name.clone(),
            metadata: self.metadata.is_some(),
            io: self.store.is_some(),
            generation: Generation::NONE,
            index: None,
            incarnation: Incarnation::NONE,
        };
        Answer::Hello(Box::new(Greeting {
            identity,
            pid: std::process::id(),
            uptime_ms: self.started.elapsed().as_millis() as u64,
            boot: self.boot,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            layout: None,
        }))
    }

    fn storage_status(&self) -> Result<Answer, Failure> {
        let space = self
            .store()?
            .space()
            .map_err(|error| failure(Errno::EIO, format!("the storage's size: {error}")))?;
        Ok(Answer::StorageStatus {
            total: space.total,
            free: space.free,
            written: self.written,
            read: self.read,
            busy: self.busy() as u32,
        })
    }

    pub(super) fn store(&self) -> Result<&Arc<Store>, Failure> {
        self.store.as_ref().ok_or_else(|| {
            failure(
                Errno::WRONG_SERVER,
                format!("server {} does not keep datafiles", self.name),
            )
        })
    }

    /// Runs something on the store: here if it is quick, else in the pool.
    fn store_task(
        &mut self,
        from: Addr,
        tag: u64,
        slow: bool,
        task: impl FnOnce(&Store) -> Result<Answer, Failure> + Send + 'static,
    ) -> Result<Option<Answer>, Failure> {
        let store = Arc::clone(self.store()?);
        if store.in_memory() && !slow {
            return task(&store).map(Some);
        }
        let ticket = self.enter(from, tag, EntryState::Elsewhere);
        let mailbox = self.mailbox.clone();
        self.pool.run(move |_| {
            let result = task(&store);
            mailbox.put(Done::Replies(vec![(ticket, Reply { result })]));
        });
        Ok(None)
    }

    pub(super) fn mailbox(&self) -> Mailbox {
        self.mailbox.clone()
    }

    /// Drops the connections of clients that take no part in their requests any more: what they hold
    /// up ends, and they connect again should they ever wake up.
    fn patrol(&mut self) {
        let now = Instant::now();
        let mut stuck = Vec::new();
        // What begins to wait from now on has at least as much time.
        self.patrol_at = now + self.timeout;
        for entry in self.entries.iter_mut().flatten() {
            let waits_for_client = match &entry.state {
                EntryState::Elsewhere => false,
                EntryState::Replying => true,
                EntryState::Moving(job) => job.waits_for_client(),
            };
            let due = entry.moved + self.timeout;
            if !waits_for_client {
                continue;
            } else if due > now {
                self.patrol_at = self.patrol_at.min(due);
            } else if !stuck.contains(&entry.from) {
                stuck.push(entry.from);
            }
        }
        for addr in stuck {
            let client = self.bmi.reverse_lookup(addr).unwrap_or_default();
            tracing::warn!(client, "a client takes no part in its request any more");
            self.bmi.disconnect(addr);
        }
    }
}

/// Only who may do anything, or runs the server, may do this.
fn check_operator(caller: &Caller, doing: &str) -> Result<(), Failure> {
    let own = rustix::process::geteuid().as_raw();
    if caller.uid == 0 || caller.uid == own {
        return Ok(());
    }
    Err(failure(
        Errno::EPERM,
        format!("only root and the servers' user may {doing}"),
    ))
}

fn remove(store: &Store, objects: &[ObjectId], synced: bool) -> Result<Answer, Failure> {
    for &object in objects {
        store
            .remove(object)
            .map_err(|error| storage_failure("removing", object, &error))?;
    }
    if synced && let Some(&first) = objects.first() {
        store
            .sync_removals(objects)
            .map_err(|error| storage_failure("removing", first, &error))?;
    }
    Ok(Answer::Done)
}
