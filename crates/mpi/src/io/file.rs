//! What a process keeps of an open file.

use std::path::PathBuf;
use std::sync::Arc;

use crate::abi;
use crate::datatype::Datatype;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::info::Info;
use crate::status::Status;

use super::pointer::Shared;
use super::storage::{FileSystem, Storage};
use super::view::View;

/// An open file.
#[derive(Debug)]
pub struct File {
    pub(crate) file_system: Arc<dyn FileSystem>,
    pub(crate) storage: Arc<dyn Storage>,
    /// The file's own communicator.
    pub(crate) communicator: usize,
    pub(crate) group: Arc<Group>,
    pub(crate) name: PathBuf,
    /// The bits of `MPI_MODE_*`.
    pub(crate) mode: i32,
    pub(crate) view: Arc<View>,
    /// This process's pointer, in elementary types.
    pub(crate) pointer: u64,
    pub(crate) shared: Shared,
    /// The format of MPI's messages that its processes speak with each other.
    pub(crate) format: u8,
    pub(crate) is_atomic: bool,
    /// It was written, and not synchronised since.
    pub(crate) is_dirty: bool,
    pub(crate) hints: Hints,
    /// The name by which the program has opened the file: storage may find the file by it.
    pub(crate) info: Info,
    /// The handle of its error handler.
    pub(crate) error_handler: usize,
    pub(crate) split: Option<Split>,
}

/// A split collective operation that was begun. It is done already.
#[derive(Debug, Clone)]
pub(crate) struct Split {
    pub(crate) kind: SplitKind,
    pub(crate) result: Result<Status>,
}

/// Which operation was split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitKind {
    /// Whether it writes.
    pub writes: bool,
    /// Where it is.
    pub place: SplitPlace,
}

/// Where a split operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitPlace {
    /// At an offset.
    At,
    /// At the process's pointer.
    Pointer,
    /// At the shared pointer, in the order of ranks.
    Ordered,
}

/// The values of hints.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hints {
    /// `collective_buffering`, or `romio_cb_read`, if a hint sets it: whether data are collected when they are read.
    pub(crate) reads_together: Option<bool>,
    /// The same, or `romio_cb_write`: when they are written.
    pub(crate) writes_together: Option<bool>,
    /// `cb_buffer_size`, bytes
    pub(crate) buffer: u64,
    /// `cb_nodes`
    pub(crate) nodes: u32,
}

/// Bytes that each process collects at a time, unless a hint sets it.
pub(crate) const BUFFER: u64 = 1 << 20;
const LEAST_BUFFER: u64 = 4096;
const MOST_BUFFER: u64 = 1 << 30;
/// Hints as ROMIO names them.
const READS_TOGETHER: &str = "romio_cb_read";
const WRITES_TOGETHER: &str = "romio_cb_write";

fn number(info: &Info, key: &str) -> Option<u64> {
    let value = info.get(key.as_bytes()).ok().flatten()?;
    std::str::from_utf8(value).ok()?.trim().parse().ok()
}

impl Hints {
    /// The hints of an info object; those that it does not have stay as they are. Values that are none are ignored (MPI 5.0
    /// §14.2.8).
    pub(crate) fn with(mut self, info: &Info) -> Self {
        let value = |key: &[u8]| info.get(key).ok().flatten();
        let together = match value(b"collective_buffering") {
            Some(b"true") => Some(true),
            Some(b"false") => Some(false),
            _ => None,
        };
        for (key, known) in [
            (READS_TOGETHER, &mut self.reads_together),
            (WRITES_TOGETHER, &mut self.writes_together),
        ] {
            match value(key.as_bytes()) {
                Some(b"enable") => *known = Some(true),
                Some(b"disable") => *known = Some(false),
                Some(b"automatic") => *known = None,
                _ => *known = together.or(*known),
            }
        }
        if let Some(bytes) = number(info, "cb_buffer_size") {
            self.buffer = bytes.clamp(LEAST_BUFFER, MOST_BUFFER);
        }
        if let Some(nodes) = number(info, "cb_nodes").and_then(|nodes| u32::try_from(nodes).ok()) {
            self.nodes = nodes.clamp(1, self.nodes);
        }
        self
    }

