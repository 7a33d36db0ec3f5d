//! Opening, closing, and deleting files (MPI 5.0 §14.2).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use causeway_engine::Memory;
use causeway_wire::contact::{FILES_AT_ONCE, FORMATS, SHARED_STORED};
use causeway_wire::formats::Formats;

use crate::abi;
use crate::buffer::temporary;
use crate::caller::Caller;
use crate::error::{Error, Result};
use crate::exchange::bytes_of;
use crate::group::Group;
use crate::info::Info;
use crate::process::Process;
use crate::process_table;

use super::agreement::{
    FirstNumbers, WORD, agree, agree_on, agree_on_first, broadcast_first, broadcast_nearby,
    check_results, class_of, exchange_numbers, exchange_numbers_nearby, numbers_in,
};
use super::file::{File, Hints};
use super::pointer::{Shared, SharedPointer};
use super::storage::{FileSystem, Opening, PointerStep, Storage, failed};
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

impl Process {
    /// Whether some processes of a group share no memory with others.
    pub(crate) fn are_on_several_hosts(&self, group: &Group) -> bool {
        let host = |member: &u32| self.hosts.get(*member as usize);
        let mut members = group.members().iter();
        let first = members.next().and_then(host);
        members.any(|member| host(member) != first)
    }
}

fn opened(name: &Path, result: io::Result<Arc<dyn Storage>>) -> Result<Arc<dyn Storage>> {
    result.map_err(|error| failed(format_args!("opening {}", name.display()), &error))
}

/// The first process's result, which it sends to the others.
struct First {
    storage: Arc<dyn Storage>,
    description: Vec<u8>,
    /// Where pointers begin.
    at: u64,
    shared: FirstShared,
}

/// The shared pointer, as the first process has made it.
enum FirstShared {
    /// In memory.
    Memory(SharedPointer),
    /// With the storage.
    Stored(u64),
    /// Not at all.
    Nowhere(Error),
}

impl FirstShared {
    /// With the storage if it `may_store` it, and keeps pointers; else in memory, which processes on one host can share.
    fn make(storage: &dyn Storage, at: u64, may_store: bool) -> Self {
        let in_memory = || match SharedPointer::make(at) {
            Ok(memory) => Self::Memory(memory),
            Err(error) => Self::Nowhere(error),
        };
        if !may_store {
            return in_memory();
        }
        let number = match process_table::number() {
            Ok(number) => number,
            Err(error) => return Self::Nowhere(error),
        };
        match storage.move_pointer(number, PointerStep::Put(at)) {
            Ok(_) => Self::Stored(number),
            // Processes that may not share memory for messages may still find this memory.
            Err(error) if storage.has_locks() && error.kind() == io::ErrorKind::Unsupported => {
                in_memory()
            }
            Err(error) => Self::Nowhere(failed("a shared file pointer", &error)),
        }
    }
}

/// What a process reports about the shared pointer: there is none.
const NO_POINTER: i64 = 0;
/// It is in memory that the process has.
const IN_MEMORY: i64 = 1;
/// The storage keeps it.
const STORED: i64 = 2;
/// Stands for no process, in the field for the process that has the memory.
const NO_PROCESS: i64 = -1;

impl First {
    fn open(
        files: &dyn FileSystem,
        name: &Path,
        how: Opening,
        (mode, may_store): (i32, bool),
        info: &Info,
    ) -> Result<Self> {
        let storage = opened(name, files.open(name, how, info))?;
        let at = match mode & abi::MODE_APPEND {
            0 => 0,
            _ => storage.size().map_err(|error| failed("the size", &error))?,
        };
        Ok(Self {
            description: storage.description(),
            shared: FirstShared::make(&*storage, at, may_store),
            storage,
            at,
        })
    }

    /// The numbers that all processes need: bytes of the first process's result, where pointers begin, and how the shared one is found.
    fn numbers(&self) -> FirstNumbers {
        let name = match &self.shared {
            FirstShared::Memory(memory) => memory.name().ok(),
            FirstShared::Stored(number) => Some([NO_PROCESS, 0, *number as i64]),
            FirstShared::Nowhere(_) => None,
        };
        let [process, descriptor, mark] = name.unwrap_or([NO_PROCESS; 3]);
        let description = self.description.len() as i64;
        [description, self.at as i64, process, descriptor, mark]
    }
}

impl FirstShared {
    /// The same, as another process finds it by the first one's numbers.
    fn find(numbers: [i64; 3], may_store: bool) -> Self {
        match (numbers, SharedPointer::find(numbers)) {
            ([NO_PROCESS, 0, number], _) if may_store => Self::Stored(number as u64),
            (_, Ok(found)) => Self::Memory(found),
            (_, Err(error)) => Self::Nowhere(error),
        }
    }
}

