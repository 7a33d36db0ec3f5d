//! Reading and writing files (MPI 5.0 §14.4).

use std::ffi::c_void;

use causeway_mpi::error::Result;
use causeway_mpi::io::access::{FilePosition, IoAccess, access, begin_split};
use causeway_mpi::io::file::{SplitKind, SplitPlace};
use causeway_mpi::process::Active;
use causeway_mpi::status::Status as Known;

use crate::file::Surface;
use crate::library::with;
use crate::types::{Handle, Status, write_status};

/// Memory of the program's: its address, count and datatype.
type Elements = (*const c_void, i64, Handle);

/// # Safety
/// MPI's contract for a buffer that is read, or of one that is written if the file is read.
unsafe fn transfer(
    called: &'static str,
    fh: Handle,
    (buf, count, datatype): Elements,
    what: IoAccess,
) -> Result<Known> {
    // SAFETY: the caller's promise.
    let buffer =
        with(|_, handles| unsafe { handles.owned_buffer(buf, count, datatype, !what.writes) });
    access(&mut Surface(called), fh, what, &buffer)
}

/// # Safety
/// As [`transfer`]; the status is null or valid for writes.
unsafe fn blocking(
    called: &'static str,
    fh: Handle,
    elements: Elements,
    what: IoAccess,
    status: *mut Status,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { write_status(status, transfer(called, fh, elements, what)?) };
    Ok(())
}

/// An access that is done at once gets a completed request.
///
/// # Safety
/// As [`transfer`]; the pointer is valid for writes.
unsafe fn nonblocking(
    called: &'static str,
    fh: Handle,
    elements: Elements,
    what: IoAccess,
    request: *mut Handle,
) -> Result<()> {
    with(|process, _| process.check_room_for_request())?;
    // SAFETY: the caller's promise.
    let status = unsafe { transfer(called, fh, elements, what) }?;
    let done = Active::done(status, causeway_mpi::abi::COMM_SELF);
    let handle = with(|process, _| process.keep(done))?;
    // SAFETY: the caller's promise.
    unsafe { request.write(handle) };
    Ok(())
}

/// # Safety
/// As [`transfer`].
unsafe fn begin(
    called: &'static str,
    fh: Handle,
    (buf, count, datatype): Elements,
    what: IoAccess,
) -> Result<()> {
    // SAFETY: the caller's promise.
    let buffer =
        with(|_, handles| unsafe { handles.owned_buffer(buf, count, datatype, !what.writes) });
    begin_split(&mut Surface(called), fh, what.writes, what.place, buffer)
}

/// Functions with and without an offset, of each of the three kinds: blocking (their last argument is a status), nonblocking (a
/// request), and beginnings of split ones (none). Those that all processes call together have their names.
macro_rules! accesses {
    ($($name:ident($($offset:ident)?; $buf:ty $(; $last:ident: $ty:ty)?)
        = $how:ident, $writes:literal, $place:expr, $called:literal;)*) => {$(
        pub(crate) unsafe fn $name(
            fh: Handle,
            $($offset: i64,)?
            buf: $buf,
            count: i64,
            datatype: Handle,
            $($last: $ty,)?
        ) -> Result<()> {
            let what = IoAccess { writes: $writes, place: $place, together: !$called.is_empty() };
            // SAFETY: the caller keeps MPI's contract.
            unsafe { $how($called, fh, (buf.cast(), count, datatype), what $(, $last)?) }
        }
    )*};
}

