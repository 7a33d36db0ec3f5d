//! A server's directory: formatted once, held by one process at a time, and bound to one server of one file system for ever
//! (`docs/formats/home.md`).
//!
//! A directory that was not formatted for this server is refused before anything in it is
//! changed: an empty one is most often a disk that is not mounted, and serving from it would show every file
//! as zeros.

use std::fs::{File, Permissions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use causeway_wire::fs::Generation;
use causeway_wire::home::{DirectoryIdentity, Enrollment, MAX_HOME_FILE_BYTES, Part, PartIdentity};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};

use super::error::CONFIG_OPTION;
use crate::config::ServerEntry;
use crate::files::{
    DIRECTORY_MODE, create_new, if_found, open_or_create, sync_directory, sync_name,
};
use crate::sabotage::{self, Sabotage};

/// Name of the file that a running server holds locked; it contains its process id.
const LOCK: &str = "lock";
/// Name of the file with the identity of the directory's server.
const IDENTITY: &str = "identity";
/// Its name while the directory is being formatted.
const DRAFT: &str = "identity.new";
/// Name of the file that names the directory to which a part belongs.
const OWNER: &str = "owner";
/// Name of the file that names the metadata with which an I/O server is enrolled.
const ENROLLED: &str = "enrolled";
/// Files that a directory may contain when it is formatted: a server's own files, and those that a new local file system has.
const HARMLESS: [&str; 4] = [LOCK, DRAFT, ".identity.new.new", "lost+found"];
/// The bit of the signal that ends a process in the sets that the kernel shows.
const SIGKILL: u64 = 1 << (Signal::KILL.as_raw() - 1);
/// Permission bits that must be clear on everything in the directory.
const OTHERS: u32 = 0o077;

/// The server for which the directory should have been formatted, by the configuration.
#[derive(Debug, Clone)]
pub(super) struct Wanted<'a> {
    pub(super) file_system: u128,
    pub(super) entry: &'a ServerEntry,
}

/// A server's directory, locked as long as this lives.
#[derive(Debug)]
pub(super) struct Home {
    path: PathBuf,
    identity: DirectoryIdentity,
    enrolled: Option<Enrollment>,
    lock: Lock,
}

/// A directory that is being formatted. It becomes a server's with [`Draft::seal`].
#[derive(Debug)]
pub(super) struct Draft(Home);

impl Wanted<'_> {
    fn path(&self) -> &Path {
        &self.entry.directory
    }

    /// Whether a directory's identity is the wanted one, whatever its generation.
    fn fits(&self, found: &DirectoryIdentity) -> bool {
        *found == self.identity(found.generation)
    }

    fn identity(&self, generation: Generation) -> DirectoryIdentity {
        DirectoryIdentity {
            file_system: self.file_system,
            server: self.entry.name.clone(),
            generation,
            metadata: self.entry.metadata,
            io: self.entry.io,
        }
    }

    /// What an operator should do about a directory that contains nothing of this server.
    fn advice(&self) -> String {
        let name = &self.entry.name;
        let whose = match self.entry.metadata {
            true => "is a new server",
            false => "is a new server, or what it has stored is lost",
        };
        format!(
            "if the disk that belongs there is not mounted, mount it; if {name} {whose}, format the \
             directory once with `causeway fs serve {CONFIG_OPTION} --server {name} --format`{}",
            taking_back(name, self.entry.metadata)
        )
    }

    fn expected(&self) -> String {
        describe(&self.identity(Generation::NONE))
    }
}

/// What else an operator has to do about an I/O server whose directory was lost, because its number in the layout is bound to
/// that directory.
fn taking_back(name: &str, metadata: bool) -> String {
    match metadata {
        true => String::new(),
        false => format!(
            "; if it was part of the file system before, take it back with `causeway fs servers accept {CONFIG_OPTION} {name}` once it runs"
        ),
    }
}

