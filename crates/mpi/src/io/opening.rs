//! Opening, closing, and deleting files (MPI 5.0 §14.2).

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::abi;
use crate::error::{Error, Result};
use crate::info::Info;

use super::caller::{Caller, agree, agree_on, tell};
use super::file::{File, Hints};
use super::pointer::SharedPointer;
use super::posix::Posix;
use super::storage::{Opening, Storage, failed};
use super::view::View;

/// All modes that there are.
const MODES: i32 = abi::MODE_APPEND
    | abi::MODE_CREATE
    | abi::MODE_DELETE_ON_CLOSE
    | abi::MODE_EXCL
    | abi::MODE_RDONLY
    | abi::MODE_RDWR
    | abi::MODE_SEQUENTIAL
    | abi::MODE_UNIQUE_OPEN
    | abi::MODE_WRONLY;

fn check_mode(mode: i32) -> Result<()> {
    let has = |bits: i32| mode & bits != 0;
    let accesses = [abi::MODE_RDONLY, abi::MODE_RDWR, abi::MODE_WRONLY];
    let why = if mode & !MODES != 0 {
        "it has bits that are no modes"
    } else if accesses.iter().filter(|bits| has(**bits)).count() != 1 {
        "one of MPI_MODE_RDONLY, MPI_MODE_RDWR and MPI_MODE_WRONLY has to be given"
    } else if has(abi::MODE_RDONLY) && has(abi::MODE_CREATE | abi::MODE_EXCL) {
        "MPI_MODE_CREATE and MPI_MODE_EXCL do not go with MPI_MODE_RDONLY"
    } else if has(abi::MODE_RDWR) && has(abi::MODE_SEQUENTIAL) {
        "MPI_MODE_SEQUENTIAL does not go with MPI_MODE_RDWR"
    } else {
        return Ok(());
    };
    Err(Error::new(
        abi::ERR_AMODE,
        format!("the mode {mode:#x}: {why}"),
    ))
}

/// The hint `file_perm`: an octal number.
fn permissions(info: &Info) -> Option<u32> {
    let value = info.get(b"file_perm").ok().flatten()?;
    let value = std::str::from_utf8(value).ok()?;
    let value = u32::from_str_radix(value.trim(), 8).ok();
    value.filter(|bits| *bits <= 0o777)
}

fn open_one(name: &Path, how: Opening) -> Result<Arc<dyn Storage>> {
    let opened = Posix::open(name, how);
    let opened = opened.map_err(|error| failed(format_args!("opening {}", name.display()), &error));
    Ok(Arc::new(opened?))
}

/// Opens a file with all processes of a communicator. Returns its handle.
pub fn open(
    caller: &mut impl Caller,
    communicator: usize,
    name: &Path,
    mode: i32,
    info: &Info,
    error_handler: usize,
) -> Result<usize> {
    let own = caller.with(|process| {
        if process.communicator(communicator)?.remote_group().is_some() {
            let text = "files are opened by the processes of an intra-communicator";
            return Err(Error::new(abi::ERR_COMM, text));
        }
        process.tell(communicator, [0; 2])
    });
    let (active, told) = own?;
    caller.wait(active)?;
    let own = caller.with(|process| process.duplicate_by(&told))?;
    let opened = open_with(caller, own, name, mode, info, error_handler);
    if opened.is_err() {
        caller.with(|process| process.free_communicator(own))?;
    }
    opened
}

