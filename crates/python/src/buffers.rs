//! Python's memory, lent to the client library for one call, without a copy and without Python's lock.

use std::ffi::c_int;
use std::ptr::{NonNull, null};

use causeway_fs::Error;
use causeway_fs::client::{Client, File};
use causeway_sys::lent::{Buffer, Use, with_lent};
use causeway_wire::fs::Region;
use pyo3::exceptions::{PyBufferError, PyMemoryError, PyTypeError};
use pyo3::ffi;
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
        let too_many = || {
            PyMemoryError::new_err(format!(
                "there is no memory for {len} bytes; read parts of the file"
            ))
        };
        let size = isize::try_from(len).map_err(|_| too_many())?;
        // SAFETY: without a source, Python makes an object of that size, or sets an exception and returns null.
        let object = unsafe {
            let made = ffi::PyBytes_FromStringAndSize(null(), size);
            Bound::from_owned_ptr_or_err(py, made).map_err(|_| too_many())?
        };
        let bytes = object.cast_into::<PyBytes>()?;
        // SAFETY: it is a bytes object, whose memory stays where it is.
        let base = unsafe { ffi::PyBytes_AsString(bytes.as_ptr()) };
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

    /// At most `most` bytes of the memory behind the first `done` ones.
    pub(crate) fn rest(&self, done: usize, most: usize) -> Buffer {
        let base = self.buffer.base.as_ptr().wrapping_add(done);
        Buffer {
            base: NonNull::new(base).unwrap_or(NonNull::dangling()),
            len: self.buffer.len.saturating_sub(done).min(most),
        }
    }

    /// Returns the object, truncated to its first `len` bytes.
    pub(crate) fn finish(self, len: usize) -> Bound<'py, PyBytes> {
        match self.bytes.as_bytes().get(..len) {
            Some(part) if len < self.buffer.len => PyBytes::new(self.bytes.py(), part),
            _ => self.bytes,
        }
    }
}

/// New bytes objects for ranges of a file.
pub(crate) struct Parts<'py> {
    parts: Vec<NewBytes<'py>>,
    regions: Vec<Region>,
}

impl<'py> Parts<'py> {
    /// Makes them for ranges, each from a first byte to one behind the last, cut at the end of a file of this size.
    pub(crate) fn new(
        py: Python<'py>,
        ranges: impl Iterator<Item = (u64, u64)>,
        size: u64,
    ) -> PyResult<Self> {
        let (mut parts, mut regions) = (Vec::new(), Vec::new());
        for (start, end) in ranges {
            let len = end.min(size).saturating_sub(start);
            parts.push(NewBytes::new(
                py,
                usize::try_from(len).unwrap_or(usize::MAX),
            )?);
            if len > 0 {
                regions.push(Region { offset: start, len });
            }
        }
        Ok(Self { parts, regions })
    }

    /// What is to be read, and where to.
    pub(crate) fn lists(&self) -> (Vec<Region>, Vec<Buffer>) {
        let buffers = self.parts.iter().map(NewBytes::buffer);
        let buffers = buffers.filter(|buffer| buffer.len > 0).collect();
        (self.regions.clone(), buffers)
    }

    /// The objects, if all bytes were read.
    pub(crate) fn finish(self, count: u64) -> Option<Vec<Bound<'py, PyBytes>>> {
        let expected: u64 = self.regions.iter().map(|region| region.len).sum();
        (count >= expected).then(|| self.parts.into_iter().map(|part| part.bytes).collect())
    }
}

/// The memory of an object, which stays in place while this exists.
pub(crate) struct Exported {
    // Exporters may keep its address.
    view: Box<ffi::Py_buffer>,
}

impl Exported {
    /// Exports an object's memory, for reading or for writing. It may be of any type: as bytes are asked for, objects also export what
    /// they have no letter for, such as numpy's times.
    pub(crate) fn new(object: &Bound<'_, PyAny>, usage: Use) -> PyResult<Self> {
        let flags = match usage {
            Use::Write => ffi::PyBUF_WRITABLE,
            Use::Read => ffi::PyBUF_SIMPLE,
        };
        Self::with_flags(object, flags).map_err(|error| Self::refusal(object, usage, error))
    }

    fn with_flags(object: &Bound<'_, PyAny>, flags: c_int) -> PyResult<Self> {
        let mut view = Box::new(ffi::Py_buffer::new());
        // SAFETY: both are valid; a view that was not filled is not used.
        match unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, flags) } {
            0 => Ok(Self { view }),
            _ => Err(PyErr::fetch(object.py())),
        }
    }

    /// Why an object does not export its memory, in the words of Python's own files where they have some.
    fn refusal(object: &Bound<'_, PyAny>, usage: Use, error: PyErr) -> PyErr {
        let has = |flags| Self::with_flags(object, flags).is_ok();
        if usage == Use::Write && has(ffi::PyBUF_SIMPLE) {
            let kind = object.get_type().name();
            let kind = kind.map_or_else(|_| "this one".to_owned(), |name| name.to_string());
            return PyTypeError::new_err(format!(
                "a read-write bytes-like object is required, not {kind}"
            ));
        }
        if has(ffi::PyBUF_STRIDES) || has(ffi::PyBUF_INDIRECT) {
            return PyBufferError::new_err(
                "the object's memory is not contiguous: pass a copy that is, such as numpy.ascontiguousarray(x) or memoryview(x).tobytes()",
            );
        }
        error
    }

    /// The object's memory.
    pub(crate) fn buffer(&self) -> Buffer {
        Buffer {
            base: NonNull::new(self.view.buf.cast()).unwrap_or(NonNull::dangling()),
            len: self.view.len.unsigned_abs(),
        }
    }
}

impl Drop for Exported {
    fn drop(&mut self) {
        // SAFETY: the view was filled and is released once, with Python's lock, as the pointers in it keep it in the thread that has the lock.
        unsafe { ffi::PyBuffer_Release(&raw mut *self.view) };
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
