//! Datafiles by object number: finding, making, seeding, truncating, flushing, removing, listing.
//!
//! All methods may be called from several threads at once.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use causeway_sys::memory::Memory;
use causeway_sys::nowait;
use causeway_wire::datafile::{Header, size_of_file};
use causeway_wire::fs::{Generation, Incarnation, ObjectId, Region};
use rustix::fs::RenameFlags;

use super::aside::{self, Aside};
use super::common::{Common, Idle};
use super::datafile::{Datafile, ReadOptions};
use super::fault::{Fault, Result};
use super::groups::GroupSpans;
use super::header_page::{self, HeaderPage};
use super::history::{History, Origin};
use super::paths::{self, Directory};
use super::pieces::{Abandoned, Piece, Scratch};
use super::replaced::Replaced;
use super::room::{Disk, SpaceBudget};
use super::types::Settings;
use crate::failed_syncs::FailureCount;
use crate::files::{create_new, if_found, make_directories, open_or_create, sync_directory};
use crate::locks::lock;
use crate::sabotage::{self, Sabotage};

/// Most datafiles that are kept open.
const MAX_OPEN: usize = 512;

/// The store of one server.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    temporary: PathBuf,
    aside: PathBuf,
    common: Arc<Common>,
    open: Mutex<OpenFiles>,
    directories: Mutex<HashMap<Directory, Changes>>,
    replaced: Replaced,
    /// Held while directories are made durable, so that all threads wait for the same sync.
    directory_sync: Mutex<()>,
    temporaries: AtomicU64,
}

/// Space of the store's file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes in all.
    pub total: u64,
    /// Bytes that data may still take: without the reserve that they leave.
    pub free: u64,
}

#[derive(Debug, Default)]
struct OpenFiles {
    files: HashMap<ObjectId, (Arc<Datafile>, u64)>,
    clock: u64,
}

/// How often directories got new entries, and up to which of these they are durable.
#[derive(Debug, Default, Clone, Copy)]
struct Changes {
    made: u64,
    durable: Option<u64>,
}

impl Store {
    /// Opens the store below `directory`, which is made if it does not exist.
    pub fn open(directory: &Path, settings: Settings) -> io::Result<Self> {
        let root = directory.join("objects");
        let temporary = directory.join("temporary");
        make_directories(&root)?;
        make_directories(&temporary)?;
        for leftover in std::fs::read_dir(&temporary)? {
            std::fs::remove_file(leftover?.path())?;
        }
        sync_directory(directory)?;
        let common = Common {
            owner: settings.owner,
            synced: settings.synced,
            checksums: settings.checksums,
            in_memory: nowait::is_in_memory(File::open(&root)?)?,
            run: random_number()?,
            boot: Mutex::new(settings.boot),
            incarnation: AtomicU64::new(0),
            failed_syncs: FailureCount::open(directory)?,
            history: History::open(directory, settings.owner, settings.boot)?,
            room: SpaceBudget::default(),
            dirty: Mutex::default(),
        };
        Ok(Self {
            root,
            temporary,
            aside: directory.join("lost+found"),
            common: Arc::new(common),
            open: Mutex::default(),
            directories: Mutex::default(),
            replaced: Replaced::default(),
            directory_sync: Mutex::default(),
            temporaries: AtomicU64::new(0),
        })
    }

    /// Whether the store lies in memory: then nothing ever waits for a device.
    pub fn in_memory(&self) -> bool {
        self.common.in_memory
    }

    /// Sets another identity for the host's present boot, before anything is read.
    pub fn set_boot(&self, boot: u128) -> io::Result<()> {
        *lock(&self.common.boot) = boot;
        self.common.history.load(self.common.owner, boot)
    }

    /// Sets the metadata's incarnation, which new datafiles carry.
    pub fn set_incarnation(&self, incarnation: Incarnation) {
        self.common
            .incarnation
            .store(incarnation.0, Ordering::Relaxed);
    }

