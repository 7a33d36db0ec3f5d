//! Calls on many files. Such a call consists of many steps, which share its time-out, and between which signals are handled.

use std::time::{Duration, Instant};

use causeway_fs::Error;
use causeway_fs::client::{self, CreateOptions, LOOKUPS, MANY};
use causeway_fs::pool::Clients;
use causeway_wire::fs::{Body, Errno, MAX_STUFFED_BYTES, Place, Region};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::buffers::{NewBytes, Parts, read_into};
use crate::error::{failed_at, refused};
use crate::file::{ATTEMPTS, truncated_again};

/// A call on many files.
pub(crate) struct Many<'a, 'py> {
    py: Python<'py>,
    clients: &'a Clients,
    /// What is left of the time-out. Only waits in vain take time from it, so that a call with much to transfer has as much time as it needs.
    left: Duration,
    /// Set once a step has waited in vain after that time: then servers are given up, and no more steps are tried.
    is_over: bool,
}

/// The result for one of several files.
type Each<T> = Result<T, Error>;

/// A range: its first byte, and the one behind its last.
type Range = (i64, i64);

/// A file that was opened to be read.
enum Opened {
    /// With its content.
    Small(Vec<u8>),
    /// Its content is still to be read.
    Large(Box<client::File>),
}

impl<'a, 'py> Many<'a, 'py> {
    pub(crate) fn new(py: Python<'py>, clients: &'a Clients) -> Self {
        Self {
            py,
            clients,
            left: clients.configuration().timeout,
            is_over: false,
        }
    }

    /// Carries out a step without Python's lock. It has the time that is left, or a moment if none is, as the next files may lie on
    /// other servers. The outer result is an exception of a signal's handler, which ends the call.
    fn step<T: Send>(
        &mut self,
        work: impl FnOnce(&mut client::Client) -> Each<T> + Send,
    ) -> PyResult<Each<T>> {
        self.py.check_signals()?;
        if self.is_over {
            return Ok(Err(given_up()));
        }
        let began = Instant::now();
        let (clients, left) = (self.clients, self.left);
        let done = self
            .py
            .detach(move || clients.call_within(left, None, work));
        if let Err(error) = &done {
            self.charge(began, error);
        }
        Ok(done)
    }

    /// A step with a result for each of several files.
    fn steps<T: Send>(
        &mut self,
        count: usize,
        work: impl FnOnce(&mut client::Client) -> Vec<Each<T>> + Send,
    ) -> PyResult<Vec<Each<T>>> {
        let began = Instant::now();
        match self.step(|client| Ok(work(client)))? {
            Ok(results) => {
                let mut errors = results.iter().filter_map(|result| result.as_ref().err());
                if let Some(error) = errors.find(|error| is_silence(error)) {
                    self.charge(began, error);
                }
                Ok(results)
            }
            Err(error) => Ok((0..count).map(|_| Err(error.clone())).collect()),
        }
    }

    fn charge(&mut self, began: Instant, error: &Error) {
        if is_silence(error) {
            self.is_over = self.left.is_zero();
            self.left = self.left.saturating_sub(began.elapsed());
        }
    }