/// Describes an identity in words.
fn describe(identity: &DirectoryIdentity) -> String {
    let roles = match (identity.metadata, identity.io) {
        (true, true) => "metadata and I/O server",
        (true, false) => "metadata server",
        (false, _) => "I/O server",
    };
    let generation = match identity.generation.is_none() {
        true => String::new(),
        false => format!(", generation {}", identity.generation),
    };
    format!(
        "{roles} {} of file system {:032x}{generation}",
        identity.server, identity.file_system
    )
}

fn parts(identity: &DirectoryIdentity) -> impl Iterator<Item = Part> {
    let has = [
        (identity.metadata, Part::Metadata),
        (identity.io, Part::Data),
    ];
    has.into_iter()
        .filter_map(|(has, part)| has.then_some(part))
}

impl Home {
    /// Opens a directory that was formatted for this server. The error is a sentence; a refused directory is
    /// unchanged.
    pub(super) fn open(wanted: &Wanted<'_>) -> Result<Self, String> {
        let path = wanted.path();
        let identity = match check(wanted) {
            Err(_) if sabotage::is_on(Sabotage::AcceptDirectory) => wanted.identity(Generation(1)),
            checked => checked?,
        };
        let lock = lock(path)?;
        for_all_parts(path, &identity, |directory| {
            restrict_modes(directory, Changed::Logged)
        })?;
        restrict_files(path, Changed::Logged)?;
        Ok(Self {
            path: path.to_owned(),
            enrolled: read_enrolled(path)?,
            identity,
            lock,
        })
    }

    /// Begins to format a directory for this server, or continues an interrupted formatting. The error is a
    /// sentence; a refused directory is unchanged.
    pub(super) fn format(wanted: &Wanted<'_>, generation: Generation) -> Result<Draft, String> {
        let path = wanted.path();
        let wrong = |what: &str, error: io::Error| {
            format!("the directory {}: {what}: {error}", path.display())
        };
        let begun = check_unused(wanted)?;
        make_directory(path).map_err(|error| wrong("it cannot be made", error))?;
        check_owner(path)?;
        let lock = lock(path)?;
        restrict_modes(path, Changed::Silent)?;
        let identity = match begun {
            Some(identity) => identity,
            None => {
                let identity = wanted.identity(generation);
                write_durably(path, DRAFT, &identity.to_text())
                    .map_err(|error| wrong("its identity cannot be written", error))?;
                identity
            }
        };
        for part in parts(&identity) {
            let directory = path.join(part.name());
            make_directory(&directory)
                .and_then(|()| write_durably(&directory, OWNER, &identity.part(part).to_text()))
                .map_err(|error| wrong("its parts cannot be made", error))?;
        }
        Ok(Draft(Self {
            path: path.to_owned(),
            identity,
            enrolled: None,
            lock,
        }))
    }

    /// The directory's identity.
    pub(super) fn identity(&self) -> &DirectoryIdentity {
        &self.identity
    }

    /// The metadata with which it is enrolled.
    pub(super) fn enrolled(&self) -> Option<Enrollment> {
        self.enrolled
    }

    /// Notes durably with which metadata the directory is enrolled.
    pub(super) fn enroll(&mut self, enrollment: Enrollment) -> io::Result<()> {
        write_durably(&self.path, ENROLLED, &enrollment.to_text())?;
        self.enrolled = Some(enrollment);
        Ok(())
    }