    /// The number of failed syncs: when it changes, what was not synced before may be lost.
    pub fn failed_syncs(&self) -> u64 {
        self.common.failed_syncs.count()
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The path of a file beside the store's directories.
    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.root.with_file_name(name)
    }

    fn path(&self, object: ObjectId) -> PathBuf {
        paths::path(&self.root, object)
    }

    /// An object's datafile, if it exists.
    pub fn find(&self, object: ObjectId) -> Result<Option<Arc<Datafile>>> {
        let mut open = lock(&self.open);
        if let Some(datafile) = open.find(object) {
            return Ok(Some(datafile));
        }
        let path = self.path(object);
        let Some(file) = if_found(File::options().read(true).write(true).open(path))? else {
            return Ok(None);
        };
        let Some((header, written)) = self.read_header(&file, object)? else {
            return Ok(None);
        };
        Ok(Some(open.insert(file, &self.common, header, written)))
    }

    /// An object's datafile, made if it does not exist. One that should have `at_least` bytes must exist.
    pub fn find_or_make(&self, object: ObjectId, at_least: u64) -> Result<Arc<Datafile>> {
        if let Some(datafile) = self.find(object)? {
            return Ok(datafile);
        }
        if at_least > 0 {
            return Err(Fault::Absent { wanted: at_least });
        }
        let mut open = lock(&self.open);
        if let Some(datafile) = open.find(object) {
            return Ok(datafile);
        }
        let path = self.path(object);
        let file = match if_found(open_or_create(&path))? {
            Some(file) => file,
            None => {
                make_directories(&Directory::of(object).path(&self.root))?;
                open_or_create(&path)?
            }
        };
        self.note_entry(object);
        // Another thread may have made it meanwhile; a file without a header was left by a kill.
        let (header, written, new) = match self.read_header(&file, object)? {
            Some((header, written)) => (header, written, false),
            None => {
                let header = self.common.new_header(object);
                header_page::put_new(&file, &header)?;
                (header, Vec::new(), true)
            }
        };
        let datafile = open.insert(file, &self.common, header, written);
        drop(open);
        if new {
            self.common.note_dirty(object);
        }
        Ok(datafile)
    }

    /// Checks the file of an open datafile: another program may have replaced, removed or overwritten it. A replaced file is
    /// opened again when it is next used; what was written to the old one is lost, which is recorded.
    pub(super) fn check_open_file(&self, object: ObjectId) -> Result<()> {
        let Some(datafile) = self.peek(object) else {
            return self.replaced.check(object);
        };
        let open = datafile.file.metadata()?;
        let named = if_found(std::fs::metadata(self.path(object)))?;
        let is_named =
            named.is_some_and(|named| (named.dev(), named.ino()) == (open.dev(), open.ino()));
        if !is_named {
            if self.peek(object).is_none() {
                // The server itself has removed it meanwhile.
                return Ok(());
            }
            self.forget(object);
            return Err(self.replaced.note(object));
        }
        match HeaderPage::read(&datafile.file)? {
            Some(page) => self.check_owner(object, &page.header)?,
            None => return Err(Fault::Header("it is empty".to_owned())),
        }
        self.replaced.check(object)
    }

    /// Accepts an object's present datafile as the right one, even if another program has put it there.
    pub fn accept(&self, object: ObjectId) {
        self.replaced.accept(object);
    }

    /// A file's header, if it is this object's, and the groups that were written; `None` if nothing was ever written to
    /// the file.
    fn read_header(&self, file: &File, object: ObjectId) -> Result<Option<(Header, GroupSpans)>> {
        let Some(page) = HeaderPage::read(file)? else {
            return Ok(None);
        };
        let header = page.header;
        self.check_owner(object, &header)?;
        Ok(Some((header, page.written(&self.common)?)))
    }

