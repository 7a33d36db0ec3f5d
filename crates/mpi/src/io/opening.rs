//! Opening, closing, and deleting files (MPI 5.0 §14.2).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use causeway_wire::contact::{FILES_AT_ONCE, FORMATS};
use causeway_wire::formats::Formats;

use crate::abi;
use crate::buffer::temporary;
use crate::caller::Caller;
use crate::contacts;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::info::Info;
use crate::process::Process;
use crate::told::bytes_of;

use super::agreeing::{
    Found, agree, agree_on, agree_on_first, broadcast_nearby, class_of, judge, numbers_in, tell,
    tell_all, tell_nearby,
};
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

/// The highest format that all processes of a group speak; an error if one of them speaks none in which files are opened together.
fn common_format(process: &Process, group: &Group) -> Result<u8> {
    let members = (0..).zip(group.members());
    members
        .filter_map(|(rank, member)| Some((rank, process.contacts.formats(*member)?)))
        .try_fold(
            FORMATS.highest,
            |lowest, (rank, formats): (u32, Formats)| {
                let common = contacts::file_format(&format!("rank {rank}"), formats)?;
                Ok(lowest.min(common))
            },
        )
}

/// How the processes reach each other until the file is open.
#[derive(Clone, Copy)]
enum By {
    /// By the program's communicator, in memory that they share if they have some.
    Program(usize),
    /// By the file's own, with messages: with builds that speak no format from [`FILES_AT_ONCE`] on.
    Own(usize),
}

/// Opens a file with all processes of a communicator. Returns its handle.
///
/// The processes agree on the mode first, so that none makes a file that is not opened. Then the first process opens the file, and makes
/// it if it has to be made; the others open what it tells them of, or find the file by its name, and all tell each other whether they have
/// opened it.
pub fn open(
    caller: &mut impl Caller,
    communicator: usize,
    name: &Path,
    mode: i32,
    info: &Info,
    error_handler: usize,
) -> Result<usize> {
    let (rank, group, format, files) = caller.with(|process| {
        let it = process.communicator(communicator)?;
        if it.remote_group().is_some() {
            let text = "files are opened by the processes of an intra-communicator";
            return Err(Error::new(abi::ERR_COMM, text));
        }
        let (rank, group) = (it.rank(), Arc::clone(it.group()));
        let format = common_format(process, &group);
        Ok((rank, group, format, process.file_systems.of(name)))
    })?;
    let at_once = format.as_ref().is_ok_and(|format| *format >= FILES_AT_ONCE);
    let checked = format.and(check_mode(mode)).and(files);
    let (own, files) = match at_once {
        true => agree_at_once(caller, communicator, checked, mode)?,
        false => agree_by_own(caller, communicator, checked, mode)?,
    };
    let by = match at_once {
        true => By::Program(communicator),
        false => By::Own(own),
    };
    let opened = open_agreed(caller, (by, rank), &*files, (name, mode, info));
    let opened = opened.and_then(|(storage, at, shared)| {
        caller.with(|process| {
            let hints = Hints::of(group.size(), process.file_buffer).with(info);
            process.files.insert(File {
                file_system: files,
                storage,
                communicator: own,
                group,
                name: name.to_owned(),
                mode,
                view: Arc::new(View::of_bytes()),
                pointer: at,
                shared,
                is_atomic: false,
                is_dirty: false,
                hints,
                info: info.clone(),
                error_handler,
                split: None,
            })
        })
    });
    if opened.is_err() {
        caller.with(|process| process.free_communicator(own))?;
    }
    opened
}

const MODE: &str = "the mode";

/// The processes agree on the mode, and make the file's own communicator, in one step.
fn agree_at_once<T>(
    caller: &mut impl Caller,
    communicator: usize,
    checked: Result<T>,
    mode: i32,
) -> Result<(usize, T)> {
    let number = caller.with(Process::number);
    let words = [
        mode.into(),
        number.as_ref().map_or(-1, |own| i64::from(*own)),
    ];
    let checked = checked.and_then(|checked| Ok((number?, checked)));
    let [mode, own] = words;
    let all = tell_nearby(caller, communicator, [class_of(&checked), mode, 0, own])?;
    let (number, checked) = judge(&all, checked, MODE, [mode, 0])?;
    let numbers = Vec::from_iter(all.iter().map(|[.., number]| *number));
    let own =
        caller.with(|process| process.duplicate_by_numbers(communicator, number, &numbers))?;
    Ok((own, checked))
}

/// The same in two steps, the second of which builds do alike that know format 1 alone, and so learn from it that the file is not opened.
fn agree_by_own<T>(
    caller: &mut impl Caller,
    communicator: usize,
    checked: Result<T>,
    mode: i32,
) -> Result<(usize, T)> {
    let (active, told) = caller.with(|process| process.tell(communicator, [0; 2]))?;
    caller.wait(active)?;
    let own = caller.with(|process| process.duplicate_by(&told))?;
    match agree_on(caller, own, checked, MODE, [mode.into(), 0]) {
        Ok(checked) => Ok((own, checked)),
        Err(error) => {
            caller.with(|process| process.free_communicator(own))?;
            Err(error)
        }
    }
}

