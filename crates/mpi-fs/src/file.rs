//! An open file on the parallel file system.

use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_fs::Error;
use causeway_fs::client::{Allocation, AppendLockWait, AtomicAccess, Client, File};
use causeway_mpi::io::storage::{Atomic, Extent, PointerStep, Storage};
use causeway_sys::memory::Memory;
use causeway_wire::codec::Wire;
use causeway_wire::fs::{Body, Errno, Node, ObjectId, Region};

use crate::connection::{Connection, as_io, lock};
use crate::hints;

/// Most extents in one list, which goes to each server in one request.
const EXTENTS: usize = 1 << 16;
/// The client library names up to 256 spans of memory in a request; data in more spans are packed there anyway.
const LEAST_FRAGMENT: u64 = 4096;

/// See the module's page.
#[derive(Debug)]
pub(crate) struct FsFile {
    connection: Arc<Connection>,
    path: Vec<u8>,
    object: ObjectId,
    /// It may be written by this program.
    is_written: bool,
    /// Locked while the connection's client is held.
    file: Mutex<File>,
}

fn regions(extents: &[Extent]) -> Vec<Region> {
    let region = |extent: &Extent| Region {
        offset: extent.offset,
        len: extent.len,
    };
    extents.iter().map(region).collect()
}

/// The node, as sent by that process of the program which has opened the file.
pub(crate) fn node_of(description: &[u8]) -> io::Result<Node> {
    Node::from_bytes(description).map_err(|error| {
        let text = format!("the file's node from the process with rank 0: {error}");
        io::Error::new(ErrorKind::InvalidData, text)
    })
}

impl FsFile {
    pub(crate) fn new(
        connection: Arc<Connection>,
        path: &[u8],
        file: File,
        is_written: bool,
    ) -> Self {
        Self {
            connection,
            path: path.to_vec(),
            object: file.node.object,
            is_written,
            file: Mutex::new(file),
        }
    }

    fn call<T>(
        &self,
        work: impl FnOnce(&mut Client, &mut File) -> Result<T, Error>,
    ) -> io::Result<T> {
        let done = self.connection.call(|client| {
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            work(client, &mut file)
        });
        done.map_err(|error| {
            as_io(&Error {
                subject: String::from_utf8_lossy(&self.path).into_owned(),
                ..error
            })
        })
    }
}

impl Storage for FsFile {
    /// Reads straight into the memory. When it returns, no server writes there any more, even if it has failed.
    fn read(&self, extents: &[Extent], into: &[Memory]) -> io::Result<u64> {
        let into: Vec<Memory> = into.iter().map(Memory::counted_apart).collect();
        self.call(|client, file| client.read_lent(file, &regions(extents), &into))
    }

    fn write(&self, extents: &[Extent], from: &[Memory]) -> io::Result<()> {
        self.call(|client, file| client.write_list(file, &regions(extents), from))
    }

    fn size(&self) -> io::Result<u64> {
        self.call(|client, _| Ok(client.stat_object(self.object)?.attributes.size))
    }

    fn resize(&self, size: u64) -> io::Result<()> {
        self.call(|client, file| client.truncate(file, size))
    }

    fn allocate(&self, size: u64) -> io::Result<()> {
        if size == 0 {
            return Ok(());
        }
        let whole = Region {
            offset: 0,
            len: size,
        };
        self.call(|client, file| {
            match client.allocate_part(file, whole, Allocation::Reserve, false) {
                // Servers of earlier builds cannot reserve room: only writes allocate it.
                Err(error) if error.errno == Errno::EOPNOTSUPP => client.grow(file, size),
                done => done,
            }
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.call(Client::fsync)
    }

    fn small_piece(&self, _writes: bool) -> u64 {
        0
    }

    fn least_fragment(&self) -> u64 {
        LEAST_FRAGMENT
    }

    fn extents_at_a_time(&self) -> usize {
        EXTENTS
    }

    /// The encoded node, so that no other process has to request it from the metadata server.
    fn description(&self) -> Vec<u8> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut node = file.node.clone();
        if let Body::Stuffed { content, .. } = &mut node.body {
            // The content is read when it is needed, as other processes may have written by then.
            *content = None;
        }
        node.to_bytes()
    }

    /// Takes over the node: a write by a node from before the last truncation would have to be repeated.
    fn apply_description(&self, description: &[u8]) -> io::Result<()> {
        let node = node_of(description)?;
        if node.object != self.object {
            let text = "another process has sent the node of another file";
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        }
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.node = node;
        Ok(())
    }

    fn hints(&self) -> Vec<(&'static str, String)> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        match &file.node.body {
            Body::Striped { distribution, .. } | Body::Stuffed { distribution, .. } => {
                hints::of(distribution)
            }
            Body::Directory(_) | Body::Link(_) | Body::Special { .. } => Vec::new(),
        }
    }

