//! The server's loop: requests in, replies out.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant, SystemTime};

use causeway_bmi::{Bmi, Completion, Context, Memory, Posted, Unexpected, Waker};
use causeway_sys::waits;
use causeway_wire::codec::Malformed;
use causeway_wire::fs::formats::{FORMATS, Granted, format_of_refusal, refusal_text};
use causeway_wire::fs::{
    Caller, Errno, Failure, LayoutPart, MAX_MESSAGE_BYTES, Operation, Reply, ReplyBody, Request,
    ServerIdentity, Target,
};
use causeway_wire::home::Enrollment;

use super::access::Access;
use super::append_state::{Appends, set_append_locks_aside};
use super::audit::{Audit, LineLimit};
use super::background::Background;
use super::callers::{Callers, check_operator};
use super::follow_up::FollowUp;
use super::home::Home;
use super::io::Job;
use super::lease_state::{LeaseState, WATCHES_HOLDERS};
use super::lock_state::{LockState, WATCHES_LOCKS};
use super::metadata::{Metadata, first_number};
use super::nodes::NodeRules;
use super::open_programs::{Programs, WATCHES_OPENS};
use super::piece_io::PieceResult;
use super::pointers::{PointerConnection, Pointers};
use super::purpose::Purpose;
use super::seen_append_locks::SeenAppendLocks;
use super::staging::Staging;
use super::stop::StopHandle;
use super::thread_state::{Deliver, Finished, Wakeups};
use super::ticket::{MAX_REQUESTS, ReplyTo, Ticket};
use super::{identity, orphans, reclaim, register, revoker};
use crate::config::{Configuration, Durability, ServerEntry};
use crate::data::{Abandoned, Pool, Scratch, Store};
use crate::error::failure;

/// Most completions and unexpected messages handled in one round.
const BATCH: usize = 64;
/// Buffers that have not been used for this long are freed. No request waits for that.
const KEEP_BUFFERS: Duration = Duration::from_secs(1);
/// Threads for storage that waits for a device.
const POOL_THREADS: usize = 8;
/// How long a stopping server waits for requests in progress: a client that does not receive its reply must not keep it running.
const LAST_REQUESTS: Duration = Duration::from_secs(5);

/// The state of the loop.
pub(super) struct Loop {
    pub(super) bmi: Bmi,
    pub(super) context: Context,
    pub(super) identity: ServerIdentity,
    /// Names of the I/O servers of the configuration.
    pub(super) io_names: Vec<String>,
    pub(super) synced: bool,
    pub(super) timeout: Duration,
    /// Before this instant, no request in progress can have waited for its client for too long.
    pub(super) client_check_at: Instant,
    /// The time at which the present round of the loop began: the clock is not read for each request.
    pub(super) loop_time: Instant,
    pub(super) started: Instant,
    pub(super) lies_told: LineLimit,
    /// The identity of the host's boot, which clients compare with the one that they saw before.
    pub(super) boot: u128,
    stop: StopHandle,
    pub(super) callers: Callers,
    pub(super) access: Access,
    pub(super) audit: Audit,
    pub(super) root_squash: bool,
    /// `None` if nodes do not have to prove their identity.
    pub(super) node_rules: Option<NodeRules>,
    pub(super) entries: Vec<Option<Entry>>,
    free: Vec<u16>,
    generation: u32,
    /// Receives the results of other threads.
    done: Receiver<Done>,
    mailbox: Mailbox,
    /// Jobs that can continue.
    pub(super) runnable: VecDeque<Ticket>,
    /// Jobs that wait for a buffer.
    pub(super) starved: VecDeque<Ticket>,
    pub(super) staging: Staging,
    pub(super) scratch: Scratch,
    pub(super) pool: Pool,
    pub(super) store: Option<Arc<Store>>,
    /// When datafiles that may be marked clean are checked next.
    pub(super) clean_at: Instant,
    /// The pool is checking them now.
    pub(super) cleaning: bool,
    pub(super) written: u64,
    pub(super) read: u64,
    /// The last request was for what its client now copies itself, which takes a while.
    pub(super) clients_copy: bool,
    pub(super) appends: Appends,
    pub(super) locks: LockState,
    pub(super) pointers: Pointers<PointerConnection>,
    pub(super) programs: Programs,
    pub(super) leases: LeaseState,
    pub(super) seen_append_locks: SeenAppendLocks,
    // The other threads stop before the metadata, and all before the directory is released.
    threads: Vec<Background>,
    pub(super) metadata: Option<Metadata>,
    pub(super) home: Home,
}

