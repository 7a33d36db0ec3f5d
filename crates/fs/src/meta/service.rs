//! Batches of requests, each executed on top of the changes of those before it, and committed once.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use causeway_wire::codec::Wire;
use causeway_wire::fs::formats::GrantedLease;
use causeway_wire::fs::{
    Body, Caller, DistributionHint, Errno, Failure, Generation, Incarnation, Leased,
    MAX_STUFFED_BYTES, ObjectId, Operation, Reply, ReplyBody, Request, Target, Timestamp,
};
use causeway_wire::store::{
    COUNTERS_KEY, Counter, Counters, GAPS_KEY, Gaps, Key, MAX_GAPS, NEXT_OBJECT_KEY, ObjectRecord,
    PROGRAMS_KEY, SUPERBLOCK_KEY, Superblock, object_key,
};

use super::cache_leases::CacheLeases;
use super::change::Change;
use super::fault::{Outcome, corrupt, fail};
use super::layout::{self, Layout};
use super::leases_of_change::LeasesOfChange;
use super::opens::{Opens, Registered};
use super::overlay::Overlay;
use super::query::{Query, read_counters, read_record};
use super::session::{Leases, Sessions, Verdict};
use super::settings::{Format, Settings};
use super::store::fjall::{Fjall, Options};
use super::store::{Batch, FreeSpace, Persist, Store, StoreError, View};
use super::striped::read_gaps;
use crate::config::Durability;
use crate::failed_syncs::FailureCount;
use crate::files::sync_name;
use crate::locks;

mod dispatch;
mod promises;
mod reader;
mod recovery;
pub(super) mod removals;
mod space;

use dispatch::dispatch;
use promises::{binds_datafiles, is_promised};
pub use reader::Reader;
use reader::{Shared, SharedLayout, current, register_opening};

/// Name of the file that exists once the store is not new.
const MARKER: &str = "formatted";
/// Object numbers are set aside in the store this many at a time.
const RESERVED_OBJECTS: u64 = 1 << 16;
/// Object numbers that are left out after acknowledged changes were lost: more than those can have set
/// aside, so that no number is given out twice.
const SKIPPED_OBJECTS: u64 = 1 << 40;

/// What has become of a request.
#[derive(Clone)]
pub(crate) enum Executed {
    /// The reply, and leases that come with it.
    Reply(Reply, Option<GrantedLease>),
    /// Nothing: it would alter this, and clients have leases on some of it.
    Waits(Vec<Leased>),
}

type Opener = Box<dyn Fn() -> Result<Arc<dyn Store>, StoreError> + Send>;

/// The metadata of one file system. See the module for how it is driven.
pub struct Service {
    pub(super) settings: Settings,
    open: Opener,
    /// Empty only while a failed store cannot be opened again.
    store: Shared,
    /// Whether the store takes no changes until it has been opened again.
    has_failed: bool,
    layout: SharedLayout,
    incarnation: Incarnation,
    directory: Option<PathBuf>,
    failed_syncs: Option<Arc<FailureCount>>,
    pub(super) counters: Counters,
    sessions: Sessions,
    opens: Arc<Opens>,
    caches: Arc<CacheLeases>,
    next_object: u64,
    reserved_until: u64,
    /// Numbers below this are not used any more.
    least_object: u64,
    gaps: Gaps,
    /// Bytes that the store could not free last time.
    left_garbage_bytes: u64,
}

impl Service {
    /// Opens the metadata in `directory`, or makes an empty file system there if that is allowed.
    pub fn open(directory: &Path, settings: Settings) -> Result<Self, Failure> {
        if settings.format == Format::Refused && !directory.join(MARKER).exists() {
            return Err(no_metadata(&directory.display().to_string()));
        }
        let path = directory.to_owned();
        // Only the first opening may make a new store: a store that fails later is never replaced by one.
        let first = AtomicBool::new(true);
        let format = settings.format;
        let opener = move || -> Result<Arc<dyn Store>, StoreError> {
            let is_first = first.load(Ordering::Relaxed);
            let verify_bytes = match is_first {
                true => Options::default().verify_bytes,
                // Tables that were whole at the start are verified block by block when they are read.
                false => 0,
            };
            let options = Options {
                format: is_first && format == Format::Allowed,
                verify_bytes,
                ..Options::default()
            };
            let store = Fjall::open_with(&path, &options)?;
            first.store(false, Ordering::Relaxed);
            Ok(Arc::new(store) as Arc<dyn Store>)
        };
        let mut service = Self::start(Box::new(opener), Some(directory.to_owned()), settings)?;
        let counter = FailureCount::open(directory)
            .or_else(|error| fail(Errno::EIO, format!("{}: {error}", directory.display())))?;
        service.failed_syncs = Some(Arc::new(counter));
        Ok(service)
    }