    /// Fails unless a header is this object's, of this file system and server.
    fn check_owner(&self, object: ObjectId, header: &Header) -> Result<()> {
        let owner = self.common.owner;
        let found = (header.object, header.file_system, header.generation);
        let wanted = (object, owner.file_system, owner.generation);
        match found == wanted {
            true => Ok(()),
            false => Err(Fault::Foreign {
                found: describe(found),
                wanted: describe(wanted),
            }),
        }
    }

    /// Makes a datafile with this content unless it exists with exactly that. All of it appears at once, and is
    /// durable also in a relaxed store: the copy beside the metadata, which may have been durable for long, is
    /// removed afterwards.
    pub fn seed(&self, object: ObjectId, content: &[u8]) -> Result<()> {
        let number = self.temporaries.fetch_add(1, Ordering::Relaxed);
        let temporary = self.temporary.join(format!("{number}"));
        let written = self
            .write_seed(&temporary, object, content)
            .and_then(|()| self.name_seed(&temporary, object));
        if let Err(fault) = written {
            // Best effort: a file that is left is removed at the next start.
            let _ = std::fs::remove_file(&temporary);
            if !matches!(&fault, Fault::Io(error) if error.kind() == io::ErrorKind::AlreadyExists) {
                return Err(fault);
            }
            self.check_seed(object, content)?;
        }
        // Another seed may have renamed it and not synced it yet.
        self.note_entry(object);
        Ok(self.sync_entry(object)?)
    }

    /// A datafile in a file without a name among the others, durable.
    fn write_seed(&self, path: &Path, object: ObjectId, content: &[u8]) -> Result<()> {
        let file = create_new(path)?;
        let header = self.common.new_header(object);
        header_page::put_new(&file, &header)?;
        let datafile = Datafile::open(file, Arc::clone(&self.common), header, Vec::new());
        datafile.write(&whole(content.to_vec()), &mut Scratch::default(), 0)?;
        // The file has no name yet: the mark is as durable as the content before another thread can find it.
        datafile.note_durable(datafile.writes());
        datafile.clean()?;
        Ok(datafile.sync(true)?)
    }

    fn name_seed(&self, temporary: &Path, object: ObjectId) -> Result<()> {
        let path = self.path(object);
        make_directories(&Directory::of(object).path(&self.root))?;
        let at = rustix::fs::CWD;
        rustix::fs::renameat_with(at, temporary, at, &path, RenameFlags::NOREPLACE)
            .map_err(io::Error::from)?;
        Ok(())
    }

    /// An existing datafile must be what a repeated seed would make.
    fn check_seed(&self, object: ObjectId, content: &[u8]) -> Result<()> {
        let datafile = match self.find(object)? {
            Some(datafile) => datafile,
            // A kill has left the file without a header.
            None => {
                let datafile = self.find_or_make(object, 0)?;
                datafile.write(&whole(content.to_vec()), &mut Scratch::default(), 0)?;
                datafile.flush()?;
                return Ok(());
            }
        };
        let incarnation = self.common.incarnation();
        let piece = whole(vec![0; content.len()]);
        let same = datafile.header().incarnation == incarnation
            && datafile.size()? == content.len() as u64
            && datafile.read(
                &piece,
                &mut Scratch::default(),
                &ReadOptions::default(),
                &mut Vec::new(),
            )? == content.len() as u64
            && piece
                .memory
                .iter()
                .flat_map(Memory::to_vec)
                .eq(content.iter().copied());
        match same {
            true => Ok(()),
            false => Err(Fault::Exists),
        }
    }

    /// Truncates a datafile to at most `size`, unless a truncation with this or a later `version` was done before. Of what
    /// is kept, `at_least` bytes must be there. A datafile that does not exist is made, to remember the version;
    /// one that is damaged or another one's is moved aside for it if nothing is to be kept.
    pub fn truncate(&self, object: ObjectId, size: u64, version: u64, at_least: u64) -> Result<()> {
        let datafile = match self.find_or_make(object, at_least) {
            Err(Fault::Foreign { .. } | Fault::Header(_) | Fault::Earlier { .. }) if size == 0 => {
                self.move_aside(object)?;
                self.find_or_make(object, 0)?
            }
            other => other?,
        };
        datafile.truncate(size, version, at_least)?;
        if size == 0 {
            self.accept(object);
        }
        match self.common.synced {
            true => Ok(self.sync_entry(object)?),
            false => Ok(()),
        }
    }

