//! Settings of an open file, most of them by all processes together: view, size, pointers, atomicity, hints.

use std::sync::Arc;

use crate::abi;
use crate::caller::Caller;
use crate::error::{Error, Result};
use crate::info::Info;

use super::agreement::{agree, agree_on, agree_on_first, broadcast_first};
use super::file::File;
use super::pointer::Shared;
use super::storage::{Storage, failed};
use super::view::View;

/// The displacement that means the shared pointer's position, in files that are read or written sequentially.
const DISPLACEMENT_CURRENT: i64 = -1;

impl File {
    fn check_written(&self) -> Result<()> {
        self.check_access(true)?;
        self.check_random()
    }

    /// Where a seek leads to, in elementary types, in a file of `size` bytes.
    fn sought(&self, from: u64, offset: i64, whence: i32, size: u64) -> Result<u64> {
        let base = match whence {
            abi::SEEK_SET => 0,
            abi::SEEK_CUR => from,
            abi::SEEK_END => self.view.end_of_file(size)?,
            other => {
                let text = format!("whence is {other}");
                return Err(Error::new(abi::ERR_ARG, text));
            }
        };
        let bad = |text: String| Error::new(abi::ERR_ARG, text);
        let to = base.checked_add_signed(offset).ok_or_else(|| {
            bad(format!(
                "{offset} from {base} lies before the beginning of the view"
            ))
        })?;
        // Programs get positions as signed numbers.
        match i64::try_from(to) {
            Ok(_) => Ok(to),
            Err(_) => Err(bad(format!(
                "{offset} from {base} is more than an MPI_Offset holds"
            ))),
        }
    }
}

/// Bytes of a file. The storage is asked while other threads have the library.
pub fn size(caller: &mut impl Caller, file: usize) -> Result<u64> {
    let (_, storage) = opened(caller, file)?;
    let size = storage.size();
    size.map_err(|error| failed("asking for the size", &error))
}

/// Bytes of a file if a seek needs them.
fn size_to_seek(caller: &mut impl Caller, file: usize, whence: i32) -> Result<u64> {
    match whence {
        abi::SEEK_END => size(caller, file),
        _ => Ok(0),
    }
}

/// Moves this process's pointer.
pub fn seek(caller: &mut impl Caller, file: usize, offset: i64, whence: i32) -> Result<()> {
    caller.with(|process| process.files.get(file)?.check_random())?;
    let size = size_to_seek(caller, file, whence)?;
    caller.with(|process| {
        let it = process.files.get_mut(file)?;
        it.pointer = it.sought(it.pointer, offset, whence, size)?;
        Ok(())
    })
}

/// The position of the shared pointer, in elementary types. The storage, which may keep it, is asked while other threads have the library.
pub fn shared_position(caller: &mut impl Caller, file: usize) -> Result<u64> {
    let shared = caller.with(|process| Ok(process.files.get(file)?.shared.clone()))?;
    shared.get()
}

/// A file's communicator and storage, if the operation is allowed.
fn opened(caller: &mut impl Caller, file: usize) -> Result<(usize, Arc<dyn Storage>)> {
    caller.with(|process| {
        let it = process.files.get(file)?;
        Ok((it.communicator, Arc::clone(&it.storage)))
    })
}

/// Sets the view, and all pointers to its beginning; or none of them, if that of the first process fails.
pub fn set_view(caller: &mut impl Caller, file: usize, view: Result<View>) -> Result<()> {
    let (communicator, _) = opened(caller, file)?;
    let same = view.as_ref().map_or([0; 2], |view| {
        [view.unit() as i64, view.representation as i64]
    });
    let what = "the elementary type's size or the representation";
    let view = agree_on(caller, communicator, view, what, same)?;
    let (rank, shared) = caller.with(|process| {
        let rank = process.communicator(communicator)?.rank();
        Ok((rank, process.files.get(file)?.shared.clone()))
    })?;
    let moved = match shared {
        Shared::Nowhere(_) => Ok(()),
        shared if rank == 0 => shared.set(0),
        _ => Ok(()),
    };
    agree(caller, communicator, moved)?;
    caller.with(|process| {
        let it = process.files.get_mut(file)?;
        (it.view, it.pointer) = (Arc::new(view), 0);
        Ok(())
    })
}

