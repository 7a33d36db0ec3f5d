//! The store in [fjall](https://docs.rs/fjall): a log-structured merge tree with one journal, so that
//! a batch of any size costs one append and at most one `fdatasync`.
//!
//! The files on the disk are verified before the engine opens them (`verify`, `journal`, `mark`), and each
//! value carries a seal ([`causeway_wire::store::seal`]): a flipped bit is an error that names the file.
//! `space` keeps room for removals, and `upkeep` reclaims what removals have freed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use causeway_wire::store::{Mark, Stamp, seal, unseal};
use fjall::{
    AbstractTree, CompressionType, Database, Keyspace, KeyspaceCreateOptions, LsmError,
    PersistMode, Readable, Snapshot,
    compaction::Leveled,
    config::{BlockSizePolicy, CompressionPolicy},
};

mod batch;
mod fields;
mod journal;
mod mark;
mod reclaim;
mod space;
mod upkeep;
mod verify;

use self::reclaim::Views;
use self::space::{Space, Used};
use self::upkeep::{Progress, Upkeep};
use crate::files::sync_directory;
use crate::locks::lock;
use crate::sabotage::{self, Sabotage};

use super::{
    Batch, FreeSpace, Garbage, Pair, Pairs, Persist, Store, StoreError, StoreErrorKind, View,
};

const NAME: &str = "fjall";
/// Memory for blocks read from tables.
const CACHE_BYTES: u64 = 32 << 20;
/// The journal, which is replayed when the store is opened, is kept below about this size.
const JOURNAL_BYTES: u64 = 128 << 20;
/// The engine's own threads: one writes tables out while the other merges them.
const WORKERS: usize = 2;
/// Tables are read whole at the start up to this many bytes of them, which takes about a second. Further
/// ones are verified block by block when they are read.
const VERIFY_BYTES: u64 = 1 << 30;
/// The disk's free space is looked up again after this many bytes, or this long.
const RECHECK_BYTES: u64 = 64 << 10;
const RECHECK_EVERY: Duration = Duration::from_millis(100);
/// Freeing space is worthwhile once it may free this part of a table in memory.
const WORTHWHILE_DIVISOR: u64 = 4;

/// The boot in a mark when a sync has failed, or the host's boot is not known: what was not synced may be lost.
const UNKNOWN_BOOT: u128 = 0;

/// How to open a store.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Make a new store where there is none.
    pub format: bool,
    /// Open a store that has lost acknowledged changes, without them. They are listed in the log, and what
    /// is cut out of the journal is kept beside it.
    pub accept_loss: bool,
    /// How many bytes of tables are read whole before the store is opened.
    pub verify_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            format: true,
            accept_loss: false,
            verify_bytes: VERIFY_BYTES,
        }
    }
}

/// A store in a directory.
pub struct Fjall {
    // Ends before the engine is closed.
    upkeep: Upkeep,
    engine: Arc<Engine>,
    lost: bool,
}

/// The engine, and what is known about it.
struct Engine {
    directory: PathBuf,
    database: Database,
    pairs: Keyspace,
    space: Space,
    /// Held during each commit.
    progress: Mutex<Progress>,
    mark: Mutex<Mark>,
    checked: Mutex<RoomCheck>,
    views: Views,
    /// Held while tables are merged on this module's request.
    merging: Mutex<()>,
    /// The damaged file, once a read has failed.
    damaged: OnceLock<String>,
    /// The reason why no changes are accepted, once there is one.
    refusal: OnceLock<StoreError>,
}

/// When the free space was looked up, and the result.
struct RoomCheck {
    at: Instant,
    /// Bytes that had been committed then.
    bytes: u64,
    reserve: u64,
    room: FreeSpace,
}

/// What was found on the disk before the engine opened the store.
struct StoreContents {
    mark: Mark,
    journals: journal::Journals,
    /// Whether acknowledged changes were given up.
    lost: bool,
    /// Whether journals may be in memory only, as a sync has failed since the host was booted.
    is_suspect: bool,
}

