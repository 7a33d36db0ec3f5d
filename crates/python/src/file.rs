//! Open files.

use std::sync::{Arc, Mutex, PoisonError};

use causeway_fs::Error;
use causeway_fs::client::Allocation;
use causeway_fs::open_file::{OpenFile, Whence, region};
use causeway_fs::open_locks::{Wanted, is_taken, range};
use causeway_sys::fork::Owner;
use causeway_sys::lent::{Buffer, Use};
use causeway_wire::fs::{Errno, LockRange, Region};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::attributes::{self, Attributes};
use crate::buffers::{Exported, NewBytes, Parts, read_into, write_from, write_on_from};
use crate::error::{check_owner, failed, refused};

/// The size, in bytes, from which on a read requests the file's size first, so that no more memory is allocated than there is content.
const MUCH: u64 = 16 << 20;
/// Most bytes of one read or write.
const MOST_BYTES: usize = 0x7fff_f000;
/// How many times ranges are read of a file that is truncated meanwhile.
pub(crate) const ATTEMPTS: usize = 16;

/// An open file of bytes.
#[pyclass(frozen, module = "causeway._causeway")]
pub struct File {
    owner: Owner,
    /// `None` once it is closed.
    open: Mutex<Option<Arc<OpenFile>>>,
}

impl File {
    pub(crate) fn new(owner: Owner, opened: OpenFile) -> Self {
        Self {
            owner,
            open: Mutex::new(Some(Arc::new(opened))),
        }
    }

    fn get(&self) -> PyResult<Arc<OpenFile>> {
        check_owner(&self.owner)?;
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = || PyValueError::new_err("I/O operation on closed file");
        open.as_ref().map(Arc::clone).ok_or_else(closed)
    }

    /// Carries out an operation that waits for servers, without Python's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&OpenFile) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let file = self.get()?;
        py.detach(move || {
            let done = work(&file);
            drop(file);
            done
        })
        .map_err(failed)
    }

    /// How many of the `size` bytes from an offset on may exist: memory is allocated for these
    /// only.
    fn buffer_len(&self, py: Python<'_>, offset: Option<u64>, size: u64) -> PyResult<usize> {
        let mut len = size;
        if size > MUCH {
            let rest = self.with(py, |file| {
                let offset = match offset {
                    Some(offset) => offset,
                    None => file.seek(0, Whence::Current)?,
                };
                Ok(file.attributes()?.size.saturating_sub(offset))
            })?;
            len = size.min(rest);
        }
        Ok(usize::try_from(len).map_or(MOST_BYTES, |len| len.min(MOST_BYTES)))
    }

    /// The ranges, cut at the end of the file; `None` if the file was truncated between the request for its size and the read.
    fn try_ranges<'py>(
        &self,
        py: Python<'py>,
        ranges: &[(u64, u64)],
    ) -> PyResult<Option<Vec<Bound<'py, PyBytes>>>> {
        let size = self.with(py, |file| Ok(file.attributes()?.size))?;
        let parts = Parts::new(py, ranges.iter().copied(), size)?;
        let (regions, buffers) = parts.lists();
        let count = self.with(py, move |file| {
            file.reading(|client, file| read_into(client, file, &regions, &buffers))
        })?;
        Ok(parts.finish(count))
    }

    fn read_at_position(file: &OpenFile, buffer: Buffer) -> Result<u64, Error> {
        file.read_on(|client, file, at| {
            read_into(client, file, &[region(at, buffer.len)], &[buffer])
        })
    }

    fn read_at_offset(file: &OpenFile, buffer: Buffer, offset: u64) -> Result<u64, Error> {
        file.reading(|client, file| {
            read_into(client, file, &[region(offset, buffer.len)], &[buffer])
        })
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // In a child that was forked off, the file and its locks are the parent's.
        if check_owner(&self.owner).is_err() {
            let open = self.open.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(open.take());
        }
    }
}