    /// The content of each file, or its exception.
    pub(crate) fn read(mut self, paths: &[PyBackedBytes]) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let mut found = Vec::with_capacity(paths.len());
        for paths in paths.chunks(LOOKUPS) {
            let places = paths.iter().map(|path| Place::from(&**path)).collect();
            let opened = self.steps(paths.len(), |client| read_small(client, places))?;
            for (opened, path) in opened.into_iter().zip(paths) {
                let content = match opened {
                    Ok(Opened::Small(content)) => Ok(PyBytes::new(self.py, &content)),
                    Ok(Opened::Large(file)) => self.read_large(path, *file)?,
                    Err(error) if error.errno == Errno::ESTALE => self.read_replaced(path)?,
                    Err(error) => Err(failed_at(error)),
                };
                found.push(match content {
                    Ok(content) => content.into_any(),
                    Err(error) => error.into_value(self.py).into_bound(self.py).into_any(),
                });
            }
        }
        Ok(found)
    }

    /// Reads a file that was opened, or the one that has its name now, if it is gone.
    fn read_large(
        &mut self,
        path: &[u8],
        file: client::File,
    ) -> PyResult<PyResult<Bound<'py, PyBytes>>> {
        match self.read_opened(file)? {
            Ok(Err(error)) if error.errno == Errno::ESTALE => self.read_replaced(path),
            read => Ok(read.and_then(|read| read.map_err(failed_at))),
        }
    }

    /// Reads the file that has this name now, which stays while it is read, although another one may replace it.
    fn read_replaced(&mut self, path: &[u8]) -> PyResult<PyResult<Bound<'py, PyBytes>>> {
        match self.step(|client| client.open_held(path, true))? {
            Ok(held) => {
                let read = self.read_opened(held)?;
                Ok(read.and_then(|read| read.map_err(failed_at)))
            }
            Err(error) => Ok(Err(failed_at(error))),
        }
    }

    /// The inner results are an exception of this process and an error of a server.
    fn read_opened(
        &mut self,
        mut file: client::File,
    ) -> PyResult<PyResult<Each<Bound<'py, PyBytes>>>> {
        let size = file.node.attributes.size;
        // Every element of the result is the content or an `OSError`, so that programs can tell them apart.
        let Ok(bytes) = NewBytes::new(self.py, usize::try_from(size).unwrap_or(usize::MAX)) else {
            let text =
                format!("there is no memory for its {size} bytes; read parts of it, with open()");
            return Ok(Err(refused(Errno::ENOMEM.0.into(), text)));
        };
        let buffer = bytes.buffer();
        let region = Region {
            offset: 0,
            len: size,
        };
        let read = self.step(move |client| {
            client.check_readable(&file)?;
            read_into(client, &mut file, &[region], &[buffer])
        })?;
        Ok(Ok(read.map(|count| bytes.finish(count as usize))))
    }

    /// Ranges of each file, or its exception. Negative numbers count from the end of the file.
    pub(crate) fn read_ranges(
        mut self,
        files: &[(PyBackedBytes, Vec<Range>)],
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let mut found = Vec::with_capacity(files.len());
        for files in files.chunks(LOOKUPS) {
            let places = files.iter().map(|(path, _)| Place::from(&**path)).collect();
            let opened = self.steps(files.len(), |client| client.open_many(places))?;
            for (opened, (path, ranges)) in opened.into_iter().zip(files) {
                let parts = match self.read_parts(opened, path, ranges)? {
                    Ok(parts) => parts.into_pyobject(self.py)?.into_any(),
                    Err(error) => error.into_value(self.py).into_bound(self.py).into_any(),
                };
                found.push(parts);
            }
        }
        Ok(found)
    }

    /// Reads ranges of a file that was opened, or of the one that has its name now, if it is gone or was truncated.
    fn read_parts(
        &mut self,
        mut opened: Each<client::File>,
        path: &[u8],
        ranges: &[Range],
    ) -> PyResult<PyResult<Vec<Bound<'py, PyBytes>>>> {
        for _ in 0..ATTEMPTS {
            let read = match opened {
                Ok(file) => self.try_parts(file, ranges)?,
                Err(error) => Err(error),
            };
            match read {
                Ok(Some(parts)) => return Ok(Ok(parts)),
                Err(error) if error.errno != Errno::ESTALE => return Ok(Err(failed_at(error))),
                Ok(None) | Err(_) => opened = self.step(|client| client.open_held(path, true))?,
            }
        }
        Ok(Err(truncated_again()))
    }

    /// `None` if the file was truncated meanwhile.
    fn try_parts(
        &mut self,
        mut file: client::File,
        ranges: &[Range],
    ) -> PyResult<Each<Option<Vec<Bound<'py, PyBytes>>>>> {
        let size = file.node.attributes.size;
        let at = |number: i64| match number {
            0.. => number.unsigned_abs(),
            _ => size.saturating_sub(number.unsigned_abs()),
        };
        let ranges = ranges.iter().map(|&(start, end)| (at(start), at(end)));
        let parts = Parts::new(self.py, ranges, size)?;
        let (regions, buffers) = parts.lists();
        let read = self.step(move |client| {
            client.check_readable(&file)?;
            read_into(client, &mut file, &regions, &buffers)
        })?;
        Ok(read.map(|count| parts.finish(count)))
    }

    /// Makes files, or overwrites those that exist; returns the exception of each, or `None`.
    pub(crate) fn write(
        mut self,
        files: &[(PyBackedBytes, PyBackedBytes)],
        mode: u16,
    ) -> PyResult<Vec<Option<PyErr>>> {
        let mut results = Vec::with_capacity(files.len());
        // A few requests at a time, so that only their content is in memory.
        for files in files.chunks(MANY) {
            let new: Vec<_> = files
                .iter()
                .map(|(path, content)| new_file(path, content, mode))
                .collect();
            let made = self.steps(files.len(), |client| client.create_many(&new))?;
            for (made, (path, content)) in made.into_iter().zip(files) {
                let existed = matches!(&made, Err(error) if error.errno == Errno::EEXIST);
                let written = match made {
                    Ok(_) if content.len() <= MAX_STUFFED_BYTES => Ok(()),
                    Ok(mut file) => {
                        self.step(move |client| client.write_at(&mut file, 0, content))?
                    }
                    Err(_) if existed => self.step(|client| {
                        let mut file = client.open(Place::from(&**path))?;
                        client.truncate(&mut file, 0)?;
                        client.write_at(&mut file, 0, content)
                    })?,
                    Err(error) => Err(error),
                };
                let written = match written {
                    Err(error)
                        if error.errno == Errno::ESTALE
                            || existed && error.errno == Errno::ENOENT =>
                    {
                        self.step(|client| write_held(client, path, content, mode))?
                    }
                    written => written,
                };
                results.push(written.err().map(failed_at));
            }
        }
        Ok(results)
    }
}

