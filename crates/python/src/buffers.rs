//! Python's memory, lent to the client library for one call, without a copy and without Python's lock.

use std::ptr::{NonNull, null};

use causeway_fs::Error;
use causeway_fs::client::{Client, File};
use causeway_sys::lent::{Buffer, Use, with_lent};
use causeway_wire::fs::Region;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyMemoryError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A new bytes object, which is filled before Python sees it.
pub(crate) struct NewBytes<'py> {
    bytes: Bound<'py, PyBytes>,
    buffer: Buffer,
}

impl<'py> NewBytes<'py> {
    /// Makes one of this length, with undefined content.
    pub(crate) fn new(py: Python<'py>, len: usize) -> PyResult<Self> {
        let size = isize::try_from(len)
            .map_err(|_| PyMemoryError::new_err("more bytes than there is memory"))?;
        // SAFETY: without a source, Python makes an object of that size, or sets an exception and returns null.
        let object = unsafe {
            let made = pyo3::ffi::PyBytes_FromStringAndSize(null(), size);
            Bound::from_owned_ptr_or_err(py, made)?
        };
        let bytes = object.cast_into::<PyBytes>()?;
        // SAFETY: it is a bytes object, whose memory stays where it is.
        let base = unsafe { pyo3::ffi::PyBytes_AsString(bytes.as_ptr()) };
        let base = NonNull::new(base.cast()).unwrap_or(NonNull::dangling());
        Ok(Self {
            bytes,
            buffer: Buffer { base, len },
        })
    }

    /// The object's memory.
    pub(crate) fn buffer(&self) -> Buffer {
        self.buffer
    }

    /// Returns the object, truncated to its first `len` bytes.
    pub(crate) fn finish(self, len: usize) -> Bound<'py, PyBytes> {
        match self.bytes.as_bytes().get(..len) {
            Some(part) if len < self.buffer.len => PyBytes::new(self.bytes.py(), part),
            _ => self.bytes,
        }
    }
}

/// The memory of an object, which stays in place while this exists.
pub(crate) struct Exported {
    _buffer: PyBuffer<u8>,
    buffer: Buffer,
}

impl Exported {
    /// Exports an object's memory, for reading or for writing.
    pub(crate) fn new(object: &Bound<'_, PyAny>, usage: Use) -> PyResult<Self> {
        let exported = PyBuffer::<u8>::get(object)?;
        if !exported.is_c_contiguous() {
            return Err(PyBufferError::new_err(
                "the object's memory is not contiguous",
            ));
        }
        if usage == Use::Write && exported.readonly() {
            return Err(PyBufferError::new_err("the object's memory is read-only"));
        }
        let base = NonNull::new(exported.buf_ptr().cast()).unwrap_or(NonNull::dangling());
        let len = exported.len_bytes();
        Ok(Self {
            _buffer: exported,
            buffer: Buffer { base, len },
        })
    }

    /// The object's memory.
    pub(crate) fn buffer(&self) -> Buffer {
        self.buffer
    }
}

/// Reads regions of a file into buffers, each of [`NewBytes`] or [`Exported`] to be written, which the caller keeps.
pub(crate) fn read_into(
    client: &mut Client,
    file: &mut File,
    regions: &[Region],
    buffers: &[Buffer],
) -> Result<u64, Error> {
    // SAFETY: the objects outlive the call, since the caller keeps them, and are exported or not yet known to other code.
    // When `read_lent` returns, nothing else holds the memory.
    unsafe {
        with_lent(buffers, Use::Write, |memory| {
            client.read_lent(file, regions, memory)
        })
    }
}

/// Writes at an offset or, if that is absent, behind the end of a file, from a buffer of [`Exported`], which the caller
/// keeps. Returns the byte behind the last one written.
pub(crate) fn write_on_from(
    client: &mut Client,
    file: &mut File,
    offset: Option<u64>,
    buffer: Buffer,
) -> Result<u64, Error> {
    // SAFETY: the object outlives the call and is exported. A write that has returned holds no memory.
    unsafe {
        with_lent(&[buffer], Use::Read, |memory| {
            client.write_memory(file, offset, memory)
        })
    }
}

/// Writes a region of a file from a buffer of [`Exported`], which the caller keeps.
pub(crate) fn write_from(
    client: &mut Client,
    file: &mut File,
    region: Region,
    buffer: Buffer,
) -> Result<(), Error> {
    // SAFETY: the object outlives the call and is exported. A write that has returned holds no memory.
    unsafe {
        with_lent(&[buffer], Use::Read, |memory| {
            client.write_list(file, &[region], memory)
        })
    }
}