/// The displacement of a view, for which `MPI_DISPLACEMENT_CURRENT` must be given in files that are accessed sequentially (MPI 5.0 §14.3).
pub fn displacement(caller: &mut impl Caller, file: usize, given: i64) -> Result<i64> {
    let is_sequential =
        caller.with(|process| Ok(process.files.get(file)?.has(abi::MODE_SEQUENTIAL)))?;
    match (is_sequential, given) {
        (false, DISPLACEMENT_CURRENT) => {
            let text =
                "MPI_DISPLACEMENT_CURRENT is for files that were opened with MPI_MODE_SEQUENTIAL";
            return Err(Error::new(abi::ERR_DISP, text));
        }
        (false, given) => return Ok(given),
        (true, DISPLACEMENT_CURRENT) => {}
        (true, _) => {
            let text = "the view of a file that was opened with MPI_MODE_SEQUENTIAL begins at MPI_DISPLACEMENT_CURRENT";
            return Err(Error::new(abi::ERR_DISP, text));
        }
    }
    let position = shared_position(caller, file)? as i64;
    caller.with(|process| {
        let view = &process.files.get(file)?.view;
        Ok(view.offset_of(view.position(position)?)? as i64)
    })
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
    let description = match (rank, &done) {
        (0, Ok(())) => Some(storage.description()),
        _ => None,
    };
    let len = description.as_ref().map_or(0, Vec::len) as i64;
    let found = [len, 0, 0, 0, 0];
    let ((), [len, ..]) =
        agree_on_first(caller, communicator, done, ("the size", [size, 0]), found)?;
    let learnt = broadcast_first(caller, communicator, description.as_deref(), len)?;
    match rank {
        0 => Ok(()),
        _ => storage
            .apply_description(&learnt?)
            .map_err(|error| failed("the file's new size", &error)),
    }
}

/// Sets whether access is atomic.
pub fn set_atomicity(caller: &mut impl Caller, file: usize, flag: bool) -> Result<()> {
    let (communicator, storage) = opened(caller, file)?;
    let (rank, is_local) = caller.with(|process| {
        let rank = process.communicator(communicator)?.rank();
        let shared = &process.files.get(file)?.shared;
        let is_local = storage.has_locks() || matches!(shared, Shared::Memory(_));
        Ok((rank, is_local))
    })?;
    let possible = match flag && !is_local && rank == 0 {
        true => storage.check_atomic(),
        false => Ok(()),
    };
    let possible = possible.map_err(|error| failed("atomic mode", &error));
    agree_on(caller, communicator, possible, "the flag", [flag.into(), 0])?;
    caller.with(|process| {
        process.files.get_mut(file)?.is_atomic = flag;
        Ok(())
    })
}

/// Sets hints.
pub fn set_info(caller: &mut impl Caller, file: usize, info: Result<Info>) -> Result<()> {
    let (communicator, _) = opened(caller, file)?;
    let taken = info.and_then(|info| {
        caller.with(|process| {
            process.files.get_mut(file)?.take_hints(&info);
            Ok(())
        })
    });
    // No process uses the new ones before all have them.
    agree(caller, communicator, taken)
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
        Ok((rank == 0).then(|| it.shared.clone()))
    });
    let moved = moved.and_then(|shared| {
        let Some(shared) = shared else {
            return Ok(());
        };
        // A pointer that is lost can be set anew, but not from where it stood.
        let from = match whence {
            abi::SEEK_CUR => shared.get()?,
            _ => 0,
        };
        let size = size_to_seek(caller, file, whence)?;
        let to = caller.with(|process| {
            let it = process.files.get(file)?;
            it.sought(from, offset, whence, size)
        })?;
        shared.set(to)
    });
    agree(caller, communicator, moved)
}