/// The highest format that all processes of a group speak; an error if one of them speaks none in which files are opened together.
fn common_format(process: &Process, group: &Group) -> Result<u8> {
    let own = process.process_table.own.formats;
    let members = (0..).zip(group.members());
    members
        .filter_map(|(rank, member)| Some((rank, process.process_table.formats(*member)?)))
        .try_fold(own.highest, |lowest, (rank, formats): (u32, Formats)| {
            let common = process_table::file_format(&format!("rank {rank}"), own, formats)?;
            Ok(lowest.min(common))
        })
}

/// How the processes reach each other until the file is open.
#[derive(Clone)]
enum OpeningChannel {
    /// By the program's communicator, in memory that they share if they have some.
    Program(usize, AgreementBuffers),
    /// By the file's own communicator, with messages: used if a process is of a build that does not
    /// speak the format [`FILES_AT_ONCE`] or a later one.
    Own,
}

/// Memory for what processes send each other by the program's communicator until the file is open. It is allocated before the first step. If it were
/// allocated in a later step, a process without memory would not take part in that step: the others would go on waiting in it, and take messages of
/// the program for messages of the step.
#[derive(Clone)]
struct AgreementBuffers {
    /// [`MAX_NUMBERS`] numbers of each process.
    numbers: Memory,
    /// [`INLINE_BYTES`] bytes, sent by the first process.
    description: Memory,
}

/// Most numbers that a process sends the others in a step.
const MAX_NUMBERS: usize = 4;

impl AgreementBuffers {
    fn new(size: u32) -> Result<Self> {
        let numbers = size as usize * MAX_NUMBERS * WORD;
        let memory = temporary(numbers + INLINE_BYTES)?;
        Ok(Self {
            numbers: memory.slice(0..numbers),
            description: memory.slice(numbers..numbers + INLINE_BYTES),
        })
    }

    /// Exchanges numbers, by a communicator with as many processes as there is room for.
    fn exchange<const N: usize>(
        &self,
        caller: &mut impl Caller,
        communicator: usize,
        numbers: [i64; N],
    ) -> Result<Vec<[i64; N]>> {
        let room = self.numbers.slice(0..self.numbers.len() / MAX_NUMBERS * N);
        exchange_numbers_nearby(caller, communicator, numbers, room)
    }
}

/// Opens a file with all processes of a communicator. Returns its handle.
///
/// The processes agree on the mode first, so that none makes a file that is not opened. Then the first process opens the file, and makes
/// it if it has to be made; the others open it by the description that the first process sends, or by its name; and all processes exchange
/// whether they have opened it.
pub fn open(
    caller: &mut impl Caller,
    communicator: usize,
    name: &Path,
    mode: i32,
    info: &Result<Info>,
    error_handler: usize,
) -> Result<usize> {
    let (rank, group, format, files, several_hosts) = caller.with(|process| {
        let it = process.communicator(communicator)?;
        if it.remote_group().is_some() {
            let text = "files are opened by the processes of an intra-communicator";
            return Err(Error::new(abi::ERR_COMM, text));
        }
        let (rank, group) = (it.rank(), Arc::clone(it.group()));
        let format = common_format(process, &group);
        let several_hosts = process.are_on_several_hosts(&group);
        let files = process.file_systems.of(name);
        Ok((rank, group, format, files, several_hosts))
    })?;
    // If there is no common format, every process returns that error below.
    let spoken = *format.as_ref().unwrap_or(&FORMATS.lowest);
    let at_once = spoken >= FILES_AT_ONCE;
    let may_store = several_hosts && spoken >= SHARED_STORED;
    let given = info.as_ref().map_err(Error::clone);
    let checked = format.and(check_mode(mode)).and(given).and(files);
    let none = Info::default();
    let info = info.as_ref().unwrap_or(&none);
    let (channel, own, files) = match at_once {
        true => {
            let room = AgreementBuffers::new(group.size())?;
            let (own, files) = agree_at_once(caller, (communicator, &room), checked, mode)?;
            (OpeningChannel::Program(communicator, room), own, files)
        }
        false => {
            let (own, files) = agree_in_two_steps(caller, communicator, checked, mode)?;
            (OpeningChannel::Own, own, files)
        }
    };
    let size = group.size();
    let add = |process: &mut Process, (storage, pointer)| {
        process.files.insert(File {
            file_system: Arc::clone(&files),
            storage,
            communicator: own,
            group,
            name: name.to_owned(),
            mode,
            view: Arc::new(View::of_bytes()),
            pointer,
            shared: Shared::Nowhere(no_pointer(spoken)),
            format: spoken,
            is_atomic: false,
            is_dirty: false,
            hints: Hints::of(size, process.file_buffer).with(info),
            info: info.clone(),
            error_handler,
            split: None,
        })
    };
    let opened = open_agreed(
        caller,
        (channel, own, rank, may_store),
        &*files,
        (name, mode, info),
        add,
    );
    if opened.is_err() {
        caller.with(|process| process.free_communicator(own))?;
    }
    opened
}