impl Fjall {
    /// Whether acknowledged changes were given up when the store was opened.
    pub fn has_lost(&self) -> bool {
        self.lost
    }

    /// Opens the store in `directory`, or makes one there.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        Self::open_whole(directory, &Options::default())
    }

    /// As [`Fjall::open_with`], but a suspect store is written out first.
    pub fn open_whole(directory: &Path, options: &Options) -> Result<Self, StoreError> {
        let mut store = Self::open_with(directory, options)?;
        if store.is_suspect() {
            let lost = store.lost;
            store.write_out()?;
            drop(store);
            store = Self::open_with(directory, options)?;
            store.lost |= lost;
        }
        Ok(store)
    }

    /// Opens the store in `directory`. It may be suspect ([`Store::is_suspect`]).
    pub fn open_with(directory: &Path, options: &Options) -> Result<Self, StoreError> {
        let mut found = examine(directory, options)?;
        let space = Space::new(directory).map_err(wrap_io(directory))?;
        let (database, pairs) = start(directory, &space)?;
        // The engine syncs what it puts into its directories, but not the directories' own names.
        sync_directories(directory).map_err(wrap_io(directory))?;
        let tables = pairs.tree.get_highest_persisted_seqno();
        let last = tables.max(found.journals.last).unwrap_or(0);
        // Merging tables may have removed records that were in them.
        if found.mark.acknowledged > last.max(found.mark.flushed) {
            let message = format!(
                "{}: changes up to number {} were acknowledged, but the journals and tables end at \
                 number {last}",
                directory.display(),
                found.mark.acknowledged
            );
            accept_loss(options, &mut found.lost, message)?;
        }
        let replayed = pairs.tree.active_memtable();
        let removed = replayed
            .iter()
            .filter(|record| record.is_tombstone())
            .count();
        // The engine has synced the journals. That proves nothing of what an earlier sync of theirs has failed to
        // write: the kernel reports that once.
        let (boot, acknowledged) = match found.is_suspect {
            true => (UNKNOWN_BOOT, found.mark.acknowledged.min(last)),
            false => (crate::boot::identity(), last),
        };
        let mark = Mark {
            boot,
            acknowledged,
            flushed: found.mark.flushed.min(last),
        };
        mark::write(directory, &mark).map_err(wrap_io(directory))?;
        let engine = Arc::new(Engine {
            directory: directory.to_owned(),
            database,
            pairs,
            space,
            progress: Mutex::new(Progress {
                synced: acknowledged,
                journal_bytes: found.journals.bytes,
                removed: removed as u64,
                ..Progress::new(last)
            }),
            mark: Mutex::new(mark),
            checked: Mutex::new(RoomCheck {
                at: Instant::now(),
                bytes: u64::MAX,
                reserve: 0,
                room: FreeSpace::Enough,
            }),
            views: Views::default(),
            merging: Mutex::default(),
            damaged: OnceLock::new(),
            refusal: OnceLock::new(),
        });
        if found.is_suspect {
            engine.refuse(&suspect_error(directory));
        }
        let upkeep = Upkeep::start(Arc::clone(&engine)).map_err(wrap_io(directory))?;
        Ok(Self {
            upkeep,
            engine,
            lost: found.lost,
        })
    }
}

