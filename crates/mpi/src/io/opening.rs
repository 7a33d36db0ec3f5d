//! Opening, closing, and deleting files (MPI 5.0 §14.2).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use causeway_wire::formats::Formats;

use crate::abi;
use crate::contacts;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::info::Info;
use crate::process::Process;

use super::caller::{Caller, Found, agree, agree_on, agree_on_first, tell, tell_all};
use super::file::{File, Hints};
use super::pointer::SharedPointer;
use super::storage::{FileSystem, Opening, Storage, failed};
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

impl Process {
    /// Has the files of one more file system opened.
    pub fn add_file_system(&mut self, files: Arc<dyn FileSystem>) {
        self.file_systems.add(files);
    }
}

fn opened(name: &Path, result: std::io::Result<Arc<dyn Storage>>) -> Result<Arc<dyn Storage>> {
    result.map_err(|error| failed(format_args!("opening {}", name.display()), &error))
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

/// The first process's result, which it sends to the others.
struct First {
    storage: Arc<dyn Storage>,
    told: Vec<u8>,
    /// Where pointers begin.
    at: u64,
    /// `None` if there is no such memory.
    shared: Option<SharedPointer>,
}

impl First {
    fn open(
        files: &dyn FileSystem,
        name: &Path,
        how: Opening,
        mode: i32,
        info: &Info,
    ) -> Result<Self> {
        let storage = opened(name, files.open(name, how, info))?;
        let at = match mode & abi::MODE_APPEND {
            0 => 0,
            _ => storage.size().map_err(|error| failed("the size", &error))?,
        };
        Ok(Self {
            told: storage.told(),
            shared: SharedPointer::make(at).ok(),
            storage,
            at,
        })
    }

    /// The numbers that all processes need: bytes of the first process's result, where pointers begin, and how the shared one is found.
    fn numbers(&self) -> Found {
        let name = self.shared.as_ref().and_then(|shared| shared.name().ok());
        let [process, descriptor, mark] = name.unwrap_or([-1; 3]);
        let told = self.told.len() as i64;
        [told, self.at as i64, process, descriptor, mark]
    }
}

/// An error if a process of the group speaks no format in which processes do the same with files.
fn check_formats(process: &Process, group: &Group) -> Result<()> {
    let members = (0..).zip(group.members());
    members
        .filter_map(|(rank, member)| Some((rank, process.contacts.formats(*member)?)))
        .try_for_each(|(rank, formats): (u32, Formats)| {
            contacts::check_file_formats(&format!("rank {rank}"), formats)
        })
}

/// The same, with a communicator of the file's own. The processes agree on the mode first, so that none makes a file that is not
/// opened: a step that builds do alike that know format 1 alone, and so learn from it that the file is not opened. Then the first process opens the file, and makes it if it has to be made; the others
/// open what it tells them of, or find the file by its name.
fn open_with(
    caller: &mut impl Caller,
    communicator: usize,
    name: &Path,
    mode: i32,
    info: &Info,
    error_handler: usize,
) -> Result<usize> {
    let (rank, group, files) = caller.with(|process| {
        let it = process.communicator(communicator)?;
        let (rank, group) = (it.rank(), Arc::clone(it.group()));
        let fits = check_formats(process, &group);
        let files = fits.and_then(|()| process.file_systems.of(name));
        Ok((rank, group, files))
    })?;
    let checked = check_mode(mode).and(files);
    let same = [mode.into(), 0];
    let files = agree_on(caller, communicator, checked, "the mode", same)?;
    let has = |bits: i32| mode & bits != 0;
    let how = Opening {
        read: !has(abi::MODE_WRONLY),
        write: !has(abi::MODE_RDONLY),
        create: has(abi::MODE_CREATE) && rank == 0,
        exclusive: has(abi::MODE_CREATE) && has(abi::MODE_EXCL) && rank == 0,
        permissions: permissions(info),
    };
    let first = match rank {
        0 => First::open(&*files, name, how, mode, info).map(Some),
        _ => Ok(None),
    };
    let found = match &first {
        Ok(Some(first)) => first.numbers(),
        _ => Found::default(),
    };
    let (first, [told, at, shared @ ..]) =
        agree_on_first(caller, communicator, first, ("the mode", same), found)?;
    let told = tell_all(
        caller,
        communicator,
        first.as_ref().map(|first| &first.told[..]),
        told,
    )?;
    let (storage, shared) = match first {
        Some(first) => (Ok(first.storage), first.shared),
        None => (
            told.and_then(|told| opened(name, files.join(name, how, info, &told))),
            // Without one on any of them the file has none.
            SharedPointer::find(shared).ok(),
        ),
    };
    let class = storage.as_ref().err().map_or(abi::SUCCESS, Error::code);
    let all = tell(
        caller,
        communicator,
        [class.into(), shared.is_some().into()],
    )?;
    let storage = storage?;
    if let Some(rank) = all
        .iter()
        .position(|[class, _]| *class != abi::SUCCESS.into())
    {
        return Err(Error::new(
            all[rank][0] as i32,
            format!("it has failed on rank {rank}"),
        ));
    }
    // All have it, or none.
    let shared = shared.filter(|_| all.iter().all(|[_, has]| *has != 0));
    caller.with(|process| {
        let hints = Hints::of(group.size(), process.file_buffer).with(info);
        process.files.insert(File {
            file_system: files,
            storage,
            communicator,
            group,
            name: name.to_owned(),
            mode,
            view: Arc::new(View::of_bytes()),
            pointer: at as u64,
            shared,
            is_atomic: false,
            is_dirty: false,
            hints,
            info: info.clone(),
            error_handler,
            split: None,
        })
    })
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
    let (files, info) = (Arc::clone(&closed.file_system), closed.info.clone());
    let is_deleted = closed.has(abi::MODE_DELETE_ON_CLOSE);
    drop(closed);
    let mut deleted = Ok(());
    if is_deleted {
        // All have closed it then.
        agree(caller, communicator, Ok(()))?;
        let own = match rank {
            0 => remove(&*files, &name, &info),
            _ => Ok(()),
        };
        deleted = agree(caller, communicator, own);
    }
    caller.with(|process| process.free_communicator(communicator))?;
    synced.and(deleted).map(|()| handler)
}

/// Deletes a file.
pub fn delete(caller: &mut impl Caller, name: &Path, info: &Info) -> Result<()> {
    let files = caller.with(|process| process.file_systems.of(name))?;
    remove(&*files, name, info)
}

fn remove(files: &dyn FileSystem, name: &Path, info: &Info) -> Result<()> {
    let removed = files.remove(name, info);
    removed.map_err(|error| failed(format_args!("deleting {}", name.display()), &error))
}

/// A file's name.
pub fn name_of(text: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(text))
}