    /// Reserves room on the disk for a part of a datafile, which is made if it does not exist.
    pub fn reserve(&self, object: ObjectId, region: Region, at_least: u64) -> Result<()> {
        self.find_or_make(object, at_least)?.reserve(region)
    }

    /// Makes a datafile's content durable. One that does not exist is durable, unless it should have `at_least`
    /// bytes.
    pub fn flush(&self, object: ObjectId, at_least: u64) -> Result<()> {
        if sabotage::is_on(Sabotage::DropFlush) {
            return Ok(());
        }
        self.check_open_file(object)?;
        match self.find(object)? {
            Some(datafile) => {
                datafile.check_size(at_least)?;
                datafile.flush()?;
                Ok(self.sync_entry(object)?)
            }
            None if at_least > 0 => Err(Fault::Absent { wanted: at_least }),
            None => Ok(()),
        }
    }

    /// Removes a datafile if it exists. One that is not proven to be this file system's is moved aside.
    pub fn remove(&self, object: ObjectId) -> io::Result<()> {
        match self.find(object) {
            Ok(_) => self.delete(object),
            Err(Fault::Io(error)) => Err(error),
            Err(_) => self.move_aside(object),
        }
    }

    fn delete(&self, object: ObjectId) -> io::Result<()> {
        self.forget(object);
        self.accept(object);
        if_found(std::fs::remove_file(self.path(object))).map(drop)
    }

    fn forget(&self, object: ObjectId) {
        lock(&self.open).files.remove(&object);
        lock(&self.common.dirty).remove(&object);
    }

    /// Removes datafiles without a file: those that are proven to be of the present metadata, which has given
    /// out numbers below `numbers`, are deleted, all others moved aside. Returns how many were deleted, and how many moved.
    pub fn remove_orphans(&self, objects: &[ObjectId], numbers: u64) -> io::Result<(u64, u64)> {
        let incarnation = self.common.incarnation();
        let (mut deleted, mut moved) = (0, 0);
        for &object in objects {
            let proven = match self.find(object) {
                Ok(Some(datafile)) => {
                    !incarnation.is_none()
                        && datafile.header().incarnation == incarnation
                        && object.0 < numbers
                }
                // Nothing was ever written to it.
                Ok(None) => true,
                Err(Fault::Io(error)) => return Err(error),
                Err(_) => false,
            };
            match proven {
                true => {
                    self.delete(object)?;
                    deleted += 1;
                }
                false => {
                    self.move_aside(object)?;
                    moved += 1;
                }
            }
        }
        self.sync_removals(objects)?;
        Ok((deleted, moved))
    }

    fn move_aside(&self, object: ObjectId) -> io::Result<()> {
        self.forget(object);
        self.accept(object);
        aside::move_aside(&self.path(object), &self.aside, object)
    }

    /// The amount that was moved aside and is still kept.
    pub fn aside(&self) -> io::Result<Aside> {
        aside::count(&self.aside, aside::KEEP)
    }

    /// Makes the directories of these objects durable, after removals.
    pub fn sync_removals(&self, objects: &[ObjectId]) -> io::Result<()> {
        let mut directories: Vec<Directory> = objects.iter().copied().map(Directory::of).collect();
        directories.sort_unstable();
        directories.dedup();
        for directory in directories {
            let synced = if_found(sync_directory(&directory.path(&self.root)));
            self.common
                .note_failed_sync(synced.map(drop), "a directory of datafiles")?;
        }
        Ok(())
    }

