//! Settings of an open file, most of them by all processes together: view, size, pointers, atomicity, hints.

use std::sync::Arc;

use crate::abi;
use crate::caller::Caller;
use crate::error::{Error, Result};
use crate::info::Info;

use super::agreeing::{agree, agree_on, agree_on_first, tell_all};
use super::file::File;
use super::storage::{Storage, failed};
use super::view::View;

/// The displacement that means the shared pointer's position, in files that are read or written sequentially.
const DISPLACEMENT_CURRENT: i64 = -1;

impl File {
    /// Bytes of the file.
    pub fn size(&self) -> Result<u64> {
        self.storage
            .size()
            .map_err(|error| failed("asking for the size", &error))
    }

    fn check_written(&self) -> Result<()> {
        self.check_access(true)?;
        self.check_random()
    }

    /// Where a seek leads to, in elementary types.
    fn sought(&self, from: u64, offset: i64, whence: i32) -> Result<u64> {
        let base = match whence {
            abi::SEEK_SET => 0,
            abi::SEEK_CUR => from,
            abi::SEEK_END => self.view.end_of_file(self.size()?)?,
            other => {
                let text = format!("whence is {other}");
                return Err(Error::new(abi::ERR_ARG, text));
            }
        };
        base.checked_add_signed(offset).ok_or_else(|| {
            let text = format!("{offset} from {base} lies before the beginning of the view");
            Error::new(abi::ERR_ARG, text)
        })
    }

    /// Moves this process's pointer.
    pub fn seek(&mut self, offset: i64, whence: i32) -> Result<()> {
        self.check_random()?;
        self.pointer = self.sought(self.pointer, offset, whence)?;
        Ok(())
    }
}

/// A file's communicator and storage, if the operation is allowed.
fn opened(caller: &mut impl Caller, file: usize) -> Result<(usize, Arc<dyn Storage>)> {
    caller.with(|process| {
        let it = process.files.get(file)?;
        Ok((it.communicator, Arc::clone(&it.storage)))
    })
}

/// Sets the view, and all pointers to its beginning.
pub fn set_view(caller: &mut impl Caller, file: usize, view: Result<View>) -> Result<()> {
    let (communicator, _) = opened(caller, file)?;
    let same = view.as_ref().map_or([0; 2], |view| {
        [view.unit() as i64, view.representation as i64]
    });
    let what = "the elementary type's size or the representation";
    let view = agree_on(caller, communicator, view, what, same)?;
    caller.with(|process| {
        let rank = process.communicator(communicator)?.rank();
        let it = process.files.get_mut(file)?;
        (it.view, it.pointer) = (Arc::new(view), 0);
        match &it.shared {
            Some(shared) if rank == 0 => shared.set(0),
            _ => Ok(()),
        }
    })?;
    agree(caller, communicator, Ok(()))
}

/// The displacement of a view, where `MPI_DISPLACEMENT_CURRENT` may be given.
pub fn displacement(file: &File, given: i64) -> Result<i64> {
    if given != DISPLACEMENT_CURRENT {
        return Ok(given);
    }
    if !file.has(abi::MODE_SEQUENTIAL) {
        let text =
            "MPI_DISPLACEMENT_CURRENT is for files that were opened with MPI_MODE_SEQUENTIAL";
        return Err(Error::new(abi::ERR_DISP, text));
    }
    let position = file.shared()?.get()? as i64;
    let offset = file.view.offset_of(file.view.position(position)?)?;
    Ok(offset as i64)
}

/// Changes the size: the first process does it; `allocate` has it reserve room for bytes that are not there.
pub fn set_size(caller: &mut impl Caller, file: usize, size: i64, allocate: bool) -> Result<()> {
    let (communicator, storage) = opened(caller, file)?;
    let (allowed, rank) = caller.with(|process| {
        let rank = process.communicator(communicator)?.rank();
        Ok((process.files.get(file)?.check_written(), rank))
    })?;
    let bytes = u64::try_from(size)
        .map_err(|_| Error::new(abi::ERR_ARG, format!("the size {size} is negative")));
    let bytes = allowed.and(bytes);
    let bytes = agree_on(caller, communicator, bytes, "the size", [size, 0])?;
    let done = match rank {
        0 if allocate => storage.allocate(bytes),
        0 => storage.resize(bytes),
        _ => Ok(()),
    };
    let done = done.map_err(|error| failed(format_args!("a size of {size} bytes"), &error));
    let told = match (rank, &done) {
        (0, Ok(())) => Some(storage.told()),
        _ => None,
    };
    let len = told.as_ref().map_or(0, Vec::len) as i64;
    let found = [len, 0, 0, 0, 0];
    let ((), [len, ..]) =
        agree_on_first(caller, communicator, done, ("the size", [size, 0]), found)?;
    let learnt = tell_all(caller, communicator, told.as_deref(), len)?;
    match rank {
        0 => Ok(()),
        _ => storage
            .learn(&learnt?)
            .map_err(|error| failed("the file's new size", &error)),
    }
}

/// Sets whether access is atomic.
pub fn set_atomicity(caller: &mut impl Caller, file: usize, flag: bool) -> Result<()> {
    let (communicator, storage) = opened(caller, file)?;
    let has_locks = caller.with(|process| {
        let shared = &process.files.get(file)?.shared;
        Ok(storage.has_locks() || shared.is_some())
    })?;
    let possible = match has_locks || !flag {
        true => Ok(()),
        false => Err(Error::new(
            abi::ERR_UNSUPPORTED_OPERATION,
            "atomic mode: the file's storage has no locks, and the processes share no memory that they could lock: they run on \
             several hosts. Order accesses by MPI_File_sync and MPI_Barrier",
        )),
    };
    agree_on(caller, communicator, possible, "the flag", [flag.into(), 0])?;
    caller.with(|process| {
        process.files.get_mut(file)?.is_atomic = flag;
        Ok(())
    })
}

/// Sets hints.
pub fn set_info(caller: &mut impl Caller, file: usize, info: &Info) -> Result<()> {
    let (communicator, _) = opened(caller, file)?;
    caller.with(|process| {
        process.files.get_mut(file)?.take_hints(info);
        Ok(())
    })?;
    // No process uses the new ones before all have them.
    agree(caller, communicator, Ok(()))
}

/// Waits until all that this process has written is durable.
pub fn sync(caller: &mut impl Caller, file: usize) -> Result<()> {
    let (communicator, storage) = opened(caller, file)?;
    let is_dirty = caller.with(|process| Ok(process.files.get(file)?.is_dirty))?;
    let synced = if is_dirty { storage.sync() } else { Ok(()) };
    let synced = synced.map_err(|error| failed("synchronising", &error));
    agree(caller, communicator, synced)?;
    caller.with(|process| {
        process.files.get_mut(file)?.is_dirty = false;
        Ok(())
    })
}

/// Moves the shared pointer.
pub fn seek_shared(caller: &mut impl Caller, file: usize, offset: i64, whence: i32) -> Result<()> {
    let (communicator, _) = opened(caller, file)?;
    let same = [offset, whence.into()];
    agree_on(caller, communicator, Ok(()), "the offset or whence", same)?;
    let moved = caller.with(|process| {
        let rank = process.communicator(communicator)?.rank();
        let it = process.files.get(file)?;
        it.check_random()?;
        let shared = it.shared()?;
        match rank {
            0 => shared.set(it.sought(shared.get()?, offset, whence)?),
            _ => Ok(()),
        }
    });
    agree(caller, communicator, moved)
}