    /// The number of failed syncs of the disk, where it is kept.
    pub(crate) fn failed_syncs(&self) -> Option<Arc<FailureCount>> {
        self.failed_syncs.clone()
    }

    /// Opens the metadata in the store that `open` returns. It is called again when the store fails.
    pub fn with_opener(open: Opener, settings: Settings) -> Result<Self, Failure> {
        Self::start(open, None, settings)
    }

    fn start(
        open: Opener,
        directory: Option<PathBuf>,
        settings: Settings,
    ) -> Result<Self, Failure> {
        if settings.stuffed_limit > MAX_STUFFED_BYTES || settings.io_servers.is_empty() {
            return fail(
                Errno::EINVAL,
                format!(
                    "settings: {} I/O servers (at least 1), {} bytes beside metadata (at most \
                     {MAX_STUFFED_BYTES})",
                    settings.io_servers.len(),
                    settings.stuffed_limit
                ),
            );
        }
        let opens = Arc::new(Opens::new(settings.open_files));
        let caches = Arc::new(CacheLeases::new(settings.lease_time));
        let mut service = Self {
            settings,
            open,
            store: Shared::default(),
            has_failed: false,
            layout: SharedLayout::default(),
            incarnation: Incarnation::NONE,
            directory,
            failed_syncs: None,
            counters: Counters::default(),
            sessions: Sessions::default(),
            opens,
            caches,
            next_object: 0,
            reserved_until: 0,
            least_object: 0,
            gaps: Gaps::default(),
            left_garbage_bytes: 0,
        };
        service.reopen()?;
        Ok(service)
    }

    /// A handle that serves requests that change nothing.
    pub fn reader(&self) -> Reader {
        Reader {
            store: self.store.clone(),
            layout: self.layout.clone(),
            opens: Arc::clone(&self.opens),
        }
    }

    /// How long replies are kept, which clients' time-outs extend.
    pub fn leases(&self) -> Leases {
        self.sessions.leases.clone()
    }

    /// The files that programs have open.
    pub(crate) fn opens(&self) -> &Arc<Opens> {
        &self.opens
    }

    /// The leases on names and attributes.
    pub(crate) fn caches(&self) -> &Arc<CacheLeases> {
        &self.caches
    }

    /// Whether the store takes no changes until it has been opened again.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// The incarnation of these metadata.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The target that requests for these metadata must carry.
    pub fn target(&self) -> Target {
        Target {
            file_system: self.settings.file_system,
            generation: self.settings.generation,
            incarnation: self.incarnation,
        }
    }

    /// The I/O servers.
    pub fn layout(&self) -> Arc<Layout> {
        self.reader().layout()
    }

    /// Notes, durably, that the directory of an I/O server is registered.
    pub fn register(&mut self, index: u16, generation: Generation) -> Result<(), Failure> {
        let Some(batch) = self.layout().register(index, generation) else {
            return fail(Errno::EINVAL, format!("there is no server number {index}"));
        };
        self.recover()?;
        let store = self.store()?;
        self.commit(store, &batch, Persist::Power)?;
        self.load_layout(&*self.store()?.snapshot()?)
    }

    /// Commits a batch. After a failure, the store is recovered if that is possible at once.
    pub(super) fn commit(
        &mut self,
        store: Arc<dyn Store>,
        batch: &Batch,
        persist: Persist,
    ) -> Outcome<()> {
        let committed = store.commit(batch, persist);
        drop(store);
        committed.map_err(|error| self.note_failure(error.into()))
    }

    fn load_layout(&self, view: &dyn View) -> Outcome<()> {
        let layout = Layout::load(view)?;
        *locks::write(&self.layout) = Arc::new(layout);
        Ok(())
    }