    /// The first `limit` datafiles behind `after` with their sizes, in order, and whether nothing follows the last
    /// one.
    pub fn list(
        &self,
        mut after: ObjectId,
        limit: usize,
    ) -> io::Result<(Vec<(ObjectId, u64)>, bool)> {
        loop {
            let (objects, end) = paths::list(&self.root, after, limit)?;
            let mut datafiles = Vec::with_capacity(objects.len());
            for &object in &objects {
                let found = if_found(std::fs::metadata(self.path(object)))?;
                datafiles.extend(found.map(|metadata| (object, size_of_file(metadata.len()))));
            }
            match objects.last() {
                // All of them were removed meanwhile: clients would take an empty batch for the end.
                Some(&last) if datafiles.is_empty() && !end => after = last,
                _ => return Ok((datafiles, end)),
            }
        }
    }

    /// The fault of an object's datafile, which should have `at_least` bytes, judging by its header and
    /// length.
    pub fn check(&self, object: ObjectId, at_least: u64) -> Result<()> {
        self.check_open_file(object)?;
        match self.find(object)? {
            Some(datafile) => datafile.check_size(at_least),
            None if at_least > 0 => Err(Fault::Absent { wanted: at_least }),
            None => Ok(()),
        }
    }

    /// Space of the file system below.
    pub fn space(&self) -> io::Result<Space> {
        let disk = Disk::from(rustix::fs::statvfs(&self.root)?);
        let free = match disk.total {
            // Unknown.
            0 => 0,
            _ => disk.available(),
        };
        Ok(Space {
            total: disk.total,
            free,
        })
    }

    /// Makes everything durable and marks it clean, when the server ends in order.
    pub fn sync_all(&self) -> Result<()> {
        let root = File::open(&self.root)?;
        let dirty: Vec<(ObjectId, Option<u64>)> = lock(&self.common.dirty)
            .keys()
            .map(|&object| {
                // A datafile that is not open now was written before; opening a dirty datafile counts as one write.
                let finished = match self.peek(object) {
                    Some(datafile) => datafile.finished_writes(),
                    None => Some(1),
                };
                (object, finished)
            })
            .collect();
        self.sync_disk(&root)?;
        for (object, finished) in dirty {
            if let Ok(Some(datafile)) = self.find(object) {
                match finished {
                    Some(writes) => datafile.note_durable(writes),
                    None => datafile.flush_all()?,
                }
                datafile.clean()?;
            }
        }
        Ok(self.sync_disk(&root)?)
    }

    fn sync_disk(&self, root: &File) -> io::Result<()> {
        let synced = rustix::fs::syncfs(root).map_err(io::Error::from);
        self.common.note_failed_sync(synced, "the datafiles' disk")
    }

    /// Whether datafiles wait to be marked clean.
    pub fn has_dirty(&self) -> bool {
        !lock(&self.common.dirty).is_empty()
    }

    /// Marks datafiles clean that have been idle: flushed ones after two checks, the others after
    /// `patience` checks, when they are flushed. To be called at regular intervals; waits for the device.
    /// A datafile where that fails stays on the list, and does not keep it from the others; the last fault is returned.
    pub fn clean_idle(&self, patience: u32) -> Result<()> {
        let mut result = Ok(());
        for object in self.idle(patience) {
            let Ok(Some(datafile)) = self.find(object) else {
                lock(&self.common.dirty).remove(&object);
                continue;
            };
            let cleaned = self.clean(object, &datafile);
            if !matches!(cleaned, Ok(true)) {
                self.common.note_dirty(object);
            }
            result = cleaned.map(drop).and(result);
        }
        result
    }

    /// Flushes a datafile and marks it clean. Returns `false` if it has been written meanwhile.
    fn clean(&self, object: ObjectId, datafile: &Datafile) -> Result<bool> {
        if !datafile.is_durable() {
            datafile.flush()?;
        }
        // The datafile leaves the list first, so that a write that comes now puts it there again.
        lock(&self.common.dirty).remove(&object);
        Ok(datafile.clean()?)
    }

