//! Datafiles by object number: finding, making, seeding, cutting, flushing, removing, listing.
//!
//! All methods may be called from several threads at once.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use causeway_wire::fs::ObjectId;
use rustix::fs::{RenameFlags, XattrFlags};

use super::datafile::Datafile;
use super::place::{self, Directory};
use crate::sabotage::{self, Sabotage};

/// Most datafiles that are kept open.
const MAX_OPEN: usize = 512;
/// Extended attribute that holds the version of the last truncation, 8 bytes little-endian.
const VERSION_ATTRIBUTE: &str = "user.causeway.truncation";
/// Ending of the file beside a datafile that holds the version where there are no attributes.
const VERSION_ENDING: &str = "version";

/// The store of one server.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    temporary: PathBuf,
    synced: bool,
    in_memory: bool,
    attributes: bool,
    open: Mutex<OpenFiles>,
    directories: Mutex<HashMap<Directory, Changes>>,
    /// Held while directories are made durable, so that everybody waits for the same sync.
    directory_sync: Mutex<()>,
    temporaries: AtomicU64,
}

/// Space of the store's file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes in all.
    pub total: u64,
    /// Bytes that we may still use.
    pub free: u64,
}

#[derive(Debug, Default)]
struct OpenFiles {
    files: HashMap<ObjectId, (Arc<Datafile>, u64)>,
    clock: u64,
}

/// How often a directory got a new entry, and up to which of these it is durable.
#[derive(Debug, Default, Clone, Copy)]
struct Changes {
    made: u64,
    durable: Option<u64>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    /// Opens the store below `directory`, which is made if it does not exist. With `synced`, truncations
    /// and removals are on the device before they are answered.
    pub fn open(directory: &Path, synced: bool) -> io::Result<Self> {
        let root = directory.join("objects");
        let temporary = directory.join("temporary");
        std::fs::create_dir_all(&root)?;
        std::fs::create_dir_all(&temporary)?;
        for leftover in std::fs::read_dir(&temporary)? {
            std::fs::remove_file(leftover?.path())?;
        }
        sync_directory(directory)?;
        Ok(Self {
            in_memory: is_in_memory(&root)?,
            attributes: probe_attributes(&temporary)?,
            root,
            temporary,
            synced,
            open: Mutex::default(),
            directories: Mutex::default(),
            directory_sync: Mutex::default(),
            temporaries: AtomicU64::new(0),
        })
    }

    /// Whether the store lies in memory: then nothing ever waits for a device.
    pub fn in_memory(&self) -> bool {
        self.in_memory
    }

    /// An object's datafile, if it exists.
    pub fn find(&self, object: ObjectId) -> io::Result<Option<Arc<Datafile>>> {
        let mut open = lock(&self.open);
        if let Some(datafile) = open.find(object) {
            return Ok(Some(datafile));
        }
        let path = place::path(&self.root, object);
        match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => Ok(Some(open.insert(object, file))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// An object's datafile, made if it does not exist.
    pub fn find_or_make(&self, object: ObjectId) -> io::Result<Arc<Datafile>> {
        if let Some(datafile) = self.find(object)? {
            return Ok(datafile);
        }
        let path = place::path(&self.root, object);
        let make = || {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
        };
        let mut open = lock(&self.open);
        if let Some(datafile) = open.find(object) {
            return Ok(datafile);
        }
        let file = match make() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                std::fs::create_dir_all(Directory::of(object).path(&self.root))?;
                make()
            }
            other => other,
        }?;
        self.note_entry(object);
        Ok(open.insert(object, file))
    }

