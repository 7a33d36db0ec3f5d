//! The ABI's types as Rust has them, and arguments in either of two widths.

use std::ffi::{c_int, c_void};

use causeway_mpi::abi;
use causeway_mpi::error::{Error, Result};
use smallvec::SmallVec;

/// Any handle: the ABI's are pointers, which are never followed.
pub(crate) type Handle = usize;

/// The address of a function of the program's.
pub(crate) type Callback = *mut c_void;

/// A buffer that is read, and one that is written.
pub(crate) type In = *const c_void;
pub(crate) type Out = *mut c_void;

/// Whether a buffer is `MPI_IN_PLACE`.
pub(crate) fn is_in_place(buffer: In) -> bool {
    buffer.addr() == abi::IN_PLACE
}

/// The error of more elements than memory has room for.
pub(crate) fn too_many() -> Error {
    Error::new(abi::ERR_COUNT, "so many elements do not fit in memory")
}

/// `MPI_Status`. Of the library's own part, the first two are the bytes of the message, and the third whether it was
/// cancelled.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Status {
    source: c_int,
    tag: c_int,
    error: c_int,
    internal: [c_int; 5],
}

impl Status {
    pub(crate) fn new(status: causeway_mpi::status::Status) -> Self {
        let bytes = status.bytes;
        Self {
            source: status.source,
            tag: status.tag,
            error: abi::SUCCESS,
            internal: [
                bytes as u32 as i32,
                (bytes >> 32) as i32,
                status.cancelled.into(),
                0,
                0,
            ],
        }
    }

    /// Writes it to `into`, unless the program passed null; the error field there stays as it is.
    ///
    /// # Safety
    /// `into` is null or valid for writes.
    #[inline]
    pub(crate) unsafe fn write_to(&self, into: *mut Self) {
        if !into.is_null() {
            // SAFETY: as the caller promises. The field is not read first: it may not have been written yet.
            unsafe {
                (*into).source = self.source;
                (*into).tag = self.tag;
                (*into).internal = self.internal;
            }
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.internal[0] as u32) | u64::from(self.internal[1] as u32) << 32
    }

    pub(crate) fn set_bytes(&mut self, bytes: u64) {
        (self.internal[0], self.internal[1]) = (bytes as u32 as i32, (bytes >> 32) as i32);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.internal[2] != 0
    }

    pub(crate) fn set_cancelled(&mut self, cancelled: bool) {
        self.internal[2] = cancelled.into();
    }

    pub(crate) fn source_mut(&mut self) -> &mut c_int {
        &mut self.source
    }

    pub(crate) fn tag_mut(&mut self) -> &mut c_int {
        &mut self.tag
    }

    pub(crate) fn error_mut(&mut self) -> &mut c_int {
        &mut self.error
    }
}

/// Writes a status to `into`, unless the program passed null; the error field there stays as it is.
///
/// # Safety
/// `into` is null or valid for writes.
#[inline]
pub(crate) unsafe fn write_status(into: *mut Status, status: causeway_mpi::status::Status) {
    // SAFETY: as the caller promises.
    unsafe { Status::new(status).write_to(into) };
}

/// Writes the status that the standard calls empty, with its error field (MPI 5.0 §3.7.3).
///
/// # Safety
/// `into` is null or valid for writes.
pub(crate) unsafe fn write_empty_status(into: *mut Status) {
    if !into.is_null() {
        // SAFETY: as the caller promises.
        unsafe { into.write(Status::new(causeway_mpi::status::Status::empty())) };
    }
}

/// Refuses a null pointer where a call reads or writes one value: its argument of this name.
#[inline]
pub(crate) fn not_null<T>(pointer: *mut T, argument: &str) -> Result<()> {
    match pointer.is_null() {
        true => Err(missing(argument)),
        false => Ok(()),
    }
}

#[cold]
fn missing(argument: &str) -> Error {
    Error::new(abi::ERR_ARG, format!("{argument} is NULL"))
}

/// The handle at this place; the null pointer, which the call will refuse, stands for no handle.
///
/// # Safety
/// `from` is null or valid for reads.
pub(crate) unsafe fn read_or_null(from: *const Handle) -> Handle {
    // SAFETY: as the caller promises.
    unsafe { from.as_ref() }.map_or(0, |handle| *handle)
}

/// An array of counts or displacements, as the function's width has them.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Numbers {
    /// `int`
    Small(*const c_int),
    /// `MPI_Count` or `MPI_Aint`
    Large(*const i64),
}