/// A request in progress.
pub(super) struct Entry {
    pub(super) to: ReplyTo,
    pub(super) generation: u32,
    /// When it last made progress.
    pub(super) last_progress: Instant,
    pub(super) state: EntryState,
}

pub(super) enum EntryState {
    /// Another thread works on the request.
    Elsewhere,
    /// Another thread changes the metadata; the follow-up comes after the change.
    Changing(Box<FollowUp>),
    /// Another thread makes a hole for this client, unless the request is abandoned before.
    Punching(u128, Abandoned),
    /// The job of a read or write is in progress.
    Moving(Box<Job>),
    /// The reply is being sent.
    Replying,
}

/// A result from another thread.
pub(super) enum Done {
    /// Requests.
    Requests(Vec<(Ticket, Finished)>),
    /// A piece of a job, and how many bytes were found.
    Piece(Ticket, usize, crate::data::fault::Result<PieceResult>),
    /// The check of datafiles that may be marked clean has ended.
    Cleaned,
}

/// Passes results of other threads to the loop.
#[derive(Clone)]
pub(super) struct Mailbox {
    sender: Sender<Done>,
    waker: Waker,
}

impl Mailbox {
    pub(super) fn put(&self, done: Done) {
        // Sending fails only when the loop has ended; then no request waits for the result.
        if self.sender.send(done).is_ok() {
            self.waker.wake();
        }
    }
}

