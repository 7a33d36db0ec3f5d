//! A connected file system: operations on names, and on many files at once.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use causeway_fs::Error;
use causeway_fs::client::{self, ClientOptions};
use causeway_fs::clock;
use causeway_fs::config::Configuration;
use causeway_fs::listing::Listing;
use causeway_fs::open_file::{OpenFile, OpenFlags};
use causeway_fs::pool::Clients;
use causeway_sys::fork::Owner;
use causeway_watch::log;
use causeway_wire::fs::{Body, Errno, Kind, SetAttributes, SetXattrMode};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::attributes::{self, Attributes, timestamp};
use crate::error::{check_owner, failed, failed_at, misconfigured, refused};
use crate::file::File;
use crate::many::Many;

/// A connected file system. Threads share it.
#[pyclass(frozen, module = "causeway._causeway")]
pub struct Client {
    owner: Owner,
    clients: Arc<Clients>,
}

impl Client {
    /// Carries out an operation that waits for servers, without Python's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut client::Client) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        check_owner(&self.owner)?;
        py.detach(|| self.clients.call(None, work)).map_err(failed)
    }

    /// The same for an operation on names.
    fn at<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut client::Client) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        check_owner(&self.owner)?;
        py.detach(|| self.clients.call(None, work))
            .map_err(failed_at)
    }

    /// Begins a call on many files.
    fn many<'py>(&self, py: Python<'py>) -> PyResult<Many<'_, 'py>> {
        check_owner(&self.owner)?;
        Ok(Many::new(py, &self.clients))
    }
}

#[pymethods]
impl Client {
    /// Connects to the file system of a configuration file: the file named, that of the environment, or
    /// one in a usual place.
    #[new]
    #[pyo3(signature = (config=None, clients=4, timeout=None))]
    fn connect(
        py: Python<'_>,
        config: Option<PathBuf>,
        clients: usize,
        timeout: Option<f64>,
    ) -> PyResult<Self> {
        if !(1..=256).contains(&clients) {
            return Err(PyValueError::new_err(
                "the number of clients must be between 1 and 256",
            ));
        }
        let timeout = timeout
            .map(Duration::try_from_secs_f64)
            .transpose()
            .map_err(|error| PyValueError::new_err(format!("timeout: {error}")))?;
        log::start_for_library().map_err(|error| PyValueError::new_err(error.to_string()))?;
        let owner = Owner::this_process()
            .map_err(|error| PyOSError::new_err(format!("forks cannot be detected: {error}")))?;
        let read = py.detach(move || match config {
            Some(file) => Configuration::load(&file),
            None => Configuration::load_usual(),
        });
        let mut configuration = read.map_err(|error| misconfigured(py, error))?;
        if let Some(timeout) = timeout {
            configuration.timeout = timeout;
        }
        let options = ClientOptions::default();
        let clients = py
            .detach(move || Clients::connect(&configuration, &options, clients))
            .map_err(failed)?;
        Ok(Self {
            owner,
            clients: Arc::new(clients),
        })
    }