    /// Makes a datafile with this content unless it exists. All of it appears at once, and is durable
    /// also in a relaxed store: the copy beside the metadata, which may have been durable for long, is
    /// given up for it.
    pub fn seed(&self, object: ObjectId, content: &[u8]) -> io::Result<()> {
        let number = self.temporaries.fetch_add(1, Ordering::Relaxed);
        let temporary = self.temporary.join(format!("{number}"));
        let written = self.write_temporary(&temporary, content).and_then(|()| {
            let path = place::path(&self.root, object);
            std::fs::create_dir_all(Directory::of(object).path(&self.root))?;
            let at = rustix::fs::CWD;
            rustix::fs::renameat_with(at, &temporary, at, &path, RenameFlags::NOREPLACE)
                .map_err(io::Error::from)
        });
        match written {
            Ok(()) => {}
            Err(error) => {
                // Best effort: what is left is removed at the next start.
                let _ = std::fs::remove_file(&temporary);
                if error.kind() != io::ErrorKind::AlreadyExists {
                    return Err(error);
                }
            }
        }
        // Whoever made it: another seed may have renamed it and not come to its sync yet.
        self.note_entry(object);
        self.sync_entry(object)
    }

    fn write_temporary(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let mut file = File::create_new(path)?;
        file.write_all(content)?;
        file.sync_all()
    }

    /// Cuts or grows a datafile, unless a truncation with this or a later `version` was done before.
    /// A datafile that does not exist is made, to remember the version.
    pub fn truncate(&self, object: ObjectId, size: u64, version: u64) -> io::Result<()> {
        let datafile = self.find_or_make(object)?;
        datafile.alone(|file| -> io::Result<()> {
            if self.version(object, file)? >= version {
                return Ok(());
            }
            // The version comes last: after a crash in between, the truncation is repeated.
            file.set_len(size)?;
            self.set_version(object, file, version)?;
            if self.synced {
                file.sync_all()?;
            }
            Ok(())
        })?;
        if self.synced {
            self.sync_entry(object)?;
        }
        Ok(())
    }

    /// Makes a datafile's content durable. One that does not exist is durable.
    pub fn flush(&self, object: ObjectId) -> io::Result<()> {
        if sabotage::is_on(Sabotage::DropFlush) {
            return Ok(());
        }
        if let Some(datafile) = self.find(object)? {
            datafile.file().sync_data()?;
            self.sync_entry(object)?;
        }
        Ok(())
    }