/// The same, with a communicator of the file's own.
fn open_with(
    caller: &mut impl Caller,
    communicator: usize,
    name: &Path,
    mode: i32,
    info: &Info,
    error_handler: usize,
) -> Result<usize> {
    let checked = check_mode(mode);
    agree_on(caller, communicator, checked, "the mode", [mode.into(), 0])?;
    let (rank, group) = caller.with(|process| {
        let it = process.communicator(communicator)?;
        Ok((it.rank(), Arc::clone(it.group())))
    })?;
    let has = |bits: i32| mode & bits != 0;
    let how = Opening {
        read: !has(abi::MODE_WRONLY),
        write: !has(abi::MODE_RDONLY),
        create: has(abi::MODE_CREATE) && rank == 0,
        exclusive: has(abi::MODE_CREATE) && has(abi::MODE_EXCL) && rank == 0,
        permissions: permissions(info),
    };
    // The first makes the file, if it has to be made; then the others find it.
    let first = match rank {
        0 => open_one(name, how).map(Some),
        _ => Ok(None),
    };
    let first = agree(caller, communicator, first)?;
    let storage = match first {
        Some(storage) => Ok(storage),
        None => open_one(name, how),
    };
    let storage = agree(caller, communicator, storage)?;
    let shared = share_pointer(caller, communicator, rank)?;
    let view = View::of_bytes();
    let at_end = match has(abi::MODE_APPEND) {
        true => agree(
            caller,
            communicator,
            storage.size().map_err(|error| failed("the size", &error)),
        )?,
        false => 0,
    };
    if let Some(shared) = &shared {
        // Each sets the same.
        shared.set(at_end)?;
    }
    agree(caller, communicator, Ok(()))?;
    caller.with(|process| {
        let hints = Hints::of(group.size(), process.file_buffer).with(info);
        process.files.insert(File {
            storage,
            communicator,
            group,
            name: name.to_owned(),
            mode,
            view: Arc::new(view),
            pointer: at_end,
            shared,
            is_atomic: false,
            is_dirty: false,
            hints,
            error_handler,
            split: None,
        })
    })
}

/// The first process makes the shared pointer, the others find it. `None` for all if one cannot.
fn share_pointer(
    caller: &mut impl Caller,
    communicator: usize,
    rank: u32,
) -> Result<Option<SharedPointer>> {
    // What the first keeps open until the others have found it.
    let mut held: Option<OwnedFd> = None;
    let mut own = None;
    if rank == 0
        && let Ok((pointer, file)) = SharedPointer::make()
    {
        (own, held) = (Some(pointer), Some(file));
    }
    let name = held.as_ref().map_or([-1; 2], SharedPointer::name);
    let names = tell(caller, communicator, name)?;
    if rank != 0 {
        own = SharedPointer::find(names[0]).ok();
    }
    let all = tell(caller, communicator, [own.is_some().into()])?;
    Ok(own.filter(|_| all.iter().all(|[has]| *has != 0)))
}

/// Closes a file with all processes that have opened it. Returns its error handler.
pub fn close(caller: &mut impl Caller, file: usize) -> Result<usize> {
    let (communicator, storage, is_dirty) = caller.with(|process| {
        let it = process.files.get(file)?;
        if it.split.is_some() {
            let text = "a split operation was begun and not ended";
            return Err(Error::new(abi::ERR_OTHER, text));
        }
        Ok((it.communicator, Arc::clone(&it.storage), it.is_dirty))
    })?;
    let synced = match is_dirty {
        true => storage.sync(),
        false => Ok(()),
    };
    let synced = synced.map_err(|error| failed("synchronising", &error));
    let synced = agree(caller, communicator, synced);
    drop(storage);
    let (closed, rank) = caller.with(|process| {
        let rank = process.communicator(communicator)?.rank();
        Ok((process.files.remove(file)?, rank))
    })?;
    let (name, handler) = (closed.name.clone(), closed.error_handler);
    let is_deleted = closed.has(abi::MODE_DELETE_ON_CLOSE);
    drop(closed);
    let mut deleted = Ok(());
    if is_deleted {
        // All have closed it then.
        agree(caller, communicator, Ok(()))?;
        let own = if rank == 0 { delete(&name) } else { Ok(()) };
        deleted = agree(caller, communicator, own);
    }
    caller.with(|process| process.free_communicator(communicator))?;
    synced.and(deleted).map(|()| handler)
}

/// Deletes a file.
pub fn delete(name: &Path) -> Result<()> {
    let what = || format!("deleting {}", name.display());
    Posix::remove(name).map_err(|error| failed(what(), &error))
}

/// A file's name.
pub fn name_of(text: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(text))
}