    /// Fails, with a sentence, unless the directory and its parts are where they were when the server started: it may have been moved away or
    /// removed since, or another file system mounted over it.
    pub(super) fn check_place(&self) -> Result<(), String> {
        let shown = self.path.display();
        let remedy = "put it back where it was, or stop the server";
        let gone = |what: &str, error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => format!(
                "{what} is not there any more: it was moved away or removed while the server runs; {remedy}"
            ),
            _ => format!("{what} cannot be accessed any more: {error}"),
        };
        let home = || format!("the server's directory {shown}");
        let found = self.path.join(LOCK).metadata();
        let found = found.map_err(|error| gone(&home(), error))?;
        let own = (self.lock.0.metadata()).map_err(|error| gone(&home(), error))?;
        if (found.dev(), found.ino()) != (own.dev(), own.ino()) {
            return Err(format!(
                "another directory is at {shown} than the one that the server started on, which was moved away or covered by a mount; {remedy}"
            ));
        }
        for part in parts(&self.identity) {
            let directory = self.path.join(part.name());
            let owner = directory.join(OWNER).metadata();
            let what = || format!("the server's directory {}", directory.display());
            owner.map_err(|error| gone(&what(), error))?;
        }
        Ok(())
    }

    /// Makes the names in the directory, and its own name, durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        sync_directory(&self.path)?;
        sync_name(&self.path)
    }

    /// The directory of the metadata store.
    pub(super) fn metadata(&self) -> PathBuf {
        self.path.join(Part::Metadata.name())
    }

    /// The directory of the datafiles.
    pub(super) fn data(&self) -> PathBuf {
        self.path.join(Part::Data.name())
    }
}

impl Draft {
    /// The directory, to make its parts in.
    pub(super) fn home(&self) -> &Home {
        &self.0
    }

    /// Makes it the server's directory, durably.
    pub(super) fn seal(self) -> Result<(), String> {
        let path = &self.0.path;
        restrict_files(path, Changed::Silent)?;
        std::fs::rename(path.join(DRAFT), path.join(IDENTITY))
            .and_then(|()| self.0.sync())
            .map_err(|error| {
                format!(
                    "the directory {}: its identity cannot be written: {error}",
                    path.display()
                )
            })
    }
}

/// Whether a directory was formatted.
pub(super) fn has_identity(path: &Path) -> bool {
    path.join(IDENTITY).exists()
}

/// Whether the directory and its parts belong to this server; changes nothing.
fn check(wanted: &Wanted<'_>) -> Result<DirectoryIdentity, String> {
    let path = wanted.path();
    let shown = path.display();
    if !path.is_dir() {
        return Err(format!(
            "the directory {shown} does not exist; expected the one of {}: {}",
            wanted.expected(),
            wanted.advice()
        ));
    }
    let Some(text) = read_text(&path.join(IDENTITY))? else {
        return Err(unformatted(wanted)?);
    };
    let found = DirectoryIdentity::parse(&text)
        .map_err(|error| unreadable(&path.join(IDENTITY), &error.to_string()))?;
    if !wanted.fits(&found) {
        return Err(format!(
            "the directory {shown} belongs to another server: it is that of {}, and this is {}; correct the \
             directory or the name in the configuration, or mount the right disk there",
            describe(&found),
            wanted.expected()
        ));
    }
    check_owner(path)?;
    for part in parts(&found) {
        check_part(path, part, &found)?;
    }
    Ok(found)
}

/// The error about a directory that has no identity.
fn unformatted(wanted: &Wanted<'_>) -> Result<String, String> {
    let path = wanted.path();
    let shown = path.display();
    if path.join(DRAFT).exists() {
        return Ok(format!(
            "the directory {shown} was not formatted to the end; finish it with \
             `causeway fs serve {CONFIG_OPTION} --server {} --format`",
            wanted.entry.name
        ));
    }
    Ok(match first_foreign(path)? {
        Some(name) => format!(
            "the directory {shown} has no identity, but holds `{}`: it is not that of {}; correct the \
             directory in the configuration, or mount the right disk there",
            name.display(),
            wanted.expected()
        ),
        None => format!(
            "the directory {shown} is empty; expected the one of {}: {}",
            wanted.expected(),
            wanted.advice()
        ),
    })
}

fn unreadable(file: &Path, why: &str) -> String {
    format!(
        "{}: {why}; if another version of the program made it, use that one; if it is damaged, restore it \
         from a backup",
        file.display()
    )
}