    /// Removes a datafile if it exists.
    pub fn remove(&self, object: ObjectId) -> io::Result<()> {
        lock(&self.open).files.remove(&object);
        let path = place::path(&self.root, object);
        match std::fs::remove_file(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        if !self.attributes {
            match std::fs::remove_file(path.with_extension(VERSION_ENDING)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Makes the directories of these objects durable, after removals.
    pub fn sync_removals(&self, objects: &[ObjectId]) -> io::Result<()> {
        let mut directories: Vec<Directory> = objects.iter().copied().map(Directory::of).collect();
        directories.sort_unstable();
        directories.dedup();
        for directory in directories {
            match sync_directory(&directory.path(&self.root)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// The first `limit` datafiles behind `after` with their sizes, in order, and whether nothing
    /// follows the last one.
    pub fn list(&self, after: ObjectId, limit: usize) -> io::Result<(Vec<(ObjectId, u64)>, bool)> {
        let (objects, end) = place::list(&self.root, after, limit)?;
        let mut datafiles = Vec::with_capacity(objects.len());
        for object in objects {
            match std::fs::metadata(place::path(&self.root, object)) {
                Ok(metadata) => datafiles.push((object, metadata.len())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok((datafiles, end))
    }

    /// Space of the file system below.
    pub fn space(&self) -> io::Result<Space> {
        let status = rustix::fs::statvfs(&self.root)?;
        Ok(Space {
            total: status.f_blocks.saturating_mul(status.f_frsize),
            free: status.f_bavail.saturating_mul(status.f_frsize),
        })
    }

    /// Makes everything durable, at a graceful end.
    pub fn sync_all(&self) -> io::Result<()> {
        let root = File::open(&self.root)?;
        rustix::fs::syncfs(&root)?;
        Ok(())
    }

    fn note_entry(&self, object: ObjectId) {
        let mut directories = lock(&self.directories);
        directories.entry(Directory::of(object)).or_default().made += 1;
    }

    /// Makes an object's directory entry, and those of the directories above, durable.
    fn sync_entry(&self, object: ObjectId) -> io::Result<()> {
        if self.in_memory {
            return Ok(());
        }
        let directory = Directory::of(object);
        let _one_at_a_time = lock(&self.directory_sync);
        let changes = *lock(&self.directories).entry(directory).or_default();
        if changes.durable == Some(changes.made) {
            return Ok(());
        }
        sync_directory(&directory.path(&self.root))?;
        sync_directory(&directory.upper(&self.root))?;
        sync_directory(&self.root)?;
        lock(&self.directories)
            .entry(directory)
            .or_default()
            .durable = Some(changes.made);
        Ok(())
    }

    fn version(&self, object: ObjectId, file: &File) -> io::Result<u64> {
        let mut bytes = [0; 8];
        if self.attributes {
            return match rustix::fs::fgetxattr(file, VERSION_ATTRIBUTE, &mut bytes) {
                Ok(8) => Ok(u64::from_le_bytes(bytes)),
                Ok(_) => Err(bad_version(object)),
                Err(rustix::io::Errno::NODATA) => Ok(0),
                Err(error) => Err(error.into()),
            };
        }
        match std::fs::read(self.version_file(object)) {
            Ok(stored) => Ok(u64::from_le_bytes(
                stored.try_into().map_err(|_| bad_version(object))?,
            )),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }

    fn set_version(&self, object: ObjectId, file: &File, version: u64) -> io::Result<()> {
        let bytes = version.to_le_bytes();
        if self.attributes {
            rustix::fs::fsetxattr(file, VERSION_ATTRIBUTE, &bytes, XattrFlags::empty())?;
            return Ok(());
        }
        let number = self.temporaries.fetch_add(1, Ordering::Relaxed);
        let temporary = self.temporary.join(format!("{number}"));
        self.write_temporary(&temporary, &bytes)?;
        std::fs::rename(&temporary, self.version_file(object))?;
        self.note_entry(object);
        Ok(())
    }

    fn version_file(&self, object: ObjectId) -> PathBuf {
        place::path(&self.root, object).with_extension(VERSION_ENDING)
    }
}

impl OpenFiles {
    fn find(&mut self, object: ObjectId) -> Option<Arc<Datafile>> {
        self.clock += 1;
        let (datafile, used) = self.files.get_mut(&object)?;
        *used = self.clock;
        Some(Arc::clone(datafile))
    }

    fn insert(&mut self, object: ObjectId, file: File) -> Arc<Datafile> {
        if self.files.len() >= MAX_OPEN {
            self.evict();
        }
        let datafile = Arc::new(Datafile::new(object, file));
        self.files
            .insert(object, (Arc::clone(&datafile), self.clock));
        datafile
    }

    /// Closes the datafile that was used longest ago. Those in use stay, as their gate must be the
    /// only one for the file; requests in progress are bounded, so they are few.
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

fn bad_version(object: ObjectId) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!(
            "the truncation version of datafile {:016x} is damaged",
            object.0
        ),
    )
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Whether files below `path` live in memory only.
fn is_in_memory(path: &Path) -> io::Result<bool> {
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58f6;
    let kind = rustix::fs::statfs(path)?.f_type as u64;
    Ok(kind == TMPFS || kind == RAMFS)
}

/// Whether the file system below keeps extended attributes of users.
fn probe_attributes(temporary: &Path) -> io::Result<bool> {
    let path = temporary.join("probe");
    let file = File::create(&path)?;
    let answer =
        rustix::fs::fsetxattr(&file, VERSION_ATTRIBUTE, &[0; 8], XattrFlags::empty()).is_ok();
    std::fs::remove_file(path)?;
    Ok(answer)
}