/// Verifies what is on the disk, and cuts off torn ends, and what is damaged if that is accepted.
fn examine(directory: &Path, options: &Options) -> Result<StoreContents, StoreError> {
    let failed = wrap_io(directory);
    std::fs::create_dir_all(directory).map_err(failed)?;
    journal::check_unlocked(directory).map_err(failed)?;
    Space::new(directory).map_err(failed)?.prepare_to_open();
    let mut lost = false;
    let mark = match mark::read(directory) {
        Ok(mark) => mark,
        Err(why) if why.kind() == io::ErrorKind::InvalidData => {
            let message = format!("{}: {why}", mark::path(directory).display());
            accept_loss(options, &mut lost, message)?;
            None
        }
        Err(error) => return Err(wrap_io(&mark::path(directory))(error)),
    };
    let written = mark.is_some_and(|mark| mark.acknowledged > 0);
    let store =
        verify::check(directory, written, options.verify_bytes).map_err(|(path, why)| {
            error(
                StoreErrorKind::Corrupt,
                format!("{}: {why}", path.display()),
            )
        })?;
    match (store, mark) {
        (verify::DirectoryContents::Nothing, _) if !options.format => {
            let message = format!(
                "{} holds no metadata: is a disk not mounted there? A new file system is only made when \
                 it is asked for",
                directory.display()
            );
            return Err(error(StoreErrorKind::Missing, message));
        }
        (verify::DirectoryContents::Store, None) if !lost => {
            let message = format!("{} is missing", mark::path(directory).display());
            accept_loss(options, &mut lost, message)?;
        }
        _ => {}
    }
    let mark = mark.unwrap_or_default();
    if store == verify::DirectoryContents::Nothing {
        Space::new(directory)
            .map_err(failed)?
            .check_new()
            .map_err(|why| {
                error(
                    StoreErrorKind::TooSmall,
                    format!("{}: {why}", directory.display()),
                )
            })?;
        mark::write(directory, &mark).map_err(failed)?;
    }
    if store == verify::DirectoryContents::Store && !journal::any(directory).map_err(failed)? {
        let message = format!(
            "the journals (*.jnl) in {} are missing",
            directory.display()
        );
        accept_loss(options, &mut lost, message)?;
        journal::create(directory, 0).map_err(failed)?;
    }
    let journals = repair_journals(directory, options, &mark, &mut lost)?;
    Ok(StoreContents {
        is_suspect: mark.boot == UNKNOWN_BOOT && journals.bytes > 0,
        mark,
        journals,
        lost,
    })
}

/// Logs an accepted loss, or fails.
fn accept_loss(options: &Options, lost: &mut bool, message: String) -> Result<(), StoreError> {
    if !options.accept_loss {
        return Err(error(StoreErrorKind::Lost, message));
    }
    tracing::warn!("{message}; going on without it");
    *lost = true;
    Ok(())
}

/// Verifies the journals until they are without errors.
fn repair_journals(
    directory: &Path,
    options: &Options,
    mark: &Mark,
    lost: &mut bool,
) -> Result<journal::Journals, StoreError> {
    let failed = wrap_io(directory);
    let power_lasted = mark.boot != UNKNOWN_BOOT && mark.boot == crate::boot::identity();
    loop {
        let mut journals = journal::examine(directory, power_lasted, mark).map_err(failed)?;
        if !journals.damage.is_empty() {
            let all: Vec<String> = journals.damage.iter().map(ToString::to_string).collect();
            accept_loss(options, lost, all.join("; "))?;
            for damage in &journals.damage {
                let kept = journal::cut(damage).map_err(failed)?;
                tracing::warn!("what was cut out is kept in {}", kept.display());
            }
            continue;
        }
        if let Some(torn) = &journals.torn {
            let kept = journal::trim(torn).map_err(failed)?;
            tracing::warn!(
                "{}: the last {} bytes, behind {}, are no whole change (as after power loss); they are \
                 kept in {}",
                torn.journal.display(),
                torn.bytes,
                torn.at,
                kept.display()
            );
        }
        if journals.last.is_some_and(|last| last <= mark.flushed) {
            journal::clear(directory, &journals).map_err(failed)?;
            journals.bytes = 0;
            // The engine goes on counting from what is in tables, which may be less: merging them forgets
            // removals, and their numbers with them.
            journals.last = None;
        }
        return Ok(journals);
    }
}

/// Makes the names of everything below `directory` durable.
fn sync_directories(directory: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_directories(&entry.path())?;
        }
    }
    sync_directory(directory)
}