#[pymethods]
impl File {
    /// Bytes at the position, at most `size`.
    fn read<'py>(&self, py: Python<'py>, size: u64) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = NewBytes::new(py, self.buffer_len(py, None, size)?)?;
        let buffer = bytes.buffer();
        let count = self.with(py, move |file| Self::read_at_position(file, buffer))?;
        Ok(bytes.finish(count as usize))
    }

    /// All bytes from the position to the end that the file has at the moment; fewer if it is truncated meanwhile.
    fn read_rest<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let rest = self.with(py, |file| {
            let at = file.seek(0, Whence::Current)?;
            Ok(file.attributes()?.size.saturating_sub(at))
        })?;
        // All memory at first: a file with more bytes than there is memory is refused before anything is read.
        let bytes = NewBytes::new(py, usize::try_from(rest).unwrap_or(usize::MAX))?;
        let mut done = 0;
        loop {
            let buffer = bytes.rest(done, MOST_BYTES);
            let count = self.with(py, move |file| Self::read_at_position(file, buffer))? as usize;
            done += count;
            if count == 0 || done == bytes.buffer().len {
                return Ok(bytes.finish(done));
            }
            py.check_signals()?;
        }
    }

    /// Bytes at an offset, at most `size`.
    fn pread<'py>(&self, py: Python<'py>, size: u64, offset: u64) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = NewBytes::new(py, self.buffer_len(py, Some(offset), size)?)?;
        let buffer = bytes.buffer();
        let count = self.with(py, move |file| Self::read_at_offset(file, buffer, offset))?;
        Ok(bytes.finish(count as usize))
    }

    /// Reads into an object's memory, at the position or at an offset.
    #[pyo3(signature = (into, offset=None))]
    fn readinto(
        &self,
        py: Python<'_>,
        into: &Bound<'_, PyAny>,
        offset: Option<u64>,
    ) -> PyResult<u64> {
        let exported = Exported::new(into, Use::Write)?;
        let buffer = exported.buffer();
        self.with(py, move |file| match offset {
            Some(offset) => Self::read_at_offset(file, buffer, offset),
            None => Self::read_at_position(file, buffer),
        })
    }

    /// Several ranges, each from a first byte to one behind the last, cut at the end of the file, with one request to each server. Fails if the file is
    /// truncated again and again meanwhile.
    fn read_ranges<'py>(
        &self,
        py: Python<'py>,
        ranges: Vec<(u64, u64)>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        for _ in 0..ATTEMPTS {
            if let Some(found) = self.try_ranges(py, &ranges)? {
                return Ok(found);
            }
        }
        Err(truncated_again())
    }

    /// Writes an object's memory, at the position (behind the end, if the file is appended to) or at an offset.
    #[pyo3(signature = (from_, offset=None))]
    fn write(
        &self,
        py: Python<'_>,
        from_: &Bound<'_, PyAny>,
        offset: Option<u64>,
    ) -> PyResult<u64> {
        let exported = Exported::new(from_, Use::Read)?;
        let whole = exported.buffer();
        let buffer = Buffer {
            len: whole.len.min(MOST_BYTES),
            ..whole
        };
        let count = buffer.len as u64;
        self.with(py, move |file| match offset {
            Some(offset) => file.writing(|client, file| {
                write_from(client, file, region(offset, buffer.len), buffer).map(|()| count)
            }),
            None => file
                .write_on(|client, file, at| write_on_from(client, file, at, buffer))
                .map(|()| count),
        })
    }

    /// Sets the position; `whence` is 0 to 4.
    fn seek(&self, py: Python<'_>, offset: i64, whence: u8) -> PyResult<u64> {
        let whence = match whence {
            0 => Whence::Start,
            1 => Whence::Current,
            2 => Whence::End,
            3 => Whence::Data,
            4 => Whence::Hole,
            _ => return Err(PyValueError::new_err("whence must be from 0 to 4")),
        };
        self.with(py, |file| file.seek(offset, whence))
    }

    fn truncate(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        self.with(py, |file| file.truncate(size))
    }

    /// Reserves room, makes a hole or zeros, by the flags of Linux's `fallocate`.
    fn fallocate(&self, py: Python<'_>, flags: i32, offset: u64, len: u64) -> PyResult<()> {
        let Some((what, keep_size)) = Allocation::of_flags(flags) else {
            return Err(PyValueError::new_err("these flags are not supported"));
        };
        self.with(py, |file| {
            file.allocate(Region { offset, len }, what, keep_size)
        })
    }

    fn fsync(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, OpenFile::sync)
    }

    /// Takes a lock on the whole file, or on a range from a first byte on (0 bytes: without an end). Returns whether the file has the lock, which it has
    /// not if there are conflicting locks and the call does not wait.
    fn lock(
        &self,
        py: Python<'_>,
        exclusive: bool,
        wait: bool,
        range: Option<(u64, u64)>,
    ) -> PyResult<bool> {
        let wanted = wanted(range)?;
        if !wait {
            let taken = self.with(py, |file| match file.try_lock(wanted, exclusive) {
                Err(error) if is_taken(&error) => Ok(false),
                taken => taken.map(|()| true),
            })?;
            return self.get().map(|_| taken);
        }
        let mut raised = None;
        let locked = self.with(py, |file| {
            let locked = file.lock(wanted, exclusive, || {
                raised = Python::attach(|py| py.check_signals()).err();
                // A wait that began while another thread closed the file has not been seen by `close`.
                raised.is_none() && self.get().is_ok()
            });
            Ok(locked)
        })?;
        if raised.is_none() {
            // Closed meanwhile: a lock that was granted nevertheless has ended with the last use of the file, just now.
            self.get()?;
        }
        match (locked, raised) {
            (Ok(()), None) => Ok(true),
            (Ok(()), Some(raised)) => {
                self.with(py, |file| file.unlock(wanted))?;
                Err(raised)
            }
            (Err(_), Some(raised)) => Err(raised),
            (Err(error), None) => Err(failed(error)),
        }
    }

    fn unlock(&self, py: Python<'_>, range: Option<(u64, u64)>) -> PyResult<()> {
        let wanted = wanted(range)?;
        self.with(py, |file| file.unlock(wanted))
    }

    /// A conflicting lock: whether it is exclusive, its first byte, its length (0: without an end), and its process.
    fn lock_holder(
        &self,
        py: Python<'_>,
        exclusive: bool,
        range: Option<(u64, u64)>,
    ) -> PyResult<Option<(bool, u64, u64, u32)>> {
        let wanted = wanted(range)?;
        let holder = self.with(py, |file| file.test_lock(wanted, exclusive))?;
        Ok(holder.map(|holder| {
            let LockRange { first, last } = holder.range;
            let len = match last {
                u64::MAX => 0,
                last => last - first + 1,
            };
            (holder.exclusive, first, len, holder.pid)
        }))
    }

    fn stat(&self, py: Python<'_>) -> PyResult<Attributes> {
        self.with(py, |file| {
            let (attributes, stored) = file.stored_attributes()?;
            Ok(attributes::of(file.object(), &attributes, Some(stored)))
        })
    }

    /// The size as last seen, without a request.
    #[getter]
    fn known_size(&self) -> PyResult<u64> {
        Ok(self.get()?.known_size())
    }

    #[getter]
    fn readable(&self) -> PyResult<bool> {
        Ok(self.get()?.flags().read)
    }

    #[getter]
    fn writable(&self) -> PyResult<bool> {
        Ok(self.get()?.flags().write)
    }

    /// Calls in progress continue, but waits for locks. Locks end.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if check_owner(&self.owner).is_err() {
            return Ok(());
        }
        let open = self
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        match open {
            Some(file) => py
                .detach(move || {
                    file.cancel_locks();
                    file.end_locks()
                })
                .map_err(failed),
            None => Ok(()),
        }
    }
}

/// The failure of a read of ranges for which the file never stayed as long as it was when its size was asked for.
pub(crate) fn truncated_again() -> PyErr {
    let text = format!(
        "read_ranges(): other programs truncated the file during each of {ATTEMPTS} attempts; read again"
    );
    refused(Errno::EAGAIN.0.into(), text)
}

/// The part to lock: a range, or the whole file.
fn wanted(part: Option<(u64, u64)>) -> PyResult<Wanted> {
    let Some((first, len)) = part else {
        return Ok(Wanted::Whole);
    };
    let too_long = || PyValueError::new_err("the range ends behind byte 2^64 - 1");
    range(first, len).map(Wanted::Part).ok_or_else(too_long)
}