/// What the others learn of the first process's result: its bytes, which this process alone may have failed to get, and the numbers.
type Learnt = (Option<First>, Result<Vec<u8>>, Found);

/// Bytes of the message that the first process sends all others at once: the class of its error, its numbers, and as many of its result's bytes as
/// have room.
const TOLD_AT_ONCE: usize = 512;
const WORD: usize = size_of::<i64>();

/// The first process sends the others its result in one step, if it has few bytes.
fn learn_at_once(
    caller: &mut impl Caller,
    communicator: usize,
    first: Result<Option<First>>,
) -> Result<Learnt> {
    let memory = temporary(TOLD_AT_ONCE)?;
    let class = class_of(&first);
    let bytes_at = WORD * (1 + Found::default().len());
    let fits = |len: usize| len <= TOLD_AT_ONCE - bytes_at;
    if let Ok(Some(first)) = &first {
        memory.write_at(WORD, &bytes_of(&first.numbers()));
        if fits(first.told.len()) {
            memory.write_at(bytes_at, &first.told);
        }
    }
    memory.write_at(0, &class.to_ne_bytes());
    broadcast_nearby(caller, communicator, &memory)?;
    let all = memory.to_vec();
    let numbers: Vec<[i64; 1]> = numbers_in(&all[..bytes_at]);
    let class = numbers[0][0];
    let found: Found = std::array::from_fn(|at| numbers[1 + at][0]);
    let first = first?;
    if class != abi::SUCCESS.into() {
        return Err(Error::new(class as i32, "it has failed on rank 0"));
    }
    let len = found[0];
    let told = match usize::try_from(len).ok().filter(|len| fits(*len)) {
        Some(len) => Ok(all[bytes_at..bytes_at + len].to_vec()),
        None => {
            let own = first.as_ref().map(|first| &first.told[..]);
            tell_all(caller, communicator, own, len)?
        }
    };
    Ok((first, told, found))
}

/// The same in two steps.
fn learn_by_own(
    caller: &mut impl Caller,
    communicator: usize,
    first: Result<Option<First>>,
    mode: i32,
) -> Result<Learnt> {
    let found = match &first {
        Ok(Some(first)) => first.numbers(),
        _ => Found::default(),
    };
    let same = (MODE, [mode.into(), 0]);
    let (first, found) = agree_on_first(caller, communicator, first, same, found)?;
    let own = first.as_ref().map(|first| &first.told[..]);
    let told = tell_all(caller, communicator, own, found[0])?;
    Ok((first, told, found))
}

/// Opens a file whose mode all have agreed on. Returns where pointers begin, too, and the shared one.
fn open_agreed(
    caller: &mut impl Caller,
    (by, rank): (By, u32),
    files: &dyn FileSystem,
    (name, mode, info): (&Path, i32, &Info),
) -> Result<(Arc<dyn Storage>, u64, Option<SharedPointer>)> {
    let has = |bits: i32| mode & bits != 0;
    let how = Opening {
        read: !has(abi::MODE_WRONLY),
        write: !has(abi::MODE_RDONLY),
        create: has(abi::MODE_CREATE) && rank == 0,
        exclusive: has(abi::MODE_CREATE) && has(abi::MODE_EXCL) && rank == 0,
        permissions: permissions(info),
    };
    let first = match rank {
        0 => First::open(files, name, how, mode, info).map(Some),
        _ => Ok(None),
    };
    let (first, told, [_, at, shared @ ..]) = match by {
        By::Program(communicator) => learn_at_once(caller, communicator, first)?,
        By::Own(own) => learn_by_own(caller, own, first, mode)?,
    };
    let (storage, shared) = match first {
        Some(first) => (Ok(first.storage), first.shared),
        None => (
            told.and_then(|told| opened(name, files.join(name, how, info, &told))),
            // Without one on any of them the file has none.
            SharedPointer::find(shared).ok(),
        ),
    };
    let own = [class_of(&storage), shared.is_some().into()];
    let all = match by {
        By::Program(communicator) => tell_nearby(caller, communicator, own)?,
        By::Own(communicator) => tell(caller, communicator, own)?,
    };
    let storage = storage?;
    let failed = |[class, _]: &[i64; 2]| *class != abi::SUCCESS.into();
    if let Some(rank) = all.iter().position(failed) {
        let text = format!("it has failed on rank {rank}");
        return Err(Error::new(all[rank][0] as i32, text));
    }
    // All have it, or none.
    let shared = shared.filter(|_| all.iter().all(|[_, has]| *has != 0));
    Ok((storage, at as u64, shared))
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
