//! The interface of storage for files, which each kind of storage implements.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use causeway_engine::Memory;
/// A step of a pointer that processes share.
pub use causeway_wire::fs::PointerStep;

use crate::abi;
use crate::error::Error;
use crate::info::Info;

/// Some bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extent {
    /// Where they begin, bytes from the file's beginning.
    pub offset: u64,
    /// How many.
    pub len: u64,
}

impl Extent {
    /// Where they end.
    pub fn end(self) -> u64 {
        self.offset.saturating_add(self.len)
    }
}

/// How a file is opened.
#[derive(Debug, Clone, Copy)]
pub struct Opening {
    /// To be read.
    pub read: bool,
    /// To be written.
    pub write: bool,
    /// It is made if it is not there.
    pub create: bool,
    /// It must not be there.
    pub exclusive: bool,
    /// Permissions of a new file: the low nine bits as the operating system has them; its own choice if `None`.
    pub permissions: Option<u32>,
}

/// Access that is atomic with regard to all other access of this kind, by any process that has opened the file. It ends at the latest
/// when this is dropped.
pub trait Atomic {
    /// As [`Storage::read`].
    fn read(&mut self, extents: &[Extent], into: &[Memory]) -> io::Result<u64>;

    /// As [`Storage::write`].
    fn write(&mut self, extents: &[Extent], from: &[Memory]) -> io::Result<()>;

    /// Ends it. Fails if others may have come in between.
    fn end(self: Box<Self>) -> io::Result<()>;
}

/// Access that is atomic as long as a lock is kept: until this is dropped.
pub(crate) struct Guarded<'a, L> {
    storage: &'a dyn Storage,
    _lock: L,
}

impl<'a, L> Guarded<'a, L> {
    pub(crate) fn new(storage: &'a dyn Storage, lock: L) -> Self {
        Self {
            storage,
            _lock: lock,
        }
    }
}

impl<L> Atomic for Guarded<'_, L> {
    fn read(&mut self, extents: &[Extent], into: &[Memory]) -> io::Result<u64> {
        self.storage.read(extents, into)
    }

    fn write(&mut self, extents: &[Extent], from: &[Memory]) -> io::Result<()> {
        self.storage.write(extents, from)
    }

    fn end(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

/// A kind of storage: opens files, and removes them. Calls may come from several threads at a time.
pub trait FileSystem: fmt::Debug + Send + Sync {
    /// What the names of its files begin with. If it is empty, all names that belong to no other
    /// file system.
    fn prefix(&self) -> &'static str;

    /// Opens a file. `hints` are those of the program.
    fn open(&self, name: &Path, how: Opening, hints: &Info) -> io::Result<Arc<dyn Storage>>;

    /// Opens a file that another process of the program has opened, by the description that [`Storage::description`] has returned there.
    /// The file is neither created nor looked up by its name.
    fn join(
        &self,
        name: &Path,
        how: Opening,
        hints: &Info,
        description: &[u8],
    ) -> io::Result<Arc<dyn Storage>>;

    /// Removes a file.
    fn remove(&self, name: &Path, hints: &Info) -> io::Result<()>;
}

/// An open file. Calls may come from several threads at a time.
pub trait Storage: fmt::Debug + Send + Sync {
    /// Reads extents, one behind the other, into memory, one piece behind the other, which has as many bytes. Returns how many bytes
    /// were read: fewer only if an extent reaches beyond the end of the file, which ends it.
    fn read(&self, extents: &[Extent], into: &[Memory]) -> io::Result<u64>;

    /// Writes memory, one piece behind the other, to extents, one behind the other, which have as many bytes.
    fn write(&self, extents: &[Extent], from: &[Memory]) -> io::Result<()>;

    /// Bytes of the file.
    fn size(&self) -> io::Result<u64>;

    /// Cuts the file, or makes it longer.
    fn resize(&self, size: u64) -> io::Result<()>;

    /// Reserves the space for the first so many bytes, and makes the file as long as that if it is shorter. Existing bytes stay.
    fn allocate(&self, size: u64) -> io::Result<()>;

    /// Waits until written bytes would survive a loss of power.
    fn sync(&self) -> io::Result<()>;

    /// Bytes of a piece below which it costs less to hand pieces to one process, which writes or reads many at a time,
    /// than to write or read each where it is wanted.
    fn small_piece(&self, writes: bool) -> u64;

    /// Bytes that a piece of the program's memory must have on average for it to cost less to hand many of them over as they lie than
    /// to pack them first.
    fn least_fragment(&self) -> u64;

    /// Extents that are best handed over at a time: at least 1.
    fn extents_at_a_time(&self) -> usize;

    /// A description by which other processes can open the file ([`FileSystem::join`]). Empty if they open it by its name.
    fn description(&self) -> Vec<u8>;

    /// Takes over the description that [`Storage::description`] returns in another process, after that one
    /// has changed the file for all.
    fn apply_description(&self, description: &[u8]) -> io::Result<()>;

    /// The hints with which a program would have got this file: names and values.
    fn hints(&self) -> Vec<(&'static str, String)>;

    /// Does a step of a pointer that processes on several hosts share, and returns where it stands: before the step, if that adds to it. `number`
    /// distinguishes it from others of the file. The error's kind is `Unsupported` if the storage keeps none.
    fn move_pointer(&self, number: u64, step: PointerStep) -> io::Result<u64>;

    /// Whether [`Storage::atomic`] takes locks of this host's, and so costs no messages. Where it does not, processes that share memory lock that
    /// instead.
    fn has_locks(&self) -> bool;

    /// Whether [`Storage::atomic`] works, by trying it. An error says why not.
    fn check_atomic(&self) -> io::Result<()>;

    /// Begins access that is atomic: to read alone, or also to write. Waits until that is possible.
    fn atomic(&self, writes: bool) -> io::Result<Box<dyn Atomic + '_>>;
}

/// An error of a file, with the operation.
pub(crate) fn failed(what: impl fmt::Display, error: &io::Error) -> Error {
    use io::ErrorKind as K;
    let class = match error.kind() {
        K::NotFound => abi::ERR_NO_SUCH_FILE,
        K::Unsupported => abi::ERR_UNSUPPORTED_OPERATION,
        K::PermissionDenied => abi::ERR_ACCESS,
        K::AlreadyExists => abi::ERR_FILE_EXISTS,
        K::ReadOnlyFilesystem => abi::ERR_READ_ONLY,
        K::StorageFull => abi::ERR_NO_SPACE,
        K::QuotaExceeded => abi::ERR_QUOTA,
        K::ExecutableFileBusy | K::ResourceBusy => abi::ERR_FILE_IN_USE,
        K::InvalidFilename | K::NotADirectory | K::IsADirectory => abi::ERR_BAD_FILE,
        K::OutOfMemory => abi::ERR_NO_MEM,
        _ => abi::ERR_IO,
    };
    Error::new(class, format!("{what}: {error}"))
}