/// Opens the metadata and starts the threads that work on them beside the loop.
fn open_metadata(
    configuration: &Configuration,
    home: &Home,
    access: &Access,
    mailbox: Mailbox,
) -> Result<(Metadata, Vec<Background>), String> {
    let wakeups = Wakeups::default();
    let deliver: Deliver = Arc::new(move |finished| mailbox.put(Done::Requests(finished)));
    let generation = home.identity().generation;
    let metadata = Metadata::open(
        &home.metadata(),
        configuration,
        generation,
        wakeups.clone(),
        Arc::clone(&deliver),
    )
    .map_err(|failure| format!("the metadata cannot be opened: {}", failure.message))?;
    let no_thread = |error: std::io::Error| format!("no thread can start: {error}");
    let service = metadata.service();
    let opens = Arc::clone(metadata.reader().opens());
    let (shared, timeout) = (Arc::clone(&service), configuration.timeout);
    let orphans = orphans::start(shared, opens, wakeups.clone(), timeout).map_err(no_thread)?;
    let versions = access.versions().start().map_err(no_thread)?;
    let signer = access.signer().ok_or("there is no key of capabilities")?;
    let client_parts = || (configuration.clone(), Arc::clone(&service), signer.clone());
    let reclaimer = reclaim::start(client_parts(), wakeups.reclaimer).map_err(no_thread)?;
    let registrar = register::start(client_parts(), wakeups.registrar).map_err(no_thread)?;
    let revoker = revoker::start(client_parts(), wakeups.revoker, deliver).map_err(no_thread)?;
    let threads = vec![orphans, reclaimer, registrar, revoker, versions];
    Ok((metadata, threads))
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
        let (mut metadata, mut threads, mut first_append_lock) = (None, Vec::new(), 0);
        let access = Access::new(
            configuration,
            entry.metadata.then_some(entry.directory.as_path()),
        )?;
        if entry.metadata {
            let (opened, started) = open_metadata(configuration, &home, &access, mailbox.clone())?;
            (metadata, threads) = (Some(opened), started);
            first_append_lock =
                set_append_locks_aside(&home.metadata(), first_number(SystemTime::now())).map_err(
                    |error| format!("no numbers of append locks can be set aside: {error}"),
                )?;
        }
        let leases = LeaseState::new(
            entry.metadata.then(|| home.metadata()).as_deref(),
            configuration.lease_time(),
        );
        let identity = identity::of(&home, metadata.as_ref().map(Metadata::incarnation));
        if let Some(store) = &store {
            store.set_incarnation(identity.incarnation);
        }
        home.sync()
            .map_err(|error| format!("its directory cannot be made durable: {error}"))?;
        Ok(Self {
            bmi,
            context,
            identity,
            io_names: configuration.io_names(),
            synced: configuration.durability == Durability::Synced,
            timeout: configuration.timeout,
            client_check_at: Instant::now() + configuration.timeout,
            loop_time: Instant::now(),
            started: Instant::now(),
            boot: crate::boot::identity(),
            stop,
            callers: Callers::default(),
            lies_told: LineLimit::default(),
            access,
            audit: Audit::new(configuration.access.audit, Instant::now()),
            root_squash: configuration.access.root_squash,
            node_rules: NodeRules::of(configuration),
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
            clean_at: Instant::now(),
            cleaning: false,
            written: 0,
            read: 0,
            clients_copy: false,
            appends: Appends::new(first_append_lock, configuration.timeout / 2),
            locks: LockState::default(),
            pointers: Pointers::default(),
            programs: Programs::default(),
            leases,
            seen_append_locks: SeenAppendLocks::default(),
            threads,
            metadata,
            home,
        })
    }

    /// Serves requests until the server is stopped.
    pub(super) fn run(mut self) -> Result<(), String> {
        let mut completions = Vec::with_capacity(BATCH);
        let mut arrived = Vec::with_capacity(BATCH);
        let mut stop_by: Option<Instant> = None;
        loop {
            if stop_by.is_none() && self.stop.is_stopping() {
                stop_by = Some(Instant::now() + LAST_REQUESTS);
            }
            let is_idle = self.busy() == 0 && self.leases.waits.is_empty();
            if stop_by.is_some_and(|by| is_idle || Instant::now() >= by) {
                break;
            }
            let takes_more = stop_by.is_none() && self.busy() < MAX_REQUESTS;
            self.sleep(takes_more, stop_by, &mut completions)?;
            self.loop_time = Instant::now();
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
            self.show_refused();
            self.go_on_with_changes();
            self.apply_metadata_batch();
            self.notify_holders();
            self.revoke_overdue_append_locks();
            self.go_on_with_locks();
            self.notify_lock_clients();
            self.abandon_ended();
            self.run_jobs();
            self.clean_datafiles();
            if self.busy() > 0 && self.loop_time >= self.client_check_at {
                self.disconnect_stuck_clients();
            }
        }
        self.end()
    }

    /// Sleeps until there is work. Every event ends the sleep: a message, a completion, or (by the mailbox) a result of another
    /// thread. A time limit ends it only for work that is due then.
    fn sleep(
        &mut self,
        takes_more: bool,
        stop_by: Option<Instant>,
        completions: &mut Vec<Completion>,
    ) -> Result<(), String> {
        let can_run = self.next_starved().is_some();
        if can_run || !self.runnable.is_empty() || self.locks.table.has_left() {
            return self.wait(takes_more, Duration::ZERO, completions);
        }
        let client_check = (self.busy() > 0).then_some(self.client_check_at);
        let due = client_check.into_iter().chain(stop_by);
        let due = due.chain(self.next_append_lock_due());
        let due = due.chain(self.next_lease_end()).min();
        let deadline = due.into_iter().chain(self.next_cleaning()).min();
        let left = |deadline: Instant| deadline.saturating_duration_since(self.loop_time);
        if due.is_none() && self.staging.has_idle() {
            // Buffers are allocated again when a request needs them, so idle ones are freed only after a while.
            let limit = waits::tidy_after(KEEP_BUFFERS).unwrap_or(Duration::MAX);
            let begun = Instant::now();
            let idle = deadline.map_or(limit, |deadline| limit.min(left(deadline)));
            self.wait(takes_more, idle, completions)?;
            if begun.elapsed() >= limit {
                self.staging.shrink();
            }
            return Ok(());
        }
        let idle = deadline.map_or(Duration::MAX, left);
        self.wait(takes_more, idle, completions)
    }

    fn wait(
        &mut self,
        takes_more: bool,
        idle: Duration,
        completions: &mut Vec<Completion>,
    ) -> Result<(), String> {
        if !idle.is_zero() && self.busy() == 0 && std::mem::take(&mut self.clients_copy) {
            self.bmi.expect_nothing_soon();
        }
        if takes_more {
            self.bmi.wait(self.context, idle);
            return Ok(());
        }
        // Messages for which no request slot is free must not keep the loop awake.
        self.bmi
            .testcontext(self.context, BATCH, idle, completions)
            .map(drop)
            .map_err(|error| error.to_string())
    }

    /// Makes all changes durable, and releases the directory.
    fn end(mut self) -> Result<(), String> {
        if self.busy() > 0 {
            tracing::warn!(requests = self.busy(), "ending in the middle of requests");
        }
        self.threads.clear();
        if let Some(metadata) = &self.metadata {
            let at_end = |failure: Failure| format!("metadata: {}", failure.message);
            let request = Request {
                reply_tag: 0,
                target: Target::default(),
                client: 0,
                slot: 0,
                sequence: 0,
                caller: Caller::default(),
                capability: None,
                opening: None,
                holder: None,
                operation: Operation::Commit,
            };
            if let Some(Reply { result }) = metadata.now(request) {
                result.map_err(at_end)?;
            }
            metadata.expect_no_open_files();
            if metadata.caches().lock().is_empty(Instant::now()) {
                self.leases.mark.clear();
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

    /// A number that changes when a sync of the server's disk has failed.
    pub(super) fn failed_syncs(&self) -> u64 {
        let metadata = self.metadata.as_ref().map_or(0, Metadata::failed_syncs);
        let data = self.store.as_ref().map_or(0, |store| store.failed_syncs());
        metadata.wrapping_add(data)
    }

    /// The number of requests in progress, without changes that wait for leases to end: these must not keep the server from
    /// receiving the messages that end leases.
    pub(super) fn busy(&self) -> usize {
        (self.entries.len() - self.free.len()).saturating_sub(self.leases.waits.len())
    }

    /// Opens an entry for a request that is replied to later.
    pub(super) fn open_entry(&mut self, to: ReplyTo, state: EntryState) -> Ticket {
        self.generation = self.generation.wrapping_add(1);
        let entry = Entry {
            to,
            generation: self.generation,
            last_progress: self.loop_time,
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

    fn close_entry(&mut self, ticket: Ticket) -> Option<Entry> {
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
                if let Some(entry) = self.close_entry(ticket) {
                    self.bmi.release(entry.to.from);
                }
            }
            Purpose::Watch if ticket.slot == WATCHES_LOCKS => {
                self.lock_watch_ended(ticket, &completion);
            }
            Purpose::Watch if ticket.slot == WATCHES_OPENS => {
                self.open_watch_ended(ticket, &completion);
            }
            Purpose::Watch if ticket.slot == WATCHES_HOLDERS => {
                self.holder_watch_ended(ticket, &completion);
            }
            Purpose::Watch => self.watch_ended(ticket, &completion),
            Purpose::List => self.list_arrived(ticket, completion.result),
            Purpose::Piece(index) => self.piece_transferred(ticket, index, completion.result),
        }
    }

    fn finished_elsewhere(&mut self, done: Done) {
        match done {
            Done::Requests(finished) => self.finish_all(finished),
            Done::Piece(ticket, index, result) => self.piece_stored(ticket, index, result),
            Done::Cleaned => self.cleaning = false,
        }
    }

    /// Replies to a request that has an entry.
    pub(super) fn finish(&mut self, ticket: Ticket, reply: Reply) {
        if self.ends_capabilities(ticket, &reply) {
            return;
        }
        self.note_finished(ticket);
        self.note_made(ticket);
        let capability = self.capability_of(ticket, &reply);
        let lease = self.leases.granted_later.remove(&ticket);
        if let Some(entry) = self.close_entry(ticket) {
            let lease = lease.map(|lease| self.lease_for(entry.to.from, lease));
            self.respond_with(entry.to, &reply, &Granted { capability, lease });
        }
    }

    /// Sends a reply, and frees the requester's address when it has been sent.
    pub(super) fn respond(&mut self, to: ReplyTo, reply: &Reply) {
        self.respond_with(to, reply, &Granted::default());
    }

    fn respond_with(&mut self, to: ReplyTo, reply: &Reply, granted: &Granted) {
        self.note_outcome(to, reply);
        let mut bytes = reply.to_bytes_with(granted, to.format);
        if bytes.len() > MAX_MESSAGE_BYTES {
            let result = Err(failure(
                Errno::EMSGSIZE,
                format!("the reply has {} bytes; ask for less at once", bytes.len()),
            ));
            bytes = Reply { result }.to_bytes(to.format);
        }
        // The entry exists before the reply can complete.
        let ticket = self.open_entry(to, EntryState::Elsewhere);
        let user = Purpose::Reply.user(ticket);
        let message = Memory::from_vec(bytes);
        let ReplyTo { from, tag, .. } = to;
        let posted = self
            .bmi
            .post_send(from, &[message], tag, self.context, user);
        match posted {
            Ok(Posted::Pending(_)) => {
                if let Some(entry) = self.entry(ticket) {
                    entry.state = EntryState::Replying;
                }
            }
            Ok(Posted::Complete(completion)) => self.completed(completion),
            Err(error) => {
                tracing::debug!(%error, "a reply cannot be sent");
                self.close_entry(ticket);
                self.bmi.release(from);
            }
        }
    }

    /// Handles a request that has arrived.
    fn arrived(&mut self, message: Unexpected) {
        let from = message.from;
        let (mut request, formats) = match Request::from_bytes(&message.data) {
            Ok(request) => request,
            Err(malformed) => return self.refuse(&message, &malformed),
        };
        let to = ReplyTo {
            from,
            tag: request.reply_tag,
            format: formats.highest,
            record: self.begin_audit(from, &request),
        };
        let result = match self.admit(to, &mut request) {
            Ok(()) => self.dispatch(to, request),
            Err(failure) => Err(failure),
        };
        let granted = Granted {
            capability: self.access.granted.take(),
            lease: (self.leases.granted.take()).map(|lease| self.lease_for(from, lease)),
        };
        if let Some(result) = result.transpose() {
            self.respond_with(to, &Reply { result }, &granted);
        }
    }

    /// Tells the sender of a malformed request why it is refused, if the reply can be encoded in a format that it decodes.
    fn refuse(&mut self, message: &Unexpected, malformed: &Malformed) {
        let from = message.from;
        let theirs = Request::formats_of(&message.data);
        let foreign = theirs.filter(|theirs| !FORMATS.has(theirs.highest));
        let reason = match foreign {
            None => malformed.to_string(),
            Some(theirs) => refusal_text(theirs),
        };
        match foreign.and_then(|theirs| FORMATS.common(theirs)) {
            // The client repeats its request in that format.
            Some(format) => tracing::debug!(format, "a client speaks newer formats, too"),
            None => tracing::warn!(reason, "a request cannot be understood"),
        }
        let asked = message.data.first().copied();
        match (Request::reply_tag_of(&message.data), asked) {
            (Some(tag), Some(asked)) => {
                let format = format_of_refusal(asked);
                let result = Err(failure(Errno::EPROTO, reason));
                let to = ReplyTo {
                    from,
                    tag,
                    format,
                    record: 0,
                };
                self.respond(to, &Reply { result });
            }
            _ => self.bmi.release(from),
        }
    }

    /// Carries out a request; `None` if its reply is sent later.
    fn dispatch(&mut self, to: ReplyTo, request: Request) -> Result<Option<ReplyBody>, Failure> {
        if let Some(opening) = &request.opening {
            self.begin_opening(to, opening)?;
        }
        match request.operation {
            Operation::Hello {
                layout_from,
                timeout_s,
            } => {
                if let Some(metadata) = &self.metadata {
                    metadata.kept_replies.extend(timeout_s)?;
                }
                self.greet(layout_from).map(Some)
            }
            Operation::EndSession => {
                if let Some(metadata) = &self.metadata {
                    metadata.kept_replies.end(request.client);
                }
                Ok(Some(ReplyBody::Done))
            }
            Operation::Enroll {
                index,
                incarnation,
                replace,
            } => {
                self.check_operator(&request, "enroll a server")?;
                let wanted = Enrollment { index, incarnation };
                self.enroll(wanted, replace).map(Some)
            }
            Operation::Authorize => self.authorize(to.from, &request).map(Some),
            Operation::EndCapabilities { .. } => self.end_capabilities(&request).map(Some),
            Operation::BeginAppend { object } => self.begin_append(to, object, request),
            Operation::EndAppend { .. } => self.end_append(to, request),
            Operation::CancelAppend {
                object,
                append_lock,
            } => Ok(Some(self.cancel_append(
                object,
                append_lock,
                request.client,
            ))),
            Operation::CheckAppendLock {
                object,
                append_lock,
                end,
            } => self
                .check_append_lock(object, append_lock, request.client, end)
                .map(Some),
            Operation::MovePointer { .. } => self.move_pointer(to, &request).map(Some),
            Operation::Lock { .. }
            | Operation::Unlock { .. }
            | Operation::TestLock { .. }
            | Operation::CancelLock { .. } => self.lock_request(to, &request).map(Some),
            Operation::CloseFiles { session, handles } => {
                self.close_files(session, &handles);
                Ok(Some(ReplyBody::Done))
            }
            Operation::KeepFiles { session, files } => {
                self.keep_files(to, session, &files).map(Some)
            }
            Operation::HoldLeases {
                holder,
                recalls,
                ended,
            } => self.hold_leases(to, holder, recalls, ended).map(Some),
            Operation::EndLeases { holder } => self.end_leases(holder).map(Some),
            Operation::AddServer { .. }
            | Operation::AcceptServer { .. }
            | Operation::DrainServer { .. } => {
                check_operator(&request.caller, "change the layout")?;
                self.check_layout_change(&request.operation)?;
                self.metadata_request(to, request)
            }
            Operation::Read { .. }
            | Operation::Write { .. }
            | Operation::Seed { .. }
            | Operation::TruncateData { .. }
            | Operation::Flush { .. }
            | Operation::FindData { .. }
            | Operation::FindDescriptor { .. }
            | Operation::PunchData { .. }
            | Operation::ReserveData { .. }
            | Operation::StoredData { .. }
            | Operation::Remove { .. }
            | Operation::ListData { .. }
            | Operation::CheckData { .. }
            | Operation::AcceptData { .. }
            | Operation::RemoveOrphans { .. }
            | Operation::Scrub { .. }
            | Operation::Clock
            | Operation::StorageStatus => self.data_request(to, request),
            _ => self.metadata_request(to, request),
        }
    }

    fn metadata_request(
        &mut self,
        to: ReplyTo,
        request: Request,
    ) -> Result<Option<ReplyBody>, Failure> {
        self.check_metadata()?;
        match self.read_leased(&request) {
            Some(reply) => {
                self.grant_with(&request, to, &reply);
                reply.result.map(Some)
            }
            None => self.take_metadata_request(to, request).map(|_| None),
        }
    }

    pub(super) fn check_metadata(&self) -> Result<(), Failure> {
        match self.metadata {
            Some(_) => Ok(()),
            None => Err(failure(
                Errno::WRONG_SERVER,
                format!("server {} does not keep the metadata", self.identity.name),
            )),
        }
    }

    /// The reply to a request that only reads metadata, and few records of them.
    pub(super) fn read_metadata(&self, request: &Request) -> Option<Reply> {
        self.metadata.as_ref()?.reply_to(request)
    }

    /// Hands a request to the metadata's thread or batch; it is replied to later.
    pub(super) fn take_metadata_request(
        &mut self,
        to: ReplyTo,
        request: Request,
    ) -> Result<Ticket, Failure> {
        self.check_metadata()?;
        let state = FollowUp::of(&request, to.format, self.node_number(to.from)).map(Box::new);
        let state = state.map_or(EntryState::Elsewhere, EntryState::Changing);
        let ticket = self.open_entry(to, state);
        if let Some(until) = self.earlier_leases_end(&request) {
            self.wait_until(ticket, request, until);
        } else if let Some(metadata) = &mut self.metadata {
            metadata.take(ticket, request);
        }
        Ok(ticket)
    }

    fn apply_metadata_batch(&mut self) {
        let finished = match &mut self.metadata {
            Some(metadata) => metadata.apply_batch(),
            None => return,
        };
        self.finish_all(finished);
    }

    fn finish_all(&mut self, finished: Vec<(Ticket, Finished)>) {
        for (ticket, finished) in finished {
            match finished {
                Finished::Reply(reply, lease) => {
                    self.leases
                        .granted_later
                        .extend(lease.map(|lease| (ticket, lease)));
                    self.finish(ticket, reply);
                }
                Finished::Waits(request, alters) => self.wait_for_leases(ticket, request, alters),
            }
        }
    }

    /// The part of the layout that begins at server `from`, as the metadata server has it.
    pub(super) fn layout_part(&self, from: u16) -> Option<LayoutPart> {
        let metadata = self.metadata.as_ref()?;
        Some(metadata.layout().part(from))
    }

    pub(super) fn mailbox(&self) -> Mailbox {
        self.mailbox.clone()
    }
}