/// Has the engine open the store.
fn start(directory: &Path, space: &Space) -> Result<(Database, Keyspace), StoreError> {
    let database = Database::builder(directory)
        .journal_compression(CompressionType::None)
        .cache_size(CACHE_BYTES)
        .max_journaling_size(JOURNAL_BYTES)
        .worker_threads(WORKERS)
        .open()
        .map_err(|error| wrap("open", error))?;
    let pairs = database
        .keyspace("metadata", || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(space.sizes.memtable)
                .data_block_size_policy(BlockSizePolicy::all(4 << 10))
                .data_block_compression_policy(CompressionPolicy::disabled())
                .compaction_strategy(Arc::new(
                    Leveled::default().with_table_target_size(space.sizes.table),
                ))
        })
        .map_err(|error| wrap("open", error))?;
    Ok((database, pairs))
}

/// The error of a suspect store, which accepts no changes.
fn suspect_error(directory: &Path) -> StoreError {
    StoreError {
        store: NAME,
        doing: "commit",
        kind: StoreErrorKind::Io,
        message: format!(
            "an earlier sync of {} failed (see the kernel's log): the store accepts no changes until its server has written it anew, which it tries by itself",
            directory.display()
        ),
    }
}

impl Engine {
    /// Refuses all further changes: a journal whose sync has failed is never appended to, as what the
    /// kernel has dropped would be missing before what is appended. Returns the reason.
    fn refuse(&self, why: &StoreError) -> StoreError {
        if self.refusal.set(why.clone()).is_ok()
            && let Err(error) = self.mark_suspect()
        {
            // The kernel keeps the written bytes for as long as this matters: until the host is rebooted.
            tracing::warn!(%error, "cannot record the failed sync in the mark file: another server process that opens the store before the host is rebooted does not know of it");
        }
        why.clone()
    }

    /// Marks the journals as suspect for the next process that opens the store.
    fn mark_suspect(&self) -> io::Result<()> {
        let mut mark = lock(&self.mark);
        // Also if the mark cannot be written now: no later one may have the boot's identity.
        mark.boot = UNKNOWN_BOOT;
        mark::write(&self.directory, &mark)
    }

    /// Fails if no changes are accepted any more.
    fn check_taken(&self) -> Result<(), StoreError> {
        match self.refusal.get() {
            Some(why) => Err(why.clone()),
            None => Ok(()),
        }
    }

    /// Changes the mark, in the file if it differs.
    fn update_mark(&self, change: impl FnOnce(&mut Mark)) -> Result<(), StoreError> {
        let mut mark = lock(&self.mark);
        let mut new = *mark;
        change(&mut new);
        if new != *mark {
            mark::write(&self.directory, &new).map_err(wrap_io(&self.directory))?;
            *mark = new;
        }
        Ok(())
    }

    /// A failed write, with the name of the directory.
    fn failed_write(&self, doing: &'static str, failure: fjall::Error) -> StoreError {
        let mut failure = wrap(doing, failure);
        failure.message = format!("{}: {}", self.directory.display(), failure.message);
        failure
    }

    /// A failed read, with the name of the file that is damaged.
    fn failed_read(&self, failure: fjall::Error) -> StoreError {
        let mut failure = wrap("read", failure);
        if failure.kind == StoreErrorKind::Corrupt {
            failure.message = format!("{}: {}", self.damaged_file(), failure.message);
        }
        failure
    }

    fn damaged_file(&self) -> &str {
        self.damaged
            .get_or_init(|| match verify::check(&self.directory, true, u64::MAX) {
                Err((path, why)) => format!("{}: {why}", path.display()),
                Ok(_) => self.directory.display().to_string(),
            })
    }

    /// How much room there is on the disk now.
    fn check_room(&self, reserve: u64) -> FreeSpace {
        let journals = match self.space.sizes.bounds_journal {
            true => lock(&self.progress).journal_bytes,
            // The engine begins new journals by itself: the next one may grow to its whole size.
            false => 0,
        };
        let tree = &self.pairs.tree;
        let sealed = tree.sealed_memtable_count() as u64 * self.space.sizes.memtable;
        let used = Used {
            tables: self.pairs.disk_space(),
            memory: tree.active_memtable().size() + sealed,
            journals,
        };
        self.space.check_room(used, reserve)
    }
}