accesses! {
    file_read_at(offset; *mut c_void; status: *mut Status) = blocking, false, FilePosition::At(offset), "";
    file_write_at(offset; *const c_void; status: *mut Status) = blocking, true, FilePosition::At(offset), "";
    file_read_at_all(offset; *mut c_void; status: *mut Status) = blocking, false, FilePosition::At(offset), "MPI_File_read_at_all";
    file_write_at_all(offset; *const c_void; status: *mut Status) = blocking, true, FilePosition::At(offset), "MPI_File_write_at_all";
    file_iread_at(offset; *mut c_void; request: *mut Handle) = nonblocking, false, FilePosition::At(offset), "";
    file_iwrite_at(offset; *const c_void; request: *mut Handle) = nonblocking, true, FilePosition::At(offset), "";
    file_iread_at_all(offset; *mut c_void; request: *mut Handle) = nonblocking, false, FilePosition::At(offset), "";
    file_iwrite_at_all(offset; *const c_void; request: *mut Handle) = nonblocking, true, FilePosition::At(offset), "";
    file_read_at_all_begin(offset; *mut c_void) = begin, false, FilePosition::At(offset), "MPI_File_read_at_all_begin";
    file_write_at_all_begin(offset; *const c_void) = begin, true, FilePosition::At(offset), "MPI_File_write_at_all_begin";
    file_read(; *mut c_void; status: *mut Status) = blocking, false, FilePosition::Pointer, "";
    file_write(; *const c_void; status: *mut Status) = blocking, true, FilePosition::Pointer, "";
    file_read_all(; *mut c_void; status: *mut Status) = blocking, false, FilePosition::Pointer, "MPI_File_read_all";
    file_write_all(; *const c_void; status: *mut Status) = blocking, true, FilePosition::Pointer, "MPI_File_write_all";
    file_iread(; *mut c_void; request: *mut Handle) = nonblocking, false, FilePosition::Pointer, "";
    file_iwrite(; *const c_void; request: *mut Handle) = nonblocking, true, FilePosition::Pointer, "";
    file_iread_all(; *mut c_void; request: *mut Handle) = nonblocking, false, FilePosition::Pointer, "";
    file_iwrite_all(; *const c_void; request: *mut Handle) = nonblocking, true, FilePosition::Pointer, "";
    file_read_all_begin(; *mut c_void) = begin, false, FilePosition::Pointer, "MPI_File_read_all_begin";
    file_write_all_begin(; *const c_void) = begin, true, FilePosition::Pointer, "MPI_File_write_all_begin";
    file_read_shared(; *mut c_void; status: *mut Status) = blocking, false, FilePosition::Shared, "";
    file_write_shared(; *const c_void; status: *mut Status) = blocking, true, FilePosition::Shared, "";
    file_iread_shared(; *mut c_void; request: *mut Handle) = nonblocking, false, FilePosition::Shared, "";
    file_iwrite_shared(; *const c_void; request: *mut Handle) = nonblocking, true, FilePosition::Shared, "";
    file_read_ordered(; *mut c_void; status: *mut Status) = blocking, false, FilePosition::Ordered, "MPI_File_read_ordered";
    file_write_ordered(; *const c_void; status: *mut Status) = blocking, true, FilePosition::Ordered, "MPI_File_write_ordered";
    file_read_ordered_begin(; *mut c_void) = begin, false, FilePosition::Ordered, "MPI_File_read_ordered_begin";
    file_write_ordered_begin(; *const c_void) = begin, true, FilePosition::Ordered, "MPI_File_write_ordered_begin";
}

macro_rules! ends {
    ($($name:ident($buf:ty) = $writes:literal, $place:expr;)*) => {$(
        pub(crate) unsafe fn $name(fh: Handle, _buf: $buf, status: *mut Status) -> Result<()> {
            let kind = SplitKind { writes: $writes, place: $place };
            let known = with(|process, _| process.file_mut(fh)?.end_split(kind))?;
            // SAFETY: the caller's pointer, as MPI has it.
            unsafe { write_status(status, known) };
            Ok(())
        }
    )*};
}

ends! {
    file_read_at_all_end(*mut c_void) = false, SplitPlace::At;
    file_write_at_all_end(*const c_void) = true, SplitPlace::At;
    file_read_all_end(*mut c_void) = false, SplitPlace::Pointer;
    file_write_all_end(*const c_void) = true, SplitPlace::Pointer;
    file_read_ordered_end(*mut c_void) = false, SplitPlace::Ordered;
    file_write_ordered_end(*const c_void) = true, SplitPlace::Ordered;
}