    /// Executes requests in order and commits their changes, together as far as there is room for a commit
    /// of that size. The replies are in the same order; what they promise holds when the call returns. A change of what
    /// clients have leases on fails with [`Errno::RETRY`].
    pub fn apply(&mut self, requests: &[Request], now: Timestamp) -> Vec<Reply> {
        let reply = |executed| match executed {
            Executed::Reply(reply, _) => reply,
            Executed::Waits(_) => Reply {
                result: fail(Errno::RETRY, "clients have leases on what it changes"),
            },
        };
        self.execute_all(requests, now)
            .into_iter()
            .map(reply)
            .collect()
    }

    /// As [`Service::apply`], and returns what changes alter that must wait for the leases of clients.
    pub(crate) fn execute_all(&mut self, requests: &[Request], now: Timestamp) -> Vec<Executed> {
        let mut replies = Vec::with_capacity(requests.len());
        let mut rest = requests;
        while !rest.is_empty() {
            let limit = self
                .store()
                .map_or(u64::MAX, |store| store.max_batch_bytes());
            let (batch, others) = rest.split_at(Self::batch_len(rest, limit));
            replies.extend(self.apply_batch(batch, now));
            rest = others;
        }
        // The others open files later.
        let executed = requests.iter().zip(&replies);
        let executed = executed.filter(|(_, executed)| matches!(executed, Executed::Reply(..)));
        let openings = executed.filter_map(|(request, _)| request.opening.as_ref());
        self.opens
            .settle(openings.map(|opening| (opening.session, opening.handle)));
        replies
    }

    fn apply_batch(&mut self, requests: &[Request], now: Timestamp) -> Vec<Executed> {
        if let Err(failure) = self.recover() {
            let result = Err(failure);
            return vec![Executed::Reply(Reply { result }, None); requests.len()];
        }
        if requests
            .iter()
            .any(|request| needs_space(&request.operation))
        {
            self.make_room();
        }
        self.caches.lock().begin_batch();
        let mut of_changes = Vec::new();
        let mut executed = match self.try_apply(requests, now, &mut of_changes) {
            Ok(executed) => {
                self.trim_journals();
                executed
            }
            Err(failure) => {
                of_changes.clear();
                let replies = self.replies_after_failure(requests, failure).into_iter();
                let executed = replies.map(|reply| Executed::Reply(reply, None));
                executed.collect()
            }
        };
        for (index, granted) in self.end_caches_batch(of_changes) {
            if let Some(Executed::Reply(_, lease)) = executed.get_mut(index) {
                *lease = Some(granted);
            }
        }
        self.opens.end_batch();
        executed
    }

    /// A batch is committed, or has failed. If the state after a failed batch is unknown, no leases are granted on what is read meanwhile.
    /// Returns the granted leases, each with its request's place in the batch.
    pub(super) fn end_caches_batch(
        &self,
        mut of_changes: Vec<LeasesOfChange>,
    ) -> Vec<(usize, GrantedLease)> {
        let mut caches = self.caches.lock();
        if self.has_failed {
            caches.suspend();
            return Vec::new();
        }
        for leases in &mut of_changes {
            leases.note_later_changes(&caches);
        }
        caches.end_batch();
        let now = Instant::now();
        let granted = of_changes.into_iter().filter_map(|leases| {
            let index = leases.index;
            Some((index, leases.grant(&mut caches, now)?))
        });
        granted.collect()
    }

    fn try_apply(
        &mut self,
        requests: &[Request],
        now: Timestamp,
        of_changes: &mut Vec<LeasesOfChange>,
    ) -> Outcome<Vec<Executed>> {
        let store = self.store()?;
        let mut state = Overlay::new(store.snapshot()?);
        let before = self.counters;
        let room = store.room(self.settings.reserve_bytes);
        let mut commit = false;
        let mut promised = false;
        let mut replies = Vec::with_capacity(requests.len());
        for (index, request) in requests.iter().enumerate() {
            commit |= request.operation == Operation::Commit;
            promised = promised || is_promised(&state, &request.operation);
            let mut number = 0;
            let executed = self.execute(&mut state, request, now, &room, &mut number);
            if number > 0
                && let Executed::Reply(reply, _) = &executed
            {
                of_changes.extend(LeasesOfChange::of((index, number), request, reply, &state));
            }
            replies.push(executed);
        }
        if self.has_failed {
            return fail(
                Errno::EIO,
                "object numbers could not be set aside: the metadata's disk has failed",
            );
        }
        self.sessions.sweep(&mut state);
        if self.counters != before {
            state.put(COUNTERS_KEY.to_vec(), self.counters.to_bytes());
        }
        let changes = state.into_changes();
        let persist = match self.settings.durability {
            Durability::Synced if promised => Persist::Power,
            Durability::Relaxed if requests.iter().any(binds_datafiles) => Persist::Power,
            Durability::Synced | Durability::Relaxed if commit => Persist::Power,
            Durability::Synced | Durability::Relaxed => Persist::Process,
        };
        if !changes.is_empty() {
            store.commit(&changes, persist)?;
            if layout::is_changed_by(&changes) {
                self.load_layout(&*store.snapshot()?)?;
            }
        } else if commit {
            store.sync()?;
        }
        Ok(replies)
    }