impl Store for Fjall {
    fn name(&self) -> &'static str {
        NAME
    }

    fn snapshot(&self) -> Result<Box<dyn View>, StoreError> {
        let engine = Arc::clone(&self.engine);
        let (snapshot, before) = engine.views.open(&engine.database);
        Ok(Box::new(FjallView {
            snapshot,
            before,
            engine,
        }))
    }

    fn commit(&self, batch: &Batch, persist: Persist) -> Result<(), StoreError> {
        if batch.is_empty() {
            // The engine gives such a batch a number, but writes nothing that bears it.
            return match persist {
                Persist::Process => Ok(()),
                Persist::Power => self.sync(),
            };
        }
        let engine = &self.engine;
        let mut progress = lock(&engine.progress);
        engine.check_taken()?;
        let stamp = Stamp::new(engine.database.seqno(), progress.synced);
        let mut changes = engine.database.batch().durability(Some(mode(persist)));
        for (key, value) in batch {
            match value {
                Some(value) => {
                    changes.insert(&engine.pairs, key.as_slice(), seal(key, value, stamp));
                }
                None => changes.remove(&engine.pairs, key.as_slice()),
            }
        }
        changes
            .commit()
            .and_then(|()| fail_sync(persist))
            .map_err(|error| engine.refuse(&engine.failed_write("commit", error)))?;
        progress.commit(stamp.commit, batch, persist);
        self.upkeep.notice(&mut progress);
        Ok(())
    }

    fn sync(&self) -> Result<(), StoreError> {
        let engine = &self.engine;
        let mut progress = lock(&engine.progress);
        engine.check_taken()?;
        engine
            .database
            .persist(mode(Persist::Power))
            .and_then(|()| fail_sync(Persist::Power))
            .map_err(|error| engine.refuse(&engine.failed_write("sync", error)))?;
        progress.synced = progress.last;
        Ok(())
    }

    fn room(&self, reserve: u64) -> FreeSpace {
        let engine = &self.engine;
        let bytes = lock(&engine.progress).bytes;
        let mut last = lock(&engine.checked);
        let is_fresh = bytes >= last.bytes
            && bytes - last.bytes < RECHECK_BYTES
            && last.reserve == reserve
            && last.room == FreeSpace::Enough
            && last.at.elapsed() < RECHECK_EVERY;
        if !is_fresh {
            let mut room = engine.check_room(reserve);
            if room != FreeSpace::Enough {
                // A merge takes room until it ends: that does not count as a full disk.
                engine.await_merges();
                room = engine.check_room(reserve);
            }
            *last = RoomCheck {
                at: Instant::now(),
                bytes,
                reserve,
                room,
            };
        }
        last.room.clone()
    }

    fn is_outgrown(&self) -> bool {
        let sizes = &self.engine.space.sizes;
        sizes.bounds_journal && lock(&self.engine.progress).journal_bytes > sizes.journal
    }

    fn is_suspect(&self) -> bool {
        self.engine.refusal.get().is_some()
    }

    fn probe(&self) -> Result<(), StoreError> {
        let marked = self.engine.mark_suspect();
        marked.map_err(wrap_io(&self.engine.directory))
    }

    fn write_out(&self) -> Result<(), StoreError> {
        // Frees ballast if there is no room otherwise.
        self.engine.check_room(0);
        self.engine.write_out()
    }

    fn is_viewed(&self) -> bool {
        !self.engine.views.is_empty()
    }

    fn garbage(&self) -> Garbage {
        Garbage {
            bytes: self.engine.garbage_bytes(),
            worthwhile_bytes: self.engine.space.sizes.memtable / WORTHWHILE_DIVISOR,
        }
    }

    fn reclaim(&self) -> Result<bool, StoreError> {
        self.engine.reclaim()?;
        Ok(self.engine.space.sizes.bounds_journal)
    }

    fn max_batch_bytes(&self) -> u64 {
        self.engine.space.sizes.memtable
    }
}

