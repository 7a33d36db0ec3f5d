//! Reading and writing (MPI 5.0 §14.4).

use std::sync::Arc;

use causeway_engine::Memory;
use causeway_wire::contact::SHARED_STORED;

use crate::abi;
use crate::buffer::OwnedBuffer;
use crate::caller::Caller;
use crate::error::{Error, Result};
use crate::status::Status;

use super::agreement::{agree, agree_on_first, exchange_numbers};
use super::file::{Split, SplitKind, SplitPlace};
use super::pointer::Shared;
use super::stream::Stream;
use super::together;
use super::transfer::Opened;

/// Where data are read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilePosition {
    /// At an offset of the view, in elementary types.
    At(i64),
    /// At the process's own pointer, which moves on.
    Pointer,
    /// At the shared pointer, which moves on.
    Shared,
    /// At the shared pointer, in the order of ranks; all processes together.
    Ordered,
}

/// The operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoAccess {
    /// To write, not to read.
    pub writes: bool,
    /// Where.
    pub place: FilePosition,
    /// All processes do it together, and wait for each other.
    pub together: bool,
}

/// Checks the operation; returns its state of the file, and the bytes of data.
fn begin(
    caller: &mut impl Caller,
    file: usize,
    what: IoAccess,
    buffer: &Result<OwnedBuffer>,
) -> Result<(Opened, u64)> {
    caller.with(|process| {
        let it = process.files.get(file)?;
        let buffer = buffer.as_ref().map_err(Error::clone)?;
        it.check_access(what.writes)?;
        if matches!(what.place, FilePosition::At(_) | FilePosition::Pointer) {
            it.check_random()?;
        }
        let bytes = it.view.representation.stream_bytes(buffer)?;
        if !bytes.is_multiple_of(it.view.unit()) {
            let text = format!(
                "{bytes} bytes are no whole number of elementary types of {} bytes",
                it.view.unit()
            );
            return Err(Error::new(abi::ERR_ARG, text));
        }
        let opened = Opened {
            storage: Arc::clone(&it.storage),
            communicator: it.communicator,
            view: Arc::clone(&it.view),
            is_atomic: it.is_atomic,
            shared: it.shared.clone(),
            format: it.format,
            hints: it.hints,
        };
        Ok((opened, bytes))
    })
}

/// Where an operation begins, in elementary types.
fn place(
    caller: &mut impl Caller,
    file: usize,
    place: FilePosition,
    (opened, bytes): &(Opened, u64),
) -> Result<i64> {
    let units = bytes / opened.view.unit();
    let found = match place {
        FilePosition::At(offset) => return Ok(offset),
        FilePosition::Pointer => caller.with(|process| Ok(process.files.get(file)?.pointer))?,
        FilePosition::Shared => opened.shared.add(units)?,
        FilePosition::Ordered => {
            let all = exchange_numbers(caller, opened.communicator, [units as i64])?;
            let total = all.iter().map(|[units]| *units as u64).sum();
            let rank = caller.with(|p| Ok(p.communicator(opened.communicator)?.rank()))?;
            let base = ordered_base(caller, opened, rank, total)?;
            let before: i64 = all[..rank as usize].iter().map(|[units]| *units).sum();
            base as u64 + before as u64
        }
    };
    i64::try_from(found).map_err(|_| Error::new(abi::ERR_DISP, "the pointer is too large"))
}

/// The position of the shared pointer before the first process advanced it by the units of all
/// processes.
fn ordered_base(caller: &mut impl Caller, opened: &Opened, rank: u32, total: u64) -> Result<i64> {
    let communicator = opened.communicator;
    // No process has a pointer, and every process knows that.
    if let (Shared::Nowhere(error), true) = (&opened.shared, opened.format < SHARED_STORED) {
        return Err(error.clone());
    }
    let base = match rank {
        0 => opened.shared.add(total),
        _ => Ok(0),
    };
    if opened.format < SHARED_STORED {
        // It is in memory, where this does not fail.
        let bases = exchange_numbers(caller, communicator, [base? as i64])?;
        return Ok(bases[0][0]);
    }
    let found = base.as_ref().map_or(0, |base| *base as i64);
    let found = [found, 0, 0, 0, 0];
    // It may have failed, and the others must not wait for the first process then.
    let (_, [base, ..]) = agree_on_first(caller, communicator, base, ("", [0; 2]), found)?;
    Ok(base)
}