    /// Some dirty datafiles that have been idle long enough.
    fn idle(&self, patience: u32) -> Vec<ObjectId> {
        let mut dirty = lock(&self.common.dirty);
        let mut idle = Vec::new();
        for (&object, seen) in dirty.iter_mut() {
            let (writes, durable) = match self.peek(object) {
                Some(datafile) => (datafile.writes(), datafile.is_durable()),
                None => (seen.writes, false),
            };
            match seen.writes == writes {
                true => seen.checks = seen.checks.saturating_add(1),
                false => *seen = Idle { writes, checks: 1 },
            }
            let enough = if durable { 2 } else { patience };
            if seen.checks >= enough && idle.len() < MAX_OPEN {
                idle.push(object);
            }
        }
        idle
    }

    /// A datafile that is open.
    fn peek(&self, object: ObjectId) -> Option<Arc<Datafile>> {
        let open = lock(&self.open);
        let (datafile, _) = open.files.get(&object)?;
        Some(Arc::clone(datafile))
    }

    fn note_entry(&self, object: ObjectId) {
        let mut directories = lock(&self.directories);
        directories.entry(Directory::of(object)).or_default().made += 1;
    }

    /// Makes an object's directory entry, and those of the directories above, durable.
    fn sync_entry(&self, object: ObjectId) -> io::Result<()> {
        if self.common.in_memory {
            return Ok(());
        }
        let directory = Directory::of(object);
        let _one_at_a_time = lock(&self.directory_sync);
        let changes = *lock(&self.directories).entry(directory).or_default();
        if changes.durable == Some(changes.made) {
            return Ok(());
        }
        let synced = sync_directory(&directory.path(&self.root))
            .and_then(|()| sync_directory(&directory.upper(&self.root)))
            .and_then(|()| sync_directory(&self.root));
        self.common
            .note_failed_sync(synced, "a directory of datafiles")?;
        lock(&self.directories)
            .entry(directory)
            .or_default()
            .durable = Some(changes.made);
        Ok(())
    }
}

impl OpenFiles {
    fn find(&mut self, object: ObjectId) -> Option<Arc<Datafile>> {
        self.clock += 1;
        let (datafile, used) = self.files.get_mut(&object)?;
        *used = self.clock;
        Some(Arc::clone(datafile))
    }

    fn insert(
        &mut self,
        file: File,
        common: &Arc<Common>,
        header: Header,
        written: GroupSpans,
    ) -> Arc<Datafile> {
        if self.files.len() >= MAX_OPEN {
            self.evict();
        }
        let datafile = Arc::new(Datafile::open(file, Arc::clone(common), header, written));
        self.files
            .insert(header.object, (Arc::clone(&datafile), self.clock));
        datafile
    }

    /// Closes the least recently used datafile. Those in use stay, as their locks must be the
    /// only ones for the file; requests in progress are bounded, so they are few.
    fn evict(&mut self) {
        let oldest = self
            .files
            .iter()
            .filter(|(_, (datafile, _))| Arc::strong_count(datafile) == 1)
            .min_by_key(|(_, (_, used))| *used)
            .map(|(&object, _)| object);
        if let Some(object) = oldest {
            self.files.remove(&object);
        }
    }
}

/// A piece that covers a whole datafile.
fn whole(content: Vec<u8>) -> Piece {
    Piece {
        regions: vec![Region {
            offset: 0,
            len: content.len() as u64,
        }],
        memory: vec![Memory::from_vec(content)],
        stable: true,
        abandoned: Abandoned::default(),
        origin: Origin::default(),
    }
}

fn describe((object, file_system, generation): (ObjectId, u128, Generation)) -> String {
    format!(
        "object {}, file system {file_system:032x}, generation {generation}",
        object.0
    )
}

fn random_number() -> io::Result<u64> {
    Ok(u64::from_le_bytes(causeway_sys::random::bytes()?))
}