    /// Executes one request; its changes are in `state` only if it succeeds, and then `number` is set to the change's number in the batch, if that
    /// is noted.
    fn execute(
        &mut self,
        state: &mut Overlay,
        request: &Request,
        now: Timestamp,
        room: &FreeSpace,
        number: &mut u64,
    ) -> Executed {
        let query = Query {
            view: &*state,
            caller: &request.caller,
        };
        if let Some(result) = query.execute(&request.operation) {
            let result = result.and_then(|reply| self.opened(request, reply));
            return Executed::Reply(Reply { result }, None);
        }
        let admitted = self
            .sessions
            .admit(&*state, request, self.settings.max_sessions);
        if let Verdict::Done(Reply { result }) = admitted {
            let result = result.and_then(|reply| self.opened(request, reply));
            return Executed::Reply(Reply { result }, None);
        }
        state.begin();
        let before = self.counters;
        let result = match room {
            FreeSpace::Nothing(why) => fail(Errno::ENOSPC, why.as_str()),
            FreeSpace::Removals(why) if needs_space(&request.operation) => {
                fail(Errno::ENOSPC, why.as_str())
            }
            FreeSpace::Removals(_) | FreeSpace::Enough => {
                let has_room = *room == FreeSpace::Enough;
                let changed = self.change(state, request, has_room, now);
                if changed.is_ok() {
                    match self.admit(state, request) {
                        Ok(noted) => *number = noted,
                        Err(alters) => {
                            state.roll_back();
                            self.counters = before;
                            return Executed::Waits(alters);
                        }
                    }
                }
                changed.and_then(|reply| self.opened(request, reply))
            }
        };
        let result = match result {
            Ok(reply) => Ok(reply),
            Err(failure) => {
                state.roll_back();
                self.counters = before;
                self.remove_again(state, &request.operation)
                    .and(Err(failure))
            }
        };
        let reply = Reply { result };
        self.sessions.remember(state, request, &reply);
        Executed::Reply(reply, None)
    }

    /// Notes what a request has changed in `state`, unless clients other than its own have leases on that. Returns the change's number.
    fn admit(&self, state: &Overlay, request: &Request) -> Result<u64, Vec<Leased>> {
        let alters = state.changed().filter_map(|key| match Key::parse(key) {
            Ok(Key::Object(object)) => Some(Leased::Attributes(object)),
            Ok(Key::Entry(directory, name)) => Some(Leased::Entry(directory, name)),
            _ => None,
        });
        let mut caches = self.caches.lock();
        caches.admit(request.holder, alters, Instant::now())
    }

    fn change(
        &mut self,
        state: &mut Overlay,
        request: &Request,
        has_room: bool,
        now: Timestamp,
    ) -> Outcome<ReplyBody> {
        self.reserve()?;
        let operation = &request.operation;
        self.with_change(state, &request.caller, has_room, now, |change| {
            dispatch(change, operation)
        })
    }