const MODE: &str = "the mode";

/// The processes agree on the mode, and make the file's own communicator, in one step. Each process adds that communicator beforehand, so that it cannot
/// fail to do so once the others have it.
fn agree_at_once<T>(
    caller: &mut impl Caller,
    (communicator, room): (usize, &AgreementBuffers),
    checked: Result<T>,
    mode: i32,
) -> Result<(usize, T)> {
    let own = caller.with(|process| {
        let number = process.number()?;
        let own = process.add_duplicate(communicator, number)?;
        Ok((own, number))
    });
    let number = own.as_ref().map_or(-1, |(_, number)| i64::from(*number));
    let made = own.as_ref().ok().map(|(own, _)| *own);
    let checked = checked.and_then(|checked| Ok((own?.0, checked)));
    let mode = mode.into();
    let numbers = [class_of(&checked), mode, 0, number];
    let agreed = room
        .exchange(caller, communicator, numbers)
        .and_then(|all| {
            let (own, checked) = check_results(&all, checked, MODE, [mode, 0])?;
            let numbers = all.iter().map(|[.., number]| *number);
            caller.with(|process| process.finish_duplicate(own, numbers))?;
            Ok((own, checked))
        });
    if let (Err(_), Some(own)) = (&agreed, made) {
        caller.with(|process| process.free_communicator(own))?;
    }
    agreed
}

/// The same in two steps. Builds that speak only format 1 take the second step as well, and learn from it that the file is not opened.
fn agree_in_two_steps<T>(
    caller: &mut impl Caller,
    communicator: usize,
    checked: Result<T>,
    mode: i32,
) -> Result<(usize, T)> {
    let (active, description) =
        caller.with(|process| process.duplicate(communicator, "MPI_File_open"))?;
    let own = description.new_handle();
    let made = caller.wait(active);
    let agreed = made.and_then(|_| agree_on(caller, own, checked, MODE, [mode.into(), 0]));
    if agreed.is_err() {
        caller.with(|process| process.free_communicator(own))?;
    }
    Ok((own, agreed?))
}

/// What the others learn of the first process's result: its bytes, which this process alone may have failed to get, and the numbers.
type FirstResult = (Option<First>, Result<Vec<u8>>, FirstNumbers);

/// Bytes of the message that the first process sends all others at once: the class of its error, its numbers, and as many of its result's bytes as
/// have room.
const INLINE_BYTES: usize = 512;

/// The first process sends the others its result in one step, if it has few bytes.
fn share_first_result(
    caller: &mut impl Caller,
    (communicator, memory): (usize, &Memory),
    first: Result<Option<First>>,
) -> Result<FirstResult> {
    let class = class_of(&first);
    let bytes_at = WORD * (1 + FirstNumbers::default().len());
    let fits = |len: usize| len <= INLINE_BYTES - bytes_at;
    if let Ok(Some(first)) = &first {
        memory.write_at(WORD, &bytes_of(&first.numbers()));
        if fits(first.description.len()) {
            memory.write_at(bytes_at, &first.description);
        }
    }
    memory.write_at(0, &class.to_ne_bytes());
    broadcast_nearby(caller, communicator, memory)?;
    let all = memory.to_vec();
    let numbers: Vec<[i64; 1]> = numbers_in(&all[..bytes_at]);
    let class = numbers[0][0];
    let found: FirstNumbers = std::array::from_fn(|at| numbers[1 + at][0]);
    let first = first?;
    if class != abi::SUCCESS.into() {
        return Err(Error::new(class as i32, "it has failed on rank 0"));
    }
    let len = found[0];
    let description = match usize::try_from(len).ok().filter(|len| fits(*len)) {
        Some(len) => Ok(all[bytes_at..bytes_at + len].to_vec()),
        None => {
            let own = first.as_ref().map(|first| &first.description[..]);
            broadcast_first(caller, communicator, own, len)?
        }
    };
    Ok((first, description, found))
}

/// The same in two steps.
fn share_first_result_in_two_steps(
    caller: &mut impl Caller,
    communicator: usize,
    first: Result<Option<First>>,
    mode: i32,
) -> Result<FirstResult> {
    let found = match &first {
        Ok(Some(first)) => first.numbers(),
        _ => FirstNumbers::default(),
    };
    let same = (MODE, [mode.into(), 0]);
    let (first, found) = agree_on_first(caller, communicator, first, same, found)?;
    let own = first.as_ref().map(|first| &first.description[..]);
    let description = broadcast_first(caller, communicator, own, found[0])?;
    Ok((first, description, found))
}