    /// Without an info object, for a file of so many processes.
    pub(crate) fn of(processes: u32, buffer: u64) -> Self {
        Self {
            reads_together: None,
            writes_together: None,
            buffer: buffer.clamp(LEAST_BUFFER, MOST_BUFFER),
            nodes: processes.max(1),
        }
    }

    /// As an info object.
    pub(crate) fn info(self) -> Result<Info> {
        let mut info = Info::default();
        let value = |together: Option<bool>| match together {
            Some(true) => "enable",
            Some(false) => "disable",
            None => "automatic",
        };
        if let Some(together) = self.reads_together
            && self.writes_together == Some(together)
        {
            info.set(b"collective_buffering", together.to_string().as_bytes())?;
        }
        for (key, together) in [
            (READS_TOGETHER, self.reads_together),
            (WRITES_TOGETHER, self.writes_together),
        ] {
            info.set(key.as_bytes(), value(together).as_bytes())?;
        }
        info.set(b"cb_buffer_size", self.buffer.to_string().as_bytes())?;
        info.set(b"cb_nodes", self.nodes.to_string().as_bytes())?;
        Ok(info)
    }
}

impl File {
    /// The processes that have opened it.
    pub fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// How it was opened: the bits of `MPI_MODE_*`.
    pub fn mode(&self) -> i32 {
        self.mode
    }

    /// What this process sees of it.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The handle of its error handler.
    pub fn error_handler(&self) -> usize {
        self.error_handler
    }

    /// Sets its error handler; returns the one that was set.
    pub fn set_error_handler(&mut self, handler: usize) -> usize {
        std::mem::replace(&mut self.error_handler, handler)
    }

    /// Whether access is atomic.
    pub fn is_atomic(&self) -> bool {
        self.is_atomic
    }

    /// The hints that are in use.
    pub fn info(&self) -> Result<Info> {
        let mut info = self.hints.info()?;
        for (key, value) in self.storage.hints() {
            info.set(key.as_bytes(), value.as_bytes())?;
        }
        Ok(info)
    }

    /// Takes hints over.
    pub fn take_hints(&mut self, info: &Info) {
        self.hints = self.hints.with(info);
    }

    /// The extent of a datatype in the file, bytes.
    pub fn extent_of(&self, datatype: &Datatype) -> Result<i64> {
        Ok(self.view.representation.in_file(datatype)?.extent())
    }

    pub(crate) fn has(&self, mode: i32) -> bool {
        self.mode & mode != 0
    }

    /// The position of this process's pointer, in elementary types.
    pub fn pointer(&self) -> Result<u64> {
        self.check_random()?;
        Ok(self.pointer)
    }

    /// Where in the file an offset of the view lies, bytes.
    pub fn byte_offset(&self, offset: i64) -> Result<u64> {
        self.check_random()?;
        self.view.offset_of(self.view.position(offset)?)
    }

    /// An error if the file has to be read or written from its beginning to its end.
    pub(crate) fn check_random(&self) -> Result<()> {
        match self.has(abi::MODE_SEQUENTIAL) {
            false => Ok(()),
            true => Err(Error::new(
                abi::ERR_UNSUPPORTED_OPERATION,
                "the file was opened with MPI_MODE_SEQUENTIAL",
            )),
        }
    }

    /// An error if the file was not opened for this.
    pub(crate) fn check_access(&self, writes: bool) -> Result<()> {
        match writes {
            true if self.has(abi::MODE_RDONLY) => Err(Error::new(
                abi::ERR_READ_ONLY,
                "the file was opened with MPI_MODE_RDONLY",
            )),
            false if self.has(abi::MODE_WRONLY) => Err(Error::new(
                abi::ERR_ACCESS,
                "the file was opened with MPI_MODE_WRONLY",
            )),
            _ => Ok(()),
        }
    }

    /// Ends a split operation.
    pub fn end_split(&mut self, kind: SplitKind) -> Result<Status> {
        match self.split.take() {
            Some(split) if split.kind == kind => split.result,
            other => {
                self.split = other;
                let text = "no split operation of this kind was begun";
                Err(Error::new(abi::ERR_OTHER, text))
            }
        }
    }
}