fn check_part(path: &Path, part: Part, identity: &DirectoryIdentity) -> Result<(), String> {
    let directory = path.join(part.name());
    let expected = format!("the {} of {}", part.name(), describe(identity));
    let owner = directory.join(OWNER);
    let Some(text) = read_text(&owner)? else {
        let what = match directory.exists() {
            false => "does not exist",
            true => match first_foreign(&directory)? {
                None => "is empty",
                Some(_) => "has no `owner` file",
            },
        };
        return Err(format!(
            "{} {what}; expected {expected}: mount the disk that belongs there, or restore it from a backup; \
             if it is lost, let the server begin anew in an empty directory with \
             `causeway fs serve {CONFIG_OPTION} --server {} --format`{}",
            directory.display(),
            identity.server,
            taking_back(&identity.server, identity.metadata)
        ));
    };
    let found =
        PartIdentity::parse(&text).map_err(|error| unreadable(&owner, &error.to_string()))?;
    if found != identity.part(part) {
        return Err(format!(
            "{} is another directory's: it is the {} of server {} of file system {:032x}, generation {}; \
             expected {expected}: mount the right disk there",
            directory.display(),
            found.part.name(),
            found.server,
            found.file_system,
            found.generation
        ));
    }
    check_owner(&directory)
}

/// Whether a directory may be formatted: it is empty, or contains what an interrupted formatting has left, whose
/// identity is returned. Changes nothing.
fn check_unused(wanted: &Wanted<'_>) -> Result<Option<DirectoryIdentity>, String> {
    let path = wanted.path();
    let shown = path.display();
    if !path.exists() {
        return Ok(None);
    }
    if let Some(text) = read_text(&path.join(IDENTITY))? {
        let found = match DirectoryIdentity::parse(&text) {
            Ok(found) => describe(&found),
            Err(error) => format!("an unknown server ({error})"),
        };
        return Err(format!(
            "the directory {shown} is formatted already: it is that of {found}; start without --format, or \
             choose an empty directory"
        ));
    }
    if let Some(text) = read_text(&path.join(DRAFT))? {
        match DirectoryIdentity::parse(&text) {
            Ok(found) if wanted.fits(&found) => return Ok(Some(found)),
            Ok(found) => {
                return Err(format!(
                    "the directory {shown} was begun to be formatted for {}; this is {}: remove what is \
                     in it, or choose another one",
                    describe(&found),
                    wanted.expected()
                ));
            }
            // The formatting was interrupted while it wrote this file; it has made nothing after it.
            Err(_) => {}
        }
    }
    match first_foreign(path)? {
        None => Ok(None),
        Some(name) => Err(format!(
            "the directory {shown} holds `{}` and is not a server's: choose an empty one",
            name.display()
        )),
    }
}