    fn move_pointer(&self, number: u64, step: PointerStep) -> io::Result<u64> {
        self.call(|client, _| client.move_pointer(self.object, number, step))
    }

    fn has_locks(&self) -> bool {
        false
    }

    fn check_atomic(&self) -> io::Result<()> {
        self.atomic(false)?.end()
    }

    fn atomic(&self, _writes: bool) -> io::Result<Box<dyn Atomic + '_>> {
        if !self.is_written {
            // There are no writes that could come in between.
            return Ok(Box::new(ReadOnlyAccess(self)));
        }
        let guard = lock(&self.connection.atomic_access);
        let mut wait = AppendLockWait::default();
        // Between two requests, other threads may use the client, however long this one waits for
        // the append lock.
        let access = loop {
            if let Some(access) = self.call(|client, file| client.begin_atomic(file, &mut wait))? {
                break access;
            }
        };
        Ok(Box::new(UnderAppendLock {
            file: self,
            access: Some(access),
            _guard: guard,
        }))
    }
}

/// Access to a file that no process of the program writes.
struct ReadOnlyAccess<'a>(&'a FsFile);

impl Atomic for ReadOnlyAccess<'_> {
    fn read(&mut self, extents: &[Extent], into: &[Memory]) -> io::Result<u64> {
        self.0.read(extents, into)
    }

    fn write(&mut self, extents: &[Extent], from: &[Memory]) -> io::Result<()> {
        self.0.write(extents, from)
    }

    fn end(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

/// Access under the append lock, which the metadata server has granted.
struct UnderAppendLock<'a> {
    file: &'a FsFile,
    /// `None` once it has ended.
    access: Option<AtomicAccess>,
    /// A client has one append lock at a time.
    _guard: MutexGuard<'a, ()>,
}

impl UnderAppendLock<'_> {
    fn call<T>(
        &mut self,
        work: impl FnOnce(&mut Client, &mut File, &mut AtomicAccess) -> Result<T, Error>,
    ) -> io::Result<T> {
        let access = self.access.as_mut();
        let access = access.ok_or_else(|| io::Error::other("the access has ended"))?;
        self.file.call(|client, file| work(client, file, access))
    }
}

impl Atomic for UnderAppendLock<'_> {
    /// As [`FsFile::read`] does.
    fn read(&mut self, extents: &[Extent], into: &[Memory]) -> io::Result<u64> {
        let into: Vec<Memory> = into.iter().map(Memory::counted_apart).collect();
        self.call(|client, file, access| client.read_atomic(file, access, &regions(extents), &into))
    }

    fn write(&mut self, extents: &[Extent], from: &[Memory]) -> io::Result<()> {
        self.call(|client, file, access| client.write_atomic(file, access, &regions(extents), from))
    }

    fn end(mut self: Box<Self>) -> io::Result<()> {
        match self.access.take() {
            Some(access) => self
                .file
                .call(|client, file| client.end_atomic(file, access)),
            None => Ok(()),
        }
    }
}

impl Drop for UnderAppendLock<'_> {
    fn drop(&mut self) {
        if let Some(access) = self.access.take() {
            // Without this the lock would be released, too, but only after others have waited for some time, or with
            // the connection.
            let _ = self
                .file
                .call(|client, file| client.cancel_atomic(file, access));
        }
    }
}