/// Opens a file whose mode all have agreed on, and adds it with where its pointers begin, and the shared one. Returns its handle.
fn open_agreed(
    caller: &mut impl Caller,
    (channel, own, rank, may_store): (OpeningChannel, usize, u32, bool),
    files: &dyn FileSystem,
    (name, mode, info): (&Path, i32, &Info),
    add: impl FnOnce(&mut Process, (Arc<dyn Storage>, u64)) -> Result<usize>,
) -> Result<usize> {
    let has = |bits: i32| mode & bits != 0;
    let how = Opening {
        read: !has(abi::MODE_WRONLY),
        write: !has(abi::MODE_RDONLY),
        create: has(abi::MODE_CREATE) && rank == 0,
        exclusive: has(abi::MODE_CREATE) && has(abi::MODE_EXCL) && rank == 0,
        permissions: permissions(info),
    };
    let first = match rank {
        0 => First::open(files, name, how, (mode, may_store), info).map(Some),
        _ => Ok(None),
    };
    let (first, description, [_, at, shared @ ..]) = match &channel {
        OpeningChannel::Program(communicator, room) => {
            share_first_result(caller, (*communicator, &room.description), first)?
        }
        OpeningChannel::Own => share_first_result_in_two_steps(caller, own, first, mode)?,
    };
    let [_, _, number] = shared;
    let (storage, shared) = match first {
        Some(first) => (Ok(first.storage), first.shared),
        None => {
            let joined = description
                .and_then(|description| opened(name, files.join(name, how, info, &description)));
            (joined, FirstShared::find(shared, may_store))
        }
    };
    let word = match &shared {
        FirstShared::Memory(_) => IN_MEMORY,
        FirstShared::Stored(_) => STORED,
        FirstShared::Nowhere(_) => NO_POINTER,
    };
    // Added before the processes learn whether all have opened it, so that no process can fail
    // alone afterwards.
    let added = storage.and_then(|storage| {
        let with = (Arc::clone(&storage), at as u64);
        let file = caller.with(|process| add(process, with))?;
        Ok((file, storage))
    });
    let numbers = [class_of(&added), word];
    let description = match &channel {
        OpeningChannel::Program(communicator, room) => {
            room.exchange(caller, *communicator, numbers)
        }
        OpeningChannel::Own => exchange_numbers(caller, own, numbers),
    };
    let (file, storage) = added?;
    let failed = |[class, _]: &[i64; 2]| *class != abi::SUCCESS.into();
    let open = description.and_then(|all| match all.iter().position(failed) {
        Some(rank) => {
            let text = format!("it has failed on rank {rank}");
            Err(Error::new(all[rank][0] as i32, text))
        }
        None => Ok(all),
    });
    let all = match open {
        Ok(all) => all,
        Err(error) => {
            if let (0, FirstShared::Stored(number)) = (rank, shared) {
                // If this fails, the storage forgets the pointer when its processes are gone.
                let _ = storage.move_pointer(number, PointerStep::End);
            }
            // Storage may take its time to close: not inside of the library.
            drop(caller.with(|process| process.files.remove(file))?);
            return Err(error);
        }
    };
    // All have it, or none.
    let is_stored = all.iter().all(|[_, word]| *word == STORED);
    let shared = match shared {
        _ if is_stored => Shared::Stored(storage, number as u64),
        FirstShared::Nowhere(error) if rank == 0 => Shared::Nowhere(error),
        FirstShared::Memory(memory) if all.iter().all(|[_, word]| *word != NO_POINTER) => {
            Shared::Memory(memory)
        }
        // The file keeps the shared pointer with which it was added.
        _ => return Ok(file),
    };
    caller.with(|process| {
        process.files.get_mut(file)?.shared = shared;
        Ok(file)
    })
}

fn no_pointer(format: u8) -> Error {
    let why = match format < SHARED_STORED {
        true => format!(
            "a file's storage keeps it from format {SHARED_STORED} of MPI's messages on, and a process speaks only formats up to {format}: run a newer build there"
        ),
        false => "the file's storage keeps none: rank 0 may know more".to_owned(),
    };
    let text =
        format!("the processes do not share memory for the file's shared pointer, and {why}");
    Error::new(abi::ERR_UNSUPPORTED_OPERATION, text)
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
    if rank == 0 {
        // A pointer that cannot be ended now is forgotten by the storage when its processes are gone.
        let _ = closed.shared.end();
    }
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