    /// Opens a file with the flags of `open(2)`, each as an argument of its own.
    #[pyo3(signature = (path, *, read=false, write=false, create=false, exclusive=false, truncate=false, append=false,
                        follow=true, sync=false, mode=0o644))]
    #[allow(clippy::fn_params_excessive_bools, clippy::too_many_arguments)]
    fn open(
        &self,
        py: Python<'_>,
        path: PyBackedBytes,
        read: bool,
        write: bool,
        create: bool,
        exclusive: bool,
        truncate: bool,
        append: bool,
        follow: bool,
        sync: bool,
        mode: u16,
    ) -> PyResult<File> {
        check_owner(&self.owner)?;
        let flags = OpenFlags {
            read,
            write,
            create,
            exclusive,
            truncate,
            append,
            no_follow: !follow,
            sync,
        };
        let opened = py.detach(|| OpenFile::open(&self.clients, &path, flags, mode));
        Ok(File::new(self.owner, opened.map_err(failed_at)?))
    }

    fn stat(&self, py: Python<'_>, path: PyBackedBytes, follow: bool) -> PyResult<Attributes> {
        self.at(py, |client| {
            let node = client.stat(&*path, follow)?;
            let stored = client.stored_bytes_or_size(&node);
            Ok(attributes::of(node.object, &node.attributes, Some(stored)))
        })
    }

    /// All names in a directory with their attributes.
    fn list(&self, py: Python<'_>, path: PyBackedBytes) -> PyResult<Vec<(Vec<u8>, Attributes)>> {
        check_owner(&self.owner)?;
        let listed = py.detach(|| {
            let mut listing = Listing::open(&self.clients, &path, true)?;
            let mut found = Vec::new();
            while let Some(entry) = listing.next_entry()? {
                // An entry without attributes has just been removed.
                if let Some(of) = entry.attributes {
                    found.push((entry.name, attributes::of(entry.object, &of, None)));
                }
            }
            Ok(found)
        });
        listed.map_err(failed_at)
    }

    fn mkdir(&self, py: Python<'_>, path: PyBackedBytes, mode: u16) -> PyResult<()> {
        self.at(py, |client| {
            client.make_directory(&*path, mode, None).map(drop)
        })
    }

    /// Makes a pipe, a socket or a device. `mode` says which.
    fn mknod(&self, py: Python<'_>, path: PyBackedBytes, mode: u32, device: u32) -> PyResult<()> {
        let Some(kind) = Kind::of_mode(mode).filter(|kind| kind.is_special()) else {
            let text = format!(
                "mknod(): mode {mode:#o} is no pipe, socket or device; use open() or mkdir()"
            );
            return Err(refused(Errno::EINVAL.0.into(), text));
        };
        self.at(py, |client| {
            client
                .make_special(&*path, kind, (mode & 0o7777) as u16, device)
                .map(drop)
        })
    }

    /// The number of a device, 0 for other objects.
    fn device(&self, py: Python<'_>, path: PyBackedBytes) -> PyResult<u32> {
        self.at(py, |client| Ok(client.stat(&*path, false)?.body.device()))
    }

    fn rmdir(&self, py: Python<'_>, path: PyBackedBytes) -> PyResult<()> {
        self.at(py, |client| client.remove_directory(&*path))
    }

    fn unlink(&self, py: Python<'_>, path: PyBackedBytes) -> PyResult<()> {
        self.at(py, |client| client.unlink(&*path))
    }

    fn rename(
        &self,
        py: Python<'_>,
        from_: PyBackedBytes,
        to: PyBackedBytes,
        replace: bool,
    ) -> PyResult<()> {
        self.at(py, |client| client.rename(&*from_, &*to, !replace))
    }

    fn link(&self, py: Python<'_>, existing: PyBackedBytes, path: PyBackedBytes) -> PyResult<()> {
        self.at(py, |client| client.hard_link(&*existing, &*path).map(drop))
    }

    fn symlink(&self, py: Python<'_>, target: PyBackedBytes, path: PyBackedBytes) -> PyResult<()> {
        self.at(py, |client| client.symbolic_link(&target, &*path).map(drop))
    }

    fn readlink<'py>(&self, py: Python<'py>, path: PyBackedBytes) -> PyResult<Bound<'py, PyBytes>> {
        match self.at(py, |client| client.stat(&*path, false))?.body {
            Body::Link(target) => Ok(PyBytes::new(py, &target)),
            _ => Err(refused(Errno::EINVAL.0.into(), "not a symbolic link")),
        }
    }

    /// Changes attributes; times are in nanoseconds. If `now` is set, both times become the present
    /// time.
    #[pyo3(signature = (path, *, mode=None, uid=None, gid=None, times=None, now=false, follow=true))]
    #[allow(clippy::too_many_arguments)]
    fn set_attributes(
        &self,
        py: Python<'_>,
        path: PyBackedBytes,
        mode: Option<u16>,
        uid: Option<u32>,
        gid: Option<u32>,
        times: Option<(i128, i128)>,
        now: bool,
        follow: bool,
    ) -> PyResult<()> {
        let times = match times {
            Some((accessed, modified)) => Some((timestamp(accessed)?, timestamp(modified)?)),
            None => now.then(|| (clock::now(), clock::now())),
        };
        let set = SetAttributes {
            mode,
            uid,
            gid,
            accessed: times.map(|(accessed, _)| accessed),
            modified: times.map(|(_, modified)| modified),
            distribution: None,
        };
        self.at(py, |client| {
            let object = client.stat(&*path, follow)?.object;
            client.set_attributes(object, set).map(drop)
        })
    }

    /// Sets an extended attribute; `flags` are those of `os.setxattr`.
    fn setxattr(
        &self,
        py: Python<'_>,
        path: PyBackedBytes,
        name: PyBackedBytes,
        value: PyBackedBytes,
        flags: i32,
    ) -> PyResult<()> {
        let mode = match flags {
            0 => SetXattrMode::Any,
            1 => SetXattrMode::Create,
            2 => SetXattrMode::Replace,
            _ => {
                return Err(refused(
                    Errno::EINVAL.0.into(),
                    "these flags are not supported",
                ));
            }
        };
        self.at(py, |client| {
            let object = client.stat(&*path, true)?.object;
            client.set_xattr(object, &name, &value, mode)
        })
    }

    fn getxattr<'py>(
        &self,
        py: Python<'py>,
        path: PyBackedBytes,
        name: PyBackedBytes,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let value = self.at(py, |client| {
            let object = client.stat(&*path, true)?.object;
            client.xattr(object, &name)
        })?;
        Ok(PyBytes::new(py, &value))
    }

    fn listxattr<'py>(
        &self,
        py: Python<'py>,
        path: PyBackedBytes,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let names = self.at(py, |client| {
            let object = client.stat(&*path, true)?.object;
            client.xattrs(object)
        })?;
        Ok(names.iter().map(|name| PyBytes::new(py, name)).collect())
    }

    fn removexattr(
        &self,
        py: Python<'_>,
        path: PyBackedBytes,
        name: PyBackedBytes,
    ) -> PyResult<()> {
        self.at(py, |client| {
            let object = client.stat(&*path, true)?.object;
            client.remove_xattr(object, &name)
        })
    }

    fn truncate(&self, py: Python<'_>, path: PyBackedBytes, size: u64) -> PyResult<()> {
        self.at(py, |client| {
            let mut file = client::File::new(client.stat(&*path, true)?);
            client.truncate(&mut file, size)
        })
    }

    /// Bytes in all, bytes that are free, objects.
    fn statfs(&self, py: Python<'_>) -> PyResult<(u64, u64, u64)> {
        let servers = self.clients.configuration().io_servers();
        let space = self.with(py, |client| client.space(&servers))?;
        Ok((space.total_bytes, space.free_bytes, space.objects))
    }

    /// Makes changes of names durable.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, client::Client::commit)
    }

    /// The whole content of many files, or the exception of each. Small files cost one request each, many of which are in
    /// progress at the same time.
    fn read_many<'py>(
        &self,
        py: Python<'py>,
        paths: Vec<PyBackedBytes>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.many(py)?.read(&paths)
    }

    /// Ranges of many files, as lists, or the exception of each file.
    fn read_ranges_many<'py>(
        &self,
        py: Python<'py>,
        files: Vec<(PyBackedBytes, Vec<(i64, i64)>)>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.many(py)?.read_ranges(&files)
    }

    /// Makes many files with their content, or replaces the content of those that exist; returns the exception of each, or
    /// `None`. Small new files cost one request each, many of which are in progress at the same time.
    fn write_many<'py>(
        &self,
        py: Python<'py>,
        files: Vec<(PyBackedBytes, PyBackedBytes)>,
        mode: u16,
    ) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
        let written = self.many(py)?.write(&files, mode)?;
        let one = |error: Option<PyErr>| Some(error?.into_value(py).into_bound(py).into_any());
        Ok(written.into_iter().map(one).collect())
    }
}