/// The first name in a directory that belongs neither to a server nor to a new local file system.
fn first_foreign(path: &Path) -> Result<Option<std::ffi::OsString>, String> {
    let failed =
        |error: io::Error| format!("the directory {} cannot be read: {error}", path.display());
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if !HARMLESS.iter().any(|harmless| name == *harmless) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn read_enrolled(path: &Path) -> Result<Option<Enrollment>, String> {
    let file = path.join(ENROLLED);
    match read_text(&file)? {
        None => Ok(None),
        Some(text) => Enrollment::parse(&text)
            .map(Some)
            .map_err(|error| unreadable(&file, &error.to_string())),
    }
}

/// A small file's text; `None` if it does not exist.
fn read_text(file: &Path) -> Result<Option<String>, String> {
    let failed = |error: io::Error| format!("{} cannot be read: {error}", file.display());
    let Some(opened) = if_found(File::open(file)).map_err(failed)? else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    opened
        .take(MAX_HOME_FILE_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Replaces a file atomically and durably.
fn write_durably(directory: &Path, name: &str, text: &str) -> io::Result<()> {
    let temporary = directory.join(format!(".{name}.new"));
    if_found(std::fs::remove_file(&temporary))?;
    let mut file = create_new(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(temporary, directory.join(name))?;
    sync_directory(directory)
}

/// Makes a directory, and those above it, unless it exists.
fn make_directory(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    match std::fs::DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    }
}

fn check_owner(path: &Path) -> Result<(), String> {
    let (owner, own) = match path.metadata() {
        Ok(found) => (found.uid(), rustix::process::geteuid().as_raw()),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    match owner == own {
        true => Ok(()),
        false => Err(format!(
            "{} belongs to user {owner}, and the server runs as user {own}: run it as that user, or give \
             the directory and all that is in it to this one with `chown -R {own}`",
            path.display()
        )),
    }
}

fn for_all_parts(
    path: &Path,
    identity: &DirectoryIdentity,
    act: impl Fn(&Path) -> Result<(), String>,
) -> Result<(), String> {
    act(path)?;
    parts(identity).try_for_each(|part| act(&path.join(part.name())))
}

/// Whether a changed mode is logged: not in a directory that was just made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Changed {
    Logged,
    Silent,
}

/// Takes all permissions of other users away from a directory or file.
fn restrict_modes(path: &Path, changed: Changed) -> Result<(), String> {
    let failed = |error: io::Error| format!("{}: its mode: {error}", path.display());
    let mode = path.metadata().map_err(failed)?.permissions().mode() & 0o7777;
    if mode & OTHERS == 0 {
        return Ok(());
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS)).map_err(failed)?;
    if changed == Changed::Silent {
        return Ok(());
    }
    tracing::warn!(
        "{} had mode {mode:03o}: others could reach it; it has {:03o} now",
        path.display(),
        mode & !OTHERS
    );
    Ok(())
}

/// Restricts the modes of the files of a directory and, as they are few, of the metadata store. Datafiles lie in a
/// directory that other users cannot enter, and are made without permissions for others.
fn restrict_files(path: &Path, changed: Changed) -> Result<(), String> {
    let failed =
        |error: io::Error| format!("the directory {} cannot be read: {error}", path.display());
    let owner = path.join(Part::Data.name()).join(OWNER);
    if owner.exists() {
        restrict_modes(&owner, changed)?;
    }
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() && entry.file_name() != Part::Data.name() {
            restrict_files(&entry.path(), changed)?;
        }
        if (kind.is_dir() || kind.is_file()) && entry.file_name() != "lost+found" {
            restrict_modes(&entry.path(), changed)?;
        }
    }
    Ok(())
}

/// The lock on a directory, which ends when it is dropped.
#[derive(Debug)]
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file alone would not end it while a process that another thread has just started still has its copy.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

fn lock(path: &Path) -> Result<Lock, String> {
    let name = path.join(LOCK);
    let refused = |error: io::Error| format!("{} cannot be locked: {error}", name.display());
    let mut file = open_or_create(&name).map_err(refused)?;
    let try_lock = |file: &File| flock(file, FlockOperation::NonBlockingLockExclusive);
    let mut locked = try_lock(&file);
    let mut holder = String::new();
    if locked == Err(Errno::WOULDBLOCK) {
        // Best effort: the process's number only helps the operator to find the other process.
        let _ = (&file).take(32).read_to_string(&mut holder);
        if holder.trim().parse().is_ok_and(has_ended) {
            locked = try_lock(&file);
        }
    }
    match locked {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            return Err(format!(
                "another server (process {}) runs on the directory {}; stop it first",
                holder.trim(),
                path.display()
            ));
        }
        Err(error) => return Err(refused(error.into())),
    }
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(refused)?;
    Ok(Lock(file))
}

/// Whether a process has ended. Waits for the end of one that was killed: its locks last until its last thread has ended.
fn has_ended(pid: i32) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else {
        return true;
    };
    let field = |name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim()
    };
    let killed =
        |pending| u64::from_str_radix(field(pending), 16).is_ok_and(|set| set & SIGKILL != 0);
    let is_ending =
        field("State:").starts_with(['Z', 'X']) || killed("SigPnd:") || killed("ShdPnd:");
    if !is_ending {
        return false;
    }
    let process = Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
    if let Some(Ok(process)) = process {
        tracing::info!(pid, "waiting for the end of the server that was killed");
        let mut ends = [PollFd::new(&process, PollFlags::IN)];
        while poll(&mut ends, None) == Err(Errno::INTR) {}
    }
    true
}

#[cfg(test)]
mod tests;