    /// Carries out a change on behalf of a caller.
    pub(super) fn with_change<T>(
        &mut self,
        state: &mut Overlay,
        caller: &Caller,
        has_room: bool,
        now: Timestamp,
        work: impl FnOnce(&mut Change<'_>) -> Outcome<T>,
    ) -> Outcome<T> {
        let layout = self.layout();
        let mut change = Change {
            layout: &layout,
            opens: &self.opens,
            has_room,
            state,
            counters: &mut self.counters,
            caller,
            settings: &self.settings,
            now,
            new_object: ObjectId(self.next_object),
            used_new_object: false,
            least_version: self.least_object,
        };
        let done = work(&mut change);
        // A number is used up even if the request fails afterwards.
        self.next_object += u64::from(change.used_new_object);
        done
    }

    /// Notes that a request has opened a file, if it has, in the state of the batch.
    fn opened(&self, request: &Request, reply: ReplyBody) -> Outcome<ReplyBody> {
        match register_opening(&self.opens, request, &reply, None) {
            Some(Registered::Full(why)) => Err(why),
            _ => Ok(reply),
        }
    }

    /// Sets object numbers aside, durably, before the last one is given out: none is ever given out again, even if
    /// the store loses its latest changes.
    fn reserve(&mut self) -> Outcome<()> {
        if self.next_object < self.reserved_until {
            return Ok(());
        }
        let until = self.next_object.saturating_add(RESERVED_OBJECTS);
        let mut batch = Batch::new();
        batch.insert(NEXT_OBJECT_KEY.to_vec(), Some(Counter(until).to_bytes()));
        batch.insert(GAPS_KEY.to_vec(), Some(self.gaps.to_bytes()));
        if let Err(error) = self.store()?.commit(&batch, Persist::Power) {
            self.has_failed = true;
            return Err(error.into());
        }
        self.reserved_until = until;
        Ok(())
    }

    /// Gives out no object number and no version of a truncation below `least` from now on. These metadata may be an
    /// older copy that was restored: the numbers behind those in it may have been used since it was made.
    pub fn skip_numbers(&mut self, least: u64) {
        self.least_object = self.least_object.max(least);
        if self.next_object >= self.least_object {
            return;
        }
        let gaps = &mut self.gaps.0;
        gaps.push((self.next_object, self.least_object));
        if gaps.len() > MAX_GAPS {
            // Numbers between the two count as never given out, which only costs extra care with them.
            let second = gaps.remove(1);
            gaps[0].1 = second.1;
        }
        self.next_object = self.least_object;
        self.reserved_until = self.least_object;
    }

    /// Opens the store, or opens it again.
    fn reopen(&mut self) -> Outcome<()> {
        let store = self.open_store()?;
        if store.snapshot()?.get(SUPERBLOCK_KEY)?.is_none() {
            self.format(&*store)?;
        }
        self.settings.format = Format::Refused;
        let view = store.snapshot()?;
        let superblock: Superblock = read_record(&*view, SUPERBLOCK_KEY, "the superblock")?;
        self.check_superblock(&superblock)?;
        self.incarnation = superblock.incarnation;
        self.load_layout(&*view)?;
        let next = read_next_object(&*view)?;
        self.next_object = next;
        self.reserved_until = next;
        self.gaps = read_gaps(&*view)?;
        self.skip_numbers(self.least_object);
        self.counters = read_counters(&*view)?;
        self.sessions.reload(&*view)?;
        self.opens.set_marked(view.get(PROGRAMS_KEY)?.is_some());
        Ok(())
    }

    /// Refuses the metadata of another file system, or of another directory.
    fn check_superblock(&self, found: &Superblock) -> Outcome<()> {
        let Settings {
            file_system,
            generation,
            ..
        } = self.settings;
        if found.file_system != file_system {
            return fail(
                Errno::EINVAL,
                format!(
                    "the metadata belong to file system {:032x}, the configuration to {file_system:032x}: wrong \
                     directory or wrong configuration",
                    found.file_system
                ),
            );
        }
        if found.generation != generation {
            return fail(
                Errno::EINVAL,
                format!(
                    "the metadata are of a directory of generation {}, this one has {generation}: they were copied \
                     here from elsewhere; restore the directory as a whole",
                    found.generation
                ),
            );
        }
        Ok(())
    }

    /// Makes an empty file system.
    fn format(&self, store: &dyn Store) -> Outcome<()> {
        if self.settings.format == Format::Refused {
            return Err(corrupt(
                "the metadata have no superblock: their records are gone, or they were never formatted",
            ));
        }
        if let Some(marker) = self.marker().filter(|marker| marker.exists()) {
            return Err(corrupt(format_args!(
                "{} says that there was a file system here, but its records are gone: restore the \
                 directory from a backup, or remove it to start with an empty file system",
                marker.display()
            )));
        }
        if let Some(pair) = store.snapshot()?.range(b"\0", b"\xff").next() {
            let (key, _) = pair?;
            return Err(corrupt(format_args!(
                "the metadata have no superblock, but a record under {key:02x?}"
            )));
        }
        let (uid, gid) = self.settings.root_owner;
        let root = ObjectRecord {
            mode: self.settings.root_mode,
            uid,
            gid,
            links: 2,
            size: 0,
            accessed: Timestamp::default(),
            modified: Timestamp::default(),
            changed: Timestamp::default(),
            parent: ObjectId::ROOT,
            name: Vec::new(),
            // When a file is made, the configuration fills in the missing values.
            body: Body::Directory(DistributionHint::default()),
        };
        let superblock = Superblock {
            file_system: self.settings.file_system,
            generation: self.settings.generation,
            incarnation: self.settings.incarnation,
        };
        let counters = Counters {
            objects: 1,
            removals: 0,
        };
        let mut batch = Batch::new();
        batch.insert(SUPERBLOCK_KEY.to_vec(), Some(superblock.to_bytes()));
        batch.insert(object_key(ObjectId::ROOT), Some(root.to_bytes()));
        let next = Counter(ObjectId::ROOT.0 + 1);
        batch.insert(NEXT_OBJECT_KEY.to_vec(), Some(next.to_bytes()));
        batch.insert(COUNTERS_KEY.to_vec(), Some(counters.to_bytes()));
        Layout::new(&self.settings.io_servers).store(&mut batch);
        store.commit(&batch, Persist::Power)?;
        self.mark_formatted()
    }

    /// Makes a file beside the store that shows that it is not empty: a store that has lost everything must not be taken
    /// for a new one.
    fn mark_formatted(&self) -> Outcome<()> {
        let Some(path) = self.marker() else {
            return Ok(());
        };
        let written = std::fs::File::create(&path)
            .and_then(|marker| marker.sync_all())
            .and_then(|()| sync_name(&path));
        written.or_else(|error| fail(Errno::EIO, format!("{}: {error}", path.display())))
    }

    fn marker(&self) -> Option<PathBuf> {
        self.directory
            .as_ref()
            .map(|directory| directory.join(MARKER))
    }

    pub(super) fn store(&self) -> Outcome<Arc<dyn Store>> {
        current(&self.store)
    }

    /// The settings with which the service was opened.
    #[cfg(test)]
    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Advances the sessions' clock.
    #[cfg(test)]
    pub(super) fn pass_time(&mut self, seconds: u64) {
        self.sessions.pass_time(seconds);
    }

    /// The number of slots that are remembered.
    #[cfg(test)]
    pub(super) fn sessions(&self) -> usize {
        self.sessions.len()
    }
}

/// Accepts that the metadata in `directory` have lost acknowledged changes, so that they can be opened again; returns
/// whether there were any. What is lost is listed in the log, and what is cut out of the journal is
/// kept beside it.
pub fn accept_loss(directory: &Path) -> Result<bool, Failure> {
    let options = Options {
        format: false,
        accept_loss: true,
        ..Options::default()
    };
    let store = Fjall::open_whole(directory, &options)?;
    if !store.has_lost() {
        return Ok(false);
    }
    // Numbers that the lost changes have used must not be used again.
    let next = read_next_object(&*store.snapshot()?)?;
    let skipped = Counter(next.saturating_add(SKIPPED_OBJECTS));
    let batch = Batch::from([(NEXT_OBJECT_KEY.to_vec(), Some(skipped.to_bytes()))]);
    store.commit(&batch, Persist::Power)?;
    Ok(true)
}

/// Object numbers from this one on were not set aside.
fn read_next_object(view: &dyn View) -> Outcome<u64> {
    let next: Counter = read_record(view, NEXT_OBJECT_KEY, "the record of numbers")?;
    Ok(next.0)
}

/// The error that there are no metadata where they should be.
fn no_metadata(place: &str) -> Failure {
    corrupt(format_args!(
        "there are no metadata in {place}, where they should be: if its disk is not mounted, mount it; otherwise \
         restore the directory from a backup"
    ))
}

/// Whether an operation is refused on a full disk.
fn needs_space(operation: &Operation) -> bool {
    !matches!(
        operation,
        Operation::Unlink { .. }
            | Operation::RemoveDirectory { .. }
            | Operation::Commit
            | Operation::RemoveXattr { .. }
            | Operation::FinishTruncate { .. }
            | Operation::FinishUnstuff { .. }
            | Operation::Truncate { .. }
            | Operation::Check { .. }
            | Operation::AcceptServer { .. }
            | Operation::DrainServer { .. }
    )
}