struct FjallView {
    snapshot: Snapshot,
    /// The number by which the view is closed.
    before: u64,
    engine: Arc<Engine>,
}

impl FjallView {
    /// The value inside a sealed value.
    fn unsealed(&self, key: &[u8], sealed: &[u8]) -> Result<Vec<u8>, StoreError> {
        unseal(key, sealed)
            .map(|(value, _)| value.to_vec())
            .map_err(|_| {
                let file = self.engine.damaged_file();
                let message = format!("{file}: the value under {key:02x?} is damaged");
                error(StoreErrorKind::Corrupt, message)
            })
    }
}

impl Drop for FjallView {
    fn drop(&mut self) {
        self.engine.views.close(self.before);
    }
}

impl View for FjallView {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let sealed = self.snapshot.get(&self.engine.pairs, key);
        match sealed.map_err(|error| self.engine.failed_read(error))? {
            None => Ok(None),
            Some(sealed) => self.unsealed(key, &sealed).map(Some),
        }
    }

    fn range<'a>(&'a self, start: &[u8], end: &[u8]) -> Pairs<'a> {
        if start >= end {
            return Box::new(std::iter::empty());
        }
        let range = self.snapshot.range(&self.engine.pairs, start..end);
        Box::new(range.map(|pair| -> Result<Pair, StoreError> {
            let pair = pair.into_inner();
            let (key, sealed) = pair.map_err(|error| self.engine.failed_read(error))?;
            Ok((key.to_vec(), self.unsealed(&key, &sealed)?))
        }))
    }
}

fn mode(persist: Persist) -> PersistMode {
    match persist {
        _ if sabotage::is_on(Sabotage::DropCommit) => PersistMode::Buffer,
        Persist::Process => PersistMode::Buffer,
        Persist::Power => PersistMode::SyncData,
    }
}

/// Fails where tests have syncs fail.
fn fail_sync(persist: Persist) -> Result<(), fjall::Error> {
    match persist {
        Persist::Process => Ok(()),
        Persist::Power => sabotage::fail_every_sync().map_err(fjall::Error::Io),
    }
}

fn error(kind: StoreErrorKind, message: String) -> StoreError {
    StoreError {
        store: NAME,
        doing: "open",
        kind,
        message,
    }
}

/// Makes errors that concern a file or directory.
fn wrap_io(path: &Path) -> impl Fn(io::Error) -> StoreError + Copy {
    move |failure| {
        let (kind, why) = match failure.kind() {
            io::ErrorKind::WouldBlock => (StoreErrorKind::Locked, "it is open already".to_owned()),
            io::ErrorKind::StorageFull => (StoreErrorKind::Full, failure.to_string()),
            _ => (StoreErrorKind::Io, failure.to_string()),
        };
        error(kind, format!("{}: {why}", path.display()))
    }
}

fn wrap(doing: &'static str, error: fjall::Error) -> StoreError {
    use io::ErrorKind::{StorageFull, UnexpectedEof};
    let kind = match &error {
        fjall::Error::Io(error) | fjall::Error::Storage(LsmError::Io(error)) => {
            match error.kind() {
                StorageFull => StoreErrorKind::Full,
                // A table that is shorter than it was written.
                UnexpectedEof => StoreErrorKind::Corrupt,
                _ => StoreErrorKind::Io,
            }
        }
        fjall::Error::Locked => StoreErrorKind::Locked,
        fjall::Error::Storage(_)
        | fjall::Error::JournalRecovery(_)
        | fjall::Error::InvalidTrailer
        | fjall::Error::InvalidTag(_)
        | fjall::Error::InvalidVersion(_)
        | fjall::Error::Decompress(_)
        | fjall::Error::Unrecoverable => StoreErrorKind::Corrupt,
        _ => StoreErrorKind::Io,
    };
    let message = match error {
        fjall::Error::Io(error) => error.to_string(),
        fjall::Error::Poisoned => "an earlier write failed; restart the server".into(),
        error => error.to_string(),
    };
    StoreError {
        store: NAME,
        doing,
        kind,
        message,
    }
}