/// Reads or writes. Returns the status: how many bytes of data were read or written. The buffer may be an error of this process's
/// arguments: the others hear of it if they take part.
pub fn access(
    caller: &mut impl Caller,
    file: usize,
    what: IoAccess,
    buffer: &Result<OwnedBuffer>,
) -> Result<Status> {
    let begun = begin(caller, file, what, buffer);
    let begun = match what.together {
        // Those that may go on must not wait for one that may not.
        true => {
            let communicator = caller.with(|process| Ok(process.files.get(file)?.communicator))?;
            agree(caller, communicator, begun)?
        }
        false => begun?,
    };
    let buffer = buffer.as_ref().map_err(Error::clone)?;
    let at = place(caller, file, what.place, &begun)?;
    let (opened, _) = begun;
    let position = opened.view.position(at);
    let bytes = if what.together {
        let prepared = position.and_then(|position| {
            let stream = in_one_piece(what, &opened, buffer)?;
            together::Access::new(opened.clone(), what.writes, position, stream)
        });
        let access = agree(caller, opened.communicator, prepared)?;
        let in_file = match together::plan(caller, &access)? {
            Some(plan) => together::carry_out(caller, &access, &plan)?,
            None => {
                let stream = access.stream.clone().into();
                let done = opened.transfer(what.writes, access.position, &stream);
                agree(caller, opened.communicator, done)?
            }
        };
        finish(what, &opened, &access.stream, in_file, buffer)?
    } else {
        alone(what, &opened, position?, buffer)?
    };
    caller.with(|process| {
        let it = process.files.get_mut(file)?;
        it.is_dirty |= what.writes;
        if what.place == FilePosition::Pointer {
            it.pointer = (at as u64).saturating_add(bytes.in_file.div_ceil(it.view.unit()));
        }
        Ok(())
    })?;
    Ok(Status {
        bytes: bytes.in_memory,
        ..Status::empty()
    })
}

/// The data in one piece of memory, or room for them.
fn in_one_piece(what: IoAccess, opened: &Opened, buffer: &OwnedBuffer) -> Result<Memory> {
    let representation = opened.view.representation;
    match what.writes {
        true => representation.encode(buffer),
        false => representation.staging(buffer),
    }
}

/// Reads or writes without the other processes.
fn alone(what: IoAccess, opened: &Opened, position: u64, buffer: &OwnedBuffer) -> Result<Bytes> {
    let least = opened.storage.least_fragment();
    let representation = opened.view.representation;
    if let Some(stream) = Stream::in_place(buffer, representation, least)? {
        let in_file = opened.transfer(what.writes, position, &stream)?;
        return Ok(Bytes {
            in_file,
            in_memory: in_file,
        });
    }
    let memory = in_one_piece(what, opened, buffer)?;
    let in_file = opened.transfer(what.writes, position, &memory.clone().into())?;
    finish(what, opened, &memory, in_file, buffer)
}

/// Bytes that were transferred.
struct Bytes {
    in_file: u64,
    in_memory: u64,
}

fn finish(
    what: IoAccess,
    opened: &Opened,
    stream: &Memory,
    in_file: u64,
    buffer: &OwnedBuffer,
) -> Result<Bytes> {
    let in_memory = match what.writes {
        true => buffer.bytes_of_data()?,
        false => opened.view.representation.decode(stream, in_file, buffer)?,
    };
    Ok(Bytes { in_file, in_memory })
}

/// Begins a split operation: does it, and keeps its status for its end (MPI 5.0 §14.4.5).
pub fn begin_split(
    caller: &mut impl Caller,
    file: usize,
    writes: bool,
    place: FilePosition,
    buffer: Result<OwnedBuffer>,
) -> Result<()> {
    let kind = SplitKind {
        writes,
        place: match place {
            FilePosition::At(_) => SplitPlace::At,
            FilePosition::Pointer => SplitPlace::Pointer,
            FilePosition::Shared | FilePosition::Ordered => SplitPlace::Ordered,
        },
    };
    let is_begun = caller.with(|process| Ok(process.files.get(file)?.split.is_some()))?;
    let buffer = match is_begun {
        false => buffer,
        // An error like others of the arguments, of which the other processes hear.
        true => {
            let text = "another split operation was begun and not ended";
            Err(Error::new(abi::ERR_OTHER, text))
        }
    };
    let what = IoAccess {
        writes,
        place,
        together: true,
    };
    let result = access(caller, file, what, &buffer);
    // One that could not begin has no end.
    buffer?;
    caller.with(|process| {
        process.files.get_mut(file)?.split = Some(Split { kind, result });
        Ok(())
    })
}