/// A new file, with its content if that comes with the request.
fn new_file(path: &[u8], content: &[u8], mode: u16) -> (Place, CreateOptions) {
    let content = match content.len() <= MAX_STUFFED_BYTES {
        true => content.to_vec(),
        false => Vec::new(),
    };
    let options = CreateOptions {
        exclusive: true,
        mode,
        content,
        ..CreateOptions::default()
    };
    (Place::from(path), options)
}

/// Gives the file that has this name now, or a new one, this content. It stays while it is written, although another one may replace it.
fn write_held(
    client: &mut client::Client,
    path: &[u8],
    content: &[u8],
    mode: u16,
) -> Result<(), Error> {
    let options = CreateOptions {
        mode,
        ..CreateOptions::default()
    };
    let mut file = match client.create_held(path, &options) {
        // The name is that of a directory, or of a link to the file.
        Err(error) if error.errno == Errno::EEXIST => client.open_held(path, true)?,
        made => made?,
    };
    client.truncate(&mut file, 0)?;
    client.write_at(&mut file, 0, content)
}

/// Opens files, and reads those whose content comes with the opening.
fn read_small(client: &mut client::Client, places: Vec<Place>) -> Vec<Each<Opened>> {
    let opened = client.open_many(places);
    let read = |file: Each<client::File>| {
        let mut file = file?;
        // Also if it is a short one with a datafile: the read of each such file may wait for a server.
        let size = file.node.attributes.size;
        if size > MAX_STUFFED_BYTES as u64 || matches!(file.node.body, Body::Striped { .. }) {
            return Ok(Opened::Large(Box::new(file)));
        }
        let mut content = vec![0; size as usize];
        client.check_readable(&file)?;
        let count = client.read_at(&mut file, 0, &mut content)?;
        content.truncate(count);
        Ok(Opened::Small(content))
    };
    opened.into_iter().map(read).collect()
}

/// Whether a server has not replied.
fn is_silence(error: &Error) -> bool {
    matches!(
        error.errno,
        Errno::ETIMEDOUT | Errno::ECONNREFUSED | Errno::EHOSTUNREACH | Errno::ECONNRESET
    )
}

fn given_up() -> Error {
    Error {
        operation: "wait",
        subject: "this file".to_owned(),
        errno: Errno::ETIMEDOUT,
        message: "not tried, as servers did not reply for other files of the call until its time was over".to_owned(),
        server: None,
    }
}