/// So many numbers are kept without an allocation: those of the processes of one host, mostly.
const FEW: usize = 8;

impl Numbers {
    /// The first so many.
    ///
    /// # Safety
    /// The array has so many.
    pub(crate) unsafe fn read(self, many: usize, what: &str) -> Result<SmallVec<[i64; FEW]>> {
        self.check(many, what)?;
        // SAFETY: the array has so many entries, as the caller promises.
        Ok((0..many).map(|at| unsafe { self.get(at) }).collect())
    }

    /// Fails if there is no array of so many.
    #[inline]
    pub(crate) fn check(self, many: usize, what: &str) -> Result<()> {
        let is_null = match self {
            Self::Small(array) => array.is_null(),
            Self::Large(array) => array.is_null(),
        };
        match is_null && many > 0 {
            true => Err(Error::new(abi::ERR_ARG, format!("{what} is NULL"))),
            false => Ok(()),
        }
    }

    /// One of them.
    ///
    /// # Safety
    /// The array has it.
    #[inline]
    pub(crate) unsafe fn get(self, at: usize) -> i64 {
        // SAFETY: as the caller promises.
        unsafe {
            match self {
                Self::Small(array) => i64::from(array.add(at).read()),
                Self::Large(array) => array.add(at).read(),
            }
        }
    }
}

/// Where a count goes, as the function's width has it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NumbersOut {
    /// `int`
    Small(*mut c_int),
    /// `MPI_Count` or `MPI_Aint`
    Large(*mut i64),
}

impl NumbersOut {
    /// Reads the number.
    ///
    /// # Safety
    /// The pointer is valid for reads.
    pub(crate) unsafe fn read(self) -> i64 {
        // SAFETY: as the caller promises.
        unsafe {
            match self {
                Self::Small(from) => i64::from(from.read()),
                Self::Large(from) => from.read(),
            }
        }
    }

    /// Writes one; a value that an `int` does not hold is written as `MPI_UNDEFINED`.
    ///
    /// # Safety
    /// The pointer is valid for writes.
    pub(crate) unsafe fn write(self, value: i64) {
        // SAFETY: as the caller promises.
        unsafe {
            match self {
                Self::Small(into) => into.write(value.try_into().unwrap_or(abi::UNDEFINED)),
                Self::Large(into) => into.write(value),
            }
        }
    }
}

/// An array of the program's.
///
/// # Safety
/// It has so many entries, and stays as it is meanwhile.
pub(crate) unsafe fn array<'a, T>(from: *const T, many: usize, what: &str) -> Result<&'a [T]> {
    match (many, from.is_null()) {
        (0, _) => Ok(&[]),
        (_, true) => Err(Error::new(abi::ERR_ARG, format!("{what} is NULL"))),
        // SAFETY: as the caller promises.
        _ => Ok(unsafe { std::slice::from_raw_parts(from, many) }),
    }
}

/// A count that must not be negative.
pub(crate) fn count_of(count: i64) -> Result<u64> {
    u64::try_from(count)
        .map_err(|_| Error::new(abi::ERR_COUNT, format!("the count {count} is negative")))
}

/// Copies text into the program's memory, cut to `most` bytes with the end; returns its length.
///
/// # Safety
/// `into` has room for so many bytes, and `len`, if it is not null, for one.
pub(crate) unsafe fn write_text(
    text: &[u8],
    into: *mut std::ffi::c_char,
    most: usize,
    len: *mut c_int,
) {
    let size = text.len().min(most.saturating_sub(1));
    // SAFETY: as the caller promises.
    unsafe {
        if !into.is_null() && most > 0 {
            std::ptr::copy_nonoverlapping(text.as_ptr(), into.cast(), size);
            into.add(size).write(0);
        }
        if !len.is_null() {
            len.write(size as c_int);
        }
    }
}

/// Text of the program's.
///
/// # Safety
/// `from` is null, or a C string.
pub(crate) unsafe fn read_text<'a>(from: *const std::ffi::c_char, what: &str) -> Result<&'a [u8]> {
    match from.is_null() {
        true => Err(Error::new(abi::ERR_ARG, format!("{what} is NULL"))),
        // SAFETY: as the caller promises.
        false => Ok(unsafe { std::ffi::CStr::from_ptr(from) }.to_bytes()),
    }
}
